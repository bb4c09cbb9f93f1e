"""Writes the stages of a contraction plan: loops over lines, each line written out, or loops all through."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pymbolic.primitives as prim

from formcompiler.errors import VectorizationError
from formcompiler.kernel.builder import Expression, KernelBuilder
from formcompiler.kernel.names import names_in
from formcompiler.kernel.terms import sum_of
from formcompiler.sumfact.arrays import Array, ArrayPool
from formcompiler.sumfact.contraction import Key, Output, Stage, Table
from formcompiler.sumfact.halves import half
from formcompiler.sumfact.lines import LineMatrix, LineWriter

Extents = tuple[tuple[int, ...], ...]
"""Extents per direction: one for points or the dofs of one argument, two for the dofs of two arguments."""
Index = tuple[tuple[Expression, ...], ...]
TableEntry = Callable[[int, Any, tuple[Expression, ...], tuple[Expression, ...]], Expression]
"""Entry of the table of (direction, table key) at an index before and an index after the contraction."""
Place = Callable[[Index], Expression]
"""Gives an entry of an array."""


@dataclass(frozen=True)
class Layout:
    """Extents of the arrays between stages.

    Attributes:
        n_dofs: Per direction that has not been, or is already, contracted with dofs.
        n_points: Per direction in which values at points are stored.
        is_constant: Whether values of a table are the same at all points along a direction; they are stored once.
    """

    n_dofs: Extents
    n_points: tuple[int, ...]
    is_constant: Callable[[int, Table], bool] = lambda direction, table: False
    _known: dict[Key, Extents] = field(default_factory=dict, compare=False, repr=False)

    def extents(self, key: Key) -> Extents:
        """Return the extents of the array of a key."""
        if key not in self._known:
            self._known[key] = tuple(
                self.n_dofs[d] if table is None else ((1,) if self.is_constant(d, table) else (self.n_points[d],))
                for d, table in enumerate(key)
            )
        return self._known[key]


@dataclass(frozen=True)
class StageContext:
    """What the stages of one plan work on.

    Attributes:
        layout: Extents.
        names: Wishes for the inames of points, for those of dofs (one letter for each argument), and for arrays.
        dtype: Type of intermediate arrays and sums.
        places: Arrays that are given, by key; intermediate and wanted ones are added.
        matrix: Matrix of (direction, table) along lines; None if the contraction has to be a loop.
        entry: Entry of a 1D table, for loops.
        write: Takes each entry of results that are no arrays, by key.
        pool: Where arrays come from.
        owned: Arrays by key that may be overwritten after their last use; new ones are added.
        kept: Keys of arrays that are needed after all stages.
    """

    layout: Layout
    names: tuple[str, str, str]
    dtype: Any
    places: dict[Key, Place]
    matrix: Callable[[int, Table], LineMatrix | None]
    entry: TableEntry
    write: dict[Key, Callable[[Index, Expression], None]]
    pool: ArrayPool
    owned: dict[Key, Array]
    kept: frozenset[Key] = frozenset()


def count_line_operations(stages: Sequence[Stage], layout: Layout, matrix: Callable[[int, Table], Any]) -> int:
    """Return the operations of stages, a multiplication with an addition counted as one."""
    total = 0
    for stage in stages:
        for output in stage.outputs:
            for source, table in output.terms:
                d = stage.direction
                extents = [max(a, b) for a, b in zip(_sizes(layout, output.key), _sizes(layout, source), strict=True)]
                one = extents[d] if table is None else _line_operations(matrix, layout, output.key, d, table)
                total += math.prod(extents) // extents[d] * one
    return total


def _line_operations(matrix: Any, layout: Layout, key: Key, direction: int, table: Table) -> int:
    found = matrix(direction, table)
    rows = _sizes(layout, key)[direction]
    return int(found.n_operations) if rows == len(found.values) else int(found.values.shape[1])


def _sizes(layout: Layout, key: Key) -> list[int]:
    return [math.prod(extent) for extent in layout.extents(key)]


def write_stages(builder: KernelBuilder, stages: Sequence[Stage], contexts: Sequence[StageContext]) -> None:
    """Write all stages. Outputs of one stage and one shape share a loop nest and the loads of their inputs.

    Args:
        builder: The kernel under construction.
        stages: The plan.
        contexts: What is contracted: arrays of the same layouts, side by side in the same loops.
    """
    context = contexts[0]
    for number, stage in enumerate(stages):
        later = {key for s in stages[number + 1 :] for output in s.outputs for key, _ in output.terms}
        groups: dict[Extents, list[Output]] = {}
        for output in stage.outputs:
            groups.setdefault(context.layout.extents(output.key), []).append(output)
        readers = {k: {e for e, outs in groups.items() for o in outs if k in dict(o.terms)} for k in context.owned}
        for extents, outputs in groups.items():
            used = {key for output in outputs for key, _ in output.terms}
            gone = used - later - context.kept
            last = [k for k in context.owned if k in gone and readers[k] == {extents}]
            _write_group(builder, stage.direction, extents, outputs, last, contexts)


def _write_group(
    builder: KernelBuilder,
    direction: int,
    extents: Extents,
    outputs: Sequence[Output],
    last: Sequence[Key],
    contexts: Sequence[StageContext],
) -> None:
    """Write one nest; the arrays of the keys in ``last`` are not needed after it.

    A line is read before results are written to the same line, and the contexts come one after the other. So the
    results of a context may take the place of its own inputs and of those of contexts before it.
    """
    tables = [table for output in outputs for _, table in output.terms if table is not None]
    matrices = {table: contexts[0].matrix(direction, table) for table in dict.fromkeys(tables)}
    by_lines = None not in matrices.values()
    io = []
    for context in contexts:
        sources = {key: context.places[key] for output in outputs for key, _ in output.terms}
        dying = [context.owned.pop(key) for key in last]
        if by_lines:
            context.pool.give_back(dying)
        elif context.pool.halves is not None:
            raise VectorizationError("lines are too long to be written out, and only those have halves")
        targets = {output.key: _target(builder, output.key, extents, context) for output in outputs}
        if not by_lines:
            _write_loops(builder, direction, extents, outputs, (sources, targets), context)
            context.pool.give_back(dying)
        io.append((sources, targets))
    if by_lines:
        writer = _Lines if contexts[0].pool.halves is None else _HalfLines
        writer(builder, direction, extents, contexts[0], matrices).write(outputs, io)


def _target(
    builder: KernelBuilder, key: Key, extents: Extents, context: StageContext
) -> Callable[[Index, Expression], None]:
    """Return what takes the entries of a result; an array is made if it has none."""
    if key in context.write:
        return context.write[key]
    array = context.pool.take(context.names[2], [e for direction in extents for e in direction], context.dtype)
    context.owned[key] = array
    context.places[key] = lambda index: array[[i for direction in index for i in direction]]
    return lambda index, value: builder.assign(array[[i for direction in index for i in direction]], value)


class _Lines:
    """Writes one nest of loops over lines, each line without loops."""

    def __init__(
        self,
        builder: KernelBuilder,
        direction: int,
        extents: Extents,
        context: StageContext,
        matrices: Mapping[Table, LineMatrix | None],
    ) -> None:
        self._builder = builder
        self._direction = direction
        self._extents = extents
        self._context = context
        self._matrices = matrices

    def write(
        self,
        outputs: Sequence[Output],
        io: Sequence[tuple[Mapping[Key, Place], Mapping[Key, Callable[[Index, Expression], None]]]],
    ) -> None:
        """Write loads of all lines, products, and stores; loads come first, so that results may replace inputs."""
        d, key = self._direction, outputs[0].key
        ranges = [
            (("i" if table is None else "q") + str(r), self._count(extent[0]))
            for r, (table, extent) in enumerate(zip(key, self._extents, strict=True))
            if r != d
        ]
        with self._builder.loops(*ranges) as others:
            for sources, targets in io:
                for output, values in zip(outputs, self._multiply(outputs, sources, others), strict=True):
                    for number, value in enumerate(values):
                        targets[output.key](self._index(output.key, others, number), value)

    def _count(self, extent: int) -> int:
        """Return the trips of a loop over the entries of a direction."""
        return extent

    def _multiply(
        self, outputs: Sequence[Output], sources: Mapping[Key, Place], others: tuple[Expression, ...]
    ) -> list[list[Expression]]:
        """Write loads and products; return the entries of the line of each output."""
        writer = LineWriter(self._builder, self._context.dtype)
        lines = {source: self._load(writer, source, place, others) for source, place in sources.items()}
        return [self._result(writer, output, lines) for output in outputs]

    def _load(self, writer: LineWriter, source: Key, place: Place, others: tuple[Expression, ...]) -> list[Expression]:
        (extent,) = self._context.layout.extents(source)[self._direction]
        return [writer.name("v", place(self._index(source, others, number))) for number in range(extent)]

    def _result(self, writer: LineWriter, output: Output, lines: Mapping[Key, list[Expression]]) -> list[Expression]:
        (extent,) = self._extents[self._direction]
        products = []
        for source, table in output.terms:
            if table is not None:
                matrix = self._matrices[table]
                assert matrix is not None
                products.append((matrix.first_rows(extent), lines[source]))
        added = [lines[source] for source, table in output.terms if table is None]
        return writer.multiply(products, added)

    def _index(self, key: Key, others: tuple[Expression, ...], number: int) -> Index:
        """Return an index with the number of the entry along the line."""
        d = self._direction
        return (*((i,) for i in others[:d]), (number,), *((i,) for i in others[d:]))


class _HalfLines(_Lines):
    """Writes lines that are stored in halves, see `formcompiler.sumfact.halves`."""

    def _count(self, extent: int) -> int:
        return half(extent)

    def _multiply(
        self, outputs: Sequence[Output], sources: Mapping[Key, Place], others: tuple[Expression, ...]
    ) -> list[list[Expression]]:
        halves, d, dtype = self._context.pool.halves, self._direction, self._context.dtype
        assert halves is not None
        lines: dict[Key, list[tuple[Expression, Expression | None]]] = {}
        for source, place in sources.items():
            (extent,) = self._context.layout.extents(source)[d]
            own = [halves.load("v", place(self._index(source, others, n)), dtype) for n in range(half(extent))]
            lines[source] = [
                (vector, None if 2 * n + 1 == extent else halves.opposite(name, d, dtype))
                for n, (vector, name) in enumerate(own)
            ]
        (extent,) = self._extents[d]
        results = []
        for output in outputs:
            terms: list[list[Expression]] = [[] for _ in range(half(extent))]
            for source, table in output.terms:
                matrix = None if table is None else self._matrices[table]
                added = (
                    ([vector] for vector, _ in lines[source])
                    if matrix is None
                    else halves.multiply(matrix.first_rows(extent), d, lines[source])
                )
                for found, more in zip(terms, added, strict=True):
                    found.extend(more)
            results.append([sum_of(row) for row in terms])
        return results


def _write_loops(
    builder: KernelBuilder,
    direction: int,
    extents: Extents,
    outputs: Sequence[Output],
    io: tuple[Mapping[Key, Place], Mapping[Key, Callable[[Index, Expression], None]]],
    context: StageContext,
) -> None:
    """Write one contraction: for all remaining indices, sum products of table and input over the inner ones."""
    d, sources, targets = direction, *io
    inner = context.layout.extents(outputs[0].terms[0][0])[d]
    letters = [context.names[1] if table is None else context.names[0] for table in outputs[0].key]
    ranges = [
        (f"{wish}{r}", e)
        for r, (wishes, along) in enumerate(zip(letters, extents, strict=True))
        for wish, e in zip(wishes, along, strict=False)
    ]
    inner_letters = context.names[1] if outputs[0].terms[0][0][d] is None else context.names[0]
    with builder.loops(*ranges) as flat:
        index = _unflatten(flat, extents)
        is_trivial = all(extent == 1 for extent in inner)
        parts = [[o.terms] if is_trivial else _split_constant(o, d, len(inner), index[d], context) for o in outputs]
        sums = [[prim.Variable(builder.temporary("acc", (), context.dtype)) for _ in part] for part in parts]
        for accumulator in (a for part in sums for a in part if not is_trivial):
            builder.assign(accumulator, 0.0)
        with builder.loops(*((f"{wish}{d}", e) for wish, e in zip(inner_letters, inner, strict=False))) as reduced:
            source = (*index[:d], reduced, *index[d + 1 :])
            values = [
                [
                    sum_of([_times(context.entry(d, t, reduced, index[d]), sources[k](source)) for k, t in ts])
                    for ts in p
                ]
                for p in parts
            ]
            for accumulators, terms in zip(sums, values, strict=True):
                for accumulator, value in zip(accumulators, terms, strict=True):
                    if not is_trivial:
                        builder.accumulate(accumulator, value)
        for output, results in zip(outputs, values if is_trivial else sums, strict=True):
            targets[output.key](index, sum_of(results))


def _split_constant(
    output: Output, direction: int, n_inner: int, after: tuple[Expression, ...], context: StageContext
) -> list[list[tuple[Key, Table]]]:
    """Return the terms of an output in sums of their own if their tables do not depend on what is summed over.

    Such a table is a factor of the whole sum, which can be taken out of it.
    """
    inner = tuple(prim.Variable(f"inner{n}") for n in range(n_inner))
    names = {v.name for v in inner}
    found: dict[bool, list[tuple[Key, Table]]] = {}
    for key, table in output.terms:
        entry = context.entry(direction, table, inner, after)
        found.setdefault(bool(names_in(entry) & names), []).append((key, table))
    return list(found.values())


def _unflatten(flat: tuple[Expression, ...], extents: Extents) -> Index:
    result, position = [], 0
    for direction in extents:
        result.append(flat[position : position + len(direction)])
        position += len(direction)
    return tuple(result)


def _times(factor: Expression, value: Expression) -> Expression:
    if isinstance(factor, float) and factor == 1:
        return value
    return prim.Product((factor, value))
