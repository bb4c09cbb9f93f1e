"""Integrals over facets that all lie in the same place of their cells: what depends on the place becomes a number.

Reference normals and facet Jacobians are numbers then, and most of what they multiply vanishes. Two cells that share a
facet also share the tangents along it: derivatives of the position along the facet, seen from the second cell, are
those seen from the first, up to a sign (the mesh must be conforming).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from formcompiler.elements import cells
from formcompiler.frontend.graph import ExpressionWriter, Graph
from formcompiler.frontend.integrals import ArgumentTerm, FacetPosition, FormIntegral, Integrand
from formcompiler.frontend.monomials import Monomial, MonomialReader, Value
from formcompiler.terminals import Terminal


def at_positions(integral: FormIntegral, positions: Sequence[FacetPosition]) -> FormIntegral:
    """Return an integral over facets of a conforming mesh that lie in their cells as given.

    Args:
        integral: An integral over exterior or interior facets of products of intervals, of real numbers, without
            averages.
        positions: One for each side.
    """
    placed = _place_integrands(integral, _Place(integral, tuple(positions)))
    return replace(integral, integrands=placed, positions=tuple(positions))


def turn(integral: FormIntegral) -> FormIntegral:
    """Return an integral that sees all facets where facet 0 lies, if `formcompiler.kernel.turning` allows that.

    Args:
        integral: An integral over facets of products of intervals, of real numbers, without averages.
    """
    place = _Place(integral, (FacetPosition(0, 0),) * integral.n_sides, is_conforming=False)
    return replace(integral, integrands=_place_integrands(integral, place), turned=True)


def _place_integrands(integral: FormIntegral, place: _Place) -> tuple[Integrand, ...]:
    """Return the integrands at a place, without those that vanish there."""
    names = [n for i in integral.integrands for n in i.terminals]
    names += [*(c.name for c in integral.coefficients), *(c.name for c in integral.constants)]
    integrands = []
    for number, integrand in enumerate(integral.integrands):
        prefix = f"s{number}_" if number else "s"
        while any(name.startswith(prefix) for name in names):
            prefix += "x"
        integrands.append(_place_integrand(integrand, place, prefix))
    return tuple(i for i in integrands if i.terms)


class _Place:
    """The values of terminals at the positions of one integral; tangents are shared if the mesh is conforming."""

    def __init__(
        self, integral: FormIntegral, positions: tuple[FacetPosition, ...], *, is_conforming: bool = True
    ) -> None:
        self._is_conforming = is_conforming
        self._integral = integral
        self._positions = positions
        self._frames = [cells.facet_frame(integral.cell, *position) for position in positions]

    def value(self, terminal: Terminal) -> float | None:
        """Return the value of a terminal that is a number."""
        facet = self._positions[terminal.side].facet
        if terminal.kind == "reference_normal":
            return float(cells.facet_normals(self._integral.cell)[facet, terminal.component])
        if terminal.kind == "facet_jacobian":
            return float(cells.facet_jacobians(self._integral.cell)[facet].ravel()[terminal.component])
        if terminal.kind == "facet_mesh_jacobian":
            seen = cells.seen_facet_jacobians(self._integral.cell)
            return float(seen[self._positions[0].permutation, facet].ravel()[terminal.component])
        return None

    def same(self, terminal: Terminal) -> tuple[float, Terminal]:
        """Return a sign and a terminal that has the same value times the sign; that of the first side if it can be."""
        if terminal.kind == "facet_vertex":
            return 1.0, self._vertex(terminal)
        if not self._is_conforming or terminal.kind != "coordinate" or terminal.side == 0:
            return 1.0, terminal
        if sum(terminal.derivatives) == 0:
            return 1.0, terminal
        first, second = self._frames
        if terminal.derivatives[second.normal]:
            return 1.0, terminal
        counts, sign = [0] * len(terminal.derivatives), 1.0
        for here, there, *turned in zip(
            second.tangential, first.tangential, second.reflected, first.reflected, strict=True
        ):
            counts[there] = terminal.derivatives[here]
            sign *= (-1.0) ** (counts[there] * sum(turned))
        return sign, replace(terminal, derivatives=tuple(counts), restriction="+")

    def _vertex(self, terminal: Terminal) -> Terminal:
        number, axis = divmod(terminal.component, self._integral.gdim)
        dim = cells.dimension(self._integral.cell)
        vertex = cells.topology(self._integral.cell)[dim - 1][self._positions[terminal.side].facet][number]
        return replace(terminal, kind="vertex", component=vertex * self._integral.gdim + axis)


def _place_integrand(integrand: Integrand, place: _Place, prefix: str) -> Integrand:
    graph = Graph()
    reader = MonomialReader(graph)
    for name, terminal in integrand.terminals.items():
        reader.names[name] = _read(reader, graph, terminal, place)
    for name, expression in integrand.definitions:
        reader.define(name, expression)
    roots = [reader.node(reader(term.factor)) for term in integrand.terms]
    kept = [(term, root) for term, root in zip(integrand.terms, roots, strict=True) if root != graph.zero]
    reachable = graph.reachable([root for _, root in kept])
    leaves = [graph.nodes[n][1] for n in reachable if graph.nodes[n][0] == "terminal"]
    names = _names(leaves, integrand.terminals, place)
    writer = ExpressionWriter(graph, names, prefix)
    factors = writer.write([root for _, root in kept])
    terms = tuple(ArgumentTerm(term.arguments, f, term.component) for (term, _), f in zip(kept, factors, strict=True))
    return Integrand(integrand.rule, {names[t]: t for t in leaves}, tuple(writer.definitions), terms)


def _read(reader: MonomialReader, graph: Graph, terminal: Terminal, place: _Place) -> Value:
    number = place.value(terminal)
    if number is not None:
        return {(): Monomial(number)} if number != 0 else {}
    sign, same = place.same(terminal)
    return reader.atom(graph.terminal(same), sign)


def _names(leaves: Sequence[Terminal], given: Mapping[str, Terminal], place: _Place) -> dict[Terminal, str]:
    """Return a name for each leaf: its own, or that of a terminal that it stands for."""
    own = {terminal: name for name, terminal in given.items()}
    instead: dict[Terminal, str] = {}
    for name, terminal in given.items():
        instead.setdefault(place.same(terminal)[1], name)
    return {leaf: own.get(leaf, instead.get(leaf, "")) for leaf in leaves}
