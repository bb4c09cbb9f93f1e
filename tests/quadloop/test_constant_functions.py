"""Basis functions and derivatives that are the same at all points leave the loop over points."""

from __future__ import annotations

import basix.ufl
import numpy as np
import pytest
import ufl

from formcompiler import compile_form

CORNERS = {"triangle": np.array([[0.1, 0], [1.2, 0.1], [0, 0.9]]), "tetrahedron": np.eye(4, 3) + 0.1}


def split_form(cell, degree=6):
    """Return a form with derivatives that are the same at all points, one with values that are not, and its data."""
    dim = {"triangle": 2, "tetrahedron": 3}[cell]
    space = ufl.FunctionSpace(
        ufl.Mesh(basix.ufl.element("Lagrange", cell, 1, shape=(dim,))), basix.ufl.element("Lagrange", cell, 1)
    )
    u, v = ufl.Coefficient(space), ufl.TestFunction(space)
    dx = ufl.dx(metadata={"quadrature_degree": degree})
    return u**2 * ufl.inner(ufl.grad(u), ufl.grad(v)) * dx, v * dx, u


def operations_of_more_points(cell, choose):
    """Return the operations that a rule of higher degree takes more, for a form chosen from the two."""
    counts = [compile_form(choose(*split_form(cell, n)[:2]), licm="off").integrals[0].flops for n in (6, 8)]
    return counts[1] - counts[0]


@pytest.mark.parametrize("cell", list(CORNERS))
def test_constant_derivatives_beside_values_cost_no_more_at_each_point_than_alone(cell):
    both = operations_of_more_points(cell, lambda stiffness, mass: stiffness + mass)
    alone = [operations_of_more_points(cell, choose) for choose in (lambda s, m: s, lambda s, m: m)]
    assert both <= sum(alone)


@pytest.mark.parametrize("cell", list(CORNERS))
def test_a_vector_with_constant_and_varying_functions_is_the_sum_of_its_parts(cell):
    stiffness, mass, u = split_form(cell)
    dofs = np.random.default_rng(2).uniform(size=len(CORNERS[cell]))
    both, *alone = (
        compile_form(form).tabulate_tensor("cell", None, CORNERS[cell], coefficients={u: dofs})
        for form in (stiffness + mass, stiffness, mass)
    )
    np.testing.assert_allclose(both, sum(alone), rtol=1e-12, atol=1e-14)
