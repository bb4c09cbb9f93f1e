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
from formcompiler.sumfact.arrays import Array, LineTables, make_array
from formcompiler.sumfact.contraction import Key, plan_integration
from formcompiler.sumfact.frames import FrameAccess, gather_table, permuted_counts
from formcompiler.sumfact.stages import Index, write_stages
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
    factors: Array | None = None
    slots: list[Expression] = field(default_factory=list)


class ArgumentIntegrals:
    """Stores the factors of all argument terms at the points, then integrates them block by block."""

    def __init__(
        self,
        builder: KernelBuilder,
        integral: FormIntegral,
        terms: Sequence[ArgumentTerm],
        access: FrameAccess,
        tables: LineTables,
    ) -> None:
        self._builder = builder
        self._integral = integral
        self._access = access
        self._tables = tables
        self._dim = len(access.frame.roles)
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
        orders = list(product(range(len(frame.orders)), repeat=len(sides)))
        by_term = [[self._key(group, term, sides, order) for order in orders] for term in group.terms]
        group.keys = sorted({key for keys in by_term for key in keys})
        group.factors = make_array(self._builder, "factors", (len(group.keys), *frame.n_points))
        for keys in by_term:
            numbers = np.array([group.keys.index(key) for key in keys])
            group.slots.append(self._slot(numbers.reshape((len(frame.orders),) * len(sides)), sides))
        if len(group.keys) > len(group.terms):
            self._clear(group)

    def _key(self, group: _Group, term: ArgumentTerm, sides: list[int], orders: tuple[int, ...]) -> Key:
        """Return for each role the derivative of each argument."""
        counts = []
        for block, argument in zip(group.blocks, term.arguments, strict=True):
            roles = permuted_counts(argument.derivatives or (0,) * self._dim, self._access.frame)
            counts.append(roles[orders[sides.index(block.side)]])
        return tuple(zip(*counts, strict=True))

    def _slot(self, numbers: Any, sides: list[int]) -> Expression:
        if (numbers == numbers.flat[0]).all():
            return int(numbers.flat[0])
        slot = prim.Variable(self._builder.temporary("slot", (), "int32"))
        index = tuple(self._access.order(side) for side in sides)
        self._builder.assign(slot, prim.Variable(self._builder.table("slots", numbers))[index])
        return slot

    def _clear(self, group: _Group) -> None:
        assert group.factors is not None
        ranges = [("n", len(group.keys)), *((f"q{r}", n) for r, n in enumerate(self._access.frame.n_points))]
        with self._builder.loops(*ranges) as index:
            self._builder.assign(group.factors[index], 0.0)

    def store(self, point: tuple[Expression, ...]) -> None:
        """Write the factors at one point; a term without arguments is added to the result at once."""
        for group in self._groups:
            for number, term in enumerate(group.terms):
                if group.factors is None:
                    self._builder.accumulate(prim.Variable("A")[0], term.factor)
                else:
                    self._builder.assign(group.factors[(group.slots[number], *point)], term.factor)

    def integrate(self) -> None:
        """Write the contractions of all groups."""
        for group in self._groups:
            if group.factors is not None:
                self._integrate(group, group.factors)

    def _integrate(self, group: _Group, factors: Array) -> None:
        n_points = self._access.frame.n_points
        extents = tuple(block.factor.n for block in group.blocks)
        stages = plan_integration(group.keys, [int(np.prod(extents))] * self._dim, n_points)
        lines = [block.factor for block in group.blocks]
        sides = [block.side for block in group.blocks]

        def write(_: Key, index: Index, value: Expression) -> None:
            entry = tuple(self._row(block, [i[n] for i in index]) for n, block in enumerate(group.blocks))
            target = prim.Variable("A")[entry if len(entry) > 1 else entry[0]]
            self._builder.accumulate(target, value)

        write_stages(
            self._builder,
            stages,
            tuple((n,) for n in n_points),
            (extents,) * self._dim,
            ("q", "ij", "t"),
            "scalar",
            lambda key, index: factors[(group.keys.index(key), *(q for (q,) in index))],
            lambda role, orders, point, dofs: self._tables.entry(role, lines, orders, sides, point[0], dofs),
            write,
        )

    def _row(self, block: _Block, index: Sequence[Expression]) -> Expression:
        """Return the row or column of the result for one multi-index per role."""
        stored = gather_table(block.factor.permutation, self._access.frame)
        if stored.shape[1] == 1:
            return block.start + block.stride * int(stored[0, 0])
        n = block.factor.n
        flat: Expression = 0
        for r, i in enumerate(index):
            flat = flat + i * n ** (self._dim - 1 - r)
        position = (self._access.order(block.side), flat) if len(stored) > 1 else flat
        table = prim.Variable(self._builder.table("gather", stored if len(stored) > 1 else stored[0]))
        return block.start + block.stride * table[position]
