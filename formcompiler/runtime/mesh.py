"""Meshes of one cell type: points, cells, tags, and the facet lists that assembly loops run over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from formcompiler.elements.cells import (
    SIMPLICES,
    TENSOR_CELLS,
    dimension,
    facet_cells,
    topology,
)
from formcompiler.elements.layout import symmetries
from formcompiler.errors import UnsupportedFormError
from formcompiler.runtime.lattice import cube_simplices, subdivide, vertex_weights
from formcompiler.runtime.numbering import EntityNumbers, first_places, number_entities, unique_rows
from formcompiler.runtime.rows import Rows, find_rows
from formcompiler.runtime.runs import Groups, find_groups

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]
ByteArray = npt.NDArray[np.uint8]

UNTAGGED = -1
"""Tag of cells and facets without one."""


@dataclass(frozen=True, eq=False)
class InteriorFacets:
    """Facets between two cells; the '+' side is the cell with the lower number.

    Attributes:
        cells: Axes (facet, side).
        local_facets: Number of the facet within its cell, axes (facet, side).
        permutations: Facet permutation of each side, axes (facet, side): points of the reference facet after
            `permute_facet_points` with these numbers coincide in space. That of the '+' side is 0.
        tags: One per facet.
    """

    cells: IntArray
    local_facets: IntArray
    permutations: ByteArray
    tags: IntArray


@dataclass(frozen=True, eq=False)
class BoundaryFacets:
    """Facets of one cell only.

    Attributes:
        cells: One per facet.
        local_facets: Number of the facet within its cell.
        tags: One per facet.
    """

    cells: IntArray
    local_facets: IntArray
    tags: IntArray


@dataclass(frozen=True, eq=False)
class Mesh:
    """A conforming mesh of one cell type in any orientation.

    Attributes:
        cell: Name of the cell.
        points: Physical coordinates of the geometry nodes, axes (node, gdim).
        cells: Geometry nodes of each cell in basix order, vertices first, axes (cell, node).
        cell_tags: One per cell, `UNTAGGED` if it has none.
        facet_tags: Axes (cell, local facet), `UNTAGGED` where there is none; equal on both sides.
        geometry_degree: Degree of the geometry (1: the nodes are the vertices).
    """

    cell: str
    points: FloatArray
    cells: IntArray
    cell_tags: IntArray
    facet_tags: IntArray
    geometry_degree: int = 1

    @property
    def tdim(self) -> int:
        """Return the dimension of the cells."""
        return dimension(self.cell)

    @property
    def gdim(self) -> int:
        """Return the dimension of the space."""
        return int(self.points.shape[1])

    @property
    def n_cells(self) -> int:
        """Return the number of cells."""
        return len(self.cells)

    @property
    def vertices(self) -> IntArray:
        """Return the vertices of the cells, axes (cell, vertex)."""
        return self.cells[:, : len(topology(self.cell)[0])]

    @cached_property
    def coordinates(self) -> FloatArray:
        """Return the coordinates of each cell's nodes, axes (cell, node, gdim)."""
        return self.points[self.cells]

    @cached_property
    def rows(self) -> Rows | None:
        """Return the rows in which all cells lie, None if there are none."""
        return find_rows(self.vertices)

    @cached_property
    def coordinate_values(self) -> FloatArray:
        """Return `points`, axes (direction, node) for cells in rows, (node, direction) for others."""
        return np.ascontiguousarray(self.points.T if self.rows else self.points)

    @cached_property
    def coordinate_numbers(self) -> IntArray:
        """Return the numbers of each cell's coordinates among `coordinate_values`, axes (cell, node and direction)."""
        node, direction = (1, len(self.points)) if self.rows else (self.gdim, 1)
        numbers = self.cells[:, :, None] * node + np.arange(self.gdim, dtype=np.int32) * direction
        return np.asarray(numbers.reshape(self.n_cells, -1), dtype=np.int32)

    @cached_property
    def coordinate_groups(self) -> Groups:
        """Return the groups of coordinates whose numbers differ equally in all cells."""
        return find_groups(self.coordinate_numbers)

    def entities(self, dim: int) -> EntityNumbers:
        """Return the numbers of the sub-entities of a dimension below that of the cells."""
        if dim not in self._entities:
            self._entities[dim] = number_entities(self.cell, self.vertices, dim)
        return self._entities[dim]

    @cached_property
    def _entities(self) -> dict[int, EntityNumbers]:
        return {}

    @cached_property
    def h(self) -> float:
        """Return the largest distance of two vertices of one cell."""
        corners = self.points[self.vertices]
        n_corners = corners.shape[1]
        pairs = [(i, j) for i in range(n_corners) for j in range(i)]
        return max(float(np.linalg.norm(corners[:, i] - corners[:, j], axis=1).max()) for i, j in pairs)

    @cached_property
    def _facet_sides(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return (cell, local facet) pairs as flat numbers: facets with two sides, axes (facet, side), and with one."""
        entities = self.entities(self.tdim - 1)
        numbers = entities.numbers.ravel()
        counts = np.bincount(numbers, minlength=entities.n)
        if counts.max(initial=0) > 2:
            cells = np.flatnonzero((counts[entities.numbers] > 2).any(axis=1))
            raise UnsupportedFormError(
                f"the mesh is not a manifold: a facet of cell {cells[0]} belongs to {counts.max()} cells; "
                "interior facets must have two"
            )
        first = first_places(numbers, entities.n)
        last = np.zeros(entities.n, dtype=np.int64)
        np.maximum.at(last, numbers, np.arange(len(numbers)))
        interior, boundary = np.flatnonzero(counts == 2), np.flatnonzero(counts == 1)
        return np.stack([first[interior], last[interior]], axis=1), first[boundary]

    @cached_property
    def interior_facets(self) -> InteriorFacets:
        """Return the facets between two cells."""
        pairs, _ = self._facet_sides
        cells, local = np.divmod(pairs, self.facet_tags.shape[1])
        facets = np.array(topology(self.cell)[self.tdim - 1])
        of_facets = self.vertices[:, facets.ravel()].reshape(-1, facets.shape[1])
        corners = of_facets[pairs]
        permutations = np.zeros(cells.shape, dtype=np.uint8)
        permutations[:, 1] = _find_permutations(facet_cells(self.cell)[0], corners[:, 0], corners[:, 1])
        return InteriorFacets(
            cells.astype(np.int32), local.astype(np.int32), permutations, self.facet_tags.ravel()[pairs[:, 0]]
        )

    @cached_property
    def boundary_facets(self) -> BoundaryFacets:
        """Return the facets of one cell only."""
        _, singles = self._facet_sides
        cells, local = np.divmod(singles, self.facet_tags.shape[1])
        return BoundaryFacets(cells.astype(np.int32), local.astype(np.int32), self.facet_tags.ravel()[singles])

    def facet_vertices(self, facets: BoundaryFacets) -> IntArray:
        """Return the vertices of facets in the order of the reference cell, axes (facet, vertex)."""
        local = np.array(topology(self.cell)[self.tdim - 1])[facets.local_facets]
        return np.asarray(np.take_along_axis(self.vertices[facets.cells], local, axis=1))


def _find_permutations(facet_cell: str, first: IntArray, second: IntArray) -> ByteArray:
    """Return the permutation that takes facets with vertices ``first`` to ``second``, axes (facet, vertex)."""
    result = np.zeros(len(first), dtype=np.uint8)
    rest = np.arange(len(first))
    for number, images in enumerate(symmetries(facet_cell)):
        is_it = (second[:, images] == first).all(axis=1)
        result[rest[is_it]] = number
        rest, first, second = rest[~is_it], first[~is_it], second[~is_it]
    if len(rest):
        raise UnsupportedFormError("the mesh is not conforming: two cells share the vertices of a facet, but not it")
    return result


def make_mesh(
    cell: str,
    points: FloatArray,
    cells: npt.NDArray[np.integer],
    cell_tags: npt.NDArray[np.integer] | None = None,
    facet_tags: npt.NDArray[np.integer] | None = None,
) -> Mesh:
    """Return a mesh of degree one geometry, untagged if no tags are given; arguments as in `Mesh`."""
    n_facets = len(topology(cell)[dimension(cell) - 1])
    if cell_tags is None:
        cell_tags = np.full(len(cells), UNTAGGED)
    if facet_tags is None:
        facet_tags = np.full((len(cells), n_facets), UNTAGGED)
    return Mesh(
        cell,
        np.ascontiguousarray(points, dtype=np.float64),
        np.ascontiguousarray(cells, dtype=np.int32),
        np.ascontiguousarray(cell_tags, dtype=np.int32),
        np.ascontiguousarray(facet_tags, dtype=np.int32),
    )


def check_cell(cell: str) -> None:
    """Check that there are meshes of a cell.

    Raises:
        UnsupportedFormError: if there are none.
    """
    if cell not in (*SIMPLICES, *TENSOR_CELLS):
        raise UnsupportedFormError(
            f"the engine has no meshes of {cell} cells; use intervals, triangles, quadrilaterals, tetrahedra or "
            "hexahedra"
        )


def box_mesh(cell: str, n: Sequence[int], lower: Sequence[float], upper: Sequence[float]) -> Mesh:
    """Return an equidistant mesh of an interval, rectangle or cuboid.

    Triangles and tetrahedra come from cutting each box along its diagonal. The facets at the lower and upper end of
    direction d have the tags ``2 * d + 1`` and ``2 * d + 2``.

    Args:
        cell: Name of the cell.
        n: Number of boxes in each direction.
        lower: Corner with the smallest coordinates.
        upper: Corner with the largest coordinates.

    Raises:
        UnsupportedFormError: if there are no meshes of such cells.
    """
    check_cell(cell)
    dim = dimension(cell)
    lattice = np.stack(np.meshgrid(*[np.arange(k + 1) for k in n], indexing="ij"), axis=-1)
    lattice = lattice.transpose(*reversed(range(dim)), dim).reshape(-1, dim)
    scale = (np.array(upper, dtype=np.float64) - np.array(lower)) / np.array(n)
    boxes = _box_vertices(n)
    if cell not in TENSOR_CELLS:
        boxes = boxes[:, cube_simplices(dim)].reshape(-1, dim + 1)
    mesh = make_mesh(cell, np.array(lower, dtype=np.float64) + lattice * scale, boxes)
    facets = np.array(topology(cell)[dim - 1])
    for direction in range(dim):
        for end, value in enumerate((0, n[direction])):
            is_there = (lattice[:, direction] == value)[boxes]
            mesh.facet_tags[is_there[:, facets].all(axis=2)] = 2 * direction + end + 1
    return mesh


def _box_vertices(n: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the grid points of each box in tensor order, the first direction fastest, axes (box, vertex)."""
    strides = np.cumprod([1, *(k + 1 for k in n[:-1])])
    origins = np.zeros(1, dtype=np.int64)
    corners = np.zeros(1, dtype=np.int64)
    for count, stride in zip(n, strides, strict=True):
        origins = (np.arange(count)[:, None] * stride + origins).ravel()
        corners = (np.arange(2)[:, None] * stride + corners).ravel()
    return np.asarray(origins[:, None] + corners)


def refine(mesh: Mesh) -> Mesh:
    """Return the mesh with every cell cut into ``2 ** tdim`` cells of the same type; they inherit the tags."""
    lattice = subdivide(mesh.cell, 2)
    weights = vertex_weights(mesh.cell, lattice.points)
    n_vertices = weights.shape[1]
    keys = np.full((mesh.n_cells, len(weights), n_vertices), -1, dtype=np.int64)
    for number, row in enumerate(weights):
        support = np.flatnonzero(row > 1e-12)
        keys[:, number, : len(support)] = np.sort(mesh.vertices[:, support], axis=1)
    first, inverse = unique_rows(list(keys.reshape(-1, n_vertices).T))
    corners = mesh.points[mesh.vertices]
    points = np.einsum("pv,cvd->cpd", weights, corners).reshape(-1, mesh.gdim)[first]
    numbers = inverse.reshape(mesh.n_cells, -1)
    tags = np.where(lattice.parent_facets >= 0, mesh.facet_tags[:, lattice.parent_facets], UNTAGGED)
    return make_mesh(
        mesh.cell,
        points,
        numbers[:, lattice.cells].reshape(-1, n_vertices),
        np.repeat(mesh.cell_tags, len(lattice.cells)),
        tags.reshape(-1, tags.shape[2]),
    )
