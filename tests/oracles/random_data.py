"""Random cells, and random neighbours that share a facet in any orientation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from formcompiler.elements import cells

Array = npt.NDArray[Any]


def reference_nodes(element: Any) -> Array:
    """Return the reference nodes of a Lagrange coordinate element, axes (node, direction)."""
    scalar = element.sub_elements[0] if element.block_size > 1 else element
    return np.asarray(scalar.basix_element.points)


def random_cell(element: Any, rng: np.random.Generator, noise: float = 0.08) -> Array:
    """Return the nodes of a turned, stretched and dented cell, axes (node, direction)."""
    nodes = reference_nodes(element)
    tdim, gdim = nodes.shape[1], element.reference_value_size
    frame = np.linalg.qr(rng.standard_normal((gdim, gdim)))[0][:, :tdim] * rng.uniform(0.7, 1.3, tdim)
    return nodes @ frame.T + noise * rng.standard_normal((len(nodes), gdim))


def neighbours(element: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Return two cells that share a facet, each seeing it in a random orientation.

    Returns:
        coordinates, axes (side, node, direction), local_facet and facet_permutation, pairs: points of the reference
        facet, permuted for each side, are the same physical points.
    """
    name = element.cell_type.name
    first = random_cell(element, rng)
    facets = [int(f) for f in rng.integers(len(cells.facet_cells(name)), size=2)]
    facet_cell = cells.facet_cells(name)[0]
    permutations = [int(p) for p in rng.integers(cells.n_facet_permutations(facet_cell), size=2)]
    corners = cells.vertices(facet_cell) if facet_cell != "vertex" else np.zeros((1, 0))
    orders = [_order(corners, cells.permute_facet_points(facet_cell, p, corners)) for p in permutations]
    local = [cells.topology(name)[-2][f] for f in facets]
    second = np.full_like(first, np.nan)
    for a, b in zip(*orders, strict=True):
        second[local[1][b]] = first[local[0][a]]
    _fill_outside(name, first, second, local, rng)
    return {"coordinates": np.stack([first, second]), "local_facet": facets, "facet_permutation": permutations}


def _order(corners: Array, permuted: Array) -> list[int]:
    return [int(np.abs(corners - point).sum(axis=1).argmin()) for point in permuted]


def _fill_outside(name: str, first: Array, second: Array, local: list[tuple[int, ...]], rng: Any) -> None:
    """Place the vertices of the second cell that are not shared: mirrored at the facet, with some noise."""
    middle = first[list(local[0])].mean(axis=0)
    inner_middle = np.delete(first, list(local[0]), axis=0).mean(axis=0)
    edges = [set(edge) for edge in cells.topology(name)[1]]
    for vertex in range(len(second)):
        if vertex in local[1]:
            continue
        ends = [v for v in local[1] if {v, vertex} in edges]
        start = second[ends].mean(axis=0)
        second[vertex] = start + (middle - inner_middle) + 0.05 * rng.standard_normal(first.shape[1])
