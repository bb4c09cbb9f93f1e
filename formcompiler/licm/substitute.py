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
    """Return a function that replaces each variable and array access for which something is found."""
    mapper: Any = SubstitutionMapper(find)
    return mapper  # type: ignore[no-any-return]
