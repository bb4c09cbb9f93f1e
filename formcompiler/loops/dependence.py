"""Dependences: which iteration must run before which, because both touch the same element and one of them writes it.

An iteration ``H(j)`` depends on ``H(i)`` if i runs before j and

* j reads what i wrote last (*true* dependence),
* j is the next to overwrite what i has read (*anti*-dependence), or
* j is the next to overwrite what i wrote (*output* dependence).

All others follow from these by transitivity, so that a schedule that respects them respects all. Only true
dependences carry values; single assignment removes the other two. The *distance vector* is ``d = j - i`` in the loops
that both instructions share, the *dependence matrix* D has these vectors as columns, the *level* of a vector is the
position of its first non-zero entry (from 1), and the loop at that level *carries* the dependence (Hu, ECE 734, loop
transformation).

Relations are exact (`formcompiler.loops.flow`). Where an index is not affine (and no look-up in a constant table), all
elements that could be meant are, and the dependence says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import islpy as isl
import loopy as lp
import numpy as np
import numpy.typing as npt

from formcompiler.errors import TransformError
from formcompiler.loops.accesses import Access, AccessFinder
from formcompiler.loops.flow import FlowFinder, Kind
from formcompiler.loops.order import LoopNest, ProgramOrder, find_order
from formcompiler.loops.program import to_kernel
from formcompiler.loops.vectors import Vector, find_vectors, format_vector, level_of
from formcompiler.loops.visits import VisitedFlow, VisitFinder

_Key = tuple[Kind, int, int]
_KIND_ORDER = {"true": 0, "anti": 1, "output": 2}


@dataclass(frozen=True, eq=False)
class Dependence:
    """What one access must wait for another.

    Attributes:
        kind: "true", "anti" or "output".
        source: The access that comes first.
        sink: The access that must wait.
        loops: The loops around both instructions, outermost first.
        carriers: The loops that carry it, outermost first; none if it stays inside of iterations.
        crossed: The loops of which source and sink are in different iterations, for some pair, outermost first.
    """

    kind: Kind
    source: Access
    sink: Access
    loops: tuple[str, ...]
    carriers: tuple[str, ...]
    crossed: tuple[str, ...]
    _relate: Callable[[], isl.Map]

    @cached_property
    def relation(self) -> isl.Map:
        """Return the pairs of iterations of the source's instruction and of the sink's, in all their loops."""
        return self._relate()

    @cached_property
    def vectors(self) -> tuple[Vector, ...]:
        """Return the distance vectors in the common loops.

        An entry that is not constant is a sign: "+" positive, "-" negative, "0+" not negative, "0-" not positive, "*"
        unknown. The zero vector is a dependence inside of one iteration.
        """
        return find_vectors(self.distances)

    @property
    def is_exact(self) -> bool:
        """Return whether each pair of the relation is a dependence for sure."""
        return self.source.is_exact and self.sink.is_exact

    @property
    def variable(self) -> str:
        """Return the variable that both touch."""
        return self.sink.variable

    @property
    def distances(self) -> isl.Set:
        """Return all distances ``j - i`` in the common loops, exactly."""
        return distance_set(self.relation, len(self.loops))

    @property
    def levels(self) -> tuple[int | None, ...]:
        """Return the level of each vector; None for the zero vector."""
        return tuple(map(level_of, self.vectors))

    @property
    def is_constant(self) -> bool:
        """Return whether all its vectors are constant."""
        return all(isinstance(entry, int) for vector in self.vectors for entry in vector)

    def __str__(self) -> str:
        """Return kind, variable, instructions and vectors."""
        vectors = ", ".join(map(format_vector, self.vectors))
        if not self.loops:
            vectors = "no common loop"
        return (
            f"{self.kind} dependence on {self.variable} from {self.source.instruction} to {self.sink.instruction} "
            f"({self.source} to {self.sink}), distance {vectors} in ({', '.join(self.loops)})"
        )


def distance_set(relation: isl.Map, n_loops: int) -> isl.Set:
    """Return the differences of a relation's pairs in the first loops."""
    relation = relation.project_out(isl.dim_type.in_, n_loops, relation.dim(isl.dim_type.in_) - n_loops)
    relation = relation.project_out(isl.dim_type.out, n_loops, relation.dim(isl.dim_type.out) - n_loops)
    for kind in (isl.dim_type.in_, isl.dim_type.out):
        relation = relation.set_tuple_name(kind, "i")
    return relation.deltas().reset_tuple_id()


