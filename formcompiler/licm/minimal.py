"""The least set of inames that each subexpression depends on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import loopy as lp
from loopy.symbolic import CombineMapper, get_dependencies

from formcompiler.licm.nest import Nest
from formcompiler.licm.scopes import Scopes

Inames = frozenset[str]


class MinimalInames(CombineMapper):  # type: ignore[misc]
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

    def map_call(self, expr: Any) -> Inames:
        """Return what the parameters depend on: the function is a leaf, taken whole."""
        return self.combine(map(self.rec, expr.parameters))


def make_minimal_inames(kernel: lp.LoopKernel, nest: Nest, scopes: Scopes, instruction: str) -> MinimalInames:
    """Return the mapper for one instruction: predicates first, which bind everything else."""
    around = nest.loops[instruction]
    predicates = kernel.id_to_insn[instruction].predicates
    of_predicates = MinimalInames(instruction, around, scopes)
    least = frozenset[str]().union(*map(of_predicates, sorted(predicates, key=str)))
    return MinimalInames(instruction, around, scopes, least)


def names_in(expression: Any) -> frozenset[str]:
    """Return all names of variables in an expression, functions not among them."""
    return frozenset(get_dependencies(expression))
