"""The general mode: iname sets need not be nested in one another."""

from __future__ import annotations

import loopy as lp

from formcompiler.kernel.flops import count_kernel_operations
from formcompiler.licm.columns import group_columns
from formcompiler.licm.contract import contract_kernel
from formcompiler.licm.invariant import shrink_arrays
from formcompiler.licm.motion import hoist_nested, share_common
from formcompiler.licm.regroup import NotNestedError
from formcompiler.licm.scale import scale_sums
from formcompiler.licm.share import share_values


def hoist_general(kernel: lp.LoopKernel, parameter_value: int = 2) -> lp.LoopKernel:
    """Return the kernel after all steps that save operations."""
    best, cost = kernel, count_kernel_operations(kernel, parameter_value)
    for step in (group_columns, _scale_and_shrink, share_values, contract_kernel, _hoist, share_values):
        changed = step(best, parameter_value)
        new = count_kernel_operations(changed, parameter_value)
        if new <= cost:
            best, cost = changed, new
    return best


def _scale_and_shrink(kernel: lp.LoopKernel, parameter_value: int) -> lp.LoopKernel:
    return shrink_arrays(scale_sums(kernel, parameter_value), parameter_value)


def _hoist(kernel: lp.LoopKernel, parameter_value: int) -> lp.LoopKernel:
    try:
        return hoist_nested(kernel, parameter_value)
    except NotNestedError:
        return share_common(kernel)
