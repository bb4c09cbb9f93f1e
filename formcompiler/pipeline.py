"""The passes between kernel builder and code generation, in the user's order."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import loopy as lp
import numpy as np

from formcompiler.constfold.fold import FoldConstants
from formcompiler.kernel.linearize import linearize
from formcompiler.kernel.parameters import Parameter
from formcompiler.licm.transform import HoistInvariants
from formcompiler.options import Options
from formcompiler.progress import stage
from formcompiler.runtime.compiler import simd_width
from formcompiler.vectorize.cells import CellLanes
from formcompiler.vectorize.hybrid import HybridLanes
from formcompiler.vectorize.quantities import QuantityLanes
from formcompiler.vectorize.slices import SliceLanes
from formcompiler.vectorize.widen import WidenTemporaries


class Pass(Protocol):
    """Maps a translation unit to a new one: same entry point, same arguments, same numbers; or raises."""

    def __call__(self, t_unit: lp.TranslationUnit, /) -> lp.TranslationUnit:
        """Return the transformed translation unit."""


Observer = Callable[[str, float, lp.TranslationUnit], None]
"""Called after each stage with its name, its seconds and its result."""


def default_pipeline(options: Options, parameters: tuple[Parameter, ...]) -> list[tuple[str, Pass]]:
    """Return the named passes in order.

    Ordering restriction: vectorize and fold before linearization, which fixes the nest that LICM works on. There is no
    preprocessing by loopy: the builders leave nothing to infer.
    """
    steps: list[tuple[str, Pass]] = []
    if options.vectorize in ("cells", "auto"):
        uniform = frozenset(p.name for p in parameters if not p.differs_between_cells)
        steps.append(("vectorize", CellLanes(count_lanes(options), uniform, strict=options.vectorize == "cells")))
    elif options.vectorize == "slices":
        steps.append(("vectorize", SliceLanes(count_lanes(options))))
    elif options.vectorize == "quantities":
        steps.append(("vectorize", QuantityLanes(count_lanes(options))))
    elif options.vectorize == "hybrid":
        steps.append(("vectorize", HybridLanes(count_lanes(options))))
    steps.append(("constfold", FoldConstants(options.constfold)))
    return [*steps, ("linearize", linearize), ("licm", HoistInvariants(options.licm)), ("lanes", WidenTemporaries())]


def count_lanes(options: Options) -> int:
    """Return the number of lanes."""
    if options.vectorize == "none":
        return 1
    if options.lanes != "auto":
        return int(options.lanes)
    return max(2, simd_width() // (8 * np.dtype(options.scalar_type).itemsize))


def run_pipeline(
    t_unit: lp.TranslationUnit, options: Options, parameters: tuple[Parameter, ...], observe: Observer | None = None
) -> lp.TranslationUnit:
    """Return the linearized kernel after all passes."""
    for name, step in default_pipeline(options, parameters):
        start = time.perf_counter()
        with stage(name):
            t_unit = step(t_unit)
        if observe is not None:
            observe(name, time.perf_counter() - start, t_unit)
    return t_unit
