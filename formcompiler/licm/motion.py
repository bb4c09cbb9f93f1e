"""Moves loop-invariant subexpressions of nested loops outwards; else common subexpressions within loops.

The steps: minimal iname sets, regrouping, minimal sets again, costs and candidates, precomputation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import loopy as lp

from formcompiler.licm.candidates import Context, find_common, find_hoistable
from formcompiler.licm.cost import TripCounts
from formcompiler.licm.minimal import make_minimal_inames
from formcompiler.licm.nest import Nest, least_prefix, read_nest
from formcompiler.licm.precompute import precompute
from formcompiler.licm.regroup import Regroup
from formcompiler.licm.scopes import Scopes

REWRITABLE = (lp.Assignment, lp.CallInstruction)
"""Instructions that are looked into; all others are put back unchanged."""


def rewritable(kernel: lp.LoopKernel, nest: Nest) -> list[str]:
    """Return the ids of the instructions that may be rewritten, in the order of the linearization."""
    return [name for name in nest.order if isinstance(kernel.id_to_insn[name], REWRITABLE)]


def hoist_nested(kernel: lp.LoopKernel, trips: TripCounts, *, is_eager: bool = False) -> lp.LoopKernel:
    """Return the kernel with loop-invariant subexpressions of perfectly nested iname sets moved outwards.

    Args:
        kernel: A linearized kernel.
        trips: Numbers of iterations.
        is_eager: Whether to take every loop for nested in those around it, and to regroup as much as possible.

    Raises:
        NotNestedError: if the operands of a sum or product depend on inames that are not nested.
    """
    nest = read_nest(kernel)
    scopes = Scopes(kernel, nest)
    changed = {}
    for name in rewritable(kernel, nest):
        if not (nest.loops[name] or nest.lanes_of[name]):
            continue
        instruction = kernel.id_to_insn[name]
        minimal = make_minimal_inames(kernel, nest, scopes, name)
        close = _closure(nest, name, minimal, is_eager=is_eager)
        expression = Regroup(close, name, is_eager=is_eager)(instruction.expression)
        is_same = expression == instruction.expression
        changed[name] = instruction if is_same else instruction.copy(expression=expression)
    kernel = kernel.copy(instructions=[changed.get(i.id, i) for i in kernel.instructions])
    contexts = {name: Context(kernel, nest, scopes, name) for name in changed}
    graph = find_hoistable(list(contexts.values()), trips.on(kernel))
    return precompute(kernel, nest, contexts, graph, scopes)


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


def share_common(kernel: lp.LoopKernel) -> lp.LoopKernel:
    """Return the kernel with subexpressions that occur more than once in the same loops computed once.

    Nothing leaves its loops: this is what is left to do where loops are not nested.
    """
    nest = read_nest(kernel)
    scopes = Scopes(kernel, nest)
    contexts = {name: Context(kernel, nest, scopes, name, is_moving=False) for name in rewritable(kernel, nest)}
    graph = find_common(list(contexts.values()))
    return precompute(kernel, nest, contexts, graph, scopes)
