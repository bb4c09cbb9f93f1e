"""Numbers for the edges and faces that cells share, found from their vertices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from formcompiler.elements.cells import topology
from formcompiler.elements.layout import symmetries

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EntityNumbers:
    """Numbers and orientations of the sub-entities of one dimension of all cells.

    Attributes:
        numbers: Number of the entity in the mesh, axes (cell, local entity).
        turns: Symmetry (see `elements.layout.symmetries`) that takes the vertex order which all cells around the
            entity share to the cell's own, axes (cell, local entity).
        n: How many entities there are.
    """

    numbers: IntArray
    turns: IntArray
    n: int


def unique_rows(rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return the position of the first of each set of equal rows, and for every row the number of its set."""
    inverse = np.zeros(len(rows), dtype=np.int64)
    first = np.zeros(min(1, len(rows)), dtype=np.int64)
    for column in rows.T:
        _, compressed = np.unique(column, return_inverse=True)
        key = inverse * (compressed.max(initial=0) + 1) + compressed
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return first, inverse


def number_entities(cell: str, cells: IntArray, dim: int) -> EntityNumbers:
    """Number the sub-entities of a dimension below that of the cell.

    Args:
        cell: Name of the cell.
        cells: Vertices of the cells, axes (cell, vertex).
        dim: Dimension of the entities.
    """
    local = np.array(topology(cell)[dim])
    entities = cells[:, local].astype(np.int64)
    shape = entities.shape[:2]
    rows = entities.reshape(-1, local.shape[1])
    first, inverse = unique_rows(np.sort(rows, axis=1))
    entity_cell = {1: "vertex", 2: "interval", 3: "triangle", 4: "quadrilateral"}[local.shape[1]]
    return EntityNumbers(inverse.reshape(shape), _find_turns(entity_cell, rows).reshape(shape), len(first))


def _find_turns(entity_cell: str, rows: IntArray) -> IntArray:
    """Return the symmetry which starts at the lowest vertex and goes on to its lower neighbour, by row."""
    if rows.shape[1] == 1:
        return np.zeros(len(rows), dtype=np.int64)
    turned = rows[:, symmetries(entity_cell)[:, :2]]
    return np.asarray((turned[:, :, 0] * (rows.max(initial=0) + 1) + turned[:, :, 1]).argmin(axis=1))
