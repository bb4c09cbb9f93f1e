"""Kernels of W cells: each lane has the numbers that the kernel of one cell has, whatever the cells."""

from __future__ import annotations

import functools
import logging
import shutil
import subprocess
from pathlib import Path
from typing import Any

import loopy as lp
import numpy as np
import pymbolic.primitives as prim
import pytest
from loopy.kernel.data import VectorizeTag
from oracles import forms
from vectorize.batches import different_cells, tabulate, tabulate_batch

import formcompiler
from formcompiler.errors import VectorizationError
from formcompiler.kernel.builder import KernelBuilder
from formcompiler.vectorize.cells import CellLanes

CASES = {case.name: case for case in forms.all_forms()}
REAL = [name for name, case in CASES.items() if not case.scalar_type.startswith("complex")]
QUICK = {
    "stiffness_hexahedron",
    "conditional_triangle",
    "math_functions_triangle",
    "elasticity_triangle",
    "penalty_hexahedron",
    "several_rules_triangle",
    "unmarked_cell",
}
"""Cases of the default run: factorized and plain kernels, selects, functions, constants, both sides of facets."""

ROUNDING = {"float64": 1e-13, "float32": 1e-4}
"""Both kernels do the same operations; a compiler may fuse other multiplications and additions in each."""


def check_lanes(case: Any, lanes: int, scalar_type: str, sum_factorization: str = "auto") -> None:
    options = {"scalar_type": scalar_type, "sum_factorization": sum_factorization}
    one = formcompiler.compile_form(case.form, **options)
    many = formcompiler.compile_form(case.form, vectorize="cells", lanes=lanes, **options)
    batch = different_cells(case.make_data(), lanes, low=case.low, high=case.high)
    actual = tabulate_batch(many, batch)
    for lane, cell in enumerate(batch):
        wanted = tabulate(one, cell)
        bound = ROUNDING[scalar_type] * max(float(np.abs(wanted).max()), 1e-6)
        assert np.abs(actual[lane].reshape(wanted.shape) - wanted).max() < bound
    assert tabulate(many, batch[0]) == pytest.approx(tabulate(one, batch[0]), abs=bound)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in QUICK)) for n in REAL])
def test_lanes_of_different_cells_have_the_numbers_of_one_cell(name: str) -> None:
    check_lanes(CASES[name], 8, "float64")


@pytest.mark.parametrize("lanes", [2, 4, 16])
@pytest.mark.parametrize("scalar_type", ["float64", "float32"])
def test_any_width_gives_the_same_numbers(lanes: int, scalar_type: str) -> None:
    check_lanes(CASES["stiffness_quadrilateral"], lanes, scalar_type)


def test_plain_loops_take_lanes_as_factorized_kernels_do() -> None:
    check_lanes(CASES["penalty_quadrilateral"], 4, "float64", sum_factorization="off")


def test_lanes_fill_the_registers_of_this_machine_by_default() -> None:
    case = CASES["mass_interval"]
    widths = {
        t: formcompiler.compile_form(case.form, vectorize="cells", scalar_type=t).kernels[0].lanes for t in ROUNDING
    }
    assert widths["float32"] == 2 * widths["float64"] or widths == {"float32": 2, "float64": 2}


@pytest.mark.parametrize("name", [name for name in CASES if name not in REAL])
def test_complex_kernels_are_refused(name: str) -> None:
    with pytest.raises(VectorizationError, match=r"instruction insn\d+ of kernel cell: .*complex"):
        formcompiler.compile_form(CASES[name].form, scalar_type="complex128", vectorize="cells")


def test_auto_gives_lanes_to_real_kernels_and_leaves_complex_ones_as_they_are() -> None:
    real, complex_one = CASES["mass_interval"], CASES["helmholtz_triangle"]
    assert formcompiler.compile_form(real.form, vectorize="auto", lanes=4).kernels[0].lanes == 4
    compiled = formcompiler.compile_form(complex_one.form, vectorize="auto", scalar_type="complex128")
    assert compiled.kernels[0].lanes == 1
    plain = formcompiler.compile_form(complex_one.form, scalar_type="complex128")
    assert compiled.source == plain.source


