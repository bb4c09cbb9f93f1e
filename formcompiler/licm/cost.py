"""What a subexpression costs within its instruction: how often it is evaluated too often."""

from __future__ import annotations

import math
from collections.abc import Collection
from copy import copy
from typing import Any

import loopy as lp

from formcompiler.kernel.flops import (
    count_expression_operations,
    count_kernel_operations,
    count_points,
    iname_extent,
    is_box,
    plain_extents,
)


class TripCounts:
    """Numbers of iterations, counted with isl.

    Args:
        kernel: The kernel.
        parameter_value: What a parameter in a loop bound counts as.
    """

    def __init__(self, kernel: lp.LoopKernel, parameter_value: int = 2) -> None:
        self._kernel = kernel
        self._parameter_value = parameter_value
        self._extents = plain_extents(kernel)
        self._boxes = dict.fromkeys(self._extents, True)
        self._products: dict[frozenset[str], int] = {}
        self._counts: dict[int, tuple[Any, int]] = {}

    def on(self, kernel: lp.LoopKernel) -> TripCounts:
        """Return the counts for a kernel that comes from this one; inames keep their ranges."""
        counts = copy(self)
        counts._kernel = kernel
        return counts

    def add(self, iname: str, extent: int) -> None:
        """Add an iname that runs from 0 to below an extent."""
        self._extents[iname], self._boxes[iname] = extent, True

    @property
    def inames(self) -> frozenset[str]:
        """Return the inames with ranges that are known; others must not take their names, even if they are gone."""
        return frozenset(self._extents).union(self._boxes, *self._products)

    def operations(self, kernel: lp.LoopKernel) -> int:
        """Return the operations of a kernel that comes from this one."""
        counts = self.on(kernel)
        return count_kernel_operations(kernel, counts, counts._count)

    def _count(self, instruction: Any) -> int:
        """Return the operations of all runs of an instruction; kept by identity, since hashing takes longer."""
        known = self._counts.get(id(instruction))
        if known is None:
            count = count_expression_operations(instruction.expression) * self(instruction.within_inames)
            known = self._counts[id(instruction)] = (instruction, count)
        return known[1]

    def extent(self, iname: str) -> int:
        """Return the number of iterations of one loop."""
        if iname not in self._extents:
            self._extents[iname] = iname_extent(self._kernel, iname, self._parameter_value)
        return self._extents[iname]

    def is_box(self, iname: str) -> bool:
        """Tell whether a loop runs from 0 to a number that is known, whatever the iterations of other loops."""
        if iname not in self._boxes:
            self._boxes[iname] = is_box(self._kernel, iname)
        return self._boxes[iname]

    def __call__(self, inames: Collection[str]) -> int:
        """Return the number of points of the domain of some inames."""
        key = frozenset(inames)
        if key not in self._products:
            if all(map(self.is_box, key)):
                self._products[key] = math.prod(map(self.extent, key))
            else:
                self._products[key] = count_points(self._kernel, key, self._parameter_value)
        return self._products[key]
