"""Compiled kernels against dense assembly, on every form of the oracles' list."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest
import ufl
from oracles import forms
from oracles.random_data import random_cell
from oracles.random_forms import CELLS, Grower, random_form

import formcompiler
from formcompiler.elements import cells
from formcompiler.elements.cells import TENSOR_CELLS
from formcompiler.errors import InvalidOptionError, UnsupportedFormError
from formcompiler.reference import element_tensor, expression_values

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


def check_against_reference(case, compiled, n_seeds=3):
    for seed in range(n_seeds):
        data = case.make_data(seed)
        wanted = element_tensor(case.form, scalar_type=case.scalar_type, **data)
        actual = tabulate(compiled, data)
        assert np.shape(actual) == wanted.shape
        assert np.abs(actual - wanted).max() < RELATIVE * max(np.abs(wanted).max(), SMALL)


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


@pytest.mark.parametrize("cell", CELLS)
def test_interior_facet_kernels_hold_for_many_facets_and_orientations(cell):
    case = next(c for c in CASES if c.name == f"penalty_{cell}")
    check_against_reference(case, formcompiler.compile_form(case.form), n_seeds=60)


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


def check_expression(expression, domain, points, rng, **place):
    """Compare values of an expression at points of the cell or, with a place, of a facet."""
    compiled = formcompiler.compile_expression(expression, points)
    coefficients = ufl.algorithms.extract_coefficients(expression)
    constants = ufl.algorithms.analysis.extract_constants(expression)
    coordinates = random_cell(domain.ufl_coordinate_element(), rng)
    data = {
        "coefficients": {f: rng.uniform(0.3, 1.2, f.ufl_function_space().ufl_element().dim) for f in coefficients},
        "constants": {c: rng.uniform(0.5, 1.5, c.ufl_shape) for c in constants},
        **place,
    }
    wanted = expression_values(expression, points, coordinates, **data)
    actual = compiled.tabulate_tensor(coordinates, **data)
    assert actual.shape == wanted.shape
    assert np.abs(actual - wanted).max() < RELATIVE * max(np.abs(wanted).max(), SMALL)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("rank", [0, 1])
def test_values_of_random_matrices_equal_dense_evaluation(cell, rank):
    rng = np.random.default_rng(len(cell))
    domain = forms.mesh(cell)
    expression = Grower(rng, domain).matrix(2)
    if rank:
        v = ufl.TrialFunction(forms.space(domain, "Lagrange", 2))
        expression = expression * v + ufl.grad(v)[0] * ufl.Identity(cells.dimension(cell))
    check_expression(expression, domain, rng.uniform(0.1, 0.3, (3, cells.dimension(cell))), rng)


@pytest.mark.parametrize("cell", CELLS)
def test_values_on_facets_equal_dense_evaluation_for_every_permutation(cell):
    rng = np.random.default_rng(3)
    domain = forms.mesh(cell)
    f = ufl.Coefficient(forms.space(domain, "Lagrange", 2))
    expression = (f + ufl.SpatialCoordinate(domain)[0]) * ufl.FacetNormal(domain)
    points = rng.uniform(0.1, 0.3, (2, cells.dimension(cell) - 1))
    facet_cells = cells.facet_cells(cell)
    for permutation in range(cells.n_facet_permutations(facet_cells[0])):
        facet = int(rng.integers(len(facet_cells)))
        check_expression(expression, domain, points, rng, local_facet=facet, facet_permutation=permutation)


def test_python_works_after_a_compilation_as_before_even_a_refused_one():
    before = (sys.getrecursionlimit(), gc.get_threshold(), gc.isenabled())
    form = forms.all_forms()[0].form
    formcompiler.compile_form(form)
    assert (sys.getrecursionlimit(), gc.get_threshold(), gc.isenabled()) == before
    with pytest.raises(InvalidOptionError):
        formcompiler.compile_form(form, licm="all")
    with pytest.raises(UnsupportedFormError):
        formcompiler.compile_form(ufl.Coefficient(form.arguments()[0].ufl_function_space()) ** 2)
    assert (sys.getrecursionlimit(), gc.get_threshold(), gc.isenabled()) == before
