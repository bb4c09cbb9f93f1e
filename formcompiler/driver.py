"""The whole compiler: from forms, expressions and form files to kernels, headers and solved problems."""

from __future__ import annotations

import dataclasses
import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formcompiler import operators, report
from formcompiler.compiled import CompiledExpression, CompiledForm
from formcompiler.compiled_operator import plan_file
from formcompiler.errors import InvalidOptionError, UnsupportedFormError
from formcompiler.formfile import FormFile
from formcompiler.frontend.analysis import analyse_expression, analyse_form, expression_data
from formcompiler.frontend.blocks import join_blocks
from formcompiler.frontend.rules import is_runtime
from formcompiler.kernels import StageObserver, compile_kernel
from formcompiler.naming import Namer
from formcompiler.options import Options, make_options
from formcompiler.pipeline import candidates

if TYPE_CHECKING:
    from formcompiler.runtime.run import RunResult

_RECURSION_LIMIT = 100_000

_YOUNG_OBJECTS = 50_000
"""Number of new objects after which Python looks for cycles among them during a compilation."""


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
    with _compiling():
        form = join_blocks(form)
        analysed = analyse_form(form, checked, names)
        namer = Namer()
        labels = [namer.unique(i.integral_type + "_runtime" * i.is_runtime) for i in analysed.integrals]

        def compile_with(settled: Options) -> CompiledForm:
            pairs = zip(analysed.integrals, labels, strict=True)
            return CompiledForm(form, analysed, [compile_kernel(i, n, settled, observe) for i, n in pairs], settled)

        if checked.vectorize != "autotune":
            return compile_with(checked)
        from formcompiler.autotune import autotune  # the engine takes its time to load

        result: CompiledForm = autotune(form, analysed.signature, checked, candidates(checked), compile_with)
        return result


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
    with _compiling():
        integral = analyse_expression(expr, points, checked, names)
        kernel = compile_kernel(integral, "expression", checked)
    return CompiledExpression(*expression_data(expr), kernel, checked)


def compile_file(form_file: FormFile, output_dir: Path | str, options: Options) -> list[Path]:
    """Write one C++ header for each operator of a form file and return their paths."""
    with _compiling():
        return operators.compile_file(form_file, output_dir, options)


def report_file(form_file: FormFile, options: Options, dump: str | None = None) -> str:
    """Return a table of the kernels of a form file; dump names a stage whose kernel texts follow, or is "all"."""
    with _compiling():
        return report.report_file(form_file, options, dump)


def verify_file(form_file: FormFile, options: Options) -> Iterator[str]:
    """Compare all kernels of a form file with dense assembly on random data; yield a line for each.

    Raises:
        UnsupportedFormError: if a form is outside the language.
        VerificationError: at the first kernel whose difference rounding does not explain.
    """
    from formcompiler.verify import check_verified, describe, verify_form  # scipy takes its time to load

    settings = dataclasses.asdict(options)
    for operator in plan_file(form_file, options):
        for role, form in operator.forms.items():
            for found in verify_form(form, names=form_file.names, **settings):
                yield describe(found, options.scalar_type, f"{operator.name} {role}")
                check_verified(found, options.scalar_type, f"{operator.name} {role}")


def run_file(form_file: FormFile, refine: int, output_dir: Path | str, options: Options) -> RunResult:
    """Solve the problem of a form file, print its table, and write files.

    Args:
        form_file: A form file with a problem.
        refine: Number of uniform refinements.
        output_dir: Where the VTU file and the picture go.
        options: Compiler options.

    Raises:
        UnsupportedFormError: if the file has no problem, or it is outside the language.
    """
    if form_file.problem is None:
        raise UnsupportedFormError(f"{form_file.path} defines no formcompiler.Problem, so there is nothing to run")
    for name, needed in (("scalar_type", "float64"), ("part", "full")):
        if getattr(options, name) != needed:
            raise InvalidOptionError(f"{name}={getattr(options, name)}: the embedded engine solves with {needed} only")
    if any(map(is_runtime, form_file.problem.residual.integrals())):
        raise UnsupportedFormError(
            "the residual has an integral with points given at run time, and a Problem has none to give: compile "
            "the form and hand points over in Python (compile_form) or C++ (formcompiler compile)"
        )
    chosen = "cells" if options.vectorize == "none" else options.vectorize  # the engine hands over batches of cells
    settings = {**dataclasses.asdict(options), "vectorize": chosen}

    def compile_one(form: Any, /, *, geometry: str) -> CompiledForm:
        return compile_form(form, names=form_file.names, **{**settings, "geometry": geometry})

    def compile_values(expr: Any, points: Any) -> CompiledExpression:
        return compile_expression(expr, points, names=form_file.names, **settings)

    name = form_file.path.stem
    from formcompiler.runtime.run import run_problem  # scipy and meshio take their time, and compiling needs neither

    unknown = form_file.names.get(id(form_file.problem.unknown), "u")
    result = run_problem(
        form_file.problem,
        compile_one,
        compile_values,
        refine=refine,
        output_dir=output_dir,
        name=name,
        unknown=unknown,
    )
    print("\n".join([result.table, *(f"wrote {path}" for path in result.files)]))
    return result


@contextmanager
def _compiling() -> Iterator[None]:
    """Let Python work as a compilation needs it, and as before afterwards.

    Expression trees may be as deep as users write them: a sum of a thousand terms is a thousand levels deep. Cycles of
    objects are collected less often: nearly all objects live to the end, and to look at them again and again takes a
    sixth of the time.
    """
    limit, (young, *old) = sys.getrecursionlimit(), gc.get_threshold()
    sys.setrecursionlimit(max(limit, _RECURSION_LIMIT))
    gc.set_threshold(max(young, _YOUNG_OBJECTS) if young else 0, *old)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        gc.set_threshold(young, *old)
