"""Builds a generated operator together with the stub of an assembler, and runs its methods on single entities."""

import functools
import itertools
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import basix
import basix.ufl
import numpy as np

from formcompiler import compile_form
from formcompiler.formfile import load_form_file
from formcompiler.operators import compile_file
from formcompiler.options import make_options
from formcompiler.runtime.compiler import find_compiler

HERE = Path(__file__).parent
WARNINGS = ("-std=c++17", "-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror")
INITIAL = 7.0  # what vectors and matrices of the stub hold before a method adds to them


@dataclass(eq=False)
class Driver:
    """A program that runs one operator, and the form file that it came from.

    Attributes:
        program: The executable.
        header: Text of the header.
        file: The loaded form file; its namespace has the UFL objects.
        test: Element of the test functions.
        trial: Element of the unknown.
        constants: Values of the constants, row-major, by name.
        coefficients: Names of the coefficients other than the unknown.
    """

    program: Path
    header: str
    file: Any
    test: Any
    trial: Any
    constants: dict[str, Any]
    coefficients: tuple[str, ...]

    def __getitem__(self, name: str) -> Any:
        return self.file.namespace[name]

    def run(self, words: list[Any]) -> dict[str, np.ndarray]:
        """Return the results of one command by name, without the initial values, in DUNE's order."""
        answer = self._call(words)
        assert answer.returncode == 0, answer.stderr
        results = {}
        for line in answer.stdout.splitlines():
            name, *numbers = line.split()
            if numbers:
                shift = 0.0 if name.startswith("pattern") else INITIAL
                results[name] = np.array([float(n) for n in numbers]) - shift
        return results

    def fail(self, words: list[Any]) -> str:
        """Return what a command that fails says."""
        answer = self._call(words)
        assert answer.returncode != 0
        return answer.stderr

    def _call(self, words: list[Any]) -> Any:
        text = " ".join(str(word) for word in flatten(words))
        return subprocess.run([self.program], input=text, capture_output=True, text=True, check=False, timeout=60)


def flatten(words: list[Any]) -> list[Any]:
    """Return the words of a command; arrays come with their size in front."""
    result: list[Any] = []
    for word in words:
        if isinstance(word, np.ndarray | list):
            values = np.ravel(word)
            result += [len(values), *(repr(float(v)) for v in values)]
        else:
            result.append(word)
    return result


@functools.cache
def scratch() -> Path:
    directory = tempfile.TemporaryDirectory(prefix="formcompiler-test-")
    _KEPT.append(directory)
    return Path(directory.name)


_KEPT: list[Any] = []


def load(name: str, text: str) -> Any:
    """Return a loaded form file with this text."""
    path = scratch() / f"{name}.py"
    path.write_text("import basix.ufl\nfrom ufl import *\n" + text)
    return load_form_file(path)


def write_headers(name: str, text: str, **options: Any) -> list[Path]:
    """Return the headers of a form file with this text."""
    return compile_file(load(name, text), scratch() / f"{name}_headers", make_options(**options))


