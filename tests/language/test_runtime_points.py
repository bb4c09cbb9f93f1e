"""Integrals whose points and weights are given when a kernel is called: cut cells, level sets, particles."""

from __future__ import annotations

import itertools

import basix.ufl
import numpy as np
import pytest
import ufl
from checking import agree, arguments, build_together, coefficient, mesh, refused, space

import formcompiler
from formcompiler.elements import cells
from formcompiler.errors import InvalidOptionError, VectorizationError
from formcompiler.reference.random_data import random_cell, random_entity, random_rule

AT_RUN_TIME = {"quadrature_rule": "runtime"}
dx, ds, dS = (measure(metadata=AT_RUN_TIME) for measure in (ufl.dx, ufl.ds, ufl.dS))
CELLS = ("interval", "triangle", "quadrilateral", "tetrahedron", "hexahedron", "prism")
FAMILIES = {
    "triangle": ("RT", "N1curl", "Regge"),
    "quadrilateral": ("RTCF", "RTCE"),
    "tetrahedron": ("N1curl",),
    "hexahedron": ("NCF",),
}


def forms_in_cells(domain, degree=2):
    u, v = arguments(space(domain, "Lagrange", degree))
    f, k, x = coefficient(domain, "Lagrange", degree), ufl.Constant(domain), ufl.SpatialCoordinate(domain)
    return {
        "bilinear": (x[0] * u * v + f * ufl.inner(ufl.grad(u), ufl.grad(v))) * dx,
        "linear": (ufl.exp(f) * v + ufl.inner(ufl.grad(f), ufl.grad(v))) * dx,
        "functional": (k * f + ufl.inner(ufl.grad(f), ufl.grad(f))) * dx,
        "measure": k * dx,
    }


def forms_on_facets(domain):
    (u, v), n = arguments(space(domain, "Lagrange", 2)), ufl.FacetNormal(domain)
    f, x = coefficient(domain, "Lagrange", 2), ufl.SpatialCoordinate(domain)
    return {
        "outside": (f * u * v - ufl.dot(ufl.grad(u), n) * v + x[0] * ufl.dot(ufl.grad(v), n) * u) * ds,
        "inside": (
            ufl.jump(u) * ufl.jump(v) - ufl.inner(ufl.avg(ufl.grad(u)), ufl.jump(v, n)) + f("-") * u("+") * v("-")
        )
        * dS,
    }


@pytest.mark.parametrize("cell", CELLS)
def test_kernels_on_cells_equal_dense_assembly(cell):
    agree(forms_in_cells(mesh(cell), 1 if cell in ("hexahedron", "prism") else 2))


@pytest.mark.parametrize(
    "cell", ["triangle", "quadrilateral", "tetrahedron", pytest.param("hexahedron", marks=pytest.mark.slow)]
)
def test_kernels_on_facets_in_all_positions_equal_dense_assembly(cell):
    agree(forms_on_facets(mesh(cell)))


@pytest.mark.parametrize("cell", FAMILIES)
def test_kernels_of_vector_elements_equal_dense_assembly(cell):
    domain = mesh(cell, 1)
    forms = {}
    for family in FAMILIES[cell]:
        (u, v), h = arguments(space(domain, family, 1)), coefficient(domain, family, 1)
        forms[family] = (ufl.inner(u, v) + ufl.inner(ufl.grad(u), ufl.grad(v))) * dx
        forms[f"{family} on facets"] = ufl.inner(h, h) * ufl.inner(h, v) * ds
    dim = domain.geometric_dimension
    parts = [basix.ufl.element("Lagrange", cell, 2, shape=(dim,)), basix.ufl.element("Lagrange", cell, 1)]
    V = ufl.FunctionSpace(domain, basix.ufl.mixed_element(parts))
    (u, p), (v, q) = ufl.TrialFunctions(V), ufl.TestFunctions(V)
    if dim == 2:
        forms["Stokes"] = (ufl.inner(ufl.grad(u), ufl.grad(v)) - p * ufl.div(v) - q * ufl.div(u)) * dx
    agree(forms)


