"""Which parameters the kernel of an integral has."""

from __future__ import annotations

import math

from formcompiler.elements import cells
from formcompiler.frontend.integrals import IN_CELLS, FormIntegral
from formcompiler.kernel.parameters import Parameter, kernel_parameters


def result_shape(integral: FormIntegral, part: str) -> tuple[int, ...]:
    """Return the shape of the element tensor; the dofs of both cells stand behind one another on interior facets."""
    shape = tuple(integral.n_sides * element.dim for element in integral.arguments)
    if integral.integral_type == "expression":
        return (integral.integrands[0].rule.n_points, integral.n_components, *shape)
    return shape[:1] if part == "diagonal" and len(shape) == 2 else shape


def n_facets(integral: FormIntegral) -> int:
    """Return how many facet (or vertex) numbers the kernel takes."""
    if integral.integral_type == "expression":
        points = integral.integrands[0].rule.points
        return int(points.shape[1] < cells.dimension(integral.cell))
    return {**dict.fromkeys(IN_CELLS, 0), "interior_facet": 2}.get(integral.integral_type, 1)


def integral_parameters(integral: FormIntegral, part: str = "full") -> tuple[Parameter, ...]:
    """Return the parameters of the kernel of an integral."""
    n_nodes = integral.coordinate_element.dim // integral.gdim
    sides = (2,) if integral.n_sides == 2 else ()
    return kernel_parameters(
        result_shape(integral, part),
        tuple((c.name, integral.n_sides * c.element.dim) for c in integral.coefficients),
        tuple((c.name, math.prod(c.shape)) for c in integral.constants),
        (*sides, n_nodes, integral.gdim),
        n_facets(integral),
        integral.integrands[0].rule.points.shape[1] if integral.is_runtime else None,
    )
