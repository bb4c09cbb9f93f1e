"""Sums of products in normal form: monomials of atoms, seen through names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pymbolic.primitives as prim

_LIMIT = 256
"""Largest number of monomials of one expression."""


class Monomial(NamedTuple):
    """A literal times a product of atoms.

    Attributes:
        factor: The literal.
        atoms: Expressions that are not looked into, sorted by when they were first seen.
    """

    factor: Any
    atoms: tuple[Any, ...]


_Numbered = tuple[Any, tuple[int, ...]]
"""A literal and the numbers of atoms, in order."""


class TooManyMonomialsError(Exception):
    """An expression has more monomials than are worth listing."""


class Expander:
    """Expands expressions to monomials.

    Args:
        definition: Expression that a variable stands for and that may be put in its place, or None.
        is_distributed: Whether a sum is multiplied out where it is a factor; else it is an atom.
    """

    def __init__(self, definition: Callable[[Any], Any | None], is_distributed: Callable[[Any], bool]) -> None:
        self._definition = definition
        self._is_distributed = is_distributed
        self._numbers: dict[Any, int] = {}

    def __call__(self, expression: Any) -> list[Monomial]:
        """Return the monomials of an expression, those with the same atoms added up.

        Raises:
            TooManyMonomialsError: if there are too many.
        """
        return self._collect(self._expand(expression, is_root=True))

    def collect(self, monomials: Iterable[Monomial]) -> list[Monomial]:
        """Return monomials with sorted atoms, those with the same atoms added up."""
        return self._collect([(m.factor, tuple(sorted(map(self._number, m.atoms)))) for m in monomials])

    def _collect(self, monomials: list[_Numbered]) -> list[Monomial]:
        total: dict[tuple[int, ...], Any] = {}
        for factor, numbers in monomials:
            total[numbers] = total.get(numbers, 0) + factor
        atoms = list(self._numbers)
        return [Monomial(f, tuple([atoms[n] for n in numbers])) for numbers, f in total.items() if f != 0]

    def _number(self, atom: Any) -> int:
        return self._numbers.setdefault(atom, len(self._numbers))

    def _expand(self, expression: Any, *, is_root: bool) -> list[_Numbered]:
        if not isinstance(expression, prim.ExpressionNode):
            return [(expression, ())]
        if isinstance(expression, prim.Sum):
            if is_root or self._is_distributed(expression):
                return self._checked([m for c in expression.children for m in self._expand(c, is_root=is_root)])
        elif isinstance(expression, prim.Product):
            result: list[_Numbered] = [(1, ())]
            for child in expression.children:
                parts = self._expand(child, is_root=False)
                result = self._checked([(f * g, tuple(sorted(a + b))) for f, a in result for g, b in parts])
            return result
        elif isinstance(expression, (prim.Variable, prim.Subscript)):
            definition = self._definition(expression)
            if definition is not None:
                return self._expand(definition, is_root=is_root and self._is_distributed(definition))
        return [(1, (self._number(expression),))]

    @staticmethod
    def _checked(monomials: list[_Numbered]) -> list[_Numbered]:
        if len(monomials) > _LIMIT:
            raise TooManyMonomialsError
        return monomials
