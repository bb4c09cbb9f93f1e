"""The least set of inames that each subexpression depends on."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import loopy as lp
import pymbolic.primitives as prim
from loopy.symbolic import IdentityMapper

from formcompiler.kernel.names import names_in
from formcompiler.licm.nest import Nest
from formcompiler.licm.scopes import Scopes

Inames = frozenset[str]


class MinimalInames:
    """Returns minimal iname sets of subexpressions of one instruction; results are kept by expression.

    The set of an expression is the union of those of its variables; functions depend on nothing.

    Args:
        instruction: Where the expressions stand.
        around: Its loops and lanes.
        scopes: Where variables get their values.
        least: Inames that every subexpression is bound to: those of the instruction's predicates.
    """

    def __init__(self, instruction: str, around: Iterable[str], scopes: Scopes, least: Inames = frozenset()) -> None:
        self._instruction = instruction
        self._around = frozenset(around)
        self._scopes = scopes
        self._least = least
        self.known: dict[Any, Inames] = {}

    def __call__(self, expression: Any) -> Inames:
        """Return the set of one expression."""
        if expression not in self.known:
            self.known[expression] = self._least.union(*map(self._of_variable, names_in(expression)))
        return self.known[expression]

    def _of_variable(self, name: str) -> Inames:
        """Return the iname itself, or the loops in which the variable gets its value."""
        if name in self._around:
            return frozenset([name])
        return self._scopes.inames_of_read(name, self._instruction)


def make_minimal_inames(kernel: lp.LoopKernel, nest: Nest, scopes: Scopes, instruction: str) -> MinimalInames:
    """Return the mapper for one instruction: predicates first, which bind everything else."""
    around = (*nest.loops[instruction], *nest.lanes_of[instruction])
    predicates = kernel.id_to_insn[instruction].predicates
    of_predicates = MinimalInames(instruction, around, scopes)
    least = frozenset[str]().union(*map(of_predicates, sorted(predicates, key=str)))
    return MinimalInames(instruction, around, scopes, least)


@lru_cache(maxsize=1 << 16)
def accesses_in(expression: Any) -> tuple[Any, ...]:
    """Return all variables and array accesses in an expression, in order; those in indices are not looked for."""
    if isinstance(expression, (prim.Variable, prim.Subscript)):
        return (expression,)
    if isinstance(expression, (prim.Sum, prim.Product)):
        return tuple(a for c in expression.children for a in accesses_in(c))
    if not isinstance(expression, prim.ExpressionNode):
        return ()
    found: list[Any] = []
    _Finder(found)(expression)
    return tuple(found)


class _Finder(IdentityMapper[[]]):
    """Collects variables and array accesses."""

    def __init__(self, found: list[Any]) -> None:
        super().__init__()
        self._found = found

    def map_call(self, expr: Any) -> Any:
        """Look into the parameters only."""
        for parameter in expr.parameters:
            self.rec(parameter)
        return expr

    def map_subscript(self, expr: Any) -> Any:
        """Collect an access."""
        self._found.append(expr)
        return expr

    def map_variable(self, expr: Any) -> Any:
        """Collect a variable."""
        self._found.append(expr)
        return expr
