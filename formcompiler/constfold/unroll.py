"""Unrolls innermost loops over constant tables where that saves operations: zeros vanish, ones are not multiplied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import loopy as lp
import pymbolic.primitives as prim
from loopy.symbolic import SubstitutionMapper
from pymbolic.mapper.substitutor import make_subst_func

from formcompiler.constfold.expressions import Expression, Folder
from formcompiler.kernel.flops import count_expression_operations
from formcompiler.kernel.instructions import with_changes
from formcompiler.kernel.names import Reads, names_in

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
    body: Sequence[Any], iname: str, extent: int, fold: Folder, new_id: Callable[[str], str], reads: Reads
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
        reads: Names that instructions read.
    """
    found: list[Unrolling] = []
    candidates = [i for i in body if isinstance(i, lp.Assignment) and not i.predicates]
    candidates = [i for i in candidates if fold.has_table(i.expression, iname)]
    if not candidates:
        return found
    touching = _count_touching(body, reads)
    for instruction in candidates:
        if _conflicts(instruction, reads, *touching):
            continue
        is_sum = iname not in names_in(instruction.assignee)
        new = (_as_sum if is_sum else _as_copies)(instruction, iname, extent, fold, new_id)
        if new is not None and _operations(new) < extent * _operations([instruction]):
            found.append(Unrolling(instruction, tuple(new)))
    return found


def _operations(instructions: Sequence[Any]) -> int:
    return sum(count_expression_operations(i.expression) for i in instructions)


def _count_touching(body: Sequence[Any], reads: Reads) -> tuple[Counter[str], Counter[str]]:
    """Return how many instructions write each variable, and how many read or write it."""
    writing, touching = Counter[str](), Counter[str]()
    for instruction in body:
        written = frozenset(instruction.assignee_var_names())
        writing.update(written)
        touching.update(written | reads(instruction))
    return writing, touching


def _conflicts(instruction: Any, reads: Reads, writing: Counter[str], touching: Counter[str]) -> bool:
    """Tell whether others touch what an assignment writes, or write what it reads."""
    name = instruction.assignee_name
    return touching[name] > 1 or any(writing[read] for read in reads(instruction) if read != name)


def _at(iname: str, value: int) -> Any:
    return SubstitutionMapper(make_subst_func({iname: value}))


def _as_sum(instruction: Any, iname: str, extent: int, fold: Folder, new_id: Callable[[str], str]) -> list[Any] | None:
    terms = split_accumulation(instruction)
    if terms is None or extent > _LONGEST_SUM:
        return None
    summed = [_at(iname, n)(term) for n in range(extent) for term in terms]
    value = fold(prim.Sum((instruction.assignee, *summed)))
    inames = instruction.within_inames - {iname}
    return [with_changes(instruction, id=new_id(instruction.id), expression=value, within_inames=inames)]


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
                with_changes(
                    instruction, id=new_id(instruction.id), assignee=target, expression=value, within_inames=inames
                )
            )
    return result
