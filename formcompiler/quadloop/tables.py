"""Tables of terminals over facet permutations, facets, points and dofs, without the axes they do not depend on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from formcompiler.elements import cells
from formcompiler.elements.cells import FloatArray
from formcompiler.elements.quadrature import QuadratureRule
from formcompiler.elements.tables import component_layout, tabulate_component
from formcompiler.frontend.integrals import FormIntegral

_RELATIVE_NOISE = 4e-15


@dataclass(frozen=True, eq=False)
class Table:
    """Values with axes (facet permutation, facet, point, dof); an axis that does not matter has length 1.

    Attributes:
        values: The table.
        offset: Dof of the element that the first column belongs to.
        stride: Distance of the dofs of the next columns.
    """

    values: FloatArray
    offset: int = 0
    stride: int = 1

    @property
    def n_dofs(self) -> int:
        """Return the number of columns."""
        return int(self.values.shape[3])

    @property
    def varies_with_point(self) -> bool:
        """Tell whether the values differ between points."""
        return bool(self.values.shape[2] > 1)

    @property
    def is_zero(self) -> bool:
        """Tell whether all values vanish."""
        return not bool(self.values.any())


class PointSets:
    """The points of a rule in the reference cell, for each facet permutation and facet (or vertex)."""

    def __init__(self, integral: FormIntegral, rule: QuadratureRule, integral_type: str) -> None:
        self.cell = integral.cell
        self.rule = rule
        self._facet = integral.facet if cells.dimension(integral.cell) > 0 else ""
        self._kind = integral_type
        self.on_facets = "facet" in self._kind or (
            self._kind == "expression" and rule.points.shape[1] < cells.dimension(self.cell)
        )
        self._sees_permutations = self.on_facets and self._kind != "exterior_facet"

    def collect(self, evaluate: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return evaluate(points), axes (point, dof), stacked to (facet permutation, facet, point, dof)."""
        if self._kind == "vertex":
            return np.stack([np.stack([evaluate(v[None]) for v in cells.vertices(self.cell)])])
        if not self.on_facets:
            return evaluate(self.rule.points)[None, None]
        return np.stack([self._on_each_facet(evaluate, points) for points in self.facet_points()])

    def _on_each_facet(self, evaluate: Callable[[FloatArray], FloatArray], points: FloatArray) -> FloatArray:
        """Return the values on each facet, axes (facet, point, dof); zeros on facets of another kind."""
        values = {
            facet: evaluate(cells.map_to_facet(self.cell, facet, points))
            for facet, kind in enumerate(cells.facet_cells(self.cell))
            if kind == self._facet
        }
        nothing = np.zeros_like(next(iter(values.values())))
        return np.stack([values.get(facet, nothing) for facet in range(len(cells.facet_cells(self.cell)))])

    def facet_points(self) -> list[FloatArray]:
        """Return the points of the reference facet as each facet permutation sees them."""
        n = cells.n_facet_permutations(self._facet) if self._sees_permutations else 1
        return [cells.permute_facet_points(self._facet, p, self.rule.points) for p in range(n)]


def compress(values: FloatArray) -> FloatArray:
    """Return a table without the first three axes along which it is constant up to rounding noise."""
    noise = _RELATIVE_NOISE * max(1.0, float(np.abs(values).max(initial=0.0)))
    for axis in range(3):
        first = values.take([0], axis=axis)
        if values.shape[axis] > 1 and np.abs(values - first).max(initial=0.0) <= noise:
            values = first
    return values


class ElementTables:
    """Tables of basis functions at the points of one rule; each is made once."""

    def __init__(self, points: PointSets) -> None:
        self._points = points
        self._get = lru_cache(maxsize=None)(self._make)

    def __call__(self, element: Any, component: int, derivatives: tuple[int, ...]) -> Table:
        """Return the table of one derivative of one reference component."""
        return self._get(element, component, derivatives or (0,) * cells.dimension(element.cell_type.name))

    def _make(self, element: Any, component: int, derivatives: tuple[int, ...]) -> Table:
        _, offset, stride = component_layout(element, component)

        def evaluate(x: FloatArray) -> FloatArray:
            return tabulate_component(element, component, derivatives, x).values

        if element.cell_type.name == self._points.cell:
            values = self._points.collect(evaluate)
        else:  # a function on the mesh of the facets
            values = evaluate(self._points.rule.points)[None, None]
        return Table(compress(values), offset, stride)


def geometry_table(points: PointSets, kind: str, component: int) -> npt.NDArray[Any]:
    """Return a geometric terminal that depends on the rule's points only, axes as in `Table`.

    Raises:
        KeyError: if the kind is not such a terminal.
    """
    if kind == "weight":
        return compress(points.rule.weights[None, None, :, None])
    if kind == "reference_coordinate":
        return compress(points.collect(lambda x: x[:, component : component + 1]))
    if kind == "facet_coordinate":
        return compress(np.stack([p[None, :, component : component + 1] for p in points.facet_points()]))
    raise KeyError(kind)
