"""Dense assembly against FFCx kernels, and against facts that need no other program."""

from __future__ import annotations

import math

import basix.ufl
import numpy as np
import pytest
import scipy.special
import ufl
from oracles import forms
from oracles.random_data import neighbours, random_cell
from oracles.random_forms import random_form
from ufl import dS, ds, dx, grad, inner

from formcompiler.elements import cells
from formcompiler.reference import element_tensor, expression_values

CELLS = ("interval", "triangle", "quadrilateral", "tetrahedron", "hexahedron")
CASES = forms.all_forms()
RANDOM_CASES = [case for seed in range(30) if (case := random_form(seed)) is not None]
RELATIVE = 1e-12
"""Both sides round in double precision; sums of some hundred terms stay a thousand times below this."""


SMALL = 1e-3
"""Entries of random forms on cells of unit size are much larger, or vanish."""


def distance(actual, wanted):
    return np.abs(actual - wanted).max() / max(np.abs(wanted).max(), 1e-300)


def distorted(domain, seed=0):
    return random_cell(domain.ufl_coordinate_element(), np.random.default_rng(seed))


@pytest.fixture(scope="module")
def ffcx_oracle():
    pytest.importorskip("ffcx")
    from oracles import ffcx_oracle

    for scalar_type in sorted({case.scalar_type for case in CASES}):
        chosen = [case.form for case in (*CASES, *RANDOM_CASES) if case.scalar_type == scalar_type]
        ffcx_oracle.compile_forms(chosen, scalar_type=scalar_type)
    return ffcx_oracle


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_element_tensor_equals_ffcx(case, ffcx_oracle):
    for seed in range(3):
        data = case.make_data(seed)
        wanted = ffcx_oracle.element_tensor(case.form, scalar_type=case.scalar_type, **data)
        assert np.abs(wanted).max() > 0
        assert distance(element_tensor(case.form, scalar_type=case.scalar_type, **data), wanted) < RELATIVE


@pytest.mark.parametrize("case", RANDOM_CASES, ids=lambda case: case.name)
def test_element_tensor_of_random_forms_equals_ffcx(case, ffcx_oracle):
    data = case.make_data()
    wanted = ffcx_oracle.element_tensor(case.form, scalar_type=case.scalar_type, **data)
    actual = element_tensor(case.form, **data)
    assert np.abs(actual - wanted).max() < RELATIVE * max(np.abs(wanted).max(), SMALL)


@pytest.mark.parametrize("permutation", [0, 1])
def test_expression_on_a_facet_equals_ffcx(ffcx_oracle, permutation):
    domain = forms.mesh("triangle")
    V = forms.space(domain, "Lagrange", 2)
    f, c, u = ufl.Coefficient(V), ufl.Constant(domain, shape=(2,)), ufl.TrialFunction(V)
    expression = ufl.outer(f * c, grad(u)) * ufl.FacetNormal(domain)[0]
    rng = np.random.default_rng(1)
    points = np.array([[0.15], [0.8]])
    data = {
        "coordinates": distorted(domain),
        "coefficients": {f: rng.standard_normal(6)},
        "constants": {c: rng.standard_normal(2)},
        "local_facet": 1,
        "facet_permutation": permutation,
    }
    wanted = ffcx_oracle.expression_values(expression, points, **data)
    assert wanted.shape == (2, 4, 6)
    assert distance(expression_values(expression, points, **data), wanted) < RELATIVE


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("seed", range(6))
def test_random_neighbours_see_the_same_facet_points(cell, seed):
    domain = forms.mesh(cell)
    data = neighbours(domain.ufl_coordinate_element(), np.random.default_rng(seed))
    x = ufl.SpatialCoordinate(domain)
    difference = x("+") - x("-")
    normals = ufl.FacetNormal(domain)("+") + ufl.FacetNormal(domain)("-")
    assert element_tensor(inner(difference, difference) * dS(degree=4), "interior_facet", **data) < 1e-28
    assert element_tensor(inner(normals, normals) * dS(degree=4), "interior_facet", **data) < 1e-26
    assert element_tensor(inner(x("+"), x("+")) * dS(degree=4), "interior_facet", **data) > 0


def test_monomials_integrate_to_known_fractions_on_reference_cells():
    def simplex(powers):
        dim = len(powers)
        return math.prod(math.factorial(p) for p in powers) / math.factorial(sum(powers) + dim)

    def cube(powers):
        return math.prod(1 / (p + 1) for p in powers)

    for cell in CELLS:
        domain = forms.mesh(cell)
        x = ufl.SpatialCoordinate(domain)
        powers = (3, 2, 4)[: cells.dimension(cell)]
        form = math.prod((x[i] ** p for i, p in enumerate(powers)), start=ufl.as_ufl(1.0)) * dx(domain)
        wanted = (simplex if cell in cells.SIMPLICES else cube)(powers)
        assert np.isclose(element_tensor(form, coordinates=cells.vertices(cell)), wanted, rtol=1e-13)


