"""One cell at a set of points: coordinates, Jacobians and derived quantities, as jets in reference coordinates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from formcompiler.elements import cells
from formcompiler.elements.cells import FloatArray
from formcompiler.elements.quadrature import facet_measure_degree, make_quadrature, measure_degree
from formcompiler.elements.tables import tabulate_component
from formcompiler.reference.jets import NO_DIRECTION, Jet, constant, differentiate, power, stack
from formcompiler.reference.tensors import contract, cross, determinant, inverse, normalize


def multi_indices(order: int, n_own: int, n_coordinates: int) -> Iterator[tuple[int, ...]]:
    """Yield all powers of the first ``n_own`` of ``n_coordinates`` variables up to a total degree."""
    for powers in itertools.product(range(order + 1), repeat=n_own):
        if sum(powers) <= order:
            yield powers + (0,) * (n_coordinates - n_own)


class Cell:
    """A cell with points in it.

    Attributes:
        name: Name of the reference cell.
        tdim: Its dimension.
        gdim: Dimension of the space.
        element: Coordinate element.
        nodes: Coordinates of the geometry nodes, axes (node, direction).
        points: Reference coordinates of the points, axes (point, direction).
        facet: Number of the facet that the points lie on, if any.
        facet_points: The points in reference coordinates of that facet.
        permutation: Facet permutation that took the points of the facet's own mesh to these.
    """

    def __init__(
        self,
        element: Any,
        nodes: FloatArray,
        points: FloatArray,
        facet: int | None = None,
        facet_points: FloatArray | None = None,
        permutation: int = 0,
    ) -> None:
        self.name: str = element.cell_type.name
        self.tdim = cells.dimension(self.name)
        self.gdim = nodes.shape[1]
        self.element, self.nodes, self.points = element, nodes, points
        self.facet, self.facet_points, self.permutation = facet, facet_points, permutation
        self.n_coordinates = self.tdim
        self._jets: dict[tuple[str, int], Jet] = {}
        self._tables: dict[Any, FloatArray] = {}

    def at(self, points: FloatArray, facet: int | None = None, facet_points: FloatArray | None = None) -> Cell:
        """Return the same cell at other points."""
        return Cell(self.element, self.nodes, points, facet, facet_points)

    def table(self, element: Any, powers: tuple[int, ...]) -> FloatArray:
        """Return Taylor coefficients of all reference components of all basis functions.

        Returns:
            Axes (point, dof, flat reference component).
        """
        key = (element, powers)
        if key not in self._tables:
            own = powers[: self.tdim]
            result = np.zeros((len(self.points), element.dim, element.reference_value_size))
            for component in range(element.reference_value_size):
                part = tabulate_component(element, component, own, self.points)
                dofs = part.offset + part.stride * np.arange(part.values.shape[1])
                if dofs[-1] < element.dim:  # basix counts all entries of symmetric tensors; the spare ones are not read
                    result[:, dofs, component] = part.values
            self._tables[key] = result / math.prod(math.factorial(p) for p in own)
        return self._tables[key]

    def basis(self, element: Any, order: int) -> Jet:
        """Return the reference basis, axes (point, dof, flat reference component)."""
        keys = multi_indices(order, self.tdim, self.n_coordinates)
        return Jet(order, {(powers, NO_DIRECTION): self.table(element, powers) for powers in keys})

    def jet(self, name: str, order: int) -> Jet:
        """Return a quantity that varies within the cell, axes (point, ...); ``name`` is that of a method."""
        if (name, order) not in self._jets:
            self._jets[name, order] = getattr(self, name)(order)
        return self._jets[name, order]

    def coordinate(self, order: int) -> Jet:
        """Return the physical coordinates, axes (point, direction)."""
        basis = self.basis(self.element, order)
        if basis.value.shape[2] == 1:
            return basis.map(lambda t: np.asarray(np.einsum("pnc,nd->pd", t, self.nodes)))
        return basis.map(lambda t: np.asarray(np.einsum("pnd,n->pd", t, self.nodes.ravel())))

    def reference_coordinate(self, order: int) -> Jet:
        """Return the reference coordinates, axes (point, direction)."""
        result = constant(self.points, order, self.n_coordinates)
        for i in range(self.tdim if order else 0):
            powers = tuple(int(i == j) for j in range(self.n_coordinates))
            result.terms[powers, NO_DIRECTION] = np.eye(self.tdim)[i][None]
        return result

    def jacobian(self, order: int) -> Jet:
        """Return the derivatives of the coordinates, axes (point, direction, reference direction)."""
        x = self.jet("coordinate", order + 1)
        return stack([differentiate(x, i) for i in range(self.tdim)], 2)

    def det_jacobian(self, order: int) -> Jet:
        """Return the determinant of the Jacobian with its sign (on manifolds: its size), axes (point,)."""
        return determinant(self.jet("jacobian", order))

    def inverse_jacobian(self, order: int) -> Jet:
        """Return the (left) inverse of the Jacobian, axes (point, reference direction, direction)."""
        return inverse(self.jet("jacobian", order))

    def facet_jacobian(self, order: int) -> Jet:
        """Return the Jacobian of the map from the reference facet, axes (point, direction, facet direction)."""
        embedding = cells.facet_jacobians(self.name)[self.on_facet]
        return self.jet("jacobian", order).map(lambda t: t @ embedding)

    def det_facet_jacobian(self, order: int) -> Jet:
        """Return the factor by which the map from the reference facet scales areas, axes (point,)."""
        if self.tdim == 1:
            return constant(np.ones(1), order, self.n_coordinates)
        columns = self.jet("facet_jacobian", order)
        gram = contract(columns, columns, "...ki,...kj->...ij")
        return power(determinant(gram), 0.5)

    def inverse_facet_jacobian(self, order: int) -> Jet:
        """Return the left inverse of the facet Jacobian."""
        return inverse(self.jet("facet_jacobian", order))

    def normal(self, order: int) -> Jet:
        """Return the outward unit normal of the facet, axes (point, direction)."""
        reference = cells.facet_normals(self.name)[self.on_facet]
        return normalize(self.jet("inverse_jacobian", order).map(lambda t: np.einsum("pij,i->pj", t, reference)))

    def cell_normal(self, order: int) -> Jet:
        """Return the unit normal of a cell of codimension one, axes (point, direction)."""
        jacobian = self.jet("jacobian", order)
        columns = [jacobian.map(lambda t, i=i: t[..., i]) for i in range(self.tdim)]  # type: ignore[misc]
        if (self.tdim, self.gdim) == (2, 3):
            return normalize(cross(*columns))
        assert (self.tdim, self.gdim) == (1, 2)
        return normalize(columns[0].map(lambda t: np.stack([-t[..., 1], t[..., 0]], axis=-1)))

    @property
    def on_facet(self) -> int:
        """Return the number of the facet."""
        assert self.facet is not None
        return self.facet

    @property
    def facet_cell(self) -> str:
        """Return the reference cell of the facet."""
        return cells.facet_cells(self.name)[self.on_facet]

    def quadrature(self, degree: int) -> tuple[Cell, FloatArray]:
        """Return the cell at quadrature points, and weights that include the volume element."""
        rule = make_quadrature(self.name, degree, "default")
        cell = self.at(rule.points)
        return cell, rule.weights * np.abs(cell.jet("det_jacobian", 0).value)

    def facet_quadrature(self, degree: int) -> tuple[Cell, FloatArray]:
        """Return the cell at quadrature points of its facet, and weights that include the area element."""
        rule = make_quadrature(self.facet_cell, degree, "default")
        cell = self.at(cells.map_to_facet(self.name, self.on_facet, rule.points), self.facet, rule.points)
        return cell, rule.weights * cell.jet("det_facet_jacobian", 0).value

    def volume(self) -> float:
        """Return the volume of the cell."""
        degree = measure_degree(self.name, self.element.embedded_subdegree, self.gdim)
        return float(self.quadrature(degree)[1].sum())

    def facet_area(self) -> float:
        """Return the area of the facet."""
        degree = facet_measure_degree(self.facet_cell, self.element.embedded_subdegree)
        return float(self.facet_quadrature(degree)[1].sum())

    def vertices(self) -> FloatArray:
        """Return the physical vertices, axes (vertex, direction)."""
        return np.asarray(self.at(cells.vertices(self.name)).jet("coordinate", 0).value)

    def edge_vectors(self, facet: int | None = None, reference: bool = False) -> FloatArray:
        """Return the vectors along the edges (of a facet), axes (edge, direction)."""
        corners = cells.vertices(self.name) if reference else self.vertices()
        topology = cells.topology(self.name)
        inside = set(topology[-2][facet]) if facet is not None else set(range(len(corners)))
        return np.array([corners[b] - corners[a] for a, b in topology[1] if {a, b} <= inside])

    def diameter(self) -> float:
        """Return the largest distance of two vertices."""
        corners = self.vertices()
        return float(np.linalg.norm(corners[:, None] - corners[None, :], axis=2).max())

    def circumradius(self) -> float:
        """Return the radius of the sphere through all vertices of a simplex."""
        corners = self.vertices()
        edges = corners[1:] - corners[0]
        # The centre c = edges^T s has |c|^2 = |c - e|^2 for every edge e from vertex 0: 2 e.c = e.e.
        s = np.linalg.solve(2 * edges @ edges.T, (edges**2).sum(axis=1))
        return float(np.linalg.norm(s @ edges))


class FacetCell(Cell):
    """A facet as a cell of its own, seen from the cell that it bounds; its jets use the first coordinates only."""

    def __init__(self, element: Any, parent: Cell) -> None:
        assert parent.facet_points is not None
        self.parent = parent
        kind, number = element.cell_type.name, parent.permutation
        super().__init__(element, parent.nodes, cells.unpermute_facet_points(kind, number, parent.facet_points))
        self.n_coordinates = parent.n_coordinates

    def coordinate(self, order: int) -> Jet:
        """Return the coordinates of the cell along the facet, axes (point, direction)."""
        x = self.parent.jet("coordinate", order)
        corners = np.vstack([np.zeros(self.tdim), np.eye(self.tdim)])
        ends = cells.permute_facet_points(self.name, self.parent.permutation, corners)
        columns = cells.facet_jacobians(self.parent.name)[self.parent.on_facet] @ (ends[1:] - ends[0]).T
        result = constant(np.zeros((1, self.gdim)), order, self.n_coordinates)
        for (powers, directions), term in x.terms.items():
            for own, factor in _expand_powers(powers, columns).items():
                key = (own + (0,) * (self.n_coordinates - self.tdim), directions)
                result.terms[key] = result.terms.get(key, 0.0) + factor * term
        return result


def _expand_powers(powers: tuple[int, ...], columns: FloatArray) -> dict[tuple[int, ...], float]:
    """Return the polynomial prod_i (sum_j columns[i, j] xi_j) ** powers[i] by its powers of xi."""
    n = columns.shape[1]
    result = {(0,) * n: 1.0}
    for i, exponent in enumerate(powers):
        for _ in range(exponent):
            product: dict[tuple[int, ...], float] = {}
            for key, factor in result.items():
                for j in range(n):
                    higher = tuple(p + (j == k) for k, p in enumerate(key))
                    product[higher] = product.get(higher, 0.0) + factor * float(columns[i, j])
            result = product
    return result
