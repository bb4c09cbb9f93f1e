"""Run a folder of case modules against formcompiler or one of its oracles.

usage: python run_cases.py DIR [NUMBER ...] [--oracle formcompiler|reference|ffcx]

A case module either defines ``check(tab, etab)``, which asserts facts about tabulated tensors, or ``build()``, whose
form must be refused with an error that contains one of ``ERROR_WORDS``.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from ufl.algorithms.check_arities import ArityMismatch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

Tabulate = Callable[..., Any]

FFCX_OPTIONS = ("epsilon", "table_rtol", "table_atol", "verbosity")
"""Options of FFCx about how it stores tables and what it prints, which formcompiler has no use for."""


class Oracle(NamedTuple):
    """What can be asked for numbers: tensors of forms, values of expressions, and whether it compiles."""

    form: Tabulate
    expression: Tabulate
    compile: Callable[..., Any] | None
    refusal: type[BaseException] = BaseException


class Outcome(NamedTuple):
    """How a case ended: PASS, FAIL or SKIP, and why."""

    status: str
    reason: str = ""


def formcompiler_oracle() -> Oracle:
    """Return the compiler itself; compiled forms are kept for the process."""
    import formcompiler
    import formcompiler.errors

    compiled: dict[tuple[int, str], tuple[Any, Any]] = {}

    def compile_form(form: Any, **options: Any) -> Any:
        key = (id(form), repr(sorted(options.items())))
        if key not in compiled:
            compiled[key] = (formcompiler.compile_form(form, **options), form)
        return compiled[key][0]

    def ours(options: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in options.items() if name not in FFCX_OPTIONS}

    def tabulate(form: Any, itype: str, marker: int | None, x: Any, options: dict[str, Any], **data: Any) -> Any:
        return compile_form(form, **ours(options)).tabulate_tensor(itype, marker, x, **data)

    def tabulate_expression(expr: Any, points: Any, x: Any, options: dict[str, Any], **data: Any) -> Any:
        return formcompiler.compile_expression(expr, points, **ours(options)).tabulate_tensor(x, **data)

    return Oracle(tabulate, tabulate_expression, compile_form, formcompiler.errors.FormCompilerError)


def reference_oracle() -> Oracle:
    """Return dense numpy assembly."""
    from formcompiler.reference import element_tensor, expression_values

    def tabulate(form: Any, itype: str, marker: int | None, x: Any, options: dict[str, Any], **data: Any) -> Any:
        chosen = {k: v for k, v in options.items() if k in ("scalar_type", "max_quadrature_degree")}
        result = element_tensor(form, itype, marker, x, **data, **chosen)
        return np.diag(result) if options.get("part") == "diagonal" else result

    def tabulate_expression(expr: Any, points: Any, x: Any, options: dict[str, Any], **data: Any) -> Any:
        return expression_values(expr, points, x, **data, **options)

    return Oracle(tabulate, tabulate_expression, None)


def ffcx_oracle() -> Oracle:
    """Return kernels compiled by FFCx."""
    from oracles import ffcx_oracle as ffcx

    def tabulate(form: Any, itype: str, marker: int | None, x: Any, options: dict[str, Any], **data: Any) -> Any:
        return ffcx.element_tensor(form, itype, marker, x, **data, **options)

    def tabulate_expression(expr: Any, points: Any, x: Any, options: dict[str, Any], **data: Any) -> Any:
        return ffcx.expression_values(expr, points, x, **data, **options)

    return Oracle(tabulate, tabulate_expression, ffcx.compile_form)


ORACLES = {"formcompiler": formcompiler_oracle, "reference": reference_oracle, "ffcx": ffcx_oracle}


def case_functions(oracle: Oracle, default_type: str) -> tuple[Tabulate, Tabulate]:
    """Return the functions ``tab`` and ``etab`` that cases call.

    Args:
        oracle: What they ask.
        default_type: Scalar type of calls that name none.
    """

    def tab(
        form: Any,
        itype: str = "cell",
        marker: int | None = None,
        x: Any = None,
        w: Any = None,
        c: Any = None,
        facet: Any = None,
        perm: Any = None,
        dtype: str | None = None,
        options: dict[str, Any] | None = None,
        facet_cell: str | None = None,
    ) -> Any:
        chosen = {"scalar_type": dtype or default_type, **(options or {})}
        data = _data(w, c, *_entity(itype, facet, perm))
        result = oracle.form(form, itype, marker, x, chosen, **data)
        return result[()] if np.ndim(result) == 0 else result

    def etab(
        expr: Any,
        points: Any,
        x: Any = None,
        w: Any = None,
        c: Any = None,
        facet: Any = None,
        perm: Any = None,
        dtype: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> Any:
        chosen = {"scalar_type": dtype or default_type, **(options or {})}
        return oracle.expression(expr, np.asarray(points, dtype=float), x, chosen, **_data(w, c, facet, perm))

    return tab, etab


def _entity(itype: str, facet: Any, perm: Any) -> tuple[Any, Any]:
    """Return facets and permutations, those that are not given being number 0; one for each side."""
    if itype != "interior_facet":
        return (0 if facet is None and itype != "cell" else facet), perm
    return tuple(np.resize(np.atleast_1d(0 if n is None else n), 2) for n in (facet, perm))


def _data(w: Any, c: Any, facet: Any, perm: Any) -> dict[str, Any]:
    coefficients = {f: np.asarray(values) for f, values in (w or {}).items()}
    constants = {k: np.asarray(value) for k, value in (c or {}).items()}
    return {
        "coefficients": coefficients,
        "constants": constants,
        "local_facet": facet,
        "facet_permutation": perm,
    }


def load(path: Path) -> ModuleType:
    """Return the executed module of a case."""
    spec = importlib.util.spec_from_file_location(f"case_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_case(path: Path, oracle: Oracle) -> Outcome:
    """Return how one case ends; nothing that a case raises gets out."""
    try:
        module = load(path)
        if hasattr(module, "build"):
            return _run_refusal(module, oracle)
        options = getattr(module, "OPTIONS", {})
        module.check(*case_functions(oracle, options.get("scalar_type", "float64")))
    except (Exception, ArityMismatch) as error:
        return Outcome("FAIL", _describe(error, path))
    return Outcome("PASS")


def _run_refusal(module: ModuleType, oracle: Oracle) -> Outcome:
    """Return whether a form is refused in words that help; UFL may refuse it while it is being built."""
    if oracle.compile is None:
        return Outcome("SKIP", "about error messages of a compiler")
    try:
        form = module.build()
    except (Exception, ArityMismatch) as error:
        return _judge(module, error, True)
    try:
        oracle.compile(form, scalar_type=getattr(module, "DTYPE", "float64"))
    except (Exception, ArityMismatch) as error:
        return _judge(module, error, isinstance(error, oracle.refusal))
    return Outcome("FAIL", "accepted silently")


def _judge(module: ModuleType, error: BaseException, on_purpose: bool) -> Outcome:
    text = str(error).lower()
    if not on_purpose:
        return Outcome("FAIL", f"not a FormCompilerError: {_describe(error)}")
    if not any(word.lower() in text for word in module.ERROR_WORDS):
        return Outcome("FAIL", f"none of {module.ERROR_WORDS} in: {_describe(error)}")
    return Outcome("PASS", _describe(error))


def _describe(error: BaseException, path: Path | None = None) -> str:
    text = " ".join(str(error).split())[:200]
    frames = [f for f in traceback.extract_tb(error.__traceback__) if path and f.filename == str(path)]
    line = f" in line {frames[-1].lineno}: {(frames[-1].line or '')[:90]}" if frames else ""
    return f"{type(error).__name__}{line} {text}".strip()


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen cases, print a line for each, and return the exit status: 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("numbers", nargs="*", help="numbers of cases; all if none is given")
    parser.add_argument("--oracle", choices=ORACLES, default="formcompiler")
    chosen = parser.parse_args(arguments)
    paths = sorted(chosen.directory.glob("[0-9]*.py"), key=lambda p: (int(p.name.split("_")[0]), p.name))
    numbers = {int(n) for n in chosen.numbers}
    paths = [p for p in paths if not numbers or int(p.name.split("_")[0]) in numbers]
    if not paths:
        parser.error(f"no case in {chosen.directory}")
    oracle = ORACLES[chosen.oracle]()
    totals: Counter[str] = Counter()
    for path in paths:
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = run_case(path, oracle)
        totals[outcome.status] += 1
        print(f"{outcome.status:5s} {time.perf_counter() - start:6.1f}s  {path.stem:42s} {outcome.reason}", flush=True)
    print(", ".join(f"{status}: {n}" for status, n in sorted(totals.items())))
    return int(totals["FAIL"] > 0)


if __name__ == "__main__":
    sys.exit(main())
