"""Kernels that assign their result instead of adding to it, for callers that would have to clear it before."""

from __future__ import annotations

from typing import Any

import loopy as lp
import numpy as np
import numpy.typing as npt
import pymbolic.primitives as prim
from pymbolic.mapper.evaluator import evaluate

from formcompiler.kernel.names import names_in
from formcompiler.kernel.terms import sum_of


def assign_instead_of_adding(t_unit: lp.TranslationUnit, name: str) -> lp.TranslationUnit | None:
    """Return the kernel with ``A[i] = value`` in place of ``A[i] = A[i] + value``; None if that is not the same.

    Legality: the indices of all such instructions, in all their loops, are known numbers, each entry is met exactly
    once, and nothing else reads or writes the array.

    Args:
        t_unit: The kernel.
        name: The array.
    """
    kernel = t_unit.default_entrypoint
    tables = {n: t.initializer for n, t in kernel.temporary_variables.items() if t.initializer is not None}
    counts = np.zeros(kernel.arg_dict[name].shape, dtype=np.int64)
    changed = []
    for instruction in kernel.instructions:
        if name not in instruction.read_dependency_names() | instruction.write_dependency_names():
            changed.append(instruction)
            continue
        added = _added(instruction, name)
        index = None if added is None else _indices(kernel, instruction, tables)
        if index is None:
            return None
        np.add.at(counts, index, 1)
        changed.append(instruction.copy(expression=added))
    return t_unit.with_kernel(kernel.copy(instructions=changed)) if (counts == 1).all() else None


def _added(instruction: Any, name: str) -> Any:
    """Return what an instruction adds to an entry of the array; None if it does anything else."""
    target, value = instruction.assignee, instruction.expression
    is_addition = isinstance(value, prim.Sum) and value.children[0] == target and not instruction.predicates
    if not is_addition or not isinstance(target, prim.Subscript) or target.aggregate != prim.Variable(name):
        return None
    rest = value.children[1:]
    if any(name in names_in(e) for e in (*rest, *target.index_tuple)):
        return None
    return sum_of(rest)


def _indices(kernel: lp.LoopKernel, instruction: Any, tables: dict[str, Any]) -> tuple[npt.NDArray[Any], ...] | None:
    """Return the indices of the target in all iterations, one array for each axis; None if they are not known."""
    inames = sorted(instruction.within_inames)
    known = {*inames, *tables}
    if any(not names_in(i) <= known for i in instruction.assignee.index_tuple):
        return None
    extents = [int(kernel.get_constant_iname_length(iname)) for iname in inames]
    size = int(np.prod(extents))
    values = dict(zip(inames, np.indices(extents).reshape(len(inames), size), strict=True))
    axes = [evaluate(i, {**values, **tables}) for i in instruction.assignee.index_tuple]
    return tuple(np.broadcast_to(np.asarray(axis), (size,)) for axis in axes)
