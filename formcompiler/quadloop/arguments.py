"""The loops over the dofs of the arguments: blocks of the result, with trial functions factored out of sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pymbolic.primitives as prim

from formcompiler.frontend.integrals import ArgumentTerm, FormIntegral
from formcompiler.kernel.builder import KernelBuilder
from formcompiler.quadloop.tables import ElementTables, Table
from formcompiler.terminals import Terminal

Expression = Any
_Block = tuple[int, int, int]
"""Offset in the result, stride and number of dofs."""
_TableAccess = Callable[[Table, str, int, Expression, Expression], Expression]


class ArgumentLoops:
    """Writes what one point adds to the result."""

    def __init__(
        self,
        builder: KernelBuilder,
        integral: FormIntegral,
        tables: ElementTables,
        part: str,
        access: _TableAccess,
    ) -> None:
        self._builder = builder
        self._integral = integral
        self._tables = tables
        self._diagonal = part == "diagonal" and len(integral.arguments) == 2
        self._access = access

    def write(self, terms: Sequence[ArgumentTerm], point: Expression) -> None:
        """Write all terms at one point; terms on the same block of dofs share loops."""
        groups: dict[tuple[int, tuple[_Block, ...]], list[ArgumentTerm]] = {}
        for term in terms:
            if any(t.average < 0 and self._table(t).is_zero for t in term.arguments):
                continue
            blocks = tuple(map(self._block, term.arguments))
            if self._diagonal and blocks[0] != blocks[1]:
                continue
            groups.setdefault((term.component, blocks), []).append(term)
        for (component, blocks), members in groups.items():
            named = [(term, self._named(term.factor)) for term in members]
            self._write_block(component, blocks, named, point)

    def _table(self, argument: Terminal) -> Table:
        return self._tables(self._integral.arguments[argument.index], argument.component, argument.derivatives)

    def _block(self, argument: Terminal) -> _Block:
        dim = self._integral.arguments[argument.index].dim
        if argument.average >= 0:
            return (argument.side * dim, 1, dim)
        table = self._table(argument)
        return (argument.side * dim + table.offset, table.stride, table.n_dofs)

    def _named(self, factor: Expression) -> Expression:
        """Return a factor that is cheap to repeat: a name or a literal."""
        if isinstance(factor, (prim.Variable, float, complex)):
            return factor
        name = prim.Variable(self._builder.temporary("f", (), self._builder.value_type))
        self._builder.assign(name, factor)
        return name

    def _write_block(
        self,
        component: int,
        blocks: tuple[_Block, ...],
        terms: list[tuple[ArgumentTerm, Expression]],
        point: Expression,
    ) -> None:
        if not blocks:
            for _, factor in terms:
                self._builder.accumulate(self._entry(component, (), point), factor)
            return
        with self._builder.loop("i", blocks[0][2]) as i:
            row = blocks[0][0] + blocks[0][1] * i
            if len(blocks) == 1 or self._diagonal:
                value = _sum([self._product(t, f, point, (i,) * len(blocks)) for t, f in terms])
                self._builder.accumulate(self._entry(component, (row,), point), value)
                return
            by_trial: dict[Terminal, list[Expression]] = {}
            for term, factor in terms:
                value = _times(factor, self._value(term.arguments[0], point, i))
                by_trial.setdefault(term.arguments[1], []).append(value)
            scaled = {trial: self._named(_sum(values)) for trial, values in by_trial.items()}
            with self._builder.loop("j", blocks[1][2]) as j:
                value = _sum([_times(g, self._value(trial, point, j)) for trial, g in scaled.items()])
                column = blocks[1][0] + blocks[1][1] * j
                self._builder.accumulate(self._entry(component, (row, column), point), value)

    def _product(self, term: ArgumentTerm, factor: Expression, point: Expression, dofs: Sequence[Any]) -> Expression:
        for argument, dof in zip(term.arguments, dofs, strict=True):
            factor = _times(factor, self._value(argument, point, dof))
        return factor

    def _value(self, argument: Terminal, point: Expression, dof: Expression) -> Expression:
        if argument.average >= 0:
            return prim.Variable(self._integral.averages[argument.average].name)[dof]
        name = "test" if argument.index == 0 else "trial"
        directions = "".join(str(d) * n for d, n in enumerate(argument.derivatives))
        wish = f"T_{name}_{argument.component}" + (f"_d{directions}" if directions else "")
        return self._access(self._table(argument), wish, argument.side, point, dof)

    def _entry(self, component: int, dofs: tuple[Expression, ...], point: Expression) -> Expression:
        if self._integral.integral_type == "expression":
            return prim.Variable("A")[(point, component, *dofs)]
        return prim.Variable("A")[dofs if len(dofs) > 1 else (dofs[0] if dofs else 0)]


def _sum(values: Sequence[Expression]) -> Expression:
    return values[0] if len(values) == 1 else prim.Sum(tuple(values))


def _times(factor: Expression, value: Expression) -> Expression:
    if isinstance(factor, float) and factor == 1:
        return value
    if isinstance(value, float) and value == 1:
        return factor
    return prim.Product((factor, value))
