"""Kernels for facets in one place of their cells: they compute what the kernels for all places compute."""

from dataclasses import replace

import basix.ufl
import numpy as np
import pytest
import ufl
from randomized import all_pairs_mesh, random_mesh
from ufl import avg, dot, dS, ds, dx, grad, inner, jump

import formcompiler
from formcompiler.elements.cells import TENSOR_CELLS, classify
from formcompiler.runtime.assembly import Operator
from formcompiler.runtime.mesh import box_mesh, make_mesh
from formcompiler.runtime.placement import place_kernels
from formcompiler.runtime.spaces import make_dofmap


def penalty(V):
    """Return a symmetric interior penalty form."""
    u, v, n = ufl.Coefficient(V), ufl.TestFunction(V), ufl.FacetNormal(V.ufl_domain())
    interior = 3.7 * jump(u) * jump(v) - dot(avg(grad(u)), jump(v, n)) - dot(jump(u, n), avg(grad(v)))
    boundary = 3.7 * u * v - dot(grad(u), n) * v - u * dot(grad(v), n)
    return u * v * dx(degree=2) + interior * dS(degree=5) + boundary * ds(degree=5)


def upwind(V):
    """Return a nonlinear form that looks at positions, signs of normals and the areas of cells."""
    u, v, n = ufl.Coefficient(V), ufl.TestFunction(V), ufl.FacetNormal(V.ufl_domain())
    x = ufl.SpatialCoordinate(V.ufl_domain())
    wind = ufl.as_vector([1 + x[i] - 0.5 * x[0] for i in range(len(x))])
    flow = dot(wind, n)
    flux = ufl.conditional(ufl.gt(flow("+"), 0), flow("+") * u("+"), flow("+") * u("-"))
    size = ufl.sqrt(abs(ufl.JacobianDeterminant(V.ufl_domain())))
    interior = flux * jump(v) + avg(u) ** 2 * size("-") * x[0]("-") * dot(grad(v)("-"), n("-"))
    boundary = abs(flow) * u * v / (1 + u**2) + ufl.exp(-(flow**2)) * v
    return interior * dS(degree=4) + boundary * ds(degree=4)


def make_space(cell, degree, family="DG"):
    domain = ufl.Mesh(basix.ufl.element("Lagrange", cell, 1, shape=(TENSOR_CELLS[cell],)))
    return ufl.FunctionSpace(domain, basix.ufl.element(family, cell, degree))


def assemble(form, mesh, least_share, **options):
    """Return the vectors that general and placed kernels assemble, and the positions of the latter."""
    compiled = formcompiler.compile_form(form, **{"vectorize": "cells", **options})
    dofmap = make_dofmap(form.arguments()[0].ufl_function_space().ufl_element(), mesh)
    values = np.random.default_rng(1).standard_normal(dofmap.n_dofs)
    placed = place_kernels(compiled.kernels, mesh, least_share)
    general, special = (
        Operator(kernels, mesh, arguments=[dofmap], coefficients=[dofmap]).vector(
            [values], np.full(len(values), np.nan)
        )
        for kernels in (compiled.kernels, placed)
    )
    return general, special, [kernel.positions for kernel in placed]


def assert_same(general, special):
    np.testing.assert_allclose(special, general, rtol=1e-11, atol=1e-12 * np.abs(general).max())


@pytest.mark.parametrize(
    ("cell", "make_form"), [("interval", penalty), ("interval", upwind), ("quadrilateral", upwind)]
)
def test_placed_kernels_agree_at_every_pair_of_positions(cell, make_form):
    mesh = all_pairs_mesh(cell)
    noise = 0.1 * np.random.default_rng(0).uniform(-1, 1, mesh.points.shape)
    mesh = replace(mesh, points=mesh.points + noise)
    general, special, positions = assemble(make_form(make_space(cell, 1)), mesh, 0)
    pairs = [p for p in positions if p is not None and len(p[0]) == 2]
    assert len(pairs) == {"interval": 4, "quadrilateral": 64}[cell] // (1 if cell == "interval" else 2)
    assert_same(general, special)


