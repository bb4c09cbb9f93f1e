"""Sums over points of products of constant tables, carried out at compile time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import loopy as lp
import numpy as np
import numpy.typing as npt
import pymbolic.primitives as prim

from formcompiler.kernel.names import names_in
from formcompiler.licm.substitute import substitute

LARGEST_GRID = 4_000_000
"""Most numbers that a product of tables may have before it is summed."""


def is_table_access(kernel: lp.LoopKernel, expression: Any, inames: frozenset[str]) -> bool:
    """Tell whether an expression reads a constant table at an index made of inames and literals only."""
    if not isinstance(expression, prim.Subscript):
        return False
    array: Any = expression.aggregate
    table = kernel.temporary_variables.get(array.name)
    if table is None or table.initializer is None or not table.read_only:
        return False
    return all(names_in(i) <= inames for i in expression.index_tuple)


def sum_tables(
    kernel: lp.LoopKernel,
    accesses: Sequence[Any],
    summed: Sequence[str],
    kept: Sequence[str],
    extents: Mapping[str, int],
) -> npt.NDArray[Any] | None:
    """Return the sum over some inames of the product of table entries, axes the kept inames; None if too large."""
    inames = (*summed, *kept)
    if math.prod(extents[i] for i in inames) > LARGEST_GRID:
        return None
    grid = {iname: np.arange(extents[iname]).reshape([-1 if i == iname else 1 for i in inames]) for iname in inames}
    product: Any = np.ones([1] * len(inames))
    for access in accesses:
        values: Any = kernel.temporary_variables[access.aggregate.name].initializer
        product = product * values[tuple(_index(i, grid) for i in access.index_tuple)]
    full = np.broadcast_to(product, [extents[i] for i in inames])
    result: npt.NDArray[Any] = full.sum(axis=tuple(range(len(summed))))
    return result


def at_value(expression: Any, iname: str, value: int) -> Any:
    """Return an array access with a number in the place of an iname, and its indices simplified."""
    replaced = substitute({iname: value})(expression)
    return replaced.aggregate[tuple(map(_simplified, replaced.index_tuple))]


def _simplified(index: Any) -> Any:
    """Return an index with its literals combined."""
    if not isinstance(index, (prim.Sum, prim.Product)):
        return index
    combine, neutral = (math.prod, 1) if isinstance(index, prim.Product) else (sum, 0)
    parts = [_simplified(c) for c in index.children]
    literal = int(combine(p for p in parts if not isinstance(p, prim.ExpressionNode)))
    others: list[Any] = [p for p in parts if isinstance(p, prim.ExpressionNode)]
    if not others or (literal == 0 and neutral == 1):
        return literal
    kept: list[Any] = others if literal == neutral else [literal, *others]
    return kept[0] if len(kept) == 1 else type(index)(tuple(kept))


def _index(expression: Any, grid: Mapping[str, npt.NDArray[Any]]) -> Any:
    if isinstance(expression, prim.Variable):
        return grid[expression.name]
    if isinstance(expression, prim.Sum):
        return sum(_index(c, grid) for c in expression.children)
    if isinstance(expression, prim.Product):
        return math.prod(_index(c, grid) for c in expression.children)
    return int(expression)
