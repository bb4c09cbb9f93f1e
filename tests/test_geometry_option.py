"""Kernels for affine and axis-parallel cells: the numbers of the general ones, for less, and only on such cells."""

from __future__ import annotations

from typing import Any

import basix.ufl
import numpy as np
import pytest
import ufl
from oracles.case import mesh, space
from ufl import CellVolume, Coefficient, FacetNormal, TestFunction, avg, dot, dS, ds, dx, grad, inner, jump

import formcompiler
from formcompiler import reference
from formcompiler.elements import cells
from formcompiler.errors import InvalidOptionError, UnsupportedFormError

CUBES = ("interval", "quadrilateral", "hexahedron")


def _form(cell: str) -> tuple[Any, Any]:
    domain = mesh(cell)
    V = space(domain, "DG", 2)
    w, v, n, x = Coefficient(V), TestFunction(V), FacetNormal(domain), ufl.SpatialCoordinate(domain)
    volume = (1 + w**2) * inner(grad(w), grad(v)) * dx(degree=4) + CellVolume(domain) * x[0] * v * dx(degree=4)
    boundary = w * dot(grad(w), n) * v * ds(degree=4)
    skeleton = (avg(w) * jump(w) * jump(v) - dot(avg(grad(w)), n("+")) * jump(v)) * dS(degree=4)
    return volume + boundary + skeleton, w


def _nodes(cell: str, geometry: str, rng: Any) -> Any:
    dim = cells.dimension(cell)
    matrix = np.diag(rng.uniform(0.5, 2, dim))
    if geometry == "affine":
        matrix = matrix + 0.2 * rng.standard_normal((dim, dim))
    return cells.vertices(cell) @ matrix.T + rng.standard_normal(dim)


@pytest.mark.parametrize("factorization", ["off", "auto"])
@pytest.mark.parametrize("geometry", ["affine", "axis_parallel"])
@pytest.mark.parametrize("cell", CUBES)
def test_special_kernels_give_the_numbers_of_the_oracle(cell: str, geometry: str, factorization: str) -> None:
    form, w = _form(cell)
    rng = np.random.default_rng(1)
    compiled = formcompiler.compile_form(form, geometry=geometry, sum_factorization=factorization)
    first = _nodes(cell, geometry, rng)
    shift = first[1] - first[0]  # the neighbour in the first direction
    facets = [n for n in range(len(cells.facet_cells(cell))) if abs(cells.facet_normals(cell)[n][0]) > 0.5]
    ends = sorted(facets, key=lambda n: cells.map_to_facet(cell, n, np.zeros((1, len(shift) - 1)))[0][0])
    dim = w.ufl_function_space().ufl_element().dim
    for data in (
        {"integral_type": "cell", "coordinates": first, "coefficients": {w: rng.standard_normal(dim)}},
        {
            "integral_type": "exterior_facet",
            "coordinates": first,
            "coefficients": {w: rng.standard_normal(dim)},
            "local_facet": ends[1],
        },
        {
            "integral_type": "interior_facet",
            "coordinates": np.stack([first, first + shift]),
            "coefficients": {w: rng.standard_normal((2, dim))},
            "local_facet": [ends[1], ends[0]],
            "facet_permutation": [0, 0],
        },
    ):
        got = compiled.tabulate_tensor(subdomain_id=None, **data)
        expected = reference.element_tensor(form, subdomain_id=None, **data)
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-12 * np.abs(expected).max())


def test_what_is_known_of_the_cells_saves_operations() -> None:
    V = space(mesh("hexahedron"), "Lagrange", 2)
    form = inner(grad(Coefficient(V)), grad(TestFunction(V))) * dx(degree=4)
    counts = [formcompiler.compile_form(form, geometry=geometry).integrals[0].flops for geometry in cells.GEOMETRIES]
    assert counts[0] > counts[1] > counts[2]


def test_a_cell_that_is_not_what_the_kernel_was_made_for_is_refused() -> None:
    form, w = _form("quadrilateral")
    values = {w: np.zeros(9)}
    sheared = np.array([[0, 0], [1, 0.1], [0, 1], [1, 1.1]])
    dented = np.array([[0, 0], [1, 0], [0, 1], [1, 1.01]])
    affine, box = (formcompiler.compile_form(form, geometry=g) for g in ("affine", "axis_parallel"))
    affine.tabulate_tensor("cell", None, sheared, coefficients=values)
    with pytest.raises(InvalidOptionError, match="geometry=affine: the cell is not affine"):
        affine.tabulate_tensor("cell", None, dented, coefficients=values)
    with pytest.raises(InvalidOptionError, match="geometry=axis_parallel: the cell is not axis parallel"):
        box.tabulate_tensor("cell", None, sheared, coefficients=values)


def test_geometry_of_higher_degree_cannot_be_declared_affine() -> None:
    domain = ufl.Mesh(basix.ufl.element("Lagrange", "quadrilateral", 2, shape=(2,)))
    v = TestFunction(space(domain, "Lagrange", 1))
    with pytest.raises(UnsupportedFormError, match=r"geometry=affine needs .* a coordinate element of degree 1"):
        formcompiler.compile_form(v * dx, geometry="affine")


def test_surfaces_cannot_be_declared_parallel_to_axes() -> None:
    v = TestFunction(space(mesh("quadrilateral", 1, 3), "Lagrange", 1))
    with pytest.raises(UnsupportedFormError, match="fill space"):
        formcompiler.compile_form(v * dx, geometry="axis_parallel")


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([[0, 0], [2, 0], [0, 1], [2, 1]], "axis_parallel"),
        ([[0, 0], [-2, 0], [0, 1], [-2, 1]], "axis_parallel"),
        ([[0, 0], [0, 2], [1, 0], [1, 2]], "affine"),
        ([[0, 0], [2, 0.5], [0, 1], [2, 1.5]], "affine"),
        ([[0, 0], [2, 0], [0, 1], [2, 1.25]], "general"),
        ([[1e6, 0], [1e6 + 1, 0], [1e6, 1], [1e6 + 1, 1 + 1e-3]], "general"),
    ],
)
def test_cells_are_classified_by_their_vertices(nodes: Any, expected: str) -> None:
    assert cells.classify("quadrilateral", np.array([nodes], dtype=float)) == expected
