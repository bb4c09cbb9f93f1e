"""From exceptions to the exit status of the command and a message for the user.

Exit status: 0 for success, 1 if `doctor` finds something missing, 2 for what the user can mend (a form, an option, a
missing C++ compiler, a file that cannot be written), 70 for bugs of formcompiler, 130 after an interruption.
"""

from __future__ import annotations

import traceback
from pathlib import Path

import formcompiler
from formcompiler.errors import FormCompilerError, InternalCompilerError

SUCCESS, INCOMPLETE, USER_ERROR, BUG, INTERRUPTED = 0, 1, 2, 70, 130


def explain(error: BaseException) -> tuple[int, str]:
    """Return the exit status for an exception, and what to tell the user about it."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "interrupted"
    # UFL's ArityMismatch derives from BaseException; it is known by name, because UFL may not have been imported.
    if type(error).__name__ == "ArityMismatch":
        return USER_ERROR, f"error: {error}: each term of a form must contain each argument exactly once"
    if isinstance(error, FormCompilerError) and not isinstance(error, InternalCompilerError):
        return USER_ERROR, f"error: {error}"
    if isinstance(error, OSError) and error.strerror:
        return USER_ERROR, f"error: {error.strerror}" + (f": {error.filename}" if error.filename else "")
    if isinstance(error, MemoryError):
        return USER_ERROR, "error: out of memory"
    return BUG, (
        f"this is a bug of formcompiler, not of your form: {type(error).__name__}: {error}{_place_of(error)}. "
        "Please report it with the form file, the command, the output of 'formcompiler doctor' and that of "
        "the same command with --traceback."
    )


def _place_of(error: BaseException) -> str:
    """Return the innermost place inside formcompiler that an exception went through."""
    package = Path(formcompiler.__file__).parent
    frames = [f for f in traceback.extract_tb(error.__traceback__) if package in Path(f.filename).parents]
    return f" in {Path(frames[-1].filename).relative_to(package)}, line {frames[-1].lineno}" if frames else ""
