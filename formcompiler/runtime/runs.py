"""Numbers of dofs, compressed: what one cell needs is a start for each group of dofs that move together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
Index = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Groups:
    """Entries of a table of numbers, axes (cell, entry), whose differences are those of every cell.

    The number of an entry is that of the representative of its group in the same cell, plus the entry's offset.

    Attributes:
        representatives: An entry of each group, one with the least number.
        groups: Group of each entry.
        offsets: Offset of each entry, not negative.
    """

    representatives: Index
    groups: Index
    offsets: Index

    @property
    def lengths(self) -> Index:
        """Return the greatest offset of each group, plus one."""
        result = np.zeros(len(self.representatives), dtype=np.int64)
        np.maximum.at(result, self.groups, self.offsets + 1)
        return result


def find_groups(numbers: IntArray) -> Groups:
    """Return the largest groups for a table of numbers, axes (cell, entry)."""
    n_cells, n_entries = numbers.shape
    if n_cells == 0 or n_entries == 0:
        everything = np.arange(n_entries)
        return Groups(everything, everything, np.zeros(n_entries, dtype=np.int64))
    weights = np.random.default_rng(0).integers(-(2**62), 2**62, n_cells)
    # Entries move together if the hashes of their moves, integers that may overflow, agree; and a check.
    hashes = np.array([(column.astype(np.int64) - column[0]) @ weights for column in numbers.T])
    _, first, groups = np.unique(hashes, return_index=True, return_inverse=True)
    apart = numbers - numbers[:, first[groups]]
    if (apart != apart[0]).any():
        everything = np.arange(n_entries)
        return Groups(everything, everything, np.zeros(n_entries, dtype=np.int64))
    order = np.lexsort((numbers[0], groups))
    representatives = order[np.searchsorted(groups[order], np.arange(len(first)))]
    offsets = numbers[0].astype(np.int64) - numbers[0, representatives[groups]]
    return Groups(representatives, groups, offsets)


def find_runs(groups: Groups, entries: npt.ArrayLike) -> IntArray:
    """Return runs of consecutive entries of one group with consecutive offsets.

    Args:
        groups: The groups of a table.
        entries: The entries of interest, ascending.

    Returns:
        Axes (run, (group, first entry, offset of the first entry, number of entries)).
    """
    chosen = np.asarray(entries, dtype=np.int64)
    group, offset = groups.groups[chosen], groups.offsets[chosen]
    breaks = (np.diff(chosen) != 1) | (np.diff(group) != 0) | (np.diff(offset) != 1)
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(chosen)), dtype=bool), breaks]))
    lengths = np.diff(np.append(starts, len(chosen)))
    return np.stack([group[starts], chosen[starts], offset[starts], lengths], axis=1).astype(np.int32)


def cut_runs(runs: IntArray, size: int, *, may_overlap: bool) -> tuple[IntArray, IntArray]:
    """Return blocks of so many entries, and the single entries that are left, from runs as `find_runs` returns them.

    Args:
        runs: The runs.
        size: Entries of a block; 1 for no blocks.
        may_overlap: Whether an entry may be in two blocks, so that no run of that size leaves single entries.

    Returns:
        Blocks and singles, axes (piece, (group, first entry, offset of the first entry)).
    """
    blocks, singles = [np.zeros((0, 3), dtype=np.int32)], [np.zeros((0, 3), dtype=np.int32)]
    for group, entry, offset, length in runs.tolist():
        places = np.arange(0, length - size + 1, size) if size > 1 else np.zeros(0, dtype=np.int64)
        done = len(places) * size
        if may_overlap and 0 < done < length:
            places, done = np.append(places, length - size), length
        for found, where in ((blocks, places), (singles, np.arange(done, length))):
            found.append(np.stack([np.full(len(where), group), entry + where, offset + where], axis=1))
    return np.concatenate(blocks).astype(np.int32), np.concatenate(singles).astype(np.int32)
