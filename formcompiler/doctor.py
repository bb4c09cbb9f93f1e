"""Looks at the machine: what formcompiler needs, what it found, and whether a library compiles and runs."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import formcompiler
from formcompiler.errors import BuildError
from formcompiler.runtime.compiler import build_library, cache_directory, find_compiler, simd_width

REQUIRED = {
    "loopy": "loopy",
    "islpy": "islpy",
    "ufl": "fenics-ufl",
    "basix": "fenics-basix",
    "numpy": "numpy",
    "scipy": "scipy",
    "meshio": "meshio",
    "matplotlib": "matplotlib",
}
"""Distribution by module, of what formcompiler cannot do without."""

OPTIONAL = {
    "ffcx": ("fenics-ffcx", "comparison with FFCx in the tests"),
    "gmsh": ("gmsh", "meshes of curved and complicated domains"),
    "pyvista": ("pyvista", "pictures of 3D solutions"),
    "ziglang": ("ziglang", "a C++ compiler from pip"),
}
"""Distribution and use by module, of what adds something."""


@dataclass(frozen=True)
class Finding:
    """One line of the table.

    Attributes:
        subject: What was looked at.
        text: What was found, or what to do if something is missing.
        is_fine: False if formcompiler cannot work like this.
    """

    subject: str
    text: str
    is_fine: bool = True


def examine() -> list[Finding]:
    """Return what was found on this machine; it takes one small compilation and imports no library."""
    findings = [
        Finding("Python", f"{platform.python_version()} ({sys.executable})"),
        Finding("formcompiler", f"{formcompiler.__version__} ({Path(formcompiler.__file__).parent})"),
    ]
    findings += [_required(module, distribution) for module, distribution in REQUIRED.items()]
    findings += [
        _try("C++ compiler", lambda: " ".join(find_compiler().command) + f": {find_compiler().version}"),
        _try("SIMD width", lambda: f"{simd_width()} bits, {simd_width() // 64} doubles"),
        _try("cache", describe_cache),
        _try("trial compilation", _compile_something),
    ]
    findings += [_optional(module, distribution, use) for module, (distribution, use) in OPTIONAL.items()]
    return findings


def to_table(findings: list[Finding]) -> str:
    """Return the findings as lines with a mark, the subject and the text, in columns."""
    width = max(len(finding.subject) for finding in findings)
    rows = (f"{'ok' if f.is_fine else '!!'}  {f.subject:<{width}}  {f.text}" for f in findings)
    return "\n".join(rows)


def describe_cache() -> str:
    """Return where compiled libraries are kept, how many there are, and how much room all files take."""
    directory = cache_directory()
    entries = [entry for entry in os.scandir(directory) if entry.is_file()] if directory.is_dir() else []
    n_libraries = sum(entry.name.endswith(".so") for entry in entries)
    size = sum(entry.stat().st_size for entry in entries)
    return f"{directory} ({n_libraries} libraries, {size / 1e6:.1f} MB)"


def _required(module: str, distribution: str) -> Finding:
    """Return the version of a library that formcompiler needs."""
    version = _find_version(module, distribution)
    return Finding(module, version or f"missing: pip install {distribution}", version is not None)


def _optional(module: str, distribution: str, use: str) -> Finding:
    """Return the version of a library that adds something, or how to get it."""
    version = _find_version(module, distribution)
    return Finding(module, version or f"not installed ({use}: pip install {distribution})")


def _find_version(module: str, distribution: str) -> str | None:
    """Return the version of an installed module without importing it; None if it is not installed."""
    if importlib.util.find_spec(module) is None:
        return None
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "version unknown"


def _try(subject: str, look: Callable[[], str]) -> Finding:
    """Return what ``look`` finds, or why it failed."""
    try:
        return Finding(subject, look())
    except (BuildError, OSError) as error:
        return Finding(subject, str(error), False)


def _compile_something() -> str:
    """Compile, load and call a function that no cache can know, and remove it.

    Raises:
        BuildError: if one of the steps fails.
    """
    start = time.perf_counter()
    number = time.time_ns() % 1_000_000_007
    library = build_library(f'extern "C" int trial() {{ return {number}; }}\n', name="trial")
    try:
        answer = ctypes.CDLL(str(library)).trial()
    finally:
        for suffix in (".so", ".sha256", ".cc"):
            library.with_suffix(suffix).unlink(missing_ok=True)
    if answer != number:
        raise BuildError(f"a function that returns {number} returned {answer}")
    return f"compiled, loaded and called in {time.perf_counter() - start:.2f} s"
