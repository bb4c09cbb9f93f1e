import meshio
import numpy as np
import pytest
from randomized import CELLS, all_pairs_mesh, random_mesh, to_space

from formcompiler.elements.cells import dimension, facet_cells, map_to_facet, permute_facet_points, vertices
from formcompiler.errors import UnsupportedFormError
from formcompiler.runtime.mesh import UNTAGGED, box_mesh, make_mesh, refine
from formcompiler.runtime.meshfile import read_mesh

FACET_POINTS = {
    "vertex": np.zeros((1, 0)),
    "interval": np.array([[0.1], [0.7]]),
    "triangle": np.array([[0.1, 0.2], [0.6, 0.3]]),
    "quadrilateral": np.array([[0.1, 0.2], [0.9, 0.4]]),
}


def volumes(mesh):
    """Volume of each cell by summing the determinants of the simplices that it is cut into, independently of order."""
    corners = mesh.points[mesh.vertices]
    dim = mesh.tdim
    if corners.shape[1] == dim + 1:
        simplices = [list(range(dim + 1))]
    elif dim == 2:
        simplices = [[0, 1, 3], [0, 3, 2]]
    else:
        simplices = [[0, 1, 3, 7], [0, 1, 5, 7], [0, 2, 3, 7], [0, 2, 6, 7], [0, 4, 5, 7], [0, 4, 6, 7]]
    edges = corners[:, [s[1:] for s in simplices]] - corners[:, [s[:1] for s in simplices]]
    return np.abs(np.linalg.det(edges)).sum(axis=1) / [1, 1, 2, 6][dim]


def facet_points_in_space(mesh, side):
    facets = mesh.interior_facets
    facet_cell = facet_cells(mesh.cell)[0]
    points = [
        map_to_facet(mesh.cell, int(local), permute_facet_points(facet_cell, int(number), FACET_POINTS[facet_cell]))
        for local, number in zip(facets.local_facets[:, side], facets.permutations[:, side], strict=True)
    ]
    return to_space(mesh, facets.cells[:, side], points)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("seed", [0, 1])
def test_facet_points_of_both_sides_coincide_in_random_meshes(cell, seed):
    mesh = random_mesh(cell, n=3 if dimension(cell) < 3 else 2, seed=seed)
    np.testing.assert_allclose(facet_points_in_space(mesh, 0), facet_points_in_space(mesh, 1), atol=1e-14)


@pytest.mark.parametrize("cell", ["interval", "triangle", "quadrilateral", "tetrahedron"])
def test_facet_points_coincide_for_all_pairs_of_orientations(cell):
    mesh = all_pairs_mesh(cell)
    assert len(mesh.interior_facets.cells) == mesh.n_cells // 2
    np.testing.assert_allclose(facet_points_in_space(mesh, 0), facet_points_in_space(mesh, 1), atol=1e-14)


def test_facet_points_coincide_for_all_pairs_of_hexahedra():
    mesh = all_pairs_mesh("hexahedron")
    assert mesh.n_cells == 2 * 48**2
    assert set(mesh.interior_facets.permutations[:, 1]) == set(range(8))
    np.testing.assert_allclose(facet_points_in_space(mesh, 0), facet_points_in_space(mesh, 1), atol=1e-14)


@pytest.mark.parametrize("cell", CELLS)
def test_box_has_the_right_volume_and_numbers_of_facets(cell):
    dim = dimension(cell)
    mesh = box_mesh(cell, [2, 3, 4][:dim], [0.0, -1.0, 2.0][:dim], [1.0, 1.0, 5.0][:dim])
    np.testing.assert_allclose(volumes(mesh).sum(), [1, 2, 6][dim - 1])
    n_cells = {"interval": 2, "triangle": 12, "quadrilateral": 6, "tetrahedron": 144, "hexahedron": 24}[cell]
    n_boundary = {"interval": 2, "triangle": 10, "quadrilateral": 10, "tetrahedron": 104, "hexahedron": 52}[cell]
    n_sides = len(facet_cells(cell))
    assert mesh.n_cells == n_cells
    assert len(mesh.boundary_facets.cells) == n_boundary
    assert len(mesh.interior_facets.cells) == (n_cells * n_sides - n_boundary) // 2
    np.testing.assert_allclose(volumes(mesh), volumes(mesh)[0])


