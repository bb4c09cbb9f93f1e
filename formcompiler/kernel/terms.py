"""Sums and products of any number of expressions, without nodes for a single one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pymbolic.primitives as prim


def sum_of(terms: Sequence[Any]) -> Any:
    """Return the sum of terms, 0.0 if there is none."""
    if not terms:
        return 0.0
    return terms[0] if len(terms) == 1 else prim.Sum(tuple(terms))


def product_of(factors: Sequence[Any]) -> Any:
    """Return the product of factors, 1.0 if there is none."""
    if not factors:
        return 1.0
    return factors[0] if len(factors) == 1 else prim.Product(tuple(factors))


def scaled(factor: float, value: Any) -> list[Any]:
    """Return the terms of a product with a number: none if it is zero."""
    factor = float(factor)
    if factor == 0:
        return []
    return [value if factor == 1 else prim.Product((factor, value))]


def flat_operands(expr: Any) -> Iterator[Any]:
    """Yield the operands of a sum or product, those of operands of the same kind in their place."""
    for child in expr.children:
        if type(child) is type(expr):
            yield from flat_operands(child)
        else:
            yield child
