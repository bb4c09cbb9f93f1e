"""Tables of terminals over facet permutations, facets, points and dofs, without the axes they do not depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from formcompiler.elements import cells
from formcompiler.elements.cells import FloatArray
from formcompiler.elements.modes import expand
from formcompiler.elements.quadrature import QuadratureRule
from formcompiler.elements.tables import component_degree, component_layout, tabulate_component
from formcompiler.errors import UnsupportedFormError
from formcompiler.frontend.integrals import FormIntegral

_RELATIVE_NOISE = 4e-15


@dataclass(frozen=True, eq=False)
class Table:
    """Values with axes (facet permutation, facet, point, dof); an axis that does not matter has length 1.

    For points that are known at run time only, the third axis counts the modes of which the values are sums; the first
    mode is 1.

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


@dataclass(frozen=True)
class Functions:
    """Functions on a reference cell or facet.

    Attributes:
        evaluate: Returns their values, axes (point, function), at points, axes (point, direction).
        degree: Degree of polynomials that contain them.
        name: What to call them in messages.
    """

    evaluate: Callable[[FloatArray], FloatArray]
    degree: int
    name: str

    def on(self, place: Callable[[FloatArray], FloatArray]) -> Functions:
        """Return the functions of points that a linear map takes to where these are defined."""
        return Functions(lambda x: self.evaluate(place(x)), self.degree, self.name)


def repeat_columns(table: Table, n: int) -> Table:
    """Return a table with its first n columns once more behind the last one."""
    if n == 0:
        return table
    return Table(np.concatenate([table.values, table.values[..., :n]], axis=3), table.offset, table.stride)


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
        self._sees_permutations = self.on_facets and (self._kind != "exterior_facet" or integral.sees_facet_mesh)

    def collect(self, functions: Functions) -> FloatArray:
        """Return functions on the cell at the points, axes as in `Table`."""
        if self._kind == "vertex":
            return self._compress(np.stack([functions.evaluate(v[None]) for v in cells.vertices(self.cell)])[None])
        if not self.on_facets:
            return self._compress(self._tabulate(functions)[None, None])
        return self._compress(self._stack(self._on_each_facet(functions, p) for p in range(self._n_permutations)))

    def collect_on_facet(self, functions: Functions) -> FloatArray:
        """Return functions on the reference facet at the points, axes as in `Table`."""
        tables = [self._tabulate(functions.on(self._permutation(p))) for p in range(self._n_permutations)]
        return self._compress(self._stack(table[None] for table in tables))

    def collect_on_facet_mesh(self, functions: Functions) -> FloatArray:
        """Return functions on the facet as its own mesh numbers it, axes as in `Table`."""
        return self._compress(self._tabulate(functions)[None, None])

    def _on_each_facet(self, functions: Functions, permutation: int) -> FloatArray:
        """Return the values on each facet, axes (facet, point, dof); zeros on facets of another kind."""
        permute = self._permutation(permutation)
        values = {
            facet: self._tabulate(functions.on(lambda x, f=facet: cells.map_to_facet(self.cell, f, permute(x))))  # type: ignore[misc]
            for facet, kind in enumerate(cells.facet_cells(self.cell))
            if kind == self._facet
        }
        nothing = np.zeros_like(next(iter(values.values())))
        return self._stack(values.get(facet, nothing) for facet in range(len(cells.facet_cells(self.cell))))

    @property
    def _n_permutations(self) -> int:
        return cells.n_facet_permutations(self._facet) if self._sees_permutations else 1

    def _permutation(self, number: int) -> Callable[[FloatArray], FloatArray]:
        """Return the map of points of the reference facet to where a facet permutation sees them."""
        if not self._sees_permutations:
            return lambda x: x
        return lambda x: cells.permute_facet_points(self._facet, number, x)

    def _tabulate(self, functions: Functions) -> FloatArray:
        """Return the values of functions on the entity that is integrated over, axes (point, function)."""
        return functions.evaluate(self.rule.points)

    @staticmethod
    def _stack(tables: Iterable[FloatArray]) -> FloatArray:
        """Return tables behind one another along a new first axis."""
        return np.stack(list(tables))

    @staticmethod
    def _compress(values: FloatArray) -> FloatArray:
        """Return a table without the first axes along which it is constant."""
        return compress(values, (0, 1, 2))


class ModeSets(PointSets):
    """Functions as combinations of modes, for points that are known at run time only.

    The third axis of its tables counts modes of a `ModalBasis` on the entity that is integrated over.
    """

    def _tabulate(self, functions: Functions) -> FloatArray:
        found = expand(self.rule.cell, functions.degree, functions.evaluate)
        if found is None:
            raise UnsupportedFormError(
                f"{functions.name} is no polynomial on a {self.rule.cell}: integrals with quadrature_rule 'runtime' "
                "evaluate polynomials only; use a rule that is known when the form is compiled, or another element"
            )
        return found

    @staticmethod
    def _stack(tables: Iterable[FloatArray]) -> FloatArray:
        """Return tables behind one another along a new first axis; the last but one counts modes and is filled up."""
        given = list(tables)
        n_modes = max(table.shape[-2] for table in given)
        return np.stack([np.pad(t, [*[(0, 0)] * (t.ndim - 2), (0, n_modes - t.shape[-2]), (0, 0)]) for t in given])

    @staticmethod
    def _compress(values: FloatArray) -> FloatArray:
        return compress(values, (0, 1))


def compress(values: FloatArray, axes: Sequence[int]) -> FloatArray:
    """Return a table without those of the given axes along which it is constant up to rounding noise."""
    noise = _RELATIVE_NOISE * max(1.0, float(np.abs(values).max(initial=0.0)))
    for axis in axes:
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

        functions = Functions(evaluate, component_degree(element, component), str(element))
        is_inside = element.cell_type.name == self._points.cell  # or else a function on the mesh of the facets
        values = self._points.collect(functions) if is_inside else self._points.collect_on_facet_mesh(functions)
        return Table(values, offset, stride)


def geometry_table(points: PointSets, kind: str, component: int) -> npt.NDArray[Any]:
    """Return a geometric terminal that depends on the rule's points only, axes as in `Table`.

    Raises:
        KeyError: if the kind is not such a terminal.
    """
    coordinate = Functions(lambda x: x[:, component : component + 1], 1, f"coordinate {component}")
    if kind == "weight":
        return compress(points.rule.weights[None, None, :, None], (2,))
    if kind == "reference_coordinate":
        return points.collect(coordinate)
    if kind == "facet_coordinate":
        return points.collect_on_facet(coordinate)
    raise KeyError(kind)
