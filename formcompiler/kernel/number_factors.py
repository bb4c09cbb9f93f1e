"""Numbers that sums and products are multiplied with, collected: symmetric gradients are full of halves and doubles.

    e = (g + g) / 2;  s = (g + h) / 2;  f = e * k + s * (k / 2) + s * (k / 2)
    ->  e = g;  s = g + h;  f = e * k + 0.5 * (s * k)

A definition may leave its number to those that use it, where that takes fewer operations in sum. Values change by
rounding only, not at all where the numbers are powers of two; what is compared, selected, or given to a function keeps
its value. Terms that cancel stay: what they cancel may be infinite.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pymbolic.primitives as prim
from pymbolic.mapper import IdentityMapper

from formcompiler.frontend.integrals import Integrand
from formcompiler.kernel.common_factors import count_point_operations
from formcompiler.kernel.terms import flat_operands, product_of, sum_of

Expression = Any
Scaled = tuple[float, Expression]
"""A number and what it multiplies."""


def collect_numbers(integrand: Integrand) -> Integrand:
    """Return the integrand with numeric factors collected, if that saves operations."""
    choices = [integrand, *(_Collector(leaves_numbers=leaves).rewrite(integrand) for leaves in (False, True))]
    return min(choices, key=count_point_operations)


class _Collector:
    """Rewrites one integrand.

    Args:
        leaves_numbers: Whether definitions leave their numbers to those that use them.
    """

    def __init__(self, *, leaves_numbers: bool) -> None:
        self._leaves_numbers = leaves_numbers
        self._left: dict[str, float] = {}
        self._inside = _ValuesInside(self)

    def rewrite(self, integrand: Integrand) -> Integrand:
        """Return the integrand with collected numbers."""
        definitions = tuple((name, self._define(name, expression)) for name, expression in integrand.definitions)
        terms = tuple(replace(term, factor=self.value(term.factor)) for term in integrand.terms)
        return replace(integrand, definitions=definitions, terms=terms)

    def _define(self, name: str, expression: Expression) -> Expression:
        number, rest = self.split(expression)
        if self._leaves_numbers and isinstance(rest, prim.ExpressionNode) and math.isfinite(number) and number:
            self._left[name] = abs(number)
            number = math.copysign(1.0, number)
        return _times(number, rest)

    def value(self, expression: Expression) -> Expression:
        """Return an expression with its value, numbers of definitions that it uses included."""
        return _times(*self.split(expression))

    def split(self, expression: Expression) -> Scaled:
        """Return an expression as a number times the rest of it; 1.0 is the rest of a number."""
        if isinstance(expression, (int, float)):
            return float(expression), 1.0
        if isinstance(expression, prim.Variable):
            return self._left.get(expression.name, 1.0), expression
        if isinstance(expression, prim.Product):
            parts = [self.split(child) for child in expression.children]
            factors = [rest for _, rest in parts if isinstance(rest, prim.ExpressionNode) or rest != 1]
            return math.prod(number for number, _ in parts), product_of(factors)
        if isinstance(expression, prim.Quotient):
            return self._split_quotient(expression)
        if isinstance(expression, prim.Sum):
            return self._split_sum(expression)
        if isinstance(expression, prim.ExpressionNode):
            return 1.0, self._inside.descend(expression)
        return 1.0, expression

    def _split_quotient(self, expression: Any) -> Scaled:
        above, numerator = self.split(expression.numerator)
        below, denominator = self.split(expression.denominator)
        if not below or not math.isfinite(above / below):
            return 1.0, self._inside.descend(expression)
        is_number = not isinstance(denominator, prim.ExpressionNode) and denominator == 1
        return above / below, numerator if is_number else prim.Quotient(numerator, denominator)

    def _split_sum(self, expression: Any) -> Scaled:
        terms = _add_up([self.split(child) for child in flat_operands(expression)])
        sizes = Counter(abs(number) for number, _ in terms)
        if not all(sizes) or not all(map(math.isfinite, sizes)):
            return 1.0, self._inside.descend(expression)
        common = 1.0 if sizes[1.0] else max(sizes, key=lambda size: sizes[size])
        parts: list[Expression] = []
        for size in sizes:
            signed = [_times(math.copysign(1.0, number), rest) for number, rest in terms if abs(number) == size]
            parts += signed if size == common else [_times(size / common, sum_of(signed))]
        return common, sum_of(parts)


def _add_up(parts: list[Scaled]) -> list[Scaled]:
    """Return terms with equal ones added up, unless they cancel."""
    numbers: dict[Any, float] = {}
    for number, rest in parts:
        numbers[_key(rest)] = numbers.get(_key(rest), 0.0) + number
    result: dict[Any, Scaled] = {}
    for position, (number, rest) in enumerate(parts):
        total = numbers[_key(rest)]
        key = _key(rest) if total else position
        result.setdefault(key, (total or number, rest))
    return list(result.values())


def _key(rest: Expression) -> Any:
    """Return what products of the same factors have in common."""
    return frozenset(Counter(rest.children).items()) if isinstance(rest, prim.Product) else rest


def _times(number: float, rest: Expression) -> Expression:
    if not isinstance(rest, prim.ExpressionNode) and rest == 1:
        return number
    if number == 1:
        return rest
    factors = rest.children if isinstance(rest, prim.Product) else (rest,)
    return product_of((-1 if number == -1 else number, *factors))


class _ValuesInside(IdentityMapper[[]]):
    """Replaces the operands of an operation by their values."""

    def __init__(self, collector: _Collector) -> None:
        super().__init__()
        self._collector = collector

    def descend(self, expression: Any) -> Expression:
        """Return an operation with the values of its operands."""
        return super().__call__(expression)

    def rec(self, expr: Any) -> Any:
        if isinstance(expr, (prim.Comparison, prim.LogicalAnd, prim.LogicalOr, prim.LogicalNot)):
            return super().rec(expr)
        return self._collector.value(expr)

    rec_arith = rec

    def map_call(self, expr: Any) -> Any:
        return type(expr)(expr.function, tuple(self.rec(p) for p in expr.parameters))
