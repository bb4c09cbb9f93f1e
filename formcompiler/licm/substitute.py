"""Substitution in expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pymbolic.primitives as prim
from loopy.symbolic import SubstitutionMapper


def substitute(by_name: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return a function that puts expressions in the place of variables, arrays among them."""
    return substitute_with(lambda e: by_name.get(e.name) if isinstance(e, prim.Variable) else None)


def substitute_with(find: Callable[[Any], Any | None]) -> Callable[[Any], Any]:
    """Return a function that replaces each variable and array access for which something is found.

    Expressions in which nothing is found stay the same objects. It does what loopy's mapper does, which takes several
    times as long for the kinds of nodes that are most frequent.
    """
    rare: Any = SubstitutionMapper(find)

    def replaced(expression: Any) -> Any:
        kind = type(expression)
        if kind is prim.Variable:
            found = find(expression)
            return expression if found is None else found
        if kind is prim.Sum or kind is prim.Product:
            children = tuple([replaced(c) for c in expression.children])
            return kind(children) if _are_new(children, expression.children) else expression
        if kind is prim.Subscript:
            found = find(expression)
            if found is not None:
                return found
            parts = (replaced(expression.aggregate), replaced(expression.index))
            return prim.Subscript(*parts) if _are_new(parts, (expression.aggregate, expression.index)) else expression
        if kind is tuple:
            parts = tuple([replaced(part) for part in expression])
            return parts if _are_new(parts, expression) else expression
        return rare(expression) if isinstance(expression, prim.ExpressionNode) else expression

    return replaced


def _are_new(parts: tuple[Any, ...], before: tuple[Any, ...]) -> bool:
    return any(new is not old for new, old in zip(parts, before, strict=True))
