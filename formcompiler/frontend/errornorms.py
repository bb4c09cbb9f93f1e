"""Forms that the engine derives from a problem: its Jacobian and the squares of error norms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import ufl
from ufl.algorithms.analysis import extract_coefficients, extract_constants
from ufl.domain import extract_domains
from ufl.utils.stacks import StackDict

from formcompiler.errors import UnsupportedFormError

Form = Any
Expression = Any


@dataclass(frozen=True)
class ErrorForms:
    """Squares of the error of one part of the unknown, as forms without arguments.

    Attributes:
        name: Name of the part; "" if the unknown has only one.
        l2: Integral of the squared error.
        h1: Integral of the squared error of the gradient.
    """

    name: str
    l2: Form
    h1: Form


def make_jacobian(residual: Form, unknown: Expression) -> Form:
    """Return the derivative of a residual in direction of a trial function."""
    return ufl.derivative(residual, unknown)


def make_error_forms(unknown: Expression, exact: Expression, degree: int) -> tuple[ErrorForms, ...]:
    """Return the squared error norms of an unknown.

    Args:
        unknown: The coefficient.
        exact: Its exact value, or for a mixed unknown a sequence with one value (or None) for each part.
        degree: Quadrature degree.

    Raises:
        UnsupportedFormError: if the shape of an exact part is not that of the unknown's part.
    """
    measure = ufl.dx(domain=unknown.ufl_function_space().ufl_domain(), metadata={"quadrature_degree": degree})
    if not (isinstance(exact, tuple | list) and unknown.ufl_element().is_mixed):
        value = ufl.as_vector(exact) if isinstance(exact, tuple | list) else ufl.as_ufl(exact)
        return (_error_forms("", unknown, value, measure),)
    pairs = zip(ufl.split(unknown), exact, strict=True)
    return tuple(
        _error_forms(str(i), part, ufl.as_ufl(value), measure)
        for i, (part, value) in enumerate(pairs)
        if value is not None
    )


def _error_forms(name: str, part: Expression, value: Expression, measure: Any) -> ErrorForms:
    if part.ufl_shape != value.ufl_shape:
        raise UnsupportedFormError(
            f"Problem(exact=...): entry {name or 0} has the shape {value.ufl_shape}, that part of the unknown "
            f"{part.ufl_shape}"
        )
    error = part - value
    return ErrorForms(name, ufl.inner(error, error) * measure, ufl.inner(ufl.grad(error), ufl.grad(error)) * measure)


def find_number(expression: Expression) -> npt.NDArray[np.float64] | None:
    """Return the value of an expression of literals alone, in its shape; None if it contains anything else."""
    if extract_domains(expression) or extract_coefficients(expression):
        return None
    indices = np.ndindex(*expression.ufl_shape)
    values = [float(expression.evaluate((), {}, index, StackDict())) for index in indices]
    return np.array(values, dtype=np.float64).reshape(expression.ufl_shape)


def find_coefficients(expression: Expression) -> tuple[Any, ...]:
    """Return the coefficients in an expression."""
    return tuple(extract_coefficients(expression))


def find_constants(expression: Expression) -> tuple[Any, ...]:
    """Return the constants in an expression."""
    return tuple(extract_constants(expression))
