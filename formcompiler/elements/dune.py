"""How DUNE numbers what basix numbers: facets of the reference cells, and the dofs of Lagrange elements.

Vertices have the same numbers in both. DUNE's Lagrange nodes are in lexicographic order with the first coordinate
running fastest, on cubes and on simplices; its facets of cubes are those with x_0 = 0, x_0 = 1, x_1 = 0 and so on,
its facets of simplices come in the lexicographic order of their vertices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import basix
import basix.ufl
import numpy as np

from formcompiler.elements import cells
from formcompiler.elements.layout import symmetries
from formcompiler.elements.tables import Element, tensor_factor

_FACET_VERTICES = {
    "interval": ((0,), (1,)),
    "triangle": ((0, 1), (0, 2), (1, 2)),
    "quadrilateral": ((0, 2), (1, 3), (0, 1), (2, 3)),
    "tetrahedron": ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)),
    "hexahedron": ((0, 2, 4, 6), (1, 3, 5, 7), (0, 1, 4, 5), (2, 3, 6, 7), (0, 1, 2, 3), (4, 5, 6, 7)),
}
"""Vertices of the facets in DUNE's order."""


@dataclass(frozen=True)
class DuneLeaf:
    """One leaf of the tree of local function spaces that corresponds to an element, or a power of equal leaves.

    Attributes:
        path: Number of the child at each level, from the root; for a power without the last level.
        copies: Number of equal children of the node at the path; 0 if the node itself is the leaf.
        order: Dof of the scalar element for each number of a dof of the leaf.
        first: Dof of the whole element that belongs to dof 0 of the first copy; the next copy follows at once.
        stride: Distance of the dofs of one copy.
        name: Family and degree of the scalar element.
        note: What the user's space must obey so that the numbers mean the same, or "".
    """

    path: tuple[int, ...]
    copies: int
    order: tuple[int, ...]
    first: int
    stride: int
    name: str
    note: str


def basix_facets(cell: str) -> tuple[int, ...]:
    """Return basix's number of each facet in DUNE's order."""
    basix_vertices = [tuple(sorted(facet)) for facet in cells.topology(cell)[cells.dimension(cell) - 1]]
    return tuple(basix_vertices.index(facet) for facet in _FACET_VERTICES[cell])


def facet_vertices(cell: str) -> tuple[tuple[int, ...], ...]:
    """Return the vertices of each facet in basix's order."""
    return cells.topology(cell)[cells.dimension(cell) - 1]


def facet_symmetries(cell: str) -> tuple[tuple[int, ...], ...]:
    """Return onto which vertex of a facet each facet permutation maps each vertex, axes (permutation, vertex)."""
    return tuple(tuple(int(v) for v in row) for row in symmetries(cells.facet_cells(cell)[0]))


def dune_leaves(element: Element) -> tuple[DuneLeaf, ...]:
    """Return the leaves of an element: one child per block of a blocked and per sub-element of a mixed element."""
    return tuple(_walk(element, (), 0, 1))


def dune_order(element: Element) -> tuple[int, ...]:
    """Return for each dof, counted leaf after leaf and in DUNE's order inside a leaf, its number in basix's order."""
    return tuple(
        leaf.first + copy + leaf.stride * dof
        for leaf in dune_leaves(element)
        for copy in range(max(1, leaf.copies))
        for dof in leaf.order
    )


def _walk(element: Element, path: tuple[int, ...], first: int, stride: int) -> Iterator[DuneLeaf]:
    if element.is_mixed:
        for number, sub_element in enumerate(element.sub_elements):
            yield from _walk(sub_element, (*path, number), first, stride)
            first += stride * sub_element.dim
    elif element.sub_elements:
        scalar = element.sub_elements[0]
        yield _leaf(scalar, path, element.block_size, first, stride * element.block_size)
    else:
        yield _leaf(element, path, 0, first, stride)


def _leaf(element: Element, path: tuple[int, ...], copies: int, first: int, stride: int) -> DuneLeaf:
    order, note = leaf_order(element)
    return DuneLeaf(path, copies, order, first, stride, element_name(element), note)


def element_name(element: Element) -> str:
    """Return a short name such as "P2" or "discontinuous P1" of a scalar element."""
    if element.is_real:
        return "real number"
    if element.is_quadrature:
        return "quadrature points"
    discontinuous = "discontinuous " if element.discontinuous and element.degree > 0 else ""
    return f"{discontinuous}{element.element_family.name}{element.degree}"


@lru_cache(maxsize=256)
def leaf_order(element: Element) -> tuple[tuple[int, ...], str]:
    """Return the dof of a scalar element for each number in DUNE's order, and a note on the space or "".

    Elements other than Lagrange keep basix's order.
    """
    own = tuple(range(element.dim))
    if element.dim == 1:
        return own, ""
    if element.is_real or element.is_quadrature or element.element_family != basix.ElementFamily.P:
        return own, "in basix's order and with basix's basis functions, which no space of DUNE has"
    factor = tensor_factor(element)
    if factor is not None:
        order = tuple(int(dof) for dof in factor.permutation.transpose().ravel())
    elif (lattice := _lattice(element)) is not None:
        order = tuple(int(dof) for dof in np.lexsort(lattice.T.round(10)))
    else:
        return own, f"in basix's order, with the basis of the variant {element.lagrange_variant.name}"
    return order, _node_note(element)


def _lattice(element: Element) -> cells.FloatArray | None:
    """Return the equidistant node that stands for each dof, or None if nodes and dofs do not correspond."""
    variants = basix.LagrangeVariant
    if not element.lagrange_variant.name.startswith(("equispaced", "gll", "unset")):
        return None
    equidistant = basix.create_element(
        basix.ElementFamily.P, element.cell_type, element.degree, variants.equispaced, discontinuous=True
    )
    return np.asarray(equidistant.points, dtype=np.float64)


def _node_note(element: Element) -> str:
    variant = element.lagrange_variant.name
    if element.degree <= 2 and variant.startswith(("gll", "equispaced", "unset")):
        return ""
    if variant == "equispaced":
        return ""
    return (
        f"with the nodes of basix's variant {variant}: DUNE's own Lagrange elements have equidistant nodes, for which "
        "the form file writes lagrange_variant=basix.LagrangeVariant.equispaced"
    )
