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
import ctypes
import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import basix.ufl
import numpy as np
import ufl
from ufl import avg, div, dS, ds, dx, grad, inner, jump, sym

import formcompiler
from formcompiler.elements import cells
from formcompiler.errors import VectorizationError
from formcompiler.runtime.compiler import build_library, simd_width
from formcompiler.vectorize.cost import estimate_cycles

HEXAHEDRON = "hexahedron"
REPETITIONS = 9
SECONDS = 2e-3
"""Least time of one repetition."""

_LINE = 8
"""Numbers in a cache line."""

PASSES = 4
"""Times that all kernels are measured: on a shared machine, slow phases last for seconds."""

MAX_ROUNDS = 4
MAX_SPREAD = 1.05
"""Quotient of the quartiles of a quiet round."""


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


# --- timing

_TIMER = """
#include <chrono>
#include <cstdint>

namespace {
template <class Call>
double seconds(std::int64_t n, Call call)
{
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < n; ++i) call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
}

using Ours = void (*)(double*, const double* const*, const double* const*, const double*, const int*,
                      const unsigned char*);
using Flat = void (*)(double*, const double*, const double*, const double*, const int*, const unsigned char*, void*);

extern "C" double time_ours(Ours f, std::int64_t n, double* a, const double* const* w, const double* const* c,
                            const double* x, const int* facet, const unsigned char* p)
{
  return seconds(n, [&] { f(a, w, c, x, facet, p); });
}

extern "C" double time_flat(Flat f, std::int64_t n, double* a, const double* w, const double* c, const double* x,
                            const int* facet, const unsigned char* p)
{
  return seconds(n, [&] { f(a, w, c, x, facet, p, nullptr); });
}

extern "C" double time_multiply_adds(std::int64_t n, double* values)
{
  using Lanes = double __attribute__((vector_size(%(bytes)d)));
  Lanes m = values[0] - Lanes{}, s = values[1] - Lanes{};
  %(declare)s
  const double t = seconds(n, [&] {
    %(update)s
  });
  for (int lane = 0; lane < %(lanes)d; ++lane) values[2] += (%(total)s)[lane];
  return t;
}
"""
_CHAINS = 12
"""Independent chains of multiply-adds: enough to hide their latency, few enough for 16 registers."""


def quiet_median(measure_once: Callable[[], float]) -> float:
    """Return the median of several measurements, of those rounds whose machine was quiet: the lowest one.

    Other processes on the machine can only add time. A round counts as quiet if its quartiles are close.
    """
    medians = []
    for _ in range(MAX_ROUNDS):
        lower, median, upper = statistics.quantiles((measure_once() for _ in range(REPETITIONS)), n=4)
        medians.append(median)
        if upper < MAX_SPREAD * lower and len(medians) > 1 and median < MAX_SPREAD * min(medians):
            break
    return min(medians)


class Timer:
    """Times C functions."""

    def __init__(self) -> None:
        self.lanes = simd_width() // 64
        names = [f"a{i}" for i in range(_CHAINS)]
        source = _TIMER % {
            "bytes": 8 * self.lanes,
            "lanes": self.lanes,
            "declare": "Lanes " + ", ".join(f"{a} = {i}.0 - Lanes{{}}" for i, a in enumerate(names)) + ";",
            "update": " ".join(f"{a} = {a} * m + s;" for a in names) + ' asm volatile("" : "+m"(*values));',
            "total": " + ".join(names),
        }
        self._library = ctypes.CDLL(str(build_library(source, name="kernel-timer")))
        self._keep: list[Any] = []

    def peak(self) -> float:
        """Return billions of operations per second of fused multiply-adds."""
        values = np.array([0.999, 0.001, 0.0])
        n = 100_000
        function = self._function("time_multiply_adds")
        seconds = quiet_median(lambda: function(n, values.ctypes.data_as(ctypes.c_void_p)))
        return float(2e-9 * _CHAINS * self.lanes * n / seconds)

    def median(self, name: str, *arguments: Any) -> float:
        """Return the median time of one call of a kernel with these arguments."""
        function = self._function(name)
        address, *rest = arguments
        n = 1
        while function(ctypes.c_void_p(address), n, *rest) < SECONDS:
            n *= 2
        return quiet_median(lambda: function(ctypes.c_void_p(address), n, *rest)) / n

    def _function(self, name: str) -> Any:
        function = self._library[name]
        function.restype = ctypes.c_double
        first = [ctypes.c_int64] if name == "time_multiply_adds" else [ctypes.c_void_p, ctypes.c_int64]
        function.argtypes = first + [ctypes.c_void_p] * (1 if name == "time_multiply_adds" else 6)
        return function


