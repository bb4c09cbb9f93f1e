"""The general mode: iname sets need not be nested in one another."""

from __future__ import annotations

import loopy as lp

from formcompiler.licm.columns import group_columns
from formcompiler.licm.contract import contract_kernel
from formcompiler.licm.cost import TripCounts
from formcompiler.licm.edit import link_dependencies
from formcompiler.licm.invariant import shrink_arrays
from formcompiler.licm.motion import hoist_nested
from formcompiler.licm.regroup import NotNestedError
from formcompiler.licm.scale import scale_sums
from formcompiler.licm.share import share_values


def hoist_general(kernel: lp.LoopKernel, trips: TripCounts) -> lp.LoopKernel:
    """Return the kernel after all steps that save operations; a step that takes more of them is left out.

    Ordering restriction: sums over dofs and points are rewritten first, because they are recognised by their form,
    which hoisting and sharing change; values are shared before sums over points are, so that equal factors are seen to
    be equal, and again at the end, when everything is in its loop.
    """
    best, cost = kernel, trips.operations(kernel)
    for step in (group_columns, _scale_and_shrink, share_values, contract_kernel, _hoist, share_values):
        changed = step(best, trips)
        if changed is best:
            continue
        new = trips.operations(changed)
        if new <= cost:
            best, cost = changed, new
    return link_dependencies(best)


def _scale_and_shrink(kernel: lp.LoopKernel, trips: TripCounts) -> lp.LoopKernel:
    return shrink_arrays(scale_sums(kernel, trips), trips)


def _hoist(kernel: lp.LoopKernel, trips: TripCounts) -> lp.LoopKernel:
    """Hoist with lanes last: without them, iname sets are chains of loops."""
    try:
        return hoist_nested(kernel, trips, is_eager=True)
    except NotNestedError:
        return hoist_nested(kernel, trips)
