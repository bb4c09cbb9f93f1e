"""Geometric quantities on straight and curved cells, surfaces and facets of all kinds."""

from __future__ import annotations

import numpy as np
import pytest
import ufl
from checking import ALL_CELLS, FLAT_CELLS, MANIFOLDS, agree, coefficient, differences, mesh, refused, tensor
from ufl.classes import (
    CellCoordinate,
    CellOrigin,
    CellVertices,
    FacetCoordinate,
    FacetJacobian,
    FacetJacobianDeterminant,
    FacetJacobianInverse,
    FacetOrigin,
)

QUICK = {
    **{cell: mesh(cell) for cell in ALL_CELLS},
    **{f"{cell} of degree 2": mesh(cell, 2) for cell in ("triangle", "quadrilateral")},
    **{f"{cell} in {gdim}D": mesh(cell, 1, gdim) for cell, gdim in (("interval", 2), ("quadrilateral", 3))},
    "triangle of degree 2 in 3D": mesh("triangle", 2, 3),
}
THOROUGH = {
    **{f"{cell} of degree 2": mesh(cell, 2) for cell in ("interval", "tetrahedron", "hexahedron", "prism")},
    "quadrilateral of degree 3": mesh("quadrilateral", 3),
    **{f"{cell} in {gdim}D": mesh(cell, 1, gdim) for cell, gdim in (("interval", 3), ("triangle", 3))},
    **{f"{cell} of degree 2 in {gdim}D": mesh(cell, 2, gdim) for cell, gdim in MANIFOLDS if cell != "triangle"},
}
on_meshes = pytest.mark.parametrize(
    "meshes", [pytest.param(QUICK, id="quick"), pytest.param(THOROUGH, id="thorough", marks=pytest.mark.slow)]
)


def straight(meshes):
    return {name: d for name, d in meshes.items() if d.ufl_coordinate_element().degree == 1}


def curved(meshes):
    return {name: d for name, d in meshes.items() if d.ufl_coordinate_element().degree > 1}


DX, DS = ufl.dx(degree=2), ufl.ds(degree=2)


def on_all_entities(quantity, domain):
    return (
        quantity * ufl.dx(domain=domain, degree=2)
        + quantity * ufl.ds(domain=domain, degree=2)
        + (quantity("+") + 2 * quantity("-")) * ufl.dS(domain=domain, degree=2)
    )


def on_facets(quantity, domain):
    return quantity * ufl.ds(domain=domain, degree=2) + (quantity("+") + 2 * quantity("-")) * ufl.dS(
        domain=domain, degree=2
    )


def add_up(quantities, domain):
    """Return the sum of all quantities with factors that let no error cancel another."""
    return sum((0.3 + 0.17 * number) * quantity(domain) for number, quantity in enumerate(quantities.values()))


QUANTITIES = {
    "position": lambda d: ufl.SpatialCoordinate(d)[0] ** 2,
    "reference position": lambda d: CellCoordinate(d)[0],
    "volume": ufl.CellVolume,
    "Jacobian": lambda d: ufl.Jacobian(d)[0, 0],
    "inverse": lambda d: ufl.JacobianInverse(d)[0, 0],
    "determinant": ufl.JacobianDeterminant,
    "origin": lambda d: CellOrigin(d)[0],
    "vertex": lambda d: CellVertices(d)[1, 0],
    "gradient of reference position": lambda d: ufl.grad(CellCoordinate(d))[0, 0],
    "gradient of position": lambda d: ufl.grad(ufl.SpatialCoordinate(d))[0, 0] + ufl.div(ufl.SpatialCoordinate(d)),
    "gradient of its square": lambda d: ufl.grad(ufl.SpatialCoordinate(d)[0] ** 2)[0],
}
FACET_QUANTITIES = {
    "normal": lambda d: ufl.FacetNormal(d)[0],
    "area": ufl.FacetArea,
    "flux of position": lambda d: ufl.dot(ufl.SpatialCoordinate(d), ufl.FacetNormal(d)),
    "facet origin": lambda d: FacetOrigin(d)[0],
}


