"""Iterations of a loop that touch the same element, found by visiting them all.

For arrays behind tables of indices, exact dependence relations have a piece for each entry, and take minutes. Whether
two iterations of one loop meet at all is found by numbering what each touches: loops have constant bounds here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as prim
from pymbolic.mapper import WalkMapper
from pymbolic.mapper.evaluator import EvaluationMapper, UnknownVariableError

from formcompiler.loops.dependence import NestDependences

Points = npt.NDArray[np.int64]


def find_conflict(nest: NestDependences, iname: str, variable: str) -> str | None:
    """Return which element two iterations of a loop touch, one of them writing, for fixed loops around it; or None.

    Args:
        nest: The nest, with loops of constant extents.
        iname: The loop.
        variable: An array.

    Raises:
        UnknownVariableError: if an index depends on values that are not known before the kernel runs.
    """
    keys, iterations, writes = [], [], []
    for chain, index, is_write in _accesses(nest, variable):
        if iname not in chain:
            continue
        grid = dict(zip(chain, _grid(nest, chain), strict=True))
        shape = next(iter(grid.values())).shape
        place = [np.broadcast_to(_evaluate(nest, i, grid), shape).ravel() for i in index]
        around = [grid[outer].ravel() for outer in chain[: chain.index(iname)]]
        keys.append(np.stack([*around, *place], axis=1))
        iterations.append(grid[iname].ravel())
        writes.append(np.full(grid[iname].size, is_write))
    if not keys:
        return None
    _, number = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    return _meeting(number.ravel(), np.concatenate(iterations), np.concatenate(writes), iname, variable)


def _meeting(number: Points, iteration: Points, is_write: Any, iname: str, variable: str) -> str | None:
    """Return the first meeting at an element that is written."""
    n = int(number.max()) + 1
    first, last = np.full(n, np.iinfo(np.int64).max), np.full(n, -1)
    np.minimum.at(first, number, iteration)
    np.maximum.at(last, number, iteration)
    written = np.zeros(n, dtype=bool)
    written[number[is_write]] = True
    found = np.flatnonzero(written & (first != last))
    if found.size == 0:
        return None
    a, b = int(first[found[0]]), int(last[found[0]])
    return f"iterations {a} and {b} of loop {iname} touch the same element of {variable}"


def _grid(nest: NestDependences, chain: tuple[str, ...]) -> list[Points]:
    extents = [np.arange(int(nest.kernel.get_constant_iname_length(i))) for i in chain]
    return list(np.meshgrid(*extents, indexing="ij"))


def _evaluate(nest: NestDependences, index: Any, grid: dict[str, Points]) -> Any:
    tables = {n: t.initializer for n, t in nest.kernel.temporary_variables.items() if t.initializer is not None}
    return EvaluationMapper({**tables, **grid})(index)


def _accesses(nest: NestDependences, variable: str) -> Iterator[tuple[tuple[str, ...], tuple[Any, ...], bool]]:
    """Find the loops and indices of all accesses to a variable, and whether they write."""
    for name in nest.nest.instructions:
        instruction = nest.kernel.id_to_insn[name]
        for expression, is_write in ((instruction.assignee, True), (instruction.expression, False)):
            collector = _Collector(variable)
            collector(expression)
            for index in collector.found:
                yield nest.order.loops[name], index, is_write


class _Collector(WalkMapper[[]]):
    """Collects the indices of one array."""

    def __init__(self, variable: str) -> None:
        super().__init__()
        self._variable = variable
        self.found: dict[tuple[Any, ...], None] = {}

    def map_subscript(self, expr: Any) -> None:
        if expr.aggregate == prim.Variable(self._variable):
            self.found[expr.index_tuple] = None
        for index in expr.index_tuple:
            self.rec(index)


__all__ = ["UnknownVariableError", "find_conflict"]
