"""The demos: they run as their users run them, and their tables show the orders of convergence of the theory."""

import re
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import meshio
import numpy as np
import pytest
import ufl

from formcompiler import cli, compile_expression, compile_form
from formcompiler.formfile import load_form_file
from formcompiler.runtime.functions import Compilers, FunctionData
from formcompiler.runtime.mesh import box_mesh

ROOT = Path(__file__).parent.parent
DEMOS = sorted((ROOT / "demo").glob("*.py"))
DIMENSIONS = {"interval": 1, "triangle": 2, "quadrilateral": 2, "tetrahedron": 3, "hexahedron": 3}


def name(path):
    return path.stem


def change(demo, directory, n=None, **parameters):
    """Return the path of a copy of a demo with other values in its line of parameters, and n cells per direction."""
    text = (ROOT / "demo" / f"{demo}.py").read_text()
    line = re.search(r"^(cell, .*?) = (.*?)(  #.*)?$", text, re.MULTILINE)
    values = [repr(parameters.pop(name)) for name in line[1].split(", ")]
    assert not parameters
    text = text.replace(line[0], f"{line[1]} = {', '.join(values)}")
    text = text.replace("Path(__file__).parent", f"Path({str(ROOT / 'demo')!r})")
    if n is not None:
        assert "mesh=Box(8" in text
        text = text.replace("mesh=Box(8", f"mesh=Box({n}")
    path = directory / f"{demo}.py"
    path.write_text(text)
    return path


def run(path, directory, capsys, refine=1):
    """Return the rows of the table that the command prints, as words, and check that it writes what it says."""
    assert cli.main(["run", str(path), "--refine", str(refine), "--output", str(directory)]) == 0
    header, rule, *lines = capsys.readouterr().out.splitlines()
    rows, written = lines[: refine + 1], lines[refine + 1 :]
    assert set(rule) == {"-", " "}
    assert len({len(row) for row in (header, rule, *rows)}) == 1
    assert written == [f"wrote {directory / path.stem}.{suffix}" for suffix in ("vtu", "png")]
    assert all(Path(line.removeprefix("wrote ")).is_file() for line in written)
    return [header.split(), *(row.split() for row in rows)]


def measure(path, directory, capsys, refine=1):
    """Return the orders between the last two meshes in the table of the command: L2 and H1 of each field."""
    header, *rows = run(path, directory, capsys, refine)
    return [float(word) for title, word in zip(header, rows[-1], strict=True) if title == "order"]


def theory(degree):
    """Return the orders of L2 and H1 errors of elements of this degree, with room for meshes that are not yet fine."""
    return [pytest.approx(degree + 1, abs=0.2), pytest.approx(degree, abs=0.2)]


# --- convergence


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
@pytest.mark.parametrize("cell", DIMENSIONS)
def test_poissons_equation_converges_on_every_cell_with_every_degree(cell, degree, tmp_path, capsys):
    dim = DIMENSIONS[cell]
    n = {1: 8, 2: [8, 6, 4, 4][degree - 1], 3: [8, 4, 3, 2][degree - 1]}[dim]
    path = change("poisson", tmp_path, n, cell=cell, dim=dim, degree=degree)
    assert measure(path, tmp_path, capsys) == theory(degree)


@pytest.mark.parametrize(("cell", "degree"), [("triangle", 2), ("quadrilateral", 3)])
def test_nonlinear_heat_conduction_converges_in_several_newton_steps(cell, degree, tmp_path, capsys):
    path = change("nonlinear_poisson", tmp_path, 8, cell=cell, degree=degree)
    header, *rows = run(path, tmp_path, capsys)
    orders = [float(word) for title, word in zip(header, rows[-1], strict=True) if title == "order"]
    assert orders == theory(degree)
    assert all(3 <= int(row[header.index("steps")]) <= 8 for row in rows)


@pytest.mark.parametrize(
    ("cell", "degree"), [("triangle", 1), ("triangle", 2), ("triangle", 3), ("quadrilateral", 1), ("quadrilateral", 2)]
)
def test_interior_penalty_method_converges_on_triangles_and_quadrilaterals(cell, degree, tmp_path, capsys):
    path = change("sipg", tmp_path, 8, cell=cell, degree=degree)
    assert measure(path, tmp_path, capsys) == theory(degree)


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("cell", ["triangle", "quadrilateral"])
def test_penalty_of_the_interior_penalty_method_makes_its_matrix_positive_definite(cell, degree, tmp_path):
    problem = load_form_file(change("sipg", tmp_path, cell=cell, degree=degree)).problem
    data = FunctionData(box_mesh(cell, [3, 3], [0.0, 0.0], [1.0, 1.0]), Compilers(compile_form, compile_expression), {})
    jacobian = data.operator(ufl.derivative(problem.residual, problem.unknown)).matrix([], np.zeros(0, dtype=int))
    dense = jacobian.toarray()
    np.testing.assert_allclose(dense, dense.T, atol=1e-11 * abs(dense).max())
    assert np.linalg.eigvalsh(dense).min() > 0


@pytest.mark.parametrize(("cell", "degree"), [("quadrilateral", 2), ("triangle", 1), ("triangle", 2)])
def test_elasticity_with_tractions_converges(cell, degree, tmp_path, capsys):
    path = change("elasticity", tmp_path, 12 if degree == 1 else 6, cell=cell, degree=degree)
    assert measure(path, tmp_path, capsys) == theory(degree)


@pytest.mark.parametrize(("cell", "degree"), [("triangle", 2), ("triangle", 3), ("quadrilateral", 2)])
def test_taylor_hood_elements_converge_in_velocity_and_pressure(cell, degree, tmp_path, capsys):
    path = change("stokes", tmp_path, 8, cell=cell, degree=degree)
    assert measure(path, tmp_path, capsys) == [*theory(degree), *theory(degree - 1)]


