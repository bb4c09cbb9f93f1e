"""Evaluation of UFL expressions at points: one rule per operator, on jets.

Coefficient arrays of a jet have the axes (point, one per argument of the form, free indices in UFL's order, value
shape). Gateaux and variable derivatives perturb the coefficient or the variable along a nilpotent direction of the jet.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from ufl.domain import extract_domains

from formcompiler.errors import UnsupportedFormError
from formcompiler.reference.geometry import Cell, FacetCell
from formcompiler.reference.jets import Array, Jet, add, along, constant, directional, stack

Expr = Any


@dataclass(frozen=True, eq=False)
class Scope:
    """Perturbations of coefficients and variables, by coefficient or variable label."""

    perturbations: Mapping[Any, tuple[Change, ...]] = field(default_factory=dict)

    def perturb(self, changes: Mapping[Any, Change]) -> Scope:
        """Return a scope with further perturbations."""
        result = dict(self.perturbations)
        for key, change in changes.items():
            result[key] = (*result.get(key, ()), change)
        return Scope(result)


@dataclass(frozen=True, eq=False)
class State:
    """Where and how far an expression is evaluated: order of the jet, side of the facet, perturbations."""

    order: int
    side: int | None
    scope: Scope


@dataclass(frozen=True, eq=False)
class Data:
    """What stays the same for all points of one element tensor.

    Attributes:
        arguments: Arguments of the form, by the axis of the result.
        coefficients: Dofs by coefficient, axes (side, dof).
        constants: Values by constant, in their shapes.
        dtype: float64 or complex128.
        n_sides: 2 for interior facets, otherwise 1.
    """

    arguments: tuple[Any, ...]
    coefficients: Mapping[Any, Array]
    constants: Mapping[Any, Array]
    dtype: Any
    n_sides: int = 1

    @property
    def is_complex(self) -> bool:
        """Return whether values are complex."""
        return bool(np.issubdtype(self.dtype, np.complexfloating))

    @property
    def n_leading(self) -> int:
        """Return the number of axes in front of free indices and value shape."""
        return 1 + len(self.arguments)


Rule = Callable[["Evaluator", Expr, State], Jet]
Change = Callable[["Evaluator", State], Jet]
"""What a coefficient or variable moves by, as the evaluator that meets it sees it."""

RULES: dict[str, Rule] = {}
"""Rule of every operator, by the name that UFL gives it."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a function as the rule of some operators."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


