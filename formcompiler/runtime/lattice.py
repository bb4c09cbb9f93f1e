"""Uniform subdivision of reference cells, for meshes of boxes, refinement and pictures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, permutations, product

import numpy as np
import numpy.typing as npt

from formcompiler.elements.cells import TENSOR_CELLS, dimension, topology

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

SIMPLEX_OF = {"interval": "interval", "quadrilateral": "triangle", "hexahedron": "tetrahedron"}


@dataclass(frozen=True, eq=False)
class Lattice:
    """A reference cell cut into smaller cells of the same type.

    Attributes:
        points: Reference coordinates of the lattice points, axes (point, direction).
        cells: Points of each small cell in basix vertex order, axes (small cell, vertex).
        parent_facets: Facet of the whole cell in which each facet of a small cell lies, or -1, axes
            (small cell, facet).
    """

    points: FloatArray
    cells: IntArray
    parent_facets: IntArray


def cube_simplices(dim: int) -> IntArray:
    """Return the simplices that a cube is cut into along its diagonal, as vertices of the cube in tensor order.

    This is the Kuhn (Freudenthal) subdivision: one simplex for each order in which the directions are walked.
    Axes (simplex, vertex).
    """
    corners = [np.cumsum([0, *(1 << d for d in order)]) for order in permutations(range(dim))]
    return np.array(corners)


@lru_cache(maxsize=64)
def subdivide(cell: str, n: int) -> Lattice:
    """Return the subdivision of a reference cell into ``n ** dim`` cells of the same type.

    Simplices are mapped to ``1 >= y0 >= y1 >= ...`` and cut like the cubes around them, so that repeated subdivision
    gives finitely many shapes.
    """
    dim = dimension(cell)
    corners: list[list[tuple[int, ...]]] = []
    shifts = list(product((0, 1), repeat=dim))
    for cube in product(range(n), repeat=dim):
        # The first direction runs fastest, as in basix's vertex order.
        box = [tuple(c + s for c, s in zip(cube, reversed(shift), strict=True)) for shift in shifts]
        if cell in TENSOR_CELLS:
            corners.append(box)
        else:
            simplices = [[box[v] for v in simplex] for simplex in cube_simplices(dim)]
            corners.extend(simplex for simplex in simplices if all(_is_ordered(point) for point in simplex))
    points = sorted({point for small in corners for point in small}, key=lambda point: point[::-1])
    numbers = {point: i for i, point in enumerate(points)}
    cells = np.array([[numbers[point] for point in small] for small in corners])
    lattice = np.array(points, dtype=np.float64).reshape(len(points), dim) / n
    if cell not in TENSOR_CELLS:
        lattice[:, :-1] -= lattice[:, 1:]
    return Lattice(lattice, cells, _parent_facets(cell, lattice, cells))


def _is_ordered(point: Iterable[int]) -> bool:
    values = list(point)
    return all(a >= b for a, b in pairwise(values))


def vertex_weights(cell: str, points: FloatArray) -> FloatArray:
    """Return the (multi-)linear weight of each vertex at reference points, axes (point, vertex)."""
    if cell not in TENSOR_CELLS:
        return np.concatenate([1 - points.sum(axis=1, keepdims=True), points], axis=1)
    weights = np.ones((len(points), 1))
    for direction in range(points.shape[1]):
        x = points[:, direction, None]
        weights = np.concatenate([weights * (1 - x), weights * x], axis=1)
    return weights


def _parent_facets(cell: str, points: FloatArray, cells: IntArray) -> IntArray:
    dim = dimension(cell)
    weights = vertex_weights(cell, points)
    facets = topology(cell)[dim - 1]
    on_facet = np.array([np.abs(np.delete(weights, facet, axis=1)).max(axis=1) < 1e-12 for facet in facets])
    small = np.stack([cells[:, list(facet)] for facet in facets], axis=1)
    inside = on_facet[:, small].all(axis=3)
    return np.asarray(np.where(inside.any(axis=0), inside.argmax(axis=0), -1))
