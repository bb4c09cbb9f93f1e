"""A picture of a nest of two loops: its iteration space, and an arrow for each dependence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import islpy as isl
import numpy as np

from formcompiler.errors import TransformError
from formcompiler.loops.accesses import iteration_domain
from formcompiler.loops.dependence import Dependence, NestDependences
from formcompiler.loops.iteration_space import enumerate_points
from formcompiler.loops.vectors import format_vector

_STYLES = {"true": "solid", "anti": "dashed", "output": "dotted"}
_COLOURS = ("tab:blue", "tab:red", "tab:green", "tab:purple", "tab:orange", "tab:brown", "tab:pink", "tab:cyan")
_LIMIT = 2000


def draw_nest(nest: NestDependences, path: Path | str, parameters: Mapping[str, int] | None = None) -> None:
    """Write a picture of a nest whose instructions share two loops: points, and arrows from source to sink.

    Args:
        nest: The nest.
        path: Where to write; the suffix says the format.
        parameters: Values of the kernel's parameters, if bounds depend on any.

    Raises:
        TransformError: if there are not two common loops, or more points than can be seen.
    """
    from matplotlib.figure import Figure

    loops = nest.nest.band
    if len(loops) != 2:
        raise TransformError(
            f"only nests of two loops can be drawn; the instructions of nest ({', '.join(nest.inames)}) share "
            f"({', '.join(loops)})"
        )
    points = enumerate_points(iteration_domain(nest.kernel, loops), parameters or {})
    if len(points) > _LIMIT:
        raise TransformError(f"{len(points)} points cannot be told apart in a picture; make the loops shorter")
    figure = Figure(figsize=(7, 6), layout="constrained")
    axes = figure.add_subplot()
    carried = [dependence for dependence in nest.dependences if dependence.carriers]
    for n, dependence in enumerate(carried):
        _draw_arrows(axes, dependence, parameters or {}, _COLOURS[n % len(_COLOURS)])
    axes.plot(points[:, 0], points[:, 1], "o", color="black", markersize=6)
    axes.set(xlabel=loops[0], ylabel=loops[1], title=f"{nest.kernel.name}: iterations and dependences", aspect="equal")
    axes.locator_params(integer=True)
    axes.grid(alpha=0.3)
    if carried:
        figure.legend(loc="outside lower center", ncols=2)
    figure.savefig(path, dpi=120)


def _draw_arrows(axes: Any, dependence: Dependence, parameters: Mapping[str, int], colour: str) -> None:
    """Draw what goes from one iteration to another, and an entry of the legend."""
    relation = dependence.relation
    for kind in (isl.dim_type.in_, isl.dim_type.out):
        relation = relation.project_out(kind, 2, relation.dim(kind) - 2).reset_tuple_id(kind)
    style = _STYLES[dependence.kind]
    pairs = np.unique(enumerate_points(relation.wrap().flatten(), parameters), axis=0)
    for start, end in zip(pairs[:, :2].tolist(), pairs[:, 2:].tolist(), strict=True):
        if start != end:
            arrow = {"arrowstyle": "-|>", "color": colour, "shrinkA": 5, "shrinkB": 5, "lw": 1.3, "linestyle": style}
            axes.annotate("", xy=end, xytext=start, arrowprops=arrow)
    vectors = " ".join(format_vector(vector) for vector in dependence.vectors if any(vector))
    ends = f"{dependence.source.instruction} to {dependence.sink.instruction}"
    label = f"{dependence.kind} on {dependence.variable}, {ends}, {vectors}"
    axes.plot([], [], linestyle=style, color=colour, label=label)
