"""Value numbers of the instructions of a kernel."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pymbolic.primitives as prim

from formcompiler.kernel.names import names_in, names_written
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.minimal import Inames
from formcompiler.licm.nest import Loops
from formcompiler.licm.numbering import ATOM, CALL, PRODUCT, QUOTIENT, SUM, Numbering
from formcompiler.licm.substitute import substitute_with


@dataclass(frozen=True, eq=False, slots=True)
class Context:
    """Loops and lanes of instructions, and what is known of values there; equal ones of one kernel are one object.

    Attributes:
        loops: The loops, outermost first.
        lanes: The lanes.
        inames: All of them.
        homes: Where values that are used here are evaluated.
        homes_of: The same by the inames that they depend on.
        regrouped: Values as they are regrouped for instructions here.
        changed: Operands of the values evaluated here that got others.
        uses: How many values and instructions use a value evaluated here.
    """

    loops: Loops
    lanes: Inames
    inames: Inames
    homes: dict[int, Context] = field(default_factory=dict)
    homes_of: dict[Inames, Context] = field(default_factory=dict)
    regrouped: dict[int, int] = field(default_factory=dict)
    changed: dict[int, list[int]] = field(default_factory=dict)
    uses: dict[int, int] = field(default_factory=dict)


class Statement(NamedTuple):
    """An instruction by value numbers.

    Attributes:
        instruction: The instruction.
        position: Index of the item that runs it.
        context: Its loops and lanes.
        root: Number of its value; of what is added, if it adds to its target.
        is_accumulation: Whether it adds to its target.
        is_definition: Whether it is the only one that sets its target, a scalar that is read afterwards only.
    """

    instruction: Any
    position: int
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
        self._all_inames = frozenset(facts.kernel.inames)
        self._contexts: dict[tuple[Loops, Inames], Context] = {}
        self._numbers: dict[Any, int] = {}
        self._unsettled: set[int] = set()
        self._inames: dict[int, Inames] = {}
        self._sources: dict[int, Sequence[str]] = {}
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
        context = self.context(nest.loops[instruction.id], nest.lanes_of[instruction.id])
        is_definition = not is_accumulation and self._is_definition(instruction)
        if is_definition and self.numbering.values[root].kind == ATOM and root not in self._unsettled:
            self._numbers[target] = root
        position = nest.position[instruction.id]
        return Statement(instruction, position, context, root, is_accumulation, is_definition)

    def context(self, loops: Loops, lanes: Inames) -> Context:
        """Return the context with some loops and lanes."""
        known = self._contexts.get((loops, lanes))
        if known is None:
            known = self._contexts[loops, lanes] = Context(loops, lanes, lanes.union(loops))
        return known

    def inames(self, number: int) -> Inames:
        """Return the inames that a value may differ between, lanes too; some may not be around where it is read."""
        if number not in self._inames:
            result = frozenset[str]()
            for operand in self.numbering.values[number].operands:
                inames = self.inames(operand)
                if not inames <= result:
                    result = result | inames if result else inames
            self._inames[number] = result
        return self._inames[number]

    def sources(self, number: int) -> Sequence[str]:
        """Return the instructions that write what an atom reads, the last one before it for each variable."""
        return self._sources.get(number, ())

    def alias(self, statement: Statement, access: Any) -> None:
        """Let the variable that a statement defines stand for another one from here on."""
        target = statement.instruction.assignee
        self._numbers[target] = self._of(access, statement.instruction.id)
        self._aliases[target] = access
        self._alias_names.update(names_written(statement.instruction))

    def renamed(self, expression: Any) -> Any:
        """Return an expression with variables in the place of their aliases."""
        if not self._aliases or names_in(expression).isdisjoint(self._alias_names):
            return expression
        return substitute_with(self._aliases.get)(expression)

    def _of(self, expression: Any, reader: str) -> int:
        if isinstance(expression, prim.Product):
            return self.numbering.combine(PRODUCT, [self._of(c, reader) for c in expression.children])
        if isinstance(expression, prim.Sum):
            return self.numbering.combine(SUM, [self._of(c, reader) for c in expression.children])
        if not isinstance(expression, prim.ExpressionNode):
            return self.numbering.literal(expression)
        if isinstance(expression, prim.Quotient):
            parts = [self._of(expression.numerator, reader), self._of(expression.denominator, reader)]
            return self.numbering.node(QUOTIENT, parts)
        if isinstance(expression, prim.Call):
            parts = [self._of(p, reader) for p in expression.parameters]
            return self.numbering.node(CALL, parts, expression.function)
        known = self._numbers.get(expression)
        return self._atom(expression, reader) if known is None else known

    def _atom(self, expression: Any, reader: str) -> int:
        """Return the number of a variable or anything else that is not looked into."""
        scopes = self._facts.scopes
        renamed = self.renamed(expression)
        names = names_in(renamed)
        inames = names & self._all_inames
        sources: list[str] = []
        version: list[Hashable] = []
        for name in sorted(names & scopes.writers.keys()):
            count = scopes.version(name, reader)
            sources += scopes.writers[name][max(0, count - 1) : count]
            if name in self._varying:
                bound = scopes.inames_of_read(name, reader)
                version += (name, count, bound)
                inames |= bound
            else:
                inames = inames.union(self._facts.nest.loops[scopes.writers[name][0]])
        number = self.numbering.atom(renamed, tuple(version))
        self._inames.setdefault(number, inames)
        self._sources.setdefault(number, sources)
        if version:
            self._unsettled.add(number)
        else:
            self._numbers[expression] = number
        return number

    def _is_definition(self, instruction: Any) -> bool:
        (name,) = names_written(instruction)
        if name in self._varying or not self._facts.is_scalar(name):
            return False
        dtype = self._facts.kernel.temporary_variables[name].dtype
        is_float = dtype is None or dtype.numpy_dtype.kind in "fc"
        return is_float and names_in(instruction.assignee) - {name} <= self._facts.nest.lanes
