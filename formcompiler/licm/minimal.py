"""The least set of inames that each subexpression depends on."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import loopy as lp
import pymbolic.primitives as prim
from loopy.symbolic import CombineMapper, get_dependencies

from formcompiler.licm.nest import Nest
from formcompiler.licm.scopes import Scopes

Inames = frozenset[str]


class MinimalInames(CombineMapper[Inames, []]):
    """Returns minimal iname sets of subexpressions of one instruction; results are kept by expression.

    Args:
        instruction: Where the expressions stand.
        around: Its loops.
        scopes: Where variables get their values.
        least: Inames that every subexpression is bound to: those of the instruction's predicates.
    """

    def __init__(self, instruction: str, around: Iterable[str], scopes: Scopes, least: Inames = frozenset()) -> None:
        super().__init__()
        self._instruction = instruction
        self._around = frozenset(around)
        self._scopes = scopes
        self._least = least
        self.known: dict[Any, Inames] = {}

    def rec(self, expr: Any) -> Inames:
        """Return the set of one expression."""
        try:
            return self.known[expr]
        except KeyError:
            inames: Inames = super().rec(expr)
            self.known[expr] = inames
            return inames

    __call__ = rec

    def combine(self, values: Iterable[Inames]) -> Inames:
        """Return the union of the sets of the children."""
        return self._least.union(*values)

    def map_constant(self, expr: Any) -> Inames:
        """Return the least set: a literal depends on nothing."""
        return self._least

    map_function_symbol = map_constant
    map_resolved_function = map_constant

    def map_variable(self, expr: Any) -> Inames:
        """Return the iname itself, or the loops in which the variable gets its value."""
        if expr.name in self._around:
            return self._least | {expr.name}
        return self._least | self._scopes.inames_of_read(expr.name, self._instruction)

    map_tagged_variable = map_variable

    def map_subscript(self, expr: Any) -> Inames:
        """Return what the array and its indices depend on."""
        return self.combine(self.rec(prim.Variable(name)) for name in names_in(expr))

    def map_call(self, expr: Any) -> Inames:
        """Return what the parameters depend on: the function is a leaf, taken whole."""
        return self.combine(map(self.rec, expr.parameters))


def make_minimal_inames(kernel: lp.LoopKernel, nest: Nest, scopes: Scopes, instruction: str) -> MinimalInames:
    """Return the mapper for one instruction: predicates first, which bind everything else."""
    around = (*nest.loops[instruction], *nest.lanes_of[instruction])
    predicates = kernel.id_to_insn[instruction].predicates
    of_predicates = MinimalInames(instruction, around, scopes)
    least = frozenset[str]().union(*map(of_predicates, sorted(predicates, key=str)))
    return MinimalInames(instruction, around, scopes, least)


@lru_cache(maxsize=1 << 17)
def names_in(expression: Any) -> Inames:
    """Return all names of variables in an expression, functions not among them."""
    if not isinstance(expression, prim.ExpressionNode):
        return frozenset().union(*map(names_in, expression)) if isinstance(expression, tuple) else frozenset()
    if isinstance(expression, prim.Variable):
        return frozenset([expression.name])
    if isinstance(expression, (prim.Sum, prim.Product)):
        return frozenset[str]().union(*map(names_in, expression.children))
    if isinstance(expression, prim.Subscript):
        return names_in(expression.aggregate).union(*map(names_in, expression.index_tuple))
    return frozenset(get_dependencies(expression))


def names_read(instruction: Any) -> frozenset[str]:
    """Return the names that an instruction reads: in its expression, its predicates and its target's indices."""
    if not isinstance(instruction, lp.Assignment):
        return frozenset(instruction.read_dependency_names())
    target = instruction.assignee
    read = names_in(instruction.expression)
    if isinstance(target, prim.Subscript):
        read = read.union(*map(names_in, target.index_tuple))
    return read.union(*map(names_in, instruction.predicates))
