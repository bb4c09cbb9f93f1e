"""From UFL's modified terminals to ours: restrictions, reference derivatives and components in one record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import ufl
import ufl.classes as uc

from formcompiler.elements import cells
from formcompiler.elements.tables import vanishes
from formcompiler.errors import UnsupportedFormError
from formcompiler.frontend.checks import describe_other_mesh
from formcompiler.frontend.graph import Graph
from formcompiler.frontend.preparation import PositionFunction
from formcompiler.frontend.scalarize import LinearForm
from formcompiler.terminals import Terminal, TerminalKind


@dataclass(frozen=True)
class _Modified:
    """A UFL terminal without its wrappers."""

    terminal: Any
    component: tuple[int, ...]
    derivatives: tuple[int, ...]
    restriction: str


def _innermost(expr: Any) -> Any:
    """Return the terminal under all wrappers."""
    while not expr._ufl_is_terminal_:
        expr = expr.ufl_operands[0]
    return expr


def _unwrap(expr: Any, component: tuple[int, ...], tdim: int) -> _Modified:
    restriction, n_gradients, inner = "", 0, expr
    while not inner._ufl_is_terminal_:
        if isinstance(inner, uc.Restricted):
            restriction = inner.side()
        elif isinstance(inner, uc.ReferenceGrad):
            n_gradients += 1
        elif not isinstance(inner, uc.ReferenceValue):
            raise UnsupportedFormError(f"derivatives of {inner} cannot be carried to its terminals")
        inner = inner.ufl_operands[0]
    split = len(component) - n_gradients
    directions = component[split:]
    derivatives = tuple(directions.count(d) for d in range(tdim)) if n_gradients else ()
    return _Modified(inner, component[:split], derivatives, restriction)


class TerminalFinder:
    """Finds the value of a component of a modified terminal, for one integral.

    Args:
        domain: The mesh that is integrated over.
        integral_type: Kind of entity.
        facet_cell: Kind of the facets that are integrated over, "" if it is not over facets.
        data: Arguments, coefficients and constants with their numbers.
        averages: Collects cell volumes and facet areas that no formula gives.
        geometry: What is known of the cells; see the option of this name.
        restriction: Side of the facet, if it is the same for all terminals; else it is read off each.
    """

    def __init__(
        self,
        domain: Any,
        integral_type: str,
        facet_cell: str,
        data: Any,
        averages: Any,
        geometry: str,
        restriction: str = "",
    ) -> None:
        self._domain = domain
        self._cell = domain.ufl_cell().cellname
        self._gdim = domain.geometric_dimension
        self._facet_cell = facet_cell
        self._integral_type = integral_type
        self._arguments = {argument: n for n, argument in enumerate(data.arguments)}
        self._coefficients = data.coefficient_numbers
        self._constants = data.constant_numbers
        self._averages = averages
        self._restriction = restriction
        self._is_affine = is_affine(domain, geometry)
        self._is_axis_parallel = geometry == "axis_parallel" and self._cell in _CUBES

    def __call__(self, graph: Graph, expr: Any, component: tuple[int, ...]) -> LinearForm:
        """Return one component of a modified terminal as a linear form on the graph."""
        terminal = _innermost(expr)
        on_facet_mesh = self._lives_on_facets(terminal)
        tdim = cells.dimension(self._cell) - on_facet_mesh
        modified = _unwrap(expr, component, tdim)
        if self._restriction:
            modified = replace(modified, restriction=self._restriction)
        if isinstance(terminal, (uc.Argument, uc.Coefficient)):
            return self._function(graph, modified)
        if isinstance(terminal, uc.Constant):
            flat = _flatten(modified.component, terminal.ufl_shape)
            return _leaf(graph, Terminal("constant", self._constants[terminal], flat))
        if on_facet_mesh:
            return self._facet_mesh_geometry(graph, modified)
        if modified.derivatives and not isinstance(terminal, (uc.SpatialCoordinate, uc.Jacobian)):
            return self._derivative_of_geometry(graph, modified)
        return self._geometry(graph, modified)

    def _function(self, graph: Graph, modified: _Modified) -> LinearForm:
        function = modified.terminal
        if isinstance(function, PositionFunction):
            return self._coordinate(graph, modified.component[0], modified.derivatives, modified.restriction)
        element = function.ufl_function_space().ufl_element()
        flat = _flatten(modified.component, element.reference_value_shape)
        if vanishes(element, flat, modified.derivatives):
            return {}
        if isinstance(function, uc.Argument):
            number = self._arguments[function]
            terminal = Terminal("argument", number, flat, modified.derivatives, modified.restriction)
            return {(terminal,): graph.one}
        index = self._coefficients[function]
        return _leaf(graph, Terminal("coefficient", index, flat, modified.derivatives, modified.restriction))

    def _lives_on_facets(self, terminal: Any) -> bool:
        """Tell whether a terminal belongs to the mesh of the facets that are integrated over.

        Raises:
            UnsupportedFormError: if it belongs to any other mesh than that of the integral.
        """
        domain: Any = ufl.domain.extract_unique_domain(terminal)
        if domain is None or domain == self._domain:
            return False
        fits = (domain.ufl_cell().cellname, domain.geometric_dimension) == (self._facet_cell, self._gdim)
        if fits and self._integral_type == "exterior_facet":
            return True
        raise UnsupportedFormError(describe_other_mesh(terminal, domain, self._domain))

    def _facet_mesh_geometry(self, graph: Graph, modified: _Modified) -> LinearForm:
        """Return geometry of the mesh of facets: its Jacobian is that of the facet."""
        quantity, component = modified.terminal, modified.component
        if isinstance(quantity, uc.SpatialCoordinate) and not modified.derivatives:
            return _leaf(graph, Terminal("coordinate", 0, component[0]))
        if not isinstance(quantity, uc.Jacobian) or modified.derivatives:
            raise UnsupportedFormError(f"{type(quantity).__name__} of a mesh of facets is not supported")
        row, column = component
        tdim = cells.dimension(self._cell)
        total = graph.zero
        for k in range(tdim):
            direction = tuple(int(d == k) for d in range(tdim))
            jacobian = graph.terminal(Terminal("coordinate", 0, row, direction))
            facet_jacobian = graph.terminal(Terminal("facet_mesh_jacobian", 0, k * (tdim - 1) + column))
            total = graph.add(total, graph.multiply(jacobian, facet_jacobian))
        return {(): total}

    def _derivative_of_geometry(self, graph: Graph, modified: _Modified) -> LinearForm:
        constant = (uc.ReferenceNormal, uc.CellFacetJacobian, uc.CellVertices, uc.CellOrigin, uc.QuadratureWeight)
        if isinstance(modified.terminal, constant) or cells.dimension(self._cell) == 0:
            return {}
        if isinstance(modified.terminal, uc.CellCoordinate) and sum(modified.derivatives) == 1:
            return {(): graph.one} if modified.derivatives[modified.component[0]] else {}
        if isinstance(modified.terminal, uc.CellCoordinate):
            return {}
        raise UnsupportedFormError(f"derivatives of {type(modified.terminal).__name__} are not supported")

    def _geometry(self, graph: Graph, modified: _Modified) -> LinearForm:
        quantity, component, side = modified.terminal, modified.component, modified.restriction
        tdim = cells.dimension(self._cell)
        if isinstance(quantity, uc.SpatialCoordinate):
            return self._coordinate(graph, component[0], modified.derivatives, side)
        if isinstance(quantity, uc.Jacobian):
            row, column = component
            extra = modified.derivatives or (0,) * tdim
            derivatives = tuple(n + (d == column) for d, n in enumerate(extra))
            return self._coordinate(graph, row, derivatives, side)
        if isinstance(quantity, uc.QuadratureWeight):
            return _leaf(graph, Terminal("weight"))
        if isinstance(quantity, uc.CellCoordinate):
            return _leaf(graph, Terminal("reference_coordinate", 0, component[0], (), side))
        if isinstance(quantity, uc.ReferenceCellVolume):
            return {(): graph.number(cells.reference_volume(self._cell))}
        if isinstance(quantity, uc.CellOrientation):
            return {(): graph.one}  # the order of the vertices orients a manifold cell
        if isinstance(quantity, (uc.CellVertices, uc.CellOrigin)):
            vertex, axis = component if len(component) == 2 else (0, component[0])
            return _leaf(graph, Terminal("vertex", 0, vertex * self._gdim + axis, (), side))
        if isinstance(quantity, uc.CellEdgeVectors):
            ends = cells.topology(self._cell)[1][component[0]]
            return self._difference(graph, "vertex", ends, component[1], side)
        if isinstance(quantity, uc.CellVolume):
            return {(): self._averages.measure(graph, "cell", side)}
        return self._facet_geometry(graph, modified)

    def _coordinate(self, graph: Graph, axis: int, derivatives: tuple[int, ...], side: str) -> LinearForm:
        """Return a spatial coordinate or a derivative of it; on affine cells that is a difference of vertices."""
        if not self._is_affine or not any(derivatives):
            return _leaf(graph, Terminal("coordinate", 0, axis, derivatives, side))
        if sum(derivatives) > 1:
            return {}
        direction = derivatives.index(1)
        if self._is_axis_parallel and direction != axis:
            return {}
        unit = [float(d == direction) for d in range(cells.dimension(self._cell))]
        end = next(v for v, x in enumerate(cells.vertices(self._cell).tolist()) if x == unit)
        return self._difference(graph, "vertex", (0, end), axis, side)

    def _facet_geometry(self, graph: Graph, modified: _Modified) -> LinearForm:
        quantity, component, side = modified.terminal, modified.component, modified.restriction
        tdim = cells.dimension(self._cell)
        if isinstance(quantity, _NEEDS_STRAIGHT_EDGES):
            raise UnsupportedFormError(
                f"{type(quantity).__name__} is defined by straight edges between the vertices and needs geometry of "
                f"degree 1, but the mesh has the coordinate element {self._domain.ufl_coordinate_element()}"
            )
        if not self._facet_cell and isinstance(quantity, uc.GeometricFacetQuantity):
            raise UnsupportedFormError(
                f"{type(quantity).__name__} is defined on facets only, but the integral is over "
                f"{_ENTITY.get(self._integral_type, 'cells')}; facet quantities such as FacetNormal need ds or dS"
            )
        if isinstance(quantity, uc.FacetArea):
            return {(): self._averages.measure(graph, "facet", side)}
        if isinstance(quantity, uc.ReferenceNormal):
            return _leaf(graph, Terminal("reference_normal", 0, component[0], (), side))
        if isinstance(quantity, uc.CellFacetJacobian):
            return _leaf(graph, Terminal("facet_jacobian", 0, component[0] * (tdim - 1) + component[1], (), side))
        if isinstance(quantity, uc.FacetCoordinate):
            return _leaf(graph, Terminal("facet_coordinate", 0, component[0], (), side))
        facet = self._facet_cell
        if isinstance(quantity, uc.ReferenceFacetVolume):
            return {(): graph.number(cells.reference_volume(facet))}
        if isinstance(quantity, uc.FacetEdgeVectors):
            return self._difference(graph, "facet_vertex", cells.topology(facet)[1][component[0]], component[1], side)
        if isinstance(quantity, uc.FacetOrigin):
            return _leaf(graph, Terminal("facet_vertex", 0, component[0], (), side))
        raise UnsupportedFormError(
            f"the geometric quantity {type(quantity).__name__} is not supported; use SpatialCoordinate, FacetNormal, "
            "Jacobian and what is made of them"
        )

    def _difference(self, graph: Graph, kind: TerminalKind, ends: tuple[int, ...], axis: int, side: str) -> LinearForm:
        """Return the vector from the first to the second vertex along one axis."""
        start, end = (graph.terminal(Terminal(kind, 0, v * self._gdim + axis, (), side)) for v in ends)
        return {(): graph.add(end, graph.multiply(graph.number(-1), start))}


def is_affine(domain: Any, geometry: str) -> bool:
    """Tell whether the cells of a mesh are affine, by their kind or by what the user says of them.

    Raises:
        UnsupportedFormError: if the user says so of a mesh whose coordinate element cannot be.
    """
    simplex = bool(domain.is_piecewise_linear_simplex_domain())
    if geometry == "general" or simplex:
        return simplex
    element = domain.ufl_coordinate_element()
    if element.degree != 1 or domain.ufl_cell().cellname not in _CUBES:
        raise UnsupportedFormError(
            f"geometry={geometry} needs intervals, quadrilaterals, hexahedra or simplices with a coordinate element of "
            f"degree 1; that of the mesh is {element}"
        )
    if geometry == "axis_parallel" and domain.geometric_dimension != domain.topological_dimension:
        raise UnsupportedFormError("geometry=axis_parallel is for cells that fill space, not for curves and surfaces")
    return True


_CUBES = ("interval", "quadrilateral", "hexahedron")
_NEEDS_STRAIGHT_EDGES = (
    uc.CellDiameter,
    uc.MinCellEdgeLength,
    uc.MaxCellEdgeLength,
    uc.MinFacetEdgeLength,
    uc.MaxFacetEdgeLength,
)
_ENTITY = {"cell": "cells", "cutcell": "cut cells", "interface": "interfaces", "vertex": "vertices"}


def _leaf(graph: Graph, terminal: Terminal) -> LinearForm:
    return {(): graph.terminal(terminal)}


def _flatten(component: tuple[int, ...], shape: tuple[int, ...]) -> int:
    return int(np.ravel_multi_index(component, shape)) if shape else 0
