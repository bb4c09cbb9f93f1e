"""Whole problems, compiled by this package: manufactured solutions must converge with the order of theory."""

import io

import basix.ufl
import numpy as np
import pytest
import ufl
from ffcx_kernels import compile_expression as ffcx_expression
from ffcx_kernels import compile_form as ffcx_form
from randomized import CELLS
from ufl import (
    SpatialCoordinate,
    as_vector,
    avg,
    cos,
    div,
    dot,
    dS,
    ds,
    dx,
    exp,
    grad,
    inner,
    jump,
    sin,
    sym,
)

from formcompiler.driver import compile_expression, compile_form
from formcompiler.elements.cells import dimension
from formcompiler.errors import UnsupportedFormError
from formcompiler.problem import Box, Dirichlet, Problem
from formcompiler.progress import record_stages
from formcompiler.runtime.run import run_problem
from formcompiler.runtime.solve import SolverError, SolverOptions
from formcompiler.runtime.terminal import Progress


def space(cell, degree, geometry=1, **options):
    domain = ufl.Mesh(basix.ufl.element("P", cell, geometry, shape=(dimension(cell),)))
    return ufl.FunctionSpace(domain, basix.ufl.element("P", cell, degree, **options))


def wave(x):
    result = sin(2 * x[0] + 0.3)
    for i in range(1, len(x)):
        result = result * cos(x[i] + 0.2)
    return result


def poisson(cell, degree, n, **options):
    V = space(cell, degree, **options)
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    exact = wave(SpatialCoordinate(V.ufl_domain()))
    residual = inner(grad(u), grad(v)) * dx + div(grad(exact)) * v * dx
    return Problem(residual, u, Dirichlet(exact), mesh=Box(n), exact=exact)


def run(problem, **options):
    return run_problem(problem, compile_form, compile_expression, **options)


def check_orders(result, degree, part=0):
    assert result.order(-1, part, "l2") == pytest.approx(degree + 1, abs=0.2)
    assert result.order(-1, part, "h1") == pytest.approx(degree, abs=0.2)


