"""Sums over points with tables that are products over directions: one direction after the other, behind the points.

Rewrite: with ``t[q, i] = a[q0, i0] * b[q1, i1]``, found by the values of t (`formcompiler.licm.separable`), ::

    for q: f = ..; for i: A[i] += f * t[q, i]
    ->
    for q: f = ..; z[q] = f
    for r0: for i1: y[r0, i1] = b[0, i1] * z[r0, 0] + b[1, i1] * z[r0, 1] + ..
    for i0: for i1: x[i0, i1] = a[0, i0] * y[0, i1] + a[1, i0] * y[1, i1] + ..
    for i0: for i1: A[column[i0, i1]] += x[i0, i1]

What several tables have left to be multiplied with is added up before.

Legality: A is only added to in the loop over points, and read after it. Rounding changes.

Profitability: operations, for the best order of directions, next to one multiplication and one addition for each point,
dof and table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import loopy as lp
import numpy as np
import pymbolic.primitives as prim
from loopy.schedule import EnterLoop, LeaveLoop

from formcompiler.kernel.terms import flat_operands, product_of, scaled, sum_of
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.contract import find_accumulations
from formcompiler.licm.directions import (
    DirectionLoops,
    Factor,
    Family,
    Values,
    count_contraction,
    find_family,
)
from formcompiler.licm.edit import Editor
from formcompiler.licm.evaluate import is_table_access
from formcompiler.licm.minimal import make_minimal_inames
from formcompiler.licm.nest import Loops
from formcompiler.licm.separable import FloatArray
from formcompiler.licm.write_plan import Accumulation

Step = tuple[int, int]
"""A direction and the number of its factor."""


@dataclass(frozen=True)
class _State:
    """What is still to be done with values.

    Attributes:
        steps: Contractions, in order.
        constant: Directions that are contracted already, with functions that are the same at all points of them.
    """

    steps: tuple[Step, ...]
    constant: tuple[Step, ...] = ()

    def after(self, factor: Factor) -> _State:
        """Return what is to be done after the first step."""
        first, *rest = self.steps
        return _State(tuple(rest), (*self.constant, first) if factor.is_constant else self.constant)


@dataclass(frozen=True, eq=False)
class _Edge:
    """A contraction: what it starts from and leads to, the table of its direction, and the extents of its result."""

    start: _State
    end: _State
    direction: int
    matrix: FloatArray
    extents: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _Plan:
    """How the sums of one accumulation are evaluated.

    Attributes:
        family: The tables.
        order: Directions in the order in which they are contracted.
    """

    family: Family
    order: Sequence[int]

    def start(self, number: int) -> _State:
        """Return all that is to be done for a table."""
        factors = self.family.factors[number]
        return _State(tuple((d, factors[d].number) for d in self.family.constant_first(number, self.order)))

    def factor(self, step: Step) -> Factor:
        """Return the factor of a step."""
        return next(own[step[0]] for own in self.family.factors if own[step[0]].number == step[1])

    def levels(self) -> list[list[_Edge]]:
        """Return the contractions of each level."""
        extents = {self.start(n): self.family.n_points for n in range(len(self.family.factors))}
        result = []
        for _ in self.order:
            edges = [self._edge(state, before) for state, before in extents.items()]
            extents = {edge.end: edge.extents for edge in edges}
            result.append(edges)
        return result

    def _edge(self, state: _State, before: tuple[int, ...]) -> _Edge:
        direction = state.steps[0][0]
        factor = self.factor(state.steps[0])
        matrix = np.ones((1, before[direction])) if factor.is_constant else np.ascontiguousarray(factor.values.T)
        extents = (*before[:direction], len(matrix), *before[direction + 1 :])
        return _Edge(state, state.after(factor), direction, matrix, extents)

    def spread(self, state: _State) -> list[tuple[dict[int, int], float]]:
        """Return which dofs values are added to, by direction where functions are constant, and times what number."""
        choices = [[(d, k, v) for k, v in enumerate(self.factor((d, n)).values[0]) if v] for d, n in state.constant]
        return [({d: k for d, k, _ in one}, math.prod(float(v) for *_, v in one)) for one in product(*choices)]

    def count(self) -> int:
        """Return the operations of all contractions."""
        total, last = 0, {}
        for edges in self.levels():
            last = {edge.end: math.prod(edge.extents) for edge in edges}
            total -= sum(last.values())
            for edge in edges:
                others = math.prod(edge.extents) // len(edge.matrix)
                total += math.prod(edge.extents) + others * count_contraction(edge.matrix)
        return total + sum(size * (1 + (abs(v) != 1)) for end, size in last.items() for _, v in self.spread(end))


def add_by_direction(facts: Analysis) -> lp.LoopKernel:
    """Return the kernel with sums over points carried out direction by direction where that saves operations."""
    editor = facts.edit()
    loops: dict[Loops, DirectionLoops] = {}
    plans: dict[tuple[Any, ...], _Plan | None] = {}
    for found in find_accumulations(facts):
        if len(found.dofs) != 1 or not found.points:
            continue
        terms = _find_terms(facts, found)
        if not terms:
            continue
        tables = [_values(facts, found, table) for table in terms]
        key = tuple((table.aggregate.name, values.shape) for table, values in zip(terms, tables, strict=True))
        if key not in plans:
            plans[key] = _find_plan(tables)
        plan = plans[key]
        if plan is not None:
            around = found.points
            written = loops.setdefault(around, DirectionLoops(facts, editor, around[:-1]))
            _Writer(facts, editor, written, found, plan).write(terms)
    for around, written in loops.items():
        editor.insert_after(LeaveLoop(iname=around[-1]), written.items)
    return editor.finish()


def _find_terms(facts: Analysis, found: Accumulation) -> dict[Any, list[Any]]:
    """Return what each table is multiplied with; nothing if a term is no table times what is the same for all dofs."""
    (dof,), point = found.dofs, found.points[-1]
    minimal = make_minimal_inames(facts.kernel, facts.nest, facts.scopes, found.instruction.id)
    result: dict[Any, list[Any]] = {}
    for term in (t for value in found.terms for t in _operands(value, prim.Sum)):
        factors = _operands(term, prim.Product)
        tables = [f for f in factors if dof in minimal(f)]
        wanted = [(prim.Variable(dof),), (prim.Variable(point), prim.Variable(dof))]
        is_plain = len(tables) == 1 and is_table_access(facts.kernel, tables[0], frozenset([point, dof]))
        if not is_plain or tables[0].index_tuple not in wanted or _values(facts, found, tables[0]) is None:
            return {}
        factors.remove(tables[0])
        result.setdefault(tables[0], []).append(product_of(factors))
    return result


def _operands(expression: Any, kind: type) -> list[Any]:
    return list(flat_operands(expression)) if isinstance(expression, kind) else [expression]


def _values(facts: Analysis, found: Accumulation, table: Any) -> Any:
    """Return the values of a table, axes (point, dof); None if it has others than the loops run over."""
    source: Any = facts.kernel.temporary_variables[table.aggregate.name]
    shape = tuple(facts.trips.extent(i) for i in (found.points[-1], found.dofs[0]))
    if source.initializer.shape != shape[2 - source.initializer.ndim :]:
        return None
    return np.broadcast_to(source.initializer, shape)


def _find_plan(tables: Sequence[FloatArray]) -> _Plan | None:
    """Return the best way to evaluate the sums with some tables, None if that saves nothing."""
    family = find_family(tables)
    if family is None:
        return None
    best = min((_Plan(family, order) for order in family.orders()), key=_Plan.count)
    return best if best.count() < sum(2 * table.size for table in tables) else None


class _Writer:
    """Writes the contractions of one accumulation.

    Args:
        facts: The kernel as it was.
        editor: Where the instructions go.
        loops: Loops behind the loop over points.
        accumulation: What is rewritten.
        plan: How.
    """

    def __init__(
        self, facts: Analysis, editor: Editor, loops: DirectionLoops, accumulation: Accumulation, plan: _Plan
    ) -> None:
        self._facts = facts
        self._editor = editor
        self._loops = loops
        self._it = accumulation
        self._plan = plan
        self._dtype = facts.types.real

    def write(self, terms: dict[Any, list[Any]]) -> None:
        """Write everything.

        Args:
            terms: What each table is multiplied with.
        """
        self._dtype = self._facts.types.of_sum(factor for factors in terms.values() for factor in factors)
        states = map(self._plan.start, range(len(terms)))
        values = {s: self._store(table, factors) for s, (table, factors) in zip(states, terms.items(), strict=True)}
        for level, edges in enumerate(self._plan.levels()):
            values = {end: self._contract(level, values, own) for end, own in _by_end(edges)}
        dofs = self._loops.dofs(self._it.instruction.assignee, self._it.dofs[0], self._plan.family.columns)
        for state, result in values.items():
            self._add(state, result, dofs)
        self._editor.remove(self._it.instruction.id)

    def _store(self, table: Any, factors: Sequence[Any]) -> Values:
        """Write what a table is multiplied with at a point to an array."""
        result = self._array(f"{table.aggregate.name}_sum", self._plan.family.n_points)
        run = self._editor.assign(
            result.at(prim.Variable(self._it.points[-1])), sum_of(factors), self._it.points, "store"
        )
        self._editor.insert_before(EnterLoop(iname=self._it.dofs[0]), [run])
        return result

    def _array(self, wish: str, extents: tuple[int, ...]) -> Values:
        return self._loops.array(self._it.instruction.assignee, wish, self._dtype, extents)

    def _contract(self, level: int, values: dict[_State, Values], edges: Sequence[_Edge]) -> Values:
        """Write the contractions that lead to one array."""
        extents = edges[0].extents
        index = self._loops.open(level, extents)
        terms = []
        for edge in edges:
            terms += self._loops.contraction(edge.matrix, edge.direction, index, values[edge.start])
        result = self._array(f"sum_{level}", extents)
        self._loops.assign(level, extents, result(index), terms)
        return result

    def _add(self, state: _State, values: Values, dofs: Values) -> None:
        """Add the result to where it belongs."""
        level = len(self._plan.order)
        for fixed, factor in self._plan.spread(state):
            index = self._loops.open(level, values.extents)
            target = dofs([fixed.get(direction, i) for direction, i in enumerate(index)])
            self._loops.assign(level, values.extents, target, [target, *scaled(factor, values(index))])


def _by_end(edges: Iterable[_Edge]) -> Iterable[tuple[_State, list[_Edge]]]:
    """Return contractions by what they lead to."""
    groups: dict[_State, list[_Edge]] = {}
    for edge in edges:
        groups.setdefault(edge.end, []).append(edge)
    return groups.items()