@pytest.mark.parametrize("cell", CELLS)
def test_box_tags_lie_at_the_ends_of_each_direction(cell):
    dim = dimension(cell)
    mesh = box_mesh(cell, [2] * dim, [0.0] * dim, [1.0] * dim)
    facets = mesh.boundary_facets
    centre = {"vertex": np.zeros((1, 0)), "interval": [[0.5]], "triangle": [[1 / 3] * 2], "quadrilateral": [[0.5] * 2]}
    local_centre = np.array(centre[facet_cells(cell)[0]])
    x = to_space(mesh, facets.cells, [map_to_facet(cell, int(f), local_centre) for f in facets.local_facets])[:, 0]
    assert set(facets.tags) == set(range(1, 2 * dim + 1))
    direction, end = np.divmod(facets.tags - 1, 2)
    np.testing.assert_allclose(x[np.arange(len(x)), direction], end, atol=1e-14)
    assert set(mesh.interior_facets.tags) == {UNTAGGED}


@pytest.mark.parametrize("cell", CELLS)
def test_refinement_halves_the_cells_and_keeps_volume_tags_and_conformity(cell):
    mesh = random_mesh(cell, n=2, seed=3)
    facets = mesh.boundary_facets
    mesh.cell_tags[:] = np.arange(mesh.n_cells)
    mesh.facet_tags[facets.cells, facets.local_facets] = 7
    fine = refine(mesh)
    dim = mesh.tdim
    assert fine.n_cells == 2**dim * mesh.n_cells
    assert len(fine.boundary_facets.cells) == 2 ** (dim - 1) * len(mesh.boundary_facets.cells)
    assert len(fine.interior_facets.cells) * 2 == fine.facet_tags.size - len(fine.boundary_facets.cells)
    assert set(fine.boundary_facets.tags) == {7}
    assert (fine.facet_tags == 7).sum() == len(fine.boundary_facets.cells)
    assert fine.h < 0.8 * mesh.h
    np.testing.assert_allclose(volumes(fine).sum(), volumes(mesh).sum(), rtol=0.02 if cell == "hexahedron" else 1e-12)
    parents = np.bincount(fine.cell_tags, volumes(fine))
    np.testing.assert_allclose(parents, volumes(mesh), rtol=0.2 if cell == "hexahedron" else 1e-12)


@pytest.mark.parametrize("cell", CELLS)
def test_refined_box_equals_the_box_with_twice_the_cells(cell):
    dim = dimension(cell)
    fine = refine(box_mesh(cell, [1] * dim, [0.0] * dim, [1.0] * dim))
    box = box_mesh(cell, [2] * dim, [0.0] * dim, [1.0] * dim)

    def as_set(mesh):
        return {frozenset(map(tuple, np.round(4 * mesh.points[c]))) for c in mesh.cells}

    assert as_set(fine) == as_set(box)


def test_tetrahedra_keep_their_shape_under_repeated_refinement():
    mesh = make_mesh("tetrahedron", vertices("tetrahedron"), np.array([[0, 1, 2, 3]]))
    quality = []
    for _ in range(3):
        mesh = refine(mesh)
        quality.append((volumes(mesh) / mesh.h**3).min())
    np.testing.assert_allclose(quality, quality[0])


def write_gmsh(path, points, *blocks):
    """Write blocks of (type, cells, tags) as a file of gmsh."""
    tagged = {"gmsh:physical": [np.array(tags) for _, _, tags in blocks]}
    tagged["gmsh:geometrical"] = tagged["gmsh:physical"]
    data = meshio.Mesh(points, [(name, np.array(cells)) for name, cells, _ in blocks], cell_data=tagged)
    meshio.write(path, data, file_format="gmsh22", binary=False)


def test_file_of_quadrilaterals_gives_cells_in_tensor_order_with_tags(tmp_path):
    points = np.array([[9, 9, 0], [0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0], [1, 1, 0], [2, 1, 0]], dtype=float)
    write_gmsh(
        tmp_path / "a.msh", points, ("quad", [[1, 2, 5, 4], [2, 3, 6, 5]], [3, 4]), ("line", [[3, 6], [5, 2]], [11, 12])
    )
    mesh = read_mesh(tmp_path / "a.msh")
    assert mesh.cell == "quadrilateral"
    assert mesh.points.shape == (6, 2)
    np.testing.assert_allclose(mesh.points[mesh.cells[0]], [[0, 0], [1, 0], [0, 1], [1, 1]])
    assert list(mesh.cell_tags) == [3, 4]
    assert list(mesh.interior_facets.tags) == [12]
    tagged = mesh.boundary_facets.tags == 11
    assert tagged.sum() == 1
    assert mesh.boundary_facets.cells[tagged] == [1]
    assert mesh.boundary_facets.local_facets[tagged] == [2]


