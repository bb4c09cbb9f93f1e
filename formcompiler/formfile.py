"""Loads form files: Python files whose variables are UFL forms, expressions, elements or a problem to solve.

The conventions are those of FFCx: a list ``forms``, or else the forms among the variables a, L and M, and F and J
unless both a and L are there; a list ``expressions`` of pairs (expression, points); a list ``elements``. On top, at
most one variable may be a `formcompiler.problem.Problem`.

UFL is never imported here: an object can only be of a class whose module the form file has imported (`is_a`).
"""

from __future__ import annotations

import difflib
import reprlib
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NamedTuple

from formcompiler.errors import FormCompilerError, UnsupportedFormError
from formcompiler.naming import to_identifier

SUFFIXES = (".py", ".ufl")
_FORM = ("ufl.form.Form", "ufl.form.ZeroBaseForm")
_EXPRESSION = "ufl.core.expr.Expr"
_ELEMENT = "ufl.finiteelement.AbstractFiniteElement"
_PROBLEM = "formcompiler.problem.Problem"
_NAMED = (*_FORM, _EXPRESSION, _ELEMENT, "ufl.domain.AbstractDomain", "ufl.functionspace.AbstractFunctionSpace")
_BY_COEFFICIENTS = (
    "derivative() is by a Coefficient, and diff() by a variable: for a Constant c write k = variable(c), use k in the "
    "form and diff(..., k), or take a Coefficient from FunctionSpace(mesh, basix.ufl.real_element(cell)) instead of c"
)
_UFL_REMEDIES = {
    "Can only create arguments automatically": _BY_COEFFICIENTS,
    "Invalid coefficient type": _BY_COEFFICIENTS,
    "Expecting an indexed coefficient": _BY_COEFFICIENTS,
    "Expecting a Variable or SpatialCoordinate": _BY_COEFFICIENTS,
    "missing an integration domain": "nothing in the integrand tells the mesh: write dx(domain=mesh)",
    "Multiple domains found": "the integrand lives on several meshes: define all functions on one Mesh",
    "Can only integrate scalar": "integrands are scalar: take inner(..., v), or a component such as f[0]",
    "Invalid subdomain_id": "subdomains are integers: dx(1) or dx((1, 2))",
}
"""What to write instead of what UFL refuses while a form is built, by words of its message."""
_OLD_ELEMENTS = ("FiniteElement", "VectorElement", "TensorElement", "MixedElement", "EnrichedElement")


class NamedForm(NamedTuple):
    """A form and what the form file calls it (or ``form_`` and its position in the list)."""

    name: str
    form: Any


class NamedExpression(NamedTuple):
    """An expression, what the form file calls it, and where to evaluate it.

    Attributes:
        name: The name of its variable, or ``expression_`` and its position in the list.
        expression: The UFL expression.
        points: Array of points in reference coordinates; axes (point, direction).
    """

    name: str
    expression: Any
    points: Any


@dataclass(frozen=True, eq=False)
class FormFile:
    """What a form file asks to compile.

    Attributes:
        path: The file.
        forms: The forms, in the order of the list, or a, L, M, F, J.
        expressions: The expressions with their points.
        elements: The elements; a variable ``element`` counts if the file has nothing else to compile.
        problem: The `formcompiler.problem.Problem` of the file, if there is one.
        names: For the ``id`` of each UFL object, the first variable that held it; "u_0" for the first entry of a
            list u. As the user wrote it: not necessarily a C++ identifier.
        operator_name: What to call the whole: the file's name without its suffix.
        namespace: All variables of the file; it keeps the objects alive whose ids are in `names`.
    """

    path: Path
    forms: tuple[NamedForm, ...]
    expressions: tuple[NamedExpression, ...]
    elements: tuple[Any, ...]
    problem: Any | None
    names: Mapping[int, str]
    operator_name: str
    namespace: Mapping[str, Any] = field(repr=False)


