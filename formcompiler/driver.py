"""The whole compiler: from forms, expressions and form files to kernels, headers and solved problems."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from formcompiler.compiled import CompiledExpression, CompiledForm
from formcompiler.frontend.analysis import analyse_expression, analyse_form, expression_data
from formcompiler.kernels import StageObserver, compile_kernel
from formcompiler.naming import Namer
from formcompiler.options import make_options

_RECURSION_LIMIT = 100_000


def compile_form(
    form: Any, *, names: Mapping[int, str] | None = None, observe: StageObserver | None = None, **options: Any
) -> CompiledForm:
    """Return a compiled form.

    Args:
        form: A ``ufl.Form`` of rank 0, 1 or 2.
        names: Variable names by ``id(object)``, for readable C++.
        observe: Called after each stage of each kernel.
        **options: Compiler options by name, such as ``scalar_type="float32"``.

    Raises:
        UnsupportedFormError: if the form is outside the language.
        InvalidOptionError: for an unknown option or value.
    """
    checked = make_options(**options)
    with _deep_recursion():
        analysed = analyse_form(form, checked, names)
        namer = Namer()
        kernels = [compile_kernel(i, namer.unique(i.integral_type), checked, observe) for i in analysed.integrals]
    return CompiledForm(form, analysed, kernels, checked)


def compile_expression(
    expr: Any, points: Any, *, names: Mapping[int, str] | None = None, **options: Any
) -> CompiledExpression:
    """Return an expression compiled for fixed points.

    Args:
        expr: A UFL expression without free indices.
        points: Reference points, axes (point, direction); of one dimension less than the cell: on its facets.
        names: Variable names by ``id(object)``.
        **options: Compiler options by name.

    Raises:
        UnsupportedFormError: if the expression is outside the language.
        InvalidOptionError: for an unknown option or value.
    """
    checked = make_options(**options)
    with _deep_recursion():
        integral = analyse_expression(expr, points, checked, names)
        kernel = compile_kernel(integral, "expression", checked)
    return CompiledExpression(*expression_data(expr), kernel, checked)


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Allow expression trees as deep as users write them: a sum of a thousand terms is a thousand levels deep."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
