"""Rewrites what is added up over quadrature points: moved out of the point loop, or with fewer terms inside.

Rewrite: for an instruction ``A[i, j] = A[i, j] + ..`` inside of loops over q, i, j, whose right-hand side is expanded
to monomials,

* a monomial whose atoms that depend on q are all constant tables leaves the loop over q: the sum over q of the tables
  is carried out at compile time, ``A[i, j] += c * sum_q w[q] * t[q, i] * t[q, j]`` becomes ``A[i, j] += c * m[i, j]``;
* the others are regrouped by `formcompiler.licm.bilinear`, with sums that depend on q and j only in small arrays.

Legality: A is an argument that the instruction only adds to; names are seen through only where they have the same
value.

Profitability: operations, counted in the model of `formcompiler.licm.bilinear`; tables made here are limited in size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import loopy as lp
import numpy as np
import pymbolic.primitives as prim
from loopy.schedule import EnterLoop, LeaveLoop, RunInstruction, ScheduleItem

from formcompiler.kernel.flops import count_expression_operations
from formcompiler.licm.bilinear import Atoms, Plan, Scalars, Split, make_plan
from formcompiler.licm.cost import TripCounts
from formcompiler.licm.edit import Editor
from formcompiler.licm.evaluate import is_table_access, sum_tables
from formcompiler.licm.minimal import MinimalInames, make_minimal_inames, names_in
from formcompiler.licm.monomials import Expander, Monomial, TooManyMonomialsError
from formcompiler.licm.nest import Loops, Nest, read_nest
from formcompiler.licm.scopes import Scopes
from formcompiler.licm.substitute import substitute
from formcompiler.licm.types import Types

LARGEST_TABLES = 1 << 18
"""Most bytes of tables that one kernel gets from sums carried out at compile time."""


def contract_kernel(kernel: lp.LoopKernel, trips: TripCounts) -> lp.LoopKernel:
    """Return the kernel with its accumulations rewritten where that saves operations."""
    nest = read_nest(kernel)
    trips = trips.on(kernel)
    facts = _Facts(kernel, nest, Scopes(kernel, nest), Types(kernel), trips)
    editor = Editor(kernel, {lane: trips.extent(lane) for lane in nest.lanes})
    room = LARGEST_TABLES
    for name in nest.order:
        accumulation = find_accumulation(facts, name)
        if accumulation is not None:
            room -= _Rewriter(facts, editor, accumulation, room).rewrite()
    return editor.finish()


@dataclass(frozen=True)
class _Facts:
    """What is known about the kernel as it was."""

    kernel: lp.LoopKernel
    nest: Nest
    scopes: Scopes
    types: Types
    trips: TripCounts


@dataclass(frozen=True)
class Accumulation:
    """An instruction that adds to an argument.

    Attributes:
        instruction: The instruction.
        points: Loops that its target does not depend on, outermost first.
        dofs: One or two loops inside of these, which index the target.
        terms: What is added.
    """

    instruction: Any
    points: Loops
    dofs: Loops
    terms: tuple[Any, ...]


def find_accumulation(facts: _Facts, name: str) -> Accumulation | None:
    """Return an instruction as an accumulation, None if it is none."""
    kernel, loops = facts.kernel, facts.nest.loops[name]
    instruction: Any = kernel.id_to_insn[name]
    if not isinstance(instruction, lp.Assignment) or instruction.predicates:
        return None
    target, value = instruction.assignee, instruction.expression
    if not (isinstance(target, prim.Subscript) and isinstance(value, prim.Sum) and value.children[0] == target):
        return None
    array: Any = target.aggregate
    if array.name not in kernel.arg_dict:
        return None
    terms = value.children[1:]
    index = names_in(target.index)
    dofs = tuple(iname for iname in loops if iname in index)
    is_inner = loops[len(loops) - len(dofs) :] == dofs and 1 <= len(dofs) <= 2
    is_plain = index <= {*dofs, *facts.nest.lanes} and all(array.name not in names_in(t) for t in terms)
    points = loops[: len(loops) - len(dofs)]
    return Accumulation(instruction, points, dofs, terms) if is_inner and is_plain else None


class _Rewriter:
    """Rewrites one accumulation."""

    def __init__(self, facts: _Facts, editor: Editor, accumulation: Accumulation, room: int) -> None:
        self._facts = facts
        self._editor = editor
        self._it = accumulation
        self._room = room
        self._name = accumulation.instruction.id
        self._minimal: MinimalInames = make_minimal_inames(facts.kernel, facts.nest, facts.scopes, self._name)
        self._inner_definitions: dict[str, Any] = {}
        self._extents = {i: facts.trips.extent(i) for i in (*accumulation.points, *accumulation.dofs)}
        self._n_points = math.prod(self._extents[i] for i in accumulation.points)

    def rewrite(self) -> int:
        """Rewrite the instruction if that saves operations; return the bytes of tables that were made."""
        try:
            shallow = self._expand(is_deep=False)
            deep = self._expand(is_deep=True)
        except TooManyMonomialsError:
            return 0
        choices = [(self._cost_now(), None, None, 0), self._choice(Plan(), self._plan(shallow), 0)]
        for is_joining in (True, False):
            moved, kept, size = self._sum_points(deep, is_joining=is_joining)
            if moved:
                choices.append(self._choice(self._plan(moved), self._plan(kept), size))
        _, outside, inside, size = min(choices, key=lambda choice: choice[0])
        if outside is not None and inside is not None:
            if not outside.is_empty:
                self._write_outside(outside)
            self._write_inside(inside)
        return size

    def _choice(self, outside: Plan, inside: Plan, size: int) -> tuple[int, Plan | None, Plan | None, int]:
        """Return a choice: its cost, what runs outside and inside of the loops over points, bytes of new tables."""
        return (outside.cost + self._n_points * inside.cost, outside, inside, size)

    def _cost_now(self) -> int:
        rows = self._extents[self._it.dofs[0]]
        own = count_expression_operations(self._it.instruction.expression)
        cost = own * math.prod(self._extents[i] for i in self._it.dofs)
        cost += rows * sum(count_expression_operations(e) for e in self._inner_definitions.values())
        return self._n_points * cost

    def _expand(self, *, is_deep: bool) -> list[Monomial]:
        dofs = frozenset(self._it.dofs)
        expander = Expander(lambda v: self._definition(v, is_deep=is_deep), lambda e: bool(self._minimal(e) & dofs))
        self._expander = expander
        return expander(prim.Sum(self._it.terms))

    def _definition(self, access: Any, *, is_deep: bool) -> Any | None:
        """Return what a scalar stands for if it may be put in its place here."""
        name = access.name if isinstance(access, prim.Variable) else access.aggregate.name
        writers = self._facts.scopes.writers.get(name, [])
        if len(writers) != 1 or name not in self._facts.kernel.temporary_variables:
            return None
        writer: Any = self._facts.kernel.id_to_insn[writers[0]]
        is_simple = isinstance(writer, lp.Assignment) and not writer.predicates and writer.assignee == access
        if not is_simple or not self._has_same_values(writer):
            return None
        if writer.within_inames & set(self._it.dofs):
            self._inner_definitions[writer.id] = writer.expression
            return writer.expression
        is_product = not isinstance(writer.expression, prim.ExpressionNode) or isinstance(
            writer.expression, (prim.Product, prim.Variable, prim.Subscript)
        )
        return writer.expression if is_deep and is_product else None

    def _has_same_values(self, writer: Any) -> bool:
        """Tell whether all that a definition reads still has the same value here."""
        scopes = self._facts.scopes
        names = names_in(writer.expression)
        return all(scopes.version(n, writer.id) == scopes.version(n, self._name) for n in names)

    def _sum_points(self, monomials: list[Monomial], *, is_joining: bool) -> tuple[list[Monomial], list[Monomial], int]:
        """Return the monomials that leave the loops over points, with sums of tables, the others, and bytes of tables.

        Tables with the same scalar are added up.

        Args:
            monomials: All monomials.
            is_joining: Whether tables that do not vary between points become part of the sums, too.
        """
        if not self._it.points:
            return [], monomials, 0
        kept = []
        moved: dict[tuple[Loops, Atoms], Any] = {}
        for monomial in monomials:
            split = self._split_tables(monomial, is_joining=is_joining)
            if split is None:
                kept.append(monomial)
                continue
            tables, dofs, rest = split
            values = sum_tables(self._facts.kernel, tables, self._it.points, dofs, self._extents)
            if values is None:
                kept.append(monomial)
                continue
            moved[dofs, rest] = moved.get((dofs, rest), 0) + monomial.factor * values
        size = sum(values.nbytes for (dofs, _), values in moved.items() if dofs)
        if size > self._room:
            return [], monomials, 0
        return self._expander.collect(self._moved(d, r, v) for (d, r), v in moved.items()), kept, size

    def _split_tables(self, monomial: Monomial, *, is_joining: bool) -> tuple[list[Any], Loops, Atoms] | None:
        """Return the tables of a monomial to sum over points, their inames and the other atoms; None if impossible."""
        points, dofs = frozenset(self._it.points), frozenset(self._it.dofs)
        tables = [a for a in monomial.atoms if self._minimal(a) & points]
        if not all(map(self._is_table, tables)):
            return None
        rest = [a for a in monomial.atoms if not self._minimal(a) & points]
        if is_joining and all(self._is_table(a) for a in rest if self._minimal(a) & dofs):
            tables += [a for a in rest if self._minimal(a) & dofs]
            rest = [a for a in rest if not self._minimal(a) & dofs]
        kept = tuple(i for i in self._it.dofs if any(self._minimal(a) & {i} for a in tables))
        return tables, kept, tuple(rest)

    def _is_table(self, atom: Any) -> bool:
        return is_table_access(self._facts.kernel, atom, frozenset(self._extents))

    def _moved(self, dofs: Loops, rest: Atoms, values: Any) -> Monomial:
        if not dofs:
            return self._expander.product(values.item(), rest)
        if not values.any():
            return Monomial(0, ())
        table = self._editor.table("summed", values.astype(self._table_type(values)))
        return self._expander.product(1, [*rest, table[tuple(map(prim.Variable, dofs))]])

    def _table_type(self, values: Any) -> Any:
        """Return the type of tables: that of the kernel's own; a complex one for complex factors."""
        tables = (
            t.initializer.dtype for t in self._facts.kernel.temporary_variables.values() if t.initializer is not None
        )
        real = next(dtype for dtype in tables if dtype.kind == "f")
        return np.result_type(real, np.complex64) if values.dtype.kind == "c" else real

    def _plan(self, monomials: Iterable[Monomial]) -> Plan:
        row, *column = self._it.dofs
        n_columns = self._extents[column[0]] if column else 1
        return make_plan([self._split(m) for m in monomials], self._extents[row], n_columns)

    def _split(self, monomial: Monomial) -> Split:
        parts: dict[frozenset[str], list[Any]] = {}
        for atom in monomial.atoms:
            inames = self._minimal_of(atom) & frozenset(self._it.dofs)
            parts.setdefault(inames, []).append(atom)
        scalar = Monomial(monomial.factor, tuple(parts.get(frozenset(), ())))
        dofs = [frozenset([i]) for i in self._it.dofs]
        row = tuple(parts.get(dofs[0], ()))
        column = tuple(parts.get(dofs[1], ())) if len(dofs) == 2 else ()
        both = tuple(parts.get(frozenset(self._it.dofs), ())) if len(dofs) == 2 else ()
        return Split(scalar, row, column, both)

    def _minimal_of(self, atom: Any) -> frozenset[str]:
        """Return the minimal set of an atom of the kernel or of an access to a new table."""
        if isinstance(atom, prim.Subscript) and self._is_new(atom):
            return names_in(atom.index) & frozenset(self._extents)
        return self._minimal(atom)

    def _is_new(self, access: Any) -> bool:
        name = access.aggregate.name
        return name not in self._facts.kernel.temporary_variables and name not in self._facts.kernel.arg_dict

    # -- writing

    def _write_outside(self, plan: Plan) -> None:
        """Write a plan into loops of its own in front of the loops over points."""
        points = self._it.points
        dofs = [self._editor.loop(i.split("_")[0], self._extents[i]) for i in self._it.dofs]
        writer = _PlanWriter(self._facts, self._editor, self._it, dofs, ())
        written = writer.write(plan)
        first, *second = dofs
        items: list[ScheduleItem] = [*written.scalars, *written.arrays, EnterLoop(iname=first), *written.rows]
        items += [EnterLoop(iname=i) for i in second]
        items += [written.innermost, *(LeaveLoop(iname=i) for i in second), LeaveLoop(iname=first)]
        self._editor.insert_before(EnterLoop(iname=points[0]), items)

    def _write_inside(self, plan: Plan) -> None:
        """Write a plan in place of the instruction."""
        editor = self._editor
        if plan.is_empty:
            editor.remove(self._name)
            return
        writer = _PlanWriter(self._facts, editor, self._it, self._it.dofs, self._it.points)
        written = writer.write(plan)
        first, *second = self._it.dofs
        editor.insert_before(EnterLoop(iname=first), [*written.scalars, *written.arrays])
        place = EnterLoop(iname=second[0]) if second else RunInstruction(insn_id=self._name)
        editor.insert_before(place, written.rows)
        editor.insert_before(RunInstruction(insn_id=self._name), [written.innermost])
        editor.remove(self._name)


