"""Pass: of several ways to have lanes, the one that costs least in the cost model.

*Rewrite.* That of the chosen pass. *Legality.* Passes that refuse a kernel are no candidates; the kernel as it is
always is one. *Profitability.* Estimated cycles for each cell (`formcompiler.vectorize.cost`). *Failure.* None.
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
    """

    strategies: tuple[Strategy, ...]
    vector_bits: int

    def __call__(self, t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
        """Return the kernel in its cheapest form."""
        best, least, chosen = t_unit, estimate_cycles(t_unit.default_entrypoint, self.vector_bits), "none"
        for strategy in self.strategies:
            try:
                candidate = strategy.transform(t_unit)
            except VectorizationError as error:
                _log.info("%s is no candidate: %s", strategy.name, error)
                continue
            cycles = estimate_cycles(candidate.default_entrypoint, self.vector_bits) / strategy.cells
            _log.info("%s with %d lanes: about %.0f cycles for a cell", strategy.name, strategy.lanes, cycles)
            if cycles < least:
                best, least, chosen = candidate, cycles, f"{strategy.name} with {strategy.lanes} lanes"
        _log.info("%s: %s", t_unit.default_entrypoint.name, chosen)
        return best
