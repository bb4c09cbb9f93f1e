"""From a form file to C++ headers: one for each operator, one for its expressions, one for its elements."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import formcompiler
from formcompiler.codegen.element_class import write_element
from formcompiler.codegen.header import Provenance, SourceFile, write_header
from formcompiler.codegen.local_operator import write_class
from formcompiler.codegen.operator_code import OperatorCode, OperatorKernel
from formcompiler.compiled_operator import CompiledOperator, compile_expressions, compile_operator, plan_file
from formcompiler.elements import cells
from formcompiler.frontend.integrals import IN_CELLS, FormIntegral
from formcompiler.frontend.operators import OperatorForms, OperatorNames
from formcompiler.kernels import Kernel, describe_operations
from formcompiler.naming import Namer, to_identifier
from formcompiler.options import REAL_TYPE, Options
from formcompiler.progress import stage
from formcompiler.runtime.compiler import write_atomically

_log = logging.getLogger(__name__)


def compile_file(form_file: Any, output_dir: Path | str, options: Options) -> list[Path]:
    """Write the headers of a form file (as `load_form_file` returns it) and return their paths.

    All text is made before anything is written, and each file appears in one step: an error leaves no half header.

    Raises:
        UnsupportedFormError: if a form is outside the language, or its unknown is ambiguous.
        OSError: if a file cannot be written.
    """
    files = make_headers(form_file, options)
    directory = Path(output_dir)
    directory.mkdir(parents=True, exist_ok=True)
    with stage("write headers"):
        return [_write(directory, file) for file in files]


def make_headers(form_file: Any, options: Options) -> list[SourceFile]:
    """Return the headers of a form file: ``NAME.hh`` for its main operator, ``NAME_FORM.hh`` for other forms.

    Expressions come into ``NAME_expressions.hh``, elements into ``NAME_elements.hh``.

    Raises:
        UnsupportedFormError: if a form is outside the language, or its unknown is ambiguous.
    """
    source = form_file.path.name
    operators = [compile_operator(o, form_file.names, options) for o in plan_file(form_file, options)]
    files = [write_operator(operator, source, options) for operator in operators]
    if form_file.expressions:
        files.append(_write_expressions(form_file, options))
    if form_file.elements:
        files.append(_write_elements(form_file, options))
    return files


def write_operator(operator: CompiledOperator, source: str, options: Options) -> SourceFile:
    """Return the header of an operator; source is the name of the form file."""
    code = operator_code(operator, options)
    if code.refusal:
        _log.warning("%s: kernels only, no local operator: %s", operator.forms.name, code.refusal)
    name = to_identifier(operator.forms.name)
    return write_header(name, _provenance(source, options, operator.signatures), [write_class(code)])


def _provenance(source: str, options: Options, signatures: Sequence[tuple[str, str]] = ()) -> Provenance:
    return Provenance(formcompiler.__version__, source, options.provenance(), tuple(signatures))


def operator_code(operator: CompiledOperator, options: Options) -> OperatorCode:
    """Return what the writer of the class needs."""
    forms, names = operator.forms, operator.names
    return OperatorCode(
        class_name=to_class_name(forms.name),
        title=_title(forms, names),
        scalar_type=options.scalar_type,
        real_type=REAL_TYPE[options.scalar_type],
        kernels=tuple(OperatorKernel(role, k.integral, k.method, _describe(role, k)) for role, k in operator.kernels),
        test=forms.test_element,
        trial=forms.trial_element,
        unknown=names.unknown,
        direction=names.direction,
        is_linear=forms.is_linear,
        is_homogeneous=forms.is_homogeneous,
        numerical=options.jacobian == "numerical",
        coefficients=tuple(zip(names.coefficients, map(_element, forms.coefficients()), strict=True)),
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
        if integral.is_runtime and integral.integral_type not in IN_CELLS:
            return (
                "it has an integral over facets with quadrature_rule 'runtime', whose points are in the facet's own "
                "coordinates, and assemblers number facets in other ways"
            )
        if integral.cell not in (*cells.TENSOR_CELLS, *cells.SIMPLICES):
            return f"the facets of the cell {integral.cell} have several shapes"
        if integral.coordinate_element.dim != len(cells.vertices(integral.cell)) * integral.gdim:
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
    "jacobian": "Jacobian of the residual, axes (test, trial),",
    "jacobian_apply": "Jacobian of the residual times a direction",
    "diagonal": "Diagonal of the Jacobian of the residual",
    "functional": "Functional",
    "expression": "Expression, axes (point, component, argument...),",
}
_ENTITIES = {
    "cell": "cells",
    "cutcell": "cut cells",
    "interface": "interfaces inside of cells",
    "exterior_facet": "boundary facets",
    "interior_facet": "interior facets",
}


def _describe(role: str, kernel: Kernel) -> str:
    integral = kernel.integral
    how = f"{'sum-factorized' if kernel.factorized else 'plain loops'}, {describe_operations(kernel)} operations."
    if integral.integral_type == "expression":
        return f"{_ROLE_TEXT[role]} at {integral.integrands[0].rule.n_points} points; {how}"
    ids = [str(i) for i in integral.subdomain_ids if i != "otherwise"]
    is_everywhere = "otherwise" in integral.subdomain_ids
    which = "" if is_everywhere else f" with id {' or '.join(ids)}"
    rules = " and ".join(f"degree {i.rule.degree} with {i.rule.n_points} points" for i in integral.integrands)
    rules = "n points given by the caller" if integral.is_runtime else rules
    entities = _ENTITIES.get(integral.integral_type, "vertices")
    what = _ROLE_TEXT.get(role, "")
    if role == "batch":
        what = f"{kernel.method.name.replace('_batch', '')} for a batch: each array's last axis is the cell,"
    return f"{what} on {'all ' if is_everywhere else ''}{entities}{which}; quadrature of {rules}; {how}"


def _write_expressions(form_file: Any, options: Options) -> SourceFile:
    kernels = compile_expressions(form_file, options)
    code = OperatorCode(
        class_name=to_class_name(f"{form_file.operator_name}_expressions"),
        title=f"Expressions of {form_file.path.name}.",
        scalar_type=options.scalar_type,
        real_type=REAL_TYPE[options.scalar_type],
        kernels=tuple(OperatorKernel(role, k.integral, k.method, _describe(role, k)) for role, k in kernels),
    )
    name = to_identifier(f"{form_file.operator_name}_expressions")
    return write_header(name, _provenance(form_file.path.name, options), [write_class(code)])


def _write_elements(form_file: Any, options: Options) -> SourceFile:
    namer = Namer()
    classes = []
    for number, element in enumerate(form_file.elements):
        wish = form_file.names.get(id(element), f"element_{number}")
        classes.append(write_element(namer.unique(to_class_name(f"{form_file.operator_name}_{wish}")), element))
    name = to_identifier(f"{form_file.operator_name}_elements")
    return write_header(name, _provenance(form_file.path.name, options), classes)


def _write(directory: Path, file: SourceFile) -> Path:
    path = directory / file.name
    write_atomically(path, file.text.encode())
    return path
