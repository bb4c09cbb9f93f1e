"""Pass: the lanes of all vectors are W cells of one batch.

*Rewrite.* Each array that differs between cells (result, coefficients, coordinates, and every temporary that is
computed from them) gets a lane axis as its last axis; each instruction that touches one runs for all lanes::

    f = c * w[i];  A[i] = A[i] + f     ->     f[lane] = c * w[i, lane];  A[i, lane] = A[i, lane] + f[lane]

with the iname ``lane`` tagged ``vec``. Tables, constants of the form, facet numbers and facet permutations are the
same for all cells of a batch and stay as they are.

*Legality.* All loops must have as many trips for all cells. Each instruction must be elementwise in the lane: no index
and no predicate may depend on a value that differs between cells, and only real numbers have vector types.

*Profitability.* Always, for callers that have W cells: no lane is wasted and nothing is shuffled.

*Failure.* `VectorizationError` names the instruction or the loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import islpy as isl
import loopy as lp
import pymbolic.primitives as prim
from loopy.kernel.data import Iname, VectorizeTag
from pymbolic.mapper import IdentityMapper, WalkMapper

from formcompiler.errors import VectorizationError
from formcompiler.kernel.flops import loop_extent
from formcompiler.kernel.linearize import BatchTag
from formcompiler.kernel.names import names_in

LANE = "lane"
"""Name of the iname that runs over lanes."""


@dataclass(frozen=True)
class CellLanes:
    """The pass.

    Attributes:
        lanes: Number of cells W of one batch.
        uniform: Names of the arguments that are the same for all cells of a batch.
    """

    lanes: int
    uniform: frozenset[str]

    def __call__(self, t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
        """Return the kernel of W cells.

        Raises:
            VectorizationError: if an instruction is not elementwise in the lane, or numbers of trips differ.
        """
        kernel = t_unit.default_entrypoint
        check_assignments(kernel)
        varying = find_varying(kernel, {a.name for a in kernel.args} - self.uniform)
        check_trips(kernel, varying)
        check_elementwise(kernel, varying)
        lane = kernel.get_var_name_generator()(LANE)
        domain = isl.BasicSet(f"{{ [{lane}] : 0 <= {lane} < {self.lanes} }}")
        domains = [d for d in kernel.domains if d.dim(isl.dim_type.set)]
        with_lane = kernel.copy(
            domains=[*domains, domain],
            inames={**kernel.inames, lane: Iname(lane, tags=frozenset([VectorizeTag(), BatchTag()]))},
        )
        return t_unit.with_kernel(widen(with_lane, varying, lane, self.lanes))


def widen(kernel: lp.LoopKernel, names: frozenset[str], lane: str, lanes: int) -> lp.LoopKernel:
    """Return the kernel with a lane axis for some arrays."""
    add_lane = _LaneMapper(names, prim.Variable(lane))
    temporaries = kernel.temporary_variables.items()
    return kernel.copy(
        instructions=[_with_lane(i, names, lane, add_lane) for i in kernel.instructions],
        args=[widen_array(a, lanes) if a.name in names else a for a in kernel.args],
        temporary_variables={name: widen_array(t, lanes) if name in names else t for name, t in temporaries},
    )


def widen_array(array: Any, lanes: int) -> Any:
    """Return an array with a lane axis behind its axes."""
    shape = (*array.shape, lanes)
    if isinstance(array, lp.TemporaryVariable):
        return lp.TemporaryVariable(
            array.name, dtype=array.dtype, shape=shape, address_space=array.address_space, alignment=64
        )
    widened = lp.GlobalArg(array.name, array.dtype, shape=shape, order="C")
    return widened.copy(is_output=array.is_output, is_input=array.is_input)


def find_varying(kernel: lp.LoopKernel, arguments: Iterable[str]) -> frozenset[str]:
    """Return the names whose values differ between cells if those of the arguments do."""
    varying = set(arguments)
    while True:
        found = {
            target_of(instruction) for instruction in kernel.instructions if names_in(instruction.expression) & varying
        }
        if found <= varying:
            return frozenset(varying)
        varying |= found


def check_assignments(kernel: lp.LoopKernel) -> None:
    """Check that all instructions are assignments.

    Raises:
        VectorizationError: if one is not.
    """
    for instruction in kernel.instructions:
        if not isinstance(instruction, lp.Assignment):
            raise VectorizationError(
                f"instruction {instruction.id} of kernel {kernel.name} is a {type(instruction).__name__}, and only "
                "assignments can have lanes; write it as assignments, or use vectorize=none"
            )


def check_trips(kernel: lp.LoopKernel, varying: frozenset[str]) -> None:
    """Check that all loops have as many trips for all cells.

    Raises:
        VectorizationError: if one has not.
    """
    for iname in sorted(kernel.all_inames()):
        extent = loop_extent(kernel, iname)
        if extent in varying:
            raise VectorizationError(
                f"loop {iname} of kernel {kernel.name} has {extent} trips, a number that differs between the cells of "
                "a batch (quadrature_rule 'runtime'): such a kernel cannot run with vectorize=cells; use auto or none"
            )


def check_elementwise(kernel: lp.LoopKernel, varying: frozenset[str]) -> None:
    """Check that each instruction computes each lane from values of the same lane.

    Raises:
        VectorizationError: if one does not.
    """
    arrays = {**kernel.arg_dict, **kernel.temporary_variables}
    for instruction in kernel.instructions:
        where = f"instruction {instruction.id} of kernel {kernel.name}: {instruction.assignee} = .."
        if any(names_in(p) & varying for p in instruction.predicates):
            raise VectorizationError(f"{where} has a predicate that differs between the cells of a batch")
        check = _IndexChecker(varying)
        check(instruction.assignee)
        check(instruction.expression)
        if check.found is not None:
            raise VectorizationError(
                f"{where} uses the index {check.found}, which differs between the cells of a batch: "
                "such a kernel cannot run with vectorize=cells"
            )
        name = target_of(instruction)
        if name in varying and arrays[name].dtype is not None and arrays[name].dtype.numpy_dtype.kind != "f":
            raise VectorizationError(
                f"{where} computes numbers of type {arrays[name].dtype.numpy_dtype} that differ between cells, and "
                "only real floating-point numbers have vector types: use vectorize=none"
            )
        if name in varying and arrays[name].dtype is None:
            raise VectorizationError(f"{where} is part of a complex kernel, and complex numbers have no vector type")


def target_of(instruction: Any) -> str:
    """Return the name of what an instruction assigns to."""
    assignee = instruction.assignee
    return str(assignee.name if isinstance(assignee, prim.Variable) else assignee.aggregate.name)


def _with_lane(instruction: Any, varying: frozenset[str], lane: str, add_lane: Any) -> Any:
    if not (names_in(instruction.expression) | {target_of(instruction)}) & varying:
        return instruction
    return instruction.copy(
        assignee=add_lane(instruction.assignee),
        expression=add_lane(instruction.expression),
        within_inames=instruction.within_inames | {lane},
    )


class _IndexChecker(WalkMapper[[]]):
    """Finds an index that depends on a varying name."""

    def __init__(self, varying: frozenset[str]) -> None:
        super().__init__()
        self._varying = varying
        self.found: Any = None

    def map_subscript(self, expr: Any) -> None:
        for index in expr.index_tuple:
            if names_in(index) & self._varying:
                self.found = index


class _LaneMapper(IdentityMapper[[]]):
    """Appends the lane to each access of a varying name."""

    def __init__(self, varying: frozenset[str], lane: Any) -> None:
        super().__init__()
        self._varying = varying
        self._lane = lane

    def map_variable(self, expr: Any) -> Any:
        return expr[self._lane] if expr.name in self._varying else expr

    def map_subscript(self, expr: Any) -> Any:
        if expr.aggregate.name not in self._varying:
            return expr
        return expr.aggregate[(*expr.index_tuple, self._lane)]
