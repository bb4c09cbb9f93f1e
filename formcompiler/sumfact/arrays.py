"""Arrays and 1D tables of a factorized kernel: axes of one entry are dropped, flags choose among tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymbolic.primitives as prim

from formcompiler.elements.cells import FloatArray
from formcompiler.elements.tables import TensorFactor
from formcompiler.kernel.builder import Expression, KernelBuilder
from formcompiler.sumfact.contraction import Collocated, Table
from formcompiler.sumfact.frames import Frame
from formcompiler.sumfact.halves import Halves, half
from formcompiler.sumfact.lines import LineMatrix

_NOISE = 1e-13
_ROUNDING = 4e-15


@dataclass(frozen=True)
class Array:
    """A temporary array of the kernel.

    Attributes:
        name: Its name.
        shape: Its axes; those of length 1 are not stored.
        lane: Index of the lanes behind these axes, if there are any.
    """

    name: str
    shape: tuple[int, ...]
    lane: tuple[Expression, ...] = ()

    def __getitem__(self, index: Sequence[Expression]) -> Expression:
        """Return one entry."""
        kept = (*(i for i, extent in zip(index, self.shape, strict=True) if extent > 1), *self.lane)
        return prim.Variable(self.name)[kept] if kept else prim.Variable(self.name)


class ArrayPool:
    """Gives out temporary arrays; an array that is given back is used again for the same type and shape.

    Args:
        builder: The kernel under construction.
        halves: The lanes, if arrays are stored in halves.
    """

    def __init__(self, builder: KernelBuilder, halves: Halves | None = None) -> None:
        self.halves = halves
        self._builder = builder
        self._free: dict[tuple[Any, ...], list[str]] = {}
        self._keys: dict[str, tuple[Any, ...]] = {}

    def take(self, wish: str, shape: Sequence[int], dtype: Any = "scalar") -> Array:
        """Return an array with undefined values."""
        axes = tuple(shape) if self.halves is None else tuple(map(half, shape))
        lanes = () if self.halves is None else (self.halves.n_lanes,)
        stored = (*(extent for extent in axes if extent > 1), *lanes)
        key = (tuple(shape), self._builder.dtype if dtype == "scalar" else np.dtype(dtype))
        if stored and self._free.get(key):
            name = self._free[key].pop()
        else:
            name = self._builder.temporary(wish, stored, dtype)
            self._keys[name] = key
        return Array(name, axes, () if self.halves is None else (self.halves.lane,))

    def give_back(self, arrays: Iterable[Array]) -> None:
        """Let others have arrays whose values are not needed any more."""
        for array in arrays:
            self._free.setdefault(self._keys[array.name], []).append(array.name)


def make_array(builder: KernelBuilder, wish: str, shape: Sequence[int], dtype: Any = "scalar") -> Array:
    """Add a temporary array to a kernel."""
    stored = tuple(extent for extent in shape if extent > 1)
    return Array(builder.temporary(wish, stored, dtype), tuple(shape))


class LineTables:
    """1D tables of products of basis functions of one or two arguments.

    Args:
        builder: The kernel under construction.
        frame: The frame.
    """

    def __init__(self, builder: KernelBuilder, frame: Frame) -> None:
        self._builder = builder
        self._frame = frame
        self._matrices: dict[tuple[Any, ...], LineMatrix] = {}
        self._constant: dict[tuple[Any, ...], bool] = {}

    def matrix(self, role: int, factor: TensorFactor, table: Table, side: int, *, transposed: bool) -> LineMatrix:
        """Return what acts along lines of a role: from dofs to points, or transposed.

        Args:
            role: Direction of the frame.
            factor: 1D element.
            table: Derivative of the basis functions, or of the polynomial through values at the points.
            side: Cell that the element belongs to.
            transposed: Whether the matrix goes from points to dofs (to points, if collocated).
        """
        key = (role, factor, table, side, transposed)
        if key not in self._matrices:
            self._matrices[key] = self._make_matrix(role, factor, table, side, transposed=transposed)
        return self._matrices[key]

    def _make_matrix(self, role: int, factor: TensorFactor, table: Table, side: int, *, transposed: bool) -> LineMatrix:
        points = self.points(role, side)
        if isinstance(table, Collocated):
            values = np.linalg.matrix_power(differentiation_matrix(points), table.order)
        else:
            values = without_noise(factor.tabulate(table, points))
        return LineMatrix(values.T if transposed else values)

    def points(self, role: int, side: int) -> FloatArray:
        """Return the 1D points of a role."""
        return self._frame.sides[side].points[role]

    def is_constant(self, role: int, factor: TensorFactor, order: int, side: int) -> bool:
        """Return whether a derivative of all basis functions is the same at all points of all cells."""
        key = (role, factor, order, side)
        if key not in self._constant:
            values = factor.tabulate(order, self.points(role, side))
            is_same = bool(np.abs(values - values[0]).max(initial=0.0) < _NOISE)
            self._constant[key] = self._frame.is_static and is_same
        return self._constant[key]

    def entry(
        self,
        role: int,
        factors: Sequence[TensorFactor],
        derivatives: Sequence[int],
        sides: Sequence[int],
        point: Expression,
        dofs: Sequence[Expression],
    ) -> Expression:
        """Return the product over arguments of one derivative each of a 1D basis function at one point.

        Args:
            role: Direction of the frame.
            factors: 1D element of each argument.
            derivatives: Order of the derivative for each argument.
            sides: Cell that each argument belongs to.
            point: Index of the point along the role.
            dofs: Index of the 1D basis function for each argument; or one index of a pair of functions, see `pair`.
                Values of pairs of the same function count half.
        """
        values = self._product(factors, derivatives, [self.points(role, side) for side in sides])
        if len(dofs) < len(factors):
            rows, columns = np.triu_indices(factors[0].n)
            values = values[..., rows, columns] * np.where(rows == columns, 0.5, 1.0)
        if np.abs(values - values[:1]).max(initial=0.0) <= _NOISE * np.abs(values).max(initial=0.0):
            values = values[:1]
        position = [point, *dofs]
        kept = [axis for axis, extent in enumerate(values.shape) if extent > 1]
        if not kept:
            return float(values.item())
        wish = "_".join(("B" + "d" * order) for order in derivatives)
        stored = values.reshape([values.shape[axis] for axis in kept])
        return prim.Variable(self._builder.table(wish, stored))[tuple(position[axis] for axis in kept)]

    def pair(self, n: int, number: Expression) -> tuple[Expression, Expression]:
        """Return row and column of an entry of a triangle of n rows, diagonal included."""
        if n == 1:
            return (0, 0)
        names = ("pair_rows", "pair_columns")
        first, second = (
            prim.Variable(self._builder.table(name, values))[number]
            for name, values in zip(names, np.triu_indices(n), strict=True)
        )
        return (first, second)

    @staticmethod
    def _product(factors: Sequence[TensorFactor], derivatives: Sequence[int], points: Sequence[Any]) -> Any:
        tables = [f.tabulate(d, x) for f, d, x in zip(factors, derivatives, points, strict=True)]
        if len(tables) == 1:
            return tables[0]
        return np.einsum("qi,qj->qij", *tables)


def without_noise(values: FloatArray) -> FloatArray:
    """Return a table whose entries within rounding of -1, 0 and 1 are these: basis functions at the ends, mostly."""
    nearest = np.round(values)
    noise = _ROUNDING * max(1.0, float(np.abs(values).max(initial=0.0)))
    is_near = (np.abs(nearest) <= 1) & (np.abs(values - nearest) <= noise)
    return np.where(is_near, nearest + 0.0, values)


def differentiation_matrix(points: FloatArray) -> FloatArray:
    """Return the derivatives at points of the polynomials that are 1 at one point and 0 at the others.

    Barycentric formula, diagonal from the fact that constants have no derivative (J.-P. Berrut, L. N. Trefethen,
    Barycentric Lagrange interpolation, SIAM Rev. 46, 2004).

    Returns:
        Axes (point, polynomial).
    """
    distances = points[:, None] - points[None, :] + np.eye(len(points))
    weights = 1 / distances.prod(axis=1)
    matrix = weights[None, :] / weights[:, None] / distances
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, -matrix.sum(axis=1))
    return np.asarray(matrix)


MAX_LINE_PRODUCTS = 400
"""A line with more products is a loop: the text would grow without bounds, and registers do not hold it anyway."""


@dataclass(frozen=True)
class LineSpace:
    """The lines of one 1D element in a frame: what a plan of contractions has to know.

    Attributes:
        tables: The tables.
        frame: The frame.
        factor: The 1D element.
        side: The cell that it belongs to.
        transposed: Whether matrices go from points to dofs.
    """

    tables: LineTables
    frame: Frame
    factor: TensorFactor
    side: int
    transposed: bool

    def matrix(self, role: int, table: Table) -> LineMatrix:
        """Return the matrix of a table along a role."""
        return self.tables.matrix(role, self.factor, table, self.side, transposed=self.transposed)

    def unrolled_matrix(self, role: int, table: Table) -> LineMatrix | None:
        """Return the matrix if its lines are short enough to be written out."""
        return self.matrix(role, table) if self._is_short(role) else None

    def is_constant(self, role: int, table: Table) -> bool:
        """Return whether values of a table are stored once for all points."""
        return (
            not self.transposed
            and not isinstance(table, Collocated)
            and self._is_short(role)
            and self.tables.is_constant(role, self.factor, table, self.side)
        )

    def collocates(self, role: int, order: int) -> bool:
        """Return whether a derivative may be taken of values at the points: the points determine the polynomials."""
        n = self.frame.n_points[role]
        return self._is_short(role) and n >= max(2, self.factor.n) and not self.is_constant(role, order)

    def entry(
        self, role: int, table: Table, before: tuple[Expression, ...], after: tuple[Expression, ...]
    ) -> Expression:
        """Return an entry of a table at an index before and an index after the contraction."""
        point, dof = (before, after) if self.transposed else (after, before)
        return self.tables.entry(role, [self.factor], [table], [self.side], point[0], dof)

    def _is_short(self, role: int) -> bool:
        return self.frame.n_points[role] * self.factor.n <= MAX_LINE_PRODUCTS
