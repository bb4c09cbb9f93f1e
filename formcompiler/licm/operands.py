"""Subexpressions of expressions."""

from __future__ import annotations

from typing import Any

import pymbolic.primitives as prim


def operands(expression: Any) -> tuple[Any, ...]:
    """Return the subexpressions to look into: those of calls and indices are not looked into."""
    if isinstance(expression, (prim.Sum, prim.Product, prim.LogicalAnd, prim.LogicalOr)):
        return expression.children
    if isinstance(expression, prim.Quotient):
        return (expression.numerator, expression.denominator)
    if isinstance(expression, prim.Power):
        return (expression.base, expression.exponent)
    if isinstance(expression, prim.If):
        return (expression.condition, expression.then, expression.else_)
    if isinstance(expression, prim.Comparison):
        return (expression.left, expression.right)
    if isinstance(expression, prim.LogicalNot):
        return (expression.child,)
    return ()
