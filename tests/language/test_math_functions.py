"""Functions of UFL, their derivatives, and what the scalar type makes of them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import ufl
from checking import agree, coefficient, mesh, refused, space, tensor

import formcompiler
from formcompiler.errors import UnsupportedFormError

DOMAIN = mesh("triangle")
V = space(DOMAIN)
U, W, C = ufl.Coefficient(V), ufl.Coefficient(V), ufl.Constant(DOMAIN)
X = ufl.SpatialCoordinate(DOMAIN)
DX = ufl.dx(domain=DOMAIN, degree=2)
BESSEL = {"J": ufl.bessel_J, "Y": ufl.bessel_Y, "I": ufl.bessel_I, "K": ufl.bessel_K}
ORDERS = (0, 1, 2, 0.5, 1.5, -1, -2, -0.5, -1.5, -0.3)

ANALYTIC = {
    **{name: getattr(ufl, name)(0.5 * U) for name in "sqrt exp ln cos sin tan cosh sinh tanh acos asin atan".split()},
    "power of functions": U**W,
    "real power": U**0.3,
    "constant power": U**C,
    "large powers": U**-9 + U**20 + 2**U + U**1.0,
    "inverse": ufl.inv(ufl.as_matrix([[U ** (i + j % 3) + 3 * (i == j) for i in range(4)] for j in range(4)]))[1, 2],
    "determinant": ufl.det(ufl.as_matrix([[U ** (i + j % 3) + (i == j) for i in range(5)] for j in range(5)])),
    "elementwise": ufl.elem_pow(ufl.as_vector([U, W]), ufl.as_vector([W, U]))[0]
    + ufl.elem_div(ufl.as_vector([U, W]), ufl.as_vector([W, U]))[1],
    "parts of tensors": ufl.dev(ufl.as_matrix([[U, 1, 0], [0, W, 1], [1, 2, U]]))[1, 1]
    + ufl.cofac(ufl.as_matrix([[U, 1], [W, W]]))[0, 1]
    + ufl.diag_vector(ufl.outer(ufl.as_vector([U, W]), ufl.as_vector([U, W])))[1],
    "rotations": ufl.perp(ufl.grad(U))[0] + ufl.rot(ufl.as_vector([U, W])),
    "literals": ufl.exp(ufl.as_ufl(1.0)) * U + ufl.atan(ufl.as_ufl(2.0)) * U + abs(ufl.as_ufl(-3)) * U,
}
REAL = {
    "erf": ufl.erf(U),
    "atan2": ufl.atan2(U, W) + ufl.atan2(U, 1.0),
    "sign and size": ufl.sign(U - 0.7) * abs(U - 0.9),
    "extrema": ufl.max_value(U, W) * ufl.min_value(U, 0.7),
    "condition": ufl.conditional(ufl.And(ufl.lt(U, W), ufl.Or(ufl.ge(U, 0.5), ufl.Not(ufl.eq(U, W)))), U, W**2),
    **{f"bessel {k} {nu}": function(nu, U) for k, function in BESSEL.items() for nu in ORDERS},
}


@pytest.mark.parametrize("scalar_type", ["float64", "float32"])
def test_values_of_all_functions_equal_dense_evaluation(scalar_type):
    agree({name: e * DX for name, e in (ANALYTIC | REAL).items()}, scalar_type=scalar_type)


@pytest.mark.parametrize("scalar_type", ["complex128", "complex64"])
def test_values_of_analytic_functions_of_complex_numbers_equal_dense_evaluation(scalar_type):
    agree({name: e * DX for name, e in ANALYTIC.items()}, scalar_type=scalar_type)


def test_gradients_and_derivatives_of_all_functions_equal_dense_evaluation():
    forms = {f"gradient of {name}": ufl.grad(e)[0] * DX for name, e in (ANALYTIC | REAL).items() if name != "rotations"}
    forms |= {f"derivative of {name}": ufl.derivative(e * DX, U) for name, e in (ANALYTIC | REAL).items()}
    agree(forms)


@pytest.mark.slow
def test_second_derivatives_of_all_functions_equal_dense_evaluation():
    smooth = {name: ufl.derivative(ufl.derivative(e * DX, U), U) for name, e in (ANALYTIC | REAL).items()}
    # of functions of degree 1 these have no second derivative, so that nothing is left to compare
    linear = ("literals", "rotations", "sign and size", "parts of tensors", "condition")
    agree({name: form for name, form in smooth.items() if name not in linear})


@pytest.mark.parametrize("kind", BESSEL)
@pytest.mark.parametrize("order", [0, 1, 2, 3, 0.5, -1, -2, -0.5])
def test_bessel_functions_of_negative_numbers_are_those_of_scipy(kind, order):
    """Where the value is complex it is not a number, and the program goes on."""
    line = mesh("interval")
    f = coefficient(line, "DG", 0)
    value = tensor(BESSEL[kind](order, f) * ufl.dx, [[0], [1]], coefficients={f: [-1.7]})
    wanted = {"J": scipy.special.jv, "Y": scipy.special.yv, "I": scipy.special.iv, "K": scipy.special.kv}[kind]
    assert np.isclose(value, wanted(order, -1.7), equal_nan=True)


def test_powers_of_zero():
    line = mesh("interval")
    f = coefficient(line, "DG", 0)
    powers = {0: 1.0, 1: 0.0, 2: 0.0, 0.5: 0.0, 2.5: 0.0}
    for exponent, wanted in powers.items():
        assert tensor(f**exponent * ufl.dx(line), [[0], [1]], coefficients={f: [0.0]}) == wanted


def test_roots_and_logarithms_of_negative_real_numbers_are_complex_in_complex_mode():
    line = mesh("interval")
    x, c = ufl.SpatialCoordinate(line)[0], ufl.Constant(line)
    dx = ufl.dx(degree=0)
    forms = {
        ufl.sqrt(x): np.sqrt(-1.5 + 0j),
        ufl.ln(x): np.log(-1.5 + 0j),
        x**0.3: (-1.5 + 0j) ** 0.3,
        x**0.5: np.sqrt(-1.5 + 0j),
        ufl.sqrt(ufl.as_ufl(-2.0)) * x: -1.5j * np.sqrt(2),
        x**c: (-1.5 + 0j) ** (0.5 + 1j),
    }
    for expression, wanted in forms.items():
        data = {"constants": {c: 0.5 + 1j}, "options": {"scalar_type": "complex128"}}
        assert np.isclose(tensor(expression * dx, [[-2], [-1]], **data), wanted)


Y = ufl.TestFunction(V)
N = ufl.FacetNormal(DOMAIN)
SESQUILINEAR = {
    "parts": (ufl.real(U) + 1j * ufl.imag(W)) * ufl.conj(U) * abs(W) * DX,
    "order of parts": ufl.max_value(ufl.real(U), ufl.imag(W)) * ufl.sign(ufl.real(U)) * U * DX,
    "condition": ufl.conditional(ufl.lt(ufl.real(U), 0.5), U, W) * DX,
    "equality": ufl.conditional(ufl.eq(U, W), U, W) * DX,
    "real geometry": ufl.conditional(ufl.gt(ufl.Circumradius(DOMAIN), 0.3), U, W) * DX,
    "real functions of geometry": (ufl.atan2(X[1], X[0]) + ufl.erf(X[0]) + ufl.bessel_J(0, X[0] ** 2)) * DX,
    "wave": ufl.inner(ufl.exp(1j * C * ufl.dot(X, ufl.as_vector([1, 2]))), Y) * DX,
    "products": (ufl.outer(ufl.grad(U), ufl.grad(W))[0, 1] + ufl.inner(ufl.grad(U), ufl.grad(W))) * DX,
    "plain product": ufl.dot(ufl.grad(U), ufl.grad(W)) * DX,
    "derivative": ufl.derivative(ufl.inner(U**2 * ufl.grad(U), ufl.grad(Y)) * DX, U),
    "means": ufl.cell_avg(U) * ufl.CellVolume(DOMAIN) * W * DX + ufl.cell_avg(W) * DX,
    "mean of a test function": ufl.inner(U, ufl.cell_avg(Y)) * DX,
    "facets": ufl.inner(ufl.dot(ufl.grad(U), N), Y) * ufl.ds + ufl.inner(ufl.jump(U), ufl.avg(Y)) * ufl.dS(degree=3),
    "powers": (U**W + 2**U) * ufl.dx,
    "parts of gradients": ufl.real(ufl.grad(U))[0] * ufl.dot(ufl.imag(ufl.grad(W)), ufl.grad(U)) * DX,
    "gradients of parts": ufl.inner(ufl.grad(ufl.imag(W) ** 2), ufl.grad(Y)) * DX,
    "modulus of data": ufl.derivative(ufl.inner(abs(W) * U**2, Y) * DX, U),
    "gradient of a modulus": ufl.grad(ufl.sqrt(ufl.real(U) ** 2 + ufl.imag(U) ** 2))[1] * U * DX,
    "size of a volume": ufl.conditional(ufl.lt(ufl.CellVolume(DOMAIN), 0.5), U, W) * DX,
}


@pytest.mark.parametrize("scalar_type", ["complex128", "complex64"])
def test_complex_forms_equal_dense_evaluation(scalar_type):
    agree(SESQUILINEAR, scalar_type=scalar_type)


def test_inner_products_conjugate_the_test_function():
    u, v = ufl.TrialFunction(V), ufl.TestFunction(V)
    form = ufl.inner(1j * u, v) * ufl.dx + ufl.inner(u, 2j * v) * ufl.dx
    corners = [[0, 0], [1, 0], [0, 1]]
    mass = tensor(ufl.inner(u, v) * ufl.dx, corners)
    assert np.allclose(tensor(form, corners, options={"scalar_type": "complex128"}), (1j - 2j) * mass)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (ufl.atan2(U, W), "atan2 is defined for real numbers only.*Write real"),
        (ufl.erf(U), "erf is defined for real numbers only.*Write real"),
        (ufl.bessel_K(0, U), "bessel_K is defined for real numbers only.*Write real"),
        (ufl.max_value(U, W), "complex numbers have no order: compare real"),
        (ufl.conditional(ufl.lt(U, W), U, W), "complex numbers have no order: compare real"),
        (ufl.sign(U), "complex numbers have no order: compare real"),
        (ufl.grad(abs(U))[0], r"w_\d+\| of a complex number has no complex derivative; write abs\(real"),
        (ufl.derivative(abs(U), U, W), "has no complex derivative"),
    ],
    ids=["atan2", "erf", "bessel", "max", "lt", "sign", "gradient of abs", "derivative of abs"],
)
def test_real_functions_of_complex_numbers_are_refused(expression, words):
    refused(expression * DX, words, scalar_type="complex128")


def test_bilinear_forms_are_refused_in_complex_mode():
    u, v = ufl.TrialFunction(V), ufl.TestFunction(V)
    refused(u * v * ufl.dx, "must be conjugated: write inner", scalar_type="complex128")


def test_functions_outside_of_their_domain_are_refused_where_they_are_literals():
    refused(ufl.sqrt(ufl.as_ufl(-2.0)) * U * DX, "not defined over the real numbers")


def test_the_imaginary_part_of_real_data_is_refused():
    refused(ufl.imag(U) * DX, "imag.*of real data: compile with a complex scalar_type")


def test_conditions_are_no_numbers():
    refused(ufl.lt(U, 1) * U * DX, "is used as a number: write conditional")
    with pytest.raises(UnsupportedFormError, match="is used as a number"):
        formcompiler.compile_expression(U + ufl.gt(U, 1), [[0.2, 0.2]])
