"""The page docs/loops.md: its programs run, its command prints what it says, its tables name what exists."""

import re
import sys
from pathlib import Path

import formcompiler.loops
from formcompiler import cli

PAGE = (Path(__file__).parents[2] / "docs" / "loops.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_programs_of_the_page_run_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    wave, *programs = blocks("python")
    (tmp_path / "wave.py").write_text(wave)
    namespace = {}
    assert len(programs) >= 4
    for program in programs:
        exec(program, namespace)
    sys.modules.pop("wave")


def test_the_command_prints_what_the_page_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("wave.py").write_text(blocks("python")[0])
    (said,) = blocks("console")
    command, _, expected = said.partition("\n")
    assert cli.main(command.removeprefix("$ formcompiler ").split()) == 0
    assert capsys.readouterr().out == expected
    assert Path("wave.png").exists()


def test_all_functions_of_the_tables_are_public():
    rows = re.findall(r"^\| `(.*?)` \|", PAGE, flags=re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"(\w+)(?:\(|`|$)", row.replace("`, `", "` "))}
    assert len(names) >= 10
    assert names <= set(formcompiler.loops.__all__)


def test_every_public_name_is_there():
    assert sorted(formcompiler.loops.__all__) == formcompiler.loops.__all__
    assert all(hasattr(formcompiler.loops, name) for name in formcompiler.loops.__all__)
