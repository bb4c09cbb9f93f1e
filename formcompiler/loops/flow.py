"""Dataflow between the accesses to one piece of memory, by the algebra of isl's relations.

For each iteration of a sink and each element that it touches, the times of all sources before it are one relation; its
lexicographic maximum is the time of the last. isl's own dataflow analysis (``compute_flow``, islpy 2025.2.5) is not
used, since it loses pairs: with remainders as indices of sink and sources, and two sources in different loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Literal

import islpy as isl

from formcompiler.loops.accesses import Access
from formcompiler.loops.order import ProgramOrder

Kind = Literal["true", "anti", "output"]
Flows = list[tuple[Kind, int, int, isl.Map]]


class FlowFinder:
    """Finds which access must wait for which; what looks the same is computed once.

    Args:
        order: When instances run.
    """

    def __init__(self, order: ProgramOrder) -> None:
        self._order = order
        self._known: dict[tuple[str, ...], Flows] = {}

    def flows(self, accesses: Sequence[Access]) -> Flows:
        """Return kind, positions of source and sink, and relation of all dependences between accesses to one memory."""
        found: Flows = []
        for kind, source, sink, relation in self._flows_of_memory(accesses):
            relation = relation.set_tuple_name(isl.dim_type.in_, accesses[source].instruction)
            relation = relation.set_tuple_name(isl.dim_type.out, accesses[sink].instruction)
            found.append((kind, source, sink, relation))
        return found

    def _flows_of_memory(self, accesses: Sequence[Access]) -> Flows:
        relations = [_anonymous(a.relation, f"A{n}") for n, a in enumerate(accesses)]
        times = _times(self._order, accesses)
        signature = tuple(
            f"{relation} {time} {a.is_write} {a.is_exact}"
            for relation, time, a in zip(relations, times, accesses, strict=True)
        )
        if signature not in self._known:
            self._known[signature] = _find_flows(accesses, relations, times)
        return self._known[signature]


def _anonymous(relation: isl.Map, name: str) -> isl.Map:
    """Return a relation without the names of loops and variables."""
    for n in range(relation.dim(isl.dim_type.in_)):
        relation = relation.set_dim_name(isl.dim_type.in_, n, f"i{n}")
    return relation.set_tuple_name(isl.dim_type.in_, name).set_tuple_name(isl.dim_type.out, "memory")


def _times(order: ProgramOrder, accesses: Sequence[Access]) -> list[list[str]]:
    """Return when each access happens, as functions of i0, i1, ...: position and loop by turns, zeros at the end.

    Positions count only what is accessed here, so that equal patterns look equal.
    """
    places = dense_positions([order.positions[a.instruction] for a in accesses])
    depth = max(map(len, places))
    times = []
    for place in places:
        time: list[str] = []
        for n, position in enumerate(place):
            time += [str(position), f"i{n}"]
        times.append(time[:-1] + ["0"] * (2 * (depth - len(place))))
    return times


def dense_positions(places: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return positions in loops (`ProgramOrder.positions`) in which only the given ones are counted."""
    siblings: dict[tuple[int, ...], set[int]] = {}
    for place in places:
        for n, position in enumerate(place):
            siblings.setdefault(place[:n], set()).add(position)
    rank = {p: {position: n for n, position in enumerate(sorted(found))} for p, found in siblings.items()}
    return [tuple(rank[place[:n]][position] for n, position in enumerate(place)) for place in places]


def _find_flows(accesses: Sequence[Access], relations: Sequence[isl.Map], times: Sequence[list[str]]) -> Flows:
    reads = [n for n, a in enumerate(accesses) if not a.is_write]
    writes = [n for n, a in enumerate(accesses) if a.is_write]
    exact = [a.is_exact for a in accesses]
    if not writes:
        return []
    forward = _schedules(times, relations, "")
    found: Flows = [("output", i, j, m) for i, j, m in _last_sources(writes, writes, relations, exact, forward)]
    if reads:
        backward = _schedules(times, relations, "-")
        found += [("true", i, j, m) for i, j, m in _last_sources(reads, writes, relations, exact, forward)]
        # The next write after a read is the last one before it when time runs backward.
        flows = _last_sources(reads, writes, relations, exact, backward)
        found += [("anti", j, i, m.reverse()) for i, j, m in flows]
    return found


def _last_sources(
    sinks: Sequence[int],
    sources: Sequence[int],
    relations: Sequence[isl.Map],
    exact: Sequence[bool],
    schedules: Sequence[isl.Map],
) -> list[tuple[int, int, isl.Map]]:
    """Return source, sink and relation for each sink and the last source before it that touches the same element.

    Sources that are not exact may not happen: they hide none before them, and are hidden by exact ones after them.
    """
    found = []
    for sink in sinks:
        visits = _visits_before(sink, sources, relations, schedules)
        certain = [times for source, times in visits.items() if exact[source]]
        last = reduce(isl.Map.union, certain).lexmax() if certain else None
        to_sink = relations[sink].domain_map()
        for source, times in visits.items():
            late = times
            if last is not None:
                late = times.intersect(last) if exact[source] else times.subtract(last.apply_range(_earlier(last)))
            flow = late.apply_range(schedules[source].reverse()).reverse().apply_range(to_sink).coalesce()
            if not flow.is_empty():
                found.append((source, sink, flow))
    return found


def _visits_before(
    sink: int, sources: Sequence[int], relations: Sequence[isl.Map], schedules: Sequence[isl.Map]
) -> dict[int, isl.Map]:
    """Return by source the relation from (iteration of the sink, element) to when the source touches it, before."""
    own_time = relations[sink].domain_map().apply_range(schedules[sink])
    before = own_time.apply_range(_earlier(own_time))
    element = relations[sink].range_map()
    found = {}
    for source in sources:
        times = element.apply_range(relations[source].reverse()).apply_range(schedules[source]).intersect(before)
        if not times.is_empty():
            found[source] = times
    return found


def _earlier(times: isl.Map) -> isl.Map:
    """Return the relation from points in time, as in the range of a relation, to all before them."""
    return isl.Map.lex_gt(times.get_space().range())


def _schedules(times: Sequence[list[str]], relations: Sequence[isl.Map], sign: str) -> list[isl.Map]:
    """Return when each access happens, as a map from iterations."""
    maps = []
    for n, (time, relation) in enumerate(zip(times, relations, strict=True)):
        names = ", ".join(f"i{k}" for k in range(relation.dim(isl.dim_type.in_)))
        maps.append(isl.Map(f"{{ A{n}[{names}] -> [{', '.join(sign + entry for entry in time)}] }}"))
    return maps