class Evaluator:
    """Evaluates expressions on one cell, or on the two cells of an interior facet, at corresponding points."""

    def __init__(self, cells: tuple[Cell, ...], data: Data, directions: Iterator[int] | None = None) -> None:
        self.cells, self.data = cells, data
        self._directions = itertools.count() if directions is None else directions
        self.lead = data.n_leading
        self._known: dict[tuple[int, int, int | None, int], Jet] = {}
        self._alive: list[Any] = []
        self._facet_cells: dict[tuple[Any, int], FacetCell] = {}

    def at(self, cells: tuple[Cell, ...]) -> Evaluator:
        """Return an evaluator at other points, in which perturbations of this one keep their meaning."""
        return Evaluator(cells, self.data, self._directions)

    def integrand(self, expression: Expr) -> Array:
        """Return the values, axes (point, arguments, value shape)."""
        return self.evaluate(expression, State(0, None, Scope())).value

    def evaluate(self, expression: Expr, state: State) -> Jet:
        """Return the jet of an expression.

        Raises:
            UnsupportedFormError: for an operator without a rule, or a missing restriction.
        """
        key = (id(expression), state.order, state.side, id(state.scope))
        if key not in self._known:
            self._alive += [expression, state.scope]
            self._known[key] = _find_rule(expression)(self, expression, state)
        return self._known[key]

    def operands(self, expression: Expr, state: State) -> list[Jet]:
        """Return the jets of all operands, with the free indices of the expression."""
        return [
            self.align(self.evaluate(operand, state), operand, expression.ufl_free_indices)
            for operand in expression.ufl_operands
        ]

    def align(self, jet: Jet, expression: Expr, free: tuple[int, ...]) -> Jet:
        """Return the jet of an expression with axes of length one for further free indices."""
        own = expression.ufl_free_indices
        if own == free:
            return jet

        def widen(term: Array) -> Array:
            known = dict(zip(own, term.shape[self.lead :], strict=False))
            axes = tuple(known.get(index, 1) for index in free)
            return term.reshape(term.shape[: self.lead] + axes + term.shape[self.lead + len(own) :])

        return jet.map(widen)

    def constant(self, value: Any, state: State) -> Jet:
        """Return the jet of a value that is the same everywhere; its axes are (free indices, value shape)."""
        array = np.asarray(value, dtype=self.data.dtype)
        return constant(array.reshape((1,) * self.lead + array.shape), state.order, self.n_coordinates)

    @property
    def n_coordinates(self) -> int:
        """Return the number of reference coordinates that jets depend on."""
        return self.cells[0].n_coordinates

    def spread(self, jet: Jet) -> Jet:
        """Return a jet with axes (point, value shape) with an axis for each argument."""
        middle = (1,) * (self.lead - 1)
        return jet.map(lambda t: t.reshape(t.shape[:1] + middle + t.shape[1:]))

    def cell(self, expression: Expr, side: int | None) -> Cell:
        """Return the cell that an expression lives on: the integration cell or its facet.

        Raises:
            UnsupportedFormError: if the expression lives on neither.
        """
        number = side or 0
        cell = self.cells[number]
        domains = [d for d in extract_domains(expression) if d.topological_dimension != cell.tdim]
        if not domains:
            return cell
        domain: Any = domains[0]
        if len(extract_domains(expression)) > 1 or domain.topological_dimension != cell.tdim - 1 or cell.facet is None:
            raise UnsupportedFormError(
                f"{expression} lives on a mesh of dimension {domain.topological_dimension}, but the integral is over "
                f"a {cell.name}; only functions on its facets can be used, in facet integrals"
            )
        key = (domain, number)
        if key not in self._facet_cells:
            self._facet_cells[key] = FacetCell(domain.ufl_coordinate_element(), cell)
        return self._facet_cells[key]

    def perturbed(self, key: Any, jet: Jet, state: State) -> Jet:
        """Return the jet of a coefficient or variable with all perturbations of the scope."""
        return add(jet, *(change(self, state) for change in state.scope.perturbations.get(key, ())))

    def gateaux(self, integrand: Expr, directions: Mapping[Any, Expr], state: State) -> Jet:
        """Return the derivative of an expression if coefficients move along given directions."""
        number = next(self._directions)

        def move(direction: Expr) -> Change:
            return lambda ev, inner: along(ev.evaluate(direction, replace(inner, scope=state.scope)), number)

        scope = state.scope.perturb({key: move(direction) for key, direction in directions.items()})
        return directional(self.evaluate(integrand, replace(state, scope=scope)), number)

    def variable_derivative(self, expression: Expr, key: Any, shape: tuple[int, ...], state: State) -> Jet:
        """Return the derivative with respect to all components of a variable; its shape is appended."""
        parts = []
        for index in np.ndindex(*shape):
            number = next(self._directions)
            unit = np.zeros(shape)
            unit[index] = 1.0
            scope = state.scope.perturb({key: _move_along_unit(unit, number)})
            parts.append(directional(self.evaluate(expression, replace(state, scope=scope)), number))
        stacked = stack(parts, parts[0].value.ndim)
        return stacked.map(lambda t: t.reshape(t.shape[:-1] + shape))


def _move_along_unit(unit: Array, number: int) -> Change:
    return lambda ev, state: along(ev.constant(unit, state), number)


def _find_rule(expression: Expr) -> Rule:
    for kind in type(expression).__mro__:
        found = RULES.get(getattr(kind, "_ufl_handler_name_", ""))
        if found is not None:
            return found
    raise UnsupportedFormError(f"{type(expression).__name__} is not supported, in {str(expression)[:80]}")
