"""Values are computed once, in the outermost loops that they depend on, whatever the order and grouping of operands.

Rewrite: ``for q: for i: r[i] += a * t[q, i] * w[q]`` becomes ``for q: h = a * w[q]; for i: r[i] += h * t[q, i]``, and
``x = a * b * c; y = c * d * a`` becomes ``s = a * c; x = s * b; y = s * d``; an instruction whose value an earlier one
has is dropped.

Legality: sums and products are regrouped, which changes results by rounding only; functions are pure. A value moves no
further than the loops in which its variables get their values. It is shared by instructions in its loops or deeper
ones; a variable that is written several times counts as another one after each write. Instructions with predicates,
and integers, are left alone.

Profitability: a value that leaves a loop is computed once instead of once for each iteration; a pair of operands that
occurs n times saves n - 1 operations, and the most frequent pair goes first.
"""

from __future__ import annotations

from typing import Any

import loopy as lp
import numpy as np
import pymbolic.primitives as prim
from loopy.schedule import RunInstruction

from formcompiler.kernel.names import names_in, names_written
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.homes import Homes
from formcompiler.licm.numbering import ATOM, CALL, LITERAL, PRODUCT, QUOTIENT, SUM
from formcompiler.licm.statements import Context, Statement, Statements
from formcompiler.licm.types import REAL_RESULT, function_name

Place = tuple[int, int]
"""Index of an item of the linearization, and 0 in front of it or 1 behind it."""


def share_values(facts: Analysis) -> lp.LoopKernel:
    """Return the kernel with each value computed once, in the outermost loops that it depends on."""
    return _Sharer(facts).run()


