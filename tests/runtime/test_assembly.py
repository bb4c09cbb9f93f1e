import basix.ufl
import numpy as np
import pytest
import ufl
from ffcx_kernels import build_kernel, compile_form
from randomized import CELLS, random_mesh

import formcompiler
from formcompiler.elements.cells import dimension
from formcompiler.errors import InternalCompilerError, UnsupportedFormError
from formcompiler.runtime.assembly import Operator
from formcompiler.runtime.mesh import box_mesh
from formcompiler.runtime.spaces import make_dofmap
from formcompiler.runtime.tasks import make_batches, select_entities

TRIANGLE_MASS = """
  double det = (x[2]-x[0])*(x[5]-x[1]) - (x[4]-x[0])*(x[3]-x[1]);
  double area = (det < 0 ? -det : det) / 2;
  for (int i = 0; i < 3; ++i) for (int j = 0; j < 3; ++j) A[3*i+j] += FACTOR * area / 12 * (i == j ? 2 : 1);
"""
INTERIOR_JUMP = """
  // Piecewise constants: |F| [u][v], with the length of the facet from the first cell.
  static const int ends[3][2] = {{1, 2}, {0, 2}, {0, 1}};
  const double *p = x + 2*ends[facet[0]][0], *q = x + 2*ends[facet[0]][1];
  double length = __builtin_hypot(p[0]-q[0], p[1]-q[1]);
  A[0] += length; A[1] -= length; A[2] -= length; A[3] += length;
"""


def space(mesh, degree=1, **options):
    return make_dofmap(basix.ufl.element("P", mesh.cell, degree, **options), mesh)


def triangle_mass(mesh):
    """Dense mass matrix of P1 by the closed formula."""
    result = np.zeros((len(mesh.points),) * 2)
    for cell in mesh.cells:
        p = mesh.points[cell]
        area = abs(np.linalg.det(p[1:] - p[0])) / 2
        result[np.ix_(cell, cell)] += area / 12 * (np.eye(3) + 1)
    return result


def test_mass_matrix_equals_the_dense_formula():
    mesh = random_mesh("triangle", 3)
    V = space(mesh)
    kernel = build_kernel(TRIANGLE_MASS.replace("FACTOR", "1"), "cell")
    matrix = Operator([kernel], mesh, arguments=[V, V]).matrix().toarray()
    # The engine numbers dofs itself; P1 dofs are vertices.
    dof_of = np.zeros(len(mesh.points), dtype=int)
    dof_of[mesh.cells] = V.cell_dofs
    np.testing.assert_allclose(matrix[np.ix_(dof_of, dof_of)], triangle_mass(mesh), atol=1e-15)


def test_bilinear_mass_matrix_of_equal_squares():
    mesh = box_mesh("quadrilateral", [3, 2], [0.0, 0.0], [3.0, 2.0])
    V = space(mesh)
    body = """
      static const double m[2] = {1.0 / 3, 1.0 / 6};
      for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j)
        A[4*i+j] += m[(i ^ j) & 1] * m[((i ^ j) >> 1) & 1];
    """
    matrix = Operator([build_kernel(body, "cell")], mesh, arguments=[V, V]).matrix().toarray()
    expected = np.zeros_like(matrix)
    line = np.array([[1 / 3, 1 / 6], [1 / 6, 1 / 3]])
    for dofs in V.cell_dofs:
        expected[np.ix_(dofs, dofs)] += np.kron(line, line)
    np.testing.assert_allclose(matrix, expected, atol=1e-15)
    np.testing.assert_allclose(matrix.sum(), 6.0)


def test_interior_facets_couple_both_cells():
    mesh = random_mesh("triangle", 3)
    V = space(mesh, 0, discontinuous=True)
    matrix = Operator([build_kernel(INTERIOR_JUMP, "interior_facet")], mesh, arguments=[V, V]).matrix().toarray()
    expected = np.zeros_like(matrix)
    for first in range(mesh.n_cells):
        for second in range(first):
            shared = sorted(set(mesh.cells[first]) & set(mesh.cells[second]))
            if len(shared) == 2:
                length = np.linalg.norm(np.subtract(*mesh.points[shared]))
                dofs = V.cell_dofs[[first, second], 0]
                expected[np.ix_(dofs, dofs)] += length * np.array([[1, -1], [-1, 1]])
    assert np.count_nonzero(expected) > mesh.n_cells
    np.testing.assert_allclose(matrix, expected, atol=1e-14)


