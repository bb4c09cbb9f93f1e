"""What is outside of the language is refused in words that the user recognises."""

from __future__ import annotations

import math

import basix.ufl
import numpy as np
import pytest
import ufl
from checking import coefficient, mesh, refused, space

import formcompiler
from formcompiler.errors import InvalidOptionError, UnsupportedFormError
from formcompiler.frontend.operators import plan_operators

DOMAIN = mesh("triangle")
V = space(DOMAIN)
F = ufl.Coefficient(V)
U, W = ufl.TrialFunction(V), ufl.TestFunction(V)
CORNERS = np.array([[0, 0], [1, 0], [0, 1.0]])
DX = ufl.dx(domain=DOMAIN)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (math.inf * F * W * DX, "contains the literal inf: it would make every result inf"),
        (math.nan * F * W * DX, "contains the literal nan"),
        (U * W * DX + F * W * DX, r"different rank \(rank 1, rank 2\).*Split the equation with lhs"),
        (ufl.Argument(V, 2) * U * W * DX, "the form has rank 3"),
        (U * W, "got the expression.*multiply it by dx"),
        ([W * DX], "expected a ufl.Form, got list"),
        (ufl.Cofunction(V.dual()), "got a Cofunction, which only an assembler can evaluate"),
        (W * ufl.sin(W) * DX, "use a Coefficient for the unknown and derivative"),
        (coefficient(DOMAIN, "DG") * W * ufl.dP, r"point integrals \(dP\) need continuous functions"),
        (F * W * ufl.dx(scheme="unheard"), "quadrature_rule 'unheard' is unknown; known are default"),
        (F * W * ufl.dx(degree=-3), "quadrature_degree=-3: give an integer of at least 0"),
        (ufl.geometry.ReferenceCellEdgeVectors(DOMAIN)[0, 0] * W * DX, "ReferenceCellEdgeVectors is not supported"),
        (ufl.geometry.FacetOrientation(DOMAIN) * W * ufl.ds, "FacetOrientation is not supported"),
        (ufl.avg(F) * W * DX, r"restriction.*stands in an integral over cells \(dx\); only interior facets"),
        (ufl.bessel_J(1, F) * W * ufl.Measure("dr", DOMAIN), r"integrals over ridge entities \(dr\) are not supported"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_forms_outside_of_the_language_are_refused(form, words):
    refused(form, words)


def test_points_and_weights_of_custom_rules_must_fit_the_cell():
    def integral(**metadata):
        return F * W * ufl.dx(metadata={"quadrature_rule": "custom", **metadata})

    refused(integral(quadrature_points=[[0.2, 0.2]]), "needs metadata quadrature_points and quadrature_weights")
    refused(integral(quadrature_points=[[0.2]], quadrature_weights=[1.0]), r"needs quadrature_points of shape \(n, 2\)")


def test_what_is_known_of_cells_must_be_possible():
    surface = mesh("quadrilateral", 1, 3)
    refused(coefficient(surface) * ufl.dx, "is for cells that fill space", geometry="axis_parallel")
    refused(coefficient(mesh("triangle", 2)) * ufl.dx, "coordinate element of degree 1", geometry="affine")


@pytest.mark.parametrize(
    ("expression", "points", "words"),
    [
        (F, [[0.1, 0.2, 0.3]], r"on a triangle must have shape \(n, 2\) or, on facets, \(n, 1\)"),
        (coefficient(mesh("prism")), [[0.1, 0.2]], "the facets of a prism are of several kinds"),
        (ufl.FacetNormal(DOMAIN), [[0.1, 0.2]], "Normal is defined on facets only"),
    ],
    ids=["shape", "prism", "normal"],
)
def test_points_of_expressions_must_fit_the_cell(expression, points, words):
    with pytest.raises(UnsupportedFormError, match=words):
        formcompiler.compile_expression(expression, points)


@pytest.mark.parametrize(
    ("place", "data", "words"),
    [
        (("cell", None, CORNERS), {}, "tabulate_tensor needs a value for the coefficient"),
        (("cell", None, CORNERS[:2]), {"coefficients": {F: [1, 1, 1]}}, "coordinates: expected 6 numbers, got 4"),
        (
            ("cell", None, CORNERS),
            {"coefficients": {F: [1, 1]}},
            "values of the coefficient.*expected 3 numbers, got 2",
        ),
        (("exterior_facet", None, CORNERS), {"coefficients": {F: [1, 1, 1]}}, "local_facet is missing"),
        (
            ("exterior_facet", None, CORNERS),
            {"coefficients": {F: [1, 1, 1]}, "local_facet": 3},
            r"local_facet=\[3\]: on a triangle the numbers are 0 to 2",
        ),
        (("facet", None, CORNERS), {}, "integral_type='facet': choose one of cell"),
    ],
    ids=["coefficient", "coordinates", "dofs", "facet", "facet number", "type"],
)
def test_data_of_the_wrong_size_are_refused_by_name(place, data, words):
    compiled = formcompiler.compile_form(F * W * ufl.dx + F * W * ufl.ds)
    with pytest.raises(InvalidOptionError, match=words):
        compiled.tabulate_tensor(*place, **data)


def test_geometry_of_the_mesh_of_facets_is_refused_where_it_has_no_formula():
    facets = mesh("interval", 1, 2)
    refused(ufl.CellVolume(facets) * W * ufl.ds(domain=DOMAIN), "of a mesh of facets is not supported")


def test_forms_that_make_no_operator_are_refused():
    other = ufl.TestFunction(space(DOMAIN, "Lagrange", 2))
    with pytest.raises(UnsupportedFormError, match="the test functions of a and L come from different function spaces"):
        plan_operators("file", [("a", U * W * ufl.dx), ("L", other * ufl.dx)], {})
    with pytest.raises(UnsupportedFormError, match=r"arguments with the numbers \[1\]"):
        plan_operators("file", [("L", U * ufl.dx)], {})


def test_coordinates_of_quadrature_elements_have_no_derivatives():
    points = ufl.Coefficient(ufl.FunctionSpace(DOMAIN, basix.ufl.quadrature_element("triangle", degree=2)))
    refused(ufl.grad(points)[0] * W * DX, "Cannot take derivatives of Quadrature element")