@pytest.mark.parametrize("degree", [1, 2])
def test_plate_with_a_hole_converges_on_the_mesh_of_gmsh(degree, tmp_path, capsys):
    """From the first to the second mesh the error falls faster than in theory, for both are coarse at the hole."""
    path = change("plate_with_hole", tmp_path, cell="triangle", degree=degree)
    l2, h1 = measure(path, tmp_path, capsys, refine=2)
    assert degree + 0.8 < l2 < degree + 1.4
    assert h1 == pytest.approx(degree, abs=0.2)


# --- what the commands do with each demo


@pytest.mark.parametrize("demo", DEMOS, ids=name)
def test_every_demo_runs_as_it_is_and_draws_a_picture(demo, tmp_path, capsys):
    header, row = run(demo, tmp_path, capsys, refine=0)
    assert header[:5] == ["h", "cells", "dofs", "steps", "seconds"]
    assert row.count("-") == header.count("order") > 0
    picture = matplotlib.image.imread(tmp_path / f"{demo.stem}.png")
    assert len(np.unique(picture.reshape(-1, picture.shape[2]), axis=0)) > 100
    solution = meshio.read(tmp_path / f"{demo.stem}.vtu")
    assert all(np.isfinite(values).all() and np.ptp(values) > 0 for values in solution.point_data.values())


@pytest.mark.parametrize("demo", DEMOS, ids=name)
def test_every_demo_shows_the_command_that_runs_it(demo):
    shown = re.findall(r"^    formcompiler (\w+) (\S+)(.*)$", load_docstring(demo), re.MULTILINE)
    assert ("run", f"demo/{demo.name}") in [(command, file) for command, file, _ in shown]
    for command, file, rest in shown:
        assert cli.make_parser().parse_args([command, file, *rest.split()]).command == command


def load_docstring(demo):
    return demo.read_text().split('"""')[1]


@pytest.mark.parametrize("demo", DEMOS, ids=name)
def test_every_demo_becomes_a_header_without_warnings(demo, tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tests" / "codegen")
    import stub_harness

    assert cli.main(["compile", str(demo), "--output", str(tmp_path)]) == 0
    header = tmp_path / f"{demo.stem}.hh"
    assert capsys.readouterr().out == f"wrote {header}\n"
    unknown = load_form_file(demo).problem.unknown
    space = stub_harness.space_type(unknown.ufl_element())
    class_name, gdim = demo.stem.title().replace("_", ""), unknown.ufl_function_space().ufl_domain().geometric_dimension
    arguments = "<>" if f"struct {class_name}Data" in header.read_text() else ""
    source = tmp_path / "main.cc"
    source.write_text(
        f'#include "{header.name}"\n#include "pdelab_stub.hh"\n'
        f"int main()\n{{\n  formcompiler::{class_name}{arguments} op;\n"
        f"  return stub::run<{gdim}, {space}, {space}>(op, {{}});\n}}\n"
    )
    stub_harness.compile_cpp(source, "-fsyntax-only")


@pytest.mark.parametrize("demo", DEMOS, ids=name)
def test_every_demo_has_a_report(demo, capsys):
    assert cli.main(["report", str(demo)]) == 0
    report = capsys.readouterr().out
    assert all(kernel in report for kernel in ("residual_volume", "jacobian_volume"))


# --- the mesh


def boundary_lengths(mesh):
    """Return the length of each tagged part of the boundary."""
    lengths = {}
    for block, tags in zip(mesh.cells, mesh.cell_data["gmsh:physical"], strict=True):
        if block.type == "line":
            ends = mesh.points[block.data]
            for tag, length in zip(tags, np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1), strict=True):
                lengths[int(tag)] = lengths.get(int(tag), 0.0) + length
    return lengths


def area(mesh):
    corners = mesh.points[mesh.cells_dict["triangle"]]
    return np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1).sum() / 2


def test_mesh_of_the_plate_has_the_tags_that_the_demo_names():
    mesh = meshio.read(ROOT / "demo" / "meshes" / "plate_with_hole.msh")
    variables = load_form_file(ROOT / "demo" / "plate_with_hole.py").namespace
    curves = {name: tag for name, (tag, dim) in mesh.field_data.items() if dim == 1}
    assert curves == {name: variables[name] for name in ("symmetry_y", "right", "top", "symmetry_x", "hole")}
    lengths = boundary_lengths(mesh)
    assert [lengths[variables[name]] for name in ("symmetry_y", "right", "top", "symmetry_x")] == pytest.approx(
        [3, 4, 4, 3]
    )
    assert lengths[variables["hole"]] == pytest.approx(np.pi / 2, rel=0.01)
    assert area(mesh) == pytest.approx(16 - np.pi / 4, rel=0.01)


def test_script_makes_the_mesh_of_the_plate(tmp_path):
    try:
        import gmsh  # noqa: F401
    except (ImportError, OSError) as error:  # without the libraries of a desktop it is there, but does not load
        pytest.skip(f"gmsh cannot be loaded: {error}")
    script = ROOT / "demo" / "meshes" / "make_meshes.py"
    subprocess.run([sys.executable, script, tmp_path], check=True, capture_output=True, timeout=60)
    ours, made = (meshio.read(folder / "plate_with_hole.msh") for folder in (script.parent, tmp_path))
    assert {name: list(value) for name, value in ours.field_data.items()} == {
        name: list(value) for name, value in made.field_data.items()
    }
    assert boundary_lengths(made) == pytest.approx(boundary_lengths(ours))
    assert len(made.cells_dict["triangle"]) == pytest.approx(len(ours.cells_dict["triangle"]), rel=0.2)
