"""Single assignment: each value gets a place of its own, so that only true dependences remain.

Scalars are renamed, arrays get additional indices (Hu, ECE 734, loop transformation). In the lecture's words, anti- and
output dependences "are removed at the expense of additional storage".

`privatize` is the special case that vectorization needs: one more index, along one loop.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import loopy as lp

from formcompiler.errors import TransformError
from formcompiler.loops.accesses import Access, AccessFinder
from formcompiler.loops.dependence import find_dependences
from formcompiler.loops.expansion import Editor, Index, ReferenceMapper
from formcompiler.loops.order import find_order
from formcompiler.loops.parallelism import find_privatization_obstacle
from formcompiler.loops.program import Program, check_inames, from_kernel, to_kernel, unlinearized
from formcompiler.loops.variable_expansion import VariableExpansion


def privatize(program: Program, variables: Collection[str], iname: str) -> Program:
    """Return the kernel with a value of each variable for each iteration of a loop.

    *Rewrite*: ``for i: t = a[i]; b[i] = t`` becomes ``for i: t[i] = a[i]; b[i] = t[i]``; the index is the last one
    (`loopy.privatize_temporaries_with_inames`).

    *Legality*: the variables are temporaries without initial values, used inside of the loop only, and each iteration
    reads only what it wrote itself.

    *Failure*: `TransformError` says which of this is not so, with the dependence that forbids it.

    Args:
        program: The kernel.
        variables: Names of temporaries.
        iname: The loop.
    """
    kernel = to_kernel(program)
    check_inames(kernel, [iname])
    dependences = find_dependences(kernel, variables=variables)
    for variable in sorted(variables):
        obstacle = find_privatization_obstacle(kernel, dependences, variable, iname)
        if obstacle is not None:
            raise TransformError(f"{variable} cannot have a value for each iteration of loop {iname}: {obstacle}")
    kernel = unlinearized(kernel)
    for variable in sorted(variables):
        kernel = lp.privatize_temporaries_with_inames(kernel, iname, variable)
    return from_kernel(program, kernel)


def to_single_assignment(program: Program, variables: Collection[str] | None = None) -> Program:
    """Return the kernel with each element of the variables written once, so that only true dependences remain.

    *Rewrite*: each instruction that writes x gets an array of its own, with the index of x and as many of its loops as
    make it one element per iteration: ``c[i] = c[i] + a[i,j]*b[j]`` becomes
    ``c1[i,j] = c1[i,j-1] + a[i,j]*b[j]``. A read takes the element that was written last. If it may be the initial
    value, or that of another instruction (``c = 0`` before the loop), these are stored at the border of the same
    array, ``c1[i,-1]``, so that the loop has no condition; where there is no such place, the read becomes a
    conditional expression. Reads of initial values only stay. Arguments get their final values at the end.
    Indices are shifted where they would be negative.

    *Legality*: always, if all accesses to the variables are known exactly.

    *Failure*: `TransformError` names the access that is not known exactly.

    Args:
        program: The kernel.
        variables: The variables; those with anti- or output dependences if None.
    """
    kernel = to_kernel(program)
    dependences = find_dependences(kernel, variables=variables)
    names = sorted({d.variable for d in dependences if d.kind != "true"} if variables is None else variables)
    finder = AccessFinder(kernel, find_order(kernel))
    accesses = [a for name in find_order(kernel).instructions for a in finder.accesses(name)]
    editor = Editor(kernel)
    replacements: dict[str, dict[tuple[str, Index], Any]] = {}
    targets: dict[str, Any] = {}
    for name in names:
        mine = [a for a in accesses if a.variable == name]
        _check_accesses(kernel, name, mine)
        work = VariableExpansion(kernel, editor, mine, [d for d in dependences if d.variable == name])
        work.expand()
        targets |= work.targets
        _add_reads(replacements, work.reads)
    for instruction in kernel.instructions:
        _rewrite(editor, instruction, replacements.get(instruction.id, {}), targets.get(instruction.id))
    return from_kernel(program, editor.finish(drop=names))


def _add_reads(known: dict[str, dict[tuple[str, Index], Any]], reads: Sequence[tuple[Access, Any]]) -> None:
    for access, value in reads:
        here = known.setdefault(access.instruction, {})
        if here.setdefault((access.variable, access.subscript), value) != value:
            raise TransformError(
                f"instruction {access.instruction} reads {access} under different conditions; split it in two"
            )


def _check_accesses(kernel: lp.LoopKernel, name: str, accesses: Sequence[Access]) -> None:
    if not any(a.is_write for a in accesses):
        raise TransformError(f"kernel {kernel.name} writes no variable '{name}' that could be assigned once only")
    for access in accesses:
        if not access.is_exact:
            raise TransformError(
                f"kernel {kernel.name}: {access} in instruction {access.instruction} is not known exactly, because it "
                f"is not affine or under a condition on data; {name} cannot be assigned once only"
            )
        if isinstance(kernel.id_to_insn[access.instruction], lp.CallInstruction):
            raise TransformError(
                f"kernel {kernel.name}: instruction {access.instruction} calls a function with several results, which "
                f"cannot be renamed; assign {name} in an instruction of its own"
            )


def _rewrite(editor: Editor, instruction: Any, reads: dict[tuple[str, Index], Any], target: Any) -> None:
    if not reads and target is None:
        return
    mapper = ReferenceMapper(reads)
    assignee = instruction.assignee
    if target is None:
        target = assignee
    if hasattr(target, "aggregate"):
        index = tuple(mapper(entry) for entry in target.index_tuple)
        target = target.aggregate[index if len(index) > 1 else index[0]]
    editor.change(
        instruction.id,
        assignee=target,
        expression=mapper(instruction.expression),
        predicates=frozenset(mapper(p) for p in instruction.predicates),
    )
