"""Orthogonal polynomials on reference cells by their recurrences, and other functions as combinations of them.

A kernel that learns its points at run time cannot have tables of basis functions at them. It evaluates the modes of a
`ModalBasis`, by straight-line code of a few products for each, and multiplies them with the coefficients that
`expand` finds at compile time. Derivatives of polynomials are polynomials: they have coefficients of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import basix
import numpy as np

from formcompiler.elements.cells import FloatArray, cell_type, dimension
from formcompiler.elements.quadrature import make_quadrature

_FACTORS = {
    "vertex": (),
    "interval": (1,),
    "quadrilateral": (1, 1),
    "hexahedron": (1, 1, 1),
    "triangle": (2,),
    "tetrahedron": (3,),
    "prism": (2, 1),
}
"""Dimensions of the simplices whose product a cell is. Pyramids are none, and their functions are no polynomials."""

_NOISE = 1e-14
_TOLERANCE = 1e-11
_N_CHECKS = 17


@dataclass(frozen=True)
class ModalBasis:
    """Orthogonal polynomials on a cell: products of Dubiner polynomials on simplices (Legendre on intervals).

    Recurrences as in R. C. Kirby, "Singularity-free evaluation of collapsed-coordinate orthogonal polynomials", ACM
    Trans. Math. Softw. 37 (2010): no divisions, so that they hold at every point, also outside of the cell.

    Attributes:
        cell: Name of the reference cell.
        degree: Total degree on each simplex that is a factor of the cell. Modes of lower degrees come first, the
            constant 1 is the first of all.
    """

    cell: str
    degree: int

    @property
    def indices(self) -> tuple[tuple[int, ...], ...]:
        """Return the multi-index of each mode: its degree in each direction."""
        return _indices(self.cell, self.degree)

    def size(self, degree: int) -> int:
        """Return how many modes have at most this degree."""
        return len(_indices(self.cell, degree))

    def evaluate(self, x: Sequence[Any], keep: Callable[[str, Any], Any]) -> list[Any]:
        """Return the values of all modes.

        Args:
            x: One reference coordinate for each direction: arrays over points, or symbols.
            keep: Called with a name and each intermediate value in order, returns what stands for it later; modes
                are called "mode".
        """
        frames = _frames(self.cell, x, keep) if self.degree else []
        modes: dict[tuple[int, ...], Any] = {}
        for index in self.indices:
            modes[index] = keep("mode", _mode(index, _FACTORS[self.cell], frames, modes))
        return list(modes.values())

    def tabulate(self, points: FloatArray) -> FloatArray:
        """Return the modes at points, axes (point, direction), with axes (point, mode)."""
        values = self.evaluate(list(points.T), lambda _, value: value)
        return np.stack([np.broadcast_to(value, len(points)) for value in values], axis=1).astype(np.float64)


def has_modes(cell: str) -> bool:
    """Tell whether there are modal bases on a cell."""
    return cell in _FACTORS


def expand(cell: str, degree: int, evaluate: Callable[[FloatArray], FloatArray]) -> FloatArray | None:
    """Return the coefficients of functions on a cell, axes (mode, function); None if they are no such polynomials.

    They are orthogonal projections by a quadrature rule that is exact for them, checked at other points.

    Args:
        cell: Reference cell.
        degree: Degree that suffices; only as many modes are returned as the functions need.
        evaluate: Returns values of the functions, axes (point, function), at points, axes (point, direction).
    """
    modes = ModalBasis(cell, degree)
    rule = make_quadrature(cell, 2 * degree, "gauss_jacobi")
    table = modes.tabulate(rule.points)
    norms = rule.weights @ table**2
    coefficients = (table * rule.weights[:, None]).T @ evaluate(rule.points) / norms[:, None]
    checks = _check_points(cell)
    wanted = evaluate(checks)
    scale = max(1.0, float(np.abs(wanted).max(initial=0.0)), float(np.abs(coefficients).max(initial=0.0)))
    if not np.abs(modes.tabulate(checks) @ coefficients - wanted).max(initial=0.0) <= _TOLERANCE * scale:
        return None
    coefficients[np.abs(coefficients) <= _NOISE * scale] = 0.0
    needed = next((n for n in range(degree) if not coefficients[modes.size(n) :].any()), degree)
    return np.asarray(coefficients[: modes.size(needed)])


@lru_cache(maxsize=256)
def _indices(cell: str, degree: int) -> tuple[tuple[int, ...], ...]:
    """Return multi-indices by growing degree; each comes after those that its recurrence needs."""
    factors = _FACTORS[cell]
    simplices = [_simplex_indices(dim, degree) for dim in factors]
    found = [tuple(itertools.chain(*parts)) for parts in itertools.product(*simplices)]
    return tuple(sorted(found, key=lambda index: (max(_degrees(index, factors), default=0), index[::-1])))


def _simplex_indices(dim: int, degree: int) -> list[tuple[int, ...]]:
    return [i for i in itertools.product(range(degree + 1), repeat=dim) if sum(i) <= degree]


def _degrees(index: tuple[int, ...], factors: tuple[int, ...]) -> list[int]:
    """Return the total degree on each simplex."""
    ends = list(itertools.accumulate(factors))
    return [sum(index[end - dim : end]) for dim, end in zip(factors, ends, strict=True)]


def _frames(cell: str, x: Sequence[Any], keep: Callable[[str, Any], Any]) -> list[tuple[Any, Any, Any]]:
    """Return for each direction its centred coordinate, the width of the simplex there, and the width squared.

    In direction d of a simplex they are 2 x_d - w_d and w_d = 1 - sum of x_e over the later directions e of it.
    """
    frames: list[tuple[Any, Any, Any]] = []
    start = 0
    for dim in _FACTORS[cell]:
        for d in range(start, start + dim):
            width: Any = 1.0
            for e in range(d + 1, start + dim):
                width = width + -1.0 * x[e]
            is_full = d + 1 == start + dim
            width = width if is_full else keep("width", width)
            square = 1.0 if is_full else keep("width_squared", width * width)
            frames.append((keep("centred", 2.0 * x[d] + -1.0 * width), width, square))
        start += dim
    return frames


def _mode(index: tuple[int, ...], factors: tuple[int, ...], frames: Sequence[Any], modes: dict[Any, Any]) -> Any:
    """Return a mode by those before it: a product of modes of factors, or the next one of a recurrence."""
    nonzero = [d for d, n in enumerate(index) if n]
    if not nonzero:
        return 1.0
    last = nonzero[-1]
    start = next(end - dim for dim, end in zip(factors, itertools.accumulate(factors), strict=True) if last < end)
    if any(index[:start]):
        return modes[(*index[:start], *(0,) * (len(index) - start))] * modes[((0,) * start + index[start:])]
    centred, width, square = frames[last]
    a, b, c = _recurrence(index[last] - 1, 2 * sum(index[start:last]) + last - start)
    slope: Any = a * centred if b == 0 else a * centred + b * width
    value = slope * modes[_lower(index, last, 1)]
    return value if c == 0 else value + (-c * square) * modes[_lower(index, last, 2)]


def _lower(index: tuple[int, ...], direction: int, by: int) -> tuple[int, ...]:
    return tuple(n - by * (d == direction) for d, n in enumerate(index))


def _recurrence(n: int, alpha: int) -> tuple[float, float, float]:
    """Return a, b, c with P_(n+1) = (a t + b) P_n - c P_(n-1) for the Jacobi polynomials of weight (1 - t)^alpha."""
    divisor = 2 * (n + 1) * (n + 1 + alpha)
    total = 2 * n + alpha
    a = (total + 1) * (total + 2) / divisor
    b = alpha**2 * (total + 1) / (divisor * total) if alpha else 0.0
    c = 2 * n * (n + alpha) * (total + 2) / (divisor * total) if n else 0.0
    return a, b, c


def _check_points(cell: str) -> FloatArray:
    """Return points inside of a cell that belong to no rule."""
    dim = dimension(cell)
    if dim == 0:
        return np.zeros((1, 0))
    corners = np.asarray(basix.geometry(cell_type(cell)), dtype=np.float64)
    shares = np.random.default_rng(1).dirichlet(np.ones(len(corners)), size=_N_CHECKS)
    return np.asarray(shares @ corners)