def test_kernels_on_curved_cells_and_surfaces_equal_dense_assembly():
    domains = (mesh("triangle", 2), mesh("quadrilateral", 2), mesh("triangle", 2, 3), mesh("interval", 1, 3))
    agree({f"{n} {name}": f for n, d in enumerate(domains) for name, f in forms_in_cells(d, 1).items()})


@pytest.mark.parametrize(
    "options",
    [
        {"scalar_type": "float32"},
        {"constfold": "off"},
        {"licm": "nested"},
        {"licm": "general"},
        {"vectorize": "auto"},
        {"vectorize": "slices"},
        {"part": "diagonal"},
        {"geometry": "affine"},
    ],
    ids=str,
)
def test_kernels_equal_dense_assembly_under_all_options(options):
    forms = forms_in_cells(mesh("triangle")) | forms_on_facets(mesh("triangle"))
    agree({name: forms[name] for name in ("bilinear", "linear", "functional", "outside")}, **options)


def test_complex_kernels_equal_dense_assembly():
    domain = mesh("triangle")
    (u, v), f = arguments(space(domain, "Lagrange", 2)), coefficient(domain, "Lagrange", 2)
    agree({"complex": (ufl.inner(u, v) + 1j * f * ufl.inner(ufl.grad(u), ufl.grad(v))) * dx}, scalar_type="complex128")


def test_points_at_run_time_give_the_numbers_of_the_same_points_at_compile_time():
    rng, pairs = np.random.default_rng(3), []
    for cell, degree in itertools.product(("triangle", "tetrahedron", "quadrilateral"), (1, 3, 6)):
        domain = mesh(cell)
        rule = random_rule(cell, rng, "float64")
        custom = {"quadrature_rule": "custom", "quadrature_points": rule[0], "quadrature_weights": rule[1]}
        v, f = ufl.TestFunction(space(domain, "Lagrange", degree)), coefficient(domain, "Lagrange", degree)
        integrand = f**2 * v + ufl.inner(ufl.grad(f), ufl.grad(v))
        fixed, given = (formcompiler.compile_form(integrand * d) for d in (ufl.dx(metadata=custom), dx))
        pairs.append((fixed, given, f, rule))
    build_together([form for pair in pairs for form in pair[:2]])
    for fixed, given, f, (points, weights) in pairs:
        nodes = random_cell(f.ufl_function_space().ufl_domain().ufl_coordinate_element(), rng)
        data = {"coefficients": {f: rng.uniform(-1, 1, f.ufl_element().dim)}}
        wanted = fixed.tabulate_tensor("cell", None, nodes, **data)
        found = given.tabulate_tensor("cell", None, nodes, **data, points=points, weights=weights)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13 * np.abs(wanted).max())


def test_points_outside_of_the_cell_continue_its_polynomials():
    domain = mesh("tetrahedron")
    f = coefficient(domain, "Lagrange", 3)
    compiled = formcompiler.compile_form(f * dx)
    nodes = np.vstack([np.zeros(3), np.eye(3)])
    x = f.ufl_element().basix_element.points
    dofs = x[:, 0] ** 3 - 2 * x[:, 1] * x[:, 2] + 1
    where = np.array([[2.0, -1.0, 1.5], [-0.5, 0.25, 3.0]])
    found = compiled.tabulate_tensor("cell", None, nodes, coefficients={f: dofs}, points=where, weights=[1.0, 10.0])
    np.testing.assert_allclose(found, (8 + 3 + 1) + 10 * (-0.125 - 1.5 + 1), rtol=1e-11)


def test_no_points_give_zero():
    domain = mesh("quadrilateral")
    forms = forms_in_cells(domain).values()
    together = [formcompiler.compile_form(form) for form in forms]
    build_together(together)
    for form, compiled in zip(forms, together, strict=True):
        tensor = compiled.tabulate_tensor(
            "cell",
            None,
            random_cell(domain.ufl_coordinate_element(), np.random.default_rng(0)),
            coefficients={f: np.ones(f.ufl_element().dim) for f in form.coefficients()},
            constants=dict.fromkeys(form.constants(), 1.0),
            points=np.zeros((0, 2)),
            weights=[],
        )
        assert not np.any(tensor)


