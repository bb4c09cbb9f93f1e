"""Solutions as VTU files and PNG pictures, and tables of convergence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib.collections
import matplotlib.figure
import matplotlib.tri
import meshio  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt

from formcompiler.elements.cells import TENSOR_CELLS
from formcompiler.elements.layout import value_size
from formcompiler.runtime.lattice import cube_simplices, subdivide
from formcompiler.runtime.mesh import FloatArray
from formcompiler.runtime.meshfile import MESHIO_OF_CELL, TENSOR_ORDER
from formcompiler.runtime.spaces import DofMap, physical_points


@dataclass(frozen=True, eq=False)
class Samples:
    """A function on the lattice points of cut-up cells; neighbouring cells have points of their own.

    Attributes:
        cell: Name of the cell.
        points: Physical coordinates, axes (point, gdim).
        cells: Points of the small cells in basix order, axes (small cell, vertex).
        values: Axes (point, component).
    """

    cell: str
    points: FloatArray
    cells: npt.NDArray[np.int64]
    values: FloatArray


@dataclass(frozen=True)
class Field:
    """A part of a function to show: its name, its first component, and how many there are."""

    name: str
    first: int
    size: int


def sample(dofmap: DofMap, vector: FloatArray, n: int | None = None) -> Samples:
    """Return a function's values on cells cut into ``n ** tdim`` pieces; n is the degree if not given."""
    mesh = dofmap.mesh
    if n is None:
        n = max(1, *(int(leaf.element.embedded_subdegree) for leaf in dofmap.leaves))
    lattice = subdivide(mesh.cell, n)
    n_points = len(lattice.points)
    points = physical_points(mesh, lattice.points, np.arange(mesh.n_cells))
    cells = np.arange(mesh.n_cells)[:, None, None] * n_points + lattice.cells
    values = dofmap.evaluate(vector, lattice.points)
    return Samples(
        mesh.cell,
        points.reshape(-1, mesh.gdim),
        cells.reshape(-1, lattice.cells.shape[1]),
        values.reshape(-1, dofmap.value_size),
    )


def split_fields(dofmap: DofMap, name: str) -> tuple[Field, ...]:
    """Return the parts of a mixed function, numbered, or the whole function."""
    element = dofmap.element
    if not element.is_mixed:
        return (Field(name, 0, dofmap.value_size),)
    sizes = [value_size(sub_element) for sub_element in element.sub_elements]
    return tuple(Field(f"{name}_{i}", sum(sizes[:i]), size) for i, size in enumerate(sizes))


def write_vtu(path: Path, dofmap: DofMap, vector: FloatArray, name: str = "u") -> None:
    """Write a function for ParaView; cells of higher degree are cut, 2D vectors get a third component."""
    samples = sample(dofmap, vector)
    point_data = {}
    for field in split_fields(dofmap, name):
        values = samples.values[:, field.first : field.first + field.size]
        if field.size == 1:
            values = values[:, 0]
        elif field.size == 2:
            values = np.pad(values, ((0, 0), (0, 1)))
        point_data[field.name] = values
    points = np.pad(samples.points, ((0, 0), (0, 3 - samples.points.shape[1])))
    cells = samples.cells[:, TENSOR_ORDER.get(samples.cell, list(range(samples.cells.shape[1])))]
    data = meshio.Mesh(points, [(MESHIO_OF_CELL[samples.cell], cells)], point_data=point_data)
    meshio.write(path, data, file_format="vtu")


def write_png(path: Path, dofmap: DofMap, vector: FloatArray, *, name: str = "u", title: str = "") -> None:
    """Draw a function: curves in 1D, colours in 2D, colours on a cut through the middle in 3D.

    Vectors and tensors are shown by their Euclidean norm, parts of a mixed function side by side.
    """
    n = max(1, *(int(leaf.element.embedded_subdegree) for leaf in dofmap.leaves))
    samples = sample(dofmap, vector, 1 if n == 1 else 2 * n)
    if samples.points.shape[1] == 3:
        samples = cut(samples)
    fields = split_fields(dofmap, name)
    figure = matplotlib.figure.Figure(figsize=(1 + 5 * len(fields), 4.5), layout="constrained")
    for axes, field in zip(figure.subplots(1, len(fields), squeeze=False)[0], fields, strict=True):
        values = samples.values[:, field.first : field.first + field.size]
        magnitude = values[:, 0] if field.size == 1 else np.linalg.norm(values, axis=1)
        axes.set_title(field.name if field.size == 1 else f"|{field.name}|")
        _draw(figure, axes, samples, magnitude)
        axes.set_xlabel("x")
        if samples.points.shape[1] > 1:
            axes.set_ylabel("y")
    figure.suptitle(title)
    figure.savefig(path, dpi=120)