@on_meshes
def test_quantities_of_cells_equal_dense_evaluation_on_all_meshes(meshes):
    agree({name: on_all_entities(add_up(QUANTITIES, d), d) for name, d in meshes.items()})


@on_meshes
def test_quantities_of_facets_equal_dense_evaluation_on_all_meshes(meshes):
    agree({name: on_facets(add_up(FACET_QUANTITIES, d), d) for name, d in meshes.items()})


@on_meshes
def test_maps_of_facets_equal_dense_evaluation(meshes):
    forms = {}
    for name, d in meshes.items():
        if d.topological_dimension > 1:
            forms[f"J {name}"] = on_facets(FacetJacobian(d)[0, 0] + FacetJacobianInverse(d)[0, 0], d)
            forms[f"det {name}"] = on_facets(FacetJacobianDeterminant(d) + FacetCoordinate(d)[0], d)
    agree(forms)


@on_meshes
def test_lengths_of_edges_equal_dense_evaluation_on_straight_meshes(meshes):
    forms = {}
    for name, d in straight(meshes).items():
        size = ufl.CellDiameter(d) + 2 * ufl.MinCellEdgeLength(d) + 3 * ufl.MaxCellEdgeLength(d)
        forms[name] = size * ufl.dx(domain=d, degree=0) + (size("+") + 2 * size("-")) * ufl.dS(domain=d, degree=0)
        if d.ufl_cell().cellname in ("tetrahedron", "hexahedron"):
            forms[f"facet {name}"] = on_facets(ufl.MinFacetEdgeLength(d) + 2 * ufl.MaxFacetEdgeLength(d), d)
        if d.ufl_cell().cellname in ("interval", "triangle", "tetrahedron"):
            forms[f"radius {name}"] = on_all_entities(ufl.Circumradius(d), d)
    agree(forms)


@on_meshes
def test_derivatives_of_the_maps_of_curved_cells_equal_dense_evaluation(meshes):
    forms = {}
    for name, d in curved(meshes).items():
        slope = ufl.grad(ufl.Jacobian(d))[0, 0, 0] + ufl.grad(ufl.JacobianDeterminant(d))[0]
        forms[name] = on_all_entities(slope + ufl.grad(ufl.JacobianInverse(d))[0, 0, 0], d)
    agree(forms)


@on_meshes
def test_derivatives_of_normals_of_curved_facets_equal_dense_evaluation(meshes):
    forms = {}
    for name, d in curved(meshes).items():
        if d.topological_dimension > 1:
            n = ufl.FacetNormal(d)
            forms[name] = on_facets(ufl.grad(n)[0, 0] + ufl.div(n), d)
    agree(forms)


@on_meshes
def test_normals_of_curves_and_surfaces_and_their_curvature_equal_dense_evaluation(meshes):
    forms = {}
    for name, d in meshes.items():
        if d.geometric_dimension == d.topological_dimension + 1:
            forms[name] = on_all_entities(ufl.CellNormal(d)[0] + CellCoordinate(d)[0], d)
            if d.ufl_coordinate_element().degree > 1:
                forms[f"curvature {name}"] = on_all_entities(ufl.div(ufl.CellNormal(d)), d)
    agree(forms)


def test_the_gradient_of_the_position_is_the_projection_onto_the_tangent():
    domain = mesh("triangle", 1, 3)
    x = ufl.SpatialCoordinate(domain)
    corners = np.array([[0.0, 0, 0], [1, 0, 1], [0.5, 2, 0.3]])
    normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
    area = np.linalg.norm(normal) / 2
    projection = np.eye(3) - np.outer(normal, normal) / (4 * area**2)
    found = [[tensor(ufl.grad(x)[i, j] * ufl.dx(domain=domain), corners) for j in range(3)] for i in range(3)]
    assert np.allclose(found, area * projection, atol=1e-14)
    assert np.isclose(tensor(ufl.div(x) * ufl.dx(domain=domain), corners), 2 * area)


def test_the_volume_of_a_bilinear_quadrilateral_is_the_shoelace_area():
    domain = mesh("quadrilateral")
    corners = np.array([[0.0, 0], [2, 0], [0, 1], [3, 2]])
    (a, b), (c, d) = corners[3] - corners[0], corners[2] - corners[1]
    area = abs(a * d - b * c) / 2
    assert np.isclose(tensor(ufl.CellVolume(domain) * ufl.dx, corners), area**2)


