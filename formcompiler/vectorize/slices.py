"""Pass: the lanes of all vectors are iterations of loops of one cell.

*Rewrite.* Loops become blocks of W lanes, and temporaries of their iterations get a lane axis::

    for i, j: f = c * w[i, j]; A[i, j] = A[i, j] + f
    ->  for i, b: f[lane] = c * w[i, W*b + lane]; A[i, W*b + lane] = A[i, W*b + lane] + f[lane]

with the iname ``lane`` tagged ``vec``. What is the same in all lanes stays as it is. A rest of iterations gets a block
of as many lanes. If the extent n of a loop is smaller than W and divides it, n iterations of it and W / n of a loop
around it make one block: ``w[W/n*b + lane // n, lane % n]``. Nests are looked at one by one; each gets the loops that
cost least, or none; or the entries of a row that instructions set one after another become lanes
(`formcompiler.vectorize.rows`). The caller hands over one cell, as for the kernel without lanes.

*Legality.* The loops carry no dependence, after each lane got its own copy of the temporaries that are used inside of
one iteration only (`formcompiler.loops.find_lane_loops`); no index and no predicate differs between lanes because of
a computed value, and what differs is a real number.

*Profitability.* Operations and accesses are counted, those of one vector like those of one number; an access to
elements that do not follow one another costs as much as all of them (`formcompiler.vectorize.choose`).

*Failure.* `VectorizationError` if no loop of the kernel can have lanes; it names the dependence that forbids it.
"""

from __future__ import annotations

from dataclasses import dataclass

import loopy as lp
from pytools import memoize_on_first_arg

from formcompiler.errors import VectorizationError
from formcompiler.loops import NestDependences, analyse
from formcompiler.vectorize.blocks import make_blocks
from formcompiler.vectorize.cells import check_assignments
from formcompiler.vectorize.choose import Chooser, find_candidates
from formcompiler.vectorize.strip import Stripper


@dataclass(frozen=True)
class SliceLanes:
    """The pass.

    Attributes:
        lanes: Number of lanes W.
        points_only: Whether lanes are quadrature points: those that a contraction makes out of others, in the loops
            after it and where it sets them in a row, and those of the loops over points.
    """

    lanes: int
    points_only: bool = False

    def __call__(self, t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
        """Return the kernel with lanes.

        Raises:
            VectorizationError: if no loop can have lanes.
        """
        kernel = t_unit.default_entrypoint
        check_assignments(kernel)
        nests = _dependences(kernel)
        stripper = Stripper(kernel, self.lanes)
        is_possible = False
        for nest in nests:
            chooser = Chooser(kernel, nest, self.lanes, points_only=self.points_only)
            bodies, rows = chooser.choose()
            for row in rows:
                stripper.join(row)
            for body in bodies:
                extents = tuple(int(kernel.get_constant_iname_length(i)) for i in body.choice.inames)
                stripper.strip(body, make_blocks(extents, self.lanes))
            is_possible |= chooser.is_possible
        if not is_possible:
            raise VectorizationError(
                f"kernel {kernel.name} has no loop whose iterations can be lanes: {_reason(nests)}; "
                "vectorize=in_cell has lanes where that is possible"
            )
        return t_unit.with_kernel(stripper.finish())


@memoize_on_first_arg
def _dependences(kernel: lp.LoopKernel) -> tuple[NestDependences, ...]:
    """Return the dependences of each nest; the kernel keeps them for further numbers of lanes."""
    return analyse(kernel, variables=kernel.temporary_variables)


def _reason(nests: tuple[NestDependences, ...]) -> str:
    """Return what forbids lanes in the first nest where dependences do."""
    reasons = [reason for nest in nests for _, _, reason in find_candidates(nest) if reason]
    if reasons:
        return reasons[0]
    return "only loops over real numbers can have lanes" if nests else "it has no loops"
