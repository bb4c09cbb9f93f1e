"""Orthogonal polynomials on reference cells, and elements as combinations of them."""

from __future__ import annotations

import basix.ufl
import numpy as np
import pytest

from formcompiler.elements.cells import dimension, reference_volume, vertices
from formcompiler.elements.modes import ModalBasis, expand, has_modes
from formcompiler.elements.quadrature import make_quadrature
from formcompiler.elements.tables import tabulate_component

CELLS = ("vertex", "interval", "triangle", "quadrilateral", "tetrahedron", "hexahedron", "prism")


def points_in(cell, n=40, seed=0):
    corners = vertices(cell)
    return np.vstack([np.random.default_rng(seed).dirichlet(np.ones(len(corners)), size=n) @ corners, corners])


@pytest.mark.parametrize("cell", CELLS[1:])
def test_modes_are_orthogonal(cell):
    modes = ModalBasis(cell, 4)
    rule = make_quadrature(cell, 8, "gauss_jacobi")
    table = modes.tabulate(rule.points)
    gram = (table * rule.weights[:, None]).T @ table
    np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0, atol=1e-14)
    assert gram[0, 0] == pytest.approx(reference_volume(cell))
    assert np.diag(gram).min() > 1e-4


def test_modes_on_the_interval_are_legendre_polynomials():
    points = points_in("interval")
    wanted = np.polynomial.legendre.legvander(2 * points[:, 0] - 1, 9)
    np.testing.assert_allclose(ModalBasis("interval", 9).tabulate(points), wanted, atol=1e-14)


def test_a_vertex_has_the_constant_mode_only():
    assert ModalBasis("vertex", 3).tabulate(np.zeros((1, 0))) == np.ones((1, 1))


@pytest.mark.parametrize("cell", CELLS[1:])
def test_modes_of_lower_degrees_come_first(cell):
    points, modes = points_in(cell), ModalBasis(cell, 4)
    table = modes.tabulate(points)
    for degree in range(5):
        lower = ModalBasis(cell, degree)
        assert lower.size(degree) == len(lower.indices) == modes.size(degree)
        np.testing.assert_array_equal(table[:, : modes.size(degree)], lower.tabulate(points))


@pytest.mark.parametrize("cell", CELLS[1:])
def test_elements_of_high_degree_and_their_derivatives_are_sums_of_modes(cell):
    degree, dim = {1: 10, 2: 8, 3: 5}[dimension(cell)], dimension(cell)
    element, points = basix.ufl.element("Lagrange", cell, degree), points_in(cell)
    table = ModalBasis(cell, degree).tabulate(points)
    for derivatives in [(0,) * dim, (*(0,) * (dim - 1), 1), (2, *(0,) * (dim - 1))]:

        def evaluate(x, derivatives=derivatives):
            return tabulate_component(element, 0, derivatives, x).values

        coefficients = expand(cell, degree, evaluate)
        wanted = evaluate(points)
        found = table[:, : len(coefficients)] @ coefficients
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-14 * np.abs(wanted).max())


def test_derivatives_on_simplices_need_modes_of_lower_degree_only():
    element = basix.ufl.element("Lagrange", "tetrahedron", 3)
    sizes = [
        len(expand("tetrahedron", 3, lambda x, n=n: tabulate_component(element, 0, (n, 0, 0), x).values))
        for n in range(4)
    ]
    assert sizes == [20, 10, 4, 1]


def test_functions_that_are_no_polynomials_of_the_degree_are_not_expanded():
    assert expand("triangle", 2, lambda x: x[:, :1] ** 3) is None
    assert expand("triangle", 5, lambda x: np.abs(x[:, :1] - 0.4)) is None
    assert expand("interval", 8, lambda x: np.sqrt(1 + x)) is None
    assert expand("triangle", 3, lambda x: x[:, :1] ** 3) is not None


def test_pyramids_have_no_modes():
    assert [cell for cell in (*CELLS, "pyramid") if not has_modes(cell)] == ["pyramid"]
