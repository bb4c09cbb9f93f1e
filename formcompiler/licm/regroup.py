"""Regroups sums and products so that their trees mirror the nest of loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from typing import Any

import pymbolic.primitives as prim
from loopy.symbolic import UncachedIdentityMapper

from formcompiler.errors import TransformError
from formcompiler.kernel.terms import flat_operands
from formcompiler.licm.minimal import Inames


class NotNestedError(TransformError):
    """Iname sets of the children of a node are not nested in one another."""


class Regroup(UncachedIdentityMapper[[]]):
    """Regroups the sums and products of one instruction.

    Rewrite: children with the same minimal iname set become one node; the groups are chained by size of set::

        x[q] + y[q, i] + c + z[q, i]   ->   c + (x[q] + (y[q, i] + z[q, i]))

    Sums in sums are one sum before. A node is left as it is if all its children have the same set, or if no two have.

    Legality: additions and multiplications are reordered, which changes results by rounding only.

    Failure: `NotNestedError` if the sets of the groups are not nested in one another and it is not eager.

    Args:
        minimal: Minimal iname set of a subexpression, with the loops that these inames are nested in.
        instruction: Id, for messages.
        is_eager: Whether to regroup also where no two children have the same set, and to put small sets inside of
            large ones, ``((c + x[q]) + (y[q, i] + z[q, i]))``, which moves more operations outwards.
    """

    def __init__(self, minimal: Callable[[Any], Inames], instruction: str, *, is_eager: bool = False) -> None:
        super().__init__()
        self._is_eager = is_eager
        self._minimal = minimal
        self._instruction = instruction

    def map_sum(self, expr: Any) -> Any:
        """Return a sum, regrouped."""
        return self._node(prim.Sum, expr)

    def map_product(self, expr: Any) -> Any:
        """Return a product, regrouped."""
        return self._node(prim.Product, expr)

    def map_call(self, expr: Any) -> Any:
        """Return a call unchanged: calls are taken whole."""
        return expr

    map_subscript = map_call
    map_variable = map_call

    def _node(self, kind: Callable[[tuple[Any, ...]], Any], expr: Any) -> Any:
        children = list(flat_operands(expr))
        groups: dict[Inames, list[Any]] = {}
        for child in children:
            groups.setdefault(self._minimal(child), []).append(child)
        if not 1 < len(groups) < len(children) + self._is_eager or len(children) < 3:
            return kind(tuple(self.rec(child) for child in children))
        if self._is_eager:
            return self._join(kind, groups)
        ordered = sorted(groups, key=len)
        for small, large in pairwise(ordered):
            if not small <= large:
                raise NotNestedError(
                    f"instruction {self._instruction}: operands of '{expr}' depend on {_show(small)} and on "
                    f"{_show(large)}, neither of which contains the other"
                )
        parts = [self._group(kind, groups[inames]) for inames in ordered]
        return reduce(lambda inner, part: kind((part, inner)), reversed(parts))

    def _join(self, kind: Callable[[tuple[Any, ...]], Any], groups: dict[Inames, list[Any]]) -> Any:
        """Return a tree of groups, each with the largest one that its inames contain; roots come together at last."""
        roots: dict[Inames, Any] = {}
        for inames in sorted(groups, key=lambda s: (len(s), sorted(s))):
            part = self._group(kind, groups[inames])
            inner = max((root for root in roots if root <= inames), key=len, default=None)
            roots[inames] = part if inner is None else kind((roots.pop(inner), part))
        return next(iter(roots.values())) if len(roots) == 1 else kind(tuple(roots.values()))

    def _group(self, kind: Callable[[tuple[Any, ...]], Any], children: list[Any]) -> Any:
        done = tuple(self.rec(child) for child in children)
        return done[0] if len(done) == 1 else kind(done)


def _show(inames: Inames) -> str:
    return "{" + ", ".join(sorted(inames)) + "}"
