"""Pass: of several ways to have lanes, the one that costs least in the cost model.

*Rewrite.* That of the chosen pass. *Legality.* Passes that refuse a kernel are no candidates; the kernel as it is
always is one. *Profitability.* Estimated cycles for each cell (`formcompiler.vectorize.cost`). Lanes that are cells
need no estimate, and nothing else is built where they apply: each instruction of the kernel is one of W cells then, no
lane is idle and no number moves between lanes, and other lanes of the same instructions have that at best.
*Failure.* None.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import loopy as lp

from formcompiler.errors import VectorizationError
from formcompiler.vectorize.cost import estimate_cycles

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Strategy:
    """A way to have lanes.

    Attributes:
        name: What the user calls it.
        lanes: Number of lanes W.
        cells: Number of cells that one call of the kernel takes.
        transform: The pass.
    """

    name: str
    lanes: int
    cells: int
    transform: Callable[[lp.TranslationUnit], lp.TranslationUnit]


@dataclass(frozen=True)
class CheapestLanes:
    """The pass.

    Attributes:
        strategies: The candidates; of equal ones the first wins, after the kernel as it is.
        vector_bits: Bits of the widest vector registers of the machine.
        cells: Lanes that are cells, which are taken wherever they apply; None for callers that hand over one cell.
    """

    strategies: tuple[Strategy, ...]
    vector_bits: int
    cells: Strategy | None = None

    def __call__(self, t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
        """Return the kernel in its cheapest form."""
        name = t_unit.default_entrypoint.name
        taken = None if self.cells is None else _apply(self.cells, t_unit)
        if taken is not None:
            others = ", ".join(dict.fromkeys(s.name for s in self.strategies))
            _log.info("%s: cells, which nothing else can beat (not built: %s)", name, others)
            return taken
        best, least, chosen = t_unit, estimate_cycles(t_unit.default_entrypoint, self.vector_bits), "none"
        _log.info("none: about %.0f cycles for a cell", least)
        for strategy in self.strategies:
            candidate = _apply(strategy, t_unit)
            if candidate is None:
                continue
            cycles = estimate_cycles(candidate.default_entrypoint, self.vector_bits) / strategy.cells
            _log.info("%s with %d lanes: about %.0f cycles for a cell", strategy.name, strategy.lanes, cycles)
            if cycles < least:
                best, least, chosen = candidate, cycles, f"{strategy.name} with {strategy.lanes} lanes"
        _log.info("%s: %s", name, chosen)
        return best


def _apply(strategy: Strategy, t_unit: lp.TranslationUnit) -> lp.TranslationUnit | None:
    """Return a kernel with lanes, or None if the strategy refuses it."""
    try:
        return strategy.transform(t_unit)
    except VectorizationError as error:
        _log.info("%s is no candidate: %s", strategy.name, error)
        return None
