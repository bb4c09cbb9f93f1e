"""Which entries of an array a kernel touches."""

from __future__ import annotations

from typing import Any

import loopy as lp
import pymbolic.primitives as prim
from pymbolic.mapper import WalkMapper


def find_entries(t_unit: lp.TranslationUnit, name: str, n_axes: int) -> frozenset[tuple[int, ...]] | None:
    """Return the indices along the first axes of an array that the kernel touches; None if not all are constant.

    Args:
        t_unit: The kernel.
        name: The array.
        n_axes: Number of its axes to look at; further ones (lanes) are left out.
    """
    finder = _Finder(name, n_axes)
    for instruction in t_unit.default_entrypoint.instructions:
        finder(instruction.assignee)
        finder(instruction.expression)
    return None if finder.is_variable else frozenset(finder.entries)


class _Finder(WalkMapper[[]]):
    """Collects constant indices."""

    def __init__(self, name: str, n_axes: int) -> None:
        super().__init__()
        self._name = name
        self._n_axes = n_axes
        self.entries: set[tuple[int, ...]] = set()
        self.is_variable = False

    def map_subscript(self, expr: Any) -> None:
        for index in expr.index_tuple:
            self.rec(index)
        if expr.aggregate.name != self._name:
            return
        index = expr.index_tuple[: self._n_axes]
        if any(isinstance(i, prim.ExpressionNode) for i in index):
            self.is_variable = True
        else:
            self.entries.add(tuple(int(i) for i in index))
