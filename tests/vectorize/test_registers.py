"""The same text of a kernel gives the same numbers whatever vector registers it is compiled for."""

from pathlib import Path

import numpy as np
import pytest
from oracles import forms
from vectorize.batches import different_cells, tabulate, tabulate_batch

import formcompiler
from formcompiler.runtime import compiler

FEATURES = {"sse2": "-msse2", "avx2": "-mavx2", "avx512f": "-mavx512f"}
CASES = {case.name: case for case in forms.all_forms()}
NAMES = {
    "cells": ("stiffness_hexahedron", "conditional_triangle", "math_functions_triangle", "penalty_hexahedron"),
    "slices": ("stiffness_hexahedron", "conditional_triangle", "elasticity_triangle", "penalty_hexahedron"),
}


def only(feature: str) -> tuple[str, ...]:
    """Return the flags for a processor with these registers and no newer ones; skip where they cannot run."""
    if compiler.find_macros(compiler.find_compiler(), ("-msse2",)) is None:
        pytest.skip("not an x86 processor")
    if feature not in compiler.describe_processor():
        pytest.skip(f"this processor has no {feature}")
    return ("-march=x86-64", FEATURES[feature])


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("strategy", ["cells", "slices"])
def test_kernels_of_eight_lanes_run_on_narrow_registers(
    feature: str, strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = only(feature)
    plain = {name: formcompiler.compile_form(CASES[name].form) for name in NAMES[strategy]}
    wanted = {name: tabulate(kernel, CASES[name].make_data()) for name, kernel in plain.items()}
    monkeypatch.setenv("FORMCOMPILER_CACHE", str(tmp_path))  # libraries of other flags must not be found
    monkeypatch.setattr(compiler, "native_flags", lambda _compiler: flags)
    for name in NAMES[strategy]:
        case = CASES[name]
        compiled = formcompiler.compile_form(case.form, vectorize=strategy, lanes=8)
        bound = 1e-13 * max(float(np.abs(wanted[name]).max()), 1e-6)
        if strategy == "cells":
            first, *_ = tabulate_batch(compiled, different_cells(case.make_data(), 8, low=case.low, high=case.high))
            assert np.abs(first.reshape(wanted[name].shape) - wanted[name]).max() < bound
        assert tabulate(compiled, case.make_data()) == pytest.approx(wanted[name], rel=0, abs=bound)
