"""What the command ``formcompiler loops`` does."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from formcompiler.errors import InvalidOptionError, TransformError
from formcompiler.loops.dependence import analyse
from formcompiler.loops.kernelfile import load_kernels
from formcompiler.loops.picture import draw_nest
from formcompiler.loops.report import describe_kernel, format_report


def examine_file(path: Path, as_json: bool = False, picture: Path | None = None, parameters: Sequence[str] = ()) -> str:
    """Return what is found about the kernels of a kernel file, as text or as a JSON list.

    Args:
        path: The kernel file.
        as_json: Whether to return JSON.
        picture: Where to draw the first nest of two loops, if anywhere.
        parameters: Values of the kernel's parameters for the picture, as ``NAME=N``.

    Raises:
        InvalidOptionError: if the picture cannot be written, or a parameter is not understood.
        TransformError: if the file has no kernel, or one cannot be analysed or drawn.
    """
    values = dict(map(_to_value, parameters))
    if picture is not None and not os.access(picture.absolute().parent, os.W_OK):
        raise InvalidOptionError(f"--picture {picture}: no directory that you can write to")
    kernels = load_kernels(path)
    reports = [describe_kernel(kernel) for kernel in kernels.values()]
    if picture is not None:
        nests = [nest for kernel in kernels.values() for nest in analyse(kernel)]
        if not nests:
            raise TransformError(f"{path}: has no loops to draw")
        draw_nest(next((nest for nest in nests if len(nest.nest.band) == 2), nests[0]), picture, values)
    return json.dumps(reports, indent=2) if as_json else "\n\n".join(map(format_report, reports))


def _to_value(text: str) -> tuple[str, int]:
    """Return name and value of a parameter."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or not value.removeprefix("-").isdecimal():
        raise InvalidOptionError(f"--set {text}: give a name a number, such as n=8")
    return name, int(value)
