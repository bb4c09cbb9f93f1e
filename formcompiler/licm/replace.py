"""Puts names in the place of precomputed subexpressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymbolic.primitives as prim
from loopy.symbolic import UncachedIdentityMapper


class Replace(UncachedIdentityMapper[[]]):
    """Replaces nodes, outermost first; sums and products are not flattened, so that regrouped trees are found.

    Args:
        find: Replacement of a node, or None.
        is_whole: Whether the root itself may be replaced.
    """

    def __init__(self, find: Callable[[Any], Any | None]) -> None:
        super().__init__()
        self._find = find

    def rec(self, expr: Any) -> Any:
        """Return an expression with all replacements made."""
        found = self._find(expr)
        return super().rec(expr) if found is None else found

    __call__ = rec

    def below(self, expr: Any) -> Any:
        """Return an expression with replacements made below its root only."""
        return super().rec(expr)

    def map_sum(self, expr: Any) -> Any:
        """Return a sum with as many operands as before."""
        return prim.Sum(tuple(self.rec(child) for child in expr.children))

    def map_product(self, expr: Any) -> Any:
        """Return a product with as many operands as before."""
        return prim.Product(tuple(self.rec(child) for child in expr.children))

    def map_subscript(self, expr: Any) -> Any:
        """Return an array access unchanged."""
        return expr
