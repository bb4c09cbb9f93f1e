"""Matrices that are symmetric by their form compute one triangle; others do not, and all have the right numbers."""

from __future__ import annotations

import ctypes

import basix.ufl
import numpy as np
import pytest
import ufl
from oracles.case import FormCase, mesh, space, trial_and_test
from oracles.random_data import random_cell
from oracles.random_forms import CELLS, MEASURES, Grower
from ufl import avg, div, dS, ds, dx, grad, inner, jump

from formcompiler import compile_form
from formcompiler.elements import cells
from formcompiler.quadloop import shared
from formcompiler.reference import element_tensor

RELATIVE = 1e-12
"""Rounding of some hundred terms stays far below."""


def check(case, n_seeds=2, **options):
    """Compare with dense assembly; return the compiled form."""
    compiled = compile_form(case.form, scalar_type=case.scalar_type, **options)
    for seed in range(n_seeds):
        data = case.make_data(seed)
        wanted = element_tensor(case.form, scalar_type=case.scalar_type, **data)
        kind, number, x = (data.pop(name) for name in ("integral_type", "subdomain_id", "coordinates"))
        actual = compiled.tabulate_tensor(kind, number, x, **data)
        assert np.abs(actual - wanted).max() <= RELATIVE * np.abs(wanted).max()
    return compiled


def bilinear_forms(cell):
    """Return symmetric forms on a cell, and forms that are nearly so."""
    domain = mesh(cell)
    dim = cells.dimension(cell)
    V = space(domain, "Lagrange", 2)
    W = space(domain, "Lagrange", 1, shape=(dim,))
    u, v = trial_and_test(V)
    w, z = trial_and_test(W)
    f, b = ufl.Coefficient(V), ufl.Constant(domain, shape=(dim,))
    K = ufl.Constant(domain, shape=(dim, dim))
    n, h = ufl.FacetNormal(domain), ufl.Constant(domain)
    penalty = 10 / h * jump(u) * jump(v) - inner(avg(grad(u)), jump(v, n))
    strain = ufl.sym(grad(w))
    symmetric = {
        "mass": u * v * dx,
        "stiffness": f * inner(grad(u), grad(v)) * dx(degree=3),
        "tensor": inner(ufl.sym(K) * grad(u), grad(v)) * dx(degree=2),
        "both ways": (inner(b, grad(u)) * v + u * inner(b, grad(v))) * dx,
        "squares": (2 * u) * (f**2 * v) * dx(degree=3),
        "elasticity": (2 * b[0] * inner(strain, ufl.sym(grad(z))) + f * div(w) * div(z)) * dx(degree=2),
        "boundary": (u * v / h + u * inner(grad(v), n) + v * inner(grad(u), n)) * ds,
        "penalty": (penalty - inner(jump(u, n), avg(grad(v)))) * dS,
    }
    others = {
        "advection": inner(b, grad(u)) * v * dx,
        "skew": (inner(b, grad(u)) * v - u * inner(b, grad(v))) * dx,
        "tensor": inner(K * grad(u), grad(v)) * dx(degree=2),
        "one term more": (u * v + 1e-9 * u.dx(0) * v) * dx,
        "gradients in another order": inner(grad(w), grad(z).T) * dx + w[0] * z[dim - 1].dx(0) * dx,
        "incomplete penalty": penalty * dS,
        "one side": u("+") * v("-") * dS,
    }
    return symmetric, others


def cases(number):
    """Return the symmetric forms (0) or the others (1) on all cells; most cells are slow."""
    return [
        pytest.param(
            cell, name, id=f"{name} {cell}", marks=[pytest.mark.slow] * (cell not in ("triangle", "hexahedron"))
        )
        for cell in CELLS
        for name in bilinear_forms("triangle")[number]
        if not (cell == "interval" and name in ("tensor", "gradients in another order"))
    ]


