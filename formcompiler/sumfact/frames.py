"""Frames: how the directions of a cell play the roles of normal and tangential directions of its facet.

On a facet the roles are (normal, first, second tangential): the points vary with the tangential roles only. Which
direction of the cell plays which role, and whether it is seen backwards, depends on the facet's number and on the facet
permutation. A kernel for all of them learns these when it runs, and *turns* the cell: it gathers dofs so that every
facet lies at the start of the normal role, and every cell sees the points of the facet in the same order. So 1D tables
are the same for all facets. A kernel for facets in one place has the tables of this place. In a cell integral roles are
directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as prim

from formcompiler.elements import cells
from formcompiler.elements.cells import TENSOR_CELLS, FacetFrame, FloatArray
from formcompiler.elements.quadrature import QuadratureRule
from formcompiler.elements.tables import TensorFactor
from formcompiler.frontend.integrals import FormIntegral
from formcompiler.kernel.builder import Expression, KernelBuilder

Order = tuple[int, ...]
"""The direction of the cell that plays each role."""


@dataclass(frozen=True)
class Turns:
    """All ways in which a facet can lie in a cell: what kernels for all facets choose from when they run.

    Attributes:
        cell: Name of the cell.
        n_permutations: Number of facet permutations; 1 if each cell sees the points of its facets in its own order.
    """

    cell: str
    n_permutations: int

    @property
    def n_facets(self) -> int:
        """Return the number of facets of the cell."""
        return len(cells.facet_cells(self.cell))

    def frame(self, facet: int, permutation: int) -> FacetFrame:
        """Return how the directions of the cell lie to a facet."""
        return cells.facet_frame(self.cell, facet, permutation)

    @cached_property
    def orders(self) -> tuple[Order, ...]:
        """Return the different orders of directions."""
        found = [_order(self.frame(f, p)) for f in range(self.n_facets) for p in range(self.n_permutations)]
        return tuple(sorted(set(found)))

    def order_numbers(self) -> npt.NDArray[np.int64]:
        """Return the number of the order of directions, axes (facet, facet permutation)."""
        return np.array([[self.orders.index(_order(frame)) for frame in row] for row in self._frames()])

    def signs(self) -> FloatArray:
        """Return -1 for directions of the cell that run against their roles, axes (facet, permutation, direction)."""
        result = np.ones((self.n_facets, self.n_permutations, TENSOR_CELLS[self.cell]))
        for place, row in zip(result, self._frames(), strict=True):
            for signs, frame in zip(place, row, strict=True):
                backwards = (bool(frame.end), *frame.reflected)
                signs[[d for d, is_back in zip(_order(frame), backwards, strict=True) if is_back]] = -1.0
        return result

    def dofs(self, factor: TensorFactor) -> tuple[npt.NDArray[np.int64], FloatArray]:
        """Return the dof at each multi-index per role, and its sign, axes (facet, flat multi-index), unpermuted."""
        turned = [_turn(factor, factor.permutation, self.frame(facet, 0)) for facet in range(self.n_facets)]
        return np.stack([dofs.ravel() for dofs, _ in turned]), np.stack([signs.ravel() for _, signs in turned])

    def facet_dofs(self, factor: TensorFactor) -> tuple[npt.NDArray[np.int64], FloatArray]:
        """Return where the tangential multi-indices of unpermuted facets are found, and signs.

        Axes (facet permutation, flat tangential multi-index); facet permutations turn all facets in the same way.
        """
        dim = TENSOR_CELLS[self.cell]
        numbers = np.arange(factor.n**dim).reshape((factor.n,) * dim).transpose(np.argsort(_order(self.frame(0, 0))))
        turned = [_turn(factor, numbers, self.frame(0, permutation)) for permutation in range(self.n_permutations)]
        return np.stack([dofs[0].ravel() for dofs, _ in turned]), np.stack([signs[0].ravel() for _, signs in turned])

    def _frames(self) -> list[list[FacetFrame]]:
        return [[self.frame(f, p) for p in range(self.n_permutations)] for f in range(self.n_facets)]


def _order(frame: FacetFrame) -> Order:
    return (frame.normal, *frame.tangential)


def _turn(
    factor: TensorFactor, values: npt.NDArray[np.int64], frame: FacetFrame
) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Return an array over directions as an array over roles, and the signs of mirrored basis functions."""
    turned, signs = values.transpose(_order(frame)), np.ones(values.shape)
    for role, is_backwards in enumerate((bool(frame.end), *frame.reflected)):
        if is_backwards:
            turned = turned.take(factor.mirror, axis=role)
            shape = [factor.n if r == role else 1 for r in range(values.ndim)]
            signs = signs * factor.mirror_signs.reshape(shape)
    return turned, signs


