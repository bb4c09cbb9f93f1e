"""Forms over cells (and vertices): all cells, elements, ranks, operators and rules."""

from __future__ import annotations

from typing import Any

import basix.ufl
import numpy as np
import ufl
from ufl import dx, grad, inner

from formcompiler.elements import cells
from oracles.case import FormCase, mesh, space, trial_and_test


def _stiffness(cell: str, degree: int, geometry: int = 1, gdim: int | None = None) -> Any:
    u, v = trial_and_test(space(mesh(cell, geometry, gdim), "Lagrange", degree))
    return inner(grad(u), grad(v)) * dx(degree=2 * degree + 2)


def _mass(cell: str, family: str, degree: int) -> Any:
    u, v = trial_and_test(space(mesh(cell), family, degree))
    return inner(u, v) * dx


def _reaction_diffusion(cell: str, degree: int) -> Any:
    domain = mesh(cell)
    V = space(domain, "Lagrange", degree)
    u, v = trial_and_test(V)
    f, K, b = ufl.Coefficient(V), ufl.Constant(domain, shape=(2, 2)), ufl.Constant(domain, shape=(2,))
    return (inner(K * grad(u), grad(v)) + ufl.dot(b, grad(u)) * v + f**2 * u * v) * dx


def _elasticity(cell: str) -> Any:
    domain = mesh(cell)
    u, v = trial_and_test(space(domain, "Lagrange", 2, shape=(cells.dimension(cell),)))
    mu, lame = ufl.Constant(domain), ufl.Constant(domain)
    strain = ufl.sym(grad(u))
    stress = 2 * mu * strain + lame * ufl.tr(strain) * ufl.Identity(len(u))
    return inner(stress, ufl.sym(grad(v))) * dx


def _stokes(cell: str) -> Any:
    domain = mesh(cell)
    dim = cells.dimension(cell)
    velocity = basix.ufl.element("Lagrange", cell, 2, shape=(dim,))
    W = ufl.FunctionSpace(domain, basix.ufl.mixed_element([velocity, basix.ufl.element("Lagrange", cell, 1)]))
    (u, p), (v, q) = ufl.TrialFunctions(W), ufl.TestFunctions(W)
    return (inner(grad(u), grad(v)) - ufl.div(v) * p + ufl.div(u) * q) * dx(degree=4)


def _mixed_poisson(cell: str, family: str) -> Any:
    domain = mesh(cell)
    flux = basix.ufl.element(family, cell, 1)
    W = ufl.FunctionSpace(domain, basix.ufl.mixed_element([flux, basix.ufl.element("DG", cell, 0)]))
    (s, u), (t, v) = ufl.TrialFunctions(W), ufl.TestFunctions(W)
    return (inner(s, t) + ufl.div(t) * u + ufl.div(s) * v) * dx(degree=4)


def _curl_curl(cell: str, family: str) -> Any:
    u, v = trial_and_test(space(mesh(cell), family, 1))
    return (inner(ufl.curl(u), ufl.curl(v)) + inner(u, v)) * dx(degree=4)


def _symmetric_stress(cell: str) -> Any:
    domain = mesh(cell)
    vector = basix.ufl.element("Lagrange", cell, 1, shape=(2,))
    tensor = basix.ufl.element("Lagrange", cell, 1, shape=(2, 2), symmetry=True)
    W = ufl.FunctionSpace(domain, basix.ufl.mixed_element([tensor, vector]))
    (s, u), (t, v) = ufl.TrialFunctions(W), ufl.TestFunctions(W)
    x = ufl.SpatialCoordinate(domain)
    return (inner(s, t) + inner(t, grad(u)) + inner(s, ufl.outer(v, x))) * dx


def _regge(family: str) -> Any:
    u, v = trial_and_test(space(mesh("triangle"), family, 1))
    return inner(u, v) * dx


