"""New assignments and temporaries, without the checks of loopy's constructors, which would take most of the time."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import loopy as lp
import pymbolic.primitives as prim
from constantdict import constantdict
from loopy.kernel.instruction import HappensAfter

_BLANK = lp.Assignment(
    prim.Variable("blank"),
    0,
    id="blank",
    within_inames=frozenset(),
    within_inames_is_final=True,
    depends_on=frozenset(),
    depends_on_is_final=True,
)

_AFTER = HappensAfter(variable_name=None, instances_rel=None)
"""All of an instruction comes after all of another one."""


def with_changes(instruction: Any, **attributes: Any) -> Any:
    """Return an instruction with other attributes of the same types, as ``instruction.copy`` would.

    Dependencies are given as ``happens_after``: see `after`.
    """
    fields = instruction.fields
    result = object.__new__(type(instruction))
    vars(result).update({name: value for name, value in vars(instruction).items() if name in fields})
    vars(result).update(attributes, _cached_hash=None)
    return result


def make_assignment(target: Any, value: Any, own_id: str, inames: Iterable[str], **attributes: Any) -> Any:
    """Return ``target = value`` inside of loops; with no dependencies, unless attributes say so (`with_changes`)."""
    return with_changes(
        _BLANK, assignee=target, expression=value, id=own_id, within_inames=frozenset(inames), **attributes
    )


def after(ids: Iterable[str]) -> constantdict[str, HappensAfter]:
    """Return the attribute ``happens_after`` of an instruction that comes after others."""
    return constantdict(dict.fromkeys(ids, _AFTER))


def make_temporary(name: str, shape: tuple[int, ...], dtype: Any) -> lp.TemporaryVariable:
    """Return a private temporary; its type is inferred if it is None. Arrays start at a multiple of 64 bytes."""
    model = _model(shape, dtype)
    result: lp.TemporaryVariable = object.__new__(type(model))
    vars(result).update(vars(model), name=name)
    return result


@lru_cache(maxsize=1024)
def _model(shape: tuple[int, ...], dtype: Any) -> lp.TemporaryVariable:
    return lp.TemporaryVariable(
        "model",
        dtype=dtype,
        shape=shape,
        address_space=lp.AddressSpace.PRIVATE,
        alignment=64 if shape else None,
    )
