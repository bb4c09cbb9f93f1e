"""Sums over points with tables of facets: dofs that vanish on a facet are left out, multiples of one added to behind.

Rewrite: where of the columns of ``t[f]``, for each facet f, all but a few vanish or are multiples of these
(`formcompiler.licm.multiples`), ::

    for q: for i: A[i] += c * t[f, q, i] + ..
    ->
    for g: y[g] = 0
    for q: for g: y[g] += c * values[f, q, g]; for i: A[i] += ..
    for g: A[column[f, g, 0]] += scale[f, g, 0] * y[g]; A[column[f, g, 1]] += scale[f, g, 1] * y[g]; ..

Legality: A is only added to in the loop over points, and read after it; f is never written. Rounding changes.

Profitability: operations, and reads and writes of A at numbers from a table, which count as `INDEXED` operations each.
All tables of an instruction, or none: two loops in the place of one were slower in measurements with fewer operations.
"""

from __future__ import annotations

from typing import Any

import loopy as lp
import pymbolic.primitives as prim
from loopy.schedule import EnterLoop, LeaveLoop

from formcompiler.kernel.names import names_in
from formcompiler.kernel.terms import flat_operands, product_of, sum_of
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.contract import find_accumulations
from formcompiler.licm.directions import DirectionLoops, Values
from formcompiler.licm.edit import Editor
from formcompiler.licm.evaluate import is_table_access
from formcompiler.licm.minimal import make_minimal_inames
from formcompiler.licm.multiples import INDEXED, Multiples, find_multiples, number_of, split_index, times
from formcompiler.licm.nest import Loops
from formcompiler.licm.substitute import substitute
from formcompiler.licm.write_plan import Accumulation

Terms = dict[Any, tuple[Multiples, list[Any]]]
"""Tables with their groups of columns, and what each is multiplied with."""


def add_on_facets(facts: Analysis) -> lp.LoopKernel:
    """Return the kernel with sums over points with tables of facets for fewer dofs where that saves operations."""
    writer = _Writer(facts)
    for found in find_accumulations(facts):
        if len(found.dofs) != 1 or not found.points:
            continue
        terms = _find_terms(facts, found)
        if terms and not facts.nest.lanes & names_in(found.instruction.assignee):
            writer.write(found, terms)
    return writer.finish()


def _find_terms(facts: Analysis, found: Accumulation) -> Terms:
    """Return the tables with groups of columns and what each is multiplied with; nothing if that saves nothing."""
    (dof,), point = found.dofs, found.points[-1]
    minimal = make_minimal_inames(facts.kernel, facts.nest, facts.scopes, found.instruction.id)
    result: Terms = {}
    saved = 0
    for term in (t for value in found.terms for t in _operands(value, prim.Sum)):
        factors = _operands(term, prim.Product)
        tables = [f for f in factors if dof in minimal(f)]
        if len(tables) != 1 or not is_table_access(facts.kernel, tables[0], facts.unwritten | {point, dof}):
            return {}
        if tables[0] not in result:
            multiples = _find_multiples(facts, tables[0], point, dof)
            if multiples is None:
                return {}
            result[tables[0]] = (multiples, [])
            saved += _count_saved(multiples, facts.trips.extent(point), facts.trips.extent(dof))
        factors.remove(tables[0])
        result[tables[0]][1].append(product_of(factors))
    return result if saved > 0 else {}


def _operands(expression: Any, kind: type) -> list[Any]:
    return list(flat_operands(expression)) if isinstance(expression, kind) else [expression]


def _find_multiples(facts: Analysis, access: Any, point: str, dof: str) -> Multiples | None:
    """Return the groups of columns of a table; None if it has none."""
    if split_index(facts, access, point, dof) is None:
        return None
    source: Any = facts.kernel.temporary_variables[access.aggregate.name]
    return find_multiples(source.initializer)


def _count_saved(multiples: Multiples, n_points: int, n_dofs: int) -> int:
    """Return the operations that a table takes less, reads and writes at numbers from a table among them."""
    n_groups, n_members = multiples.shape
    behind = n_groups * n_members * (2 * INDEXED + (1 if multiples.is_choice else 2))
    return 2 * n_points * n_dofs - (2 * n_points - 1) * n_groups - behind


class _Writer:
    """Writes sums over points for groups of dofs.

    Args:
        facts: The kernel as it was.
    """

    def __init__(self, facts: Analysis) -> None:
        self._facts = facts
        self._editor: Editor = facts.edit()
        self._behind: dict[Loops, DirectionLoops] = {}
        self._before: dict[Loops, DirectionLoops] = {}

    def write(self, found: Accumulation, terms: Terms) -> None:
        """Write the sums of one instruction; terms that are not rewritten stay in it."""
        inside = DirectionLoops(self._facts, self._editor, found.points)
        for access, (multiples, factors) in terms.items():
            self._add(found, inside, access.index_tuple[:-2], multiples, sum_of(factors))
        self._editor.insert_before(EnterLoop(iname=found.dofs[0]), inside.items)
        self._editor.remove(found.instruction.id)

    def _add(
        self, found: Accumulation, inside: DirectionLoops, selectors: tuple[Any, ...], multiples: Multiples, factor: Any
    ) -> None:
        """Write the sums with one table: cleared before, added up at points, and added to where they belong behind."""
        points, extents = found.points, multiples.shape[:1]
        before, behind = (
            loops.setdefault(points, DirectionLoops(self._facts, self._editor, points[:-1]))
            for loops in (self._before, self._behind)
        )
        target = found.instruction.assignee
        result: Values = before.array(target, "sum_group", self._facts.types.of_sum([factor]), extents)
        before.assign(0, extents, result(before.open(0, extents)), [0.0])
        index = inside.open(0, extents)
        row = prim.Variable(points[-1])
        value = multiples.read(self._editor, selectors, (row, number_of(index)))
        inside.assign(0, extents, result(index), [result(index), prim.Product((factor, value))])
        index = behind.open(0, extents)
        for column, scale in multiples.members(self._editor, selectors, number_of(index)):
            place = substitute({found.dofs[0]: column})(target)
            behind.assign(0, extents, place, [place, times(scale, result(index))])

    def finish(self) -> lp.LoopKernel:
        """Return the kernel."""
        for points, loops in self._before.items():
            self._editor.insert_before(EnterLoop(iname=points[-1]), loops.items)
        for points, loops in self._behind.items():
            self._editor.insert_after(LeaveLoop(iname=points[-1]), loops.items)
        return self._editor.finish()
