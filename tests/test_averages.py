"""Means over cells and facets, and measures of curved ones, against the oracle and exact values."""

from __future__ import annotations

from typing import Any

import basix.ufl
import numpy as np
import pytest
import ufl
from oracles.case import FormCase, mesh, space
from ufl import (
    CellVolume,
    Coefficient,
    FacetArea,
    TestFunction,
    TrialFunction,
    avg,
    cell_avg,
    derivative,
    dot,
    dS,
    ds,
    dx,
    facet_avg,
    grad,
    inner,
    jump,
)

import formcompiler
from formcompiler import reference
from formcompiler.errors import UnsupportedFormError

CELLS = ("interval", "triangle", "quadrilateral", "tetrahedron", "hexahedron")


def _pair(V: Any) -> tuple[Any, Any]:
    return TrialFunction(V), TestFunction(V)


def cases() -> list[FormCase]:
    """Return forms with averages of every kind."""
    result = []
    for cell in CELLS:
        domain = mesh(cell)
        V = space(domain, "Lagrange", 2 if len(cell) < 12 else 1)
        u, v = _pair(V)
        w = Coefficient(V)
        result += [
            FormCase(f"cell_avg_arguments_{cell}", cell_avg(u) * cell_avg(v) * dx + cell_avg(u * w) * v * dx),
            FormCase(f"cell_avg_gradient_{cell}", dot(cell_avg(grad(w)), grad(v)) * dx),
            FormCase(f"volume_{cell}", CellVolume(domain) * w * v * dx),
            FormCase(f"facet_avg_{cell}", facet_avg(u) * facet_avg(w) * v * ds, "exterior_facet"),
            FormCase(f"penalty_{cell}", FacetArea(domain) * w * v * ds, "exterior_facet"),
            FormCase(
                f"mean_jump_{cell}",
                jump(cell_avg(u)) * jump(v) * dS + avg(CellVolume(domain)) * avg(u) * avg(v) * dS,
                "interior_facet",
            ),
            FormCase(
                f"facet_mean_jump_{cell}", inner(facet_avg(u)("+") - facet_avg(u)("-"), jump(v)) * dS, "interior_facet"
            ),
        ]
    quadrilateral = mesh("quadrilateral", 2)
    W = space(quadrilateral, "Lagrange", 1, shape=(2,))
    w, v = Coefficient(W), TestFunction(W)
    i = ufl.Index()
    energy = cell_avg(dot(w, w)) ** 2 * dx
    result += [
        FormCase("cell_avg_vector_curved", inner(cell_avg(w), v) * dx),
        FormCase("cell_avg_free_index", cell_avg(w[i]) * w[i] * dx),
        FormCase("cell_avg_derivative", derivative(energy, w)),
        FormCase("flux_mean", cell_avg(ufl.div(TestFunction(space(mesh("triangle"), "RT", 2)))) * dx),
    ]
    return result


CASES = {case.name: case for case in cases()}


@pytest.mark.parametrize("name", CASES)
def test_averages_equal_the_oracle(name: str) -> None:
    case = CASES[name]
    compiled = formcompiler.compile_form(case.form)
    # the area of a bilinear facet is no polynomial, so that two rules agree up to their own errors only
    tolerance = 1e-5 if name in ("facet_avg_hexahedron", "penalty_hexahedron", "facet_mean_jump_hexahedron") else 1e-10
    for seed in range(3):
        data = case.make_data(seed)
        expected = reference.element_tensor(case.form, **data)
        got = compiled.tabulate_tensor(**data)
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=0.01 * tolerance * np.abs(expected).max())


def test_sum_factorization_says_why_it_leaves_averages_alone() -> None:
    (info,) = formcompiler.compile_form(CASES["volume_hexahedron"].form).integrals
    assert not info.factorized
    assert "averages" in info.reason


def test_facet_avg_in_a_cell_integral_is_refused() -> None:
    w = Coefficient(space(mesh("triangle"), "Lagrange", 1))
    with pytest.raises(UnsupportedFormError, match=r"facet_avg is defined on facets only.*ds or dS"):
        formcompiler.compile_form(facet_avg(w) * dx)


def test_a_product_of_arguments_inside_an_average_is_refused() -> None:
    u, v = _pair(space(mesh("triangle"), "Lagrange", 1))
    with pytest.raises(UnsupportedFormError, match="inside an average"):
        formcompiler.compile_form(cell_avg(u * v) * dx)


def test_an_average_inside_an_average_is_refused() -> None:
    w = Coefficient(space(mesh("triangle"), "Lagrange", 1))
    with pytest.raises(UnsupportedFormError, match="average inside an average"):
        formcompiler.compile_form(cell_avg(w * cell_avg(w)) * dx)


def test_volume_of_a_curved_cell_is_that_by_greens_formula() -> None:
    domain = ufl.Mesh(basix.ufl.element("Lagrange", "triangle", 2, shape=(2,)))
    nodes = np.array([[0, 0], [1, 0], [0, 1], [0.7, 0.6], [0, 0.5], [0.5, 0]])
    volume = formcompiler.compile_form(CellVolume(domain) / CellVolume(domain) * CellVolume(domain) * dx)
    area = formcompiler.compile_form(ufl.as_ufl(1.0) * dx(domain)).tabulate_tensor("cell", None, nodes)
    t, weights = np.polynomial.legendre.leggauss(8)
    t, weights = (t + 1) / 2, weights / 2
    green = 0.0
    for a, b, m in [(0, 1, 5), (1, 2, 3), (2, 0, 4)]:
        shape = np.array([(1 - t) * (1 - 2 * t), t * (2 * t - 1), 4 * t * (1 - t)])
        slope = np.array([4 * t - 3, 4 * t - 1, 4 - 8 * t])
        green += float((weights * (shape.T @ nodes[[a, b, m], 0]) * (slope.T @ nodes[[a, b, m], 1])).sum())
    np.testing.assert_allclose(area, green, rtol=1e-13)
    np.testing.assert_allclose(volume.tabulate_tensor("cell", None, nodes), green**2, rtol=1e-13)
