"""Which loops of a nest become lanes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import loopy as lp
import pymbolic.primitives as prim
from pymbolic.mapper import WalkMapper
from pytools import memoize_on_first_arg

from formcompiler.kernel.addresses import address_finder
from formcompiler.kernel.builder import PointTag
from formcompiler.kernel.flops import count_expression_operations, iname_extent, is_box
from formcompiler.kernel.names import names_in
from formcompiler.loops import Dependence, NestDependences, find_dependences, find_lane_loops
from formcompiler.loops.conflicts import UnknownVariableError, find_conflict
from formcompiler.vectorize.blocks import LaneLoops, make_blocks
from formcompiler.vectorize.cells import target_of
from formcompiler.vectorize.rows import Row, find_rows
from formcompiler.vectorize.strip import Body, examine, put_in

_LANE = "lane"


@dataclass(frozen=True)
class _Option:
    """Bodies and rows that become lanes, and the cost of everything with them."""

    cost: float
    bodies: tuple[Body, ...] = ()
    rows: tuple[Row, ...] = ()


class Chooser:
    """Chooses among the loops of one nest.

    Args:
        kernel: The kernel.
        nest: The nest.
        lanes: Number of lanes W.
        with_rows: Whether rows of entries may become lanes, too.
        points_only: Whether only loops over quadrature points may.

    Attributes:
        is_possible: Whether `choose` found loops that can become lanes.
    """

    def __init__(
        self,
        kernel: lp.LoopKernel,
        nest: NestDependences,
        lanes: int,
        *,
        with_rows: bool = True,
        points_only: bool = False,
    ) -> None:
        self._kernel = kernel
        self._nest = nest
        self._lanes = lanes
        self._with_rows = with_rows
        self._points_only = points_only
        self._loops = nest.order.loops
        self._addresses = address_finder(kernel)
        self.is_possible = False
        self._extents = {i: iname_extent(kernel, i) for i in nest.inames}

    @cached_property
    def legal(self) -> dict[str, frozenset[str]]:
        """Return the loops that carry no dependence, with the temporaries that each lane must have for itself.

        Loops whose numbers of trips are known at run time only do not fill lanes.
        """
        candidates = find_candidates(self._nest)
        return {iname: private for iname, private, reason in candidates if not reason and self._is_usable(iname)}

    def _is_usable(self, iname: str) -> bool:
        is_of_points = bool(self._kernel.inames[iname].tags_of_type(PointTag))
        return is_box(self._kernel, iname) and (is_of_points or not self._points_only)

    def choose(self) -> tuple[tuple[Body, ...], tuple[Row, ...]]:
        """Return the loops and the rows that become lanes, at least cost."""
        instructions = [self._kernel.id_to_insn[name] for name in self._nest.nest.instructions]
        best = self._best(instructions, 0)
        return best.bodies, best.rows

    def _best(self, instructions: Sequence[Any], depth: int) -> _Option:
        """Return the best option for instructions with the same loops up to some depth."""
        groups: dict[str | None, list[Any]] = {}
        for i in instructions:
            loops = self._loops[i.id]
            groups.setdefault(loops[depth] if len(loops) > depth else None, []).append(i)
        cost, bodies, rows = 0.0, list[Body](), list[Row]()
        for iname, group in groups.items():
            if iname is None:
                rows += self._rows(group) if len(groups) == 1 else ()
                spared = {i.id for row in rows for i in row.instructions[1:]}
                cost += sum(self._scalar_cost(i) * self._trips(i) for i in group if i.id not in spared)
                continue
            option = min((self._best(group, depth + 1), *self._options(group, depth)), key=lambda o: o.cost)
            cost += option.cost
            bodies += option.bodies
            rows += option.rows
        return _Option(cost, tuple(bodies), tuple(rows))

    def _rows(self, instructions: Sequence[Any]) -> list[Row]:
        """Return the rows of real numbers among instructions that follow one another."""
        found = list(find_rows(instructions, self._lanes)) if self._with_rows else []
        self.is_possible |= bool(found)
        return [row for row in found if self._is_real(row.instructions)]

    def _is_real(self, instructions: Sequence[Any]) -> bool:
        arrays = {**self._kernel.arg_dict, **self._kernel.temporary_variables}
        types = [arrays[target_of(i)].dtype for i in instructions]
        return all(t is not None and t.numpy_dtype.kind == "f" for t in types)

    def _options(self, group: Sequence[Any], depth: int) -> Iterator[_Option]:
        """Find options whose outermost lane loop is at this depth."""
        chain = self._loops[group[0].id]
        outer = chain[depth]
        if outer not in self.legal:
            return
        choices = [LaneLoops((outer,), self.legal[outer])]
        for place in range(depth + 1, len(chain)):
            inner = chain[place]
            extent = self._extents[inner]
            is_band = all(self._loops[i.id][: place + 1] == chain[: place + 1] for i in group)
            if is_band and inner in self.legal and extent < self._lanes and self._lanes % extent == 0:
                choices.append(LaneLoops((outer, inner), self.legal[outer] | self.legal[inner]))
        for choice in choices:
            body = examine(choice, group, chain[:depth])
            if self._is_elementwise(body):
                self.is_possible = True
                yield _Option(self._cost(body), (body,))

    def _is_elementwise(self, body: Body) -> bool:
        """Return whether all that differs between lanes is real numbers, and no index or predicate."""
        checker = _IndexChecker(body.wide)
        for i in body.instructions:
            checker(i.assignee)
            checker(i.expression)
            if any(names_in(p) & body.wide for p in i.predicates):
                return False
        return not checker.is_found and self._is_real([i for i in body.instructions if i.id in body.varying])

    def _trips(self, instruction: Any, without: Sequence[str] = ()) -> int:
        return math.prod(self._extents[i] for i in instruction.within_inames - set(without))

    def _scalar_cost(self, instruction: Any) -> float:
        counter = _AccessCounter()
        counter(instruction.assignee)
        counter(instruction.expression)
        return count_expression_operations(instruction.expression) + len(counter.found)

    def _cost(self, body: Body) -> float:
        inames = body.choice.inames
        cost = 0.0
        for block in make_blocks(tuple(self._extents[i] for i in inames), self._lanes):
            lane = prim.Variable(_LANE)
            trip = prim.Variable("block") if block.n_trips > 1 else 0
            mapper = put_in(block.indices(inames, trip, lane))
            for i in body.instructions:
                n = block.n_trips * self._trips(i, inames)
                if i.id not in body.varying or block.extent == 1:
                    cost += n * self._scalar_cost(i)
                    continue
                cost += n * count_expression_operations(i.expression)
                counter = _AccessCounter()
                counter(mapper(i.assignee))
                counter(mapper(i.expression))
                cost += n * sum(self._access_cost(access, block.extent) for access in counter.found)
        return cost

    def _access_cost(self, access: Any, extent: int) -> float:
        if _LANE not in names_in(access):
            return 1.0
        places = self._addresses.of_lanes(access, _LANE, extent)
        breaks = sum(b != a + type(a)(1) for a, b in itertools.pairwise(places))
        return 1.0 + breaks if any(p != places[0] for p in places) else 1.0


@memoize_on_first_arg
def find_candidates(nest: NestDependences) -> tuple[tuple[str, frozenset[str], str], ...]:
    """Return the loops of a nest, with the temporaries that each lane must have for itself, and what forbids lanes.

    The nest keeps them for further numbers of lanes; nothing that forbids lanes is an empty text.

    Args:
        nest: The nest, with the dependences on temporaries.
    """
    kernel = nest.kernel
    is_fixed = all(is_box(kernel, iname) for iname in nest.inames)
    written = sorted(kernel.get_written_variables() & kernel.arg_dict.keys())
    found = []
    for loop in find_lane_loops(nest):
        reasons = [str(blocker) for blocker in loop.blockers]
        for name in written:
            try:
                reasons += filter(None, [find_conflict(nest, loop.iname, name) if is_fixed else None])
                is_known = is_fixed
            except UnknownVariableError:
                is_known = False
            if not is_known:
                reasons += [str(d) for d in _dependences_on(kernel, name) if loop.iname in d.carriers]
        found.append((loop.iname, frozenset(loop.privatize), reasons[0] if reasons else ""))
    return tuple(found)


@memoize_on_first_arg
def _dependences_on(kernel: lp.LoopKernel, name: str) -> tuple[Dependence, ...]:
    """Return the dependences on one result in the whole kernel, which keeps them."""
    return find_dependences(kernel, variables=[name])


class _IndexChecker(WalkMapper[[]]):
    """Finds out whether an index depends on one of some names."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__()
        self._names = names
        self.is_found = False

    def map_subscript(self, expr: Any) -> None:
        self.is_found |= any(names_in(index) & self._names for index in expr.index_tuple)


class _AccessCounter(WalkMapper[[]]):
    """Collects accesses to arrays, without those in indices."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Any] = []

    def map_subscript(self, expr: Any) -> None:
        self.found.append(expr)
