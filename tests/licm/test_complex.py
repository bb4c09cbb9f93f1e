"""Complex kernels: the same code motion as for real ones, and right numbers."""

from __future__ import annotations

import pytest
import ufl
from oracles.case import mesh, space

import formcompiler
from formcompiler.verify import tolerance, verify_compiled


def impedance(domain):
    """Return a matrix with a complex number, a constant of the user, and an impedance on the boundary."""
    V = space(domain, "Lagrange", 2)
    u, v, k = ufl.TrialFunction(V), ufl.TestFunction(V), ufl.Constant(domain)
    inside = ufl.inner(ufl.grad(u), ufl.grad(v)) - (1 + 0.5j) * k**2 * ufl.inner(u, v)
    return inside * ufl.dx + 1j * k * ufl.inner(u, v) * ufl.ds


def impedance_action(domain):
    """Return the same with a coefficient, whose sums over dofs and points are written anew."""
    V = space(domain, "Lagrange", 2)
    return ufl.action(impedance(domain), ufl.Coefficient(V))


def penalty_action(domain):
    """Return an interior penalty term with a complex factor; its tables of facets have columns of zeros."""
    V = space(domain, "DG", 2)
    u, v, k, n = ufl.Coefficient(V), ufl.TestFunction(V), ufl.Constant(domain), ufl.FacetNormal(domain)
    flux = ufl.inner(ufl.dot(ufl.avg(ufl.grad(u)), n("+")), ufl.jump(v))
    return (1j * k * ufl.inner(ufl.jump(u), ufl.jump(v)) - flux) * ufl.dS


FORMS = (impedance, impedance_action, penalty_action)


@pytest.mark.parametrize("make", FORMS)
@pytest.mark.parametrize("cell", ["triangle", "quadrilateral"])
@pytest.mark.parametrize("factorization", ["off", "auto"])
def test_numbers_are_right_in_general_mode(make, cell, factorization):
    form = formcompiler.compile_form(
        make(mesh(cell)), scalar_type="complex128", licm="general", sum_factorization=factorization
    )
    for integral, difference in verify_compiled(form, 3):
        assert difference < tolerance("complex128"), integral.integral_type


@pytest.mark.parametrize("cell", ["triangle", "tetrahedron"])
def test_constant_factors_leave_the_loop_over_points_as_in_real_kernels(cell):
    form = impedance(mesh(cell))
    plain, nested, general = (
        formcompiler.compile_form(form, scalar_type="complex128", licm=mode).integrals[0].flops
        for mode in ("off", "nested", "general")
    )
    assert general < nested / 3
    assert nested <= plain
