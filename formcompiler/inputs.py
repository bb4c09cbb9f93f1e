"""What one kernel call is given: the user's data as checked arrays; every wrong shape is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from formcompiler.elements import cells
from formcompiler.errors import InvalidOptionError
from formcompiler.frontend.integrals import FormIntegral
from formcompiler.kernel.interface import n_facets
from formcompiler.options import REAL_TYPE, Options


@dataclass(frozen=True, eq=False)
class Inputs:
    """Checked arrays of one kernel call."""

    coefficients: list[npt.NDArray[Any]]
    constants: list[npt.NDArray[Any]]
    coordinates: npt.NDArray[Any]
    facets: npt.NDArray[np.int32]
    permutations: npt.NDArray[np.uint8]
    points: npt.NDArray[Any]
    weights: npt.NDArray[Any]

    def replicate(self, lanes: int) -> Inputs:
        """Return the inputs of a batch of equal cells."""
        return replace(
            self,
            coefficients=[np.repeat(w, lanes) for w in self.coefficients],
            coordinates=np.repeat(self.coordinates, lanes),
        )


class InputReader:
    """Turns the user's data into the arrays of a kernel; every wrong shape is named."""

    def __init__(self, coefficients: Sequence[Any], constants: Sequence[Any], options: Options) -> None:
        self._coefficients = coefficients
        self._constants = constants
        self._scalar = np.dtype(options.scalar_type)
        self._geometry = np.dtype(REAL_TYPE[options.scalar_type])
        self._kind = options.geometry

    def read(
        self,
        integral: FormIntegral,
        coordinates: Any,
        coefficients: Mapping[Any, Any] | None,
        constants: Mapping[Any, Any] | None,
        facet: Any,
        permutation: Any,
        rule: tuple[Any, Any] = (None, None),
    ) -> Inputs:
        """Return the inputs of one kernel."""
        sides = integral.n_sides
        n_nodes = integral.coordinate_element.dim // integral.gdim
        w = [
            self._values("coefficient", c.name, self._coefficients[c.position], coefficients, sides * c.element.dim)
            for c in integral.coefficients
        ]
        k = [
            self._values("constant", c.name, self._constants[c.position], constants, int(np.prod(c.shape)))
            for c in integral.constants
        ]
        count = n_facets(integral)
        nodes = _array("coordinates", coordinates, self._geometry, sides * n_nodes * integral.gdim)
        check_geometry(integral.cell, nodes.reshape(sides, n_nodes, integral.gdim), self._kind)
        return Inputs(
            w,
            k,
            nodes,
            _entities(integral, "local_facet", facet, count),
            _entities(integral, "facet_permutation", [0] * count if permutation is None else permutation, count),
            *self._points(integral, *rule),
        )

    def _points(self, integral: FormIntegral, points: Any, weights: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the points and weights of a kernel that gets them at run time."""
        if not integral.is_runtime:
            return np.zeros((0, 0), self._geometry), np.zeros(0, self._geometry)
        rule = integral.integrands[0].rule
        if points is None or weights is None:
            raise InvalidOptionError(
                f"the integral has quadrature_rule 'runtime': pass points, of shape (n, {rule.points.shape[1]}), in "
                f"reference coordinates of the {rule.cell}, and weights, of shape (n,)"
            )
        return runtime_rule(rule.cell, points, weights, self._geometry)

    def _values(self, kind: str, name: str, key: Any, data: Mapping[Any, Any] | None, size: int) -> npt.NDArray[Any]:
        if data is None or key not in data:
            raise InvalidOptionError(
                f"tabulate_tensor needs a value for the {kind} {key} ('{name}'): pass {kind}s={{...: values}}"
            )
        return _array(f"values of the {kind} {key} ('{name}')", data[key], self._scalar, size)


def runtime_rule(cell: str, points: Any, weights: Any, dtype: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return checked points, axes (point, direction), and weights, axes (point,), for a reference cell.

    Raises:
        InvalidOptionError: if their shapes do not fit the cell and one another.
    """
    where, shares = np.ascontiguousarray(points, dtype=dtype), np.ascontiguousarray(weights, dtype=dtype)
    dim = cells.dimension(cell)
    if where.ndim != 2 or where.shape[1] != dim or shares.shape != where.shape[:1]:
        raise InvalidOptionError(
            f"points on the reference {cell} must have shape (n, {dim}) and weights shape (n,); given are "
            f"{where.shape} and {shares.shape}"
        )
    if not (np.isfinite(where).all() and np.isfinite(shares).all()):
        raise InvalidOptionError("points and weights must be finite numbers")
    return where, shares


def _array(what: str, values: Any, dtype: Any, size: int) -> npt.NDArray[Any]:
    if size == 0:
        return np.zeros(2, dtype)
    array = np.ascontiguousarray(values, dtype=dtype).ravel()
    if array.size != size:
        raise InvalidOptionError(f"{what}: expected {size} numbers, got {array.size}")
    return array


def _entities(integral: FormIntegral, what: str, numbers: Any, count: int) -> npt.NDArray[Any]:
    """Return facet (or vertex) numbers or facet permutations that the kernel may use as indices."""
    dtype = np.dtype(np.uint8 if what == "facet_permutation" else np.int32)
    if count and numbers is None:
        raise InvalidOptionError(f"{what} is missing: the integral needs {count} (of each cell)")
    if count == 0:
        return np.zeros(2, dtype)
    array = _array(what, np.asarray(numbers, np.int64), np.dtype(np.int64), count)
    if integral.integral_type == "vertex":
        limit = len(cells.vertices(integral.cell))
    elif what == "local_facet":
        limit = len(cells.facet_cells(integral.cell))
    else:
        limit = max(map(cells.n_facet_permutations, cells.facet_cells(integral.cell)))
    if (array < 0).any() or (array >= limit).any():
        raise InvalidOptionError(f"{what}={array.tolist()}: on a {integral.cell} the numbers are 0 to {limit - 1}")
    return array.astype(dtype)


def check_geometry(cell: str, nodes: npt.NDArray[Any], geometry: str) -> None:
    """Check that cells, axes (cell, node, direction), are what the kernel was compiled for.

    Raises:
        InvalidOptionError: if they are not.
    """
    allowed = {"general": cells.GEOMETRIES, "affine": ("affine", "axis_parallel"), "axis_parallel": ("axis_parallel",)}
    if geometry != "general":
        found = cells.classify(cell, nodes)
        if found not in allowed[geometry]:
            raise InvalidOptionError(f"geometry={geometry}: the cell is not {geometry.replace('_', ' ')}")
