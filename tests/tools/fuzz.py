"""Random forms under random options: compiled kernels against dense assembly, for as long as wanted.

usage: python fuzz.py [--seconds N] [--seed S] [--batch N]

Prints one line for each form that fails: its seed, what happened, its options and itself; `fuzz.py --seed S --batch 1
--seconds 0` repeats it. Exit status 1 if there was one.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ufl

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1] / "language")]

import basix.ufl  # noqa: E402
from checking import MANIFOLDS, build_together  # noqa: E402
from oracles.case import mesh, space  # noqa: E402
from oracles.random_forms import MEASURES, Grower  # noqa: E402

import formcompiler  # noqa: E402
from formcompiler import autotune  # noqa: E402
from formcompiler.elements.cells import TENSOR_CELLS, dimension  # noqa: E402
from formcompiler.errors import UnsupportedFormError, VectorizationError  # noqa: E402
from formcompiler.verify import tolerance, verify_compiled  # noqa: E402

CELLS = (
    *("interval", "triangle", "quadrilateral", "tetrahedron", "hexahedron", "quadrilateral", "hexahedron"),
    *("prism", "pyramid"),
)
SUM_FACTORIZATION = ("off", "auto", "auto", "on")
SCALAR_TYPES = ("float64", "float64", "float64", "float32", "complex128")
LICM = ("off", "cse", "nested", "general", "general")
CONSTFOLD = ("full", "full", "literals", "off")
VECTORIZE = (
    *("none", "none", "cells", "cells", "slices", "points", "halves", "halves", "quantities", "hybrid", "in_cell"),
    *("auto", "autotune"),
)
LANES = ("auto", "2", "4", "8", "16")
GEOMETRIES = ("general", "general", "affine", "axis_parallel")


@dataclass(frozen=True)
class Candidate:
    """A form with the options to compile it with."""

    seed: int
    form: Any
    options: dict[str, Any]

    def __str__(self) -> str:
        return f"seed {self.seed} {self.options} {self.form}"[:600]


def make_candidate(seed: int) -> Candidate | None:
    """Return the form of a seed, the same in every run; None if it happens to vanish or UFL cannot build it."""
    rng = np.random.default_rng([seed, 1])
    options = {
        "sum_factorization": str(rng.choice(SUM_FACTORIZATION)),
        "scalar_type": str(rng.choice(SCALAR_TYPES)),
        "licm": str(rng.choice(LICM)),
        "constfold": str(rng.choice(CONSTFOLD)),
    }
    if options["scalar_type"] in ("float64", "float32"):
        options |= {"vectorize": str(rng.choice(VECTORIZE)), "lanes": str(rng.choice(LANES))}
        if options["vectorize"] == "halves":
            options["lanes"] = "auto"
    domain = _random_mesh(rng)
    options["geometry"] = _random_geometry(rng, domain)
    limit = int(rng.integers(1, 4)) if rng.random() < 0.2 else None
    try:
        form = _random_form(rng, domain, options["scalar_type"].startswith("complex"), limit is not None)
    except (ValueError, UnsupportedFormError):
        return None
    if limit is not None:
        options["max_quadrature_degree"] = limit
    if form is not None and len(form.arguments()) == 2 and rng.random() < 0.2:
        spaces = {argument.ufl_function_space() for argument in form.arguments()}
        options["part"] = "diagonal" if len(spaces) == 1 else "full"
    return None if form is None or form.empty() else Candidate(seed, form, options)


def _random_mesh(rng: np.random.Generator) -> Any:
    if rng.random() < 0.1:
        return mesh(MANIFOLDS[rng.integers(len(MANIFOLDS))][0], 1 + int(rng.random() < 0.3), 3)
    cell = str(rng.choice(CELLS))
    curved = cell != "pyramid" and rng.random() < 0.15
    return mesh(cell, 2 if curved else 1)


def _random_geometry(rng: np.random.Generator, domain: Any) -> str:
    """Return what is known of the cells of a mesh: something that can be true."""
    cell, geometry = domain.ufl_cell().cellname, str(rng.choice(GEOMETRIES))
    fills = domain.geometric_dimension == domain.topological_dimension
    if domain.ufl_coordinate_element().degree > 1 or cell in ("prism", "pyramid"):
        return "general"
    return "affine" if geometry == "axis_parallel" and not (fills and cell in TENSOR_CELLS) else geometry


def _random_form(rng: np.random.Generator, domain: Any, is_complex: bool, estimates: bool) -> Any:
    kind = str(rng.choice(list(MEASURES)))
    dim = domain.topological_dimension
    degree = int(rng.integers(1, 4))
    measure = ufl.Measure(MEASURES[kind], domain, metadata={} if estimates else {"quadrature_degree": degree})
    grower = Grower(rng, domain)
    height = int(rng.integers(1, 4 if dim < 3 else 3))
    rank = int(rng.integers(3))
    if rank == 0 or (not is_complex and rng.random() < 0.5):
        form = grower.integrand(kind, height + 1) * measure
        for _ in range(rank):
            if form.empty() or not form.coefficients():
                return None
            form = ufl.derivative(form, form.coefficients()[rng.integers(len(form.coefficients()))])
        return form
    return _with_arguments(rng, domain, grower, kind, height, rank) * measure


def _with_arguments(rng: Any, domain: Any, grower: Grower, kind: str, height: int, rank: int) -> Any:
    """Return an integrand that is linear in arguments of random, also mixed, spaces."""
    gdim = domain.geometric_dimension
    degree = int(rng.integers(1, 4 if gdim == 1 else 3))
    cell = domain.ufl_cell().cellname
    vector = basix.ufl.element("Lagrange", cell, 1, shape=(gdim,))
    choices = [
        space(domain, "Lagrange", degree),
        space(domain, "DG", degree),
        ufl.FunctionSpace(domain, vector),
        ufl.FunctionSpace(domain, basix.ufl.mixed_element([vector, basix.ufl.element("Lagrange", cell, 1)])),
    ]
    arguments = [ufl.Argument(choices[rng.integers(4 if dimension(cell) < 3 else 2)], n) for n in range(rank)]
    parts = [_operators(rng, a, kind) for a in arguments]
    s, m = grower.scalar(height), grower.matrix(height - 1)
    if kind == "interior_facet":
        s, m = ufl.avg(s), m("+")
    if rank == 1:
        scalar, gradient = parts[0]
        return ufl.inner(s, scalar) + ufl.inner(ufl.dot(m, ufl.as_vector([s] * gdim)), gradient)
    (p, dp), (q, dq) = parts
    return s * ufl.inner(q, p) + ufl.inner(ufl.dot(m, dq), dp) + ufl.inner(s * dq[0], p)


def _operators(rng: Any, argument: Any, kind: str) -> tuple[Any, Any]:
    """Return a scalar and a vector that are linear in an argument."""
    flat = argument if not argument.ufl_shape else argument[int(rng.integers(argument.ufl_shape[0]))]
    if argument.ufl_shape and rng.random() < 0.3:
        flat = sum(argument[i].dx(0) for i in range(argument.ufl_shape[0]))
    gradient = ufl.grad(argument if not argument.ufl_shape else argument[0])
    if kind == "interior_facet":
        return (ufl.jump(flat), ufl.avg(gradient)) if rng.random() < 0.5 else (flat("-"), gradient("+"))
    return flat, gradient


def run_batch(candidates: list[Candidate], counts: Counter[str]) -> list[str]:
    """Compile and compare some forms that share one library; return one line for each failure."""
    autotune.N_DOFS, autotune.SECONDS = 300, 1e-4  # what is chosen does not matter here
    failures, compiled = [], []
    for candidate in candidates:
        try:
            compiled.append((candidate, formcompiler.compile_form(candidate.form, **candidate.options)))
        except (UnsupportedFormError, VectorizationError) as refusal:
            counts["refused: " + str(refusal)[:50]] += 1
        except Exception as error:
            failures.append(f"{type(error).__name__} {str(error)[:200]} {candidate}")
    build_together([form for _, form in compiled])
    for candidate, form in compiled:
        for integral, difference in verify_compiled(form, candidate.seed):
            counts["not comparable" if np.isnan(difference) else "compared"] += 1
            if difference > tolerance(candidate.options["scalar_type"]):
                failures.append(f"differs by {difference:.1e} over {integral.integral_type} {candidate}")
    counts["failed"] += len(failures)
    return failures


def main(arguments: list[str] | None = None) -> int:
    """Compare random forms until the time is over and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=20)
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    start, seed, counts = time.monotonic(), chosen.seed, Counter[str]()
    while True:
        candidates = [c for c in map(make_candidate, range(seed, seed + chosen.batch)) if c is not None]
        for line in run_batch(candidates, counts):
            print(line, flush=True)
        seed += chosen.batch
        if time.monotonic() - start > chosen.seconds:
            break
    print(f"seeds {chosen.seed} to {seed - 1}: {dict(counts)}")
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
