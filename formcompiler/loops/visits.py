"""Dataflow between accesses, found by visiting them all in the order in which they happen.

Kernels of one cell have loops with few iterations, known when they are compiled, over arrays with known indices, some
of them behind tables of numbers. There, all accesses to a piece of memory are numbered by element and by time, and
sorted: of two neighbours of which one writes, the later waits for the earlier. This finds the same dependences as isl
does symbolically (`formcompiler.loops.flow`), in a time that grows with the number of accesses and not with the number
of pieces that a relation has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import loopy as lp
import numpy as np
import numpy.typing as npt
import pymbolic.primitives as prim

from formcompiler.kernel.flops import iname_extent, is_box
from formcompiler.loops.accesses import Access, table_values
from formcompiler.loops.flow import Kind, dense_positions
from formcompiler.loops.order import ProgramOrder

Integers = npt.NDArray[np.int64]

_MOST_VISITS = 2_000_000
"""Pieces of memory that are accessed more often are left to isl."""

_MOST_TIMES = 2**62
_KINDS: tuple[Kind, ...] = ("true", "anti", "output")


class _UnknownError(Exception):
    """An index, or a loop, is not known before the kernel runs."""


@dataclass(frozen=True)
class VisitedFlow:
    """That one access must wait for another.

    Attributes:
        kind: "true", "anti" or "output".
        source: Position of the earlier access among those looked at.
        sink: Position of the one that waits.
        carriers: Positions of the loops that carry the dependence, among those around both, outermost first.
        crossed: Positions of the loops of which both ends are in different iterations, for some pair of ends.
    """

    kind: Kind
    source: int
    sink: int
    carriers: tuple[int, ...]
    crossed: tuple[int, ...]


@dataclass(frozen=True)
class _Visits:
    """All visits to one piece of memory, by time within each element.

    Attributes:
        element: Number of the element, by visit.
        time: When it happens, by visit; what one instruction reads and writes has the same time.
        access: Number of the access, by visit.
        is_write: Whether it writes, by visit.
        iterations: Axes (visit, loop), outermost first, zeros for loops that there are not.
    """

    element: Integers
    time: Integers
    access: Integers
    is_write: npt.NDArray[np.bool_]
    iterations: Integers


class VisitFinder:
    """Finds dataflow by visiting.

    Args:
        kernel: The kernel.
        order: When its instructions run.
    """

    def __init__(self, kernel: lp.LoopKernel, order: ProgramOrder) -> None:
        self._kernel = kernel
        self._order = order
        self._extents: dict[str, int | None] = {}
        self._values: dict[Any, Integers] = {}
        self._ranges: dict[Any, tuple[int, int]] = {}

    def flows(self, accesses: Sequence[Access]) -> list[VisitedFlow] | None:
        """Return all dependences between accesses to the same memory; None if there is something that is not known."""
        if not all(a.is_plain for a in accesses) or len({len(a.subscript) for a in accesses}) > 1:
            return None
        try:
            visits = self._visit(accesses)
        except _UnknownError:
            return None
        return _Pairs(visits, accesses, self._order).flows() if visits.element.size else []

    def _visit(self, accesses: Sequence[Access]) -> _Visits:
        chains = [self._order.loops[a.instruction] for a in accesses]
        sizes = [math.prod(self._extent(i) for i in chain) for chain in chains]
        if sum(sizes) > _MOST_VISITS:
            raise _UnknownError
        element = np.concatenate(self._elements(accesses, chains))
        time = np.concatenate(self._times(accesses, chains))
        is_write = np.repeat([a.is_write for a in accesses], sizes)
        depth = max(map(len, chains))
        grids = {chain: self._grid(chain, depth) for chain in dict.fromkeys(chains)}
        order = np.lexsort((is_write, time, element))
        return _Visits(
            element[order],
            time[order],
            np.repeat(np.arange(len(accesses)), sizes)[order],
            is_write[order],
            np.concatenate([grids[chain] for chain in chains])[order],
        )

    def _extent(self, iname: str) -> int:
        if iname not in self._extents:
            self._extents[iname] = iname_extent(self._kernel, iname) if is_box(self._kernel, iname) else None
        extent = self._extents[iname]
        if extent is None:
            raise _UnknownError
        return extent

    def _grid(self, chain: Sequence[str], depth: int) -> Integers:
        """Return the iterations of loops; axes (visit, loop)."""
        extents = tuple(self._extent(i) for i in chain)
        found = np.indices(extents).reshape(len(chain), -1).T if chain else np.zeros((1, 0), dtype=np.int64)
        return np.pad(found, ((0, 0), (0, depth - len(chain))))

    def _elements(self, accesses: Sequence[Access], chains: Sequence[tuple[str, ...]]) -> list[Integers]:
        """Return for each access the numbers of the elements that it touches, iteration by iteration."""
        keys = [[(chain, index) for index in a.subscript] for a, chain in zip(accesses, chains, strict=True)]
        for key in dict.fromkeys(key for row in keys for key in row):
            if key not in self._values:
                values = self._values[key] = np.asarray(self._evaluate(key[1], key[0]), dtype=np.int64)
                self._ranges[key] = (int(values.min()), int(values.max())) if values.size else (0, 0)
        strides, stride = [], 1
        for column in zip(*keys, strict=True):
            low, high = (f(self._ranges[k][n] for k in column) for n, f in enumerate((min, max)))
            strides.append((stride, low))
            stride *= high - low + 1
        if stride > _MOST_TIMES:
            raise _UnknownError
        found = []
        for row, chain in zip(keys, chains, strict=True):
            total: Any = np.zeros((), dtype=np.int64)
            for key, (factor, low) in zip(row, strides, strict=True):
                total = total + factor * (self._values[key] - low)
            found.append(np.broadcast_to(total, tuple(map(self._extent, chain))).ravel())
        return found

    def _times(self, accesses: Sequence[Access], chains: Sequence[tuple[str, ...]]) -> list[Integers]:
        """Return for each access when it happens, iteration by iteration."""
        depth = max(map(len, chains))
        places = dense_positions([self._order.positions[a.instruction] for a in accesses])
        radices = [1] * (2 * depth + 1)
        for place, chain in zip(places, chains, strict=True):
            for n, position in enumerate(place):
                radices[2 * n] = max(radices[2 * n], position + 1)
            for n, iname in enumerate(chain):
                radices[2 * n + 1] = max(radices[2 * n + 1], self._extent(iname))
        factors = [math.prod(radices[n + 1 :]) for n in range(len(radices))]
        if math.prod(radices) > _MOST_TIMES:
            raise _UnknownError
        found = []
        for place, chain in zip(places, chains, strict=True):
            total: Any = np.int64(sum(factors[2 * n] * position for n, position in enumerate(place)))
            for n, iname in enumerate(chain):
                total = total + factors[2 * n + 1] * self._open(iname, chain)
            found.append(np.broadcast_to(total, tuple(map(self._extent, chain))).ravel())
        return found

    def _open(self, iname: str, chain: Sequence[str]) -> Integers:
        """Return the iterations of one loop, along its axis among those of a chain."""
        shape = [1] * len(chain)
        shape[chain.index(iname)] = -1
        return np.arange(self._extent(iname)).reshape(shape)

    def _evaluate(self, expression: Any, chain: tuple[str, ...]) -> Any:
        """Return the values of an index, iteration by iteration, with axes of size 1 for loops it does not depend on.

        Raises:
            _UnknownError: if it depends on anything but loops and tables of known numbers.
        """
        if isinstance(expression, int | np.integer):
            return np.int64(expression)
        if isinstance(expression, prim.Variable) and expression.name in chain:
            return self._open(expression.name, chain)
        if isinstance(expression, prim.Sum | prim.Product):
            values = [self._evaluate(child, chain) for child in expression.children]
            return sum(values[1:], values[0]) if isinstance(expression, prim.Sum) else math.prod(values)
        if isinstance(expression, prim.FloorDiv | prim.Remainder):
            above, below = (self._evaluate(e, chain) for e in (expression.numerator, expression.denominator))
            if np.any(np.asarray(below) <= 0):
                raise _UnknownError
            return above // below if isinstance(expression, prim.FloorDiv) else above % below
        if isinstance(expression, prim.Subscript):
            return self._look_up(expression, chain)
        raise _UnknownError

    def _look_up(self, expression: Any, chain: tuple[str, ...]) -> Any:
        table = table_values(self._kernel, expression.aggregate.name)
        if table is None:
            raise _UnknownError
        index = tuple(self._evaluate(i, chain) for i in expression.index_tuple)
        for values, extent in zip(index, table.shape, strict=True):
            if np.any(values < 0) or np.any(values >= extent):
                raise _UnknownError
        return table[index]


class _Pairs:
    """Neighbouring visits of which one must wait for the other."""

    def __init__(self, visits: _Visits, accesses: Sequence[Access], order: ProgramOrder) -> None:
        self._visits = visits
        self._accesses = accesses
        self._order = order

    def flows(self) -> list[VisitedFlow]:
        """Return what must wait for what, without repetitions."""
        found: list[VisitedFlow] = []
        for kind, (source, sink) in zip(_KINDS, (self._true(), self._anti(), self._output()), strict=True):
            found += self._of_kind(kind, source, sink)
        return found

    def _last_write(self) -> Integers:
        """Return the last write before each visit; -1 if there is none to the same element."""
        v = self._visits
        last = np.maximum.accumulate(np.where(v.is_write, np.arange(v.element.size), -1))
        return self._same_element(np.concatenate([[-1], last[:-1]]))

    def _next_write(self) -> Integers:
        """Return the next write after each visit, at another time; -1 if there is none to the same element."""
        v = self._visits
        n = v.element.size
        following = np.minimum.accumulate(np.where(v.is_write, np.arange(n), n)[::-1])[::-1]
        after = np.concatenate([following[1:], [n, n]])  # after n comes nothing
        found = after[:-1]
        is_own = (found < n) & (v.time[np.minimum(found, n - 1)] == v.time)
        found = np.where(is_own, after[found], found)
        return self._same_element(np.where(found == n, -1, found))

    def _same_element(self, other: Integers) -> Integers:
        element = self._visits.element
        return np.where((other >= 0) & (element[other] == element), other, -1)

    def _true(self) -> tuple[Integers, Integers]:
        return _with_partner(~self._visits.is_write, self._last_write())

    def _output(self) -> tuple[Integers, Integers]:
        return _with_partner(self._visits.is_write, self._last_write())

    def _anti(self) -> tuple[Integers, Integers]:
        sink, source = _with_partner(~self._visits.is_write, self._next_write())
        return source, sink

    def _of_kind(self, kind: Kind, source: Integers, sink: Integers) -> list[VisitedFlow]:
        """Return the dependences between accesses that pairs of visits belong to."""
        if not source.size:
            return []
        v, n = self._visits, len(self._accesses)
        ends, group = np.unique(v.access[source] * n + v.access[sink], return_inverse=True)
        group = group.ravel()
        n_common = np.array([self._n_common(int(end) // n, int(end) % n) for end in ends])
        steps = v.iterations[sink] != v.iterations[source]
        steps &= np.arange(steps.shape[1]) < n_common[group][:, None]
        first = steps & (np.cumsum(steps, axis=1) == 1)
        crossed, carriers = (_any_in_group(flags, group, len(ends)) for flags in (steps, first))
        return [
            VisitedFlow(
                kind,
                int(end) // n,
                int(end) % n,
                tuple(np.flatnonzero(carriers[k]).tolist()),
                tuple(np.flatnonzero(crossed[k]).tolist()),
            )
            for k, end in enumerate(ends)
        ]

    def _n_common(self, source: int, sink: int) -> int:
        first, second = self._accesses[source].instruction, self._accesses[sink].instruction
        return len(self._order.common_loops(first, second))


def _with_partner(chosen: Any, partner: Integers) -> tuple[Integers, Integers]:
    """Return the partners of the chosen visits that have one, and these visits."""
    found = np.flatnonzero(chosen & (partner >= 0))
    return partner[found], found


def _any_in_group(flags: Any, group: Integers, n_groups: int) -> Any:
    """Return whether a flag is set anywhere in each group; axes (group, flag)."""
    found = np.zeros((n_groups, flags.shape[1]), dtype=bool)
    np.logical_or.at(found, group, flags)
    return found