@dataclass
class _Written:
    """Items of the linearization that evaluate a plan."""

    scalars: list[ScheduleItem]
    arrays: list[ScheduleItem]
    rows: list[ScheduleItem]
    innermost: ScheduleItem


class _PlanWriter:
    """Writes the instructions of a plan for one accumulation.

    Args:
        facts: The kernel as it was.
        editor: Where the instructions go.
        accumulation: What is rewritten.
        dofs: Inames to use in the place of the accumulation's.
        outer: Loops around them.
    """

    def __init__(
        self, facts: _Facts, editor: Editor, accumulation: Accumulation, dofs: Sequence[str], outer: Loops
    ) -> None:
        self._facts = facts
        self._editor = editor
        self._it = accumulation
        self._dofs = tuple(dofs)
        self._outer = outer
        self._rename = substitute({old: prim.Variable(new) for old, new in zip(accumulation.dofs, dofs, strict=True)})

    def write(self, plan: Plan) -> _Written:
        """Return the items for a plan."""
        self._out = _Written([], [], [], RunInstruction(insn_id=""))
        terms = [self._times(self._scalar(s), atoms) for atoms, s in plan.direct.items()]
        for column, rows in plan.columns.items():
            terms.append(self._times(self._row_sum(rows), column))
        for row, columns in plan.rows.items():
            terms.append(self._times(self._array(columns), row))
        target = self._rename(self._it.instruction.assignee)
        value = prim.Sum((target, *terms))
        self._out.innermost = self._editor.assign(target, value, (*self._outer, *self._dofs), "add")
        return self._out

    def _times(self, scalar: Any, atoms: Atoms) -> Any:
        factors = [self._rename(a) for a in atoms]
        if isinstance(scalar, prim.ExpressionNode) or scalar != 1 or not factors:
            factors.insert(0, scalar)
        return factors[0] if len(factors) == 1 else prim.Product(tuple(factors))

    def _scalar(self, scalars: Scalars) -> Any:
        """Return the name of a sum of scalars, or the literal or name that it is."""
        if all(not s.atoms for s in scalars):
            return float(sum(s.factor for s in scalars)) if not _is_complex(scalars) else sum(s.factor for s in scalars)
        value = _sum_of([self._times(_literal(s.factor), s.atoms) for s in scalars])
        if isinstance(value, (prim.Variable, prim.Subscript)):
            return value
        name = self._new("c", value, ())
        self._out.scalars.append(self._editor.assign(name, value, self._outer))
        return name

    def _new(self, wish: str, value: Any, index: Sequence[str], original: Any = None) -> Any:
        lanes = sorted(names_in(value) & self._facts.nest.lanes)
        extents = [self._facts.trips.extent(self._it.dofs[1]) for _ in index]
        dtype = self._facts.types.of(value if original is None else original)
        return self._editor.temporary(wish, dtype, (*index, *lanes), extents)

    def _row_sum(self, rows: dict[Atoms, Scalars]) -> Any:
        """Return the name of a sum over row factors, evaluated in the loop over rows."""
        value = _sum_of([self._times(self._scalar(s), atoms) for atoms, s in rows.items()])
        if not isinstance(value, (prim.Sum, prim.Product)):
            return value
        name = self._new("g", value, (), _original(rows))
        self._out.rows.append(self._editor.assign(name, value, (*self._outer, self._dofs[0])))
        return name

    def _array(self, columns: dict[Atoms, Scalars]) -> Any:
        """Return the access to an array of sums over column factors, filled by a loop of its own."""
        value = _sum_of([self._times(self._scalar(s), atoms) for atoms, s in columns.items()])
        column = self._dofs[1]
        if not isinstance(value, (prim.Sum, prim.Product)):
            return value
        extent = self._facts.trips.extent(self._it.dofs[1])
        iname = self._editor.loop(column.split("_")[0], extent)
        rename = substitute({column: prim.Variable(iname)})
        access = self._new("h", value, (column,), _original(columns))
        run = self._editor.assign(rename(access), rename(value), (*self._outer, iname))
        self._out.arrays += [EnterLoop(iname=iname), run, LeaveLoop(iname=iname)]
        return access


def _original(terms: dict[Atoms, Scalars]) -> Any:
    """Return an expression of the original kernel with the type of a sum."""
    parts = [prim.Product((_literal(s.factor), *s.atoms, *atoms)) for atoms, ss in terms.items() for s in ss]
    return prim.Sum(tuple(parts))


def _sum_of(terms: Sequence[Any]) -> Any:
    return terms[0] if len(terms) == 1 else prim.Sum(tuple(terms))


def _is_complex(scalars: Scalars) -> bool:
    return any(isinstance(s.factor, (complex, np.complexfloating)) for s in scalars)


def _literal(value: Any) -> Any:
    return value if isinstance(value, (complex, np.complexfloating)) else float(value)
