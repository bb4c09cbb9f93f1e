"""Basis functions and derivatives that are the same at all points leave the loop over points."""

from __future__ import annotations

import basix.ufl
import numpy as np
import pytest
import ufl

from formcompiler import compile_form

CORNERS = {"triangle": np.array([[0.1, 0], [1.2, 0.1], [0, 0.9]]), "tetrahedron": np.eye(4, 3) + 0.1}


def split_form(cell):
    """Return a form with derivatives that are the same at all points, one with values that are not, and its data."""
    dim = {"triangle": 2, "tetrahedron": 3}[cell]
    space = ufl.FunctionSpace(
        ufl.Mesh(basix.ufl.element("Lagrange", cell, 1, shape=(dim,))), basix.ufl.element("Lagrange", cell, 1)
    )
    u, v = ufl.Coefficient(space), ufl.TestFunction(space)
    dx = ufl.dx(metadata={"quadrature_degree": 6})
    return u**2 * ufl.inner(ufl.grad(u), ufl.grad(v)) * dx, u**3 * v * dx, u


@pytest.mark.parametrize("cell", list(CORNERS))
def test_constant_derivatives_beside_values_cost_no_more_than_alone(cell):
    stiffness, mass, _ = split_form(cell)
    both, *alone = (compile_form(f, licm="off").integrals[0].flops for f in (stiffness + mass, stiffness, mass))
    assert both < sum(alone)


@pytest.mark.parametrize("cell", list(CORNERS))
def test_a_vector_with_constant_and_varying_functions_is_the_sum_of_its_parts(cell):
    stiffness, mass, u = split_form(cell)
    dofs = np.random.default_rng(2).uniform(size=len(CORNERS[cell]))
    both, *alone = (
        compile_form(form).tabulate_tensor("cell", None, CORNERS[cell], coefficients={u: dofs})
        for form in (stiffness + mass, stiffness, mass)
    )
    np.testing.assert_allclose(both, sum(alone), rtol=1e-12, atol=1e-14)
