"""Which variables an expression refers to, with which indices and under which conditions; which ones C code may."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import loopy as lp
import pymbolic.primitives as prim
from loopy.symbolic import WalkMapper, get_dependencies

HIDDEN = "what C functions keep"
"""Stands for all memory that functions called by C code may touch without naming it there."""

_HARMLESS = frozenset(
    "if for while switch sizeof abs fabs exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 "
    "sinh cosh tanh asinh acosh atanh sqrt cbrt hypot pow erf erfc tgamma lgamma floor ceil round trunc fmod fmin fmax "
    "min max fma copysign isnan isinf isfinite".split()
)
"""What may stand before a parenthesis in C code without touching memory."""


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


@dataclass(frozen=True)
class CodeUses:
    """What a C instruction may touch: all elements of these variables.

    Attributes:
        reads: Variables that it may read; among them all that it may write, since it may leave elements as they are.
        writes: Variables that it may write.
    """

    reads: frozenset[str]
    writes: frozenset[str]


def find_code_uses(instruction: lp.CInstruction) -> CodeUses:
    """Return the names that C code may read and write.

    These are its ``assignees``, ``read_variables`` and ``iname_exprs``, and each name in the code: one that is not
    among its ``read_variables`` may be written. Code that calls other functions than those of C's mathematical library,
    or has static variables, may read and write `HIDDEN` as well.
    """
    named = set(re.findall(r"[A-Za-z_]\w*", instruction.code))
    declared = set(instruction.read_variables)
    declared = declared.union(*(get_dependencies(e) for _, e in instruction.iname_exprs))
    declared = declared.union(*instruction.assignee_subscript_deps())
    writes = set(instruction.assignee_var_names()) | (named - declared)
    called = set(re.findall(r"([A-Za-z_]\w*)\s*\(", instruction.code))
    if called - _HARMLESS or "static" in named:
        writes.add(HIDDEN)
    return CodeUses(frozenset(declared | writes), frozenset(writes))
