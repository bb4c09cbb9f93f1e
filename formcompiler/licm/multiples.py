"""Columns of tables that are multiples of one another, or zero, for each value of a number: that of a facet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as prim

from formcompiler.kernel.names import names_in
from formcompiler.kernel.terms import product_of
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.edit import Editor

INDEXED = 4
"""Operations that a read or write at an index from a table counts as: it takes one number, vector code several."""

_NOISE = 64
"""Largest deviation from a multiple, in units of rounding of the largest entry of a table."""


@dataclass(frozen=True, eq=False)
class Multiples:
    """A table without columns of zeros, and one column for those that are multiples of it.

    With f for all numbers in front of the row, entry (f, q, columns[f, g, m]) of the table is
    ``values[f, q, g] * scales[f, g, m]``; where a number has fewer columns than others, values and scales are 0.

    Attributes:
        values: Axes (.., row, group).
        columns: Axes (.., group, member).
        scales: Axes (.., group, member).
    """

    values: npt.NDArray[Any]
    columns: npt.NDArray[np.int32]
    scales: npt.NDArray[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Return the number of groups, and of members of each."""
        n_groups, n_members = self.columns.shape[-2:]
        return n_groups, n_members

    @property
    def is_choice(self) -> bool:
        """Tell whether columns are only chosen, not multiplied."""
        return bool(self.shape[1] == 1 and (self.scales == 1).all())

    @property
    def key(self) -> tuple[bytes, bytes]:
        """Return what is equal for tables whose columns have the same groups and scales."""
        return self.columns.tobytes(), self.scales.tobytes()

    def read(self, editor: Editor, selectors: tuple[Any, ...], index: tuple[Any, ...]) -> Any:
        """Return the entry of the table of values at a row and a group."""
        return editor.table("T_group", self.values)[(*selectors, *index)]

    def members(self, editor: Editor, selectors: tuple[Any, ...], group: Any) -> list[tuple[Any, list[Any]]]:
        """Return for each member of a group its column, and the factors that it is multiplied with."""
        numbers = range(self.shape[1])
        columns = [_entry(editor, "column", self.columns, (*selectors, group, m)) for m in numbers]
        if self.is_choice:
            return [(column, []) for column in columns]
        return [
            (c, [_entry(editor, "scale", self.scales, (*selectors, group, m))])
            for m, c in zip(numbers, columns, strict=True)
        ]


def _entry(editor: Editor, wish: str, values: npt.NDArray[Any], index: tuple[Any, ...]) -> Any:
    """Return an entry of a table without the axes in front that it is constant along."""
    kept = [axis for axis in range(values.ndim) if axis >= values.ndim - 2 or np.ptp(values, axis=axis).any()]
    first = tuple(slice(None) if axis in kept else 0 for axis in range(values.ndim))
    return editor.table(wish, values[first])[tuple(index[axis] for axis in kept)]


def find_multiples(table: npt.NDArray[Any]) -> Multiples | None:
    """Return a table, axes (.., row, column), by groups of columns; None if every column is a group of its own.

    The first axes number the choices that groups are looked for in.
    """
    rows, n_columns = table.shape[-2:]
    flat = table.reshape(-1, rows, n_columns)
    found = [_group(part, _NOISE * np.finfo(table.dtype).eps * np.abs(table).max()) for part in flat]
    n_groups = max(1, *(len(groups) for groups in found))
    n_members = max((len(group) for groups in found for group in groups), default=1)
    if n_groups >= n_columns:
        return None
    values = np.zeros((len(flat), rows, n_groups), table.dtype)
    columns = np.zeros((len(flat), n_groups, n_members), np.int32)
    scales = np.zeros((len(flat), n_groups, n_members), table.dtype)
    if n_members == 1:
        scales += 1
    for number, groups in enumerate(found):
        for place, group in enumerate(groups):
            values[number, :, place] = flat[number][:, group[0][0]]
            for member, (column, scale) in enumerate(group):
                columns[number, place, member], scales[number, place, member] = column, scale
    first = table.shape[:-2]
    return Multiples(*(a.reshape(*first, *a.shape[1:]) for a in (values, columns, scales)))


def _group(table: npt.NDArray[Any], noise: float) -> list[list[tuple[int, float]]]:
    """Return groups of (column, multiple) of one table, axes (row, column), each with its largest column first."""
    sizes = np.abs(table).max(axis=0)
    order = sorted(np.flatnonzero(sizes), key=lambda column: (-round(float(sizes[column]), 9), column))
    groups: list[list[tuple[int, float]]] = []
    for column in map(int, order):
        for group in groups:
            first = table[:, group[0][0]]
            at = int(np.abs(first).argmax())
            scale = _snapped(float(table[at, column] / first[at]))
            if np.abs(table[:, column] - scale * first).max() <= noise:
                group.append((column, scale))
                break
        else:
            groups.append([(column, 1.0)])
    return sorted(groups)


def _snapped(scale: float) -> float:
    """Return a multiple, 1 or -1 if it is that up to rounding."""
    return float(np.sign(scale)) if abs(abs(scale) - 1) <= 1e-13 else scale


def split_index(facts: Analysis, table: Any, row: str, column: str) -> tuple[Any, ...] | None:
    """Return the indices of a table in front of those of its row and column, None if it has none or others.

    They are the same in the whole kernel: made of arguments that it does not write.
    """
    *selectors, point, dof = (None, None, *table.index_tuple)[-max(2, len(table.index_tuple)) :]
    if not selectors or (point, dof) != (prim.Variable(row), prim.Variable(column)):
        return None
    names = frozenset[str]().union(*map(names_in, selectors))
    is_fixed = names <= facts.unwritten
    source: Any = facts.kernel.temporary_variables[table.aggregate.name]
    extents = (facts.trips.extent(row), facts.trips.extent(column))
    is_full = source.initializer.shape[-2:] == extents and source.initializer.dtype.kind == "f"
    return tuple(selectors) if is_fixed and is_full else None


def times(factors: list[Any], value: Any) -> Any:
    """Return the product of factors and a value."""
    return product_of([*factors, value])


def number_of(index: Sequence[str | int]) -> Any:
    """Return the only entry of an index as an expression."""
    (entry,) = index
    return prim.Variable(entry) if isinstance(entry, str) else entry