@pytest.mark.slow
def test_placed_penalty_kernels_agree_at_every_pair_of_positions():
    mesh = all_pairs_mesh("quadrilateral")
    noise = 0.1 * np.random.default_rng(0).uniform(-1, 1, mesh.points.shape)
    general, special, _ = assemble(
        penalty(make_space("quadrilateral", 2)), replace(mesh, points=mesh.points + noise), 0
    )
    assert_same(general, special)


@pytest.mark.parametrize("make_form", [penalty, pytest.param(upwind, marks=pytest.mark.slow)])
def test_placed_kernels_agree_on_turned_hexahedra(make_form):
    mesh = random_mesh("hexahedron", 2, seed=4)
    general, special, positions = assemble(make_form(make_space("hexahedron", 1)), mesh, 1 / 12)
    assert len(positions) > 12
    assert_same(general, special)


def test_placed_kernels_agree_for_continuous_functions_and_vectors():
    V = make_space("hexahedron", 2, "Lagrange")
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    n = ufl.FacetNormal(V.ufl_domain())
    form = dot(jump(grad(u), n), avg(v)) * dS(degree=3) + inner(grad(u), n) * v * ds(degree=3)
    mesh = box_mesh("hexahedron", [3, 2, 2], [0.0] * 3, [1.0, 2.0, 1.0])
    general, special, _ = assemble(form, mesh, 1 / 16)
    assert_same(general, special)


def test_placed_kernels_agree_on_mirrored_axis_parallel_cells():
    """Edges of mirrored cells are negative, and so are the determinants of an odd number of them."""
    mesh = box_mesh("quadrilateral", [4, 3], [0.0, 0.0], [1.0, 1.0])
    cells = mesh.cells.copy()
    cells[::3] = cells[::3][:, [1, 0, 3, 2]]
    cells[1::4] = cells[1::4][:, [2, 3, 0, 1]]
    mesh = make_mesh("quadrilateral", mesh.points, cells)
    assert classify(mesh.cell, mesh.points[mesh.cells]) == "axis_parallel"
    general, special, _ = assemble(penalty(make_space("quadrilateral", 2)), mesh, 0, geometry="axis_parallel")
    assert_same(general, special)


def test_a_box_needs_one_kernel_for_each_direction_and_each_side():
    mesh = box_mesh("hexahedron", [3, 3, 3], [0.0] * 3, [1.0] * 3)
    form = penalty(make_space("hexahedron", 1))
    compiled = formcompiler.compile_form(form, geometry="axis_parallel", vectorize="cells")
    placed = place_kernels(compiled.kernels, mesh)
    assert sorted(k.positions[0] for k in placed if k.integral_type == "interior_facet") == [
        ((3, 0), (2, 0)),
        ((4, 0), (1, 0)),
        ((5, 0), (0, 0)),
    ]
    assert [k.positions for k in placed if k.integral_type == "exterior_facet"] == [(((f, 0),),) for f in range(6)]


def test_rare_positions_are_left_to_the_general_kernel():
    mesh = random_mesh("quadrilateral", 4, seed=2)
    compiled = formcompiler.compile_form(penalty(make_space("quadrilateral", 1)))
    placed = [k for k in place_kernels(compiled.kernels, mesh, 1 / 8) if k.integral_type == "interior_facet"]
    assert any(len(kernel.positions) > 1 for kernel in placed)
    covered = [positions for kernel in placed for positions in kernel.positions]
    assert len(covered) == len(set(covered))


def test_kernels_of_cells_and_plain_loops_stay_as_they_are():
    mesh = box_mesh("quadrilateral", [2, 2], [0.0, 0.0], [1.0, 1.0])
    V = make_space("quadrilateral", 1)
    kernels = formcompiler.compile_form(penalty(V), sum_factorization="off").kernels
    assert place_kernels(kernels, mesh) == list(kernels)
