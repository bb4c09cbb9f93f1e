"""The README and the pages under docs stay true: commands print what they show, programs run, links lead somewhere."""

import dataclasses
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from formcompiler import cli
from formcompiler.options import Options
from formcompiler.runtime.compiler import find_compiler

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def blocks(language, text=README):
    return re.findall(rf"^```{re.escape(language)}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def sessions():
    """Return each command of the README and what it prints."""
    parts = [part.partition("\n") for block in blocks("console") for part in re.split(r"^\$ ", block, flags=re.M)[1:]]
    return [(command, output) for command, _, output in parts]


def test_command():
    (command,) = (command for command, _ in sessions() if command.startswith("pytest"))
    return command


test_command.__test__ = False


def shown(command):
    (output,) = (output for known, output in sessions() if known == command)
    return output


def mask_seconds(table):
    """Return a table without the column of seconds, which no two runs share."""
    lines = table.splitlines()
    end = lines[0].index("seconds") + len("seconds")
    return [line if line.startswith("wrote") else line[: end - 7] + line[end:] for line in lines]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Change to a directory that has the demos, as a checkout has them."""
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_install_and_first_run_come_first():
    assert [command for command, _ in sessions()][:2] == [
        "pip install .",
        "formcompiler run demo/poisson.py --refine 3",
    ]
    assert README.index("formcompiler run") < README.index("pytest") < README.index("## Write a form file")


def test_first_run_prints_the_table_of_the_readme(checkout, capsys):
    command = "formcompiler run demo/poisson.py --refine 3"
    assert cli.main(command.split()[1:]) == 0
    assert mask_seconds(capsys.readouterr().out) == mask_seconds(shown(command))
    assert (checkout / "results" / "poisson.png").is_file()


def test_form_file_of_the_readme_is_the_demo():
    demo = (ROOT / "demo" / "poisson.py").read_text()
    assert blocks("python")[0] == demo.split('"""\n\n', 1)[1]


def test_python_example_prints_what_the_readme_shows():
    example, (output,) = blocks("python")[1], blocks("text")
    answer = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True, timeout=120)
    assert answer.stdout == output


