"""Integration against the arguments: factors at points, contracted with 1D tables into the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pymbolic.primitives as prim

from formcompiler.elements.tables import TensorFactor, component_layout, tensor_factor
from formcompiler.frontend.integrals import ArgumentTerm, FormIntegral
from formcompiler.kernel.builder import Expression, KernelBuilder
from formcompiler.sumfact.arrays import Array, ArrayPool, LineSpace, LineTables, make_array
from formcompiler.sumfact.contraction import Key, Stage, plan_cheapest_integration, plan_integration
from formcompiler.sumfact.frames import FrameAccess
from formcompiler.sumfact.stages import Index, Layout, StageContext, count_line_operations, write_stages
from formcompiler.terminals import Terminal


@dataclass(frozen=True)
class _Block:
    """Dofs of one component of one argument on one side.

    Attributes:
        factor: 1D element.
        side: Cell that they belong to.
        start: First row or column of the result.
        stride: Distance of the next ones.
    """

    factor: TensorFactor
    side: int
    start: int
    stride: int


@dataclass
class _Group:
    """All terms on the same blocks of dofs."""

    blocks: tuple[_Block, ...]
    terms: list[ArgumentTerm]
    keys: list[Key] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)
    slots: list[Expression] = field(default_factory=list)

    @property
    def is_static(self) -> bool:
        """Return whether each key has its own array; otherwise one array holds all, and slots say where."""
        return len(self.arrays) == len(self.keys)

    def factor(self, slot: Expression, point: tuple[Expression, ...]) -> Expression:
        """Return the factor of one slot at one point."""
        return self.arrays[slot][point] if self.is_static else self.arrays[0][(slot, *point)]


class ArgumentIntegrals:
    """Stores the factors of all argument terms at the points, then integrates them block by block."""

    def __init__(
        self,
        builder: KernelBuilder,
        integral: FormIntegral,
        terms: Sequence[ArgumentTerm],
        access: FrameAccess,
        tables: LineTables,
        pool: ArrayPool,
    ) -> None:
        self._builder = builder
        self._integral = integral
        self._access = access
        self._tables = tables
        self._pool = pool
        self._dim = access.frame.dim
        grouped: dict[Any, _Group] = {}
        for term in terms:
            blocks = tuple(self._block(a) for a in term.arguments)
            grouped.setdefault(blocks, _Group(blocks, [])).terms.append(term)
        self._groups = list(grouped.values())
        for group in self._groups:
            if group.blocks:
                self._prepare(group)

    def _block(self, argument: Terminal) -> _Block:
        element = self._integral.arguments[argument.index]
        scalar, offset, stride = component_layout(element, argument.component)
        factor = tensor_factor(scalar)
        assert factor is not None
        return _Block(factor, argument.side, argument.side * element.dim + offset, stride)

    def _prepare(self, group: _Group) -> None:
        """Find all keys that the terms can have in any order of directions, and where each term is stored."""
        frame = self._access.frame
        sides = sorted({block.side for block in group.blocks})
        shape = tuple(len(frame.sides[side].orders) for side in sides)
        orders = list(product(*map(range, shape)))
        by_term = [[self._key(group, term, sides, order) for order in orders] for term in group.terms]
        group.keys = sorted({key for keys in by_term for key in keys})
        table = np.array([[group.keys.index(key) for key in keys] for keys in by_term])
        if (table == table[:, :1]).all():
            group.arrays = [self._pool.take("factors", frame.n_points) for _ in group.keys]
        else:
            group.arrays = [make_array(self._builder, "factors", (len(group.keys), *frame.n_points))]
        for numbers in table:
            group.slots.append(self._slot(numbers.reshape(shape), sides))
        if len(group.keys) > len(group.terms):
            self._clear(group)

    def _key(self, group: _Group, term: ArgumentTerm, sides: list[int], orders: tuple[int, ...]) -> Key:
        """Return for each role the derivative of each argument."""
        counts = []
        for block, argument in zip(group.blocks, term.arguments, strict=True):
            roles = self._access.frame.sides[block.side].permute(argument.derivatives or (0,) * self._dim)
            counts.append(roles[orders[sides.index(block.side)]])
        return counts[0] if len(counts) == 1 else tuple(zip(*counts, strict=True))

    def _slot(self, numbers: Any, sides: list[int]) -> Expression:
        if (numbers == numbers.flat[0]).all():
            return int(numbers.flat[0])
        slot = prim.Variable(self._builder.temporary("slot", (), "int32"))
        index = tuple(self._access.order(side) for side in sides)
        self._builder.assign(slot, prim.Variable(self._builder.table("slots", numbers))[index])
        return slot

    def _clear(self, group: _Group) -> None:
        ranges = [("n", len(group.keys)), *((f"q{r}", n) for r, n in enumerate(self._access.frame.n_points))]
        with self._builder.loops(*ranges) as index:
            self._builder.assign(group.arrays[0][index], 0.0)

    def store(self, point: tuple[Expression, ...]) -> None:
        """Write the factors at one point; a term without arguments is added to the result at once."""
        for group in self._groups:
            for number, term in enumerate(group.terms):
                if not group.arrays:
                    self._builder.accumulate(prim.Variable("A")[0], term.factor)
                else:
                    self._builder.assign(group.factor(group.slots[number], point), term.factor)

    def integrate(self) -> None:
        """Write the contractions of all groups."""
        for group in self._groups:
            if len(group.blocks) == 1:
                self._integrate_vector(group)
            elif group.blocks:
                self._integrate_matrix(group)

    def _integrate_vector(self, group: _Group) -> None:
        (block,) = group.blocks
        frame, dim = self._access.frame, self._dim
        line = LineSpace(self._tables, frame, block.factor, block.side, transposed=True)
        layout = Layout(((block.factor.n,),) * dim, frame.n_points)
        stages = plan_cheapest_integration(
            group.keys, dim, line.collocates, lambda found: count_line_operations(found, layout, line.matrix)
        )
        self._write(group, stages, layout, line.unrolled_matrix, line.entry)

    def _integrate_matrix(self, group: _Group) -> None:
        n_points = self._access.frame.n_points
        extents = tuple(block.factor.n for block in group.blocks)
        stages = plan_integration(group.keys, [int(np.prod(extents))] * self._dim, n_points)
        lines = [block.factor for block in group.blocks]
        sides = [block.side for block in group.blocks]
        self._write(
            group,
            stages,
            Layout((extents,) * self._dim, n_points),
            lambda role, orders: None,
            lambda role, orders, point, dofs: self._tables.entry(role, lines, orders, sides, point[0], dofs),
        )

    def _write(self, group: _Group, stages: list[Stage], layout: Layout, matrix: Any, entry: Any) -> None:
        def add(index: Index, value: Expression) -> None:
            entry = tuple(self._row(block, [i[n] for i in index]) for n, block in enumerate(group.blocks))
            self._builder.accumulate(prim.Variable("A")[entry if len(entry) > 1 else entry[0]], value)

        side = group.blocks[0].side
        context = StageContext(
            layout,
            ("q", "ij", "t"),
            "scalar",
            {key: _Factor(group, number) for number, key in enumerate(group.keys)},
            matrix,
            entry,
            lambda role, number: self._tables.point(role, side, number),
            {(None,) * self._dim: add},
            self._pool,
            dict(zip(group.keys, group.arrays, strict=True)) if group.is_static else {},
        )
        write_stages(self._builder, stages, [context])

    def _row(self, block: _Block, index: Sequence[Expression]) -> Expression:
        """Return the row or column of the result for one multi-index per role."""
        stored = self._access.frame.sides[block.side].gather(block.factor.permutation)
        if stored.shape[1] == 1:
            return block.start + block.stride * int(stored[0, 0])
        n = block.factor.n
        flat: Expression = 0
        for r, i in enumerate(index):
            flat = flat + i * n ** (self._dim - 1 - r)
        position = (self._access.order(block.side), flat) if len(stored) > 1 else flat
        table = prim.Variable(self._builder.table("gather", stored if len(stored) > 1 else stored[0]))
        return block.start + block.stride * table[position]


@dataclass(frozen=True)
class _Factor:
    """The factors of one key."""

    group: _Group
    number: int

    def __call__(self, index: Index) -> Expression:
        return self.group.factor(self.number, tuple(q for (q,) in index))
