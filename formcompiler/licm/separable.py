"""Tables that are products of tables in one direction each, found by their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_NOISE = 1e-13
"""Largest deviation from a product, relative to the largest entry of a table."""


@dataclass(frozen=True, eq=False)
class Separable:
    """Tables over the same rows and columns that are products over directions.

    With rows numbered by (r0, r1, ..), last direction fastest, entry (r, columns[k0, k1, ..]) of a table is the product
    over all directions d of ``factors[table][d][r_d, k_d]``; columns that are not listed vanish.

    Attributes:
        columns: Number of the column for each index in all directions.
        factors: For each table and direction the values, axes (row, column).
    """

    columns: npt.NDArray[np.int64]
    factors: tuple[tuple[FloatArray, ...], ...]


def separate(tables: Sequence[FloatArray]) -> Separable | None:
    """Return some tables, axes (row, column), as products over the same two or more directions; None if they are none.

    Each direction takes as few rows as possible.
    """
    used = np.any([table.any(axis=0) for table in tables], axis=0)
    if not all(np.array_equal(table.any(axis=0), used) for table in tables):
        return None
    numbers = np.flatnonzero(used)
    kept = [table[:, numbers] for table in tables]
    extents = _find_extents(kept)
    if len(extents) < 2:
        return None
    parts = [_split_columns(table, extents) for table in kept]
    grid = _find_grid([vectors for vectors, _ in parts])
    if grid is None:
        return None
    factors = [_join(vectors, scales, grid) for vectors, scales in parts]
    found = tuple(f for f in factors if f is not None)
    if len(found) < len(tables):
        return None
    result = Separable(numbers[grid], found)
    return result if all(_is_product(table, f, grid) for table, f in zip(kept, found, strict=True)) else None


def _find_extents(tables: Sequence[FloatArray]) -> tuple[int, ...]:
    """Return the numbers of rows in each direction; one direction only if columns are no products."""
    extents: tuple[int, ...] = ()
    rest = len(tables[0])
    while True:
        splits = ((*extents, n, rest // n) for n in range(2, rest) if rest % n == 0)
        found = next((s for s in splits if all(_has_product_columns(t, s) for t in tables)), None)
        if found is None:
            return (*extents, rest)
        *known, rest = found
        extents = tuple(known)


def _has_product_columns(table: FloatArray, extents: Sequence[int]) -> bool:
    vectors, scales = _split_columns(table, extents)
    return _is_close(_outer(vectors) * scales, table)


def _split_columns(table: FloatArray, extents: Sequence[int]) -> tuple[list[FloatArray], FloatArray]:
    """Return for each direction a vector per column, with its largest entry 1, axes (row, column); and their scales.

    The product of the vectors is the column if it is a product at all.
    """
    sizes = np.abs(table)
    pivots = np.argmax(sizes >= sizes.max(axis=0) * (1 - 1e-9), axis=0)
    columns = np.arange(table.shape[1])
    scales = table[pivots, columns]
    places = np.unravel_index(pivots, extents)
    full = table.reshape(*extents, -1)
    vectors = []
    for direction, extent in enumerate(extents):
        index: list[Any] = [place[None, :] for place in places]
        index[direction] = np.arange(extent)[:, None]
        vectors.append(full[(*index, columns[None, :])] / scales)
    return vectors, scales


def _outer(vectors: Sequence[FloatArray]) -> FloatArray:
    """Return the products of vectors, axes (row, column), of all directions, axes (row, column)."""
    result = vectors[0]
    for other in vectors[1:]:
        result = (result[:, None, :] * other[None, :, :]).reshape(-1, result.shape[1])
    return result


def _find_grid(parts: Sequence[Sequence[FloatArray]]) -> npt.NDArray[np.int64] | None:
    """Return the number of the column for each index in all directions; None if columns are no grid.

    Args:
        parts: For each table and direction the vectors of all columns.
    """
    indices = [_number_columns([vectors[d] for vectors in parts]) for d in range(len(parts[0]))]
    shape = [int(index.max()) + 1 for index in indices]
    flat = np.ravel_multi_index(indices, shape)
    if np.prod(shape) != len(flat) or len(np.unique(flat)) != len(flat):
        return None
    grid: npt.NDArray[np.int64] = np.argsort(flat).reshape(shape)
    return grid


def _number_columns(tables: Sequence[FloatArray]) -> npt.NDArray[np.int64]:
    """Return a number for each column, the same where all tables have equal ones.

    The table with the most zeros decides on the order, so that a table with one 1 in each column is the identity.
    """
    vectors = np.concatenate(tables)
    distinct: list[int] = []
    members = []
    for column in range(vectors.shape[1]):
        deviations = (np.abs(vectors[:, column] - vectors[:, other]).max() for other in distinct)
        member = next((n for n, size in enumerate(deviations) if size <= 1e3 * _NOISE), len(distinct))
        if member == len(distinct):
            distinct.append(column)
        members.append(member)
    plain = np.round(min(tables, key=lambda table: np.count_nonzero(np.abs(table) > _NOISE)), 9)
    order = sorted(range(len(distinct)), key=lambda n: tuple(-plain[:, distinct[n]]))
    return np.argsort(order)[members]


def _join(
    vectors: Sequence[FloatArray], scales: FloatArray, grid: npt.NDArray[np.int64]
) -> tuple[FloatArray, ...] | None:
    """Return the table of each direction with all scales in it.

    Rows of functions that add up to a constant add up to 1; a factor that is left goes where they do not.
    """
    rest = scales[grid].flat[0]
    result = []
    for direction, values in enumerate(vectors):
        line = np.moveaxis(grid, direction, 0).reshape(grid.shape[direction], -1)[:, 0]
        factor = values[:, line] * (scales[line] / scales[line[0]])
        sums = factor.sum(axis=1)
        is_partition = abs(sums[0]) > 1e-3 and np.abs(sums - sums[0]).max() <= 1e2 * _NOISE
        size = sums[0] if is_partition else np.abs(factor).max()
        rest *= size
        result.append((factor / size, is_partition))
    scaled = next((d for d, (_, is_partition) in enumerate(result) if not is_partition), 0)
    return tuple(_snapped(factor * (rest if d == scaled else 1.0)) for d, (factor, _) in enumerate(result))


def _snapped(values: FloatArray) -> FloatArray:
    """Return values with those that are 0, 1 or -1 up to rounding exactly so."""
    nearest = np.clip(np.round(values), -1, 1)
    return np.where(np.abs(values - nearest) <= 1e-14, nearest, values) + 0.0


def _is_product(table: FloatArray, factors: Sequence[FloatArray], grid: npt.NDArray[np.int64]) -> bool:
    product = factors[0]
    for factor in factors[1:]:
        product = np.asarray(np.kron(product, factor), dtype=np.float64)
    return _is_close(product, table[:, grid.ravel()])


def _is_close(found: FloatArray, wanted: FloatArray) -> bool:
    return bool(np.abs(found - wanted).max() <= _NOISE * np.abs(wanted).max())
