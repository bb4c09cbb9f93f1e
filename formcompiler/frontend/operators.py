"""From the forms of a file to operators: which form is a residual, of which unknown, and how it is differentiated.

An operator is one of

* a residual ``F(u; v)``, differentiated by UFL with respect to its unknown u;
* a pair ``a(u, v)``, ``L(v)`` with the residual a(u, v) - L(v); one of the two may be missing;
* a functional: kernels without an operator around them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import ufl
import ufl.classes as uc
from ufl.algorithms import expand_derivatives
from ufl.algorithms.analysis import extract_coefficients

from formcompiler.errors import UnsupportedFormError
from formcompiler.frontend.blocks import join_blocks
from formcompiler.frontend.checks import check_form
from formcompiler.frontend.ufl_errors import errors_of_ufl
from formcompiler.naming import Namer, to_identifier

Role = Literal["residual", "load", "jacobian", "jacobian_apply", "functional"]


@dataclass(frozen=True, eq=False)
class OperatorForms:
    """The forms of one operator.

    Attributes:
        name: What the file (or the form file's variable) calls it.
        forms: The form of each role: "residual" contains the unknown, "load" does not and is added to it as well,
            "jacobian" is bilinear, "jacobian_apply" is the Jacobian times the direction.
        unknown: Coefficient that stands for the unknown, or None.
        direction: Coefficient that stands for the direction of "jacobian_apply", or None.
        is_linear: Whether the Jacobian does not depend on the unknown.
        is_homogeneous: Whether the residual is the Jacobian times the unknown, so that one kernel serves both.
    """

    name: str
    forms: Mapping[Role, Any]
    unknown: Any = None
    direction: Any = None
    is_linear: bool = True
    is_homogeneous: bool = False

    @property
    def test_element(self) -> Any:
        """Return the element of the test functions, or None for functionals."""
        arguments = [form.arguments() for form in self.forms.values() if form.arguments()]
        return arguments[0][0].ufl_function_space().ufl_element() if arguments else None

    @property
    def trial_element(self) -> Any:
        """Return the element of the unknown, or None if there is none."""
        return None if self.unknown is None else self.unknown.ufl_function_space().ufl_element()

    def coefficients(self) -> list[Any]:
        """Return all coefficients but the unknown and the direction, in the order of their first use."""
        found = [c for form in self.forms.values() for c in form.coefficients()]
        return [c for c in dict.fromkeys(found) if c not in (self.unknown, self.direction)]

    def constants(self) -> list[Any]:
        """Return all constants, in the order of their first use."""
        return list(dict.fromkeys(c for form in self.forms.values() for c in form.constants()))


@dataclass(frozen=True, eq=False)
class OperatorNames:
    """C++ names of an operator's data, the same in all of its kernels.

    Attributes:
        unknown: Name of the unknown.
        direction: Name of the direction.
        coefficients: Names in the order of `OperatorForms.coefficients`.
        constants: Names in the order of `OperatorForms.constants`.
        by_id: Name of each of these objects by its id, as `analyse_form` takes it.
    """

    unknown: str
    direction: str
    coefficients: tuple[str, ...]
    constants: tuple[str, ...]
    by_id: Mapping[int, str]


def name_data(operator: OperatorForms, names: Mapping[int, str], reserved: Sequence[str]) -> OperatorNames:
    """Return unique names: the user's where there are any, else ``u``, ``direction``, ``w0`` ..., ``c0`` ...."""
    namer = Namer(reserved)
    unknown = _name(namer, names.get(id(operator.unknown), "u"))
    coefficients = [_name(namer, names.get(id(c), f"w{i}")) for i, c in enumerate(operator.coefficients())]
    constants = [_name(namer, names.get(id(c), f"c{i}")) for i, c in enumerate(operator.constants())]
    direction = _name(namer, "direction")
    known = dict(zip([*operator.coefficients(), *operator.constants()], [*coefficients, *constants], strict=True))
    known |= {c: n for c, n in ((operator.unknown, unknown), (operator.direction, direction)) if c is not None}
    objects = [o for form in operator.forms.values() for o in (*form.coefficients(), *form.constants())]
    by_id = {id(o): known[o] for o in objects}
    return OperatorNames(unknown, direction, tuple(coefficients), tuple(constants), by_id)


def _name(namer: Namer, wish: str) -> str:
    """Return a unique name that stays as it is when it is made an identifier again."""
    base = to_identifier(wish)
    name = namer.unique(base)
    return name if to_identifier(name) == name else namer.unique(f"{base.rstrip('_')}_data")


def plan_operators(
    stem: str,
    forms: Sequence[tuple[str, Any]],
    names: Mapping[int, str],
    problem: Any | None = None,
    *,
    symbolic: bool = True,
) -> list[OperatorForms]:
    """Return the operators that the forms of a file make up.

    Args:
        stem: Name of the file; the operator of the problem, of F, or of a and L is called so, and a single one as well.
        forms: Names and forms, such as ("a", ...), ("L", ...).
        names: The user's names by ``id(object)``; a coefficient called u is an unknown.
        problem: Object with the attributes residual, unknown and jacobian, or None.
        symbolic: Whether to differentiate; otherwise "jacobian" and "jacobian_apply" are missing.

    Raises:
        UnsupportedFormError: if it is not clear which coefficient is the unknown, or UFL refuses the form.
    """
    with errors_of_ufl([form for _, form in forms], names):
        forms = [(name, join_blocks(form)) for name, form in forms]
        for _, form in forms:
            check_form(form)
            _check_rank(form)
        operators = _Planner(stem, _with_unique_names(forms), names, problem).plan()
    if len(operators) == 1:
        operators = [replace(operators[0], name=stem)]
    return operators if symbolic else [_without_derivatives(operator) for operator in operators]


def _check_rank(form: Any) -> None:
    arguments = form.arguments()
    numbers = [argument.number() for argument in arguments]
    if numbers not in ([], [0], [0, 1]):
        raise UnsupportedFormError(
            f"the form has arguments with the numbers {numbers}; an operator has a test function (0) and perhaps a "
            "trial function (1)"
        )


def _with_unique_names(forms: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return each form once, with a name of its own."""
    namer = Namer()
    once = {id(form): (name, form) for name, form in reversed(forms)}
    kept = [(name, form) for name, form in forms if once.pop(id(form), None) is not None]
    return [(namer.unique(name), form) for name, form in kept]


def _without_derivatives(operator: OperatorForms) -> OperatorForms:
    kept = {role: form for role, form in operator.forms.items() if role not in ("jacobian", "jacobian_apply")}
    return replace(operator, forms=kept)


class _Planner:
    """Sorts the forms of a file into operators; each form is used once."""

    def __init__(self, stem: str, forms: list[tuple[str, Any]], names: Mapping[int, str], problem: Any | None) -> None:
        self._stem = stem
        self._rest = forms
        self._names = names
        self._problem = problem

    def plan(self) -> list[OperatorForms]:
        """Return all operators, the file's main one first."""
        order = [name for name, _ in self._rest]
        operators = list(self._of_problem())
        operators += self._of_pair(f"{self._stem}_a" if operators else self._stem)
        operators += self._of_residual_f(f"{self._stem}_F" if operators else self._stem)
        free = {}
        for rank in (1, 2, 0):  # linear forms first: they may claim a bilinear form as their Jacobian
            for entry in [entry for entry in self._rest if _rank(entry[1]) == rank]:
                if any(entry is other for other in self._rest):
                    self._rest = [other for other in self._rest if other is not entry]
                    free[entry[0]] = self._free(f"{self._stem}_{entry[0]}", *entry)
        return [*operators, *(free[name] for name in order if name in free)]

    def _of_problem(self) -> Iterator[OperatorForms]:
        if self._problem is None:
            return
        residual = self._problem.residual
        jacobian = self._problem.jacobian
        check_form(residual)
        self._rest = [(name, form) for name, form in self._rest if not form.equals(residual)]
        if jacobian is None:
            jacobian = self._take_jacobian(residual, self._problem.unknown)
        else:
            self._rest = [(name, form) for name, form in self._rest if not form.equals(jacobian)]
        yield make_residual(self._stem, residual, self._problem.unknown, jacobian)

    def _of_pair(self, name: str) -> Iterator[OperatorForms]:
        named = dict(self._rest)
        if {"a", "L"} <= named.keys() and _rank(named["a"]) == 2 and _rank(named["L"]) == 1:
            self._rest = [entry for entry in self._rest if entry[0] not in ("a", "L")]
            yield make_pair(name, named["a"], named["L"])

    def _of_residual_f(self, name: str) -> Iterator[OperatorForms]:
        named = dict(self._rest)
        if "F" in named and _rank(named["F"]) == 1:
            self._rest = [entry for entry in self._rest if entry[0] != "F"]
            candidates = [form for _, form in self._rest if _rank(form) == 2]
            unknown = find_unknown("F", named["F"], self._names, candidates)
            yield make_residual(name, named["F"], unknown, self._take_jacobian(named["F"], unknown))

    def _take_jacobian(self, residual: Any, unknown: Any) -> Any | None:
        """Return the form J, or one that is the derivative of the residual, and take it off the list."""
        for entry in self._rest:
            name, form = entry
            if _rank(form) == 2 and (name == "J" or _is_derivative(form, residual, unknown)):
                self._rest = [other for other in self._rest if other is not entry]
                return form
        return None

    def _free(self, full_name: str, name: str, form: Any) -> OperatorForms:
        """Return the operator of a form that stands alone."""
        rank = _rank(form)
        if rank == 0:
            return OperatorForms(full_name, {"functional": form})
        if rank == 2:
            return make_pair(full_name, form, None)
        unknown = None
        if name != "L":
            others = [other for _, other in self._rest if _rank(other) == 2]
            unknown = _find_marked_unknown(form, self._names, [o for o in others if not _is_a_matrix_of(o, form)])
        if unknown is None:
            return OperatorForms(full_name, {"load": form})
        return make_residual(full_name, form, unknown, self._take_jacobian(form, unknown))


def make_pair(name: str, a: Any, load: Any | None) -> OperatorForms:
    """Return the operator of the residual a(u, v) - L(v); without L that of a(u, v)."""
    unknown = ufl.Coefficient(a.arguments()[1].ufl_function_space())
    forms: dict[Role, Any] = {"residual": ufl.action(a, unknown)}
    if load is not None:
        if load.arguments()[0].ufl_function_space() != a.arguments()[0].ufl_function_space():
            raise UnsupportedFormError(
                "the test functions of a and L come from different function spaces; define one TestFunction for both"
            )
        forms["load"] = -load
    return OperatorForms(name, {**forms, "jacobian": a}, unknown, is_homogeneous=True)


def make_residual(name: str, residual: Any, unknown: Any, jacobian: Any | None = None) -> OperatorForms:
    """Return the operator of the residual F(u; v), differentiated with respect to u unless a Jacobian is given."""
    derivative = expand_derivatives(ufl.derivative(residual, unknown))
    is_own = jacobian is None or _signature(jacobian) == _signature(derivative)
    if jacobian is not None:
        _check_jacobian(jacobian, residual, unknown)
    used = jacobian if jacobian is not None and not is_own else derivative
    forms: dict[Role, Any] = {"residual": residual}
    if _is_zero(used):
        raise UnsupportedFormError(
            f"the residual {name} does not depend on the coefficient {unknown} in a differentiable way: its Jacobian "
            "is zero; name another unknown with formcompiler.Problem(residual, unknown)"
        )
    forms["jacobian"] = used
    is_linear = unknown not in used.coefficients() and unknown not in derivative.coefficients()
    is_homogeneous = is_linear and is_own and _vanishes_at_zero(residual, unknown)
    direction = None
    if not is_homogeneous:
        direction = ufl.Coefficient(used.arguments()[1].ufl_function_space())
        forms["jacobian_apply"] = ufl.action(used, direction)
    return OperatorForms(name, forms, unknown, direction, is_linear, is_homogeneous)


def _check_jacobian(jacobian: Any, residual: Any, unknown: Any) -> None:
    spaces = [argument.ufl_function_space() for argument in jacobian.arguments()]
    wanted = [residual.arguments()[0].ufl_function_space(), unknown.ufl_function_space()]
    if spaces != wanted:
        raise UnsupportedFormError(
            f"the Jacobian's test and trial function come from {spaces}, the residual's test function and the unknown "
            f"from {wanted}; define the Jacobian with functions of these spaces"
        )


def _vanishes_at_zero(residual: Any, unknown: Any) -> bool:
    """Return whether the residual has no part without the unknown, but on entities where all of it is without."""
    zero = ufl.as_ufl(0) if unknown.ufl_shape == () else uc.Zero(unknown.ufl_shape)
    expanded = expand_derivatives(residual)
    with_unknown = [i for i in expanded.integrals() if unknown in extract_coefficients(i.integrand())]
    rest = ufl.replace(expanded, {unknown: zero})
    remaining = [] if _is_zero(rest) else [i for i in rest.integrals() if not isinstance(i.integrand(), uc.Zero)]
    return not _places(with_unknown) & _places(remaining)


def _places(integrals: Sequence[Any]) -> set[tuple[str, Any]]:
    """Return the types and ids of integrals; those that share one are computed together."""
    found = set()
    for integral in integrals:
        ids = integral.subdomain_id()
        found |= {(integral.integral_type(), i) for i in (ids if isinstance(ids, tuple) else (ids,))}
    return found


def _is_zero(form: Any) -> bool:
    return not isinstance(form, ufl.Form) or all(
        isinstance(integral.integrand(), uc.Zero) for integral in form.integrals()
    )


def _rank(form: Any) -> int:
    return len(form.arguments())


def _signature(form: Any) -> str:
    return str(expand_derivatives(form).signature())


def _is_derivative(form: Any, residual: Any, unknown: Any) -> bool:
    if _rank(form) != 2 or _rank(residual) != 1:
        return False
    return _signature(form) == _signature(ufl.derivative(residual, unknown))


def _is_a_matrix_of(bilinear: Any, linear: Any) -> bool:
    """Return whether a bilinear form has none of a linear form's coefficients: mass matrix and load, say."""
    return all(c not in bilinear.coefficients() for c in linear.coefficients())


def find_unknown(name: str, residual: Any, names: Mapping[int, str], bilinear_forms: Sequence[Any]) -> Any:
    """Return the coefficient of a residual that is its unknown.

    It is the one whose derivative is among the bilinear forms, else the one that the user calls u, else the only one
    from the function space of the test function.

    Raises:
        UnsupportedFormError: if none of these rules finds one.
    """
    found = _find_marked_unknown(residual, names, bilinear_forms)
    if found is not None:
        return found
    space = residual.arguments()[0].ufl_function_space()
    candidates = [c for c in residual.coefficients() if c.ufl_function_space() == space]
    if len(candidates) == 1:
        return candidates[0]
    shown = ", ".join(names.get(id(c), str(c)) for c in candidates)
    raise UnsupportedFormError(
        f"cannot tell the unknown of the residual {name}: "
        + (f"{shown} all come" if candidates else "no coefficient comes")
        + " from the function space of its test function; call the unknown u, give its derivative as "
        "J = derivative(F, unknown), or write formcompiler.Problem(F, unknown)"
    )


def _find_marked_unknown(residual: Any, names: Mapping[int, str], bilinear_forms: Sequence[Any]) -> Any | None:
    """Return the coefficient whose derivative is among the bilinear forms, or that the user calls u, or None."""
    derived = [c for c in residual.coefficients() if any(_is_derivative(f, residual, c) for f in bilinear_forms)]
    if len(derived) == 1:
        return derived[0]
    named = [c for c in residual.coefficients() if names.get(id(c)) == "u"]
    return named[0] if named else None
