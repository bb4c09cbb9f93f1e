"""Numbers for the edges and faces that cells share, found from their vertices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from formcompiler.elements.cells import topology
from formcompiler.elements.layout import symmetries

IntArray = npt.NDArray[np.int64]

_LARGEST = 2**62
_DENSE = 4
"""Keys up to so many times their number are counted, others are sorted."""


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


def unique_rows(columns: Sequence[npt.NDArray[Any]]) -> tuple[IntArray, IntArray]:
    """Return the position of the first of each set of equal rows, and for every row the number of its set.

    Sets are numbered in the order of their rows, the first column counting most.

    Args:
        columns: The columns of a table of integers, whose differences their type can hold.
    """
    if not len(columns[0]):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    least, most = int(columns[0].min()), int(columns[0].max())
    key, size = columns[0].astype(np.int64) - least, most - least + 1
    for before, column in pairwise(columns):
        # With equal columns before, rows are in the order of the differences of this one to the last.
        step = column - before
        least = int(step.min())
        extent = int(step.max()) - least + 1
        if size * extent > _LARGEST:
            _, key, size = _rank(key, size)
        key *= extent
        key += step
        key -= least
        size *= extent
    first, numbers, _ = _rank(key, size)
    return first, numbers


def first_places(keys: npt.NDArray[np.integer], size: int) -> IntArray:
    """Return the position of the first of each key in range(size), len(keys) for keys that do not occur."""
    first = np.full(size, len(keys), dtype=np.int64)
    np.minimum.at(first, keys, np.arange(len(keys)))
    return first


def _rank(keys: IntArray, size: int) -> tuple[IntArray, IntArray, int]:
    """Return the first position of each key and for every key its rank among all; keys are in range(size)."""
    n = len(keys)
    if size <= _DENSE * n:
        first = first_places(keys, size)
        is_there = first < n
        ranks = np.cumsum(is_there) - 1
        return first[is_there], ranks[keys], int(is_there.sum())
    order = np.argsort(keys)
    ordered = keys[order]
    is_new = np.ones(n, dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    ranks = np.empty(n, dtype=np.int64)
    ranks[order] = np.cumsum(is_new) - 1
    starts = np.flatnonzero(is_new)
    return np.minimum.reduceat(order, starts), ranks, len(starts)


def number_entities(cell: str, cells: npt.NDArray[np.integer], dim: int) -> EntityNumbers:
    """Number the sub-entities of a dimension below that of the cell.

    Args:
        cell: Name of the cell.
        cells: Vertices of the cells, axes (cell, vertex).
        dim: Dimension of the entities.
    """
    local = np.array(topology(cell)[dim])
    columns = [cells[:, vertices].ravel() for vertices in local.T]
    first, inverse = unique_rows(_sort_rows(columns))
    entity_cell = {1: "vertex", 2: "interval", 3: "triangle", 4: "quadrilateral"}[local.shape[1]]
    shape = (len(cells), len(local))
    return EntityNumbers(inverse.reshape(shape), _find_turns(entity_cell, columns).reshape(shape), len(first))


def _sort_rows(columns: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """Return the columns of the table with each row sorted, by exchanges of neighbours."""
    result = list(columns)
    for end in range(len(columns) - 1, 0, -1):
        for n in range(end):
            low, high = result[n], result[n + 1]
            result[n], result[n + 1] = np.minimum(low, high), np.maximum(low, high)
    return result


def _find_turns(entity_cell: str, columns: Sequence[npt.NDArray[Any]]) -> IntArray:
    """Return the symmetry which starts at the lowest vertex and goes on to its lower neighbour, by row."""
    lowest, start = columns[0].copy(), np.zeros(len(columns[0]), dtype=np.int8)
    for n, column in enumerate(columns[1:], start=1):
        start[column < lowest] = n
        np.minimum(lowest, column, out=lowest)
    turns = np.zeros(len(start), dtype=np.int64)
    if len(columns) == 1:
        return turns
    ways = symmetries(entity_cell)[:, :2].tolist()
    for vertex in range(len(columns)):
        (first, one), *others = ((turn, then) for turn, (begin, then) in enumerate(ways) if begin == vertex)
        here = np.flatnonzero(start == vertex)
        turns[here] = first
        for second, other in others:
            turns[here[columns[other][here] < columns[one][here]]] = second
    return turns
