"""Generated operators in an assembler over dune-grid and dune-functions, against the same forms in this package."""

import functools
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stub_harness as stub
import ufl

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "runtime"))

from randomized import random_mesh

from formcompiler import compile_expression, compile_form
from formcompiler.operators import compile_file
from formcompiler.options import make_options
from formcompiler.runtime.compiler import find_compiler
from formcompiler.runtime.functions import Compilers, FunctionData
from formcompiler.runtime.spaces import physical_points

CONFIG = """
#define HAVE_MPI 1
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#define HAVE_DUNE_COMMON 1
#define HAVE_DUNE_GEOMETRY 1
#define HAVE_DUNE_GRID 1
#define HAVE_DUNE_ISTL 1
#define HAVE_DUNE_LOCALFUNCTIONS 1
#define HAVE_DUNE_TYPETREE 1
#define HAVE_DUNE_FUNCTIONS 1
#define HAVE_DUNE_UGGRID 1
#define DUNE_HAVE_CXX_EXPERIMENTAL_IS_DETECTED 1
#define DUNE_HAVE_CXX_EXPERIMENTAL_MAKE_ARRAY 1
#define DUNE_MINIMAL_DEBUG_LEVEL 4
"""
"""What configuring DUNE with CMake would find: all modules that the programs use, and MPI."""

HAS_DUNE = Path("/usr/include/dune/functions").exists() and Path("/usr/include/dune/grid/uggrid.hh").exists()
pytestmark = pytest.mark.skipif(
    not (HAS_DUNE and shutil.which("mpicxx")), reason="needs Debian's libdune-functions-dev, libdune-grid-dev and MPI"
)

HEAD = """
import basix
cell, dim = "{cell}", {dim}
mesh = Mesh(basix.ufl.element("P", cell, 1, shape=(dim,)))
def lagrange(degree, **options):
    return basix.ufl.element("P", cell, degree, lagrange_variant=basix.LagrangeVariant.equispaced, **options)
x, n = SpatialCoordinate(mesh), FacetNormal(mesh)
"""

REACTION = """
V = FunctionSpace(mesh, lagrange({degree}))
u, v = Coefficient(V), TestFunction(V)
F = (1 + u**2) * inner(grad(u), grad(v)) * dx(degree=5) - x[0] * v * dx(degree=4) + u**2 * v * ds(degree=6)
forms = [F]
"""

INTERIOR_PENALTY = """
V = FunctionSpace(mesh, lagrange({degree}, discontinuous=True))
u, v = Coefficient(V), TestFunction(V)
gamma = 10 / avg(CellDiameter(mesh))
F = inner(grad(u), grad(v)) * dx(degree=4) + gamma * jump(u) * jump(v) * dS(degree=4)
F += -inner(avg(grad(u)), jump(v, n)) * dS(degree=4) + inner(avg((1 + x[0]) * grad(v)), jump(u, n)) * dS(degree=4)
F += (u - x[0]) * v * ds(degree=4) - inner(grad(u), n) * v * ds(degree=4)
forms = [F]
"""

STOKES = """
V = FunctionSpace(mesh, basix.ufl.mixed_element([lagrange(2, shape=(dim,)), lagrange(1)]))
w = Coefficient(V)
(u, p), (v, q) = split(w), TestFunctions(V)
F = inner(grad(u) + outer(u, u), grad(v)) * dx(degree=5) - p * div(v) * dx(degree=4) - q * div(u) * dx(degree=4)
F += inner(dot(u, n) * u, v) * ds(degree=6)
forms = [F]
"""

TAYLOR_HOOD = "composite(power<{dim}>(lagrange<2>(), flatLexicographic()), lagrange<1>(), flatLexicographic())"

CASES = {
    "reaction_triangle": ("triangle", REACTION.format(degree=3), "lagrange<3>()"),
    "reaction_hexahedron": ("hexahedron", REACTION.format(degree=2), "lagrange<2>()"),
    "penalty_triangle": ("triangle", INTERIOR_PENALTY.format(degree=2), "lagrangeDG<2>()"),
    "penalty_hexahedron": ("hexahedron", INTERIOR_PENALTY.format(degree=2), "lagrangeDG<2>()"),
    "penalty_tetrahedron": ("tetrahedron", INTERIOR_PENALTY.format(degree=3), "lagrangeDG<3>()"),
    "stokes_quadrilateral": ("quadrilateral", STOKES, TAYLOR_HOOD.format(dim=2)),
    "stokes_tetrahedron": ("tetrahedron", STOKES, TAYLOR_HOOD.format(dim=3)),
}
QUICK = ("penalty_hexahedron", "stokes_quadrilateral")
DIMENSION = {"triangle": 2, "quadrilateral": 2, "tetrahedron": 3, "hexahedron": 3}


