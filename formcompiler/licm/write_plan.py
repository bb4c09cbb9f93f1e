"""Writes the instructions and loops that evaluate a plan for a sum over quadrature points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymbolic.primitives as prim
from loopy.schedule import EnterLoop, LeaveLoop, RunInstruction, ScheduleItem

from formcompiler.kernel.names import names_in
from formcompiler.kernel.terms import product_of, sum_of
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.bilinear import Atoms, Plan, Scalars
from formcompiler.licm.edit import Editor
from formcompiler.licm.nest import Loops
from formcompiler.licm.substitute import substitute


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


@dataclass
class Written:
    """Items of the linearization that evaluate a plan."""

    scalars: list[ScheduleItem]
    arrays: list[ScheduleItem]
    rows: list[ScheduleItem]
    innermost: ScheduleItem


class PlanWriter:
    """Writes the instructions of a plan for one accumulation.

    Args:
        facts: The kernel as it was.
        editor: Where the instructions go.
        accumulation: What is rewritten.
        dofs: Inames to use in the place of the accumulation's.
        outer: Loops around them.
    """

    def __init__(
        self, facts: Analysis, editor: Editor, accumulation: Accumulation, dofs: Sequence[str], outer: Loops
    ) -> None:
        self._facts = facts
        self._editor = editor
        self._it = accumulation
        self._dofs = tuple(dofs)
        self._outer = outer
        self._rename = substitute({old: prim.Variable(new) for old, new in zip(accumulation.dofs, dofs, strict=True)})

    def write(self, plan: Plan) -> Written:
        """Return the items for a plan."""
        self._out = Written([], [], [], RunInstruction(insn_id=""))
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
        return product_of(factors)

    def _scalar(self, scalars: Scalars) -> Any:
        """Return the name of a sum of scalars, or the literal or name that it is."""
        if all(not s.atoms for s in scalars):
            return float(sum(s.factor for s in scalars)) if not _is_complex(scalars) else sum(s.factor for s in scalars)
        value = sum_of([self._times(_literal(s.factor), s.atoms) for s in scalars])
        if isinstance(value, (prim.Variable, prim.Subscript)):
            return value
        name = self._new("c", value, ())
        self._out.scalars.append(self._editor.assign(name, value, self._outer))
        return name

    def _new(self, wish: str, value: Any, index: Sequence[str]) -> Any:
        lanes = sorted(names_in(value) & self._facts.nest.lanes)
        extents = [self._facts.trips.extent(self._it.dofs[1]) for _ in index]
        dtype = self._facts.types.of_sum([value], self._editor.added)
        return self._editor.temporary(wish, dtype, (*index, *lanes), extents)

    def _row_sum(self, rows: dict[Atoms, Scalars]) -> Any:
        """Return the name of a sum over row factors, evaluated in the loop over rows."""
        value = sum_of([self._times(self._scalar(s), atoms) for atoms, s in rows.items()])
        if not isinstance(value, (prim.Sum, prim.Product)):
            return value
        name = self._new("g", value, ())
        self._out.rows.append(self._editor.assign(name, value, (*self._outer, self._dofs[0])))
        return name

    def _array(self, columns: dict[Atoms, Scalars]) -> Any:
        """Return the access to an array of sums over column factors, filled by a loop of its own."""
        value = sum_of([self._times(self._scalar(s), atoms) for atoms, s in columns.items()])
        column = self._dofs[1]
        if not isinstance(value, (prim.Sum, prim.Product)):
            return value
        extent = self._facts.trips.extent(self._it.dofs[1])
        iname = self._editor.loop(column.split("_")[0], extent)
        rename = substitute({column: prim.Variable(iname)})
        access = self._new("h", value, (column,))
        run = self._editor.assign(rename(access), rename(value), (*self._outer, iname))
        self._out.arrays += [EnterLoop(iname=iname), run, LeaveLoop(iname=iname)]
        return access


def _is_complex(scalars: Scalars) -> bool:
    return any(isinstance(s.factor, (complex, np.complexfloating)) for s in scalars)


def _literal(value: Any) -> Any:
    return value if isinstance(value, (complex, np.complexfloating)) else float(value)
