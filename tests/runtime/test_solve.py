import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spl

from formcompiler.errors import FormCompilerError, InvalidOptionError
from formcompiler.runtime.solve import SolverError, SolverOptions, solve_linear, solve_nonlinear


def laplacian(n):
    return sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(n, n), format="csr")


def test_linear_problem_takes_one_step_and_gives_the_dense_solution():
    matrix, b = laplacian(50), np.sin(np.arange(50))
    result = solve_nonlinear(lambda x: matrix @ x - b, lambda x: matrix, np.ones(50))
    assert result.n_iterations == 1
    np.testing.assert_allclose(result.solution, np.linalg.solve(matrix.toarray(), b), rtol=1e-10)


def test_the_solution_as_guess_takes_no_step_or_one():
    matrix, b = laplacian(50), np.sin(np.arange(50))
    exact = np.linalg.solve(matrix.toarray(), b)
    assert solve_nonlinear(lambda x: matrix @ x - b, lambda x: matrix, exact).n_iterations <= 1


@pytest.mark.parametrize("solver", ["direct", "cg", "gmres"])
def test_linear_solvers_agree_with_dense_elimination(solver):
    matrix, b = laplacian(80) + sp.identity(80, format="csr"), np.cos(np.arange(80))
    np.testing.assert_allclose(solve_linear(matrix, b, solver), np.linalg.solve(matrix.toarray(), b), rtol=1e-9)


def test_direct_and_gmres_solve_nonsymmetric_systems():
    matrix = laplacian(60) + sp.diags([0.7], [1], shape=(60, 60), format="csr")
    b = np.ones(60)
    exact = np.linalg.solve(matrix.toarray(), b)
    for solver in ("direct", "gmres"):
        np.testing.assert_allclose(solve_linear(matrix, b, solver), exact, rtol=1e-8)


def test_saddle_point_systems_are_factorized_without_much_fill(monkeypatch):
    """Stokes' equations by finite differences, two velocities and a pressure on a grid of 30 by 30 cells."""
    n = 30
    one, step = sp.identity(n), sp.diags([-1.0, 1.0], [0, 1], shape=(n, n))
    stiffness = sp.kron(laplacian(n), one) + sp.kron(one, laplacian(n))
    gradient = sp.vstack([sp.kron(step, one), sp.kron(one, step)])
    matrix = sp.bmat([[sp.block_diag([stiffness, stiffness]), gradient], [gradient.T, None]], format="csr")
    exact = np.sin(np.arange(3 * n**2))
    factorize, entries = spl.splu, []

    def count(*arguments, **options):
        factors = factorize(*arguments, **options)
        entries.append(factors.L.nnz + factors.U.nnz)
        return factors

    monkeypatch.setattr(spl, "splu", count)
    np.testing.assert_allclose(solve_linear(matrix, matrix @ exact), exact, atol=1e-9)
    assert entries[0] < 30 * matrix.nnz


def test_newton_converges_quadratically():
    result = solve_nonlinear(
        lambda x: np.exp(x) - np.array([2.0, 3.0]), lambda x: sp.csr_matrix(np.diag(np.exp(x))), np.array([1.0, 1.0])
    )
    np.testing.assert_allclose(result.solution, np.log([2.0, 3.0]), rtol=1e-12)
    norms = result.residual_norms
    assert norms[-1] < 3 * norms[-2] ** 2 + 1e-14
    assert norms[-2] < 3 * norms[-3] ** 2


def test_line_search_rescues_newton_where_full_steps_diverge():
    """The arcus tangens: full steps from 3 overshoot further and further."""
    result = solve_nonlinear(np.arctan, lambda x: sp.csr_matrix(np.diag(1 / (1 + x**2))), np.array([3.0]))
    np.testing.assert_allclose(result.solution, 0, atol=1e-9)
    assert (np.diff(result.residual_norms) < 0).all()


def test_fixed_entries_keep_their_values():
    matrix = laplacian(20)
    fixed = np.array([0, 19])
    constrained = matrix.tolil()
    constrained[fixed, :] = 0
    constrained[:, fixed] = 0
    constrained[fixed, fixed] = 1
    start = np.zeros(20)
    start[19] = 1.0
    result = solve_nonlinear(lambda x: matrix @ x, lambda x: constrained.tocsr(), start, fixed=fixed)
    np.testing.assert_allclose(result.solution, np.linspace(0, 1, 20), atol=1e-13)


def test_steps_are_observed():
    seen = []
    solve_nonlinear(
        lambda x: x**2 - 4, lambda x: sp.csr_matrix(np.diag(2 * x)), np.array([3.0]), observe=lambda *a: seen.append(a)
    )
    assert [step for step, _ in seen] == list(range(1, len(seen) + 1))
    assert seen[-1][1] < 1e-8


@pytest.mark.parametrize("compatible", [True, False])
def test_a_matrix_that_rounding_makes_regular_counts_as_singular(compatible):
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.uniform(-1, 1, (30, 30)))[0]
    singular = sp.csr_matrix(turn @ np.diag([*range(1, 30), 0]) @ turn.T)
    b = singular @ np.ones(30) if compatible else np.ones(30)
    with pytest.raises(SolverError, match="singular"):
        solve_linear(singular, b)


def test_an_ill_conditioned_matrix_is_not_called_singular():
    matrix = laplacian(400) + sp.diags([np.where(np.arange(400) < 200, 1e6, 0)], [0], format="csr")
    solution = solve_linear(matrix, matrix @ np.ones(400))
    np.testing.assert_allclose(solution, 1, rtol=1e-9)


def test_failures_name_their_cause():
    singular = sp.csr_matrix(np.array([[1.0, -1.0], [-1.0, 1.0]]))
    with pytest.raises(SolverError, match="boundary condition missing"):
        solve_linear(singular, np.array([1.0, 0.0]))
    with pytest.raises(SolverError, match="not converged in 3 steps"):
        solve_nonlinear(
            lambda x: x**2,
            lambda x: sp.csr_matrix(np.diag(2 * x)),
            np.array([1.0]),
            options=SolverOptions(max_iterations=3),
        )
    with pytest.raises(SolverError, match="no step"):
        solve_nonlinear(lambda x: x**2 + 1, lambda x: sp.csr_matrix(np.diag(-2 * x)), np.array([1.0]))
    stretched = sp.diags(np.logspace(-16, 0, 30)).tocsr() + sp.csr_matrix(np.full((30, 30), 1.0))
    with pytest.raises(SolverError, match=r"cg has not converged for a system of 30 equations; try linear_solver='dir"):
        solve_linear(stretched, np.arange(30.0), "cg")
    with pytest.raises(SolverError, match="not finite; set Problem"):
        solve_nonlinear(lambda x: x * np.nan, lambda x: sp.identity(1, format="csr"), np.array([1.0]))
    with pytest.raises(InvalidOptionError, match="'direct', 'cg', 'gmres'"):
        SolverOptions(linear_solver="magic")
    assert issubclass(SolverError, FormCompilerError)