def _draw(figure: matplotlib.figure.Figure, axes: matplotlib.axes.Axes, samples: Samples, values: FloatArray) -> None:
    if samples.points.shape[1] == 1:
        lines = np.stack([samples.points[samples.cells, 0], values[samples.cells]], axis=2)
        axes.add_collection(matplotlib.collections.LineCollection(list(lines)))
        axes.autoscale()
        axes.set_xlabel("x")
        return
    axes.set_aspect("equal")
    if samples.cell == "interval":
        pieces = list(samples.points[samples.cells])
        curve = matplotlib.collections.LineCollection(pieces, array=values[samples.cells].mean(axis=1), linewidths=3)
        axes.add_collection(curve)
        axes.autoscale()
        figure.colorbar(curve, ax=axes)
        return
    if not len(samples.cells):
        return
    triangles = _simplices(samples)
    triangulation = matplotlib.tri.Triangulation(samples.points[:, 0], samples.points[:, 1], triangles)
    figure.colorbar(axes.tripcolor(triangulation, values, shading="gouraud"), ax=axes)


def _simplices(samples: Samples) -> npt.NDArray[np.int64]:
    """Return the small cells as simplices, axes (simplex, vertex)."""
    if samples.cell not in TENSOR_CELLS:
        return samples.cells
    dim = TENSOR_CELLS[samples.cell]
    return samples.cells[:, cube_simplices(dim)].reshape(-1, dim + 1)


def cut(samples: Samples) -> Samples:
    """Return the triangles in which a horizontal plane through the middle cuts a function in 3D, in the plane (x, y).

    Curves and surfaces in 3D are not cut, but seen from above.
    """
    simplices = _simplices(samples)
    if simplices.shape[1] != 4:
        cell = "interval" if simplices.shape[1] == 2 else "triangle"
        return Samples(cell, samples.points[:, :2], simplices, samples.values)
    heights = samples.points[:, 2]
    # A little off the middle, where the plane would go through vertices of symmetric meshes.
    level = heights.min() + (0.5 + 1e-6) * np.ptp(heights)
    above = heights[simplices] > level
    pieces = [_cut_simplices(samples, simplices, above, heights - level, n) for n in (1, 2, 3)]
    points = np.concatenate([piece.points for piece in pieces])
    offsets = np.cumsum([0, *(len(piece.points) for piece in pieces[:-1])])
    cells = np.concatenate([piece.cells + offset for piece, offset in zip(pieces, offsets, strict=True)])
    return Samples("triangle", points, cells, np.concatenate([piece.values for piece in pieces]))


def _cut_simplices(
    samples: Samples, simplices: npt.NDArray[np.int64], above: npt.NDArray[np.bool_], heights: FloatArray, n: int
) -> Samples:
    """Return the cuts of the tetrahedra with n vertices above the plane: one triangle, or two for n = 2."""
    chosen = above.sum(axis=1) == n
    # Vertices above come first; each edge from one of them to one below is cut.
    order = np.argsort(~above[chosen], axis=1, kind="stable")
    sorted_simplices = np.take_along_axis(simplices[chosen], order, axis=1)
    edges = {1: [(0, 1), (0, 2), (0, 3)], 2: [(0, 2), (0, 3), (1, 3), (1, 2)], 3: [(0, 3), (1, 3), (2, 3)]}[n]
    ends = sorted_simplices[:, np.array(edges)].reshape(-1, 2)
    share = (heights[ends[:, 0]] / (heights[ends[:, 0]] - heights[ends[:, 1]]))[:, None]
    points = (1 - share) * samples.points[ends[:, 0], :2] + share * samples.points[ends[:, 1], :2]
    values = (1 - share) * samples.values[ends[:, 0]] + share * samples.values[ends[:, 1]]
    corners = [[0, 1, 2], [0, 2, 3]] if n == 2 else [[0, 1, 2]]
    cells = np.arange(chosen.sum())[:, None, None] * len(edges) + np.array(corners)
    return Samples("triangle", points, cells.reshape(-1, 3), values)
