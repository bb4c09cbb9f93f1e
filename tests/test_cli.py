"""The command line: what reaches the driver, what the user sees, and the exit status. The driver is a fake here."""

import dataclasses
import logging
import os
import signal
import subprocess
import sys
import time
import types
import warnings
from pathlib import Path

import pytest

import formcompiler
from formcompiler import cli, errors
from formcompiler.options import Options

FORM = """\
import basix.ufl
from ufl import *
V = FunctionSpace(Mesh(basix.ufl.element("P", "triangle", 1, shape=(2,))), basix.ufl.element("P", "triangle", 1))
a = inner(TrialFunction(V), TestFunction(V))*dx
"""
PROBLEM = """\
from formcompiler.problem import Problem
u, v = Coefficient(V), TestFunction(V)
problem = Problem(inner(grad(u), grad(v))*dx + u*v*dx, u)
"""
COMMANDS = ("compile", "run", "report", "doctor")


@pytest.fixture(autouse=True)
def empty_directory(tmp_path, monkeypatch):
    """Commands write to the current directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def quiet_logger():
    logger = logging.getLogger("formcompiler")
    before = (logger.handlers[:], logger.propagate, logger.level)
    yield
    logger.handlers[:], logger.propagate, level = before
    logger.setLevel(level)


@pytest.fixture
def form(tmp_path):
    path = tmp_path / "mass.py"
    path.write_text(FORM)
    return path


@pytest.fixture
def calls(monkeypatch):
    """Replace the driver by one that notes the arguments of its calls; return the notes."""
    notes = []
    driver = types.ModuleType("formcompiler.driver")

    def compile_file(form_file, output_dir, options):
        notes.append(("compile", form_file.operator_name, output_dir, options))
        return [output_dir / "mass.hh", output_dir / "more.hh"]

    def run_file(form_file, refine, output_dir, options):
        notes.append(("run", form_file.operator_name, refine, output_dir, options))

    def report_file(form_file, options, dump):
        notes.append(("report", form_file.operator_name, options, dump))
        return "the report"

    driver.compile_file, driver.run_file, driver.report_file = compile_file, run_file, report_file
    monkeypatch.setitem(sys.modules, "formcompiler.driver", driver)
    monkeypatch.setattr(formcompiler, "driver", driver, raising=False)
    return notes


@pytest.fixture
def fail(calls, monkeypatch, form):
    """Run ``compile`` with a driver that raises the given exception."""

    def run(error, *flags):
        def compile_file(form_file, output_dir, options):
            raise error

        monkeypatch.setattr(sys.modules["formcompiler.driver"], "compile_file", compile_file)
        return cli.main(["compile", str(form), *flags])

    return run


# --- the commands


def test_compile_hands_the_form_file_to_the_driver_and_prints_paths(form, calls, capsys):
    assert cli.main(["compile", str(form), "-o", "build"]) == 0
    assert calls == [("compile", "mass", Path("build"), Options())]
    assert capsys.readouterr().out == "wrote build/mass.hh\nwrote build/more.hh\n"


def test_compile_writes_here_by_default(form, calls):
    assert cli.main(["compile", str(form)]) == 0
    assert calls[0][2] == Path()


@pytest.mark.parametrize(
    ("flags", "refine", "output"),
    [([], 0, "results"), (["--refine", "3", "--output", "out"], 3, "out"), (["-o", "out"], 0, "out")],
)
def test_run_hands_refinements_and_directory_to_the_driver(form, calls, flags, refine, output):
    form.write_text(FORM + PROBLEM)
    assert cli.main(["run", str(form), *flags]) == 0
    assert calls == [("run", "mass", refine, Path(output), Options())]


def test_run_without_a_problem_says_how_to_write_one(form, calls, capsys):
    assert cli.main(["run", str(form)]) == 2
    assert "mass.py: has no problem to solve; add one: problem = formcompiler.problem.Problem(F, u)" in (
        capsys.readouterr().err
    )
    assert calls == []


@pytest.mark.parametrize(("flags", "dump"), [([], None), (["--dump"], "all"), (["--dump", "licm"], "licm")])
def test_report_prints_what_the_driver_tells(form, calls, capsys, flags, dump):
    assert cli.main(["report", str(form), *flags]) == 0
    assert calls == [("report", "mass", Options(), dump)]
    assert capsys.readouterr().out == "the report\n"


def test_an_output_directory_that_cannot_be_is_reported_before_the_work(form, calls, capsys):
    Path("file").write_text("")
    for output, reason in (("file", "File exists"), ("file/sub", "Not a directory")):
        assert cli.main(["compile", str(form), "-o", output]) == 2
        assert capsys.readouterr().err == f"formcompiler: error: --output {output}: cannot be created: {reason}\n"
    assert calls == []


def test_an_output_directory_that_is_protected_is_reported(form, calls, monkeypatch, capsys):
    monkeypatch.setattr(cli.os, "access", lambda path, mode: mode != os.W_OK)
    assert cli.main(["compile", str(form), "-o", "out"]) == 2
    assert "--output out: you have no right to write there" in capsys.readouterr().err


# --- compiler options


def options_of(calls, form, *flags):
    assert cli.main(["compile", str(form), *flags]) == 0
    return calls[-1][3]


@pytest.mark.parametrize("option", dataclasses.fields(Options), ids=lambda option: option.name)
def test_each_compiler_option_has_a_flag_that_sets_it(option, form, calls):
    values = option.metadata["choices"] or (7,)
    for value in values:
        options = options_of(calls, form, f"--{option.name.replace('_', '-')}", str(value))
        assert options == dataclasses.replace(Options(), **{option.name: value})


@pytest.mark.parametrize("command", ["compile", "run", "report"])
def test_help_tells_of_each_option_its_meaning_choices_and_default(command, capsys):
    assert cli.main([command, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for option in dataclasses.fields(Options):
        assert f"{option.metadata['help']} (default: {'none' if option.default is None else option.default})" in text
        assert all(str(choice) in text for choice in option.metadata["choices"])


def test_flags_follow_the_declaration_of_their_option(monkeypatch):
    """Types that no option has today."""

    @dataclasses.dataclass(frozen=True)
    class More:
        tune: bool = dataclasses.field(default=False, metadata={"help": "100 % more", "choices": (), "minimum": None})
        limit: float = dataclasses.field(default=0.5, metadata={"help": "upper", "choices": (), "minimum": None})
        lanes: int | None = dataclasses.field(default=None, metadata={"help": "W", "choices": (2, 4), "minimum": None})

    monkeypatch.setattr(cli, "Options", More)
    monkeypatch.setattr(cli, "make_options", lambda **values: values)
    parser = cli.make_parser()
    assert "100 % more" in parser._subparsers._group_actions[0].choices["run"].format_help()
    settings = parser.parse_args(["run", "x.py", "--tune", "--limit", "0.25", "--lanes", "4"])
    assert cli.to_options(settings) == {"tune": True, "limit": 0.25, "lanes": 4}
    assert cli.to_options(parser.parse_args(["run", "x.py", "--no-tune"])) == {"tune": False}


# --- usage


def test_each_command_has_help_with_an_example(capsys):
    for command in COMMANDS:
        assert cli.main([command, "--help"]) == 0
        assert f"example:\n  formcompiler {command}" in capsys.readouterr().out


def test_the_help_lists_all_commands(capsys):
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n    {command} " in text for command in COMMANDS)


@pytest.mark.parametrize("command", [name for name, *_ in cli._COMMANDS])
def test_the_examples_in_the_help_are_valid_commands(command):
    example = next(example for name, _, example, _ in cli._COMMANDS if name == command)
    assert cli.make_parser().parse_args(example.split()[1:]).command == command


def test_version_is_told(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"formcompiler {formcompiler.__version__}\n"


def test_no_command_shows_the_help(capsys):
    assert cli.main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("usage: formcompiler")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["complie", "x.py"], "invalid choice: 'complie'"),
        (["compile"], "the following arguments are required: FILE"),
        (["compile", "x.py", "--scalar-type", "int"], "invalid choice: 'int' (choose from 'float32'"),
        (["compile", "x.py", "--scalar", "float32"], "unrecognized arguments: --scalar float32"),
        (["run", "x.py", "--refine", "-1"], "--refine: '-1' is not a number such as 0, 1, 2"),
        (["run", "x.py", "--refine", "two"], "--refine: 'two' is not a number such as 0, 1, 2"),
    ],
)
def test_usage_errors_have_status_2_and_name_the_mistake(words, message, capsys):
    assert cli.main(words) == 2
    assert message in capsys.readouterr().err


# --- when it goes wrong


@pytest.mark.parametrize(
    "kind", ["UnsupportedFormError", "InvalidOptionError", "TransformError", "VectorizationError", "BuildError"]
)
def test_errors_the_user_can_mend_are_one_message_with_status_2(kind, fail, capsys):
    assert fail(getattr(errors, kind)("the form f has no measure; multiply by dx")) == 2
    captured = capsys.readouterr()
    assert captured.err == "formcompiler: error: the form f has no measure; multiply by dx\n"
    assert captured.out == ""


def test_an_arity_mismatch_is_the_users_to_mend(fail, capsys):
    from ufl.algorithms.check_arities import ArityMismatch

    assert fail(ArityMismatch("Adding v and 1")) == 2
    assert capsys.readouterr().err.startswith("formcompiler: error: Adding v and 1: each term")


def test_a_wrong_option_is_reported_before_the_file_is_loaded(calls, tmp_path, capsys):
    assert cli.main(["compile", str(tmp_path / "absent.py"), "--max-quadrature-degree", "-1"]) == 2
    assert "max_quadrature_degree=-1: give an integer of at least 0" in capsys.readouterr().err


def test_a_mistake_in_the_form_file_shows_the_line_and_no_traceback(calls, tmp_path, capsys):
    path = tmp_path / "bad.py"
    path.write_text("x = 1\ny = x / 0\n")
    assert cli.main(["compile", str(path)]) == 2
    expected = f"formcompiler: error: {path}:2: ZeroDivisionError: division by zero\n    y = x / 0\n"
    assert capsys.readouterr().err == expected
    assert calls == []


def test_files_that_cannot_be_written_are_the_users_to_mend(fail, capsys):
    assert fail(PermissionError(13, "Permission denied", "/x.hh")) == 2
    assert capsys.readouterr().err == "formcompiler: error: Permission denied: /x.hh\n"


@pytest.mark.parametrize("kind", [KeyError, errors.InternalCompilerError])
def test_bugs_are_called_so_and_tell_how_to_report_them(kind, fail, capsys):
    assert fail(kind("lost an iname")) == 70
    text = capsys.readouterr().err
    assert text.startswith(f"formcompiler: this is a bug of formcompiler, not of your form: {kind.__name__}: ")
    assert "in cli.py, line " in text
    assert "report it with the form file" in text
    assert "Traceback" not in text


@pytest.mark.parametrize("before", [True, False])
def test_traceback_is_shown_on_request_with_the_same_status(before, calls, tmp_path, capsys):
    words = ["compile", str(tmp_path / "absent.py")]
    assert cli.main(["--traceback", *words] if before else [*words, "--traceback"]) == 2
    text = capsys.readouterr().err
    assert text.startswith("Traceback (most recent call last)")
    assert text.endswith("absent.py: no such file\n")


def test_interruption_has_status_130(fail, capsys):
    assert fail(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == "formcompiler: interrupted\n"


def run_process(*words, **keywords):
    return subprocess.run(
        [sys.executable, "-m", "formcompiler", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        **keywords,
    )


def test_control_c_in_the_form_file_ends_without_a_traceback(tmp_path):
    path = tmp_path / "slow.py"
    path.write_text(f"import time\nopen({str(tmp_path / 'started')!r}, 'w').close()\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "formcompiler", "compile", str(path)], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 30
    while not (tmp_path / "started").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, text = process.communicate(timeout=30)
    assert (process.returncode, text) == (130, "formcompiler: interrupted\n")


def test_a_closed_pipe_is_no_error(tmp_path, form):
    code = (
        "import sys, types, formcompiler\n"
        "formcompiler.driver = sys.modules['formcompiler.driver'] = types.ModuleType('formcompiler.driver')\n"
        "formcompiler.driver.report_file = lambda *arguments: 'x' * 1000000\n"
        "from formcompiler.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    reading, writing = os.pipe()
    os.close(reading)
    try:
        process = subprocess.run(
            [sys.executable, "-c", code, "report", str(form)], stdout=writing, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writing)
    assert (process.returncode, process.stderr) == (0, b"")


# --- messages


@pytest.mark.parametrize(
    ("flags", "expected"),
    [([], ["warning: c"]), (["-v"], ["b", "warning: c"]), (["-vv"], ["a", "b", "warning: c"])],
)
@pytest.mark.usefixtures("calls")
def test_verbosity_chooses_the_level_of_messages(flags, expected, form, monkeypatch, capsys):
    def compile_file(form_file, output_dir, options):
        logger = logging.getLogger("formcompiler.sumfact")
        logger.debug("%s", "a")
        logger.info("b")
        logger.warning("c")
        return []

    monkeypatch.setattr(sys.modules["formcompiler.driver"], "compile_file", compile_file)
    assert cli.main([*flags, "compile", str(form)]) == 0
    assert capsys.readouterr().err.splitlines() == expected


@pytest.mark.filterwarnings("always")
@pytest.mark.usefixtures("calls")
def test_warnings_of_libraries_come_without_their_place(form, monkeypatch, capsys):
    def compile_file(form_file, output_dir, options):
        warnings.warn("the degree is high", UserWarning, stacklevel=1)
        return []

    monkeypatch.setattr(sys.modules["formcompiler.driver"], "compile_file", compile_file)
    before = warnings.showwarning
    assert cli.main(["compile", str(form)]) == 0
    assert capsys.readouterr().err == "warning: the degree is high\n"
    assert warnings.showwarning is before


def test_time_passes_prints_a_table_of_stages(form, calls, capsys):
    assert cli.main(["compile", str(form), "--time-passes"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["load form file", "load compiler", "compile"]


def test_time_passes_tells_as_well_when_a_stage_fails(fail, capsys):
    assert fail(errors.BuildError("no"), "--time-passes") == 2
    assert [line.split("  ")[0] for line in capsys.readouterr().err.splitlines()][1:] == [
        "load form file",
        "load compiler",
        "compile",
    ]


# --- starting


HEAVY = ("numpy", "scipy", "ufl", "basix", "loopy", "islpy", "pymbolic", "meshio", "matplotlib")


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["compile", "--help"], ["doctor"], ["compile", "absent.py"]], ids=" ".join
)
def test_commands_import_no_library_that_they_do_not_need(words, tmp_path):
    code = (
        f"import sys, formcompiler.cli as cli; cli.main({words!r});"
        f"print('loaded', sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    environment = {**os.environ, "FORMCOMPILER_CACHE": str(tmp_path)}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert said.stdout.splitlines()[-1] == "loaded []"


def test_python_m_formcompiler_is_the_same_command():
    said = run_process("--version")
    assert (said.returncode, said.stdout) == (0, f"formcompiler {formcompiler.__version__}\n")


def test_names_that_the_terminal_cannot_show_do_not_break_the_output(tmp_path):
    code = (
        "import sys, types, formcompiler\n"
        "formcompiler.driver = sys.modules['formcompiler.driver'] = types.ModuleType('formcompiler.driver')\n"
        "formcompiler.driver.report_file = lambda *arguments: 'κ'\n"
        "from formcompiler.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    (tmp_path / "e.py").write_text("import basix.ufl\nelement = basix.ufl.element('P', 'triangle', 1)\n")
    said = subprocess.run(
        [sys.executable, "-c", code, "report", str(tmp_path / "e.py")],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (said.returncode, said.stdout, said.stderr) == (0, b"\\u03ba\n", b"")
