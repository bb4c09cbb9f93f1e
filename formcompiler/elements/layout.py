"""Dof layouts: which dofs an element has on which sub-entity, where, and how they turn with the entity."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import basix
import basix.ufl
import numpy as np
import numpy.typing as npt

from formcompiler.elements.cells import (
    FloatArray,
    dimension,
    n_facet_permutations,
    permute_facet_points,
    topology,
    vertices,
)
from formcompiler.elements.tables import Element
from formcompiler.errors import UnsupportedFormError

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Leaf:
    """A scalar element inside a blocked or mixed one, with all its copies.

    Attributes:
        element: The scalar element of basix.ufl.
        dofs: Dofs of the whole element, axes (copy, dof of the scalar element).
        components: For each copy, the flat components of the whole element's value that it carries (two for the
            off-diagonal entries of symmetric tensors).
    """

    element: Element
    dofs: IntArray
    components: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class EntityDofs:
    """Dofs of a scalar element on its sub-entities of one dimension below that of the cell.

    Attributes:
        dofs: Dofs of the element, axes (entity, dof of the entity).
        positions: Position of each dof in the numbering that all cells around the entity share, axes
            (entity, symmetry, dof of the entity); the symmetry is that of `symmetries` which takes the shared
            vertex order to the cell's own.
    """

    dofs: IntArray
    positions: IntArray


def value_size(element: Element) -> int:
    """Return the number of components of the physical value of an element with identity map."""
    if element.is_mixed:
        return sum(value_size(sub_element) for sub_element in element.sub_elements)
    return math.prod(element.block_shape) if _is_blocked(element) else int(element.reference_value_size)


def find_leaves(element: Element, path: tuple[int, ...] = ()) -> tuple[Leaf, ...]:
    """Return the scalar elements that make up an element, or the part of it that a path selects.

    Args:
        element: Any nesting of mixed and blocked elements of basix.ufl.
        path: Numbers of sub-elements from the outside inwards; the last may be the number of a block (a component
            of a vector). Components of the result count within the selected part.

    Raises:
        UnsupportedFormError: if a number of the path is out of range, or nothing is left to select from.
    """
    dofs: IntArray = np.arange(element.dim)
    for depth, number in enumerate(path):
        n_parts = _n_parts(element)
        if not 0 <= number < n_parts:
            raise UnsupportedFormError(
                f"component {path} does not exist: at position {depth} the {element} has {n_parts or 'no'} parts"
                + (f"; give a number from 0 to {n_parts - 1}" if n_parts else "; shorten the path")
            )
        if element.is_mixed:
            offset = sum(sub_element.dim for sub_element in element.sub_elements[:number])
            element = element.sub_elements[number]
            dofs = dofs[offset : offset + element.dim]
        else:
            dofs = dofs[number :: element.block_size]
            element = element.sub_elements[0]
    return tuple(_walk(element, dofs, 0))


def select_element(element: Element, path: tuple[int, ...]) -> Element:
    """Return the sub-element that a valid path of `find_leaves` selects."""
    for number in path:
        element = element.sub_elements[number if element.is_mixed else 0]
    return element


def _is_blocked(element: Element) -> bool:
    return isinstance(element, basix.ufl._BlockedElement)


def _n_parts(element: Element) -> int:
    if element.is_mixed:
        return len(element.sub_elements)
    return int(element.block_size) if _is_blocked(element) else 0


def _walk(element: Element, dofs: IntArray, first_component: int) -> Iterator[Leaf]:
    if element.is_mixed:
        first_dof = 0
        for sub_element in element.sub_elements:
            yield from _walk(sub_element, dofs[first_dof : first_dof + sub_element.dim], first_component)
            first_dof += sub_element.dim
            first_component += value_size(sub_element)
    elif _is_blocked(element):
        components = tuple(tuple(first_component + c for c in block) for block in _block_components(element))
        yield Leaf(element.sub_elements[0], dofs.reshape(-1, element.block_size).T, components)
    else:
        yield Leaf(element, dofs[None, :], (tuple(range(first_component, first_component + value_size(element))),))


def _block_components(element: Element) -> list[tuple[int, ...]]:
    if not element.is_symmetric:
        return [(block,) for block in range(element.block_size)]
    n = element.block_shape[0]
    pairs = [(i, j) for i in range(n) for j in range(i + 1)]
    return [tuple(sorted({i * n + j, j * n + i})) for i, j in pairs]


@lru_cache(maxsize=8)
def symmetries(cell: str) -> IntArray:
    """Return the symmetries of an entity up to dimension two as vertex permutations, axes (symmetry, vertex).

    Symmetry number p maps vertex i onto vertex ``result[p, i]``; the numbers are those of `permute_facet_points`.
    """
    if cell == "vertex":
        return np.zeros((1, 1), dtype=np.int64)
    corners = vertices(cell)
    images = [permute_facet_points(cell, p, corners) for p in range(n_facet_permutations(cell))]
    return np.array([_match_points(image, corners) for image in images])


def _match_points(points: FloatArray, among: FloatArray) -> IntArray | None:
    """Return for each point its number in another list of points, or None if there is not exactly one."""
    near = np.abs(points[:, None, :] - among[None, :, :]).max(axis=2, initial=0.0) < 1e-10
    if len(points) != len(among) or not (near.sum(axis=1) == 1).all():
        return None
    return np.asarray(np.argmax(near, axis=1))


def is_global(element: Element) -> bool:
    """Return whether the element has the same dofs on all cells (a real number)."""
    return bool(element.is_real)


def check_identity_map(element: Element) -> None:
    """Check that the values of a scalar element are those on the reference cell.

    Raises:
        UnsupportedFormError: for H(div), H(curl) and other vector-valued elements.
    """
    if element.is_real or element.is_quadrature:
        return
    if element.map_type != basix.MapType.identity or element.reference_value_size != 1:
        raise UnsupportedFormError(
            f"the embedded engine cannot number the dofs of {element}: its basis functions change sign and direction "
            "with the orientation of the cell; use Lagrange or discontinuous elements"
        )


@lru_cache(maxsize=256)
def entity_dofs(element: Element) -> tuple[EntityDofs, ...]:
    """Return the dofs of a scalar element on its sub-entities, for the dimensions below that of the cell.

    The dofs of a shared entity must be values at nodes; the numbering that cells share is found by matching the nodes
    under the symmetries of the entity, which holds for every degree and placement of the nodes.

    Raises:
        UnsupportedFormError: if dofs of a shared entity are not values at symmetric nodes.
    """
    check_identity_map(element)
    cell = element.cell_type.name
    return tuple(_entity_dofs(element, cell, dim) for dim in range(dimension(cell)))


def _entity_dofs(element: Element, cell: str, dim: int) -> EntityDofs:
    dofs: IntArray = np.array(element.entity_dofs[dim], dtype=np.int64)
    entity_cell = ("vertex", "interval", "triangle" if cell == "tetrahedron" else "quadrilateral")[dim]
    turns = symmetries(entity_cell)
    positions = np.zeros((len(dofs), len(turns), dofs.shape[1]), dtype=np.int64)
    if dofs.shape[1]:
        shared = _entity_nodes(element, cell, dim, 0)
        for entity in range(len(dofs)):
            nodes = _entity_nodes(element, cell, dim, entity)
            for turn in range(len(turns)):
                match = _match_points(nodes, permute_facet_points(entity_cell, turn, shared))
                if match is None:
                    raise _not_nodal(element)
                positions[entity, turn] = match
    return EntityDofs(dofs, positions)


def _entity_nodes(element: Element, cell: str, dim: int, entity: int) -> FloatArray:
    """Return the nodes of one entity in its own reference coordinates, axes (node, dim)."""
    points = np.asarray(element.basix_element.x[dim][entity], dtype=np.float64)
    functionals = np.asarray(element.basix_element.M[dim][entity])
    if functionals.shape != (len(points), 1, len(points), 1) or not np.allclose(
        functionals[:, 0, :, 0], np.eye(len(points))
    ):
        raise _not_nodal(element)
    corners = vertices(cell)[list(topology(cell)[dim][entity])]
    axes = corners[1 : dim + 1] - corners[0]
    return np.asarray((points - corners[0]) @ np.linalg.pinv(axes)) if dim else np.zeros((len(points), 0))


def _not_nodal(element: Element) -> UnsupportedFormError:
    return UnsupportedFormError(
        f"the embedded engine cannot number the dofs of {element}: those on shared edges or faces are not values at "
        "symmetric nodes; use a Lagrange variant, or a discontinuous element"
    )


def facet_closure_dofs(element: Element, facet: int) -> IntArray:
    """Return the dofs of a scalar element whose basis functions can be non-zero on a facet of the reference cell."""
    cell = element.cell_type.name
    return np.array(element.entity_closure_dofs[dimension(cell) - 1][facet], dtype=np.int64)


def interpolation_rule(element: Element) -> tuple[FloatArray, FloatArray]:
    """Return how the dofs of a scalar element follow from values of a function.

    Returns:
        Reference points, axes (point, direction), and a matrix, axes (dof, point).
    """
    check_identity_map(element)
    if element.is_real:
        corners = vertices(element.cell_type.name)
        return corners.mean(axis=0, keepdims=True), np.ones((1, 1))
    if element.is_quadrature:
        points = np.asarray(element.custom_quadrature()[0], dtype=np.float64)
        return points, np.eye(len(points))
    basix_element = element.basix_element
    points = np.asarray(basix_element.points, dtype=np.float64)
    return points, np.asarray(basix_element.interpolation_matrix, dtype=np.float64)


def tabulate_values(element: Element, points: FloatArray) -> FloatArray:
    """Return the values of a scalar element's basis functions at reference points, axes (point, dof)."""
    if element.is_real:
        return np.ones((len(points), 1))
    if element.is_quadrature:
        nearest = ((points[:, None] - interpolation_rule(element)[0][None]) ** 2).sum(axis=2).argmin(axis=1)
        return np.asarray(np.eye(element.dim)[nearest])
    return np.asarray(element.tabulate(0, points)[0], dtype=np.float64)