class Data:
    """Arrays that a kernel of a form works on: equal distorted cells, random values.

    Attributes:
        facet: Local facet numbers, and permutations of 0.
    """

    def __init__(self, form: Any, kind: str, lanes: int) -> None:
        rng = np.random.default_rng(0)
        self.sides = 2 if kind == "interior_facet" else 1
        cell = form.ufl_domains()[0].ufl_cell().cellname
        corner = cells.vertices(cell)
        corner = corner + 0.05 * rng.standard_normal(corner.shape)
        corners = [corner, corner + np.eye(corner.shape[1])[0]] if self.sides == 2 else [corner]
        self.coordinates = aligned(np.repeat(np.stack(corners).ravel(), lanes))
        sizes = [f.ufl_function_space().ufl_element().dim for f in form.coefficients()]
        self.coefficients = [aligned(0.1 * rng.standard_normal(self.sides * n * lanes)) for n in sizes]
        self.constants = [rng.uniform(1, 2, int(np.prod(c.ufl_shape, dtype=int))) for c in form.constants()]
        dims = [a.ufl_function_space().ufl_element().dim for a in form.arguments()]
        self.result = aligned(np.zeros(math.prod(self.sides * dim for dim in dims) * lanes))
        last = len(cells.facet_cells(cell)) - 2
        self.facet = np.array([last, 1], np.int32)
        self.permutation = np.zeros(2, np.uint8)


def aligned(values: Any) -> Any:
    """Return a copy that starts at a cache line, as the buffers of an engine do."""
    buffer = np.empty(values.size + _LINE)
    start = -(buffer.ctypes.data // 8) % _LINE
    copy = buffer[start : start + values.size]
    copy[:] = values
    return copy


def _address(array: Any) -> Any:
    return ctypes.c_void_p(array.ctypes.data)


def _pointers(arrays: Sequence[Any]) -> Any:
    return (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))


def ours(timer: Timer, form: Any, handle: Any) -> Callable[[], float]:
    """Return what measures the seconds of one call of our kernel."""
    data = Data(form, handle.integral_type, handle.lanes)
    w = _pointers([data.coefficients[i] for i in handle.coefficients])
    c = _pointers([data.constants[i] for i in handle.constants])
    arrays = (data.coordinates, data.facet, data.permutation)

    def measure_once() -> float:
        lists = (ctypes.cast(w, ctypes.c_void_p), ctypes.cast(c, ctypes.c_void_p))
        return timer.median("time_ours", handle.address, _address(data.result), *lists, *map(_address, arrays))

    return measure_once


def ffcx_kernels(timer: Timer, form: Any) -> dict[str, Callable[[], float]]:
    """Return what measures the seconds of one call of each of FFCx's kernels, by kind of entity."""
    import ffcx.codegeneration.jit

    flags = ["-O3", "-march=native", "-ffast-math", "-w"]
    with tempfile.TemporaryDirectory() as cache:
        forms, module, _ = ffcx.codegeneration.jit.compile_forms(
            [form], cffi_extra_compile_args=flags, cache_dir=cache, timeout=600
        )
    result = {}
    for number, kind in enumerate(("cell", "exterior_facet", "interior_facet")):
        offsets = forms[0].form_integral_offsets
        for i in range(offsets[number], offsets[number + 1]):
            kernel = forms[0].form_integrals[i].tabulate_tensor_float64
            data = Data(form, kind, 1)
            w, c = (np.concatenate([*arrays, np.zeros(1)]) for arrays in (data.coefficients, data.constants))
            arrays = (data.result, w, c, data.coordinates, data.facet, data.permutation)
            result[kind] = _flat(timer, int(module.ffi.cast("uintptr_t", kernel)), arrays, (forms, module))
    return result


def _flat(timer: Timer, address: int, arrays: Sequence[Any], owner: Any) -> Callable[[], float]:
    """Return what measures a kernel of FFCx; the owner has to live as long."""

    def measure_once(owner: Any = owner) -> float:
        return timer.median("time_flat", address, *map(_address, arrays))

    return measure_once


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