@dataclass(frozen=True, eq=False)
class NestDependences:
    """The dependences between the instructions of one loop nest.

    Attributes:
        kernel: The kernel.
        order: When its instructions run.
        nest: The nest.
        dependences: All of them, in program order of the sink.
    """

    kernel: lp.LoopKernel
    order: ProgramOrder
    nest: LoopNest
    dependences: tuple[Dependence, ...]

    @property
    def inames(self) -> tuple[str, ...]:
        """Return the loops, each before those inside it."""
        return self.nest.inames

    @cached_property
    def vectors(self) -> tuple[Vector, ...]:
        """Return the different vectors that some loop carries, with one entry for each loop of the nest.

        A loop that is not around both instructions gets the entry 0, since it cannot carry anything between them.
        """
        found: dict[Vector, None] = {}
        for dependence in self.dependences:
            for vector in dependence.vectors:
                if level_of(vector):
                    by_loop = dict(zip(dependence.loops, vector, strict=True))
                    found[tuple(by_loop.get(iname, 0) for iname in self.inames)] = None
        return tuple(found)

    @property
    def is_constant(self) -> bool:
        """Return whether all vectors are constant."""
        return all(isinstance(entry, int) for vector in self.vectors for entry in vector)

    @property
    def matrix(self) -> npt.NDArray[Any]:
        """Return the dependence matrix D; axes (loop, vector). Integers, or objects if entries are signs."""
        columns = np.array(self.vectors, dtype=np.int64 if self.is_constant else object)
        return columns.reshape(len(self.vectors), len(self.inames)).T

    @property
    def levels(self) -> tuple[int, ...]:
        """Return the level of each column of the matrix, counted from 1."""
        return tuple(level for vector in self.vectors if (level := level_of(vector)) is not None)

    def of_kind(self, *kinds: Kind) -> tuple[Dependence, ...]:
        """Return the dependences of some kinds."""
        return tuple(d for d in self.dependences if d.kind in kinds)

    def carried_by(self, iname: str) -> tuple[Dependence, ...]:
        """Return the dependences that a loop carries."""
        return tuple(d for d in self.dependences if iname in d.carriers)


def analyse(
    program: lp.LoopKernel | lp.TranslationUnit, *, variables: Collection[str] | None = None
) -> tuple[NestDependences, ...]:
    """Return the dependences of each loop nest of a kernel, in program order.

    Args:
        program: The kernel.
        variables: Only dependences on these.

    Raises:
        TransformError: if the kernel cannot be analysed.
    """
    kernel = to_kernel(program)
    order = find_order(kernel)
    finder = _Finder(kernel, order)
    return tuple(
        NestDependences(kernel, order, nest, finder.find(nest.instructions, variables)) for nest in order.nests
    )


def analyse_nest(program: lp.LoopKernel | lp.TranslationUnit, iname: str | None = None) -> NestDependences:
    """Return the dependences of the nest that contains a loop; it may be left out if there is only one nest.

    Raises:
        TransformError: if there is no such nest, or the kernel cannot be analysed.
    """
    kernel = to_kernel(program)
    order = find_order(kernel)
    nests = [nest for nest in order.nests if iname is None or iname in nest.inames]
    if len(nests) != 1:
        every = "; ".join(f"({', '.join(nest.inames)})" for nest in order.nests) or "none"
        wanted = "exactly one loop nest" if iname is None else f"a loop '{iname}'"
        raise TransformError(f"kernel {kernel.name} must have {wanted}; its nests are {every}")
    return NestDependences(kernel, order, nests[0], _Finder(kernel, order).find(nests[0].instructions))


