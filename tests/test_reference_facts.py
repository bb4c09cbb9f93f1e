"""Dense assembly against facts about geometry, integrals and algebra that need no other program."""

from __future__ import annotations

import math

import basix.ufl
import numpy as np
import pytest
import ufl
from oracles import forms
from oracles.random_data import random_cell
from ufl import dS, ds, dx, grad, inner

from formcompiler.elements import cells
from formcompiler.errors import UnsupportedFormError
from formcompiler.reference import element_tensor, expression_values


def distorted(domain, seed=0):
    return random_cell(domain.ufl_coordinate_element(), np.random.default_rng(seed))


def test_matrix_functions_equal_numpy():
    domain = forms.mesh("interval")
    A4, A3, u, w = (ufl.Constant(domain, shape=shape) for shape in ((4, 4), (3, 3), (3,), (3,)))
    rng = np.random.default_rng(0)
    n4, n3, nu, nw = (rng.standard_normal(c.ufl_shape) for c in (A4, A3, u, w))
    i, j, k = ufl.indices(3)
    levi_civita = ufl.as_vector(ufl.PermutationSymbol(3)[i, j, k] * u[j] * w[k], i)
    wanted = {
        ufl.det(A4): np.linalg.det(n4),
        ufl.inv(A4): np.linalg.inv(n4),
        ufl.cofac(A3): np.linalg.det(n3) * np.linalg.inv(n3).T,
        ufl.dev(A3): n3 - np.trace(n3) / 3 * np.eye(3),
        ufl.skew(A3): (n3 - n3.T) / 2,
        ufl.cross(u, w): np.cross(nu, nw),
        levi_civita: np.cross(nu, nw),
        ufl.dot(A3, u): n3 @ nu,
        ufl.outer(u, w): np.outer(nu, nw),
        ufl.as_tensor(A3[i, j] * u[j], (i,)): n3 @ nu,
        ufl.perp(ufl.as_vector([u[0], u[1]])): np.array([-nu[1], nu[0]]),
        ufl.elem_mult(u, w): nu * nw,
        A3[i, i] + 0 * u[0]: np.trace(n3),
    }
    for expression, numbers in wanted.items():
        values = expression_values(expression, [[0.5]], [[0.0], [1.0]], constants={A4: n4, A3: n3, u: nu, w: nw})
        assert np.allclose(values.ravel(), np.ravel(numbers), rtol=1e-12)


def test_sizes_of_a_right_triangle_are_those_of_pythagoras():
    domain = forms.mesh("triangle")
    x = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    sizes = {
        ufl.CellVolume: 6.0,
        ufl.Circumradius: 2.5,
        ufl.CellDiameter: 5.0,
        ufl.FacetArea: 4.0,
        ufl.MinCellEdgeLength: 3.0,
        ufl.MaxCellEdgeLength: 5.0,
    }
    for kind, wanted in sizes.items():
        value = element_tensor(kind(domain) * ds(domain), "exterior_facet", None, x, local_facet=1)
        assert np.isclose(value, wanted * 4.0, rtol=1e-14)


def test_curved_and_bilinear_cells_have_their_volume_and_mean_values():
    domain = forms.mesh("quadrilateral")
    nodes = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0], [3.0, 2.0]])
    area = 3.5  # shoelace formula
    f = ufl.Coefficient(forms.space(domain, "Lagrange", 1))
    data = {"coordinates": nodes, "coefficients": {f: nodes[:, 0]}}
    assert np.isclose(element_tensor(ufl.CellVolume(domain) * dx, **data), area**2, rtol=1e-14)
    moment = element_tensor(f * dx(degree=6), **data)
    assert np.isclose(element_tensor(ufl.cell_avg(f) ** 2 * dx, **data), moment**2 / area, rtol=1e-13)
    edge = math.sqrt(5.0)  # facet 2 from (2, 0) to (3, 2)
    mean = element_tensor(ufl.facet_avg(f) ** 2 * ds, "exterior_facet", None, local_facet=2, **data)
    assert np.isclose(mean, edge * 2.5**2, rtol=1e-13)


