"""Rows of lanes: instructions that set entries of an array next to one another, all by the same formula.

``x[q, 0] = v + 0.1 * d; x[q, 1] = v + 0.5 * d; ..`` becomes ``x[q, lane] = v + t[lane] * d`` with a table t of the
numbers: the lanes are the points that a contraction produces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as prim

from formcompiler.kernel.names import names_in
from formcompiler.vectorize.cells import target_of


@dataclass(frozen=True)
class Row:
    """Instructions that become one.

    Attributes:
        instructions: The instructions, in the order of the entries that they set.
        start: Last index of the first entry.
    """

    instructions: tuple[Any, ...]
    start: int


def find_rows(instructions: Sequence[Any], lanes: int) -> Iterator[Row]:
    """Find runs of at least three instructions that can become one, at most so many as there are lanes."""
    place = 0
    while place < len(instructions):
        length = _length(instructions[place : place + lanes])
        if length >= 3:
            yield Row(tuple(instructions[place : place + length]), int(instructions[place].assignee.index_tuple[-1]))
        place += length


def _length(instructions: Sequence[Any]) -> int:
    """Return how many instructions at the beginning belong together."""
    first = instructions[0]
    target: Any = first.assignee
    if type(target) is not prim.Subscript or isinstance(target.index_tuple[-1], prim.ExpressionNode):
        return 1
    if target_of(first) in names_in(first.expression) or first.predicates:
        return 1
    n = 1
    while n < len(instructions) and _is_next(first, instructions[n], n):
        n += 1
    return n


def _is_next(first: Any, other: Any, distance: int) -> bool:
    a, b = first.assignee, other.assignee
    if not isinstance(b, prim.Subscript) or a.aggregate != b.aggregate or other.predicates:
        return False
    is_beside = a.index_tuple[:-1] == b.index_tuple[:-1] and b.index_tuple[-1] == a.index_tuple[-1] + distance
    return (
        bool(is_beside)
        and first.within_inames == other.within_inames
        and is_same_formula(first.expression, other.expression)
    )


def is_same_formula(first: Any, second: Any) -> bool:
    """Return whether two expressions differ in numbers only, and not in indices."""
    if first == second:
        return True
    if not isinstance(first, prim.ExpressionNode) or not isinstance(second, prim.ExpressionNode):
        return isinstance(first, float) and isinstance(second, float)
    if type(first) is not type(second) or not isinstance(first, (prim.Sum, prim.Product)):
        return False
    a, b = (list(e.children) for e in (first, second) if isinstance(e, (prim.Sum, prim.Product)))
    return len(a) == len(b) and all(is_same_formula(x, y) for x, y in zip(a, b, strict=True))


def merge(expressions: Sequence[Any], make_table: Callable[[Sequence[float]], Any]) -> Any:
    """Return the formula of some expressions, with tables where their numbers differ.

    Args:
        expressions: Expressions that differ in numbers only.
        make_table: Returns the entry of a table of some numbers at the lane.
    """
    first: Any = expressions[0]
    if all(e == first for e in expressions):
        return first
    if isinstance(first, (prim.Sum, prim.Product)):
        columns = zip(*(e.children for e in expressions), strict=True)
        return type(first)(tuple(merge(parts, make_table) for parts in columns))
    return make_table(expressions)
