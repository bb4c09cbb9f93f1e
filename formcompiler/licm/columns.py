"""Sums over dofs with tables whose columns or rows repeat: differences of dofs first, and one value per distinct row.

Rewrite: where columns 0 and 1, 2 and 3 of a table differ in sign only (derivatives of linear functions)::

    for q: s = 0; for k: s += t[q, k] * x[k]   ->   for q: s = t[q, 1] * (x[1] - x[0]) + t[q, 3] * (x[3] - x[2])

and where in addition some rows of the table are the same, the sums for distinct rows go to an array in front of the
loop over q.

Legality: s is a scalar that is set by these two instructions only, x is never written by the kernel. Rounding changes.

Profitability: there are fewer distinct columns than columns, or fewer distinct rows than rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import loopy as lp
import numpy as np
import numpy.typing as npt
import pymbolic.primitives as prim
from loopy.schedule import EnterLoop, LeaveLoop

from formcompiler.licm.cost import TripCounts
from formcompiler.licm.edit import Editor
from formcompiler.licm.evaluate import at_value, is_table_access
from formcompiler.licm.minimal import names_in, names_read
from formcompiler.licm.nest import Nest, read_nest
from formcompiler.licm.scopes import Scopes
from formcompiler.licm.substitute import substitute

_MOST_COLUMNS = 8
"""Most distinct columns that a sum is written out for."""


@dataclass(frozen=True)
class DofSum:
    """A scalar that is a sum of table entries times dofs.

    Attributes:
        start: Instruction that sets it to zero.
        add: Instruction that adds to it.
        table: Access to the table.
        dofs: Access to the dofs.
        iname: Iname that is summed over.
        axis: Axis of the table that it indexes.
    """

    start: Any
    add: Any
    table: Any
    dofs: Any
    iname: str
    axis: int


def group_columns(kernel: lp.LoopKernel, trips: TripCounts) -> lp.LoopKernel:
    """Return the kernel with sums over dofs written out where columns of their table repeat."""
    nest = read_nest(kernel)
    scopes = Scopes(kernel, nest)
    trips = trips.on(kernel)
    editor = Editor(kernel, {lane: trips.extent(lane) for lane in nest.lanes})
    for name in nest.order:
        found = find_dof_sum(kernel, nest, scopes, name)
        if found is not None:
            _rewrite(kernel, nest, editor, found)
    return editor.finish()


def find_dof_sum(kernel: lp.LoopKernel, nest: Nest, scopes: Scopes, name: str) -> DofSum | None:
    """Return the sum that an instruction adds to, None if it is of another kind."""
    add: Any = kernel.id_to_insn[name]
    if not isinstance(add, lp.Assignment) or add.predicates or not nest.loops[name] or _added_product(add) is None:
        return None
    variable = add.assignee_var_names()[0]
    writers = scopes.writers[variable]
    temporary: Any = kernel.temporary_variables.get(variable)
    if temporary is None or len(temporary.shape) > len(nest.lanes) or len(writers) != 2 or writers[1] != name:
        return None
    start: Any = kernel.id_to_insn[writers[0]]
    product = _added_product(add)
    inner = [i for i in nest.loops[name] if i not in nest.loops[start.id]]
    is_zero = not isinstance(start.expression, prim.ExpressionNode) and start.expression == 0
    if (
        product is None
        or len(inner) != 1
        or start.predicates
        or not is_zero
        or _is_read_inside(kernel, nest, add, start)
    ):
        return None
    return _match(kernel, scopes, start, add, product, inner[0])


def _added_product(add: Any) -> Any | None:
    value = add.expression
    if not isinstance(value, prim.Sum) or len(value.children) != 2 or value.children[0] != add.assignee:
        return None
    product: Any = value.children[1]
    is_pair = isinstance(product, prim.Product) and len(product.children) == 2
    return product if is_pair and all(isinstance(c, prim.Subscript) for c in product.children) else None


def _is_read_inside(kernel: lp.LoopKernel, nest: Nest, add: Any, start: Any) -> bool:
    """Tell whether the sum is read before it is complete."""
    name = add.assignee_var_names()[0]
    if start.within_inames != add.within_inames - {nest.loops[add.id][-1]}:
        return True
    between = nest.order[nest.rank[start.id] + 1 : nest.rank_after(nest.loops[add.id][-1])]
    return any(name in names_read(kernel.id_to_insn[i]) for i in between if i != add.id)


def _match(kernel: lp.LoopKernel, scopes: Scopes, start: Any, add: Any, product: Any, iname: str) -> DofSum | None:
    inames = kernel.all_inames()
    for table, dofs in (product.children, product.children[::-1]):
        index = table.index_tuple
        axes = [axis for axis, i in enumerate(index) if iname in names_in(i)]
        is_plain = len(axes) == 1 and index[axes[0]] == prim.Variable(iname)
        is_fixed = not any(n in scopes.writers for n in names_in(dofs)) and not is_table_access(kernel, dofs, inames)
        if is_plain and is_fixed and iname in names_in(dofs.index) and is_table_access(kernel, table, inames):
            return DofSum(start, add, table, dofs, iname, axes[0])
    return None


def find_groups(columns: npt.NDArray[Any]) -> list[list[tuple[int, float]]]:
    """Return which columns are equal up to sign, as lists of (column, sign); columns of zeros are left out.

    Args:
        columns: The table, axes (row, column).
    """
    groups: list[list[tuple[int, float]]] = []
    for number in range(columns.shape[1]):
        column = columns[:, number]
        if not column.any():
            continue
        for group in groups:
            first = columns[:, group[0][0]]
            sign = next((s for s in (1.0, -1.0) if np.array_equal(column, s * first)), None)
            if sign is not None:
                group.append((number, sign))
                break
        else:
            groups.append([(number, 1.0)])
    return groups


def _rewrite(kernel: lp.LoopKernel, nest: Nest, editor: Editor, found: DofSum) -> None:
    source: Any = kernel.temporary_variables[found.table.aggregate.name]
    values = _clean(source.initializer)
    columns = np.moveaxis(values, found.axis, -1).reshape(-1, values.shape[found.axis])
    groups = find_groups(columns)
    rows = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    if len(groups) == columns.shape[1] or not 0 < len(groups) <= _MOST_COLUMNS:
        return
    terms = [_column_term(found, group) for group in groups]
    outer = nest.loops[found.start.id]
    others = [i for axis, i in enumerate(found.table.index_tuple) if axis != found.axis]
    is_by_row = len(others) == 1 and isinstance(others[0], prim.Variable) and outer[-1:] == (others[0].name,)
    if is_by_row and 1 < len(rows[0]) < len(columns) and not names_in(found.dofs) & set(outer):
        _write_rows(kernel, editor, found, terms, rows[1], rows[2].ravel(), others[0])
    else:
        value = terms[0] if len(terms) == 1 else prim.Sum(tuple(terms))
        editor.instructions[found.start.id] = found.start.copy(expression=value)
    editor.remove(found.add.id)


def _clean(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a table with digits that are rounding noise taken off, for comparisons."""
    scale = max(1.0, float(np.abs(values).max(initial=0.0)))
    rounded: npt.NDArray[Any] = np.round(values / scale, 14) + 0.0
    return rounded


