"""Cells in rows: their dofs are consecutive from cell to cell, and batches read and write whole vectors."""

from dataclasses import replace

import basix.ufl
import numpy as np
import pytest
import ufl
from randomized import random_mesh

import formcompiler
from formcompiler.elements.cells import dimension
from formcompiler.runtime.assembly import Operator
from formcompiler.runtime.first import find_first_entries, find_ranges
from formcompiler.runtime.mesh import box_mesh, make_mesh, refine
from formcompiler.runtime.rows import find_row_starts
from formcompiler.runtime.spaces import make_dofmap


def box(cell, n):
    return box_mesh(cell, n, [0.0] * len(n), [1.0 + d for d in range(len(n))])


@pytest.mark.parametrize(("cell", "n"), [("interval", [9]), ("quadrilateral", [8, 2]), ("hexahedron", [11, 2, 3])])
def test_cells_of_a_box_are_in_rows_of_its_first_direction(cell, n):
    rows = box(cell, n).rows
    assert rows is not None
    assert rows.length == n[0]
    half = 2 ** (len(n) - 1)
    assert [len(end) for end in rows.ends] == [half, half]


def test_other_meshes_and_short_rows_have_none():
    mesh = box("quadrilateral", [8, 4])
    assert box("quadrilateral", [7, 8]).rows is None
    assert box("triangle", [8, 4]).rows is None
    assert refine(mesh).rows is None
    assert random_mesh("quadrilateral", 8).rows is None
    assert replace(mesh, cells=mesh.cells[:-1], cell_tags=mesh.cell_tags[:-1]).rows is None
    apart = mesh.cells.copy()
    apart[9] = apart[9][[1, 0, 3, 2]]
    assert make_mesh(mesh.cell, mesh.points, apart).rows is None
    assert make_mesh("interval", np.zeros((0, 1)), np.zeros((0, 2), dtype=int)).rows is None


ELEMENTS = [("Lagrange", 1), ("Lagrange", 3), ("DG", 0)]


@pytest.mark.parametrize(("family", "degree"), ELEMENTS)
@pytest.mark.parametrize("n", [[8], [11, 3], [9, 3, 4]])
def test_numbers_are_a_permutation_and_grow_by_one_along_rows(n, family, degree):
    """The shuffled mesh has the classical numbers: as many, and as many dofs in common for any two cells."""
    cell = {1: "interval", 2: "quadrilateral", 3: "hexahedron"}[len(n)]
    mesh = box(cell, n)
    element = basix.ufl.element(family, cell, degree)
    dofmap = make_dofmap(element, mesh)
    assert (np.unique(dofmap.cell_dofs) == np.arange(dofmap.n_dofs)).all()
    in_row = dofmap.cell_dofs.reshape(-1, n[0], element.dim)
    assert (np.diff(in_row, axis=1) == 1).all()
    order = np.random.default_rng(0).permutation(mesh.n_cells)
    shuffled = make_dofmap(element, make_mesh(cell, mesh.points, mesh.cells[order]))
    assert shuffled.n_dofs == dofmap.n_dofs
    pairs = np.stack([dofmap.cell_dofs[order].ravel(), shuffled.cell_dofs.ravel()], axis=1)
    assert len(np.unique(pairs, axis=0)) == dofmap.n_dofs
    assert len(dofmap.groups.representatives) <= 6


def test_discontinuous_dofs_stay_together_by_cell():
    dofmap = make_dofmap(basix.ufl.element("DG", "quadrilateral", 2), box("quadrilateral", [9, 3]))
    np.testing.assert_array_equal(dofmap.cell_dofs, np.arange(9 * 27).reshape(27, 9))


def test_copies_of_an_element_move_together():
    dofmap = make_dofmap(basix.ufl.element("Lagrange", "hexahedron", 2, shape=(3,)), box("hexahedron", [9, 3, 3]))
    assert (np.unique(dofmap.cell_dofs) == np.arange(dofmap.n_dofs)).all()
    assert (np.diff(dofmap.cell_dofs.reshape(-1, 9, 81), axis=1) == 1).all()
    assert len(dofmap.groups.representatives) <= 6


