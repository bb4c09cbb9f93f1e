"""Readable names for terminals inside a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from formcompiler.frontend.integrals import FormCoefficient, FormConstant
from formcompiler.naming import Namer
from formcompiler.terminals import Terminal

_SIDE = {"": "", "+": "_p", "-": "_n"}


class TerminalNamer:
    """Names the leaves of one integrand, e.g. ``u_val``, ``u_d1``, ``J_01``, ``weight``."""

    def __init__(
        self,
        coefficients: Sequence[FormCoefficient],
        constants: Sequence[FormConstant],
        namer: Namer,
        suffix: str,
    ) -> None:
        self._coefficients = {c.position: c for c in coefficients}
        self._constants = {c.position: c for c in constants}
        self._namer = namer
        self._suffix = suffix

    def __call__(self, terminals: Iterable[Terminal]) -> dict[Terminal, str]:
        """Return a unique name for each terminal."""
        return {t: self._namer.unique(self._wish(t) + _SIDE[t.restriction] + self._suffix) for t in terminals}

    def _wish(self, terminal: Terminal) -> str:
        directions = "".join(str(d) * n for d, n in enumerate(terminal.derivatives))
        if terminal.kind == "coefficient":
            coefficient = self._coefficients[terminal.index]
            return _function_name(coefficient.name, coefficient.element, terminal.component, directions)
        if terminal.kind == "constant":
            constant = self._constants[terminal.index]
            return f"{constant.name}_{terminal.component}" if constant.shape else f"{constant.name}_val"
        if terminal.kind == "coordinate":
            if not directions:
                return f"x_{terminal.component}"
            return f"J_{terminal.component}{directions}"
        if terminal.kind == "weight":
            return "weight"
        return f"{_SHORT.get(terminal.kind, terminal.kind)}_{terminal.component}"


_SHORT = {
    "reference_coordinate": "X",
    "facet_coordinate": "Xf",
    "reference_normal": "n_ref",
    "facet_jacobian": "Jf",
    "facet_mesh_jacobian": "Jm",
}


def _function_name(name: str, element: Any, component: int, directions: str) -> str:
    if element.reference_value_size > 1:
        name = f"{name}_{component}"
    return f"{name}_d{directions}" if directions else f"{name}_val"
