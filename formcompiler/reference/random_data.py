"""Random cells, pairs of neighbours that share a facet in any orientation, and values of functions on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from formcompiler.elements import cells
from formcompiler.elements.cells import FloatArray
from formcompiler.elements.quadrature import make_quadrature
from formcompiler.elements.tables import tabulate_component
from formcompiler.frontend.integrals import IN_CELLS
from formcompiler.reference.jets import Array

RANGES = ((0.3, 1.2), (-1.0, 1.0), (0.0, 0.1), (1.5, 2.5))
"""Ranges of values, tried one after the other until a form can be evaluated: logarithms and roots have domains."""


@dataclass(frozen=True, eq=False)
class Entity:
    """A cell, facet or vertex with its surroundings.

    Attributes:
        coordinates: Nodes of the cell, axes (node, direction); of both cells, axes (side, node, direction).
        local_facet: Number of the facet (or vertex) in the cell; one for each side on interior facets.
        facet_permutation: How each side sees the facet.
    """

    coordinates: FloatArray
    local_facet: Any = None
    facet_permutation: Any = None


def _interpolation(element: Any) -> tuple[FloatArray, FloatArray]:
    """Return how coordinate dofs follow from positions: reference points and a matrix, axes (dof, point)."""
    scalar = element.sub_elements[0] if element.block_size > 1 else element
    basix_element = scalar.basix_element
    return np.asarray(basix_element.points), np.asarray(basix_element.interpolation_matrix)


def random_cell(element: Any, rng: np.random.Generator, noise: float = 0.08, geometry: str = "general") -> FloatArray:
    """Return the coordinate dofs of a turned, stretched and dented cell, axes (node, direction).

    Affine cells have no dents, and those of ``geometry="axis_parallel"`` are not turned either.
    """
    points, matrix = _interpolation(element)
    tdim, gdim = points.shape[1], int(element.reference_value_size)
    frame = np.linalg.qr(rng.standard_normal((gdim, gdim)))[0][:, :tdim] * rng.uniform(0.7, 1.3, tdim)
    dents = noise / max(1, element.embedded_superdegree) * rng.standard_normal((len(matrix), gdim))
    if geometry == "axis_parallel":
        frame = np.diag(rng.uniform(0.7, 1.3, tdim))
    if geometry == "general":
        return np.asarray(matrix @ points @ frame.T + dents)
    return np.asarray(matrix @ (points @ frame.T + dents[0]))


def random_entity(
    element: Any, integral_type: str, rng: np.random.Generator, facet_cell: str = "", geometry: str = "general"
) -> Entity:
    """Return an entity with random geometry.

    Args:
        element: Coordinate element.
        integral_type: "cell", "exterior_facet", "interior_facet" or "vertex".
        rng: Source of randomness.
        facet_cell: Kind of the facet, for cells with facets of several kinds.
        geometry: Kind of the cells: "general", "affine" or "axis_parallel".
    """
    name = element.cell_type.name
    cell = random_cell(element, rng, geometry=geometry)
    if integral_type in IN_CELLS:
        return Entity(cell)
    if integral_type == "vertex":
        return Entity(cell, int(rng.integers(len(cells.vertices(name)))))
    kinds = cells.facet_cells(name)
    usable = [i for i, kind in enumerate(kinds) if kind == (facet_cell or kinds[0])]
    if integral_type == "exterior_facet":
        return Entity(cell, int(rng.choice(usable)), int(rng.integers(cells.n_facet_permutations(kinds[usable[0]]))))
    if geometry == "axis_parallel":
        return _next_box(element, cell, rng)
    return _neighbours(element, cell, rng, usable, geometry == "general")


def _next_box(element: Any, first: FloatArray, rng: np.random.Generator) -> Entity:
    """Return a box and the one behind one of its facets, of another length in this direction."""
    facet = int(rng.integers(len(cells.facet_cells(element.cell_type.name))))
    normals = cells.facet_normals(element.cell_type.name)
    opposite = int(np.argmin(normals @ normals[facet]))
    nodes, direction = _interpolation(element)[0], int(np.argmax(np.abs(normals[facet])))
    second, length = first.copy(), rng.uniform(0.7, 1.3)
    end = first[:, direction].max() if normals[facet, direction] > 0 else first[:, direction].min() - length
    second[:, direction] = end + length * nodes[:, direction]
    return Entity(np.stack([first, second]), [facet, opposite], [0, 0])


def _neighbours(
    element: Any, first: FloatArray, rng: np.random.Generator, usable: list[int], is_dented: bool
) -> Entity:
    """Return two cells that share a facet: permuted points of the reference facet are the same physical points."""
    name = element.cell_type.name
    facets = [int(f) for f in rng.choice(usable, size=2)]
    kind = cells.facet_cells(name)[facets[0]]
    permutations = [int(p) for p in rng.integers(cells.n_facet_permutations(kind), size=2)]
    points, matrix = _interpolation(element)
    along, away = _facet_coordinates(name, facets[1], points)
    rule = make_quadrature(kind, 2 * element.embedded_superdegree, "default")
    on_facet = cells.map_to_facet(name, facets[1], rule.points)
    traces = tabulate_component(element, 0, (0,) * cells.dimension(name), on_facet).values
    off_facet = np.abs(traces).max(axis=0) < 1e-12
    seen = cells.permute_facet_points(kind, permutations[0], cells.unpermute_facet_points(kind, permutations[1], along))
    there = cells.map_to_facet(name, facets[0], seen)
    second = tabulate_component(element, 0, (0,) * cells.dimension(name), there).values @ first
    corners = list(cells.topology(name)[-2][facets[0]])
    outside = cells.vertices(name)[corners].mean(axis=0) - cells.vertices(name).mean(axis=0)
    middle = cells.vertices(name).mean(axis=0)
    ends = tabulate_component(element, 0, (0,) * cells.dimension(name), np.stack([middle, middle + outside])).values
    outward = (ends[1] - ends[0]) @ first
    outward /= np.linalg.norm(outward)
    second = matrix @ (second + np.outer(away, outward))
    if is_dented:
        second[off_facet] += 0.05 / element.embedded_superdegree * rng.standard_normal(second[off_facet].shape)
    return Entity(np.stack([first, second]), facets, permutations)


def _facet_coordinates(cell: str, facet: int, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return coordinates along the plane of a facet, axes (point, direction), and the distances from it."""
    corner = cells.vertices(cell)[cells.topology(cell)[-2][facet][0]]
    frame = np.column_stack([cells.facet_jacobians(cell)[facet], -cells.facet_normals(cell)[facet]])
    solution = np.linalg.solve(frame, (points - corner).T).T
    return solution[:, :-1], solution[:, -1]


def random_rule(cell: str, rng: np.random.Generator, real_type: str) -> tuple[Array, Array]:
    """Return up to six points in a reference cell, axes (point, direction), and weights of both signs."""
    corners = cells.vertices(cell)
    n_points = int(rng.integers(1, 7))
    points = rng.dirichlet(np.ones(len(corners)), size=n_points) @ corners
    weights = rng.uniform(-0.2, 1.0, n_points)
    return points.astype(real_type).astype(np.float64), weights.astype(real_type).astype(np.float64)


def random_values(shape: Any, rng: np.random.Generator, limits: tuple[float, float], scalar_type: str) -> Array:
    """Return numbers of a type within limits; complex ones in both parts."""
    values: Array = rng.uniform(*limits, shape)
    if scalar_type.startswith("complex"):
        values = values + 1j * rng.uniform(*limits, shape)
    return values.astype(scalar_type)