@dataclass(frozen=True, eq=False)
class Side:
    """The roles of one cell.

    Attributes:
        points: 1D points along each role; normal first on facets.
        orders: The directions of the cell that can play the roles, ``orders[n][role]``.
    """

    points: tuple[FloatArray, ...]
    orders: tuple[Order, ...]

    def permute(self, counts: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return derivative counts per role for each order, from counts per direction of the cell."""
        return [tuple(counts[direction] for direction in order) for order in self.orders]


@dataclass(frozen=True, eq=False)
class Frame:
    """The roles of one integrand.

    Attributes:
        sides: Those of each cell.
        turns: How cells are turned when the kernel runs; None if there is nothing to choose.
    """

    sides: tuple[Side, ...]
    turns: Turns | None = None

    @property
    def dim(self) -> int:
        """Return the number of roles."""
        return len(self.sides[0].points)

    @property
    def n_points(self) -> tuple[int, ...]:
        """Return the number of points along each role."""
        return tuple(map(len, self.sides[0].points))

    @property
    def is_static(self) -> bool:
        """Return whether directions play the same roles whenever the kernel runs."""
        return all(len(side.orders) == 1 for side in self.sides)


def make_frame(integral: FormIntegral, rule: QuadratureRule) -> Frame:
    """Return the frame of an integrand of an integral, whose rule is a tensor product."""
    cell, dim = integral.cell, TENSOR_CELLS[integral.cell]
    if integral.integral_type == "cell":
        assert rule.factor is not None
        return Frame((Side((rule.factor[0],) * dim, (tuple(range(dim)),)),))
    if integral.positions:
        return Frame(tuple(_fixed_side(rule, cells.facet_frame(cell, *p)) for p in integral.positions))
    is_interior = integral.integral_type == "interior_facet"
    turns = Turns(cell, cells.n_facet_permutations(integral.facet) if is_interior else 1)
    tangential = () if rule.factor is None else (rule.factor[0],) * (dim - 1)
    orders = (_order(turns.frame(0, 0)),) if integral.turned else turns.orders
    return Frame((Side((np.zeros(1), *tangential), orders),) * (1 + is_interior), turns)


def _fixed_side(rule: QuadratureRule, frame: FacetFrame) -> Side:
    lines = [] if rule.factor is None else [1 - rule.factor[0] if r else rule.factor[0] for r in frame.reflected]
    return Side((np.array([float(frame.end)]), *lines), (_order(frame),))


class FrameAccess:
    """Turns cells inside a kernel.

    Args:
        builder: The kernel under construction.
        frame: The frame.
        integral: The integral.
    """

    def __init__(self, builder: KernelBuilder, frame: Frame, integral: FormIntegral) -> None:
        self.frame = frame
        self._builder = builder
        self._is_turned = integral.turned
        self._suffixes = ("_p", "_n") if integral.n_sides == 2 else ("",)
        self._scalars: dict[tuple[Any, ...], Expression] = {}

    def order(self, side: int) -> Expression:
        """Return the number of the order of directions of one cell."""
        if len(self.frame.sides[side].orders) == 1:
            return 0
        assert self.frame.turns is not None
        return self._scalar("order", side, self.frame.turns.order_numbers(), "int32")

    def sign(self, side: int, counts: Sequence[int]) -> Expression | None:
        """Return the factor of a derivative of the turned cell, None if it is 1.

        Args:
            side: The cell.
            counts: Derivatives along each direction of the cell as it lies.
        """
        if self.frame.turns is None or self._is_turned:
            return None
        odd = [direction for direction, count in enumerate(counts) if count % 2]
        signs = self.frame.turns.signs()[:, :, odd].prod(axis=2)
        if (signs == 1).all():
            return None
        return self._scalar(
            "sign_" + "".join(f"d{d}" for d in odd), side, signs, np.empty(0, self._builder.dtype).real.dtype
        )

    def dof(self, side: int, factor: TensorFactor, index: Sequence[Expression]) -> tuple[Expression, Expression | None]:
        """Return the number of a dof, and its sign if it may be -1.

        Args:
            side: The cell.
            factor: 1D element.
            index: Multi-index, one entry for each role.
        """
        if self.frame.turns is None:
            (order,) = self.frame.sides[side].orders
            return self._entry("gather", factor.permutation.transpose(order).ravel(), _flat(factor.n, index)), None
        turns, place = self.frame.turns, prim.Variable("facet")[side]
        flat, sign = _flat(factor.n, index), None
        if turns.n_permutations > 1 and factor.n > 1:
            dofs, signs = turns.facet_dofs(factor)
            seen = (prim.Variable("facet_permutation")[side], _flat(factor.n, index[1:]))
            flat = index[0] * dofs.shape[1] + prim.Variable(self._builder.table("turn", dofs))[seen]
            sign = self._sign(signs, seen)
        dofs, signs = turns.dofs(factor)
        other = self._sign(signs, (place, flat))
        sign = other if sign is None else sign if other is None else prim.Product((sign, other))
        if factor.n == 1:
            return int(dofs[0, 0]), sign
        return prim.Variable(self._builder.table("gather", dofs))[place, flat], sign

    def _sign(self, signs: FloatArray, index: tuple[Expression, ...]) -> Expression | None:
        if (signs == 1).all():
            return None
        return prim.Variable(self._builder.table("signs", signs))[index[: 1 if signs.shape[1] == 1 else 2]]

    def _entry(self, wish: str, values: npt.NDArray[np.int64], number: Expression) -> Expression:
        return int(values[0]) if len(values) == 1 else prim.Variable(self._builder.table(wish, values))[number]

    def _scalar(self, wish: str, side: int, values: npt.NDArray[Any], dtype: Any) -> Expression:
        """Return a variable with what a table says of the facet of one cell, axes (facet, facet permutation)."""
        key = (wish, side)
        if key not in self._scalars:
            place: tuple[Expression, ...] = (prim.Variable("facet")[side], prim.Variable("facet_permutation")[side])
            if values.shape[1] == 1:
                values, place = values[:, 0], place[:1]
            variable = prim.Variable(self._builder.temporary(wish + self._suffixes[side], (), dtype))
            self._builder.assign(variable, prim.Variable(self._builder.table(f"{wish}_of_facet", values))[place])
            self._scalars[key] = variable
        return self._scalars[key]


def _flat(n: int, index: Sequence[Expression]) -> Expression:
    """Return the flat number of a multi-index of directions with n entries."""
    flat: Expression = 0
    for r, i in enumerate(index):
        flat = flat + i * n ** (len(index) - 1 - r)
    return flat
