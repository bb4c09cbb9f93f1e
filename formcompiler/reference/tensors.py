"""Linear algebra on jets; matrices are the last two axes of the coefficients."""

from __future__ import annotations

import numpy as np

from formcompiler.reference.jets import Jet, add, constant, divide, multiply, power, scale, stack


def contract(a: Jet, b: Jet, subscripts: str) -> Jet:
    """Return a bilinear contraction written for ``numpy.einsum``."""
    return multiply(a, b, lambda s, t: np.asarray(np.einsum(subscripts, s, t)))


def entry(matrix: Jet, row: int, column: int) -> Jet:
    """Return one entry of a matrix."""
    return matrix.map(lambda term: term[..., row, column])


def transpose(matrix: Jet) -> Jet:
    """Return the transposed matrix."""
    return matrix.map(lambda term: np.swapaxes(term, -1, -2))


def append_axes(jet: Jet) -> Jet:
    """Return a scalar as a 1 x 1 matrix."""
    return jet.map(lambda term: term[..., None, None])


def _determinant_of(matrix: Jet, rows: tuple[int, ...], columns: tuple[int, ...]) -> Jet:
    """Return a minor by expansion along its first row."""
    if not rows:
        return constant(np.ones((1,) * (matrix.value.ndim - 2)), matrix.order, matrix.n_coordinates)
    if len(rows) == 1:
        return entry(matrix, rows[0], columns[0])
    parts = []
    for position, column in enumerate(columns):
        rest = columns[:position] + columns[position + 1 :]
        part = multiply(entry(matrix, rows[0], column), _determinant_of(matrix, rows[1:], rest))
        parts.append(scale((-1.0) ** position, part))
    return add(*parts)


def determinant(matrix: Jet) -> Jet:
    """Return the determinant, or for tall matrices the factor by which they scale volumes."""
    n_rows, n_columns = matrix.shape[-2:]
    if n_rows != n_columns:
        gram = contract(matrix, matrix, "...ki,...kj->...ij")
        return power(determinant(gram), 0.5)
    return _determinant_of(matrix, tuple(range(n_rows)), tuple(range(n_rows)))


def cofactors(matrix: Jet) -> Jet:
    """Return the matrix of cofactors of a square matrix."""
    n = matrix.shape[-1]
    everything = tuple(range(n))
    rows = []
    for i in everything:
        minors = [
            _determinant_of(matrix, everything[:i] + everything[i + 1 :], everything[:j] + everything[j + 1 :])
            for j in everything
        ]
        signed = [scale((-1.0) ** (i + j), minor) for j, minor in enumerate(minors)]
        rows.append(stack(signed, matrix.value.ndim - 2))
    return stack(rows, matrix.value.ndim - 2)


def inverse(matrix: Jet) -> Jet:
    """Return the inverse, or for tall matrices the left inverse whose rows lie in the column space."""
    n_rows, n_columns = matrix.shape[-2:]
    if n_rows != n_columns:
        gram = contract(matrix, matrix, "...ki,...kj->...ij")
        return contract(inverse(gram), matrix, "...ij,...kj->...ik")
    return divide(transpose(cofactors(matrix)), append_axes(determinant(matrix)))


def cross(a: Jet, b: Jet) -> Jet:
    """Return the cross product of vectors in space (last axis)."""

    def component(i: int, j: int) -> Jet:
        first = multiply(a.map(lambda t: t[..., i]), b.map(lambda t: t[..., j]))
        second = multiply(a.map(lambda t: t[..., j]), b.map(lambda t: t[..., i]))
        return add(first, scale(-1.0, second))

    parts = [component(1, 2), component(2, 0), component(0, 1)]
    return stack(parts, max(a.value.ndim, b.value.ndim) - 1)


def normalize(vector: Jet) -> Jet:
    """Return a real vector (last axis) divided by its length."""
    square = contract(vector, vector, "...i,...i->...")
    return multiply(vector, power(square, -0.5).map(lambda term: term[..., None]))
