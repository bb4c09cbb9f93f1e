"""Folds expressions: literals, neutral and absorbing elements, small powers, known conditions.

What is exact, and what is assumed, by IEEE 754:

* ``x * 1``, ``x / 1``, ``x ** 1`` are ``x``; a factor -1 is a change of sign. Always exact.
* ``x + 0`` is ``x``, except that ``-0 + 0`` is ``+0``: equal numbers.
* ``x * 0`` is 0 for finite ``x``. Infinite and undefined numbers are not kept alive.
* ``0 / x`` and ``x - x`` are left alone: they may be undefined.
* Literals at the beginning of a sum or product are combined in the kernel's own precision, as the program would do
  from left to right; others are not moved, since that would round differently.
* ``abs`` and ``sqrt`` of literals are correctly rounded everywhere and are evaluated; other functions are not.
* ``x ** 2`` to ``x ** 4`` of a variable become products: one rounding for each, where a library may have one in all.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pymbolic.primitives as prim

from formcompiler.kernel.choices import COMPARISONS
from formcompiler.kernel.names import names_in
from formcompiler.kernel.terms import product_of, sum_of

Expression = Any
_LARGEST_POWER = 4


def is_literal(expression: Expression) -> bool:
    """Tell whether an expression is a number."""
    return not isinstance(expression, prim.ExpressionNode)


def is_value(expression: Expression, value: float) -> bool:
    """Tell whether an expression is the given number."""
    return is_literal(expression) and bool(expression == value)


class Folder:
    """Folds the expressions of one kernel.

    Args:
        dtype: Real type of the kernel, in which literals are combined.
        values: Variables whose value is a known literal.
        entry: Value of a table entry (name, folded index), or None if it is not known.
    """

    def __init__(
        self,
        dtype: Any = np.float64,
        values: Mapping[str, Any] | None = None,
        entry: Callable[[str, tuple[Expression, ...]], Expression | None] | None = None,
    ) -> None:
        self._real = np.dtype(dtype).type
        self._values: Mapping[str, Any] = {} if values is None else values
        self._entry = entry
        self._rules: dict[type, Callable[[Any], Expression]] = {
            prim.Variable: lambda e: self._values.get(e.name, e),
            prim.Subscript: self._subscript,
            prim.Sum: self._sum,
            prim.Product: self._product,
            prim.Quotient: self._quotient,
            prim.Power: self._power,
            prim.Call: self._call,
            prim.If: self._if,
            prim.Comparison: self._comparison,
            prim.LogicalNot: self._not,
            prim.LogicalAnd: lambda e: self._junction(e, is_and=True),
            prim.LogicalOr: lambda e: self._junction(e, is_and=False),
        }

    def __call__(self, expression: Expression) -> Expression:
        """Return the folded expression; unknown kinds of nodes are returned as they are."""
        rule = self._rules.get(type(expression))
        return expression if rule is None else rule(expression)

    def has_table(self, expression: Expression, iname: str) -> bool:
        """Tell whether an expression reads a table at an index that is a number once an iname is one."""
        if isinstance(expression, prim.Subscript):
            if self._entry is None or iname not in names_in(expression):
                return False
            array: Any = expression.aggregate
            index = tuple(0 if i == prim.Variable(iname) else i for i in expression.index_tuple)
            known = self._entry(array.name, index)
            return known is not None and is_literal(known)
        parts = expression.children if isinstance(expression, (prim.Sum, prim.Product)) else ()
        return any(self.has_table(p, iname) for p in parts)

    def target(self, expression: Expression) -> Expression:
        """Return the folded left-hand side of an assignment: only its indices are looked at."""
        if not isinstance(expression, prim.Subscript):
            return expression
        array: Any = expression.aggregate
        return array[tuple(map(self.index, expression.index_tuple))]

    def index(self, expression: Expression) -> Expression:
        """Return a folded integer expression: arithmetic is exact, so that literals combine wherever they stand."""
        if isinstance(expression, prim.Sum):
            return self._integer(expression, prim.Sum, operator.add, 0)
        if isinstance(expression, prim.Product):
            folded = self._integer(expression, prim.Product, operator.mul, 1)
            has_zero = isinstance(folded, prim.Product) and any(is_value(c, 0) for c in folded.children)
            return 0 if has_zero else folded
        if isinstance(expression, prim.Subscript):
            return self._subscript(expression)
        if isinstance(expression, prim.Variable):
            return self._values.get(expression.name, expression)
        return expression

    def _integer(self, expression: Any, kind: Any, combine: Callable[[int, int], int], neutral: int) -> Expression:
        literal, rest = neutral, []
        for child in map(self.index, expression.children):
            for part in child.children if isinstance(child, kind) else (child,):
                if is_literal(part):
                    literal = combine(literal, int(part))
                else:
                    rest.append(part)
        parts = [*rest] if literal == neutral else [literal, *rest]
        return neutral if not parts else parts[0] if len(parts) == 1 else kind(tuple(parts))

    def _subscript(self, expression: Any) -> Expression:
        index = tuple(map(self.index, expression.index_tuple))
        known = self._entry(expression.aggregate.name, index) if self._entry is not None else None
        return expression.aggregate[index] if known is None else known

    def _combine(self, function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        """Return the result of an operation of two literals in the precision of the kernel."""
        if isinstance(left, complex) or isinstance(right, complex):
            kind = np.result_type(self._real, np.complex64).type
            return complex(function(kind(left), kind(right)))
        return float(function(self._real(left), self._real(right)))

    def _sum(self, expression: Any) -> Expression:
        terms = [c for c in map(self, expression.children) if not is_value(c, 0)]
        return sum_of(self._join_front(terms, operator.add))

    def _product(self, expression: Any) -> Expression:
        sign, factors = 1.0, []
        for child in map(self, expression.children):
            negated, positive = _split_sign(child)
            sign *= negated
            if not is_value(positive, 1):
                factors.append(positive)
        if any(is_value(f, 0) for f in factors):
            return 0.0
        factors = self._join_front(factors, operator.mul)
        if factors and is_literal(factors[0]):
            factors[0] = sign * factors[0]
        elif sign < 0:
            factors.insert(0, -1.0)
        return product_of(factors)

    def _join_front(self, operands: list[Expression], function: Callable[[Any, Any], Any]) -> list[Expression]:
        while len(operands) > 1 and is_literal(operands[0]) and is_literal(operands[1]):
            operands = [self._combine(function, operands[0], operands[1]), *operands[2:]]
        return operands

    def _quotient(self, expression: Any) -> Expression:
        above, below = self(expression.numerator), self(expression.denominator)
        if is_value(below, 1):
            return above
        if is_value(below, -1):
            return self._product(prim.Product((-1.0, above)))
        if is_literal(above) and is_literal(below) and below != 0:
            return self._combine(operator.truediv, above, below)
        return prim.Quotient(above, below)

    def _power(self, expression: Any) -> Expression:
        return self._to_power(self(expression.base), self(expression.exponent), prim.Power)

    def _to_power(self, base: Expression, exponent: Expression, keep: Callable[[Any, Any], Expression]) -> Expression:
        if is_literal(exponent) and exponent == 0:
            return 1.0
        if is_literal(exponent) and exponent == 1:
            return base
        is_cheap = is_literal(base) or isinstance(base, (prim.Variable, prim.Subscript))
        is_small = is_literal(exponent) and exponent in range(2, _LARGEST_POWER + 1)
        return self._product(prim.Product((base,) * int(exponent))) if is_cheap and is_small else keep(base, exponent)

    def _call(self, expression: Any) -> Expression:
        parameters = tuple(map(self, expression.parameters))
        name = getattr(expression.function, "name", "")
        if name == "pow":
            return self._to_power(parameters[0], parameters[1], expression.function)
        if len(parameters) == 1 and is_literal(parameters[0]) and not isinstance(parameters[0], complex):
            if name in ("abs", "fabs"):
                return abs(parameters[0])
            if name == "sqrt" and parameters[0] >= 0:
                return float(np.sqrt(self._real(parameters[0])))
        return expression.function(*parameters)

    def _if(self, expression: Any) -> Expression:
        condition = self(expression.condition)
        if is_literal(condition):
            return self(expression.then if condition else expression.else_)
        then, else_ = self(expression.then), self(expression.else_)
        return then if then == else_ else prim.If(condition, then, else_)

    def _comparison(self, expression: Any) -> Expression:
        left, right = self(expression.left), self(expression.right)
        symbol = str(getattr(expression.operator, "value", expression.operator))
        if is_literal(left) and is_literal(right):
            return bool(COMPARISONS[symbol](left, right))
        return prim.Comparison(left, expression.operator, right)

    def _not(self, expression: Any) -> Expression:
        child = self(expression.child)
        return not child if is_literal(child) else prim.LogicalNot(child)

    def _junction(self, expression: Any, *, is_and: bool) -> Expression:
        rest = []
        for child in map(self, expression.children):
            if not is_literal(child):
                rest.append(child)
            elif bool(child) != is_and:
                return not is_and
        if not rest:
            return is_and
        return rest[0] if len(rest) == 1 else type(expression)(tuple(rest))


def _split_sign(expression: Expression) -> tuple[float, Expression]:
    """Return -1 and the rest if an expression starts with the factor -1, else 1 and the expression."""
    if is_value(expression, -1):
        return -1.0, 1.0
    if isinstance(expression, prim.Product) and is_value(expression.children[0], -1):
        rest = expression.children[1:]
        return -1.0, product_of(rest)
    return 1.0, expression
