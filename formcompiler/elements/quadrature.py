"""Quadrature rules on reference cells, with their 1D factors where they are tensor products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import basix
import numpy as np

from formcompiler.elements.cells import (
    SIMPLICES,
    TENSOR_CELLS,
    FloatArray,
    cell_type,
    dimension,
    reference_volume,
    vertices,
)
from formcompiler.errors import UnsupportedFormError

SCHEMES = {
    "default": basix.QuadratureType.default,
    "gauss_jacobi": basix.QuadratureType.gauss_jacobi,
    "gll": basix.QuadratureType.gll,
    "xiao_gimbutas": basix.QuadratureType.xiao_gimbutas,
}

RUNTIME = "runtime"
"""Scheme of rules whose points and weights are given when a kernel is called."""

CURVED_MEASURE_DEGREE = 12
"""Degree of the rules that measure curved facets and surfaces, whose area elements are roots of polynomials."""


@dataclass(frozen=True, eq=False)
class QuadratureRule:
    """Points and weights on a reference cell.

    Attributes:
        cell: Reference cell (of the facet, for facet integrals).
        degree: Degree that is asked for, -1 for given points.
        scheme: Name of the rule; that of points which are known at run time only is `RUNTIME`.
        points: Reference coordinates, axes (point, direction); none if they are known at run time only.
        weights: One per point; they add up to the reference volume.
        factor: Points and weights of the 1D rule whose tensor power this is, first direction slowest; or None.
    """

    cell: str
    degree: int
    scheme: str
    points: FloatArray
    weights: FloatArray
    factor: tuple[FloatArray, FloatArray] | None = None

    @property
    def n_points(self) -> int:
        """Return the number of points; 0 if it is known at run time only."""
        return len(self.weights)

    @property
    def is_runtime(self) -> bool:
        """Tell whether points and weights are known at run time only."""
        return self.scheme == RUNTIME

    def key(self) -> tuple[Any, ...]:
        """Return what makes two rules equal."""
        return (self.cell, self.is_runtime, self.points.tobytes(), self.weights.tobytes())


def make_quadrature(cell: str, degree: int, scheme: str, polyset: Any = basix.PolysetType.standard) -> QuadratureRule:
    """Return the rule of a scheme that integrates polynomials of this degree exactly.

    Raises:
        UnsupportedFormError: for an unknown scheme, or one that does not exist for the cell and degree.
    """
    if cell == "vertex":
        return QuadratureRule(cell, degree, scheme, np.zeros((1, 0)), np.ones(1))
    if scheme == "vertex":
        corners = vertices(cell)
        weights = np.full(len(corners), reference_volume(cell) / len(corners))
        return QuadratureRule(cell, degree, scheme, corners, weights)
    kind = SCHEMES.get(scheme.lower().replace("-", "_"))
    if kind is None:
        raise UnsupportedFormError(
            f"quadrature_rule '{scheme}' is unknown; known are {', '.join([*SCHEMES, 'vertex', 'custom', RUNTIME])}"
        )
    if cell in TENSOR_CELLS and polyset == basix.PolysetType.standard:
        return _tensor_rule(cell, degree, scheme, *_basix_rule("interval", degree, kind, polyset))
    points, weights = _basix_rule(cell, degree, kind, polyset)
    return QuadratureRule(cell, degree, scheme, points, weights)


def make_custom_quadrature(cell: str, points: Any, weights: Any) -> QuadratureRule:
    """Return a rule of given points, axes (point, direction), and weights.

    Raises:
        UnsupportedFormError: if the shapes do not fit the cell and one another.
    """
    point_array, weight_array = np.asarray(points, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    dim = vertices(cell).shape[1] if cell != "vertex" else 0
    if point_array.ndim != 2 or point_array.shape[1] != dim or weight_array.shape != (len(point_array),):
        raise UnsupportedFormError(
            f"custom quadrature on the reference {cell} needs quadrature_points of shape (n, {dim}) and "
            f"quadrature_weights of shape (n,); given are {point_array.shape} and {weight_array.shape}"
        )
    if not (np.isfinite(point_array).all() and np.isfinite(weight_array).all()):
        raise UnsupportedFormError("quadrature_points and quadrature_weights must be finite numbers")
    return QuadratureRule(cell, -1, "custom", point_array, weight_array)


def make_runtime_quadrature(cell: str) -> QuadratureRule:
    """Return what stands for a rule whose points and weights are given at run time."""
    return QuadratureRule(cell, -1, RUNTIME, np.zeros((0, dimension(cell))), np.zeros(0))


def measure_degree(cell: str, degree: int, gdim: int) -> int:
    """Return the degree of a rule for the volume of cells whose geometry has a degree, in a space of dimension gdim.

    The rule is exact but for curved cells of lower dimension than the space.
    """
    if degree == 1 and cell in SIMPLICES:
        return 0
    polynomial = dimension(cell) * degree
    return polynomial if dimension(cell) == gdim else max(polynomial, CURVED_MEASURE_DEGREE)


def facet_measure_degree(facet_cell: str, degree: int) -> int:
    """Return the degree of a rule for the area of facets of cells whose geometry has a degree."""
    is_flat = facet_cell == "vertex" or (degree == 1 and facet_cell in SIMPLICES)
    return 0 if is_flat else max(dimension(facet_cell) * degree, CURVED_MEASURE_DEGREE)


def _basix_rule(cell: str, degree: int, kind: Any, polyset: Any) -> tuple[FloatArray, FloatArray]:
    try:
        points, weights = basix.make_quadrature(cell_type(cell), degree, kind, polyset)
    except RuntimeError as error:
        raise UnsupportedFormError(
            f"no quadrature rule '{kind.name}' of degree {degree} on a {cell}: {error}"
        ) from None
    return np.asarray(points, dtype=np.float64), np.asarray(weights, dtype=np.float64)


def _tensor_rule(cell: str, degree: int, scheme: str, points: FloatArray, weights: FloatArray) -> QuadratureRule:
    dim = TENSOR_CELLS[cell]
    grid = np.meshgrid(*[points[:, 0]] * dim, indexing="ij")
    all_points = np.stack([axis.ravel() for axis in grid], axis=1)
    all_weights = weights
    for _ in range(dim - 1):
        all_weights = np.multiply.outer(all_weights, weights)
    return QuadratureRule(cell, degree, scheme, all_points, all_weights.ravel(), (points[:, 0].copy(), weights))
