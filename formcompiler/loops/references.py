"""Which variables an expression refers to, with which indices and under which conditions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as prim
from loopy.symbolic import WalkMapper


@dataclass(frozen=True)
class Reference:
    """A reference before its relation is known."""

    variable: str
    subscript: tuple[Any, ...] | None
    conditions: tuple[Any, ...]
    reduction_inames: tuple[str, ...]


class _References(WalkMapper[[]]):
    """Collects the references of an expression in the order in which they stand there."""

    def __init__(self, variables: Iterable[str]) -> None:
        super().__init__()
        self._variables = frozenset(variables)
        self._conditions: tuple[Any, ...] = ()
        self._reduction_inames: tuple[str, ...] = ()
        self.found: list[Reference] = []

    def _add(self, name: str, subscript: tuple[Any, ...] | None) -> None:
        if name in self._variables:
            self.found.append(Reference(name, subscript, self._conditions, self._reduction_inames))

    def map_variable(self, expr: Any) -> None:
        self._add(expr.name, ())

    def map_tagged_variable(self, expr: Any, *args: Any, **kwargs: Any) -> None:
        self._add(expr.name, ())

    def map_subscript(self, expr: Any) -> None:
        self._add(expr.aggregate.name, expr.index_tuple)
        for index in expr.index_tuple:
            self.rec(index)

    def map_linear_subscript(self, expr: Any) -> None:
        self._add(expr.aggregate.name, None)
        self.rec(expr.index)

    def map_sub_array_ref(self, expr: Any) -> None:
        self._add(expr.subscript.aggregate.name, None)

    def map_call(self, expr: Any) -> None:
        for parameter in expr.parameters:
            self.rec(parameter)

    def map_if(self, expr: Any) -> None:
        self.rec(expr.condition)
        outer = self._conditions
        self._conditions = (*outer, expr.condition)
        self.rec(expr.then)
        self._conditions = (*outer, prim.LogicalNot(expr.condition))
        self.rec(expr.else_)
        self._conditions = outer

    def map_reduction(self, expr: Any) -> None:
        outer = self._reduction_inames
        self._reduction_inames = (*outer, *expr.inames)
        self.rec(expr.expr)
        self._reduction_inames = outer


def find_references(expression: Any, variables: Iterable[str]) -> list[Reference]:
    """Return all references to the variables, in the order in which they stand in the expression."""
    mapper = _References(variables)
    mapper(expression)
    return mapper.found
