"""Which lanes are fastest on this machine: whole operators are compiled and timed, and the verdict is kept.

A kernel alone tells little: in an operator it shares the memory with gather and scatter, and cells with facets. So what
is timed is the assembly of the form in the embedded engine, on a mesh whose data do not fit into the innermost caches.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from formcompiler import __version__
from formcompiler.elements.cells import TENSOR_CELLS, dimension
from formcompiler.errors import BuildError, FormCompilerError, VectorizationError
from formcompiler.options import Options
from formcompiler.progress import stage
from formcompiler.runtime.assembly import Operator
from formcompiler.runtime.compiler import (
    cache_directory,
    describe_processor,
    find_compiler,
    simd_width,
    write_atomically,
)
from formcompiler.runtime.mesh import Mesh, box_mesh
from formcompiler.runtime.spaces import make_dofmap, raise_degree
from formcompiler.vectorize.cost import estimate_cycles

_log = logging.getLogger(__name__)

N_DOFS = 60_000
"""Size of the operators that are timed, about."""

N_FINALISTS = 3
"""How many strategies are timed: those that the model likes best, each with its best number of lanes."""

REPETITIONS = 7
SECONDS = 0.02
"""Least time of one repetition."""

Compile = Callable[[Options], Any]


def autotune(form: Any, signature: str, options: Options, candidates: Sequence[Options], compile_with: Compile) -> Any:
    """Return the compiled form whose operator is fastest on this machine.

    Args:
        form: The form.
        signature: Its signature.
        options: What the user asked for.
        candidates: What to choose from.
        compile_with: Returns the `CompiledForm` of some options.
    """
    path = cache_directory() / "verdicts" / f"{_key(signature, options, candidates)}.json"
    kept = _read(path, candidates)
    if kept is not None:
        return compile_with(kept)
    with stage("autotune"):
        ranked = sorted(_possible(candidates, compile_with), key=estimate)
        seconds = _time(form, choose_finalists(ranked), options)
    if not seconds:
        return ranked[0]
    fastest = min(seconds, key=seconds.__getitem__)
    best = next(compiled for compiled in ranked if name(compiled.options) == fastest)
    _log.info("autotune: %s", ", ".join(f"{n} {1e6 * t:.1f} us" for n, t in seconds.items()))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps({"best": fastest, "seconds": seconds}, indent=1).encode())
    return best


def _possible(candidates: Sequence[Options], compile_with: Compile) -> Iterator[Any]:
    """Compile with all candidates that are legal for the form."""
    for candidate in candidates:
        try:
            yield compile_with(candidate)
        except VectorizationError as error:
            _log.info("%s is no candidate: %s", name(candidate), error)


def choose_finalists(ranked: Sequence[Any]) -> list[Any]:
    """Return those of the compiled forms that are timed, the one that the model likes best first.

    Of each strategy it is the first one: with other numbers of lanes it differs by less than other strategies do.
    """
    first: dict[str, Any] = {}
    for compiled in ranked:
        first.setdefault(compiled.options.vectorize, compiled)
    return list(first.values())[:N_FINALISTS]


def estimate(compiled: Any) -> float:
    """Return the cost model's cycles of all kernels of a form, each for one cell or facet."""
    bits = simd_width()
    kernels = [(k.t_unit.default_entrypoint, k.method.lanes) for k in compiled.kernel_objects]
    return float(sum(estimate_cycles(kernel, bits) / lanes for kernel, lanes in kernels))


def name(options: Options) -> str:
    """Return the name of a candidate."""
    return f"{options.vectorize} {options.lanes}"


def _key(signature: str, options: Options, candidates: Sequence[Options]) -> str:
    compiler = find_compiler()
    parts = (__version__, signature, options.provenance(), *map(name, candidates), describe_processor(), repr(compiler))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _read(path: Path, candidates: Sequence[Options]) -> Options | None:
    """Return the candidate of a verdict; None if there is none, or it cannot be read."""
    try:
        best = json.loads(path.read_text(encoding="utf-8"))["best"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return next((candidate for candidate in candidates if name(candidate) == best), None)


def _time(form: Any, finalists: Sequence[Any], options: Options) -> dict[str, float]:
    """Return the least seconds of one assembly by candidate; nothing if the engine cannot assemble the form."""
    try:
        bench = _Bench(form, options)
        runs = {name(compiled.options): bench.prepare(compiled) for compiled in finalists}
    except BuildError:
        raise
    except FormCompilerError as error:
        _log.warning("vectorize=autotune: the cost model decides, for the embedded engine cannot time this: %s", error)
        return {}
    seconds = dict.fromkeys(runs, float("inf"))
    for _ in range(REPETITIONS):
        for candidate, run in runs.items():
            seconds[candidate] = min(seconds[candidate], _measure(run))
    return seconds


def _measure(run: Callable[[], Any]) -> float:
    n, start = 0, time.process_time()
    while n == 0 or time.process_time() - start < SECONDS:
        run()
        n += 1
    return (time.process_time() - start) / n


class _Bench:
    """A mesh, and random data for a form on it."""

    def __init__(self, form: Any, options: Options) -> None:
        self._rng = np.random.default_rng(0)
        self._form = form
        domain = form.ufl_domain()
        cell = domain.ufl_cell().cellname
        arguments = sorted(form.arguments(), key=lambda a: a.number())
        functions = [*arguments, *form.coefficients()]
        size = max((f.ufl_element().dim for f in functions), default=1)
        self._mesh = self._make_mesh(cell, max(64, N_DOFS // size), options.geometry, domain)
        self._arguments = [make_dofmap(a.ufl_element(), self._mesh) for a in arguments]
        self._coefficients = [make_dofmap(c.ufl_element(), self._mesh) for c in form.coefficients()]
        self._constants = [self._rng.uniform(1, 2, c.ufl_shape) for c in form.constants()]
        self._vectors = [self._rng.uniform(1, 2, dofmap.n_dofs) for dofmap in self._coefficients]

    def _make_mesh(self, cell: str, n_cells: int, geometry: str, domain: Any) -> Mesh:
        dim = dimension(cell)
        per_box = 1 if cell in TENSOR_CELLS else {2: 2, 3: 6}[dim]
        n = max(2, round((n_cells / per_box) ** (1 / dim)))
        mesh = box_mesh(cell, [n] * dim, [0.0] * dim, [1.0] * dim)
        points = np.pad(mesh.points, ((0, 0), (0, domain.geometric_dimension - dim)))
        mesh = dataclasses.replace(mesh, points=points)
        if geometry == "general":
            mesh = dataclasses.replace(mesh, points=mesh.points + 0.1 / n * self._rng.uniform(-1, 1, mesh.points.shape))
        return raise_degree(mesh, domain.ufl_coordinate_element().sub_elements[0])

    def prepare(self, compiled: Any) -> Callable[[], Any]:
        """Return what assembles a compiled form once."""
        operator = Operator(
            compiled.kernels,
            self._mesh,
            arguments=self._arguments,
            coefficients=self._coefficients,
            constants=self._constants,
        )
        if not self._arguments:
            return lambda: operator.number(self._vectors)
        if len(self._arguments) == 1:
            out = np.zeros(self._arguments[0].n_dofs)
            return lambda: operator.vector(self._vectors, out)
        return lambda: operator.matrix(self._vectors)
