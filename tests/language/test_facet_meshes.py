"""Functions on the mesh of the facets that are integrated over, seen by the cell in any orientation."""

from __future__ import annotations

import numpy as np
import pytest
import ufl
from checking import agree, coefficient, mesh, space, tensor
from oracles import ffcx_oracle

import formcompiler
from formcompiler.elements import cells
from formcompiler.reference.random_data import random_cell

CELLS = ("triangle", "quadrilateral", "tetrahedron", "hexahedron")


def meshes(cell):
    """Return a mesh and that of its facets."""
    (kind,) = set(cells.facet_cells(cell))
    return mesh(cell), mesh(kind, 1, cells.dimension(cell))


def forms_of_values(cell):
    domain, facets = meshes(cell)
    f, v = coefficient(domain), ufl.TestFunction(space(domain))
    g, u, m = coefficient(facets, "Lagrange", 2), ufl.TrialFunction(space(facets)), ufl.TestFunction(space(facets))
    ds = ufl.ds(domain=domain, degree=3)
    return {
        "coefficient": f * g * v * ds,
        "coupling": u * v * ds,
        "multiplier": ufl.dot(ufl.grad(f), ufl.FacetNormal(domain)) * m * ds,
    }


@pytest.mark.parametrize("cell", CELLS)
def test_values_equal_those_of_ffcx_for_every_facet_permutation(cell):
    rng = np.random.default_rng(4)
    forms = forms_of_values(cell)
    ffcx_oracle.compile_forms(list(forms.values()), scalar_type="float64")
    for form in forms.values():
        compiled = formcompiler.compile_form(form)
        nodes = random_cell(form.ufl_domains()[0].ufl_coordinate_element(), rng)
        data = {f: rng.uniform(0.5, 1.5, f.ufl_element().dim) for f in form.coefficients()}
        for permutation in range(cells.n_facet_permutations(cells.facet_cells(cell)[0])):
            place = ("exterior_facet", None, nodes)
            given = {"coefficients": data, "local_facet": 1, "facet_permutation": permutation}
            wanted = ffcx_oracle.element_tensor(form, *place, **given)
            assert np.allclose(compiled.tabulate_tensor(*place, **given), wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("seed", range(3))
def test_gradients_equal_dense_assembly(cell, seed):
    domain, facets = meshes(cell)
    f, g, v = coefficient(domain), coefficient(facets, "Lagrange", 2), ufl.TestFunction(space(domain))
    flux = ufl.inner(ufl.grad(g), ufl.grad(f)) + ufl.SpatialCoordinate(domain)[0] * g.dx(1)
    agree({"flux": flux * v * ufl.ds(domain=domain, degree=3)}, seed)


def test_the_derivative_along_an_edge_turns_with_the_edge():
    domain, facets = meshes("quadrilateral")
    g = coefficient(facets)
    slope = g.dx(0) * ufl.ds(domain=domain)
    square = [[0, 0], [1, 0], [0, 1], [1, 1]]
    for permutation, wanted in ((0, 1.0), (1, -1.0)):
        place = {"local_facet": 3, "facet_permutation": permutation}
        assert np.isclose(tensor(slope, square, "exterior_facet", coefficients={g: [0, 1]}, **place), wanted)


def test_the_trace_of_a_function_of_the_cell_has_its_tangential_gradient():
    domain, facets = meshes("tetrahedron")
    f, g, n = coefficient(domain), coefficient(facets), ufl.FacetNormal(domain)
    tangential = ufl.grad(f) - ufl.dot(ufl.grad(f), n) * n
    difference = ufl.inner(tangential - ufl.grad(g), tangential - ufl.grad(g)) + (f - g) ** 2
    error = formcompiler.compile_form(difference * ufl.ds(domain=domain, degree=2))
    nodes = random_cell(domain.ufl_coordinate_element(), np.random.default_rng(1))
    values = np.array([0.3, 1.7, 0.9, 2.4])
    corners = np.array([[0, 0], [1, 0], [0, 1.0]])
    for facet, permutation in np.ndindex(4, 6):
        seen = cells.permute_facet_points("triangle", permutation, corners)
        order = [int(np.argmin(np.abs(corners - point).sum(axis=1))) for point in seen]
        trace = values[list(cells.topology("tetrahedron")[2][facet])][order]
        data = {"coefficients": {f: values, g: trace}, "local_facet": facet, "facet_permutation": permutation}
        assert abs(error.tabulate_tensor("exterior_facet", None, nodes, **data)) < 1e-24