def test_coefficients_and_constants_arrive_in_the_kernels_order():
    mesh = random_mesh("triangle", 2)
    V, W = space(mesh), space(mesh, 2)
    body = "for (int i = 0; i < 3; ++i) A[i] += w[0][i] * c[0][2] + w[1][5];"
    kernel = build_kernel(body, "cell", coefficients=(2, 0), constants=(1,))
    rng = np.random.default_rng(0)
    vectors = [rng.uniform(size=W.n_dofs), np.zeros(0), rng.uniform(size=V.n_dofs)]
    operator = Operator(
        [kernel], mesh, arguments=[V], coefficients=[W, V, V], constants=[1.0, np.array([[1.0, 2.0], [3.0, 4.0]])]
    )
    expected = np.zeros(V.n_dofs)
    for v_dofs, w_dofs in zip(V.cell_dofs, W.cell_dofs, strict=True):
        expected[v_dofs] += vectors[2][v_dofs] * 3.0 + vectors[0][w_dofs[5]]
    np.testing.assert_allclose(operator.vector(vectors), expected)


def test_subdomains_are_added_to_what_applies_everywhere():
    mesh = box_mesh("triangle", [2, 2], [0.0, 0.0], [1.0, 1.0])
    mesh.cell_tags[:3] = 5
    everywhere = build_kernel("A[0] += 1;", "cell")
    tagged = build_kernel("A[0] += 100;", "cell", subdomain_ids=(5,))
    side = build_kernel("A[0] += 10000;", "exterior_facet", subdomain_ids=(1, 4))
    assert Operator([everywhere, tagged, side], mesh).number() == 40308
    twice = build_kernel("A[0] += 1;", "cell", subdomain_ids=("otherwise", 5))
    assert Operator([twice], mesh).number() == 11


def test_constrained_rows_and_columns_are_those_of_the_identity():
    mesh = random_mesh("triangle", 2)
    V = space(mesh)
    operator = Operator([build_kernel(TRIANGLE_MASS.replace("FACTOR", "3"), "cell")], mesh, arguments=[V, V])
    free, matrix = operator.matrix().toarray(), operator.matrix(constrained=[0, 4]).toarray()
    rest = np.setdiff1d(np.arange(V.n_dofs), [0, 4])
    np.testing.assert_array_equal(matrix[[0, 4]], np.eye(V.n_dofs)[[0, 4]])
    np.testing.assert_array_equal(matrix[:, [0, 4]], np.eye(V.n_dofs)[:, [0, 4]])
    np.testing.assert_array_equal(matrix[np.ix_(rest, rest)], free[np.ix_(rest, rest)])


def test_unknown_integral_types_and_wrong_uses_are_refused():
    mesh = random_mesh("triangle", 2)
    with pytest.raises(UnsupportedFormError, match="'vertex'"):
        select_entities(mesh, "vertex", ["otherwise"])
    with pytest.raises(InternalCompilerError, match="0 arguments is assembled as one with 1"):
        Operator([], mesh).vector()
    kernel = build_kernel("A[0] += w[0][0];", "cell", coefficients=(0,))
    with pytest.raises(InternalCompilerError, match="coefficient 0"):
        Operator([kernel], mesh, coefficients=[space(mesh)]).number([np.zeros(3)])


def ufl_space(cell, degree, **options):
    domain = ufl.Mesh(basix.ufl.element("P", cell, 1, shape=(dimension(cell),)))
    return ufl.FunctionSpace(domain, basix.ufl.element("P", cell, degree, **options))


