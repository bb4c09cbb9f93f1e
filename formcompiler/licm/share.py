"""Values that occur more than once are computed once, whatever the order and grouping of their operands.

Rewrite: ``x = a * b * c; y = c * d * a`` becomes ``s = a * c; x = s * b; y = s * d``; an instruction that computes the
same value as an earlier one is dropped.

Legality: sums and products are regrouped, which changes results by rounding only. A value is shared by instructions in
the same loops, or named by one in outer loops before; a variable that is written several times counts as another one
after each write.

Profitability: a pair of operands that occurs n times saves n - 1 operations; the most frequent pair goes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import loopy as lp
import numpy as np
import pymbolic.primitives as prim
from loopy.schedule import RunInstruction

from formcompiler.licm.cost import TripCounts
from formcompiler.licm.edit import Editor
from formcompiler.licm.minimal import names_in
from formcompiler.licm.nest import Loops, read_nest
from formcompiler.licm.numbering import ATOM, CALL, LITERAL, PRODUCT, QUOTIENT, SUM, Numbering
from formcompiler.licm.pairs import PairSharing, is_node
from formcompiler.licm.scopes import Scopes
from formcompiler.licm.substitute import substitute_with
from formcompiler.licm.types import REAL_RESULT, Types, function_name

Context = tuple[Loops, frozenset[str]]
"""Loops and lanes of an instruction."""


@dataclass(frozen=True)
class _Statement:
    """An instruction by value numbers; its own target is left out of what an accumulation adds."""

    instruction: Any
    context: Context
    root: int
    is_accumulation: bool


def share_values(kernel: lp.LoopKernel, trips: TripCounts) -> lp.LoopKernel:
    """Return the kernel with values that occur more than once computed once."""
    return _Sharer(kernel, trips).run()


def drop_copies(kernel: lp.LoopKernel, trips: TripCounts) -> lp.LoopKernel:
    """Return the kernel without instructions whose value an earlier one has; expressions are left as they are."""
    return _Sharer(kernel, trips).drop()


class _Sharer:
    """Shares the values of one kernel."""

    def __init__(self, kernel: lp.LoopKernel, trips: TripCounts) -> None:
        self._kernel = kernel
        self._nest = read_nest(kernel)
        self._scopes = Scopes(kernel, self._nest)
        self._types = Types(kernel)
        trips = trips.on(kernel)
        self._editor = Editor(kernel, {lane: trips.extent(lane) for lane in self._nest.lanes})
        self._opaque = {
            n
            for i in kernel.instructions
            if not isinstance(i, lp.MultiAssignmentBase)
            for n in i.read_dependency_names()
        }
        self._numbering = Numbering()
        self._names: dict[int, list[tuple[Context, Any]]] = {}
        self._aliases: dict[Any, tuple[int, Any]] = {}
        self._alias_names: set[str] = set()
        self._operands: dict[Context, dict[int, list[int]]] = {}
        self._uses: dict[Context, dict[int, int]] = {}

    def run(self) -> lp.LoopKernel:
        """Return the kernel with shared values."""
        statements = self._number_all()
        by_context: dict[Context, list[int]] = {}
        for statement in statements:
            by_context.setdefault(statement.context, []).append(statement.root)
        for context, roots in by_context.items():
            nodes = [n for n in self._reachable(roots, {}) if is_node(self._numbering, n)]
            self._operands[context] = PairSharing(self._numbering, nodes).operands
            self._uses[context] = self._count_uses(roots, self._operands[context])
        self._names = {}
        for statement in statements:
            self._write(statement)
        return self._editor.finish()

    def drop(self) -> lp.LoopKernel:
        """Return the kernel without copies."""
        for statement in self._number_all():
            instruction = statement.instruction
            expression = self._renamed(instruction.expression)
            if expression is not instruction.expression:
                self._editor.instructions[instruction.id] = instruction.copy(expression=expression)
        return self._editor.finish()

    # -- numbers

    def _number_all(self) -> list[_Statement]:
        """Number all instructions in order; those that compute a value with a name are dropped for that name."""
        statements = []
        for name in self._nest.order:
            instruction = self._kernel.id_to_insn[name]
            if not isinstance(instruction, lp.Assignment) or instruction.predicates:
                self._rename_in(instruction)
                continue
            statement = self._number(instruction)
            if self._is_definition(statement):
                known = self._known(statement)
                if known is not None:
                    self._aliases[instruction.assignee] = known
                    self._alias_names.add(instruction.assignee_var_names()[0])
                    self._editor.remove(name)
                    continue
                self._names.setdefault(statement.root, []).append((statement.context, instruction.assignee))
            statements.append(statement)
        return statements

    def _number(self, instruction: Any) -> _Statement:
        target, value = instruction.assignee, instruction.expression
        is_accumulation = isinstance(value, prim.Sum) and value.children[0] == target
        if is_accumulation:
            value = prim.Sum(value.children[1:])
        root = self._numbering.number(value, lambda e: self._atom(e, instruction.id))
        context = (self._nest.loops[instruction.id], self._nest.lanes_of[instruction.id])
        return _Statement(instruction, context, root, is_accumulation)

    def _atom(self, expression: Any, reader: str) -> int:
        if expression in self._aliases:
            return self._aliases[expression][0]
        expression = self._renamed(expression)
        writers = self._scopes.writers
        written = names_in(expression) & writers.keys()
        version = frozenset(
            (n, self._scopes.version(n, reader), self._scopes.inames_of_read(n, reader)) for n in written
        )
        return self._numbering.atom(expression, version)

    def _known(self, statement: _Statement) -> tuple[int, Any] | None:
        """Return the number and access of a variable that has the value of a statement already."""
        value = self._numbering.values[statement.root]
        if value.kind == ATOM and isinstance(value.detail, (prim.Variable, prim.Subscript)):
            return (statement.root, value.detail) if self._is_constant(value.detail) else None
        if value.kind in (ATOM, LITERAL):
            return None
        access = self._find_name(statement.root, statement.context)
        return None if access is None else (self._atom(access, statement.instruction.id), access)

    def _is_constant(self, access: Any) -> bool:
        """Tell whether what an access reads is written once only, or never."""
        return all(len(self._scopes.writers.get(n, ())) <= 1 for n in names_in(access))

    def _renamed(self, expression: Any) -> Any:
        if not self._aliases or isinstance(expression, prim.Variable):
            return self._aliases[expression][1] if expression in self._aliases else expression
        if names_in(expression).isdisjoint(self._alias_names):
            return expression
        return substitute_with(lambda e: self._aliases[e][1] if e in self._aliases else None)(expression)

    def _rename_in(self, instruction: Any) -> None:
        if isinstance(instruction, lp.MultiAssignmentBase):
            self._editor.instructions[instruction.id] = instruction.copy(
                expression=self._renamed(instruction.expression),
                predicates=frozenset(map(self._renamed, instruction.predicates)),
            )

    def _is_definition(self, statement: _Statement) -> bool:
        """Tell whether an instruction is the only one that sets a scalar (with lanes, maybe) temporary."""
        target = statement.instruction.assignee
        name = statement.instruction.assignee_var_names()[0]
        temporary = self._kernel.temporary_variables.get(name)
        if temporary is None or statement.is_accumulation or len(self._scopes.writers[name]) > 1:
            return False
        is_float = temporary.dtype is None or temporary.dtype.numpy_dtype.kind in "fc"
        return is_float and names_in(target) - {name} <= self._nest.lanes and name not in self._opaque

    def _find_name(self, number: int, context: Context) -> Any | None:
        for (loops, lanes), access in self._names.get(number, ()):
            if context[0][: len(loops)] == loops and lanes <= context[1]:
                return access
        return None

    # -- counts

    def _below(self, number: int, operands: dict[int, list[int]]) -> Sequence[int]:
        return operands.get(number) or self._numbering.values[number].operands

    def _reachable(self, roots: Sequence[int], operands: dict[int, list[int]]) -> list[int]:
        seen: dict[int, None] = {}
        stack = list(reversed(roots))
        while stack:
            number = stack.pop()
            if number not in seen:
                seen[number] = None
                stack += reversed(self._below(number, operands))
        return list(seen)

    def _count_uses(self, roots: Sequence[int], operands: dict[int, list[int]]) -> dict[int, int]:
        uses: dict[int, int] = {}
        for root in roots:
            uses[root] = uses.get(root, 0) + 1
        for number in self._reachable(roots, operands):
            for child in self._below(number, operands):
                uses[child] = uses.get(child, 0) + 1
        return uses

    # -- writing

    def _write(self, statement: _Statement) -> None:
        instruction = statement.instruction
        is_definition = self._is_definition(statement)
        value = self._expression(statement.root, statement, is_named=is_definition)
        if statement.is_accumulation:
            terms = value.children if isinstance(value, prim.Sum) else (value,)
            value = prim.Sum((instruction.assignee, *terms))
        if value != instruction.expression:
            self._editor.instructions[instruction.id] = instruction.copy(expression=value)
        if is_definition and self._find_name(statement.root, statement.context) is None:
            self._names.setdefault(statement.root, []).append((statement.context, instruction.assignee))

    def _expression(self, number: int, statement: _Statement, *, is_named: bool = False) -> Any:
        """Return the expression of a value at a statement; values with several uses get names on the way.

        Args:
            number: The value.
            statement: Where it is used.
            is_named: Whether the statement itself gives it a name.
        """
        value = self._numbering.values[number]
        if value.kind in (ATOM, LITERAL):
            return value.detail
        context = statement.context
        known = self._find_name(number, context)
        if known is not None:
            return known
        result = self._build(number, statement)
        if is_named or self._uses[context].get(number, 0) < 2 or self._is_negation(number, context):
            return result
        lanes = sorted(names_in(result) & self._nest.lanes)
        access = self._editor.temporary("v", self._dtype(number), lanes)
        run = self._editor.assign(access, result, context[0], "share")
        self._editor.insert_before(RunInstruction(insn_id=statement.instruction.id), [run])
        self._names.setdefault(number, []).append((context, access))
        return access

    def _is_negation(self, number: int, context: Context) -> bool:
        """Tell whether a value is another one with a changed sign, which costs nothing to repeat."""
        if self._numbering.values[number].kind != PRODUCT:
            return False
        operands = [self._numbering.values[o] for o in self._below(number, self._operands[context])]
        return sum(1 for v in operands if not (v.kind == LITERAL and abs(v.detail) == 1)) < 2

    def _build(self, number: int, statement: _Statement) -> Any:
        value = self._numbering.values[number]
        below = self._below(number, self._operands[statement.context])
        if value.kind == PRODUCT:
            below = sorted(below, key=lambda n: self._numbering.values[n].kind != LITERAL)
        parts = tuple(self._expression(n, statement) for n in below)
        if value.kind == SUM:
            return prim.Sum(parts)
        if value.kind == PRODUCT:
            return prim.Product(parts)
        if value.kind == QUOTIENT:
            return prim.Quotient(*parts)
        assert value.kind == CALL
        return value.detail(*parts)

    def _dtype(self, number: int) -> Any:
        value = self._numbering.values[number]
        if value.kind == ATOM:
            return self._types.of(value.detail)
        if value.kind == LITERAL:
            return np.dtype(np.complex64 if isinstance(value.detail, complex) else np.float32)
        kind = np.result_type(*map(self._dtype, value.operands)) if value.operands else np.dtype(np.float64)
        if value.kind == CALL and function_name(value.detail) in REAL_RESULT:
            return np.empty(0, kind).real.dtype
        return kind
