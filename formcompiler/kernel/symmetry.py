"""Equal blocks of element matrices, found from the integrand: which blocks are copies or transposes of others.

Two factors are equal if they are the same rational function of what their names stand for. That is decided by their
values at one point of a prime field, with numbers for the names that look random: different functions of degree d
agree there with a probability of d / 2**127 at most, and equal ones agree always. So neither the order of operands nor
the way in which a derivative was multiplied out matters, and symmetry is never assumed where it does not hold.
Calls, comparisons and choices are new names, the same ones for the same operands.

Method: J. T. Schwartz, Fast probabilistic algorithms for verification of polynomial identities, J. ACM 27, 1980.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as prim

from formcompiler.frontend.integrals import FormIntegral, Integrand
from formcompiler.terminals import Terminal

PRIME = 2**127 - 1
"""Number of elements of the field."""
Expression = Any
Block = Mapping[tuple[Hashable, Hashable], int]
"""Field value of the factor of each pair of a test and a trial table: what a block of a matrix is made of."""


@dataclass(frozen=True)
class Copy:
    """A block with the values of another one.

    Attributes:
        number: Position of the block.
        is_transposed: Whether rows and columns are swapped.
        sign: 1, or -1 for the negative values.
    """

    number: int
    is_transposed: bool
    sign: int


@dataclass(frozen=True)
class EqualBlocks:
    """Blocks of a matrix that are computed once.

    Attributes:
        number: Position of the block that is computed.
        copies: The others.
        is_symmetric: Whether the block is its own transpose.
    """

    number: int
    copies: tuple[Copy, ...]
    is_symmetric: bool


def find_equal_blocks(blocks: Sequence[Block]) -> list[EqualBlocks]:
    """Return the blocks that have to be computed, in order, with those that have the same values."""
    firsts: list[int] = []
    copies: dict[int, list[Copy]] = {}
    known: dict[frozenset[Any], Copy] = {}
    for number, block in enumerate(blocks):
        found = known.get(frozenset(block.items()))
        if found is not None:
            copies[found.number].append(Copy(number, found.is_transposed, found.sign))
            continue
        firsts.append(number)
        copies[number] = []
        for copy in (Copy(number, t, s) for t in (False, True) for s in (1, -1)):
            known.setdefault(_variant(block, copy), copy)
    return [EqualBlocks(n, tuple(copies[n]), is_symmetric(blocks[n])) for n in firsts]


def is_symmetric(block: Block) -> bool:
    """Tell whether a block is its own transpose."""
    return _variant(block, Copy(0, is_transposed=True, sign=1)) == frozenset(block.items())


def _variant(block: Block, copy: Copy) -> frozenset[Any]:
    return frozenset(
        ((column, row) if copy.is_transposed else (row, column), copy.sign * value % PRIME)
        for (row, column), value in block.items()
    )


def has_symmetric_matrix(integral: FormIntegral) -> bool:
    """Tell whether the matrices of a bilinear form are symmetric on every cell or facet."""
    if len(integral.arguments) != 2 or integral.arguments[0] != integral.arguments[1]:
        return False
    return integral.integral_type != "expression" and all(map(_is_symmetric_integrand, integral.integrands))


def _is_symmetric_integrand(integrand: Integrand) -> bool:
    pairs = [tuple(map(_basis, term.arguments)) for term in integrand.terms]
    return is_symmetric(collect_block(pairs, factor_values(integrand)))


def _basis(argument: Terminal) -> tuple[Hashable, ...]:
    average = (argument.index, argument.average) if argument.average >= 0 else ()
    return (argument.component, argument.derivatives, argument.restriction, average)


def collect_block(pairs: Sequence[Any], values: Sequence[int]) -> Block:
    """Return a block of terms: pairs of tables, and field values of their factors; equal pairs are added up."""
    total: dict[tuple[Hashable, Hashable], int] = {}
    for pair, value in zip(pairs, values, strict=True):
        total[pair] = (total.get(pair, 0) + value) % PRIME
    return {pair: value for pair, value in total.items() if value}


def factor_values(integrand: Integrand, given: Mapping[str, int] | None = None) -> list[int]:
    """Return the value of each term's factor in the prime field; names without a given value look random."""
    evaluate = _Evaluator()
    evaluate.values.update(given or {})
    for name, expression in integrand.definitions:
        evaluate.values[name] = evaluate(expression)
    return [evaluate(term.factor) for term in integrand.terms]


class _Evaluator:
    """Evaluates expressions in the prime field.

    Attributes:
        values: Values of names; those that are not there look random.
    """

    def __init__(self) -> None:
        self.values: dict[str, int] = {}

    def __call__(self, expression: Expression) -> int:
        """Return the value of an expression."""
        handler = _HANDLERS.get(type(expression))
        if handler is not None:
            return handler(self, expression)
        if isinstance(expression, prim.ExpressionNode):
            return self._opaque(type(expression).__name__, *_operands(expression))
        return _number(expression)

    def _opaque(self, kind: str, *operands: Any) -> int:
        """Return the value of an operation that is not arithmetic: a new name for each list of operand values."""
        return random_value(kind, *(o if isinstance(o, str) else self(o) for o in operands))

    def _variable(self, expression: Any) -> int:
        if expression.name not in self.values:
            self.values[expression.name] = random_value("name", expression.name)
        return self.values[expression.name]

    def _sum(self, expression: Any) -> int:
        return sum(map(self, expression.children)) % PRIME

    def _product(self, expression: Any) -> int:
        result = 1
        for child in expression.children:
            result = result * self(child) % PRIME
        return result

    def _quotient(self, expression: Any) -> int:
        numerator, denominator = self(expression.numerator), self(expression.denominator)
        if denominator == 0:
            return random_value("quotient", numerator)
        return numerator * pow(denominator, -1, PRIME) % PRIME

    def _call(self, expression: Any) -> int:
        name, values = expression.function.name, [self(p) for p in expression.parameters]
        if name == "abs":
            values = [min(v, PRIME - v) for v in values]
        return random_value("call", name, *values)


_HANDLERS: dict[type, Callable[[_Evaluator, Any], int]] = {
    prim.Variable: _Evaluator._variable,
    prim.Sum: _Evaluator._sum,
    prim.Product: _Evaluator._product,
    prim.Quotient: _Evaluator._quotient,
    prim.Call: _Evaluator._call,
}


def _operands(expression: Any) -> tuple[Any, ...]:
    """Return what distinguishes an operation from others of its kind, in order."""
    if isinstance(expression, prim.If):
        return (expression.condition, expression.then, expression.else_)
    if isinstance(expression, prim.Comparison):
        return (str(expression.operator), expression.left, expression.right)
    if isinstance(expression, (prim.LogicalAnd, prim.LogicalOr)):
        return tuple(expression.children)
    if isinstance(expression, prim.LogicalNot):
        return (expression.child,)
    return (str(expression),)


def _number(value: complex) -> int:
    """Return a literal: every floating-point number is a quotient of integers."""
    parts = (value.real, value.imag)
    real, imaginary = (n * pow(d, -1, PRIME) for n, d in (float(part).as_integer_ratio() for part in parts))
    return (real + (imaginary * random_value("i") if imaginary else 0)) % PRIME


def random_value(*parts: str | int) -> int:
    """Return a number that looks random, the same one for the same parts."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest(), "big") % PRIME
