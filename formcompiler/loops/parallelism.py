"""Which loops of a nest can run in parallel.

From the dependence matrix D, rows the loops and columns the distance vectors (Hu, ECE 734, loop transformation):

* *Doall innermost*: the last row of D is zero. All iterations of the innermost loop are independent.
* *Inner parallelism*: if all vectors have their first non-zero entry above level k, all loops from level k on run in
  parallel, for fixed outer loops. Loop by loop: a loop that carries no dependence is a Doall loop.
* *Outer parallelism*: a row of zeros. The loop runs in parallel as a whole, with everything inside in sequence.
* *Shift invariance*: the dependences of each point are those of any other, shifted; the nest is regular and without
  conditions.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import islpy as isl
import loopy as lp

from formcompiler.errors import TransformError
from formcompiler.loops.accesses import AccessFinder, iteration_domain
from formcompiler.loops.dependence import Dependence, NestDependences
from formcompiler.loops.iteration_space import to_iteration_space
from formcompiler.loops.references import find_code_uses


def is_doall(nest: NestDependences, iname: str, *, ignoring: Collection[str] = ()) -> bool:
    """Return whether all iterations of a loop can run at once, for fixed loops around it: it carries no dependence.

    Args:
        nest: The nest.
        iname: The loop.
        ignoring: Variables whose dependences do not count, because each iteration will get its own.

    Raises:
        TransformError: if the nest has no such loop.
    """
    if iname not in nest.inames:
        raise TransformError(f"the nest has no loop '{iname}'; its loops are {', '.join(nest.inames)}")
    return all(d.variable in ignoring for d in nest.carried_by(iname))


def find_doall_loops(nest: NestDependences, *, ignoring: Collection[str] = ()) -> tuple[str, ...]:
    """Return the loops whose iterations can run at once, for fixed loops around them, outermost first."""
    return tuple(iname for iname in nest.inames if is_doall(nest, iname, ignoring=ignoring))


def has_doall_innermost(nest: NestDependences) -> bool:
    """Return whether the last row of D is zero: the lecture's test for a vectorizable innermost loop.

    It is sufficient: `is_doall` also finds innermost loops whose dependences are all carried further out.
    """
    return all(vector[-1] == 0 for vector in nest.vectors)


def inner_parallel_level(nest: NestDependences) -> int:
    """Return the smallest level k such that all loops from level k on can run in parallel, for fixed outer loops.

    Levels count from 1; the number of loops plus one means that there are no such loops.
    """
    return max(nest.levels, default=0) + 1


def find_outer_parallel_loops(nest: NestDependences) -> tuple[str, ...]:
    """Return the loops with a zero row in D: each can run in parallel with all that is inside."""
    return tuple(iname for n, iname in enumerate(nest.inames) if all(vector[n] == 0 for vector in nest.vectors))


def is_shift_invariant(nest: NestDependences) -> bool:
    """Return whether the whole dependence graph is one node's dependences, shifted to every point of a regular nest."""
    if not nest.nest.is_perfect:
        return False
    finder = AccessFinder(nest.kernel, nest.order)
    if any(isinstance(nest.kernel.id_to_insn[name], lp.CInstruction) for name in nest.nest.instructions):
        return False  # nobody knows under which conditions it does what
    if any(a.is_conditional for name in nest.nest.instructions for a in finder.accesses(name)):
        return False
    points = iteration_domain(nest.kernel, nest.inames)
    try:
        if not to_iteration_space(points).is_regular:
            return False
    except TransformError:
        return False
    return all(_is_uniform(dependence, points) for dependence in nest.dependences)


def _is_uniform(dependence: Dependence, points: isl.Set) -> bool:
    """Return whether a dependence is one constant vector, at all points that it does not lead out of the nest."""
    if len(dependence.vectors) != 1 or not dependence.is_constant:
        return False
    names = [f"i{n}" for n in range(len(dependence.loops))]
    moved = (f"{name} + {d}" for name, d in zip(names, dependence.vectors[0], strict=True))
    shift = isl.Map(f"{{ [{', '.join(names)}] -> [{', '.join(moved)}] }}")
    expected = shift.intersect_domain(points).intersect_range(points)
    found = dependence.relation
    for kind in (isl.dim_type.in_, isl.dim_type.out):
        found = found.set_tuple_name(kind, "i")
        expected = expected.set_tuple_name(kind, "i")
    return bool(found.is_equal(expected))


@dataclass(frozen=True, eq=False)
class LaneLoop:
    """What it takes to run the iterations of one loop as lanes.

    Attributes:
        iname: The loop.
        privatize: Temporaries that each lane must have for itself (`privatize`), sorted.
        blockers: Dependences that forbid it; none if it can be done.
    """

    iname: str
    privatize: tuple[str, ...]
    blockers: tuple[Dependence, ...]

    @property
    def is_legal(self) -> bool:
        """Return whether the loop can become lanes."""
        return not self.blockers


def find_lane_loops(nest: NestDependences) -> tuple[LaneLoop, ...]:
    """Return for each loop of a nest, outermost first, what it takes to run its iterations as lanes."""
    return tuple(_examine_lanes(nest, iname) for iname in nest.inames)


def _examine_lanes(nest: NestDependences, iname: str) -> LaneLoop:
    carried = nest.carried_by(iname)
    private = {
        variable
        for variable in dict.fromkeys(d.variable for d in carried)
        if find_privatization_obstacle(nest.kernel, nest.dependences, variable, iname) is None
    }
    return LaneLoop(iname, tuple(sorted(private)), tuple(d for d in carried if d.variable not in private))


def find_privatization_obstacle(
    kernel: lp.LoopKernel, dependences: Collection[Dependence], variable: str, iname: str
) -> str | None:
    """Return why a variable cannot have a value of its own for each iteration of a loop, or None if it can.

    It must be a temporary that is used inside of the loop only, and each iteration must read only what it wrote.

    Args:
        kernel: The kernel.
        dependences: At least all true dependences on the variable.
        variable: The variable.
        iname: The loop.
    """
    temporary = kernel.temporary_variables.get(variable)
    if temporary is None:
        return f"{variable} is not a temporary: its values are seen outside of the kernel"
    if temporary.initializer is not None or temporary.base_storage:
        return f"{variable} has an initializer or shares its memory"
    for instruction in kernel.instructions:
        if isinstance(instruction, lp.CInstruction) and variable in find_code_uses(instruction).reads:
            return f"instruction {instruction.id} is C code and uses {variable} by this name"
    users = kernel.reader_map().get(variable, set()) | kernel.writer_map().get(variable, set())
    for name in sorted(users):
        if iname not in kernel.id_to_insn[name].within_inames:
            return f"instruction {name} uses {variable} outside of loop {iname}"
    for dependence in dependences:
        if dependence.variable == variable and dependence.kind == "true" and iname in dependence.crossed:
            return f"an iteration of {iname} reads what another wrote: {dependence}"
    return None
