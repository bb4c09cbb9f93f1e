"""Lanes that are quantities for several iterations at once."""

from __future__ import annotations

import re

import basix.ufl
import numpy as np
import pytest
import ufl
from oracles import forms

import formcompiler
from formcompiler import reference
from formcompiler.errors import VectorizationError

CASES = {case.name: case for case in forms.all_forms()}


def mass_of_pairs(degree: int) -> ufl.Form:
    """Return the residual of a mass matrix for two components."""
    domain = ufl.Mesh(basix.ufl.element("Lagrange", "quadrilateral", 1, shape=(2,)))
    element = basix.ufl.element("Lagrange", "quadrilateral", degree, shape=(2,))
    space = ufl.FunctionSpace(domain, element)
    return ufl.inner(ufl.Coefficient(space), ufl.TestFunction(space)) * ufl.dx(degree=2 * degree)


def test_a_vector_holds_both_components_for_several_lines() -> None:
    source = formcompiler.compile_form(mass_of_pairs(3), vectorize="hybrid", lanes=8).source
    assert "using Lanes = double __attribute__((vector_size(64)));" in source
    assert re.search(
        r"Lanes v\w* = Lanes{w0\[2 \* gather_2\[0\]\], w0\[2 \* gather_2\[0\] \+ 1\], w0\[2 \* gather_2\[1\]\]", source
    )


@pytest.mark.parametrize("name", ["stiffness_curved_quadrilateral", "elasticity_triangle", "stiffness_triangle"])
def test_element_tensors_agree_with_dense_assembly(name: str) -> None:
    case = CASES[name]
    data = case.make_data(0)
    compiled = formcompiler.compile_form(case.form, vectorize="hybrid", lanes=4)
    found, wanted = compiled.tabulate_tensor(**data), reference.element_tensor(case.form, **data)
    assert "Lanes" in compiled.source
    assert np.abs(found - wanted).max() < 1e-12 * np.abs(wanted).max()


def test_kernels_without_loops_that_can_have_lanes_are_refused() -> None:
    case = CASES["math_functions_triangle"]
    with pytest.raises(VectorizationError, match=r"no loop whose iterations can be lanes"):
        formcompiler.compile_form(case.form, vectorize="hybrid")
