"""Which quadrature rule an integral gets: from its metadata, its quadrature elements, or UFL's degree estimate."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import ufl
import ufl.algorithms

from formcompiler.elements.quadrature import RUNTIME, QuadratureRule, make_custom_quadrature, make_quadrature
from formcompiler.errors import UnsupportedFormError
from formcompiler.frontend.preparation import replace_powers

_algorithms: Any = ufl.algorithms  # without annotations


def arguments_of(expression: Any) -> list[Any]:
    """Return the arguments of an expression by their numbers."""
    return sorted(_algorithms.extract_arguments(expression), key=lambda argument: argument.number())


def coefficients_of(expression: Any) -> list[Any]:
    """Return the coefficients of an expression in UFL's order."""
    return list(_algorithms.extract_coefficients(expression))


def estimated_degree(expression: Any, is_complex: bool = True) -> int:
    """Return UFL's estimate of the polynomial degree of an expression, derivatives carried out.

    It is that of the expression which the compiler lowers: general powers of complex numbers are exponentials there.
    """
    if is_complex:
        expression = replace_powers(expression)
    lowered = _algorithms.apply_algebra_lowering.apply_algebra_lowering(expression)
    if not is_complex:
        lowered = _algorithms.remove_complex_nodes.remove_complex_nodes(lowered)
    expanded = _algorithms.apply_derivatives.apply_derivatives(lowered)
    degree = _algorithms.estimate_total_polynomial_degree(expanded)
    return max(degree) if isinstance(degree, tuple) else int(degree)


def group_by_metadata(integrals: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Return one representative integral and the summed integrand for each set of equal metadata."""
    groups: list[tuple[Any, list[Any]]] = []
    for integral in integrals:
        for first, members in groups:
            if _same_rule(first.metadata(), integral.metadata()) and first.ufl_domain() == integral.ufl_domain():
                members.append(integral.integrand())
                break
        else:
            groups.append((integral, [integral.integrand()]))
    return [(first, sum(members[1:], members[0])) for first, members in groups]


def _same_rule(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return repr(sorted(a.items())) == repr(sorted(b.items()))


def integral_rule(
    integral: Any, integrand: Any, cell: str, limit: int | None, is_complex: bool, given: tuple[Any, Any] | None = None
) -> QuadratureRule:
    """Return the rule for an integrand on a reference cell (of the facet, for facet integrals).

    Args:
        integral: Integral that gives metadata, domain and type.
        integrand: Sum of all integrands with the same metadata.
        cell: Name of the reference cell of the rule.
        limit: Upper limit for estimated degrees.
        is_complex: Whether the form is complex valued.
        given: Points and weights of integrals that get them at run time.

    Raises:
        UnsupportedFormError: for quadrature elements with different points, and what `make_quadrature` refuses.
    """
    metadata = integral.metadata()
    scheme = metadata.get("quadrature_rule") or "default"
    if scheme == RUNTIME or integral.integral_type() in ("cutcell", "interface"):
        if given is None:
            raise UnsupportedFormError(f"quadrature_rule '{RUNTIME}' needs points and weights")
        return make_custom_quadrature(cell, *given)
    if scheme == "custom":
        return make_custom_quadrature(cell, metadata["quadrature_points"], metadata["quadrature_weights"])
    elements = [f.ufl_element() for f in (*arguments_of(integrand), *coefficients_of(integrand))]
    if integral.integral_type() == "cell":
        rules = [element.custom_quadrature() for element in _leaves(elements) if element.has_custom_quadrature]
        if rules:
            return _common_rule(cell, rules)
    degree = metadata.get("quadrature_degree")
    if degree in (None, "auto", -1):
        scaling = _algorithms.apply_integral_scaling.compute_integrand_scaling_factor(integral)
        degree = estimated_degree(integrand, is_complex) + scaling[1]
        degree = degree if limit is None else min(degree, limit)
    macro = [e.polyset_type for e in elements if e.polyset_type.name != "standard"]
    return make_quadrature(cell, int(degree), scheme, *macro[:1])


def _leaves(elements: Iterable[Any]) -> Iterable[Any]:
    return itertools.chain.from_iterable(
        _leaves(e.sub_elements) if isinstance(e.pullback, ufl.pullback.MixedPullback) else [e] for e in elements
    )


def _common_rule(cell: str, rules: list[Any]) -> QuadratureRule:
    common = make_custom_quadrature(cell, *rules[0])
    if any(make_custom_quadrature(cell, *rule).key() != common.key() for rule in rules):
        raise UnsupportedFormError("quadrature elements with different points meet in one integral")
    return common
