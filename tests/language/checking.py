"""Short ways to compare kernels with dense assembly, on all entities and options that fit a form.

A C++ compiler spends most of its time on headers: the kernels of many forms go into one library.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from typing import Any

import basix.ufl
import numpy as np
import pytest
import ufl

import formcompiler
from formcompiler.compiled import CompiledForm
from formcompiler.elements import cells
from formcompiler.errors import UnsupportedFormError
from formcompiler.runtime.compiler import build_library
from formcompiler.verify import tolerance, verify_compiled

ALL_CELLS = ("interval", "triangle", "quadrilateral", "tetrahedron", "hexahedron", "prism", "pyramid")
FLAT_CELLS = ALL_CELLS[:5]
MANIFOLDS = (("interval", 2), ("interval", 3), ("triangle", 3), ("quadrilateral", 3))


def mesh(cell: str, degree: int = 1, gdim: int | None = None) -> Any:
    return ufl.Mesh(basix.ufl.element("Lagrange", cell, degree, shape=(gdim or cells.dimension(cell),)))


def space(domain: Any, family: str = "Lagrange", degree: int = 1, **options: Any) -> Any:
    return ufl.FunctionSpace(domain, basix.ufl.element(family, domain.ufl_cell().cellname, degree, **options))


def coefficient(domain: Any, family: str = "Lagrange", degree: int = 1, **options: Any) -> Any:
    return ufl.Coefficient(space(domain, family, degree, **options))


def arguments(V: Any) -> tuple[Any, Any]:
    return ufl.TrialFunction(V), ufl.TestFunction(V)


class _Entries:
    """The entries of one form in a library of many, under the names that the form knows."""

    def __init__(self, library: ctypes.CDLL, number: int) -> None:
        self._library, self._number = library, number

    def __getitem__(self, name: str) -> Any:
        return self._library[name.replace("call_", f"call{self._number}_")]


def build_together(forms: list[CompiledForm]) -> None:
    """Build the kernels of all forms as one library."""
    parts, includes = [], set()
    for number, form in enumerate(forms):
        text = re.sub(r"\bcall_", f"call{number}_", form.source)
        lines = text.splitlines()
        includes |= {line for line in lines if line.startswith("#include")}
        body = "\n".join(line for line in lines if not line.startswith("#include"))
        parts.append(f"namespace form{number} {{\n{body}\n}}")
    library = ctypes.CDLL(str(build_library("\n".join([*sorted(includes), *parts]), name="together", flags=["-O0"])))
    for number, form in enumerate(forms):
        form._library.__dict__["_handle"] = _Entries(library, number)


def differences(forms: Mapping[str, Any], seed: int = 0, **options: Any) -> dict[str, list[float]]:
    """Return how far the kernels of each form are from dense assembly, relative to the largest entry."""
    compiled = {name: formcompiler.compile_form(form, **options) for name, form in forms.items()}
    build_together(list(compiled.values()))
    return {name: [v.difference for v in verify_compiled(form, seed)] for name, form in compiled.items()}


def agree(forms: Mapping[str, Any], seed: int = 0, **options: Any) -> None:
    """Check that all kernels of all forms equal dense assembly up to rounding."""
    limit = tolerance(options.get("scalar_type", "float64"))
    found = differences(forms, seed, **options)
    wrong = [f"{name}: {values}" for name, values in found.items() if not values or not max(values) < limit]
    assert not wrong, "; ".join(wrong)


def agree_both(forms: Mapping[str, Any], **options: Any) -> None:
    """Check plain and sum-factorized kernels."""
    for choice in ("off", "auto"):
        agree(forms, sum_factorization=choice, **options)


def refused(form: Any, words: str, **options: Any) -> None:
    """Check that a form is refused in words that the user recognises."""
    with pytest.raises(UnsupportedFormError, match=words):
        formcompiler.compile_form(form, **options)


def tensor(form: Any, coordinates: Any, integral_type: str = "cell", marker: Any = None, **data: Any) -> Any:
    options = data.pop("options", {})
    compiled = formcompiler.compile_form(form, **options)
    return compiled.tabulate_tensor(integral_type, marker, np.asarray(coordinates, float), **data)
