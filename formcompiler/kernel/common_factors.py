"""Common factors of sums, taken out of them: a coefficient that multiplies a gradient multiplies a sum of squares once.

    g0 = k0 * w;  g1 = k1 * w;  f = g0 * k0 + g1 * k1     ->     f = w * (k0 * k0 + k1 * k1)

Values change by rounding only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pymbolic.primitives as prim

from formcompiler.frontend.integrals import Integrand
from formcompiler.kernel.flops import count_expression_operations
from formcompiler.kernel.names import names_in
from formcompiler.kernel.terms import product_of

Expression = Any


def take_out_factors(integrand: Integrand) -> Integrand:
    """Return the integrand with names taken out of the sums that they are a factor of, if that saves operations."""
    products: dict[str, list[Expression]] = {}
    definitions = []
    for name, expression in integrand.definitions:
        value = _take_out(expression, products)
        factors = _factors(value, products)
        if len(factors) > 1 and all(isinstance(f, (prim.Variable, int, float, complex)) for f in factors):
            products[name] = factors
        definitions.append((name, value))
    terms = tuple(replace(term, factor=_take_out(term.factor, products)) for term in integrand.terms)
    changed = _without_unread(replace(integrand, definitions=tuple(definitions), terms=terms))
    return changed if count_point_operations(changed) < count_point_operations(integrand) else integrand


def _factors(expression: Expression, products: Mapping[str, list[Expression]]) -> list[Expression]:
    """Return the factors of a product, seen through names of products."""
    if isinstance(expression, prim.Product):
        return [f for child in expression.children for f in _factors(child, products)]
    if isinstance(expression, prim.Variable):
        return products.get(expression.name, [expression])
    return [expression]


def _take_out(expression: Expression, products: Mapping[str, list[Expression]]) -> Expression:
    if isinstance(expression, prim.Product):
        return _product([_take_out(child, products) for child in expression.children])
    if not isinstance(expression, prim.Sum):
        return expression
    parts = [_factors(child, products) for child in expression.children]
    common = Counter(_names(parts[0]))
    for part in parts[1:]:
        common &= Counter(_names(part))
    if not common:
        return expression
    return _product([*common.elements(), prim.Sum(tuple(_product(_remove(part, common)) for part in parts))])


def _names(factors: list[Expression]) -> list[Expression]:
    return [f for f in factors if isinstance(f, prim.Variable)]


def _remove(factors: list[Expression], common: Counter[Expression]) -> list[Expression]:
    left, kept = Counter(common), []
    for factor in factors:
        if isinstance(factor, prim.Variable) and left[factor] > 0:
            left[factor] -= 1
        else:
            kept.append(factor)
    return kept


def _product(factors: list[Expression]) -> Expression:
    flat = [c for f in factors for c in (f.children if isinstance(f, prim.Product) else (f,))]
    return product_of(flat)


def _without_unread(integrand: Integrand) -> Integrand:
    read = {name for term in integrand.terms for name in names_in(term.factor)}
    kept = []
    for name, expression in reversed(integrand.definitions):
        if name in read:
            kept.append((name, expression))
            read |= names_in(expression)
    return replace(integrand, definitions=tuple(reversed(kept)))


def count_point_operations(integrand: Integrand) -> int:
    """Return the operations of all definitions and factors at one point."""
    expressions = [*(e for _, e in integrand.definitions), *(term.factor for term in integrand.terms)]
    return sum(map(count_expression_operations, expressions))