@pytest.mark.parametrize("cell", CELLS)
def test_quadratic_elements_solve_poissons_equation_to_third_order(cell):
    result = run(poisson(cell, 2, 2 if dimension(cell) == 3 else 4), refine=1)
    check_orders(result, 2)
    assert [row.n_iterations for row in result.rows] == [1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("degree", [1, 3, 4])
def test_every_degree_converges_with_its_order(cell, degree):
    check_orders(run(poisson(cell, degree, 2 if dimension(cell) == 3 else 4), refine=2), degree)


def test_kernels_of_ffcx_give_the_same_solution():
    problem = poisson("triangle", 3, 3)
    ours, theirs = run(problem), run_problem(problem, ffcx_form, ffcx_expression)
    np.testing.assert_allclose(ours.solution, theirs.solution, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.rows[0].errors[0].l2, theirs.rows[0].errors[0].l2, rtol=1e-7)


@pytest.mark.parametrize("cell", ["triangle", "quadrilateral"])
def test_geometry_of_second_degree_gives_the_solution_on_straight_cells(cell):
    straight, raised = (run(poisson(cell, 2, 3, geometry=g)) for g in (1, 2))
    assert raised.mesh.cells.shape[1] == {"triangle": 6, "quadrilateral": 9}[cell]
    np.testing.assert_allclose(raised.rows[0].errors[0].l2, straight.rows[0].errors[0].l2, rtol=1e-8)


def test_solution_in_the_space_is_found_exactly_with_all_kinds_of_conditions():
    """Tags, predicates, a Neumann part, a Robin part, a constant, a coefficient: u = 1 + 2x + 3y."""
    V = space("quadrilateral", 1)
    domain = V.ufl_domain()
    u, v, k = ufl.Coefficient(V), ufl.TestFunction(V), ufl.Coefficient(V)
    c, normal, x = ufl.Constant(domain), ufl.FacetNormal(domain), SpatialCoordinate(domain)
    exact = 1 + 2 * x[0] + 3 * x[1]
    flux = (1 + x[0]) * grad(exact)
    residual = inner(k * grad(u), grad(v)) * dx + div(flux) * v * dx - dot(flux, normal) * v * ds(3)
    residual += c * (u - exact) * v * ds(4) - dot(flux, normal) * v * ds(4)
    conditions = [Dirichlet(exact, where=1), Dirichlet(lambda x: 3 + 3 * x[1], where=lambda x: np.isclose(x[0], 1))]
    problem = Problem(residual, u, conditions, Box((3, 4)), exact, constants={c: 2.5}, coefficients={k: 1 + x[0]})
    for solver in ("direct", "gmres"):
        result = run(problem, solver=SolverOptions(linear_solver=solver))
        assert result.rows[0].errors[0].h1 < 1e-9


def test_one_integrand_on_all_and_on_tagged_facets_counts_twice_there():
    V = space("triangle", 1)
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    residual = u * v * ds + u * v * ds(2) - v * ds - 2 * v * ds(2) + inner(grad(u), grad(v)) * dx
    weighted = 2 * u * v * ds(2) + u * v * ds((1, 3, 4)) - v * ds - 2 * v * ds(2) + inner(grad(u), grad(v)) * dx
    np.testing.assert_allclose(run(Problem(residual, u)).solution, run(Problem(weighted, u)).solution, rtol=1e-10)


def test_nonlinear_equation_converges_quadratically_from_a_guess():
    V = space("triangle", 2)
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    x = SpatialCoordinate(V.ufl_domain())
    exact = wave(x)
    residual = inner((1 + u**2) * grad(u), grad(v)) * dx + exp(u) * v * dx
    residual += (div((1 + exact**2) * grad(exact)) - exp(exact)) * v * dx
    result = run(Problem(residual, u, Dirichlet(exact), Box(4), exact, initial=0.5), refine=1)
    check_orders(result, 2)
    assert 2 < result.rows[-1].n_iterations < 7


def test_interior_penalty_method_converges_on_discontinuous_spaces():
    V = space("triangle", 1, discontinuous=True)
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    domain = V.ufl_domain()
    n, h = ufl.FacetNormal(domain), ufl.CellDiameter(domain)
    exact = wave(SpatialCoordinate(domain))
    residual = inner(grad(u), grad(v)) * dx + div(grad(exact)) * v * dx
    residual -= (inner(avg(grad(u)), jump(v, n)) + inner(jump(u, n), avg(grad(v)))) * dS
    residual += 10 / avg(h) * inner(jump(u, n), jump(v, n)) * dS
    residual += (-dot(grad(u), n) * v - (u - exact) * dot(grad(v), n) + 10 / h * (u - exact) * v) * ds
    check_orders(run(Problem(residual, u, mesh=Box(8), exact=exact), refine=1), 1)


def test_taylor_hood_elements_solve_stokes_equations():
    domain = ufl.Mesh(basix.ufl.element("P", "triangle", 1, shape=(2,)))
    parts = [basix.ufl.element("P", "triangle", 2, shape=(2,)), basix.ufl.element("P", "triangle", 1)]
    W = ufl.FunctionSpace(domain, basix.ufl.mixed_element(parts))
    w = ufl.Coefficient(W)
    (u, p), (v, q) = ufl.split(w), ufl.TestFunctions(W)
    x, n = SpatialCoordinate(domain), ufl.FacetNormal(domain)
    velocity, pressure = as_vector([sin(x[1]), cos(x[0])]), sin(x[0] + x[1])
    stress = 2 * sym(grad(velocity)) - pressure * ufl.Identity(2)
    residual = inner(2 * sym(grad(u)), grad(v)) * dx - p * div(v) * dx - q * div(u) * dx
    residual += inner(div(stress), v) * dx - inner(dot(stress, n), v) * ds(2)
    conditions = [
        Dirichlet(velocity, where=(1, 3), component=0),
        Dirichlet(velocity[0], where=4, component=(0, 0)),
        Dirichlet(velocity[1], where=4, component=(0, 1)),
    ]
    result = run(Problem(residual, w, conditions, Box(4), exact=(velocity, pressure)), refine=1)
    check_orders(result, 2, part=0)
    assert result.order(-1, 1, "l2") > 1.8
    assert "L2(1)" in result.table


def test_vector_unknown_with_one_component_fixed_slides_along_the_wall():
    V = space("tetrahedron", 1, shape=(3,))
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    residual = inner(grad(u), grad(v)) * dx - inner(as_vector((1.0, 0.0, 1.0)), v) * ds(6)
    conditions = [Dirichlet((0.0, 0.0, 0.0), where=5), Dirichlet(0.0, where=6, component=0)]
    x = SpatialCoordinate(V.ufl_domain())
    problem = Problem(residual, u, conditions, Box(2), exact=as_vector((0 * x[0], 0 * x[0], x[2])))
    assert run(problem).rows[0].errors[0].h1 < 1e-12


def test_mesh_file_is_solved_on_and_refined(tmp_path):
    import meshio

    points = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0.4, 0.6, 0]], dtype=float)
    cells = [("triangle", np.array([[0, 1, 4], [1, 2, 4], [4, 2, 3], [3, 0, 4]])), ("line", np.array([[0, 1]]))]
    tags = [np.full(4, 7), np.array([9])]
    data = {"gmsh:physical": tags, "gmsh:geometrical": tags}
    meshio.write(tmp_path / "a.msh", meshio.Mesh(points, cells, cell_data=data), file_format="gmsh22", binary=False)
    V = space("triangle", 2)
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    exact = wave(SpatialCoordinate(V.ufl_domain()))
    n = ufl.FacetNormal(V.ufl_domain())
    residual = inner(grad(u), grad(v)) * dx(7) + div(grad(exact)) * v * dx(7) - dot(grad(exact), n) * v * ds
    residual += dot(grad(exact), n) * v * ds(9)
    problem = Problem(residual, u, Dirichlet(exact, where=9), tmp_path / "a.msh", exact)
    result = run(problem, refine=3)
    assert [row.n_cells for row in result.rows] == [4, 16, 64, 256]
    check_orders(result, 2)


