"""Rows of cells: numbers that grow by one from each cell to the next, so that batches read and write whole vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from formcompiler.runtime.numbering import first_places

IntArray = npt.NDArray[np.int32]
Index = npt.NDArray[np.int64]

LEAST_LENGTH = 8
"""Shorter rows would not fill the lanes of a batch."""


@dataclass(frozen=True)
class Rows:
    """A mesh whose cells come in rows of equal length, each cell a neighbour of the one before.

    Attributes:
        length: Cells in a row.
        ends: Vertices of a cell, as a set, that are also vertices of the cell before, and of the cell after.
    """

    length: int
    ends: tuple[frozenset[int], frozenset[int]]

    def renumber(self, numbers: npt.NDArray[np.integer], masks: Sequence[int]) -> Index:
        """Return new numbers of dofs in which entries of neighbours in a row mostly have consecutive numbers.

        Dofs are numbered when they are first met: row by row, in a row entry by entry, for an entry cell by cell. An
        entry that is another one of the next cell comes right after that. So in one row the numbers of an entry are
        consecutive, and entries that rows share with rows before are so in either.

        Args:
            numbers: Numbers of dofs without gaps, axes (cell, entry).
            masks: Of each entry, which facets it belongs to, so that entries of equal rows of dofs have the same; they
                are numbered in this order.
        """
        n_cells, width = numbers.shape
        before = {int(number): entry for entry, number in enumerate(numbers[1])} if n_cells > 1 else {}
        order = sorted(range(width), key=lambda e: (masks[e], *_place(e, before.get(int(numbers[0, e])))))
        visits = numbers.reshape(-1, self.length, width)[:, :, order].transpose(0, 2, 1).ravel()
        first = first_places(visits, int(visits.max(initial=-1)) + 1)
        is_first = np.zeros(len(visits), dtype=bool)
        is_first[first] = True
        return np.asarray((np.cumsum(is_first) - 1)[first][numbers])


def _place(entry: int, of_next: int | None) -> tuple[int, bool]:
    """Return the place of an entry that is ``of_next`` in the next cell: right behind it."""
    return (entry, False) if of_next is None else (of_next, True)


def find_rows(vertices: npt.NDArray[np.integer]) -> Rows | None:
    """Return the rows of a mesh with these vertices of its cells, axes (cell, vertex); None if it has no long ones."""
    if len(vertices) < LEAST_LENGTH:
        return None
    after, before = np.nonzero(vertices[0][:, None] == vertices[1])
    if not len(after):
        return None
    is_linked = (vertices[:-1, after] == vertices[1:, before]).all(axis=1)
    length = int(np.argmin(np.append(is_linked, False))) + 1
    expected = np.arange(1, len(vertices)) % length != 0
    if length < LEAST_LENGTH or len(vertices) % length or (is_linked != expected).any():
        return None
    return Rows(length, (frozenset(before.tolist()), frozenset(after.tolist())))


@dataclass(frozen=True, eq=False)
class RowStarts:
    """Batches whose lanes lie in one or two rows: see ``Indices`` in engine.cc.

    Attributes:
        starts: Start of the first lane of each of two rows, axes (batch, row, group).
        splits: Of each batch, the first lane of the second row, all lanes for one row, 0 if there are no rows.
    """

    starts: IntArray
    splits: IntArray


def find_row_starts(starts: IntArray, lengths: Index, n_lanes_used: IntArray) -> RowStarts:
    """Return the rows in which the lanes of batches lie.

    Args:
        starts: Start of each group, axes (batch, group, lane).
        lengths: Greatest offset of an entry of each group, plus one.
        n_lanes_used: Lanes of each batch that hold an entity.
    """
    lanes = starts.shape[2]
    is_linked = (starts[:, :, 1:] - starts[:, :, :-1] == 1).all(axis=1)  # axes (batch, lane)
    splits = np.where(is_linked.all(axis=1), lanes, np.argmin(np.pad(is_linked, ((0, 0), (0, 1))), axis=1) + 1)
    second = np.take_along_axis(starts, np.minimum(splits, lanes - 1)[:, None, None], axis=2)[:, :, 0]
    rows = np.stack([starts[:, :, 0], second], axis=1)
    # What is read of two rows must lie within the vector, whose length is at least this.
    size = int((starts.max(axis=(0, 2), initial=0) + lengths).max(initial=0))
    fits = (rows[:, 0] + lengths + lanes - 1 <= size).all(axis=1) & (rows[:, 1] >= splits[:, None]).all(axis=1)
    is_in_rows = ((is_linked.sum(axis=1) == lanes - 2) & fits) | (splits == lanes)
    splits[~is_in_rows | (n_lanes_used < lanes)] = 0
    return RowStarts(np.ascontiguousarray(rows, dtype=np.int32), splits.astype(np.int32))
