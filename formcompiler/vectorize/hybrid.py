"""Pass: the lanes of all vectors are quantities of one cell, iterations of its loops, or both at once.

*Rewrite.* Quantities run side by side, as for `formcompiler.vectorize.quantities`; then the loops that become lanes
are chosen nest by nest, loops over quantities among them, as for `formcompiler.vectorize.slices`. If there are fewer
quantities than lanes, a vector holds all of them for several iterations of another loop.

*Legality*, *profitability* and *failure* are those of the two.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import loopy as lp

from formcompiler.errors import VectorizationError
from formcompiler.vectorize.quantities import fuse_quantities
from formcompiler.vectorize.slices import SliceLanes

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HybridLanes:
    """The pass.

    Attributes:
        lanes: Number of lanes W.
    """

    lanes: int

    def __call__(self, t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
        """Return the kernel with lanes.

        Raises:
            VectorizationError: if no loop can have lanes.
        """
        kernel = t_unit.default_entrypoint
        try:
            t_unit = t_unit.with_kernel(fuse_quantities(kernel, self.lanes).kernel)
        except VectorizationError as error:
            _log.info("%s", error)
        return SliceLanes(self.lanes)(t_unit)
