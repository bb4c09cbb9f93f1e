"""Vectors whose lanes are the halves of a cell along all of its directions: quadrants, octants.

A line of n entries has two halves of m = ⌈n/2⌉ entries, each counted from its own end, so that mirrored entries have
the same number; an entry in the middle is in both. An array over d directions becomes m × .. × m vectors of 2^d lanes:
bit r of a lane's number, the first direction first, is the half along direction r. So all lanes are in use if n is
even, whatever the number of lanes, and no direction differs from others: a contraction reads vectors and, where a line
crosses its middle, the same vectors with pairs of lanes exchanged. With M the matrix, P that of the same half, Q that
of the opposite one,

    y[i, half] = Σ_a P[i, a, half] x[a, half] + Q[i, a, half] x[a, other half]

has as many multiplications for a vector of lines as the plain product of one line has for one. If M is symmetric about
the middle, P and Q do not depend on the half: they are numbers, not vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as prim

from formcompiler.elements.cells import FloatArray
from formcompiler.kernel.builder import Expression, KernelBuilder
from formcompiler.kernel.terms import scaled
from formcompiler.sumfact.lines import LineMatrix

MAX_WRITTEN_OUT = 32
"""More vectors are loaded and stored by a loop."""


def half(extent: int) -> int:
    """Return the number of entries of one half of a line."""
    return (extent + 1) // 2


class Halves:
    """The lanes of a kernel whose arrays are stored in halves.

    Args:
        builder: The kernel under construction.
        dim: Number of directions.
    """

    def __init__(self, builder: KernelBuilder, dim: int) -> None:
        self.n_lanes = 2**dim
        self.lane = builder.lane(self.n_lanes)
        self._builder = builder
        self._dim = dim

    def flat_index(self, extents: Sequence[int], index: Sequence[Expression]) -> Expression:
        """Return where a lane of a vector is if all vectors of an array stand one after another."""
        place: Expression = 0
        for extent, i in zip(extents, index, strict=True):
            place = place * half(extent) + i
        return self.n_lanes * place + self.lane

    def entries(self, extents: Sequence[int]) -> npt.NDArray[np.int64]:
        """Return which entry of an array each lane of each vector is, one vector after another.

        Args:
            extents: Extents of the array; those of 1 have the same entry in both halves.
        """
        numbers = np.arange(np.prod(extents)).reshape(extents)
        vectors = product(*(range(half(extent)) for extent in extents))
        lanes = list(product((0, 1), repeat=self._dim))
        return np.array(
            [
                numbers[tuple(a if h == 0 else n - 1 - a for a, h, n in zip(vector, lane, extents, strict=True))]
                for vector in vectors
                for lane in lanes
            ]
        )

    def table(self, wish: str, values: npt.NDArray[Any]) -> Callable[[Sequence[Expression]], Expression]:
        """Return access to a table whose axes are the directions, given the indices of a vector."""
        extents = values.shape
        stored = values.ravel()[self.entries(extents)].reshape(*map(half, extents), self.n_lanes)
        name = prim.Variable(self._builder.table(wish, stored))
        return lambda index: name[(*index, self.lane)]

    def load(self, vector: str, value: Expression, dtype: Any) -> tuple[Expression, str]:
        """Assign a value to a new vector; return the vector and its name."""
        name = self._builder.temporary(vector, (self.n_lanes,), dtype)
        self._builder.assign(prim.Variable(name)[self.lane], value)
        return prim.Variable(name)[self.lane], name

    def opposite(self, name: str, direction: int, dtype: Any) -> Expression:
        """Return a new vector: one with the halves along a direction exchanged."""
        partners = np.arange(self.n_lanes) ^ self._bit(direction)
        table = prim.Variable(self._builder.table("opposite_lane", partners))
        return self.load("opposite", prim.Variable(name)[table[self.lane]], dtype)[0]

    def multiply(
        self, matrix: LineMatrix, direction: int, line: Sequence[tuple[Expression, Expression | None]]
    ) -> Iterator[list[Expression]]:
        """Find the terms of each entry of the product of a matrix and lines.

        Args:
            matrix: The matrix, with known numbers.
            direction: Direction of the lines.
            line: Vectors of one half, with those of the other half; the entry in the middle has None.
        """
        is_same = matrix.parity > 0
        mirrored = matrix.values[::-1, ::-1]
        known = (matrix.values + matrix.parity * mirrored) / 2 if matrix.parity else matrix.values
        values = self._by_lane(known, direction)
        table: Any = None if is_same else prim.Variable(self._builder.table("half", values))
        for row, of_row in enumerate(values):
            terms: list[Expression] = []
            for column, (own, opposite) in enumerate(line):
                for other, vector in _merged(of_row[column], own, opposite):
                    if not of_row[column, other].any():
                        continue
                    if table is None:
                        terms += scaled(of_row[column, other, 0], vector)
                    else:
                        terms.append(prim.Product((table[row, column, other, self.lane], vector)))
            yield terms

    def _by_lane(self, values: FloatArray, direction: int) -> FloatArray:
        """Return the numbers for each lane, axes (row, column, same half or other one, lane)."""
        n_rows, n_columns = values.shape
        found = np.empty((half(n_rows), half(n_columns), 2, self.n_lanes))
        for row, column, other, lane in np.ndindex(*found.shape):
            of_row = bool(lane & self._bit(direction))
            of_column = of_row != bool(other)
            found[row, column, other, lane] = values[
                n_rows - 1 - row if of_row else row, n_columns - 1 - column if of_column else column
            ]
        return found

    def _bit(self, direction: int) -> int:
        return 1 << (self._dim - 1 - direction)

    def gather(
        self, extents: Sequence[int], numbers: npt.NDArray[Any]
    ) -> Iterator[tuple[tuple[Expression, ...], Expression]]:
        """Open loops if there are many vectors; give the indices of each vector, and the number of each of its lanes.

        Args:
            extents: Extents of the array.
            numbers: Number of each entry.
        """
        table = prim.Variable(self._builder.table("gather", numbers.ravel()[self.entries(extents)]))
        counts = list(map(half, extents))
        if np.prod(counts) > MAX_WRITTEN_OUT:
            with self._builder.loops(*((f"i{r}", n) for r, n in enumerate(counts))) as index:
                yield index, table[self.flat_index(extents, index)]
            return
        for index in product(*map(range, counts)):
            yield index, table[self.flat_index(extents, index)]

    def scatter(self, extents: Sequence[int], numbers: npt.NDArray[Any]) -> Iterator[tuple[Expression, Expression]]:
        """Open loops if there are many numbers; give numbers one after another, and where their entries are.

        Args:
            extents: Extents of the array.
            numbers: Number of each entry: a permutation.
        """
        position = np.full(numbers.size, -1)
        for place, entry in reversed(list(enumerate(self.entries(extents)))):
            position[numbers.ravel()[entry]] = place
        table = prim.Variable(self._builder.table("scatter", position))
        n_blocks, rest = divmod(numbers.size, self.n_lanes)
        if n_blocks > MAX_WRITTEN_OUT:
            with self._builder.loop("n", n_blocks) as block:
                yield self.n_lanes * block + self.lane, table[self.n_lanes * block + self.lane]
        else:
            for block in range(n_blocks):
                yield self.n_lanes * block + self.lane, table[self.n_lanes * block + self.lane]
        if rest:
            last = (self._builder.lane(rest) if rest > 1 else 0) + self.n_lanes * n_blocks
            yield last, table[last]


def _merged(numbers: FloatArray, own: Expression, opposite: Expression | None) -> list[tuple[int, Expression]]:
    """Return what the numbers of one half, or both, multiply: a sum where they are the same up to a sign.

    They are in the row of the middle, where this spares a product.

    Args:
        numbers: Axes (same half or other one, lane).
        own: A vector.
        opposite: The vector with the halves exchanged, None if both halves have the same entry.
    """
    if opposite is None:
        return [(0, own)]
    if (numbers[0] == numbers[1]).all():
        return [(0, own + opposite)]
    if (numbers[0] == -numbers[1]).all():
        return [(0, own - opposite)]
    return [(0, own), (1, opposite)]
