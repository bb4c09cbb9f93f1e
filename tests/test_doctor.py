"""What `formcompiler doctor` finds on machines with and without the things it looks for."""

import importlib.metadata
import re

import pytest

from formcompiler import cli, doctor
from formcompiler.runtime import compiler as cc


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    directory = tmp_path / "cache"
    monkeypatch.setenv("FORMCOMPILER_CACHE", str(directory))
    monkeypatch.delenv("CXX", raising=False)
    return directory


def findings():
    return {finding.subject: finding for finding in doctor.examine()}


def test_this_machine_is_fine(cache, capsys):
    assert cli.main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("ok  ") for line in lines)
    assert len(lines) == len(doctor.examine())


def test_the_table_has_columns():
    table = doctor.to_table([doctor.Finding("a", "one"), doctor.Finding("long", "two", is_fine=False)])
    assert table == "ok  a     one\n!!  long  two"


def test_versions_are_those_of_the_distributions():
    found = findings()
    for module, distribution in doctor.REQUIRED.items():
        assert found[module].text == importlib.metadata.version(distribution)


def test_a_missing_compiler_is_marked_with_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    assert cli.main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert re.search(r"^!!  C\+\+ compiler .*apt install g\+\+", text, re.MULTILINE)
    assert re.search(r"^!!  trial compilation ", text, re.MULTILINE)
    assert re.search(r"^!!  loopy +missing: pip install loopy$", text, re.MULTILINE)
    assert re.search(r"^ok  gmsh +not installed \(meshes .*: pip install gmsh\)$", text, re.MULTILINE)


def test_a_compiler_whose_libraries_do_not_load_is_marked(tmp_path, monkeypatch):
    script = tmp_path / "c++"
    script.write_text('#!/bin/sh\nfor last; do :; done\necho "gcc 1"; case "$*" in *-o*) echo junk > "$last";; esac\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    trial = findings()["trial compilation"]
    assert not trial.is_fine
    assert "invalid ELF header" in trial.text or "file too short" in trial.text


def test_a_cache_that_cannot_be_written_is_marked(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FORMCOMPILER_CACHE", str(tmp_path / "file" / "cache"))
    trial = findings()["trial compilation"]
    assert not trial.is_fine
    assert "cannot write compiled code" in trial.text


def test_the_cache_is_measured_and_the_trial_leaves_nothing(cache):
    cc.build_library('extern "C" int f() { return 1; }\n', name="kept")
    before = sorted(cache.iterdir())
    size = sum(path.stat().st_size for path in before) / 1e6
    assert findings()["cache"].text == f"{cache} (1 libraries, {size:.1f} MB)"
    assert sorted(cache.iterdir()) == before


def test_a_module_without_distribution_counts_as_installed(tmp_path, monkeypatch):
    (tmp_path / "pyvista.py").write_text("raise SystemExit('must not be imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert doctor._find_version("pyvista", "no-such-distribution") == "version unknown"