def test_lanes_are_in_one_row_in_two_or_in_none():
    starts = np.array(
        [
            [[10, 11, 12, 13], [50, 51, 52, 53]],  # one row
            [[10, 11, 30, 31], [50, 51, 60, 61]],  # two
            [[10, 11, 30, 31], [50, 60, 61, 62]],  # groups disagree
            [[10, 20, 21, 30], [50, 51, 52, 53]],  # three
            [[10, 11, 30, 31], [50, 51, 1, 2]],  # reading the second as a whole would begin before the vector
            [[10, 11, 30, 31], [70, 71, 60, 61]],  # or end behind it
            [[10, 11, 12, 13], [50, 51, 52, 53]],  # not all lanes are used
        ],
        dtype=np.int32,
    )
    found = find_row_starts(starts, np.array([1, 2]), np.array([4, 4, 4, 4, 4, 4, 3]))
    np.testing.assert_array_equal(found.splits, [4, 2, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(found.starts[:2, 0], [[10, 50], [10, 50]])
    np.testing.assert_array_equal(found.starts[1, 1], [30, 60])


def forms(cell, degree, shape, is_discontinuous):
    family = "DG" if is_discontinuous else "Lagrange"
    domain = ufl.Mesh(basix.ufl.element("Lagrange", cell, 1, shape=(dimension(cell),)))
    V = ufl.FunctionSpace(domain, basix.ufl.element(family, cell, degree, shape=shape))
    u, v, n = ufl.TrialFunction(V), ufl.TestFunction(V), ufl.FacetNormal(domain)
    form = (ufl.inner(ufl.grad(u), ufl.grad(v)) + 2 * ufl.inner(u, v)) * ufl.dx + ufl.inner(u, v) * ufl.ds(1)
    if is_discontinuous:
        form += (3 * ufl.jump(u) * ufl.jump(v) - ufl.dot(ufl.avg(ufl.grad(u)), ufl.jump(v, n))) * ufl.dS
    w = ufl.Coefficient(V)
    return form, ufl.action(form, w)


@pytest.mark.parametrize("vectorize", ["none", "cells"])
@pytest.mark.parametrize(
    ("n", "degree", "shape", "is_discontinuous"),
    [([9, 4], 2, None, False), ([11, 3, 2], 1, (3,), False), ([8, 2, 3], 3, None, False), ([13, 5], 2, None, True)],
)
def test_products_equal_those_with_the_matrix_on_a_deformed_box(n, degree, shape, is_discontinuous, vectorize):
    """Matrices are assembled from tables of single numbers; every lane of a batch has another place in its row."""
    mesh = box({2: "quadrilateral", 3: "hexahedron"}[len(n)], n)
    mesh = replace(mesh, points=mesh.points + 0.02 * np.sin(7 * mesh.points[:, ::-1] + 1))
    bilinear, linear = forms(mesh.cell, degree, shape, is_discontinuous)
    dofmap = make_dofmap(linear.arguments()[0].ufl_function_space().ufl_element(), mesh)
    assert mesh.rows is not None
    values = np.random.default_rng(1).standard_normal(dofmap.n_dofs)
    matrix = Operator(formcompiler.compile_form(bilinear).kernels, mesh, arguments=[dofmap] * 2).matrix()
    kernels = formcompiler.compile_form(linear, vectorize=vectorize).kernels
    operator = Operator(kernels, mesh, arguments=[dofmap], coefficients=[dofmap])
    result = operator.vector([values], np.full(dofmap.n_dofs, np.nan))
    np.testing.assert_allclose(result, matrix @ values, rtol=1e-9, atol=1e-10 * abs(result).max())


def brute_force(cell_dofs, cells, counts, own):
    """Visit all batches, writing and then adding one for each entry; return what is left in the dofs."""
    dofs = np.full(cell_dofs.max() + 1, np.nan)
    dofs[np.setdiff1d(np.arange(len(dofs)), cell_dofs[np.concatenate(list(map(used, cells, counts)))][:, own])] = 0.0
    for batch in map(used, cells, counts):
        dofs[cell_dofs[batch][:, own]] = 1.0
        np.add.at(dofs, cell_dofs[batch][:, ~own], 1.0)
    return dofs


def used(batch, count):
    return batch[:count]


@pytest.mark.parametrize("mesh", [box("quadrilateral", [9, 3]), random_mesh("quadrilateral", 5), box("interval", [20])])
@pytest.mark.parametrize("lanes", [1, 4])
def test_what_is_written_first_need_not_be_zero(mesh, lanes):
    dofmap = make_dofmap(basix.ufl.element("Lagrange", mesh.cell, 3), mesh)
    cells = np.arange(mesh.n_cells + -mesh.n_cells % lanes, dtype=np.int32).reshape(-1, lanes)
    counts = np.minimum(mesh.n_cells - cells[:, 0], lanes).astype(np.int32)
    none = np.zeros(0, dtype=np.int32)
    own = find_first_entries(dofmap.cell_dofs, dofmap.n_dofs, cells, counts, none)
    assert own.sum() >= 2 ** dimension(mesh.cell)
    expected = np.bincount(dofmap.cell_dofs.ravel())
    np.testing.assert_array_equal(brute_force(dofmap.cell_dofs, cells, counts, own), expected)


def test_dofs_of_cells_that_the_kernel_does_not_visit_are_not_written():
    dofmap = make_dofmap(basix.ufl.element("Lagrange", "quadrilateral", 2), box("quadrilateral", [9, 3]))
    every_other = np.arange(0, 27, 2, dtype=np.int32)[:, None]
    others = np.arange(1, 27, 2)
    own = find_first_entries(dofmap.cell_dofs, dofmap.n_dofs, every_other, np.ones(14, dtype=np.int32), others)
    assert own.sum() == 1
    assert not np.isin(dofmap.cell_dofs[every_other[:, 0]][:, own], dofmap.cell_dofs[others]).any()


def test_ranges_are_runs_of_chosen_numbers():
    chosen = np.array([1, 1, 0, 1, 0, 0, 1], dtype=bool)
    assert find_ranges(chosen).tolist() == [[0, 2], [3, 4], [6, 7]]
    assert find_ranges(np.zeros(3, dtype=bool)).shape == (0, 2)