def test_weights_are_those_of_the_reference_cell():
    """A cell of twice the size in each direction has four times the area; a facet twice the length."""
    domain = mesh("triangle")
    k = ufl.Constant(domain)
    compiled = formcompiler.compile_form(k * dx + k * ds)
    nodes = 2 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    inside = compiled.tabulate_tensor("cell", None, nodes, constants={k: 1.0}, points=[[0.2, 0.3]], weights=[0.5])
    assert inside == pytest.approx(0.5 * 4)
    side = {"local_facet": 1, "points": [[0.3]], "weights": [0.25]}
    assert compiled.tabulate_tensor("exterior_facet", None, nodes, constants={k: 1.0}, **side) == pytest.approx(0.5)


def test_points_of_facets_are_in_reference_coordinates_of_the_facet():
    domain = mesh("tetrahedron")
    n, x = ufl.FacetNormal(domain), ufl.SpatialCoordinate(domain)
    compiled = formcompiler.compile_form(ufl.dot(x, x) * ds)
    nodes = np.vstack([np.zeros(3), np.eye(3)])
    where = np.array([[0.2, 0.5]])
    for facet in range(4):
        (point,) = cells.map_to_facet("tetrahedron", facet, where)
        area = np.sqrt(3) if facet == 0 else 1.0  # times that of the reference triangle
        found = compiled.tabulate_tensor("exterior_facet", None, nodes, local_facet=facet, points=where, weights=[1.0])
        assert found == pytest.approx(area * point @ point)
    assert n.ufl_shape == (3,)


def test_integrals_of_one_form_may_have_known_points_or_not():
    domain = mesh("triangle")
    (u, v), f = arguments(space(domain, "Lagrange", 2)), coefficient(domain, "Lagrange", 2)
    form = u * v * ufl.dx + f * u * v * dx + ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx(3) + u * v * dx((3, 4))
    compiled = formcompiler.compile_form(form)
    assert {(i.n_points[0] > 0, i.ids) for i in compiled.integrals} == {
        (False, (3, 4)),
        (False, ("otherwise",)),
        (True, (3,)),
        (True, ("otherwise",)),
    }
    agree({"mixed": form})


def test_points_and_weights_of_wrong_shapes_are_refused():
    domain = mesh("triangle")
    k = ufl.Constant(domain)
    compiled = formcompiler.compile_form(k * dx)
    entity = random_entity(domain.ufl_coordinate_element(), "cell", np.random.default_rng(0))

    def call(**rule):
        return compiled.tabulate_tensor("cell", None, entity.coordinates, constants={k: 1.0}, **rule)

    with pytest.raises(InvalidOptionError, match=r"pass points, of shape \(n, 2\), in .* the triangle, and weights"):
        call()
    with pytest.raises(InvalidOptionError, match=r"weights shape \(n,\); given are \(2, 3\) and \(2,\)"):
        call(points=np.zeros((2, 3)), weights=[1.0, 1.0])
    with pytest.raises(InvalidOptionError, match=r"given are \(2, 2\) and \(3,\)"):
        call(points=np.zeros((2, 2)), weights=[1.0, 1.0, 1.0])
    with pytest.raises(InvalidOptionError, match="must be finite"):
        call(points=[[0.1, np.nan]], weights=[1.0])


def test_forms_that_have_no_points_at_run_time_are_refused():
    domain = mesh("triangle")
    f = coefficient(domain, "Lagrange", 1)
    refused(f * ufl.dP(metadata=AT_RUN_TIME), r"no meaning over vertices \(dP\)")
    refused(coefficient(mesh("interval")) * ds, "no meaning over facets or cells that are points")
    refused(coefficient(mesh("pyramid")) * dx, "not available on a pyramid")
    q = ufl.Coefficient(ufl.FunctionSpace(domain, basix.ufl.quadrature_element("triangle", degree=2)))
    refused(q * dx, "quadrature element has values at points of its own only")
    both = AT_RUN_TIME | {"quadrature_points": np.zeros((1, 2)), "quadrature_weights": np.ones(1)}
    refused(f * ufl.dx(metadata=both), "leave out the metadata quadrature_points")
    pieces = ufl.FunctionSpace(domain, basix.ufl.element("iso", "triangle", 1))
    refused(ufl.Coefficient(pieces) * dx, "is no polynomial on a triangle")


