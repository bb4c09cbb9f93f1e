"""Unrolls innermost loops over constant tables where that saves operations: zeros vanish, ones are not multiplied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import loopy as lp
import pymbolic.primitives as prim
from loopy.symbolic import SubstitutionMapper
from pymbolic.mapper.substitutor import make_subst_func

from formcompiler.constfold.expressions import Expression, Folder, names_in
from formcompiler.kernel.flops import count_expression_operations

_LONGEST_SUM = 64
_LONGEST_COPY = 8
"""Longest loops that are unrolled: into one sum; into one instruction for each trip."""


@dataclass(frozen=True)
class Unrolling:
    """What one instruction becomes.

    Attributes:
        old: The instruction inside of the loop.
        new: Instructions in place of the loop.
    """

    old: Any
    new: tuple[Any, ...]


def split_accumulation(instruction: Any) -> tuple[Expression, ...] | None:
    """Return the terms that an instruction ``x = x + terms`` adds, None if it is not of this kind."""
    value = instruction.expression
    if not isinstance(value, prim.Sum) or value.children[0] != instruction.assignee:
        return None
    terms = value.children[1:]
    name = instruction.assignee_var_names()[0]
    return None if any(name in names_in(t) for t in terms) else tuple(terms)


def unroll_loop(
    body: Sequence[Any], iname: str, extent: int, fold: Folder, new_id: Callable[[str], str]
) -> list[Unrolling]:
    """Return what the instructions of an innermost loop become that are better unrolled.

    An instruction that runs repeatedly for the same target (a sum over points) is not copied, so that later stages
    still see it as one.

    Legality: the other instructions of the loop neither read nor write what such an instruction writes, and do not
    write what it reads.

    Args:
        body: All instructions of the loop.
        iname: Its iname.
        extent: Its number of trips.
        fold: Folds expressions.
        new_id: Makes a new id from an old one.
    """
    found = []
    for instruction in body:
        others = [other for other in body if other is not instruction]
        if not isinstance(instruction, lp.Assignment) or instruction.predicates or _conflicts(instruction, others):
            continue
        if not fold.has_table(instruction.expression, iname):
            continue
        is_sum = iname not in names_in(instruction.assignee)
        new = (_as_sum if is_sum else _as_copies)(instruction, iname, extent, fold, new_id)
        if new is not None and _operations(new) < extent * _operations([instruction]):
            found.append(Unrolling(instruction, tuple(new)))
    return found


def _operations(instructions: Sequence[Any]) -> int:
    return sum(count_expression_operations(i.expression) for i in instructions)


def _conflicts(instruction: Any, others: Sequence[Any]) -> bool:
    written = set(instruction.assignee_var_names())
    touched = written | _read(instruction)
    return any(
        written & (_read(o) | set(o.assignee_var_names())) or touched & set(o.assignee_var_names()) for o in others
    )


def _read(instruction: Any) -> frozenset[str]:
    """Return the names that an instruction reads."""
    if not isinstance(instruction, lp.Assignment) or instruction.predicates:
        return frozenset(instruction.read_dependency_names())
    target = instruction.assignee
    index = target.index_tuple if isinstance(target, prim.Subscript) else ()
    return names_in(instruction.expression).union(*map(names_in, index))


def _at(iname: str, value: int) -> Any:
    return SubstitutionMapper(make_subst_func({iname: value}))


def _as_sum(instruction: Any, iname: str, extent: int, fold: Folder, new_id: Callable[[str], str]) -> list[Any] | None:
    terms = split_accumulation(instruction)
    if terms is None or extent > _LONGEST_SUM:
        return None
    summed = [_at(iname, n)(term) for n in range(extent) for term in terms]
    value = fold(prim.Sum((instruction.assignee, *summed)))
    inames = instruction.within_inames - {iname}
    return [instruction.copy(id=new_id(instruction.id), expression=value, within_inames=inames)]


def _as_copies(
    instruction: Any, iname: str, extent: int, fold: Folder, new_id: Callable[[str], str]
) -> list[Any] | None:
    index = names_in(instruction.assignee)
    if extent > _LONGEST_COPY or not instruction.within_inames <= index:
        return None
    result = []
    for n in range(extent):
        target = fold.target(_at(iname, n)(instruction.assignee))
        value = fold(_at(iname, n)(instruction.expression))
        if value != target:
            inames = instruction.within_inames - {iname}
            result.append(
                instruction.copy(id=new_id(instruction.id), assignee=target, expression=value, within_inames=inames)
            )
    return result
