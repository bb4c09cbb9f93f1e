"""Renaming of temporary arrays, so that arrays that hold several values one after the other stand in nobody's way.

A *web* is a set of writes and reads of one array that belong together: each read with all writes that it may get its
value from. Different webs of an array only share memory. Each gets an array of its own, and all anti- and output
dependences between webs are gone (renaming; Hu, ECE 734, loop transformation).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import loopy as lp
from pymbolic.mapper import IdentityMapper

from formcompiler.loops.accesses import Access
from formcompiler.loops.dependence import Dependence
from formcompiler.loops.order import ProgramOrder
from formcompiler.naming import Namer

Use = tuple[str, str, tuple[Any, ...], bool]
"""Instruction, variable, index, and whether it is written: accesses that agree in these belong to one web."""


def split_webs(
    kernel: lp.LoopKernel, order: ProgramOrder, dependences: Iterable[Dependence], namer: Namer
) -> tuple[lp.LoopKernel, list[Dependence]]:
    """Return the kernel with an array for each web, and the dependences that are left.

    What one nest writes to one array stays together.

    Args:
        kernel: The kernel.
        order: Its order.
        dependences: All dependences on its arrays.
        namer: Gives names to new arrays.
    """
    dependences = list(dependences)
    arrays = {n for n, t in kernel.temporary_variables.items() if t.shape and t.initializer is None}
    roots = _find_webs(kernel, order, [d for d in dependences if d.variable in arrays and d.kind == "true"])
    names: dict[Use, str] = {}
    temporaries = dict(kernel.temporary_variables)
    seen: set[str] = set()

    def name_of(use: Use) -> str:
        root = roots.find(use)
        if root not in names:
            variable = use[1]
            names[root] = namer.unique(variable) if variable in seen else variable
            seen.add(variable)
            temporaries[names[root]] = temporaries[variable].copy(name=names[root])
        return names[root]

    instructions = [_rename(i, arrays, name_of) for i in kernel.instructions]
    kept = [
        d
        for d in dependences
        if d.variable not in arrays or d.kind == "true" or roots.find(_use(d.source)) == roots.find(_use(d.sink))
    ]
    return kernel.copy(instructions=instructions, temporary_variables=temporaries), kept


def _use(access: Access) -> Use:
    return access.instruction, access.variable, access.subscript, access.is_write


class _Roots:
    """Disjoint sets of uses."""

    def __init__(self) -> None:
        self._parent: dict[Use, Use] = {}

    def find(self, use: Use) -> Use:
        """Return the use that stands for the set of another."""
        parent = self._parent.get(use, use)
        if parent == use:
            return use
        root = self._parent[use] = self.find(parent)
        return root

    def join(self, first: Use, second: Use) -> None:
        """Make one set of two."""
        self._parent[self.find(second)] = self.find(first)


def _find_webs(kernel: lp.LoopKernel, order: ProgramOrder, flows: Iterable[Dependence]) -> _Roots:
    roots = _Roots()
    for flow in flows:
        roots.join(_use(flow.source), _use(flow.sink))
    first: dict[tuple[str, tuple[str, ...]], Use] = {}
    for instruction in kernel.instructions:
        target = instruction.assignee
        if hasattr(target, "aggregate"):
            use = (instruction.id, target.aggregate.name, target.index_tuple, True)
            roots.join(first.setdefault((use[1], order.loops[instruction.id][:1]), use), use)
    return roots


def _rename(instruction: Any, arrays: set[str], name_of: Any) -> Any:
    def mapper(is_write: bool) -> _Renamer:
        return _Renamer(arrays, lambda name, index: name_of((instruction.id, name, index, is_write)))

    expression = mapper(False)(instruction.expression)
    target = instruction.assignee
    if hasattr(target, "aggregate"):
        indices = tuple(map(mapper(False), target.index_tuple))
        name = target.aggregate.name
        if name in arrays:
            name = name_of((instruction.id, name, target.index_tuple, True))
        target = type(target.aggregate)(name)[indices]
    return instruction.copy(assignee=target, expression=expression)


class _Renamer(IdentityMapper[[]]):
    """Renames arrays, access by access."""

    def __init__(self, arrays: set[str], name_of: Any) -> None:
        super().__init__()
        self._arrays = arrays
        self._name_of = name_of

    def map_subscript(self, expr: Any) -> Any:
        indices = tuple(map(self.rec, expr.index_tuple))
        name = expr.aggregate.name
        if name in self._arrays:
            name = self._name_of(name, expr.index_tuple)
        return type(expr.aggregate)(name)[indices]


def find_written_arrays(kernel: lp.LoopKernel) -> frozenset[str]:
    """Return the arrays that a kernel writes: results and temporaries."""
    arrays = {**kernel.arg_dict, **kernel.temporary_variables}
    return frozenset(name for name in kernel.get_written_variables() if arrays[name].shape)
