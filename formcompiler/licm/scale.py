"""Factors of sums that are the same for all terms are multiplied after the sum.

Rewrite: ``s = 0; for k: s += b[i] * x[k, j]`` becomes ``s = 0; for k: s += x[k, j]``, and readers use ``b[i] * s``. If
the rest no longer depends on a loop around it, the sum goes to an array that `formcompiler.licm.invariant` shrinks.

Legality: s is a scalar that is set by these two instructions only and read after the loop. Rounding changes.

Profitability: one multiplication instead of one for each term.
"""

from __future__ import annotations

from typing import Any

import loopy as lp
import pymbolic.primitives as prim
from loopy.schedule import LeaveLoop

from formcompiler.licm.cost import TripCounts
from formcompiler.licm.edit import Editor
from formcompiler.licm.minimal import make_minimal_inames, names_in, names_read
from formcompiler.licm.nest import Nest, read_nest
from formcompiler.licm.scopes import Scopes
from formcompiler.licm.substitute import substitute


def scale_sums(kernel: lp.LoopKernel, trips: TripCounts) -> lp.LoopKernel:
    """Return the kernel with common factors taken out of sums."""
    nest = read_nest(kernel)
    scopes = Scopes(kernel, nest)
    trips = trips.on(kernel)
    editor = Editor(kernel, {lane: trips.extent(lane) for lane in nest.lanes})
    for name in nest.order:
        factors = find_factors(kernel, nest, scopes, name)
        if factors is not None:
            _rewrite(kernel, nest, scopes, editor, trips, name, *factors)
    return editor.finish()


def find_factors(kernel: lp.LoopKernel, nest: Nest, scopes: Scopes, name: str) -> tuple[list[Any], list[Any]] | None:
    """Return the factors of what a sum adds that are the same for all terms, and the others; None if it is no sum."""
    add: Any = kernel.id_to_insn[name]
    if not isinstance(add, lp.Assignment) or add.predicates or not isinstance(add.expression, prim.Sum):
        return None
    if len(add.expression.children) != 2 or not nest.loops[name]:
        return None
    variable = add.assignee_var_names()[0]
    writers = scopes.writers[variable]
    temporary: Any = kernel.temporary_variables.get(variable)
    if temporary is None or len(temporary.shape) > len(nest.lanes) or len(writers) != 2 or writers[1] != name:
        return None
    start: Any = kernel.id_to_insn[writers[0]]
    is_zero = not isinstance(start.expression, prim.ExpressionNode) and start.expression == 0
    inner = nest.loops[name][len(nest.loops[start.id]) :]
    children: Any = add.expression.children
    is_sum = len(children) == 2 and children[0] == add.assignee and isinstance(children[1], prim.Product)
    if not (is_zero and is_sum and len(inner) == 1 and not start.predicates) or _is_read_inside(
        nest, kernel, name, start.id, inner[0]
    ):
        return None
    minimal = make_minimal_inames(kernel, nest, scopes, name)
    common = [c for c in children[1].children if inner[0] not in minimal(c)]
    rest = [c for c in children[1].children if inner[0] in minimal(c)]
    is_costly = any(isinstance(c, prim.ExpressionNode) or abs(c) != 1 for c in common)
    return (common, rest) if is_costly and rest else None


def _is_read_inside(nest: Nest, kernel: lp.LoopKernel, name: str, start: str, iname: str) -> bool:
    """Tell whether the sum is read before it is complete."""
    variable = kernel.id_to_insn[name].assignee_var_names()[0]
    between = nest.order[nest.rank[start] + 1 : nest.rank_after(iname)]
    return any(variable in names_read(kernel.id_to_insn[i]) for i in between if i != name)


def _rewrite(
    kernel: lp.LoopKernel,
    nest: Nest,
    scopes: Scopes,
    editor: Editor,
    trips: TripCounts,
    name: str,
    common: list[Any],
    rest: list[Any],
) -> None:
    add: Any = kernel.id_to_insn[name]
    variable = add.assignee_var_names()[0]
    start = scopes.writers[variable][0]
    loops = nest.loops[start]
    added = rest[0] if len(rest) == 1 else prim.Product(tuple(rest))
    editor.instructions[name] = add.copy(expression=prim.Sum((add.assignee, added)))
    dtype = kernel.temporary_variables[variable].dtype
    lanes = sorted(names_in(add.assignee) & nest.lanes)
    items = []
    value = add.assignee
    if not set(loops) <= names_in(added):
        value = editor.temporary(f"{variable}_sums", dtype, (*loops, *lanes), [trips.extent(i) for i in loops])
        items.append(editor.assign(value, add.assignee, loops, "sum"))
    scaled = editor.temporary(variable, dtype, lanes)
    items.append(editor.assign(scaled, prim.Product((*common, value)), loops, "scale"))
    new = scaled.aggregate if lanes else scaled
    rename = substitute({variable: new})
    for other in nest.order:
        instruction = editor.instructions[other]
        if other not in (name, start) and variable in names_read(instruction):
            editor.instructions[other] = instruction.with_transformed_expressions(rename, lambda e: e)
    editor.insert_after(LeaveLoop(iname=nest.loops[name][-1]), items)
