"""Pass: the lanes of all vectors are W quantities of one cell, and in loops over points W points.

Loop nests that compute the same for different quantities become one nest with a loop over quantities, which becomes
the lanes. Between contractions, where quantities meet at each point, the lanes are iterations of the loops over points
(`formcompiler.vectorize.slices`), and the code generator transposes small blocks where lanes change their meaning.

*Rewrite.* Nests, or parts of nests, that are alike (`formcompiler.vectorize.strands`) get a loop over quantities::

    for i: x[i] = 2.0 * c[i];  for j: y[j] = 3.0 * d[j]
    ->  for i: for quantity: xy[i, quantity] = (2.0, 3.0)[quantity] * (c[i], d[i])[quantity]

Before, each value of a temporary array gets an array of its own (`formcompiler.vectorize.webs`).

*Legality.* Parts that run together do not depend on each other, directly or through others, and wait for nothing that
comes later; dependences are those of `formcompiler.loops`.

*Profitability.* Which quantities run together is searched for with a cost model (`formcompiler.vectorize.packing`).

*Failure.* `VectorizationError` says which dependence, or which difference, keeps quantities apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import loopy as lp

from formcompiler.errors import VectorizationError
from formcompiler.loops import analyse_nest, find_dependences, find_order
from formcompiler.naming import Namer
from formcompiler.vectorize.blocks import LaneLoops, make_blocks
from formcompiler.vectorize.cells import check_assignments
from formcompiler.vectorize.choose import Chooser
from formcompiler.vectorize.fusion import QuantityLoop, fuse
from formcompiler.vectorize.packing import CostModel, find_groups
from formcompiler.vectorize.strands import StrandGraph, find_strands
from formcompiler.vectorize.strip import Stripper, examine
from formcompiler.vectorize.webs import find_written_arrays, split_webs


@dataclass(frozen=True)
class QuantityLanes:
    """The pass.

    Attributes:
        lanes: Number of lanes W.
    """

    lanes: int

    def __call__(self, t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
        """Return the kernel with lanes.

        Raises:
            VectorizationError: if no two quantities can, or should, run together.
        """
        fused = fuse_quantities(t_unit.default_entrypoint, self.lanes)
        kernel = fused.kernel
        bodies = [
            examine(
                LaneLoops((loop.iname,), loop.private), [kernel.id_to_insn[i] for i in loop.instructions], loop.around
            )
            for loop in fused.loops
        ]
        for iname in fused.point_loops:
            bodies += Chooser(kernel, analyse_nest(kernel, iname), self.lanes, with_rows=False).choose()[0]
        stripper = Stripper(kernel, self.lanes)
        for body in bodies:
            extents = tuple(int(kernel.get_constant_iname_length(i)) for i in body.choice.inames)
            stripper.strip(body, make_blocks(extents, self.lanes))
        return t_unit.with_kernel(stripper.finish())


@dataclass(frozen=True, eq=False)
class FusedQuantities:
    """A kernel with loops over quantities.

    Attributes:
        kernel: The kernel.
        loops: Its loops over quantities.
        point_loops: Outermost loops of the nests that touch one element of each array at each of their points.
    """

    kernel: lp.LoopKernel
    loops: tuple[QuantityLoop, ...]
    point_loops: tuple[str, ...]


def fuse_quantities(kernel: lp.LoopKernel, n_lanes: int) -> FusedQuantities:
    """Return the kernel with loops over up to W quantities.

    Args:
        kernel: A kernel whose instructions are in program order.
        n_lanes: Number W of quantities that run together, the last ones being padding if they are fewer.

    Raises:
        VectorizationError: if no two quantities can, or should, run together.
    """
    check_assignments(kernel)
    names = {*kernel.arg_dict, *kernel.temporary_variables, *kernel.all_inames()}
    order = find_order(kernel)
    dependences = find_dependences(kernel, variables=find_written_arrays(kernel))
    renamed, kept = split_webs(kernel, order, dependences, Namer(names))
    graph = find_strands(renamed, order, kept)
    writers = _find_writers(renamed, graph)
    groups = find_groups(graph, n_lanes, writers)
    if all(len(group.members) == 1 for group in groups):
        reason = _explain(graph, CostModel(graph, n_lanes, writers))
        raise VectorizationError(f"kernel {kernel.name} has no quantities that can run side by side: {reason}")
    fused, loops = fuse(renamed, graph, groups)
    point_loops = dict.fromkeys(s.loops[0] for s in graph.strands if s.is_pointwise)
    return FusedQuantities(fused, loops, tuple(i for i in point_loops if i in fused.all_inames()))


def _find_writers(kernel: lp.LoopKernel, graph: StrandGraph) -> dict[str, frozenset[int]]:
    """Return for each temporary array the strands that write it."""
    found: dict[str, frozenset[int]] = {}
    for strand in graph.strands:
        for instruction in strand.instructions:
            (name,) = instruction.assignee_var_names()
            temporary = kernel.temporary_variables.get(name)
            if temporary is not None and temporary.shape:
                found[name] = found.get(name, frozenset()) | {strand.number}
    return found


def _explain(graph: StrandGraph, model: CostModel) -> str:
    """Return why no strands run together: what is wrong with those that cost most."""
    strands = sorted((s for s in graph.strands if s.loops), key=lambda s: -model.alone(s.number))
    if not strands:
        return "it has no loops"
    for first, second in combinations(strands, 2):
        if first.obstacle or first.signature != second.signature:
            continue
        a, b = sorted((first.number, second.number))
        if (a, b) in graph.reasons:
            return f"{graph.strands[b]} must wait for {graph.strands[a]}: {graph.reasons[a, b]}"
        if a in graph.before(b):
            return f"{graph.strands[b]} must wait, through others, for {graph.strands[a]}"
        return f"putting together the numbers of {first} and {second} costs more than it saves"
    if strands[0].obstacle:
        return f"{strands[0]} cannot: {strands[0].obstacle}"
    return f"no two nests have the same loops and operations; that with most operations is {strands[0]}"
