"""Means over whole cells and facets, and measures that no formula gives: integrals inside an integrand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import ufl.classes as uc
from ufl.algorithms.analysis import extract_type
from ufl.algorithms.apply_geometry_lowering import apply_geometry_lowering
from ufl.algorithms.estimate_degrees import estimate_total_polynomial_degree

from formcompiler.elements import cells
from formcompiler.elements.quadrature import QuadratureRule, facet_measure_degree, make_quadrature, measure_degree
from formcompiler.errors import UnsupportedFormError
from formcompiler.frontend.graph import Graph, Node
from formcompiler.frontend.modified_terminals import TerminalFinder
from formcompiler.frontend.scalarize import LinearForm, Scalarizer, short_text
from formcompiler.terminals import Terminal

Entity = Literal["cell", "facet"]
MEASURE = 1
"""Component of an average that is a measure, and so real in complex mode; that of a mean is 0."""


class Data(Protocol):
    """Arguments, coefficients and constants with their numbers."""

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Return the arguments."""

    @property
    def coefficient_numbers(self) -> Mapping[Any, int]:
        """Return the number of each coefficient."""

    @property
    def constant_numbers(self) -> Mapping[Any, int]:
        """Return the number of each constant."""


@dataclass(frozen=True, eq=False)
class FoundAverage:
    """An average on a graph of its own; see `formcompiler.frontend.integrals.Average`."""

    entity: Entity
    restriction: str
    is_mean: bool
    argument: int
    rule: QuadratureRule
    graph: Graph
    numerator: LinearForm
    measure: LinearForm


class Averages:
    """Collects the averages of one integral.

    Args:
        domain: The mesh.
        integral_type: Kind of entity of the integral around them.
        facet_cell: Kind of the facets that are integrated over, "" if it is not over facets.
        data: Arguments, coefficients and constants.
        is_complex: Whether values are complex.
        geometry: What is known of the cells.
    """

    def __init__(
        self, domain: Any, integral_type: str, facet_cell: str, data: Data, is_complex: bool, geometry: str
    ) -> None:
        self._domain = domain
        self._integral_type = integral_type
        self._facet_cell = facet_cell
        self._data = data
        self._complex = is_complex
        self._geometry = geometry
        self._numbers: dict[tuple[Any, ...], dict[int, int]] = {}
        self.found: list[FoundAverage] = []

    def measure(self, graph: Graph, entity: Entity, side: str) -> Node:
        """Return the volume of the cell or the area of the facet as a node of the graph around it."""
        key = (entity, side)
        if key not in self._numbers:
            inner, rule, scale = self._start(entity, side, 0)
            self._numbers[key] = {-1: self._add(entity, side, False, -1, rule, inner, {}, scale)}
        return graph.terminal(Terminal("average", self._numbers[key][-1], MEASURE, (), side))

    def mean(
        self, graph: Graph, operator: Any, side: str, component: tuple[int, ...], indices: dict[int, int]
    ) -> LinearForm:
        """Return one component of cell_avg or facet_avg on the graph around it.

        Raises:
            UnsupportedFormError: if it contains the product of two arguments, or facet_avg stands in a cell integral.
        """
        entity: Entity = "cell" if isinstance(operator, uc.CellAvg) else "facet"
        if entity == "facet" and not self._facet_cell:
            raise UnsupportedFormError("facet_avg is defined on facets only: use it in ds or dS, not in dx")
        operand = operator.ufl_operands[0]
        sides = {restricted.side() for restricted in extract_type(operand, uc.Restricted)}
        if len(sides) > 1:
            raise UnsupportedFormError(
                f"both sides of a facet inside of one average: {short_text(operator)}; restrict the average "
                "instead, as jump(facet_avg(v)) or avg(cell_avg(v))"
            )
        side = side or "".join(sides)
        free = tuple(sorted((i, indices[i]) for i in operand.ufl_free_indices))
        key = (entity, side, operand, component, free)
        if key not in self._numbers:
            self._numbers[key] = self._integrate(entity, side, operand, component, indices)
        result: LinearForm = {}
        for argument, number in self._numbers[key].items():
            if argument < 0:
                result[()] = graph.terminal(Terminal("average", number, 0, (), side))
            else:
                result[(Terminal("argument", argument, 0, (), side, number),)] = graph.one
        return result

    def _integrate(
        self, entity: Entity, side: str, operand: Any, component: tuple[int, ...], indices: dict[int, int]
    ) -> dict[int, int]:
        """Return the number of the average for each argument, -1 for the part without."""
        degree = estimate_total_polynomial_degree(operand)
        inner, rule, scale = self._start(entity, side, degree)
        form = self._scalarizer(inner, entity, side)(operand, component, indices)
        parts: dict[int, LinearForm] = {}
        for key, node in form.items():
            if len(key) > 1:
                raise UnsupportedFormError(
                    f"a product of test and trial function inside an average: {short_text(operand)}"
                )
            part = parts.setdefault(key[0].index if key else -1, {})
            part[key] = inner.multiply(node, scale)
        return {
            argument: self._add(entity, side, True, argument, rule, inner, part, scale)
            for argument, part in parts.items()
        }

    def _start(self, entity: Entity, side: str, degree: int) -> tuple[Graph, QuadratureRule, Node]:
        """Return a new graph, the rule for integrands of this degree, and the scaled weight on the graph."""
        quantity = uc.JacobianDeterminant if entity == "cell" else uc.FacetJacobianDeterminant
        cell = self._domain.ufl_cell().cellname
        graph = Graph()
        scale = graph.one
        if entity == "cell" or cells.dimension(cell) > 1:
            scaling = abs(apply_geometry_lowering(quantity(self._domain), (uc.Jacobian,)))
            scaling = scaling * uc.QuadratureWeight(self._domain)
            scale = self._scalarizer(graph, entity, side)(scaling)[()]
        where = cell if entity == "cell" else self._facet_cell
        return graph, make_quadrature(where, degree + self._measure_degree(entity), "default"), scale

    def _measure_degree(self, entity: Entity) -> int:
        degree = self._domain.ufl_coordinate_element().embedded_subdegree
        if entity == "facet":
            return facet_measure_degree(self._facet_cell, degree)
        return measure_degree(self._domain.ufl_cell().cellname, degree, self._domain.geometric_dimension)

    def _scalarizer(self, graph: Graph, entity: Entity, side: str) -> Scalarizer:
        kind = "cell" if entity == "cell" else self._integral_type
        facet_cell = "" if entity == "cell" else self._facet_cell
        finder = TerminalFinder(self._domain, kind, facet_cell, self._data, self, self._geometry, side)
        return Scalarizer(graph, finder, self._complex)

    def _add(
        self,
        entity: Entity,
        side: str,
        is_mean: bool,
        argument: int,
        rule: QuadratureRule,
        graph: Graph,
        numerator: LinearForm,
        scale: Node,
    ) -> int:
        self.found.append(
            FoundAverage(entity, side, is_mean, argument, rule, graph, numerator or {(): scale}, {(): scale})
        )
        return len(self.found) - 1
