"""What is outside of the language is refused in words that the user recognises."""

from __future__ import annotations

import math

import basix
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
        (F * W * DX + ufl.Cofunction(V.dual()), "got a FormSum.*compile the forms in it one by one"),
        (U * W * DX == F * W * DX, "got an equation: compile its two sides"),
        (F * W * ufl.dx((1, -1)), r"the subdomain id -1 stands in an integral over cells \(dx\): it is the id of ent"),
        (F * DX + coefficient(mesh("quadrilateral")) * ufl.dx, "the form has integrals over 2 meshes .*split the form"),
        (F * ufl.dx(domain=mesh("triangle")), r"^w_\d+ is defined on another mesh"),
        (ufl.FacetNormal(mesh("triangle"))[0] * F * ufl.ds(domain=DOMAIN), "^FacetNormal is defined on another mesh"),
        (W / F.dx(0).dx(0) * DX, "the form contains a division by zero: its denominator is the literal 0"),
        (F / W * DX, "Cannot divide by form argument.*use a Coefficient for the unknown"),
        (ufl.ExternalOperator(F, function_space=V) * W * DX, "ExternalOperator is not supported.*evaluate it first"),
        (ufl.Interpolate(F**2, V) * W * DX, "Interpolate is not supported inside a form: interpolate into a Coeff"),
        (ufl.FacetNormal(DOMAIN)[0] * ufl.avg(F) * ufl.dS, "without a restriction here: FacetNormal"),
        (ufl.CellDiameter(DOMAIN) * F.dx(0) * ufl.dS, r"without a restriction here: CellDiameter, grad\(w_\d+\)"),
        (ufl.MinFacetEdgeLength(mesh("prism")) * ufl.ds, "a prism has triangles and quadrilaterals: use FacetArea"),
        (
            ufl.derivative(ufl.inner(ufl.grad(F), ufl.grad(F)) * DX, F, F**2),
            r"replace\(derivative\(F, u, du\), \{du: expression\}\)",
        ),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_forms_outside_of_the_language_are_refused(form, words):
    refused(form, words)


@pytest.mark.parametrize(
    ("literal", "scalar_type", "words"),
    [
        (1e200, "float32", r"the literal 1e\+200, which is infinite in float32"),
        (1e-60, "float32", "the literal 1e-60, which is zero in float32"),
        (1 + 1e-60j, "complex64", r"the literal \(1\+1e-60j\), which is zero in float32"),
    ],
)
def test_literals_must_keep_their_size_in_single_precision(literal, scalar_type, words):
    refused(ufl.inner(literal * F, W) * DX, words, scalar_type=scalar_type)


POINTS = ufl.Coefficient(ufl.FunctionSpace(DOMAIN, basix.ufl.quadrature_element("triangle", degree=2)))
CUSTOM = {"quadrature_rule": "custom", "quadrature_weights": [0.5]}


@pytest.mark.parametrize(
    ("measure", "words"),
    [
        (ufl.dx(metadata={**CUSTOM, "quadrature_points": [[0.2, 0.2]]}), "here it is evaluated at others"),
        (ufl.ds(metadata={**CUSTOM, "quadrature_points": [[0.2]]}), "here it is evaluated at others"),
        (ufl.dx(scheme="vertex"), "the integral's own quadrature_degree or quadrature_rule asks for other points"),
        (ufl.dP, "use it in dx, not in an integral over vertices"),
        (ufl.ds, "use it in dx, not in an integral over exterior facets"),
    ],
    ids=["custom", "custom on facets", "vertex rule", "vertices", "facets"],
)
def test_functions_with_values_at_points_are_not_evaluated_elsewhere(measure, words):
    refused(POINTS * W * measure, words)


def test_points_and_weights_of_custom_rules_must_fit_the_cell():
    def integral(**metadata):
        return F * W * ufl.dx(metadata={"quadrature_rule": "custom", **metadata})

    refused(integral(quadrature_points=[[0.2, 0.2]]), "needs metadata quadrature_points and quadrature_weights")
    refused(integral(quadrature_points=[[0.2]], quadrature_weights=[1.0]), r"needs quadrature_points of shape \(n, 2\)")
    refused(integral(quadrature_points=[[0.2, 0.2]], quadrature_weights=[math.nan]), "must be finite numbers")


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
        (F, [[0.1, math.nan]], "points of an expression must be finite"),
        (POINTS, [[0.1, 0.2]], "points of its own only"),
        (POINTS, [[0.1]], "points of its own only"),
        (F("+"), [[0.1, 0.2]], "a restriction .* stands in the expression"),
        (ufl.Interpolate(F**2, V), [[0.1, 0.2]], "Interpolate is not supported inside an expression"),
        (F * DX, [[0.1, 0.2]], "expected an expression, got a Form: use compile_form"),
    ],
    ids=["shape", "prism", "normal", "not finite", "own points", "facets", "restricted", "interpolation", "form"],
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


def test_geometry_must_be_one_polynomial_with_vertices_where_they_are_needed():
    macro = ufl.Mesh(basix.ufl.element(basix.ElementFamily.iso, "triangle", 1, shape=(2,)))
    refused(coefficient(macro) * ufl.dx, "is made of several polynomials on a cell: use a Lagrange element")
    refused(ufl.FacetArea(macro) * ufl.ds, "is made of several polynomials on a cell")
    loose = ufl.Mesh(basix.ufl.element("CR", "triangle", 1, shape=(2,)))
    refused(ufl.CellDiameter(loose) * ufl.dx, "the vertices of cells are no dofs of the coordinate element")


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
