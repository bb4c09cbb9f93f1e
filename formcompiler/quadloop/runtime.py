"""The loop over points that are known at run time only.

The kernel evaluates polynomials instead of reading tables. All functions are sums of the modes of a `ModalBasis`, with
coefficients that are known. Sums over dofs go to modes before the loop; at a point there are few operations left::

    for m, k:  u_modes[m] += table[m, k] * u_dofs[k]
    for q:  mode[0] = 1; mode[1] = 2 * points[q, 0] - 1; ..
            for m:  u += u_modes[m] * mode[m]
            for m, i:  test[i] += table[m, i] * mode[m]
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pymbolic.primitives as prim

from formcompiler.elements.modes import ModalBasis
from formcompiler.frontend.integrals import Integrand
from formcompiler.kernel.builder import Expression, KernelBuilder
from formcompiler.kernel.parameters import N_POINTS
from formcompiler.kernel.values import ValueWriter
from formcompiler.quadloop.points import DofSum, PointLoop, stored_entry
from formcompiler.quadloop.tables import Table


def weight_at(point: Expression) -> Expression:
    """Return the weight of a point."""
    return prim.Variable("weights")[point]


class RuntimePointLoop(PointLoop):
    """The loop over the points in the parameter ``points``.

    Args:
        builder: The kernel under construction.
        integrand: What is integrated.
        geometry_type: Type of coordinates.
    """

    def __init__(self, builder: KernelBuilder, integrand: Integrand, geometry_type: str) -> None:
        super().__init__(builder, integrand)
        self._geometry_type = geometry_type
        self._arrays: dict[tuple[int, int], Expression] = {}
        self._modal: dict[str, Expression] = {}
        self._modes: Expression = None

    @contextmanager
    def open(
        self, sums: Sequence[DofSum], tables: Iterable[tuple[Table, int]], n_modes: int = 1
    ) -> Iterator[Expression]:
        """Open the loop, after the coefficients of sums, and tabulate at the point."""
        wanted = list(tables)
        self._write_coefficients(sums)
        with self._builder.loop("q", N_POINTS) as q:
            read = (*(s.table for s in sums), *(t for t, _ in wanted))
            self._write_modes(q, max([n_modes, *(int(t.values.shape[2]) for t in read)]))
            for table, side in wanted:
                self._tabulate(table, side)
            yield q

    def write_sums(self, sums: Sequence[DofSum], values: ValueWriter, point: Expression) -> None:
        """Write sums over modes; those over as many share a loop."""
        constant = [s for s in sums if not s.table.varies_with_point]
        super().write_sums(constant, values, 0)
        groups: dict[int, list[DofSum]] = {}
        for item in sums:
            if item.table.varies_with_point:
                groups.setdefault(item.table.values.shape[2], []).append(item)
        for n_modes, group in groups.items():
            for item in group:
                values.declare(item.name)
                self._builder.assign(prim.Variable(item.name), 0.0)
            with self._builder.loop("m", n_modes) as m:
                for item in group:
                    value = self._modal[item.name][m] * self._modes[m]
                    self._builder.accumulate(prim.Variable(item.name), value)

    def entry(self, table: Table, wish: str, side: int, point: Expression, dof: Expression) -> Expression:
        """Return an entry of what was tabulated at the point, or of a table that is the same at all points."""
        if not table.varies_with_point:
            return stored_entry(self._builder, table, wish, side, 0, dof)
        values = self._arrays[id(table), side]
        return values[dof] if table.n_dofs > 1 else values

    def mode(self, m: Expression) -> Expression:
        """Return the value of a mode at the point."""
        return self._modes[m]

    def coefficient(self, table: Table, wish: str, side: int, m: Expression, dof: Expression) -> Expression:
        """Return how much of a mode is in a function of a table."""
        return stored_entry(self._builder, table, wish, side, m, dof)

    def _write_coefficients(self, sums: Sequence[DofSum]) -> None:
        """Write the coefficients of sums over dofs with regard to modes."""
        for item in sums:
            n_modes = int(item.table.values.shape[2])
            dtype = self._geometry_type if item.array == "coordinate_dofs" else "scalar"
            name = prim.Variable(self._builder.temporary(f"{item.name}_modes", (n_modes,), dtype))
            self._modal[item.name] = name
            with self._builder.loop("m", n_modes) as m:
                self._builder.assign(name[m], 0.0)
                with self._builder.loop("k", item.table.n_dofs) as k:
                    value = stored_entry(self._builder, item.table, f"T_{item.name}", item.side, m, k)
                    self._builder.accumulate(name[m], value * item.dof(k))

    def _write_modes(self, q: Expression, n_modes: int) -> None:
        """Write the values of at least so many modes at a point."""
        if n_modes == 1:
            return
        cell = self._integrand.rule.cell
        degree = next(n for n in itertools.count() if ModalBasis(cell, n).size(n) >= n_modes)
        basis = ModalBasis(cell, degree)
        self._modes = prim.Variable(self._builder.temporary("modes", (len(basis.indices),), self._geometry_type))
        numbers = itertools.count()

        def keep(name: str, value: Any) -> Expression:
            if name == "mode":
                target = self._modes[next(numbers)]
            else:
                target = prim.Variable(self._builder.temporary(name, (), self._geometry_type))
            self._builder.assign(target, value)
            return target

        dim = self._integrand.rule.points.shape[1]
        x = []
        for d in range(dim):
            x.append(prim.Variable(self._builder.temporary(f"x{d}", (), self._geometry_type)))
            self._builder.assign(x[-1], prim.Variable("points")[q, d])
        basis.evaluate(x, keep)

    def _tabulate(self, table: Table, side: int) -> None:
        """Write the values of functions at the point."""
        if not table.varies_with_point or (id(table), side) in self._arrays:
            return
        shape = (table.n_dofs,) if table.n_dofs > 1 else ()
        name = prim.Variable(self._builder.temporary("values", shape, self._geometry_type))
        self._arrays[id(table), side] = name
        with self._builder.loop("k", table.n_dofs) as k:
            self._builder.assign(name[k] if shape else name, 0.0)
        with self._builder.loops(("m", table.values.shape[2]), ("k", table.n_dofs)) as (m, k):
            value = stored_entry(self._builder, table, "T_modes", side, m, k) * self._modes[m]
            self._builder.accumulate(name[k] if shape else name, value)
