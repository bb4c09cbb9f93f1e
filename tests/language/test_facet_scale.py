"""Measures and normals of facets on curved, mirrored and flat cells, and how few roots they take."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import ufl
from checking import coefficient, mesh, space
from ufl import Coefficient, FacetNormal, TestFunction, avg, dot, dS, ds, grad, inner, jump

import formcompiler
from formcompiler import reference
from formcompiler.elements import cells
from formcompiler.verify import tolerance, verify_form

CUBES = ("quadrilateral", "hexahedron")


def _flux(domain: Any) -> Any:
    """Return the flux of a gradient through facets."""
    w, v, n = coefficient(domain, degree=2), TestFunction(space(domain, degree=2)), FacetNormal(domain)
    return dot(grad(w), n) * v * ds(degree=4)


def _everything(domain: Any) -> Any:
    """Return terms with measure, normal, both, and neither of these to the power of one."""
    w, v, n = Coefficient(space(domain, "DG", 2)), TestFunction(space(domain, "DG", 2)), FacetNormal(domain)
    boundary = w * v + dot(grad(w), n) * v + n[0] ** 3 * v + ufl.conditional(n[1] > 0.1, w, 2.0) * dot(n, grad(v))
    skeleton = inner(avg(w) * n("-"), jump(v) * n("+")) - dot(avg(grad(w)), n("+")) * jump(v) + jump(w) * jump(v)
    return boundary * ds(degree=4) + skeleton * dS(degree=4)


@pytest.mark.parametrize("factorization", ["off", "auto"])
@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("cell", CUBES)
def test_numbers_are_those_of_dense_assembly(cell: str, degree: int, factorization: str) -> None:
    if (cell, degree) == ("hexahedron", 2):
        pytest.skip("quadratic hexahedra take a minute; linear ones have curved facets already")
    for found in verify_form(_everything(mesh(cell, degree)), sum_factorization=factorization):
        assert found.difference < tolerance("float64"), found.integral.integral_type


@pytest.mark.parametrize("factorization", ["off", "auto"])
@pytest.mark.parametrize("scalar_type", ["float32", "complex128"])
def test_other_numbers(scalar_type: str, factorization: str) -> None:
    domain = mesh("quadrilateral")
    w, v, n = coefficient(domain), TestFunction(space(domain)), FacetNormal(domain)
    form = (inner(dot(grad(w), n), v) + inner(w, v)) * ds(degree=3)
    for found in verify_form(form, sum_factorization=factorization, scalar_type=scalar_type):
        assert found.difference < tolerance(scalar_type)


@pytest.mark.parametrize("factorization", ["off", "auto"])
@pytest.mark.parametrize("cell", CUBES)
def test_normals_of_mirrored_cells_point_outwards(cell: str, factorization: str) -> None:
    domain = mesh(cell)
    w, v, n = coefficient(domain), TestFunction(space(domain)), FacetNormal(domain)
    form = (dot(grad(w), n) + w + n[0]) * v * ds(degree=3)
    compiled = formcompiler.compile_form(form, sum_factorization=factorization)
    rng = np.random.default_rng(4)
    nodes = cells.vertices(cell) + 0.1 * rng.standard_normal(cells.vertices(cell).shape)
    nodes[:, 0] *= -1.0
    values = {w: rng.standard_normal(len(nodes))}
    for facet in range(2 * cells.dimension(cell)):
        place = ("exterior_facet", None, nodes)
        got = compiled.tabulate_tensor(*place, coefficients=values, local_facet=facet)
        wanted = reference.element_tensor(form, *place, coefficients=values, local_facet=facet)
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("cell", CUBES)
def test_a_flux_takes_no_root_and_no_division_but_that_by_the_determinant(cell: str) -> None:
    source = formcompiler.compile_form(_flux(mesh(cell))).source
    body = source[source.index("namespace {") :]
    assert "sqrt" not in body
    assert len(re.findall(r" / (?!/)", body)) == 1


@pytest.mark.parametrize("cell", CUBES)
def test_measure_and_flux_take_one_root(cell: str) -> None:
    domain = mesh(cell)
    w, v, n = coefficient(domain, degree=2), TestFunction(space(domain, degree=2)), FacetNormal(domain)
    source = formcompiler.compile_form((dot(grad(w), n) + 3.0 * w) * v * ds(degree=4)).source
    assert source.count("sqrt(") == 1


def test_a_determinant_of_facets_written_by_the_user_keeps_its_derivative() -> None:
    domain = mesh("quadrilateral", 2)
    v = TestFunction(space(domain))
    determinant = ufl.classes.FacetJacobianDeterminant(domain)
    for found in verify_form((grad(determinant)[0] + determinant) * v * ds(degree=4)):
        assert found.difference < tolerance("float64")
