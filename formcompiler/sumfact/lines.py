"""Matrices applied along one line of an array, written out without loops and with as few operations as possible.

*Even-odd decomposition.* If points and basis functions are symmetric about the middle of the interval, so is the
matrix: ``M[-1-a, -1-b] = s M[a, b]``, s = 1 for values and even derivatives, -1 for odd ones. Then its product with a
vector splits into two products of half the size, with sums and differences of opposite entries, which halves the
multiplications (A. Solomonoff, A fast algorithm for spectral differentiation, J. Comput. Phys. 98, 1992).

*Cancellation.* Derivatives of constants vanish: in the half that maps sums to differences, each row adds up to zero (if
there is no node in the middle). Then one column is spared by differences of the sums, and in the transposed matrix the
last row is minus the sum of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pymbolic.primitives as prim

from formcompiler.elements.cells import FloatArray
from formcompiler.kernel.builder import Expression, KernelBuilder
from formcompiler.kernel.terms import scaled, sum_of

_NOISE = 1e-13


@dataclass(frozen=True, eq=False)
class LineMatrix:
    """A matrix that is applied along lines.

    Attributes:
        values: Axes (entry after, entry before).
    """

    values: FloatArray

    @cached_property
    def parity(self) -> int:
        """Return s as in the module's comment, 0 if there is no such symmetry."""
        mirrored = self.values[::-1, ::-1]
        scale = _NOISE * np.abs(self.values).max(initial=0.0)
        for sign in (1, -1):
            if np.abs(self.values - sign * mirrored).max(initial=0.0) <= scale:
                return sign
        return 0

    def first_rows(self, n: int) -> LineMatrix:
        """Return the matrix of the first n rows."""
        return self if n == len(self.values) else LineMatrix(self.values[:n])

    @cached_property
    def halves(self) -> tuple[FloatArray, FloatArray]:
        """Return the matrices that act on sums and on differences, axes (row of the first half, entry of it)."""
        rows, columns = self.values.shape
        top = self.values[: (rows + 1) // 2]
        mirrored = top[:, ::-1]
        even = (top + mirrored)[:, : (columns + 1) // 2] / 2
        odd = (top - mirrored)[:, : columns // 2] / 2
        scale = _NOISE * np.abs(self.values).max(initial=0.0)
        even[np.abs(even) <= scale] = 0.0
        odd[np.abs(odd) <= scale] = 0.0
        return even, odd

    @cached_property
    def n_operations(self) -> int:
        """Return the operations of one line, a multiplication with an addition counted as one."""
        plain = int(np.count_nonzero(self.values))
        if self.is_linear:
            return 1 + len(self.values)
        return min(plain, self._n_split()) if self.parity else plain

    @property
    def is_linear(self) -> bool:
        """Return whether this is interpolation between two values: each row adds up to 1."""
        two = self.values.shape[1] == 2 and len(self.values) > 1
        return two and bool(np.abs(self.values.sum(axis=1) - 1).max() < _NOISE)

    @property
    def splits(self) -> bool:
        """Return whether the even-odd decomposition takes no more operations."""
        return not self.is_linear and self.parity != 0 and self._n_split() <= int(np.count_nonzero(self.values))

    def _n_split(self) -> int:
        rows, columns = self.values.shape
        return sum(map(_n_half, self.halves)) + 2 * (int(columns) // 2) + 2 * (int(rows) // 2)


class LineWriter:
    """Writes products of matrices with the lines of one loop nest; lines that occur twice are split once.

    Args:
        builder: The kernel under construction.
        dtype: Type of the numbers.
    """

    def __init__(self, builder: KernelBuilder, dtype: Any) -> None:
        self._builder = builder
        self._dtype = dtype
        self._split: dict[tuple[str, ...], tuple[list[Expression], list[Expression]]] = {}

    def name(self, wish: str, value: Expression) -> Expression:
        """Assign a value to a new variable and return it."""
        variable = prim.Variable(self._builder.temporary(wish, (), self._dtype))
        self._builder.assign(variable, value)
        return variable

    def multiply(
        self, products: Sequence[tuple[LineMatrix, Sequence[Expression]]], added: Sequence[Sequence[Expression]] = ()
    ) -> list[Expression]:
        """Return the entries of the sum of products of matrices and lines, plus lines that are added as they are.

        Args:
            products: Matrices of equally many rows with the names of the entries of their lines.
            added: Entries of further lines.
        """
        n_rows = len(products[0][0].values) if products else len(added[0])
        terms: list[list[Expression]] = [[] for _ in range(n_rows)]
        split = [(m, line) for m, line in products if m.splits]
        for matrix, line in products:
            if not matrix.splits:
                self._add_plain(terms, matrix, line)
        for line in added:
            for row, value in zip(terms, line, strict=True):
                row.append(value)
        if split:
            self._add_split(terms, split)
        return [sum_of(row) for row in terms]

    def _add_plain(self, terms: list[list[Expression]], matrix: LineMatrix, line: Sequence[Expression]) -> None:
        if matrix.is_linear:
            step = self.name("step", line[1] - line[0])
            for found, (_, second) in zip(terms, matrix.values, strict=True):
                found.extend([line[0], *scaled(second, step)])
            return
        for row, found in enumerate(terms):
            for column, value in enumerate(line):
                found.extend(scaled(matrix.values[row, column], value))

    def _add_split(
        self, terms: list[list[Expression]], products: Sequence[tuple[LineMatrix, Sequence[Expression]]]
    ) -> None:
        """Add products of the parts of a vector: what is even in the result, and what is odd."""
        n_rows = len(terms)
        even: list[list[Expression]] = [[] for _ in range((n_rows + 1) // 2)]
        odd: list[list[Expression]] = [[] for _ in even]
        for matrix, line in products:
            of_sums, of_differences = (even, odd) if matrix.parity > 0 else (odd, even)
            for half, values, found in zip(matrix.halves, self._halve(line), (of_sums, of_differences), strict=True):
                self._add_half(found, half, values)
        for row in range(len(even)):
            opposite = n_rows - 1 - row
            if opposite == row:
                terms[row].extend(even[row])
                continue
            sym, skew = self._part("sym", even[row]), self._part("skew", odd[row])
            terms[row] += sym + skew
            terms[opposite] += sym + [_negated(value) for value in skew]

    def _add_half(self, terms: list[list[Expression]], half: FloatArray, values: Sequence[Expression]) -> None:
        """Add the product of one half of a matrix with sums or differences, axes of the half (row, value)."""
        if _spares_column(half):
            steps = [self.name("step", value - values[0]) for value in values[1:]]
            self._add_half(terms, half[:, 1:], steps)
            return
        if _spares_row(half):
            rows: list[list[Expression]] = [[] for _ in half[1:]]
            self._add_half(rows, half[:-1], values)
            names = [name for row in rows for name in self._part("part", row)]
            for found, name in zip(terms, names, strict=False):
                found.append(name)
            terms[len(half) - 1].extend(_negated(name) for name in names)
            return
        for found, factors in zip(terms, half, strict=False):
            for factor, value in zip(factors, values, strict=True):
                found.extend(scaled(factor, value))

    def _part(self, wish: str, terms: Sequence[Expression]) -> list[Expression]:
        """Return one part of a result, named if it takes operations, or nothing if there are no terms."""
        is_name = len(terms) == 1 and prim.Variable in (type(terms[0]), type(_negated(terms[0])))
        return [terms[0] if is_name else self.name(wish, sum_of(terms))] if terms else []

    def _halve(self, line: Sequence[Expression]) -> tuple[list[Expression], list[Expression]]:
        """Return names of the sums and the differences of opposite entries; the one in the middle is a sum."""
        key = tuple(str(value) for value in line)
        if key not in self._split:
            n = len(line)
            pairs = [(line[i], line[n - 1 - i]) for i in range(n // 2)]
            sums = [self.name("even", a + b) for a, b in pairs]
            differences = [self.name("odd", a - b) for a, b in pairs]
            self._split[key] = ([*sums, line[n // 2]] if n % 2 else sums, differences)
        return self._split[key]


def _cancels(half: FloatArray, axis: int) -> bool:
    """Return whether all entries along an axis add up to zero, and there are some."""
    scale = np.abs(half).max(initial=0.0)
    return bool(scale) and bool(np.abs(half.sum(axis=axis)).max() <= _NOISE * scale)


def _spares_column(half: FloatArray) -> bool:
    """Return whether differences to the first entry of a vector take fewer operations than the entries."""
    return half.shape[1] <= len(half) and _cancels(half, 1)


def _spares_row(half: FloatArray) -> bool:
    """Return whether the last row is minus the sum of the others, and takes fewer operations so."""
    return 2 <= len(half) <= half.shape[1] + 1 and _cancels(half, 0)


def _n_half(half: FloatArray) -> int:
    """Return the operations of `LineWriter._add_half`, a multiplication with an addition counted as one."""
    if _spares_column(half):
        return int(half.shape[1]) - 1 + int(np.count_nonzero(half[:, 1:]))
    if _spares_row(half):
        return len(half) - 2 + int(np.count_nonzero(half[:-1]))
    return int(np.count_nonzero(half))


def _negated(value: Expression) -> Expression:
    """Return minus a value, without a second sign before one that has one."""
    has_sign = isinstance(value, prim.Product) and len(value.children) == 2 and value.children[0] == -1
    return value.children[1] if has_sign else -value
