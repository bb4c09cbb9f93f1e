"""The general mode: iname sets need not be nested in one another."""

from __future__ import annotations

import loopy as lp
import pymbolic.primitives as prim

from formcompiler.kernel.instructions import with_changes
from formcompiler.kernel.terms import flat_operands
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.columns import group_columns
from formcompiler.licm.contract import contract_kernel
from formcompiler.licm.direction_sums import sum_by_direction
from formcompiler.licm.direction_tests import add_by_direction
from formcompiler.licm.facet_sums import sum_on_facets
from formcompiler.licm.facet_tests import add_on_facets
from formcompiler.licm.invariant import shrink_arrays
from formcompiler.licm.motion import hoist_nested
from formcompiler.licm.scale import scale_sums
from formcompiler.licm.share import share_values


def hoist_general(facts: Analysis) -> lp.LoopKernel:
    """Return the kernel after all steps that save operations; a step that takes more of them is left out.

    Dependencies of instructions are left as they were: see `formcompiler.licm.edit.link_dependencies`.

    Ordering restriction: sums over dofs and points are rewritten first, because they are recognised by their form,
    which hoisting and sharing change; values are shared at the end, when everything is in its loop.

    A loop that loopy is to turn into vector code allows no scalar inside of it: there, values are only hoisted.
    """
    original = facts.kernel
    facts = facts.of(put_targets_first(original))
    steps = (
        sum_by_direction,
        add_by_direction,
        sum_on_facets,
        add_on_facets,
        group_columns,
        _scale_and_shrink,
        contract_kernel,
        _hoist_predicated,
        share_values,
    )
    for step in (_hoist,) if facts.nest.looped_lanes(original) else steps:
        changed = facts.of(step(facts))
        if changed.cost <= facts.cost:
            facts = changed
    return facts.kernel


def put_targets_first(kernel: lp.LoopKernel) -> lp.LoopKernel:
    """Return the kernel with sums in the form ``x + ..`` where they are added to x, and without sums in these sums."""
    changed = {}
    for instruction in kernel.instructions:
        if isinstance(instruction, lp.Assignment) and isinstance(instruction.expression, prim.Sum):
            children = instruction.expression.children
            terms = list(flat_operands(instruction.expression))
            if terms[0] != instruction.assignee and instruction.assignee in terms:
                terms.remove(instruction.assignee)
                terms.insert(0, instruction.assignee)
            elif len(terms) == len(children):
                continue
            changed[instruction.id] = with_changes(instruction, expression=prim.Sum(tuple(terms)))
    if not changed:
        return kernel
    return kernel.copy(instructions=[changed.get(i.id, i) for i in kernel.instructions])


def _scale_and_shrink(facts: Analysis) -> lp.LoopKernel:
    scaled = facts.of(scale_sums(facts))
    return shrink_arrays(scaled)


def _hoist(facts: Analysis) -> lp.LoopKernel:
    return hoist_nested(facts, is_eager=True)


def _hoist_predicated(facts: Analysis) -> lp.LoopKernel:
    """Hoist from instructions that values are not shared with."""
    special = [i.id for i in facts.kernel.instructions if not isinstance(i, lp.Assignment) or i.predicates]
    return hoist_nested(facts, special, is_eager=True) if special else facts.kernel
