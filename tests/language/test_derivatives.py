"""Derivatives: spatial ones of any order, with respect to functions, their parts, variables and the mesh."""

from __future__ import annotations

import basix.ufl
import numpy as np
import pytest
import ufl
from checking import FLAT_CELLS, agree_both, arguments, coefficient, mesh, space, tensor

import formcompiler
from formcompiler.elements import cells
from formcompiler.reference.random_data import random_cell

DEGREE = {"degree": 3}
QUICK_CELLS = ("interval", "triangle", "quadrilateral")


def hessian(f):
    return ufl.grad(ufl.grad(f))


def second_order_forms(cell):
    domain = mesh(cell)
    V = space(domain, "Lagrange", 2)
    (u, v), f = arguments(V), ufl.Coefficient(V)
    n, h = ufl.FacetNormal(domain), ufl.CellDiameter(domain)
    jumps = ufl.inner(ufl.avg(ufl.div(ufl.grad(u))), ufl.jump(ufl.grad(v), n))
    penalty = ufl.jump(ufl.grad(u), n) * ufl.jump(ufl.grad(v), n) / ufl.avg(h)
    boundary = ufl.dot(ufl.dot(n, hessian(u)), n) * ufl.dot(ufl.grad(v), n)
    return {
        f"interior penalty {cell}": ufl.inner(hessian(u), hessian(v)) * ufl.dx(**DEGREE)
        + (penalty - jumps) * ufl.dS(degree=2)
        + boundary * ufl.ds(degree=2),
        f"of a square {cell}": hessian(f**2)[0, 0] * f.dx(0) * ufl.dx(**DEGREE),
    }


@pytest.mark.parametrize("cell", [*FLAT_CELLS[:4], pytest.param("hexahedron", marks=pytest.mark.slow)])
def test_second_derivatives_equal_dense_assembly(cell):
    agree_both(second_order_forms(cell))


@pytest.mark.parametrize("cell", ["triangle", "quadrilateral"])
def test_third_derivatives_and_those_on_curved_cells_equal_dense_assembly(cell):
    domain, bent = mesh(cell), mesh(cell, 2)
    t, s = arguments(space(domain, "Lagrange", 3))
    g = coefficient(bent, "Lagrange", 2)
    flux = coefficient(bent, "RT" if cell == "triangle" else "RTCF", 1)
    agree_both(
        {
            "third": ufl.inner(ufl.grad(hessian(t)), ufl.grad(hessian(s))) * ufl.dx(degree=2),
            "bent": ufl.inner(hessian(g), hessian(g)) * ufl.dx(**DEGREE) + hessian(g)[0, 1] * ufl.ds(degree=2),
            "flux": (ufl.div(flux) + ufl.inner(ufl.grad(flux), ufl.grad(flux))) * ufl.dx(degree=2),
        }
    )


def parts_of_mixed_forms(cell):
    domain = mesh(cell)
    dim = max(2, cells.dimension(cell))
    vector = basix.ufl.element("Lagrange", cell, 2, shape=(dim,))
    W = ufl.FunctionSpace(domain, basix.ufl.mixed_element([vector, basix.ufl.element("Lagrange", cell, 1)]))
    w, test, trial = ufl.Coefficient(W), ufl.TestFunction(W), ufl.TrialFunction(W)
    (u, p), (v, q) = ufl.split(w), ufl.split(test)
    energy = (ufl.inner(ufl.grad(u), ufl.grad(u)) * p**2 + ufl.exp(p) * u[0]) * ufl.dx(degree=2)
    residual = ufl.derivative(energy, w, test)
    return {
        f"residual {cell}": residual,
        f"jacobian {cell}": ufl.derivative(residual, w, trial),
        f"first part {cell}": ufl.derivative(energy, u, v),
        f"second part {cell}": ufl.derivative(energy, p, q),
        f"component {cell}": ufl.derivative(energy, u[1], v[1]),
    }


