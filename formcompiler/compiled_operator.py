"""The kernels of operators and expressions: from the forms of a file through analysis to C++ functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from formcompiler.codegen.operator_code import RESERVED_IN_CLASS, WHERE, KernelRole
from formcompiler.errors import UnsupportedFormError
from formcompiler.frontend.analysis import analyse_expression, analyse_form
from formcompiler.frontend.integrals import FormIntegral
from formcompiler.frontend.operators import OperatorForms, OperatorNames, name_data, plan_operators
from formcompiler.kernels import Kernel, StageObserver, compile_kernel
from formcompiler.naming import Namer, to_identifier
from formcompiler.options import Options
from formcompiler.progress import stage

_MOST_IDS_IN_NAME = 4
_FOR_ONE_CELL = {"cells": "none", "auto": "in_cell", "autotune": "in_cell"}
"""How kernels for one cell are vectorized if there are kernels for batches of cells beside them."""


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


def plan_file(form_file: Any, options: Options) -> list[OperatorForms]:
    """Return the operators that a form file asks for (as `load_form_file` returns it), main one first.

    Raises:
        UnsupportedFormError: if a form is no form, or its unknown is ambiguous.
    """
    with stage("plan operators"):
        return plan_operators(
            form_file.operator_name,
            [(named.name, named.form) for named in form_file.forms],
            form_file.names,
            form_file.problem,
            symbolic=options.jacobian == "symbolic",
        )


def compile_operator(
    forms: OperatorForms, names: Mapping[int, str], options: Options, observe: StageObserver | None = None
) -> CompiledOperator:
    """Return one compiled operator.

    Args:
        forms: What to compile; with ``part="diagonal"`` the diagonal of the Jacobian is compiled as well, with
            ``vectorize="cells"`` or "auto" a second kernel of each kind that works on a batch of cells.
        names: The user's names by ``id(object)``.
        options: Options of the compilation.
        observe: Called after each stage of each kernel.

    Raises:
        UnsupportedFormError: if a form is outside the language.
    """
    data_names = name_data(forms, names, RESERVED_IN_CLASS)
    namer = Namer()
    kernels: list[tuple[KernelRole, Kernel]] = []
    signatures = []
    for role, form in forms.forms.items():
        with stage("analyse forms"):
            analysed = analyse_form(form, replace(options, part="full"), data_names.by_id)
        signatures.append((role, analysed.signature))
        for kernel_role, suffix, used in _variants(role, options):
            for integral in analysed.integrals:
                actual = _role(kernel_role, integral, data_names.unknown)
                name = namer.unique(_kernel_name(actual, integral, analysed.integrals) + suffix)
                with stage("compile kernels"):
                    kernel = compile_kernel(integral, f"{name}_kernel", used, observe)
                kernels.append(("batch" if suffix else actual, kernel))
    if not kernels:
        raise UnsupportedFormError(f"all integrals of {forms.name} are zero: there is nothing to compile")
    return CompiledOperator(forms, data_names, tuple(kernels), tuple(signatures))


def compile_expressions(
    form_file: Any, options: Options, observe: StageObserver | None = None
) -> list[tuple[KernelRole, Kernel]]:
    """Return the kernels of a form file's expressions.

    Raises:
        UnsupportedFormError: if an expression is outside the language.
    """
    namer = Namer()
    kernels: list[tuple[KernelRole, Kernel]] = []
    options = replace(options, vectorize="none", part="full")
    for named in form_file.expressions:
        integral = analyse_expression(named.expression, named.points, options, form_file.names)
        name = f"{namer(named.name)}_kernel"
        kernels.append(("expression", compile_kernel(integral, name, options, observe)))
    return kernels


def _variants(role: KernelRole, options: Options) -> list[tuple[KernelRole, str, Options]]:
    """Return role, suffix of the name and options of all kernels that are made of one integral."""
    single = replace(options, part="full", vectorize=_FOR_ONE_CELL.get(options.vectorize, options.vectorize))
    found = [(role, "", single)]
    if role == "jacobian" and options.part == "diagonal":
        found.append(("diagonal", "", replace(single, part="diagonal")))
    if options.vectorize in _FOR_ONE_CELL:
        found += [(r, "_batch", replace(used, vectorize="cells")) for r, _, used in found]
    return found


def _role(role: KernelRole, integral: FormIntegral, unknown: str) -> KernelRole:
    """Return the role of one integral: parts of a residual without the unknown are loads."""
    if role == "residual" and all(c.name != unknown for c in integral.coefficients):
        return "load"
    return role


def _are_alike(integral: FormIntegral, other: FormIntegral) -> bool:
    return (integral.integral_type, integral.is_runtime) == (other.integral_type, other.is_runtime)


def _kernel_name(role: str, integral: FormIntegral, others: Sequence[FormIntegral]) -> str:
    """Return a name such as "residual_boundary" or, if there are several, "residual_boundary_3"."""
    name = f"{to_identifier(role)}_{WHERE[integral.integral_type]}"
    if integral.is_runtime:
        name += f"_{integral.integral_type}" if integral.integral_type in ("cutcell", "interface") else "_runtime"
    if sum(_are_alike(integral, other) for other in others) == 1:
        return name
    ids = [i for i in integral.subdomain_ids if isinstance(i, int)]
    if not ids or len(ids) > _MOST_IDS_IN_NAME:
        return name
    return "_".join([name, *(str(i).replace("-", "minus") for i in ids)])
