"""The index points of a loop nest as a polyhedron: ``P i >= p0`` and ``Q i <= q0`` with integer matrices.

Row by row, P holds the lower and Q the upper bounds of the loops: the last non-zero entry of a row belongs to the loop
that it bounds, and the entries before it to loops outside of that. With one bound each, both are square and lower
triangular, and a nest with ``P = Q`` is *regular* (Hu, ECE 734, loop transformation). The right-hand sides are affine
in the kernel's parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import islpy as isl
import loopy as lp
import numpy as np
import numpy.typing as npt

from formcompiler.errors import TransformError
from formcompiler.loops.accesses import iteration_domain
from formcompiler.loops.dependence import analyse_nest
from formcompiler.loops.order import find_order
from formcompiler.loops.program import check_inames, to_kernel

Matrix = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class IterationSpace:
    """A polyhedron of index points.

    Attributes:
        inames: The loops, outermost first; the columns of P and Q.
        parameters: Names of the parameters.
        lower_matrix: P; axes (bound, loop).
        lower: p0; axes (bound, parameter), the constant last.
        upper_matrix: Q; axes (bound, loop).
        upper: q0; axes (bound, parameter), the constant last.
        points: The same set in isl.
    """

    inames: tuple[str, ...]
    parameters: tuple[str, ...]
    lower_matrix: Matrix
    lower: Matrix
    upper_matrix: Matrix
    upper: Matrix
    points: isl.Set

    @property
    def is_triangular(self) -> bool:
        """Return whether each loop has one lower and one upper bound, so that P and Q are lower triangular."""
        return all(
            matrix.shape == (len(self.inames),) * 2
            and bool((np.triu(matrix, 1) == 0).all() and matrix.diagonal().all())
            for matrix in (self.lower_matrix, self.upper_matrix)
        )

    @property
    def is_regular(self) -> bool:
        """Return whether ``P = Q``: lower and upper bounds run in parallel."""
        return self.is_triangular and np.array_equal(self.lower_matrix, self.upper_matrix)

    @property
    def is_rectangular(self) -> bool:
        """Return whether no bound depends on another loop."""
        identity = np.eye(len(self.inames), dtype=np.int64)
        return self.is_regular and np.array_equal(self.lower_matrix, identity)

    def bounds(self, iname: str) -> tuple[str, str]:
        """Return first and last index of a loop as text, in terms of outer loops and parameters.

        Raises:
            TransformError: if there is no such loop.
        """
        if iname not in self.inames:
            raise TransformError(f"no loop '{iname}' here; the loops are {', '.join(self.inames)}")
        n = self.inames.index(iname)
        lower = [
            self._solve(row, right, n, "ceil")
            for row, right in zip(self.lower_matrix, self.lower, strict=True)
            if _last(row) == n
        ]
        upper = [
            self._solve(row, right, n, "floor")
            for row, right in zip(self.upper_matrix, self.upper, strict=True)
            if _last(row) == n
        ]
        return _combine("max", lower, "-inf"), _combine("min", upper, "inf")

    def _solve(self, row: Matrix, right: Matrix, n: int, rounding: str) -> str:
        """Return what a row says about loop n, e.g. ``k1 - 3``."""
        names = (*self.inames[:n], *self.parameters)
        coefficients = (*(-row[:n]), *right[:-1])
        text = _format_sum(names, [int(c) for c in coefficients], int(right[-1]))
        return text if row[n] == 1 else f"{rounding}(({text})/{row[n]})"

    def enumerate(self, parameters: Mapping[str, int] | None = None) -> Matrix:
        """Return all points in lexicographic order; axes (point, loop).

        Args:
            parameters: Values of the parameters, if there are any.

        Raises:
            TransformError: if a parameter has no value, or there are infinitely many points.
        """
        return enumerate_points(self.points, parameters or {})


def find_iteration_space(
    program: lp.LoopKernel | lp.TranslationUnit, inames: Sequence[str] | None = None
) -> IterationSpace:
    """Return the iteration space of a nest.

    Args:
        program: The kernel.
        inames: Its loops, outermost first; those of the only nest if None.

    Raises:
        TransformError: if there are no such loops, or their points do not form a polyhedron (a stride, a union).
    """
    kernel = to_kernel(program)
    if inames is None:
        inames = analyse_nest(kernel).inames
    check_inames(kernel, inames)
    find_order(kernel)
    return to_iteration_space(iteration_domain(kernel, inames))


def to_iteration_space(points: isl.Set) -> IterationSpace:
    """Return the iteration space with the given points.

    Raises:
        TransformError: if they do not form a polyhedron.
    """
    points = _with_sorted_parameters(points)
    inames = tuple(points.get_var_names_not_none(isl.dim_type.set))
    parameters = tuple(points.get_var_names_not_none(isl.dim_type.param))
    lower: list[tuple[list[int], list[int]]] = []
    upper: list[tuple[list[int], list[int]]] = []
    known = points.project_out(isl.dim_type.set, 0, len(inames))
    if points.is_empty():
        return _empty_space(inames, parameters, points)
    for n, iname in enumerate(inames):
        seen = points.project_out(isl.dim_type.set, n + 1, len(inames) - n - 1)
        context = known.insert_dims(isl.dim_type.set, n, 1)
        for constraint in _constraints(seen, context, iname):
            for row, right in _rows(constraint, inames[: n + 1], parameters):
                if row[n]:
                    sign = 1 if row[n] > 0 else -1
                    entry = ([sign * c for c in row] + [0] * (len(inames) - n - 1), [sign * c for c in right])
                    (lower if sign > 0 else upper).append(entry)
        known = seen
    return IterationSpace(
        inames, parameters, *_matrices(lower, inames, parameters), *_matrices(upper, inames, parameters), points
    )


def _empty_space(inames: tuple[str, ...], parameters: tuple[str, ...], points: isl.Set) -> IterationSpace:
    """Return the space of loops that never run: from 0 to -1."""
    rows = np.eye(len(inames), dtype=np.int64).tolist()
    lower, upper = ([(row, [0] * len(parameters) + [c]) for row in rows] for c in (0, -1))
    return IterationSpace(
        inames, parameters, *_matrices(lower, inames, parameters), *_matrices(upper, inames, parameters), points
    )


def _constraints(seen: isl.Set, context: isl.Set, iname: str) -> list[isl.Constraint]:
    """Return the constraints on a loop, given what is known of those around it."""
    bounds = seen.gist(context).coalesce()
    pieces = bounds.get_basic_sets()
    basic = pieces[0] if len(pieces) == 1 else bounds.simple_hull()
    if not isl.Set.from_basic_set(basic).intersect(context).is_equal(seen):
        raise TransformError(f"the points of loop {iname} are not one polyhedron: {seen}")
    basic = basic.remove_redundancies()
    if basic.dim(isl.dim_type.div):
        raise TransformError(
            f"the points of loop {iname} are not all points of a polyhedron, e.g. for a stride: {seen}"
        )
    return list(basic.get_constraints())


def _rows(
    constraint: isl.Constraint, inames: Sequence[str], parameters: Sequence[str]
) -> list[tuple[list[int], list[int]]]:
    """Return rows ``row . i >= right``; two for an equation."""

    def coefficient(kind: isl.dim_type, n: int) -> int:
        return int(constraint.get_coefficient_val(kind, n).to_python())

    row = [coefficient(isl.dim_type.set, n) for n in range(len(inames))]
    right = [-coefficient(isl.dim_type.param, n) for n in range(len(parameters))]
    right.append(-int(constraint.get_constant_val().to_python()))
    rows = [(row, right)]
    if constraint.is_equality():
        rows.append(([-c for c in row], [-c for c in right]))
    return rows


def _matrices(
    rows: Sequence[tuple[list[int], list[int]]], inames: Sequence[str], parameters: Sequence[str]
) -> tuple[Matrix, Matrix]:
    rows = sorted(rows, key=lambda r: (_last(r[0]), np.count_nonzero([*r[0], *r[1][:-1]]), r))
    matrix = np.array([row for row, _ in rows], dtype=np.int64).reshape(len(rows), len(inames))
    right = np.array([right for _, right in rows], dtype=np.int64).reshape(len(rows), len(parameters) + 1)
    return matrix, right


def _last(row: Any) -> int:
    return max(n for n, entry in enumerate(row) if entry)


def _format_sum(names: Sequence[str], coefficients: Sequence[int], constant: int) -> str:
    """Return e.g. ``2*i - j + 3``."""
    text = ""
    for name, c in zip(names, coefficients, strict=True):
        if c:
            term = name if abs(c) == 1 else f"{abs(c)}*{name}"
            text += (f" {'-' if c < 0 else '+'} " if text else "-" if c < 0 else "") + term
    if constant or not text:
        text += f" {'-' if constant < 0 else '+'} {abs(constant)}" if text else str(constant)
    return text


def _combine(function: str, bounds: Sequence[str], none: str) -> str:
    if not bounds:
        return none
    return bounds[0] if len(bounds) == 1 else f"{function}({', '.join(bounds)})"


def _with_sorted_parameters(points: isl.Set) -> isl.Set:
    """Return a set with its parameters in order of their names; isl keeps the order in which it met them."""
    names = sorted(points.get_var_names_not_none(isl.dim_type.param))
    space = isl.Space.params_alloc(points.get_ctx(), len(names))
    for n, name in enumerate(names):
        space = space.set_dim_name(isl.dim_type.param, n, name)
    return points.align_params(space)


def enumerate_points(points: isl.Set, parameters: Mapping[str, int]) -> Matrix:
    """Return all points of a set in lexicographic order; axes (point, dimension).

    Raises:
        TransformError: if a parameter has no value, or there are infinitely many points.
    """
    for n, name in enumerate(points.get_var_names_not_none(isl.dim_type.param)):
        if name not in parameters:
            raise TransformError(f"parameter {name} has no value; give one")
        points = points.fix_val(isl.dim_type.param, n, isl.Val(int(parameters[name])))
    points = points.project_out(isl.dim_type.param, 0, points.dim(isl.dim_type.param))
    n_dims = points.dim(isl.dim_type.set)
    if not points.is_bounded():
        raise TransformError(f"infinitely many points: {points}")
    found: list[list[int]] = []

    def add(point: isl.Point) -> None:
        found.append([int(point.get_coordinate_val(isl.dim_type.set, n).to_python()) for n in range(n_dims)])

    points.foreach_point(add)
    return np.array(sorted(found), dtype=np.int64).reshape(len(found), n_dims)
