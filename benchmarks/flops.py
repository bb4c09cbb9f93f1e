"""Operations of our kernels beside those of TSFC and FFCx, form by form; or their times beside those of FFCx.

    python benchmarks/flops.py [--quick] [--time] [--json FILE] [--form NAME] [--cell NAME]

Each row is one kernel: plain loops under each mode of loop-invariant code motion, what the compiler chooses
(sum-factorized if possible), and the figures of ``tsfc_figures.json``: operations written in the source, counted by
running it with a counting number class, with TSFC 2026-08 and FFCx 0.11 on the forms that `make_form` builds. Those of
TSFC fit the rules of Xiao and Gimbutas on tetrahedra (11, 23, 44 points for degrees 4, 6, 8), so these are used here.

With ``--time`` each row has millions of cells (or facets) per second and core of kernels in cache: the fastest of
our strategies, with lanes or without; the fastest that takes one cell at a time; and FFCx's kernel, in the same run.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import basix.ufl
import ufl

from formcompiler import compile_form

FIGURES = Path(__file__).with_name("tsfc_figures.json")
MODES = ("off", "cse", "nested", "general")
COLUMNS = ("form", "cell", "degree", "rank", *MODES, "choice", "ffcx", "tsfc_coffee", "tsfc_spectral", "tsfc_best")
SPEEDS = ("form", "cell", "degree", "rank", "best", "scalar", "ffcx", "best/ffcx", "scalar/ffcx", "strategy")
TENSOR_CELLS = ("quadrilateral", "hexahedron")
PASSES = 3
"""Times that all kernels of a row are measured; the least time counts, for other processes can only add to it."""

VECTOR_FORMS = ("elasticity", "hyper_nh", "hyper_svk")


def lagrange(cell: str, degree: int, shape: tuple[int, ...] = ()) -> Any:
    """Return the Lagrange element of the figures: warped on products of intervals, equispaced on simplices."""
    warped = cell in TENSOR_CELLS
    variant = basix.LagrangeVariant.gll_warped if warped else basix.LagrangeVariant.equispaced
    return basix.ufl.element("Lagrange", cell, degree, lagrange_variant=variant, shape=shape)


def make_form(name: str, cell: str, degree: int, rank: str, quadrature_degree: int) -> Any:
    """Return one of the forms: rank "2" the matrix, "1" its action or the residual, "jvp" the Jacobian's action."""
    dim = {"triangle": 2, "quadrilateral": 2, "tetrahedron": 3, "hexahedron": 3}[cell]
    domain = ufl.Mesh(lagrange(cell, 1, (dim,)))
    if name == "stokes":
        element = basix.ufl.mixed_element([lagrange(cell, degree + 1, (dim,)), lagrange(cell, degree)])
    else:
        element = lagrange(cell, degree, (dim,) if name in VECTOR_FORMS else ())
    space = ufl.FunctionSpace(domain, element)
    degrees = {"quadrature_degree": quadrature_degree}
    rule = {"quadrature_rule": "xiao_gimbutas"} if cell == "tetrahedron" and quadrature_degree >= 4 else {}
    dx, dS = ufl.Measure("dx", domain, metadata=degrees | rule), ufl.Measure("dS", domain, metadata=degrees)
    v = ufl.TestFunction(space)
    if name in ("hyper_nh", "hyper_svk", "plaplace"):
        return _nonlinear(name, space, v, dim, rank, dx)
    u = ufl.TrialFunction(space)
    form = _linear(name, space, u, v, degree, dx, dS)
    return ufl.action(form, ufl.Coefficient(space)) if rank == "1" else form


