"""What the report says about the kernels of a form file."""

from pathlib import Path
from typing import Any

import pytest

from formcompiler import compile_form
from formcompiler.compiled_operator import compile_operator, plan_file
from formcompiler.errors import InvalidOptionError
from formcompiler.formfile import load_form_file
from formcompiler.options import make_options
from formcompiler.report import measure_memory, report_file

TEXT = """
import basix.ufl
from ufl import *
mesh = Mesh(basix.ufl.element("P", "{cell}", 1, shape=(2,)))
V = FunctionSpace(mesh, basix.ufl.element("P", "{cell}", 1))
u, v = Coefficient(V), TestFunction(V)
F = inner(grad(u), grad(v)) * dx(degree=3) + u**2 * v * ds(4, degree=2)
M = u * dx(degree=1)
"""

CUT = """
import basix.ufl
from ufl import *
mesh = Mesh(basix.ufl.element("P", "triangle", 1, shape=(2,)))
V = FunctionSpace(mesh, basix.ufl.element("P", "triangle", 2))
v, f = TestFunction(V), Coefficient(V)
L = f * v * dC
forms = [L]
"""


@pytest.fixture
def triangle(tmp_path: Path) -> Any:
    return load(tmp_path, "triangle")


def load(directory: Path, cell: str) -> Any:
    path = directory / "film.py"
    path.write_text(TEXT.format(cell=cell))
    return load_form_file(path)


def row(report: str, kernel: str) -> dict[str, str]:
    """Return the entries of the first row with this name, by column; columns are two spaces apart."""
    lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in report.splitlines()]
    header = next(line for line in lines if line and line[0] == "kernel")
    return dict(zip(header, next(line for line in lines if line and line[0] == kernel), strict=True))


def test_each_kernel_has_a_row_with_its_numbers(triangle: Any) -> None:
    report = report_file(triangle, make_options())
    jacobian = row(report, "jacobian_volume")
    assert jacobian["entities"] == "cells" and jacobian["ids"] == "all"
    assert jacobian["degree"] == "3" and jacobian["points"] == "6"
    assert jacobian["dofs"] == "3 x 3"
    boundary = row(report, "residual_boundary")
    assert boundary["entities"] == "boundary facets" and boundary["ids"] == "4"
    assert boundary["degree"] == "2" and boundary["points"] == "2"
    assert row(report, "functional_volume")["dofs"] == "-"
    assert report.startswith("film: nonlinear residual, unknown u; options: defaults")
    assert "film_M: functional" in report


def test_symmetric_matrices_are_named(triangle: Any) -> None:
    report = report_file(triangle, make_options())
    assert "symmetric: one triangle: jacobian_volume, jacobian_boundary" in report


def test_flops_are_those_of_the_kernels(triangle: Any) -> None:
    report = report_file(triangle, make_options())
    flops = {i.type: i.flops for i in compile_form(triangle.namespace["F"]).integrals}
    assert row(report, "residual_volume")["flops"] == str(flops["cell"])
    assert row(report, "residual_boundary")["flops"] == str(flops["exterior_facet"])


def test_plain_loops_come_with_the_reason(tmp_path: Path) -> None:
    report = report_file(load(tmp_path, "quadrilateral"), make_options(sum_factorization="off"))
    assert "plain loops because of: sum_factorization=off" in report
    assert row(report, "residual_volume")["strategy"] == "plain loops"
    assert "options: sum_factorization=off" in report
    factorized = report_file(load(tmp_path, "quadrilateral"), make_options())
    assert row(factorized, "residual_volume")["strategy"] == "factorized"


