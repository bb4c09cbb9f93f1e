"""Sums of products in normal form: monomials of atoms, seen through names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as prim

_LIMIT = 256
"""Largest number of monomials of one expression."""


@dataclass(frozen=True)
class Monomial:
    """A literal times a product of atoms.

    Attributes:
        factor: The literal.
        atoms: Expressions that are not looked into, sorted by when they were first seen.
    """

    factor: Any
    atoms: tuple[Any, ...]


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
        return self.collect(self._expand(expression, is_root=True))

    def collect(self, monomials: Iterable[Monomial]) -> list[Monomial]:
        """Return monomials with those of the same atoms added up."""
        total: dict[tuple[Any, ...], Any] = {}
        for monomial in monomials:
            total[monomial.atoms] = total.get(monomial.atoms, 0) + monomial.factor
        return [Monomial(factor, atoms) for atoms, factor in total.items() if factor != 0]

    def product(self, factor: Any, atoms: Iterable[Any]) -> Monomial:
        """Return a monomial with sorted atoms."""
        return Monomial(factor, tuple(sorted(atoms, key=self._number)))

    def _number(self, atom: Any) -> int:
        return self._numbers.setdefault(atom, len(self._numbers))

    def _expand(self, expression: Any, *, is_root: bool) -> list[Monomial]:
        if not isinstance(expression, prim.ExpressionNode):
            return [Monomial(expression, ())]
        if isinstance(expression, prim.Sum):
            if not (is_root or self._is_distributed(expression)):
                return [self.product(1, [expression])]
            return self._checked([m for c in expression.children for m in self._expand(c, is_root=is_root)])
        if isinstance(expression, prim.Product):
            result = [Monomial(1, ())]
            for child in expression.children:
                parts = self._expand(child, is_root=False)
                pairs = [self.product(a.factor * b.factor, a.atoms + b.atoms) for a in result for b in parts]
                result = self._checked(pairs)
            return result
        if isinstance(expression, (prim.Variable, prim.Subscript)):
            definition = self._definition(expression)
            if definition is not None:
                return self._expand(definition, is_root=is_root and self._is_distributed(definition))
        return [self.product(1, [expression])]

    @staticmethod
    def _checked(monomials: list[Monomial]) -> list[Monomial]:
        if len(monomials) > _LIMIT:
            raise TooManyMonomialsError
        return monomials