def test_file_of_hexahedra_has_unit_volume(tmp_path):
    points = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]], float)
    write_gmsh(tmp_path / "a.msh", points, ("hexahedron", [list(range(8))], [1]), ("quad", [[4, 5, 6, 7]], [5]))
    mesh = read_mesh(tmp_path / "a.msh")
    np.testing.assert_allclose(volumes(mesh), 1)
    np.testing.assert_allclose(mesh.points[mesh.cells[0]], vertices("hexahedron"))
    assert mesh.boundary_facets.local_facets[mesh.boundary_facets.tags == 5] == [5]


def test_file_of_intervals_has_tags_at_its_ends_and_as_many_coordinates_as_needed(tmp_path):
    points = np.array([[0, 0, 0], [2, 0, 0], [1, 0, 0]], dtype=float)
    write_gmsh(tmp_path / "a.msh", points, ("line", [[0, 2], [2, 1]], [1, 1]), ("vertex", [[1], [2]], [5, 6]))
    mesh = read_mesh(tmp_path / "a.msh")
    assert mesh.points.tolist() == [[0], [2], [1]]
    assert sorted(mesh.boundary_facets.tags) == [UNTAGGED, 5]
    assert list(mesh.interior_facets.tags) == [6]
    assert read_mesh(tmp_path / "a.msh", gdim=2).points.shape == (3, 2)


def test_gmsh_mesh_of_a_disk_has_its_area(tmp_path):
    gmsh = pytest.importorskip("gmsh")
    gmsh.initialize(interruptible=False)
    try:
        gmsh.option.setNumber("General.Terminal", 0)
        gmsh.model.occ.addDisk(0, 0, 0, 1, 1)
        gmsh.model.occ.synchronize()
        gmsh.model.addPhysicalGroup(2, [1], 8)
        gmsh.model.addPhysicalGroup(1, [1], 9)
        gmsh.option.setNumber("Mesh.MeshSizeMax", 0.2)
        gmsh.model.mesh.generate(2)
        gmsh.write(str(tmp_path / "disk.msh"))
    finally:
        gmsh.finalize()
    mesh = read_mesh(tmp_path / "disk.msh")
    np.testing.assert_allclose(volumes(mesh).sum(), np.pi, rtol=0.01)
    assert mesh.gdim == 2
    assert set(mesh.cell_tags) == {8}
    assert set(mesh.boundary_facets.tags) == {9}


def test_refused_files_say_what_is_wrong(tmp_path):
    with pytest.raises(UnsupportedFormError, match="does not exist"):
        read_mesh(tmp_path / "none.msh")
    (tmp_path / "a.unknown").write_text("nothing")
    with pytest.raises(UnsupportedFormError, match="cannot be read"):
        read_mesh(tmp_path / "a.unknown")
    points = np.eye(6, 3)
    meshio.write(tmp_path / "curved.vtk", meshio.Mesh(points, [("triangle6", np.array([[0, 1, 2, 3, 4, 5]]))]))
    with pytest.raises(UnsupportedFormError, match=r"curved.*triangle6"):
        read_mesh(tmp_path / "curved.vtk")
    both = [("triangle", np.array([[0, 1, 2]])), ("quad", np.array([[0, 1, 2, 3]]))]
    meshio.write(tmp_path / "both.vtk", meshio.Mesh(points, both))
    with pytest.raises(UnsupportedFormError, match="quad, triangle; needed is one type"):
        read_mesh(tmp_path / "both.vtk")


def test_facet_with_three_cells_is_refused():
    mesh = make_mesh("triangle", np.eye(5, 3), np.array([[0, 1, 2], [0, 1, 3], [0, 1, 4]]))
    with pytest.raises(UnsupportedFormError, match="belongs to 3 cells"):
        _ = mesh.interior_facets
