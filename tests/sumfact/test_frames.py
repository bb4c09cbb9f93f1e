"""Frames: roles, orders and flags give the points that the facet permutations say, for every facet."""

from __future__ import annotations

import numpy as np
import pytest

from formcompiler.elements import cells
from formcompiler.elements.quadrature import make_quadrature
from formcompiler.sumfact.frames import gather_table, make_frame, permuted_counts

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
                role.points[flag if role.n_flags > 1 else 0] for role, flag in zip(frame.roles, flags, strict=True)
            ]
            grid = np.stack([axis.ravel() for axis in np.meshgrid(*lines, indexing="ij")], axis=1)
            points = np.empty_like(grid)
            points[:, list(frame.orders[order])] = grid
            expected = cells.map_to_facet(cell, facet, cells.permute_facet_points(facet_cell, permutation, rule.points))
            np.testing.assert_allclose(points, expected, atol=1e-14)


@pytest.mark.parametrize("cell", CUBES)
def test_in_a_cell_roles_are_directions(cell: str) -> None:
    frame = make_frame(cell, "cell", make_quadrature(cell, 3, "default"))
    dim = cells.dimension(cell)
    assert frame.orders == (tuple(range(dim)),)
    assert frame.n_points == (2,) * dim
    assert frame.selectors is None


def test_dofs_are_gathered_along_the_order_of_directions() -> None:
    frame = make_frame("hexahedron", "exterior_facet", make_quadrature("quadrilateral", 2, "default"))
    dofs = np.arange(24).reshape(2, 3, 4)
    table = gather_table(dofs, frame)
    for number, order in enumerate(frame.orders):
        shape = tuple(dofs.shape[d] for d in order)
        for index in np.ndindex(*shape):
            place = [0, 0, 0]
            for role, direction in enumerate(order):
                place[direction] = index[role]
            assert table[number].reshape(shape)[index] == dofs[tuple(place)]


def test_derivatives_follow_their_direction_into_its_role() -> None:
    frame = make_frame("hexahedron", "exterior_facet", make_quadrature("quadrilateral", 2, "default"))
    for order, counts in zip(frame.orders, permuted_counts((2, 0, 1), frame), strict=True):
        assert counts == tuple((2, 0, 1)[direction] for direction in order)
