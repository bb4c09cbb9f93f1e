"""Frames: turned cells see the points and the functions of every facet as the facet permutations say."""

from __future__ import annotations

from dataclasses import replace

import basix
import basix.ufl
import numpy as np
import pytest
import ufl

from formcompiler.elements import cells
from formcompiler.elements.quadrature import make_quadrature
from formcompiler.elements.tables import tensor_factor
from formcompiler.frontend.analysis import analyse_form
from formcompiler.frontend.integrals import FacetPosition, FormIntegral
from formcompiler.options import Options
from formcompiler.sumfact.frames import Frame, Turns, make_frame

CUBES = ("interval", "quadrilateral", "hexahedron")
LEGENDRE = {"lagrange_variant": basix.LagrangeVariant.legendre, "discontinuous": True}


def make_integral(cell: str, integral_type: str) -> FormIntegral:
    domain = ufl.Mesh(basix.ufl.element("Lagrange", cell, 1, shape=(cells.dimension(cell),)))
    u = ufl.Coefficient(ufl.FunctionSpace(domain, basix.ufl.element("DG", cell, 1)))
    forms = {
        "cell": u * ufl.dx(degree=4),
        "exterior_facet": u * ufl.ds(degree=4),
        "interior_facet": ufl.avg(u) * ufl.dS(degree=4),
    }
    return analyse_form(forms[integral_type], Options(), {}).integrals[0]


def frame_of(integral: FormIntegral) -> Frame:
    return make_frame(integral, integral.integrands[0].rule)


@pytest.mark.parametrize("variant", [{}, LEGENDRE])
@pytest.mark.parametrize("integral_type", ["exterior_facet", "interior_facet"])
@pytest.mark.parametrize("cell", CUBES)
def test_turned_dofs_give_the_values_and_derivatives_of_a_function_on_every_facet(
    cell: str, integral_type: str, variant: dict[str, object]
) -> None:
    """A function is a sum over its turned dofs times products of the 1D functions at the points of the roles."""
    element = basix.ufl.element("Lagrange", cell, 3, **variant)
    factor = tensor_factor(element)
    frame = frame_of(make_integral(cell, integral_type))
    turns, dim = frame.turns, cells.dimension(cell)
    assert factor is not None and turns is not None
    values = np.random.default_rng(0).standard_normal(element.dim)
    facet_cell = cells.facet_cells(cell)[0]
    rule = make_quadrature(facet_cell, 4, "default")
    dofs, signs = turns.dofs(factor)
    seen, seen_signs = turns.facet_dofs(factor)
    for facet, permutation in np.ndindex(turns.n_facets, turns.n_permutations):
        at = (np.arange(factor.n)[:, None] * seen.shape[1] + seen[permutation]).ravel()
        turned = values[dofs[facet, at]] * signs[facet, at] * np.tile(seen_signs[permutation], factor.n)
        points = cells.map_to_facet(cell, facet, cells.permute_facet_points(facet_cell, permutation, rule.points))
        order = turns.orders[turns.order_numbers()[facet, permutation]]
        for direction in (None, *range(dim)):
            counts = tuple(int(d == direction) for d in range(dim))
            result = turned.reshape((factor.n,) * dim)
            for role, line in enumerate(frame.sides[0].points):
                table = factor.tabulate(counts[order[role]], line)
                result = np.moveaxis(np.tensordot(table, result, (1, role)), 0, role)
            sign = 1.0 if direction is None else turns.signs()[facet, permutation, direction]
            expected = element.tabulate(1, points)[basix.index(*counts)] @ values
            np.testing.assert_allclose(sign * result.ravel(), expected, atol=1e-11)


@pytest.mark.parametrize("cell", CUBES)
def test_in_a_cell_roles_are_directions(cell: str) -> None:
    frame = frame_of(make_integral(cell, "cell"))
    dim = cells.dimension(cell)
    assert frame.sides[0].orders == (tuple(range(dim)),)
    assert frame.n_points == (3,) * dim
    assert frame.turns is None


def test_derivatives_follow_their_direction_into_its_role() -> None:
    (side,) = frame_of(make_integral("hexahedron", "exterior_facet")).sides
    for order, counts in zip(side.orders, side.permute((2, 0, 1)), strict=True):
        assert counts == tuple((2, 0, 1)[direction] for direction in order)


def test_all_orders_that_occur_are_there_once() -> None:
    turns = Turns("hexahedron", 8)
    assert len(turns.orders) == 6
    assert {turns.orders[n][0] for n in turns.order_numbers()[0]} == {2}


@pytest.mark.parametrize("cell", CUBES)
def test_a_frame_of_known_positions_has_the_points_of_these_facets(cell: str) -> None:
    facet_cell = cells.facet_cells(cell)[0]
    integral = make_integral(cell, "interior_facet")
    rule = integral.integrands[0].rule
    n_facets, n_permutations = len(cells.facet_cells(cell)), cells.n_facet_permutations(facet_cell)
    for facet, permutation in np.ndindex(n_facets, n_permutations):
        placed = replace(integral, positions=(FacetPosition(facet, permutation), FacetPosition(0, 0)))
        side = frame_of(placed).sides[0]
        grid = np.meshgrid(*side.points, indexing="ij")
        points = np.empty((grid[0].size, len(side.points)))
        points[:, list(side.orders[0])] = np.stack([axis.ravel() for axis in grid], axis=1)
        expected = cells.map_to_facet(cell, facet, cells.permute_facet_points(facet_cell, permutation, rule.points))
        np.testing.assert_allclose(points, expected, atol=1e-14)
