"""Measures whole operators, y = A(x), in the embedded engine: gather, kernel and scatter, on one core; see operator.py.

One product is measured again and again in processor time of one pinned core; the table shows the best and the median.
Beside it are the peak of the core in the same minute, from independent fused multiply-adds, and what the best of
deal.II, MFEM, libCEED and DUNE reached for the same operator on a core of 85 GFLOP/s. Operations are those of the
kernel's own arithmetic. Rules have (k+1)^3 points; the kernels take a batch of cells in their lanes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import basix.ufl
import numpy as np
import ufl
from timing import Timer
from ufl import avg, div, dot, dS, ds, dx, grad, inner, jump

import formcompiler
from formcompiler.runtime.assembly import Operator
from formcompiler.runtime.mesh import Mesh, box_mesh
from formcompiler.runtime.placement import place_kernels
from formcompiler.runtime.spaces import make_dofmap
from formcompiler.runtime.tasks import select_entities

HEXAHEDRON = "hexahedron"
GEOMETRIES = {"axis_parallel": "axis_parallel", "deformed": "general"}
"""Meshes, and what the compiler is told of their cells."""

SECONDS = 1.5
"""Least time that the products of a row take together."""

LEAST_PRODUCTS = 9

PEER_PEAK_GFLOPS = 85.0
"""Peak of the core on which the peers were measured."""

PEERS: dict[tuple[str, str], dict[int, float]] = {
    ("laplace", "axis_parallel"): dict(enumerate((42, 119, 140, 149, 164, 160, 161, 150), 1)),
    ("laplace", "deformed"): dict(enumerate((20, 52, 70, 83, 88, 95, 95, 97), 1)),
    ("sipg", "axis_parallel"): dict(enumerate((58, 100, 115, 97, 95, 93, 89, 93), 1)),
    ("sipg", "deformed"): dict(enumerate((30, 48, 55, 57, 59, 59, 55, 58), 1)),
    ("p_laplace", "axis_parallel"): dict(enumerate((86, 101, 118, 122, 131, 108, 105), 2)),
    ("p_laplace", "deformed"): dict(enumerate((30, 41, 46, 52, 54, 51, 51), 2)),
    ("stokes", "axis_parallel"): dict(enumerate((82, 113, 140, 119, 176, 173, 165), 2)),
    ("stokes", "deformed"): dict(enumerate((51, 66, 84, 86, 148, 116, 108), 2)),
}
"""Millions of dofs per second of the best peer, by form, geometry and degree."""

HEADER = "form      geometry       k     dofs  MDoF/s median  GFLOP/s   peak  per GFLOP/s   peer   ratio"


@dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
        form: Name of the form.
        geometry: "axis_parallel" or "deformed".
        degree: Degree of the space (of the velocity).
        n_cells: Cells of the mesh.
        n_dofs: Length of the vectors.
        mdofs_per_second: Millions of dofs per second of processor time, of the fastest product.
        median_mdofs_per_second: The same of the median product.
        gflops: Billions of operations of the kernels per second, of the fastest product.
        peak_gflops: What fused multiply-adds reach at the same time.
        mdofs_per_gflop: Millions of dofs per second over the peak.
        peer_mdofs: What the best peer reached.
        peer_mdofs_per_gflop: The same over the peak of its core.
        setup_seconds: Time for the mesh, the numbering of dofs and the tables.
        compile_seconds: Time to compile the form to machine code.
    """

    form: str
    geometry: str
    degree: int
    n_cells: int
    n_dofs: int
    mdofs_per_second: float
    median_mdofs_per_second: float
    gflops: float
    peak_gflops: float
    mdofs_per_gflop: float
    peer_mdofs: float
    peer_mdofs_per_gflop: float
    setup_seconds: float
    compile_seconds: float


# --- forms


@dataclass(frozen=True)
class Action:
    """A linear form whose coefficients are the vector x and states.

    Attributes:
        form: The form.
        constants: Values of its constants for cells of a size.
    """

    form: Any
    constants: Callable[[float], list[float]] = lambda _h: []