def test_means_of_moving_functions_move():
    domain = forms.mesh("triangle")
    V = forms.space(domain, "Lagrange", 1)
    f = ufl.Coefficient(V)
    gradient = ufl.derivative(ufl.cell_avg(f**2) * dx, f)
    by_hand = ufl.derivative(f**2 * dx, f)
    data = {"coordinates": distorted(domain), "coefficients": {f: np.array([1.0, -2.0, 0.5])}}
    assert np.allclose(element_tensor(gradient, **data), element_tensor(by_hand, **data), rtol=1e-13)


def test_normals_of_surfaces_and_their_facets():
    domain = forms.mesh("triangle", gdim=3)
    nodes = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 1.0], [0.5, 2.0, 0.3]])
    normal = np.cross(nodes[1] - nodes[0], nodes[2] - nodes[0])
    normal /= np.linalg.norm(normal)
    at_facet = {"points": [[0.3]], "coordinates": nodes, "local_facet": 0}
    assert np.allclose(expression_values(ufl.CellNormal(domain), **at_facet), normal)
    outward = expression_values(ufl.FacetNormal(domain), **at_facet)[0]
    assert np.isclose(np.linalg.norm(outward), 1)
    assert np.allclose([outward @ normal, outward @ (nodes[2] - nodes[1])], 0, atol=1e-14)
    assert outward @ (nodes[1] - nodes[0]) > 0


def test_a_function_on_the_facets_is_differentiated_along_them():
    square = forms.mesh("quadrilateral")
    line = ufl.Mesh(basix.ufl.element("Lagrange", "interval", 1, shape=(2,)))
    u = ufl.Coefficient(forms.space(line, "Lagrange", 2))
    nodes = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 3.0]])
    values = {u: [0.0, 1.0, 0.25]}  # s^2 along facet 3, from (0, 1) to (2, 3)
    measure = ufl.Measure("ds", domain=square)
    for axis in range(2):
        slope = element_tensor(u.dx(axis) * measure, "exterior_facet", None, nodes, coefficients=values, local_facet=3)
        assert np.isclose(slope, 1 / math.sqrt(2), rtol=1e-13)  # tangent / length * integral of du/ds


def test_integrals_apply_by_id_and_everywhere():
    domain = forms.mesh("triangle")
    c = ufl.Constant(domain)
    form = c * dx + 10 * c * dx(1) + 100 * c * dx((1, 2)) + 7 * c * ds(1) + 5 * c * ds
    x = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    for marker, wanted in ((None, 1), (1, 111), (2, 101), (3, 1)):
        assert np.isclose(element_tensor(form, "cell", marker, x, constants={c: 1.0}), wanted)
    for marker, wanted in ((None, 5), (1, 12), (2, 5)):
        value = element_tensor(form, "exterior_facet", marker, x, constants={c: 1.0}, local_facet=2)
        assert np.isclose(value, 2 * wanted)


def test_metadata_chooses_the_rule():
    domain = forms.mesh("triangle")
    x = ufl.SpatialCoordinate(domain)[0]
    corners = cells.vertices("triangle")
    custom = {"quadrature_rule": "custom", "quadrature_points": [[0.25, 0.5]], "quadrature_weights": [3.0]}
    lumped = {"quadrature_rule": "vertex", "quadrature_degree": 1}
    assert np.isclose(element_tensor(x**2 * dx(metadata=custom), coordinates=corners), 3 / 16)
    assert np.isclose(element_tensor(x**2 * dx(metadata=lumped), coordinates=corners), 1 / 6)
    assert np.isclose(element_tensor(x**2 * dx(degree=1), coordinates=corners), 1 / 18)
    assert np.isclose(element_tensor(x**2 * dx, coordinates=corners), 1 / 12)
    assert np.isclose(element_tensor(x**2 * dx, coordinates=corners, max_quadrature_degree=1), 1 / 18)


