"""One division per denominator: quotients are added and multiplied as fractions before they are divided.

Gradients on a cell are full of quotients by the same determinant: each entry of the inverse Jacobian is one. A sum of
such quotients is one quotient of sums, so that the division, the slowest operation of all, can be done once, late, and
together with the weight of the point::

    k0 = c0 / d;  k1 = c1 / d;  g = k0 * a + k1 * b;  f = s * k0 * g
    ->  r = 1 / d;  g = c0 * a + c1 * b;  scale = s * r * r;  f = scale * c0 * g

Values change by rounding only. What is compared, selected, or given to a function is divided as it was written.

On affine cells, where the geometry leaves the loop over points and has to stay apart, quotients become products with a
reciprocal one by one (`multiply_by_reciprocals`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pymbolic.primitives as prim
from pymbolic.mapper import IdentityMapper, WalkMapper

from formcompiler.frontend.integrals import ArgumentTerm, Integrand
from formcompiler.kernel.terms import flat_operands, product_of, sum_of
from formcompiler.naming import Namer

Expression = Any
Powers = tuple[tuple[str, int], ...]
"""Name and power of each factor of a denominator, sorted; "abs NAME" with a negative power is a factor |NAME|."""

_ABS = "abs "


def share_divisions(integrand: Integrand, namer: Namer, *, is_real: bool) -> Integrand:
    """Return the integrand with one division for each denominator that divides at least twice.

    Args:
        integrand: The integrand.
        namer: Names of the kernel; new definitions take theirs from it.
        is_real: Whether all numbers are real; then ``|d| / d**2`` is ``|1 / d|``.
    """
    expressions = [e for _, e in integrand.definitions] + [t.factor for t in integrand.terms]
    shared = find_shared_denominators(expressions)
    if not shared:
        return integrand
    rewriter = _Rewriter(shared, _find_factors(expressions), namer, is_real=is_real)
    for name in sorted(shared & set(integrand.terminals)):
        rewriter.add_reciprocal(name)
    for name, expression in integrand.definitions:
        rewriter.define(name, expression)
    terms = tuple(rewriter.rewrite_term(term) for term in integrand.terms)
    return replace(integrand, definitions=tuple(rewriter.definitions), terms=terms)


def multiply_by_reciprocals(integrand: Integrand, namer: Namer) -> Integrand:
    """Return the integrand with multiplications by one reciprocal in the place of three and more divisions.

    That is one operation more, and less time: a division takes as long as ten to twenty other operations.

    Args:
        integrand: The integrand.
        namer: Names of the kernel; new definitions take theirs from it.
    """
    defined = {name for name, _ in integrand.definitions}
    shared = defined & find_shared_denominators(
        [e for _, e in integrand.definitions] + [t.factor for t in integrand.terms], n_quotients=3
    )
    if not shared:
        return integrand
    reciprocals = {name: prim.Variable(namer.unique(f"inverse_{name}")) for name in sorted(shared)}
    multiply = _MultiplyByReciprocals(reciprocals)
    definitions = []
    for name, expression in integrand.definitions:
        definitions.append((name, multiply(expression)))
        if name in shared:
            definitions.append((reciprocals[name].name, prim.Quotient(1.0, prim.Variable(name))))
    terms = tuple(replace(term, factor=multiply(term.factor)) for term in integrand.terms)
    return replace(integrand, definitions=tuple(definitions), terms=terms)


def find_shared_denominators(expressions: Iterable[Expression], n_quotients: int = 2) -> frozenset[str]:
    """Return the names that at least so many quotients divide by."""
    finder = _Denominators()
    for expression in expressions:
        finder(expression)
    return frozenset(name for name, count in finder.counts.items() if count >= n_quotients)


def _find_factors(expressions: Iterable[Expression]) -> frozenset[str]:
    """Return the names that are factors of products."""
    finder = _Factors()
    for expression in expressions:
        finder(expression)
    return frozenset(finder.names)


class _Factors(WalkMapper[[]]):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def map_product(self, expr: Any) -> None:
        self.names |= {child.name for child in expr.children if isinstance(child, prim.Variable)}
        super().map_product(expr)


class _Denominators(WalkMapper[[]]):
    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def map_quotient(self, expr: Any) -> None:
        if isinstance(expr.denominator, prim.Variable):
            self.counts[expr.denominator.name] += 1
        self.rec(expr.numerator)
        self.rec(expr.denominator)


class _MultiplyByReciprocals(IdentityMapper[[]]):
    """Replaces quotients by products; what is compared stays."""

    def __init__(self, reciprocals: Mapping[str, prim.Variable]) -> None:
        super().__init__()
        self._reciprocals = reciprocals

    def map_quotient(self, expr: Any) -> Any:
        if isinstance(expr.denominator, prim.Variable) and expr.denominator.name in self._reciprocals:
            return product_of([self.rec(expr.numerator), self._reciprocals[expr.denominator.name]])
        return super().map_quotient(expr)

    def map_comparison(self, expr: Any) -> Any:
        return expr

    def map_call(self, expr: Any) -> Any:
        return type(expr)(expr.function, tuple(self.rec(p) for p in expr.parameters))


class _Rewriter:
    """Keeps definitions as numerators, and remembers what they still have to be divided by."""

    def __init__(self, shared: frozenset[str], factors: frozenset[str], namer: Namer, *, is_real: bool) -> None:
        self._is_real = is_real
        self.definitions: list[tuple[str, Expression]] = []
        self._shared = shared
        self._namer = namer
        self._reciprocals: dict[str, str] = {}
        self._pending: dict[str, Powers] = {}
        self._scales: dict[Any, Expression] = {}
        self._factors = factors
        self._divide_inside = _DivideInside(self)

    def add_reciprocal(self, name: str) -> None:
        """Define 1 / name."""
        self._reciprocals[name] = self._namer.unique(f"inverse_{name}")
        self.definitions.append((self._reciprocals[name], prim.Quotient(1.0, prim.Variable(name))))

    def define(self, name: str, expression: Expression) -> None:
        """Add a definition; its value is a numerator if the expression is a fraction."""
        numerator, powers = self.split(expression)
        self.definitions.append((name, numerator))
        if powers:
            self._pending[name] = powers
        if name in self._shared:
            self.add_reciprocal(name)

    def rewrite_term(self, term: ArgumentTerm) -> ArgumentTerm:
        """Return a term with a factor that is divided, in one multiplication with whatever is a mere name in it."""
        numerator, powers = self.split(term.factor)
        if not powers:
            return replace(term, factor=numerator)
        factors = numerator.children if isinstance(numerator, prim.Product) else (numerator,)
        names = tuple(f for f in factors if isinstance(f, prim.Variable))
        others = [f for f in factors if not isinstance(f, prim.Variable)]
        key = (names, powers)
        if key not in self._scales:
            scale = self._namer.unique("scale")
            self.definitions.append((scale, self._divide(_product(names), powers)))
            self._scales[key] = prim.Variable(scale)
        return replace(term, factor=_product((self._scales[key], *others)))

    def split(self, expression: Expression) -> tuple[Expression, Powers]:
        """Return numerator and denominator of an expression."""
        if isinstance(expression, prim.Variable):
            pending = self._pending.get(expression.name, ())
            if expression.name in self._reciprocals:
                return 1.0, _multiply([pending, ((expression.name, -1),)])
            return expression, pending
        if isinstance(expression, prim.Product):
            parts = [self.split(child) for child in expression.children]
            return prim.Product(tuple(n for n, _ in parts)), _multiply(p for _, p in parts)
        if isinstance(expression, prim.Sum):
            return self._split_sum(expression)
        if isinstance(expression, prim.Quotient):
            denominator = expression.denominator
            if isinstance(denominator, prim.Variable) and denominator.name in self._reciprocals:
                numerator, powers = self.split(expression.numerator)
                return numerator, _multiply([powers, _inverse(self.split(denominator)[1])])
        if isinstance(expression, prim.Call) and self._is_real:
            return self._split_call(expression)
        if isinstance(expression, prim.ExpressionNode):
            return self._divide_inside.descend(expression), ()
        return expression, ()

    def _split_call(self, expression: Any) -> tuple[Expression, Powers]:
        """Return absolute values of denominators, and roots of squares of them, as powers of absolute values."""
        numerator, powers = self.split(expression.parameters[0])
        if expression.function == prim.Variable("abs") and numerator == 1:
            return 1.0, _absolute(powers)
        if expression.function == prim.Variable("sqrt") and all(power % 2 == 0 for _, power in powers):
            return expression.function(numerator), _absolute((name, power // 2) for name, power in powers)
        return self._divide_inside.descend(expression), ()

    def _split_sum(self, expression: Any) -> tuple[Expression, Powers]:
        parts = [self.split(child) for child in flat_operands(expression)]
        common = _common([powers for _, powers in parts], self._factors)
        groups: dict[Powers, list[Expression]] = {}
        for numerator, powers in parts:
            groups.setdefault(_multiply([powers, _inverse(common)]), []).append(numerator)
        terms = [self._divide(sum_of(group), powers) for powers, group in groups.items()]
        return sum_of(terms), common

    def value(self, expression: Expression) -> Expression:
        """Return an expression with its value, divided by all denominators."""
        return self._divide(*self.split(expression))

    def _divide(self, numerator: Expression, powers: Powers) -> Expression:
        """Return numerator / denominator; ``|d| / d**2`` is ``|1 / d|``."""
        found = dict(powers)
        factors: list[Expression] = []
        for name in sorted({name.removeprefix(_ABS) for name in found}):
            power, n_abs = found.get(name, 0), -found.get(_ABS + name, 0)
            reciprocal, absolute = prim.Variable(self._reciprocals[name]), prim.Variable("abs")
            n_pairs = max(0, min(power // 2, n_abs))
            factors += [absolute(reciprocal)] * n_pairs + [reciprocal] * (power - 2 * n_pairs)
            factors += [prim.Variable(name)] * -power
            factors += [absolute(prim.Variable(name))] * (n_abs - n_pairs) + [absolute(reciprocal)] * -n_abs
        return _product((numerator, *factors)) if factors else numerator


class _DivideInside(IdentityMapper[[]]):
    """Replaces the operands of an operation by their values."""

    def __init__(self, rewriter: _Rewriter) -> None:
        super().__init__()
        self._rewriter = rewriter

    def descend(self, expression: Any) -> Expression:
        """Return an operation with the values of its operands."""
        return super().__call__(expression)

    def rec(self, expr: Any) -> Any:
        if isinstance(expr, (prim.Comparison, prim.LogicalAnd, prim.LogicalOr, prim.LogicalNot)):
            return super().rec(expr)
        return self._rewriter.value(expr)

    rec_arith = rec

    def map_call(self, expr: Any) -> Any:
        return type(expr)(expr.function, tuple(self.rec(p) for p in expr.parameters))


def _common(parts: list[Powers], factors: frozenset[str]) -> Powers:
    """Return the denominator that is taken out of a sum, with a negative power for a factor.

    It is what all terms have; of a name that is also a factor elsewhere, what at least one term has, since it may
    cancel there; an absolute value counts if all have the same.
    """
    found: dict[str, list[int]] = {name: [] for powers in parts for name, _ in powers}
    for powers in map(dict, parts):
        for name, counts in found.items():
            counts.append(powers.get(name, 0))
    result: Counter[str] = Counter()
    for name, counts in found.items():
        if name.startswith(_ABS):
            result[name] = counts[0] if len(set(counts)) == 1 else 0
        elif name in factors:
            result[name] = max(counts)
        else:
            result[name] = min(counts) if min(counts) > 0 else min(0, max(counts))
    return _powers(result)


def _absolute(powers: Iterable[tuple[str, int]]) -> Powers:
    return _multiply([((_ABS + name.removeprefix(_ABS), power),) for name, power in powers])


def _inverse(powers: Powers) -> Powers:
    return tuple((name, -power) for name, power in powers)


def _product(factors: tuple[Expression, ...]) -> Expression:
    flat = [c for f in factors for c in (f.children if isinstance(f, prim.Product) else (f,))]
    flat = [f for f in flat if isinstance(f, prim.ExpressionNode) or f != 1]
    return product_of(flat)


def _multiply(powers: Iterable[Powers]) -> Powers:
    total: Counter[str] = Counter()
    for one in powers:
        for name, power in one:
            total[name] += power
    return _powers(total)


def _powers(counts: Counter[str]) -> Powers:
    return tuple(sorted((name, power) for name, power in counts.items() if power))
