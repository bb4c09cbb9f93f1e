"""Writes the stages of a contraction plan as loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pymbolic.primitives as prim

from formcompiler.kernel.builder import Expression, KernelBuilder
from formcompiler.sumfact.arrays import Array, make_array
from formcompiler.sumfact.contraction import Key, Stage

Extents = tuple[tuple[int, ...], ...]
"""Extents per direction: one for points or the dofs of one argument, two for the dofs of two arguments."""
Index = tuple[tuple[Expression, ...], ...]
TableEntry = Callable[[int, Any, tuple[Expression, ...], tuple[Expression, ...]], Expression]
"""Entry of the table of (direction, table key) at an index before and an index after the contraction."""


def write_stages(
    builder: KernelBuilder,
    stages: Sequence[Stage],
    before: Extents,
    after: Extents,
    names: tuple[str, str, str],
    dtype: str,
    read: Callable[[Key, Index], Expression],
    table: TableEntry,
    write: Callable[[Key, Index, Expression], None],
) -> None:
    """Write all stages; each is one loop nest, whose outputs share the loads of their inputs.

    Args:
        builder: The kernel under construction.
        stages: The plan.
        before: Extents of the given arrays.
        after: Extents of the results.
        names: Wishes for the inames before and for those after, one letter for each axis of a direction, and for
            the intermediate arrays.
        dtype: Type of intermediate arrays and sums.
        read: Entry of a given array.
        table: Entry of a 1D table.
        write: Takes each entry of the results.
    """
    extents = list(before)
    inames = [names[0]] * len(before)
    source = read
    for number, stage in enumerate(stages):
        inner = extents[stage.direction]
        extents[stage.direction] = after[stage.direction]
        inames[stage.direction] = names[1]
        if number == len(stages) - 1:
            target = write
        else:
            arrays = {
                output.key: make_array(builder, names[2], [e for direction in extents for e in direction], dtype)
                for output in stage.outputs
            }
            target = _writer(builder, arrays)
        _write_stage(builder, stage, tuple(extents), inner, (names[0], inames), dtype, source, table, target)
        if number < len(stages) - 1:
            source = _reader(arrays)


def _writer(builder: KernelBuilder, arrays: dict[Key, Array]) -> Callable[[Key, Index, Expression], None]:
    def write(key: Key, index: Index, value: Expression) -> None:
        builder.assign(arrays[key][[i for direction in index for i in direction]], value)

    return write


def _reader(arrays: dict[Key, Array]) -> Callable[[Key, Index], Expression]:
    return lambda key, index: arrays[key][[i for direction in index for i in direction]]


def _write_stage(
    builder: KernelBuilder,
    stage: Stage,
    extents: Extents,
    inner: tuple[int, ...],
    inames: tuple[str, Sequence[str]],
    dtype: str,
    read: Callable[[Key, Index], Expression],
    table: TableEntry,
    write: Callable[[Key, Index, Expression], None],
) -> None:
    """Write one contraction: for all remaining indices, sum products of table and input over the inner ones."""
    d = stage.direction
    ranges = [
        (f"{wish}{r}", e)
        for r, (wishes, direction) in enumerate(zip(inames[1], extents, strict=True))
        for wish, e in zip(wishes, direction, strict=False)
    ]
    with builder.loops(*ranges) as flat:
        index = _unflatten(flat, extents)
        trivial = all(extent == 1 for extent in inner)
        sums = [] if trivial else [prim.Variable(builder.temporary("acc", (), dtype)) for _ in stage.outputs]
        for accumulator in sums:
            builder.assign(accumulator, 0.0)
        with builder.loops(*((f"{wish}{d}", e) for wish, e in zip(inames[0], inner, strict=False))) as reduced:
            source = (*index[:d], reduced, *index[d + 1 :])
            values = [
                _sum([_times(table(d, t, reduced, index[d]), read(key, source)) for key, t in output.terms])
                for output in stage.outputs
            ]
            for accumulator, value in zip(sums, values, strict=False):
                builder.accumulate(accumulator, value)
        for output, value in zip(stage.outputs, sums or values, strict=True):
            write(output.key, index, value)


def _unflatten(flat: tuple[Expression, ...], extents: Extents) -> Index:
    result, position = [], 0
    for direction in extents:
        result.append(flat[position : position + len(direction)])
        position += len(direction)
    return tuple(result)


def _sum(values: list[Expression]) -> Expression:
    return values[0] if len(values) == 1 else prim.Sum(tuple(values))


def _times(factor: Expression, value: Expression) -> Expression:
    if isinstance(factor, float) and factor == 1:
        return value
    return prim.Product((factor, value))