def transformed_forms(cell):
    domain = mesh(cell)
    V = space(domain, "Lagrange", 1)
    (u, v), f, g = arguments(V), ufl.Coefficient(V), ufl.Coefficient(V)
    a = (1 + f**2) * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx(**DEGREE)
    b = a + u.dx(0) * v * ufl.dx(**DEGREE)
    vector = coefficient(domain, "Lagrange", 1, shape=(2,))
    k = ufl.variable(ufl.Constant(domain))
    s, G = ufl.variable(f), ufl.variable(ufl.grad(f))
    x = ufl.SpatialCoordinate(domain)
    flux = ufl.inner(ufl.diff(ufl.inner(G, G) ** 2, G), ufl.grad(v)) * ufl.dx(**DEGREE)
    switch = ufl.conditional(ufl.gt(f, 0.6), ufl.sqrt(f), f**2) * v * ufl.dx(**DEGREE)
    sizes = abs(f - g) * ufl.max_value(f, g) * ufl.sign(f - 0.5) * v * ufl.dx(**DEGREE)
    product = f**2 * g * ufl.dx(**DEGREE)
    return {
        "action": ufl.action(a, g),
        "adjoint": ufl.adjoint(b),
        "lhs": ufl.lhs(b - f * v * ufl.dx(**DEGREE)),
        "rhs": ufl.rhs(b - f * v * ufl.dx(**DEGREE)),
        "replace": ufl.replace(b, {f: 2 * g + f}),
        "energy norm": ufl.energy_norm(a, g),
        "tuple": ufl.derivative(product, (f, g), (v, 2 * v)),
        "component of a vector": ufl.derivative(vector[0] ** 2 * vector[1] * ufl.dx(**DEGREE), vector[0], v),
        "given direction": ufl.derivative(vector[0] ** 2 * vector[1] * ufl.dx(**DEGREE), vector, ufl.as_vector([1, f])),
        "variable": ufl.diff(ufl.sin(s) * s, s) * v * ufl.dx(**DEGREE),
        "gradient as a variable": flux,
        "its derivative": ufl.derivative(flux, f, u),
        "constant as a variable": ufl.diff(k**3 * f, k) * ufl.dx(**DEGREE),
        "position": ufl.diff(x[0] ** 2 * f, x)[0] * ufl.dx(**DEGREE),
        "condition": ufl.derivative(switch, f, u),
        "sizes": ufl.derivative(sizes, f, u),
        "dependent function": ufl.derivative(
            g * ufl.inner(ufl.grad(f), ufl.grad(v)) * ufl.dx(**DEGREE), f, u, coefficient_derivatives={g: 2 * f}
        ),
    }


@pytest.mark.parametrize("cell", QUICK_CELLS)
def test_derivatives_by_parts_of_mixed_functions_equal_dense_assembly(cell):
    agree_both(parts_of_mixed_forms(cell))


@pytest.mark.parametrize("cell", QUICK_CELLS)
def test_transformed_forms_equal_dense_assembly(cell):
    agree_both(transformed_forms(cell))


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["tetrahedron", "hexahedron"])
def test_derivatives_in_three_dimensions_equal_dense_assembly(cell):
    agree_both(parts_of_mixed_forms(cell) | transformed_forms(cell))


def test_a_branch_that_is_not_taken_does_not_spoil_a_derivative():
    domain = mesh("triangle")
    f = coefficient(domain)
    guarded = ufl.conditional(ufl.gt(abs(f), 1e-8), ufl.sqrt(f) / f, 0.0)
    jacobian = ufl.derivative(ufl.derivative(guarded * f * ufl.dx(degree=2), f), f)
    corners = [[0, 0], [1, 0], [0, 1]]
    assert np.isfinite(tensor(jacobian, corners, coefficients={f: np.zeros(3)})).all()


# --- with respect to the position of the nodes


def shape_functionals(domain):
    f = coefficient(domain, "Lagrange", 2)
    x, n = ufl.SpatialCoordinate(domain), ufl.FacetNormal(domain)
    inside = (f**2 + ufl.inner(ufl.grad(f), ufl.grad(f)) * x[0]) * ufl.dx(domain=domain, degree=6)
    return f, {"cell": inside, "exterior_facet": f**2 * ufl.dot(x, n) * ufl.ds(domain=domain, degree=6)}


@pytest.mark.parametrize("entity", ["cell", "exterior_facet"])
@pytest.mark.parametrize("cell", ["triangle", "quadrilateral", "tetrahedron", "hexahedron"])
def test_shape_derivatives_equal_difference_quotients_of_moved_nodes(cell, entity):
    domain = mesh(cell)
    f, functionals = shape_functionals(domain)
    element = domain.ufl_coordinate_element()
    direction = ufl.TestFunction(ufl.FunctionSpace(domain, element))
    compiled = formcompiler.compile_form(functionals[entity])
    slope = formcompiler.compile_form(ufl.derivative(functionals[entity], ufl.SpatialCoordinate(domain), direction))
    rng = np.random.default_rng(1)
    nodes = random_cell(element, rng)
    data = {"coefficients": {f: rng.uniform(0.5, 1.5, f.ufl_function_space().ufl_element().dim)}, "local_facet": 1}
    found = slope.tabulate_tensor(entity, None, nodes, **data)
    step, wanted = 1e-5, []
    for position in np.ndindex(*nodes.shape):
        move = np.zeros_like(nodes)
        move[position] = step
        ends = [float(compiled.tabulate_tensor(entity, None, nodes + s * move, **data)) for s in (1, -1)]
        wanted.append((ends[0] - ends[1]) / (2 * step))
    assert np.abs(found - wanted).max() < 1e-7 * max(1.0, np.abs(found).max())