@pytest.mark.parametrize(
    ("cell", "family", "geometry"),
    [
        ("interval", "Lagrange", 1),
        ("triangle", "Lagrange", 2),
        ("triangle", "RT", 1),
        ("quadrilateral", "Lagrange", 2),
        ("quadrilateral", "RTCF", 1),
        ("tetrahedron", "N1curl", 1),
        ("tetrahedron", "BDM", 1),
        ("hexahedron", "NCF", 1),
    ],
)
def test_divergence_theorem_holds_for_every_basis_function(cell, family, geometry):
    domain = forms.mesh(cell, geometry)
    options = {"shape": (cells.dimension(cell),)} if family == "Lagrange" else {}
    v = ufl.TestFunction(forms.space(domain, family, 1, **options))
    x = ufl.SpatialCoordinate(domain)
    inside, boundary = ufl.div(x[0] * v) * dx(degree=9), x[0] * ufl.dot(v, ufl.FacetNormal(domain)) * ds(degree=9)
    coordinates = distorted(domain)
    volume = element_tensor(inside, coordinates=coordinates)
    facets = range(len(cells.facet_cells(cell)))
    surface = sum(element_tensor(boundary, "exterior_facet", None, coordinates, local_facet=f) for f in facets)
    scale = np.abs(volume).max()
    assert scale > 1e-3
    assert np.allclose(volume, surface, rtol=0, atol=1e-11 * scale)


@pytest.mark.parametrize("cell", ["quadrilateral", "hexahedron"])
def test_derivatives_of_coordinates_are_exact_on_cells_that_are_not_affine(cell):
    domain = forms.mesh(cell)
    x = ufl.SpatialCoordinate(domain)
    point = np.full((1, cells.dimension(cell)), 0.3)
    data = {"coordinates": distorted(domain)}
    where = expression_values(x, point, **data)[0]
    third = grad(grad(grad(x[0] ** 3 * x[1] + ufl.sin(x[1]))))
    values = expression_values(third, point, **data).reshape((len(where),) * 3)
    wanted = np.zeros_like(values)
    wanted[0, 0, 0] = 6 * where[1]
    for index in ((0, 0, 1), (0, 1, 0), (1, 0, 0)):
        wanted[index] = 6 * where[0]
    wanted[1, 1, 1] = -np.cos(where[1])
    assert np.allclose(values, wanted, atol=1e-11)


def test_curl_of_a_gradient_and_divergence_of_a_curl_vanish_on_bent_hexahedra():
    domain = forms.mesh("hexahedron")
    f = ufl.Coefficient(forms.space(domain, "Lagrange", 2))
    w = ufl.Coefficient(forms.space(domain, "NCE", 2))
    rng = np.random.default_rng(0)
    values = {f: rng.standard_normal(27), w: rng.standard_normal(w.ufl_element().dim)}
    points = rng.uniform(0.1, 0.9, (3, 3))
    for zero in (ufl.curl(grad(f)), ufl.div(ufl.curl(w))):
        result = expression_values(zero, points, distorted(domain), coefficients=values)
        assert np.abs(result).max() < 1e-10
    assert np.abs(expression_values(ufl.curl(w), points, distorted(domain), coefficients=values)).max() > 0.1


