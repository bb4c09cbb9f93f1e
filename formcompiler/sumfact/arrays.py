"""Arrays and 1D tables of a factorized kernel: axes of one entry are dropped, flags choose among tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymbolic.primitives as prim

from formcompiler.elements.tables import TensorFactor
from formcompiler.kernel.builder import Expression, KernelBuilder
from formcompiler.sumfact.frames import FrameAccess


@dataclass(frozen=True)
class Array:
    """A temporary array of the kernel.

    Attributes:
        name: Its name.
        shape: Its axes; those of length 1 are not stored.
    """

    name: str
    shape: tuple[int, ...]

    def __getitem__(self, index: Sequence[Expression]) -> Expression:
        """Return one entry."""
        kept = tuple(i for i, extent in zip(index, self.shape, strict=True) if extent > 1)
        return prim.Variable(self.name)[kept] if kept else prim.Variable(self.name)


def make_array(builder: KernelBuilder, wish: str, shape: Sequence[int], dtype: Any = "scalar") -> Array:
    """Add a temporary array to a kernel."""
    stored = tuple(extent for extent in shape if extent > 1)
    return Array(builder.temporary(wish, stored, dtype), tuple(shape))


class LineTables:
    """1D tables of products of basis functions of one or two arguments.

    Args:
        builder: The kernel under construction.
        access: The frame, with its flags.
    """

    def __init__(self, builder: KernelBuilder, access: FrameAccess) -> None:
        self._builder = builder
        self._access = access

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
            sides: Cell that each argument belongs to; arguments of one cell share its flag.
            point: Index of the point along the role.
            dofs: Index of the 1D basis function for each argument.
        """
        points = self._access.frame.roles[role].points
        cells = sorted(set(sides))
        shape = (len(points),) * len(cells)
        values = np.stack(
            [
                self._product(factors, derivatives, [points[flags[cells.index(s)]] for s in sides])
                for flags in np.ndindex(*shape)
            ]
        ).reshape(*shape, points.shape[1], *(f.n for f in factors))
        index = [self._access.flag(role, side) for side in cells]
        position = [*(0 if i is None else i for i in index), point, *dofs]
        kept = [axis for axis, extent in enumerate(values.shape) if extent > 1]
        if not kept:
            return float(values.item())
        wish = "_".join(("B" + "d" * order) for order in derivatives)
        stored = values.reshape([values.shape[axis] for axis in kept])
        return prim.Variable(self._builder.table(wish, stored))[tuple(position[axis] for axis in kept)]

    @staticmethod
    def _product(factors: Sequence[TensorFactor], derivatives: Sequence[int], points: Sequence[Any]) -> Any:
        tables = [f.tabulate(d, x) for f, d, x in zip(factors, derivatives, points, strict=True)]
        if len(tables) == 1:
            return tables[0]
        return np.einsum("qi,qj->qij", *tables)