def case_of(form, name, **options):
    return FormCase(name, form, form.integrals()[0].integral_type(), low=0.3, high=1.2, **options)


@pytest.mark.parametrize(("cell", "name"), cases(0))
def test_symmetric_forms_compute_one_triangle(cell, name):
    compiled = check(case_of(bilinear_forms(cell)[0][name], name))
    assert all(integral.symmetric for integral in compiled.integrals)


@pytest.mark.parametrize(("cell", "name"), cases(1))
def test_nearly_symmetric_forms_compute_everything(cell, name):
    compiled = check(case_of(bilinear_forms(cell)[1][name], name))
    assert not any(integral.symmetric for integral in compiled.integrals)


@pytest.mark.parametrize(
    "options", [{"licm": "general"}, {"licm": "nested"}, {"vectorize": "cells"}, {"constfold": "off"}], ids=str
)
@pytest.mark.parametrize("factorized", ["off", "auto"])
def test_passes_keep_the_numbers_of_symmetric_matrices(options, factorized):
    symmetric = bilinear_forms("quadrilateral")[0]
    for name in ("stiffness", "elasticity", "penalty"):
        check(case_of(symmetric[name], name), n_seeds=1, sum_factorization=factorized, **options)


def random_symmetric_form(seed):
    """Return the second derivative of a random energy."""
    rng = np.random.default_rng(seed)
    cell = CELLS[rng.integers(len(CELLS))]
    domain = mesh(cell)
    integral_type = tuple(MEASURES)[rng.integers(3)]
    grower = Grower(rng, domain)
    measure = ufl.Measure(MEASURES[integral_type], domain, metadata={"quadrature_degree": 2})
    energy = grower.integrand(integral_type, 2) * measure
    if not energy.coefficients():
        return None
    f = energy.coefficients()[0]
    second = ufl.derivative(ufl.derivative(energy, f), f)
    return None if second.empty() else FormCase(f"energy_{seed}", second, integral_type, low=0.3, high=1.2)


@pytest.mark.parametrize("seed", [pytest.param(s, marks=[pytest.mark.slow] * (s >= 6)) for s in range(60)])
def test_second_derivatives_of_random_energies_have_the_right_numbers(seed):
    case = random_symmetric_form(seed)
    if case is not None and compile_form(case.form).integrals:
        check(case)


@pytest.mark.parametrize("cell", ["triangle", "tetrahedron", "hexahedron"])
def test_the_hessian_of_a_hyperelastic_energy_is_symmetric(cell):
    domain = mesh(cell)
    u = ufl.Coefficient(space(domain, "Lagrange", 1, shape=(cells.dimension(cell),)))
    F = ufl.variable(ufl.Identity(len(u)) + grad(u))
    J = ufl.det(F)
    energy = ((ufl.tr(F.T * F) / J ** (2 / 3) - 3) * 0.3 + 2.1 * ufl.ln(J) ** 2 + 0.7 * (J - 1) ** 2) * dx(degree=1)
    compiled = compile_form(ufl.derivative(ufl.derivative(energy, u), u))
    assert compiled.integrals[0].symmetric


def test_complex_matrices_are_mirrored_without_conjugation():
    domain = mesh("triangle")
    V = space(domain, "Lagrange", 2)
    u, v, f = *trial_and_test(V), ufl.Coefficient(V)
    symmetric = inner(f * grad(u), grad(v)) * dx(degree=3)
    hermitian = (1j * inner(u, v.dx(0)) - 1j * inner(u.dx(0), v)) * dx
    assert check(case_of(symmetric, "symmetric", scalar_type="complex128")).integrals[0].symmetric
    assert not check(case_of(hermitian, "hermitian", scalar_type="complex128")).integrals[0].symmetric