def test_header_and_program_of_the_readme_are_as_shown(checkout, capsys):
    compile_demo = "formcompiler compile demo/poisson.py --output results"
    assert cli.main(compile_demo.split()[1:]) == 0
    assert capsys.readouterr().out == shown(compile_demo)
    excerpt, program = blocks("c++")
    assert excerpt in (checkout / "results" / "poisson.hh").read_text()
    (checkout / "main.cc").write_text(program)
    build = next(command for command, _ in sessions() if command.startswith("c++ "))
    words = [*find_compiler().command, *shlex.split(build)[1:]]
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    answer = subprocess.run(["./main"], capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout == shown("./main")


def test_every_command_of_the_readme_is_one_that_these_tests_know():
    known = r"pip install|formcompiler (run|compile) demo/poisson\.py|pytest|c\+\+ |\./main"
    assert all(re.match(known, command) for command, _ in sessions())


def test_continuous_integration_runs_the_test_command_of_the_readme():
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert lines[-1] == test_command()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    targets = [t.partition("#")[0] for t in re.findall(r"\]\(([^)]+)\)", page.read_text()) if "://" not in t]
    assert [t for t in targets if t and not (page.parent / t).exists()] == []


def test_index_has_all_pages():
    index = (ROOT / "docs" / "index.md").read_text()
    missing = [page.name for page in (ROOT / "docs").glob("*.md") if f"]({page.name})" not in index]
    assert set(missing) == {"index.md"}


def test_pictures_are_small():
    assert all(picture.stat().st_size < 100_000 for picture in (ROOT / "docs" / "images").iterdir())


def options_table():
    lines = ["| flag | default | values | meaning |", "|---|---|---|---|"]
    for option in dataclasses.fields(Options):
        flag, default = option.name.replace("_", "-"), "none" if option.default is None else option.default
        choices = ", ".join(f"`{choice}`" for choice in option.metadata["choices"]) or "a number"
        lines.append(f"| `--{flag}` | `{default}` | {choices} | {option.metadata['help']} |")
    return "\n".join(lines)


def test_page_of_options_has_the_table_of_all_options():
    path = ROOT / "docs" / "options.md"
    page = path.read_text()
    if os.environ.get("FORMCOMPILER_UPDATE_DOCS"):
        path.write_text(re.sub(r"^\| flag(.*\n\|)*.*$", lambda _: options_table(), page, flags=re.MULTILINE))
    assert options_table() in path.read_text(), "FORMCOMPILER_UPDATE_DOCS=1 pytest tests/test_readme.py writes it anew"


def test_page_of_demos_has_all_of_them():
    page = (ROOT / "docs" / "demos.md").read_text()
    assert all(f"](../demo/{demo.name})" in page for demo in (ROOT / "demo").glob("*.py"))


# --- the table of what it can do

FORM_FILE = """
import basix.ufl
from ufl import *
from formcompiler import Box, Problem

cell, dim = "{cell}", {dim}
lagrange = basix.ufl.element("P", cell, 1)
mesh = Mesh(basix.ufl.element("P", cell, {geometry}, shape=(dim,)))
V = FunctionSpace(mesh, {element})
u, v = Coefficient(V), TestFunction(V)
x = SpatialCoordinate(mesh)
exact = sin(x[0] + 1) if not V.value_shape else as_vector([sin(x[i] + 1) for i in range(dim)])
F = inner(u - exact, v) * {measure}
problem = Problem(F, u, mesh=Box(4), exact=exact)
"""


def write_form_file(directory, cell, dim, element="lagrange", geometry=1, measure="dx"):
    path = directory / "form.py"
    path.write_text(FORM_FILE.format(cell=cell, dim=dim, element=element, geometry=geometry, measure=measure))
    return str(path)


H_CURL = 'basix.ufl.element("N1curl", cell, 1)'
H_DIV = 'basix.ufl.element("RT", cell, 1)'
SERENDIPITY = 'basix.ufl.element("serendipity", cell, 2)'
BUBBLES = 'basix.ufl.enriched_element([lagrange, basix.ufl.element("bubble", cell, 3)])'
CROUZEIX_RAVIART = 'basix.ufl.element("CR", cell, 1)'


@pytest.mark.parametrize(
    ("cell", "dim", "options"),
    [("prism", 3, {}), ("pyramid", 3, {}), ("triangle", 2, {"geometry": 2}), ("triangle", 2, {"measure": "dP"})],
)
def test_headers_without_local_operator_are_those_of_the_table(cell, dim, options, tmp_path, capsys):
    assert cli.main(["compile", write_form_file(tmp_path, cell, dim, **options), "--output", str(tmp_path)]) == 0
    assert "kernels only, no local operator" in capsys.readouterr().err
    assert "_kernel(" in (tmp_path / "form.hh").read_text()


@pytest.mark.parametrize(
    ("cell", "dim", "element"),
    [
        ("tetrahedron", 3, H_CURL),
        ("triangle", 2, H_DIV),
        ("quadrilateral", 2, SERENDIPITY),
        ("triangle", 2, BUBBLES),
        ("triangle", 2, CROUZEIX_RAVIART),
    ],
)
def test_elements_of_the_table_have_local_operators(cell, dim, element, tmp_path, capsys):
    assert cli.main(["compile", write_form_file(tmp_path, cell, dim, element), "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""
    assert "void alpha_volume(" in (tmp_path / "form.hh").read_text()


@pytest.mark.parametrize(
    ("cell", "dim", "options"),
    [
        ("tetrahedron", 3, {"element": H_CURL}),
        ("triangle", 2, {"element": H_DIV}),
        ("quadrilateral", 2, {"element": SERENDIPITY}),
        ("triangle", 2, {"measure": "dP"}),
    ],
)
def test_run_refuses_what_the_table_says(cell, dim, options, tmp_path, capsys):
    assert cli.main(["run", write_form_file(tmp_path, cell, dim, **options), "--output", str(tmp_path)]) == 2
    assert "the embedded engine" in capsys.readouterr().err


@pytest.mark.parametrize(("element", "geometry"), [(BUBBLES, 1), (CROUZEIX_RAVIART, 1), ("lagrange", 2)])
def test_run_solves_what_the_table_says(element, geometry, tmp_path, capsys):
    path = write_form_file(tmp_path, "triangle", 2, element, geometry)
    assert cli.main(["run", path, "--refine", "2", "--output", str(tmp_path)]) == 0
    header, _, *rows = capsys.readouterr().out.splitlines()
    assert float(rows[2].split()[header.split().index("L2") + 1]) == pytest.approx(2, abs=0.2)