class _Sharer:
    """Shares the values of one kernel."""

    def __init__(self, facts: Analysis) -> None:
        self._facts = facts
        self._editor = facts.edit()
        self._statements = Statements(facts)
        self._numbering = self._statements.numbering
        self._names: dict[int, list[tuple[Context, Place, Any]]] = {}
        self._context = self._statements.context((), frozenset())
        self._kept: dict[Context, dict[int, bool]] = {}

    def run(self) -> lp.LoopKernel:
        """Return the kernel with shared values."""
        statements = self._number_all()
        self._homes = Homes(self._statements, [(s.root, s.context) for s in statements])
        self._defined = set(self._names)
        self._names = {}
        for statement in statements:
            self._write(statement)
        return self._editor.finish()

    # -- numbers

    def _number_all(self) -> list[Statement]:
        """Number all instructions in order; those that compute a value with a name are dropped for that name."""
        statements = []
        for name in self._facts.nest.order:
            instruction = self._facts.instruction(name)
            is_plain = isinstance(instruction, lp.Assignment) and not instruction.predicates
            if not is_plain or self._facts.is_integer(*names_written(instruction)):
                self._rename_in(instruction)
                continue
            statement = self._statements.number(instruction)
            if statement.is_definition and self._numbering.values[statement.root].kind != LITERAL:
                known = self._find_name(statement.root, statement.context, (statement.position, 0))
                if known is not None:
                    self._statements.alias(statement, known[0])
                    self._editor.remove(name)
                    continue
                self._define(statement, statement.root)
            statements.append(statement)
        return statements

    def _rename_in(self, instruction: Any) -> None:
        renamed = self._statements.renamed
        if isinstance(instruction, lp.MultiAssignmentBase):
            self._editor.change(
                instruction.id,
                expression=renamed(instruction.expression),
                predicates=frozenset(map(renamed, instruction.predicates)),
            )

    # -- names

    def _define(self, statement: Statement, number: int) -> None:
        """Let the variable that an instruction sets be the name of a value, from there on."""
        entry = (statement.context, (statement.position, 1), statement.instruction.assignee)
        self._names.setdefault(number, []).append(entry)

    def _find_name(self, number: int, context: Context, place: Place) -> tuple[Any, Place] | None:
        """Return the name that a value has somewhere, and from where on."""
        for home, start, access in self._names.get(number, ()):
            if start <= place and context.loops[: len(home.loops)] == home.loops and home.lanes <= context.lanes:
                return access, start
        return None

    # -- writing

    def _write(self, statement: Statement) -> None:
        instruction, context = statement.instruction, statement.context
        self._context = context
        root = self._homes.regrouped(statement.root, context)
        place = (statement.position, 0)
        known = self._find_name(root, context, place)
        is_same = known is None and root == statement.root
        if is_same and self._is_kept(root, context, is_named=statement.is_definition):
            value = self._statements.renamed(instruction.expression)
        else:
            is_named = statement.is_definition and self._homes.home(root, context) == context
            value, _ = self._build(root, context, place) if is_named else self._expression(root, context, place)
            if statement.is_accumulation:
                terms = value.children if isinstance(value, prim.Sum) else (value,)
                value = prim.Sum((instruction.assignee, *terms))
        if value is not instruction.expression and value != instruction.expression:
            self._editor.change(instruction.id, expression=value)
        if statement.is_definition and known is None:
            self._define(statement, root)

    def _is_kept(self, number: int, context: Context, *, is_named: bool = False) -> bool:
        """Tell whether a value stays as it is written: nothing in it has a name or gets one.

        Args:
            number: The value.
            context: Where it is used.
            is_named: Whether an instruction gives it a name.
        """
        value = self._numbering.values[number]
        if value.kind in (ATOM, LITERAL):
            return True
        kept = self._kept.setdefault(context, {})
        if is_named or number not in kept:
            homes = self._homes
            result = number not in context.changed
            result = result and (homes.home(number, context) is context or homes.is_free(number, context))
            if not is_named:
                result = result and context.uses.get(number, 0) < 2 and number not in self._defined
            result = result and all(self._is_kept(n, context) for n in value.operands)
            if is_named:
                return result
            kept[number] = result
        return kept[number]

    def _expression(self, number: int, context: Context, place: Place) -> tuple[Any, Place]:
        """Return the expression of a value and the first place where it can stand; it gets a name if that is of use.

        Args:
            number: The value.
            context: Loops and lanes of what uses it.
            place: Where that stands, at the latest.
        """
        value = self._numbering.values[number]
        home = self._homes.home(number, context)
        if value.kind in (ATOM, LITERAL):
            return value.detail, self._earliest(number, home)
        known = self._find_name(number, context, place)
        if known is not None:
            return known
        result, start = self._build(number, home, self._leave(home, context, place))
        if self._homes.is_free(number, home) or (home == context and home.uses.get(number, 0) < 2):
            return result, start
        start = place if home == self._context else start
        lanes = sorted(names_in(result) & self._facts.nest.lanes)
        access = self._editor.temporary("h" if home != context else "v", self._dtype(number), lanes)
        run = self._editor.assign(access, result, home.loops, "hoist" if home != context else "share")
        self._insert(run, start)
        self._names.setdefault(number, []).append((home, start, access))
        return access, start

    def _build(self, number: int, home: Context, place: Place) -> tuple[Any, Place]:
        """Return a value made of its operands, and the first place where it can stand."""
        value = self._numbering.values[number]
        if value.kind in (ATOM, LITERAL):
            return value.detail, self._earliest(number, home)
        below = self._homes.operands(number, home)
        if value.kind == PRODUCT:
            below = sorted(below, key=lambda n: self._numbering.values[n].kind != LITERAL)
        found = [self._expression(n, home, place) for n in below]
        parts = tuple(expression for expression, _ in found)
        start = max(self._entry(home), *(start for _, start in found))
        if value.kind == SUM:
            return prim.Sum(parts), start
        if value.kind == PRODUCT:
            return prim.Product(parts), start
        if value.kind == QUOTIENT:
            return prim.Quotient(*parts), start
        assert value.kind == CALL
        return value.detail(*parts), start

    # -- places

    def _entry(self, home: Context) -> Place:
        """Return the first place in some loops."""
        return (self._facts.nest.entry[home.loops[-1]] if home.loops else 0, 1)

    def _leave(self, home: Context, context: Context, place: Place) -> Place:
        """Return the last place in the loops of a home in front of a place in the loops of a context."""
        inner = context.loops[len(home.loops) :]
        return (self._facts.nest.entry[inner[0]], 0) if inner else place

    def _earliest(self, number: int, home: Context) -> Place:
        """Return the first place in some loops where an atom has its value."""
        nest = self._facts.nest
        start = self._entry(home)
        for source in self._statements.sources(number):
            inner = [i for i in nest.loops[source] if i not in home.loops]
            start = max(start, (nest.exit[inner[0]] if inner else nest.position[source], 1))
        return start

    def _insert(self, run: RunInstruction, place: Place) -> None:
        item = self._facts.nest.items[place[0]]
        insert = self._editor.insert_after if place[1] else self._editor.insert_before
        insert(item, [run])

    def _dtype(self, number: int) -> Any:
        value = self._numbering.values[number]
        if value.kind == ATOM:
            return self._facts.types.of(value.detail)
        if value.kind == LITERAL:
            is_complex = isinstance(value.detail, (complex, np.complexfloating))
            return np.result_type(self._facts.types.real, np.complex64 if is_complex else np.float32)
        kind = np.result_type(*map(self._dtype, value.operands)) if value.operands else self._facts.types.real
        if value.kind == CALL and function_name(value.detail) in REAL_RESULT:
            return np.empty(0, kind).real.dtype
        return kind