def test_auto_takes_cells_where_they_apply_and_says_what_it_did_not_build(caplog: pytest.LogCaptureFixture) -> None:
    form = CASES["stiffness_quadrilateral"].form
    with caplog.at_level(logging.INFO, logger="formcompiler.vectorize.cheapest"):
        chosen = formcompiler.compile_form(form, vectorize="auto")
    assert "cell: cells, which nothing else can beat (not built: slices, points, halves)" in caplog.text
    assert "cycles" not in caplog.text
    assert chosen.source == formcompiler.compile_form(form, vectorize="cells").source


# --- the pass on hand-written kernels


def scaled_gather(index: Any) -> lp.TranslationUnit:
    """Return y[i] = y[i] + c[0] * x[index]."""
    builder = KernelBuilder("scale", "float64", ["y", "x", "c", "n"])
    builder.argument("y", (3,), written=True)
    builder.argument("x", (3,))
    builder.argument("c", (1,))
    builder.argument("n", (3,), "int32")
    x, y, c = map(prim.Variable, "xyc")
    with builder.loop("i", 3) as i:
        factor = prim.Variable(builder.temporary("factor"))
        builder.assign(factor, 2.0 * c[0])
        term = prim.Variable(builder.temporary("term"))
        builder.assign(term, factor * x[index(i)])
        builder.accumulate(y[i], term)
    return builder.build()


def test_only_what_differs_between_cells_gets_a_lane_axis() -> None:
    kernel = CellLanes(4, frozenset(["c", "n"]))(scaled_gather(lambda i: i)).default_entrypoint
    shapes = {name: a.shape for name, a in {**kernel.arg_dict, **kernel.temporary_variables}.items()}
    assert shapes == {"y": (3, 4), "x": (3, 4), "c": (1,), "n": (3,), "factor": (), "term": (4,)}
    (lane,) = (name for name, iname in kernel.inames.items() if iname.tags_of_type(VectorizeTag))
    assert [lane in i.within_inames for i in kernel.instructions] == [False, True, True]


def test_a_table_of_indices_that_all_cells_share_is_fine() -> None:
    kernel = CellLanes(4, frozenset(["c", "n"]))(scaled_gather(lambda i: prim.Variable("n")[i])).default_entrypoint
    assert "x[n[i], lane]" in str(kernel.instructions[1].expression)


def test_an_index_that_differs_between_cells_is_refused() -> None:
    with pytest.raises(VectorizationError, match=r"insn1 of kernel scale: .* uses the index n\[i\], which differs"):
        CellLanes(4, frozenset(["c"]))(scaled_gather(lambda i: prim.Variable("n")[i]))


def test_the_pass_is_deterministic_and_leaves_its_input_alone() -> None:
    kernel = scaled_gather(lambda i: i)
    before = str(kernel)
    step = CellLanes(4, frozenset(["c", "n"]))
    assert str(step(kernel)) == str(step(kernel))
    assert str(kernel) == before


# --- other machines and compilers


def compilers() -> list[Any]:
    """Return commands for narrow and wide registers; those that are not installed are skipped."""
    commands = [
        *(["g++", flag] for flag in ("-msse2", "-mavx2", "-mavx512f")),
        *(["clang++", flag] for flag in ("-msse2", "-mavx512f")),
        ["aarch64-linux-gnu-g++"],
    ]
    return [
        pytest.param(c, id="".join(c), marks=pytest.mark.skipif(shutil.which(c[0]) is None, reason=f"no {c[0]}"))
        for c in commands
    ]


@functools.cache
def source_of(name: str, scalar_type: str, lanes: int) -> str:
    return formcompiler.compile_form(CASES[name].form, scalar_type=scalar_type, vectorize="cells", lanes=lanes).source


@pytest.mark.parametrize("command", compilers())
@pytest.mark.parametrize(("scalar_type", "lanes"), [("float64", 8), ("float32", 16), ("float64", 2)])
def test_the_same_text_compiles_without_warnings_for_any_registers(
    command: list[str], scalar_type: str, lanes: int, tmp_path: Path
) -> None:
    for name in ("conditional_triangle", "math_functions_triangle", "penalty_hexahedron"):
        (tmp_path / "kernel.cc").write_text(source_of(name, scalar_type, lanes))
        warnings = ["-Wall", "-Wextra", "-Wconversion", "-Werror", "-Wno-unused-parameter"]
        done = subprocess.run(
            [*command, "-std=c++17", "-O1", *warnings, "-c", "kernel.cc"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[:2000]
