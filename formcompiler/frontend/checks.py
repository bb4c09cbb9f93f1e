"""What a form must be before it is lowered, and UFL's exceptions in the user's words."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import ufl
import ufl.classes as uc
from ufl.algorithms.analysis import extract_arguments, extract_coefficients, extract_constants, extract_type
from ufl.algorithms.check_arities import ArityMismatch
from ufl.algorithms.comparison_checker import ComplexComparisonError
from ufl.corealg.traversal import unique_pre_traversal

from formcompiler.elements.quadrature import RUNTIME
from formcompiler.errors import FormCompilerError, UnsupportedFormError

_REAL_PARTS = "complex numbers have no order: compare real(...), imag(...) or abs(...)"
_REMEDIES = (
    (
        "must be restricted",
        "a function on an interior facet (dS) has two values and needs a restriction: write w('+') or w('-'), "
        "avg(w) or jump(w)",
    ),
    ("Cannot restrict an expression twice", "a restriction inside a restriction, such as avg(jump(w)): keep one"),
    ("Unexpected restriction", "a restriction such as w('+') or avg(w) makes sense in dS only, not in dx or ds"),
    ("cannot be restricted", "a restriction such as w('+') or avg(w) makes sense in dS only, not in dx or ds"),
    (
        "Integral of type cell cannot contain a ReferenceNormal",
        "FacetNormal is defined on facets only: use it in ds or dS, not in dx",
    ),
    ("Failure to conjugate", "in complex mode the test function must be conjugated: write inner(u, v)"),
    ("Multiple domains", "the integrand lives on several meshes: define all functions on one ufl.Mesh"),
    ("Applying nonlinear operator", "use a Coefficient for the unknown and derivative() for its linearization"),
    ("non-matching form arguments", "all terms need the same arguments (rank): split with lhs() and rhs()"),
    ("Ordering undefined for complex", _REAL_PARTS),
    ("You can't compare complex", _REAL_PARTS),
    (
        "Cell normal undefined",
        "CellNormal needs cells of one dimension less than the space, such as triangles in 3D; on facets use "
        "FacetNormal",
    ),
    (
        "Unexpected complex value",
        "a function of a literal, such as sqrt(-2), is not defined over the real numbers; a complex scalar_type has it",
    ),
    (
        "Circumradius only makes sense",
        "Circumradius needs an affine simplex; use CellDiameter, or CellVolume(mesh) ** (1 / dim) if edges are curved",
    ),
    ("unexpected imag", "imag(...) of real data: compile with a complex scalar_type, or leave it out"),
    (
        "Facet edge lengths only",
        "MinFacetEdgeLength and MaxFacetEdgeLength need facets of dimension 2; FacetArea is the length of an edge",
    ),
)
_ENTITIES = {
    "cell": "cells (dx)",
    "cutcell": "cut cells (dC)",
    "interface": "interfaces inside of cells (dI)",
    "exterior_facet": "exterior facets (ds)",
    "interior_facet": "interior facets (dS)",
    "vertex": "vertices (dP)",
}


def explain(error: BaseException) -> str:
    """Return UFL's own message followed by what to write instead, where we know it."""
    text = " ".join(str(error).split()) or type(error).__name__
    remedies = [remedy for phrase, remedy in _REMEDIES if phrase.lower() in text.lower()]
    return f"UFL refuses the form: {text}" + "".join(f" -- {remedy}" for remedy in remedies)


@contextmanager
def errors_of_ufl(forms: Sequence[Any], names: Mapping[int, str]) -> Iterator[None]:
    """Turn UFL's exceptions into ours, with a remedy and the user's names; silence warnings about what we handle.

    Args:
        forms: Forms or expressions that the work inside is about.
        names: Variable name by ``id(object)``.
    """
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Only know how to compute")
            yield
    except UnsupportedFormError as error:
        raise UnsupportedFormError(_with_user_names(str(error), forms, names)) from error
    except FormCompilerError:
        raise
    except (Exception, ArityMismatch, ComplexComparisonError) as error:  # the last two are no Exceptions
        raise UnsupportedFormError(_with_user_names(explain(error), forms, names)) from error


def _with_user_names(text: str, forms: Sequence[Any], names: Mapping[int, str]) -> str:
    """Return a message in which UFL's names of functions, such as w_3, are the user's variable names.

    Args:
        text: The message.
        forms: Forms or expressions that it is about.
        names: Variable name by ``id(object)``.
    """
    forms = [form for form in forms if isinstance(form, (ufl.Form, ufl.core.expr.Expr))]
    coefficients = list(dict.fromkeys(c for form in forms for c in extract_coefficients(form)))
    others = [o for form in forms for o in (*extract_arguments(form), *extract_constants(form))]
    functions = [*others, *coefficients]
    known = {str(f): names[id(f)] for f in functions if id(f) in names}
    named = re.sub(r"\b[a-z]_\d+\b", lambda found: known.get(found.group(), found.group()), text)
    if "must be restricted" not in text:
        return named
    double = [f for f in coefficients if f.ufl_function_space().ufl_element().discontinuous]
    listed = ", ".join(names.get(id(f), str(f)) for f in double)
    return f"{named} (discontinuous here: {listed})" if listed else named


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
    _check_operators(form)
    for integral in form.integrals():
        _check_conditions(integral.integrand())
    _check_facet_quantities(form)
    _check_ranks(form)
    _check_restrictions(form)


def check_expression(expr: Any) -> None:
    """Check what UFL would only stumble over later.

    Raises:
        UnsupportedFormError: if the expression has free indices, or counts with a condition.
    """
    _check_conditions(expr)
    if expr.ufl_free_indices:
        raise UnsupportedFormError(
            f"the expression {expr} has {len(expr.ufl_free_indices)} free indices: sum over them by using each twice, "
            "or make a tensor of them with as_tensor(expression, indices)"
        )


def _not_a_form(form: Any) -> str:
    if isinstance(form, ufl.core.expr.Expr):
        return f"expected a form, got the expression {form}: multiply it by dx, ds or dS"
    if isinstance(form, ufl.form.BaseForm):
        return f"expected a plain form, got a {type(form).__name__}, which only an assembler can evaluate"
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


def _check_operators(form: Any) -> None:
    for operator in (uc.Interpolate, uc.ExternalOperator):
        if any(extract_type(integral.integrand(), operator) for integral in form.integrals()):
            name = operator.__name__
            raise UnsupportedFormError(
                f"ufl.{name} is not supported inside a form: interpolate into a Coefficient first and use that"
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
            f"the terms of the form have different rank ({found}): some contain a trial function, others do not. "
            "Split the equation with lhs() and rhs(), or use a Coefficient for the unknown"
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
