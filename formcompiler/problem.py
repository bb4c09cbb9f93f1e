"""What a form file asks the engine to solve: a residual, its unknown, boundary conditions, a mesh, a solution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from formcompiler.errors import UnsupportedFormError

Value = Any
"""A number, a nested tuple of numbers, a UFL expression, or a function of x, axes (direction, point), that returns
values, axes (component, point) or (point,)."""


@dataclass(frozen=True)
class Box:
    """A mesh of an interval, rectangle or cuboid; the form's domain says of which cells.

    The facets at the lower and upper end of direction d have the tags ``2 * d + 1`` and ``2 * d + 2``.

    Attributes:
        cells: Number of intervals in each direction, or one number for all.
        lower: Smallest coordinates, or one number for all directions.
        upper: Largest coordinates, or one number for all directions.
    """

    cells: int | Sequence[int] = 8
    lower: float | Sequence[float] = 0.0
    upper: float | Sequence[float] = 1.0

    def __post_init__(self) -> None:
        counts = np.atleast_1d(np.asarray(self.cells))
        if counts.dtype.kind not in "iu" or (counts < 1).any():
            raise UnsupportedFormError(f"Box(cells={self.cells!r}): give a positive integer, or one for each direction")
        if (np.asarray(self.lower, dtype=float) >= np.asarray(self.upper, dtype=float)).any():
            raise UnsupportedFormError(
                f"Box(lower={self.lower!r}, upper={self.upper!r}): lower must be less than upper in every direction"
            )

    def resolve(self, dim: int) -> tuple[list[int], list[float], list[float]]:
        """Return cells, lower and upper with one entry for each of ``dim`` directions.

        Raises:
            UnsupportedFormError: if the box has another dimension.
        """
        result: list[list[Any]] = []
        for name in ("cells", "lower", "upper"):
            entries = np.atleast_1d(np.asarray(getattr(self, name)))
            if entries.shape not in ((1,), (dim,)):
                raise UnsupportedFormError(
                    f"Box({name}={getattr(self, name)!r}): the form lives in {dim}D, so give one number or {dim}"
                )
            result.append(np.broadcast_to(entries, dim).tolist())
        return result[0], result[1], result[2]


@dataclass(frozen=True, eq=False)
class Dirichlet:
    """A strong boundary condition: the unknown, or a part of it, equals a value on a part of the boundary.

    Attributes:
        value: Number, nested tuple of numbers, UFL expression, or function of x (axes (direction, point)).
        where: "boundary"; a facet tag or several; or a function of x, axes (direction, point), that returns True for
            points on that part of the boundary (a facet belongs to it with all its vertices and its centre).
        component: None for the whole unknown; the number of a component of a vector or of a part of a mixed unknown;
            or a tuple of such numbers from the outside inwards: (0, 1) is component 1 of part 0.
    """

    value: Value = 0.0
    where: str | int | Sequence[int] | Callable[[Any], Any] = "boundary"
    component: int | tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.where, str):
            valid = self.where == "boundary"
        else:
            valid = callable(self.where) or all(isinstance(tag, int | np.integer) for tag in np.ravel(self.where))
        if not valid:
            raise UnsupportedFormError(
                f'Dirichlet(where={self.where!r}): give "boundary", facet tags (integers), or a function of x'
            )
        if not all(isinstance(number, int | np.integer) for number in self.path):
            raise UnsupportedFormError(f"Dirichlet(component={self.component!r}): give an integer, a tuple, or None")

    @property
    def path(self) -> tuple[int, ...]:
        """Return the component as a path of numbers; () for the whole unknown."""
        if self.component is None:
            return ()
        return self.component if isinstance(self.component, tuple) else (self.component,)

    @property
    def tags(self) -> tuple[int, ...] | None:
        """Return the facet tags, or None if `where` is not given by tags."""
        if isinstance(self.where, str) or callable(self.where):
            return None
        return tuple(int(tag) for tag in np.ravel(self.where))


@dataclass(frozen=True, eq=False)
class Problem:
    """A boundary value problem: find the unknown u with residual(u; v) = 0 for all test functions v.

    Attributes:
        residual: Linear form in the test function; the unknown is a coefficient in it (linear or not).
        unknown: The `ufl.Coefficient` to solve for.
        dirichlet: Strong boundary conditions; a later one wins where two meet.
        mesh: A `Box`, or the path of a mesh file (gmsh and other formats that meshio reads).
        exact: Exact solution for error norms; for a mixed unknown a tuple with one entry (or None) for each part.
        initial: Initial guess for Newton's method; zero if not given.
        constants: Value of each `ufl.Constant`.
        coefficients: Value of each `ufl.Coefficient` other than the unknown; it is interpolated.
        jacobian: Bilinear form to use instead of the derivative of the residual.
        title: Headline of tables and pictures.
    """

    residual: Any
    unknown: Any
    dirichlet: Dirichlet | Sequence[Dirichlet] = ()
    mesh: Box | str | Path = field(default_factory=Box)
    exact: Any = None
    initial: Value | None = None
    constants: Mapping[Any, Any] = field(default_factory=dict)
    coefficients: Mapping[Any, Value] = field(default_factory=dict)
    jacobian: Any = None
    title: str = ""

    def __post_init__(self) -> None:
        single = isinstance(self.dirichlet, Dirichlet)
        conditions = (self.dirichlet,) if single else tuple(self.dirichlet)  # type: ignore[arg-type]
        object.__setattr__(self, "dirichlet", conditions)
        _check_residual(self)
        _check_unknown(self)
        _check_conditions(self)
        _check_data(self)
        _check_exact(self)

    @property
    def conditions(self) -> tuple[Dirichlet, ...]:
        """Return the Dirichlet conditions."""
        return tuple(self.dirichlet)  # type: ignore[arg-type]


def is_expression(value: Any) -> bool:
    """Return whether a value is a UFL expression."""
    return hasattr(value, "ufl_shape")


def value_shape(value: Value) -> tuple[int, ...] | None:
    """Return the shape of a number, nested tuple or UFL expression; None for functions of x.

    Raises:
        UnsupportedFormError: for anything else.
    """
    if is_expression(value):
        return tuple(value.ufl_shape)
    if callable(value):
        return None
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise UnsupportedFormError(
            f"{value!r} is not a value: give a real number, a tuple of numbers, a UFL expression, or a function of x"
            + ("; write ufl.as_vector(...) around UFL expressions" if isinstance(value, tuple | list) else "")
        )
    return array.shape


def _n_arguments(form: Any, name: str) -> int:
    if not hasattr(form, "arguments") or not hasattr(form, "coefficients"):
        hint = "; instead of 'a == L' write residual = a - L with a ufl.Coefficient as unknown"
        raise UnsupportedFormError(
            f"Problem({name}=...) is a {type(form).__name__}, not a UFL form" + (hint if hasattr(form, "lhs") else "")
        )
    return len(form.arguments())


def _check_residual(problem: Problem) -> None:
    rank = _n_arguments(problem.residual, "residual")
    if rank != 1:
        what = {0: "no test function", 2: "a trial function as well"}.get(rank, f"{rank} arguments")
        raise UnsupportedFormError(
            f"Problem(residual=...) has {what}: the residual must have one test function, and the unknown must be a "
            "ufl.Coefficient in it"
        )
    if problem.jacobian is not None and _n_arguments(problem.jacobian, "jacobian") != 2:
        raise UnsupportedFormError("Problem(jacobian=...) must be a bilinear form: one test and one trial function")


def _check_unknown(problem: Problem) -> None:
    unknown = problem.unknown
    if unknown not in problem.residual.coefficients():
        known = ", ".join(str(c) for c in problem.residual.coefficients()) or "none"
        raise UnsupportedFormError(
            f"Problem(unknown={unknown}): the residual does not depend on it; coefficients of the residual: {known}"
        )
    test_space = problem.residual.arguments()[0].ufl_function_space()
    if test_space != unknown.ufl_function_space():
        raise UnsupportedFormError(
            f"the test function and the unknown {unknown} of a Problem must come from the same function space; they "
            f"come from {test_space} and {unknown.ufl_function_space()}"
        )


def _check_conditions(problem: Problem) -> None:
    for condition in problem.conditions:
        if not isinstance(condition, Dirichlet):
            raise UnsupportedFormError(
                f"Problem(dirichlet=...) contains {condition!r}; write Dirichlet(value, where=...)"
            )
        shape = value_shape(condition.value)
        if not condition.path and shape not in (None, tuple(problem.unknown.ufl_shape)):
            raise UnsupportedFormError(
                f"Dirichlet({condition.value}) has the shape {shape}, the unknown {tuple(problem.unknown.ufl_shape)}; "
                "give a value of the same shape, or choose a component"
            )


def _check_data(problem: Problem) -> None:
    for constant in problem.residual.constants():
        if constant not in problem.constants:
            raise UnsupportedFormError(f"the residual contains the constant {constant}: set Problem(constants={{...}})")
    for constant, value in problem.constants.items():
        if np.shape(value) != tuple(constant.ufl_shape):
            raise UnsupportedFormError(
                f"Problem(constants=...): {constant} has the shape {tuple(constant.ufl_shape)}, its value {value!r} not"
            )
    for coefficient in problem.residual.coefficients():
        if coefficient != problem.unknown and coefficient not in problem.coefficients:
            raise UnsupportedFormError(
                f"the residual contains the coefficient {coefficient}: give its value in "
                "Problem(coefficients={...}), or write a spatial expression instead"
            )
    for coefficient, value in problem.coefficients.items():
        if value_shape(value) not in (None, tuple(coefficient.ufl_shape)):
            raise UnsupportedFormError(
                f"Problem(coefficients=...): {coefficient} has the shape {tuple(coefficient.ufl_shape)}, its value "
                f"{value_shape(value)}"
            )
    if problem.initial is not None and value_shape(problem.initial) not in (None, tuple(problem.unknown.ufl_shape)):
        raise UnsupportedFormError(
            f"Problem(initial=...) has the shape {value_shape(problem.initial)}, the unknown "
            f"{tuple(problem.unknown.ufl_shape)}"
        )
    if not isinstance(problem.mesh, Box | str | Path):
        raise UnsupportedFormError(f"Problem(mesh={problem.mesh!r}): give a Box or the path of a mesh file")


def _check_exact(problem: Problem) -> None:
    if problem.exact is None:
        return
    shape = tuple(problem.unknown.ufl_shape)
    if not isinstance(problem.exact, tuple | list) or all(isinstance(entry, Real) for entry in problem.exact):
        given = value_shape(problem.exact)
        if given is None:
            raise UnsupportedFormError("Problem(exact=...) must be a UFL expression: its gradient is needed")
        if given != shape:
            raise UnsupportedFormError(f"Problem(exact=...) has the shape {given}, the unknown {shape}")
        return
    n_parts = len(problem.unknown.ufl_element().sub_elements) if problem.unknown.ufl_element().is_mixed else 0
    if len(problem.exact) != n_parts:
        raise UnsupportedFormError(
            f"Problem(exact=...) has {len(problem.exact)} entries, the mixed unknown {n_parts} parts"
            if n_parts
            else "Problem(exact=...) is a tuple, but the unknown is not mixed: write ufl.as_vector(...)"
        )
