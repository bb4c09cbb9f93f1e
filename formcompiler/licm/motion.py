"""Moves loop-invariant subexpressions of nested loops outwards; else common subexpressions within loops.

The steps: minimal iname sets, regrouping, minimal sets again, costs and candidates, precomputation. Instructions all of
whose operands differ between all iterations are left out, since nothing moves out of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Any

import loopy as lp

from formcompiler.kernel.instructions import with_changes
from formcompiler.kernel.names import names_in
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.candidates import Context, find_common, find_hoistable
from formcompiler.licm.minimal import accesses_in
from formcompiler.licm.nest import Loops, Nest, least_prefix
from formcompiler.licm.precompute import precompute
from formcompiler.licm.regroup import Regroup

REWRITABLE = (lp.Assignment, lp.CallInstruction)
"""Instructions that are looked into; all others are put back unchanged."""


def rewritable(kernel: lp.LoopKernel, nest: Nest) -> list[str]:
    """Return the ids of the instructions that may be rewritten, in the order of the linearization."""
    return [name for name in nest.order if isinstance(kernel.id_to_insn[name], REWRITABLE)]


def hoist_nested(facts: Analysis, chosen: Collection[str] | None = None, *, is_eager: bool = False) -> lp.LoopKernel:
    """Return the kernel with loop-invariant subexpressions of perfectly nested iname sets moved outwards.

    Args:
        facts: A linearized kernel.
        chosen: Instructions to look into, by default all.
        is_eager: Whether to take every loop for nested in those around it, and to regroup as much as possible.

    Raises:
        NotNestedError: if the operands of a sum or product depend on inames that are not nested.
    """
    kernel, nest = facts.kernel, facts.nest
    bound = _Bound(facts)
    names = [name for name in rewritable(kernel, nest) if chosen is None or name in chosen]
    contexts = {name: Context(facts, name) for name in names if not bound(name)}
    changed = {}
    for name, context in contexts.items():
        close = _closure(nest, name, context.minimal, is_eager=is_eager)
        expression = Regroup(close, name, is_eager=is_eager)(context.instruction.expression)
        if expression != context.instruction.expression:
            changed[name] = context.instruction = with_changes(context.instruction, expression=expression)
    graph = find_hoistable(list(contexts.values()), facts.trips)
    if not graph.children:
        return kernel
    targets = {(key.loops, key.lanes) for key in graph.children}
    for name in names:
        if name not in contexts and (nest.loops[name], nest.lanes_of[name]) in targets:
            contexts[name] = Context(facts, name)
    return precompute(facts, contexts, graph)


class _Bound:
    """Tells whether all that an instruction reads differs between all iterations of its loops, so that nothing moves.

    Args:
        facts: The kernel.
    """

    def __init__(self, facts: Analysis) -> None:
        self._facts = facts
        self._depths: dict[tuple[str, Loops], int] = {}

    def __call__(self, instruction: str) -> bool:
        """Tell so for one instruction."""
        nest = self._facts.nest
        loops, lanes = nest.loops[instruction], nest.lanes_of[instruction]
        expression = self._facts.instruction(instruction).expression
        if not (loops or lanes):
            return True
        for access in accesses_in(expression):
            names = names_in(access)
            if not lanes <= names or max(self._depth(n, loops, instruction) for n in names) < len(loops):
                return False
        return True

    def _depth(self, name: str, loops: Loops, reader: str) -> int:
        """Return the number of the innermost loop in which a variable gets its value, or that it is the iname of."""
        known = self._depths.get((name, loops))
        if known is None:
            inames = {name} if name in loops else self._facts.scopes.inames_of_read(name, reader)
            known = self._depths[name, loops] = len(least_prefix(loops, inames))
        return known


def _closure(
    nest: Nest, name: str, minimal: Callable[[Any], frozenset[str]], *, is_eager: bool
) -> Callable[[Any], frozenset[str]]:
    """Return minimal iname sets with the loops that these inames are nested in."""
    loops, lanes = nest.loops[name], nest.lanes

    @cache
    def close(inames: frozenset[str]) -> frozenset[str]:
        if is_eager:
            return frozenset(least_prefix(loops, inames - lanes)) | (inames & lanes)
        return nest.close(loops, inames)

    return lambda e: close(minimal(e))


def share_common(facts: Analysis) -> lp.LoopKernel:
    """Return the kernel with subexpressions that occur more than once in the same loops computed once.

    Nothing leaves its loops: this is what is left to do where loops are not nested.
    """
    contexts = {name: Context(facts, name, is_moving=False) for name in rewritable(facts.kernel, facts.nest)}
    return precompute(facts, contexts, find_common(list(contexts.values())))
