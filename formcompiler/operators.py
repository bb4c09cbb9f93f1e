"""From a form file to C++ headers: plan the operators, compile their kernels, write their classes."""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import formcompiler
from formcompiler.codegen.header import Provenance, SourceFile, write_header
from formcompiler.codegen.local_operator import write_class
from formcompiler.codegen.operator_code import RESERVED_IN_CLASS, KernelRole, OperatorCode, OperatorKernel
from formcompiler.elements import cells
from formcompiler.frontend.analysis import analyse_form
from formcompiler.frontend.integrals import FormIntegral
from formcompiler.frontend.operators import OperatorForms, OperatorNames, name_data, plan_operators
from formcompiler.kernels import Kernel, StageObserver, compile_kernel
from formcompiler.naming import Namer, to_identifier
from formcompiler.options import REAL_TYPE, Options

_log = logging.getLogger(__name__)
_WHERE = {"cell": "volume", "exterior_facet": "boundary", "interior_facet": "skeleton", "vertex": "vertex"}
_MOST_IDS_IN_NAME = 4


@dataclass(frozen=True, eq=False)
class CompiledOperator:
    """An operator with its kernels.

    Attributes:
        forms: Where it comes from.
        names: Names of its data.
        kernels: Role and kernel, in the order of the class.
        signatures: Role and signature of each form.
    """

    forms: OperatorForms
    names: OperatorNames
    kernels: tuple[tuple[KernelRole, Kernel], ...]
    signatures: tuple[tuple[str, str], ...]


def compile_operators(form_file: Any, options: Options, observe: StageObserver | None = None) -> list[CompiledOperator]:
    """Return the compiled operators of a form file (as `load_form_file` returns it).

    Raises:
        UnsupportedFormError: if a form is outside the language, or its unknown is ambiguous.
    """
    planned = plan_operators(
        form_file.operator_name,
        [(named.name, named.form) for named in form_file.forms],
        form_file.names,
        form_file.problem,
        symbolic=options.jacobian == "symbolic",
    )
    return [compile_operator(forms, form_file.names, options, observe) for forms in planned]


def compile_operator(
    forms: OperatorForms, names: Any, options: Options, observe: StageObserver | None = None
) -> CompiledOperator:
    """Return one compiled operator; names are the user's by id."""
    data_names = name_data(forms, names, RESERVED_IN_CLASS)
    namer = Namer()
    kernels: list[tuple[KernelRole, Kernel]] = []
    signatures = []
    for role, form in forms.forms.items():
        diagonal = role == "jacobian" and options.part == "diagonal"
        used = options if diagonal else replace(options, part="full")
        analysed = analyse_form(form, used, data_names.by_id)
        signatures.append((role, analysed.signature))
        for integral in analysed.integrals:
            kernel_role = _role(role, integral, data_names.unknown, diagonal)
            name = namer.unique(_kernel_name(kernel_role, integral, analysed.integrals))
            kernels.append((kernel_role, compile_kernel(integral, f"{name}_kernel", used, observe)))
    return CompiledOperator(forms, data_names, tuple(kernels), tuple(signatures))


def _role(role: KernelRole, integral: FormIntegral, unknown: str, diagonal: bool) -> KernelRole:
    """Return the role of one integral: parts of a residual without the unknown are loads."""
    if role == "residual" and all(c.name != unknown for c in integral.coefficients):
        return "load"
    return "diagonal" if diagonal else role


def _kernel_name(role: str, integral: FormIntegral, others: Sequence[FormIntegral]) -> str:
    """Return a name such as "residual_boundary" or, if there are several, "residual_boundary_3"."""
    where = _WHERE[integral.integral_type]
    name = where if role == "functional" else f"{role}_{where}"
    if sum(other.integral_type == integral.integral_type for other in others) == 1:
        return name
    ids = [i for i in integral.subdomain_ids if isinstance(i, int)]
    if not ids or len(ids) > _MOST_IDS_IN_NAME:
        return name
    return "_".join([name, *(str(i).replace("-", "minus") for i in ids)])


def write_operator(operator: CompiledOperator, source: str, options: Options) -> SourceFile:
    """Return the header of an operator; source is the name of the form file."""
    code = operator_code(operator, options)
    if code.refusal:
        _log.warning("%s: kernels only, no local operator: %s", operator.forms.name, code.refusal)
    provenance = Provenance(formcompiler.__version__, source, options.provenance(), operator.signatures)
    return write_header(operator.forms.name, provenance, [write_class(code)])


