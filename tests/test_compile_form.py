"""Compiled kernels against dense assembly, on every form of the oracles' list."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import forms
from oracles.random_forms import random_form

import formcompiler
from formcompiler.elements.cells import TENSOR_CELLS
from formcompiler.reference import element_tensor

CASES = forms.all_forms()
RELATIVE = 1e-12
"""Both sides round in double precision; sums of some hundred terms stay a thousand times below this."""

SMALL = 1e-6
"""Entries of the forms are larger, or vanish."""


def tabulate(compiled, data):
    others = {
        name: value for name, value in data.items() if name not in ("integral_type", "subdomain_id", "coordinates")
    }
    return compiled.tabulate_tensor(data["integral_type"], data["subdomain_id"], data["coordinates"], **others)


def check_against_reference(case, compiled, tolerance=RELATIVE):
    for seed in range(3):
        data = case.make_data(seed)
        wanted = element_tensor(case.form, scalar_type=case.scalar_type, **data)
        actual = tabulate(compiled, data)
        assert np.shape(actual) == wanted.shape
        assert np.abs(actual - wanted).max() < tolerance * max(np.abs(wanted).max(), SMALL)


def on_tensor_cell(case):
    return case.form.ufl_domains()[0].ufl_cell().cellname in TENSOR_CELLS


def plain_cases():
    """Return all cases; those on tensor cells are slow: the default run has them with the chosen kernels."""
    return [pytest.param(c, id=c.name, marks=[pytest.mark.slow] * on_tensor_cell(c)) for c in CASES]


@pytest.mark.parametrize("case", plain_cases())
def test_plain_kernels_equal_dense_assembly(case):
    compiled = formcompiler.compile_form(case.form, scalar_type=case.scalar_type, sum_factorization="off")
    assert not any(integral.factorized for integral in compiled.integrals)
    check_against_reference(case, compiled)


@pytest.mark.parametrize("case", [c for c in CASES if on_tensor_cell(c)], ids=lambda case: case.name)
def test_chosen_kernels_on_tensor_cells_equal_dense_assembly(case):
    compiled = formcompiler.compile_form(case.form, scalar_type=case.scalar_type, sum_factorization="auto")
    assert all(integral.factorized or integral.reason for integral in compiled.integrals)
    check_against_reference(case, compiled)


@pytest.mark.parametrize("name", ["stiffness_hexahedron", "robin_triangle", "penalty_quadrilateral"])
def test_single_precision_kernels_equal_dense_assembly_to_single_precision(name):
    case = next(c for c in CASES if c.name == name)
    compiled = formcompiler.compile_form(case.form, scalar_type="float32", sum_factorization="off")
    data = case.make_data()
    actual = tabulate(compiled, data)
    wanted = element_tensor(case.form, **data)
    assert actual.dtype == np.float32
    assert np.abs(actual - wanted).max() < 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("name", ["elasticity_triangle", "stiffness_quadrilateral", "curl_curl_tetrahedron"])
def test_diagonal_kernels_equal_the_diagonal_of_dense_assembly(name):
    case = next(c for c in CASES if c.name == name)
    compiled = formcompiler.compile_form(case.form, part="diagonal", sum_factorization="off")
    data = case.make_data()
    wanted = np.diag(element_tensor(case.form, **data))
    assert np.abs(tabulate(compiled, data) - wanted).max() < RELATIVE * np.abs(wanted).max()


def random_cases():
    """Return random forms; all but the first ones are slow."""
    cases = [(seed, random_form(seed)) for seed in range(1000, 1120)]
    return [pytest.param(case, id=case.name, marks=[pytest.mark.slow] * (seed >= 1010)) for seed, case in cases if case]


@pytest.mark.parametrize("case", random_cases())
def test_kernels_of_random_forms_equal_dense_assembly(case):
    check_against_reference(case, formcompiler.compile_form(case.form))
