"""Rules for arguments, coefficients, geometry, restrictions, averages and derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import ufl

from formcompiler.elements import cells
from formcompiler.elements.quadrature import facet_measure_degree, measure_degree
from formcompiler.errors import UnsupportedFormError
from formcompiler.reference.evaluate import RULES, Evaluator, Expr, Rule, State, rule
from formcompiler.reference.geometry import Cell
from formcompiler.reference.jets import Array, Jet, constant, differentiate, stack
from formcompiler.reference.rules import estimated_degree
from formcompiler.reference.spaces import basis_functions, function
from formcompiler.reference.tensors import contract


def _check_restricted(ev: Evaluator, expr: Expr, state: State) -> None:
    if ev.data.n_sides == 2 and state.side is None:
        raise UnsupportedFormError(
            f"{expr} has different values on the two sides of an interior facet: restrict it, as {expr}('+') or "
            f"{expr}('-'), or use avg or jump"
        )


@rule("argument")
def _argument(ev: Evaluator, expr: Expr, state: State) -> Jet:
    _check_restricted(ev, expr, state)
    axis = ev.data.arguments.index(expr)
    basis = basis_functions(ev.cell(expr, state.side), expr.ufl_element(), state.order, expr.ufl_shape)
    n = expr.ufl_element().dim
    first = (state.side or 0) * n

    def place(term: Array) -> Array:
        both = np.zeros((len(term), ev.data.n_sides * n, *term.shape[2:]), dtype=ev.data.dtype)
        both[:, first : first + n] = term
        axes = [1] * (ev.lead - 1)
        axes[axis] = both.shape[1]
        return both.reshape(len(term), *axes, *term.shape[2:])

    return basis.map(place)


@rule("coefficient")
def _coefficient(ev: Evaluator, expr: Expr, state: State) -> Jet:
    if state.order or expr.ufl_element() not in ufl.H1:
        _check_restricted(ev, expr, state)
    dofs = ev.data.coefficients[expr][state.side or 0]
    values = function(ev.cell(expr, state.side), expr.ufl_element(), dofs, state.order, expr.ufl_shape)
    return ev.perturbed(expr, ev.spread(values), state)


@rule("constant")
def _constant(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return ev.constant(ev.data.constants[expr], state)


@rule("positive_restricted", "negative_restricted")
def _restricted(ev: Evaluator, expr: Expr, state: State) -> Jet:
    if state.side is not None or ev.data.n_sides == 1 or state.order:
        reason = "it is restricted already" if state.side is not None else "only interior facets have two sides"
        if state.side is None and state.order:
            reason = "it stands below a derivative; restrict the derivative instead"
        raise UnsupportedFormError(f"cannot restrict in {expr}: {reason}")
    return ev.evaluate(expr.ufl_operands[0], replace(state, side=int(expr.side() == "-")))


@rule("cell_avg", "facet_avg")
def _average(ev: Evaluator, expr: Expr, state: State) -> Jet:
    _check_restricted(ev, expr, state)
    cell, side = ev.cells[state.side or 0], state.side or 0
    (operand,) = expr.ufl_operands
    on_cell = expr._ufl_handler_name_ == "cell_avg"
    geometry = cell.element.embedded_subdegree
    degree = estimated_degree(operand, ev.data.is_complex)
    degree += (
        measure_degree(cell.name, geometry, cell.gdim) if on_cell else facet_measure_degree(cell.facet_cell, geometry)
    )
    there, weights = cell.quadrature(degree) if on_cell else cell.facet_quadrature(degree)
    all_cells = tuple(there if i == side else other for i, other in enumerate(ev.cells))
    jet = ev.at(all_cells).evaluate(operand, replace(state, order=0))
    shares = weights / weights.sum()

    def mean(term: Array) -> Array:
        wide = np.broadcast_to(term, (len(shares), *term.shape[1:]))
        return np.asarray(np.einsum("p,p...->...", shares, wide))[None]

    return replace(jet.map(mean), order=state.order)


@rule("coefficient_derivative")
def _coefficient_derivative(ev: Evaluator, expr: Expr, state: State) -> Jet:
    integrand, coefficients, directions, known = expr.ufl_operands
    pairs = dict(zip(coefficients.ufl_operands, directions.ufl_operands, strict=True))
    dependent = known.ufl_operands
    for dependency, slopes in zip(dependent[::2], dependent[1::2], strict=True):
        listed = slopes.ufl_operands if isinstance(slopes, ufl.classes.ExprList) else (slopes,)
        pairs[dependency] = sum(_times(s, d) for s, d in zip(listed, directions.ufl_operands, strict=True))
    return ev.gateaux(integrand, pairs, state)


def _times(slope: Expr, direction: Expr) -> Expr:
    """Return the change of a function whose derivative is known, if what it depends on moves along a direction."""
    inner = ufl.indices(len(direction.ufl_shape))
    outer = ufl.indices(len(slope.ufl_shape) - len(inner))
    product = slope[(*outer, *inner)] * direction[inner] if inner or outer else slope * direction
    return ufl.as_tensor(product, outer) if outer else product


@rule("coordinate_derivative")
def _coordinate_derivative(ev: Evaluator, expr: Expr, state: State) -> Jet:
    raise UnsupportedFormError("derivatives with respect to the SpatialCoordinate are not supported")


@rule("variable_derivative")
def _variable_derivative(ev: Evaluator, expr: Expr, state: State) -> Jet:
    operand, variable = expr.ufl_operands
    key = variable.ufl_operands[1] if isinstance(variable, ufl.classes.Variable) else variable
    return ev.variable_derivative(operand, key, variable.ufl_shape, state)


def _reference_gradient(ev: Evaluator, operand: Expr, state: State) -> Jet:
    jet = ev.evaluate(operand, replace(state, order=state.order + 1))
    tdim = ev.cell(operand, state.side).tdim
    return stack([differentiate(jet, i) for i in range(tdim)], jet.value.ndim)


def _gradient(ev: Evaluator, operand: Expr, state: State) -> Jet:
    """Return the physical gradient: the derivatives are the last axis."""
    reference = _reference_gradient(ev, operand, state)
    inverse = ev.cell(operand, state.side).jet("inverse_jacobian", state.order)
    extra = (1,) * (reference.value.ndim - 2)
    wide = inverse.map(lambda t: t.reshape(t.shape[:1] + extra + t.shape[1:]))
    return contract(reference, wide, "...t,...tg->...g")


@rule("grad")
def _grad(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return _gradient(ev, expr.ufl_operands[0], state)


@rule("reference_grad")
def _reference_grad(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return _reference_gradient(ev, expr.ufl_operands[0], state)


@rule("nabla_grad")
def _nabla_grad(ev: Evaluator, expr: Expr, state: State) -> Jet:
    first = ev.lead + len(expr.ufl_free_indices)
    return _gradient(ev, expr.ufl_operands[0], state).map(lambda t: np.moveaxis(t, -1, first))


@rule("div")
def _div(ev: Evaluator, expr: Expr, state: State) -> Jet:
    gradient = _gradient(ev, expr.ufl_operands[0], state)
    return gradient.map(lambda t: np.asarray(np.einsum("...ii->...", t)))


@rule("nabla_div")
def _nabla_div(ev: Evaluator, expr: Expr, state: State) -> Jet:
    first = ev.lead + len(expr.ufl_free_indices)
    gradient = _gradient(ev, expr.ufl_operands[0], state)
    return gradient.map(lambda t: np.asarray(np.einsum("...ii->...", np.moveaxis(t, first, -2))))


@rule("curl")
def _curl(ev: Evaluator, expr: Expr, state: State) -> Jet:
    shape = expr.ufl_operands[0].ufl_shape
    gradient = _gradient(ev, expr.ufl_operands[0], state)

    def rotation(t: Array) -> Array:
        if shape == ():
            return np.stack([t[..., 1], -t[..., 0]], axis=-1)
        if shape == (2,):
            return np.asarray(t[..., 1, 0] - t[..., 0, 1])
        pairs = ((1, 2), (2, 0), (0, 1))
        return np.stack([t[..., j, i] - t[..., i, j] for i, j in pairs], axis=-1)

    return gradient.map(rotation)


_FIELDS = {
    "spatial_coordinate": "coordinate",
    "cell_coordinate": "reference_coordinate",
    "jacobian": "jacobian",
    "jacobian_determinant": "det_jacobian",
    "jacobian_inverse": "inverse_jacobian",
    "facet_jacobian": "facet_jacobian",
    "facet_jacobian_determinant": "det_facet_jacobian",
    "facet_jacobian_inverse": "inverse_facet_jacobian",
    "facet_normal": "normal",
    "cell_normal": "cell_normal",
}
"""Quantities that vary within a cell: UFL's name and the method of `Cell`."""