def compile_cpp(source: Path, *flags: str) -> None:
    """Compile with all warnings as errors."""
    compiler = find_compiler()
    shadow = {"gcc": "-Wshadow=local", "clang": "-Wshadow"}[compiler.kind]
    command = [*compiler.command, *WARNINGS, shadow, f"-I{HERE}", f"-I{source.parent}", *flags, str(source)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    assert answer.returncode == 0, answer.stderr[:4000]


@functools.cache
def build(
    name: str,
    text: str,
    *,
    test: str = "V",
    trial: str = "V",
    constants: tuple[tuple[str, Any], ...] = (),
    coefficients: tuple[str, ...] = (),
    rules: tuple[tuple[str, int, Any, Any], ...] = (),
    **options: Any,
) -> Driver:
    """Return the driver of the only operator of a form file; test and trial are names of function spaces.

    Rules are types and subdomains of integrals with nested tuples of points and weights.
    """
    file = load(name, text)
    directory = scratch() / f"{name}_driver"
    (header,) = compile_file(file, directory, make_options(**options))
    spaces = [file.namespace[n] for n in (trial, test)]
    trial_element, test_element = (s.ufl_element() for s in spaces)
    gdim = spaces[0].ufl_domain().geometric_dimension
    driver = Driver(
        directory / "main", header.read_text(), file, test_element, trial_element, dict(constants), coefficients
    )
    source = directory / "main.cc"
    source.write_text(main_text(name, driver, gdim, rules))
    compile_cpp(source, "-o", str(driver.program))
    return driver


def rule_functions(rules: tuple[tuple[str, int, Any, Any], ...]) -> str:
    """Return the functions of a data class that give points and weights, none for unknown subdomains."""
    lines = ["  struct Rule { int n_points; const double* points; const double* weights; };"] if rules else []
    for kind in dict.fromkeys(rule[0] for rule in rules):
        lines.append(f"  template <class E>\n  Rule {kind}_rule(const E&, int id) const\n  {{")
        for _, number, points, weights in (rule for rule in rules if rule[0] == kind):
            arrays = f"static const double a[] = {cpp_value(points)}, b[] = {cpp_value(weights)};"
            lines += [
                f"    if (id == {number}) {{",
                f"      {arrays}",
                f"      return {{{len(weights)}, a, b}};",
                "    }",
            ]
        lines.append("    return {0, nullptr, nullptr};\n  }")
    return "\n".join(lines)


def main_text(name: str, driver: Driver, gdim: int, rules: tuple[tuple[str, int, Any, Any], ...] = ()) -> str:
    """Return the main program around one operator."""
    class_name = "".join(word.capitalize() for word in name.split("_"))
    reads = "\n".join(
        f"  template <class E, class T>\n  void coefficient_{c}(const E& entity, T* dofs) const\n"
        f'  {{\n    for (double value : entity.coefficients.at("{c}"))\n      *dofs++ = value;\n  }}'
        for c in driver.coefficients
    )
    ids = (
        "  template <class E>\n  int cell_id(const E& entity) const { return entity.id; }\n"
        "  template <class E>\n  int facet_id(const E& intersection) const { return intersection.id; }"
    )
    needs_data = f"struct {class_name}Data" in driver.header
    type_ = f"formcompiler::{class_name}" + ("<Data>" if needs_data else "")
    sets = "\n".join(f"  op.set_{c}({cpp_value(v)});" for c, v in driver.constants.items())
    names = ", ".join(f'"{c}"' for c in driver.coefficients)
    data = (
        f"struct Data : formcompiler::{class_name}Data\n{{\n{reads}\n{ids}\n{rule_functions(rules)}\n}};"
        if needs_data
        else ""
    )
    return f"""#include "{name}.hh"
#include "pdelab_stub.hh"
{data}
using Trial = {space_type(driver.trial)};
using Test = {space_type(driver.test)};
int main()
{{
  {type_} op;
{sets}
  return stub::run<{gdim}, Trial, Test>(op, {{{names}}});
}}
"""


def cpp_value(value: Any) -> str:
    return repr(float(value)) if np.ndim(value) == 0 else "{" + ", ".join(repr(float(v)) for v in np.ravel(value)) + "}"


def space_type(element: Any) -> str:
    """Return the type of the stub's tree of local function spaces for an element."""
    if element.is_mixed:
        return f"stub::Composite<{', '.join(map(space_type, element.sub_elements))}>"
    if element.block_size > 1:
        return f"stub::Power<stub::Leaf<{element.dim // element.block_size}>, {element.block_size}>"
    return f"stub::Leaf<{element.dim}>"


def basix_of_dune(element: Any) -> np.ndarray:
    """Return basix's number of each dof in the order of a DUNE tree, found from the coordinates of the nodes."""
    if element.is_mixed:
        offsets = np.cumsum([0, *(e.dim for e in element.sub_elements)])
        return np.concatenate([o + basix_of_dune(e) for o, e in zip(offsets, element.sub_elements, strict=False)])
    if element.block_size > 1:
        leaf = basix_of_dune(element.sub_elements[0])
        return np.concatenate([leaf * element.block_size + c for c in range(element.block_size)])
    points = element.basix_element.points
    if element.degree > 0:  # equidistant, as DUNE's nodes are
        assert np.allclose(points * element.degree, np.round(points * element.degree))
    return np.array(sorted(range(len(points)), key=lambda i: tuple(points[i].round(8))[::-1]))


def to_dune(element: Any, values: np.ndarray, axes: tuple[int, ...] = (0,)) -> np.ndarray:
    """Return an array with the given axes in basix's order, turned into DUNE's."""
    for axis in axes:
        values = np.take(values, basix_of_dune(element), axis=axis)
    return values


def from_dune(element: Any, values: np.ndarray) -> np.ndarray:
    """Return a vector in DUNE's order, turned into basix's."""
    result = np.empty_like(values)
    result[basix_of_dune(element)] = values
    return result


# --- cells, facets, neighbours


def reference_vertices(cell: str) -> np.ndarray:
    return np.asarray(basix.geometry(basix.CellType[cell]))


def random_cell(cell: str, seed: int) -> np.ndarray:
    """Return the corners of a distorted cell, axes (vertex, direction)."""
    rng = np.random.default_rng(seed)
    corners = reference_vertices(cell)
    return corners + 0.15 * rng.uniform(-1, 1, corners.shape)


def dune_facet_vertices(cell: str) -> list[tuple[int, ...]]:
    """Return the vertices of DUNE's facets: cubes by direction and side, simplices in lexicographic order."""
    corners = reference_vertices(cell)
    n, dim = corners.shape
    if n == 2**dim:
        return [
            tuple(v for v in range(n) if corners[v, direction] == side) for direction in range(dim) for side in (0, 1)
        ]
    return list(itertools.combinations(range(n), dim))


def basix_facet(cell: str, vertices: tuple[int, ...]) -> int:
    """Return basix's number of the facet with these vertices."""
    topology = basix.topology(basix.CellType[cell])
    (found,) = (i for i, facet in enumerate(topology[-2]) if set(facet) == set(vertices))
    return found


def neighbour(cell: str, corners: np.ndarray, facet: tuple[int, ...], seed: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return the corners of a cell on the other side of a facet, randomly numbered, and its vertices of the facet."""
    rng = np.random.default_rng(seed)
    own = reference_vertices(cell)
    n, dim = own.shape
    shared = corners[list(facet)]
    away = shared.mean(axis=0) - corners.mean(axis=0)
    if n == dim + 1:
        points = np.vstack([shared, shared.mean(axis=0) + 1.3 * away])
        order = rng.permutation(n)
        return points[order], tuple(int(np.flatnonzero(order == i)[0]) for i in range(len(facet)))
    direction = next(d for d in range(dim) if len({own[v, d] for v in facet}) == 1)
    side = own[facet[0], direction]
    mirrored = {}
    for v in range(n):
        twin = own[v].copy()
        twin[direction] = side
        on_facet = next(w for w in facet if np.array_equal(own[w], twin))
        touches = own[v, direction] == 1 - side
        mirrored[v] = corners[on_facet] + (0 if touches else 2) * away
    points = np.array([mirrored[v] for v in range(n)])
    axes, flips = rng.permutation(dim), rng.integers(0, 2, dim)
    turned = np.array([np.abs(row[axes] - flips) for row in own])
    order = [next(w for w in range(n) if np.array_equal(own[w], t)) for t in turned]
    new = points[order]
    return new, tuple(next(v for v in range(n) if np.allclose(new[v], corners[w])) for w in facet)


def facet_turn(cell: str, corners: tuple[np.ndarray, np.ndarray], facets: tuple[int, int]) -> int:
    """Return the facet permutation of the second cell that makes it see the first one's points, by trying all."""
    from formcompiler.elements.cells import facet_cells, map_to_facet, n_facet_permutations, permute_facet_points

    kind = facet_cells(cell)[0]
    if kind == "vertex":
        return 0
    element = basix.ufl.element("P", cell, 1)
    rng = np.random.default_rng(1)
    points = rng.uniform(0.1, 0.4, (3, reference_vertices(cell).shape[1] - 1))

    def physical(side: int, where: np.ndarray) -> np.ndarray:
        return element.tabulate(0, map_to_facet(cell, facets[side], where))[0] @ corners[side]

    (found,) = (
        p
        for p in range(n_facet_permutations(kind))
        if np.allclose(physical(0, points), physical(1, permute_facet_points(kind, p, points)), atol=1e-9)
    )
    return found


def tabulate(form: Any, kind: str, entity_id: int | None, corners: Any, **data: Any) -> np.ndarray:
    """Return the element tensor of a form that is compiled for the first time, or again."""
    if id(form) not in _FORMS:
        _FORMS[id(form)] = (form, compile_form(form))
    return _FORMS[id(form)][1].tabulate_tensor(kind, entity_id, corners, **data)


_FORMS: dict[int, Any] = {}