def test_files_and_table_are_written(tmp_path):
    result = run(poisson("triangle", 2, 4), refine=1, output_dir=tmp_path / "new", name="temperature")
    assert [path.name for path in result.files] == ["temperature.vtu", "temperature.png"]
    assert all(path.stat().st_size > 1000 for path in result.files)
    lines = result.table.splitlines()
    assert lines[0].split() == ["h", "cells", "dofs", "steps", "seconds", "L2", "order", "H1", "order"]
    assert [line.split()[1] for line in lines[2:]] == ["32", "128"]
    assert float(lines[3].split()[6]) == pytest.approx(3, abs=0.2)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_what_is_being_done_and_keeps_none_of_it():
    terminal = Terminal()
    run(poisson("triangle", 1, 4), refine=1, progress=Progress(terminal))
    text = terminal.getvalue()
    for words in ("compiling", "32 cells, 25 dofs", "128 cells, 81 dofs", "linear system", "step 1"):
        assert words in text
    assert text.endswith("\r\x1b[K")


def test_times_of_the_parts_of_a_run_can_be_recorded():
    with record_stages() as times:
        run(poisson("triangle", 1, 4))
    assert {"compile", "mesh", "boundary values", "linear solver", "errors"} <= {names[0] for names in times.seconds}
    assert ("errors", "assemble numbers") in times.seconds


