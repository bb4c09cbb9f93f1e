"""Loads kernel files: Python files whose variables are loopy kernels or translation units."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import loopy as lp

from formcompiler.errors import FormCompilerError, TransformError


def load_kernels(path: Path | str) -> dict[str, lp.LoopKernel | lp.TranslationUnit]:
    """Run a kernel file and return its kernels by the names of their variables.

    Args:
        path: A Python file. If it has a variable ``kernel``, that is the only one; else all kernels and translation
            units among its variables count. Modules beside it can be imported.

    Raises:
        TransformError: if the file is missing, fails, or has no kernel.
    """
    path = Path(path)
    namespace: dict[str, object] = {"__name__": "_kernel_file", "__file__": str(path)}
    try:
        source = path.read_bytes()
    except OSError as error:
        raise TransformError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    with _importable(path.resolve().parent):
        try:
            exec(compile(source, str(path), "exec", dont_inherit=True), namespace)
        except KeyboardInterrupt:
            raise
        except FormCompilerError as error:
            raise type(error)(_explain(path, source, error, str(error))) from error
        except BaseException as error:
            text = "".join(traceback.format_exception_only(error)).strip()
            raise TransformError(_explain(path, source, error, text)) from error
    if "kernel" in namespace:
        namespace = {"kernel": namespace["kernel"]}
    found = {n: v for n, v in namespace.items() if isinstance(v, lp.LoopKernel | lp.TranslationUnit)}
    if not found:
        what = f"its variable kernel is a {type(namespace['kernel']).__name__}" if "kernel" in namespace else "has none"
        raise TransformError(
            f"{path}: {what}; a kernel file needs a loopy kernel: kernel = loopy.make_kernel(domains, instructions)"
        )
    return found


@contextmanager
def _importable(directory: Path) -> Iterator[None]:
    search_path = list(sys.path)
    sys.path.insert(0, str(directory))
    try:
        yield
    finally:
        sys.path[:] = search_path


def _explain(path: Path, source: bytes, error: BaseException, text: str) -> str:
    """Return where in the file an exception arose, what it says, and the line."""
    numbers = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path) and f.lineno]
    if isinstance(error, SyntaxError) or not numbers:
        return f"{path}: {text}"
    lines = source.decode(errors="replace").splitlines()
    return f"{path}:{numbers[-1]}: {text}\n    {lines[numbers[-1] - 1].strip()}"
