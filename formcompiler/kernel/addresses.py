"""Places of array elements as linear expressions, for one value of a lane or for each."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import loopy as lp
import numpy.typing as npt
import pymbolic.primitives as prim
from pymbolic.mapper import WalkMapper

from formcompiler.errors import InternalCompilerError
from formcompiler.kernel.choices import with_numbers
from formcompiler.kernel.flops import is_box
from formcompiler.kernel.linearize import vector_inames
from formcompiler.kernel.names import names_in

Expression = Any


@dataclass(frozen=True)
class Linear:
    """A linear integer expression.

    Attributes:
        constant: The constant.
        terms: Factors of its atoms: inames, integer variables and entries of integer arrays.
    """

    constant: int
    terms: Mapping[Expression, int] = field(default_factory=dict)

    def scaled(self, factor: int) -> Linear:
        """Return a multiple."""
        return Linear(factor * self.constant, {atom: factor * f for atom, f in self.terms.items()})

    def __add__(self, other: Linear) -> Linear:
        terms = dict(self.terms)
        for atom, factor in other.terms.items():
            terms[atom] = terms.get(atom, 0) + factor
        return Linear(self.constant + other.constant, terms)

    @property
    def order(self) -> tuple[tuple[Expression, int], ...]:
        """Return the terms, those with large factors first."""
        return tuple(sorted(self.terms.items(), key=lambda item: -item[1]))


class AddressFinder:
    """Finds where elements of row-major arrays are.

    Args:
        shapes: Shape of each array.
        tables: Integers of constant tables, whose entries are replaced where a lane has its number.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], tables: Mapping[str, npt.NDArray[Any]]) -> None:
        self._shapes = shapes
        self._tables = tables

    def linear(self, expression: Expression, at: Mapping[str, int] | None = None) -> Linear:
        """Return an integer expression, with numbers for some inames.

        Raises:
            InternalCompilerError: if it is not linear.
        """
        at = at or {}
        if isinstance(expression, prim.Sum):
            result = Linear(0)
            for child in expression.children:
                result += self.linear(child, at)
            return result
        if isinstance(expression, prim.Product):
            return self._product(expression, at)
        if isinstance(expression, (prim.FloorDiv, prim.Remainder)):
            return self._division(expression, at)
        if isinstance(expression, prim.Variable) and expression.name in at:
            return Linear(at[expression.name])
        if isinstance(expression, prim.Subscript) and at:
            return self._entry(expression, at)
        if isinstance(expression, prim.ExpressionNode):
            return Linear(0, {expression: 1})
        return Linear(int(expression))

    def element(self, name: str, index: Sequence[Expression], at: Mapping[str, int] | None = None) -> Linear:
        """Return the offset of an element of an array, with numbers for some inames."""
        return self._offset(self._shapes.get(name, (0,)), index, at)

    def leading(self, name: str, index: Sequence[Expression]) -> Linear:
        """Return the offset along all axes but the last, given their indices."""
        return self._offset(self._shapes[name][:-1], index, None)

    def _offset(self, shape: Sequence[int], index: Sequence[Expression], at: Mapping[str, int] | None) -> Linear:
        result, stride = Linear(0), 1
        for extent, i in zip(reversed(shape), reversed(index), strict=True):
            result += self.linear(i, at).scaled(stride)
            stride *= extent
        return result

    def of_lanes(self, subscript: Any, lane: str, extent: int) -> tuple[Linear, ...]:
        """Return the offset of an element for each lane."""
        name, index = subscript.aggregate.name, subscript.index_tuple
        if lane not in names_in(index):
            return (self.element(name, index, {lane: 0}),) * extent
        is_affine = all(_is_affine(i, lane) for i in index)
        found = [self.element(name, index, {lane: n}) for n in range(min(2, extent) if is_affine else extent)]
        if len(found) < extent:
            first, step = found[0], found[1].constant - found[0].constant
            return tuple(Linear(first.constant + step * n, first.terms) for n in range(extent))
        return tuple(found)

    def _product(self, expression: Any, at: Mapping[str, int]) -> Linear:
        scale, rest = 1, None
        for factor in (self.linear(child, at) for child in expression.children):
            if not factor.terms:
                scale *= factor.constant
            elif rest is not None:
                raise InternalCompilerError(f"index is not linear: {expression}")
            else:
                rest = factor
        return Linear(scale) if rest is None else rest.scaled(scale)

    def _division(self, expression: Any, at: Mapping[str, int]) -> Linear:
        above, below = (self.linear(e, at) for e in (expression.numerator, expression.denominator))
        if above.terms or below.terms:
            raise InternalCompilerError(f"index is not linear: {expression}")
        is_quotient = isinstance(expression, prim.FloorDiv)
        return Linear(above.constant // below.constant if is_quotient else above.constant % below.constant)

    def _entry(self, expression: Any, at: Mapping[str, int]) -> Linear:
        """Return an entry of an integer array: its number, if that is known."""
        name = expression.aggregate.name
        if name in self._tables:
            place = self.element(name, expression.index_tuple, at)
            if not place.terms:
                return Linear(int(self._tables[name].flat[place.constant]))
        return Linear(0, {with_numbers(expression, at): 1})


@lru_cache(maxsize=1 << 14)
def _is_affine(index: Expression, lane: str) -> bool:
    """Return whether an index grows by the same number from each lane to the next, or not at all."""
    if lane not in names_in(index) or isinstance(index, prim.Variable):
        return True
    if isinstance(index, prim.Sum):
        return all(_is_affine(child, lane) for child in index.children)
    if isinstance(index, prim.Product):
        numbers = [child for child in index.children if not isinstance(child, prim.ExpressionNode)]
        return len(numbers) == len(index.children) - 1 and all(_is_affine(child, lane) for child in index.children)
    return False


def find_pieces(offsets: Sequence[int]) -> list[int]:
    """Return where pieces of an array start, as long as a vector, in which elements with these offsets lie.

    No piece reaches beyond the first or the last element; there are none if these are too close to one another.
    """
    width = len(offsets)
    last = max(offsets) - width + 1
    starts: list[int] = []
    for offset in sorted(set(offsets)):
        if not starts or offset >= starts[-1] + width:
            starts.append(min(offset, last))
    return starts if last >= min(offsets) else []


def find_used_columns(kernel: lp.LoopKernel) -> dict[str, int]:
    """Return how many of the first entries along the last axis of each temporary are in use, where that is known."""
    finder, collector = address_finder(kernel), _AccessCollector()
    for instruction in kernel.instructions:
        collector(instruction.assignee)
        collector(instruction.expression)
    fixed = [iname for iname in sorted(kernel.all_inames()) if is_box(kernel, iname)]
    extents = {iname: int(kernel.get_constant_iname_length(iname)) for iname in fixed}
    lanes = vector_inames(kernel)
    used: dict[str, int] = {}
    for name, index in collector.found:
        if name in kernel.temporary_variables:
            last = [extents[lane] for lane in lanes & names_in(index)]
            names = sorted(lanes & names_in(index))
            values = [
                finder.linear(index, dict(zip(names, at, strict=True))) for at in itertools.product(*map(range, last))
            ]
            used[name] = max(used.get(name, 0), *(1 + _upper_bound(value, extents) for value in values))
    return used


def _upper_bound(value: Linear, extents: Mapping[str, int]) -> int:
    """Return an upper bound of a linear expression in inames; a huge one if there are other atoms."""
    bound = value.constant
    for atom, factor in value.terms.items():
        if not isinstance(atom, prim.Variable) or atom.name not in extents:
            return sys.maxsize - 1
        bound += max(0, factor * (extents[atom.name] - 1))
    return bound


class _AccessCollector(WalkMapper[[]]):
    """Collects arrays with their last index."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[tuple[str, Any], None] = {}

    def map_subscript(self, expr: Any) -> None:
        self.found[expr.aggregate.name, expr.index_tuple[-1]] = None
        for index in expr.index_tuple:
            self.rec(index)


def address_finder(kernel: lp.LoopKernel) -> AddressFinder:
    """Return the finder of a kernel's arrays."""
    arrays = {**kernel.arg_dict, **kernel.temporary_variables}
    tables = {
        name: t.initializer
        for name, t in kernel.temporary_variables.items()
        if t.initializer is not None and t.initializer.dtype.kind in "iu"
    }
    return AddressFinder({name: getattr(a, "shape", ()) for name, a in arrays.items()}, tables)
