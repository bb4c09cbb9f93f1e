"""From an integral to a kernel of plain quadrature loops.

For each rule: values that are the same at all points, then a loop over the points that evaluates geometry,
coefficients and factors, and loops over the dofs of the arguments that add to the result::

    for q:  J = ..; u = sum_i table[q, i] * u_dofs[i];  f = ..
            for i:  g = f * test[q, i]
                    for j:  A[i, j] += g * trial[q, j]

Factors of basis functions that are the same at all points are added up over the points first. Blocks of a matrix that
are copies or transposes of others, or symmetric, are computed once (`formcompiler.quadloop.shared`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import loopy as lp

from formcompiler.frontend.integrals import Average, FormIntegral, Integrand
from formcompiler.kernel.builder import KernelBuilder
from formcompiler.kernel.direct import direct_value
from formcompiler.kernel.interface import integral_parameters
from formcompiler.kernel.parameters import declare_parameters
from formcompiler.kernel.simplify import simplify_curved
from formcompiler.kernel.symmetry import factor_values
from formcompiler.kernel.values import NamedValue, ValueWriter
from formcompiler.naming import Namer
from formcompiler.quadloop.arguments import ArgumentLoops
from formcompiler.quadloop.averages import AverageLoops
from formcompiler.quadloop.modal import ModalVectorLoops
from formcompiler.quadloop.points import DofSum, PointLoop
from formcompiler.quadloop.runtime import RuntimePointLoop, weight_at
from formcompiler.quadloop.tables import ElementTables, ModeSets, PointSets, Table, geometry_table
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
    values = [factor_values(integrand) for integrand in integral.integrands]
    integral = simplify_curved(integral, Namer(names), scalar_type)
    names += [n for i in integral.integrands for n, _ in i.definitions if n not in names]
    builder = KernelBuilder(name, scalar_type, names)
    declare_parameters(builder, parameters, geometry_type)
    for average in integral.averages:
        kind = "cell" if average.entity == "cell" else "exterior_facet"
        _IntegrandWriter(builder, integral, average.integrand, geometry_type, kind).write_average(average)
    for integrand, factors in zip(integral.integrands, values, strict=True):
        _IntegrandWriter(builder, integral, integrand, geometry_type, integral.integral_type).write(part, factors)
    return builder.build()


class _IntegrandWriter:
    """Writes the loops of one integrand into a kernel."""

    def __init__(
        self, builder: KernelBuilder, integral: FormIntegral, integrand: Integrand, geometry_type: str, kind: str
    ) -> None:
        self._builder = builder
        self._integral = integral
        self._integrand = integrand
        self._geometry_type = geometry_type
        is_runtime = integrand.rule.is_runtime
        self._points = (ModeSets if is_runtime else PointSets)(integral, integrand.rule, kind)
        self._loop = (
            RuntimePointLoop(builder, integrand, geometry_type) if is_runtime else PointLoop(builder, integrand)
        )
        self._tables = ElementTables(self._points)
        self._coefficients = {c.position: c for c in integral.coefficients}
        self._geometry: list[tuple[Table, int]] = []

    def write(self, part: str, factors: Sequence[int]) -> None:
        """Write everything in order: constant values, the point loop, the argument loops.

        Args:
            part: "full", or "diagonal" for the diagonal of a matrix only.
            factors: Field values of the factors of all terms, which say what is equal.
        """
        if isinstance(self._loop, RuntimePointLoop) and len(self._integral.arguments) == 1:
            modal = ModalVectorLoops(self._builder, self._integral, self._integrand, self._tables, self._loop)
            modal.clear()
            self._write_points(modal.write, (), modal.n_modes)
            modal.finish()
            return
        terms = list(zip(self._integrand.terms, factors, strict=True))
        loops = ArgumentLoops(
            self._builder, self._integral, self._integrand.rule, terms, self._tables, part, self._loop.entry
        )
        loops.clear()
        self._write_points(loops.write, self._argument_tables())
        loops.finish()

    def write_average(self, average: Average) -> None:
        """Write the loops of a mean or measure."""
        loops = AverageLoops(self._builder, self._integral, average, self._tables, self._loop.entry)
        self._write_points(loops.write, self._argument_tables())
        loops.finish()

    def _write_points(
        self, write_terms: Callable[[Expression], None], tables: Sequence[tuple[Table, int]], n_modes: int = 1
    ) -> None:
        sums, direct = self._split_terminals()
        fixed = [s for s in sums if not s.table.varies_with_point]
        varying = [s for s in sums if s.table.varies_with_point]
        values = ValueWriter(self._builder, self._integrand, self._geometry_type, direct, [s.name for s in fixed])
        values.write_terminals(inside=False, point=0)
        self._loop.write_sums(fixed, values, 0)
        values.write_definitions(inside=False)
        with self._loop.open(varying, [*self._geometry, *tables], n_modes) as q:
            values.write_terminals(inside=True, point=q)
            self._loop.write_sums(varying, values, q)
            values.write_definitions(inside=True)
            write_terms(q)

    def _argument_tables(self) -> list[tuple[Table, int]]:
        """Return the tables of all arguments with the sides of the facet."""
        arguments = [a for term in self._integrand.terms for a in term.arguments if a.average < 0]
        elements = self._integral.arguments
        return [(self._tables(elements[a.index], a.component, a.derivatives), a.side) for a in arguments]

    def _split_terminals(self) -> tuple[list[DofSum], list[NamedValue]]:
        """Return the terminals that are sums over dofs, and the others."""
        sums: list[DofSum] = []
        direct: list[NamedValue] = []
        for name, terminal in self._integrand.terminals.items():
            if terminal.kind == "coefficient":
                coefficient = self._coefficients[terminal.index]
                table = self._tables(coefficient.element, terminal.component, terminal.derivatives)
                offset = terminal.side * coefficient.element.dim
                sums.append(DofSum(name, table, coefficient.name, (offset,), terminal.side))
            elif terminal.kind == "coordinate":
                table = self._tables(self._integral.coordinate_element, terminal.component, terminal.derivatives)
                side = (terminal.side,) if self._integral.n_sides == 2 else ()
                sums.append(DofSum(name, table, "coordinate_dofs", side, terminal.side))
            else:
                direct.append(self._direct(name, terminal))
        zero = [s for s in sums if s.table.is_zero]
        direct += [NamedValue(s.name, lambda _: 0.0, False) for s in zero]
        return [s for s in sums if not s.table.is_zero], direct

    def _direct(self, name: str, terminal: Terminal) -> NamedValue:
        value = direct_value(self._builder, self._integral, terminal)
        if value is not None:
            return NamedValue(name, lambda _: value, False)
        if terminal.kind == "weight" and self._integrand.rule.is_runtime:
            return NamedValue(name, weight_at, True)
        table = Table(geometry_table(self._points, terminal.kind, terminal.component))
        self._geometry.append((table, terminal.side))
        return NamedValue(
            name, lambda q: self._loop.entry(table, f"T_{name}", terminal.side, q, 0), table.varies_with_point
        )
