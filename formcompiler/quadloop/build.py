"""From an integral to a kernel of plain quadrature loops.

For each rule: values that are the same at all points, then a loop over the points that evaluates geometry,
coefficients and factors, and loops over the dofs of the arguments that add to the result::

    for q:  J = ..; u = sum_i table[q, i] * u_dofs[i];  f = ..
            for i:  g = f * test[q, i]
                    for j:  A[i, j] += g * trial[q, j]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import loopy as lp
import pymbolic.primitives as prim

from formcompiler.frontend.integrals import ArgumentTerm, Average, FormIntegral, Integrand
from formcompiler.kernel.builder import KernelBuilder
from formcompiler.kernel.direct import direct_value
from formcompiler.kernel.interface import integral_parameters
from formcompiler.kernel.parameters import declare_parameters
from formcompiler.kernel.values import NamedValue, ValueWriter
from formcompiler.quadloop.arguments import ArgumentLoops
from formcompiler.quadloop.averages import AverageLoops
from formcompiler.quadloop.tables import ElementTables, PointSets, Table, geometry_table
from formcompiler.terminals import Terminal

Expression = Any


def build_quadloop_kernel(
    integral: FormIntegral, name: str, scalar_type: str, geometry_type: str, part: str = "full"
) -> lp.TranslationUnit:
    """Return the kernel of an integral; ``part="diagonal"`` computes the diagonal of a matrix only."""
    parameters = integral_parameters(integral, part)
    names = [p.name for p in parameters]
    integrands = [*integral.integrands, *(average.integrand for average in integral.averages)]
    names += [n for i in integrands for n in (*i.terminals, *(d[0] for d in i.definitions))]
    names += [average.name for average in integral.averages]
    builder = KernelBuilder(name, scalar_type, names)
    declare_parameters(builder, parameters, geometry_type)
    for average in integral.averages:
        kind = "cell" if average.entity == "cell" else "exterior_facet"
        _IntegrandWriter(builder, integral, average.integrand, geometry_type, kind).write_average(average)
    for integrand in integral.integrands:
        _IntegrandWriter(builder, integral, integrand, geometry_type, integral.integral_type).write(part)
    return builder.build()


@dataclass(frozen=True)
class _DofSum:
    """A terminal that is a sum over dofs: table times array."""

    name: str
    table: Table
    array: str
    side_offset: tuple[Expression, ...]


class _IntegrandWriter:
    """Writes the loops of one integrand into a kernel."""

    def __init__(
        self, builder: KernelBuilder, integral: FormIntegral, integrand: Integrand, geometry_type: str, kind: str
    ) -> None:
        self._builder = builder
        self._integral = integral
        self._integrand = integrand
        self._geometry_type = geometry_type
        self._points = PointSets(integral, integrand.rule, kind)
        self._tables = ElementTables(self._points)
        self._coefficients = {c.position: c for c in integral.coefficients}

    def write(self, part: str) -> None:
        """Write everything in order: constant values, the point loop, the argument loops."""
        loops = ArgumentLoops(self._builder, self._integral, self._tables, part, self._table_access)
        self._write_points(loops.write)

    def write_average(self, average: Average) -> None:
        """Write the loops of a mean or measure."""
        loops = AverageLoops(self._builder, self._integral, average, self._tables, self._table_access)
        self._write_points(loops.write)
        loops.finish()

    def _write_points(self, write_terms: Callable[[Sequence[ArgumentTerm], Expression], None]) -> None:
        sums, direct = self._split_terminals()
        fixed = [s.name for s in sums if not s.table.varies_with_point]
        self._values = ValueWriter(self._builder, self._integrand, self._geometry_type, direct, fixed)
        self._write_values([s for s in sums if s.name in fixed], inside=False, point=0)
        with self._builder.loop("q", self._integrand.rule.n_points) as q:
            self._write_values([s for s in sums if s.name not in fixed], inside=True, point=q)
            write_terms(self._integrand.terms, q)

    def _write_values(self, sums: Sequence[_DofSum], *, inside: bool, point: Expression) -> None:
        self._values.write_terminals(inside=inside, point=point)
        self._write_sums(sums, point)
        self._values.write_definitions(inside=inside)

    def _write_sums(self, sums: Sequence[_DofSum], point: Expression) -> None:
        """Write sums over dofs; those over the same dofs share a loop."""
        groups: dict[tuple[Any, ...], list[_DofSum]] = {}
        for item in sums:
            groups.setdefault((item.array, item.side_offset, item.table.n_dofs), []).append(item)
        for (_, _, n_dofs), group in groups.items():
            for item in group:
                self._values.declare(item.name)
                self._builder.assign(prim.Variable(item.name), 0.0)
            with self._builder.loop("k", n_dofs) as k:
                for item in group:
                    side = self._integrand.terminals[item.name].side
                    value = self._table_access(item.table, f"T_{item.name}", side, point, k)
                    self._builder.accumulate(prim.Variable(item.name), value * self._dof(item, k))

    def _dof(self, item: _DofSum, k: Expression) -> Expression:
        if item.array == "coordinate_dofs":
            return prim.Variable(item.array)[(*item.side_offset, k, item.table.offset)]
        return prim.Variable(item.array)[item.side_offset[0] + item.table.offset + item.table.stride * k]

    def _split_terminals(self) -> tuple[list[_DofSum], list[NamedValue]]:
        """Return the terminals that are sums over dofs, and the others."""
        sums: list[_DofSum] = []
        direct: list[NamedValue] = []
        for name, terminal in self._integrand.terminals.items():
            if terminal.kind == "coefficient":
                coefficient = self._coefficients[terminal.index]
                table = self._tables(coefficient.element, terminal.component, terminal.derivatives)
                offset = terminal.side * coefficient.element.dim
                sums.append(_DofSum(name, table, coefficient.name, (offset,)))
            elif terminal.kind == "coordinate":
                table = self._tables(self._integral.coordinate_element, terminal.component, terminal.derivatives)
                side = (terminal.side,) if self._integral.n_sides == 2 else ()
                sums.append(_DofSum(name, table, "coordinate_dofs", side))
            else:
                direct.append(self._direct(name, terminal))
        zero = [s for s in sums if s.table.is_zero]
        direct += [NamedValue(s.name, lambda _: 0.0, False) for s in zero]
        return [s for s in sums if not s.table.is_zero], direct

    def _direct(self, name: str, terminal: Terminal) -> NamedValue:
        value = direct_value(self._builder, self._integral, terminal)
        if value is not None:
            return NamedValue(name, lambda _: value, False)
        table = Table(geometry_table(self._points, terminal.kind, terminal.component))
        if table.values.size == 1:
            return NamedValue(name, lambda _: float(table.values.item()), False)
        return NamedValue(
            name,
            lambda q: self._table_access(table, f"T_{name}", terminal.side, q, 0),
            table.varies_with_point,
        )

    def _table_access(self, table: Table, wish: str, side: int, point: Expression, dof: Expression) -> Expression:
        """Return the entry of a table; axes of length 1 are dropped from the stored array."""
        position = (
            prim.Variable("facet_permutation")[side],
            prim.Variable("facet")[side],
            point,
            dof,
        )
        kept = [axis for axis, extent in enumerate(table.values.shape) if extent > 1]
        if not kept:
            return float(table.values.item())
        stored = table.values.reshape([table.values.shape[axis] for axis in kept])
        index = tuple(position[axis] for axis in kept)
        return prim.Variable(self._builder.table(wish, stored))[index if len(index) > 1 else index[0]]
