"""What a form or expression must be before it is lowered."""

from __future__ import annotations

from typing import Any

import ufl
import ufl.classes as uc
from ufl.algorithms.analysis import extract_arguments, extract_type
from ufl.corealg.traversal import traverse_unique_terminals, unique_pre_traversal

from formcompiler.elements.quadrature import RUNTIME
from formcompiler.elements.tables import joint_polyset
from formcompiler.errors import UnsupportedFormError

_ENTITIES = {
    "cell": "cells (dx)",
    "cutcell": "cut cells (dC)",
    "interface": "interfaces inside of cells (dI)",
    "exterior_facet": "exterior facets (ds)",
    "interior_facet": "interior facets (dS)",
    "vertex": "vertices (dP)",
}


UNMARKED = -1
"""What assemblers call entities that belong to no subdomain."""


def check_form(form: Any) -> None:
    """Check what UFL would only stumble over later.

    Raises:
        UnsupportedFormError: if this is no form, is empty, has terms of different rank, lives on several meshes, or
            contains an operator that only an assembler can evaluate.
    """
    if not isinstance(form, ufl.Form):
        raise UnsupportedFormError(_not_a_form(form))
    if all(isinstance(integral.integrand(), uc.Zero) for integral in form.integrals()):
        raise UnsupportedFormError(
            "the form is empty: all of its terms are zero, so that its rank and its mesh are unknown. "
            "Leave it out, or write it with a Constant that is set to 0"
        )
    _check_integral_types(form)
    _check_domains(form)
    for integral in form.integrals():
        _check_ids(integral)
        _check_operators(integral.integrand(), "a form")
        _check_conditions(integral.integrand())
    _check_facet_quantities(form)
    _check_ranks(form)
    _check_restrictions(form)


def check_expression(expr: Any) -> None:
    """Check what UFL would only stumble over later.

    Raises:
        UnsupportedFormError: if the expression has free indices or restrictions, counts with a condition, or contains
            an operator that only an assembler can evaluate.
    """
    _check_conditions(expr)
    _check_operators(expr, "an expression")
    if extract_type(expr, uc.Restricted):
        raise UnsupportedFormError(
            f"a restriction ('+', '-', avg or jump) stands in the expression {expr}; only integrals over interior "
            "facets (dS) have two sides"
        )
    if expr.ufl_free_indices:
        raise UnsupportedFormError(
            f"the expression {expr} has {len(expr.ufl_free_indices)} free indices: sum over them by using each twice, "
            "or make a tensor of them with as_tensor(expression, indices)"
        )


def _not_a_form(form: Any) -> str:
    if isinstance(form, ufl.core.expr.Expr):
        return f"expected a form, got the expression {form}: multiply it by dx, ds or dS"
    if isinstance(form, ufl.form.BaseForm):
        return (
            f"expected a plain form, got a {type(form).__name__}, which only an assembler can evaluate: compile the "
            "forms in it one by one, and add or multiply what has been assembled"
        )
    if isinstance(form, ufl.equation.Equation):
        return "expected a ufl.Form, got an equation: compile its two sides, lhs and rhs, or the form lhs - rhs"
    return f"expected a ufl.Form, got {type(form).__name__}"


def _check_integral_types(form: Any) -> None:
    for integral in form.integrals():
        kind = integral.integral_type()
        if kind not in _ENTITIES:
            measure = ufl.measure.integral_type_to_measure_name.get(kind, kind)
            raise UnsupportedFormError(
                f"integrals over {kind.replace('_', ' ')} entities ({measure}) are not supported; there are integrals "
                "over cells (dx), exterior facets (ds), interior facets (dS) and vertices (dP), and over parts of "
                "cells (dC) and interfaces inside of them (dI) by points that are given at run time"
            )
        if kind in ("cutcell", "interface"):
            _check_runtime_measure(integral, _ENTITIES[kind])


def _check_runtime_measure(integral: Any, entities: str) -> None:
    scheme = integral.metadata().get("quadrature_rule", integral.metadata().get("scheme", RUNTIME))
    if scheme not in (RUNTIME, "default"):
        raise UnsupportedFormError(
            f"quadrature_rule {scheme!r} stands in an integral over {entities}, which gets its points when the kernel "
            "is called: leave it out, or use dx with it"
        )
    if extract_type(integral.integrand(), uc.CoordinateDerivative):
        raise UnsupportedFormError(
            f"a derivative with respect to the position of the mesh stands in an integral over {entities}, whose "
            "points and weights would change with it: use dx with quadrature_rule 'runtime' if they do not"
        )


