"""How the iterations of one or two loops become blocks of lanes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as prim

Expression = Any


@dataclass(frozen=True)
class LaneLoops:
    """Loops whose iterations become lanes.

    Attributes:
        inames: One loop; or two, the outer one first, all of whose iterations are independent, where the extent of the
            inner one divides the number of lanes.
        private: Temporaries that each lane must have for itself.
    """

    inames: tuple[str, ...]
    private: frozenset[str]


@dataclass(frozen=True)
class Block:
    """Iterations that run together.

    Attributes:
        start: First iteration of the (outer) loop.
        step: Iterations of the (outer) loop that one block covers.
        n_trips: Number of blocks of this kind, one after another.
        extent: Number of lanes.
        inner_extent: Extent of the inner loop of two, which is whole inside of each block; else 1.
    """

    start: int
    step: int
    n_trips: int
    extent: int
    inner_extent: int = 1

    def indices(self, inames: tuple[str, ...], trip: Expression, lane: Expression) -> Mapping[str, Expression]:
        """Return what stands for each loop's index, given the number of the block and the lane."""
        n = self.inner_extent
        along = lane if n == 1 else prim.FloorDiv(lane, n)
        first = _sum(self.start, _product(self.step, trip), along if self.step > 1 else 0)
        return {inames[0]: first} if len(inames) == 1 else {inames[0]: first, inames[1]: prim.Remainder(lane, n)}


def make_blocks(extents: tuple[int, ...], lanes: int) -> tuple[Block, ...]:
    """Return the blocks of loops with these extents: whole ones, and one for the rest."""
    outer, inner = extents if len(extents) == 2 else (extents[0], 1)
    step = lanes // inner
    n_whole, rest = divmod(outer, step)
    found = [Block(0, step, n_whole, lanes, inner)] if n_whole else []
    return (*found, Block(n_whole * step, rest, 1, rest * inner, inner)) if rest else tuple(found)


def _sum(*terms: Expression) -> Expression:
    kept = tuple(t for t in terms if isinstance(t, prim.ExpressionNode) or t != 0)
    if not kept:
        return 0
    return kept[0] if len(kept) == 1 else prim.Sum(kept)


def _product(factor: int, value: Expression) -> Expression:
    if not isinstance(value, prim.ExpressionNode):
        return factor * value
    return value if factor == 1 else prim.Product((factor, value))
