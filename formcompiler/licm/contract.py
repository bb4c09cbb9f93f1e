"""Rewrites what is added up over quadrature points: moved out of the point loop, or with fewer terms inside.

Rewrite: for an instruction ``A[i, j] = A[i, j] + ..`` inside of loops over q, i, j, whose right-hand side is expanded
to monomials,

* a monomial whose atoms that depend on q are all constant tables leaves the loop over q: the sum over q of the tables
  is carried out at compile time, ``A[i, j] += c * sum_q w[q] * t[q, i] * t[q, j]`` becomes ``A[i, j] += c * m[i, j]``;
* the others are regrouped by `formcompiler.licm.bilinear`, with sums that depend on q and j only in small arrays.

Legality: A is an argument that the instruction only adds to, or a temporary that is cleared before the loops over q,
only added to in them, and read after them; names are seen through only where they have the same value.

Profitability: operations, counted in the model of `formcompiler.licm.bilinear`; tables made here are limited in size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import loopy as lp
import numpy as np
import pymbolic.primitives as prim
from loopy.schedule import EnterLoop, LeaveLoop, RunInstruction, ScheduleItem

from formcompiler.kernel.flops import count_expression_operations
from formcompiler.kernel.names import names_in
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.bilinear import Atoms, Plan, Split, make_plan
from formcompiler.licm.edit import Editor
from formcompiler.licm.evaluate import is_table_access, sum_tables
from formcompiler.licm.minimal import MinimalInames, make_minimal_inames
from formcompiler.licm.monomials import Expander, Monomial, TooManyMonomialsError
from formcompiler.licm.nest import Loops
from formcompiler.licm.write_plan import Accumulation, PlanWriter

TableSplit = tuple[list[Any], Loops, Atoms]
"""Tables that are summed over points, dofs that index them, and the other factors."""

LARGEST_TABLES = 1 << 18
"""Most bytes of tables that one kernel gets from sums carried out at compile time."""


def contract_kernel(facts: Analysis) -> lp.LoopKernel:
    """Return the kernel with its accumulations rewritten where that saves operations."""
    editor = facts.edit()
    room = LARGEST_TABLES
    for accumulation in find_accumulations(facts):
        room -= _Rewriter(facts, editor, accumulation, room).rewrite()
    return editor.finish()


def find_accumulations(facts: Analysis) -> tuple[Accumulation, ...]:
    """Return the accumulations of a kernel, in program order."""
    return facts.once(_find_accumulations)


def _find_accumulations(facts: Analysis) -> tuple[Accumulation, ...]:
    found = (_find_accumulation(facts, name) for name in facts.nest.order)
    return tuple(item for item in found if item is not None)


def _find_accumulation(facts: Analysis, name: str) -> Accumulation | None:
    """Return an instruction as an accumulation, None if it is none."""
    loops, instruction = facts.nest.loops[name], facts.instruction(name)
    if not isinstance(instruction, lp.Assignment) or instruction.predicates:
        return None
    target, value = instruction.assignee, instruction.expression
    if not (isinstance(target, prim.Subscript) and isinstance(value, prim.Sum) and value.children[0] == target):
        return None
    array: Any = target.aggregate
    if array.name not in facts.kernel.arg_dict and not _is_private_sum(facts, array.name, loops):
        return None
    terms = value.children[1:]
    index = names_in(target.index)
    dofs = tuple(iname for iname in loops if iname in index)
    is_inner = loops[len(loops) - len(dofs) :] == dofs and 1 <= len(dofs) <= 2
    is_plain = index <= {*dofs, *facts.nest.lanes} and all(array.name not in names_in(t) for t in terms)
    points = loops[: len(loops) - len(dofs)]
    return Accumulation(instruction, points, dofs, terms) if is_inner and is_plain and facts.is_box(*loops) else None


def _is_private_sum(facts: Analysis, name: str, loops: Loops) -> bool:
    """Tell whether a temporary is cleared before some loops, only added to in them, and read after them."""
    temporary = facts.kernel.temporary_variables.get(name)
    if temporary is None or temporary.initializer is not None or not loops:
        return False
    start, end = facts.nest.entry[loops[0]], facts.nest.exit[loops[0]]
    writers = facts.scopes.writers[name]
    for identifier in {*writers, *facts.readers.get(name, ())}:
        instruction, position = facts.instruction(identifier), facts.nest.position[identifier]
        if not isinstance(instruction, lp.Assignment) or instruction.predicates:
            return False
        is_written, value = identifier in writers, instruction.expression
        terms: Any = value.children if isinstance(value, prim.Sum) else (None,)
        if position < start:
            if not is_written or isinstance(value, prim.ExpressionNode):
                return False
        elif position < end:
            if terms[0] != instruction.assignee or any(name in names_in(term) for term in terms[1:]):
                return False
        elif is_written:
            return False
    return True


class _Atom(NamedTuple):
    """Whether an atom varies between points, the dofs that it depends on, and whether it is an entry of a table."""

    varies: bool
    dofs: frozenset[str]
    is_table: bool


class _Rewriter:
    """Rewrites one accumulation."""

    def __init__(self, facts: Analysis, editor: Editor, accumulation: Accumulation, room: int) -> None:
        self._facts = facts
        self._editor = editor
        self._it = accumulation
        self._room = room
        self._name = accumulation.instruction.id
        self._minimal: MinimalInames = make_minimal_inames(facts.kernel, facts.nest, facts.scopes, self._name)
        self._inner_definitions: dict[str, Any] = {}
        self._definitions: dict[Any, Any] = {}
        self._has_deep = False
        self._atoms: dict[Any, _Atom] = {}
        self._extents = {i: facts.trips.extent(i) for i in (*accumulation.points, *accumulation.dofs)}
        self._n_points = math.prod(self._extents[i] for i in accumulation.points)

    def rewrite(self) -> int:
        """Rewrite the instruction if that saves operations; return the bytes of tables that were made."""
        try:
            shallow = self._expand(is_deep=False)
            deep = self._expand(is_deep=True) if self._has_deep else shallow
        except TooManyMonomialsError:
            return 0
        choices = [(self._cost_now(), None, None, 0), self._choice(Plan(), self._plan(shallow), 0)]
        for splits in self._ways_to_split(deep):
            moved, kept, size = self._sum_points(deep, splits)
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
        if access not in self._definitions:
            self._definitions[access] = self._find_definition(access)
        writer = self._definitions[access]
        if writer is None:
            return None
        if writer.within_inames & set(self._it.dofs):
            self._inner_definitions[writer.id] = writer.expression
            return writer.expression
        is_product = not isinstance(writer.expression, prim.ExpressionNode) or isinstance(
            writer.expression, (prim.Product, prim.Variable, prim.Subscript)
        )
        self._has_deep |= is_product
        return writer.expression if is_deep and is_product else None

    def _find_definition(self, access: Any) -> Any | None:
        """Return the instruction that sets a scalar, if what it reads still has the same values here."""
        name = access.name if isinstance(access, prim.Variable) else access.aggregate.name
        writers = self._facts.scopes.writers.get(name, [])
        if len(writers) != 1 or name not in self._facts.kernel.temporary_variables:
            return None
        writer = self._facts.instruction(writers[0])
        is_simple = isinstance(writer, lp.Assignment) and not writer.predicates and writer.assignee == access
        return writer if is_simple and self._has_same_values(writer) else None

    def _has_same_values(self, writer: Any) -> bool:
        """Tell whether all that a definition reads still has the same value here."""
        scopes = self._facts.scopes
        names = names_in(writer.expression)
        return all(scopes.version(n, writer.id) == scopes.version(n, self._name) for n in names)

    def _ways_to_split(self, monomials: list[Monomial]) -> list[list[TableSplit | None]]:
        """Return what of each monomial is summed over points: with tables that do not vary between them, or without."""
        if not self._it.points:
            return []
        joined, separate = ([self._split_tables(m, is_joining=j) for m in monomials] for j in (True, False))
        return [joined] if joined == separate else [joined, separate]

    def _sum_points(
        self, monomials: list[Monomial], splits: list[TableSplit | None]
    ) -> tuple[list[Monomial], list[Monomial], int]:
        """Return the monomials that leave the loops over points, with sums of tables, the others, and bytes of tables.

        Tables with the same scalar are added up.

        Args:
            monomials: All monomials.
            splits: What of each of them is summed over points, None if it stays.
        """
        kept = []
        moved: dict[tuple[Loops, Atoms], Any] = {}
        for monomial, split in zip(monomials, splits, strict=True):
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

    def _split_tables(self, monomial: Monomial, *, is_joining: bool) -> TableSplit | None:
        """Return the tables of a monomial to sum over points, their inames and the other atoms; None if impossible.

        Args:
            monomial: The monomial.
            is_joining: Whether tables that do not vary between points become part of the sums, too.
        """
        atoms = [(a, self._atom(a)) for a in monomial.atoms]
        if not all(kind.is_table for _, kind in atoms if kind.varies):
            return None
        is_joining = is_joining and all(kind.is_table for _, kind in atoms if kind.dofs and not kind.varies)
        chosen = [item for item in atoms if item[1].varies]
        rest = [item for item in atoms if not item[1].varies]
        if is_joining:
            chosen += [item for item in rest if item[1].dofs]
            rest = [item for item in rest if not item[1].dofs]
        kept = tuple(i for i in self._it.dofs if any(i in kind.dofs for _, kind in chosen))
        return [a for a, _ in chosen], kept, tuple(a for a, _ in rest)

    def _atom(self, atom: Any) -> _Atom:
        """Return what an atom depends on."""
        if atom not in self._atoms:
            inames = self._minimal(atom)
            is_table = is_table_access(self._facts.kernel, atom, frozenset(self._extents))
            self._atoms[atom] = _Atom(not inames.isdisjoint(self._it.points), inames & set(self._it.dofs), is_table)
        return self._atoms[atom]

    def _moved(self, dofs: Loops, rest: Atoms, values: Any) -> Monomial:
        if not dofs:
            return Monomial(values.item(), rest)
        if not values.any():
            return Monomial(0, ())
        table = self._editor.table("summed", values.astype(self._table_type(values)))
        return Monomial(1, (*rest, table[tuple(map(prim.Variable, dofs))]))

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
        writer = PlanWriter(self._facts, self._editor, self._it, dofs, ())
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
        writer = PlanWriter(self._facts, editor, self._it, self._it.dofs, self._it.points)
        written = writer.write(plan)
        first, *second = self._it.dofs
        editor.insert_before(EnterLoop(iname=first), [*written.scalars, *written.arrays])
        place = EnterLoop(iname=second[0]) if second else RunInstruction(insn_id=self._name)
        editor.insert_before(place, written.rows)
        editor.insert_before(RunInstruction(insn_id=self._name), [written.innermost])
        editor.remove(self._name)
