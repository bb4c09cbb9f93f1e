"""What the command ``formcompiler loops`` does."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formcompiler.errors import InvalidOptionError, TransformError
from formcompiler.loops.dependence import NestDependences, analyse
from formcompiler.loops.kernelfile import load_kernels
from formcompiler.loops.picture import draw_nest
from formcompiler.loops.report import describe_kernel, format_report


@dataclass(frozen=True)
class Findings:
    """What is found about the kernels of a file.

    Attributes:
        text: The reports of those that can be analysed, as text or as a JSON list; there, the others have an entry that
            says why not.
        error: Why others cannot be analysed or drawn, a line for each; None if there are none.
    """

    text: str
    error: TransformError | None


def examine_file(
    path: Path, as_json: bool = False, picture: Path | None = None, parameters: Sequence[str] = ()
) -> Findings:
    """Return what is found about the kernels of a kernel file, and draw one.

    Args:
        path: The kernel file.
        as_json: Whether to return JSON.
        picture: Where to draw the first nest of two loops, if anywhere.
        parameters: Values of the kernel's parameters for the picture, as ``NAME=N``.

    Raises:
        InvalidOptionError: if the picture cannot be written, or a parameter is not understood.
        TransformError: if the file has no kernel.
    """
    values = dict(map(_to_value, parameters))
    if picture is not None and not os.access(picture.absolute().parent, os.W_OK):
        raise InvalidOptionError(f"--picture {picture}: no directory that you can write to")
    kernels = load_kernels(path)
    reports: dict[str, dict[str, Any]] = {}
    errors: dict[str, str] = {}
    for name, kernel in kernels.items():
        try:
            reports[name] = describe_kernel(kernel)
        except TransformError as error:
            errors[name] = f"{path}: {name}: {error}"
    messages = list(errors.values())
    if picture is not None and reports:
        try:
            _draw([nest for name in reports for nest in analyse(kernels[name])], path, picture, values)
        except TransformError as error:
            messages.append(str(error))
    if as_json:
        entries = [reports.get(name) or {"kernel": name, "error": errors[name]} for name in kernels]
        text = json.dumps(entries, indent=2)
    else:
        text = "\n\n".join(map(format_report, reports.values()))
    return Findings(text, TransformError("\n".join(messages)) if messages else None)


def _draw(nests: Sequence[NestDependences], path: Path, picture: Path, parameters: dict[str, int]) -> None:
    """Draw the first nest of two loops."""
    if not nests:
        raise TransformError(f"{path}: has no loops to draw")
    draw_nest(next((nest for nest in nests if len(nest.nest.band) == 2), nests[0]), picture, parameters)


def _to_value(text: str) -> tuple[str, int]:
    """Return name and value of a parameter."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or not value.removeprefix("-").isdecimal():
        raise InvalidOptionError(f"--set {text}: give a name a number, such as n=8")
    return name, int(value)
