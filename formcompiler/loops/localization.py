"""Localization: a variable that many iterations read becomes one copy for each, handed on from neighbour to neighbour.

A variable with fewer indices than the loops around it would have to be broadcast. It gets the missing index instead,
and a recurrence that duplicates its values along that loop (Hu, ECE 734, loop transformation).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import islpy as isl
import loopy as lp
import pymbolic.primitives as prim
from loopy.symbolic import get_dependencies

from formcompiler.errors import TransformError
from formcompiler.loops.accesses import Access, AccessFinder, iteration_domain
from formcompiler.loops.dependence import NestDependences, analyse_nest
from formcompiler.loops.expansion import Editor, ReferenceMapper, index_map, substitute
from formcompiler.loops.program import Program, check_inames, from_kernel, to_kernel

_SET = isl.dim_type.set


@dataclass(frozen=True, eq=False)
class Broadcast:
    """A value that many iterations of a nest read.

    Attributes:
        access: The read.
        missing: The loops that its index does not depend on, outermost first.
    """

    access: Access
    missing: tuple[str, ...]

    @property
    def variable(self) -> str:
        """Return the variable that is read."""
        return self.access.variable


def find_broadcasts(nest: NestDependences) -> tuple[Broadcast, ...]:
    """Return the reads of variables with fewer indices than loops around them, that the nest does not write."""
    finder = AccessFinder(nest.kernel, nest.order)
    accesses = [a for name in nest.nest.instructions for a in finder.accesses(name)]
    written = {a.memory for a in accesses if a.is_write}
    found = []
    for access in accesses:
        loops = nest.order.loops[access.instruction]
        used = {name for index in access.subscript for name in get_dependencies(index)}
        missing = tuple(iname for iname in loops if iname not in used)
        if missing and access.memory not in written and not access.is_whole:
            found.append(Broadcast(access, missing))
    return tuple(found)


def localize(program: Program, variable: str, iname: str, *, copy: bool = False) -> Program:
    """Return the kernel with a copy of a variable for each iteration that reads it.

    *Rewrite*: in ``c[i] = c[i] + a[i,j]*b[j]``, localizing b along i, the read becomes ``b1[i,j]``, before it comes
    ``b1[i,j] = b1[i-1,j]``, and before the nest ``b1[-1,j] = b[j]``; indices are shifted where they would be negative.
    With ``copy``, there is no recurrence but ``b1[i,j] = b[j]``: a copy for each lane. The new array's indices are all
    loops of the instruction that reads, outermost first.

    *Legality*: the nest does not write the variable, and its index does not depend on the loop.

    *Failure*: `TransformError` names the instruction that writes it, or says that nothing is read alike by all
    iterations of the loop.

    Args:
        program: The kernel.
        variable: An argument or temporary that the nest reads.
        iname: The loop whose iterations read the same elements.
        copy: Whether each iteration copies from the variable itself rather than from its neighbour.
    """
    kernel = to_kernel(program)
    check_inames(kernel, [iname])
    nest = analyse_nest(kernel, iname)
    _check_not_written(nest, variable)
    chosen = _choose(nest, variable, iname)
    editor = Editor(kernel)
    replacements: dict[str, dict[Any, Any]] = {}
    for count, ((loops, subscript), accesses) in enumerate(chosen.items(), 1):
        value = _Localization(kernel, nest, editor, variable, iname, loops, subscript).insert(
            f"{variable}{count}", [a.instruction for a in accesses], copy=copy
        )
        for access in accesses:
            replacements.setdefault(access.instruction, {})[variable, subscript] = value
    for name, values in replacements.items():
        editor.map_instruction(name, ReferenceMapper(values))
    return from_kernel(program, editor.finish())


def _choose(nest: NestDependences, variable: str, iname: str) -> dict[tuple[Any, ...], list[Access]]:
    """Return reads that are alike in all iterations of a loop, by their loops and subscript."""
    chosen: dict[tuple[Any, ...], list[Access]] = {}
    for broadcast in find_broadcasts(nest):
        access = broadcast.access
        if access.variable == variable and iname in broadcast.missing:
            chosen.setdefault((nest.order.loops[access.instruction], access.subscript), []).append(access)
    if not chosen:
        raise TransformError(
            f"kernel {nest.kernel.name}: no instruction reads the same element of {variable} in all iterations "
            f"of {iname}"
        )
    return chosen


def _check_not_written(nest: NestDependences, variable: str) -> None:
    known = {*nest.kernel.arg_dict, *nest.kernel.temporary_variables}
    if variable not in known:
        raise TransformError(f"kernel {nest.kernel.name} has no variable '{variable}'")
    finder = AccessFinder(nest.kernel, nest.order)
    accesses = [a for name in nest.nest.instructions for a in finder.accesses(name)]
    writers = [a.instruction for a in accesses if a.is_write and a.variable == variable]
    if writers:
        raise TransformError(
            f"instruction {writers[0]} writes {variable} in the nest ({', '.join(nest.inames)}), so that a copy may "
            "be out of date; make it single-assigned first (to_single_assignment)"
        )


@dataclass(frozen=True)
class _Localization:
    """One element that is read alike by the iterations of a loop."""

    kernel: lp.LoopKernel
    nest: NestDependences
    editor: Editor
    variable: str
    iname: str
    loops: tuple[str, ...]
    subscript: tuple[Any, ...]

    def insert(self, wish: str, readers: list[str], *, copy: bool) -> Any:
        """Insert what makes the copies, and return the expression that reads one."""
        points = iteration_domain(self.kernel, self.loops)
        index = tuple(map(prim.Variable, self.loops))
        border = self._border(points)
        images = [index_map(points, index).range()]
        if not copy:
            images.append(index_map(border, index).range())
        array = self.editor.add_array(wish, self.variable, images)
        element: Any = prim.Variable(self.variable)
        if self.subscript:
            element = element[self.subscript if len(self.subscript) > 1 else self.subscript[0]]
        start = self.nest.order.positions[self.nest.nest.instructions[0]]
        writers = self.kernel.writer_map().get(self.variable, set())
        earlier = {name for name in writers if self.nest.order.positions[name] < start}
        users = {*readers, *(writers - earlier)}
        if copy:
            self.editor.insert(
                f"{wish}_copy", array.at(index), element, self.loops, before=readers[0], after=earlier, users=users
            )
            return array.at(index)
        before = substitute(array.at(index), {self.iname: prim.Variable(self.iname) - 1})
        first = self.editor.insert_copy(
            f"{wish}_first",
            border,
            array.at(index),
            element,
            before=self.nest.nest.instructions[0],
            after=earlier,
            users=users,
        )
        self.editor.insert(
            f"{wish}_next", array.at(index), before, self.loops, before=readers[0], after={first}, users=readers
        )
        return array.at(index)

    def _border(self, points: isl.Set) -> isl.Set:
        """Return the points just before the first of the loop."""
        n = self.loops.index(self.iname)
        names = ", ".join(self.loops)
        moved = ", ".join(f"{name} - 1" if k == n else name for k, name in enumerate(self.loops))
        border = points.apply(isl.Map(f"{{ [{names}] -> [{moved}] }}")).subtract(points).coalesce()
        for k, name in enumerate(self.loops):
            border = border.set_dim_name(_SET, k, name)
        return border
