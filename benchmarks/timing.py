"""Times single kernels, ours and those of FFCx, on data in cache, and the peak of one core in the same minute."""

from __future__ import annotations

import ctypes
import math
import statistics
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from formcompiler.elements import cells
from formcompiler.runtime.compiler import build_library, simd_width

REPETITIONS = 9
SECONDS = 2e-3
"""Least time of one repetition."""

_LINE = 8
"""Numbers in a cache line."""

MAX_ROUNDS = 4
MAX_SPREAD = 1.05
"""Quotient of the quartiles of a quiet round."""


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