def test_quadrature_elements_bring_their_own_points():
    points, weights = np.array([[0.1, 0.2], [0.6, 0.3]]), np.array([0.2, 0.3])
    element = basix.ufl.quadrature_element("triangle", scheme="custom", points=points, weights=weights)
    domain = forms.mesh("triangle")
    test = ufl.TestFunction(ufl.FunctionSpace(domain, element))
    values = element_tensor(ufl.SpatialCoordinate(domain)[0] * test * dx, coordinates=2 * cells.vertices("triangle"))
    assert np.allclose(values, 4 * weights * 2 * points[:, 0])


def test_macro_elements_are_integrated_piece_by_piece():
    domain = forms.mesh("triangle")
    V = forms.space(domain, "iso", 1)
    u, v = ufl.TrialFunction(V), ufl.TestFunction(V)
    mass = element_tensor(u * v * dx, coordinates=cells.vertices("triangle"))
    # Four P1 triangles of area 1/8: diagonal |T|/6 for each one at a node, one at corners and three at midpoints.
    assert np.allclose(np.diag(mass), [1 / 48] * 3 + [3 / 48] * 3)


def test_prisms_have_triangles_and_quadrilaterals_as_facets():
    domain = forms.mesh("prism")
    v = ufl.TestFunction(forms.space(domain, "Lagrange", 1))
    corners = cells.vertices("prism")
    areas = [element_tensor(v * ds, "exterior_facet", None, corners, local_facet=f).sum() for f in range(5)]
    assert np.allclose(areas, [0.5, 1, 1, math.sqrt(2), 0.5])


def test_inner_is_sesquilinear_in_complex_mode():
    domain = forms.mesh("triangle")
    V = forms.space(domain, "Lagrange", 1)
    f, u, v = ufl.Coefficient(V), ufl.TrialFunction(V), ufl.TestFunction(V)
    data = {"coordinates": cells.vertices("triangle"), "scalar_type": "complex128"}
    nodal = np.array([1 + 2j, 3j, -1.0])
    mass = element_tensor(inner(u, v) * dx, **data)
    for form, wanted in ((inner(f, v) * dx, mass @ nodal), (inner(v, f) * dx, mass @ nodal.conj())):
        assert np.allclose(element_tensor(form, coefficients={f: nodal}, **data), wanted, rtol=1e-14)
    parts = element_tensor((ufl.real(f) + 1j * ufl.imag(f)) * ufl.conj(v) * dx, coefficients={f: nodal}, **data)
    assert np.allclose(parts, mass @ nodal)


def test_a_missing_coefficient_spoils_only_results_that_depend_on_it():
    domain = forms.mesh("interval")
    V = forms.space(domain, "Lagrange", 1)
    f, v = ufl.Coefficient(V), ufl.TestFunction(V)
    residual = f * v * dx
    assert np.isnan(element_tensor(residual, coordinates=[[0.0], [6.0]])).all()
    assert np.allclose(element_tensor(ufl.derivative(residual, f), coordinates=[[0.0], [6.0]]), [[2, 1], [1, 2]])


def refused_forms():
    domain = forms.mesh("triangle")
    V = forms.space(domain, "DG", 1)
    w, v, x = ufl.Coefficient(V), ufl.TestFunction(V), ufl.SpatialCoordinate(domain)
    return {
        "different values on the two sides": w * dS,
        "restricted already": ufl.avg(ufl.jump(w)) * dS,
        "only interior facets have two sides": w("+") * ds,
        "below a derivative": inner(grad(w("+")), grad(w)("-")) * dS,
        "defined on facets only": ufl.FacetNormal(domain)[0] * v * dx,
        "SpatialCoordinate are not supported": ufl.derivative(w * dx, x, x),
        "Interpolate is not supported": ufl.Interpolate(w**2, V) * dx(degree=1),
    }


@pytest.mark.parametrize("message", refused_forms())
def test_forms_without_a_meaning_are_refused(message):
    form = refused_forms()[message]
    kind = form.integrals()[0].integral_type()
    n_sides = 2 if kind == "interior_facet" else 1
    coordinates = np.stack([cells.vertices("triangle")] * n_sides)
    values = {f: np.zeros((n_sides, 3)) for f in form.coefficients()}
    with pytest.raises(UnsupportedFormError, match=message):
        element_tensor(form, kind, None, coordinates, coefficients=values)