def _check_domains(form: Any) -> None:
    """Check that all integrals are over one mesh, and all functions and geometry of it or of its facets."""
    meshes = list(dict.fromkeys(integral.ufl_domain() for integral in form.integrals()))
    if len(meshes) > 1:
        raise UnsupportedFormError(
            f"the form has integrals over {len(meshes)} meshes ({', '.join(map(str, meshes))}), but a kernel belongs "
            "to the cells of one: split the form into one for each ufl.Mesh"
        )
    check_coordinate_element(meshes[0].ufl_coordinate_element())
    facets = {facet.cellname for facet in meshes[0].ufl_cell().facet_types}
    for integral in form.integrals():
        for terminal in traverse_unique_terminals(integral.integrand()):
            domain: Any = ufl.domain.extract_unique_domain(terminal)
            if domain in (None, meshes[0]):
                continue
            fits = domain.ufl_cell().cellname in facets and domain.geometric_dimension == meshes[0].geometric_dimension
            if not (fits and integral.integral_type() == "exterior_facet"):
                raise UnsupportedFormError(describe_other_mesh(terminal, domain, meshes[0]))


def check_coordinate_element(element: Any) -> None:
    """Check that cells are no macro cells: UFL takes those of degree 1 for straight.

    Raises:
        UnsupportedFormError: if they are.
    """
    if joint_polyset([element], element.cell_type.name) != joint_polyset([], element.cell_type.name):
        raise UnsupportedFormError(
            f"the coordinate element {element} is made of several polynomials on a cell: use a Lagrange element, on a "
            "refined mesh if need be"
        )


def describe_other_mesh(terminal: Any, domain: Any, mesh: Any) -> str:
    """Return why a terminal of one mesh cannot stand in an integral over another."""
    what = type(terminal).__name__ if isinstance(terminal, uc.GeometricQuantity) else terminal
    return (
        f"{what} is defined on another mesh ({domain}) than the integration domain ({mesh}); over exterior facets a "
        "function may live on the mesh of these facets, everything else must be defined on the ufl.Mesh that is "
        "integrated over"
    )


def _check_ids(integral: Any) -> None:
    ids = integral.subdomain_id() if isinstance(integral.subdomain_id(), tuple) else (integral.subdomain_id(),)
    if UNMARKED in ids:
        raise UnsupportedFormError(
            f"the subdomain id {UNMARKED} stands in an integral over {_ENTITIES[integral.integral_type()]}: it is the "
            "id of entities that are not marked; choose another number"
        )


def _check_operators(expr: Any, where: str) -> None:
    for operator in (uc.Interpolate, uc.ExternalOperator):
        if extract_type(expr, operator):
            raise UnsupportedFormError(
                f"ufl.{operator.__name__} is not supported inside {where}: "
                + (
                    "interpolate into a Coefficient first and use that"
                    if operator is uc.Interpolate
                    else "evaluate it first and use a Coefficient with its values"
                )
            )


def _check_conditions(expr: Any) -> None:
    for node in unique_pre_traversal(expr):
        if isinstance(node, uc.Condition):
            continue
        used = node.ufl_operands[1:] if isinstance(node, uc.Conditional) else node.ufl_operands
        conditions = [operand for operand in used if isinstance(operand, uc.Condition)]
        if conditions:
            raise UnsupportedFormError(
                f"the condition {conditions[0]} is used as a number: write conditional({conditions[0]}, 1, 0)"
            )


def _check_ranks(form: Any) -> None:
    ranks: dict[int, Any] = {}
    for integral in form.integrals():
        arguments = extract_arguments(integral.integrand())
        ranks.setdefault(len({a.number() for a in arguments}), integral)
    if len(ranks) > 1:
        found = ", ".join(f"rank {rank}" for rank in sorted(ranks))
        raise UnsupportedFormError(
            f"the terms of the form have different rank ({found}), that is, different numbers of test and trial "
            "functions. Split the equation with lhs() and rhs(), or use a Coefficient for the unknown"
        )
    if max(ranks) > 2:
        raise UnsupportedFormError(
            f"the form has rank {max(ranks)}, that is {max(ranks)} arguments; only functionals, linear and bilinear "
            "forms have kernels: use Coefficients for the other functions, or action() with them"
        )


def _check_facet_quantities(form: Any) -> None:
    for integral in form.integrals():
        if "facet" in integral.integral_type():
            continue
        found = sorted(type(q).__name__ for q in extract_type(integral.integrand(), uc.GeometricFacetQuantity))
        on_interface = integral.integral_type() == "interface"
        if found:
            raise UnsupportedFormError(
                f"{found[0]} is defined on facets only, but the integral is over "
                f"{_ENTITIES[integral.integral_type()]}: use it in ds or dS"
                + ("; the normal of a level set f is grad(f) / sqrt(dot(grad(f), grad(f)))" * on_interface)
            )


def _check_restrictions(form: Any) -> None:
    for integral in form.integrals():
        if integral.integral_type() == "interior_facet":
            continue
        if extract_type(integral.integrand(), uc.Restricted):
            raise UnsupportedFormError(
                f"a restriction ('+', '-', avg or jump) stands in an integral over "
                f"{_ENTITIES[integral.integral_type()]}; only interior facets (dS) have two sides"
            )
