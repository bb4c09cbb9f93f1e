"""Meshes whose cells are numbered, turned and mirrored at random."""

import numpy as np

from formcompiler.elements.cells import TENSOR_CELLS, dimension, vertices
from formcompiler.runtime.lattice import vertex_weights
from formcompiler.runtime.mesh import box_mesh, make_mesh

CELLS = ("interval", "triangle", "quadrilateral", "tetrahedron", "hexahedron")


def cell_symmetries(cell):
    """All ways to turn or mirror a cell: vertex permutations, axes (symmetry, vertex), by brute force."""
    from itertools import permutations, product

    dim = dimension(cell)
    if cell not in TENSOR_CELLS:
        return np.array(list(permutations(range(dim + 1))))
    corners = vertices(cell)
    found = []
    for order in permutations(range(dim)):
        for flips in product((0, 1), repeat=dim):
            image = np.abs(corners[:, order] - np.array(flips))
            found.append([int(np.argmin(np.abs(corners - x).sum(axis=1))) for x in image])
    return np.array(found)


def random_mesh(cell, n=2, seed=0, shift=0.05):
    """A box of n cells per direction with renumbered points, shuffled cells, random orientations, moved points."""
    rng = np.random.default_rng(seed)
    dim = dimension(cell)
    mesh = box_mesh(cell, [n] * dim, [0.0] * dim, [1.0] * dim)
    renumber = rng.permutation(len(mesh.points))
    points = np.empty_like(mesh.points)
    points[renumber] = mesh.points + shift * rng.uniform(-1, 1, mesh.points.shape)
    cells = renumber[mesh.cells][rng.permutation(len(mesh.cells))]
    turns = cell_symmetries(cell)
    cells = np.take_along_axis(cells, turns[rng.integers(len(turns), size=len(cells))], axis=1)
    return make_mesh(cell, points, cells)


def all_pairs_mesh(cell):
    """Two neighbours once for each pair of orientations of both: many separate meshes of two cells in one."""
    dim = dimension(cell)
    n = [2] + [1] * (dim - 1)
    box = box_mesh(cell, n, [0.0] * dim, [1.0] * dim)
    facet = box.interior_facets
    pair = box.cells[facet.cells[0]]
    turns = cell_symmetries(cell)
    points, cells = [], []
    for first in turns:
        for second in turns:
            offset = len(points) * len(box.points)
            cells.extend([pair[0][first] + offset, pair[1][second] + offset])
            points.append(box.points)
    return make_mesh(cell, np.concatenate(points), np.array(cells))


def to_space(mesh, cells, points):
    """Map reference points, axes (entity, point, direction), of cells, axes (entity,), into space."""
    result = []
    for cell, local in zip(cells, points, strict=True):
        weights = vertex_weights(mesh.cell, local)
        result.append(weights @ mesh.points[mesh.vertices[cell]])
    return np.array(result)
