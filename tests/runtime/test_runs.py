import basix.ufl
import numpy as np
import pytest
import ufl
from randomized import random_mesh

import formcompiler
from formcompiler.runtime.assembly import Operator
from formcompiler.runtime.mesh import box_mesh, make_mesh
from formcompiler.runtime.runs import cut_runs, find_groups, find_runs
from formcompiler.runtime.spaces import make_dofmap


def expand(pieces, size):
    """Return (group, entry, offset) of each entry of pieces."""
    return [(g, e + i, o + i) for g, e, o in pieces.tolist() for i in range(size)]


def test_entries_that_move_together_are_in_one_group():
    numbers = np.array([[10, 3, 12, 7], [20, 9, 22, 0], [31, 4, 33, 5]], dtype=np.int32)
    groups = find_groups(numbers)
    assert len(groups.representatives) == 3
    assert groups.groups[0] == groups.groups[2]
    assert len(set(groups.groups[[0, 1, 3]])) == 3
    np.testing.assert_array_equal(groups.offsets, [0, 0, 2, 0])


@pytest.mark.parametrize("cell", ["triangle", "hexahedron"])
@pytest.mark.parametrize("degree", [1, 3])
def test_groups_give_back_the_numbers_of_any_mesh(cell, degree):
    numbers = make_dofmap(basix.ufl.element("P", cell, degree), random_mesh(cell, 2, seed=1)).cell_dofs
    groups = find_groups(numbers)
    assert (groups.offsets >= 0).all()
    restored = numbers[:, groups.representatives[groups.groups]] + groups.offsets
    np.testing.assert_array_equal(restored, numbers)


def test_a_box_needs_one_number_per_entity_and_a_discontinuous_space_one_per_cell():
    mesh = box_mesh("hexahedron", [3, 4, 5], [0.0] * 3, [1.0] * 3)
    continuous = make_dofmap(basix.ufl.element("P", "hexahedron", 4), mesh)
    assert len(continuous.groups.representatives) <= 27
    assert len(mesh.coordinate_groups.representatives) == 1
    broken = make_dofmap(basix.ufl.element("DG", "hexahedron", 4), mesh)
    assert len(broken.groups.representatives) == 1


def test_tables_without_cells_or_entries_have_groups():
    assert len(find_groups(np.zeros((0, 3), dtype=np.int32)).representatives) == 3
    assert len(find_groups(np.zeros((3, 0), dtype=np.int32)).representatives) == 0


def test_runs_end_where_the_group_the_entry_or_the_offset_jumps():
    numbers = np.array([[0, 1, 2, 9, 4, 5], [7, 8, 9, 1, 11, 12]], dtype=np.int32)
    groups = find_groups(numbers)
    runs = find_runs(groups, np.arange(6))
    assert [tuple(run[1:]) for run in runs.tolist()] == [(0, 0, 3), (3, 0, 1), (4, 4, 2)]
    assert [tuple(run[1:]) for run in find_runs(groups, [0, 2]).tolist()] == [(0, 0, 1), (2, 2, 1)]
    assert len(find_runs(groups, [])) == 0


@pytest.mark.parametrize("may_overlap", [False, True])
@pytest.mark.parametrize("size", [1, 4])
def test_blocks_and_singles_cover_every_entry(size, may_overlap):
    runs = np.array([[0, 0, 5, 3], [1, 3, 0, 4], [2, 7, 1, 11], [0, 18, 9, 1]], dtype=np.int32)
    blocks, singles = cut_runs(runs, size, may_overlap=may_overlap)
    found = expand(blocks, size) + expand(singles, 1)
    expected = {(g, e + i, o + i) for g, e, o, length in runs.tolist() for i in range(length)}
    assert set(found) == expected
    if not may_overlap:
        assert len(found) == len(expected)
    assert len(singles) == (19 if size == 1 else 4 if may_overlap else 7)


def laplace(element, dim):
    V = ufl.FunctionSpace(ufl.Mesh(basix.ufl.element("Lagrange", element.cell.cellname, 1, shape=(dim,))), element)
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    return (ufl.inner(ufl.grad(u), ufl.grad(v)) + ufl.inner(u, v)) * ufl.dx


@pytest.mark.parametrize(("shape", "degree", "n"), [(None, 4, 3), ((3,), 2, 2)])
def test_batches_of_turned_cells_assemble_the_same_as_single_cells(shape, degree, n):
    """Runs are long inside of cells and short on their boundary; the last batch is not full."""
    mesh = random_mesh("hexahedron", n, seed=3)
    dofmap = make_dofmap(basix.ufl.element("Lagrange", "hexahedron", degree, shape=shape), mesh)
    values = np.random.default_rng(0).standard_normal(dofmap.n_dofs)
    results = []
    for vectorize in ("none", "cells"):
        kernels = formcompiler.compile_form(laplace(dofmap.element, 3), vectorize=vectorize).kernels
        operator = Operator(kernels, mesh, arguments=[dofmap], coefficients=[dofmap])
        results.append(operator.vector([values], np.full(dofmap.n_dofs, np.nan)))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("n", [4, 1])
def test_cells_of_one_batch_may_have_equal_blocks(n):
    """Faces have nine dofs inside; mirrored cells, n apart in the batch, have the same face at the same place."""
    mesh = box_mesh("hexahedron", [n, 2, 1], [0.0] * 3, [1.0, 2.0, 3.0])
    cells = mesh.cells.copy()
    cells[n:] = cells[n:][:, [2, 3, 0, 1, 6, 7, 4, 5]]
    mesh = make_mesh("hexahedron", mesh.points, cells)
    dofmap = make_dofmap(basix.ufl.element("Lagrange", "hexahedron", 4), mesh)
    assert len(np.intersect1d(dofmap.cell_dofs[0], dofmap.cell_dofs[n])) == 25
    values = np.random.default_rng(0).standard_normal(dofmap.n_dofs)
    results = []
    for vectorize in ("none", "cells"):
        kernels = formcompiler.compile_form(laplace(dofmap.element, 3), vectorize=vectorize).kernels
        results.append(Operator(kernels, mesh, arguments=[dofmap], coefficients=[dofmap]).vector([values]))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-10, atol=1e-11)


def test_dofs_of_no_cell_of_the_form_become_zero():
    mesh = box_mesh("quadrilateral", [5, 4], [0.0, 0.0], [1.0, 1.0])
    mesh.cell_tags[7:] = 1
    V = ufl.FunctionSpace(
        ufl.Mesh(basix.ufl.element("Lagrange", "quadrilateral", 1, shape=(2,))),
        basix.ufl.element("DG", "quadrilateral", 2),
    )
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    dofmap = make_dofmap(V.ufl_element(), mesh)
    kernels = formcompiler.compile_form(u * v * ufl.dx(1), vectorize="cells").kernels
    operator = Operator(kernels, mesh, arguments=[dofmap], coefficients=[dofmap])
    result = operator.vector([np.ones(dofmap.n_dofs)], np.full(dofmap.n_dofs, np.nan))
    assert (result[dofmap.cell_dofs[:7]] == 0).all()
    np.testing.assert_allclose(result.sum(), 13 / 20)
    assert (Operator([], mesh, arguments=[dofmap]).vector(out=np.full(dofmap.n_dofs, np.nan)) == 0).all()
