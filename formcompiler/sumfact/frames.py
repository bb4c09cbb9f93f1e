"""Frames: how the directions of a cell play the roles of normal and tangential directions of its facet.

On a facet the roles are (normal, first, second tangential): the points vary with the tangential roles only. Which
direction of the cell plays which role depends on the facet's number and on the facet permutation. A kernel for all of
them learns these when it runs: 1D tables are chosen by a *flag* (which end of the normal direction; reflected points
or not) and dofs are gathered by an *order* (a permutation of the directions). A kernel for facets in one place has a
single order and a single flag of each role for each side. In a cell integral roles are directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as prim

from formcompiler.elements import cells
from formcompiler.elements.cells import TENSOR_CELLS, FloatArray
from formcompiler.elements.quadrature import QuadratureRule
from formcompiler.frontend.integrals import FacetPosition
from formcompiler.kernel.builder import Expression, KernelBuilder


@dataclass(frozen=True, eq=False)
class Role:
    """One direction of the frame.

    Attributes:
        points: 1D points, axes (flag, point).
    """

    points: FloatArray

    @property
    def n_points(self) -> int:
        """Return the number of points along this role."""
        return int(self.points.shape[1])

    @property
    def n_flags(self) -> int:
        """Return how many tables the kernel chooses from."""
        return int(self.points.shape[0])


@dataclass(frozen=True, eq=False)
class Side:
    """The roles of one cell.

    Attributes:
        roles: Normal first on facets.
        orders: The directions of the cell that can play the roles, ``orders[n][role]``.
    """

    roles: tuple[Role, ...]
    orders: tuple[tuple[int, ...], ...]

    def permute(self, counts: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return derivative counts per role for each order, from counts per direction of the cell."""
        return [tuple(counts[direction] for direction in order) for order in self.orders]

    def gather(self, permutation: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return the dof of each multi-index per role, axes (order, flattened multi-index)."""
        return np.stack([permutation.transpose(order).ravel() for order in self.orders])


@dataclass(frozen=True, eq=False)
class Frame:
    """The roles of one integrand.

    Attributes:
        sides: Those of each cell.
        selectors: Index of the order (entry 0) and flag of each role (entries 1..), axes (facet, facet permutation,
            entry); None if there is nothing to choose.
    """

    sides: tuple[Side, ...]
    selectors: npt.NDArray[np.int64] | None

    @property
    def dim(self) -> int:
        """Return the number of roles."""
        return len(self.sides[0].roles)

    @property
    def n_points(self) -> tuple[int, ...]:
        """Return the number of points along each role."""
        return tuple(role.n_points for role in self.sides[0].roles)


def make_frame(cell: str, integral_type: str, rule: QuadratureRule, positions: Sequence[FacetPosition] = ()) -> Frame:
    """Return the frame of a rule that is a tensor product; positions are given if the kernel is for facets there."""
    dim = TENSOR_CELLS[cell]
    if integral_type == "cell":
        assert rule.factor is not None
        return Frame((Side((Role(rule.factor[0][None]),) * dim, (tuple(range(dim)),)),), None)
    if positions:
        return Frame(tuple(_fixed_side(cell, rule, position) for position in positions), None)
    is_interior = integral_type == "interior_facet"
    normal = Role(np.array([[0.0], [1.0]]))
    orders = tuple(permutations(range(dim)))
    tangential: tuple[Role, ...] = ()
    if rule.factor is not None:
        line = rule.factor[0]
        points = np.stack([line, 1 - line]) if is_interior else line[None]
        tangential = (Role(points),) * (dim - 1)
    n_permutations = cells.n_facet_permutations(cells.facet_cells(cell)[0]) if is_interior else 1
    n_facets = len(cells.facet_cells(cell))
    selectors = [
        [_select(cell, facet, permutation, orders) for permutation in range(n_permutations)]
        for facet in range(n_facets)
    ]
    return Frame((Side((normal, *tangential), orders),) * (1 + is_interior), np.array(selectors))


def _fixed_side(cell: str, rule: QuadratureRule, position: FacetPosition) -> Side:
    frame = cells.facet_frame(cell, *position)
    lines = [] if rule.factor is None else [1 - rule.factor[0] if r else rule.factor[0] for r in frame.reflected]
    roles = (Role(np.array([[float(frame.end)]])), *(Role(line[None]) for line in lines))
    return Side(roles, ((frame.normal, *frame.tangential),))


def _select(cell: str, facet: int, permutation: int, orders: tuple[tuple[int, ...], ...]) -> list[int]:
    """Return the index of the order, the end of the normal direction, and whether each tangential role is reflected."""
    frame = cells.facet_frame(cell, facet, permutation)
    return [orders.index((frame.normal, *frame.tangential)), frame.end, *map(int, frame.reflected)]


class FrameAccess:
    """Reads the selectors of a frame inside a kernel."""

    def __init__(self, builder: KernelBuilder, frame: Frame, n_sides: int, suffix: str) -> None:
        self.frame = frame
        self._values: list[list[Expression]] = []
        for side in range(n_sides if frame.selectors is not None else 0):
            self._values.append(self._read(builder, side, suffix + ("_pn"[1 + side] if n_sides == 2 else "")))

    def _read(self, builder: KernelBuilder, side: int, suffix: str) -> list[Expression]:
        assert self.frame.selectors is not None
        table = prim.Variable(builder.table("selectors", self.frame.selectors))
        permuted = self.frame.selectors.shape[1] > 1
        names = ["order", "end", *(f"reflected_{t}" for t in range(self.frame.dim - 1))]
        result = []
        for entry, name in enumerate(names):
            if entry >= 2 and not permuted:
                break
            variable = prim.Variable(builder.temporary(name + suffix, (), "int32"))
            facet = prim.Variable("facet")[side]
            permutation = prim.Variable("facet_permutation")[side] if permuted else 0
            builder.assign(variable, table[facet, permutation, entry])
            result.append(variable)
        return result

    def order(self, side: int) -> Expression:
        """Return the index of the order of directions of one cell."""
        return self._values[side][0] if self._values else 0

    def flag(self, role: int, side: int) -> Expression | None:
        """Return the flag that selects the table of a role, None if there is just one table."""
        return self._values[side][1 + role] if self.frame.sides[side].roles[role].n_flags > 1 else None
