import io

import basix.ufl
import matplotlib.image
import meshio
import numpy as np
import pytest
from randomized import CELLS, random_mesh

from formcompiler.elements.cells import dimension
from formcompiler.runtime.lattice import subdivide
from formcompiler.runtime.mesh import box_mesh, make_mesh
from formcompiler.runtime.output import cut, sample, write_png, write_vtu
from formcompiler.runtime.spaces import make_dofmap, physical_points
from formcompiler.runtime.tables import convergence_order, format_table
from formcompiler.runtime.terminal import Progress


def linear(x, component=0):
    return (1 + component) * (0.3 + x @ np.array([1.0, 0.7, -0.4])[: x.shape[-1]])


def interpolate(dofmap):
    def evaluate(points, cells):
        x = physical_points(dofmap.mesh, points, cells)
        return np.stack([linear(x, c) for c in range(dofmap.value_size)], axis=-1)

    return dofmap.interpolate(evaluate)


def simplex_volume(points):
    edges = points[:, 1:] - points[:, :1]
    return np.abs(np.linalg.det(edges)).sum() / [1, 1, 2, 6][edges.shape[1]]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_subdivision_fills_the_reference_cell_with_equal_cells(cell, n):
    lattice = subdivide(cell, n)
    dim = dimension(cell)
    assert len(lattice.cells) == n**dim
    corners = lattice.points[lattice.cells]
    if cell in ("interval", "triangle", "tetrahedron"):
        np.testing.assert_allclose(simplex_volume(corners), [1, 1, 1 / 2, 1 / 6][dim])
    else:
        edges = corners[:, [1 << d for d in range(dim)]] - corners[:, :1]
        np.testing.assert_allclose(edges, np.broadcast_to(np.eye(dim) / n, edges.shape), atol=1e-14)
    on_boundary = (lattice.parent_facets >= 0).sum()
    assert on_boundary == lattice.parent_facets.shape[1] * n ** (dim - 1)


@pytest.mark.parametrize("cell", CELLS)
def test_vtu_file_holds_the_functions_values_and_positive_cells(cell, tmp_path):
    mesh = box_mesh(cell, [2] * dimension(cell), [0.0] * dimension(cell), [1.0] * dimension(cell))
    dofmap = make_dofmap(basix.ufl.element("P", cell, 2), mesh)
    write_vtu(tmp_path / "u.vtu", dofmap, interpolate(dofmap))
    data = meshio.read(tmp_path / "u.vtu")
    assert len(data.cells[0].data) == mesh.n_cells * 2**mesh.tdim
    np.testing.assert_allclose(data.point_data["u"], linear(data.points[:, : mesh.gdim]), atol=1e-13)
    if cell == "quadrilateral":
        corners = data.points[data.cells[0].data]
        shoelace = np.cross(corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1])[:, 2] / 2
        np.testing.assert_allclose(shoelace, 1 / 16)


def test_vtu_file_of_a_mixed_function_has_a_field_for_each_part(tmp_path):
    mesh = random_mesh("triangle", 2)
    element = basix.ufl.mixed_element(
        [basix.ufl.element("P", "triangle", 2, shape=(2,)), basix.ufl.element("P", "triangle", 1)]
    )
    dofmap = make_dofmap(element, mesh)
    write_vtu(tmp_path / "w.vtu", dofmap, interpolate(dofmap), "w")
    data = meshio.read(tmp_path / "w.vtu")
    x = data.points[:, :2]
    expected = np.stack([linear(x, 0), linear(x, 1), np.zeros(len(x))], axis=1)
    np.testing.assert_allclose(data.point_data["w_0"], expected, atol=1e-13)
    np.testing.assert_allclose(data.point_data["w_1"], linear(x, 2), atol=1e-13)


