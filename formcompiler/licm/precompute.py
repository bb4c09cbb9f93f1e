"""Turns candidates into instructions: one temporary, one assignment and one place in the linearization each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import loopy as lp
import pymbolic.primitives as prim
from loopy.kernel.array import FixedStrideArrayDimTag, VectorArrayDimTag
from loopy.kernel.data import VectorizeTag

from formcompiler.kernel.names import names_in
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.candidates import Context, Graph, Key
from formcompiler.licm.replace import Replace
from formcompiler.licm.schedule import find_places, insert
from formcompiler.licm.scopes import Scopes
from formcompiler.naming import Namer


@dataclass(frozen=True)
class Temporary:
    """A precomputed value.

    Attributes:
        key: The value.
        name: Name of the variable.
        identifier: Id of its instruction.
        lane: The vectorized iname it depends on, if any.
        is_in_loop: Whether a loop of the linearization runs over the lanes.
    """

    key: Key
    name: str
    identifier: str
    lane: str | None = None
    is_in_loop: bool = False

    @property
    def access(self) -> Any:
        """Return how it is read and written."""
        variable = prim.Variable(self.name)
        if self.lane is None:
            return variable
        lane = prim.Variable(self.lane)
        return variable[0, lane] if self.is_in_loop else variable[(lane,)]


def precompute(facts: Analysis, contexts: Mapping[str, Context], graph: Graph) -> lp.LoopKernel:
    """Return the kernel with a temporary for each candidate of a graph.

    They are made bottom-up, breadth first on the edges from children to parents, so that each one finds those that it
    contains.
    """
    kernel = facts.kernel
    if not graph.children:
        return kernel
    temporaries = _name_temporaries(kernel, contexts, bottom_up(graph))
    found = {key: t.access for key, t in temporaries.items()}
    variables = {t.name: _variable(facts, t) for t in temporaries.values()}
    replacers = {name: Replace(_finder(context, found)) for name, context in contexts.items()}
    new = [_assignment(t, graph, contexts, replacers, temporaries, facts.scopes) for t in temporaries.values()]
    inputs = {t.identifier: [temporaries[c].identifier for c in graph.children[t.key]] for t in temporaries.values()}
    places = find_places(
        facts.nest,
        [t.identifier for t in temporaries.values()],
        {t.identifier: t.key.loops for t in temporaries.values()},
        {i.id: sorted(i.depends_on - set(inputs)) for i in new},
        inputs,
        {t.identifier: graph.users[t.key] for t in temporaries.values()},
    )
    by_name = {t.name: t.identifier for t in temporaries.values()}
    places_of = {(key.loops, key.lanes) for key in graph.children}
    involved = {user for key in graph.children for user in graph.users[key]}
    involved |= {name for name, context in contexts.items() if (context.loops, context.lanes) in places_of}
    changed = {name: _replace_in(contexts[name], replacers[name], by_name) for name in contexts if name in involved}
    items = insert(facts.nest, places)
    by_id = {**kernel.id_to_insn, **{n: i for n, i in changed.items() if i is not None}, **{i.id: i for i in new}}
    ids = [item.insn_id for item in items if isinstance(item, lp.schedule.RunInstruction)]
    return kernel.copy(
        instructions=[by_id[name] for name in ids],
        temporary_variables={**kernel.temporary_variables, **variables},
        linearization=items,
    )


def _finder(context: Context, found: Mapping[Key, Any]) -> Callable[[Any], Any | None]:
    """Return a function that finds what a subexpression of an instruction is replaced with."""

    def find(expression: Any) -> Any | None:
        key = context.known_key(expression)
        return None if key is None else found.get(key)

    return find


def bottom_up(graph: Graph) -> list[Key]:
    """Return the candidates, each after all that it contains."""
    waiting = {key: len(children) for key, children in graph.children.items()}
    queue = [key for key, n in waiting.items() if n == 0]
    for key in queue:
        for parent in graph.parents[key]:
            waiting[parent] -= 1
            if waiting[parent] == 0:
                queue.append(parent)
    return queue


def _name_temporaries(
    kernel: lp.LoopKernel, contexts: Mapping[str, Context], keys: Iterable[Key]
) -> dict[Key, Temporary]:
    names, identifiers = Namer(kernel.all_variable_names()), Namer(kernel.id_to_insn)
    result = {}
    for key in keys:
        looped = [iname for iname in key.loops if kernel.iname_tags_of_type(iname, VectorizeTag)]
        lane = next(iter([*looped, *key.lanes]), None)
        result[key] = Temporary(key, names.unique("h"), identifiers.unique("hoist"), lane, bool(looped))
    return result


def _variable(facts: Analysis, temporary: Temporary) -> lp.TemporaryVariable:
    """Return the declaration; a vectorized one gets its shape and axes by hand, for the kernel is preprocessed.

    Where loopy's own loop runs over the lanes, one axis is not a vector; elsewhere the lane is the last axis.
    """
    shape: tuple[int, ...] = ()
    tags: Any = None
    if temporary.lane is not None:
        width = facts.trips.extent(temporary.lane)
        shape = (1, width) if temporary.is_in_loop else (width,)
        tags = [FixedStrideArrayDimTag(1), VectorArrayDimTag()] if temporary.is_in_loop else None
    return lp.TemporaryVariable(
        temporary.name,
        dtype=facts.types.of(temporary.key.expression),
        shape=shape,
        dim_tags=tags,
        alignment=64 if shape else None,
        address_space=lp.AddressSpace.PRIVATE,
    )


def _assignment(
    temporary: Temporary,
    graph: Graph,
    contexts: Mapping[str, Context],
    replacers: Mapping[str, Replace],
    temporaries: Mapping[Key, Temporary],
    scopes: Scopes,
) -> lp.Assignment:
    users = list(graph.users[temporary.key])
    predicates = combine_predicates([contexts[user].instruction.predicates for user in users])
    read = names_in(temporary.key.expression).union(*map(names_in, predicates))
    sources = {s for name in read for s in scopes.sources(name, users[0])}
    inputs = {temporaries[child].identifier for child in graph.children[temporary.key]}
    return lp.Assignment(
        temporary.access,
        replacers[users[0]].below(temporary.key.expression),
        id=temporary.identifier,
        within_inames=frozenset(temporary.key.loops) | temporary.key.lanes,
        within_inames_is_final=True,
        depends_on=frozenset(sources | inputs),
        depends_on_is_final=True,
        predicates=predicates,
    )


def combine_predicates(conditions: list[frozenset[Any]]) -> frozenset[Any]:
    """Return the predicates of a value that instructions with these predicates use: the "or" of theirs."""
    if len(set(conditions)) == 1:
        return conditions[0]
    if not all(conditions):
        return frozenset()
    parts = dict.fromkeys(_conjunction(c) for c in conditions)
    return frozenset([prim.LogicalOr(tuple(parts))])


def _conjunction(condition: frozenset[Any]) -> Any:
    parts = sorted(condition, key=str)
    return parts[0] if len(parts) == 1 else prim.LogicalAnd(tuple(parts))


def _replace_in(context: Context, replace: Replace, by_name: Mapping[str, str]) -> Any | None:
    """Return the instruction with names in the place of candidates, and dependencies on them; None if it has none."""
    instruction = context.instruction
    expression = replace(instruction.expression)
    used = {by_name[name] for name in names_in(expression) if name in by_name}
    return instruction.copy(expression=expression, depends_on=instruction.depends_on | used) if used else None
