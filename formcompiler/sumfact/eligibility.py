"""Which integrals can be sum-factorized, and why the others cannot."""

from __future__ import annotations

from typing import Any

from formcompiler.elements.cells import TENSOR_CELLS
from formcompiler.elements.tables import component_layout, tensor_factor
from formcompiler.frontend.integrals import FormIntegral, Integrand
from formcompiler.terminals import Terminal

_TYPES = ("cell", "exterior_facet", "interior_facet")
_UNFACTORIZED = {
    "reference_coordinate": "CellCoordinate has no sum-factorized form here",
    "facet_coordinate": "FacetCoordinate has no sum-factorized form here",
}


def find_obstacle(integral: FormIntegral, part: str) -> str | None:
    """Return why an integral cannot be sum-factorized, None if it can."""
    if integral.cell not in TENSOR_CELLS:
        return f"a {integral.cell} is no product of intervals"
    if integral.integral_type not in _TYPES:
        return f"{integral.integral_type} integrals have a single point or arbitrary points"
    if part == "diagonal":
        return "the diagonal part is computed by plain loops"
    if integral.averages:
        return "averages over whole cells or facets, and measures of curved ones, are computed by plain loops"
    if not integral.integrands:
        return "it vanishes"
    obstacle = _element_obstacle("the geometry", integral.coordinate_element, 0, integral.cell)
    if obstacle is not None:
        return obstacle
    found = (_integrand_obstacle(integral, integrand) for integrand in integral.integrands)
    return next((o for o in found if o is not None), None)


def find_obstacle_to_halves(integral: FormIntegral, scalar_type: str) -> str | None:
    """Return why the lanes of a sum-factorized kernel cannot be halves of all directions, None if they can."""
    if integral.integral_type != "cell":
        return "facets are seen from several sides, and halves only from one"
    if len(integral.arguments) != 1:
        return "only vectors have halves of lines: a matrix has pairs of functions, and a number nothing to add up"
    if scalar_type.startswith("complex"):
        return "complex numbers have no vector type"
    return None


def _integrand_obstacle(integral: FormIntegral, integrand: Integrand) -> str | None:
    rule = integrand.rule
    if rule.is_runtime:
        return "its points are given at run time, anywhere: they are no grid of points on lines"
    if rule.factor is None and rule.cell != "vertex":
        return f"its quadrature rule '{rule.scheme}' is no product of 1D rules"
    terminals = [*integrand.terminals.values(), *(a for term in integrand.terms for a in term.arguments)]
    found = (_terminal_obstacle(integral, terminal) for terminal in terminals)
    return next((o for o in found if o is not None), None)


def _terminal_obstacle(integral: FormIntegral, terminal: Terminal) -> str | None:
    if terminal.kind == "argument":
        name = ("the test function", "the trial function")[terminal.index]
        return _element_obstacle(name, integral.arguments[terminal.index], terminal.component, integral.cell)
    if terminal.kind == "coefficient":
        coefficient = next(c for c in integral.coefficients if c.position == terminal.index)
        name = f"the coefficient {coefficient.name}"
        return _element_obstacle(name, coefficient.element, terminal.component, integral.cell)
    return _UNFACTORIZED.get(terminal.kind)


def _element_obstacle(owner: str, element: Any, component: int, cell: str) -> str | None:
    scalar, _, _ = component_layout(element, component)
    if scalar.cell_type.name != cell:
        return f"{owner} lives on the mesh of the facets"
    if tensor_factor(scalar) is None:
        return f"{owner} has an element without 1D factors: {scalar}"
    return None
