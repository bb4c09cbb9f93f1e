"""Linearization in program order: cheap, deterministic, and exactly what the builder meant."""

from __future__ import annotations

from typing import Any

import islpy as isl
import loopy as lp
import pymbolic.primitives as prim
from loopy.kernel import KernelState
from loopy.kernel.data import VectorizeTag
from loopy.schedule import CallKernel, EnterLoop, LeaveLoop, ReturnFromKernel, RunInstruction, ScheduleItem
from pymbolic.mapper import WalkMapper
from pytools.tag import UniqueTag

from formcompiler.errors import InternalCompilerError


def linearize(t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
    """Return the program with each kernel's loops opened and closed around its instructions in program order.

    Ordering restriction: inames are nested in the order of ``kernel.domains``, because the builder opens outer loops
    first. Loopy's own scheduler would search for an order that is known here. Inames of lanes open no loop: each
    instruction runs for all lanes at once.

    Raises:
        InternalCompilerError: if program order contradicts a dependency, or an iname would have to be opened twice.
    """
    kernel = t_unit.default_entrypoint
    return t_unit.with_kernel(kernel.copy(linearization=_linear_order(kernel), state=KernelState.LINEARIZED))


def vector_inames(kernel: lp.LoopKernel) -> frozenset[str]:
    """Return the inames that run over lanes."""
    return frozenset(name for name, iname in kernel.inames.items() if iname.tags_of_type(VectorizeTag))


class BatchTag(UniqueTag):
    """Marks lanes that are the cells of one batch: the caller's arrays have them, too."""


def has_batch(kernel: lp.LoopKernel) -> bool:
    """Return whether the lanes of a kernel are cells."""
    return any(iname.tags_of_type(BatchTag) for iname in kernel.inames.values())


def find_wide(kernel: lp.LoopKernel) -> dict[str, str]:
    """Return the lane of each array of vectors: it is the last index in all accesses, and nothing else is there.

    What is read may also have a table of integers at the lane there: the vector with its lanes in another order. Tables
    and, unless lanes are cells, arguments are arrays of numbers in any case.
    """
    lanes = {name: int(kernel.get_constant_iname_length(name)) for name in vector_inames(kernel)}
    finder = _LastIndexFinder()
    for instruction in kernel.instructions if lanes else ():
        finder(instruction.assignee)
        finder(instruction.expression)
    arrays = {**kernel.arg_dict, **kernel.temporary_variables}
    found = {}
    for name, indices in finder.found.items():
        lane, *others = dict.fromkeys(_lane_of(kernel, index) for index in indices)
        if lane in lanes and not others and arrays[name].shape[-1] == lanes[lane] and _may_be_wide(kernel, name):
            found[name] = lane
    return found


def _lane_of(kernel: lp.LoopKernel, index: Any) -> str:
    """Return the name of a variable that is an index, or at which a table of known numbers is read, "" for others."""
    if isinstance(index, prim.Subscript):
        table: Any = kernel.temporary_variables.get(str(getattr(index.aggregate, "name", "")))
        is_known = table is not None and table.initializer is not None and len(index.index_tuple) == 1
        return _lane_of(kernel, index.index_tuple[0]) if is_known else ""
    return str(index.name) if isinstance(index, prim.Variable) else ""


def _may_be_wide(kernel: lp.LoopKernel, name: str) -> bool:
    temporary = kernel.temporary_variables.get(name)
    return has_batch(kernel) if temporary is None else temporary.initializer is None


class _LastIndexFinder(WalkMapper[[]]):
    """Collects the last indices of each array."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, dict[Any, None]] = {}

    def map_subscript(self, expr: Any) -> None:
        self.found.setdefault(expr.aggregate.name, {})[expr.index_tuple[-1]] = None
        for index in expr.index_tuple:
            self.rec(index)


def _linear_order(kernel: lp.LoopKernel) -> list[ScheduleItem]:
    rank = {
        iname: n for n, domain in enumerate(kernel.domains) for iname in domain.get_var_names_not_none(isl.dim_type.set)
    }
    lanes = vector_inames(kernel)
    items: list[ScheduleItem] = [CallKernel(kernel_name=kernel.name)]
    stack: list[str] = []
    closed: set[str] = set()
    done: set[str] = set()
    for instruction in kernel.instructions:
        if not instruction.depends_on <= done:
            raise InternalCompilerError(f"instruction {instruction.id} comes before one that it depends on")
        done.add(instruction.id)
        wanted = sorted(instruction.within_inames - lanes, key=rank.__getitem__)
        while stack and stack != wanted[: len(stack)]:
            closed.add(stack[-1])
            items.append(LeaveLoop(iname=stack.pop()))
        for iname in wanted[len(stack) :]:
            if iname in closed:
                raise InternalCompilerError(f"loop {iname} would be opened twice, at instruction {instruction.id}")
            items.append(EnterLoop(iname=iname))
            stack.append(iname)
        items.append(RunInstruction(insn_id=instruction.id))
    items.extend(LeaveLoop(iname=iname) for iname in reversed(stack))
    return [*items, ReturnFromKernel(kernel_name=kernel.name)]