def test_the_volume_of_a_straight_prism_and_pyramid():
    prism = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [0, 1, 1]])
    prism[3:, 2] = 2.0
    assert np.isclose(tensor(ufl.CellVolume(mesh("prism")) * ufl.dx, prism), 1.0)
    pyramid = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 3]])
    assert np.isclose(tensor(ufl.CellVolume(mesh("pyramid")) * ufl.dx, pyramid), 1.0)


def test_the_area_of_a_sphere_from_curved_triangles_converges():
    """One eighth of the unit sphere, as one P2 triangle whose edge nodes lie on the sphere, then as four."""
    domain = mesh("triangle", 2, 3)
    form = ufl.CellVolume(domain) / ufl.CellVolume(domain) * ufl.dx(domain=domain, degree=10)

    def area(a, b, c, level):
        ab, bc, ca = (m / np.linalg.norm(m) for m in ((a + b) / 2, (b + c) / 2, (c + a) / 2))
        if level == 0:
            return tensor(form, [a, b, c, bc, ca, ab])
        parts = ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))
        return sum(area(*part, level - 1) for part in parts)

    errors = [abs(area(*np.eye(3), level) - np.pi / 2) for level in range(3)]
    assert errors[1] < errors[0] / 8 and errors[2] < errors[1] / 8


@pytest.mark.parametrize("cell", FLAT_CELLS)
def test_the_area_of_a_closed_surface_of_a_bent_cell_vanishes_as_a_vector(cell):
    domain = mesh(cell, 2)
    n = ufl.FacetNormal(domain)
    rng = np.random.default_rng(4)
    nodes = domain.ufl_coordinate_element().sub_elements[0].basix_element.points
    nodes = nodes + 0.03 * rng.standard_normal(nodes.shape)
    n_facets = {"interval": 2, "triangle": 3, "quadrilateral": 4, "tetrahedron": 4, "hexahedron": 6}[cell]
    form = n[0] * ufl.ds(degree=6)
    parts = [tensor(form, nodes, "exterior_facet", local_facet=f) for f in range(n_facets)]
    assert abs(sum(parts)) < 1e-12 and max(map(abs, parts)) > 0.1


def test_a_shell_of_constant_thickness_is_computed_with_normals_of_the_surface():
    domain = mesh("quadrilateral", 2, 3)
    f = coefficient(domain, "Lagrange", 2)
    n = ufl.CellNormal(domain)
    tangential = ufl.grad(f) - ufl.dot(ufl.grad(f), n) * n
    found = differences({"zero": ufl.dot(ufl.grad(f), n) * DX, "all": ufl.inner(tangential, tangential) * DX})
    assert max(max(values) for values in found.values()) < 1e-12


def test_quantities_that_need_affine_cells_are_refused_with_what_to_use_instead():
    refused(ufl.Circumradius(mesh("quadrilateral")) * DX, "use CellDiameter")
    refused(ufl.CellDiameter(mesh("triangle", 2)) * DX, "geometry of degree 1")
    refused(ufl.MinFacetEdgeLength(mesh("triangle")) * DS, "FacetArea is the length of an edge")
    refused(ufl.CellNormal(mesh("triangle"))[0] * DX, "triangles in 3D; on facets use FacetNormal")


@pytest.mark.parametrize("quantity", [ufl.FacetArea, ufl.MinFacetEdgeLength, lambda d: ufl.FacetNormal(d)[0]])
@pytest.mark.parametrize("cell", ["tetrahedron", "hexahedron"])
def test_quantities_of_facets_are_refused_in_cells(cell, quantity):
    refused(quantity(mesh(cell)) * DX, "is defined on facets only.*use it in ds or dS")


def test_unknown_quantities_are_refused_with_what_there_is():
    domain = mesh("triangle")
    refused(ufl.classes.CellFacetOrigin(domain)[0] * DS, "CellFacetOrigin is not supported; use SpatialCoordinate")
