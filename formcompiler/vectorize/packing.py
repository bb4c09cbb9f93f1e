"""Which strands run as the lanes of one loop nest: search with a cost model.

*Operands.* What stands in a hole for the different lanes is *uniform* (the same for all), a *vector* (the lanes of one
packed array at one index), or a *choice* (different things, put together element by element).

*Packs.* Arrays that the lanes of a group write at the same index become one packed array with the lane as last axis;
so do arrays that are written at permuted indices, with permuted axes.

*Costs* count instructions of a core that starts two arithmetic operations or loads, one store and one shuffle at a
time, in units of an arithmetic operation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import comb, inf
from typing import Any

import pymbolic.primitives as prim

from formcompiler.vectorize.strands import Step, Strand, StrandGraph, find_added, name_of

Expression = Any

LOAD, STORE, SHUFFLE = 1, 2, 2
_MAX_SUBSETS = 40
_MAX_STATES = 6
_MAX_OPTIONS = 8


@dataclass(frozen=True)
class Place:
    """Where an array is stored.

    Attributes:
        pack: Names of the arrays that are the lanes of one packed array; None for padding.
        lane: Which of them.
        axes: For each axis of the packed array, which axis of this one it is.
    """

    pack: tuple[str | None, ...]
    lane: int
    axes: tuple[int, ...]


Packs = Mapping[str, Place]


@dataclass(frozen=True)
class Operand:
    """What the lanes have in a hole.

    Attributes:
        kind: "uniform", "vector" or "choice".
        leaves: Of each lane that is no padding, None for padding.
        pack: Arrays of a vector.
        index: Index of a vector, without the lane.
    """

    kind: str
    leaves: tuple[Expression, ...]
    pack: tuple[str | None, ...] = ()
    index: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Group:
    """Strands that run together, or one that runs alone.

    Attributes:
        lanes: Number of a strand for each lane, None for padding; a single number for one that runs alone.
        packs: Where the arrays are that it writes as vectors.
        cost: Of all its trips.
    """

    lanes: tuple[int | None, ...]
    packs: Packs
    cost: float

    @property
    def members(self) -> tuple[int, ...]:
        """Return the strands in lane order."""
        return tuple(n for n in self.lanes if n is not None)


def find_operand(leaves: Sequence[Expression], packs: Packs) -> Operand:
    """Return how the leaves of all lanes are read or written.

    Args:
        leaves: By lane, None for padding.
        packs: Where arrays are.
    """
    present = [leaf for leaf in leaves if leaf is not None]
    if all(_is_same(leaf, present[0]) for leaf in present):
        return Operand("uniform", tuple(leaves))
    places = [_find_place(leaf, packs) for leaf in leaves]
    known = [(n, p) for n, p in enumerate(places) if p is not None]
    if len(known) == len(present) and len({(p[0].pack, p[1]) for _, p in known}) == 1:
        place, index = known[0][1]
        if len(leaves) <= len(place.pack) and all(p[0].lane == n for n, p in known):
            return Operand("vector", tuple(leaves), place.pack, index)
    return Operand("choice", tuple(leaves))


def _is_same(first: Expression, second: Expression) -> bool:
    if isinstance(first, prim.ExpressionNode) or isinstance(second, prim.ExpressionNode):
        return bool(first == second)
    return repr(first) == repr(second)


def _find_place(leaf: Expression, packs: Packs) -> tuple[Place, tuple[Expression, ...]] | None:
    """Return where an access goes: place of its array, and index in the packed array."""
    if not isinstance(leaf, prim.Subscript) or name_of(leaf) not in packs:
        return None
    place = packs[name_of(leaf)]
    return place, tuple(leaf.index_tuple[axis] for axis in place.axes)


@dataclass
class CostModel:
    """Costs of strands, alone and together.

    Attributes:
        graph: All strands.
        n_lanes: Number of lanes W.
        writers: By temporary array, the strands that write it.
    """

    graph: StrandGraph
    n_lanes: int
    writers: Mapping[str, frozenset[int]]
    _known: dict[Any, Group] = field(default_factory=dict)

    def alone(self, number: int) -> float:
        """Return the cost of a strand that runs by itself."""
        return self._alone[number]

    @cached_property
    def _alone(self) -> list[float]:
        return [self._find_alone(strand) for strand in self.graph.strands]

    def _find_alone(self, strand: Strand) -> float:
        total = 0
        for step in strand.steps:
            n_loads = sum(isinstance(strand.holes[h], prim.Subscript) for h in step.reads)
            once = step.n_operations + LOAD * n_loads + (STORE if step.written is not None else 0)
            total += strand.n_trips(step) * once
        return total

    @cached_property
    def _classes(self) -> list[list[int]]:
        """Return the strands that are alike and have equally many others before them."""
        levels: list[int] = []
        classes: dict[Any, list[int]] = {}
        for strand, waits in zip(self.graph.strands, self.graph.waits, strict=True):
            levels.append(1 + max((levels[n] for n in waits), default=0))
            key = strand.number if strand.obstacle else (self.graph.kinds[strand.number], levels[-1])
            classes.setdefault(key, []).append(strand.number)
        return list(classes.values())

    def hoped(self, done: frozenset[int]) -> float:
        """Return what the other strands will cost at best: those that are alike share loops, without any loads."""
        total = 0.0
        for members in self._classes:
            n = sum(m not in done for m in members)
            total += self.alone(members[0]) * n / max(1, min(n, self.n_lanes))
        return total

    def together(self, lanes: tuple[int | None, ...], packs: Packs) -> Group:
        """Return the group of some lanes, given where arrays are that they read."""
        strands = [None if n is None else self.graph.strands[n] for n in lanes]
        read = {name_of(leaf) for s in strands if s for leaf in s.holes if isinstance(leaf, prim.Subscript)}
        key = lanes, tuple((name, packs[name]) for name in sorted(read) if name in packs)
        if key not in self._known:
            new = self._new_packs(strands, lanes)
            first = next(s for s in strands if s is not None)
            cost = sum(first.n_trips(s) * self._cost(s, strands, {**packs, **new}) for s in first.steps)
            elements = [s for s in first.steps if s.written is not None and name_of(first.holes[s.written]) not in new]
            is_possible = all(_may_be_put_later(s, strands) for s in elements)
            self._known[key] = Group(lanes, new, cost if is_possible else inf)
        return self._known[key]

    def _new_packs(self, strands: Sequence[Strand | None], lanes: tuple[int | None, ...]) -> dict[str, Place]:
        first = next(s for s in strands if s is not None)
        places: dict[str, Place] = {}
        spoiled: set[str] = set()
        for step in first.steps:
            if step.written is None:
                continue
            leaves = [None if s is None else s.holes[step.written] for s in strands]
            found = self._pack_of(leaves, lanes)
            for leaf in leaves:
                if leaf is None:
                    continue
                name = name_of(leaf)
                if name not in found or places.get(name, found[name]) != found[name]:
                    spoiled.add(name)
                else:
                    places[name] = found[name]
        return {n: p for n, p in places.items() if not spoiled.intersection(p.pack)}

    def _pack_of(self, leaves: Sequence[Expression], lanes: tuple[int | None, ...]) -> dict[str, Place]:
        """Return places for the arrays that the lanes write, none if they are not written alike."""
        present = [leaf for leaf in leaves if leaf is not None]
        names = [name_of(leaf) for leaf in present]
        if len(set(names)) < len(names):
            return {}
        for name, number in zip(names, (n for n in lanes if n is not None), strict=True):
            if self.writers.get(name, frozenset()) != {number}:
                return {}
        pack = tuple(None if leaf is None else name_of(leaf) for leaf in leaves)
        first = present[0].index_tuple
        found = {}
        for n, leaf in enumerate(leaves):
            if leaf is not None:
                axes = _find_axes(first, leaf.index_tuple)
                if axes is None:
                    return {}
                found[name_of(leaf)] = Place(pack, n, axes)
        return found

    def _cost(self, step: Step, strands: Sequence[Strand | None], packs: Packs) -> float:
        """Return the cost of one trip of one step."""
        total: float = step.n_operations
        for number in step.reads:
            leaves = [None if s is None else s.holes[number] for s in strands]
            operand = find_operand(leaves, packs)
            if isinstance(next(leaf for leaf in leaves if leaf is not None), prim.ExpressionNode):
                n = len({leaf for leaf in leaves if leaf is not None}) if operand.kind == "choice" else 1
                total += LOAD * n + SHUFFLE * (n - 1)
            elif operand.kind == "choice":
                total += LOAD
        if step.written is not None:
            leaves = [None if s is None else s.holes[step.written] for s in strands]
            n = sum(leaf is not None for leaf in leaves)
            total += STORE if find_operand(leaves, packs).kind == "vector" else STORE * n + SHUFFLE * (n - 1)
        return total


def _may_be_put_later(step: Step, strands: Sequence[Strand | None]) -> bool:
    """Return whether a step may write behind a loop over quantities: it is in no further loop, and nobody reads it."""
    present = [s for s in strands if s is not None]
    if step.written is None or len(step.loops) != present[0].n_common_loops:
        return False
    for strand in present:
        name = name_of(strand.holes[step.written])
        for other in strand.steps:
            reads = other.reads
            if other.written is not None and find_added(other, [strand]) is not None:
                reads = reads[1:]
            if any(
                isinstance(strand.holes[h], prim.ExpressionNode) and name_of(strand.holes[h]) == name for h in reads
            ):
                return False
    return True


def _find_axes(wanted: Sequence[Expression], given: Sequence[Expression]) -> tuple[int, ...] | None:
    """Return for each index that is wanted where it is among the given ones; None if it is not."""
    if tuple(wanted) == tuple(given):
        return tuple(range(len(given)))
    if len(set(map(str, given))) < len(given) or set(map(str, wanted)) != set(map(str, given)):
        return None
    return tuple([str(i) for i in given].index(str(w)) for w in wanted)


@dataclass(frozen=True)
class _State:
    """A part of the way: all groups so far, in the order in which they run, and what all will cost at best."""

    groups: tuple[Group, ...]
    done: frozenset[int]
    packs: Packs
    cost: float
    estimate: float

    @property
    def first_open(self) -> int:
        """Return the first strand that has no group."""
        number = 0
        while number in self.done:
            number += 1
        return number


def find_groups(graph: StrandGraph, n_lanes: int, writers: Mapping[str, frozenset[int]]) -> tuple[Group, ...]:
    """Return groups of strands in an order in which they can run, of least cost as far as the search sees.

    Dynamic programming: states are sorted by the first strand in program order that has no group yet. It runs next,
    alone or together with others that are alike and have nothing to wait for; at each strand the best states are kept.

    Args:
        graph: The strands.
        n_lanes: Number of lanes.
        writers: By temporary array, the strands that write it.
    """
    model = CostModel(graph, n_lanes, writers)
    n = len(graph.strands)
    beams: list[list[_State]] = [[] for _ in range(n + 1)]
    beams[0] = [_State((), frozenset(), {}, 0.0, 0.0)]
    for number in range(n):
        for state in _best(beams[number]):
            for group in _options(model, state, number):
                done = state.done.union(group.members)
                cost = state.cost + group.cost
                packs = {**state.packs, **group.packs}
                new = _State((*state.groups, group), done, packs, cost, cost + model.hoped(done))
                beams[new.first_open].append(new)
    return _best(beams[n])[0].groups


def _best(states: list[_State]) -> list[_State]:
    """Return the best states; of those that have done the same in the same way, the first."""
    found: dict[Any, _State] = {}
    for state in sorted(states, key=lambda s: (s.estimate, len(s.groups))):
        found.setdefault((state.done, tuple(sorted(state.packs.items()))), state)
        if len(found) == _MAX_STATES:
            break
    return list(found.values())


def _options(model: CostModel, state: _State, number: int) -> list[Group]:
    """Return the groups in which a strand may run next."""
    strands = model.graph.strands
    options = [Group((number,), {}, model.alone(number))]
    strand = strands[number]
    if strand.obstacle:
        return options
    others = [
        s.number
        for s in strands[number + 1 :]
        if s.number not in state.done
        and not s.obstacle
        and model.graph.kinds[s.number] == model.graph.kinds[number]
        and model.graph.waits[s.number] <= state.done
    ]
    found: list[tuple[float, int, Group]] = []
    for members in _subsets(number, others, model.n_lanes):
        lanes = _assign_lanes([strands[m] for m in members], state.packs)
        group = model.together(lanes, state.packs)
        saved = sum(model.alone(m) for m in members) - group.cost
        if saved > 0:
            found.append((-saved / len(members), len(found), group))
    return [g for _, _, g in sorted(found, key=lambda f: f[:2])[:_MAX_OPTIONS]] + options


def _subsets(number: int, others: Sequence[int], n_lanes: int) -> list[tuple[int, ...]]:
    """Return sets of strands that contain one: all if they are few, otherwise those at regular distances."""
    sizes = range(1, min(n_lanes - 1, len(others)) + 1)
    if sum(comb(len(others), size) for size in sizes) <= _MAX_SUBSETS:
        return [(number, *chosen) for size in sizes for chosen in combinations(others, size)]
    every = [number, *others]
    found: dict[tuple[int, ...], None] = {}
    for stride in range(1, len(every)):
        for size in sizes:
            chosen = tuple(every[::stride][: size + 1])
            if len(chosen) == size + 1:
                found[chosen] = None
    return list(found)


def _assign_lanes(members: Sequence[Strand], packs: Packs) -> tuple[int | None, ...]:
    """Return a strand for each lane: that of the packed arrays it reads, if they agree, or else in program order.

    There are as many lanes as it takes, rounded up to a power of two.
    """
    wanted = []
    for hole in range(len(members[0].holes)):
        places = [_find_place(strand.holes[hole], packs) for strand in members]
        if None not in places:
            lanes = [place[0].lane for place in places if place is not None]
            packs_read = {place[0].pack for place in places if place is not None}
            if len(set(lanes)) == len(lanes) and len(packs_read) == 1:
                wanted = lanes
                break
    by_lane = dict(zip(wanted or range(len(members)), (m.number for m in members), strict=True))
    width = 1 << max(by_lane).bit_length()
    return tuple(by_lane.get(lane) for lane in range(max(2, width)))
