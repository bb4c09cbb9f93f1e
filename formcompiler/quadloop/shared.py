"""Blocks of a matrix whose values belong to several of its entries: collected over all points, then added to each.

Of a symmetric block, entries ``(i, (i + j) mod n)`` are computed, j = 0, .., n / 2: one of each pair of entries that
mirror each other, in a rectangle. So loops have constant bounds and arrays are read in order, unlike in a triangle.
For even n the entries of the last j come twice; half of them are left out when they are added to the result. Blocks
that are too large to be collected are added to the result at each point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pymbolic.primitives as prim

from formcompiler.kernel.builder import Expression, KernelBuilder

_SMALL = 16
"""Most entries of a block that are written one by one."""

_LARGEST = 1 << 15
"""Most values that are collected: they live on the stack, once for each lane."""


@dataclass(frozen=True)
class Dofs:
    """Rows or columns of the result.

    Attributes:
        start: The first one.
        stride: Distance of the next ones.
        n: Their number.
    """

    start: int
    stride: int
    n: int

    def at(self, number: Expression) -> Expression:
        """Return one of them."""
        return self.start + self.stride * number


@dataclass(frozen=True)
class Place:
    """A block of the result that gets the values.

    Attributes:
        rows: Its rows.
        columns: Its columns.
        is_transposed: Whether the values are mirrored.
        sign: Factor of the values: 1 or -1.
    """

    rows: Dofs
    columns: Dofs
    is_transposed: bool = False
    sign: int = 1

    def entry(self, i: Expression, j: Expression) -> Expression:
        """Return the entry of the result for a row and a column of the values."""
        row, column = (j, i) if self.is_transposed else (i, j)
        return prim.Variable("A")[self.rows.at(row), self.columns.at(column)]


class SharedBlock:
    """The values of one block, and where they belong.

    Args:
        builder: The kernel under construction.
        places: Blocks of the result, first the one that is computed.
        is_triangle: Whether the block is symmetric.

    Attributes:
        n_rows: Number of rows of the block.
        n_columns: Number of its columns.
        is_triangle: Whether just one of two entries that mirror each other is computed.
    """

    def __init__(self, builder: KernelBuilder, places: Sequence[Place], *, is_triangle: bool) -> None:
        self._builder = builder
        self._places = places
        self.n_rows = places[0].rows.n
        self.n_columns = places[0].columns.n
        self.is_triangle = is_triangle and self.n_rows > 1

    @property
    def is_small(self) -> bool:
        """Tell whether each entry may have a text of its own."""
        return self.n_rows * self.n_columns <= _SMALL

    @property
    def array_width(self) -> int:
        """Return the length of the second axis of the array."""
        return self.n_rows // 2 + 1 if self.is_triangle else self.n_columns

    @property
    def n_repeated(self) -> int:
        """Return how many columns of the block come after the last one once more."""
        return self.n_rows // 2 if self.is_triangle else 0

    @cached_property
    def array(self) -> Any:
        """Return the values, axes (row, column), or (row, column - row) if the block is symmetric."""
        return prim.Variable(self._builder.temporary("block", (self.n_rows, self.array_width)))

    @property
    def is_collected(self) -> bool:
        """Tell whether values are collected in the array."""
        return self.n_rows * self.array_width <= _LARGEST

    def clear(self) -> None:
        """Set all values to zero."""
        if not self.is_collected:
            return
        with self._builder.loops(("i", self.n_rows), ("j", self.array_width)) as (i, j):
            self._builder.assign(self.array[i, j], 0.0)

    def add(self, i: Expression, j: Expression, value: Expression) -> None:
        """Add to the value at one index of the array: there, or in all entries of the result that it belongs to.

        Without an array, entries of a symmetric block that come twice, and those on its diagonal, count half.
        """
        if self.is_collected:
            self._builder.accumulate(self.array[i, j], value)
            return
        column = j
        if self.is_triangle:
            share = np.ones(self.array_width)
            share[0] = 0.5
            share[self.n_rows - self.n_rows // 2 :] = 0.5
            value = prim.Product((prim.Variable(self._builder.table("share", share))[j], value))
            column = self.cyclic(i + j)
        name = prim.Variable(self._builder.temporary("entry", (), self._builder.value_type))
        self._builder.assign(name, value)
        self._add_value(i, column, name, is_mirrored=self.is_triangle)

    def add_entry(self, i: int, j: int, value: Expression) -> None:
        """Add the value of one entry to the result, without the array."""
        self._add_value(i, j, value, is_mirrored=self.is_triangle and i != j)

    def add_to_result(self) -> None:
        """Add what was collected to all entries of the result that it belongs to."""
        if not self.is_collected:
            return
        if not self.is_triangle:
            with self._builder.loops(("i", self.n_rows), ("j", self.array_width)) as (i, j):
                self._add_value(i, j, self.array[i, j], is_mirrored=False)
            return
        with self._builder.loop("i", self.n_rows) as i:
            self._add_value(i, i, self.array[i, 0], is_mirrored=False)
        n_pairs, half = (self.n_rows - 1) // 2, self.n_rows // 2
        if n_pairs:
            with self._builder.loops(("i", self.n_rows), ("j", n_pairs)) as (i, j):
                self._add_value(i, self.cyclic(i + j + 1), self.array[i, j + 1], is_mirrored=True)
        if self.n_rows % 2 == 0:
            with self._builder.loop("i", half) as i:
                self._add_value(i, i + half, self.array[i, half], is_mirrored=True)

    def cyclic(self, column: Expression) -> Expression:
        """Return the column that a column behind the last one stands for."""
        numbers = np.arange(self.n_rows + self.n_repeated) % self.n_rows
        return prim.Variable(self._builder.table("cyclic", numbers))[column]

    def _add_value(self, i: Expression, j: Expression, value: Expression, *, is_mirrored: bool) -> None:
        for place in self._places:
            signed = value if place.sign > 0 else -value
            self._builder.accumulate(place.entry(i, j), signed)
            if is_mirrored:
                self._builder.accumulate(place.entry(j, i), signed)
