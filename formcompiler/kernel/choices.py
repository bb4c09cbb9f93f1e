"""Expressions that have a different value for each lane, chosen by the number of the lane."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import pymbolic.primitives as prim
from loopy.symbolic import get_dependencies
from pymbolic.mapper import IdentityMapper

Expression = Any

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def choose(values: Sequence[Expression], lane: Expression) -> Expression:
    """Return an expression with a value for each number of a lane."""
    result = values[-1]
    for n in reversed(range(len(values) - 1)):
        result = prim.If(prim.Comparison(lane, "==", n), values[n], result)
    return result


def is_choice(expression: Expression, lane: str) -> bool:
    """Return whether an expression chooses its value by nothing but the number of a lane."""
    return isinstance(expression, prim.If) and get_dependencies(expression.condition) == {lane}


def value_in_lane(expression: Expression, lane: str, number: int) -> Expression:
    """Return the expression for one number of a lane."""
    return _OneLane(lane, number)(expression)


class _OneLane(IdentityMapper[[]]):
    """Puts in a number for a lane, and decides what it decides."""

    def __init__(self, lane: str, number: int) -> None:
        super().__init__()
        self._lane = lane
        self._number = number

    def map_variable(self, expr: Any) -> Any:
        return self._number if expr.name == self._lane else expr

    def _both(self, expr: Any) -> tuple[Any, Any]:
        return self.rec(expr.numerator), self.rec(expr.denominator)

    def map_floor_div(self, expr: Any) -> Any:
        above, below = self._both(expr)
        return above // below if isinstance(above, int) and isinstance(below, int) else prim.FloorDiv(above, below)

    def map_remainder(self, expr: Any) -> Any:
        above, below = self._both(expr)
        return above % below if isinstance(above, int) and isinstance(below, int) else prim.Remainder(above, below)

    def map_if(self, expr: Any) -> Any:
        condition = expr.condition
        if isinstance(condition, prim.Comparison):
            left, right = self.rec(condition.left), self.rec(condition.right)
            if isinstance(left, int) and isinstance(right, int):
                return self.rec(expr.then if _COMPARE[str(condition.operator)](left, right) else expr.else_)
        return prim.If(self.rec(condition), self.rec(expr.then), self.rec(expr.else_))

    def map_call(self, expr: Any) -> Any:
        return prim.Call(expr.function, tuple(map(self.rec, expr.parameters)))
