"""Assignments in program order, each after all that touch what it touches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import loopy as lp
import pymbolic.primitives as prim

from formcompiler.kernel.instructions import after, make_assignment
from formcompiler.kernel.names import names_in

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
        read = names_in(value) | (names_in(target) - {name})
        before = [self._writers.get(n, []) for n in sorted(read)]
        before += [self._writers.get(name, []), self._readers.get(name, [])]
        ids = dict.fromkeys(i for some in before for i in some)
        self.instructions.append(make_assignment(target, value, own_id, inames, happens_after=after(ids)))
        self._writers.setdefault(name, []).append(own_id)
        for n in read:
            self._readers.setdefault(n, []).append(own_id)
