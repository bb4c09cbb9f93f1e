"""Every kernel of the compiler: operations never rise from mode to mode, and results stay the same to rounding."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import forms

import formcompiler

CASES = {case.name: case for case in forms.all_forms()}
QUICK = (
    "mass_interval",
    "stiffness_surface_triangle",
    "stokes_quadrilateral",
    "hyperelastic_residual_tetrahedron",
    "conditional_triangle",
    "several_rules_triangle",
    "robin_hexahedron",
    "penalty_triangle",
    "helmholtz_triangle",
)
"""Cases of the default run; all others are slow."""


def cases():
    return [pytest.param(c, id=n, marks=[pytest.mark.slow] * (n not in QUICK)) for n, c in CASES.items()]


def compiled(case, **options):
    return formcompiler.compile_form(case.form, scalar_type=case.scalar_type, **options)


def flops(case, **options):
    return [integral.flops for integral in compiled(case, **options).integrals]


@pytest.mark.parametrize("case", cases())
@pytest.mark.parametrize("factorization", ["off", "auto"])
def test_operations_never_rise(case, factorization):
    common = {"sum_factorization": factorization}
    before = flops(case, licm="off", constfold="off", **common)
    folded = flops(case, licm="off", constfold="full", **common)
    assert all(a <= b for a, b in zip(folded, before, strict=True))
    by_mode = {mode: flops(case, licm=mode, **common) for mode in ("cse", "nested", "general")}
    for mode in ("cse", "nested", "general"):
        assert all(a <= b for a, b in zip(by_mode[mode], folded, strict=True)), mode
    assert all(a <= b for a, b in zip(by_mode["general"], by_mode["nested"], strict=True))


@pytest.mark.parametrize("case", cases())
def test_results_stay_the_same(case):
    data = case.make_data(0)
    place = (data.pop("integral_type"), data.pop("subdomain_id"), data.pop("coordinates"))
    wanted = compiled(case, licm="off", constfold="off").tabulate_tensor(*place, **data)
    for options in ({"licm": "general"}, {"licm": "nested", "constfold": "literals"}):
        actual = compiled(case, **options).tabulate_tensor(*place, **data)
        assert np.abs(actual - wanted).max() < 1e-12 * max(np.abs(wanted).max(), 1e-6)
