"""Lanes along loops of one cell: the same numbers as the kernel without lanes, for every width and type."""

from __future__ import annotations

import basix.ufl
import numpy as np
import pytest
import ufl
from oracles import forms
from ufl import dx, grad, inner

import formcompiler
from formcompiler import reference
from formcompiler.errors import VectorizationError

CASES = {case.name: case for case in forms.all_forms()}
WIDTHS = [("float64", 2), ("float64", 8), ("float32", 16)]
TOLERANCE = {"float64": 1e-12, "float32": 1e-4}
"""Sums of some hundred terms of different signs, with the rounding of each type."""


def laplace(degree: int) -> ufl.Form:
    domain = ufl.Mesh(basix.ufl.element("Lagrange", "hexahedron", 1, shape=(3,)))
    space = ufl.FunctionSpace(domain, basix.ufl.element("Lagrange", "hexahedron", degree))
    return inner(grad(ufl.Coefficient(space)), grad(ufl.TestFunction(space))) * dx(degree=2 * degree)


def tensor(form: ufl.Form, **options: object) -> np.ndarray:
    rng = np.random.default_rng(0)
    corners = basix.geometry(basix.CellType.hexahedron) + 0.1 * rng.standard_normal((8, 3))
    values = {w: rng.standard_normal(w.ufl_function_space().ufl_element().dim) for w in form.coefficients()}
    return formcompiler.compile_form(form, **options).tabulate_tensor("cell", None, corners, coefficients=values)


@pytest.mark.parametrize("degree", [1, 3, *(pytest.param(k, marks=pytest.mark.slow) for k in (2, 4))])
def test_actions_agree_with_the_kernel_without_lanes(degree: int) -> None:
    form = laplace(degree)
    wanted = tensor(form)
    for scalar_type, lanes in WIDTHS:
        found = tensor(form, vectorize="slices", scalar_type=scalar_type, lanes=lanes)
        assert np.abs(found - wanted).max() < TOLERANCE[scalar_type] * np.abs(wanted).max(), (scalar_type, lanes)


@pytest.mark.parametrize("degree", [2, 3])
def test_lanes_may_be_quadrature_points_only(degree: int) -> None:
    form = laplace(degree)
    wanted = tensor(form)
    for scalar_type, lanes in WIDTHS:
        found = tensor(form, vectorize="points", scalar_type=scalar_type, lanes=lanes)
        assert np.abs(found - wanted).max() < TOLERANCE[scalar_type] * np.abs(wanted).max(), (scalar_type, lanes)
    source = formcompiler.compile_form(form, vectorize="points", lanes=4).source
    loops = [line.split()[2] for line in source.splitlines() if line.strip().startswith("for (int")]
    assert "Lanes" in source
    assert any(name.startswith("i") for name in loops)
    assert not any(name.startswith("i") and "block" in name for name in loops)


@pytest.mark.parametrize("name", ["stiffness_quadrilateral", "conditional_triangle", "mass_nedelec_tetrahedron"])
@pytest.mark.parametrize("lanes", [2, 8])
def test_element_tensors_agree_with_dense_assembly(name: str, lanes: int) -> None:
    case = CASES[name]
    data = case.make_data(0)
    compiled = formcompiler.compile_form(case.form, scalar_type=case.scalar_type, vectorize="slices", lanes=lanes)
    found, wanted = compiled.tabulate_tensor(**data), reference.element_tensor(case.form, **data)
    assert "Lanes" in compiled.source
    assert np.abs(found - wanted).max() < TOLERANCE["float64"] * np.abs(wanted).max()


@pytest.mark.parametrize("licm", ["cse", "nested", "general"])
def test_later_passes_keep_the_numbers(licm: str) -> None:
    case = CASES["stiffness_quadrilateral"]
    data = case.make_data(1)
    compiled = formcompiler.compile_form(case.form, vectorize="slices", lanes=4, licm=licm)
    wanted = reference.element_tensor(case.form, **data)
    assert np.abs(compiled.tabulate_tensor(**data) - wanted).max() < TOLERANCE["float64"] * np.abs(wanted).max()


def test_the_kernel_takes_one_cell_as_without_lanes() -> None:
    form = laplace(2)
    plain, found = (formcompiler.compile_form(form, vectorize=v) for v in ("none", "slices"))
    assert found.kernels[0].lanes == 1
    assert found.integrals[0].flops == plain.integrals[0].flops
    signature = [next(line for line in c.source.splitlines() if line.startswith("static void")) for c in (plain, found)]
    assert signature[0] == signature[1]


def test_complex_kernels_have_lanes_where_their_numbers_are_real() -> None:
    form = laplace(2)
    found = tensor(form, vectorize="slices", scalar_type="complex128", lanes=4)
    assert np.abs(found - tensor(form)).max() < TOLERANCE["float64"]
    source = formcompiler.compile_form(form, vectorize="slices", scalar_type="complex128", lanes=4).source
    assert "Lanes x_0_points" in source or "InMemory&>(x_0_points" in source
    assert "InMemory&>(w0_points" not in source


def test_sums_over_all_loops_are_refused_with_the_dependence() -> None:
    case = CASES["math_functions_triangle"]
    with pytest.raises(VectorizationError, match=r"no loop whose iterations can be lanes: .* same element of A"):
        formcompiler.compile_form(case.form, vectorize="slices")
