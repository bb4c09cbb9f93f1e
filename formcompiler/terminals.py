"""Modified terminals: the scalar leaves of an integrand, shared by the front end and the kernel builders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TerminalKind = Literal[
    "argument",
    "coefficient",
    "constant",
    "coordinate",
    "reference_coordinate",
    "facet_coordinate",
    "reference_normal",
    "facet_jacobian",
    "facet_mesh_jacobian",
    "vertex",
    "facet_vertex",
    "weight",
    "average",
]


@dataclass(frozen=True, order=True)
class Terminal:
    """One scalar component of a terminal, with its derivatives and its side of the facet.

    Attributes:
        kind: What is evaluated. ``coordinate`` is the spatial coordinate; with one derivative it is an entry of the
            Jacobian, component = row. ``facet_jacobian`` is that of the map from the reference facet to the
            reference cell (component = row * (tdim - 1) + column), ``facet_mesh_jacobian`` that of the map from the
            facet as its own mesh numbers it. ``vertex`` is a coordinate of a cell vertex,
            ``facet_vertex`` of a vertex of the facet (component = vertex * gdim + axis). ``average`` is a mean or
            measure that the kernel computes first.
        index: Number of the argument (0 test, 1 trial), position of the coefficient or constant in the form, position
            of the average in the integral; 0 otherwise.
        component: Flat component in reference value space (row-major), or as said above.
        derivatives: Number of derivatives with respect to each reference direction; () if none.
        restriction: "+" or "-" in interior facet integrals, "" otherwise.
        average: Position in the integral's averages of the mean that an argument stands in; -1 if in none.
    """

    kind: TerminalKind
    index: int = 0
    component: int = 0
    derivatives: tuple[int, ...] = ()
    restriction: str = ""
    average: int = -1

    @property
    def side(self) -> int:
        """Return 0 for the first ('+' or only) cell, 1 for the second ('-')."""
        return 1 if self.restriction == "-" else 0