def _hyperelastic(cell: str, jacobian: bool) -> Any:
    domain = mesh(cell)
    V = space(domain, "Lagrange", 1, shape=(cells.dimension(cell),))
    u = ufl.Coefficient(V)
    F = ufl.Identity(len(u)) + grad(u)
    energy = (ufl.tr(F.T * F) / 2 - ufl.ln(ufl.det(F)) + ufl.ln(ufl.det(F)) ** 2) * dx(degree=3)
    residual = ufl.derivative(energy, u, ufl.TestFunction(V))
    return ufl.derivative(residual, u, ufl.TrialFunction(V)) if jacobian else residual


def _conditional(cell: str) -> Any:
    domain = mesh(cell)
    V = space(domain, "Lagrange", 2)
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    x = ufl.SpatialCoordinate(domain)
    wet = ufl.And(ufl.gt(u, 0.1), ufl.Not(ufl.gt(x[0], 0.4)))
    k = ufl.conditional(wet, u**2, ufl.conditional(ufl.le(u, x[0]), 2.0, ufl.max_value(u, abs(x[0]))))
    return (k * v + ufl.sign(u) * ufl.min_value(u, 0.3) * v.dx(0)) * dx(degree=5)


def _math(cell: str) -> Any:
    domain = mesh(cell)
    f = ufl.Coefficient(space(domain, "Lagrange", 1))
    x = ufl.SpatialCoordinate(domain)
    terms = [ufl.sin(f), ufl.cos(f), ufl.tan(f), ufl.asin(f), ufl.acos(f), ufl.atan(f), ufl.sinh(f), ufl.cosh(f)]
    terms += [ufl.tanh(f), ufl.exp(f), ufl.ln(f), ufl.sqrt(f), f**2.5, f**-2, 2**f, ufl.erf(f), ufl.atan2(f, x[0])]
    terms += [ufl.bessel_J(1, f), ufl.bessel_Y(0, f), abs(f - 0.5)]
    return sum((0.3 + 0.1 * i) * term for i, term in enumerate(terms)) * dx(degree=4)


def _math_derivative(cell: str) -> Any:
    domain = mesh(cell)
    V = space(domain, "Lagrange", 1)
    f = ufl.Coefficient(V)
    energy = ufl.sin(f) * ufl.exp(f) + ufl.atan(f) * ufl.ln(f) + f**3.5 / ufl.cosh(f) + ufl.erf(f) * ufl.tanh(f)
    energy += ufl.asin(f) * ufl.sqrt(f) + ufl.tan(f) * ufl.cos(f) ** 2 + ufl.bessel_J(1, f) * abs(f) + f**f
    return ufl.derivative(ufl.derivative(energy * dx(degree=3), f), f)


def _biharmonic(cell: str, degree: int) -> Any:
    u, v = trial_and_test(space(mesh(cell), "Lagrange", degree))
    return (inner(grad(grad(u)), grad(grad(v))) + ufl.div(grad(u)) * v) * dx(degree=6)


def _gradient_of_product(cell: str) -> Any:
    domain = mesh(cell)
    V = space(domain, "Lagrange", 2)
    f, v = ufl.Coefficient(V), ufl.TestFunction(V)
    x = ufl.SpatialCoordinate(domain)
    return inner(grad(f**2 * ufl.exp(x[0]) / (1 + x[1] ** 2)), grad(v)) * dx(degree=6)


def _tensor_operators() -> Any:
    domain = mesh("tetrahedron")
    V = space(domain, "Lagrange", 1, shape=(3,))
    u, v, a = ufl.Coefficient(V), ufl.TestFunction(V), ufl.Constant(domain, shape=(3,))
    G = ufl.nabla_grad(u)
    A = ufl.inv(ufl.Identity(3) + ufl.dev(G)) + ufl.cofac(G) + ufl.skew(G) + ufl.outer(a, u)
    i, j = ufl.indices(2)
    free = ufl.as_tensor(A[i, j] * u[j], (i,))
    b = ufl.cross(u, a) + ufl.curl(u) + free
    return (ufl.dot(b, v) + ufl.nabla_div(u) * ufl.tr(ufl.nabla_grad(v)) + ufl.det(A) * v[1]) * dx(degree=3)