def _column_term(found: DofSum, group: list[tuple[int, float]]) -> Any:
    """Return the entry of one column times the sum of its dofs."""
    dofs = []
    for number, sign in group:
        at = at_value(found.dofs, found.iname, number)
        dofs.append(at if sign > 0 else prim.Product((-1.0, at)))
    table = at_value(found.table, found.iname, group[0][0])
    return prim.Product((table, dofs[0] if len(dofs) == 1 else prim.Sum(tuple(dofs))))


def _write_rows(
    kernel: lp.LoopKernel,
    editor: Editor,
    found: DofSum,
    terms: list[Any],
    first: npt.NDArray[Any],
    row_of: npt.NDArray[Any],
    point: Any,
) -> None:
    """Write the sums of distinct rows to an array, and let the sum read it."""
    name = found.start.assignee_var_names()[0]
    source: Any = kernel.temporary_variables[found.table.aggregate.name]
    iname = editor.loop("r", len(first))
    values = np.moveaxis(source.initializer, found.axis, -1)[first]
    table = editor.table(source.name, np.ascontiguousarray(np.moveaxis(values, -1, found.axis)))
    rename = {source.name: table, point.name: prim.Variable(iname)}
    value = substitute(rename)(terms[0] if len(terms) == 1 else prim.Sum(tuple(terms)))
    lanes = sorted(names_in(found.start.assignee) & set(kernel.all_inames()))
    access = editor.temporary(name, kernel.temporary_variables[name].dtype, (iname, *lanes), (len(first),))
    run = editor.assign(access, value, (iname,), "rows")
    editor.insert_before(EnterLoop(iname=point.name), [EnterLoop(iname=iname), run, LeaveLoop(iname=iname)])
    number = editor.table("row", row_of.astype(np.int32))
    chosen = access.aggregate[(number[(point,)], *map(prim.Variable, lanes))]
    editor.instructions[found.start.id] = found.start.copy(expression=chosen)
