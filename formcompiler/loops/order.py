"""In which order a kernel runs: which loops are nested in which, and what comes first inside a loop.

Loopy leaves this open until a kernel is linearized. Here it is fixed by the rules below, so that "before" has a
meaning: a kernel that has a linearization runs as that says; otherwise

* loops are nested as ``loop_priority`` and the parameters of domains demand, a loop around more instructions outside
  one around fewer, and else in the order of ``kernel.domains``;
* instructions and inner loops of a loop run in the order of ``kernel.instructions``, as far as ``depends_on`` allows.

All loops run upward through their points.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import islpy as isl
import loopy as lp
from loopy.schedule import EnterLoop, LeaveLoop, RunInstruction, ScheduleItem

from formcompiler.errors import TransformError


@dataclass(frozen=True)
class LoopNest:
    """Everything inside one outermost loop.

    Attributes:
        inames: Its loops, each before those inside it.
        band: The loops that all its instructions share, outermost first.
        instructions: Ids of its instructions, in program order.
    """

    inames: tuple[str, ...]
    band: tuple[str, ...]
    instructions: tuple[str, ...]

    @property
    def is_perfect(self) -> bool:
        """Return whether all instructions are in all loops."""
        return self.band == self.inames


@dataclass(frozen=True)
class ProgramOrder:
    """When each instance of each instruction runs.

    An instance runs at the time ``(p0, i0, p1, i1, ..., pn)``, compared lexicographically: position and loop index by
    turns.

    Attributes:
        loops: By instruction, its loops, outermost first.
        positions: By instruction, its positions p; one more than it has loops.
    """

    loops: Mapping[str, tuple[str, ...]]
    positions: Mapping[str, tuple[int, ...]]

    @property
    def instructions(self) -> tuple[str, ...]:
        """Return all instructions in program order."""
        return tuple(sorted(self.positions, key=self.positions.__getitem__))

    def common_loops(self, first: str, second: str) -> tuple[str, ...]:
        """Return the loops around both instructions, outermost first."""
        common = []
        for a, b in zip(self.loops[first], self.loops[second], strict=False):
            if a != b:
                break
            common.append(a)
        return tuple(common)

    @property
    def nests(self) -> tuple[LoopNest, ...]:
        """Return the loop nests in program order."""
        groups: dict[str, list[str]] = {}
        for instruction in self.instructions:
            if self.loops[instruction]:
                groups.setdefault(self.loops[instruction][0], []).append(instruction)
        return tuple(self._make_nest(group) for group in groups.values())

    def _make_nest(self, instructions: Sequence[str]) -> LoopNest:
        inames = tuple(dict.fromkeys(i for name in instructions for i in self.loops[name]))
        band = self.loops[instructions[0]]
        for name in instructions:
            band = band[: len(self.common_loops(instructions[0], name))]
        return LoopNest(inames, band, tuple(instructions))


def find_order(kernel: lp.LoopKernel) -> ProgramOrder:
    """Return in which order the kernel runs.

    Raises:
        TransformError: if no order of loops and instructions opens each loop in one place only.
    """
    if kernel.linearization is not None:
        return _order_of_linearization(kernel.linearization)
    rank = {iname: n for n, iname in enumerate(_nesting(kernel))}
    loops = {i.id: tuple(sorted(i.within_inames, key=rank.__getitem__)) for i in kernel.instructions}
    _check_loops_open_once(kernel, loops)
    positions: dict[str, tuple[int, ...]] = {}
    _place(kernel, loops, [i.id for i in kernel.instructions], (), positions)
    return ProgramOrder(loops, positions)


def _order_of_linearization(linearization: Iterable[ScheduleItem]) -> ProgramOrder:
    loops: dict[str, tuple[str, ...]] = {}
    positions: dict[str, tuple[int, ...]] = {}
    stack: list[str] = []
    counters = [0]
    for item in linearization:
        if isinstance(item, EnterLoop):
            stack.append(item.iname)
            counters.append(0)
        elif isinstance(item, LeaveLoop):
            stack.pop()
            counters.pop()
            counters[-1] += 1
        elif isinstance(item, RunInstruction):
            loops[item.insn_id] = tuple(stack)
            positions[item.insn_id] = tuple(counters)
            counters[-1] += 1
    return ProgramOrder(loops, positions)


def _nesting(kernel: lp.LoopKernel) -> list[str]:
    """Return all inames, each before those that must be inside it."""
    inames = [n for domain in kernel.domains for n in domain.get_var_names_not_none(isl.dim_type.set)]
    inside: dict[str, set[str]] = {iname: set() for iname in inames}
    for priority in sorted(kernel.loop_priority):
        chain = [iname for iname in priority if iname in inside]
        for n, outer in enumerate(chain):
            inside[outer] |= set(chain[n + 1 :])
    for domain in kernel.domains:
        for outer in set(domain.get_var_names_not_none(isl.dim_type.param)) & set(inside):
            inside[outer] |= set(domain.get_var_names_not_none(isl.dim_type.set))
    around: dict[str, set[str]] = defaultdict(set)
    for instruction in kernel.instructions:
        for iname in instruction.within_inames:
            around[iname].add(instruction.id)
    for instruction in kernel.instructions:
        for outer in instruction.within_inames:
            inside[outer] |= {i for i in instruction.within_inames if around[i] < around[outer]}
    return _sort(inames, inside, lambda names: f"loops {names} would each have to be inside of another")


def _sort(items: Iterable[str], successors: Mapping[str, set[str]], complain: Callable[[str], str]) -> list[str]:
    """Return items sorted topologically; those that are free keep their order.

    Raises:
        TransformError: if there is a cycle.
    """
    rank = {item: n for n, item in enumerate(items)}
    names = list(rank)
    waiting = dict.fromkeys(names, 0)
    for item in names:
        for successor in successors[item]:
            waiting[successor] += 1
    ready = [rank[item] for item in names if not waiting[item]]
    found = []
    while ready:
        item = names[heapq.heappop(ready)]
        found.append(item)
        for successor in successors[item]:
            waiting[successor] -= 1
            if not waiting[successor]:
                heapq.heappush(ready, rank[successor])
    if len(found) < len(names):
        raise TransformError(complain(", ".join(item for item in names if waiting[item])))
    return found


def _check_loops_open_once(kernel: lp.LoopKernel, loops: Mapping[str, tuple[str, ...]]) -> None:
    outer: dict[str, tuple[tuple[str, ...], str]] = {}
    for name, chain in loops.items():
        for n, iname in enumerate(chain):
            prefix, first = outer.setdefault(iname, (chain[:n], name))
            if prefix != chain[:n]:
                raise TransformError(
                    f"kernel {kernel.name}: loop {iname} would have to be opened twice, for instruction {first} inside "
                    f"({', '.join(prefix)}) and for {name} inside ({', '.join(chain[:n])}); "
                    "give one of them a loop of its own with loopy.duplicate_inames"
                )


def _place(
    kernel: lp.LoopKernel,
    loops: Mapping[str, tuple[str, ...]],
    instructions: Sequence[str],
    prefix: tuple[int, ...],
    positions: dict[str, tuple[int, ...]],
) -> None:
    """Number what stands directly inside the loop at ``prefix``, and then what is inside of that."""
    depth = len(prefix)
    key = {i: f"loop {loops[i][depth]}" if len(loops[i]) > depth else f"instruction {i}" for i in instructions}
    groups: dict[str, list[str]] = {}
    for instruction in instructions:
        groups.setdefault(key[instruction], []).append(instruction)
    after: dict[str, set[str]] = {group: set() for group in groups}
    for instruction in instructions:
        for before in kernel.id_to_insn[instruction].depends_on:
            if before in key and key[before] != key[instruction]:
                after[key[before]].add(key[instruction])
    order = _sort(groups, after, partial(_say_circle, kernel.name))
    for n, group in enumerate(order):
        if group.startswith("loop "):
            _place(kernel, loops, groups[group], (*prefix, n), positions)
        else:
            positions[groups[group][0]] = (*prefix, n)


def _say_circle(kernel: str, names: str) -> str:
    return (
        f"kernel {kernel}: {names} would each have to run after another; loopy makes readers of a variable wait for "
        "its only writer: seq_dependencies=True in make_kernel lets instructions run in the order of the text"
    )