def stokes(cell, sign):
    domain = mesh(cell)
    dim = cells.dimension(cell)
    velocity = basix.ufl.element("Lagrange", cell, 2, shape=(dim,))
    V = ufl.FunctionSpace(domain, basix.ufl.mixed_element([velocity, basix.ufl.element("Lagrange", cell, 1)]))
    (u, p), (v, q) = ufl.TrialFunctions(V), ufl.TestFunctions(V)
    return (inner(grad(u), grad(v)) - p * div(v) + sign * q * div(u)) * dx(degree=4)


@pytest.mark.parametrize("cell", ["triangle", "quadrilateral"])
@pytest.mark.parametrize("factorized", ["off", "auto"])
def test_equal_and_mirrored_blocks_of_mixed_elements_are_computed_once(cell, factorized):
    options = {"sum_factorization": factorized, "licm": "off"}  # signs decide which values it finds twice
    symmetric = check(case_of(stokes(cell, -1), "minus"), n_seeds=1, **options).integrals[0]
    other = check(case_of(stokes(cell, 1), "plus"), n_seeds=1, **options).integrals[0]
    assert symmetric.symmetric and not other.symmetric
    assert symmetric.flops == other.flops  # a negative transpose is as good as a transpose


def call_kernel(compiled, result, coordinates):
    """Add the matrix of a form without data to a result."""
    (kernel,) = compiled.kernels
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6)
    nothing = np.zeros(2)
    prototype(kernel.address)(
        result.ctypes.data, None, None, coordinates.ctypes.data, nothing.ctypes.data, nothing.ctypes.data
    )


@pytest.mark.parametrize("factorized", ["off", "auto"])
@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("cell", ["quadrilateral", "tetrahedron"])
def test_results_are_added_to_whatever_both_triangles_hold(cell, degree, factorized):
    domain = mesh(cell)
    u, v = trial_and_test(space(domain, "Lagrange", degree))
    compiled = compile_form((inner(grad(u), grad(v)) + u * v) * dx, sum_factorization=factorized)
    rng = np.random.default_rng(degree)
    x = np.ascontiguousarray(random_cell(domain.ufl_coordinate_element(), rng))
    before = rng.uniform(-1, 1, (len_of(compiled), len_of(compiled)))
    result = before.copy()
    call_kernel(compiled, result, x)
    wanted = before + compiled.tabulate_tensor("cell", None, x)
    assert np.abs(result - wanted).max() < 1e-13 * np.abs(wanted).max()


def len_of(compiled):
    return compiled.analysed.arguments[0].dim


@pytest.mark.parametrize("factorized", ["off", "auto"])
@pytest.mark.parametrize("cell", ["triangle", "quadrilateral", "tetrahedron", "hexahedron"])
def test_a_symmetric_matrix_takes_little_more_than_half_the_operations(cell, factorized):
    domain = mesh(cell)
    u, v = trial_and_test(space(domain, "Lagrange", 3))
    K = ufl.Coefficient(space(domain, "DG", 0, shape=(cells.dimension(cell),) * 2))
    options = {"sum_factorization": factorized}
    symmetric = compile_form(inner(ufl.sym(K) * grad(u), grad(v)) * dx(degree=4), **options)
    full = compile_form(inner(K * grad(u), grad(v)) * dx(degree=4), **options)
    assert symmetric.integrals[0].flops < 0.75 * full.integrals[0].flops


@pytest.mark.parametrize("degree", [2, 3])
def test_blocks_that_are_not_collected_are_added_at_each_point(degree, monkeypatch):
    monkeypatch.setattr(shared, "_LARGEST", 5)
    domain = mesh("triangle")
    u, v = trial_and_test(space(domain, "Lagrange", degree))
    w, z = trial_and_test(space(domain, "Lagrange", degree, shape=(2,)))
    for number, form in enumerate(
        [u * v * dx, inner(grad(w), grad(z)) * dx, (w[0] * z[1].dx(0) + z[0] * w[1].dx(0)) * dx]
    ):
        assert check(case_of(form, f"large {number}")).integrals[0].symmetric
        assert "block" not in compile_form(form).source
