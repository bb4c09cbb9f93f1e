"""From a linearized kernel to the text of one C++ function."""

from __future__ import annotations

from dataclasses import dataclass

import loopy as lp

from formcompiler.codegen.target import CppTarget, find_constants
from formcompiler.kernel.parameters import Parameter

INCLUDES = ("cmath", "complex", "cstddef")
"""Standard headers that kernels may need."""


@dataclass(frozen=True)
class MethodCode:
    """One kernel in C++.

    Attributes:
        name: Name of the function.
        parameters: Its parameters, in order.
        text: Definition of a static function, without indentation.
    """

    name: str
    parameters: tuple[Parameter, ...]
    text: str


def emit_method(t_unit: lp.TranslationUnit, parameters: tuple[Parameter, ...]) -> MethodCode:
    """Return the C++ of a linearized kernel."""
    kernel = t_unit.default_entrypoint
    target = CppTarget(find_constants(kernel))
    t_unit = t_unit.with_kernel(kernel.copy(target=target)).copy(target=target)
    with lp.CacheMode(False):
        code = lp.generate_code_v2(t_unit)
    text = "static " + str(code.device_programs[0].ast)
    return MethodCode(kernel.name, parameters, _document(parameters) + text)


_TEXT = {
    "result": "element tensor, added to",
    "coefficient": "coefficient",
    "constant": "constant",
    "coordinates": "coordinates of the cell",
    "facet": "local number of the facet in each cell",
    "facet_permutation": "how each cell sees the facet's points",
}


def _document(parameters: tuple[Parameter, ...]) -> str:
    lines = [f"/// \\param {p.name} {_TEXT[p.role]}, axes {list(p.shape)}" for p in parameters]
    return "\n".join(lines) + "\n"
