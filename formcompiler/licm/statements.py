"""Value numbers of the instructions of a kernel."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as prim

from formcompiler.kernel.names import names_in
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.minimal import Inames
from formcompiler.licm.nest import Loops
from formcompiler.licm.numbering import ATOM, CALL, PRODUCT, QUOTIENT, SUM, Numbering
from formcompiler.licm.substitute import substitute_with

Context = tuple[Loops, frozenset[str]]
"""Loops and lanes of an instruction."""


@dataclass(frozen=True)
class Statement:
    """An instruction by value numbers.

    Attributes:
        instruction: The instruction.
        context: Its loops and lanes.
        root: Number of its value; of what is added, if it adds to its target.
        is_accumulation: Whether it adds to its target.
        is_definition: Whether it is the only one that sets its target, a scalar that is read afterwards only.
    """

    instruction: Any
    context: Context
    root: int
    is_accumulation: bool
    is_definition: bool


class Statements:
    """Numbers the values of the instructions of one kernel.

    Expressions of variables that are written once, before they are read, have one number for the whole kernel; one
    that depends on other variables has another number after each write of these.

    Attributes:
        numbering: The values.
    """

    def __init__(self, facts: Analysis) -> None:
        self.numbering = Numbering()
        self._facts = facts
        self._varying = facts.varying
        self._numbers: dict[Any, int] = {}
        self._unsettled: set[int] = set()
        self._inames: dict[int, Inames] = {}
        self._sources: dict[int, tuple[str, ...]] = {}
        self._aliases: dict[Any, Any] = {}
        self._alias_names: set[str] = set()

    def number(self, instruction: Any) -> Statement:
        """Return an assignment by numbers."""
        target, value = instruction.assignee, instruction.expression
        is_accumulation = isinstance(value, prim.Sum) and value.children[0] == target
        if is_accumulation:
            root = self.numbering.combine(SUM, [self._of(c, instruction.id) for c in value.children[1:]])
        else:
            root = self._of(value, instruction.id)
        nest = self._facts.nest
        context = (nest.loops[instruction.id], nest.lanes_of[instruction.id])
        is_definition = not is_accumulation and self._is_definition(instruction)
        if is_definition and self.numbering.values[root].kind == ATOM and root not in self._unsettled:
            self._numbers[target] = root
        return Statement(instruction, context, root, is_accumulation, is_definition)

    def inames(self, number: int) -> Inames:
        """Return the inames that a value may differ between, lanes too; some may not be around where it is read."""
        if number not in self._inames:
            operands = self.numbering.values[number].operands
            self._inames[number] = frozenset[str]().union(*map(self.inames, operands))
        return self._inames[number]

    def sources(self, number: int) -> tuple[str, ...]:
        """Return the instructions that write what an atom reads, the last one before it for each variable."""
        return self._sources.get(number, ())

    def alias(self, statement: Statement, access: Any) -> None:
        """Let the variable that a statement defines stand for another one from here on."""
        target = statement.instruction.assignee
        self._numbers[target] = self._of(access, statement.instruction.id)
        self._aliases[target] = access
        self._alias_names.add(statement.instruction.assignee_name)

    def renamed(self, expression: Any) -> Any:
        """Return an expression with variables in the place of their aliases."""
        if not self._aliases or names_in(expression).isdisjoint(self._alias_names):
            return expression
        return substitute_with(self._aliases.get)(expression)

    def _of(self, expression: Any, reader: str) -> int:
        if not isinstance(expression, prim.ExpressionNode):
            return self.numbering.literal(expression)
        known = self._numbers.get(expression)
        if known is not None:
            return known
        if isinstance(expression, (prim.Sum, prim.Product)):
            parts = [self._of(c, reader) for c in expression.children]
            number = self.numbering.combine(SUM if isinstance(expression, prim.Sum) else PRODUCT, parts)
        elif isinstance(expression, prim.Quotient):
            parts = [self._of(expression.numerator, reader), self._of(expression.denominator, reader)]
            number = self.numbering.node(QUOTIENT, parts)
        elif isinstance(expression, prim.Call):
            parts = [self._of(p, reader) for p in expression.parameters]
            number = self.numbering.node(CALL, parts, expression.function)
        else:
            parts = []
            number = self._atom(self.renamed(expression), reader)
        if number in self._unsettled or not self._unsettled.isdisjoint(parts):
            self._unsettled.add(number)
        else:
            self._numbers[expression] = number
        return number

    def _atom(self, expression: Any, reader: str) -> int:
        scopes, nest = self._facts.scopes, self._facts.nest
        names = names_in(expression)
        written = [n for n in sorted(names) if n in scopes.writers]
        varying = [n for n in written if n in self._varying]
        version: Hashable = None
        if varying:
            version = tuple((n, scopes.version(n, reader), scopes.inames_of_read(n, reader)) for n in varying)
        number = self.numbering.atom(expression, version)
        if number not in self._inames:
            loops = [scopes.inames_of_read(n, reader) for n in varying]
            settled = [nest.loops[scopes.writers[n][0]] for n in written if n not in self._varying]
            self._inames[number] = names.intersection(self._facts.kernel.inames).union(*loops, *settled)
            self._sources[number] = tuple(s[-1] for n in written if (s := scopes.sources(n, reader)))
        if varying:
            self._unsettled.add(number)
        return number

    def _is_definition(self, instruction: Any) -> bool:
        name = instruction.assignee_name
        if name in self._varying or not self._facts.is_scalar(name):
            return False
        dtype = self._facts.kernel.temporary_variables[name].dtype
        is_float = dtype is None or dtype.numpy_dtype.kind in "fc"
        return is_float and names_in(instruction.assignee) - {name} <= self._facts.nest.lanes
