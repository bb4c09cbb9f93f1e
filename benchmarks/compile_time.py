"""Seconds from a form to C++ text, next to FFCx on the same forms in the same run.

    python benchmarks/compile_time.py [--quick] [--repeats N] [--json FILE]

Both compilers are imported before the clock starts, caches are not used, and the median of several repeats is shown.
The last column is the share of the pass `licm` in our time.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import basix.ufl
import ffcx.compiler
import ffcx.options
import ufl
from ufl import (
    Coefficient,
    Constant,
    FunctionSpace,
    Identity,
    Mesh,
    TestFunction,
    TestFunctions,
    derivative,
    det,
    div,
    dot,
    dx,
    grad,
    inner,
    ln,
    split,
    sqrt,
    sym,
    tr,
)

import formcompiler
from formcompiler.progress import record_stages

DIMENSIONS = {"triangle": 2, "quadrilateral": 2, "tetrahedron": 3, "hexahedron": 3}


def _mesh(cell: str) -> Any:
    return Mesh(basix.ufl.element("Lagrange", cell, 1, shape=(DIMENSIONS[cell],)))


def _lagrange(cell: str, degree: int, shape: tuple[int, ...] | None = None) -> Any:
    return basix.ufl.element("Lagrange", cell, degree, shape=shape)


def _with_jacobian(residual: Any, unknown: Any) -> list[Any]:
    return [residual, derivative(residual, unknown)]


def poisson(cell: str, degree: int) -> list[Any]:
    """Return the Poisson equation with a source."""
    V = FunctionSpace(_mesh(cell), _lagrange(cell, degree))
    u, f, v = Coefficient(V), Coefficient(V), TestFunction(V)
    return _with_jacobian(inner(grad(u), grad(v)) * dx(degree=2 * degree) - f * v * dx(degree=2 * degree), u)


def neo_hooke(cell: str, degree: int) -> list[Any]:
    """Return compressible neo-Hookean elasticity."""
    domain, d = _mesh(cell), DIMENSIONS[cell]
    V = FunctionSpace(domain, _lagrange(cell, degree, (d,)))
    u, v = Coefficient(V), TestFunction(V)
    mu, lam = Constant(domain), Constant(domain)
    F = Identity(d) + grad(u)
    J = det(F)
    energy = mu / 2 * (inner(F, F) - d) - mu * ln(J) + lam / 2 * ln(J) ** 2
    return _with_jacobian(derivative(energy * dx(degree=2 * degree), u, v), u)


def cahn_hilliard(cell: str) -> list[Any]:
    """Return one step of the Cahn-Hilliard equation in mixed form."""
    domain = _mesh(cell)
    W = FunctionSpace(domain, basix.ufl.mixed_element([_lagrange(cell, 1), _lagrange(cell, 1)]))
    u, u0 = Coefficient(W), Coefficient(W)
    (c, m), (c0, _) = split(u), split(u0)
    q, v = TestFunctions(W)
    lam, dt = Constant(domain), Constant(domain)
    c = ufl.variable(c)
    potential = 100 * c**2 * (1 - c) ** 2
    first = c * q * dx - c0 * q * dx + dt * dot(grad(m), grad(q)) * dx
    second = m * v * dx - ufl.diff(potential, c) * v * dx - lam * dot(grad(c), grad(v)) * dx
    return _with_jacobian(first + second, u)


def navier_stokes(cell: str) -> list[Any]:
    """Return the incompressible Navier-Stokes equations with SUPG and PSPG stabilization."""
    domain, d = _mesh(cell), DIMENSIONS[cell]
    W = FunctionSpace(domain, basix.ufl.mixed_element([_lagrange(cell, 1, (d,)), _lagrange(cell, 1)]))
    w = Coefficient(W)
    (u, p), (v, q) = split(w), TestFunctions(W)
    nu, h = Constant(domain), ufl.CellDiameter(domain)
    momentum = grad(u) * u + grad(p)
    tau = 1 / sqrt((2 * sqrt(dot(u, u)) / h) ** 2 + (4 * nu / h**2) ** 2)
    galerkin = (inner(grad(u) * u, v) + nu * inner(grad(u), grad(v)) - p * div(v) + q * div(u)) * dx(degree=4)
    stabilization = tau * inner(momentum, grad(v) * u + grad(q)) * dx(degree=4)
    return _with_jacobian(galerkin + stabilization, w)


def poroelasticity(cell: str) -> list[Any]:
    """Return three-field poroelasticity: displacement, flux, pressure."""
    domain, d = _mesh(cell), DIMENSIONS[cell]
    family = "RT" if cell in ("triangle", "tetrahedron") else {2: "RTCF", 3: "NCF"}[d]
    parts = [_lagrange(cell, 2, (d,)), basix.ufl.element(family, cell, 1), basix.ufl.element("DG", cell, 0)]
    W = FunctionSpace(domain, basix.ufl.mixed_element(parts))
    w, w0 = Coefficient(W), Coefficient(W)
    (u, z, p), (u0, _, p0), (v, y, q) = split(w), split(w0), TestFunctions(W)
    mu, lam, alpha, storage, dt, k = (Constant(domain) for _ in range(6))
    stress = 2 * mu * sym(grad(u)) + lam * tr(sym(grad(u))) * Identity(d) - alpha * p * Identity(d)
    balance = inner(stress, sym(grad(v))) * dx
    darcy = (inner(z, y) / k - p * div(y)) * dx
    mass = ((storage * (p - p0) + alpha * div(u - u0)) / dt + div(z)) * q * dx
    return _with_jacobian(balance + darcy + mass, w)


FORMS: dict[str, Callable[[], list[Any]]] = {
    "poisson P2 tetrahedron": lambda: poisson("tetrahedron", 2),
    "poisson Q2 hexahedron": lambda: poisson("hexahedron", 2),
    "neo-Hooke P2 tetrahedron": lambda: neo_hooke("tetrahedron", 2),
    "neo-Hooke Q2 hexahedron": lambda: neo_hooke("hexahedron", 2),
    "Cahn-Hilliard P1 triangle": lambda: cahn_hilliard("triangle"),
    "Navier-Stokes SUPG P1 tetrahedron": lambda: navier_stokes("tetrahedron"),
    "Navier-Stokes SUPG Q1 hexahedron": lambda: navier_stokes("hexahedron"),
    "poroelasticity tetrahedron": lambda: poroelasticity("tetrahedron"),
    "poroelasticity quadrilateral": lambda: poroelasticity("quadrilateral"),
}
QUICK = ("poisson Q2 hexahedron", "neo-Hooke P2 tetrahedron", "Cahn-Hilliard P1 triangle")


def _ours(form: Any) -> float:
    """Compile a form and return the seconds of the pass licm."""
    with record_stages() as times:
        formcompiler.compile_form(form)
    return sum(seconds for names, seconds in times.seconds.items() if names[-1] == "licm")


def _ffcx(form: Any) -> float:
    ffcx.compiler.compile_ufl_objects([form], ffcx.options.get_options({"verbosity": 50}), namespace="t")
    return 0.0


def _measure(
    compile_one: Callable[[Any], float], make: Callable[[], list[Any]], part: int, repeats: int
) -> tuple[float, float]:
    """Return the medians of the seconds that one form takes, and of the share of its pass licm in them.

    The form is made anew each time.
    """
    seconds, shares = [], []
    for _ in range(repeats):
        form = make()[part]
        start = time.perf_counter()
        in_pass = compile_one(form)
        seconds.append(time.perf_counter() - start)
        shares.append(in_pass / seconds[-1])
    return statistics.median(seconds), statistics.median(shares)


def rows(names: tuple[str, ...], repeats: int) -> Iterator[dict[str, Any]]:
    """Yield one row for each form and its Jacobian."""
    for name in names:
        for part, kind in enumerate(("residual", "jacobian")):
            seconds, share = _measure(_ours, FORMS[name], part, repeats)
            theirs, _ = _measure(_ffcx, FORMS[name], part, repeats)
            times = {"seconds": seconds, "ffcx": theirs, "ratio": seconds / theirs, "licm": share}
            yield {"form": name, "kind": kind, **times}


def main() -> None:
    """Print the table and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three forms only")
    parser.add_argument("--repeats", type=int, default=3, help="repeats of each measurement (default 3)")
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    settings = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print(f"{'form':36s} {'kind':9s} {'seconds':>8s} {'FFCx':>8s} {'ratio':>6s} {'licm':>5s}")
    for compile_one in (_ours, _ffcx):
        compile_one(poisson("triangle", 1)[0])  # what is imported on first use is not counted
    result = []
    for row in rows(QUICK if settings.quick else tuple(FORMS), settings.repeats):
        result.append(row)
        print(
            f"{row['form']:36s} {row['kind']:9s} {row['seconds']:8.3f} {row['ffcx']:8.3f} {row['ratio']:6.2f} "
            f"{row['licm']:5.0%}",
            flush=True,
        )
    print(
        f"median {statistics.median(r['seconds'] for r in result):.3f} s, FFCx "
        f"{statistics.median(r['ffcx'] for r in result):.3f} s, median ratio "
        f"{statistics.median(r['ratio'] for r in result):.2f}, longest {max(r['seconds'] for r in result):.2f} s"
    )
    shares = [r["licm"] for r in result]
    print(f"share of licm: median {statistics.median(shares):.0%}, largest {max(shares):.0%}")
    if settings.json:
        settings.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
