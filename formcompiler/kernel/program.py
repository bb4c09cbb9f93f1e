"""Assignments in program order, each after all that touch what it touches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import loopy as lp
import pymbolic.primitives as prim
from loopy.symbolic import get_dependencies

Expression = Any


class Program:
    """Assignments of one kernel.

    Attributes:
        instructions: The assignments.
    """

    def __init__(self) -> None:
        self.instructions: list[lp.Assignment] = []
        self._writers: dict[str, list[str]] = {}
        self._readers: dict[str, list[str]] = {}

    def assign(self, target: Expression, value: Expression, inames: Iterable[str], own_id: str) -> None:
        """Add ``target = value`` inside of loops."""
        name = target.name if isinstance(target, prim.Variable) else target.aggregate.name
        read = get_dependencies(value) | (get_dependencies(target) - {name})
        after = [self._writers.get(n, []) for n in sorted(read)]
        after += [self._writers.get(name, []), self._readers.get(name, [])]
        self.instructions.append(
            lp.Assignment(
                target,
                value,
                id=own_id,
                within_inames=frozenset(inames),
                within_inames_is_final=True,
                depends_on=frozenset(i for ids in after for i in ids),
                depends_on_is_final=True,
            )
        )
        self._writers.setdefault(name, []).append(own_id)
        for n in read:
            self._readers.setdefault(n, []).append(own_id)
