"""The general mode: iname sets need not be nested in one another."""

from __future__ import annotations

import loopy as lp
import pymbolic.primitives as prim

from formcompiler.licm.columns import group_columns
from formcompiler.licm.contract import contract_kernel
from formcompiler.licm.cost import TripCounts
from formcompiler.licm.edit import link_dependencies
from formcompiler.licm.invariant import shrink_arrays
from formcompiler.licm.motion import hoist_nested
from formcompiler.licm.regroup import NotNestedError, flat_operands
from formcompiler.licm.scale import scale_sums
from formcompiler.licm.share import drop_copies, share_values


def hoist_general(kernel: lp.LoopKernel, trips: TripCounts) -> lp.LoopKernel:
    """Return the kernel after all steps that save operations; a step that takes more of them is left out.

    Ordering restriction: sums over dofs and points are rewritten first, because they are recognised by their form,
    which hoisting and sharing change; copies are dropped before sums over points are, so that equal factors are seen
    to be equal; subexpressions are shared at the end, when everything is in its loop, since a shared product moves
    only as a whole.
    """
    best, cost = put_targets_first(kernel), trips.operations(kernel)
    for step in (group_columns, _scale_and_shrink, drop_copies, contract_kernel, _hoist, share_values):
        changed = step(best, trips)
        if changed is best:
            continue
        new = trips.operations(changed)
        if new <= cost:
            best, cost = changed, new
    return link_dependencies(best)


def put_targets_first(kernel: lp.LoopKernel) -> lp.LoopKernel:
    """Return the kernel with sums in the form ``x + ..`` where they are added to x, and without sums in these sums."""
    changed = {}
    for instruction in kernel.instructions:
        if isinstance(instruction, lp.Assignment) and isinstance(instruction.expression, prim.Sum):
            terms = list(flat_operands(instruction.expression))
            if instruction.assignee in terms:
                terms.remove(instruction.assignee)
                terms.insert(0, instruction.assignee)
            value = prim.Sum(tuple(terms))
            if value != instruction.expression:
                changed[instruction.id] = instruction.copy(expression=value)
    if not changed:
        return kernel
    return kernel.copy(instructions=[changed.get(i.id, i) for i in kernel.instructions])


def _scale_and_shrink(kernel: lp.LoopKernel, trips: TripCounts) -> lp.LoopKernel:
    return shrink_arrays(scale_sums(kernel, trips), trips)


def _hoist(kernel: lp.LoopKernel, trips: TripCounts) -> lp.LoopKernel:
    """Hoist with lanes last: without them, iname sets are chains of loops."""
    try:
        return hoist_nested(kernel, trips, is_eager=True)
    except NotNestedError:
        return hoist_nested(kernel, trips)
