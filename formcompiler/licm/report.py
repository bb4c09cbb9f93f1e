"""Facts about what loop-invariant code motion did to a kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import loopy as lp


@dataclass(frozen=True)
class Hoisted:
    """One temporary that the stage made.

    Attributes:
        name: Its name.
        loops: Loops around its evaluation, outermost first; its depth is their number.
        n_bytes: Its memory.
        text: What it stands for.
    """

    name: str
    loops: tuple[str, ...]
    n_bytes: int
    text: str

    @property
    def depth(self) -> int:
        """Return the number of loops around its evaluation."""
        return len(self.loops)


@dataclass(frozen=True)
class LicmReport:
    """What the stage did to one kernel.

    Attributes:
        requested: The mode asked for.
        used: The mode whose result was taken.
        flops_before: Operations of one call before the stage.
        flops_after: Operations of one call after it.
        hoisted: The temporaries that were made.
        fallback: Why another mode was used than requested, or "".
    """

    requested: str
    used: str
    flops_before: int
    flops_after: int
    hoisted: tuple[Hoisted, ...] = ()
    fallback: str = ""

    @property
    def temporary_bytes(self) -> int:
        """Return the memory of all temporaries that were made."""
        return sum(h.n_bytes for h in self.hoisted)

    @property
    def by_depth(self) -> dict[int, int]:
        """Return how many temporaries were hoisted to each depth."""
        depths = [h.depth for h in self.hoisted]
        return {depth: depths.count(depth) for depth in sorted(set(depths))}


def list_hoisted(before: lp.LoopKernel, after: lp.LoopKernel) -> tuple[Hoisted, ...]:
    """Return the temporaries that only the second of two kernels has, in the order in which they are first set."""
    result: dict[str, Hoisted] = {}
    for instruction in after.instructions:
        for name in instruction.assignee_var_names():
            if name in result or name in before.temporary_variables or name in before.arg_dict:
                continue
            variable: Any = after.temporary_variables[name]
            size = 8 if variable.dtype is None else variable.dtype.numpy_dtype.itemsize
            loops = tuple(sorted(instruction.within_inames, key=list(after.inames).index))
            text = str(getattr(instruction, "expression", ""))
            result[name] = Hoisted(name, loops, size * math.prod(map(int, variable.shape)), text)
    return tuple(result.values())
