"""Cells per second of kernels in cache, next to FFCx's kernels for the same forms, on one core.

    python benchmarks/kernels.py [--quick] [--json FILE]

Each kernel runs on one batch of cells again and again, so that its data stay in the caches: what is measured is the
kernel, not the memory. Times are medians over repetitions, the least of several passes over all kernels, since other
processes on the machine can only add time. The peak is that of independent fused multiply-adds on the
widest registers, measured in the same run. Operations are those of the kernel's own arithmetic, as counted by
`count_operations`: a kernel that saves multiplications gets no credit for those it saved. FFCx's kernels are built with
``-O3 -march=native -ffast-math``, ours with the flags of the embedded engine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import basix.ufl
import ufl
from timing import Timer, ffcx_kernels, ours
from ufl import avg, div, dS, ds, dx, grad, inner, jump, sym

import formcompiler
from formcompiler.errors import VectorizationError
from formcompiler.runtime.compiler import simd_width
from formcompiler.vectorize.cost import estimate_cycles

HEXAHEDRON = "hexahedron"
PASSES = 4
"""Times that all kernels are measured: on a shared machine, slow phases last for seconds."""


@dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
        form: Name of the form.
        cell: Name of the cell.
        degree: Degree of the space.
        kind: Kind of entity.
        strategy: What the lanes are.
        lanes: Number of lanes.
        cells_per_second: Cells (facets, for facet kernels) per second.
        gflops: Billions of operations per second.
        peak_gflops: What fused multiply-adds reach.
        fraction_of_peak: Their quotient.
        speedup_over_ffcx: Cells per second over those of FFCx's kernel; None if it was not measured.
        predicted_rank: Place of the strategy in the prediction of the cost model, 1 for the fastest.
    """

    form: str
    cell: str
    degree: int
    kind: str
    strategy: str
    lanes: int
    cells_per_second: float
    gflops: float
    peak_gflops: float
    fraction_of_peak: float
    speedup_over_ffcx: float | None
    predicted_rank: int


# --- forms


def _space(degree: int, family: str = "Lagrange", shape: tuple[int, ...] | None = None) -> Any:
    domain = ufl.Mesh(basix.ufl.element("Lagrange", HEXAHEDRON, 1, shape=(3,)))
    return ufl.FunctionSpace(domain, basix.ufl.element(family, HEXAHEDRON, degree, shape=shape))


def laplace(degree: int) -> Any:
    """Return the action of the Laplace operator."""
    V = _space(degree)
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    return inner(grad(u), grad(v)) * dx(degree=2 * degree + 1)


def mass(degree: int) -> Any:
    """Return the action of the mass matrix."""
    V = _space(degree)
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    return inner(u, v) * dx(degree=2 * degree + 1)


def interior_penalty(degree: int) -> Any:
    """Return the facet terms of the symmetric interior penalty method, interior and exterior."""
    V = _space(degree, "DG")
    u, v, n = ufl.Coefficient(V), ufl.TestFunction(V), ufl.FacetNormal(V.ufl_domain())
    sigma = ufl.Constant(V.ufl_domain())
    inside, outside = dS(degree=2 * degree + 1), ds(degree=2 * degree + 1)
    jumps = (
        sigma("+") * jump(u) * jump(v) - inner(avg(grad(u)), n("+")) * jump(v) - jump(u) * inner(avg(grad(v)), n("+"))
    )
    traces = sigma * u * v - inner(grad(u), n) * v - u * inner(grad(v), n)
    return jumps * inside + traces * outside


def elasticity(degree: int) -> Any:
    """Return the action of linear elasticity."""
    V = _space(degree, shape=(3,))
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    mu, lame = ufl.Constant(V.ufl_domain()), ufl.Constant(V.ufl_domain())
    stress = 2 * mu * sym(grad(u)) + lame * div(u) * ufl.Identity(3)
    return inner(stress, sym(grad(v))) * dx(degree=2 * degree + 1)


def stokes(degree: int) -> Any:
    """Return the action of Stokes' operator with velocities of this degree, pressures of one less."""
    domain = ufl.Mesh(basix.ufl.element("Lagrange", HEXAHEDRON, 1, shape=(3,)))
    velocity = basix.ufl.element("Lagrange", HEXAHEDRON, degree, shape=(3,))
    pressure = basix.ufl.element("Lagrange", HEXAHEDRON, degree - 1)
    W = ufl.FunctionSpace(domain, basix.ufl.mixed_element([velocity, pressure]))
    (u, p), (v, q) = ufl.split(ufl.Coefficient(W)), ufl.TestFunctions(W)
    return (inner(grad(u), grad(v)) - div(v) * p - q * div(u)) * dx(degree=2 * degree + 1)


FORMS: dict[str, tuple[Callable[[int], Any], range]] = {
    "laplace": (laplace, range(1, 9)),
    "mass": (mass, range(1, 9)),
    "interior_penalty": (interior_penalty, range(1, 9)),
    "elasticity": (elasticity, range(1, 9)),
    "stokes": (stokes, range(2, 9)),
}
"""Forms and degrees of the full run."""

FFCX_MAX_DEGREE = {"laplace": 6, "mass": 6, "interior_penalty": 5, "elasticity": 4, "stokes": 4}
"""FFCx's kernels of higher degrees take minutes to compile."""

STRATEGIES = ("none", "points", "slices", "halves", "quantities", "hybrid", "cells")
"""What the lanes are; strategies that refuse a kernel have no row."""


TOLERATED_LOSS = 0.1
"""How much slower than the fastest kernel the one that the cost model chooses may be."""

HEADER = "form             kind             k lanes are   W  Mcells/s  GFLOP/s of peak    FFCx  model"


# --- the run


