"""Scalar expressions as a graph with one node per distinct value, folded while it grows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pymbolic.primitives as prim

from formcompiler.errors import UnsupportedFormError
from formcompiler.terminals import Terminal

Node = int
"""Number of a node; operands come before their users."""

_MAX_EXPANDED_POWER = 8
_COMPLEX_KINDS = ("coefficient", "constant", "average")


class Graph:
    """Hash-consed scalar operations.

    Each node is a tuple: ``("number", value)``, ``("terminal", Terminal)``, or an operator and its operands:
    ``+ * / pow``, ``call name``, ``select``, comparisons, ``and or not``. Literals are folded with IEEE arithmetic,
    except that ``0 * x`` and ``0 / x`` are 0 (as in UFL).
    """

    def __init__(self) -> None:
        self.nodes: list[tuple[Any, ...]] = []
        self._numbers: dict[tuple[Any, ...], Node] = {}
        self._real: dict[Node, bool] = {}
        self.zero = self.number(0.0)
        self.one = self.number(1.0)

    def _intern(self, node: tuple[Any, ...]) -> Node:
        key = (*node, type(node[1])) if node[0] == "number" else node
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.nodes)
            self.nodes.append(node)
        return found

    def _intern_commutative(self, operator: str, a: Node, b: Node) -> Node:
        """Return a sum or product; two that differ in the order of their operands are the same node."""
        found = self._numbers.get((operator, b, a))
        return self._intern((operator, a, b)) if found is None else found

    def number(self, value: complex) -> Node:
        """Return a literal; integers become floating-point numbers.

        Raises:
            UnsupportedFormError: for NaN and infinity, which no one writes into a form on purpose.
        """
        exact: complex = value if isinstance(value, complex) else float(value)
        if isinstance(exact, complex) and exact.imag == 0:
            exact = exact.real
        if math.isnan(abs(exact)) or abs(exact) == math.inf:
            raise UnsupportedFormError(
                f"the form contains the literal {exact}: it would make every result {exact}; "
                "look for a division 0/0 or an overflow in the Python code that builds the form"
            )
        return self._intern(("number", exact + 0.0))

    def terminal(self, terminal: Terminal) -> Node:
        """Return a leaf."""
        return self._intern(("terminal", terminal))

    def value(self, node: Node) -> complex | None:
        """Return the value of a literal, None for anything else."""
        operation = self.nodes[node]
        return operation[1] if operation[0] == "number" else None

    def add(self, a: Node, b: Node) -> Node:
        """Return a + b."""
        u, v = self.value(a), self.value(b)
        if u == 0:
            return b
        if v == 0:
            return a
        return self.number(u + v) if u is not None and v is not None else self._intern_commutative("+", a, b)

    def multiply(self, a: Node, b: Node) -> Node:
        """Return a * b."""
        u, v = self.value(a), self.value(b)
        if u == 0 or v == 0:
            return self.zero
        if u == 1:
            return b
        if v == 1:
            return a
        return self.number(u * v) if u is not None and v is not None else self._intern_commutative("*", a, b)

    def divide(self, a: Node, b: Node) -> Node:
        """Return a / b.

        Raises:
            UnsupportedFormError: if b is the literal zero.
        """
        u, v = self.value(a), self.value(b)
        if v == 0:
            raise UnsupportedFormError("the form contains a division by zero: its denominator is the literal 0")
        if u == 0 or v == 1:
            return a
        return self.number(u / v) if u is not None and v is not None else self._intern(("/", a, b))

    def power(self, base: Node, exponent: Node) -> Node:
        """Return base ** exponent; small integer exponents become products."""
        n = self.value(exponent)
        if isinstance(n, float) and n.is_integer() and abs(n) <= _MAX_EXPANDED_POWER:
            result = self._integer_power(base, abs(int(n)))
            return result if n >= 0 else self.divide(self.one, result)
        if n == 0.5:
            return self.call("sqrt", base)
        return self._intern(("pow", base, exponent))

    def _integer_power(self, base: Node, n: int) -> Node:
        result, square = self.one, base
        while n:
            if n % 2:
                result = self.multiply(result, square)
            n //= 2
            if n:
                square = self.multiply(square, square)
        return result

    def call(self, function: str, *arguments: Node) -> Node:
        """Return a call of a function of the target language."""
        return self._intern(("call", function, *arguments))

    def compare(self, operator: str, a: Node, b: Node) -> Node:
        """Return a condition."""
        return self._intern(("compare", operator, a, b))

    def logical(self, operator: str, *operands: Node) -> Node:
        """Return ``and``, ``or`` or ``not`` of conditions."""
        return self._intern((operator, *operands))

    def select(self, condition: Node, a: Node, b: Node) -> Node:
        """Return a where the condition holds, else b; the other value never enters the result."""
        return a if a == b else self._intern(("select", condition, a, b))

    def is_real(self, node: Node) -> bool:
        """Tell whether a value is real in complex mode: built from literals and geometry, or a part of a number."""
        if node not in self._real:
            self._real[node] = self._find_whether_real(node)
        return self._real[node]

    def _find_whether_real(self, node: Node) -> bool:
        operation = self.nodes[node]
        if operation[0] == "number":
            return isinstance(operation[1], float)
        if operation[0] == "terminal":
            leaf = operation[1]
            return leaf.kind not in _COMPLEX_KINDS or (leaf.kind == "average" and leaf.component == 1)
        if operation[0] == "call" and operation[1] in ("abs", "real", "imag"):
            return True
        parts = operation[2:] if operation[0] == "select" else self.operands(node)
        return all(self.is_real(part) for part in parts)

    def is_never_negative(self, node: Node) -> bool:
        """Tell whether a real value is a sum, product or quotient of squares and the like, or an edge's length."""
        operation = self.nodes[node]
        if operation[0] == "number":
            return isinstance(operation[1], float) and operation[1] >= 0
        if operation[0] == "call":
            return operation[1] in ("abs", "sqrt", "exp", "cosh")
        if operation[0] == "*" and operation[1] == operation[2]:
            return self.is_real(operation[1])
        if operation[0] in ("+", "*", "/") and all(map(self.is_never_negative, self.operands(node))):
            return True
        leaves = [self.nodes[n][1] for n in self.reachable([node]) if self.nodes[n][0] == "terminal"]
        return all(leaf.kind in ("vertex", "facet_vertex", "weight") for leaf in leaves) and bool(leaves)

    def operands(self, node: Node) -> tuple[Node, ...]:
        """Return the operand nodes."""
        operation = self.nodes[node]
        if operation[0] in ("number", "terminal"):
            return ()
        return operation[2:] if operation[0] in ("call", "compare") else operation[1:]

    def reachable(self, roots: Iterable[Node]) -> list[Node]:
        """Return all nodes that the roots need, operands first."""
        needed = set(roots)
        for node in range(len(self.nodes) - 1, -1, -1):
            if node in needed:
                needed.update(self.operands(node))
        return sorted(needed)


