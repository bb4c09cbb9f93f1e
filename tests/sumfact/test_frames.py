"""Frames: roles, orders and flags give the points that the facet permutations say, for every facet."""

from __future__ import annotations

import numpy as np
import pytest

from formcompiler.elements import cells
from formcompiler.elements.quadrature import make_quadrature
from formcompiler.frontend.integrals import FacetPosition
from formcompiler.sumfact.frames import make_frame

CUBES = ("interval", "quadrilateral", "hexahedron")


@pytest.mark.parametrize("integral_type", ["exterior_facet", "interior_facet"])
@pytest.mark.parametrize("cell", CUBES)
def test_roles_and_flags_reproduce_the_points_of_every_facet(cell: str, integral_type: str) -> None:
    facet_cell = cells.facet_cells(cell)[0]
    rule = make_quadrature(facet_cell, 4, "default")
    frame = make_frame(cell, integral_type, rule)
    assert frame.selectors is not None
    for facet in range(len(cells.facet_cells(cell))):
        for permutation in range(frame.selectors.shape[1]):
            order, *flags = frame.selectors[facet, permutation]
            lines = [
                role.points[flag if role.n_flags > 1 else 0]
                for role, flag in zip(frame.sides[0].roles, flags, strict=True)
            ]
            grid = np.stack([axis.ravel() for axis in np.meshgrid(*lines, indexing="ij")], axis=1)
            points = np.empty_like(grid)
            points[:, list(frame.sides[0].orders[order])] = grid
            expected = cells.map_to_facet(cell, facet, cells.permute_facet_points(facet_cell, permutation, rule.points))
            np.testing.assert_allclose(points, expected, atol=1e-14)


@pytest.mark.parametrize("cell", CUBES)
def test_in_a_cell_roles_are_directions(cell: str) -> None:
    frame = make_frame(cell, "cell", make_quadrature(cell, 3, "default"))
    dim = cells.dimension(cell)
    assert frame.sides[0].orders == (tuple(range(dim)),)
    assert frame.n_points == (2,) * dim
    assert frame.selectors is None


def test_dofs_are_gathered_along_the_order_of_directions() -> None:
    frame = make_frame("hexahedron", "exterior_facet", make_quadrature("quadrilateral", 2, "default"))
    dofs = np.arange(24).reshape(2, 3, 4)
    table = frame.sides[0].gather(dofs)
    for number, order in enumerate(frame.sides[0].orders):
        shape = tuple(dofs.shape[d] for d in order)
        for index in np.ndindex(*shape):
            place = [0, 0, 0]
            for role, direction in enumerate(order):
                place[direction] = index[role]
            assert table[number].reshape(shape)[index] == dofs[tuple(place)]


def test_derivatives_follow_their_direction_into_its_role() -> None:
    frame = make_frame("hexahedron", "exterior_facet", make_quadrature("quadrilateral", 2, "default"))
    (side,) = frame.sides
    for order, counts in zip(side.orders, side.permute((2, 0, 1)), strict=True):
        assert counts == tuple((2, 0, 1)[direction] for direction in order)


@pytest.mark.parametrize("cell", CUBES)
def test_a_frame_of_known_positions_has_the_points_of_these_facets(cell: str) -> None:
    facet_cell = cells.facet_cells(cell)[0]
    rule = make_quadrature(facet_cell, 4, "default")
    n_facets, n_permutations = len(cells.facet_cells(cell)), cells.n_facet_permutations(facet_cell)
    for facet, permutation in np.ndindex(n_facets, n_permutations):
        frame = make_frame(cell, "interior_facet", rule, [FacetPosition(facet, permutation), FacetPosition(0, 0)])
        side = frame.sides[0]
        grid = np.meshgrid(*(role.points[0] for role in side.roles), indexing="ij")
        points = np.empty((grid[0].size, len(side.roles)))
        points[:, list(side.orders[0])] = np.stack([axis.ravel() for axis in grid], axis=1)
        expected = cells.map_to_facet(cell, facet, cells.permute_facet_points(facet_cell, permutation, rule.points))
        np.testing.assert_allclose(points, expected, atol=1e-14)
