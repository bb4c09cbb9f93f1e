"""UFL's exceptions in the user's words: what to write instead, and the names of the user's own variables."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import ufl
import ufl.classes as uc
from ufl.algorithms.analysis import extract_arguments, extract_coefficients, extract_constants, extract_type
from ufl.algorithms.check_arities import ArityMismatch
from ufl.algorithms.comparison_checker import ComplexComparisonError

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
    ("Cannot divide by form argument", "use a Coefficient for the unknown and derivative() for its linearization"),
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
    (
        "Cell type prism not supported",
        "MinFacetEdgeLength and MaxFacetEdgeLength need facets of one kind; a prism has triangles and quadrilaterals: "
        "use FacetArea",
    ),
    (
        "Cell type pyramid not supported",
        "MinFacetEdgeLength and MaxFacetEdgeLength need facets of one kind; a pyramid has triangles and a "
        "quadrilateral: use FacetArea",
    ),
    (
        "Expecting argument or component of argument",
        "take the derivative in the direction of an Argument du, and put the expression in its place: "
        "replace(derivative(F, u, du), {du: expression})",
    ),
)


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
    except IndexError as error:
        if not _move_the_mesh(forms):
            raise
        raise UnsupportedFormError(_BENT_SHAPE_DERIVATIVE) from error
    except (Exception, ArityMismatch, ComplexComparisonError) as error:  # the last two are no Exceptions
        raise UnsupportedFormError(_with_user_names(explain(error), forms, names)) from error


_BENT_SHAPE_DERIVATIVE = (
    "the derivative with respect to SpatialCoordinate of second derivatives, and of derivatives of H(div) and H(curl) "
    "functions, is known on affine cells only (UFL has no rule for derivatives of the Jacobian): use simplices with "
    "straight edges, or Lagrange elements and first derivatives"
)


def _move_the_mesh(forms: Sequence[Any]) -> bool:
    """Tell whether forms contain derivatives with respect to the position of the mesh."""
    integrals = [i for form in forms if isinstance(form, ufl.Form) for i in form.integrals()]
    return any(extract_type(integral.integrand(), uc.CoordinateDerivative) for integral in integrals)


def _with_user_names(text: str, forms: Sequence[Any], names: Mapping[int, str]) -> str:
    """Return a message in which UFL's names of functions, such as w_3, are the user's variable names.

    Args:
        text: The message.
        forms: Forms or expressions that it is about.
        names: Variable name by ``id(object)``.
    """
    forms = [form for form in forms if isinstance(form, (ufl.Form, ufl.core.expr.Expr))]
    known = _names_of(forms, names)
    named = re.sub(r"\b[a-z]_\d+\b", lambda found: known.get(found.group(), found.group()), text)
    if "must be restricted" not in text:
        return named
    found = dict.fromkeys(
        _display(expr, names)
        for form in forms
        if isinstance(form, ufl.Form)
        for integral in form.integrals_by_type("interior_facet")
        for expr in _find_unrestricted(integral.integrand())
    )
    return f"{named} (without a restriction here: {', '.join(found)})" if found else named


_DERIVATIVES = (uc.Grad, uc.NablaGrad, uc.Div, uc.NablaDiv, uc.Curl, uc.ReferenceGrad)
_SAME_ON_BOTH_SIDES = (
    *(uc.SpatialCoordinate, uc.FacetArea, uc.FacetCoordinate, uc.MinFacetEdgeLength, uc.MaxFacetEdgeLength),
    uc.QuadratureWeight,
)


def _find_unrestricted(expr: Any) -> Iterator[Any]:
    """Yield the innermost parts of an integrand over interior facets that have two values and no restriction."""
    if isinstance(expr, uc.Restricted):
        return
    has_two_values = (
        isinstance(expr, (uc.Argument, *_DERIVATIVES))
        or (isinstance(expr, uc.Coefficient) and expr.ufl_element() not in ufl.H1)
        or (isinstance(expr, uc.GeometricQuantity) and not isinstance(expr, _SAME_ON_BOTH_SIDES))
    )
    if has_two_values:
        yield expr
        return
    for operand in expr.ufl_operands:
        yield from _find_unrestricted(operand)


def _display(expr: Any, names: Mapping[int, str]) -> str:
    if isinstance(expr, uc.GeometricQuantity):
        return type(expr).__name__
    text = re.sub(r"\b[a-z]_\d+\b", lambda found: _names_of([expr], names).get(found.group(), found.group()), str(expr))
    return text if len(text) <= 60 else text[:57] + "..."


def _names_of(forms: Sequence[Any], names: Mapping[int, str]) -> dict[str, str]:
    """Return the user's name of each function in forms or expressions by UFL's name of it."""
    extract: tuple[Callable[[Any], Any], ...] = (extract_coefficients, extract_arguments, extract_constants)
    functions = [f for form in forms for find in extract for f in find(form)]
    return {str(f): names[id(f)] for f in functions if id(f) in names}