def program(name: str, file: Any, directory: Path, cell: str, basis: str) -> Path:
    """Return the assembler's program around the operator of a form file."""
    compile_file(file, directory, make_options())
    (directory / "config.h").write_text(CONFIG)
    class_name = "".join(word.capitalize() for word in name.split("_"))
    kind = "cube" if cell in ("quadrilateral", "hexahedron") else "simplex"
    dim = DIMENSION[cell]
    source = directory / "main.cc"
    source.write_text(
        f"""#include <config.h>
#include "{name}.hh"
#include "dune_assembler.hh"
int main(int argc, char** argv)
{{
  Dune::MPIHelper::instance(argc, argv);
  const auto grid = assembler::read_grid<{dim}>(Dune::GeometryTypes::{kind}({dim}));
  using namespace Dune::Functions::BasisFactory;
  const auto basis = makeBasis(grid->leafGridView(), {basis});
  assembler::run(basis, formcompiler::{class_name}());
}}
"""
    )
    mpi = subprocess.run(["mpicxx", "--showme:compile"], capture_output=True, text=True, check=True).stdout.split()
    includes = [f"-I{stub.HERE}", f"-I{directory}", *(word.replace("-I", "-isystem", 1) for word in mpi)]
    libraries = ["-lduneuggrid", "-ldunegrid", "-ldunegeometry", "-ldunecommon", "-lmpi"]
    command = [*find_compiler().command, "-std=c++17", "-DHAVE_CONFIG_H", "-DModelP", *includes, str(source)]
    binary = directory / "main"
    answer = subprocess.run([*command, "-o", str(binary), *libraries], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr[:4000]
    return binary


def in_dune(binary: Path, mesh: Any) -> np.ndarray:
    """Return a row for each dof: leaf, position, x, z, residual, action, product with the Jacobian."""
    words = [len(mesh.points), *map(repr, mesh.points.ravel().tolist()), *mesh.vertices.shape, *mesh.vertices.ravel()]
    answer = subprocess.run([binary], input=" ".join(map(str, words)), capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return np.array([[float(word) for word in line.split()] for line in answer.stdout.splitlines()])


def here(form: Any, mesh: Any) -> np.ndarray:
    """Return the same rows, assembled by this package."""
    data = FunctionData(mesh, Compilers(compile_form, compile_expression), {})
    (unknown,) = form.coefficients()
    dofmap = data.dofmap(unknown.ufl_element())

    def interpolate(function: Any) -> np.ndarray:
        def evaluate(points: np.ndarray, cells: np.ndarray) -> np.ndarray:
            where = physical_points(mesh, points, cells)
            return np.stack([function(where, leaf) for leaf in range(dofmap.value_size)], axis=-1)

        return dofmap.interpolate(evaluate)

    def rising(p: np.ndarray) -> np.ndarray:
        return np.asarray(p @ np.arange(1.0, p.shape[-1] + 1))

    columns = [interpolate(lambda p, leaf: np.full(p.shape[:-1], float(leaf)))]
    columns += [interpolate(lambda p, leaf, d=d: p[..., d]) for d in range(mesh.gdim)]
    x = interpolate(lambda p, leaf: 0.7 + 0.25 * leaf + 0.3 * rising(p) - 0.2 * (p**2).sum(axis=-1))
    z = interpolate(lambda p, leaf: 0.4 - 0.5 * leaf + 0.6 * (p**2).sum(axis=-1) * rising(p))
    jacobian = data.operator(ufl.derivative(form, unknown)).matrix([x])
    columns += [x, z, data.operator(form).vector([x]), jacobian @ z, jacobian @ z]
    return np.stack(columns, axis=1)


def sort_rows(rows: np.ndarray, dim: int) -> np.ndarray:
    """Return rows in the order of their dofs: by leaf, position, and value, which tells discontinuous ones apart."""
    keys = [rows[:, dim + 3].round(9), *(rows[:, k].round(7) for k in reversed(range(dim + 1)))]
    return rows[np.lexsort(keys)]


@functools.cache
def results(name: str) -> tuple[np.ndarray, np.ndarray, int]:
    cell, text, basis = CASES[name]
    dim = DIMENSION[cell]
    file = stub.load(name, HEAD.format(cell=cell, dim=dim) + text)
    mesh = random_mesh(cell, 2, seed=3)
    binary = program(name, file, stub.scratch() / f"{name}_dune", cell, basis)
    (form,) = file.namespace["forms"]
    return in_dune(binary, mesh), here(form, mesh), dim


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in CASES])
def test_operators_assemble_the_same_in_dune(name: str) -> None:
    dune, own, dim = results(name)
    assert dune.shape == own.shape
    dune, own = sort_rows(dune, dim), sort_rows(own, dim)
    assert np.allclose(dune[:, : dim + 3], own[:, : dim + 3], atol=1e-9)
    for column in range(dim + 3, dim + 6):
        scale = abs(own[:, column]).max()
        assert scale > 1e-3
        assert np.allclose(dune[:, column], own[:, column], atol=1e-10 * scale)