@pytest.mark.parametrize("cell", CELLS)
def test_jumps_of_any_continuous_function_vanish_with_kernels_of_ffcx(cell):
    """Facet numbers, permutations, dof numbers and the order of both sides must all be right for this."""
    mesh = random_mesh(cell, 2, seed=4)
    V = ufl_space(cell, 3)
    f = ufl.Coefficient(V)
    dofmap = make_dofmap(V.ufl_element(), mesh)
    vector = np.random.default_rng(0).uniform(-1, 1, dofmap.n_dofs)
    jump = ufl.jump(f) ** 2 * ufl.dS
    size = ufl.avg(f) ** 2 * ufl.dS
    jump_value, size_value = (
        Operator(compile_form(form).kernels, mesh, coefficients=[dofmap]).number([vector]) for form in (jump, size)
    )
    assert size_value > 0.1
    assert jump_value < 1e-20 * size_value


@pytest.mark.parametrize("cell", ["triangle", "hexahedron"])
def test_divergence_theorem_holds_with_kernels_of_ffcx(cell):
    mesh = random_mesh(cell, 2, seed=6)
    V = ufl_space(cell, 2, shape=(dimension(cell),))
    f = ufl.Coefficient(V)
    dofmap = make_dofmap(V.ufl_element(), mesh)
    vector = np.random.default_rng(0).uniform(-1, 1, dofmap.n_dofs)
    n = ufl.FacetNormal(V.ufl_domain())
    inside, outside = (
        Operator(compile_form(form).kernels, mesh, coefficients=[dofmap]).number([vector])
        for form in (ufl.div(f) * ufl.dx(degree=8), ufl.inner(f, n) * ufl.ds(degree=8))
    )
    assert abs(inside) > 1e-3
    np.testing.assert_allclose(inside, outside, rtol=1e-10)


@pytest.mark.parametrize("lanes", [1, 2, 8])
@pytest.mark.parametrize("integral_type", ["cell", "exterior_facet", "interior_facet"])
def test_batches_hold_each_entity_once_and_only_facets_of_one_kind(lanes: int, integral_type: str) -> None:
    mesh = box_mesh("quadrilateral", [3, 5], [0.0, 0.0], [1.0, 1.0])
    entities = select_entities(mesh, integral_type, ("otherwise",))
    batches = make_batches(entities, lanes)
    assert batches.shape[1] == lanes
    np.testing.assert_array_equal(np.sort(batches[batches >= 0]), np.arange(len(entities.cells)))
    assert (batches[:, 0] >= 0).all()
    for batch in batches:
        members = batch[batch >= 0]
        assert (entities.facets[members] == entities.facets[members[0]]).all()
        assert (entities.permutations[members] == entities.permutations[members[0]]).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 3), (3, 4), (5, 6)])
def test_batches_of_cells_assemble_the_same_as_single_cells_for_any_mesh_size(shape: tuple[int, int]) -> None:
    domain = ufl.Mesh(basix.ufl.element("Lagrange", "quadrilateral", 1, shape=(2,)))
    V = ufl.FunctionSpace(domain, basix.ufl.element("DG", "quadrilateral", 2))
    u, v, w = ufl.TrialFunction(V), ufl.TestFunction(V), ufl.Coefficient(V)
    n = ufl.FacetNormal(domain)
    bilinear = (
        (1 + w**2) * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx
        + ufl.avg(w) * ufl.jump(u) * ufl.jump(v) * ufl.dS
        - ufl.dot(ufl.grad(u), n) * v * w * ufl.ds
    )
    linear, number = ufl.action(bilinear, w), w**2 * ufl.dx
    mesh = box_mesh("quadrilateral", shape, [0.0, 0.0], [1.0, 2.0])
    dofmap = make_dofmap(V.ufl_element(), mesh)
    values = np.random.default_rng(shape).standard_normal(dofmap.n_dofs)
    results = []
    for vectorize in ("none", "cells"):
        operators = []
        for form, n_arguments in ((bilinear, 2), (linear, 1), (number, 0)):
            kernels = formcompiler.compile_form(form, vectorize=vectorize).kernels
            operators.append(Operator(kernels, mesh, arguments=[dofmap] * n_arguments, coefficients=[dofmap]))
        results.append(
            (operators[0].matrix([values]).toarray(), operators[1].vector([values]), operators[2].number([values]))
        )
    for single, batched in zip(*results, strict=True):
        np.testing.assert_allclose(batched, single, rtol=1e-12, atol=1e-12 * np.abs(single).max())
    np.testing.assert_allclose(results[0][0] @ values, results[0][1], rtol=1e-10, atol=1e-12)
