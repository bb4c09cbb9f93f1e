"""Pass: temporaries of later passes get the lanes of the values that they hold."""

from __future__ import annotations

from dataclasses import dataclass

import loopy as lp

from formcompiler.errors import VectorizationError
from formcompiler.kernel.linearize import vector_inames
from formcompiler.kernel.names import names_in
from formcompiler.vectorize.cells import check_elementwise, target_of, widen


@dataclass(frozen=True)
class WidenTemporaries:
    """The pass that gives temporaries of later passes their lanes.

    *Rewrite.* A temporary without lane axis that is computed from values with one gets a lane axis, too::

        h = w[i, lane];  A[i, lane] = A[i, lane] + h    ->    h[lane] = w[i, lane];  A[i, lane] = A[i, lane] + h[lane]

    *Legality.* As for `CellLanes`; *failure* as well. Kernels without lanes stay as they are.
    """

    def __call__(self, t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
        """Return the kernel with wide temporaries."""
        kernel = t_unit.default_entrypoint
        for _ in kernel.temporary_variables:
            narrow = find_narrow(kernel)
            if not narrow:
                break
            for lane in sorted(set(narrow.values())):
                names = frozenset(name for name in narrow if narrow[name] == lane)
                check_elementwise(kernel, names)
                kernel = widen(kernel, names, lane, int(kernel.get_constant_iname_length(lane)))
        return t_unit.with_kernel(kernel)


def find_narrow(kernel: lp.LoopKernel) -> dict[str, str]:
    """Return the lane of each temporary without one that is computed from values that have one.

    Raises:
        VectorizationError: if it is no temporary, or has lanes of two kinds.
    """
    lanes = vector_inames(kernel)
    found: dict[str, str] = {}
    for instruction in kernel.instructions if lanes else ():
        missing = (names_in(instruction.expression) - names_in(instruction.assignee)) & lanes
        for lane in missing:
            name = target_of(instruction)
            if name not in kernel.temporary_variables or found.setdefault(name, lane) != lane:
                raise VectorizationError(
                    f"instruction {instruction.id} of kernel {kernel.name}: {instruction.assignee} = .. needs a value "
                    f"for each {lane}, and has a place for one only"
                )
    return found
