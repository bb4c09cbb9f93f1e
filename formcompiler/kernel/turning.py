"""Whether a kernel over facets may turn its cells: whether nothing depends on how their directions are numbered.

What a form means does not depend on which direction of a cell is the first one, or on where it starts. So cells can be
turned until all facets lie in the same place, if that holds for each factor of the integrand with its lowered geometry.
It is decided as in `formcompiler.kernel.symmetry`, by values in a prime field: swapping two directions of a cell,
reversing one, or numbering the facet's own directions in another way must change no value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from formcompiler.elements import cells
from formcompiler.elements.cells import TENSOR_CELLS, FloatArray
from formcompiler.frontend.integrals import FormIntegral, Integrand
from formcompiler.kernel.symmetry import PRIME, factor_values, random_value
from formcompiler.terminals import Terminal

_TURNING = (
    *("argument", "coefficient", "constant", "weight", "coordinate"),
    *("reference_normal", "facet_jacobian", "vertex"),
)
"""Kinds of terminals whose change with the directions is known."""

Change = Callable[[Terminal], tuple[int, Terminal]]
"""Gives for a terminal of the changed cell a sign and the terminal of the cell before."""


def can_turn(integral: FormIntegral, *, is_affine: bool) -> bool:
    """Tell whether cells may be turned until facets lie in one place.

    Args:
        integral: An integral over exterior or interior facets of products of intervals.
        is_affine: Whether cells are affine; only then is it known what differences of vertices are.
    """
    vertices = _Vertices(cells.vertices(integral.cell), integral.gdim)
    sides = ("+", "-") if integral.n_sides == 2 else ("",)
    changes = [change for side in sides for change in _changes(TENSOR_CELLS[integral.cell], vertices, side)]
    return all(_can_turn(integrand, vertices, changes, is_affine=is_affine) for integrand in integral.integrands)


@dataclass(frozen=True)
class _Vertices:
    """Vertices of a reference cell, axes (vertex, direction), in a space of some dimension."""

    points: FloatArray
    gdim: int

    def changed(self, component: int, order: tuple[int, ...], signs: tuple[int, ...]) -> int:
        """Return the component of the vertex that a vertex of the changed cell was before."""
        vertex, axis = divmod(component, self.gdim)
        place = np.empty(len(order))
        for d, (other, sign) in enumerate(zip(order, signs, strict=True)):
            place[other] = self.points[vertex, d] if sign > 0 else 1 - self.points[vertex, d]
        return int(np.flatnonzero((self.points == place).all(axis=1))[0]) * self.gdim + axis

    def value(self, terminal: Terminal) -> int:
        """Return a coordinate of a vertex of an affine cell that looks random."""
        vertex, axis = divmod(terminal.component, self.gdim)
        steps = [random_value("edge", terminal.restriction, d, axis) for d, x in enumerate(self.points[vertex]) if x]
        return (random_value("origin", terminal.restriction, axis) + sum(steps)) % PRIME


def _can_turn(integrand: Integrand, vertices: _Vertices, changes: Sequence[Change], *, is_affine: bool) -> bool:
    terminals = [*integrand.terminals.values(), *(a for term in integrand.terms for a in term.arguments)]
    kinds = {t.kind for t in terminals}
    if not kinds <= set(_TURNING) or ("vertex" in kinds and not is_affine):
        return False
    before = _term_values(integrand, vertices, lambda t: (1, t))
    return all(_term_values(integrand, vertices, change) == before for change in changes)


def _changes(dim: int, vertices: _Vertices, side: str) -> Iterator[Change]:
    """Find changes of the directions of the cell of one side and of its facet, from which all others follow."""
    for first in range(dim - 1):
        yield partial(_change, vertices, side, _swapped(dim, first), (1,) * dim)
    yield partial(_change, vertices, side, tuple(range(dim)), (-1,) + (1,) * (dim - 1))
    for first in range(dim - 2):
        yield partial(_change_facet, side, _swapped(dim - 1, first), (1,) * (dim - 1))
    if dim > 1:
        yield partial(_change_facet, side, tuple(range(dim - 1)), (-1,) + (1,) * (dim - 2))


def _swapped(n: int, first: int) -> tuple[int, ...]:
    order = list(range(n))
    order[first : first + 2] = [first + 1, first]
    return tuple(order)


def _change(
    vertices: _Vertices, side: str, order: tuple[int, ...], signs: tuple[int, ...], terminal: Terminal
) -> tuple[int, Terminal]:
    """Return what a terminal is where direction d is direction ``order[d]``, reversed if ``signs[d]`` is -1."""
    if terminal.restriction != side:
        return 1, terminal
    if terminal.kind in ("reference_normal", "facet_jacobian"):
        n_columns = 1 if terminal.kind == "reference_normal" else len(order) - 1
        row, column = divmod(terminal.component, n_columns)
        return signs[row], replace(terminal, component=order[row] * n_columns + column)
    if terminal.kind == "vertex":
        return 1, replace(terminal, component=vertices.changed(terminal.component, order, signs))
    if not terminal.derivatives:
        return 1, terminal
    counts, sign = [0] * len(order), 1
    for d, count in enumerate(terminal.derivatives):
        counts[order[d]] = count
        sign *= signs[d] ** count
    return sign, replace(terminal, derivatives=tuple(counts))


def _change_facet(
    side: str, order: tuple[int, ...], signs: tuple[int, ...], terminal: Terminal
) -> tuple[int, Terminal]:
    """Return what a terminal is where directions of the facet have other numbers and signs."""
    if terminal.restriction != side or terminal.kind != "facet_jacobian":
        return 1, terminal
    row, column = divmod(terminal.component, len(order))
    return signs[column], replace(terminal, component=row * len(order) + order[column])


def _term_values(integrand: Integrand, vertices: _Vertices, change: Change) -> Mapping[tuple[Terminal, ...], int]:
    """Return the value of the factor of each product of arguments, as the cell before the change has them."""
    given = {}
    for name, terminal in integrand.terminals.items():
        sign, before = change(terminal)
        value = vertices.value(before) if before.kind == "vertex" else random_value(repr(before))
        given[name] = sign * value % PRIME
    result: dict[tuple[Terminal, ...], int] = {}
    for term, value in zip(integrand.terms, factor_values(integrand, given), strict=True):
        changed = [change(argument) for argument in term.arguments]
        key = tuple(argument for _, argument in changed)
        signed = value * int(np.prod([sign for sign, _ in changed]))
        result[key] = (result.get(key, 0) + signed) % PRIME
    return {key: value for key, value in result.items() if value}
