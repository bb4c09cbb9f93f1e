"""Which quadrature rule an integral uses: metadata, quadrature elements, the estimated degree and its limit."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from ufl.algorithms.analysis import extract_arguments, extract_coefficients

from formcompiler.elements import cells
from formcompiler.elements.modes import has_modes
from formcompiler.elements.quadrature import (
    RUNTIME,
    QuadratureRule,
    make_custom_quadrature,
    make_quadrature,
    make_runtime_quadrature,
)
from formcompiler.elements.tables import joint_polyset, quadrature_element_rule
from formcompiler.errors import UnsupportedFormError
from formcompiler.frontend.integrals import IN_CELLS

_log = logging.getLogger(__name__)
_MANY_POINTS = 1000


def select_rule(integral: Any, cell: str, facet_cell: str, limit: int | None) -> QuadratureRule:
    """Return the rule of one UFL integral on its reference entity, a facet of the given kind if it is over facets.

    Raises:
        UnsupportedFormError: if the metadata contradict one another or a quadrature element.
    """
    kind, metadata = integral.integral_type(), integral.metadata()
    entity = {**dict.fromkeys(IN_CELLS, cell), "vertex": "vertex"}.get(kind) or facet_cell
    scheme = metadata.get("quadrature_rule", metadata.get("scheme", "default"))
    if scheme == "canonical":
        scheme = "default"
    elements = _elements(integral)
    if scheme == "custom":
        rule = make_custom_quadrature(entity, *_custom_data(metadata))
        check_points(elements, rule.points, entity == cell)
        return rule
    if is_runtime(integral):
        return _runtime_rule(kind, entity, elements, metadata)
    given = metadata.get("quadrature_degree", metadata.get("degree", -1))
    degree = _degree(given, metadata, limit)
    own = [r for r in (quadrature_element_rule(e) for e in elements) if r is not None]
    if own and kind != "cell":
        raise UnsupportedFormError(
            f"a function of a quadrature element has values at points inside of the cells only: use it in dx, not in "
            f"an integral over {'vertices' if kind == 'vertex' else kind.replace('_', ' ') + 's'}"
        )
    if own:
        is_chosen = given not in (-1, None, "auto") or scheme != "default"
        return _rule_of_quadrature_element(own, entity, degree if is_chosen else None, scheme)
    if kind == "vertex":
        _check_point_evaluation(elements)
        return make_quadrature("vertex", 0, "default")
    rule = make_quadrature(entity, degree, scheme, joint_polyset(elements, entity))
    if rule.n_points >= _MANY_POINTS:
        _log.warning(
            "%s integral: degree %d needs %d points; set max_quadrature_degree or dx(degree=...) if that is too many",
            kind,
            degree,
            rule.n_points,
        )
    return rule


def check_points(elements: list[Any], points: Any, in_cells: bool) -> None:
    """Check that functions of quadrature elements have values at given points, axes (point, direction), of a cell.

    Raises:
        UnsupportedFormError: if they have not.
    """
    for own, _ in (r for r in map(quadrature_element_rule, elements) if r is not None):
        if not in_cells or own.shape != points.shape or not np.allclose(own, points):
            raise UnsupportedFormError(
                "a function of a quadrature element has values at points of its own only, and here it is evaluated at "
                "others: give the same points, or write the function in another element"
            )


def expression_rule(cell: str, points: Any, elements: list[Any]) -> QuadratureRule:
    """Return given points, axes (point, direction), on the cell or on its reference facet, with unit weights.

    Raises:
        UnsupportedFormError: if the points have neither the dimension of the cell nor that of its facets, or a function
            has no values there.
    """
    array = np.asarray(points, dtype=np.float64)
    tdim = cells.dimension(cell)
    if array.ndim != 2 or array.shape[1] not in (tdim, tdim - 1) or len(array) == 0:
        raise UnsupportedFormError(
            f"points of an expression on a {cell} must have shape (n, {tdim}) or, on facets, (n, {tdim - 1}); "
            f"given is {array.shape}"
        )
    if not np.isfinite(array).all():
        raise UnsupportedFormError("points of an expression must be finite numbers")
    check_points(elements, array, array.shape[1] == tdim)
    if array.shape[1] == tdim:
        return QuadratureRule(cell, -1, "points", array, np.ones(len(array)))
    (entity, *others) = facet_kinds(cell)
    if others:
        raise UnsupportedFormError(
            f"the facets of a {cell} are of several kinds: points on them have no meaning for all"
        )
    return QuadratureRule(entity, -1, "points", array, np.ones(len(array)))


def facet_kinds(cell: str) -> tuple[str, ...]:
    """Return the different cells that the facets of a cell are, in order of first appearance."""
    return tuple(dict.fromkeys(cells.facet_cells(cell)))


def _custom_data(metadata: Any) -> tuple[Any, Any]:
    try:
        return metadata["quadrature_points"], metadata["quadrature_weights"]
    except KeyError as missing:
        raise UnsupportedFormError(
            f"quadrature_rule 'custom' needs metadata quadrature_points and quadrature_weights; {missing} is missing"
        ) from None


def is_runtime(integral: Any) -> bool:
    """Tell whether an integral gets its points and weights at run time."""
    scheme = integral.metadata().get("quadrature_rule", integral.metadata().get("scheme"))
    return bool(scheme == RUNTIME) or integral.integral_type() in ("cutcell", "interface")


def _runtime_rule(kind: str, entity: str, elements: list[Any], metadata: Any) -> QuadratureRule:
    if entity == "vertex":
        where = "vertices (dP)" if kind == "vertex" else "facets or cells that are points"
        raise UnsupportedFormError(f"quadrature_rule '{RUNTIME}' has no meaning over {where}: leave it out there")
    if not has_modes(entity):
        raise UnsupportedFormError(
            f"quadrature_rule '{RUNTIME}' is not available on a {entity}, whose basis functions are no polynomials: "
            "use points that are known when the form is compiled (quadrature_rule 'custom'), or other cells"
        )
    if any(name in metadata for name in ("quadrature_points", "quadrature_weights")):
        raise UnsupportedFormError(
            f"quadrature_rule '{RUNTIME}' takes points and weights when the kernel is called: leave out the metadata "
            "quadrature_points and quadrature_weights, or choose quadrature_rule 'custom'"
        )
    if any(quadrature_element_rule(element) is not None for element in elements):
        raise UnsupportedFormError(
            "a function of a quadrature element has values at points of its own only: use it in an integral without "
            f"quadrature_rule '{RUNTIME}', or write the function in another element"
        )
    return make_runtime_quadrature(entity)


def _degree(given: Any, metadata: Any, limit: int | None) -> int:
    if given in (-1, None, "auto"):
        given = metadata["estimated_polynomial_degree"]
        given = max(given) if isinstance(given, tuple) else given
        caps = [c for c in (limit, metadata.get("max_quadrature_degree")) if c is not None]
        return min([int(given), *map(int, caps)])
    try:
        degree = int(given)
    except (TypeError, ValueError):
        degree = -1
    if degree < 0 or degree != given:
        raise UnsupportedFormError(f"quadrature_degree={given!r}: give an integer of at least 0, or 'auto'")
    return degree


def _elements(integral: Any) -> list[Any]:
    functions = [*extract_arguments(integral.integrand()), *extract_coefficients(integral.integrand())]
    return [f.ufl_function_space().ufl_element() for f in functions]


def _check_point_evaluation(elements: list[Any]) -> None:
    for element in elements:
        if element.discontinuous or not element.pullback.is_identity:
            raise UnsupportedFormError(
                f"point integrals (dP) need continuous functions; {element} has no single value at a vertex"
            )


def _rule_of_quadrature_element(rules: list[Any], entity: str, degree: int | None, scheme: str) -> QuadratureRule:
    points, weights = rules[0]
    same = all(len(p) == len(points) and np.allclose(p, points) for p, _ in rules)
    if degree is not None and same:
        wanted = make_quadrature(entity, degree, scheme)
        same = wanted.points.shape == points.shape and np.allclose(wanted.points, points)
    if not same:
        raise UnsupportedFormError(
            "a quadrature element fixes the points of its integral, but another quadrature element or the integral's "
            "own quadrature_degree or quadrature_rule asks for other points; give all the same degree and rule"
        )
    return make_custom_quadrature(entity, points, weights)
