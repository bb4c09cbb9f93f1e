"""Plans of contractions along one direction after the other, by exhaustive search over the orders.

A *key* says, for each direction, which 1D table belongs to it, or None where no table is needed (yet, or any more).
Evaluation at points goes from the key (None, .., None) to full keys, integration from full keys to (None, .., None).
In both cases stages of one order share all common intermediate results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import Any

Key = tuple[Any, ...]
Table = Any
"""Of one argument: the order of a derivative, or `Collocated`. Of two: their orders. None stands for the identity."""


@dataclass(frozen=True, order=True)
class Collocated:
    """A derivative of the polynomial through the values at the points of a line.

    It maps values at points to values at the same points. With it, gradients at points take one change of basis
    along each direction and one differentiation each, instead of a product for each pair of direction and table.

    Attributes:
        order: Order of the derivative.
    """

    order: int


@dataclass(frozen=True)
class Output:
    """One array that a stage computes.

    Attributes:
        key: Key of the result.
        terms: Input key and table of each product that is summed up.
    """

    key: Key
    terms: tuple[tuple[Key, Any], ...]


@dataclass(frozen=True)
class Stage:
    """All contractions along one direction."""

    direction: int
    outputs: tuple[Output, ...]


def plan_integration(keys: Iterable[Key], n_dofs: Sequence[int], n_points: Sequence[int]) -> list[Stage]:
    """Return the cheapest stages from values at points to dofs; results of equal remaining keys are added early."""
    given = sorted(set(keys))
    return min(
        (_integration(given, order) for order in permutations(range(len(n_dofs)))),
        key=lambda stages: count_products(stages, n_points, n_dofs),
    )


def count_products(stages: Sequence[Stage], before: Sequence[int], after: Sequence[int]) -> int:
    """Return the number of multiply-adds; before and after are the extents of each direction around its stage."""
    extents = list(before)
    total = 0
    for stage in stages:
        n_terms = sum(len(output.terms) for output in stage.outputs)
        total += n_terms * math.prod(extents) * after[stage.direction]
        extents[stage.direction] = after[stage.direction]
    return total


def _evaluation(keys: list[Key], order: Sequence[int]) -> list[Stage]:
    stages = []
    for n, direction in enumerate(order):
        done = order[: n + 1]
        reached = sorted({_restrict(key, done) for key in keys}, key=_sortable)
        outputs = (Output(key, ((_without(key, direction), key[direction]),)) for key in reached)
        stages.append(Stage(direction, tuple(outputs)))
    return stages


def _evaluation_one_by_one(keys: list[Key], dim: int, cost: Callable[[list[Stage]], float]) -> list[Stage]:
    """Return stages that contract for each key in its own cheapest order, from what is there already."""
    plan: list[Stage] = []
    known: set[Key] = set()
    for key in keys:
        candidates = [_without_known(_evaluation([key], order), known) for order in permutations(range(dim))]
        best = min(candidates, key=cost)
        known.update(output.key for stage in best for output in stage.outputs)
        plan += best
    return plan


def _without_known(stages: list[Stage], known: set[Key]) -> list[Stage]:
    kept = [(s.direction, tuple(o for o in s.outputs if o.key not in known)) for s in stages]
    return [Stage(direction, outputs) for direction, outputs in kept if outputs]


def _integration(keys: list[Key], order: Sequence[int]) -> list[Stage]:
    stages = []
    current = keys
    for direction in order:
        groups: dict[Key, list[Key]] = {}
        for key in current:
            groups.setdefault(_without(key, direction), []).append(key)
        outputs = [Output(k, tuple((key, key[direction]) for key in group)) for k, group in groups.items()]
        stages.append(Stage(direction, tuple(outputs)))
        current = list(groups)
    return stages


def _restrict(key: Key, directions: Sequence[int]) -> Key:
    return tuple(table if d in directions else None for d, table in enumerate(key))


def _without(key: Key, direction: int) -> Key:
    return tuple(None if d == direction else table for d, table in enumerate(key))


def _sortable(key: Key) -> tuple[Any, ...]:
    return tuple((table is not None, table or 0) for table in key)


def plan_cheapest(
    keys: Iterable[Key], dim: int, collocates: Callable[[int, int], bool], cost: Callable[[list[Stage]], float]
) -> list[Stage]:
    """Return the cheapest stages from dofs to values at points, with and without collocation.

    Args:
        keys: For each direction the order of the derivative that is wanted.
        dim: Number of directions.
        collocates: Whether a derivative along a direction may be taken of values at points.
        cost: Cost of a plan.
    """
    wanted = sorted(set(keys))
    plans = [_evaluation(wanted, order) for order in permutations(range(dim))]
    plans.append(_evaluation_one_by_one(wanted, dim, cost))
    chains = {key: find_chain(key, collocates) for key in wanted}
    if any(len(chain) > 1 for chain in chains.values()):
        bases = sorted({chain[0] for chain in chains.values()})
        links = [link for chain in chains.values() for link in pairwise(chain)]
        after = _chain_stages(links)
        plans = [_evaluation(bases, order) + after for order in permutations(range(dim))] + plans
    return min(plans, key=cost)


def plan_cheapest_integration(
    keys: Iterable[Key], dim: int, collocates: Callable[[int, int], bool], cost: Callable[[list[Stage]], float]
) -> list[Stage]:
    """Return the cheapest stages from factors at points to dofs: those of `plan_cheapest` transposed."""
    given = sorted(set(keys))
    plans = [_integration(given, order) for order in permutations(range(dim))]
    chains = {key: find_chain(key, collocates) for key in given}
    if any(len(chain) > 1 for chain in chains.values()):
        links = [link for chain in chains.values() for link in pairwise(chain)]
        before = _transposed_chain_stages(links, given)
        bases = sorted({chain[0] for chain in chains.values()})
        plans = [before + _integration(bases, order) for order in permutations(range(dim))] + plans
    return min(plans, key=cost)


def find_chain(key: Key, collocates: Callable[[int, int], bool]) -> list[Key]:
    """Return the keys on the way to one: the one that is evaluated from dofs, then one derivative after another."""
    later = [d for d, order in enumerate(key) if order and collocates(d, order)]
    return [tuple(0 if d in later[n:] else order for d, order in enumerate(key)) for n in range(len(later) + 1)]


def _chain_stages(links: Iterable[tuple[Key, Key]]) -> list[Stage]:
    """Return stages that differentiate at points; whatever a stage needs comes before it."""
    stages: dict[tuple[int, int], dict[Key, Output]] = {}
    for source, target in links:
        direction = _difference(source, target)
        output = Output(target, ((source, Collocated(target[direction])),))
        stages.setdefault((_n_derivatives(target), direction), {})[target] = output
    return [Stage(level[1], tuple(stages[level].values())) for level in sorted(stages)]


def _transposed_chain_stages(links: Iterable[tuple[Key, Key]], given: Sequence[Key]) -> list[Stage]:
    """Return stages that add up transposed derivatives, the highest ones first."""
    by_level: dict[tuple[int, int], list[tuple[Key, Key]]] = {}
    for target, source in dict.fromkeys(links):
        by_level.setdefault((-_n_derivatives(source), -_difference(target, source)), []).append((target, source))
    known = set(given)
    stages = []
    for level in sorted(by_level):
        direction = -level[1]
        terms: dict[Key, list[tuple[Key, Any]]] = {}
        for target, source in by_level[level]:
            start: list[tuple[Key, Any]] = [(target, None)] if target in known else []
            terms.setdefault(target, start).append((source, Collocated(source[direction])))
        known.update(terms)
        stages.append(Stage(direction, tuple(Output(target, tuple(found)) for target, found in terms.items())))
    return stages


def _difference(source: Key, target: Key) -> int:
    (direction,) = (d for d, (a, b) in enumerate(zip(source, target, strict=True)) if a != b)
    return direction


def _n_derivatives(key: Key) -> int:
    return sum(order > 0 for order in key)
