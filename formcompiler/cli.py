"""The command ``formcompiler``: compile, run and report on form files, analyse loops, and look at the machine.

The exit status is one of those of `formcompiler.exit_status`.

Each command imports what it needs when it runs, so that help comes at once.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import os
import sys
import traceback
import typing
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import formcompiler
from formcompiler.errors import InvalidOptionError, UnsupportedFormError
from formcompiler.exit_status import INCOMPLETE, SUCCESS, USER_ERROR, explain
from formcompiler.options import Options, make_options

_DESCRIPTION = "Compiles weak forms, written in UFL, into fast C++ local operators."
_EPILOG = """\
begin with:
  formcompiler doctor                 is everything here that is needed?
  formcompiler run poisson.py         solve the problem that poisson.py defines
  formcompiler compile poisson.py     write poisson.hh, for a C++ program of yours

'formcompiler COMMAND --help' tells about one command.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Args:
        arguments: The words after the program's name; those of the process if None.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    parser = make_parser()
    try:
        settings = parser.parse_args(arguments)
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else USER_ERROR
    if settings.command is None:
        parser.print_help(sys.stderr)
        return USER_ERROR
    return _guard(settings)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    common = _make_common()
    parser = argparse.ArgumentParser(
        "formcompiler",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        parents=[common],
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"formcompiler {formcompiler.__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for name, help, example, add in _COMMANDS:
        command = commands.add_parser(
            name,
            help=help,
            description=help[0].upper() + help[1:] + ".",
            epilog=f"example:\n  {example}\n",
            parents=[common],
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add(command)
    return parser


def _make_common() -> argparse.ArgumentParser:
    """Return a parser of the flags that stand before or after the command."""
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    group = common.add_argument_group("messages")
    group.add_argument("-v", "--verbose", action="count", help="one line per integral; twice: every step")
    group.add_argument("--time-passes", action="store_true", help="tell at the end how long each stage took")
    group.add_argument("--traceback", action="store_true", help="show where in formcompiler an error was raised")
    return common


def _add_compile(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``compile``."""
    _add_file(parser)
    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, default=Path(), help="where to write headers (default: here)"
    )
    _add_verify(parser)
    _add_options(parser)
    parser.set_defaults(action=_compile)


def _add_run(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``run``."""
    _add_file(parser)
    parser.add_argument(
        "--refine",
        metavar="N",
        type=_count,
        default=0,
        help="solve again on N finer meshes and print errors and orders of convergence (default: 0)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        default=Path("results"),
        help="where to write solutions and pictures (default: results)",
    )
    _add_verify(parser)
    _add_options(parser)
    parser.set_defaults(action=_run)


def _add_report(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``report``."""
    _add_file(parser)
    parser.add_argument(
        "--dump",
        metavar="STAGE",
        nargs="?",
        const="all",
        help="show the kernels after this stage of the compiler, or after every stage; write it behind FILE",
    )
    _add_verify(parser)
    _add_options(parser)
    parser.set_defaults(action=_report)


def _add_loops(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``loops``."""
    add = parser.add_argument
    add("file", metavar="KERNEL_FILE", type=Path, help="Python file that defines 'kernel', a loopy kernel, or several")
    add("--json", action="store_true", help="print a JSON list with one entry per kernel")
    add("--picture", metavar="FILE.png", type=Path, help="draw iterations and dependences of a nest of two loops")
    help = "value of a parameter of the kernel, for the picture; can be repeated"
    add("--set", metavar="NAME=N", action="append", default=[], dest="parameters", help=help)
    parser.set_defaults(action=_loops)


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``doctor``."""
    parser.set_defaults(action=_doctor)


_COMMANDS = (
    (
        "compile",
        "write one C++ header for the forms in FILE",
        "formcompiler compile poisson.py -o build --scalar-type float32",
        _add_compile,
    ),
    (
        "run",
        "solve the problem that FILE defines, and write the solution, a picture and an error table",
        "formcompiler run poisson.py --refine 3 --output results",
        _add_run,
    ),
    (
        "report",
        "tell for each integral of FILE how it is computed: quadrature, strategy, operations",
        "formcompiler report poisson.py --dump licm",
        _add_report,
    ),
    (
        "loops",
        "tell what stands in the way of running the loops of a loopy kernel in another order, or in parallel",
        "formcompiler loops nest.py --picture nest.png",
        _add_loops,
    ),
    (
        "doctor",
        "tell what formcompiler needs, what it found on this machine, and try the C++ compiler",
        "formcompiler doctor",
        _add_doctor,
    ),
)


def _add_file(parser: argparse.ArgumentParser) -> None:
    """Add the form file, and what it may contain to the help."""
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="Python file (.py or .ufl) with UFL forms: a list 'forms', or variables a, L, M, F, J",
    )


def _add_verify(parser: argparse.ArgumentParser) -> None:
    """Add the flag for a check of the kernels."""
    parser.add_argument(
        "--verify",
        action="store_true",
        help="compare each kernel with dense assembly of its form on random cells and values first; fail if they "
        "differ by more than rounding explains",
    )


def _verify(settings: argparse.Namespace, form_file: Any, options: Options) -> None:
    """Print how far each kernel is from dense assembly, if that is wanted."""
    from formcompiler.progress import stage

    if settings.verify:
        from formcompiler import driver

        with stage("verify"):
            for line in driver.verify_file(form_file, options):
                print(line)


def _count(text: str) -> int:
    """Return a number that is not negative; argparse names this function's argument in its message."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not a number such as 0, 1, 2")
    return int(text)


# --- the compiler's options as flags


def _add_options(parser: argparse.ArgumentParser) -> None:
    """Add one flag for each option of the compiler; flags that are not given leave nothing in the result."""
    group = parser.add_argument_group("compiler options")
    types = typing.get_type_hints(Options)
    for option in dataclasses.fields(Options):
        choices = option.metadata["choices"] or None
        default = "none" if option.default is None else str(option.default)
        help = f"{option.metadata['help']} (default: {default})".replace("%", "%%")
        keywords: dict[str, Any] = {"help": help}
        if types[option.name] is bool:
            keywords["action"] = argparse.BooleanOptionalAction
        else:
            keywords |= {"choices": choices, "type": _scalar_type(types[option.name])}
            keywords["metavar"] = None if choices else _scalar_type(types[option.name]).__name__.upper()
        group.add_argument(f"--{option.name.replace('_', '-')}", default=argparse.SUPPRESS, **keywords)


def _scalar_type(annotation: Any) -> type:
    """Return the type whose call converts a word of the command line: T for T and for T | None."""
    members = [member for member in typing.get_args(annotation) if member is not type(None)]
    found = members[0] if members else annotation
    return found if isinstance(found, type) else str


def to_options(settings: argparse.Namespace) -> Options:
    """Return the compiler's options from the parsed flags.

    Raises:
        InvalidOptionError: if a value is not allowed.
    """
    given = vars(settings)
    return make_options(**{f.name: given[f.name] for f in dataclasses.fields(Options) if f.name in given})


# --- the commands; the driver takes a second to import, so that all that can fail sooner comes first


def _compile(settings: argparse.Namespace) -> int:
    """Write headers and print their paths."""
    from formcompiler.progress import stage

    form_file, options = _load(settings)
    _make_directory(settings.output)
    with stage("load compiler"):
        from formcompiler import driver
    _verify(settings, form_file, options)
    with stage("compile"):
        paths = driver.compile_file(form_file, settings.output, options)
    for path in paths:
        print(f"wrote {path}")
    return SUCCESS


def _run(settings: argparse.Namespace) -> int:
    """Solve the problem of the file."""
    from formcompiler.progress import stage

    form_file, options = _load(settings)
    if form_file.problem is None:
        raise UnsupportedFormError(
            f"{form_file.path}: has no problem to solve; add one: problem = formcompiler.problem.Problem(F, u), where "
            "the residual F is linear in a test function, and the unknown u is a coefficient in F"
        )
    _make_directory(settings.output)
    with stage("load compiler"):
        from formcompiler import driver
    _verify(settings, form_file, options)
    with stage("run"):
        driver.run_file(form_file, settings.refine, settings.output, options)
    return SUCCESS


def _report(settings: argparse.Namespace) -> int:
    """Print what the driver has to tell about the kernels."""
    from formcompiler.progress import stage

    form_file, options = _load(settings)
    with stage("load compiler"):
        from formcompiler import driver
    _verify(settings, form_file, options)
    with stage("report"):
        text = driver.report_file(form_file, options, settings.dump)
    print(text)
    return SUCCESS


def _loops(settings: argparse.Namespace) -> int:
    """Print what the loop analysis finds about the kernels of the file, and draw one."""
    from formcompiler.progress import stage

    with stage("load loop analysis"):
        from formcompiler.loops.command import examine_file
    with stage("analyse"):
        findings = examine_file(settings.file, settings.json, settings.picture, settings.parameters)
    if findings.text:
        print(findings.text, flush=True)
    if findings.error is not None:
        raise findings.error
    return SUCCESS


def _load(settings: argparse.Namespace) -> tuple[Any, Options]:
    """Return the form file and the compiler's options; the options first, since they fail sooner."""
    from formcompiler.formfile import load_form_file
    from formcompiler.progress import stage

    options = to_options(settings)
    with stage("load form file"):
        return load_form_file(settings.file), options


def _make_directory(path: Path) -> None:
    """Create the directory for results, before the work whose results would be lost.

    Raises:
        InvalidOptionError: if there can be none.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidOptionError(f"--output {path}: cannot be created: {error.strerror or error}") from error
    if not os.access(path, os.W_OK):
        raise InvalidOptionError(f"--output {path}: you have no right to write there")


def _doctor(settings: argparse.Namespace) -> int:
    """Print what was found on this machine."""
    from formcompiler.doctor import examine, to_table

    findings = examine()
    print(to_table(findings))
    return SUCCESS if all(finding.is_fine for finding in findings) else INCOMPLETE


# --- when it goes wrong


def _guard(settings: argparse.Namespace) -> int:
    """Run the chosen command; turn whatever it raises into a message and an exit status."""
    from formcompiler.progress import configure_logging, record_stages

    configure_logging(getattr(settings, "verbose", 0))
    try:
        with record_stages() as times, warnings.catch_warnings():
            warnings.showwarning = _show_warning
            status: int = settings.action(settings)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SUCCESS
    except BaseException as error:
        if isinstance(error, SystemExit | GeneratorExit):
            raise
        if hasattr(settings, "traceback"):
            traceback.print_exc()
        status, message = explain(error)
        print(f"formcompiler: {message}", file=sys.stderr)
    if hasattr(settings, "time_passes"):
        print(times.table(), file=sys.stderr)
    return status


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning without the place in the library that gave it."""
    print(f"warning: {message}", file=sys.stderr)
