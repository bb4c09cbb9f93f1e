"""Plans of contractions along one direction after the other, by exhaustive search over the orders.

A *key* says, for each direction, which 1D table belongs to it, or None where no table is needed (yet, or any more).
Evaluation at points goes from the key (None, .., None) to full keys, integration from full keys to (None, .., None).
In both cases stages of one order share all common intermediate results.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

Key = tuple[Any, ...]


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


def plan_evaluation(keys: Iterable[Key], n_dofs: Sequence[int], n_points: Sequence[int]) -> list[Stage]:
    """Return the cheapest stages from dofs to values at points, for all keys together."""
    wanted = sorted(set(keys))
    return min(
        (_evaluation(wanted, order) for order in permutations(range(len(n_dofs)))),
        key=lambda stages: count_products(stages, n_dofs, n_points),
    )


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
