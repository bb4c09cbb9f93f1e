"""The loop over the points of a rule, and what has a value at each of them: entries of tables, sums over dofs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as prim

from formcompiler.frontend.integrals import Integrand
from formcompiler.kernel.builder import Expression, KernelBuilder
from formcompiler.kernel.values import ValueWriter
from formcompiler.quadloop.tables import Table


@dataclass(frozen=True)
class DofSum:
    """A terminal that is a sum over dofs: table times array.

    Attributes:
        name: Name of the terminal.
        table: What the dofs are multiplied with.
        array: Name of the array of dofs.
        start: First indices of the array.
        side: Side of the facet.
    """

    name: str
    table: Table
    array: str
    start: tuple[Expression, ...]
    side: int

    def dof(self, k: Expression) -> Expression:
        """Return the dof that column k of the table belongs to."""
        if self.array == "coordinate_dofs":
            return prim.Variable(self.array)[(*self.start, k, self.table.offset)]
        return prim.Variable(self.array)[self.start[0] + self.table.offset + self.table.stride * k]

    @property
    def group(self) -> tuple[Any, ...]:
        """Return what sums over the same dofs have in common."""
        return (self.array, self.start, self.table.n_dofs)


class PointLoop:
    """The loop over points that are known when the form is compiled: all values are entries of constant tables."""

    def __init__(self, builder: KernelBuilder, integrand: Integrand) -> None:
        self._builder = builder
        self._integrand = integrand

    @contextmanager
    def open(
        self, sums: Sequence[DofSum], tables: Iterable[tuple[Table, int]], n_modes: int = 1
    ) -> Iterator[Expression]:
        """Open the loop and give the number of the point.

        Args:
            sums: Terminals that differ between points.
            tables: All other tables that are read at the points, with the side of the facet.
            n_modes: Number of modes that are read besides, if the points are given at run time.
        """
        del sums, tables, n_modes
        with self._builder.loop("q", self._integrand.rule.n_points) as q:
            yield q

    def write_sums(self, sums: Sequence[DofSum], values: ValueWriter, point: Expression) -> None:
        """Write sums over dofs; those over the same dofs share a loop."""
        groups: dict[tuple[Any, ...], list[DofSum]] = {}
        for item in sums:
            groups.setdefault(item.group, []).append(item)
        for group in groups.values():
            for item in group:
                values.declare(item.name)
                self._builder.assign(prim.Variable(item.name), 0.0)
            with self._builder.loop("k", group[0].table.n_dofs) as k:
                for item in group:
                    value = self.entry(item.table, f"T_{item.name}", item.side, point, k)
                    self._builder.accumulate(prim.Variable(item.name), value * item.dof(k))

    def entry(self, table: Table, wish: str, side: int, point: Expression, dof: Expression) -> Expression:
        """Return an entry of a table; axes of length 1 are dropped from the stored array."""
        return stored_entry(self._builder, table, wish, side, point, dof)


def stored_entry(
    builder: KernelBuilder, table: Table, wish: str, side: int, point: Expression, dof: Expression
) -> Expression:
    """Return an entry of a table as a number or an access to a constant array; axes of length 1 are left out."""
    position = (prim.Variable("facet_permutation")[side], prim.Variable("facet")[side], point, dof)
    kept = [axis for axis, extent in enumerate(table.values.shape) if extent > 1]
    if not kept:
        return float(table.values.item())
    stored = table.values.reshape([table.values.shape[axis] for axis in kept])
    index = tuple(position[axis] for axis in kept)
    return prim.Variable(builder.table(wish, stored))[index if len(index) > 1 else index[0]]
