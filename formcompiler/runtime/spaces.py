"""Global numbers for the dofs of elements on a mesh, whatever the orientation of the cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from formcompiler.elements.cells import topology
from formcompiler.elements.layout import (
    Leaf,
    check_identity_map,
    entity_dofs,
    facet_closure_dofs,
    find_leaves,
    interpolation_rule,
    is_global,
    tabulate_values,
    value_size,
)
from formcompiler.elements.tables import Element
from formcompiler.errors import UnsupportedFormError
from formcompiler.runtime.lattice import vertex_weights
from formcompiler.runtime.mesh import FloatArray, IntArray, Mesh
from formcompiler.runtime.rows import Rows
from formcompiler.runtime.runs import Groups, find_groups

Evaluate = Callable[[FloatArray, npt.NDArray[np.integer]], FloatArray]
"""Values of a function, axes (cell, point, component), at reference points, axes (point, direction), of some cells."""


@dataclass(frozen=True, eq=False)
class DofMap:
    """The dofs of an element on a mesh.

    Attributes:
        element: Any nesting of blocked and mixed elements of basix.ufl with identity maps.
        mesh: The mesh.
        cell_dofs: Number in the mesh of each dof of each cell, axes (cell, dof of the element).
        n_dofs: How many there are.
    """

    element: Element
    mesh: Mesh
    cell_dofs: IntArray
    n_dofs: int

    @cached_property
    def groups(self) -> Groups:
        """Return the groups of dofs whose numbers differ equally in all cells."""
        return find_groups(self.cell_dofs)

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """Return the scalar elements with their copies."""
        return find_leaves(self.element)

    @cached_property
    def value_size(self) -> int:
        """Return the number of components of the value."""
        return value_size(self.element)

    def evaluate(self, vector: FloatArray, points: FloatArray) -> FloatArray:
        """Return the values of the function with these dofs.

        Args:
            vector: Values of the dofs, shape (n_dofs,).
            points: Reference coordinates, axes (point, direction).

        Returns:
            Axes (cell, point, component).
        """
        values = np.zeros((self.mesh.n_cells, len(points), self.value_size))
        for leaf in self.leaves:
            table = tabulate_values(leaf.element, points)
            for dofs, components in zip(leaf.dofs, leaf.components, strict=True):
                block = vector[self.cell_dofs[:, dofs]] @ table.T
                values[:, :, list(components)] = block[:, :, None]
        return values

    def interpolate(
        self,
        evaluate: Evaluate,
        path: tuple[int, ...] = (),
        cells: npt.NDArray[np.integer] | None = None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Return the dofs of the interpolant of a function.

        Args:
            evaluate: Gives values of the function at reference points of some cells.
            path: Part of the space that is set, see `find_leaves`; the function has its components.
            cells: Numbers of the cells to work on; all if not given.
            out: Vector to write to, shape (n_dofs,); zeros if not given.
        """
        result = np.zeros(self.n_dofs) if out is None else out
        chosen = np.arange(self.mesh.n_cells) if cells is None else cells
        for leaf in find_leaves(self.element, path):
            points, matrix = interpolation_rule(leaf.element)
            values = evaluate(points, chosen)
            for dofs, components in zip(leaf.dofs, leaf.components, strict=True):
                result[self.cell_dofs[np.ix_(chosen, dofs)]] = values[:, :, components[0]] @ matrix.T
        return result

    def facet_dofs(
        self, cells: npt.NDArray[np.integer], local_facets: npt.NDArray[np.integer], path: tuple[int, ...] = ()
    ) -> IntArray:
        """Return the sorted dofs whose basis functions do not vanish on facets, given as (cell, local facet) pairs."""
        found = [np.zeros(0, dtype=np.int32)]
        for leaf in find_leaves(self.element, path):
            for facet in np.unique(local_facets):
                dofs = leaf.dofs[:, facet_closure_dofs(leaf.element, int(facet))].ravel()
                found.append(self.cell_dofs[np.ix_(cells[local_facets == facet], dofs)].ravel())
        return np.asarray(np.unique(np.concatenate(found)), dtype=np.int32)


