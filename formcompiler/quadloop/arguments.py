"""The loops over the dofs of the arguments: blocks of the result, with trial functions factored out of sums."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as prim

from formcompiler.elements.quadrature import QuadratureRule
from formcompiler.frontend.integrals import ArgumentTerm, FormIntegral
from formcompiler.kernel.builder import KernelBuilder
from formcompiler.kernel.symmetry import Block, Copy, collect_block, find_equal_blocks
from formcompiler.kernel.terms import sum_of
from formcompiler.quadloop.shared import Dofs, Place, SharedBlock
from formcompiler.quadloop.tables import ElementTables, Table, repeat_columns
from formcompiler.terminals import Terminal

Expression = Any
_TableAccess = Callable[[Table, str, int, Expression, Expression], Expression]


@dataclass
class _Group:
    """Terms on the same block of the result.

    Attributes:
        component: Component of the result.
        blocks: Dofs of each argument.
        terms: The terms.
        values: Field value of the factor of each term.
        is_constant: Whether the functions of all arguments are the same at all points.
        shared: Where the values are collected if they belong to several entries of the result.
    """

    component: int
    blocks: tuple[Dofs, ...]
    terms: list[ArgumentTerm]
    values: list[int]
    is_constant: bool
    shared: SharedBlock | None = None


class ArgumentLoops:
    """Writes what the points add to the result."""

    def __init__(
        self,
        builder: KernelBuilder,
        integral: FormIntegral,
        rule: QuadratureRule,
        terms: Sequence[tuple[ArgumentTerm, int]],
        tables: ElementTables,
        part: str,
        access: _TableAccess,
    ) -> None:
        self._builder = builder
        self._integral = integral
        self._tables = tables
        self._diagonal = part == "diagonal" and len(integral.arguments) == 2
        self._access = access
        self._has_points = rule.is_runtime or rule.n_points > 1
        self._is_tabulated = not rule.is_runtime
        self._groups = self._group(terms)
        self._summed: dict[int, Expression] = {}
        self._sums: dict[int, Expression] = {}
        if len(integral.arguments) == 2 and not self._diagonal and integral.integral_type != "expression":
            self._share()

    def _group(self, terms: Sequence[tuple[ArgumentTerm, int]]) -> list[_Group]:
        """Return the terms, with the field values of their factors, by the block of dofs that they belong to.

        In vectors, functions that are the same at all points have a group of their own, which leaves the loop.
        """
        groups: dict[tuple[int, tuple[Dofs, ...], bool], _Group] = {}
        for term, value in terms:
            if any(t.average < 0 and self._table(t).is_zero for t in term.arguments):
                continue
            blocks = tuple(map(self._block, term.arguments))
            if self._diagonal and blocks[0] != blocks[1]:
                continue
            is_constant = bool(blocks) and all(map(self._is_constant, term.arguments))
            key = (term.component, blocks, is_constant and len(blocks) == 1)
            group = groups.setdefault(key, _Group(term.component, blocks, [], [], True))
            group.terms.append(term)
            group.values.append(value)
            group.is_constant = group.is_constant and is_constant
        return list(groups.values())

    def _share(self) -> None:
        """Leave out blocks that are copies or transposes of others; say where the values of the others belong."""
        groups, kept = self._groups, []
        for found in find_equal_blocks([self._signature(group) for group in groups]):
            group = groups[found.number]
            if found.copies or (found.is_symmetric and group.blocks[0].n > 1):
                same = [Copy(found.number, is_transposed=False, sign=1), *found.copies]
                targets = [(groups[c.number].blocks, c) for c in same]
                places = [Place(rows, columns, c.is_transposed, c.sign) for (rows, columns), c in targets]
                group.shared = SharedBlock(self._builder, places, is_triangle=found.is_symmetric)
            kept.append(group)
        self._groups = kept

    def _signature(self, group: _Group) -> Block:
        return collect_block([tuple(map(self._basis, term.arguments)) for term in group.terms], group.values)

    def _basis(self, argument: Terminal) -> Hashable:
        """Return what tells the functions of an argument from others: the numbers in their table."""
        if argument.average >= 0:
            return ("average", argument.average)
        table = self._table(argument)
        return (table.values.shape, table.values.tobytes(), argument.side)

    def _is_constant(self, argument: Terminal) -> bool:
        if self._integral.integral_type == "expression":
            return False
        return argument.average >= 0 or not self._table(argument).varies_with_point

    def clear(self) -> None:
        """Clear what is added up over the points."""
        for group in self._groups:
            if not group.is_constant and group.shared is not None:
                group.shared.clear()
            if group.is_constant and self._has_points:
                self._summed.update(zip(group.values, (term.factor for term in group.terms), strict=True))
        for value in self._summed:
            self._sums[value] = prim.Variable(self._builder.temporary("total"))
            self._builder.assign(self._sums[value], 0.0)

    def write(self, point: Expression) -> None:
        """Write all terms at one point; factors of functions that are the same at all points are just added up."""
        names: dict[int, Expression] = {}
        for group in self._groups:
            if not group.is_constant:
                self._write_block(group, self._factors(group, names), point)
        for value, factor in self._summed.items():
            self._builder.accumulate(self._sums[value], names.get(value, factor))

    def finish(self) -> None:
        """Write what does not depend on points, and add the values of shared blocks to the result."""
        names = dict(self._sums)
        for group in self._groups:
            if group.is_constant and group.shared is not None and group.shared.is_small:
                self._write_entries(group.shared, self._factors(group, names))
                continue
            if group.is_constant:
                if group.shared is not None:
                    group.shared.clear()
                self._write_block(group, self._factors(group, names), 0)
            if group.shared is not None:
                group.shared.add_to_result()

    def _factors(self, group: _Group, names: dict[int, Expression]) -> list[tuple[ArgumentTerm, Expression]]:
        """Return the terms of a group with names of their factors; equal factors share a name."""
        for value, term in zip(group.values, group.terms, strict=True):
            if value not in names:
                names[value] = self._builder.named("f", term.factor)
        return [(t, names[v]) for t, v in zip(group.terms, group.values, strict=True)]

    def _table(self, argument: Terminal) -> Table:
        return self._tables(self._integral.arguments[argument.index], argument.component, argument.derivatives)

    def _block(self, argument: Terminal) -> Dofs:
        dim = self._integral.arguments[argument.index].dim
        if argument.average >= 0:
            return Dofs(argument.side * dim, 1, dim)
        table = self._table(argument)
        return Dofs(argument.side * dim + table.offset, table.stride, table.n_dofs)

    def _write_entries(self, shared: SharedBlock, terms: list[tuple[ArgumentTerm, Expression]]) -> None:
        """Write a small block of functions that are the same at all points, entry by entry: many are 0, 1 or -1."""
        for i in range(shared.n_rows):
            scaled = self._scale_trials(terms, 0, i)
            for j in range(i if shared.is_triangle else 0, shared.n_columns):
                value = sum_of([_times(g, self._value(trial, 0, j)) for trial, g in scaled.items()])
                shared.add_entry(i, j, self._builder.named("f", value))

    def _scale_trials(
        self, terms: list[tuple[ArgumentTerm, Expression]], point: Expression, i: Expression, n_repeated: int = 0
    ) -> dict[Terminal, Expression]:
        """Return the factor of each trial table for one test function."""
        by_trial: dict[Terminal, list[Expression]] = {}
        for term, factor in terms:
            value = _times(factor, self._value(term.arguments[0], point, i, n_repeated))
            by_trial.setdefault(term.arguments[1], []).append(value)
        return {trial: self._builder.named("f", sum_of(values)) for trial, values in by_trial.items()}

    def _write_block(self, group: _Group, terms: list[tuple[ArgumentTerm, Expression]], point: Expression) -> None:
        blocks, component = group.blocks, group.component
        if not blocks:
            for _, factor in terms:
                self._builder.accumulate(self._entry(component, (), point), factor)
            return
        with self._builder.loop("i", blocks[0].n) as i:
            if len(blocks) == 1 or self._diagonal:
                value = sum_of([self._product(t, f, point, (i,) * len(blocks)) for t, f in terms])
                self._builder.accumulate(self._entry(component, (blocks[0].at(i),), point), value)
                return
            if group.shared is not None:
                n_repeated = group.shared.n_repeated if self._is_tabulated else 0
                scaled = self._scale_trials(terms, point, i, n_repeated)
                self._write_shared(group.shared, scaled, point, i, n_repeated)
                return
            scaled = self._scale_trials(terms, point, i)
            with self._builder.loop("j", blocks[1].n) as j:
                value = sum_of([_times(g, self._value(trial, point, j)) for trial, g in scaled.items()])
                entry = self._entry(component, (blocks[0].at(i), blocks[1].at(j)), point)
                self._builder.accumulate(entry, value)

    def _write_shared(
        self, shared: SharedBlock, scaled: dict[Terminal, Expression], point: Expression, i: Expression, n_repeated: int
    ) -> None:
        """Write one row of a block whose values are collected before they are added to the result."""
        with self._builder.loop("j", shared.array_width) as j:
            column = j
            if shared.is_triangle:
                column = i + j if n_repeated else shared.cyclic(i + j)
            values = [_times(g, self._value(trial, point, column, n_repeated)) for trial, g in scaled.items()]
            shared.add(i, j, sum_of(values))

    def _product(self, term: ArgumentTerm, factor: Expression, point: Expression, dofs: Sequence[Any]) -> Expression:
        for argument, dof in zip(term.arguments, dofs, strict=True):
            factor = _times(factor, self._value(argument, point, dof))
        return factor

    def _value(self, argument: Terminal, point: Expression, dof: Expression, n_repeated: int = 0) -> Expression:
        """Return the value of a basis function; the first ones may be asked for again behind the last one."""
        if argument.average >= 0:
            return prim.Variable(self._integral.averages[argument.average].name)[dof]
        name = "test" if argument.index == 0 else "trial"
        directions = "".join(str(d) * n for d, n in enumerate(argument.derivatives))
        wish = f"T_{name}_{argument.component}" + (f"_d{directions}" if directions else "")
        return self._access(repeat_columns(self._table(argument), n_repeated), wish, argument.side, point, dof)

    def _entry(self, component: int, dofs: tuple[Expression, ...], point: Expression) -> Expression:
        if self._integral.integral_type == "expression":
            return prim.Variable("A")[(point, component, *dofs)]
        return prim.Variable("A")[dofs if len(dofs) > 1 else (dofs[0] if dofs else 0)]


def _times(factor: Expression, value: Expression) -> Expression:
    if isinstance(factor, float) and factor == 1:
        return value
    if isinstance(value, float) and value == 1:
        return factor
    return prim.Product((factor, value))
