"""formcompiler: weak forms in UFL to fast C++ local operators."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from formcompiler.errors import FormCompilerError

if TYPE_CHECKING:
    from formcompiler.driver import compile_expression, compile_form
    from formcompiler.elements.mixed import mixed_element
    from formcompiler.problem import Box, Dirichlet, Problem

__all__ = ["Box", "Dirichlet", "FormCompilerError", "Problem", "compile_expression", "compile_form", "mixed_element"]
__version__ = "0.1.0"

_LAZY = {
    "compile_form": "formcompiler.driver",
    "compile_expression": "formcompiler.driver",
    "mixed_element": "formcompiler.elements.mixed",
    "Problem": "formcompiler.problem",
    "Box": "formcompiler.problem",
    "Dirichlet": "formcompiler.problem",
}


def __getattr__(name: str) -> Any:
    """Import what is used only: loopy and ufl take a second to load."""
    if name not in _LAZY:
        raise AttributeError(f"module 'formcompiler' has no attribute '{name}'")
    return getattr(import_module(_LAZY[name]), name)