def _variable(cell: str) -> Any:
    domain = mesh(cell)
    V = space(domain, "Lagrange", 1, shape=(2,))
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    C = ufl.variable(grad(u).T * grad(u) + ufl.Identity(2))
    stress = ufl.diff(ufl.tr(C) ** 2 + ufl.ln(ufl.det(C)), C)
    return inner(grad(u) * stress, grad(v)) * dx(degree=2)


def _several_rules(cell: str) -> Any:
    u, v = trial_and_test(space(mesh(cell), "Lagrange", 2))
    lumped = {"quadrature_rule": "vertex", "quadrature_degree": 1}
    points = np.array([[0.2, 0.3], [0.5, 0.1]])
    custom = {"quadrature_rule": "custom", "quadrature_points": points, "quadrature_weights": np.array([0.3, 0.2])}
    return u * v * dx(degree=4) + u.dx(0) * v * dx(metadata=lumped) + u * v.dx(1) * dx(metadata=custom)


def _quadrature_element(cell: str) -> Any:
    domain = mesh(cell)
    Q = ufl.FunctionSpace(domain, basix.ufl.quadrature_element(cell, degree=3))
    q, v = ufl.Coefficient(Q), ufl.TestFunction(space(domain, "Lagrange", 2))
    return q * v * dx(degree=3)


def _marked(cell: str) -> Any:
    domain = mesh(cell)
    u, v = trial_and_test(space(domain, "Lagrange", 1))
    c = ufl.Constant(domain)
    return c * u * v * dx + 3 * u.dx(0) * v * dx(2) + u * v * dx((1, 2)) + 7 * u * v * dx(3)


def _hcurl_hdiv_hex() -> Any:
    domain = mesh("hexahedron")
    u, v = ufl.TrialFunction(space(domain, "NCE", 1)), ufl.TestFunction(space(domain, "NCF", 1))
    return inner(ufl.curl(u), v) * dx(degree=4)


def _point_load(cell: str) -> Any:
    domain = mesh(cell)
    V = space(domain, "Lagrange", 2)
    f, v = ufl.Coefficient(V), ufl.TestFunction(V)
    return f * ufl.SpatialCoordinate(domain)[0] * v * ufl.dP


def _helmholtz(cell: str) -> Any:
    domain = mesh(cell)
    V = space(domain, "Lagrange", 1)
    u, v = trial_and_test(V)
    f, k = ufl.Coefficient(V), ufl.Constant(domain)
    return (inner(f * grad(u), grad(v)) - k**2 * inner(u, v)) * dx + 1j * k * inner(ufl.conj(f) * u, v) * dx


def _complex_functional(cell: str) -> Any:
    f = ufl.Coefficient(space(mesh(cell), "Lagrange", 1))
    return (inner(grad(f), grad(f)) + ufl.exp(f) * ufl.real(f) + ufl.imag(f) * abs(f)) * dx(degree=4)


