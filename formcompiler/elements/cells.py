"""Reference cells: topology, geometry, and maps from reference facets into the cell. Conventions are basix's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import basix
import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

TENSOR_CELLS = {"interval": 1, "quadrilateral": 2, "hexahedron": 3}
"""Cells that are products of intervals, with their dimension."""

SIMPLICES = ("interval", "triangle", "tetrahedron")


def cell_type(cell: str) -> basix.CellType:
    """Return the basix cell type of a UFL cell name; a vertex is a point."""
    return basix.CellType["point" if cell == "vertex" else cell]


@cache
def topology(cell: str) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Return the vertices of each sub-entity, by dimension and number."""
    return tuple(tuple(tuple(entity) for entity in dim) for dim in basix.topology(cell_type(cell)))


@cache
def vertices(cell: str) -> FloatArray:
    """Return the reference coordinates of the vertices, axes (vertex, direction)."""
    return np.asarray(basix.geometry(cell_type(cell)), dtype=np.float64)


def dimension(cell: str) -> int:
    """Return the topological dimension."""
    return len(topology(cell)) - 1


@cache
def facet_cells(cell: str) -> tuple[str, ...]:
    """Return the cell name of each facet."""
    types = basix.cell.subentity_types(cell_type(cell))[dimension(cell) - 1]
    return tuple("vertex" if t.name == "point" else t.name for t in types)


@cache
def reference_volume(cell: str) -> float:
    """Return the volume of the reference cell (1 for a vertex)."""
    return 1.0 if cell == "vertex" else float(basix.cell.volume(cell_type(cell)))


@cache
def facet_normals(cell: str) -> FloatArray:
    """Return the outward unit normals of the reference facets, axes (facet, direction)."""
    return np.asarray(basix.cell.facet_outward_normals(cell_type(cell)), dtype=np.float64)


@cache
def facet_jacobians(cell: str) -> FloatArray:
    """Return the Jacobians of the maps from the reference facets to the cell, axes (facet, row, column)."""
    corners = vertices(cell)
    dim = dimension(cell)
    jacobians = [
        np.array([corners[facet[i + 1]] - corners[facet[0]] for i in range(dim - 1)]).reshape(dim - 1, dim).T
        for facet in topology(cell)[dim - 1]
    ]
    return np.array(jacobians)


def map_to_facet(cell: str, facet: int, points: FloatArray) -> FloatArray:
    """Return points of the reference facet, axes (point, dim - 1), in the reference cell, axes (point, dim)."""
    dim = dimension(cell)
    origin = vertices(cell)[topology(cell)[dim - 1][facet][0]]
    return np.asarray(origin + points.reshape(len(points), dim - 1) @ facet_jacobians(cell)[facet].T)


def n_facet_permutations(facet_cell: str) -> int:
    """Return how many ways there are for two cells to see one facet."""
    return {"vertex": 1, "interval": 2, "triangle": 6, "quadrilateral": 8}[facet_cell]


def permute_facet_points(facet_cell: str, permutation: int, points: FloatArray) -> FloatArray:
    """Return facet points, axes (point, dim), as a cell with this facet permutation sees them.

    Permutation number ``2 * rotations + reflections`` as in DOLFINx: the rotations act first, each turning the
    reference facet by one vertex; the reflection then swaps the two coordinates (or turns the interval around).
    """
    rotations, reflections = divmod(permutation, 2)
    result = points.copy()
    if facet_cell == "interval":
        return np.asarray(1 - result if reflections else result)
    for _ in range(rotations):
        second = 1 - result[:, 0] - (result[:, 1] if facet_cell == "triangle" else 0)
        result = np.stack([result[:, 1], second], axis=1)
    return result[:, ::-1].copy() if reflections and facet_cell != "vertex" else result


def _origin_and_units(dim: int) -> FloatArray:
    """Return the origin and the unit vectors, whose images tell an affine map; axes (point, direction)."""
    return np.vstack([np.zeros(dim), np.eye(dim)])


def unpermute_facet_points(facet_cell: str, permutation: int, points: FloatArray) -> FloatArray:
    """Return the points, axes (point, dim), that `permute_facet_points` maps to the given ones."""
    images = permute_facet_points(facet_cell, permutation, _origin_and_units(dimension(facet_cell)))
    return np.asarray((points - images[0]) @ np.linalg.inv(images[1:] - images[0]))


@cache
def seen_facet_jacobians(cell: str) -> FloatArray:
    """Return the Jacobians of the maps from a facet, as its own mesh numbers it, to the cell that sees it.

    Axes (facet permutation, facet, row, column); all facets of the cell are of one kind.
    """
    (kind,) = set(facet_cells(cell))
    corners = _origin_and_units(dimension(kind))
    images = [permute_facet_points(kind, p, corners) for p in range(n_facet_permutations(kind))]
    turns = np.array([(image[1:] - image[0]).T for image in images])
    return np.asarray(np.einsum("frk,pkc->pfrc", facet_jacobians(cell), turns))


@dataclass(frozen=True)
class FacetFrame:
    """How the directions of a product of intervals lie to one of its facets.

    Attributes:
        normal: Direction in which the facet lies at one end.
        end: Which end: 0 or 1.
        tangential: Direction of the cell along each direction of the reference facet.
        reflected: Whether these directions run against each other.
    """

    normal: int
    end: int
    tangential: tuple[int, ...]
    reflected: tuple[bool, ...]


@cache
def facet_frame(cell: str, facet: int, permutation: int) -> FacetFrame:
    """Return the frame of a facet of a tensor cell that sees the points of the facet with a facet permutation.

    Read off the images of the facet's corners.
    """
    dim = TENSOR_CELLS[cell]
    corners = permute_facet_points(facet_cells(cell)[0], permutation, _origin_and_units(dim - 1))
    images = map_to_facet(cell, facet, corners)
    steps = images[1:] - images[0]
    directions = tuple(int(np.flatnonzero(np.abs(step) > 0.5)[0]) for step in steps)
    (normal,) = set(range(dim)) - set(directions)
    reflected = tuple(bool(step[d] < 0) for step, d in zip(steps, directions, strict=True))
    return FacetFrame(normal, round(float(images[0, normal])), directions, reflected)


GEOMETRIES = ("general", "affine", "axis_parallel")
"""What can be known of cells, from nothing to most."""

_ROUNDING = 64 * np.finfo(np.float64).eps


def classify(cell: str, nodes: npt.NDArray[np.floating]) -> str:
    """Return the strongest of `GEOMETRIES` that holds for all cells, up to rounding of their coordinates.

    Args:
        cell: Name of the cell.
        nodes: Coordinates of the vertices, axes (cell, vertex, direction), or of more nodes: "general".
    """
    corners = vertices(cell)
    dim = dimension(cell)
    if nodes.shape[1] != len(corners) or len(nodes) == 0:
        return "general"
    ends = [int(np.flatnonzero((corners == unit).all(axis=1))[0]) for unit in np.eye(dim)]
    edges = nodes[:, ends] - nodes[:, :1]
    scale = np.abs(nodes).max() + np.abs(edges).max()
    noise = scale * max(_ROUNDING, 64 * float(np.finfo(nodes.dtype).eps))
    if np.abs(nodes[:, :1] + np.einsum("vd,cdx->cvx", corners, edges) - nodes).max() > noise:
        return "general"
    if cell not in TENSOR_CELLS or nodes.shape[2] != dim:
        return "affine"
    off_diagonal = edges * (1 - np.eye(dim))
    return "affine" if np.abs(off_diagonal).max() > noise else "axis_parallel"
