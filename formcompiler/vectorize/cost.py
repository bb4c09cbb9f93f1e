"""The cost model of vectorization: processor cycles of a kernel, estimated from its instructions.

Each outermost loop nest takes as long as the unit of the processor that it keeps busiest: arithmetic (two vector
operations per cycle, a multiplication and an addition of its product fused), loads (two per cycle), stores (one per
cycle), and the unit that moves numbers between lanes (one per cycle; on the widest registers at the expense of
arithmetic). Divisions, roots and calls of functions are counted at their latencies. A vector that is longer than the
registers takes several of them. Lanes that do no work cost as much as others, so that waste shows by itself.

Accesses are told apart by where the lanes are in memory: one place for all (a broadcast), places in a row (one load),
equally far apart (turned in registers, together with their neighbours), in some pieces (a load for each, and moves to
bring them together), or others (as many loads as lanes, and moves). Single vectors stay in registers; their lanes in
another order are one move. Loops without lanes whose innermost accesses are in a row are vectorized by the C++
compiler, to half of the widest registers' width; iterations that are left over run one by one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import islpy as isl
import loopy as lp
import numpy as np
import pymbolic.primitives as prim
from pymbolic.mapper import WalkMapper

from formcompiler.kernel.addresses import address_finder, find_pieces
from formcompiler.kernel.flops import iname_extent
from formcompiler.kernel.linearize import find_wide, vector_inames
from formcompiler.kernel.names import names_in

DIVISION = {64: 4.0, 128: 4.0, 256: 8.0, 512: 16.0}
"""Cycles between two divisions of double precision, by bits of the register; roots take about as long."""

CALL = 12.0
"""Cycles of a function of the C library, for each lane."""

LOOP = 1.5
"""Cycles of one trip of a loop beyond its instructions."""


@dataclass
class Work:
    """What a nest asks of the units of a processor, in operations (divisions and calls: in cycles)."""

    arithmetic: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    moves: float = 0.0
    slow: float = 0.0
    trips: float = 0.0

    def add(self, other: Work, times: float) -> None:
        """Add the work of something that runs several times."""
        for name in vars(self):
            setattr(self, name, getattr(self, name) + times * getattr(other, name))

    def cycles(self, *, widest: bool) -> float:
        """Return the time; ``widest`` if it is done in the widest registers, whose moves delay arithmetic."""
        arithmetic = (self.arithmetic + self.moves) / 2 if widest else self.arithmetic / 2
        return max(arithmetic, self.moves, self.loads / 2, self.stores) + self.slow + LOOP * self.trips


def estimate_cycles(kernel: lp.LoopKernel, vector_bits: int) -> float:
    """Return the estimated cycles of one call of a kernel.

    Args:
        kernel: The kernel, before or after linearization; its lanes are inames tagged ``vec``.
        vector_bits: Bits of the widest vector registers of the machine.
    """
    model = _Model(kernel, vector_bits)
    nests: dict[str | None, list[Any]] = {}
    for instruction in kernel.instructions:
        if isinstance(instruction, lp.MultiAssignmentBase):
            nests.setdefault(model.outermost(instruction), []).append(instruction)
    return sum(model.nest_cycles(instructions) for instructions in nests.values())


class _Model:
    """Estimates the work of the instructions of one kernel."""

    def __init__(self, kernel: lp.LoopKernel, vector_bits: int) -> None:
        self._lanes = {i: int(kernel.get_constant_iname_length(i)) for i in sorted(vector_inames(kernel))}
        self._extents = {i: iname_extent(kernel, i) for i in sorted(kernel.all_inames() - set(self._lanes))}
        self._rank = {name: n for n, name in enumerate(_in_order(kernel))}
        self._addresses = address_finder(kernel)
        self._arrays = {**kernel.arg_dict, **kernel.temporary_variables}
        self._registers = {name for name in find_wide(kernel) if len(self._arrays[name].shape) == 1}
        self._bits = vector_bits

    def outermost(self, instruction: Any) -> str | None:
        """Return the outermost loop around an instruction."""
        return min(self._loops(instruction), key=self._rank.__getitem__, default=None)

    def nest_cycles(self, instructions: Iterable[Any]) -> float:
        """Return the cycles of instructions that share their outermost loop."""
        total = Work()
        widest = False
        loops: set[frozenset[str]] = set()
        for instruction in instructions:
            around = frozenset(self._loops(instruction))
            trips = math.prod(self._extents[i] for i in around)
            if around not in loops:
                loops.add(around)
                total.trips += trips if around else 0.0
            lane = next((i for i in sorted(instruction.within_inames) if i in self._lanes), None)
            width = self._lanes[lane] if lane else 1
            bits = 8 * self._item_size(instruction)
            gain = 1.0 if lane else self._compiler_lanes(instruction, bits)
            total.add(self._work(instruction, lane, width, bits), trips / gain)
            widest |= width * bits >= self._bits
        return total.cycles(widest=widest)

    def _loops(self, instruction: Any) -> list[str]:
        return [i for i in instruction.within_inames if i not in self._lanes]

    def _item_size(self, instruction: Any) -> int:
        dtype = self._arrays[_name(instruction.assignee)].dtype
        return int(dtype.numpy_dtype.itemsize) if dtype is not None else 8

    def _compiler_lanes(self, instruction: Any, bits: int) -> float:
        """Return by how many lanes the C++ compiler vectorizes an instruction's innermost loop."""
        innermost = max(self._loops(instruction), key=self._rank.__getitem__, default=None)
        lanes = self._bits // 2 // bits
        if innermost is None or lanes < 2 or self._extents[innermost] < lanes:
            return 1.0
        accesses = [a for e in (instruction.assignee, instruction.expression) for a in _accesses(e)]
        places = [self._steps(a, innermost, 2) for a in accesses]
        if not all(p in ((0,), (1,)) for p in places):
            return 1.0
        extent = self._extents[innermost]
        return extent / (extent // lanes + extent % lanes)

    def _work(self, instruction: Any, lane: str | None, width: int, bits: int) -> Work:
        registers = math.ceil(width * bits / self._bits) if width > 1 else 1
        work = Work()
        _add_arithmetic(instruction.expression, work, registers, width, bits, self._bits)
        for access in _accesses(instruction.expression):
            self._add_access(access, lane, width, registers, work, is_store=False)
        for access in _accesses(instruction.assignee):
            self._add_access(access, lane, width, registers, work, is_store=True)
        return work

    def _add_access(
        self, access: Any, lane: str | None, width: int, registers: int, work: Work, *, is_store: bool
    ) -> None:
        if access.aggregate.name in self._registers:
            work.moves += 0 if access.index_tuple == (prim.Variable(lane or ""),) else registers
            return
        steps = self._steps(access, lane, width) if lane is not None else (0,)
        n, moves = _transfers(steps, width, registers)
        indirect = sum(1 for i in access.index_tuple for _ in _accesses(i))
        n_pieces = self._count_pieces(access, lane, width) if indirect and n == width > 1 else 0
        if n_pieces:
            n, moves, indirect = n_pieces, n_pieces - 1, 0
        work.loads += indirect * (width if n == width > 1 else 1)
        work.moves += moves
        if is_store:
            work.stores += n
        else:
            work.loads += n

    def _count_pieces(self, access: Any, lane: str | None, width: int) -> int:
        """Return how many vectors have to be loaded to shuffle one from; 0 if not known, or too many."""
        places = self._addresses.of_lanes(access, lane, width) if lane is not None else ()
        if not places or any(place.terms != places[0].terms for place in places):
            return 0
        n = len(find_pieces([place.constant for place in places]))
        return n if n <= width // 2 + 1 else 0

    def _steps(self, access: Any, iname: str, extent: int) -> tuple[int | None, ...]:
        """Return the distances between the places of consecutive lanes; None if they are not constant."""
        if iname not in names_in(access):
            return (0,)
        places = self._addresses.of_lanes(access, iname, extent)
        pairs = itertools.pairwise(places)
        found = [b.constant - a.constant if a.terms == b.terms else None for a, b in pairs]
        return tuple(dict.fromkeys(found))


def _transfers(steps: tuple[int | None, ...], width: int, registers: int) -> tuple[int, int]:
    """Return the loads or stores of one access, and the moves between lanes, by the distances of its lanes."""
    if set(steps) <= {0}:
        return 1, 0
    if set(steps) == {1}:
        return registers, 0
    if None not in steps and len(steps) == 1:  # columns of a block, turned in registers with its other columns
        return 2 * registers, min(width - 1, 3 * registers)
    if None not in steps and len(steps) == 2 and steps[0] == 1:  # pieces of rows
        return 2 * registers, registers
    return width, width - 1


def _add_arithmetic(expression: Any, work: Work, registers: int, width: int, bits: int, vector_bits: int) -> None:
    """Add the operations of an expression; comparisons, selects, negations and roots are operations like others."""
    nodes = _Nodes()
    nodes(expression)
    for e in nodes.found:
        if isinstance(e, prim.Sum):
            products = sum(isinstance(c, prim.Product) and _n_factors(c) > 1 for c in e.children)
            additions = len(e.children) - 1
            work.arithmetic += registers * (additions - min(additions, products))
        elif isinstance(e, prim.Product):
            work.arithmetic += registers * max(0, _n_factors(e) - 1)
        elif isinstance(e, prim.Quotient) and _is_power_of_two(e.denominator):
            work.arithmetic += registers  # compilers multiply instead, which is exact
        elif isinstance(e, prim.Quotient) or (isinstance(e, prim.Call) and str(e.function).endswith("sqrt")):
            per_register = DIVISION.get(min(512, max(64, width * bits)), 16.0)
            work.slow += registers * per_register * (bits / 64) / 2
        elif isinstance(e, prim.Call):
            is_cheap = any(str(e.function).endswith(name) for name in ("abs", "min", "max"))
            work.arithmetic += registers if is_cheap else 0
            work.slow += 0.0 if is_cheap else CALL * width
        elif isinstance(e, (prim.If, prim.Comparison)):
            work.arithmetic += registers


def _n_factors(product: Any) -> int:
    return sum(isinstance(c, prim.ExpressionNode) or c not in (1, -1) for c in product.children)


def _is_power_of_two(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and abs(math.frexp(float(value))[0]) == 0.5


def _name(assignee: Any) -> str:
    return str(assignee.name if isinstance(assignee, prim.Variable) else assignee.aggregate.name)


def _in_order(kernel: lp.LoopKernel) -> Iterator[str]:
    for domain in kernel.domains:
        yield from domain.get_var_names_not_none(isl.dim_type.set)


def _accesses(expression: Any) -> list[Any]:
    """Return the subscripts of an expression that are not inside of an index."""
    collector = _Accesses()
    collector(expression)
    return collector.found


class _Accesses(WalkMapper[[]]):
    """Collects subscripts, without those in indices."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Any] = []

    def map_subscript(self, expr: Any) -> None:
        self.found.append(expr)


class _Nodes(WalkMapper[[]]):
    """Collects the nodes of an expression, without those in indices."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Any] = []

    def visit(self, expr: Any) -> bool:
        self.found.append(expr)
        return True

    def map_subscript(self, expr: Any) -> None:
        pass
