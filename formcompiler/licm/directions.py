"""What sums over dofs and over points that are carried out direction by direction have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as prim
from loopy.schedule import EnterLoop, LeaveLoop, ScheduleItem

from formcompiler.kernel.names import names_in
from formcompiler.kernel.terms import scaled, sum_of
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.edit import Editor
from formcompiler.licm.evaluate import at_value
from formcompiler.licm.nest import Loops
from formcompiler.licm.separable import FloatArray, Separable, separate
from formcompiler.licm.substitute import substitute

_LONGEST = 16
"""Most terms that a contraction of one direction writes out."""

Index = list[str | int]
"""Inames, and numbers in directions without a loop."""


@dataclass(frozen=True, eq=False)
class Factor:
    """The table of one direction without rows that repeat.

    Attributes:
        number: Number of the factor; those that are the same up to rounding have the same.
        values: Distinct rows, axes (row, column).
        row_of: Number of the distinct row for each row.
    """

    number: int
    values: FloatArray
    row_of: npt.NDArray[np.int64]

    @property
    def is_constant(self) -> bool:
        """Tell whether all rows are the same."""
        return len(self.values) == 1

    @property
    def is_identity(self) -> bool:
        """Tell whether nothing is to be done."""
        n, m = self.values.shape
        return n == m and np.array_equal(self.values, np.eye(n))


@dataclass(frozen=True, eq=False)
class Family:
    """Tables over the same points and dofs that are products over directions.

    Attributes:
        columns: Number of the dof for each index in all directions.
        factors: For each table and direction its factor.
    """

    columns: npt.NDArray[np.int64]
    factors: tuple[tuple[Factor, ...], ...]

    @property
    def n_points(self) -> tuple[int, ...]:
        """Return the number of points in each direction."""
        return tuple(len(factor.row_of) for factor in self.factors[0])

    def constant_first(self, number: int, order: Sequence[int]) -> list[int]:
        """Return an order of directions for one table: first those with functions that are the same at all points."""
        return sorted(order, key=lambda direction: not self.factors[number][direction].is_constant)

    def orders(self) -> Iterator[tuple[int, ...]]:
        """Yield the orders in which directions can be contracted."""
        return permutations(range(self.columns.ndim))


def find_family(tables: Sequence[FloatArray]) -> Family | None:
    """Return tables, axes (point, dof), as a family; None if they are none, too large, or not in double precision."""
    if any(table.dtype != np.float64 for table in tables):
        return None
    found: Separable | None = separate(tables)
    if found is None or max(found.columns.shape) > _LONGEST:
        return None
    known: list[Factor] = []
    family = Family(found.columns, tuple(tuple(_compress(v, known) for v in own) for own in found.factors))
    return family if max(family.n_points) <= _LONGEST else None


def _compress(values: FloatArray, known: list[Factor]) -> Factor:
    """Return a table as a factor, one that is known already if it is the same."""
    kept: list[int] = []
    row_of = []
    for number, row in enumerate(values):
        same = (n for n, other in enumerate(kept) if np.abs(row - values[other]).max() <= 1e-14)
        row_of.append(next(same, len(kept)))
        if row_of[-1] == len(kept):
            kept.append(number)
    new = Factor(len(known), np.ascontiguousarray(values[kept]), np.array(row_of))
    for factor in known:
        is_like = factor.values.shape == new.values.shape and np.array_equal(factor.row_of, new.row_of)
        if is_like and np.abs(factor.values - new.values).max() <= 1e-13:
            return factor
    known.append(new)
    return new


@dataclass(frozen=True)
class Values:
    """Values for each index in all directions, stored one after the other, last direction fastest.

    Attributes:
        at: Returns the access to the value with a number.
        extents: Number of indices in each direction.
    """

    at: Callable[[Any], Any]
    extents: tuple[int, ...]

    def __call__(self, index: Sequence[Any]) -> Any:
        """Return the access to the value at an index."""
        literal, terms, stride = 0, [], 1
        for i, extent in zip(reversed(index), reversed(self.extents), strict=True):
            if isinstance(i, str):
                terms.append(prim.Variable(i) if stride == 1 else stride * prim.Variable(i))
            else:
                literal += i * stride
            stride *= extent
        parts = (*reversed(terms), *([literal] if literal or not terms else []))
        return self.at(sum_of(parts))


class DirectionLoops:
    """Loops around contractions, in front of or behind a loop over points; those of one level and size are shared.

    Args:
        facts: The kernel as it was.
        editor: Where the instructions go.
        outer: Loops around the loop over points.
    """

    def __init__(self, facts: Analysis, editor: Editor, outer: Loops) -> None:
        self._facts = facts
        self._editor = editor
        self._outer = outer
        self._levels: dict[tuple[int, tuple[int, ...]], tuple[Index, list[ScheduleItem]]] = {}

    @property
    def items(self) -> list[ScheduleItem]:
        """Return all loops, those of the first level first."""
        items: list[ScheduleItem] = []
        for _, (index, runs) in sorted(self._levels.items(), key=lambda entry: entry[0][0]):
            inames = [i for i in index if isinstance(i, str)]
            items += [EnterLoop(iname=i) for i in inames]
            items += runs
            items += [LeaveLoop(iname=i) for i in reversed(inames)]
        return items

    def open(self, level: int, extents: tuple[int, ...]) -> Index:
        """Return the index inside of the loops of a level, 0 in directions with one index only."""
        if (level, extents) not in self._levels:
            index: Index = [self._editor.loop("k", n) if n > 1 else 0 for n in extents]
            self._levels[level, extents] = (index, [])
        return self._levels[level, extents][0]

    def assign(self, level: int, extents: tuple[int, ...], target: Any, terms: Sequence[Any]) -> None:
        """Write an instruction that sets a target to a sum."""
        index = self.open(level, extents)
        loops = [*self._outer, *(i for i in index if isinstance(i, str))]
        self._levels[level, extents][1].append(self._editor.assign(target, sum_of(terms), loops, "direction"))

    def array(self, like: Any, wish: str, dtype: Any, extents: tuple[int, ...]) -> Values:
        """Add an array of values that have the lanes of an expression."""
        lanes = sorted(names_in(like) & self._facts.nest.lanes)
        array = self._editor.temporary(wish, dtype, ("k", *lanes), (math.prod(extents),)).aggregate
        return Values(lambda i: array[(i, *map(prim.Variable, lanes))], extents)

    def dofs(self, access: Any, iname: str, columns: npt.NDArray[np.int64]) -> Values:
        """Return dofs in the order of directions.

        Args:
            access: Access to a dof.
            iname: Iname of its number.
            columns: Number of the dof for each index in all directions.
        """
        numbers = columns.ravel()

        def at(index: Any) -> Any:
            if isinstance(index, int):
                return at_value(access, iname, int(numbers[index]))
            return substitute({iname: self.numbered("column", numbers, index)})(access)

        return Values(at, columns.shape)

    def numbered(self, wish: str, numbers: npt.NDArray[np.int64], index: Any) -> Any:
        """Return one of some numbers, the index itself if they count up."""
        if np.array_equal(numbers, np.arange(len(numbers))):
            return index
        return self._editor.table(wish, numbers.astype(np.int32))[(index,)]

    def contraction(self, matrix: FloatArray, direction: int, index: Index, values: Values) -> list[Any]:
        """Return the terms of a contraction of one direction of values with a matrix, axes (result, operand)."""
        terms = []
        row = index[direction]
        for column in range(matrix.shape[1]):
            old = values([column if d == direction else i for d, i in enumerate(index)])
            if isinstance(row, int):
                terms += scaled(float(matrix[row, column]), old)
            else:
                table = self._editor.table("T_direction", matrix)
                terms.append(prim.Product((table[prim.Variable(row), column], old)))
        return terms


def count_contraction(matrix: FloatArray) -> int:
    """Return the operations of the product of a matrix and a vector, one row with numbers in the text."""
    rows, columns = matrix.shape
    if rows == 1:
        return max(0, 2 * int(np.count_nonzero(matrix)) - 1 - int(np.count_nonzero(np.abs(matrix) == 1)))
    return int(rows * (2 * columns - 1))
