"""The page for beginners stays true: its commands exist, its form file loads, its messages are the ones that appear."""

import re
from pathlib import Path

import pytest

from formcompiler import cli
from formcompiler.formfile import load_form_file
from formcompiler.naming import to_identifier

PAGE = (Path(__file__).parent.parent / "docs" / "getting-started.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def commands():
    lines = [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines()]
    return [line for line in lines if line.startswith("formcompiler ")]


@pytest.fixture
def poisson(tmp_path, monkeypatch):
    (text,) = blocks("python")
    monkeypatch.chdir(tmp_path)
    Path("poisson.py").write_text(text)
    return text


def test_the_page_shows_all_commands():
    assert {command.split()[1] for command in commands()} == {name for name, *_ in cli._COMMANDS}


@pytest.mark.parametrize("command", commands())
def test_the_commands_of_the_page_are_valid(command, capsys):
    words = command.split()[1:]
    if "--help" in words:
        assert cli.main(words) == 0
    else:
        assert cli.make_parser().parse_args(words).command == words[0]


def test_the_form_file_of_the_page_loads(poisson):
    found = load_form_file("poisson.py")
    assert [form.name for form in found.forms] == ["F"]
    assert found.problem is found.namespace["problem"]
    assert found.names[id(found.problem.unknown)] == "u"


def test_the_mistake_of_the_page_gives_its_message(poisson, capsys):
    (message,) = blocks("text")
    wrong = message.splitlines()[1].strip()
    Path("poisson.py").write_text(re.sub("^F = .*$", wrong, poisson, flags=re.MULTILINE))
    assert cli.main(["compile", "poisson.py"]) == 2
    assert capsys.readouterr().err == message


def test_names_become_what_the_page_says():
    assert "`κ` becomes `kappa`, `class_` stays" in PAGE
    assert [to_identifier("κ"), to_identifier("class_")] == ["kappa", "class_"]
