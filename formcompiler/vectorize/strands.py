"""Strands: the parts of loop nests that compute one thing each, and which of them are alike.

The instructions of a nest that are connected through scalars, or through dependences in both directions, are a
strand; different strands of a nest can run one after the other, each in loops of its own. Two strands are *alike* if
they have the same loops and the same instructions up to names of scalars, array accesses and numbers: the *holes* of
their common skeleton (superword packing: S. Larsen, S. Amarasinghe, Exploiting superword level parallelism with
multimedia instruction sets, PLDI 2000; here of whole loop nests).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import loopy as lp
import pymbolic.primitives as prim
from pymbolic.mapper import IdentityMapper
from pymbolic.mapper.substitutor import SubstitutionMapper, make_subst_func
from pytools.graph import compute_sccs

from formcompiler.kernel.flops import count_expression_operations, iname_extent, is_box
from formcompiler.kernel.names import names_in
from formcompiler.kernel.terms import sum_of
from formcompiler.loops.dependence import Dependence
from formcompiler.loops.order import ProgramOrder

Expression = Any
_ScalarUsers = dict[str, list[tuple[str, bool]]]


@dataclass(frozen=True)
class Step:
    """One instruction of a skeleton.

    Attributes:
        loops: Positions of its loops among those of the strand.
        target: Canonical name of a scalar, or the hole that is written.
        value: Expression over canonical names and holes.
        reads: Numbers of the holes that the value has.
        n_operations: Floating-point operations of the value.
    """

    loops: tuple[int, ...]
    target: Expression
    value: Expression
    reads: tuple[int, ...]
    n_operations: int

    @cached_property
    def written(self) -> int | None:
        """Return the number of the hole that is written; None for a scalar."""
        return hole_number(self.target)


@dataclass(frozen=True, eq=False)
class Strand:
    """One strand.

    Attributes:
        number: Its place in program order.
        nest: Number of the nest that it is from.
        instructions: Its instructions, in program order.
        loops: Its inames, each before those inside it.
        extents: How often each loop runs.
        steps: Its instructions as a skeleton.
        holes: What stands in the holes: array accesses, scalars from outside of the nest, numbers; indices are over
            canonical names of loops.
        scalars: Its own scalars, by canonical name.
        types: Types of its scalars and of what stands in its holes.
        obstacle: Why it cannot run in lanes, or "".
    """

    number: int
    nest: int
    instructions: tuple[Any, ...]
    loops: tuple[str, ...]
    extents: tuple[int, ...]
    steps: tuple[Step, ...]
    holes: tuple[Expression, ...]
    scalars: Mapping[str, str]
    types: tuple[str, ...]
    obstacle: str

    @cached_property
    def signature(self) -> tuple[Any, ...]:
        """Return what strands that are alike have in common."""
        return self.extents, self.types, self.steps

    @property
    def is_pointwise(self) -> bool:
        """Return whether the strand touches one element of each array at each point of its loops, all shared."""
        found: dict[str, set[str]] = {}
        for content in self.holes:
            if isinstance(content, prim.Subscript):
                found.setdefault(name_of(content), set()).add(str(content))
        return bool(self.loops) and self.n_common_loops == len(self.loops) and all(len(f) == 1 for f in found.values())

    @cached_property
    def n_common_loops(self) -> int:
        """Return how many loops, from the outermost one, all steps share."""
        return min(n for n in range(len(self.loops) + 1) if n == len(self.loops) or self._is_inner(n))

    def _is_inner(self, position: int) -> bool:
        return any(position not in step.loops for step in self.steps)

    def n_trips(self, step: Step) -> int:
        """Return how often a step runs."""
        trips = 1
        for loop in step.loops:
            trips *= self.extents[loop]
        return trips

    def __str__(self) -> str:
        """Return its first and last instruction."""
        first, last = self.instructions[0], self.instructions[-1]
        return f"{first.id}: {first.assignee} = .." + ("" if first is last else f" to {last.id}: {last.assignee} = ..")


@dataclass(frozen=True)
class StrandGraph:
    """All strands of a kernel, in program order, and which must wait for which.

    Attributes:
        strands: The strands.
        waits: By number of a strand, the numbers of those that come before it.
        reasons: A dependence, or one in words, for each pair that must keep its order.
    """

    strands: tuple[Strand, ...]
    waits: tuple[frozenset[int], ...]
    reasons: Mapping[tuple[int, int], Dependence | str]

    @cached_property
    def kinds(self) -> tuple[int, ...]:
        """Return a number for each strand, the same for those that are alike."""
        known: dict[Any, int] = {}
        return tuple(known.setdefault(s.signature, s.number) for s in self.strands)

    def before(self, number: int) -> frozenset[int]:
        """Return all strands that a strand must wait for, directly or through others."""
        found: set[int] = set()
        stack = [number]
        while stack:
            new = self.waits[stack.pop()] - found
            found |= new
            stack += new
        return frozenset(found)


def name_of(access: Expression) -> str:
    """Return the name of the scalar or array that is accessed."""
    return str(access.name if isinstance(access, prim.Variable) else access.aggregate.name)


def hole(number: int) -> prim.Variable:
    """Return the name of a hole in a skeleton."""
    return prim.Variable(f"hole {number}")


def hole_number(expression: Expression) -> int | None:
    """Return the number of a hole, None for anything else."""
    is_hole = isinstance(expression, prim.Variable) and expression.name.startswith("hole ")
    return int(expression.name[5:]) if is_hole else None


def loop_name(position: int) -> str:
    """Return the canonical name of a loop."""
    return f"loop {position}"


def find_added(step: Step, strands: Iterable[Strand | None]) -> Expression | None:
    """Return what a step adds to what it writes; None if it does not just add, in one of the strands at least."""
    if not isinstance(step.value, prim.Sum) or step.written is None:
        return None
    read = hole_number(step.value.children[0])
    if read is None or any(s is not None and s.holes[read] != s.holes[step.written] for s in strands):
        return None
    rest = step.value.children[1:]
    return sum_of(rest)


def find_strands(kernel: lp.LoopKernel, order: ProgramOrder, dependences: Iterable[Dependence]) -> StrandGraph:
    """Return the strands of a kernel whose instructions are in program order.

    Args:
        kernel: The kernel.
        order: Its order.
        dependences: All that must be kept, between accesses to arrays.
    """
    nests = _find_nests(kernel, order)
    nest_of = {i: n for n, nest in enumerate(nests) for i in nest}
    edges: dict[tuple[str, str], Dependence | str] = {
        (d.source.instruction, d.sink.instruction): d for d in dependences
    }
    scalar_users = _scalar_users(kernel)
    for pair, text in _scalar_conflicts(scalar_users, nest_of).items():
        edges.setdefault(pair, text)
    parts = [part for nest in nests for part in _split_nest(scalar_users, nest, edges)]
    rank = {i.id: n for n, i in enumerate(kernel.instructions)}
    parts = _in_order(sorted(parts, key=lambda part: rank[part[0]]), edges)
    strand_of = {i: n for n, part in enumerate(parts) for i in part}
    reasons = {(strand_of[a], strand_of[b]): text for (a, b), text in edges.items() if strand_of[a] != strand_of[b]}
    waits: list[set[int]] = [set() for _ in parts]
    for before, after in reasons:
        waits[after].add(before)
    between = {name for name, users in scalar_users.items() if len({nest_of[i] for i, _ in users}) > 1}
    strands = [_StrandWriter(kernel, order, part, between).make(n, nest_of[part[0]]) for n, part in enumerate(parts)]
    return StrandGraph(tuple(strands), tuple(map(frozenset, waits)), reasons)


def _in_order(parts: Sequence[list[str]], edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return parts such that each comes after all that it waits for, and else in their order.

    The first instruction of a part may run before another part that its last instruction waits for.
    """
    part_of = {i: n for n, part in enumerate(parts) for i in part}
    waits: list[set[int]] = [set() for _ in parts]
    for before, after in edges:
        if part_of[before] != part_of[after]:
            waits[part_of[after]].add(part_of[before])
    done: dict[int, None] = {}
    while len(done) < len(parts):
        done[next(n for n in range(len(parts)) if n not in done and waits[n] <= done.keys())] = None
    return [parts[n] for n in done]