def linear_simplex(dim: int) -> Element:
    """Return the coordinate element of straight simplices of a dimension.

    Raises:
        UnsupportedFormError: if the dimension is not 1, 2 or 3.
    """
    if dim not in (1, 2, 3):
        raise UnsupportedFormError(f"points must have 1, 2 or 3 coordinates; given are {dim}")
    return basix.ufl.element("Lagrange", ("interval", "triangle", "tetrahedron")[dim - 1], 1, shape=(dim,))


def vertex_dofs(element: Element) -> list[int]:
    """Return the dof of a scalar element that is the value at each vertex of the reference cell.

    Raises:
        UnsupportedFormError: if values at vertices are no dofs.
    """
    cell = element.cell_type.name
    found = _match_rows(tabulate_values(element, vertices(cell)))
    if found is None:
        raise UnsupportedFormError(
            f"the vertices of cells are no dofs of the coordinate element {element}: what is made of vertices and "
            "edges, such as CellDiameter, needs a Lagrange element"
        )
    return found


def _match_rows(values: FloatArray) -> list[int] | None:
    """Return the column of the only entry, 1, of each row; None if there is no such."""
    near = np.abs(values - 1) < 1e-10
    if (near.sum(axis=1) != 1).any() or (np.abs(np.where(near, 0.0, values)) > 1e-10).any():
        return None
    return [int(column) for column in near.argmax(axis=1)]


def is_lagrange(element: Element, degree: int) -> bool:
    """Return whether an element consists of copies of continuous Lagrange of this degree."""
    leaves = find_leaves(element)
    return all(
        leaf.element.element_family == basix.ElementFamily.P
        and leaf.element.degree == degree
        and not leaf.element.discontinuous
        for leaf in leaves
    )
