"""Expressions that have a different value for each lane, chosen by the number of the lane."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pymbolic.primitives as prim
from pymbolic.mapper import IdentityMapper

from formcompiler.kernel.names import names_in

Expression = Any

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""What the signs of comparisons mean."""


def choose(values: Sequence[Expression], lane: Expression) -> Expression:
    """Return an expression with a value for each number of a lane."""
    result = values[-1]
    for n in reversed(range(len(values) - 1)):
        result = prim.If(prim.Comparison(lane, "==", n), values[n], result)
    return result


def is_choice(expression: Expression, lane: str) -> bool:
    """Return whether an expression chooses its value by nothing but the number of a lane."""
    return isinstance(expression, prim.If) and names_in(expression.condition) == {lane}


def with_numbers(expression: Expression, at: Mapping[str, int]) -> Expression:
    """Return an expression with numbers for some inames, and with what they decide decided."""
    return _WithNumbers(at)(expression)


class _WithNumbers(IdentityMapper[[]]):
    """Puts in numbers for inames, also in quotients and remainders of theirs, and decides what they decide."""

    def __init__(self, at: Mapping[str, int]) -> None:
        super().__init__()
        self._at = at

    def map_variable(self, expr: Any) -> Any:
        return self._at.get(expr.name, expr)

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
                return self.rec(expr.then if COMPARISONS[str(condition.operator)](left, right) else expr.else_)
        return prim.If(self.rec(condition), self.rec(expr.then), self.rec(expr.else_))

    def map_call(self, expr: Any) -> Any:
        return prim.Call(expr.function, tuple(map(self.rec, expr.parameters)))
