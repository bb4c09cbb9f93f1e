"""What the compiler did with each integral: quadrature, strategy, operations, memory, times, and kernels by stage."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import loopy as lp
import numpy as np

from formcompiler.compiled_operator import CompiledOperator, compile_expressions, compile_operator, plan_file
from formcompiler.errors import InvalidOptionError
from formcompiler.frontend.integrals import FormIntegral
from formcompiler.kernels import Kernel, describe_operations
from formcompiler.licm.transform import explain as explain_motion
from formcompiler.options import Options

_ENTITIES = {
    "cell": "cells",
    "cutcell": "cut cells",
    "interface": "interfaces",
    "exterior_facet": "boundary facets",
    "interior_facet": "interior facets",
    "vertex": "vertices",
    "expression": "points",
}
_HEADER = (
    *("kernel", "entities", "ids", "degree", "points", "strategy", "dofs", "flops", "table bytes", "array bytes"),
    *("temporaries", "their bytes"),
)
_LEFT = 3
"""Number of columns that are aligned to the left."""

_COLOUR = re.compile("\x1b\\[[0-9;]*m")
"""What loopy writes for terminals."""

Kernels = Sequence[tuple[str, Kernel]]
"""Kernels with their roles."""


@dataclass
class StageRecord:
    """What an observer of the compilation saw.

    Attributes:
        seconds: Time of each stage, summed over kernels, in the order of the stages.
        texts: Text of each kernel after each stage, by (kernel, stage).
        linearized: Each kernel before loop-invariant code motion.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    texts: dict[tuple[str, str], str] = field(default_factory=dict)
    linearized: dict[str, lp.TranslationUnit] = field(default_factory=dict)
    is_keeping_texts: bool = False

    def observe(self, kernel: str, stage: str, seconds: float, t_unit: lp.TranslationUnit | None) -> None:
        """Record one stage of one kernel."""
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
        if stage == "linearize" and t_unit is not None:
            self.linearized[kernel] = t_unit
        if self.is_keeping_texts and t_unit is not None:
            self.texts[kernel, stage] = _COLOUR.sub("", str(t_unit.default_entrypoint))


@dataclass(frozen=True)
class Memory:
    """Memory that one call of a kernel touches.

    Attributes:
        tables: Bytes of constant tables.
        arrays: Bytes of parameters, read or written, save points and weights that are given at run time.
        n_temporaries: Number of variables on the stack, arrays and scalars.
        temporaries: Their bytes.
    """

    tables: int
    arrays: int
    n_temporaries: int
    temporaries: int


def measure_memory(t_unit: lp.TranslationUnit) -> Memory:
    """Return the memory of a kernel, each array counted once."""
    kernel = t_unit.default_entrypoint
    tables = [t.initializer for t in kernel.temporary_variables.values() if t.initializer is not None]
    temporaries = [t for t in kernel.temporary_variables.values() if t.initializer is None]
    return Memory(
        sum(table.nbytes for table in tables),
        sum(_n_bytes(a) for a in kernel.args if _has_known_shape(a)),
        len(temporaries),
        sum(_n_bytes(t) for t in temporaries),
    )


def _has_known_shape(argument: Any) -> bool:
    return all(isinstance(n, int | np.integer) for n in getattr(argument, "shape", ("a number",)))


def _n_bytes(array: Any) -> int:
    itemsize = 8 if array.dtype is None else np.dtype(array.dtype.numpy_dtype).itemsize
    return math.prod(int(n) for n in array.shape or ()) * int(itemsize)


def report_file(form_file: Any, options: Options, dump: str | None = None) -> str:
    """Return a report on the operators of a form file.

    Args:
        form_file: The file, as `load_form_file` returns it.
        options: Options of the compilation.
        dump: Stage whose result is shown as well ("all": each stage), or None.

    Raises:
        InvalidOptionError: if there is no such stage.
        UnsupportedFormError: if a form is outside the language.
    """
    parts, dumps, totals = [], [], StageRecord()
    for title, kernels, record in _compile(form_file, options, dump is not None):
        parts.append(_report_kernels(f"{title}; options: {options.provenance()}", kernels))
        parts.append(_report_motion(kernels, record, options.licm))
        dumps += _dump(kernels, record, dump) if dump is not None else []
        for name, seconds in record.seconds.items():
            totals.observe("", name, seconds, None)
    if dump not in (None, "all", *totals.seconds):
        raise InvalidOptionError(f"no stage '{dump}' to show: choose one of {', '.join(totals.seconds)}, all")
    return "\n\n".join([*parts, _report_times(totals), *dumps])


