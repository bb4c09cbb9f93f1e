"""Value numbers: expressions up to the order of operands in sums and products."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

SUM, PRODUCT, QUOTIENT, CALL, ATOM, LITERAL = range(6)


class Value(NamedTuple):
    """One value.

    Attributes:
        kind: SUM, PRODUCT, QUOTIENT, CALL, ATOM or LITERAL.
        operands: Numbers of the operands; sorted for sums and products.
        detail: Function of a call, expression of an atom, value of a literal.
    """

    kind: int
    operands: tuple[int, ...] = ()
    detail: Any = None


@dataclass
class Numbering:
    """Numbers of values; equal values have equal numbers.

    Attributes:
        values: The value of each number.
    """

    values: list[Value] = field(default_factory=list)
    _numbers: dict[Hashable, int] = field(default_factory=dict)

    def node(self, kind: int, operands: Sequence[int], detail: Any = None) -> int:
        """Return the number of a quotient or call."""
        parts = tuple(operands)
        return self._intern((kind, parts, detail), kind, parts, detail)

    def literal(self, value: Any) -> int:
        """Return the number of a literal."""
        return self._intern((LITERAL, type(value), repr(value)), LITERAL, (), value)

    def atom(self, expression: Any, version: Hashable) -> int:
        """Return the number of an expression that is not looked into, with values that the version tells apart."""
        return self._intern((ATOM, expression, version), ATOM, (), expression)

    def combine(self, kind: int, operands: Sequence[int], *, is_flat: bool = False) -> int:
        """Return the number of a sum or product of values; those of the same kind are flattened, or taken as flat."""
        flat = list(operands) if is_flat else self._flatten(kind, operands)
        if len(flat) == 1:
            return flat[0]
        flat.sort()
        parts = tuple(flat)
        return self._intern((kind, parts), kind, parts)

    def _flatten(self, kind: int, operands: Sequence[int]) -> list[int]:
        """Return operands, with those of operands of the same kind in their place."""
        flat: list[int] = []
        for operand in operands:
            value = self.values[operand]
            flat += value.operands if value.kind == kind else (operand,)
        return flat

    def is_sign(self, number: int) -> bool:
        """Tell whether a value is the literal 1 or -1, by which to multiply is no operation."""
        value = self.values[number]
        return value.kind == LITERAL and value.detail in (1, -1)

    def _intern(self, key: Hashable, kind: int, operands: tuple[int, ...], detail: Any = None) -> int:
        number = self._numbers.setdefault(key, len(self.values))
        if number == len(self.values):
            self.values.append(Value(kind, operands, detail))
        return number
