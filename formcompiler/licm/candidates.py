"""Subexpressions that may become temporaries: found, connected, and reduced to those that are worth it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pymbolic.primitives as prim

from formcompiler.kernel.flops import has_operations
from formcompiler.kernel.names import names_in
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.cost import TripCounts
from formcompiler.licm.minimal import MinimalInames, make_minimal_inames
from formcompiler.licm.nest import Loops, least_prefix
from formcompiler.licm.operands import operands

CANDIDATES = (prim.Sum, prim.Product, prim.Quotient, prim.Call)
"""Kinds of nodes that can be taken out of an instruction."""


@dataclass(frozen=True, eq=False)
class Key:
    """One value: an expression, the loops it is bound to, and which values its variables have.

    Equal values of one kernel are one object, which is quicker to look up.

    Attributes:
        expression: The expression.
        loops: Loops around its evaluation, outermost first.
        lanes: Lanes that it differs between.
        versions: Variables with more than one value, with the number of writes before.
    """

    expression: Any
    loops: Loops
    lanes: frozenset[str] = frozenset()
    versions: frozenset[tuple[str, int]] = frozenset()


class Context:
    """One instruction and what is known about the subexpressions of it.

    Args:
        facts: The kernel.
        name: Id of the instruction.
        is_moving: Whether subexpressions may leave the innermost loops of the instruction.
    """

    def __init__(self, facts: Analysis, name: str, *, is_moving: bool = True) -> None:
        self.instruction = facts.instruction(name)
        self.loops = facts.nest.loops[name]
        self.lanes = facts.nest.lanes_of[name]
        self.minimal: MinimalInames = make_minimal_inames(facts.kernel, facts.nest, facts.scopes, name)
        self._scopes = facts.scopes
        self._varying = facts.varying
        self._interned = facts.interned
        self._is_moving = is_moving
        self._keys: dict[Any, Key] = {}

    def key(self, expression: Any) -> Key:
        """Return the value that a subexpression has here; it is bound to the least outer loops that hold its inames."""
        if expression not in self._keys:
            inames = self.minimal(expression)
            loops = least_prefix(self.loops, inames - self.lanes) if self._is_moving else self.loops
            parts = (expression, loops, inames & self.lanes, self._versions(expression))
            if parts not in self._interned:
                self._interned[parts] = Key(*parts)
            self._keys[expression] = self._interned[parts]
        return self._keys[expression]

    def known_key(self, expression: Any) -> Key | None:
        """Return the value of a subexpression that can be a candidate, None for others."""
        return self.key(expression) if isinstance(expression, CANDIDATES) else None

    def _versions(self, expression: Any) -> frozenset[tuple[str, int]]:
        reader = self.instruction.id
        names = names_in(expression) & self._varying
        return frozenset((name, self._scopes.version(name, reader)) for name in names)


@dataclass
class Graph:
    """Candidates and which of them contain which.

    Attributes:
        children: Candidates directly inside of each candidate.
        parents: The inverse.
        top_level: Candidates that occur outside of every other one, somewhere.
        users: Ids of the instructions that contain each candidate.
        occurrences: How often each candidate occurs directly inside of other candidates or at top level.
    """

    children: dict[Key, dict[Key, None]] = field(default_factory=dict)
    parents: dict[Key, dict[Key, None]] = field(default_factory=dict)
    top_level: dict[Key, None] = field(default_factory=dict)
    users: dict[Key, dict[str, None]] = field(default_factory=dict)
    occurrences: dict[Key, int] = field(default_factory=dict)

    def add(self, key: Key, user: str, parent: Key | None, *, is_counting: bool) -> None:
        """Add an occurrence of a candidate, which counts unless it was counted already."""
        self.children.setdefault(key, {})
        self.parents.setdefault(key, {})
        self.users.setdefault(key, {})[user] = None
        self.occurrences[key] = self.occurrences.get(key, 0) + is_counting
        if parent is None:
            self.top_level[key] = None
        else:
            self.children[parent][key] = None
            self.parents[key][parent] = None

    def reduced(self, kept: set[Key]) -> Graph:
        """Return the graph of some candidates; a dropped one hands its children to its parents."""
        graph = Graph()
        for key in self.children:
            if key in kept:
                graph.children[key] = dict.fromkeys(self._kept_below(key, kept))
                graph.parents.setdefault(key, {})
                graph.users[key] = self.users[key]
                graph.occurrences[key] = self.occurrences[key]
        for key, children in graph.children.items():
            for child in children:
                graph.parents[child][key] = None
        graph.top_level = {k: None for k in kept if k in self.top_level or not graph.parents[k]}
        return graph

    def _kept_below(self, key: Key, kept: set[Key]) -> Iterator[Key]:
        for child in self.children[key]:
            if child in kept:
                yield child
            else:
                yield from self._kept_below(child, kept)


def find_hoistable(contexts: list[Context], trips: TripCounts) -> Graph:
    """Return the candidates that are evaluated more often than needed, reduced.

    A candidate whose every occurrence lies inside of candidates in the same loops is dropped: within one loop level the
    C++ compiler finds common subexpressions better than we do, for it knows the registers.
    """
    graph = Graph()
    for context in contexts:
        _collect(context, graph, lambda c, k: trips({*c.loops[len(k.loops) :], *(c.lanes - k.lanes)}) > 1)
    kept = {
        key
        for key, parents in graph.parents.items()
        if key in graph.top_level or any((p.loops, p.lanes) != (key.loops, key.lanes) for p in parents)
    }
    return graph.reduced(kept)


def find_common(contexts: list[Context]) -> Graph:
    """Return the candidates that occur more than once in the same loops, without code motion."""
    graph = Graph()
    for context in contexts:
        _collect(context, graph, lambda c, k: True)
    return graph.reduced({key for key, n in graph.occurrences.items() if n > 1})


def _collect(context: Context, graph: Graph, is_wanted: Callable[[Context, Key], bool]) -> None:
    """Add the candidates of one instruction to a graph.

    What lies inside of a candidate counts once per candidate, not once per occurrence of the candidate.
    """
    user = context.instruction.id

    def visit(expression: Any, parent: Key | None, *, is_counting: bool) -> None:
        inner = parent
        if isinstance(expression, CANDIDATES) and has_operations(expression):
            key = context.key(expression)
            if is_wanted(context, key):
                is_new = key not in graph.children
                graph.add(key, user, parent, is_counting=is_counting)
                is_counting = is_counting and is_new
                inner = key
        for child in operands(expression):
            visit(child, inner, is_counting=is_counting)

    visit(context.instruction.expression, None, is_counting=True)