def _compile(form_file: Any, options: Options, is_dumping: bool) -> Iterator[tuple[str, Kernels, StageRecord]]:
    """Compile operator after operator, then the expressions."""
    for forms in plan_file(form_file, options):
        record = StageRecord(is_keeping_texts=is_dumping)
        operator = compile_operator(forms, form_file.names, options, record.observe)
        yield _title(operator), operator.kernels, record
    if form_file.expressions:
        record = StageRecord(is_keeping_texts=is_dumping)
        yield "expressions", compile_expressions(form_file, options, record.observe), record


def _title(operator: CompiledOperator) -> str:
    forms = operator.forms
    if "functional" in forms.forms:
        return f"{forms.name}: functional"
    if forms.unknown is None:
        return f"{forms.name}: linear form"
    return f"{forms.name}: {'linear' if forms.is_linear else 'nonlinear'} residual, unknown {operator.names.unknown}"


def _report_kernels(title: str, kernels: Kernels) -> str:
    rows = [_row(kernel) for _, kernel in kernels]
    notes = dict.fromkeys(f"plain loops because of: {k.reason}" for _, k in kernels if k.reason)
    symmetric = [row[0] for row, (_, k) in zip(rows, kernels, strict=True) if k.symmetric]
    if symmetric:
        notes[f"symmetric: one triangle: {', '.join(symmetric)}"] = None
    return "\n".join([title, *_align([_HEADER, *rows]), *notes])


def _report_motion(kernels: Kernels, record: StageRecord, mode: str) -> str:
    """Return what loop-invariant code motion did: operations, values made at each depth of loops, and their memory."""
    if mode == "off":
        return "loop-invariant code motion: off"
    header = ("loop-invariant code motion", "mode", "flops before", "after", "values made, by loops around", "bytes")
    rows, notes = [header], []
    for _, kernel in kernels:
        done = explain_motion(record.linearized[kernel.method.name], mode)
        name = kernel.method.name.removesuffix("_kernel")
        depths = ", ".join(f"{depth}: {n}" for depth, n in done.by_depth.items()) or "-"
        counts = (str(done.flops_before), str(done.flops_after))
        rows.append((name, done.used, *counts, depths, str(done.temporary_bytes)))
        notes += [f"{name}: {done.used} instead of {mode}: {done.fallback}"] * bool(done.fallback)
    return "\n".join([*_align(rows), *notes])


def _row(kernel: Kernel) -> tuple[str, ...]:
    integral = kernel.integral
    memory = measure_memory(kernel.t_unit)
    rules = [i.rule for i in integral.integrands]
    return (
        kernel.method.name.removesuffix("_kernel"),
        _ENTITIES[integral.integral_type],
        _ids(integral),
        "+".join("-" if rule.is_runtime else str(rule.degree) for rule in rules),
        "+".join("n" if rule.is_runtime else str(rule.n_points) for rule in rules),
        "factorized" if kernel.factorized else "plain loops",
        " x ".join(str(integral.n_sides * element.dim) for element in integral.arguments) or "-",
        describe_operations(kernel),
        str(memory.tables),
        str(memory.arrays),
        str(memory.n_temporaries),
        str(memory.temporaries),
    )


def _ids(integral: FormIntegral) -> str:
    ids = integral.subdomain_ids
    return "all" if "otherwise" in ids or not ids else ",".join(map(str, ids))


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines with aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column < _LEFT else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def _report_times(record: StageRecord) -> str:
    rows = [("stage", "", "", "seconds"), *((name, "", "", f"{s:.3f}") for name, s in record.seconds.items())]
    return "\n".join(_align(rows))


def _dump(kernels: Kernels, record: StageRecord, dump: str) -> list[str]:
    """Return each kernel after the chosen stages; after "emit" that is C++."""
    parts = []
    for _, kernel in kernels:
        name = kernel.method.name
        for owner, stage in record.texts:
            if owner == name and dump in ("all", stage):
                text = kernel.method.text if stage == "emit" else record.texts[name, stage]
                parts.append(f"=== {name.removesuffix('_kernel')} after {stage}\n{text}")
    return parts