def _linear(name: str, space: Any, u: Any, v: Any, degree: int, dx: Any, dS: Any) -> Any:
    inner, grad, div = ufl.inner, ufl.grad, ufl.div
    if name == "mass":
        return inner(u, v) * dx
    if name == "laplace":
        return inner(grad(u), grad(v)) * dx
    if name == "helmholtz":
        return inner(grad(u), grad(v)) * dx + inner(u, v) * dx
    if name == "laplace_coef":
        return inner(ufl.Coefficient(space) * grad(u), grad(v)) * dx
    if name == "elasticity":
        e = ufl.sym(grad(u))
        return inner(2.6 * e + 0.7 * ufl.tr(e) * ufl.Identity(len(u)), ufl.sym(grad(v))) * dx
    if name == "stokes":
        (velocity, p), (w, q) = ufl.split(u), ufl.split(v)
        return inner(grad(velocity), grad(w)) * dx - p * div(w) * dx - q * div(velocity) * dx
    if name == "sipg":
        n = ufl.FacetNormal(space.ufl_domain())
        jump, avg = ufl.jump, ufl.avg
        consistency = -inner(avg(grad(u)), jump(v, n)) - inner(jump(u, n), avg(grad(v)))
        return (consistency + 10.0 * degree**2 * jump(u) * jump(v)) * dS
    raise ValueError(name)


def _nonlinear(name: str, space: Any, v: Any, dim: int, rank: str, dx: Any) -> Any:
    w = ufl.Coefficient(space)
    if name == "plaplace":
        g = ufl.grad(w)
        residual = ufl.inner(ufl.sqrt(0.01 + ufl.inner(g, g)) * g, ufl.grad(v)) * dx
        jacobian = ufl.derivative(residual, w)
        return jacobian if rank == "2" else ufl.action(jacobian, ufl.Coefficient(space))
    strain = ufl.variable(ufl.Identity(dim) + ufl.grad(w))
    green = ufl.dot(strain.T, strain)
    if name == "hyper_nh":
        log = ufl.ln(ufl.det(strain))
        energy = 0.65 * (ufl.tr(green) - dim) - 1.3 * log + 0.35 * log**2
    else:
        e = 0.5 * (green - ufl.Identity(dim))
        energy = 0.35 * ufl.tr(e) ** 2 + 1.3 * ufl.inner(e, e)
    residual = ufl.inner(ufl.diff(energy, strain), ufl.grad(v)) * dx
    if rank == "1":
        return residual
    jacobian = ufl.derivative(residual, w)
    return jacobian if rank == "2" else ufl.action(jacobian, ufl.Coefficient(space))


def count(form: Any, **options: Any) -> int:
    """Return the operations of all kernels of a form."""
    return sum(i.flops for i in compile_form(form, **options).integrals)


def make_row(figure: dict[str, Any]) -> dict[str, Any]:
    """Return one row of the table."""
    form = make_form(*(figure[k] for k in ("form", "cell", "degree", "rank", "quadrature_degree")))
    flops = figure["flops"]
    row = {k: figure[k] for k in ("form", "cell", "degree", "rank")}
    row |= {mode: count(form, sum_factorization="off", licm=mode) for mode in MODES}
    is_tensor = figure["cell"] in TENSOR_CELLS
    row["choice"] = count(form, licm=MODES[-1]) if is_tensor else row[MODES[-1]]
    row |= {"ffcx": flops.get("ffcx"), "tsfc_coffee": flops.get("tsfc-coffee")}
    return row | {"tsfc_spectral": flops.get("tsfc-spectral"), "tsfc_best": figure["best"]}


def time_row(figure: dict[str, Any], timer: Any) -> dict[str, Any]:
    """Return the millions of cells per second of one form."""
    from timing import ffcx_kernels  # needs a C++ compiler, and FFCx

    form = make_form(*(figure[k] for k in ("form", "cell", "degree", "rank", "quadrature_degree")))
    (theirs,) = ffcx_kernels(timer, form).values()
    scalar, lanes = (_measurements(timer, form, names) for names in (("none", "in_cell"), ("cells",)))
    seconds = {"ffcx": [], **{name: [] for name in (*scalar, *lanes)}}
    for _ in range(PASSES):
        for name, measure in {"ffcx": theirs, **scalar, **lanes}.items():
            seconds[name].append(measure())
    speed = {name: 1e-6 / min(found) for name, found in seconds.items()}
    best = max((n for n in speed if n != "ffcx"), key=speed.__getitem__)
    row = {k: figure[k] for k in ("form", "cell", "degree", "rank")}
    row |= {"strategy": best, "best": speed[best], "scalar": max(speed[n] for n in scalar), "ffcx": speed["ffcx"]}
    return row | {"best/ffcx": row["best"] / row["ffcx"], "scalar/ffcx": row["scalar"] / row["ffcx"]}


