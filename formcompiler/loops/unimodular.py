"""Unimodular transformations of a nest, ``k = U i`` with integer U and ``det U = ±1``, and the search for a wavefront.

Permutation, reversal and skewing of loops are unimodular, and so is all that can be made of them. The dependence
matrix of the transformed nest is ``U D``; U is valid if ``U d`` is lexicographically positive for each d of D (Hu,
ECE 734, loop transformation).
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable, Sequence

import islpy as isl
import loopy as lp
import numpy as np
import numpy.typing as npt

from formcompiler.errors import TransformError
from formcompiler.loops.dependence import NestDependences, analyse_nest
from formcompiler.loops.domains import chains_of, inames_of, merge_domains, renest, substitute_parameters
from formcompiler.loops.program import Program, check_inames, check_no_code, from_kernel, to_kernel, unlinearized
from formcompiler.loops.schedule import Rows, check_schedule, find_band, is_valid_schedule, to_rows

Matrix = npt.NDArray[np.int64]


def determinant(matrix: Matrix) -> int:
    """Return the determinant of an integer matrix, exactly (Bareiss' elimination)."""
    rows = [[int(entry) for entry in row] for row in matrix]
    sign, last = 1, 1
    for n in range(len(rows) - 1):
        pivot = next((k for k in range(n, len(rows)) if rows[k][n]), None)
        if pivot is None:
            return 0
        if pivot != n:
            rows[n], rows[pivot], sign = rows[pivot], rows[n], -sign
        for k in range(n + 1, len(rows)):
            for m in range(n + 1, len(rows)):
                rows[k][m] = (rows[k][m] * rows[n][n] - rows[k][n] * rows[n][m]) // last
        last = rows[n][n]
    return sign * rows[-1][-1]


def is_unimodular(matrix: Matrix) -> bool:
    """Return whether an integer matrix is square with determinant 1 or -1."""
    return matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and abs(determinant(matrix)) == 1


def check_unimodular(matrix: Rows, n_loops: int) -> Matrix:
    """Return a matrix as an array, if it can transform so many loops.

    Raises:
        TransformError: if it is not square, integer, or of determinant ±1.
    """
    rows = to_rows(matrix, n_loops)
    if rows.shape[0] != n_loops:
        raise TransformError(f"{n_loops} loops need a matrix of {n_loops} rows, not {rows.shape[0]}")
    if not is_unimodular(rows):
        raise TransformError(
            f"the matrix {rows.tolist()} has determinant {determinant(rows)}, but must have 1 or -1, "
            "so that each point of the new nest is one of the old"
        )
    return rows


def is_valid_unimodular(nest: NestDependences, matrix: Rows, inames: Iterable[str] | None = None) -> bool:
    """Return whether U is unimodular and ``U d`` is lexicographically positive for every dependence vector d.

    Args:
        nest: The nest.
        matrix: U; axes (new loop, old loop), the old loops in their present order.
        inames: The loops; those that all instructions share if None.

    Raises:
        TransformError: if the matrix does not fit the loops.
    """
    rows = to_rows(matrix, len(find_band(nest, inames)))
    return is_unimodular(rows) and is_valid_schedule(nest, rows, inames)


def transform_unimodular(
    program: Program,
    matrix: Rows,
    inames: Iterable[str] | None = None,
    new_inames: Sequence[str] | None = None,
) -> Program:
    """Return the kernel with loops ``i`` replaced by ``k = U i``.

    *Rewrite*: ``for i in I: H(i)`` becomes ``for k in U I: H(U^-1 k)``, in lexicographic order of k. The new domain
    is the exact image of the old one, from which bounds such as ``max(0, k1 - 3)`` follow; loopy substitutes the
    indices (`loopy.map_domain`). Arrays stay as they are.

    *Legality*: U is integer with determinant ±1, and ``U d`` is lexicographically positive for every dependence
    vector d. No loop may be between the transformed ones, and no instruction in some of them only.

    *Failure*: `TransformError` names the dependence that forbids it: variable, instructions, distance vector; or the
    instruction that is C code, in which loops cannot be replaced.

    Args:
        program: The kernel.
        matrix: U; axes (new loop, old loop), the old loops in their present order.
        inames: The loops; those that all instructions of the only nest share if None.
        new_inames: Names of the new loops, outermost first; k1, k2, ... if None, with a suffix if these are taken.
    """
    kernel = to_kernel(program)
    inames = None if inames is None else tuple(inames)
    check_inames(kernel, inames or ())
    nest = analyse_nest(kernel, inames[0] if inames else None)
    band = find_band(nest, inames)
    check_no_code(kernel, "in which loops cannot be replaced by others (interchange keeps them)", band)
    rows = check_unimodular(matrix, len(band))
    check_schedule(nest, rows, band, f"the transformation {rows.tolist()} of ({', '.join(band)})")
    new = _new_names(kernel, len(band), new_inames)
    return from_kernel(program, _apply(kernel, nest, rows, band, new))


def _new_names(kernel: lp.LoopKernel, count: int, wanted: Sequence[str] | None) -> tuple[str, ...]:
    if wanted is None:
        generate = kernel.get_var_name_generator()
        return tuple(generate(f"k{n + 1}") for n in range(count))
    taken = sorted(set(wanted) & kernel.all_variable_names())
    if len(set(wanted)) != count or taken:
        raise TransformError(
            f"{count} different new loop names are needed, not ({', '.join(wanted)})"
            + (f"; {taken[0]} is in use" if taken else "")
        )
    return tuple(wanted)


def _apply(
    kernel: lp.LoopKernel, nest: NestDependences, rows: Matrix, band: tuple[str, ...], new: tuple[str, ...]
) -> lp.LoopKernel:
    equations = (
        f"{name} = {' + '.join(f'{c}*{iname}' for c, iname in zip(row, band, strict=True))}"
        for name, row in zip(new, rows.tolist(), strict=True)
    )
    transform = isl.BasicMap(f"{{ [{', '.join(band)}] -> [{', '.join(new)}] : {' and '.join(equations)} }}")
    domains = [
        domain if set(inames_of(domain)) & set(band) else substitute_parameters(domain, band, transform)
        for domain in merge_domains(kernel, band)
    ]
    renamed = dict(zip(band, new, strict=True))
    priority = frozenset(tuple(renamed.get(i, i) for i in chain) for chain in kernel.loop_priority)
    plain = unlinearized(kernel, domains=domains, loop_priority=frozenset())
    with warnings.catch_warnings():
        # loopy asks a basic map whether it is one to one, which islpy would rather have asked of a map.
        warnings.simplefilter("ignore", DeprecationWarning)
        moved = lp.map_domain(plain, transform)
    return renest(moved.copy(loop_priority=priority), chains_of(nest.order, band, new))


def find_wavefront(
    nest: NestDependences, inames: Iterable[str] | None = None, *, max_coefficient: int = 4
) -> Matrix | None:
    """Return a valid U that makes as many inner loops parallel as possible, or None if no inner loop can be.

    The search keeps the outermost loops, as few as possible (none at first), and looks for one row u with
    ``u d >= 1`` for each dependence vector d that they do not carry: then u carries all of them, and all loops inside
    are Doall. Among such rows it takes one with the smallest sum of absolute values, which needs the fewest steps, and
    completes it with old loops where that is possible.

    Args:
        nest: The nest.
        inames: The loops that may be transformed; those that all instructions share if None.
        max_coefficient: Largest absolute value of an entry of u; smaller for more than three loops.
    """
    band = find_band(nest, inames)
    for n_kept in range(len(band) - 1):
        matrix = np.eye(len(band), dtype=np.int64)
        for row in _promising_rows(nest, band, n_kept, max_coefficient):
            matrix[n_kept:, n_kept:] = complete_row(row)
            # If these rows carry everything, all that is inside is free.
            if is_valid_schedule(nest, matrix[: n_kept + 1], band):
                return matrix
    return None


def _promising_rows(
    nest: NestDependences, band: Sequence[str], n_kept: int, max_coefficient: int
) -> list[tuple[int, ...]]:
    """Return rows, the cheapest first, that may carry all vectors that no loop outside of them carries."""
    place = [nest.inames.index(iname) for iname in band]
    outer, inner = range(place[0] + n_kept), place[n_kept:]
    rows = _candidates(len(inner), max_coefficient)
    for vector in nest.vectors:
        if all(vector[n] == 0 for n in outer) and any(vector[n] != 0 for n in inner):
            low, high = np.array([_SIGN_BOUNDS.get(vector[n], (vector[n], vector[n])) for n in inner], dtype=float).T
            most = np.where(rows > 0, rows * high, np.where(rows < 0, rows * low, 0.0)).sum(axis=1)
            rows = rows[most >= 1]
    return [tuple(map(int, row)) for row in rows]


_FAR = 1e9
_SIGN_BOUNDS: dict[int | str, tuple[float, float]] = {
    "+": (1, _FAR),
    "-": (-_FAR, -1),
    "0+": (0, _FAR),
    "0-": (-_FAR, 0),
    "*": (-_FAR, _FAR),
}
_MAX_CANDIDATES = 7000


def _candidates(n_loops: int, limit: int) -> Matrix:
    """Return rows that can be completed to a unimodular matrix, the cheapest first; axes (row, loop).

    Many loops get smaller coefficients, so that there are not too many rows.
    """
    while limit > 1 and (2 * limit + 1) ** n_loops > _MAX_CANDIDATES:
        limit -= 1
    least = -limit if (2 * limit + 1) ** n_loops <= _MAX_CANDIDATES else 0
    rows = [row for row in itertools.product(range(least, limit + 1), repeat=n_loops) if math.gcd(*row) == 1]
    rows.sort(key=lambda row: (sum(map(abs, row)), [-entry for entry in row]))
    return np.array(rows, dtype=np.int64)


def complete_row(row: Sequence[int]) -> Matrix:
    """Return a unimodular matrix whose first row is given: with unit rows if possible.

    Raises:
        TransformError: if the entries have a common divisor, so that there is none.
    """
    n_loops = len(row)
    if math.gcd(*row) != 1:
        raise TransformError(f"the row {list(row)} has greatest common divisor {math.gcd(*row)}; it must be 1")
    first = np.array([row], dtype=np.int64)
    for units in itertools.combinations(np.eye(n_loops, dtype=np.int64), n_loops - 1):
        matrix = np.vstack([first, *units]) if units else first
        if is_unimodular(matrix):
            return matrix
    return _complete_by_euclid(list(row))


def _complete_by_euclid(row: list[int]) -> Matrix:
    """Reduce the row to (1, 0, ...) by column operations; their inverses, collected, are the matrix."""
    n_loops = len(row)
    matrix = np.eye(n_loops, dtype=np.int64)
    while np.count_nonzero(row) > 1:
        pivot = min((n for n in range(n_loops) if row[n]), key=lambda n: abs(row[n]))
        other = next(n for n in range(n_loops) if row[n] and n != pivot)
        factor = row[other] // row[pivot]
        row[other] -= factor * row[pivot]
        matrix[pivot] += factor * matrix[other]
    pivot = next(n for n in range(n_loops) if row[n])
    matrix[pivot] *= row[pivot]
    matrix[[0, pivot]] = matrix[[pivot, 0]]
    return matrix
