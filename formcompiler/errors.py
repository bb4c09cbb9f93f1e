"""Everything formcompiler raises on purpose.

A message says what is wrong, where in the user's own form, why, and what to write instead.
"""


class FormCompilerError(Exception):
    """Base of all errors that formcompiler raises on purpose."""


class UnsupportedFormError(FormCompilerError):
    """The form (or expression, or form file) is outside the language; the user can mend it."""


class InvalidOptionError(FormCompilerError):
    """An option has an unknown name or a value that is not allowed."""


class TransformError(FormCompilerError):
    """A requested kernel transformation cannot be applied; the message names the instruction."""


class VectorizationError(TransformError):
    """A requested vectorization strategy cannot be applied."""


class BuildError(FormCompilerError):
    """The C++ compiler is missing or rejected generated code."""


class VerificationError(FormCompilerError):
    """A kernel differs from dense assembly by more than rounding explains."""


class InternalCompilerError(FormCompilerError):
    """A broken invariant of formcompiler itself: a bug that should be reported."""
