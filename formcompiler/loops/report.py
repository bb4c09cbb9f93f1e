"""What the analysis finds about a kernel, as data and as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import loopy as lp

from formcompiler.errors import TransformError
from formcompiler.loops.accesses import iteration_domain
from formcompiler.loops.dependence import Dependence, NestDependences, analyse, find_dependences
from formcompiler.loops.iteration_space import to_iteration_space
from formcompiler.loops.localization import find_broadcasts
from formcompiler.loops.parallelism import (
    find_doall_loops,
    find_lane_loops,
    find_outer_parallel_loops,
    has_doall_innermost,
    inner_parallel_level,
    is_shift_invariant,
)
from formcompiler.loops.program import to_kernel
from formcompiler.loops.unimodular import find_wavefront
from formcompiler.loops.vectors import format_vector


def describe_kernel(program: lp.LoopKernel | lp.TranslationUnit) -> dict[str, Any]:
    """Return what is found about a kernel, of types that JSON knows.

    Raises:
        TransformError: if the kernel cannot be analysed.
    """
    kernel = to_kernel(program)
    nests = analyse(kernel)
    inside = {(d.kind, d.source.key, d.sink.key) for nest in nests for d in nest.dependences}
    between = [d for d in find_dependences(kernel) if (d.kind, d.source.key, d.sink.key) not in inside]
    return {
        "kernel": kernel.name,
        "nests": [describe_nest(nest) for nest in nests],
        "dependences_between_nests": [_describe_dependence(d) for d in between],
    }


def describe_nest(nest: NestDependences) -> dict[str, Any]:
    """Return what is found about a nest, of types that JSON knows; levels count from 1."""
    lanes = find_lane_loops(nest)
    wavefront = None if any(loop.is_legal for loop in lanes) else find_wavefront(nest)
    return {
        "loops": list(nest.inames),
        "perfect": nest.nest.is_perfect,
        "band": list(nest.nest.band),
        "instructions": list(nest.nest.instructions),
        "iteration_space": _describe_space(nest),
        "dependences": [_describe_dependence(d) for d in nest.dependences],
        "matrix": [list(row) for row in nest.matrix.tolist()],
        "levels": list(nest.levels),
        "doall": list(find_doall_loops(nest)),
        "doall_innermost": has_doall_innermost(nest),
        "inner_parallel_level": inner_parallel_level(nest),
        "outer_parallel": list(find_outer_parallel_loops(nest)),
        "shift_invariant": is_shift_invariant(nest),
        "lanes": [
            {
                "loop": loop.iname,
                "legal": loop.is_legal,
                "privatize": list(loop.privatize),
                "blockers": [str(d) for d in loop.blockers],
            }
            for loop in lanes
        ],
        "broadcasts": [
            {"instruction": b.access.instruction, "reference": str(b.access), "missing": list(b.missing)}
            for b in find_broadcasts(nest)
        ],
        "wavefront": None if wavefront is None else wavefront.tolist(),
    }


def _describe_space(nest: NestDependences) -> dict[str, Any]:
    loops = nest.inames if nest.nest.is_perfect else nest.nest.band
    points = iteration_domain(nest.kernel, loops)
    try:
        space = to_iteration_space(points)
    except TransformError as error:
        return {"loops": list(loops), "set": str(points), "not_a_polyhedron": str(error)}
    return {
        "loops": list(loops),
        "set": str(points),
        "empty": points.is_empty(),
        "bounds": {iname: list(space.bounds(iname)) for iname in loops},
        "parameters": list(space.parameters),
        "P": space.lower_matrix.tolist(),
        "p0": space.lower.tolist(),
        "Q": space.upper_matrix.tolist(),
        "q0": space.upper.tolist(),
        "rectangular": space.is_rectangular,
        "regular": space.is_regular,
    }


def _describe_dependence(dependence: Dependence) -> dict[str, Any]:
    return {
        "kind": dependence.kind,
        "variable": dependence.variable,
        "source": dependence.source.instruction,
        "sink": dependence.sink.instruction,
        "references": [str(dependence.source), str(dependence.sink)],
        "loops": list(dependence.loops),
        "vectors": [list(vector) for vector in dependence.vectors],
        "levels": list(dependence.levels),
        "carriers": list(dependence.carriers),
        "exact": dependence.is_exact,
    }


def format_report(report: dict[str, Any]) -> str:
    """Return the result of `describe_kernel` as text."""
    lines = [f"kernel {report['kernel']}"]
    for nest in report["nests"]:
        lines += ["", *_format_nest(nest)]
    if report["dependences_between_nests"]:
        lines += ["", "between nests", *_format_dependences(report["dependences_between_nests"])]
    return "\n".join(lines)


def _format_nest(nest: dict[str, Any]) -> list[str]:
    lines = [f"nest ({', '.join(nest['loops'])}), {len(nest['instructions'])} instructions"]
    if not nest["perfect"]:
        lines.append(f"  common loops: {_names(nest['band'])}")
    lines += _format_space(nest["iteration_space"])
    lines += _format_dependences(nest["dependences"])
    lines += _format_matrix(nest)
    innermost = ", also by the last row of D" if nest["doall_innermost"] else ""
    lines += [
        f"  Doall loops: {_names(nest['doall'])}{innermost}",
        f"  outer parallel loops: {_names(nest['outer_parallel'])}",
        f"  inner parallelism from level: {_level(nest)}",
        f"  shift invariant: {_yes(nest['shift_invariant'])}",
    ]
    for lane in nest["lanes"]:
        lines += _format_lane(lane)
    for found in nest["broadcasts"]:
        lines.append(
            f"  broadcast: {found['reference']} in {found['instruction']} is the same along {_names(found['missing'])}"
        )
    if nest["wavefront"]:
        lines.append(f"  wavefront: U = {nest['wavefront']} makes inner loops parallel")
    return lines


def _format_space(space: dict[str, Any]) -> list[str]:
    if "bounds" not in space:
        return [f"  points: {space['set']}"]
    if space["empty"]:
        return ["  points: none, these loops never run"]
    bounds = ", ".join(f"{iname} = {low}..{high}" for iname, (low, high) in space["bounds"].items())
    shape = "rectangular" if space["rectangular"] else "regular" if space["regular"] else "not regular"
    return [f"  points: {bounds} ({shape})"]


def _format_dependences(dependences: Sequence[dict[str, Any]]) -> list[str]:
    if not dependences:
        return ["  no dependences"]
    lines = []
    for d in dependences:
        vectors = " ".join(format_vector(tuple(v)) for v in d["vectors"]) if d["loops"] else "-"
        carried = f"carried by {_names(d['carriers'])}" if d["carriers"] else "inside of an iteration"
        carried = carried if d["loops"] else "no common loop"
        unsure = "" if d["exact"] else ", perhaps"
        ends = f"{d['source']} -> {d['sink']}"
        lines.append(f"  {d['kind']:6} {d['variable']}: {ends}  {vectors}  {carried}{unsure}")
    return lines


def _format_matrix(nest: dict[str, Any]) -> list[str]:
    if not nest["levels"]:
        return []
    cells = [[str(entry) for entry in row] for row in nest["matrix"]]
    width = max(len(cell) for row in cells for cell in row)
    name_width = max(map(len, nest["loops"]))
    rows = [
        f"      {iname:{name_width}} [{' '.join(f'{c:>{width}}' for c in row)}]"
        for iname, row in zip(nest["loops"], cells, strict=True)
    ]
    return ["  D =", *rows, f"  levels: {', '.join(map(str, nest['levels']))}"]


def _format_lane(lane: dict[str, Any]) -> list[str]:
    if lane["legal"]:
        private = f" if {_names(lane['privatize'])} get a value per lane" if lane["privatize"] else ""
        return [f"  lanes along {lane['loop']}: yes{private}"]
    more = f" (and {len(lane['blockers']) - 1} more)" if len(lane["blockers"]) > 1 else ""
    return [f"  lanes along {lane['loop']}: no, {lane['blockers'][0]}{more}"]


def _level(nest: dict[str, Any]) -> str:
    level = nest["inner_parallel_level"]
    return str(level) if level <= len(nest["loops"]) else "none"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