def _space(element: Any) -> Any:
    return ufl.FunctionSpace(ufl.Mesh(basix.ufl.element("Lagrange", HEXAHEDRON, 1, shape=(3,))), element)


def laplace(degree: int) -> Action:
    """Return the Laplace operator."""
    V = _space(basix.ufl.element("Lagrange", HEXAHEDRON, degree))
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    return Action(inner(grad(u), grad(v)) * dx(degree=2 * degree + 1))


def sipg(degree: int) -> Action:
    """Return the symmetric interior penalty method with weak boundary values."""
    V = _space(basix.ufl.element("DG", HEXAHEDRON, degree))
    u, v, n = ufl.Coefficient(V), ufl.TestFunction(V), ufl.FacetNormal(V.ufl_domain())
    sigma = ufl.Constant(V.ufl_domain())
    q = 2 * degree + 1
    inside = sigma("+") * jump(u) * jump(v) - dot(avg(grad(u)), jump(v, n)) - dot(jump(u, n), avg(grad(v)))
    boundary = sigma * u * v - dot(grad(u), n) * v - u * dot(grad(v), n)
    form = inner(grad(u), grad(v)) * dx(degree=q) + inside * dS(degree=q) + boundary * ds(degree=q)
    return Action(form, lambda h: [10.0 * degree**2 / h])


def p_laplace(degree: int) -> Action:
    """Return the derivative of a p-Laplace operator, p = 3 and regularized, at a state."""
    V = _space(basix.ufl.element("Lagrange", HEXAHEDRON, degree))
    w, u, v = ufl.Coefficient(V), ufl.Coefficient(V), ufl.TestFunction(V)
    residual = ufl.sqrt(0.01 + inner(grad(w), grad(w))) * inner(grad(w), grad(v)) * dx(degree=2 * degree + 1)
    return Action(ufl.derivative(residual, w, u))


def stokes(degree: int) -> Action:
    """Return Stokes' operator with pressures of one degree less."""
    velocity = basix.ufl.element("Lagrange", HEXAHEDRON, degree, shape=(3,))
    pressure = basix.ufl.element("Lagrange", HEXAHEDRON, degree - 1)
    W = _space(basix.ufl.mixed_element([velocity, pressure]))
    (u, p), (v, q) = ufl.split(ufl.Coefficient(W)), ufl.TestFunctions(W)
    return Action((inner(grad(u), grad(v)) - div(v) * p - q * div(u)) * dx(degree=2 * degree + 1))


FORMS: dict[str, Callable[[int], Action]] = {
    "laplace": laplace,
    "sipg": sipg,
    "p_laplace": p_laplace,
    "stokes": stokes,
}


# --- measurement


def deform(mesh: Mesh) -> Mesh:
    """Return the mesh of the unit cube after a smooth map of its points; no cell stays a parallelepiped."""
    x, y, z = mesh.points.T
    bump = np.sin(2.5 * x + 0.3) * np.sin(2.2 * y + 0.5) * np.sin(1.9 * z + 0.7)
    return replace(mesh, points=mesh.points + 0.08 * bump[:, None] * np.array([1.0, -0.7, 0.5]))


def choose_cells(form: str, degree: int, n_dofs: int) -> int:
    """Return the number of cells in each direction for about so many dofs."""
    per_cell = {"sipg": (degree + 1) ** 3, "stokes": 3 * degree**3 + (degree - 1) ** 3}.get(form, degree**3)
    return max(1, round((n_dofs / per_cell) ** (1 / 3)))


def count_flops(kernels: Sequence[Any], mesh: Mesh) -> int:
    """Return the operations of kernels on all entities of a mesh."""
    total = 0
    for kernel in kernels:
        entities = select_entities(mesh, kernel.integral_type, kernel.subdomain_ids).at(kernel.positions)
        total += len(entities.cells) * kernel.operations // kernel.lanes
    return total


def time_products(operator: Operator, vectors: Sequence[Any]) -> tuple[float, float]:
    """Return the least and the median processor time of a product."""
    out = np.zeros(operator.arguments[0].n_dofs)
    times: list[float] = []
    while len(times) < LEAST_PRODUCTS or sum(times) < SECONDS:
        start = time.process_time()
        operator.vector(vectors, out)
        times.append(time.process_time() - start)
    return min(times), statistics.median(times)