_CONDITIONS = ("compare", "and", "or", "not")


class ExpressionWriter:
    """Turns nodes into pymbolic expressions; values that are used more than once get a name."""

    def __init__(self, graph: Graph, names: Mapping[Terminal, str], prefix: str) -> None:
        self.definitions: list[tuple[str, Any]] = []
        self._graph = graph
        self._names = names
        self._prefix = prefix
        self._expressions: dict[Node, Any] = {}

    def write(self, roots: list[Node]) -> list[Any]:
        """Return an expression for each root and fill `definitions` in order of use."""
        graph = self._graph
        order = graph.reachable(roots)
        uses = dict.fromkeys(order, 0)
        for node in order:
            for operand in graph.operands(node):
                uses[operand] += 1
        for root in roots:
            uses[root] += 1
        for node in order:
            expression = self._expression(node)
            leaf = graph.nodes[node][0] in ("number", "terminal", *_CONDITIONS)
            if uses[node] > 1 and not leaf:
                name = f"{self._prefix}{len(self.definitions)}"
                self.definitions.append((name, expression))
                expression = prim.Variable(name)
            self._expressions[node] = expression
        return [self._expressions[root] for root in roots]

    def _expression(self, node: Node) -> Any:
        operation = self._graph.nodes[node]
        kind = operation[0]
        if kind == "number":
            return operation[1]
        if kind == "terminal":
            return prim.Variable(self._names[operation[1]])
        operands = [self._expressions[operand] for operand in self._graph.operands(node)]
        return _BUILDERS[kind](operation, operands)


def _flat(cls: Any, operands: list[Any]) -> Any:
    """Return an n-ary sum or product; only left operands are opened, so that the order of evaluation stays."""
    left = operands[0].children if isinstance(operands[0], cls) else (operands[0],)
    return cls((*left, *operands[1:]))


_BUILDERS: dict[str, Any] = {
    "+": lambda _, args: _flat(prim.Sum, args),
    "*": lambda _, args: _flat(prim.Product, args),
    "/": lambda _, args: prim.Quotient(*args),
    "pow": lambda _, args: prim.Variable("pow")(*args),
    "call": lambda operation, args: prim.Variable(operation[1])(*args),
    "select": lambda _, args: prim.If(*args),
    "compare": lambda operation, args: prim.Comparison(args[0], operation[1], args[1]),
    "and": lambda _, args: prim.LogicalAnd(tuple(args)),
    "or": lambda _, args: prim.LogicalOr(tuple(args)),
    "not": lambda _, args: prim.LogicalNot(args[0]),
}
