"""Sums over dofs with tables that are products over directions: one direction after the other.

Rewrite: with ``t[q, k] = a[q0, k0] * b[q1, k1]``, found by the values of t (`formcompiler.licm.separable`), ::

    for q: s = 0; for k: s += t[q, k] * x[k]
    ->
    for k0: for r1: y[k0, r1] = b[r1, 0] * x[column[k0, 0]] + b[r1, 1] * x[column[k0, 1]] + ..
    for r0: for r1: z[r0, r1] = a[r0, 0] * y[0, r1] + a[r0, 1] * y[1, r1] + ..
    for q: s = z[q]

Sums over the same dofs share what they have in common: the value and two derivatives of a function contract the same
table in the third direction.

Legality: s is a scalar that is set by these two instructions only, x is never written by the kernel and does not depend
on q. Rounding changes.

Profitability: operations of all sums over the same dofs, for the best order of directions, next to those of
`formcompiler.licm.columns`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import loopy as lp
import numpy as np
import pymbolic.primitives as prim
from loopy.schedule import EnterLoop

from formcompiler.kernel.names import names_in
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.columns import DofSum, count_sum, find_dof_sums
from formcompiler.licm.directions import DirectionLoops, Family, Values, count_contraction, find_family
from formcompiler.licm.edit import Editor
from formcompiler.licm.nest import Loops
from formcompiler.licm.separable import FloatArray
from formcompiler.licm.substitute import substitute

Steps = tuple[tuple[int, int], ...]
"""Directions that were contracted, each with the number of its factor."""


def sum_by_direction(facts: Analysis) -> lp.LoopKernel:
    """Return the kernel with sums over dofs carried out direction by direction where that saves operations."""
    sums: dict[Any, list[DofSum]] = {}
    for item in find_dof_sums(facts):
        if _is_suitable(facts, item):
            dofs = substitute({item.sum.iname: prim.Variable("k")})(item.dofs)
            sums.setdefault((facts.nest.loops[item.sum.start.id], dofs), []).append(item)
    if not sums:
        return facts.kernel
    editor = facts.edit()
    loops: dict[Loops, DirectionLoops] = {}
    plans: dict[tuple[str, ...], tuple[Family, Sequence[int]] | None] = {}
    for (around, _), items in sums.items():
        names = tuple(item.table.aggregate.name for item in items)
        if names not in plans:
            plans[names] = _find_plan([_table(facts, item) for item in items])
        plan = plans[names]
        if plan is not None:
            _write(facts, editor, loops.setdefault(around, DirectionLoops(facts, editor, around[:-1])), items, *plan)
    for around, written in loops.items():
        editor.insert_before(EnterLoop(iname=around[-1]), written.items)
    return editor.finish()


def _is_suitable(facts: Analysis, item: DofSum) -> bool:
    """Tell whether a sum runs over all columns of a table whose rows are numbered by the loop around it."""
    loops = facts.nest.loops[item.sum.start.id]
    if not loops or not facts.is_box(loops[-1]):
        return False
    is_full = _table(facts, item).shape == (facts.trips.extent(loops[-1]), facts.trips.extent(item.sum.iname))
    index = (prim.Variable(loops[-1]), prim.Variable(item.sum.iname))
    return is_full and item.table.index_tuple == index and loops[-1] not in names_in(item.dofs)


def _table(facts: Analysis, item: DofSum) -> FloatArray:
    source: Any = facts.kernel.temporary_variables[item.table.aggregate.name]
    values: FloatArray = source.initializer
    return values


def _find_plan(tables: Sequence[FloatArray]) -> tuple[Family, Sequence[int]] | None:
    """Return the tables as a family and the best order of directions; None if that saves nothing."""
    family = find_family(tables)
    if family is None:
        return None
    order = min(family.orders(), key=lambda order: _count(family, order))
    return (family, order) if _count(family, order) < sum(map(count_sum, tables)) else None


def _count(family: Family, order: Sequence[int]) -> int:
    """Return the operations of all contractions, those that tables share counted once."""
    done: set[Steps] = set()
    total = 0
    for number, factors in enumerate(family.factors):
        extents, steps = list(family.columns.shape), Steps()
        for direction in family.constant_first(number, order):
            matrix = factors[direction].values
            others = math.prod(extents) // extents[direction]
            extents[direction] = len(matrix)
            steps = (*steps, (direction, factors[direction].number))
            if steps not in done and not factors[direction].is_identity:
                total += others * count_contraction(matrix)
            done.add(steps)
    return total


def _write(
    facts: Analysis,
    editor: Editor,
    loops: DirectionLoops,
    items: Sequence[DofSum],
    family: Family,
    order: Sequence[int],
) -> None:
    """Write the contractions of a family; its sums then just read their results."""
    dofs = loops.dofs(items[0].dofs, items[0].sum.iname, family.columns)
    done: dict[Steps, Values] = {}
    for number, (item, factors) in enumerate(zip(items, family.factors, strict=True)):
        values, steps = dofs, Steps()
        for level, direction in enumerate(family.constant_first(number, order)):
            steps = (*steps, (direction, factors[direction].number))
            if steps not in done and not factors[direction].is_identity:
                done[steps] = _contract(facts, loops, item, values, factors[direction].values, direction, level)
            values = done.setdefault(steps, values)
        rows = np.meshgrid(*(factor.row_of for factor in factors), indexing="ij")
        flat = np.ravel_multi_index(rows, values.extents).ravel()
        point = prim.Variable(facts.nest.loops[item.sum.start.id][-1])
        editor.change(item.sum.start.id, expression=values.at(loops.numbered("row", flat, point)))
        editor.remove(item.sum.add.id)


def _contract(
    facts: Analysis,
    loops: DirectionLoops,
    item: DofSum,
    values: Values,
    matrix: FloatArray,
    direction: int,
    level: int,
) -> Values:
    """Write the contraction of one direction and return its result."""
    extents = (*values.extents[:direction], len(matrix), *values.extents[direction + 1 :])
    name = item.sum.name
    dtype = facts.kernel.temporary_variables[name].dtype
    result = loops.array(item.sum.start.assignee, f"{name}_{level}", dtype, extents)
    index = loops.open(level, extents)
    loops.assign(level, extents, result(index), loops.contraction(matrix, direction, index, values))
    return result