def measure(name: str, geometry: str, degree: int, n_dofs: int, timer: Timer) -> Row:
    """Return the row of a form, a geometry and a degree."""
    start = time.perf_counter()
    n = choose_cells(name, degree, n_dofs)
    mesh = box_mesh(HEXAHEDRON, [n] * 3, [0.0] * 3, [1.0] * 3)
    mesh = deform(mesh) if geometry == "deformed" else mesh
    action = FORMS[name](degree)
    dofmap = make_dofmap(action.form.arguments()[0].ufl_function_space().ufl_element(), mesh)
    setup = time.perf_counter()
    compiled = formcompiler.compile_form(action.form, vectorize="cells", geometry=GEOMETRIES[geometry])
    kernels = place_kernels(compiled.kernels, mesh)
    built = time.perf_counter()
    coefficients = [dofmap] * len(action.form.coefficients())
    constants = action.constants(1.0 / n)
    operator = Operator(kernels, mesh, arguments=[dofmap], coefficients=coefficients, constants=constants)
    rng = np.random.default_rng(0)
    vectors = [rng.standard_normal(dofmap.n_dofs) for _ in coefficients]
    operator.vector(vectors)
    ready = time.perf_counter()
    peaks = [timer.peak()]
    least, median = time_products(operator, vectors)
    peaks.append(timer.peak())
    peak, peer, rate = max(peaks), PEERS[name, geometry][degree], dofmap.n_dofs / least / 1e6
    return Row(
        name,
        geometry,
        degree,
        mesh.n_cells,
        dofmap.n_dofs,
        rate,
        dofmap.n_dofs / median / 1e6,
        count_flops(kernels, mesh) / least / 1e9,
        peak,
        rate / peak,
        peer,
        peer / PEER_PEAK_GFLOPS,
        setup - start + ready - built,
        built - setup,
    )


# --- the run


def choose_rows(form: str | None, degrees: Iterable[int] | None, *, quick: bool) -> list[tuple[str, str, int]]:
    """Return form, geometry and degree of all rows of a run."""
    rows = [(name, geometry, degree) for (name, geometry), numbers in PEERS.items() for degree in numbers]
    if quick:
        rows = [row for row in rows if row[0] == "laplace" and row[2] in (2, 3, 4)]
    wanted = None if degrees is None else set(degrees)
    return [row for row in rows if form in (None, row[0]) and (wanted is None or row[2] in wanted)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, and write the rows if asked."""
    parser = argparse.ArgumentParser(description="Dofs per second of whole operators on one core.")
    parser.add_argument("--quick", action="store_true", help="Laplace of degrees 2 to 4 on smaller meshes")
    parser.add_argument("--form", choices=FORMS, help="one form only")
    parser.add_argument("--degree", type=int, action="append", help="these degrees only; may be repeated")
    parser.add_argument("--dofs", type=int, help="size of the vectors; 2 000 000 if not given, 300 000 with --quick")
    parser.add_argument("--json", metavar="FILE", help="write the rows to a file")
    settings = parser.parse_args(arguments)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    n_dofs = settings.dofs or (300_000 if settings.quick else 2_000_000)
    timer, rows = Timer(), []
    print(HEADER)
    for name, geometry, degree in choose_rows(settings.form, settings.degree, quick=settings.quick):
        rows.append(measure(name, geometry, degree, n_dofs, timer))
        _print(rows[-1])
        if settings.json:
            with open(settings.json, "w") as file:
                json.dump([asdict(row) for row in rows], file, indent=1)
    return 0


def _print(row: Row) -> None:
    print(
        f"{row.form:10}{row.geometry:14}{row.degree:2}{row.n_dofs:9}{row.mdofs_per_second:8.1f}"
        f"{row.median_mdofs_per_second:7.1f}{row.gflops:9.1f}{row.peak_gflops:7.1f}{row.mdofs_per_gflop:13.2f}"
        f"{row.peer_mdofs:7.0f}{row.mdofs_per_gflop / row.peer_mdofs_per_gflop:8.2f}",
        flush=True,
    )
