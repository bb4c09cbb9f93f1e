"""What a subexpression costs within its instruction: how often it is evaluated too often."""

from __future__ import annotations

import math
from collections.abc import Collection

import loopy as lp

from formcompiler.kernel.flops import count_kernel_operations, iname_extent


class TripCounts:
    """Numbers of iterations, counted with isl.

    Args:
        kernel: The kernel.
        parameter_value: What a parameter in a loop bound counts as.
    """

    def __init__(self, kernel: lp.LoopKernel, parameter_value: int = 2) -> None:
        self._kernel = kernel
        self._parameter_value = parameter_value
        self._extents: dict[str, int] = {}
        self._products: dict[frozenset[str], int] = {}

    def on(self, kernel: lp.LoopKernel) -> TripCounts:
        """Return the counts for a kernel that comes from this one; inames keep their ranges."""
        counts = TripCounts(kernel, self._parameter_value)
        counts._extents, counts._products = self._extents, self._products
        return counts

    def operations(self, kernel: lp.LoopKernel) -> int:
        """Return the operations of a kernel that comes from this one."""
        return count_kernel_operations(kernel, self.on(kernel))

    def extent(self, iname: str) -> int:
        """Return the number of iterations of one loop."""
        if iname not in self._extents:
            self._extents[iname] = iname_extent(self._kernel, iname, self._parameter_value)
        return self._extents[iname]

    def __call__(self, inames: Collection[str]) -> int:
        """Return the number of points of the domain of some inames."""
        key = frozenset(inames)
        if key not in self._products:
            self._products[key] = math.prod(map(self.extent, key))
        return self._products[key]
