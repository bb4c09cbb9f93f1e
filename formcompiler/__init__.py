"""formcompiler: weak forms in UFL to fast C++ local operators."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from formcompiler.errors import FormCompilerError

if TYPE_CHECKING:
    from formcompiler.driver import compile_expression, compile_form

__all__ = ["FormCompilerError", "compile_expression", "compile_form"]
__version__ = "0.1.0"

_LAZY = {"compile_form": "formcompiler.driver", "compile_expression": "formcompiler.driver"}


def __getattr__(name: str) -> Any:
    """Import the compiler only when it is used: loopy and ufl take a second to load."""
    if name not in _LAZY:
        raise AttributeError(f"module 'formcompiler' has no attribute '{name}'")
    return getattr(import_module(_LAZY[name]), name)
