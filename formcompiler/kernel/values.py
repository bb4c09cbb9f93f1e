"""Named values of an integrand inside a kernel: outside of the point loop if they are the same at all points."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as prim

from formcompiler.frontend.integrals import Integrand
from formcompiler.kernel.builder import Expression, KernelBuilder
from formcompiler.kernel.names import names_in


@dataclass(frozen=True)
class NamedValue:
    """A terminal of an integrand.

    Attributes:
        name: Its name.
        at: Its value as a function of the point's index.
        varies: Whether it differs between points.
    """

    name: str
    at: Callable[[Any], Expression]
    varies: bool


class ValueWriter:
    """Declares and assigns the terminals and definitions of one integrand.

    Args:
        builder: The kernel under construction.
        integrand: Where the names come from.
        geometry_type: Type of geometric terminals.
        values: The terminals.
        outer: Further terminals, written by the caller, that are the same at all points.
    """

    def __init__(
        self,
        builder: KernelBuilder,
        integrand: Integrand,
        geometry_type: str,
        values: Iterable[NamedValue],
        outer: Iterable[str] = (),
    ) -> None:
        self._builder = builder
        self._integrand = integrand
        self._geometry_type = geometry_type
        self._values = list(values)
        self.outer = {v.name for v in self._values if not v.varies} | set(outer)
        names = {*integrand.terminals, *(name for name, _ in integrand.definitions)}
        for name, expression in integrand.definitions:
            if names_in(expression) & names <= self.outer:
                self.outer.add(name)

    def write_terminals(self, *, inside: bool, point: Any = None) -> None:
        """Assign the terminals that belong inside or outside of the point loop."""
        for value in self._values:
            if (value.name not in self.outer) == inside:
                self.declare(value.name)
                self._builder.assign(prim.Variable(value.name), value.at(point))

    def write_definitions(self, *, inside: bool) -> None:
        """Assign the definitions that belong inside or outside of the point loop."""
        for name, expression in self._integrand.definitions:
            if (name not in self.outer) == inside:
                self.declare(name)
                self._builder.assign(prim.Variable(name), expression)

    def declare(self, name: str) -> None:
        """Declare a terminal or definition with its type."""
        terminal = self._integrand.terminals.get(name)
        if terminal is None or terminal.kind == "average":
            self._builder.declare(name, (), self._builder.value_type)
        else:
            geometric = terminal.kind not in ("coefficient", "constant")
            self._builder.declare(name, (), self._geometry_type if geometric else "scalar")