@dataclass
class Candidate:
    """A kernel that is measured several times.

    Attributes:
        name: Name of the form.
        degree: Degree of the space.
        strategy: What the lanes are.
        lanes: Number of lanes.
        handle: The kernel.
        operations: Operations of one call.
        predicted: Cycles of one cell in the cost model.
        measure: Measures one call.
        measure_ffcx: Measures FFCx's kernel.
        seconds: Least median so far.
        seconds_ffcx: That of FFCx.
    """

    name: str
    degree: int
    strategy: str
    lanes: int
    handle: Any
    operations: int
    predicted: float
    measure: Callable[[], float]
    measure_ffcx: Callable[[], float] | None
    seconds: float = float("inf")
    seconds_ffcx: float = float("inf")

    def run(self) -> None:
        """Measure once more."""
        self.seconds = min(self.seconds, self.measure())
        if self.measure_ffcx is not None:
            self.seconds_ffcx = min(self.seconds_ffcx, self.measure_ffcx())

    def row(self, peak: float, others: Sequence[Candidate]) -> Row:
        """Return the result, ranked among other strategies for the same kernel."""
        rivals = [o for o in others if o.key == self.key]
        cells_per_call, gflops = self.handle.lanes, self.operations / self.seconds / 1e9
        return Row(
            self.name,
            HEXAHEDRON,
            self.degree,
            self.handle.integral_type,
            self.strategy,
            self.lanes,
            cells_per_call / self.seconds,
            gflops,
            peak,
            gflops / peak,
            cells_per_call * self.seconds_ffcx / self.seconds if self.measure_ffcx is not None else None,
            1 + sum(o.predicted < self.predicted for o in rivals),
        )

    @property
    def key(self) -> tuple[str, int, str]:
        """Return what tells one kernel from another, but for its lanes."""
        return (self.name, self.degree, self.handle.integral_type)


def build_candidates(name: str, degree: int, timer: Timer, *, with_ffcx: bool) -> list[Candidate]:
    """Return the kernels of one form and degree: each kind of entity, each strategy."""
    form = FORMS[name][0](degree)
    theirs = ffcx_kernels(timer, form) if with_ffcx else {}
    result = []
    for strategy in STRATEGIES:
        try:
            compiled = formcompiler.compile_form(form, vectorize=strategy)
        except VectorizationError:
            continue
        for handle, info, kernel in zip(compiled.kernels, compiled.integrals, compiled.kernel_objects, strict=True):
            measures = (ours(timer, form, handle), theirs.get(handle.integral_type))
            lanes = 1 if strategy == "none" else timer.lanes
            predicted = estimate_cycles(kernel.t_unit.default_entrypoint, simd_width()) / handle.lanes
            result.append(Candidate(name, degree, strategy, lanes, handle, info.flops, predicted, *measures))
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, and write the rows if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="Laplace action only, degrees 3 and 5")
    parser.add_argument("--form", choices=FORMS, help="one form only")
    parser.add_argument("--degrees", type=int, nargs="+", metavar="K", help="these degrees only")
    parser.add_argument("--no-ffcx", action="store_true", help="do not measure FFCx")
    parser.add_argument("--json", metavar="FILE", help="write the rows to a file")
    settings = parser.parse_args(arguments)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    timer = Timer()
    candidates = []
    for name, (_, degrees) in FORMS.items():
        if settings.form not in (None, name) or (settings.quick and name != "laplace"):
            continue
        for degree in (3, 5) if settings.quick else settings.degrees or degrees:
            if degree not in degrees:
                continue
            with_ffcx = not settings.no_ffcx and degree <= FFCX_MAX_DEGREE[name]
            candidates += build_candidates(name, degree, timer, with_ffcx=with_ffcx)
            print(f"compiled {name} of degree {degree}", file=sys.stderr, flush=True)
    peak = 0.0
    for _ in range(PASSES):
        for candidate in candidates:
            peak = max(peak, timer.peak())
            candidate.run()
    rows = [candidate.row(peak, candidates) for candidate in candidates]
    print(HEADER)
    for row in rows:
        _print(row)
    print("\n".join(summarize(rows)))
    if settings.json:
        with open(settings.json, "w") as file:
            json.dump([asdict(row) for row in rows], file, indent=1)
    return 0


def summarize(rows: Sequence[Row]) -> list[str]:
    """Return how good the cost model's choices are among the strategies for one cell at a time, as lines of text.

    A choice is good if the kernel takes at most 10 % longer than the fastest one.
    """
    rivals: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        if row.strategy != "cells":
            rivals.setdefault((row.form, row.kind, row.degree), []).append(row)
    lines, n_good = [], 0
    for (form, kind, degree), found in rivals.items():
        chosen = min(found, key=lambda row: row.predicted_rank)
        best = max(found, key=lambda row: row.cells_per_second)
        loss = best.cells_per_second / chosen.cells_per_second - 1
        n_good += loss <= TOLERATED_LOSS
        if loss > TOLERATED_LOSS:
            lines.append(
                f"{form} {kind} {degree}: the model chooses {chosen.strategy}, {best.strategy} is {loss:.0%} faster"
            )
    return [*lines, f"the model's choice is within {TOLERATED_LOSS:.0%} in {n_good} of {len(rivals)} cases"]


def _print(row: Row) -> None:
    speedup = "" if row.speedup_over_ffcx is None else f"{row.speedup_over_ffcx:.1f}x"
    print(
        f"{row.form:17}{row.kind:16}{row.degree:2} {row.strategy:10} {row.lanes:2}{row.cells_per_second / 1e6:10.3f}"
        f"{row.gflops:9.1f}{row.fraction_of_peak:8.0%}{speedup:>8}"
        f"{row.predicted_rank:7}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