def test_batches_of_cells_are_refused_since_numbers_of_points_differ():
    f = coefficient(mesh("triangle"), "Lagrange", 1)
    with pytest.raises(VectorizationError, match="n_points trips, a number that differs between the cells"):
        formcompiler.compile_form(f * dx, vectorize="cells")


def test_why_kernels_are_not_factorized_is_said():
    (found,) = formcompiler.compile_form(coefficient(mesh("hexahedron"), "Lagrange", 2) * dx).integrals
    assert not found.factorized
    assert "points are given at run time" in found.reason


def test_measures_of_cut_cells_and_interfaces_equal_dense_assembly():
    forms = {}
    for name, domain in (("straight", mesh("triangle")), ("bent", mesh("quadrilateral"))):
        (u, v), f = arguments(space(domain)), coefficient(domain, "Lagrange", 2)
        n = ufl.grad(f) / ufl.sqrt(ufl.inner(ufl.grad(f), ufl.grad(f)))
        X = ufl.classes.CellCoordinate(domain)
        nitsche = u * v * ufl.dI - ufl.dot(ufl.grad(u), n) * v * ufl.dI(3)
        forms[name] = ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dC + nitsche + u * v * ufl.dx + f * u * v * dx
        forms[f"{name} coordinates"] = X[0] * v * ufl.dI + X[1] * v * ufl.dC
    agree(forms)


def test_weights_of_interfaces_are_not_scaled():
    k = ufl.Constant(mesh("triangle"))
    compiled = formcompiler.compile_form(k * ufl.dC + k * ufl.dI)
    nodes = 3 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    rule = {"constants": {k: 1.0}, "points": [[0.2, 0.3]], "weights": [0.5]}
    assert compiled.tabulate_tensor("interface", None, nodes, **rule) == pytest.approx(0.5)
    assert compiled.tabulate_tensor("cutcell", None, nodes, **rule) == pytest.approx(0.5 * 9)
    assert compiled.tabulate_tensor("cell", None, nodes, **rule) == 0


def test_what_cut_cells_and_interfaces_cannot_have_is_refused():
    domain = mesh("triangle")
    f, x = coefficient(domain), ufl.SpatialCoordinate(domain)
    refused(ufl.FacetNormal(domain)[0] * f * ufl.dI, r"inside of cells \(dI\).*the normal of a level set f is grad")
    refused(ufl.FacetNormal(domain)[0] * f * ufl.dC, r"FacetNormal is defined on facets only, but .* cut cells \(dC\)")
    refused(f("+") * ufl.dI, r"restriction .* stands in an integral over interfaces")
    refused(f * ufl.dC(scheme="vertex"), "'vertex' stands in an integral over cut cells.*leave it out")
    move = ufl.TestFunction(ufl.FunctionSpace(domain, domain.ufl_coordinate_element()))
    refused(ufl.derivative(f * ufl.dI, x, move), "derivative with respect to the position")
    refused(f * ufl.Measure("dO", domain), r"over parts of cells \(dC\) and interfaces")


def test_means_and_constant_functions_equal_dense_assembly():
    domain = mesh("triangle")
    (u, v), f = arguments(space(domain)), coefficient(domain, "Lagrange", 2)
    (p, q), g = arguments(space(domain, "DG", 0)), coefficient(domain, "DG", 0)
    agree(
        {
            "linear": (ufl.cell_avg(v) * f + ufl.cell_avg(f) * v) * ufl.dC + ufl.facet_avg(f) * v * ds,
            "bilinear": ufl.cell_avg(u) * v * ufl.dC,
            "constant": g * q * ufl.dC,
            "constant matrix": f * p * q * ufl.dI,
        }
    )


def test_a_point_costs_a_linear_form_as_many_operations_as_there_are_modes():
    def operations_per_point(degree):
        domain = mesh("tetrahedron")
        f, v = coefficient(domain, "Lagrange", degree), ufl.TestFunction(space(domain, "Lagrange", degree))
        (integral,) = formcompiler.compile_form(f * v * ufl.dC).integrals
        return integral.flops_per_point

    low, high = operations_per_point(2), operations_per_point(6)
    assert high < 1.5 * low * 84 / 10