def _find_nests(kernel: lp.LoopKernel, order: ProgramOrder) -> list[list[str]]:
    """Return the instructions of each nest; an instruction outside of loops is a nest of its own."""
    nests: dict[str, list[str]] = {}
    for instruction in kernel.instructions:
        loops = order.loops[instruction.id]
        nests.setdefault(f"loop {loops[0]}" if loops else instruction.id, []).append(instruction.id)
    return list(nests.values())


def _scalar_users(kernel: lp.LoopKernel) -> _ScalarUsers:
    """Return for each scalar temporary the instructions that touch it, in order, and whether they write it."""
    scalars = {n for n, t in kernel.temporary_variables.items() if not t.shape}
    users: _ScalarUsers = {}
    for i in kernel.instructions:
        for name in sorted(i.read_dependency_names() & scalars):
            users.setdefault(name, []).append((i.id, False))
        for name in sorted(scalars.intersection(i.assignee_var_names())):
            users.setdefault(name, []).append((i.id, True))
    return users


def _scalar_conflicts(scalar_users: _ScalarUsers, nest_of: Mapping[str, int]) -> dict[tuple[str, str], str]:
    """Return pairs of instructions that touch one scalar in different nests, in program order; one of them writes."""
    found = {}
    for name, users in scalar_users.items():
        for n, (first, writes) in enumerate(users):
            for second, writes_too in users[n + 1 :]:
                if (writes or writes_too) and nest_of[first] != nest_of[second]:
                    found[first, second] = f"{second} must run after {first}, because both touch {name}"
    return found