def make_dofmap(element: Element, mesh: Mesh) -> DofMap:
    """Return the numbering of an element's dofs on a mesh.

    Parts of a mixed element are numbered one after the other. So are copies of a scalar element where cells lie in
    rows and share dofs (see `Rows`); elsewhere the copies are interleaved. Dofs that no cells share stay together by
    cell: facets visit them often, and fetch those of one cell faster than those of a row.

    Raises:
        UnsupportedFormError: if the element is on another cell, or its dofs turn with the cell in a way that is not
            a permutation.
    """
    if element.cell.cellname != mesh.cell:
        raise UnsupportedFormError(f"the element {element} is defined on a {element.cell.cellname}, not a {mesh.cell}")
    cell_dofs = np.zeros((mesh.n_cells, element.dim), dtype=np.int32)
    n_dofs = 0
    for leaf in find_leaves(element):
        scalar, n_scalar = _number_scalar(leaf.element, mesh)
        step, shift = (len(leaf.dofs), 1)
        if mesh.rows and len(_interior_dofs(leaf.element)) < leaf.element.dim:
            scalar = mesh.rows.renumber(scalar, _facet_masks(leaf.element, mesh.rows))
            step, shift = 1, n_scalar
        for copy, dofs in enumerate(leaf.dofs):
            cell_dofs[:, dofs] = n_dofs + scalar * step + copy * shift
        n_dofs += n_scalar * len(leaf.dofs)
    return DofMap(element, mesh, cell_dofs, n_dofs)


def _number_scalar(element: Element, mesh: Mesh) -> tuple[npt.NDArray[np.int64], int]:
    check_identity_map(element)
    if is_global(element):
        return np.zeros((mesh.n_cells, 1), dtype=np.int64), 1
    result = np.zeros((mesh.n_cells, element.dim), dtype=np.int64)
    n_dofs = 0
    # A quadrature element, or a discontinuous one, has all its dofs inside the cell.
    layout = () if element.is_quadrature else entity_dofs(element)
    for dim, entities in enumerate(layout):
        n_each = entities.dofs.shape[1]
        if n_each:
            numbers = mesh.entities(dim)
            positions = entities.positions[np.arange(len(entities.dofs)), numbers.turns]
            result[:, entities.dofs] = n_dofs + numbers.numbers[:, :, None] * n_each + positions
            n_dofs += numbers.n * n_each
    inside = _interior_dofs(element)
    result[:, inside] = n_dofs + np.arange(mesh.n_cells * len(inside)).reshape(mesh.n_cells, -1)
    return result, n_dofs + mesh.n_cells * len(inside)


def _facet_masks(element: Element, rows: Rows) -> list[int]:
    """Return which facets, but the ends of a row, each dof lies on: the first facet is the highest bit."""
    masks = [0] * element.dim
    if element.is_quadrature or is_global(element):
        return masks
    facets = topology(element.cell_type.name)[-2]
    for number, vertices in enumerate(reversed(facets)):
        if frozenset(vertices) not in rows.ends:
            for dof in facet_closure_dofs(element, len(facets) - 1 - number):
                masks[dof] |= 1 << number
    return masks


def _interior_dofs(element: Element) -> npt.NDArray[np.int64]:
    if element.is_quadrature:
        return np.arange(element.dim)
    return np.array(element.entity_dofs[-1][0] if len(element.entity_dofs) else [], dtype=np.int64)


def raise_degree(mesh: Mesh, element: Element) -> Mesh:
    """Return a mesh of straight cells with the nodes of a scalar Lagrange element as geometry."""
    if element.degree == mesh.geometry_degree:
        return mesh
    dofmap = make_dofmap(element, mesh)
    everywhere = np.arange(mesh.n_cells)
    rule, matrix = interpolation_rule(element)
    points = np.zeros((dofmap.n_dofs, mesh.gdim))
    points[dofmap.cell_dofs] = matrix @ physical_points(mesh, rule, everywhere)
    return replace(mesh, points=points, cells=dofmap.cell_dofs, geometry_degree=element.degree)


def physical_points(mesh: Mesh, points: FloatArray, cells: npt.NDArray[np.integer]) -> FloatArray:
    """Return reference points, axes (point, direction), of some cells in space, axes (cell, point, gdim)."""
    corners = mesh.points[mesh.vertices[cells]]
    return np.asarray(np.einsum("pv,cvd->cpd", vertex_weights(mesh.cell, points), corners))
