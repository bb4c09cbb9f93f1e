"""vectorize=autotune: whole operators are timed once on a machine, and the verdict is kept."""

import json
from pathlib import Path
from typing import Any

import basix.ufl
import numpy as np
import pytest
import ufl
from ufl import dS, ds, dx, grad, inner, jump

import formcompiler
from formcompiler import autotune
from formcompiler.options import make_options


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Verdicts go to a folder of the test; operators are small and timed briefly."""
    monkeypatch.setenv("FORMCOMPILER_CACHE", str(tmp_path))
    monkeypatch.setattr(autotune, "N_DOFS", 300)
    monkeypatch.setattr(autotune, "SECONDS", 1e-4)
    return tmp_path / "verdicts"


def space(cell: str = "quadrilateral", family: str = "Lagrange", degree: int = 2, gdim: int = 2) -> Any:
    mesh = ufl.Mesh(basix.ufl.element("Lagrange", cell, 1, shape=(gdim,)))
    return ufl.FunctionSpace(mesh, basix.ufl.element(family, cell, degree))


def action(V: Any) -> Any:
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    return inner(grad(u), grad(v)) * dx


def test_the_verdict_is_the_fastest_and_is_kept(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    form = action(space())
    first = formcompiler.compile_form(form, vectorize="autotune")
    (file,) = own_cache.glob("*.json")
    verdict = json.loads(file.read_text())
    assert verdict["best"] == min(verdict["seconds"], key=verdict["seconds"].__getitem__)
    assert verdict["best"] == autotune.name(first.options)
    assert 1 < len(verdict["seconds"]) <= autotune.N_FINALISTS

    monkeypatch.setattr(autotune, "_time", lambda *_: pytest.fail("timed again"))
    assert formcompiler.compile_form(form, vectorize="autotune").source == first.source


def test_what_is_timed_differs_in_more_than_the_number_of_lanes(own_cache: Path) -> None:
    x, y = ufl.SpatialCoordinate(space().ufl_domain())
    compiled = formcompiler.compile_form(ufl.sin(x) * ufl.cos(y) * dx, vectorize="autotune")
    (file,) = own_cache.glob("*.json")
    strategies = [name.split()[0] for name in json.loads(file.read_text())["seconds"]]
    assert len(strategies) == len(set(strategies)) == autotune.N_FINALISTS
    assert compiled.options.vectorize in strategies


def test_a_kept_verdict_is_obeyed_and_a_broken_one_is_replaced(own_cache: Path) -> None:
    form = action(space())
    formcompiler.compile_form(form, vectorize="autotune")
    (file,) = own_cache.glob("*.json")
    file.write_text('{"best": "none auto"}')
    assert formcompiler.compile_form(form, vectorize="autotune").options.vectorize == "none"
    for text in ("", "{", "[1]", '{"best": "carrier pigeons"}'):
        file.write_text(text)
        formcompiler.compile_form(form, vectorize="autotune")
        assert "seconds" in json.loads(file.read_text())


def test_other_forms_options_and_processors_have_verdicts_of_their_own(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = action(space())
    formcompiler.compile_form(form, vectorize="autotune")
    formcompiler.compile_form(form, vectorize="autotune", geometry="affine")
    formcompiler.compile_form(action(space(degree=3)), vectorize="autotune")
    monkeypatch.setattr(autotune, "describe_processor", lambda: "another one")
    formcompiler.compile_form(form, vectorize="autotune")
    assert len(list(own_cache.glob("*.json"))) == 4


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_forms_of_all_ranks_on_cells_and_facets_are_timed(rank: int, own_cache: Path) -> None:
    V = space("triangle", "DG", 1)
    u, v, c = ufl.TrialFunction(V), ufl.TestFunction(V), ufl.Coefficient(V)
    weight = ufl.Constant(V.ufl_domain())
    first, second = ((v, u), (v, c), (c, c))[2 - rank]
    form = weight * first * second * dx + first * second * ds + jump(first) * jump(second) * dS
    compiled = formcompiler.compile_form(form, vectorize="autotune")
    assert len(list(own_cache.glob("*.json"))) == 1
    plain = formcompiler.compile_form(form)
    data = {
        "coefficients": {c: [0.3, 0.4, 0.7]} if rank < 2 else {},
        "constants": {weight: 1.5},
    }
    corners = [[0, 0], [1, 0.1], [0.2, 1]]
    wanted = plain.tabulate_tensor("cell", None, corners, **data)
    assert compiled.tabulate_tensor("cell", None, corners, **data) == pytest.approx(wanted, abs=1e-14)


@pytest.mark.parametrize(("cell", "family", "gdim"), [("triangle", "RT", 2), ("prism", "P", 3), ("pyramid", "P", 3)])
def test_the_model_decides_where_the_engine_cannot(
    cell: str, family: str, gdim: int, own_cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    V = space(cell, family, 1, gdim)
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    compiled = formcompiler.compile_form(inner(u, v) * dx, vectorize="autotune")
    assert "the cost model decides" in caplog.text
    assert compiled.options.vectorize != "autotune"
    assert not list(own_cache.glob("*.json"))


def test_the_model_prefers_lanes_to_none_and_whole_registers_to_half_ones() -> None:
    form = action(space("hexahedron", degree=4, gdim=3))
    assert formcompiler.compile_form(form, vectorize="auto").kernel_objects[0].method.lanes > 1
    one_cell = formcompiler.compile_form(form, vectorize="in_cell").kernel_objects[0]
    assert one_cell.method.lanes == 1


def test_operators_of_one_cell_and_of_batches_stand_side_by_side(tmp_path: Path) -> None:
    path = tmp_path / "heat.py"
    path.write_text(
        "import basix.ufl\nfrom ufl import *\n"
        'mesh = Mesh(basix.ufl.element("P", "hexahedron", 1, shape=(3,)))\n'
        'V = FunctionSpace(mesh, basix.ufl.element("P", "hexahedron", 3))\n'
        "u, v = Coefficient(V), TestFunction(V)\nF = inner(grad(u), grad(v)) * dx\nforms = [F]\n"
    )
    from formcompiler.formfile import load_form_file
    from formcompiler.operators import make_headers

    text = {v: make_headers(load_form_file(path), make_options(vectorize=v))[0].text for v in ("none", "cells", "auto")}
    assert "_batch_kernel" not in text["none"]
    assert "_batch_kernel" in text["cells"] and "_batch_kernel" in text["auto"]
    assert text["auto"].count("vector_size") > text["cells"].count("vector_size") > 0


def test_random_data_of_the_benchmark_are_the_same_in_each_run() -> None:
    form = action(space())
    benches = [autotune._Bench(form, make_options()) for _ in range(2)]
    assert np.array_equal(benches[0]._vectors[0], benches[1]._vectors[0])
    assert np.array_equal(benches[0]._mesh.points, benches[1]._mesh.points)