FUNCTIONS = {
    "exp": (ufl.exp, np.exp),
    "ln": (ufl.ln, np.log),
    "sqrt": (ufl.sqrt, np.sqrt),
    "sin": (ufl.sin, np.sin),
    "cos": (ufl.cos, np.cos),
    "tan": (ufl.tan, np.tan),
    "asin": (ufl.asin, np.arcsin),
    "acos": (ufl.acos, np.arccos),
    "atan": (ufl.atan, np.arctan),
    "sinh": (ufl.sinh, np.sinh),
    "cosh": (ufl.cosh, np.cosh),
    "tanh": (ufl.tanh, np.tanh),
    "erf": (ufl.erf, scipy.special.erf),
    "bessel_J": (lambda x: ufl.bessel_J(1, x), lambda x: scipy.special.jv(1, x)),
    "bessel_Y": (lambda x: ufl.bessel_Y(2, x), lambda x: scipy.special.yv(2, x)),
    "bessel_I": (lambda x: ufl.bessel_I(0, x), lambda x: scipy.special.iv(0, x)),
    "bessel_K": (lambda x: ufl.bessel_K(1, x), lambda x: scipy.special.kv(1, x)),
    "power": (lambda x: x**2.5, lambda x: x**2.5),
    "self_power": (lambda x: x**x, lambda x: x**x),
    "quotient": (lambda x: 1 / (1 + x**2), lambda x: 1 / (1 + x**2)),
    "atan2": (lambda x: ufl.atan2(x - 0.9, x - 1.1), lambda x: np.arctan2(x - 0.9, x - 1.1)),
    "abs": (lambda x: abs(x - 2) ** 3, lambda x: np.abs(x - 2) ** 3),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_their_values_and_first_three_derivatives(name):
    symbol, function = FUNCTIONS[name]
    domain = forms.mesh("interval")
    x = ufl.SpatialCoordinate(domain)[0]
    # Chebyshev interpolation on [0.4, 0.8] with 24 nodes is exact to rounding; each derivative costs two digits.
    curve = np.polynomial.Chebyshev.interpolate(function, 23, domain=[0.4, 0.8])
    points = np.array([[0.25], [0.5], [0.7]])
    where = 0.4 + 0.4 * points[:, 0]
    for order in range(4):
        expression = symbol(x)
        for _ in range(order):
            expression = expression.dx(0)
        values = expression_values(expression, points, [[0.4], [0.8]])[:, 0]
        assert np.allclose(values, curve.deriv(order)(where) if order else function(where), rtol=1e-13 * 300.0**order)


def test_gateaux_derivatives_equal_difference_quotients():
    domain = forms.mesh("triangle")
    V = forms.space(domain, "Lagrange", 2, shape=(2,))
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    flux = ufl.conditional(u[0] > 0.2, ufl.exp(u[1]), u[0] ** 3) * ufl.sqrt(1 + inner(grad(u), grad(u))) + abs(u[1])
    residual = (flux * ufl.div(v) + ufl.max_value(u[0], u[1]) * v[0]) * dx(degree=4)
    jacobian = ufl.derivative(residual, u)
    rng = np.random.default_rng(3)
    at, direction, step = rng.standard_normal(12), rng.standard_normal(12), 1e-6
    coordinates = distorted(domain)
    plus, minus = (
        element_tensor(residual, "cell", None, coordinates, coefficients={u: at + s * direction}) for s in (step, -step)
    )
    matrix = element_tensor(jacobian, "cell", None, coordinates, coefficients={u: at})
    assert np.allclose(matrix @ direction, (plus - minus) / (2 * step), rtol=0, atol=1e-8 * np.abs(matrix).max())


def test_derivative_with_respect_to_a_part_of_a_mixed_function():
    domain = forms.mesh("triangle")
    element = basix.ufl.element("Lagrange", "triangle", 1)
    W = ufl.FunctionSpace(domain, basix.ufl.mixed_element([element, element]))
    w, test = ufl.Coefficient(W), ufl.TestFunction(W)
    first, second = ufl.split(w)
    form = ufl.derivative(first**2 * second * dx, first, ufl.split(test)[0])
    by_hand = 2 * first * second * ufl.split(test)[0] * dx(degree=3)
    data = {"coordinates": distorted(domain), "coefficients": {w: np.arange(1.0, 7.0)}}
    values = element_tensor(form, **data)
    assert np.allclose(values, element_tensor(by_hand, **data), rtol=1e-13)
    assert np.all(values[:3] != 0)
    assert np.all(values[3:] == 0)


def test_branches_that_are_not_taken_cannot_spoil_derivatives():
    domain = forms.mesh("triangle")
    V = forms.space(domain, "Lagrange", 1)
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    sinc = ufl.conditional(ufl.lt(abs(u), 1e-8), 1.0, ufl.sin(u) / u)
    jacobian = ufl.derivative(sinc * v * dx(degree=2), u)
    values = element_tensor(jacobian, coordinates=cells.vertices("triangle"), coefficients={u: np.zeros(3)})
    assert np.all(values == 0)


def test_derivative_with_respect_to_variables_follows_the_chain_of_definitions():
    domain = forms.mesh("interval")
    u = ufl.Constant(domain)
    a = ufl.variable(u)
    b = ufl.variable(a**3)
    data = {"coordinates": [[0.0], [1.0]], "constants": {u: 2.0}}
    for variable, wanted in ((a, 4 * 2.0**3 + 2 * 2.0), (b, 2.0)):
        form = ufl.diff(a * b + a**2, variable) * dx
        assert np.isclose(element_tensor(form, **data), wanted, rtol=1e-14)


def test_result_has_the_scalar_type():
    case = CASES[0]
    data = case.make_data()
    for scalar_type in ("float32", "float64", "complex64", "complex128"):
        assert element_tensor(case.form, scalar_type=scalar_type, **data).dtype == scalar_type
