"""The parameters of a kernel: plain arrays, in one order for every kernel of every builder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from formcompiler.kernel.builder import KernelBuilder

Role = Literal["result", "coefficient", "constant", "coordinates", "facet", "facet_permutation"]


@dataclass(frozen=True)
class Parameter:
    """One array parameter.

    Attributes:
        name: Name in C++.
        role: What it holds.
        shape: Axes as documented by the kernel's comment.
    """

    name: str
    role: Role
    shape: tuple[int, ...]

    @property
    def differs_between_cells(self) -> bool:
        """Return whether the cells of a batch, which agree in facet numbers and permutations, have own values."""
        return self.role in ("result", "coefficient", "coordinates")


def kernel_parameters(
    result_shape: tuple[int, ...],
    coefficients: tuple[tuple[str, int], ...],
    constants: tuple[tuple[str, int], ...],
    coordinates_shape: tuple[int, ...],
    n_facets: int,
) -> tuple[Parameter, ...]:
    """Return the parameters: result, coefficients, constants, coordinates, and for facets their numbers.

    Args:
        result_shape: One axis per argument; both cells' dofs behind one another on interior facets.
        coefficients: Name and number of values of each.
        constants: Name and number of values of each.
        coordinates_shape: Axes (side,) node, direction.
        n_facets: 0 on cells, 1 on exterior facets (and for the vertex of a point integral), 2 on interior facets.
    """
    facets = [
        Parameter("facet", "facet", (n_facets,)),
        Parameter("facet_permutation", "facet_permutation", (n_facets,)),
    ]
    return (
        Parameter("A", "result", result_shape or (1,)),
        *(Parameter(name, "coefficient", (size,)) for name, size in coefficients),
        *(Parameter(name, "constant", (size,)) for name, size in constants),
        Parameter("coordinate_dofs", "coordinates", coordinates_shape),
        *(facets if n_facets else []),
    )


def declare_parameters(builder: KernelBuilder, parameters: tuple[Parameter, ...], geometry_type: str) -> None:
    """Add the parameters to a kernel under construction."""
    types = {"coordinates": geometry_type, "facet": "int32", "facet_permutation": "uint8"}
    for parameter in parameters:
        written = parameter.role == "result"
        builder.argument(parameter.name, parameter.shape, types.get(parameter.role), written=written)
