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

from formcompiler.kernel.names import names_in
from formcompiler.kernel.terms import sum_of
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.edit import Editor
from formcompiler.licm.evaluate import at_value, is_table_access
from formcompiler.licm.substitute import substitute
from formcompiler.licm.sums import LoopSum, find_sums

_MOST_COLUMNS = 8
"""Most distinct columns that a sum is written out for."""


@dataclass(frozen=True)
class DofSum:
    """A scalar that is a sum of table entries times dofs.

    Attributes:
        sum: The sum.
        table: Access to the table.
        dofs: Access to the dofs.
        axis: Axis of the table that the sum runs over.
    """

    sum: LoopSum
    table: Any
    dofs: Any
    axis: int


def group_columns(facts: Analysis) -> lp.LoopKernel:
    """Return the kernel with sums over dofs written out where columns of their table repeat."""
    editor = facts.edit()
    for found in find_dof_sums(facts):
        _rewrite(facts, editor, found)
    return editor.finish()


def find_dof_sums(facts: Analysis) -> tuple[DofSum, ...]:
    """Return the sums of a kernel that are sums over dofs, in program order."""
    return facts.once(_find_dof_sums)


def _find_dof_sums(facts: Analysis) -> tuple[DofSum, ...]:
    found = (_find_dof_sum(facts, item) for item in find_sums(facts))
    return tuple(item for item in found if item is not None)


def _find_dof_sum(facts: Analysis, found: LoopSum) -> DofSum | None:
    """Return a sum as one over dofs, None if it is of another kind."""
    term = found.term
    is_pair = isinstance(term, prim.Product) and len(term.children) == 2
    if not is_pair or not all(isinstance(c, prim.Subscript) for c in term.children):
        return None
    kernel, fixed = facts.kernel, facts.kernel.all_inames() | facts.unwritten
    for table, dofs in (term.children, term.children[::-1]):
        axes = [axis for axis, i in enumerate(table.index_tuple) if found.iname in names_in(i)]
        is_plain = len(axes) == 1 and table.index_tuple[axes[0]] == prim.Variable(found.iname)
        if not is_plain or found.iname not in names_in(dofs.index) or not is_table_access(kernel, table, fixed):
            continue
        if not any(n in facts.scopes.writers for n in names_in(dofs)) and not is_table_access(
            kernel, dofs, kernel.all_inames()
        ):
            return DofSum(found, table, dofs, axes[0])
    return None


def find_groups(columns: npt.NDArray[Any]) -> list[list[tuple[int, float]]]:
    """Return which columns are equal up to sign, as lists of (column, sign); columns of zeros are left out.

    The first column of each group has the sign 1.

    Args:
        columns: The table, axes (row, column).
    """
    groups: dict[bytes, list[tuple[int, float]]] = {}
    signs: dict[bytes, float] = {}
    for number, column in enumerate(np.ascontiguousarray(columns.T)):
        nonzero = np.flatnonzero(column)
        if len(nonzero):
            own = 1.0 if column[nonzero[0]] > 0 else -1.0
            key = (own * column + 0.0).tobytes()  # adding zero takes the sign off zeros
            groups.setdefault(key, []).append((number, own * signs.setdefault(key, own)))
    return list(groups.values())


def count_sum(table: npt.NDArray[Any]) -> int:
    """Return the operations of a sum with a table, axes (row, column), for all rows, repeated ones left out."""
    values = _clean(table)
    groups = find_groups(values)
    if not 0 < len(groups) <= min(_MOST_COLUMNS, values.shape[1] - 1):
        return int(values.shape[0] * (2 * values.shape[1] - 1))
    n_signs = sum(len(group) - 1 for group in groups)
    return len(np.unique(values, axis=0)) * (2 * len(groups) - 1) + n_signs


def count_groups(table: npt.NDArray[Any]) -> int:
    """Return the operations of a sum with a table, axes (.., row, column), for one number of each axis in front."""
    values = _clean(table.reshape(-1, table.shape[-1]))
    groups = find_groups(values)
    if not 0 < len(groups) <= min(_MOST_COLUMNS, values.shape[1] - 1):
        return int(table.shape[-2] * (2 * values.shape[1] - 1))
    return int(table.shape[-2] * (2 * len(groups) - 1)) + sum(len(group) - 1 for group in groups)


def _rewrite(facts: Analysis, editor: Editor, found: DofSum) -> None:
    source: Any = facts.kernel.temporary_variables[found.table.aggregate.name]
    values = _clean(source.initializer)
    columns = np.moveaxis(values, found.axis, -1).reshape(-1, values.shape[found.axis])
    groups = find_groups(columns)
    if len(groups) == columns.shape[1] or not 0 < len(groups) <= _MOST_COLUMNS:
        return
    terms = [_column_term(found, group) for group in groups]
    start = found.sum.start
    outer = facts.nest.loops[start.id]
    others = [i for axis, i in enumerate(found.table.index_tuple) if axis != found.axis]
    is_by_row = len(others) == 1 and isinstance(others[0], prim.Variable) and outer[-1:] == (others[0].name,)
    is_by_row = is_by_row and facts.is_box(outer[-1])
    is_by_row = is_by_row and not names_in(found.dofs) & set(outer)
    rows = np.unique(columns, axis=0, return_index=True, return_inverse=True) if is_by_row else None
    if rows is not None and 1 < len(rows[0]) < len(columns):
        _write_rows(facts.kernel, editor, found, terms, rows[1], rows[2].ravel(), others[0])
    else:
        editor.change(start.id, expression=sum_of(terms))
    editor.remove(found.sum.add.id)


def _clean(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a table with digits that are rounding noise taken off, for comparisons."""
    scale = max(1.0, float(np.abs(values).max(initial=0.0)))
    rounded: npt.NDArray[Any] = np.round(values / scale, 14) + 0.0
    return rounded


def _column_term(found: DofSum, group: list[tuple[int, float]]) -> Any:
    """Return the entry of one column times the sum of its dofs."""
    dofs = []
    for number, sign in group:
        at = at_value(found.dofs, found.sum.iname, number)
        dofs.append(at if sign > 0 else prim.Product((-1.0, at)))
    table = at_value(found.table, found.sum.iname, group[0][0])
    return prim.Product((table, sum_of(dofs)))


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
    name = found.sum.name
    source: Any = kernel.temporary_variables[found.table.aggregate.name]
    iname = editor.loop("r", len(first))
    values = np.moveaxis(source.initializer, found.axis, -1)[first]
    table = editor.table(source.name, np.ascontiguousarray(np.moveaxis(values, -1, found.axis)))
    rename = {source.name: table, point.name: prim.Variable(iname)}
    value = substitute(rename)(sum_of(terms))
    lanes = sorted(names_in(found.sum.start.assignee) & set(kernel.all_inames()))
    access = editor.temporary(name, kernel.temporary_variables[name].dtype, (iname, *lanes), (len(first),))
    run = editor.assign(access, value, (iname,), "rows")
    editor.insert_before(EnterLoop(iname=point.name), [EnterLoop(iname=iname), run, LeaveLoop(iname=iname)])
    number = editor.table("row", row_of.astype(np.int32))
    chosen = access.aggregate[(number[(point,)], *map(prim.Variable, lanes))]
    editor.change(found.sum.start.id, expression=chosen)
