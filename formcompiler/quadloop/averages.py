"""The loops that compute means over whole cells or facets, and their measures, before everything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymbolic.primitives as prim

from formcompiler.frontend.integrals import ArgumentTerm, Average, FormIntegral
from formcompiler.kernel.builder import Expression, KernelBuilder
from formcompiler.quadloop.tables import ElementTables, Table

TableAccess = Callable[[Table, str, int, Expression, Expression], Expression]


class AverageLoops:
    """Adds what one point contributes to an average; `finish` divides by the measure."""

    def __init__(
        self,
        builder: KernelBuilder,
        integral: FormIntegral,
        average: Average,
        tables: ElementTables,
        access: TableAccess,
    ) -> None:
        self._builder = builder
        self._integral = integral
        self._average = average
        self._tables = tables
        self._access = access
        self._n = 0 if average.argument < 0 else int(integral.arguments[average.argument].dim)
        kind = "scalar" if average.is_mean else np.empty(0, builder.dtype).real.dtype
        builder.declare(average.name, (self._n,) if self._n else (), kind)
        self._measure = prim.Variable(builder.temporary(f"{average.name}_measure")) if average.is_mean else None
        self._clear()

    def _clear(self) -> None:
        name = prim.Variable(self._average.name)
        if self._n:
            with self._builder.loop("k", self._n) as k:
                self._builder.assign(name[k], 0.0)
        else:
            self._builder.assign(name, 0.0)
        if self._measure is not None:
            self._builder.assign(self._measure, 0.0)

    def write(self, point: Any) -> None:
        """Add the integrand at one point."""
        name = prim.Variable(self._average.name)
        for term in self._average.integrand.terms:
            if term.component == 1:
                if self._measure is not None:
                    self._builder.accumulate(self._measure, term.factor)
            elif not term.arguments:
                self._builder.accumulate(name, term.factor)
            else:
                self._write_argument(term, point)

    def _write_argument(self, term: ArgumentTerm, point: Any) -> None:
        (argument,) = term.arguments
        element = self._integral.arguments[argument.index]
        table = self._tables(element, argument.component, argument.derivatives)
        with self._builder.loop("k", table.n_dofs) as k:
            value = self._access(table, "T_mean", argument.side, point, k)
            target = prim.Variable(self._average.name)[table.offset + table.stride * k]
            self._builder.accumulate(target, prim.Product((term.factor, value)))

    def finish(self) -> None:
        """Divide by the measure."""
        if self._measure is None:
            return
        name = prim.Variable(self._average.name)
        if not self._n:
            self._builder.assign(name, prim.Quotient(name, self._measure))
            return
        with self._builder.loop("k", self._n) as k:
            self._builder.assign(name[k], prim.Quotient(name[k], self._measure))
