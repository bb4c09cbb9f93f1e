"""Prisms and pyramids with facets of two kinds, elements without polynomials, rules of the user, and points."""

from __future__ import annotations

import basix.ufl
import numpy as np
import pytest
import ufl
from checking import ALL_CELLS, agree, arguments, coefficient, mesh, refused, space, tensor

import formcompiler
from formcompiler.verify import verify_compiled


def functions_on(cell, degree):
    domain = mesh(cell)
    V = space(domain, "Lagrange", degree)
    return domain, *arguments(V), ufl.Coefficient(V), ufl.FacetNormal(domain)


def forms_on_facets_of_two_kinds(cell, degree):
    domain, u, v, f, n = functions_on(cell, degree)
    p, q = arguments(space(domain, "DG", 1))
    g = coefficient(domain, "DG", 1)
    w, z = arguments(space(domain, "Lagrange", 1, shape=(3,)))
    vector = basix.ufl.element("Lagrange", cell, degree, shape=(3,))
    mixed = ufl.FunctionSpace(domain, basix.ufl.mixed_element([vector, basix.ufl.element("Lagrange", cell, 1)]))
    (a, b), (c, d) = ufl.TrialFunctions(mixed), ufl.TestFunctions(mixed)
    strains = ufl.inner(ufl.sym(ufl.grad(w)), ufl.sym(ufl.grad(z))) * ufl.dx(degree=2)
    jumps = ufl.inner(ufl.avg(ufl.grad(p)), ufl.jump(q, n)) + ufl.avg(g) * ufl.jump(p) * ufl.jump(q)
    stokes = (ufl.inner(ufl.grad(a), ufl.grad(c)) - ufl.div(c) * b + ufl.div(a) * d) * ufl.dx(degree=2)
    return {
        "cells": (ufl.inner(ufl.grad(u), ufl.grad(v)) + f * u * v) * ufl.dx(degree=3),
        "estimated degree": f * v * ufl.dx + f * v * ufl.ds,
        "facets": (f * u * v - ufl.dot(ufl.grad(u), n) * v) * ufl.ds(degree=2),
        "interior": jumps * ufl.dS(degree=2),
        "elasticity": strains + ufl.dot(w, n) * ufl.dot(z, n) * ufl.ds(degree=2),
        "mixed": stokes + ufl.dot(a("+"), n("+")) * d("-") * ufl.dS(degree=2),
        "points": f * v * ufl.dP,
    }


@pytest.mark.parametrize(("cell", "degree"), [("prism", 2), ("pyramid", 1)])
@pytest.mark.parametrize("seed", range(2))
def test_cells_with_facets_of_two_kinds_equal_dense_assembly(cell, degree, seed):
    agree(forms_on_facets_of_two_kinds(cell, degree), seed)


@pytest.mark.parametrize("cell", ["prism", "pyramid"])
def test_interior_facets_of_two_kinds_hold_for_many_orientations(cell):
    _, u, v, _, n = functions_on(cell, 1)
    form = formcompiler.compile_form(ufl.inner(ufl.avg(ufl.grad(u)), ufl.jump(v, n)) * ufl.dS(degree=2))
    for seed in range(25):
        assert max(d for _, d in verify_compiled(form, seed)) < 1e-12


def test_the_divergence_theorem_holds_on_a_prism_with_facets_of_two_kinds():
    domain = mesh("prism")
    x, n = ufl.SpatialCoordinate(domain), ufl.FacetNormal(domain)
    nodes = np.array([[0, 0, 0], [1, 0, 0.2], [0, 1, 0], [0.1, 0, 1], [1, 0, 1], [0, 1.2, 1.1]])
    flux = ufl.dot(x, n) * ufl.ds(degree=6)
    total = sum(tensor(flux, nodes, "exterior_facet", local_facet=f) for f in range(5))
    assert np.isclose(total, 3 * tensor(ufl.as_ufl(1) * ufl.dx(domain=domain, degree=6), nodes))


def forms_of_special_elements(cell):
    domain = mesh(cell)
    element = basix.ufl.element("Lagrange", cell, 1)
    u, v = arguments(ufl.FunctionSpace(domain, element))
    real, real_vector = basix.ufl.real_element(cell, ()), basix.ufl.real_element(cell, (2,))
    R = ufl.FunctionSpace(domain, real)
    r, s, c = *arguments(R), ufl.Coefficient(R)
    vector = ufl.Coefficient(ufl.FunctionSpace(domain, real_vector))
    points = basix.ufl.quadrature_element(cell, degree=2)
    vectors = basix.ufl.blocked_element(points, shape=(2,))
    tensors = basix.ufl.blocked_element(points, shape=(2, 2), symmetry=True)
    mixed = ufl.FunctionSpace(domain, basix.ufl.mixed_element([vectors, element]))
    q, qv, qt, q3 = (
        ufl.Coefficient(ufl.FunctionSpace(domain, e))
        for e in (points, vectors, tensors, basix.ufl.quadrature_element(cell, (3,), degree=2))
    )
    (a, b), (d, e) = ufl.TrialFunctions(mixed), ufl.TestFunctions(mixed)
    return {
        "multiplier": s * u * ufl.dx(degree=2) + s * u * ufl.ds(degree=2),
        "its transpose": r("+") * ufl.jump(v) * ufl.dS(degree=2) + r * v * ufl.dx(degree=2),
        "global number": (c + vector[1]) * v * ufl.dx(degree=2) + c * ufl.avg(v) * ufl.dS(degree=2),
        "its derivative": ufl.derivative(c**2 * u * v * ufl.dx(degree=2), c, ufl.as_ufl(1)),
        "gradient of a number": (c + ufl.grad(c)[0]) * u * v * ufl.dx(degree=2),
        "points": q * v * ufl.dx,
        "vectors at points": qv[1] * v * ufl.dx + q3[2] * v * ufl.dx,
        "tensors at points": (qt[1, 0] + qt[1, 1]) * v * ufl.dx,
        "test at points": ufl.inner(ufl.TestFunction(ufl.FunctionSpace(domain, vectors)), qv) * ufl.dx,
        "derivative at points": ufl.derivative(q**2 * ufl.dx, q),
        "mixed": (ufl.inner(a, d) + b * e) * ufl.dx,
    }


