"""How instructions are nested in loops, read off a linearization."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property

import loopy as lp
from loopy.kernel.data import VectorizeTag
from loopy.schedule import EnterLoop, LeaveLoop, RunInstruction, ScheduleItem

Loops = tuple[str, ...]
"""Inames of nested loops, outermost first."""


@dataclass(frozen=True)
class Nest:
    """The loops of a kernel.

    Attributes:
        items: The linearization.
        lanes: Inames of lanes that no loop runs over: instructions run for all lanes at once.
        loops: Loops around each instruction.
        lanes_of: Lanes of each instruction.
        position: Index in the linearization of each instruction.
        entry: Index of the item that opens each loop.
        exit: Index of the item that closes each loop.
    """

    items: tuple[ScheduleItem, ...]
    lanes: frozenset[str] = frozenset()
    loops: dict[str, Loops] = field(default_factory=dict)
    lanes_of: dict[str, frozenset[str]] = field(default_factory=dict)
    position: dict[str, int] = field(default_factory=dict)
    entry: dict[str, int] = field(default_factory=dict)
    exit: dict[str, int] = field(default_factory=dict)

    def index(self, item: ScheduleItem) -> int:
        """Return the index of an item."""
        if isinstance(item, RunInstruction):
            return self.position[item.insn_id]
        if isinstance(item, EnterLoop):
            return self.entry[item.iname]
        return self.exit[item.iname] if isinstance(item, LeaveLoop) else self.items.index(item)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Return the ids of the instructions in the order of the linearization."""
        return tuple(self.position)

    def looped_lanes(self, kernel: lp.LoopKernel) -> frozenset[str]:
        """Return the inames of lanes that a loop runs over."""
        return frozenset(iname for iname in self.entry if kernel.iname_tags_of_type(iname, VectorizeTag))

    def close(self, loops: Loops, inames: Collection[str]) -> frozenset[str]:
        """Return inames with all loops that these are nested in.

        A loop is nested in those around it that end at another place, so that some instruction lies between them.
        Loops that are opened together (rows and columns of a matrix) are not nested in one another.

        Args:
            loops: Loops of an instruction.
            inames: Some of them.
        """
        result = set(inames)
        for length in self._levels.get(loops, ()):
            if any(iname in inames for iname in loops[length:]):
                result.update(loops[:length])
        return frozenset(result)

    @cached_property
    def _levels(self) -> dict[Loops, tuple[int, ...]]:
        """Return the numbers of outer loops that instructions have which lie around each innermost body."""
        bodies = set(self.loops.values())
        return {body: tuple(n for n in range(len(body)) if body[:n] in bodies) for body in bodies}


def read_nest(kernel: lp.LoopKernel) -> Nest:
    """Return the nest of a linearized kernel.

    Inames that no item opens are lanes if they are tagged as vectors; others (parallel hardware axes) count as
    outermost loops.
    """
    items = tuple(kernel.linearization or ())
    opened = {item.iname for item in items if isinstance(item, EnterLoop)}
    vectors = {i for i in kernel.inames if i not in opened and kernel.iname_tags_of_type(i, VectorizeTag)}
    nest = Nest(items, frozenset(vectors))
    instructions = kernel.id_to_insn
    known: dict[tuple[Loops, frozenset[str]], tuple[Loops, frozenset[str]]] = {}
    stack: Loops = ()
    for index, item in enumerate(nest.items):
        if isinstance(item, RunInstruction):
            key = (stack, instructions[item.insn_id].within_inames)
            if key not in known:
                known[key] = ((*sorted(key[1].difference(vectors, stack)), *stack), key[1] & nest.lanes)
            nest.loops[item.insn_id], nest.lanes_of[item.insn_id] = known[key]
            nest.position[item.insn_id] = index
        elif isinstance(item, EnterLoop):
            stack = (*stack, item.iname)
            nest.entry[item.iname] = index
        elif isinstance(item, LeaveLoop):
            nest.exit[stack[-1]] = index
            stack = stack[:-1]
    return nest


def least_prefix(loops: Loops, inames: Collection[str]) -> Loops:
    """Return the fewest outer loops that contain all of the given inames."""
    return loops[: max((loops.index(iname) + 1 for iname in inames), default=0)]


def common_prefix(nests: Iterable[Loops]) -> Loops:
    """Return the outer loops that all instructions share."""
    first, *rest = nests
    length = len(first)
    for loops in rest:
        same = 0
        while same < min(length, len(loops)) and loops[same] == first[same]:
            same += 1
        length = same
    return first[:length]
