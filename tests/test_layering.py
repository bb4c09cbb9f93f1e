"""Imports run downward only: who may import whom, read from the source of the package."""

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import formcompiler

PACKAGE = Path(formcompiler.__file__).parent
HEAVY = ("loopy", "islpy", "pymbolic", "ufl", "basix", "numpy", "scipy", "meshio", "matplotlib")

BASICS = {"errors", "naming"}
BUILDERS = ("quadloop", "sumfact", "blockstructured")
PASSES = ("constfold", "vectorize", "licm")

MAY_IMPORT = {
    "errors": set(),
    "naming": set(),
    "progress": set(),
    "terminals": set(),
    "options": BASICS,
    "elements": BASICS,
    "frontend": BASICS | {"elements", "terminals", "options"},
    "reference": {"frontend", "elements", "errors", "terminals"},
    "kernel": BASICS | {"elements", "terminals", "frontend.integrals"},
    "loops": BASICS | {"kernel"},
    **dict.fromkeys(BUILDERS, BASICS | {"elements", "kernel", "terminals", "frontend.integrals"}),
    **dict.fromkeys(PASSES, BASICS | {"kernel", "loops"}),
}
"""What each part may import of the package besides itself; parts that are not named are bound by `NOBODY_IMPORTS`."""

NOBODY_IMPORTS = {
    "cli": {"__main__"},
    "doctor": {"cli"},
    "__main__": set(),
    "driver": {"cli", "__init__", "problem"},
}
"""Parts that only those in the set may import."""

LIBRARIES = {"basix": {"elements"}, "ufl": {"frontend", "reference"}}
"""Libraries that only the parts in the set may import."""


@dataclass(frozen=True)
class Import:
    """``importer`` imports ``imported``: full module names; ``line`` says where."""

    importer: str
    imported: str
    line: int


def modules_of(root: Path) -> dict[str, Path]:
    """Return the files of a package by module name; the package itself is called ``NAME.__init__``."""
    modules = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 2 else parts)
        modules[name] = path
    return modules


def imports_of(root: Path) -> list[Import]:
    """Return all imports of a package, but those for type checkers only; wherever in a module they stand."""
    modules = modules_of(root)
    found = []
    for importer, path in modules.items():
        for node in statements(ast.parse(path.read_text())):
            for name in imported_names(node, importer, path.name == "__init__.py"):
                found.append(Import(importer, to_module(name, modules, root.name), node.lineno))
    return found


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk through a tree, but not into ``if TYPE_CHECKING``."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield from statements(child)