def _measurements(timer: Any, form: Any, vectorizations: tuple[str, ...]) -> dict[str, Callable[[], float]]:
    """Return what measures the seconds of one cell of our kernels, by strategy."""
    from timing import ours

    result = {}
    is_tensor = form.ufl_domains()[0].ufl_cell().cellname in TENSOR_CELLS
    for vectorize in vectorizations:
        for licm in ("off", MODES[-1]):
            for factorize in ("auto", "off") if is_tensor else ("auto",):
                options = {"vectorize": vectorize, "licm": licm, "sum_factorization": factorize}
                compiled = compile_form(form, **options)
                (handle,) = compiled.kernels
                measure = ours(timer, form, handle)
                name = f"{vectorize}/{licm}/{'factorized' if compiled.integrals[0].factorized else 'plain'}"
                result[name] = lambda measure=measure, lanes=handle.lanes, owner=compiled: measure() / lanes
    return result


def print_speeds(rows: list[dict[str, Any]]) -> None:
    """Print the means of the quotients of speeds, and where FFCx is faster."""
    for name in ("best/ffcx", "scalar/ffcx"):
        values = [row[name] for row in rows]
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"{name}: mean {mean:.2f}, least {min(values):.2f}, {sum(v < 1 for v in values)} of {len(rows)} slower")


def is_small(figure: dict[str, Any]) -> bool:
    """Tell whether a row belongs to the quick run."""
    return bool(figure["degree"] <= (1 if figure["cell"] == "hexahedron" else 2))


def ratio(rows: list[dict[str, Any]], ours: str, theirs: str) -> str:
    """Return the geometric mean and the largest value of ours / theirs, and in how many rows ours is not more."""
    values = [row[ours] / row[theirs] for row in rows if row[theirs]]
    if not values:
        return "no figures"
    mean = math.exp(sum(map(math.log, values)) / len(values))
    return f"mean {mean:.2f}, largest {max(values):.2f}, {sum(v <= 1 for v in values)} of {len(values)} not more"


def print_summary(rows: list[dict[str, Any]]) -> None:
    """Print how our kernels compare by cell."""
    for cell in dict.fromkeys(row["cell"] for row in rows):
        mine = [row for row in rows if row["cell"] == cell]
        print(f"{cell}: plain loops against coffee: {ratio(mine, MODES[-1], 'tsfc_coffee')}")
        print(f"{cell}: choice against spectral: {ratio(mine, 'choice', 'tsfc_spectral')}")
        print(f"{cell}: choice against the best of TSFC: {ratio(mine, 'choice', 'tsfc_best')}")


def _make_timer() -> Any:
    from timing import Timer

    return Timer()


def _text(value: Any) -> str:
    """Return an entry of a table."""
    return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="low degrees only")
    parser.add_argument("--time", action="store_true", help="times beside those of FFCx, instead of operations")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    parser.add_argument("--form", help="this form only")
    parser.add_argument("--cell", help="this cell only")
    arguments = parser.parse_args()
    columns = SPEEDS if arguments.time else COLUMNS
    timer = _make_timer() if arguments.time else None
    rows = []
    print(*(f"{c:>13}" for c in columns))
    for figure in json.loads(FIGURES.read_text()):
        if arguments.form not in (None, figure["form"]) or arguments.cell not in (None, figure["cell"]):
            continue
        if not arguments.quick or is_small(figure):
            rows.append(time_row(figure, timer) if arguments.time else make_row(figure))
            print(*(f"{_text(rows[-1][c]):>13}" for c in columns), flush=True)
    (print_speeds if arguments.time else print_summary)(rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