def _split_nest(scalar_users: _ScalarUsers, nest: Sequence[str], edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return the strands of a nest: connected through scalars that it writes, or dependent on each other both ways."""
    members = set(nest)
    after: dict[str, set[str]] = {i: set() for i in nest}
    for first, second in edges:
        if first in members and second in members:
            after[first].add(second)
    for users in scalar_users.values():
        inside = [i for i, _ in users if i in members]
        if any(writes for i, writes in users if i in members):
            for a, b in pairwise(inside):
                after[a].add(b)
                after[b].add(a)
    rank = {i: n for n, i in enumerate(nest)}
    return [sorted(component, key=rank.__getitem__) for component in compute_sccs(after)]


class _StrandWriter:
    """Makes the skeleton of one strand."""

    def __init__(self, kernel: lp.LoopKernel, order: ProgramOrder, part: Sequence[str], between: set[str]) -> None:
        self._kernel = kernel
        self._order = order
        self._between = between
        self._instructions = [kernel.id_to_insn[i] for i in part]
        self._loops = tuple(dict.fromkeys(iname for i in part for iname in order.loops[i]))
        own = {n for i in self._instructions if isinstance(i.assignee, prim.Variable) for n in i.assignee_var_names()}
        self._own = {n: f"scalar {k}" for k, n in enumerate(dict.fromkeys(self._written_scalars(own)))}

    def _written_scalars(self, own: set[str]) -> Iterable[str]:
        return (n for i in self._instructions for n in i.assignee_var_names() if n in own)

    def make(self, number: int, nest: int) -> Strand:
        """Return the strand."""
        canonical = {iname: prim.Variable(loop_name(n)) for n, iname in enumerate(self._loops)}
        mapper = _SkeletonMapper(self._own, SubstitutionMapper(make_subst_func(canonical)))
        steps = []
        for instruction in self._instructions:
            first = len(mapper.holes)
            value = mapper(instruction.expression)
            reads = tuple(range(first, len(mapper.holes)))
            steps.append(
                Step(
                    tuple(self._loops.index(i) for i in self._order.loops[instruction.id]),
                    mapper(instruction.assignee),
                    value,
                    reads,
                    count_expression_operations(instruction.expression),
                )
            )
        return Strand(
            number,
            nest,
            tuple(self._instructions),
            self._loops,
            tuple(iname_extent(self._kernel, i) for i in self._loops),
            tuple(steps),
            tuple(mapper.holes),
            {canonical: name for name, canonical in self._own.items()},
            tuple(map(self._type, (*self._own, *mapper.holes))),
            self._obstacle(),
        )

    def _type(self, expression: Expression) -> str:
        if not isinstance(expression, prim.ExpressionNode | str):
            return "number"
        name = expression if isinstance(expression, str) else name_of(expression)
        dtype = self._kernel.get_var_descriptor(name).dtype
        return "unknown" if dtype is None else str(dtype.numpy_dtype)

    def _obstacle(self) -> str:
        """Return why the strand cannot run in lanes, or ""."""
        if not self._loops:
            return "it is not in a loop"
        if used_elsewhere := sorted(self._between & self._own.keys()):
            return f"its scalar {used_elsewhere[0]} is used in another nest"
        for iname in self._loops:
            if not is_box(self._kernel, iname):
                return f"loop {iname} has a number of trips that is known at run time only"
        for i in self._instructions:
            if i.predicates:
                return f"instruction {i.id} has a predicate"
            (name,) = i.assignee_var_names()
            dtype = self._kernel.get_var_descriptor(name).dtype
            if dtype is None or dtype.numpy_dtype.kind != "f":
                return f"instruction {i.id} computes {name}, which is no real number"
            if not set(self._own).isdisjoint(_index_names(i)):
                return f"instruction {i.id} computes its own indices"
        if {self._type(e) for e in self._own} - {"number"} and len(set(self._float_types())) > 1:
            return "it mixes numbers of different types"
        return ""

    def _float_types(self) -> Iterable[str]:
        for i in self._instructions:
            for name in sorted((names_in(i.expression) | set(i.assignee_var_names())) - set(self._loops)):
                array = {**self._kernel.arg_dict, **self._kernel.temporary_variables}.get(name)
                if array is not None and (array.dtype is None or array.dtype.numpy_dtype.kind != "i"):
                    yield self._type(name)


def _index_names(instruction: Any) -> frozenset[str]:
    """Return all names in indices of an instruction."""
    finder = _Indices()
    finder(instruction.assignee)
    finder(instruction.expression)
    return frozenset(finder.found)


class _Indices(IdentityMapper[[]]):
    """Collects the names in indices."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def map_subscript(self, expr: Any) -> Any:
        for index in expr.index_tuple:
            self.found |= names_in(index)
        return expr


class _SkeletonMapper(IdentityMapper[[]]):
    """Replaces own scalars by canonical names, and what may differ between strands by holes."""

    def __init__(self, own: Mapping[str, str], to_canonical: Callable[[Expression], Expression]) -> None:
        super().__init__()
        self._own = own
        self._to_canonical = to_canonical
        self.holes: list[Expression] = []

    def _hole(self, content: Expression) -> Expression:
        self.holes.append(self._to_canonical(content))
        return hole(len(self.holes) - 1)

    def map_constant(self, expr: Any) -> Any:
        return self._hole(expr)

    def map_variable(self, expr: Any) -> Any:
        return prim.Variable(self._own[expr.name]) if expr.name in self._own else self._hole(expr)

    def map_subscript(self, expr: Any) -> Any:
        return self._hole(expr)

    def map_call(self, expr: Any) -> Any:
        return prim.Call(expr.function, tuple(map(self.rec, expr.parameters)))
