"""Equal rows of a table, found and numbered in the order of the rows."""

import numpy as np
import pytest

from formcompiler.elements.cells import topology
from formcompiler.elements.layout import symmetries
from formcompiler.runtime.numbering import number_entities, unique_rows


@pytest.mark.parametrize("n_columns", [1, 2, 4, 8])
@pytest.mark.parametrize(("low", "high"), [(-1, 2), (0, 40), (0, 2**40)])
def test_rows_are_numbered_in_their_order(n_columns, low, high):
    """Small ranges are counted, larger ones sorted; the largest do not fit one key and are ranked in between."""
    rng = np.random.default_rng(n_columns)
    rows = rng.integers(low, high, size=(60, n_columns))[rng.integers(60, size=400)]
    first, numbers = unique_rows(list(rows.T))
    expected, positions, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(rows[first], expected)
    np.testing.assert_array_equal(first, positions)
    np.testing.assert_array_equal(numbers, inverse.ravel())


def test_an_empty_table_has_no_rows():
    first, numbers = unique_rows([np.zeros(0, dtype=np.int32)] * 3)
    assert len(first) == len(numbers) == 0


@pytest.mark.parametrize(
    ("cell", "entity", "dim"), [("tetrahedron", "triangle", 2), ("hexahedron", "quadrilateral", 2)]
)
def test_turns_start_at_the_lowest_vertex_and_go_to_its_lower_neighbour(cell, entity, dim):
    rng = np.random.default_rng(0)
    cells = np.array([rng.permutation(1000)[: len(topology(cell)[0])] for _ in range(50)], dtype=np.int32)
    turns = number_entities(cell, cells, dim).turns
    for vertices, found in zip(cells, turns, strict=True):
        for local, turn in zip(topology(cell)[dim], found, strict=True):
            own = vertices[list(local)]
            ways = [tuple(own[way[:2]]) for way in symmetries(entity)]
            assert ways[turn] == min(ways)
