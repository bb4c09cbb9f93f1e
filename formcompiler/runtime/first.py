"""Which dofs of a vector a kernel may write instead of adding to them: those that it is the first to meet."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
Ranges = npt.NDArray[np.int64]


def find_first_entries(
    cell_dofs: IntArray, n_dofs: int, cells: IntArray, counts: IntArray, others: npt.NDArray[np.integer]
) -> npt.NDArray[np.bool_]:
    """Return the entries of a cell that a kernel may write if it visits batches of cells one after the other.

    In every cell the dof of such an entry is met for the first time, or at least no earlier batch has it. Several
    entries with one dof are not all written: in each batch, what is written has to come before what is added.

    Args:
        cell_dofs: Number of each dof, axes (cell, entry).
        n_dofs: How many there are.
        cells: Cells of the batches, axes (batch, lane).
        counts: Lanes of each batch that hold a cell: the first ones.
        others: Cells that the kernel does not visit, whose dofs may have been added to before.
    """
    n_entries = cell_dofs.shape[1]
    dofs = cell_dofs[cells[np.arange(cells.shape[1]) < counts[:, None]]]
    numbers = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    first = np.full(n_dofs, len(counts), dtype=np.int32)
    np.minimum.at(first, dofs.ravel(), np.repeat(numbers, n_entries))
    is_taken = np.zeros(n_dofs, dtype=bool)
    is_taken[cell_dofs[others]] = True
    result = np.zeros(n_entries, dtype=bool)
    for entry, column in enumerate(dofs.T):
        if (first[column] == numbers).all() and not is_taken[column].any():
            n_taken = np.count_nonzero(is_taken)
            is_taken[column] = True
            result[entry] = np.count_nonzero(is_taken) == n_taken + len(column)
            is_taken[column] = result[entry]
    return result


def find_ranges(chosen: npt.NDArray[np.bool_]) -> Ranges:
    """Return the runs of consecutive numbers that are chosen, axes (run, (begin, end))."""
    edges = np.flatnonzero(np.diff(chosen, prepend=False, append=False))
    return np.ascontiguousarray(edges.reshape(-1, 2), dtype=np.int64)
