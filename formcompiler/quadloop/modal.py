"""What points that are known at run time add to a vector: to modes inside of the loop, from there to dofs behind it.

A point then costs one operation for each mode instead of the values of all basis functions::

    for q:     f = ..
               for m:  f_modes[m] += f * mode[m]
    for m, i:  A[i] += table[m, i] * f_modes[m]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pymbolic.primitives as prim

from formcompiler.frontend.integrals import ArgumentTerm, FormIntegral, Integrand
from formcompiler.kernel.builder import Expression, KernelBuilder
from formcompiler.quadloop.runtime import RuntimePointLoop
from formcompiler.quadloop.tables import ElementTables, Table


@dataclass(frozen=True)
class _ModalSum:
    """A term, and where it is added up: an array over modes, or a number if its functions are the same everywhere."""

    term: ArgumentTerm
    table: Table | None
    sums: Expression

    @property
    def n_modes(self) -> int:
        """Return the number of modes; 1 for functions that are the same everywhere, also for means."""
        return 1 if self.table is None else int(self.table.values.shape[2])


class ModalVectorLoops:
    """Writes what the points add to a vector."""

    def __init__(
        self,
        builder: KernelBuilder,
        integral: FormIntegral,
        integrand: Integrand,
        tables: ElementTables,
        loop: RuntimePointLoop,
    ) -> None:
        self._builder = builder
        self._integral = integral
        self._loop = loop
        found = [self._collect(term, tables) for term in integrand.terms]
        self._items = [item for item in found if item.table is None or not item.table.is_zero]

    @property
    def n_modes(self) -> int:
        """Return how many modes the loop over points must evaluate."""
        return max((item.n_modes for item in self._items), default=1)

    def _collect(self, term: ArgumentTerm, tables: ElementTables) -> _ModalSum:
        (argument,) = term.arguments
        element = self._integral.arguments[argument.index]
        table = None if argument.average >= 0 else tables(element, argument.component, argument.derivatives)
        n_modes = 1 if table is None else int(table.values.shape[2])
        shape = (n_modes,) if n_modes > 1 else ()
        return _ModalSum(term, table, prim.Variable(self._builder.temporary("f_modes", shape)))

    def clear(self) -> None:
        """Clear all sums; those over as many modes share a loop."""
        for n_modes, group in self._by_size():
            with self._builder.loop("m", n_modes) as m:
                for item in group:
                    self._builder.assign(_entry(item, m), 0.0)

    def write(self, point: Expression) -> None:
        """Add what one point contributes."""
        del point
        for n_modes, group in self._by_size():
            factors = [
                self._builder.named("f", item.term.factor) if n_modes > 1 else item.term.factor for item in group
            ]
            with self._builder.loop("m", n_modes) as m:
                for item, factor in zip(group, factors, strict=True):
                    value = prim.Product((factor, self._loop.mode(m))) if n_modes > 1 else factor
                    self._builder.accumulate(_entry(item, m), value)

    def finish(self) -> None:
        """Add the sums to the result."""
        for item in self._items:
            (argument,) = item.term.arguments
            dim = int(self._integral.arguments[argument.index].dim)
            first, stride, n = argument.side * dim, 1, dim
            if item.table is not None:
                first, stride, n = first + item.table.offset, item.table.stride, item.table.n_dofs
            with self._builder.loops(("m", item.n_modes), ("i", n)) as (m, i):
                if item.table is None:
                    value: Expression = prim.Variable(self._integral.averages[argument.average].name)[i]
                else:
                    value = self._loop.coefficient(item.table, "T_test", argument.side, m, i)
                self._builder.accumulate(prim.Variable("A")[first + stride * i], prim.Product((value, _entry(item, m))))

    def _by_size(self) -> Sequence[tuple[int, list[_ModalSum]]]:
        groups: dict[int, list[_ModalSum]] = {}
        for item in self._items:
            groups.setdefault(item.n_modes, []).append(item)
        return list(groups.items())


def _entry(item: _ModalSum, m: Expression) -> Expression:
    return item.sums[m] if item.n_modes > 1 else item.sums