def operator_code(operator: CompiledOperator, options: Options) -> OperatorCode:
    """Return what the writer of the class needs."""
    forms, names = operator.forms, operator.names
    kernels = tuple(OperatorKernel(role, k.integral, k.method, _describe(role, k)) for role, k in operator.kernels)
    return OperatorCode(
        class_name=to_class_name(forms.name),
        title=_title(forms, names),
        scalar_type=options.scalar_type,
        real_type=REAL_TYPE[options.scalar_type],
        kernels=kernels,
        test=forms.test_element,
        trial=forms.trial_element,
        unknown=names.unknown,
        direction=names.direction,
        is_linear=forms.is_linear,
        is_homogeneous=forms.is_homogeneous,
        numerical=options.jacobian == "numerical",
        coefficients=tuple(zip(names.coefficients, (_element(c) for c in forms.coefficients()), strict=True)),
        constants=tuple(zip(names.constants, (tuple(c.ufl_shape) for c in forms.constants()), strict=True)),
        refusal=find_refusal([k.integral for _, k in operator.kernels]),
    )


def _element(coefficient: Any) -> Any:
    return coefficient.ufl_function_space().ufl_element()


def to_class_name(name: str) -> str:
    """Return a name such as NonlinearPoisson for nonlinear_poisson."""
    words = [word for word in to_identifier(name).split("_") if word]
    return "".join(word[0].upper() + word[1:] for word in words)


def find_refusal(integrals: Sequence[FormIntegral]) -> str:
    """Return why integrals fit no local operator, or ""."""
    for integral in integrals:
        if integral.integral_type == "vertex":
            return "it has an integral over vertices (dP), and local operators see cells and facets only"
        if integral.cell not in (*cells.TENSOR_CELLS, *cells.SIMPLICES):
            return f"DUNE's facets of the cell {integral.cell} have several shapes"
        n_corners = len(cells.vertices(integral.cell))
        if integral.coordinate_element.dim != n_corners * integral.gdim:
            return (
                "the geometry of the mesh is of higher order, and local operators learn the corners of a cell only; "
                "use a coordinate element of degree 1"
            )
    return ""


def _title(forms: OperatorForms, names: OperatorNames) -> str:
    if "functional" in forms.forms:
        return f"Kernels of the functional {forms.name}."
    if forms.unknown is None:
        return f"Local operator of the linear form {forms.name}."
    kind = "linear" if forms.is_linear else "nonlinear"
    return f"Local operator {forms.name}: {kind} in its unknown {names.unknown}."


_ROLE_TEXT = {
    "residual": "Residual",
    "load": "Part of the residual without unknown",
    "jacobian": "Jacobian of the residual, axes (test, trial)",
    "jacobian_apply": "Jacobian of the residual times a direction",
    "diagonal": "Diagonal of the Jacobian of the residual",
    "functional": "Functional",
}
_ENTITIES = {"cell": "cells", "exterior_facet": "boundary facets", "interior_facet": "interior facets"}


def _describe(role: str, kernel: Kernel) -> str:
    integral = kernel.integral
    ids = [str(i) for i in integral.subdomain_ids if i != "otherwise"]
    if "otherwise" in integral.subdomain_ids:
        ids = []
    entities = _ENTITIES.get(integral.integral_type, "vertices")
    which = f"with id {' or '.join(ids)}" if ids else "(all)"
    rules = [f"degree {i.rule.degree} with {i.rule.n_points} points" for i in integral.integrands]
    how = "sum-factorized" if kernel.factorized else "plain loops"
    return (
        f"{_ROLE_TEXT[role]} on {entities} {which}; quadrature of {' and '.join(rules)}, {how}, "
        f"{kernel.operations} operations."
    )


def compile_file(form_file: Any, output_dir: Path | str, options: Options) -> list[Path]:
    """Write one header for each operator of a form file and return their paths.

    All text is made before anything is written, and each file appears in one step: an error leaves no half header.

    Raises:
        UnsupportedFormError: if a form is outside the language.
        OSError: if a file cannot be written.
    """
    operators = compile_operators(form_file, options)
    files = [write_operator(operator, form_file.path.name, options) for operator in operators]
    directory = Path(output_dir)
    directory.mkdir(parents=True, exist_ok=True)
    return [_write(directory, file) for file in files]


def _write(directory: Path, file: SourceFile) -> Path:
    """Write one file under a temporary name and rename it."""
    path = directory / file.name
    handle, temporary = tempfile.mkstemp(prefix=f".{file.name}-", dir=directory)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(file.text)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
