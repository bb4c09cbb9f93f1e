"""Forms of block systems: the parts of an argument become components of one argument of a mixed space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ufl
from ufl.formoperators import _MixedElement as _ElementOfUfl

from formcompiler.elements.mixed import mixed_element
from formcompiler.errors import UnsupportedFormError


def join_blocks(form: Any) -> Any:
    """Return a form in which each argument is one function of a space of basix.ufl.

    The arguments of a ``ufl.MixedFunctionSpace`` come in parts; together they are an argument of the mixed element,
    whose dofs are those of the parts behind one another. A form with one part of an argument is a block of its own.
    ``ufl.derivative`` with respect to several coefficients makes an argument of an element that has no tables.

    Raises:
        UnsupportedFormError: if the form has several parts of an argument, but not all up to the last one, or parts
            on several meshes.
    """
    if not isinstance(form, ufl.Form):
        return form
    parts: dict[int, list[Any]] = {}
    for argument in form.arguments():
        parts.setdefault(argument.number(), []).append(argument)
    replaced: dict[Any, Any] = {}
    for number, arguments in parts.items():
        replaced |= _join(number, sorted(arguments, key=lambda a: a.part() or 0))
    return ufl.replace(form, replaced) if replaced else form


def _join(number: int, arguments: Sequence[Any]) -> Mapping[Any, Any]:
    """Return what stands for each part of one argument; nothing if it can stay."""
    if len(arguments) > 1:
        _check_parts(number, arguments)
        element = mixed_element([a.ufl_function_space().ufl_element() for a in arguments])
        return dict(zip(arguments, ufl.split(_make_argument(arguments[0], element, number)), strict=True))
    (argument,) = arguments
    element = argument.ufl_function_space().ufl_element()
    if isinstance(element, _ElementOfUfl):
        element = mixed_element(element.sub_elements)
    elif argument.part() is None:
        return {}
    return {argument: _make_argument(argument, element, number)}


def _make_argument(model: Any, element: Any, number: int) -> Any:
    make: Any = ufl.FunctionSpace
    return ufl.Argument(make(model.ufl_function_space().ufl_domain(), element), number)


def _check_parts(number: int, arguments: Sequence[Any]) -> None:
    what = "trial" if number else "test"
    given = [a.part() for a in arguments]
    if None in given or given != list(range(len(given))):
        raise UnsupportedFormError(
            f"the form has the parts {', '.join(map(str, given))} of the {what} function of a MixedFunctionSpace, but "
            "not those between them: where its block stands is not known. Use all parts, or compile each block of "
            "ufl.extract_blocks(form) as a form of its own"
        )
    domains = {a.ufl_function_space().ufl_domain() for a in arguments}
    if len(domains) > 1:
        raise UnsupportedFormError(
            f"the parts of the {what} function of a MixedFunctionSpace live on {len(domains)} meshes; a form has one"
        )