def imported_names(node: ast.AST, importer: str, is_package: bool) -> list[str]:
    """Return the full names that an import statement asks for, modules and members of modules alike."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        parts = importer.removesuffix(".__init__").split(".")
        parts = parts[: len(parts) - node.level + is_package]
        base = ".".join([*parts, node.module] if node.module else parts)
    return [f"{base}.{alias.name}" for alias in node.names]


def to_module(name: str, modules: dict[str, Path], package: str) -> str:
    """Return the module that a name belongs to."""
    if name.partition(".")[0] != package:
        return name
    while name not in modules and "." in name:
        name = name.rpartition(".")[0]
    return name if "." in name else f"{name}.__init__"


def part_of(module: str) -> str:
    """Return the part of the package that a module belongs to."""
    return module.split(".")[1]


def violations(imports: list[Import], package: str) -> list[str]:
    """Return one line for each import that runs upward."""
    return [
        f"{found.importer}:{found.line} imports {found.imported}: {why}"
        for found in imports
        if (why := reason_against(found, package))
    ]


def reason_against(found: Import, package: str) -> str:
    """Return why an import is not allowed, or nothing."""
    importer = part_of(found.importer)
    library = found.imported.partition(".")[0]
    if library != package:
        allowed = LIBRARIES.get(library, {importer})
        return "" if importer in allowed else f"only {', '.join(sorted(allowed))} may"
    imported = part_of(found.imported)
    if imported in {importer, "__init__"}:
        return ""
    if importer not in NOBODY_IMPORTS.get(imported, {importer}):
        return f"only {', '.join(sorted(NOBODY_IMPORTS[imported])) or 'nobody'} may"
    allowed = MAY_IMPORT.get(importer, {imported})
    tail = found.imported.removeprefix(f"{package}.")
    return "" if {imported, tail} & allowed else f"{importer} may import only {', '.join(sorted(allowed)) or 'nothing'}"


def find_cycle(imports: list[Import], package: str) -> list[str]:
    """Return the modules of one cycle of imports, or nothing."""
    edges: dict[str, set[str]] = {}
    for found in imports:
        if found.imported.partition(".")[0] == package and found.imported != found.importer:
            edges.setdefault(found.importer, set()).add(found.imported)
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_imports_run_downward_only():
    assert violations(imports_of(PACKAGE), "formcompiler") == []


def test_imports_have_no_cycles():
    assert find_cycle(imports_of(PACKAGE), "formcompiler") == []


def test_the_rules_speak_of_parts_that_exist():
    parts = {part_of(name) for name in modules_of(PACKAGE)}
    planned = {"blockstructured", "constfold", "licm", "loops", "sumfact", "vectorize", "problem"}
    assert (set(MAY_IMPORT) | set(NOBODY_IMPORTS)) - planned <= parts


# --- the checks themselves


@pytest.fixture
def package(tmp_path):
    """Write a package ``formcompiler`` from a mapping of file names to text; return its imports."""

    def write(**files):
        root = tmp_path / "formcompiler"
        for name, text in files.items():
            path = root / f"{name.replace('__', '/') if not name.startswith('__') else name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return imports_of(root)

    return write


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("quadloop__a", "import basix.ufl", "only elements may"),
        ("elements__a", "import ufl", "only frontend, reference may"),
        ("kernel__a", "def f():\n    from ufl.classes import Sum", "only frontend, reference may"),
        ("licm__a", "from formcompiler.vectorize import lanes", "licm may import only errors, kernel, loops, naming"),
        ("licm__a", "from ..constfold import fold", "licm may import only"),
        ("constfold__a", "import formcompiler.frontend.integrals", "constfold may import only"),
        ("sumfact__a", "from formcompiler.frontend import analysis", "sumfact may import only"),
        ("codegen__a", "from formcompiler import driver", "only __init__, cli, problem may"),
        ("runtime__a", "from formcompiler.driver import compile_form", "only __init__, cli, problem may"),
        ("driver", "import formcompiler.cli", "only __main__ may"),
        ("reference__a", "from formcompiler.kernel import flops", "reference may import only"),
    ],
)
def test_imports_that_run_upward_are_found(package, file, text, expected):
    others = {name: "" for name in ("vectorize__lanes", "constfold__fold", "frontend__analysis", "driver", "cli")}
    others |= {name: "" for name in ("frontend__integrals", "kernel__flops")}
    (found,) = violations(package(**(others | {file: text})), "formcompiler")
    assert f"{file.replace('__', '.')}:" in found
    assert expected in found


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("elements__a", "import basix.ufl"),
        ("frontend__a", "import ufl"),
        ("sumfact__a", "from formcompiler.frontend.integrals import FormIntegral"),
        ("sumfact__a", "from formcompiler.frontend import integrals"),
        ("sumfact__a", "from . import b\nfrom .b import c"),
        ("licm__a", "from ..kernel import flops"),
        ("runtime__a", "import formcompiler\nfrom formcompiler import __version__"),
        ("runtime__a", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from formcompiler import cli"),
    ],
)
def test_imports_that_run_downward_pass(package, file, text):
    others = {"frontend__integrals": "", "kernel__flops": "", "sumfact__b": "", "cli": "", "__init__": ""}
    assert violations(package(**(others | {file: text})), "formcompiler") == []


def test_cycles_are_found_through_functions_and_relative_imports(package):
    imports = package(a="from . import b", b="def f():\n    import formcompiler.c", c="from formcompiler.a import x")
    assert set(find_cycle(imports, "formcompiler")) == {f"formcompiler.{name}" for name in "abc"}
    assert find_cycle(package(c="import os"), "formcompiler") == []


# --- what an import costs


def loaded_by(code: str) -> set[str]:
    """Return which heavy libraries are loaded after running ``code`` in a new process."""
    code += f"\nimport sys; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(said.stdout.split())


@pytest.mark.parametrize("module", ["formcompiler", "formcompiler.cli", "formcompiler.runtime.compiler"])
def test_import_loads_no_library(module):
    assert loaded_by(f"import {module}") == set()


@pytest.mark.parametrize("part", [part for part in ("loops", *PASSES) if list((PACKAGE / part).glob("*.py"))])
def test_passes_can_be_used_without_finite_elements(part):
    modules = [name for name in modules_of(PACKAGE) if part_of(name) == part]
    assert not loaded_by("\n".join(f"import {name}" for name in modules)) & {"ufl", "basix"}


def test_every_public_name_is_there_and_no_other():
    for name in formcompiler.__all__:
        assert getattr(formcompiler, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        formcompiler.no_such_name  # noqa: B018


def test_no_two_test_modules_share_a_name() -> None:
    """Test folders are no packages, so that pytest could not tell two modules of one name apart."""
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)
