from math import comb

import basix
import basix.ufl
import numpy as np
import pytest
from randomized import CELLS, all_pairs_mesh, random_mesh

from formcompiler.elements.cells import dimension, facet_cells, map_to_facet, permute_facet_points
from formcompiler.elements.layout import find_leaves, tabulate_values, value_size
from formcompiler.errors import UnsupportedFormError
from formcompiler.runtime.mesh import box_mesh
from formcompiler.runtime.spaces import make_dofmap, physical_points

VARIANTS = [basix.LagrangeVariant.gll_warped, basix.LagrangeVariant.equispaced, basix.LagrangeVariant.gll_isaac]


def polynomial(x, degree, component=0):
    """A polynomial of full degree that no symmetry of a cell leaves alone."""
    weights = np.array([1.0, 0.7, -0.4])[: x.shape[-1]]
    return (0.3 + component + x @ weights) ** degree + x[..., 0] ** degree


def interpolate(dofmap, degree):
    n = dofmap.value_size

    def evaluate(points, cells):
        x = physical_points(dofmap.mesh, points, cells)
        return np.stack([polynomial(x, degree, c) for c in range(n)], axis=-1)

    return dofmap.interpolate(evaluate)


def facet_jump(dofmap, vector, rng):
    """Largest difference of both sides' values at random points of interior facets."""
    mesh, facets = dofmap.mesh, dofmap.mesh.interior_facets
    facet_cell = facet_cells(mesh.cell)[0]
    points = 0.5 * rng.uniform(size=(3, mesh.tdim - 1))
    jump = 0.0
    for i in range(len(facets.cells)):
        values = []
        for side in (0, 1):
            turned = permute_facet_points(facet_cell, int(facets.permutations[i, side]), points)
            local = map_to_facet(mesh.cell, int(facets.local_facets[i, side]), turned)
            leaf = dofmap.leaves[0]
            values.append(tabulate_values(leaf.element, local) @ vector[dofmap.cell_dofs[facets.cells[i, side]]])
        jump = max(jump, np.abs(values[0] - values[1]).max())
    return jump


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("degree", [1, 2, 3, 4])
@pytest.mark.parametrize("variant", VARIANTS)
def test_any_dof_vector_is_continuous_whatever_the_orientation(cell, degree, variant):
    mesh = random_mesh(cell, n=2 if dimension(cell) == 3 else 3, seed=degree, shift=0.0)
    dofmap = make_dofmap(basix.ufl.element("P", cell, degree, lagrange_variant=variant), mesh)
    rng = np.random.default_rng(1)
    assert facet_jump(dofmap, rng.uniform(-1, 1, dofmap.n_dofs), rng) < 1e-12


@pytest.mark.parametrize(("cell", "degree"), [("quadrilateral", 5), ("tetrahedron", 5), ("triangle", 6)])
def test_functions_are_continuous_for_all_pairs_of_orientations(cell, degree):
    mesh = all_pairs_mesh(cell)
    dofmap = make_dofmap(basix.ufl.element("P", cell, degree), mesh)
    rng = np.random.default_rng(2)
    assert facet_jump(dofmap, rng.uniform(-1, 1, dofmap.n_dofs), rng) < 1e-11


