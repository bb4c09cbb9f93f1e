"""Meshes from files: gmsh and everything else that meshio reads."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import meshio  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt

from formcompiler.elements.cells import dimension, facet_cells, topology
from formcompiler.errors import UnsupportedFormError
from formcompiler.runtime.mesh import UNTAGGED, Mesh, make_mesh

CELL_OF_MESHIO = {
    "vertex": "vertex",
    "line": "interval",
    "triangle": "triangle",
    "quad": "quadrilateral",
    "tetra": "tetrahedron",
    "hexahedron": "hexahedron",
}
MESHIO_OF_CELL = {cell: name for name, cell in CELL_OF_MESHIO.items()}
TENSOR_ORDER = {"quadrilateral": [0, 1, 3, 2], "hexahedron": [0, 1, 3, 2, 4, 5, 7, 6]}
"""Position of each vertex in meshio's order (around the face), by its number in basix's; its own inverse."""

_DIMENSIONS = {"vertex": 0, "line": 1, "triangle": 2, "quad": 2, "tetra": 3, "hexahedron": 3, "wedge": 3, "pyramid": 3}


def read_mesh(path: str | Path, gdim: int = 0) -> Mesh:
    """Return the mesh in a file, with physical groups of gmsh as tags.

    The cells are those of the highest dimension in the file; cells of one dimension less give facet tags. Trailing
    coordinates that are zero everywhere are dropped, but ``gdim`` and the dimension of the cells are kept; nodes
    without cells are dropped as well.

    Args:
        path: The file.
        gdim: Number of coordinates to keep even if they are zero.

    Raises:
        UnsupportedFormError: if the file cannot be read, or has no or mixed or curved cells.
    """
    data = _read(path)
    cell = _find_cell(path, data)
    cells, cell_tags = _collect(data, cell)
    used, numbers = np.unique(cells, return_inverse=True)
    points = np.asarray(data.points, dtype=np.float64)[used]
    while points.shape[1] > max(gdim, dimension(cell)) and not points[:, -1].any():
        points = points[:, :-1]
    mesh = make_mesh(cell, points, numbers.reshape(cells.shape), cell_tags)
    facets, facet_tags = _collect(data, facet_cells(cell)[0])
    renumber = np.full(len(data.points), -1)
    renumber[used] = np.arange(len(used))
    _tag_facets(mesh, renumber[facets], facet_tags)
    return mesh


def _read(path: str | Path) -> Any:
    if not Path(path).is_file():
        raise UnsupportedFormError(f"mesh file '{path}' does not exist; give the path of a file that meshio can read")
    try:
        # meshio prints warnings, and ends the program for suffixes that it does not know.
        with contextlib.redirect_stdout(io.StringIO()):
            return meshio.read(path)
    except (meshio.ReadError, SystemExit, ValueError, KeyError) as error:
        raise UnsupportedFormError(f"mesh file '{path}' cannot be read by meshio: {error}") from None


def _find_cell(path: str | Path, data: Any) -> str:
    types = {block.type for block in data.cells}
    higher = sorted(types - set(_DIMENSIONS))
    if higher:
        raise UnsupportedFormError(
            f"mesh file '{path}' has curved or unknown cells ({', '.join(higher)}); write it with first order cells"
        )
    top = max((_DIMENSIONS[name] for name in types), default=0)
    names = sorted(name for name in types if _DIMENSIONS[name] == top)
    if top == 0 or len(names) != 1 or names[0] not in CELL_OF_MESHIO:
        raise UnsupportedFormError(
            f"mesh file '{path}' has cells of the types {', '.join(names) or 'none'}; needed is one type of "
            "line, triangle, quad, tetra or hexahedron"
        )
    return CELL_OF_MESHIO[names[0]]


def _collect(data: Any, cell: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return all cells of a type in basix order, axes (cell, vertex), and their tags."""
    name = MESHIO_OF_CELL[cell]
    groups = data.cell_data.get("gmsh:physical", [None] * len(data.cells))
    n_vertices = len(topology(cell)[0])
    cells = [np.zeros((0, n_vertices), dtype=np.int64)]
    tags = [np.zeros(0, dtype=np.int64)]
    for block, group in zip(data.cells, groups, strict=True):
        if block.type == name:
            cells.append(np.asarray(block.data)[:, TENSOR_ORDER.get(cell, list(range(n_vertices)))])
            tag = np.full(len(block.data), UNTAGGED) if group is None else np.asarray(group)
            # gmsh numbers physical groups from 1; 0 stands for none.
            tags.append(np.where(tag == 0, UNTAGGED, tag))
    return np.concatenate(cells), np.concatenate(tags)


def _tag_facets(mesh: Mesh, facets: npt.NDArray[np.int64], tags: npt.NDArray[np.int64]) -> None:
    local = np.array(topology(mesh.cell)[mesh.tdim - 1])
    own = np.sort(mesh.vertices[:, local].astype(np.int64), axis=2).reshape(-1, local.shape[1])
    given = np.sort(facets, axis=1)
    rows = np.concatenate([given, own])
    _, inverse = np.unique(rows, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    tag_of = np.full(inverse.max(initial=0) + 1, UNTAGGED)
    tag_of[inverse[: len(given)]] = tags
    mesh.facet_tags[...] = tag_of[inverse[len(given) :]].reshape(mesh.facet_tags.shape)