def find_dependences(
    program: lp.LoopKernel | lp.TranslationUnit,
    *,
    variables: Collection[str] | None = None,
) -> tuple[Dependence, ...]:
    """Return the dependences of a whole kernel, also those between nests.

    Args:
        program: The kernel.
        variables: Only dependences on these.

    Raises:
        TransformError: if the kernel cannot be analysed.
    """
    kernel = to_kernel(program)
    order = find_order(kernel)
    return _Finder(kernel, order).find(order.instructions, variables)


class _Finder:
    """Finds the dependences between instructions of one kernel."""

    def __init__(self, kernel: lp.LoopKernel, order: ProgramOrder) -> None:
        self._order = order
        self._accesses = AccessFinder(kernel, order)
        self._visits = VisitFinder(kernel, order)
        self._flows = FlowFinder(order)

    def find(self, instructions: Sequence[str], variables: Collection[str] | None = None) -> tuple[Dependence, ...]:
        """Return them in program order of the sink, then of the source."""
        accesses = [a for name in instructions for a in self._accesses.accesses(name)]
        written = {a.memory for a in accesses if a.is_write}
        accesses = [a for a in accesses if a.memory in written and (variables is None or a.variable in variables)]
        rank = {a.key: n for n, a in enumerate(accesses)}
        by_memory: dict[str, list[Access]] = {}
        for access in accesses:
            by_memory.setdefault(access.memory, []).append(access)
        found = [dependence for group in by_memory.values() for dependence in self._of_memory(group)]
        found.sort(key=lambda d: (rank[d.sink.key], rank[d.source.key], _KIND_ORDER[d.kind]))
        return tuple(found)

    def _of_memory(self, accesses: Sequence[Access]) -> Iterator[Dependence]:
        """Find the dependences between accesses to one memory: by visits if that can be done, or else by isl."""

        @cache
        def relations() -> dict[_Key, isl.Map]:
            return {
                (kind, i, j): self._named(r, accesses[i], accesses[j]) for kind, i, j, r in self._flows.flows(accesses)
            }

        visited = self._visits.flows(accesses)
        if visited is None:
            visited = [self._describe(key, r, accesses) for key, r in relations().items()]
        for flow in visited:
            source, sink = accesses[flow.source], accesses[flow.sink]
            loops = self._order.common_loops(source.instruction, sink.instruction)
            carriers, crossed = (tuple(loops[n] for n in places) for places in (flow.carriers, flow.crossed))
            relate = partial(_look_up, relations, (flow.kind, flow.source, flow.sink))
            yield Dependence(flow.kind, source, sink, loops, carriers, crossed, relate)

    def _describe(self, key: _Key, relation: isl.Map, accesses: Sequence[Access]) -> VisitedFlow:
        kind, source, sink = key
        n_loops = len(self._order.common_loops(accesses[source].instruction, accesses[sink].instruction))
        vectors = find_vectors(distance_set(relation, n_loops))
        levels = sorted({level - 1 for vector in vectors if (level := level_of(vector))})
        crossed = [n for n in range(n_loops) if any(vector[n] != 0 for vector in vectors)]
        return VisitedFlow(kind, source, sink, tuple(levels), tuple(crossed))

    def _named(self, relation: isl.Map, source: Access, sink: Access) -> isl.Map:
        """Return a relation with the names of loops."""
        for end, access in ((isl.dim_type.in_, source), (isl.dim_type.out, sink)):
            for n, iname in enumerate(self._order.loops[access.instruction]):
                relation = relation.set_dim_name(end, n, iname)
        return relation


def _look_up(relations: Callable[[], Mapping[_Key, isl.Map]], key: _Key) -> isl.Map:
    return relations()[key]