def test_curve_in_the_plane_and_surface_in_space_are_solved_on(tmp_path):
    """On a polygonal curve and a folded strip the arc length is the exact solution of u'' = 0."""
    import meshio

    points = np.array([[0, 0, 0], [3, 0, 0], [3, 4, 0], [0, 0, 1], [3, 0, 1], [3, 4, 1]], dtype=float)
    curve = meshio.Mesh(points[:3], [("line", np.array([[0, 1], [1, 2]])), ("vertex", np.array([[0], [2]]))])
    strip = meshio.Mesh(
        points, [("quad", np.array([[0, 1, 4, 3], [1, 2, 5, 4]])), ("line", np.array([[0, 3], [2, 5]]))]
    )
    for data, cell, gdim in ((curve, "interval", 2), (strip, "quadrilateral", 3)):
        tags = [np.array([1, 1]), np.array([2, 3])]
        data.cell_data = {"gmsh:physical": tags, "gmsh:geometrical": tags}
        meshio.write(tmp_path / "a.msh", data, file_format="gmsh22", binary=False)
        domain = ufl.Mesh(basix.ufl.element("P", cell, 1, shape=(gdim,)))
        V = ufl.FunctionSpace(domain, basix.ufl.element("P", cell, 1))
        u, v = ufl.Coefficient(V), ufl.TestFunction(V)
        x = SpatialCoordinate(domain)
        problem = Problem(
            inner(grad(u), grad(v)) * dx,
            u,
            [Dirichlet(0.0, where=2), Dirichlet(7.0, where=3)],
            tmp_path / "a.msh",
            exact=x[0] + x[1],
        )
        result = run(problem, refine=1, output_dir=tmp_path)
        assert max(row.errors[0].l2 for row in result.rows) < 1e-12


def test_mistakes_are_told_in_the_users_terms():
    V = space("triangle", 1)
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    residual = inner(grad(u), grad(v)) * dx - v * dx
    with pytest.raises(UnsupportedFormError, match=r"facet tags \[1, 2, 3, 4\]"):
        run(Problem(residual, u, Dirichlet(0, where=11)))
    with pytest.raises(UnsupportedFormError, match=r"np\.isclose"):
        run(Problem(residual, u, Dirichlet(0, where=lambda x: x[0] > 2)))
    with pytest.raises(UnsupportedFormError, match="booleans"):
        run(Problem(residual, u, Dirichlet(0, where=lambda x: x[5] > 2)))
    with pytest.raises(UnsupportedFormError, match="must return 1 x"):
        run(Problem(residual, u, Dirichlet(lambda x: x)))
    with pytest.raises(UnsupportedFormError, match="component"):
        run(Problem(residual, u, Dirichlet(0, component=1)))
    with pytest.raises(UnsupportedFormError, match="no value"):
        run(Problem(residual, u, Dirichlet(ufl.Constant(V.ufl_domain()))))
    with pytest.raises(UnsupportedFormError, match="no value"):
        run(Problem(residual, u, Dirichlet(u)))
    with pytest.raises(UnsupportedFormError, match="in 2D"):
        run(Problem(residual, u, mesh=Box((1, 2, 3))))
    with pytest.raises(SolverError, match="boundary condition missing"):
        run(Problem(residual, u))
    P = ufl.FunctionSpace(ufl.Mesh(basix.ufl.element("P", "prism", 1, shape=(3,))), basix.ufl.element("P", "prism", 1))
    p, q = ufl.Coefficient(P), ufl.TestFunction(P)
    with pytest.raises(UnsupportedFormError, match="the engine has no meshes of prism cells; use intervals"):
        run(Problem(p * q * dx, p))
    D = space("triangle", 1, discontinuous=True)
    w, z = ufl.Coefficient(D), ufl.TestFunction(D)
    with pytest.raises(UnsupportedFormError, match="Nitsche"):
        run(Problem(w * z * dx, w, Dirichlet(0)))
