"""The parameters of a kernel: plain arrays, in one order for every kernel of every builder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from formcompiler.kernel.builder import KernelBuilder

Role = Literal[
    "result", "coefficient", "constant", "coordinates", "facet", "facet_permutation", "n_points", "points", "weights"
]
N_POINTS = "n_points"
"""Name of the parameter that holds the number of points, where these are given at run time."""


@dataclass(frozen=True)
class Parameter:
    """One parameter: an array, or the number of points.

    Attributes:
        name: Name in C++.
        role: What it holds.
        shape: Axes as documented by the kernel's comment; () for a number. An extent may be the name of a number.
    """

    name: str
    role: Role
    shape: tuple[int | str, ...]

    @property
    def differs_between_cells(self) -> bool:
        """Return whether the cells of a batch, which agree in facet numbers and permutations, have own values."""
        return self.role in ("result", "coefficient", "coordinates", "n_points", "points", "weights")


def kernel_parameters(
    result_shape: tuple[int, ...],
    coefficients: tuple[tuple[str, int], ...],
    constants: tuple[tuple[str, int], ...],
    coordinates_shape: tuple[int, ...],
    n_facets: int,
    point_dimension: int | None = None,
) -> tuple[Parameter, ...]:
    """Return the parameters: result, coefficients, constants, coordinates; numbers of facets; points and weights.

    Args:
        result_shape: One axis per argument; both cells' dofs behind one another on interior facets.
        coefficients: Name and number of values of each.
        constants: Name and number of values of each.
        coordinates_shape: Axes (side,) node, direction.
        n_facets: 0 on cells, 1 on exterior facets (and for the vertex of a point integral), 2 on interior facets.
        point_dimension: Number of reference coordinates of points that are given at run time, None if none are.
    """
    facets = [
        Parameter("facet", "facet", (n_facets,)),
        Parameter("facet_permutation", "facet_permutation", (n_facets,)),
    ]
    points = [
        Parameter(N_POINTS, "n_points", ()),
        Parameter("points", "points", (N_POINTS, point_dimension or 0)),
        Parameter("weights", "weights", (N_POINTS,)),
    ]
    return (
        Parameter("A", "result", result_shape or (1,)),
        *(Parameter(name, "coefficient", (size,)) for name, size in coefficients),
        *(Parameter(name, "constant", (size,)) for name, size in constants),
        Parameter("coordinate_dofs", "coordinates", coordinates_shape),
        *(facets if n_facets else []),
        *([] if point_dimension is None else points),
    )


def declare_parameters(builder: KernelBuilder, parameters: tuple[Parameter, ...], geometry_type: str) -> None:
    """Add the parameters to a kernel under construction."""
    types = {"facet": "int32", "facet_permutation": "uint8"}
    types |= dict.fromkeys(("coordinates", "points", "weights"), geometry_type)
    for parameter in parameters:
        if parameter.role == "n_points":
            builder.number(parameter.name)
            continue
        written = parameter.role == "result"
        builder.argument(parameter.name, parameter.shape, types.get(parameter.role), written=written)