def load_form_file(path: Path | str) -> FormFile:
    """Run a form file and return what it asks to compile.

    Args:
        path: A file that ends in .py or .ufl. Modules beside it can be imported while it runs; they do not stay.

    Raises:
        UnsupportedFormError: if the file is missing, is no Python, fails, or has nothing to compile; the message has
            the file, the line and its text. An error of formcompiler inside the file keeps its class.
    """
    path = Path(path)
    namespace = _run(path, _read(path))
    names = _find_names(namespace)
    forms = _find_forms(path, namespace, names)
    expressions = _find_expressions(path, namespace, names)
    problem = _find_problem(path, namespace)
    is_empty = not forms and not expressions and problem is None
    elements = _find_elements(path, namespace, is_empty)
    if is_empty and not elements:
        raise UnsupportedFormError(_explain_nothing_found(path, namespace))
    return FormFile(path, forms, expressions, elements, problem, names, path.stem, namespace)


def is_a(value: object, *classes: str) -> bool:
    """Return whether ``value`` is an instance of one of ``classes``, given as "package.module.Class"."""
    return any(f"{base.__module__}.{base.__qualname__}" in classes for base in type(value).__mro__)


# --- running the file


def _read(path: Path) -> bytes:
    """Return the bytes of the file, after checks that spare the user an obscure error later."""
    if path.suffix not in SUFFIXES:
        raise UnsupportedFormError(f"{path}: a form file ends in {' or '.join(SUFFIXES)}")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        beside = [entry.name for suffix in SUFFIXES for entry in path.parent.glob(f"*{suffix}")]
        near = difflib.get_close_matches(path.name, beside, n=1)
        hint = f"; did you mean {path.parent / near[0]}?" if near else ""
        raise UnsupportedFormError(f"{path}: no such file{hint}") from None
    except OSError as error:
        raise UnsupportedFormError(f"{path}: cannot be read: {error.strerror or error}") from error


