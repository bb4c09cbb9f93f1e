"""Scalar expressions as sums of products of powers, in which geometry cancels.

What is known of a facet makes most of its geometry cancel: of the normal ``(c / d) / sqrt((c / d)**2)`` a sign is
left. A value is a sum over *keys*, products of what is not geometry (dofs, constants), of geometric coefficients. Each
coefficient is ``number * product of atom**n * |atom|**m`` with m 0 or 1; atoms are terminals, sums and calls. So the
normal derivative of a function becomes a combination of its reference derivatives whose coefficients are computed from
geometry alone. Numbers are real.

Values change by rounding only. Powers of one atom cancel if it is a geometric quantity, which a cell without
degeneration keeps away from zero; other denominators divide as they stand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as prim

from formcompiler.frontend.graph import Graph, Node

_GEOMETRY = ("coordinate", "vertex", "weight")
_POSITIVE = ("sqrt", "abs", "exp", "cosh")


@dataclass(frozen=True, order=True)
class Power:
    """``atom**exponent``, times ``|atom|`` if `has_abs`."""

    exponent: int
    has_abs: bool = False

    def __mul__(self, other: Power) -> Power:
        """Return the product of powers of one atom."""
        both = self.has_abs and other.has_abs
        return Power(self.exponent + other.exponent + 2 * both, self.has_abs != other.has_abs)

    def inverse(self) -> Power:
        """Return the reciprocal."""
        return Power(-self.exponent - 2 * self.has_abs, self.has_abs)

    def absolute(self) -> Power:
        """Return the absolute value."""
        degree = self.exponent + self.has_abs
        return Power(degree - degree % 2, bool(degree % 2))

    def is_one(self) -> bool:
        """Return whether nothing is left."""
        return self.exponent == 0 and not self.has_abs


Powers = tuple[tuple[Node, Power], ...]
"""Atoms, in order of their nodes, with their powers."""


@dataclass(frozen=True)
class Monomial:
    """``coefficient * product of powers``; no power is one."""

    coefficient: float
    powers: Powers = ()

    def __mul__(self, other: Monomial) -> Monomial:
        """Return the product."""
        coefficient = self.coefficient * other.coefficient
        powers = dict(self.powers)
        for atom, power in other.powers:
            powers[atom] = powers[atom] * power if atom in powers else power
        return make_monomial(coefficient, powers.items())

    def inverse(self) -> Monomial:
        """Return the reciprocal."""
        return Monomial(1 / self.coefficient, tuple((atom, power.inverse()) for atom, power in self.powers))


def make_monomial(coefficient: float, powers: Iterable[tuple[Node, Power]]) -> Monomial:
    """Return a monomial without powers that are one."""
    kept = sorted((atom, power) for atom, power in powers if not power.is_one())
    return Monomial(coefficient, tuple(kept) if coefficient != 0 else ())


Value = dict[Powers, Monomial]
"""Geometric coefficient of each key; none is zero."""


class MonomialReader:
    """Reads expressions into values.

    Args:
        graph: Where sums, calls and values go.

    Attributes:
        names: Values of the variables.
    """

    def __init__(self, graph: Graph) -> None:
        self.names: dict[str, Value] = {}
        self._graph = graph
        self._geometric: dict[Node, bool] = {}
        self._rules: dict[type, Callable[[Any], Value]] = {
            prim.Variable: lambda e: self.names[e.name],
            prim.Sum: lambda e: self._add([self(c) for c in e.children]),
            prim.Product: lambda e: self._product([self(c) for c in e.children]),
            prim.Quotient: lambda e: self._quotient(self(e.numerator), self(e.denominator)),
            prim.Call: self._call,
            prim.If: self._if,
        }

    def __call__(self, expression: Any) -> Value:
        """Return the value of an expression."""
        if not isinstance(expression, prim.ExpressionNode):
            return {(): Monomial(float(expression))} if expression != 0 else {}
        return self._rules[type(expression)](expression)

    def define(self, name: str, expression: Any) -> None:
        """Give a name to a value."""
        self.names[name] = self(expression)

    def atom(self, node: Node, factor: float = 1.0) -> Value:
        """Return a node times a number."""
        literal = self._graph.value(node)
        if literal is not None:
            return {(): Monomial(factor * float(literal.real))} if literal != 0 else {}
        power = ((node, Power(1)),)
        return {(): Monomial(factor, power)} if self.is_geometric(node) else {power: Monomial(factor)}

    def node(self, value: Value) -> Node:
        """Return a value as a node: sums of what has the same denominators come first."""
        by_scale: dict[Powers, list[Monomial]] = {}
        for key, coefficient in value.items():
            term = coefficient * Monomial(1.0, key)
            scale = tuple(item for item in term.powers if self._rank(item)[0] == 0)
            by_scale.setdefault(scale, []).append(term)
        return self._node(self._sum([self._sum(terms) for terms in by_scale.values()]))

    def is_geometric(self, node: Node) -> bool:
        """Return whether a node is made of numbers and geometry only."""
        if node not in self._geometric:
            kind, *rest = self._graph.nodes[node]
            is_other = kind == "terminal" and rest[0].kind not in _GEOMETRY
            self._geometric[node] = not is_other and all(map(self.is_geometric, self._graph.operands(node)))
        return self._geometric[node]

    # --- arithmetic

    def _add(self, values: Sequence[Value]) -> Value:
        by_key: dict[Powers, list[Monomial]] = {}
        for value in values:
            for key, coefficient in value.items():
                by_key.setdefault(key, []).append(coefficient)
        sums = {key: self._sum(coefficients) for key, coefficients in by_key.items()}
        return {key: total for key, total in sums.items() if total.coefficient != 0}

    def _sum(self, terms: Sequence[Monomial]) -> Monomial:
        """Return a sum of monomials: what they have in common, times the sum of what is left."""
        if len(terms) < 2:
            return terms[0] if terms else Monomial(0.0)
        common = Monomial(1.0, _common([dict(term.powers) for term in terms]))
        sizes = {abs(term.coefficient) for term in terms}
        scale = math.copysign(sizes.pop() if len(sizes) == 1 else 1.0, terms[0].coefficient)
        total = self._graph.zero
        for term in terms:
            total = self._graph.add(total, self._node(Monomial(1 / scale) * term * common.inverse()))
        literal = self._graph.value(total)
        if literal is not None:
            return Monomial(scale * float(literal.real)) * common if literal != 0 else Monomial(0.0)
        return Monomial(scale, ((total, Power(1)),)) * common

    def _product(self, values: Sequence[Value]) -> Value:
        result: Value = {(): Monomial(1.0)}
        for value in values:
            result = self._multiply(result, value)
        return result

    def _multiply(self, a: Value, b: Value) -> Value:
        """Return a product; only geometry is multiplied into sums over several keys."""
        if set(a) <= {()}:
            a, b = b, a
        if not set(b) <= {()}:
            a, b = self._as_one_key(a), self._as_one_key(b)
        result: Value = {}
        for key, coefficient in a.items():
            for other, factor in b.items():
                result[(Monomial(1.0, key) * Monomial(1.0, other)).powers] = coefficient * factor
        return result

    def _as_one_key(self, value: Value) -> Value:
        return value if len(value) < 2 else self.atom(self.node(value))

    def _quotient(self, a: Value, b: Value) -> Value:
        if not b:
            self._graph.divide(self._graph.one, self._graph.zero)
        ((key, coefficient),) = self._as_one_key(b).items()
        inverse: Value = {(): coefficient.inverse()}
        if key:
            inverse = self._multiply(inverse, self.atom(self._reciprocal(self._node(Monomial(1.0, key)))))
        return self._multiply(a, inverse)

    def _reciprocal(self, node: Node) -> Node:
        return self._graph.divide(self._graph.one, node)

    def _call(self, expression: Any) -> Value:
        name, arguments = expression.function.name, [self(p) for p in expression.parameters]
        if name in ("sqrt", "abs") and arguments[0]:
            ((key, coefficient),) = self._as_one_key(arguments[0]).items()
            return (self._root if name == "sqrt" else self._absolute)(Monomial(1.0, key) * coefficient)
        nodes = [self.node(a) for a in arguments]
        return self.atom(self._graph.power(*nodes) if name == "pow" else self._graph.call(name, *nodes))

    def _absolute(self, argument: Monomial) -> Value:
        powers = [(atom, self._absolute_power(atom, power)) for atom, power in argument.powers]
        return self._split(make_monomial(abs(argument.coefficient), powers))

    def _absolute_power(self, atom: Node, power: Power) -> Power:
        kind, *rest = self._graph.nodes[atom]
        return power if kind == "call" and rest[0] in _POSITIVE else power.absolute()

    def _root(self, argument: Monomial) -> Value:
        """Return a square root: squares are drawn out of it."""
        outside = [(atom, self._absolute_power(atom, Power(power.exponent // 2))) for atom, power in argument.powers]
        inside = [(atom, Power(power.exponent % 2, power.has_abs)) for atom, power in argument.powers]
        left = self._node(make_monomial(argument.coefficient, inside))
        literal = self._graph.value(left)
        if isinstance(literal, float) and literal >= 0:
            root: Value = {(): Monomial(math.sqrt(literal))}
        else:
            root = self.atom(self._graph.call("sqrt", left))
        return self._multiply(self._split(make_monomial(1.0, outside)), root)

    def _split(self, monomial: Monomial) -> Value:
        """Return a monomial as a value."""
        key = tuple(item for item in monomial.powers if not self.is_geometric(item[0]))
        rest = tuple(item for item in monomial.powers if self.is_geometric(item[0]))
        return {key: Monomial(monomial.coefficient, rest)} if monomial.coefficient != 0 else {}

    def _if(self, expression: Any) -> Value:
        condition = self._condition(expression.condition)
        values = [self.node(self(e)) for e in (expression.then, expression.else_)]
        return self.atom(self._graph.select(condition, *values))

    def _condition(self, expression: Any) -> Node:
        if isinstance(expression, prim.Comparison):
            left, right = (self.node(self(e)) for e in (expression.left, expression.right))
            return self._graph.compare(str(expression.operator), left, right)
        if isinstance(expression, prim.LogicalNot):
            return self._graph.logical("not", self._condition(expression.child))
        kind = "and" if isinstance(expression, prim.LogicalAnd) else "or"
        return self._graph.logical(kind, *map(self._condition, expression.children))

    # --- nodes

    def _node(self, monomial: Monomial) -> Node:
        """Return a monomial as a node; the part that others have, too, comes first."""
        if monomial.coefficient == 0:
            return self._graph.zero
        result = self._graph.one
        for item in sorted(monomial.powers, key=self._rank):
            for factor in self._factors(*item):
                result = self._graph.multiply(result, factor)
        return self._graph.multiply(self._graph.number(monomial.coefficient), result)

    def _rank(self, item: tuple[Node, Power]) -> tuple[int, Node]:
        atom, power = item
        is_scale = power.exponent < 0 or power.has_abs or not self._graph.operands(atom)
        return (2 if not self.is_geometric(atom) else 0 if is_scale else 1), atom

    def _factors(self, atom: Node, power: Power) -> list[Node]:
        graph, exponent, factors = self._graph, power.exponent, []
        if power.has_abs and exponent % 2:
            is_negative = graph.compare("<", atom, graph.zero)
            factors.append(graph.select(is_negative, graph.number(-1.0), graph.one))
            exponent += 1
        elif power.has_abs and exponent < 0:
            factors.append(graph.call("abs", self._reciprocal(atom)))
            exponent += 2
        elif power.has_abs:
            factors.append(graph.call("abs", atom))
        one = atom if exponent > 0 else self._reciprocal(atom) if exponent else graph.one
        return [one] * abs(exponent) + factors


def _common(powers: Sequence[Mapping[Node, Power]]) -> Powers:
    """Return the powers that divide all terms without leaving one of the other sign."""
    found = []
    for atom in sorted(set(powers[0]).intersection(*powers[1:])):
        exponents = [p[atom].exponent for p in powers]
        is_negative, is_positive = max(exponents) < 0, min(exponents) > 0
        exponent = max(exponents) if is_negative else min(exponents) if is_positive else 0
        power = Power(exponent, all(p[atom].has_abs for p in powers))
        if not power.is_one():
            found.append((atom, power))
    return tuple(found)
