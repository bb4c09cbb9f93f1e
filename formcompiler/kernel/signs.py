"""Sums that differ only in their sign or in the order of their terms, computed once.

Determinants and inverses by cofactors are full of them: ``b * c - a`` in one place, ``a - b * c`` in another.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pymbolic.primitives as prim
from loopy.symbolic import SubstitutionMapper
from pymbolic.mapper import IdentityMapper, WalkMapper
from pymbolic.mapper.substitutor import make_subst_func

from formcompiler.frontend.integrals import Integrand
from formcompiler.naming import Namer

Expression = Any
Key = tuple[tuple[int, tuple[str, ...]], ...]
"""Sign and sorted factors of each term, sorted, the first sign positive."""


def share_sums(integrand: Integrand, namer: Namer) -> Integrand:
    """Return the integrand with one definition for all sums that are equal up to their sign.

    Args:
        integrand: The integrand.
        namer: Names of the kernel; new definitions take theirs from it.
    """
    aliases: dict[str, Expression] = {}
    definitions = []
    for name, expression in integrand.definitions:
        value = _substitute(expression, aliases)
        sign, factors = split_sign(value)
        if len(factors) == 1 and isinstance(factors[0], prim.Variable):
            aliases[name] = factors[0] if sign > 0 else -factors[0]
        else:
            definitions.append((name, value))
    factors = [_substitute(term.factor, aliases) for term in integrand.terms]
    counter = _Counter()
    for expression in [*(e for _, e in definitions), *factors]:
        counter(expression)
    sharing = _Sharing({key for key, count in counter.counts.items() if count > 1}, namer)
    for name, expression in definitions:
        sharing.define(name, expression)
    terms = tuple(replace(term, factor=sharing(factor)) for term, factor in zip(integrand.terms, factors, strict=True))
    return replace(integrand, definitions=tuple(sharing.definitions), terms=terms)


def _substitute(expression: Expression, values: dict[str, Expression]) -> Expression:
    return SubstitutionMapper(make_subst_func(values))(expression) if values else expression


def split_sign(expression: Expression) -> tuple[int, list[Expression]]:
    """Return sign and factors of a product, without factors of -1."""
    if not isinstance(expression, prim.Product):
        return (-1, [-expression]) if _is_negative(expression) else (1, [expression])
    sign, factors = 1, []
    for child in expression.children:
        own, inner = split_sign(child)
        sign *= own
        factors += [f for f in inner if isinstance(f, prim.ExpressionNode) or f != 1]
    return sign, factors


def _is_negative(expression: Expression) -> bool:
    return isinstance(expression, (int, float)) and expression < 0


def key_of(expression: Any) -> tuple[int, Key]:
    """Return sign and key of a sum: equal keys mean equal sums up to the quotient of their signs."""
    parts = []
    for child in expression.children:
        sign, factors = split_sign(child)
        parts.append((sign, tuple(sorted(map(str, factors)))))
    parts.sort(key=lambda part: (part[1], part[0]))
    first = parts[0][0]
    return first, tuple((first * sign, factors) for sign, factors in parts)


class _Counter(WalkMapper[[]]):
    """Counts the keys of all sums."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[Key] = Counter()

    def map_sum(self, expr: Any) -> None:
        self.counts[key_of(expr)[1]] += 1
        super().map_sum(expr)


class _Sharing(IdentityMapper[[]]):
    """Replaces sums that occur more than once by names."""

    def __init__(self, shared: set[Key], namer: Namer) -> None:
        super().__init__()
        self.definitions: list[tuple[str, Expression]] = []
        self._shared = shared
        self._namer = namer
        self._known: dict[Key, tuple[int, str]] = {}

    def define(self, name: str, expression: Expression) -> None:
        """Add a definition; if it is the first of several equal sums, others use its name."""
        if isinstance(expression, prim.Sum):
            sign, key = key_of(expression)
            if key in self._shared and key not in self._known:
                self.definitions.append((name, super().map_sum(expression)))
                self._known[key] = (sign, name)
                return
        self.definitions.append((name, self.rec(expression)))

    def map_sum(self, expr: Any) -> Any:
        sign, key = key_of(expr)
        if key not in self._shared:
            return super().map_sum(expr)
        if key not in self._known:
            name = self._namer.unique("sum")
            self.definitions.append((name, super().map_sum(expr)))
            self._known[key] = (sign, name)
        own, name = self._known[key]
        return prim.Variable(name) if own == sign else -prim.Variable(name)