def _lengths(vectors: Array) -> Array:
    return np.asarray(np.linalg.norm(vectors, axis=1))


_NUMBERS: dict[str, Callable[[Cell], object]] = {
    "cell_volume": lambda cell: cell.volume(),
    "facet_area": lambda cell: cell.facet_area(),
    "circumradius": lambda cell: cell.circumradius(),
    "cell_diameter": lambda cell: cell.diameter(),
    "min_cell_edge_length": lambda cell: _lengths(cell.edge_vectors()).min(),
    "max_cell_edge_length": lambda cell: _lengths(cell.edge_vectors()).max(),
    "min_facet_edge_length": lambda cell: _lengths(cell.edge_vectors(cell.on_facet)).min(),
    "max_facet_edge_length": lambda cell: _lengths(cell.edge_vectors(cell.on_facet)).max(),
    "cell_vertices": lambda cell: cell.vertices(),
    "cell_edge_vectors": lambda cell: cell.edge_vectors(),
    "facet_edge_vectors": lambda cell: cell.edge_vectors(cell.on_facet),
    "reference_cell_edge_vectors": lambda cell: cell.edge_vectors(reference=True),
    "reference_facet_edge_vectors": lambda cell: cell.edge_vectors(cell.on_facet, reference=True),
    "cell_origin": lambda cell: cell.vertices()[0],
    "facet_origin": lambda cell: cell.vertices()[cells.topology(cell.name)[-2][cell.on_facet][0]],
    "reference_normal": lambda cell: cells.facet_normals(cell.name)[cell.on_facet],
    "reference_cell_volume": lambda cell: cells.reference_volume(cell.name),
    "reference_facet_volume": lambda cell: cells.reference_volume(cell.facet_cell),
    "cell_facet_jacobian": lambda cell: cells.facet_jacobians(cell.name)[cell.on_facet],
}
"""Quantities that are the same in all points."""

