"""The runner of case modules: what passes, what fails, what is skipped, and how it says so."""

from __future__ import annotations

import pytest
from run_cases import main

HEADER = """
import basix.ufl
import numpy as np
import ufl
mesh = ufl.Mesh(basix.ufl.element("Lagrange", "triangle", 1, shape=(2,)))
V = ufl.FunctionSpace(mesh, basix.ufl.element("Lagrange", "triangle", 1))
u, v, f = ufl.TrialFunction(V), ufl.TestFunction(V), ufl.Coefficient(V)
corners = np.array([[0, 0], [1, 0], [0, 1.0]])
"""

RIGHT = """
def check(tab, etab):
    assert np.isclose(tab(f * ufl.dx, x=corners, w={f: [2, 2, 2]}), 1.0)
    assert np.allclose(tab(u * v * ufl.dx, x=corners, options={"part": "diagonal"}), 1 / 12)
    assert tab(f * ufl.dx, x=corners, w={f: [1, 1, 1]}, dtype="float32").dtype == np.float32
    assert np.allclose(etab(f * ufl.grad(u), [[0.5, 0]], x=corners, w={f: [2, 4, 0]}), [[[-3, 3, 0], [-3, 0, 3]]])
"""

DEFAULTS = """
def check(tab, etab):
    flux = tab(f * v * ufl.ds, "exterior_facet", x=corners, w={f: [1, 1, 1]})
    assert np.allclose(flux, np.sqrt(2) * np.array([0, 0.5, 0.5]))
    both = np.stack([corners, corners])
    jump = ufl.avg(f) * ufl.dS
    assert np.isclose(tab(jump, "interior_facet", x=both, w={f: [1, 1, 1, 3, 3, 3]}), 2 * np.sqrt(2))
    assert np.isclose(tab(f * ufl.dx, x=corners, w={f: [2, 2, 2]}, options={"epsilon": 1e-14}), 1.0)
"""

WRONG = """
def check(tab, etab):
    assert np.isclose(tab(f * ufl.dx, x=corners, w={f: [2, 2, 2]}), 1.5)
"""

REFUSED = """
ERROR_WORDS = ["restrict"]
def build():
    w = ufl.Coefficient(ufl.FunctionSpace(mesh, basix.ufl.element("DG", "triangle", 1)))
    return w * ufl.dS
"""

ACCEPTED = """
ERROR_WORDS = ["restrict"]
def build():
    return v * ufl.dx
"""

OTHER_WORDS = REFUSED.replace('"restrict"', '"unheard-of"')


def run(tmp_path, capsys, oracle, *numbers, **sources):
    for name, source in sources.items():
        (tmp_path / f"{name.lstrip('_')}.py").write_text(HEADER + source, encoding="utf-8")
    status = main([str(tmp_path), *numbers, "--oracle", oracle])
    return status, capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("oracle", ["reference", "formcompiler", "ffcx"])
def test_right_numbers_pass_and_wrong_ones_fail_with_their_line(tmp_path, capsys, oracle):
    if oracle == "ffcx":
        pytest.importorskip("ffcx")
    status, lines = run(tmp_path, capsys, oracle, _01_right=RIGHT, _02_wrong=WRONG)
    assert status == 1
    assert lines[0].startswith("PASS") and "01_right" in lines[0]
    assert lines[1].startswith("FAIL") and "AssertionError in line" in lines[1] and "1.5" in lines[1]
    assert lines[2] == "FAIL: 1, PASS: 1"


def test_numbers_choose_cases(tmp_path, capsys):
    status, lines = run(tmp_path, capsys, "reference", "1", _01_right=RIGHT, _02_wrong=WRONG)
    assert (status, lines[-1]) == (0, "PASS: 1")


def test_forms_that_must_be_refused_need_an_error_with_the_right_words(tmp_path, capsys):
    status, lines = run(
        tmp_path, capsys, "formcompiler", _01_refused=REFUSED, _02_accepted=ACCEPTED, _03_words=OTHER_WORDS
    )
    assert status == 1
    assert [line[:4] for line in lines[:3]] == ["PASS", "FAIL", "FAIL"]
    assert "accepted silently" in lines[1]
    assert "unheard-of" in lines[2]


def test_an_oracle_without_a_compiler_skips_error_cases(tmp_path, capsys):
    status, lines = run(tmp_path, capsys, "reference", _01_refused=REFUSED)
    assert (status, lines[-1]) == (0, "SKIP: 1")


def test_facets_that_a_case_does_not_name_are_number_0(tmp_path, capsys):
    status, lines = run(tmp_path, capsys, "formcompiler", _01_defaults=DEFAULTS)
    assert status == 0, lines