@pytest.mark.parametrize("cell", ["tetrahedron", "hexahedron"])
def test_cut_through_the_middle_covers_the_square_and_keeps_linear_values(cell):
    mesh = box_mesh(cell, [2, 3, 3], [0.0, 0.0, 0.0], [1.0, 2.0, 1.0])
    dofmap = make_dofmap(basix.ufl.element("P", cell, 1), mesh)
    plane = cut(sample(dofmap, interpolate(dofmap)))
    np.testing.assert_allclose(simplex_volume(plane.points[plane.cells]), 2.0, rtol=1e-9)
    in_space = np.pad(plane.points, ((0, 0), (0, 1)), constant_values=0.5 + 1e-6)
    np.testing.assert_allclose(plane.values[:, 0], linear(in_space), atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
def test_pictures_show_the_function_in_colours_or_as_a_curve(cell, tmp_path):
    mesh = random_mesh(cell, 2)
    dofmap = make_dofmap(basix.ufl.element("P", cell, 2), mesh)
    write_png(tmp_path / "u.png", dofmap, interpolate(dofmap), title="a title")
    write_png(tmp_path / "zero.png", dofmap, np.zeros(dofmap.n_dofs), title="a title")
    pixels, blank = (matplotlib.image.imread(tmp_path / name) for name in ("u.png", "zero.png"))
    assert min(pixels.shape[:2]) > 300
    assert pixels.shape != blank.shape or np.abs(pixels - blank).max() > 0.3
    if cell != "interval":
        assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 100


def test_picture_of_a_mixed_function_has_a_panel_for_each_part(tmp_path):
    mesh = random_mesh("quadrilateral", 2)
    scalar = basix.ufl.element("P", "quadrilateral", 1)
    dofmap = make_dofmap(basix.ufl.mixed_element([scalar, scalar, scalar]), mesh)
    write_png(tmp_path / "u.png", dofmap, interpolate(dofmap))
    height, width = matplotlib.image.imread(tmp_path / "u.png").shape[:2]
    assert width > 3 * height


@pytest.mark.parametrize("gdim", [2, 3])
def test_picture_of_a_curve_shows_its_values_in_colours(tmp_path, gdim):
    mesh = make_mesh("interval", np.array([[0, 0, 0], [1, 0, 0], [1, 1, 2]], float)[:, :gdim], [[0, 1], [1, 2]])
    dofmap = make_dofmap(basix.ufl.element("P", "interval", 1), mesh)
    for name, vector in (("u.png", np.arange(3.0)), ("one.png", np.ones(3))):
        write_png(tmp_path / name, dofmap, vector)
    pixels, blank = (matplotlib.image.imread(tmp_path / name) for name in ("u.png", "one.png"))
    assert pixels.shape != blank.shape or np.abs(pixels - blank).max() > 0.3


def test_picture_of_a_surface_in_space_is_drawn(tmp_path):
    mesh = make_mesh("triangle", np.array([[0, 0, 0], [1, 0, 0], [0, 1, 1], [1, 1, 2]], float), [[0, 1, 2], [1, 2, 3]])
    dofmap = make_dofmap(basix.ufl.element("P", "triangle", 1), mesh)
    write_png(tmp_path / "u.png", dofmap, np.arange(4.0))
    assert (tmp_path / "u.png").stat().st_size > 1000


def test_table_is_aligned_and_orders_follow_from_errors():
    assert format_table(["a", "long"], [["1.25", "2"], ["3", "4"]]) == "   a  long\n----  ----\n1.25     2\n   3     4"
    assert convergence_order([0.4, 0.05], [0.5, 0.25], 1) == pytest.approx(3)
    assert convergence_order([0.4, 0.05], [0.5, 0.25], 0) is None
    assert convergence_order([0.4, 0.0], [0.5, 0.25], 1) is None


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_rewrites_one_line_of_a_terminal_and_is_silent_elsewhere():
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        progress = Progress(stream)
        progress.show("first")
        progress.show("x" * 1000)
        progress.clear()
    assert file.getvalue() == ""
    text = terminal.getvalue()
    assert "first" in text
    assert "\n" not in text
    assert max(map(len, text.split("\r"))) < 200
    assert text.endswith("\r\x1b[K")
