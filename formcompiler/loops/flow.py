"""Dataflow between the accesses to one piece of memory, by isl."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    forward = _schedule(times, relations, "")
    found: Flows = [("output", i, j, m) for i, j, m in _last_sources(writes, writes, relations, exact, forward)]
    if reads:
        backward = _schedule(times, relations, "-")
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
    schedule: isl.UnionMap,
) -> list[tuple[int, int, isl.Map]]:
    """Return source, sink and relation for each sink and the last source before it that touches the same element."""
    info = isl.UnionAccessInfo.from_sink(_union(relations[n] for n in sinks))
    must = [relations[n] for n in sources if exact[n]]
    may = [relations[n] for n in sources if not exact[n]]
    if must:
        info = info.set_must_source(_union(must))
    if may:
        info = info.set_may_source(_union(may))
    maps = info.set_schedule_map(schedule).compute_flow().get_may_dependence().get_map_list()
    found = []
    for n in range(maps.n_map()):
        flow = maps.get_at(n)
        ends = (flow.get_tuple_name(kind) for kind in (isl.dim_type.in_, isl.dim_type.out))
        source, sink = (int(str(end).removeprefix("A")) for end in ends)
        found.append((source, sink, flow))
    return found


def _schedule(times: Sequence[list[str]], relations: Sequence[isl.Map], sign: str) -> isl.UnionMap:
    maps = []
    for n, (time, relation) in enumerate(zip(times, relations, strict=True)):
        names = ", ".join(f"i{k}" for k in range(relation.dim(isl.dim_type.in_)))
        maps.append(isl.Map(f"{{ A{n}[{names}] -> [{', '.join(sign + entry for entry in time)}] }}"))
    return _union(maps)


def _union(maps: Iterable[isl.Map]) -> isl.UnionMap:
    first, *rest = (isl.UnionMap.from_map(m) for m in maps)
    for other in rest:
        first = first.union(other)
    return first
