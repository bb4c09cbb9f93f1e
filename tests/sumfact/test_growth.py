"""Cost of sum-factorized kernels: how it grows with the degree, and that it is never silently the plain one."""

from __future__ import annotations

from typing import Any

import basix
import basix.ufl
import numpy as np
import pytest
from ufl import (
    Coefficient,
    FacetNormal,
    FunctionSpace,
    Mesh,
    TestFunction,
    TrialFunction,
    avg,
    dS,
    ds,
    dx,
    grad,
    inner,
    jump,
)

import formcompiler

DEGREES = (3, 5, 7, 9)
DIMENSIONS = {"interval": 1, "quadrilateral": 2, "hexahedron": 3}


def _space(cell: str, degree: int) -> Any:
    domain = Mesh(basix.ufl.element("Lagrange", cell, 1, shape=(DIMENSIONS[cell],)))
    variant = basix.LagrangeVariant.gll_warped
    return FunctionSpace(domain, basix.ufl.element("Lagrange", cell, degree, lagrange_variant=variant))


def _operations(form: Any, **options: Any) -> int:
    (info,) = formcompiler.compile_form(form, **options).integrals
    assert info.factorized, info.reason
    return info.flops


def _slope(counts: list[int]) -> float:
    """Return the exponent p of counts ~ (degree + 1) ** p, by least squares over the larger degrees."""
    n = np.log(np.array(DEGREES, dtype=float) + 1)
    return float(np.polyfit(n[1:], np.log(counts[1:]), 1)[0])


def _laplace(degree: int, cell: str, rank: int) -> Any:
    V = _space(cell, degree)
    w, v, u = Coefficient(V), TestFunction(V), TrialFunction(V)
    rule = dx(degree=2 * degree + 1)
    return inner(grad(w), grad(v)) * rule if rank == 1 else inner(grad(u), grad(v)) * rule


@pytest.mark.parametrize("cell", DIMENSIONS)
def test_a_cell_residual_costs_one_power_more_than_its_number_of_dofs(cell: str) -> None:
    counts = [_operations(_laplace(k, cell, 1)) for k in DEGREES]
    assert _slope(counts) < DIMENSIONS[cell] + 1 + 0.1


@pytest.mark.parametrize("cell", DIMENSIONS)
def test_a_matrix_costs_one_power_more_than_its_number_of_entries(cell: str) -> None:
    counts = [_operations(_laplace(k, cell, 2)) for k in DEGREES]
    assert _slope(counts) < 2 * DIMENSIONS[cell] + 1 + 0.1


@pytest.mark.parametrize("cell", ("quadrilateral", "hexahedron"))
def test_facet_terms_cost_no_more_than_the_dofs_of_the_cell(cell: str) -> None:
    dim = DIMENSIONS[cell]

    def penalty(degree: int) -> Any:
        V = _space(cell, degree)
        w, v, n = Coefficient(V), TestFunction(V), FacetNormal(V.ufl_domain())
        rule = dS(degree=2 * degree + 1)
        return (inner(jump(w), jump(v)) - inner(avg(grad(w)), jump(v, n)) - inner(jump(w, n), avg(grad(v)))) * rule

    counts = [_operations(penalty(k)) for k in DEGREES]
    assert _slope(counts) < dim + 0.15


def _plain_operations(degree: int, licm: str) -> int:
    form = _laplace(degree, "hexahedron", 1)
    return int(formcompiler.compile_form(form, sum_factorization="off", licm=licm).integrals[0].flops)


def test_plain_loops_grow_as_the_square_of_the_dofs() -> None:
    assert _slope([_plain_operations(k, "nested") for k in DEGREES]) > 5.5


def test_code_motion_finds_the_directions_of_plain_loops_and_lets_them_grow_as_factorized_kernels_do() -> None:
    assert _slope([_plain_operations(k, "general") for k in DEGREES]) < 4


def test_factorization_saves_a_factor_that_grows_with_the_degree() -> None:
    ratios = []
    for degree in (2, 4, 6):
        form = _laplace(degree, "hexahedron", 1)
        ratios.append(_plain_operations(degree, "nested") / _operations(form))
    assert ratios[0] > 1
    assert ratios[0] < ratios[1] < ratios[2]


def test_each_integral_says_whether_it_is_factorized_and_why_not() -> None:
    cell = "quadrilateral"
    V = _space(cell, 2)
    v = TestFunction(V)
    w = Coefficient(FunctionSpace(V.ufl_domain(), basix.ufl.element("RTCF", cell, 1)))
    form = v * dx + inner(w, w) * v * ds + v * dx(1, metadata={"quadrature_rule": "vertex", "quadrature_degree": 1})
    infos = {(i.type, i.ids): i for i in formcompiler.compile_form(form).integrals}
    assert infos["cell", ("otherwise",)].factorized
    assert infos["cell", ("otherwise",)].reason == ""
    assert "the coefficient w0 has an element without 1D factors" in infos["exterior_facet", ("otherwise",)].reason
    assert "no product of 1D rules" in infos["cell", (1,)].reason
    (off,) = {i.reason for i in formcompiler.compile_form(v * dx, sum_factorization="off").integrals}
    assert off == "sum_factorization=off"
