"""Distance and direction vectors of exact sets of distances."""

from __future__ import annotations

import islpy as isl

Vector = tuple[int | str, ...]
"""One entry per loop, outermost first: a number, or a sign where it varies ("+", "-", "0+", "0-", "*")."""


def level_of(vector: Vector) -> int | None:
    """Return the position of the first entry that is not zero, counted from 1; None for the zero vector."""
    return next((n for n, entry in enumerate(vector, 1) if entry != 0), None)


def format_vector(vector: Vector) -> str:
    """Return a vector as text, e.g. ``(0, 1)``."""
    return f"({', '.join(map(str, vector))})"


def find_vectors(distances: isl.Set) -> tuple[Vector, ...]:
    """Return vectors that together describe a set of distances, by level, so that each has one carrier.

    Args:
        distances: Distances of pairs in execution order: the first entry that is not zero is positive.

    Returns:
        Constant vectors where the set has isolated points, signs elsewhere; the zero vector first.
    """
    n_loops = distances.dim(isl.dim_type.set)
    found: dict[Vector, None] = {}
    for level in range(n_loops + 1):
        piece = distances
        for n in range(n_loops if level == 0 else level - 1):
            piece = piece.fix_val(isl.dim_type.set, n, isl.Val(0))
        if level:
            piece = piece.lower_bound_val(isl.dim_type.set, level - 1, isl.Val(1))
        for basic in piece.coalesce().get_basic_sets():
            if not basic.is_empty():
                found[_describe(isl.Set.from_basic_set(basic), n_loops)] = None
    return tuple(found)


def _describe(piece: isl.Set, n_loops: int) -> Vector:
    return tuple(_entry(piece.dim_min_val(n), piece.dim_max_val(n)) for n in range(n_loops))


def _entry(low: isl.Val, high: isl.Val) -> int | str:
    if low.is_int() and high.is_int() and low.eq(high):
        return int(low.to_python())
    if low.is_pos():
        return "+"
    if high.is_neg():
        return "-"
    if low.is_nonneg():
        return "0+"
    if high.is_nonpos():
        return "0-"
    return "*"
