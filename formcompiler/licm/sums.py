"""Sums in a loop: a scalar that starts at zero and is added to in one loop, read only when it is complete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import loopy as lp
import pymbolic.primitives as prim

from formcompiler.kernel.names import names_written
from formcompiler.licm.analysis import Analysis


@dataclass(frozen=True)
class LoopSum:
    """A sum.

    Attributes:
        name: The scalar.
        start: Instruction that sets it to zero.
        add: Instruction that adds to it.
        term: What is added.
        iname: Iname that is summed over.
    """

    name: str
    start: Any
    add: Any
    term: Any
    iname: str


def find_sums(facts: Analysis) -> tuple[LoopSum, ...]:
    """Return the sums of a kernel, in program order."""
    return facts.once(_find_sums)


def _find_sums(facts: Analysis) -> tuple[LoopSum, ...]:
    added = {ids[1] for ids in facts.scopes.writers.values() if len(ids) == 2}
    found = (_find_sum(facts, name) for name in facts.nest.order if name in added)
    return tuple(item for item in found if item is not None)


def _find_sum(facts: Analysis, name: str) -> LoopSum | None:
    """Return the sum that an instruction adds to, None if it is of another kind."""
    add = facts.instruction(name)
    value = getattr(add, "expression", None)
    if not isinstance(add, lp.Assignment) or not isinstance(value, prim.Sum) or len(value.children) != 2:
        return None
    if add.predicates or value.children[0] != add.assignee or not facts.nest.loops[name]:
        return None
    (variable,) = names_written(add)
    writers = facts.scopes.writers[variable]
    if len(writers) != 2 or writers[1] != name or not facts.is_scalar(variable):
        return None
    start = facts.instruction(writers[0])
    iname = facts.nest.loops[name][-1]
    is_zero = isinstance(start, lp.Assignment) and not isinstance(start.expression, prim.ExpressionNode)
    if not is_zero or start.expression != 0 or start.predicates or start.assignee != add.assignee:
        return None
    if start.within_inames != add.within_inames - {iname} or not facts.is_box(iname):
        return None
    found = LoopSum(variable, start, add, value.children[1], iname)
    return None if _is_read_inside(facts, found) else found


def _is_read_inside(facts: Analysis, found: LoopSum) -> bool:
    """Tell whether the sum is read before it is complete."""
    position, end = facts.nest.position, facts.nest.exit[found.iname]
    readers = (r for r in facts.readers.get(found.name, ()) if r != found.add.id)
    return any(position[found.start.id] < position[r] < end for r in readers)
