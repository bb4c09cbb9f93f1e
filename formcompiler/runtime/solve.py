"""Solvers: Newton's method with line search, and linear systems by scipy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse.linalg as spl  # type: ignore[import-untyped]

from formcompiler.errors import FormCompilerError, InvalidOptionError
from formcompiler.progress import stage
from formcompiler.runtime.mesh import FloatArray

LinearSolver = Literal["direct", "cg", "gmres"]
Matrix = Any
"""A scipy sparse matrix in compressed rows."""


class SolverError(FormCompilerError):
    """An equation could not be solved: singular, not converged, or not finite."""


@dataclass(frozen=True)
class SolverOptions:
    """How to solve.

    Attributes:
        linear_solver: "direct" (sparse LU), "cg" (symmetric positive definite) or "gmres" (any).
        relative_tolerance: Newton's method ends when the residual has fallen by this factor.
        absolute_tolerance: ... or below this norm.
        max_iterations: Newton steps.
        max_halvings: Halvings of one step in the line search.
    """

    linear_solver: LinearSolver = "direct"
    relative_tolerance: float = 1e-10
    absolute_tolerance: float = 1e-14
    max_iterations: int = 30
    max_halvings: int = 12

    def __post_init__(self) -> None:
        if self.linear_solver not in ("direct", "cg", "gmres"):
            raise InvalidOptionError(f"linear_solver={self.linear_solver!r}: choose one of 'direct', 'cg', 'gmres'")


@dataclass(frozen=True, eq=False)
class NewtonResult:
    """A solution, and the Euclidean norm of the residual before the first and after each step."""

    solution: FloatArray
    residual_norms: tuple[float, ...]

    @property
    def n_iterations(self) -> int:
        """Return the number of Newton steps."""
        return len(self.residual_norms) - 1


def solve_nonlinear(
    residual: Callable[[FloatArray], FloatArray],
    jacobian: Callable[[FloatArray], Matrix],
    start: FloatArray,
    *,
    fixed: npt.NDArray[np.integer] | None = None,
    options: SolverOptions | None = None,
    observe: Callable[[int, float], None] | None = None,
) -> NewtonResult:
    """Solve ``residual(x) = 0`` by Newton's method; a linear problem takes one step.

    Args:
        residual: Gives the residual, shape (n,).
        jacobian: Gives its derivative; rows and columns of fixed entries must be those of the identity.
        start: First guess with the fixed entries in place.
        fixed: Entries of x that keep their value; their residual does not count.
        options: How to solve.
        observe: Called with the number of steps done and the norm of the residual.

    Raises:
        SolverError: if a step does not reduce the residual, values are not finite, or the iterations do not suffice.
    """
    options = options or SolverOptions()
    held = np.zeros(0, dtype=np.int64) if fixed is None else fixed

    def evaluate(point: FloatArray) -> tuple[FloatArray, float]:
        value = residual(point)
        value[held] = 0.0
        return value, float(np.linalg.norm(value))

    x = start.copy()
    value, norm = evaluate(x)
    norms = [norm]
    if not np.isfinite(norm):
        raise SolverError("the residual at the initial guess is not finite; set Problem(initial=...) to a better one")
    tolerance = max(options.absolute_tolerance, options.relative_tolerance * norm)
    while norm > tolerance:
        if len(norms) > options.max_iterations:
            raise SolverError(
                f"Newton's method has not converged in {options.max_iterations} steps: the residual fell from "
                f"{norms[0]:.1e} to {norm:.1e}; set Problem(initial=...) to a better guess"
            )
        matrix = jacobian(x)
        step = solve_linear(matrix, -value, options.linear_solver)
        floor = _rounding_level(matrix, x + step)
        x, value, norm = _search_line(evaluate, x, step, norm=norm, floor=floor, n_halvings=options.max_halvings)
        norms.append(norm)
        tolerance = max(tolerance, _rounding_level(matrix, x))
        if observe is not None:
            observe(len(norms) - 1, norm)
    return NewtonResult(x, tuple(norms))


def _rounding_level(matrix: Matrix, x: FloatArray) -> float:
    """Return the norm of a residual that consists of rounding errors."""
    return float(8 * np.finfo(np.float64).eps * np.linalg.norm(abs(matrix) @ np.abs(x)))


def _search_line(
    evaluate: Callable[[FloatArray], tuple[FloatArray, float]],
    x: FloatArray,
    step: FloatArray,
    *,
    norm: float,
    floor: float,
    n_halvings: int,
) -> tuple[FloatArray, FloatArray, float]:
    """Return the first of x + step, x + step / 2, ... with a smaller residual, that residual, and its norm."""
    fraction = 1.0
    for _ in range(n_halvings + 1):
        trial = x + fraction * step
        value, trial_norm = evaluate(trial)
        if np.isfinite(trial_norm) and (trial_norm <= (1 - 1e-4 * fraction) * norm or trial_norm <= floor):
            return trial, value, trial_norm
        fraction /= 2
    raise SolverError(
        f"no step of Newton's method reduces the residual of norm {norm:.1e}; set Problem(initial=...) to a better "
        "guess, or check a jacobian that you gave yourself"
    )


@stage("linear solver")
def solve_linear(matrix: Matrix, right_hand_side: FloatArray, solver: LinearSolver = "direct") -> FloatArray:
    """Return the solution of a linear system with a sparse matrix.

    Raises:
        SolverError: if the matrix is singular, or an iteration does not converge.
    """
    if solver == "direct":
        return _solve_direct(matrix, right_hand_side)
    n = len(right_hand_side)
    if solver == "cg":
        inverse_diagonal = 1 / matrix.diagonal()
        preconditioner = spl.LinearOperator((n, n), lambda r: inverse_diagonal * r.ravel())
        x, status = spl.cg(matrix, right_hand_side, rtol=1e-12, maxiter=10 * n, M=preconditioner)
    else:
        factors = spl.spilu(matrix.tocsc(), drop_tol=1e-4, fill_factor=20)
        preconditioner = spl.LinearOperator((n, n), factors.solve)
        x, status = spl.gmres(matrix, right_hand_side, rtol=1e-12, maxiter=100, restart=100, M=preconditioner)
    if status != 0 or not np.isfinite(x).all():
        raise SolverError(f"{solver} has not converged for a system of {n} equations; try linear_solver='direct'")
    return np.asarray(x)


def _solve_direct(matrix: Matrix, right_hand_side: FloatArray) -> FloatArray:
    try:
        # Ordered for a symmetric pattern, which a Galerkin matrix has: half the entries, a third of the time of COLAMD.
        # Zeros on the diagonal, as in saddle point problems, need pivots elsewhere, for which COLAMD leaves room.
        ordering = "MMD_AT_PLUS_A" if matrix.diagonal().all() else "COLAMD"
        factors = spl.splu(matrix.tocsc(), permc_spec=ordering)
    except RuntimeError as error:
        raise _singular() from error
    # Rounding hides a zero pivot; a singular matrix still does not give a known solution back.
    known = np.random.default_rng(0).uniform(-1, 1, len(right_hand_side))
    recovered = factors.solve(matrix @ known)
    if not np.linalg.norm(recovered - known) < 1e-2 * np.linalg.norm(known):
        raise _singular()
    return np.asarray(factors.solve(right_hand_side))


def _singular() -> SolverError:
    return SolverError(
        "the Jacobian is singular: the solution is not unique. Is a boundary condition missing, or a condition that "
        "fixes a pressure or a mean value?"
    )
