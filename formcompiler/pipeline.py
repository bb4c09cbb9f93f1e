"""The passes between kernel builder and code generation, in the user's order."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import loopy as lp
import numpy as np

from formcompiler.constfold.fold import FoldConstants
from formcompiler.kernel.linearize import linearize
from formcompiler.kernel.parameters import Parameter
from formcompiler.licm.transform import HoistInvariants
from formcompiler.options import IN_CELL_STRATEGIES, QUANTITY_STRATEGIES, STRATEGIES, Options
from formcompiler.progress import stage
from formcompiler.runtime.compiler import simd_width
from formcompiler.vectorize.widen import WidenTemporaries

if TYPE_CHECKING:
    from formcompiler.vectorize.cheapest import Strategy


class Pass(Protocol):
    """Maps a translation unit to a new one: same entry point, same arguments, same numbers; or raises."""

    def __call__(self, t_unit: lp.TranslationUnit, /) -> lp.TranslationUnit:
        """Return the transformed translation unit."""


Observer = Callable[[str, float, lp.TranslationUnit], None]
"""Called after each stage with its name, its seconds and its result."""


Rebuild = Callable[[], lp.TranslationUnit]
"""Builds a kernel anew, its arrays in halves (`formcompiler.sumfact.halves`), or raises `VectorizationError`."""


def default_pipeline(options: Options, parameters: tuple[Parameter, ...], in_halves: Rebuild) -> list[tuple[str, Pass]]:
    """Return the named passes in order.

    Ordering restriction: vectorize and fold before linearization, which fixes the nest that LICM works on. There is no
    preprocessing by loopy: the builders leave nothing to infer.
    """
    steps: list[tuple[str, Pass]] = [("constfold", FoldConstants(options.constfold))]
    if options.vectorize != "none":
        steps.insert(0, ("vectorize", _lanes_pass(options, parameters, in_halves)))
    return [*steps, ("linearize", linearize), ("licm", HoistInvariants(options.licm)), ("lanes", WidenTemporaries())]


def candidates(options: Options) -> list[Options]:
    """Return the options among which ``vectorize`` = auto, in_cell or autotune choose, without lanes first."""
    strategies = IN_CELL_STRATEGIES if options.vectorize == "in_cell" else STRATEGIES
    found = [replace(options, vectorize="none")]
    for strategy in strategies:
        found += [replace(options, vectorize=strategy, lanes=str(n)) for n in _lane_counts(options, strategy)]
    return found


def _lane_counts(options: Options, strategy: str) -> list[int]:
    """Return the numbers of lanes to try: what the user says, or those of whole registers and of half ones.

    Halves have lanes of their own number, and nothing else to try.
    """
    widest = count_lanes(options)
    return (
        [widest] if options.lanes != "auto" or strategy in ("cells", "halves") or widest < 4 else [widest, widest // 2]
    )


def _lanes_pass(options: Options, parameters: tuple[Parameter, ...], in_halves: Rebuild) -> Pass:
    """Return the pass of a strategy, or the one that chooses among several."""
    if options.vectorize in (*STRATEGIES, *QUANTITY_STRATEGIES):
        return _strategy(options, parameters, in_halves).transform
    from formcompiler.vectorize.cheapest import CheapestLanes

    strategies = [_strategy(candidate, parameters, in_halves) for candidate in candidates(options)[1:]]
    cells = next((s for s in strategies if s.name == "cells"), None)
    return CheapestLanes(tuple(s for s in strategies if s is not cells), simd_width(), cells)


def _strategy(options: Options, parameters: tuple[Parameter, ...], in_halves: Rebuild) -> Strategy:
    """Return the strategy that the options name; what finds lanes is loaded only if they are asked for."""
    from formcompiler.vectorize.cells import CellLanes
    from formcompiler.vectorize.cheapest import Strategy
    from formcompiler.vectorize.hybrid import HybridLanes
    from formcompiler.vectorize.quantities import QuantityLanes
    from formcompiler.vectorize.slices import SliceLanes

    lanes = count_lanes(options)
    if options.vectorize == "halves":
        return Strategy("halves", lanes, 1, lambda _: WidenTemporaries()(in_halves()))
    if options.vectorize == "cells":
        uniform = frozenset(p.name for p in parameters if not p.differs_between_cells)
        return Strategy("cells", lanes, lanes, CellLanes(lanes, uniform))
    passes: dict[str, Callable[[int], Pass]] = {
        "slices": SliceLanes,
        "points": partial(SliceLanes, points_only=True),
        "quantities": QuantityLanes,
        "hybrid": HybridLanes,
    }
    return Strategy(options.vectorize, lanes, 1, passes[options.vectorize](lanes))


def count_lanes(options: Options) -> int:
    """Return the number of lanes that the user asks for, or that the widest registers hold."""
    if options.lanes != "auto":
        return int(options.lanes)
    return max(2, simd_width() // (8 * np.dtype(options.scalar_type).itemsize))


def run_pipeline(
    t_unit: lp.TranslationUnit,
    options: Options,
    parameters: tuple[Parameter, ...],
    in_halves: Rebuild,
    observe: Observer | None = None,
) -> lp.TranslationUnit:
    """Return the linearized kernel after all passes."""
    for name, step in default_pipeline(options, parameters, in_halves):
        start = time.perf_counter()
        with stage(name):
            t_unit = step(t_unit)
        if observe is not None:
            observe(name, time.perf_counter() - start, t_unit)
    return t_unit