def test_memory_counts_tables_arrays_and_temporaries(triangle: Any) -> None:
    operators = plan_file(triangle, make_options())
    kernels = {k.method.name: k for _, k in compile_operator(operators[0], {}, make_options()).kernels}
    memory = measure_memory(kernels["residual_boundary_kernel"].t_unit)
    # result 3, unknown 3 and coordinates 6 doubles; facet number 4 bytes, permutation 1 byte
    assert memory.arrays == 8 * (3 + 3 + 6) + 4 + 1
    assert memory.n_temporaries * 4 <= memory.temporaries
    assert memory.tables % 8 == 0 and memory.tables > 0
    single = {
        k.method.name: k for _, k in compile_operator(operators[0], {}, make_options(scalar_type="float32")).kernels
    }
    assert measure_memory(single["residual_boundary_kernel"].t_unit).arrays == 4 * (3 + 3 + 6) + 4 + 1


def test_dump_shows_one_stage_or_all(triangle: Any) -> None:
    emitted = report_file(triangle, make_options(), "emit")
    assert "static void residual_volume_kernel(" in emitted
    assert "=== residual_volume after emit" in emitted and "after build" not in emitted
    everything = report_file(triangle, make_options(), "all")
    assert "after build" in everything and "after linearize" in everything
    assert "\x1b" not in everything
    assert "for q" in everything.partition("after linearize")[2]


def test_dump_of_a_stage_that_does_not_exist_names_those_that_do(triangle: Any) -> None:
    with pytest.raises(InvalidOptionError, match=r"no stage 'emitt'.*build.*linearize.*emit, all"):
        report_file(triangle, make_options(), "emitt")


def test_times_of_the_stages_are_listed_in_order(triangle: Any) -> None:
    times = report_file(triangle, make_options()).rpartition("stage ")[2]
    positions = [times.index(f"\n{name} ") for name in ("build", "linearize", "emit")]
    assert positions == sorted(positions)


def test_dumps_of_two_operators_are_not_mixed_up(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text(TEXT.format(cell="triangle") + "G = 2*u**3*v*dx\nforms = [F, G]")
    dump = report_file(load_form_file(path), make_options(), "linearize")
    parts = dump.split("=== residual_volume after linearize")
    assert len(parts) == 3
    assert parts[1].partition("===")[0] != parts[2].partition("===")[0]


def test_operations_at_points_given_at_run_time_are_counted_for_one_point(tmp_path: Path) -> None:
    path = tmp_path / "cut.py"
    path.write_text(CUT)
    report = report_file(load_form_file(path), make_options(), "all")
    found = row(report, "load_volume_cutcell")
    (info,) = compile_form(load_form_file(path).namespace["L"]).integrals
    assert info.flops > 0 < info.flops_per_point
    assert found["array bytes"] == str(8 * (6 + 6 + 6))
    assert "for (int q = 0; q < n_points; ++q)" in report
    assert (found["points"], found["flops"]) == ("n", f"{info.flops} + {info.flops_per_point} n")


@pytest.mark.parametrize("mode", ["general", "nested"])
def test_code_motion_is_told_with_operations_places_and_memory(tmp_path: Path, mode: str) -> None:
    form_file = load(tmp_path, "quadrilateral")
    report = report_file(form_file, make_options(licm=mode))
    lines = report.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("loop-invariant code motion"))
    cells = next(line.split() for line in lines[start + 1 :] if line.startswith("jacobian_volume"))
    before, after = int(cells[2]), int(cells[3])
    assert cells[1] in ("general", "nested", "cse")
    assert after <= before
    assert after == int(row(report, "jacobian_volume")["flops"])


def test_code_motion_that_is_off_has_no_table(triangle: Any) -> None:
    assert "loop-invariant code motion: off" in report_file(triangle, make_options(licm="off"))


def test_complex_kernels_get_the_general_mode(tmp_path: Path) -> None:
    path = tmp_path / "wave.py"
    path.write_text(TEXT.format(cell="triangle").replace("F = ", "a = inner(u, v) * dx\nG = ").replace("u**2", "u"))
    report = report_file(load_form_file(path), make_options(scalar_type="complex128"))
    lines = report.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("loop-invariant code motion"))
    modes = [line.split()[1] for line in lines[start + 1 :] if line.startswith(("residual", "jacobian"))]
    assert modes and set(modes) == {"general"}