@pytest.mark.parametrize("cell", ["interval", "quadrilateral", "tetrahedron", "prism"])
def test_numbers_and_values_at_points_equal_dense_assembly(cell):
    agree(forms_of_special_elements(cell))


@pytest.mark.slow
@pytest.mark.parametrize("cell", sorted(set(ALL_CELLS) - {"interval", "quadrilateral", "tetrahedron", "prism"}))
def test_numbers_and_values_at_points_equal_dense_assembly_on_the_other_cells(cell):
    agree(forms_of_special_elements(cell))


def test_rules_of_the_user_are_used_on_cells_and_facets():
    _, u, v, f, _ = functions_on("triangle", 1)
    inside = {
        "quadrature_rule": "custom",
        "quadrature_points": np.array([[0.2, 0.3], [0.5, 0.1]]),
        "quadrature_weights": np.array([0.3, 0.2]),
    }
    on_facet = inside | {"quadrature_points": np.array([[0.2], [0.9]])}
    agree(
        {
            "cell": f * u * v * ufl.dx(metadata=inside),
            "facet": f * u * v * ufl.ds(metadata=on_facet) + f("+") * u("-") * v("+") * ufl.dS(metadata=on_facet),
            "vertices": f * u * v * ufl.dx(scheme="vertex", degree=1),
        }
    )
    refused(f * ufl.ds(metadata=inside), r"on the reference interval needs quadrature_points of shape \(n, 1\)")


def test_point_integrals_take_continuous_functions_and_geometry():
    domain, u, v, f, n = functions_on("triangle", 2)
    x = ufl.SpatialCoordinate(domain)
    agree(
        {
            "load": f * x[0] * v * ufl.dP,
            "matrix": u * v * ufl.dP,
            "position": x[0] ** 2 * ufl.dP(domain=domain),
            "volume": f * ufl.CellVolume(domain) * ufl.dP,
        }
    )
    refused(coefficient(domain, "DG", 1) * ufl.dP, "point integrals .* need continuous functions")
    refused(n[0] * f * ufl.dP, "FacetNormal is defined on facets only")


@pytest.mark.parametrize("measure", ["dr", "dO", "dc", "dS_h", "ds_v", "ds_t", "ds_b"])
def test_other_measures_are_refused_with_those_that_there_are(measure):
    domain, _, _, f, _ = functions_on("triangle", 1)
    refused(f * ufl.Measure(measure, domain), rf"\({measure}\) are not supported; there are integrals over cells")


def test_functions_at_points_of_cells_are_refused_on_facets():
    domain = mesh("quadrilateral")
    q = ufl.Coefficient(ufl.FunctionSpace(domain, basix.ufl.quadrature_element("quadrilateral", degree=2)))
    for form in (q * ufl.ds, q("+") * ufl.dS):
        refused(form, "quadrature element has values at points inside of the cells only: use it in dx")
    other = ufl.Coefficient(ufl.FunctionSpace(domain, basix.ufl.quadrature_element("quadrilateral", degree=5)))
    refused(q * other * ufl.dx, "give all the same degree")
    refused(q * ufl.dx(degree=5), "give all the same degree")


def test_rules_that_do_not_exist_are_refused():
    _, _, v, f, _ = functions_on("triangle", 1)
    refused(f * v * ufl.dx(metadata={"quadrature_rule": "simpson"}), "'simpson' is unknown; known are default")
    gll = {"quadrature_rule": "GLL", "quadrature_degree": 3}
    refused(f * v * ufl.dx(metadata=gll), "no quadrature rule 'gll' of degree 3 on a triangle")
    custom = {"quadrature_rule": "custom", "quadrature_points": np.zeros((1, 2))}
    refused(f * v * ufl.dx(metadata=custom), "quadrature_weights.* is missing")
    refused(f * v * ufl.dx(degree=-3), "give an integer of at least 0, or 'auto'")


@pytest.mark.parametrize("cell", ["triangle", "tetrahedron"])
def test_macro_elements_equal_dense_assembly_on_simplices(cell):
    p, r = arguments(space(mesh(cell), "iso", 1))
    agree({"iso": (ufl.inner(ufl.grad(p), ufl.grad(r)) + p * r) * ufl.dx + p * r * ufl.ds})


@pytest.mark.parametrize("cell", ["interval", "quadrilateral"])
def test_derivatives_of_macro_elements_are_refused_where_they_cannot_be_tabulated(cell):
    p, r = arguments(space(mesh(cell), "iso", 1))
    agree({"iso": p * r * ufl.dx})
    refused(ufl.inner(ufl.grad(p), ufl.grad(r)) * ufl.dx, "derivatives of macro elements .* use a Lagrange element")


def test_averages_over_both_sides_of_a_facet_are_refused_with_what_to_write():
    domain, _, v, f, _ = functions_on("triangle", 1)
    agree({"right": ufl.jump(ufl.facet_avg(v)) * ufl.avg(ufl.cell_avg(f)) * ufl.dS(domain=domain)})
    refused(ufl.facet_avg(ufl.jump(v)) * ufl.dS, "restrict the average instead, as jump")
