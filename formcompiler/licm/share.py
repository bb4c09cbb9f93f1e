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
from typing import Any

import loopy as lp
import numpy as np
import pymbolic.primitives as prim
from loopy.schedule import RunInstruction

from formcompiler.licm.analysis import Analysis
from formcompiler.licm.minimal import names_in
from formcompiler.licm.numbering import ATOM, CALL, LITERAL, PRODUCT, QUOTIENT, SUM
from formcompiler.licm.pairs import PairSharing, is_node
from formcompiler.licm.statements import Context, Statement, Statements
from formcompiler.licm.types import REAL_RESULT, function_name


def share_values(facts: Analysis) -> lp.LoopKernel:
    """Return the kernel with values that occur more than once computed once."""
    return _Sharer(facts).run()


def drop_copies(facts: Analysis) -> lp.LoopKernel:
    """Return the kernel without instructions whose value an earlier one has; expressions are left as they are."""
    return _Sharer(facts).drop()


class _Sharer:
    """Shares the values of one kernel."""

    def __init__(self, facts: Analysis) -> None:
        self._facts = facts
        self._editor = facts.edit()
        self._statements = Statements(facts)
        self._numbering = self._statements.numbering
        self._names: dict[int, list[tuple[Context, Any]]] = {}
        self._operands: dict[Context, dict[int, list[int]]] = {}
        self._uses: dict[Context, dict[int, int]] = {}
        self._kept: dict[Context, dict[int, bool]] = {}

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
        named = set(self._names)
        self._kept = {context: dict.fromkeys(named, False) for context in by_context}
        self._names = {}
        for statement in statements:
            self._write(statement)
        return self._editor.finish()

    def drop(self) -> lp.LoopKernel:
        """Return the kernel without copies."""
        for statement in self._number_all():
            instruction = statement.instruction
            expression = self._statements.renamed(instruction.expression)
            if expression is not instruction.expression:
                self._editor.change(instruction.id, expression=expression)
        return self._editor.finish()

    # -- numbers

    def _number_all(self) -> list[Statement]:
        """Number all instructions in order; those that compute a value with a name are dropped for that name."""
        statements = []
        for name in self._facts.nest.order:
            instruction = self._facts.instruction(name)
            if not isinstance(instruction, lp.Assignment) or instruction.predicates:
                self._rename_in(instruction)
                continue
            statement = self._statements.number(instruction)
            if statement.is_definition and self._numbering.values[statement.root].kind != LITERAL:
                known = self._find_name(statement.root, statement.context)
                if known is not None:
                    self._statements.alias(statement, known)
                    self._editor.remove(name)
                    continue
                self._names.setdefault(statement.root, []).append((statement.context, instruction.assignee))
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
        kept = self._kept[context]
        if is_named or number not in kept:
            below = self._below(number, self._operands[context])
            result = tuple(sorted(below)) == value.operands or value.kind not in (SUM, PRODUCT)
            result = result and (is_named or self._uses[context].get(number, 0) < 2)
            result = result and all(self._is_kept(n, context) for n in below)
            if is_named:
                return result
            kept[number] = result
        return kept[number]

    # -- writing

    def _write(self, statement: Statement) -> None:
        instruction = statement.instruction
        known = self._find_name(statement.root, statement.context)
        if known is None and self._is_kept(statement.root, statement.context, is_named=statement.is_definition):
            value = self._statements.renamed(instruction.expression)
        else:
            value = self._expression(statement.root, statement, is_named=statement.is_definition)
            if statement.is_accumulation:
                terms = value.children if isinstance(value, prim.Sum) else (value,)
                value = prim.Sum((instruction.assignee, *terms))
        if value is not instruction.expression and value != instruction.expression:
            self._editor.change(instruction.id, expression=value)
        if statement.is_definition and known is None:
            self._names.setdefault(statement.root, []).append((statement.context, instruction.assignee))

    def _expression(self, number: int, statement: Statement, *, is_named: bool = False) -> Any:
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
        lanes = sorted(names_in(result) & self._facts.nest.lanes)
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

    def _build(self, number: int, statement: Statement) -> Any:
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
            return self._facts.types.of(value.detail)
        if value.kind == LITERAL:
            return np.dtype(np.complex64 if isinstance(value.detail, complex) else np.float32)
        kind = np.result_type(*map(self._dtype, value.operands)) if value.operands else np.dtype(np.float64)
        if value.kind == CALL and function_name(value.detail) in REAL_RESULT:
            return np.empty(0, kind).real.dtype
        return kind
