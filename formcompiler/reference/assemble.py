"""Element tensors and expression values: quadrature over what `Evaluator` returns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from ufl.domain import extract_domains

import formcompiler.reference.algebra
import formcompiler.reference.terminals  # noqa: F401  (the two modules register the rules of all operators)
from formcompiler.elements import cells
from formcompiler.elements.cells import FloatArray
from formcompiler.elements.quadrature import QuadratureRule
from formcompiler.errors import UnsupportedFormError
from formcompiler.frontend.integrals import IN_CELLS
from formcompiler.reference.evaluate import Data, Evaluator
from formcompiler.reference.geometry import Cell
from formcompiler.reference.jets import Array
from formcompiler.reference.rules import arguments_of, coefficients_of, group_by_metadata, integral_rule

_ENTRIES_AT_ONCE = 300_000


@dataclass(frozen=True, eq=False)
class Entity:
    """What is integrated over.

    Attributes:
        integral_type: "cell", "exterior_facet", "interior_facet" or "vertex".
        nodes: Physical nodes of its cells, axes (side, node, direction).
        facets: Number of the facet (or vertex) in each cell.
        permutations: How each cell sees the facet.
    """

    integral_type: str
    nodes: FloatArray
    facets: tuple[int, ...]
    permutations: tuple[int, ...]

    def reference_cell(self, cell: str) -> str:
        """Return the reference cell of the entity on a cell."""
        if self.integral_type in IN_CELLS:
            return cell
        return "vertex" if self.integral_type == "vertex" else cells.facet_cells(cell)[self.facets[0]]

    def cells_at(self, element: Any, rule: QuadratureRule) -> tuple[Cell, ...]:
        """Return the cells at the points of a rule, given on the reference cell of the entity."""
        return tuple(self._cell_at(side, element, rule) for side in range(len(self.nodes)))

    def _cell_at(self, side: int, element: Any, rule: QuadratureRule) -> Cell:
        name, nodes, facet = element.cell_type.name, self.nodes[side], self.facets[side]
        if self.integral_type in IN_CELLS:
            return Cell(element, nodes, rule.points)
        if self.integral_type == "vertex":
            return Cell(element, nodes, cells.vertices(name)[facet][None])
        points = cells.permute_facet_points(rule.cell, self.permutations[side], rule.points)
        on_facet = cells.map_to_facet(name, facet, points)
        return Cell(element, nodes, on_facet, facet, points, self.permutations[side])


def element_tensor(
    form: Any,
    integral_type: str = "cell",
    subdomain_id: int | None = None,
    coordinates: npt.ArrayLike = (),
    *,
    coefficients: Mapping[Any, Any] | None = None,
    constants: Mapping[Any, Any] | None = None,
    local_facet: int | Iterable[int] | None = None,
    facet_permutation: int | Iterable[int] | None = None,
    scalar_type: str = "float64",
    max_quadrature_degree: int | None = None,
    points: Any = None,
    weights: Any = None,
) -> Array:
    """Return the element tensor of a form, summed over all integrals of a type that apply to an entity.

    Args:
        form: A UFL form.
        integral_type: "cell", "exterior_facet", "interior_facet" or "vertex".
        subdomain_id: Id of the entity, None if it is unmarked; integrals without an id apply to every entity.
        coordinates: Physical nodes of the cell, axes (node, direction); for interior facets (side, node, direction).
        coefficients: Dofs by coefficient, axes (dof,); for interior facets (side, dof). Missing ones are not a
            number: so is the result if it depends on them.
        constants: Values by constant.
        local_facet: Number of the facet (or vertex) in the cell; for interior facets one for each side.
        facet_permutation: How each side sees the facet, by `permute_facet_points`; used on interior facets, and
            if a function lives on the mesh of the facets.
        scalar_type: numpy type of the result; complex types keep conjugations.
        max_quadrature_degree: Upper limit for estimated quadrature degrees.

        points: For integrals that get their points at run time: axes (point, direction).
        weights: One for each point: on the reference cell or facet, or of an interface.

    Returns:
        Axes (dof,) * rank in the element's dof order; on interior facets the dofs of the first cell come first.

    Raises:
        UnsupportedFormError: for operators that have no rule, and missing restrictions.
    """
    n_sides = 2 if integral_type == "interior_facet" else 1
    turns = n_sides == 2 or len(extract_domains(form)) > 1
    permutations = facet_permutation if turns else None
    entity = _make_entity(integral_type, coordinates, local_facet, permutations)
    data = _make_data((form.arguments(), form.coefficients()), coefficients, constants, scalar_type, n_sides)
    shape = tuple(n_sides * a.ufl_element().dim for a in data.arguments)
    result = np.zeros(shape, dtype=data.dtype)
    for integral, integrand in _applicable(form, integral_type, subdomain_id):
        element = integral.ufl_domain().ufl_coordinate_element()
        where = entity.reference_cell(element.cell_type.name)
        given = None if points is None or weights is None else (points, weights)
        rule = integral_rule(integral, integrand, where, max_quadrature_degree, data.is_complex, given)
        for part in _parts(rule, shape):
            result += _integrate(integrand, entity.cells_at(element, part), data, integral_type, part.weights)
    return np.asarray(result.astype(scalar_type))


def expression_values(
    expression: Any,
    points: npt.ArrayLike,
    coordinates: npt.ArrayLike = (),
    *,
    coefficients: Mapping[Any, Any] | None = None,
    constants: Mapping[Any, Any] | None = None,
    local_facet: int | None = None,
    facet_permutation: int | None = None,
    scalar_type: str = "float64",
) -> Array:
    """Return the values of an expression, axes (point, flat component, dof of each argument).

    Args:
        expression: A UFL expression.
        points: Reference coordinates, axes (point, direction), of the cell or, with one direction less, of a facet.
        coordinates: Physical nodes of the cell, axes (node, direction).
        coefficients: Dofs by coefficient.
        constants: Values by constant.
        local_facet: Number of the facet that the points lie on, if they are points of a reference facet.
        facet_permutation: How the cell sees the facet; it permutes the points.
        scalar_type: numpy type of the result.

    Raises:
        UnsupportedFormError: for operators that have no rule, and expressions without a mesh.
    """
    domains: list[Any] = list(extract_domains(expression))
    if not domains:
        raise UnsupportedFormError("the expression has no mesh: use Constant(mesh) or SpatialCoordinate(mesh)")
    element = domains[0].ufl_coordinate_element()
    name = element.cell_type.name
    where = np.asarray(points, dtype=np.float64)
    kind = "exterior_facet" if where.shape[1] < cells.dimension(name) else "cell"
    entity = _make_entity(kind, coordinates, local_facet, facet_permutation)
    rule = QuadratureRule(entity.reference_cell(name), -1, "points", where, np.ones(len(where)))
    functions = (arguments_of(expression), coefficients_of(expression))
    data = _make_data(functions, coefficients, constants, scalar_type, 1)
    values = Evaluator(entity.cells_at(element, rule), data).integrand(expression)
    n_components = math.prod(expression.ufl_shape)
    shape = (len(where), *(a.ufl_element().dim for a in data.arguments), n_components)
    values = np.broadcast_to(values.reshape(*values.shape[: data.n_leading], n_components), shape)
    return np.moveaxis(values, -1, 1).astype(scalar_type)


def _make_data(
    functions: tuple[Iterable[Any], Iterable[Any]],
    coefficients: Mapping[Any, Any] | None,
    constants: Mapping[Any, Any] | None,
    scalar_type: str,
    n_sides: int,
) -> Data:
    """Return the checked data of arguments and coefficients."""
    arguments, needed = functions
    dtype = np.complex128 if scalar_type.startswith("complex") else np.float64
    given = coefficients or {}
    dofs = {}
    for f in needed:
        shape = (n_sides, f.ufl_element().dim)
        dofs[f] = np.asarray(given[f], dtype=dtype).reshape(shape) if f in given else np.full(shape, np.nan)
    values = {c: np.asarray(v, dtype=dtype).reshape(c.ufl_shape) for c, v in (constants or {}).items()}
    return Data(tuple(arguments), dofs, values, dtype, n_sides)


def _make_entity(
    integral_type: str,
    coordinates: npt.ArrayLike,
    local_facet: int | Iterable[int] | None,
    facet_permutation: int | Iterable[int] | None,
) -> Entity:
    n_sides = 2 if integral_type == "interior_facet" else 1
    nodes = np.asarray(coordinates, dtype=np.float64)
    nodes = nodes.reshape(n_sides, *nodes.shape[-2:])
    return Entity(integral_type, nodes, _pair(local_facet, n_sides), _pair(facet_permutation, n_sides))


def _pair(given: int | Iterable[int] | None, n_sides: int) -> tuple[int, ...]:
    numbers = np.atleast_1d(np.asarray(0 if given is None else given, dtype=int))
    return tuple(int(n) for n in np.resize(numbers, n_sides))


def _applicable(form: Any, integral_type: str, subdomain_id: int | None) -> list[tuple[Any, Any]]:
    """Return integrals that apply to an entity: over all entities first, then over those with the id.

    Integrals with equal metadata are one pair (integral, summed integrand), for they share an estimated degree.
    """
    everywhere, marked = [], []
    for integral in form.integrals_by_type(integral_type):
        ids = integral.subdomain_id()
        ids = ids if isinstance(ids, tuple) else (ids,)
        if "everywhere" in ids or "otherwise" in ids:
            everywhere.append(integral)
        if subdomain_id is not None:
            marked += [integral] * ids.count(subdomain_id)
    return group_by_metadata(everywhere) + group_by_metadata(marked)


def _parts(rule: QuadratureRule, shape: tuple[int, ...]) -> Iterable[QuadratureRule]:
    """Yield the rule in portions of points that keep the arrays small."""
    n = max(1, _ENTRIES_AT_ONCE // max(1, math.prod(shape)))
    for start in range(0, rule.n_points, n):
        some = slice(start, start + n)
        yield QuadratureRule(rule.cell, rule.degree, rule.scheme, rule.points[some], rule.weights[some])


def _integrate(integrand: Any, sides: tuple[Cell, ...], data: Data, integral_type: str, weights: FloatArray) -> Array:
    with np.errstate(all="ignore"):
        values = Evaluator(sides, data).integrand(integrand)
    if integral_type in ("cell", "cutcell"):
        weights = weights * np.abs(sides[0].jet("det_jacobian", 0).value)
    elif "facet" in integral_type:
        weights = weights * sides[0].jet("det_facet_jacobian", 0).value
    values = np.broadcast_to(values, (len(weights), *values.shape[1:]))
    return np.asarray(np.einsum("p,p...->...", weights, values))
