"""Sums over dofs with tables of facets: dofs that vanish on a facet are left out, others are combined beforehand.

Rewrite: where of the columns of ``t[f]``, for each facet f, all but a few vanish or are multiples of these
(`formcompiler.licm.multiples`), ::

    for q: s = 0; for k: s += t[f, q, k] * x[k]
    ->
    for g: y[g] = scale[f, g, 0] * x[column[f, g, 0]] + scale[f, g, 1] * x[column[f, g, 1]] + ..
    for q: s = 0; for g: s += values[f, q, g] * y[g]

Values of a function on a facet take the dofs there; its derivative along the normal of a facet of a cell that is a
product of intervals takes one combination of dofs for each dof on the facet.

Legality: s is a scalar that is set by these two instructions only; x is never written by the kernel, f neither, and
both do not depend on q. Rounding changes.

Profitability: operations, next to those of `formcompiler.licm.columns`, and reads of dofs at numbers from a table, each
counted as `INDEXED` operations: with few points, or few dofs that are left out, they take longer than they save.
"""

from __future__ import annotations

from typing import Any

import loopy as lp
import pymbolic.primitives as prim
from loopy.schedule import EnterLoop

from formcompiler.kernel.names import names_in
from formcompiler.kernel.terms import sum_of
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.columns import DofSum, count_groups, find_dof_sums
from formcompiler.licm.directions import DirectionLoops, Values
from formcompiler.licm.edit import Editor
from formcompiler.licm.multiples import INDEXED, Multiples, find_multiples, number_of, split_index, times
from formcompiler.licm.nest import Loops
from formcompiler.licm.substitute import substitute


def sum_on_facets(facts: Analysis) -> lp.LoopKernel:
    """Return the kernel with sums over dofs with tables of facets over fewer terms where that saves operations."""
    writer = _Writer(facts)
    for item in find_dof_sums(facts):
        if item.axis != len(item.table.index_tuple) - 1:
            continue
        around = facts.nest.loops[item.sum.start.id]
        if not around or not facts.is_box(around[-1]) or facts.nest.lanes & names_in(item.sum.term):
            continue
        selectors = split_index(facts, item.table, around[-1], item.sum.iname)
        if selectors is not None and around[-1] not in names_in(item.dofs):
            multiples = _find_plan(facts, item)
            if multiples is not None:
                writer.write(item, around, selectors, multiples)
    return writer.finish()


def _find_plan(facts: Analysis, item: DofSum) -> Multiples | None:
    """Return the groups of columns of a table; None if they save nothing."""
    source: Any = facts.kernel.temporary_variables[item.table.aggregate.name]
    table = source.initializer
    found = find_multiples(table)
    if found is None:
        return None
    n_groups, n_members = found.shape
    before = n_groups * (n_members * INDEXED + (0 if found.is_choice else 2 * n_members - 1))
    is_better = before + table.shape[-2] * (2 * n_groups - 1) < count_groups(table)
    return found if is_better else None


class _Writer:
    """Writes sums over groups of dofs.

    Args:
        facts: The kernel as it was.
    """

    def __init__(self, facts: Analysis) -> None:
        self._facts = facts
        self._editor: Editor = facts.edit()
        self._before: dict[Loops, DirectionLoops] = {}
        self._inside: dict[tuple[Loops, str], DirectionLoops] = {}
        self._known: dict[Any, Values] = {}

    def write(self, item: DofSum, around: Loops, selectors: tuple[Any, ...], multiples: Multiples) -> None:
        """Write one sum; combinations of dofs are shared by all sums that take the same."""
        dofs = substitute({item.sum.iname: prim.Variable("k")})(item.dofs)
        key = (around, dofs, selectors, multiples.key)
        if key not in self._known:
            self._known[key] = self._combine(item, around, selectors, multiples)
        extents = multiples.shape[:1]
        place = (around, item.sum.iname)
        loops = self._inside.setdefault(place, DirectionLoops(self._facts, self._editor, around))
        index = loops.open(0, extents)
        value = multiples.read(self._editor, selectors, (prim.Variable(around[-1]), number_of(index)))
        target = item.sum.add.assignee
        loops.assign(0, extents, target, [target, prim.Product((value, self._known[key](index)))])
        self._editor.remove(item.sum.add.id)

    def _combine(self, item: DofSum, around: Loops, selectors: tuple[Any, ...], multiples: Multiples) -> Values:
        """Write the combinations of dofs in front of the loop over points."""
        extents = multiples.shape[:1]
        loops = self._before.setdefault(around, DirectionLoops(self._facts, self._editor, around[:-1]))
        index = loops.open(0, extents)
        dtype = self._facts.kernel.temporary_variables[item.sum.name].dtype
        result = loops.array(item.sum.start.assignee, f"{item.sum.name}_dofs", dtype, extents)
        members = multiples.members(self._editor, selectors, number_of(index))
        terms = [times(f, substitute({item.sum.iname: column})(item.dofs)) for column, f in members]
        loops.assign(0, extents, result(index), [sum_of(terms)])
        return result

    def finish(self) -> lp.LoopKernel:
        """Return the kernel."""
        for around, loops in self._before.items():
            self._editor.insert_before(EnterLoop(iname=around[-1]), loops.items)
        for (_, iname), loops in self._inside.items():
            self._editor.insert_before(EnterLoop(iname=iname), loops.items)
        return self._editor.finish()
