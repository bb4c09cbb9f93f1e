"""The passes between kernel builder and code generation, in the user's order."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import loopy as lp

from formcompiler.kernel.linearize import linearize
from formcompiler.options import Options


class Pass(Protocol):
    """Maps a translation unit to a new one: same entry point, same arguments, same numbers; or raises."""

    def __call__(self, t_unit: lp.TranslationUnit, /) -> lp.TranslationUnit:
        """Return the transformed translation unit."""


Observer = Callable[[str, float, lp.TranslationUnit], None]
"""Called after each stage with its name, its seconds and its result."""


def default_pipeline(options: Options) -> list[tuple[str, Pass]]:
    """Return the named passes in order.

    Ordering restriction: vectorize and fold before linearization, which fixes the nest that LICM works on. There is no
    preprocessing by loopy: the builders leave nothing to infer.
    """
    return [("linearize", linearize)]


def run_pipeline(t_unit: lp.TranslationUnit, options: Options, observe: Observer | None = None) -> lp.TranslationUnit:
    """Return the linearized kernel after all passes."""
    for name, step in default_pipeline(options):
        start = time.perf_counter()
        t_unit = step(t_unit)
        if observe is not None:
            observe(name, time.perf_counter() - start, t_unit)
    return t_unit
