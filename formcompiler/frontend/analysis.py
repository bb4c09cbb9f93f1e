"""From a UFL form or expression to integrals of argument terms: UFL's own lowering, then scalarization."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import ufl
import ufl.classes as uc
from ufl.algorithms import compute_form_data
from ufl.algorithms.analysis import extract_arguments, extract_coefficients, extract_constants
from ufl.algorithms.apply_algebra_lowering import apply_algebra_lowering
from ufl.algorithms.apply_derivatives import apply_derivatives
from ufl.algorithms.apply_function_pullbacks import apply_function_pullbacks
from ufl.algorithms.apply_geometry_lowering import apply_geometry_lowering
from ufl.algorithms.remove_complex_nodes import remove_complex_nodes

from formcompiler.elements.layout import linear_simplex
from formcompiler.elements.quadrature import QuadratureRule
from formcompiler.errors import UnsupportedFormError
from formcompiler.frontend.checks import check_coordinate_element, check_expression, check_form
from formcompiler.frontend.facet_scale import lower_facet_scale, preserved_types
from formcompiler.frontend.integrals import (
    FormCoefficient,
    FormConstant,
    FormIntegral,
    Integrand,
    SubdomainId,
)
from formcompiler.frontend.integrand import IntegrandBuilder, NamedData, name_data
from formcompiler.frontend.preparation import MEASURE, prepare_expression, prepare_form
from formcompiler.frontend.rules import expression_rule, facet_kinds, is_runtime, select_rule
from formcompiler.frontend.ufl_errors import errors_of_ufl
from formcompiler.options import Options

_PRESERVED = (uc.Jacobian,)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AnalysedForm:
    """A form as the builders see it.

    Attributes:
        arguments: Elements of the arguments, test function first.
        coefficients: The form's coefficients, numbered as in ``form.coefficients()``.
        constants: The form's constants, numbered as in ``form.constants()``.
        integrals: One for each integral type and set of subdomains with equal integrands.
        signature: Hash of the form that does not depend on counters of the process.
    """

    arguments: tuple[Any, ...]
    coefficients: tuple[FormCoefficient, ...]
    constants: tuple[FormConstant, ...]
    integrals: tuple[FormIntegral, ...]
    signature: str


def analyse_form(form: Any, options: Options, names: Mapping[int, str] | None = None) -> AnalysedForm:
    """Return the integrals of a form; names maps ``id(object)`` to the user's variable name.

    Raises:
        UnsupportedFormError: if the form is outside the language.
    """
    with errors_of_ufl([form], names or {}):
        check_form(form)
        named = name_data(form.arguments(), form.coefficients(), form.constants(), names or {})
        data = _compute_form_data(prepare_form(form, options), options)
        integrals = [part for group in data.integral_data for part in _analyse_integral(group, named, options)]
    nonzero = tuple(integral for integral in integrals if integral.integrands)
    for kind in dict.fromkeys(integral.integral_type() for integral in form.integrals()):
        if all(integral.integral_type != kind for integral in nonzero):
            _log.info("%s integral vanishes: it needs no kernel", kind)
    return AnalysedForm(named.elements, named.coefficients, named.constants, nonzero, form.signature())


def analyse_expression(
    expr: Any, points: Any, options: Options, names: Mapping[int, str] | None = None
) -> FormIntegral:
    """Return an expression at fixed reference points, axes (point, direction), as an integral of one integrand.

    Points of one dimension less than the cell lie on its facets. An expression of numbers alone has no cell: it gets
    the simplex of the dimension of the points.

    Raises:
        UnsupportedFormError: if the expression is outside the language or the points do not fit its cell.
    """
    if isinstance(expr, ufl.form.BaseForm) and not isinstance(expr, ufl.core.expr.Expr):
        raise UnsupportedFormError(f"expected an expression, got a {type(expr).__name__}: use compile_form for forms")
    with errors_of_ufl([expr], names or {}):
        expr = ufl.as_ufl(expr)
        check_expression(expr)
        arguments = sorted(extract_arguments(expr), key=lambda a: a.number())
        named = name_data(arguments, *expression_data(expr), names or {})
        domain = _expression_domain(expr, points)
        check_coordinate_element(domain.ufl_coordinate_element())
        functions = [*arguments, *extract_coefficients(expr)]
        rule = expression_rule(domain.ufl_cell().cellname, points, [f.ufl_element() for f in functions])
        facet = rule.points.shape[1] < domain.topological_dimension
        lowered = _lower_expression(prepare_expression(expr, options), options)
        components = list(np.ndindex(*lowered.ufl_shape))
        kind = "exterior_facet" if facet else "cell"
        builder = IntegrandBuilder(kind, domain, named, options, rule.cell if facet else "")
        integrand = builder.build(rule, [(lowered, c) for c in components], "")
    return replace(builder.integral("expression", (), (integrand,)), n_components=len(components))


def expression_data(expr: Any) -> tuple[list[Any], list[Any]]:
    """Return the coefficients and constants of an expression, in the order of their positions."""
    expr = ufl.as_ufl(expr)
    return list(extract_coefficients(expr)), list(extract_constants(expr))


def _compute_form_data(form: Any, options: Options) -> Any:
    return compute_form_data(
        form,
        do_apply_function_pullbacks=True,
        do_apply_integral_scaling=True,
        do_apply_geometry_lowering=True,
        preserve_geometry_types=(*_PRESERVED, *preserved_types(form), uc.CellCoordinate),
        do_apply_restrictions=True,
        do_append_everywhere_integrals=False,
        complex_mode=options.scalar_type.startswith("complex"),
    )


def _lower_expression(expr: Any, options: Options) -> Any:
    expr = apply_function_pullbacks(apply_derivatives(apply_algebra_lowering(expr)))
    for _ in range(2):
        expr = apply_derivatives(apply_geometry_lowering(expr, _PRESERVED))
    return expr if options.scalar_type.startswith("complex") else remove_complex_nodes(expr)


def _expression_domain(expr: Any, points: Any) -> Any:
    domains = ufl.domain.extract_domains(expr)
    if len(domains) > 1:
        raise UnsupportedFormError(
            f"the expression {expr} lives on {len(domains)} meshes: define all of its functions on one ufl.Mesh"
        )
    return domains[0] if domains else ufl.Mesh(linear_simplex((*np.shape(points), 0, 0)[1]))


def _analyse_integral(group: Any, named: NamedData, options: Options) -> list[FormIntegral]:
    """Return a group of integrals over the same subdomains.

    It becomes several if the facets of the cell are of several kinds, if it holds for all entities and for some ids, or
    if only some of its points are known.
    """
    cell = group.domain.ufl_cell().cellname
    kinds = facet_kinds(cell) if "facet" in group.integral_type else ("",)
    by_measure: dict[tuple[bool, str], list[Any]] = {}
    for integral in group.integrals:
        measure = integral.metadata().get(MEASURE, group.integral_type)
        by_measure.setdefault((is_runtime(integral), measure), []).append(integral)
    result = []
    for kind, (key, parts) in itertools.product(kinds, sorted(by_measure.items(), key=lambda item: item[0])):
        measure = key[1]
        builder = IntegrandBuilder(measure, group.domain, named, options, kind)
        integrands = _analyse_integrands(builder, parts, cell, options)
        for ids in _subdomain_ids(group.subdomain_id):
            analysed = builder.integral(measure, ids, integrands)
            result.append(replace(analysed, facet_cell=kind if len(kinds) > 1 else ""))
    return result


def _analyse_integrands(
    builder: IntegrandBuilder, integrals: list[Any], cell: str, options: Options
) -> tuple[Integrand, ...]:
    """Return the integrands of integrals over the same subdomains, one for each quadrature rule."""
    merged: dict[Any, tuple[QuadratureRule, list[Any]]] = {}
    for integral in integrals:
        rule = select_rule(integral, cell, builder.facet_cell, options.max_quadrature_degree)
        merged.setdefault(rule.key(), (rule, []))[1].append(lower_facet_scale(integral.integrand(), builder.domain))
    integrands: list[Integrand] = []
    for rule, parts in merged.values():
        suffix = f"_r{len(integrands)}" if integrands else ""
        integrand = builder.build(rule, [(part, ()) for part in parts], suffix)
        if integrand.terms:
            integrands.append(integrand)
    return tuple(integrands)


def _subdomain_ids(given: Any) -> list[tuple[SubdomainId, ...]]:
    """Return the ids of one kernel, or of two: an entity with a listed id gets "otherwise" and the id, each once."""
    ids = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    marked = tuple(i for i in ids if i != "otherwise")
    return [part for part in (("otherwise",) if len(marked) < len(ids) else (), marked) if part]
