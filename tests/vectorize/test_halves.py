"""Lanes that are the halves of a cell along all directions: the same numbers as dense assembly."""

from __future__ import annotations

from typing import Any

import basix.ufl
import numpy as np
import pytest
import ufl
from oracles import forms
from ufl import dx, grad, inner

import formcompiler
from formcompiler import reference
from formcompiler.errors import VectorizationError
from formcompiler.kernel.addresses import find_pieces
from formcompiler.vectorize.cost import estimate_cycles

CASES = {case.name: case for case in forms.all_forms()}
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
"""Sums of some hundred terms of different signs, with the rounding of each type."""


def action(name: str) -> tuple[ufl.Form, dict[str, Any]]:
    """Return the action of a bilinear form, with random data."""
    case = CASES[name]
    data = case.make_data(0)
    direction = ufl.Coefficient(case.form.arguments()[1].ufl_function_space())
    values = np.random.default_rng(1).standard_normal(direction.ufl_function_space().ufl_element().dim)
    return ufl.action(case.form, direction), {**data, "coefficients": {**data["coefficients"], direction: values}}


def laplace(degree: int) -> ufl.Form:
    domain = ufl.Mesh(basix.ufl.element("Lagrange", "hexahedron", 1, shape=(3,)))
    space = ufl.FunctionSpace(domain, basix.ufl.element("Lagrange", "hexahedron", degree))
    return inner(grad(ufl.Coefficient(space)), grad(ufl.TestFunction(space))) * dx(degree=2 * degree)


@pytest.mark.parametrize(
    "name",
    [
        "mass_interval",
        "mass_dg_hexahedron",
        "stiffness_curved_quadrilateral",
        "stiffness_surface_quadrilateral",
        "reaction_diffusion_quadrilateral",
        "elasticity_hexahedron",
        "stokes_quadrilateral",
        "hyperelastic_jacobian_quadrilateral",
        "biharmonic_quadrilateral",
    ],
)
@pytest.mark.parametrize("scalar_type", ["float64", "float32"])
def test_actions_agree_with_dense_assembly(name: str, scalar_type: str) -> None:
    form, data = action(name)
    compiled = formcompiler.compile_form(form, vectorize="halves", scalar_type=scalar_type)
    wanted = reference.element_tensor(form, **data)
    assert "Lanes" in compiled.source
    assert np.abs(compiled.tabulate_tensor(**data) - wanted).max() < TOLERANCE[scalar_type] * np.abs(wanted).max()


@pytest.mark.parametrize("degree", [1, 2, 3, 4, pytest.param(7, marks=pytest.mark.slow)])
def test_lines_of_even_and_odd_length_agree_with_the_kernel_without_lanes(degree: int) -> None:
    """Lines of an odd number of points have one in the middle, which counts once; long ones are gathered in loops."""
    form = laplace(degree)
    rng = np.random.default_rng(0)
    corners = basix.geometry(basix.CellType.hexahedron) + 0.1 * rng.standard_normal((8, 3))
    values = {form.coefficients()[0]: rng.standard_normal((degree + 1) ** 3)}
    wanted, found = (
        formcompiler.compile_form(form, vectorize=v).tabulate_tensor("cell", None, corners, coefficients=values)
        for v in ("none", "halves")
    )
    assert np.abs(found - wanted).max() < TOLERANCE["float64"] * np.abs(wanted).max()


def test_points_that_differ_in_number_from_dofs_have_halves_of_their_own() -> None:
    domain = ufl.Mesh(basix.ufl.element("Lagrange", "quadrilateral", 1, shape=(2,)))
    fine, flat = (
        ufl.FunctionSpace(domain, basix.ufl.element("Lagrange", "quadrilateral", 3)),
        ufl.FunctionSpace(domain, basix.ufl.element("DG", "quadrilateral", 0)),
    )
    f, c = ufl.Coefficient(fine), ufl.Coefficient(flat)
    rng = np.random.default_rng(0)
    corners = basix.geometry(basix.CellType.quadrilateral) + 0.1 * rng.standard_normal((4, 2))
    values = {f: rng.standard_normal(16), c: rng.standard_normal(1)}
    for n_points_degree in (1, 4, 5, 9):
        test = ufl.TestFunction(fine)
        form = c * ufl.exp(f) * test * dx(degree=n_points_degree) + inner(grad(f), grad(test)) * dx(degree=3)
        compiled = formcompiler.compile_form(form, vectorize="halves")
        found = compiled.tabulate_tensor("cell", None, corners, coefficients=values)
        wanted = reference.element_tensor(form, "cell", None, corners, coefficients=values)
        assert np.abs(found - wanted).max() < TOLERANCE["float64"] * np.abs(wanted).max()


@pytest.mark.parametrize("licm", ["off", "cse", "nested"])
def test_later_passes_keep_the_numbers(licm: str) -> None:
    form, data = action("stiffness_curved_quadrilateral")
    compiled = formcompiler.compile_form(form, vectorize="halves", licm=licm, constfold="off")
    wanted = reference.element_tensor(form, **data)
    assert np.abs(compiled.tabulate_tensor(**data) - wanted).max() < TOLERANCE["float64"] * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("stiffness_quadrilateral", {}, "only vectors have halves of lines"),
        ("stiffness_triangle", {}, "a triangle is no product of intervals"),
        ("traction_hexahedron", {}, "halves only from one"),
        ("helmholtz_hexahedron", {"scalar_type": "complex128"}, "only vectors"),
        ("gradient_of_product_quadrilateral", {"lanes": 8}, "a quadrilateral has 4 of them, not lanes=8"),
    ],
)
def test_kernels_without_halves_are_refused_with_the_reason(name: str, options: dict[str, Any], why: str) -> None:
    with pytest.raises(VectorizationError, match=why):
        formcompiler.compile_form(CASES[name].form, vectorize="halves", **options)


def test_complex_vectors_have_no_halves() -> None:
    with pytest.raises(VectorizationError, match="complex numbers have no vector type"):
        formcompiler.compile_form(laplace(1), vectorize="halves", scalar_type="complex128")


def test_what_the_cost_model_chooses_has_halves_where_their_lanes_are_full() -> None:
    """Lines of 4 points fill all lanes; of lines of 7 points two thirds are in use, fewer than those of slices."""
    costs = {}
    for degree in (3, 6):
        for strategy in ("slices", "halves"):
            kernel = formcompiler.compile_form(laplace(degree), vectorize=strategy, lanes=8).kernel_objects[0]
            costs[degree, strategy] = estimate_cycles(kernel.t_unit.default_entrypoint, 512)
    assert costs[3, "halves"] < 0.8 * costs[3, "slices"]
    assert costs[6, "halves"] > costs[6, "slices"]


def test_pieces_cover_all_elements_and_end_at_the_last_one() -> None:
    assert find_pieces([0, 9, 2, 11]) == [0, 8]
    assert find_pieces([5, 0, 1, 2]) == [0, 2]
    assert find_pieces([0, 1, 0, 1]) == []