_CONTINUOUS = {"spatial_coordinate", "facet_area", "min_facet_edge_length", "max_facet_edge_length", "facet_coordinate"}


def _check_geometry(ev: Evaluator, expr: Expr, state: State) -> Cell:
    """Return the cell of a geometric quantity."""
    if expr._ufl_handler_name_ not in _CONTINUOUS:
        _check_restricted(ev, expr, state)
    cell = ev.cell(expr, state.side)
    if isinstance(expr, ufl.geometry.GeometricFacetQuantity) and cell.facet is None:
        raise UnsupportedFormError(f"{type(expr).__name__} is defined on facets only: use it in ds or dS, not in dx")
    return cell


def _field_rule(name: str) -> Rule:
    def evaluate(ev: Evaluator, expr: Expr, state: State) -> Jet:
        cell = _check_geometry(ev, expr, state)
        jet = cell.jet(_FIELDS[name], state.order)
        return ev.spread(jet).map(lambda t: t.astype(ev.data.dtype))

    return evaluate


def _number_rule(name: str) -> Rule:
    def evaluate(ev: Evaluator, expr: Expr, state: State) -> Jet:
        return ev.constant(_NUMBERS[name](_check_geometry(ev, expr, state)), state)

    return evaluate


RULES.update({name: _field_rule(name) for name in _FIELDS})
RULES.update({name: _number_rule(name) for name in _NUMBERS})


@rule("facet_coordinate")
def _facet_coordinate(ev: Evaluator, expr: Expr, state: State) -> Jet:
    """Return the coordinates on the facet as its first cell sees it: UFL gives both sides the same."""
    points = _check_geometry(ev, expr, replace(state, side=0)).facet_points
    return ev.spread(constant(points, state.order, ev.n_coordinates)).map(lambda t: t.astype(ev.data.dtype))
