"""formcompiler: weak forms in UFL to fast C++ local operators."""

from formcompiler.errors import FormCompilerError

__all__ = ["FormCompilerError"]
__version__ = "0.1.0"