def _run(path: Path, source: bytes) -> dict[str, Any]:
    """Return the variables of the file after running it."""
    name = f"_form_file_{to_identifier(path.stem)}"
    module = ModuleType(name)
    module.__file__ = str(path)
    try:
        code = compile(source, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise UnsupportedFormError(_explain_syntax(path, error)) from error
    with _importable(path.resolve().parent, module):
        try:
            exec(code, module.__dict__)
        except KeyboardInterrupt:
            raise
        except FormCompilerError as error:
            raise type(error)(_explain_failure(path, source, error, str(error))) from error
        except BaseException as error:  # UFL's ArityMismatch derives from BaseException, SystemExit as well
            text = "".join(traceback.format_exception_only(error)).strip()
            raise UnsupportedFormError(_explain_failure(path, source, error, text)) from error
    return {key: value for key, value in vars(module).items() if not key.startswith("__")}


@contextmanager
def _importable(directory: Path, module: ModuleType) -> Iterator[None]:
    """Let the modules of ``directory`` be imported, and restore ``sys.path`` and ``sys.modules`` afterwards.

    Modules from elsewhere stay loaded: importing numpy a second time would break it.
    """
    search_path, before = list(sys.path), set(sys.modules)
    is_ours = str(directory) not in search_path
    sys.modules[module.__name__] = module
    sys.path.insert(0, str(directory))
    try:
        yield
    finally:
        sys.path[:] = search_path
        sys.modules.pop(module.__name__, None)
        tops = {name.partition(".")[0] for name in set(sys.modules) - before}
        local = {name for name in tops - before if is_ours and _lies_in(directory, sys.modules.get(name))}
        for name in [name for name in sys.modules if name.partition(".")[0] in local]:
            del sys.modules[name]


def _lies_in(directory: Path, module: ModuleType | None) -> bool:
    """Return whether a top-level module is a file or a package directly in ``directory``."""
    places = [Path(place) for place in getattr(module, "__path__", [])]
    file = getattr(module, "__file__", None)
    if not places and file is not None:
        places = [Path(file)]
    return any(place.resolve().parent == directory for place in places)


def _explain_syntax(path: Path, error: SyntaxError | ValueError) -> str:
    """Return what is wrong with the text of a file that Python cannot parse."""
    if not isinstance(error, SyntaxError) or error.lineno is None:
        return f"{path}: not valid Python: {error}"
    line = (error.text or "").rstrip("\n")
    caret = f"\n    {' ' * (error.offset - 1)}^" if line and error.offset else ""
    return f"{path}:{error.lineno}: not valid Python: {error.msg}\n    {line}{caret}"


def _explain_failure(path: Path, source: bytes, error: BaseException, text: str) -> str:
    """Return where in the user's own file an exception arose, the line, and what it says."""
    number = _last_line_in(str(path), error.__traceback__)
    lines = source.decode(errors="replace").splitlines()
    if number is None:
        return f"{path}: {text}"
    shown = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    return f"{path}:{number}: {text}{_hint(error)}\n    {shown}"


def _last_line_in(filename: str, frames: TracebackType | None) -> int | None:
    """Return the line of the innermost frame that runs code of ``filename``."""
    numbers = [frame.lineno for frame in traceback.extract_tb(frames) if frame.filename == filename]
    return numbers[-1] if numbers else None


def _hint(error: BaseException) -> str:
    """Return what to write instead of a name that does not exist, if that is known."""
    name = getattr(error, "name_from", None) or getattr(error, "name", None)
    text = str(error)
    if any(f"'{old}'" in text for old in _OLD_ELEMENTS):
        return "; elements come from basix now: write basix.ufl.element('P', 'triangle', 1)"
    if isinstance(error, NameError) and "ufl" in sys.modules and hasattr(sys.modules["ufl"], name or ""):
        return f"; import it: from ufl import {name}"
    if isinstance(error, NameError) and "ufl" not in sys.modules:
        return "; form files import what they use: from ufl import ..."
    if isinstance(error, TypeError) and "for *: 'Measure'" in text:
        return "; write the integrand before the measure: f*dx"
    return next((f"; {remedy}" for phrase, remedy in _UFL_REMEDIES.items() if phrase in text), "")


# --- looking through its variables


def _find_names(namespace: Mapping[str, Any]) -> dict[int, str]:
    """Return the name of each UFL object by its id: its first variable, else its place in a list."""
    names: dict[int, str] = {}
    for name, value in namespace.items():
        if is_a(value, *_NAMED):
            names.setdefault(id(value), name)
    for name, value in namespace.items():
        if isinstance(value, list | tuple):
            for position, entry in enumerate(value):
                if is_a(entry, *_NAMED) and name not in {"forms", "elements"}:
                    names.setdefault(id(entry), f"{name}_{position}")
    return names


def _find_forms(path: Path, namespace: Mapping[str, Any], names: Mapping[int, str]) -> tuple[NamedForm, ...]:
    """Return the forms of the list ``forms``, or those with customary names."""
    if "forms" not in namespace:
        found = {name: namespace[name] for name in "aLMFJ" if is_a(namespace.get(name), *_FORM)}
        if "a" in found and "L" in found:
            found = {name: form for name, form in found.items() if name not in "FJ"}
        return tuple(NamedForm(name, form) for name, form in found.items())
    entries = _checked_list(path, namespace, "forms")
    for position, entry in enumerate(entries):
        if not is_a(entry, *_FORM):
            raise UnsupportedFormError(f"{path}: forms[{position}] is {_describe(entry)}, not a form{_remedy(entry)}")
    return tuple(NamedForm(names.get(id(form), f"form_{i}"), form) for i, form in enumerate(entries))


def _find_expressions(
    path: Path, namespace: Mapping[str, Any], names: Mapping[int, str]
) -> tuple[NamedExpression, ...]:
    """Return the entries of the list ``expressions`` with their points as arrays."""
    found = []
    for position, entry in enumerate(_checked_list(path, namespace, "expressions")):
        where = f"{path}: expressions[{position}]"
        if not isinstance(entry, list | tuple) or len(entry) != 2 or not is_a(entry[0], _EXPRESSION):
            raise UnsupportedFormError(f"{where} is {_describe(entry)}, not a pair (UFL expression, points)")
        name = names.get(id(entry[0]), f"expression_{position}")
        found.append(NamedExpression(name, entry[0], _to_points(where, entry[1])))
    return tuple(found)


def _to_points(where: str, points: Any) -> Any:
    """Return ``points`` as an array of doubles with axes (point, direction)."""
    import numpy as np

    try:
        array = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UnsupportedFormError(f"{where}: the points are not an array of numbers: {error}") from error
    if array.ndim != 2:
        raise UnsupportedFormError(
            f"{where}: the points have shape {array.shape}; give a list of points, each a list of reference "
            "coordinates, such as [[0.5, 0.25]]"
        )
    return array


def _find_elements(path: Path, namespace: Mapping[str, Any], is_empty: bool) -> tuple[Any, ...]:
    """Return the entries of the list ``elements``; the variable ``element`` if there is nothing else."""
    if is_empty and "elements" not in namespace and is_a(namespace.get("element"), _ELEMENT):
        return (namespace["element"],)
    entries = _checked_list(path, namespace, "elements")
    for position, entry in enumerate(entries):
        if not is_a(entry, _ELEMENT):
            raise UnsupportedFormError(f"{path}: elements[{position}] is {_describe(entry)}, not an element")
    return tuple(entries)


def _find_problem(path: Path, namespace: Mapping[str, Any]) -> Any | None:
    """Return the only problem among the variables, or None."""
    found = {id(value): (name, value) for name, value in reversed(list(namespace.items())) if is_a(value, _PROBLEM)}
    if len(found) > 1:
        names = ", ".join(sorted(name for name, _ in found.values()))
        raise UnsupportedFormError(f"{path}: has {len(found)} problems ({names}); keep one, put others into own files")
    return next((value for _, value in found.values()), None)


def _checked_list(path: Path, namespace: Mapping[str, Any], name: str) -> list[Any] | tuple[Any, ...]:
    """Return the list called ``name``, empty if there is none."""
    value = namespace.get(name, ())
    if not isinstance(value, list | tuple):
        raise UnsupportedFormError(f"{path}: {name} is {_describe(value)}; write a list: {name} = [...]")
    return value


def _describe(value: object) -> str:
    """Return what kind of thing a value is, in the user's words."""
    kinds = [(_FORM, "a form"), ((_EXPRESSION,), "a UFL expression"), ((_ELEMENT,), "an element")]
    kind = next((words for classes, words in kinds if is_a(value, *classes)), "")
    return f"{kind} ({type(value).__name__})" if kind else f"{type(value).__name__} {reprlib.repr(value)}"


def _remedy(value: object) -> str:
    """Return what to write instead of ``value`` where a form is expected."""
    if is_a(value, _EXPRESSION):
        return "; integrate it: multiply by a measure such as dx"
    if is_a(value, "ufl.equation.Equation"):
        return "; list both sides of the equation"
    if isinstance(value, list | tuple):
        return "; pairs of expression and points belong into the list expressions"
    return ""


def _explain_nothing_found(path: Path, namespace: Mapping[str, Any]) -> str:
    """Return what to add to a file that has nothing to compile."""
    others = [name for name, value in namespace.items() if is_a(value, *_FORM)]
    if others:
        return f"{path}: has forms, but does not say which to compile; add: forms = [{', '.join(others)}]"
    near = [name for name in "aLMFJ" if is_a(namespace.get(name), _EXPRESSION)]
    if near:
        return f"{path}: has no form; {near[0]} is {_describe(namespace[near[0]])}{_remedy(namespace[near[0]])}"
    return (
        f"{path}: nothing to compile; define a form (a, L, M, F or J, or a list forms = [...]), "
        "a list expressions = [(expression, points)], a list elements = [...] or a Problem"
    )
