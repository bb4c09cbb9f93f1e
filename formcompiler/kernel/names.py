"""Names of variables in expressions and instructions."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import loopy as lp
import pymbolic.primitives as prim
from loopy.symbolic import get_dependencies

Names = frozenset[str]
_NONE: Names = frozenset()


@lru_cache(maxsize=1 << 17)
def names_in(expression: Any) -> Names:
    """Return all names of variables in an expression or a tuple of them, functions not among them.

    It finds what ``loopy.symbolic.get_dependencies`` finds; results are kept by expression, parts included, so that it
    takes no time for expressions made of known ones.
    """
    if isinstance(expression, prim.Variable):
        return frozenset([expression.name])
    if isinstance(expression, (prim.Sum, prim.Product)):
        return _NONE.union(*map(names_in, expression.children))
    if isinstance(expression, prim.Subscript):
        return names_in(expression.aggregate).union(*map(names_in, expression.index_tuple))
    if isinstance(expression, tuple):
        return _NONE.union(*map(names_in, expression))
    if not isinstance(expression, prim.ExpressionNode):
        return _NONE
    if isinstance(expression, prim.Quotient):
        return names_in(expression.numerator) | names_in(expression.denominator)
    if isinstance(expression, prim.Call):
        return _NONE.union(*map(names_in, expression.parameters))
    return frozenset(get_dependencies(expression))


def names_read(instruction: Any) -> Names:
    """Return the names that an instruction reads: in its expression, its predicates and its target's indices."""
    if not isinstance(instruction, lp.Assignment):
        return frozenset(instruction.read_dependency_names())
    read = names_in(instruction.expression)
    if isinstance(instruction.assignee, prim.Subscript):
        read = read.union(*map(names_in, instruction.assignee.index_tuple))
    return read.union(*map(names_in, instruction.predicates)) if instruction.predicates else read


class Reads:
    """Returns the names that instructions read; results are kept by identity, since hashing takes longer."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Names]] = {}

    def __call__(self, instruction: Any) -> Names:
        """Return the names that an instruction reads."""
        known = self._known.get(id(instruction))
        if known is None:
            known = self._known[id(instruction)] = (instruction, names_read(instruction))
        return known[1]