def test_cubic_hexahedra_are_continuous_for_all_pairs_of_orientations():
    mesh = all_pairs_mesh("hexahedron")
    dofmap = make_dofmap(basix.ufl.element("P", "hexahedron", 3), mesh)
    rng = np.random.default_rng(3)
    assert facet_jump(dofmap, rng.uniform(-1, 1, dofmap.n_dofs), rng) < 1e-12


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("degree", [1, 2, 3, 5])
def test_polynomial_of_the_spaces_degree_is_interpolated_exactly(cell, degree):
    mesh = random_mesh(cell, n=2, seed=5, shift=0.05 if cell in ("interval", "triangle", "tetrahedron") else 0.0)
    for discontinuous in (False, True):
        dofmap = make_dofmap(basix.ufl.element("P", cell, degree, discontinuous=discontinuous), mesh)
        vector = interpolate(dofmap, degree)
        points = np.random.default_rng(0).uniform(0, 1 / mesh.tdim, (4, mesh.tdim))
        exact = polynomial(physical_points(mesh, points, np.arange(mesh.n_cells)), degree)
        np.testing.assert_allclose(dofmap.evaluate(vector, points)[:, :, 0], exact, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_dof_counts_follow_the_formulae(cell, degree):
    dim = dimension(cell)
    n = [3, 2, 2][:dim]
    mesh = box_mesh(cell, n, [0.0] * dim, [1.0] * dim)
    # Both splittings have their nodes on the same grid of degree * n intervals.
    expected = np.prod([degree * k + 1 for k in n])
    assert make_dofmap(basix.ufl.element("P", cell, degree), mesh).n_dofs == expected
    vector = make_dofmap(basix.ufl.element("P", cell, degree, shape=(3,)), mesh)
    assert vector.n_dofs == 3 * expected
    local = comb(degree + dim, dim) if cell in ("interval", "triangle", "tetrahedron") else (degree + 1) ** dim
    broken = make_dofmap(basix.ufl.element("P", cell, degree, discontinuous=True), mesh)
    assert broken.n_dofs == local * mesh.n_cells
    for dofmap in (vector, broken):
        np.testing.assert_array_equal(np.unique(dofmap.cell_dofs), np.arange(dofmap.n_dofs))


def taylor_hood(cell):
    return basix.ufl.mixed_element([basix.ufl.element("P", cell, 2, shape=(2,)), basix.ufl.element("P", cell, 1)])


def test_mixed_space_interpolates_each_component():
    mesh = random_mesh("triangle", n=3, seed=1)
    element = basix.ufl.mixed_element([taylor_hood("triangle"), basix.ufl.element("DG", "triangle", 1)])
    dofmap = make_dofmap(element, mesh)
    assert dofmap.value_size == 4
    points = np.array([[0.2, 0.3]])
    exact = polynomial(physical_points(mesh, points, np.arange(mesh.n_cells)), 1)
    values = dofmap.evaluate(interpolate(dofmap, 1), points)
    np.testing.assert_allclose(values, exact[..., None] + np.arange(4), rtol=1e-12)


def test_symmetric_tensor_shares_its_off_diagonal_entry():
    element = basix.ufl.element("P", "triangle", 1, shape=(2, 2), symmetry=True)
    mesh = random_mesh("triangle")
    dofmap = make_dofmap(element, mesh)
    assert dofmap.n_dofs == 3 * len(mesh.points)
    assert value_size(element) == 4
    values = dofmap.evaluate(np.random.default_rng(0).uniform(size=dofmap.n_dofs), np.array([[0.3, 0.1]]))
    np.testing.assert_array_equal(values[..., 1], values[..., 2])
    assert not np.allclose(values[..., 0], values[..., 3])


def test_a_path_selects_part_of_a_mixed_space():
    mesh = random_mesh("quadrilateral", n=2)
    dofmap = make_dofmap(taylor_hood("quadrilateral"), mesh)
    out = dofmap.interpolate(lambda points, cells: np.full((len(cells), len(points), 1), 5.0), path=(0, 1))
    values = dofmap.evaluate(out, np.array([[0.2, 0.3]]))[:, 0]
    np.testing.assert_allclose(values, np.tile([0.0, 5.0, 0.0], (mesh.n_cells, 1)), atol=1e-14)
    assert [leaf.components for leaf in find_leaves(dofmap.element, (1,))] == [((0,),)]


def test_facet_dofs_are_those_with_nodes_on_the_facet():
    mesh = box_mesh("triangle", [3, 3], [0.0, 0.0], [1.0, 1.0])
    dofmap = make_dofmap(basix.ufl.element("P", "triangle", 3), mesh)
    x = dofmap.interpolate(lambda points, cells: physical_points(mesh, points, cells)[:, :, :1])
    facets = mesh.boundary_facets
    left = facets.tags == 1
    found = dofmap.facet_dofs(facets.cells[left], facets.local_facets[left])
    np.testing.assert_array_equal(found, np.flatnonzero(np.abs(x) < 1e-12))
    assert len(found) == 10


def test_discontinuous_space_has_no_dofs_on_facets():
    mesh = box_mesh("triangle", [2, 2], [0.0, 0.0], [1.0, 1.0])
    dofmap = make_dofmap(basix.ufl.element("DG", "triangle", 2), mesh)
    facets = mesh.boundary_facets
    assert len(dofmap.facet_dofs(facets.cells, facets.local_facets)) == 0


def test_crouzeix_raviart_has_one_dof_per_facet():
    mesh = random_mesh("tetrahedron", n=2)
    dofmap = make_dofmap(basix.ufl.element("CR", "tetrahedron", 1), mesh)
    assert dofmap.n_dofs == len(mesh.interior_facets.cells) + len(mesh.boundary_facets.cells)


def test_bubble_enriched_and_legendre_spaces_reproduce_linear_functions():
    mesh = random_mesh("triangle", n=2)
    mini = basix.ufl.enriched_element(
        [basix.ufl.element("P", "triangle", 1), basix.ufl.element("bubble", "triangle", 3)]
    )
    legendre = basix.ufl.element(
        "P", "triangle", 2, discontinuous=True, lagrange_variant=basix.LagrangeVariant.legendre
    )
    points = np.array([[0.2, 0.3], [0.5, 0.1]])
    exact = polynomial(physical_points(mesh, points, np.arange(mesh.n_cells)), 1)
    for element in (mini, legendre):
        dofmap = make_dofmap(element, mesh)
        np.testing.assert_allclose(dofmap.evaluate(interpolate(dofmap, 1), points)[..., 0], exact, rtol=1e-12)
    assert make_dofmap(mini, mesh).n_dofs == len(mesh.points) + mesh.n_cells


def test_quadrature_and_real_spaces_have_their_own_numbers():
    mesh = random_mesh("triangle", n=2)
    quadrature = make_dofmap(basix.ufl.quadrature_element("triangle", degree=2), mesh)
    assert quadrature.n_dofs == quadrature.element.dim * mesh.n_cells
    real = make_dofmap(basix.ufl.real_element("triangle", (2,)), mesh)
    assert real.n_dofs == 2
    np.testing.assert_array_equal(real.cell_dofs, np.tile([0, 1], (mesh.n_cells, 1)))


@pytest.mark.parametrize("family", ["RT", "N1curl"])
def test_vector_valued_elements_are_refused(family):
    with pytest.raises(UnsupportedFormError, match="orientation"):
        make_dofmap(basix.ufl.element(family, "triangle", 1), random_mesh("triangle"))


def test_elements_without_nodes_on_shared_entities_are_refused():
    with pytest.raises(UnsupportedFormError, match="not values at symmetric nodes"):
        make_dofmap(basix.ufl.element("serendipity", "quadrilateral", 3), random_mesh("quadrilateral"))


def test_wrong_cells_and_paths_are_refused():
    with pytest.raises(UnsupportedFormError, match="on a triangle, not a quadrilateral"):
        make_dofmap(basix.ufl.element("P", "triangle", 1), random_mesh("quadrilateral"))
    with pytest.raises(UnsupportedFormError, match="number from 0 to 1"):
        find_leaves(taylor_hood("triangle"), (2,))
    with pytest.raises(UnsupportedFormError, match="has no parts"):
        find_leaves(taylor_hood("triangle"), (1, 0))
