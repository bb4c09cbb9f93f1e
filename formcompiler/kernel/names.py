"""Names of variables in expressions and instructions."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import loopy as lp
import pymbolic.primitives as prim
from loopy.symbolic import get_dependencies

Names = frozenset[str]


@lru_cache(maxsize=1 << 17)
def names_in(expression: Any) -> Names:
    """Return all names of variables in an expression or a tuple of them, functions not among them.

    It finds what ``loopy.symbolic.get_dependencies`` finds; results are kept by expression.
    """
    found: set[str] = set()
    _collect(expression, found)
    return frozenset(found)


def _collect(expression: Any, found: set[str]) -> None:
    """Add all names of variables in an expression or a tuple of them."""
    kind = type(expression)
    if kind is prim.Variable:
        found.add(expression.name)
    elif kind is prim.Sum or kind is prim.Product:
        for child in expression.children:
            _collect(child, found)
    elif kind is prim.Subscript:
        _collect(expression.aggregate, found)
        _collect(expression.index, found)
    elif kind is tuple:
        for part in expression:
            _collect(part, found)
    elif kind is prim.Quotient:
        _collect(expression.numerator, found)
        _collect(expression.denominator, found)
    elif kind is prim.Call:
        _collect(expression.parameters, found)
    elif isinstance(expression, prim.ExpressionNode):
        found |= get_dependencies(expression)


def names_read(instruction: Any) -> Names:
    """Return the names that an instruction reads: in its expression, its predicates and its target's indices."""
    if not isinstance(instruction, lp.Assignment):
        return frozenset(instruction.read_dependency_names())
    found: set[str] = set()
    _collect(instruction.expression, found)
    if isinstance(instruction.assignee, prim.Subscript):
        _collect(instruction.assignee.index, found)
    for predicate in instruction.predicates:
        _collect(predicate, found)
    return frozenset(found)


def names_written(instruction: Any) -> tuple[str, ...]:
    """Return the names of the variables that an instruction sets."""
    target = getattr(instruction, "assignee", None)
    if isinstance(target, prim.Variable):
        return (target.name,)
    if isinstance(target, prim.Subscript) and isinstance(target.aggregate, prim.Variable):
        return (target.aggregate.name,)
    return tuple(instruction.assignee_var_names())


class Reads:
    """Returns the names that instructions read; results are kept by identity, since hashing takes longer."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Names, Names]] = {}

    def __call__(self, instruction: Any) -> Names:
        """Return the names that an instruction reads."""
        return self._find(instruction)[1]

    def of_others(self, instruction: Any) -> Names:
        """Return the names that an instruction reads, other than to update its own variable."""
        return self._find(instruction)[2]

    def _find(self, instruction: Any) -> tuple[Any, Names, Names]:
        known = self._known.get(id(instruction))
        if known is None:
            read = names_read(instruction)
            target = getattr(instruction, "assignee", None)
            index = names_in(target.index) if isinstance(target, prim.Subscript) else frozenset()
            own = frozenset() if target is None else read.intersection(names_written(instruction)) - index
            known = self._known[id(instruction)] = (instruction, read, read - own if own else read)
        return known