def cell_forms() -> list[FormCase]:
    """Return cases over cells, and one over vertices."""
    return [
        FormCase("mass_interval", _mass("interval", "Lagrange", 3)),
        FormCase("mass_dg_hexahedron", _mass("hexahedron", "DG", 1)),
        FormCase("mass_serendipity_quadrilateral", _mass("quadrilateral", "S", 2)),
        FormCase("mass_nedelec_tetrahedron", _mass("tetrahedron", "N1curl", 2)),
        FormCase("mass_bdm_triangle", _mass("triangle", "BDM", 2)),
        FormCase("mass_rtcf_quadrilateral", _mass("quadrilateral", "RTCF", 2)),
        FormCase("stiffness_triangle", _stiffness("triangle", 3)),
        FormCase("stiffness_quadrilateral", _stiffness("quadrilateral", 2)),
        FormCase("stiffness_tetrahedron", _stiffness("tetrahedron", 2)),
        FormCase("stiffness_hexahedron", _stiffness("hexahedron", 2)),
        FormCase("stiffness_curved_triangle", _stiffness("triangle", 2, geometry=2)),
        FormCase("stiffness_curved_quadrilateral", _stiffness("quadrilateral", 1, geometry=2)),
        FormCase("stiffness_surface_triangle", _stiffness("triangle", 2, gdim=3)),
        FormCase("stiffness_surface_quadrilateral", _stiffness("quadrilateral", 1, gdim=3)),
        FormCase("stiffness_curve_interval", _stiffness("interval", 2, gdim=2)),
        FormCase("reaction_diffusion_triangle", _reaction_diffusion("triangle", 2)),
        FormCase("reaction_diffusion_quadrilateral", _reaction_diffusion("quadrilateral", 2)),
        FormCase("elasticity_triangle", _elasticity("triangle")),
        FormCase("elasticity_hexahedron", _elasticity("hexahedron")),
        FormCase("stokes_triangle", _stokes("triangle")),
        FormCase("stokes_quadrilateral", _stokes("quadrilateral")),
        FormCase("mixed_poisson_triangle", _mixed_poisson("triangle", "RT")),
        FormCase("mixed_poisson_quadrilateral", _mixed_poisson("quadrilateral", "RTCF")),
        FormCase("curl_curl_tetrahedron", _curl_curl("tetrahedron", "N1curl")),
        FormCase("curl_curl_hexahedron", _curl_curl("hexahedron", "NCE")),
        FormCase("curl_to_flux_hexahedron", _hcurl_hdiv_hex()),
        FormCase("symmetric_stress_triangle", _symmetric_stress("triangle")),
        FormCase("regge_triangle", _regge("Regge")),
        FormCase("hellan_herrmann_johnson_triangle", _regge("HHJ")),
        FormCase("hyperelastic_residual_tetrahedron", _hyperelastic("tetrahedron", False), low=0.0, high=0.1),
        FormCase("hyperelastic_jacobian_quadrilateral", _hyperelastic("quadrilateral", True), low=0.0, high=0.1),
        FormCase("conditional_triangle", _conditional("triangle")),
        FormCase("math_functions_triangle", _math("triangle"), low=0.2, high=0.8),
        FormCase("math_derivatives_interval", _math_derivative("interval"), low=0.2, high=0.8),
        FormCase("biharmonic_triangle", _biharmonic("triangle", 3)),
        FormCase("biharmonic_quadrilateral", _biharmonic("quadrilateral", 2)),
        FormCase("gradient_of_product_quadrilateral", _gradient_of_product("quadrilateral")),
        FormCase("tensor_operators_tetrahedron", _tensor_operators(), low=-0.3, high=0.3),
        FormCase("variable_triangle", _variable("triangle")),
        FormCase("several_rules_triangle", _several_rules("triangle")),
        FormCase("quadrature_element_triangle", _quadrature_element("triangle")),
        FormCase("marked_cell", _marked("triangle"), subdomain_id=2),
        FormCase("unmarked_cell", _marked("quadrilateral")),
        FormCase("point_load_triangle", _point_load("triangle"), "vertex"),
    ]


def complex_forms() -> list[FormCase]:
    """Return cases with complex coefficients and results."""
    return [
        FormCase("helmholtz_triangle", _helmholtz("triangle"), scalar_type="complex128"),
        FormCase("helmholtz_hexahedron", _helmholtz("hexahedron"), scalar_type="complex128"),
        FormCase("complex_functional_triangle", _complex_functional("triangle"), scalar_type="complex128"),
    ]
