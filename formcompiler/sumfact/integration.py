"""Integration against the arguments: factors at points, contracted with 1D tables into the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pymbolic.primitives as prim

from formcompiler.elements.tables import TensorFactor, component_layout, tensor_factor
from formcompiler.frontend.integrals import ArgumentTerm, FormIntegral
from formcompiler.kernel.builder import Expression, KernelBuilder
from formcompiler.kernel.symmetry import Block, Copy, EqualBlocks, collect_block, find_equal_blocks
from formcompiler.kernel.terms import product_of
from formcompiler.sumfact.arrays import Array, ArrayPool, LineSpace, LineTables, make_array
from formcompiler.sumfact.contraction import Key, Stage, count_products, plan_cheapest_integration, plan_integration
from formcompiler.sumfact.frames import FrameAccess
from formcompiler.sumfact.halves import Halves, half
from formcompiler.sumfact.stages import Index, Layout, StageContext, count_line_operations, write_stages
from formcompiler.terminals import Terminal


@dataclass(frozen=True)
class _Dofs:
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


@dataclass(frozen=True)
class _Place:
    """A block of a matrix that gets values.

    Attributes:
        rows: Its rows.
        columns: Its columns.
        is_transposed: Whether the values are mirrored.
        sign: Factor of the values: 1 or -1.
    """

    rows: _Dofs
    columns: _Dofs
    is_transposed: bool
    sign: int


@dataclass
class _Group:
    """All terms on the same blocks of dofs.

    Attributes:
        blocks: Dofs of each argument.
        terms: The terms.
        values: Field value of the factor of each term.
        places: Blocks of a matrix that get the values.
        is_symmetric: Whether the block of a matrix is its own transpose.
        keys: Tables of the terms, in any order of directions.
        arrays: Factors at the points, by key or all in one array.
        slots: Where the factors of each term go.
        signs: What the factors of each term are multiplied by, None for 1.
    """

    blocks: tuple[_Dofs, ...]
    terms: list[ArgumentTerm]
    values: list[int]
    places: list[_Place] = field(default_factory=list)
    is_symmetric: bool = False
    keys: list[Key] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)
    slots: list[Expression] = field(default_factory=list)
    signs: list[Expression | None] = field(default_factory=list)

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
        terms: Sequence[tuple[ArgumentTerm, int]],
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
        self._stored: dict[tuple[int, Expression | None], Array] = {}
        self._groups = self._group(terms)
        self._uses: Counter[str] = Counter(a.name for g in self._groups for a in g.arrays)

    def _group(self, terms: Sequence[tuple[ArgumentTerm, int]]) -> list[_Group]:
        """Return the terms by blocks of dofs, without the blocks of a matrix that are copies of others."""
        grouped: dict[Any, _Group] = {}
        for term, value in terms:
            blocks = tuple(self._block(a) for a in term.arguments)
            group = grouped.setdefault(blocks, _Group(blocks, [], []))
            group.terms.append(term)
            group.values.append(value)
        groups = list(grouped.values())
        if len(self._integral.arguments) == 2:
            groups = [_place(groups, found) for found in find_equal_blocks([self._signature(g) for g in groups])]
        for group in groups:
            if group.blocks:
                self._prepare(group)
        return groups

    def _signature(self, group: _Group) -> Block:
        return collect_block([tuple(map(self._basis, term.arguments)) for term in group.terms], group.values)

    def _basis(self, argument: Terminal) -> Hashable:
        return (self._block(argument).factor, argument.derivatives or (0,) * self._dim, argument.side)

    def _block(self, argument: Terminal) -> _Dofs:
        element = self._integral.arguments[argument.index]
        scalar, offset, stride = component_layout(element, argument.component)
        factor = tensor_factor(scalar)
        assert factor is not None
        return _Dofs(factor, argument.side, argument.side * element.dim + offset, stride)

    def _prepare(self, group: _Group) -> None:
        """Find all keys that the terms can have in any order of directions, and where each term is stored."""
        frame = self._access.frame
        sides = sorted({block.side for block in group.blocks})
        shape = tuple(len(frame.sides[side].orders) for side in sides)
        orders = list(product(*map(range, shape)))
        by_term = [[self._key(group, term, sides, order) for order in orders] for term in group.terms]
        group.signs = [self._sign(term) for term in group.terms]
        group.keys = sorted({key for keys in by_term for key in keys})
        table = np.array([[group.keys.index(key) for key in keys] for keys in by_term])
        if (table == table[:, :1]).all():
            group.arrays = [self._array(group.values[row], group.signs[row]) for row in table[:, 0].argsort()]
        else:
            group.arrays = [make_array(self._builder, "factors", (len(group.keys), *frame.n_points))]
        for numbers in table:
            group.slots.append(self._slot(numbers.reshape(shape), sides))
        if len(group.keys) > len(group.terms):
            self._clear(group)

    def _array(self, value: int, sign: Expression | None) -> Array:
        """Return the array of a factor with its sign; equal ones are stored once."""
        if (value, sign) not in self._stored:
            self._stored[value, sign] = self._pool.take("factors", self._access.frame.n_points)
        return self._stored[value, sign]

    def _sign(self, term: ArgumentTerm) -> Expression | None:
        """Return the factor of the derivatives of a term's arguments in turned cells, None if it is 1."""
        signs = [self._access.sign(a.side, a.derivatives) for a in term.arguments]
        known = [sign for sign in signs if sign is not None]
        return product_of(known) if known else None

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
        done: set[Expression] = set()
        for group in self._groups:
            for number, term in enumerate(group.terms):
                if not group.arrays:
                    self._builder.accumulate(prim.Variable("A")[0], term.factor)
                    continue
                target = group.factor(group.slots[number], point)
                if target not in done:
                    self._builder.assign(target, _signed(term.factor, group.signs[number]))
                    done.add(target)

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
        """Write the contractions of a block of a matrix.

        Of a symmetric block, the pairs of dofs of one direction, the one that is contracted first, are a triangle.
        The entries that mirror each other within the diagonal of this direction are both computed; each counts half.
        """
        lines = [block.factor for block in group.blocks]
        sides = [block.side for block in group.blocks]
        full = (lines[0].n, lines[1].n)
        stages, layout = min(
            (self._plan_matrix(group, full, role) for role in (range(self._dim) if group.is_symmetric else (None,))),
            key=lambda plan: plan[2],
        )[:2]

        def entry(role: int, orders: Any, point: tuple[Expression, ...], dofs: tuple[Expression, ...]) -> Expression:
            return self._tables.entry(role, lines, orders, sides, point[0], dofs)

        self._write(group, stages, layout, lambda role, orders: None, entry)

    def _plan_matrix(
        self, group: _Group, full: tuple[int, int], triangle: int | None
    ) -> tuple[list[Stage], Layout, int]:
        """Return stages, layout, and their cost, with a triangle of pairs in one direction."""
        n_points = self._access.frame.n_points
        extents: list[tuple[int, ...]] = [full] * self._dim
        if triangle is not None:
            extents[triangle] = (full[0] * (full[0] + 1) // 2,)
        n_dofs = [int(np.prod(e)) for e in extents]
        stages = plan_integration(group.keys, n_dofs, n_points)
        return stages, Layout(tuple(extents), n_points), count_products(stages, n_points, n_dofs)

    def _write(self, group: _Group, stages: list[Stage], layout: Layout, matrix: Any, entry: Any) -> None:
        def add(index: Index, value: Expression) -> None:
            if len(group.blocks) == 1:
                row, sign = self._row(group.blocks[0], [i for (i,) in index])
                self._builder.accumulate(prim.Variable("A")[row], _signed(value, sign))
            else:
                self._add_to_matrix(group, index, value)

        result = (
            None
            if self._pool.halves is None
            else _HalvedResult(self._builder, self._pool.halves, group.blocks[0], self._dim)
        )
        context = StageContext(
            layout,
            ("q", "ij", "t"),
            "scalar",
            {key: _Factor(group, number) for number, key in enumerate(group.keys)},
            matrix,
            entry,
            {(None,) * self._dim: add if result is None else result.store},
            self._pool,
            {
                k: a
                for k, a in zip(group.keys, group.arrays, strict=False)
                if group.is_static and self._uses[a.name] == 1
            },
        )
        write_stages(self._builder, stages, [context])
        if result is not None:
            result.add(group.blocks[0].factor.permutation)

    def _add_to_matrix(self, group: _Group, index: Index, value: Expression) -> None:
        """Add a value to all entries of the result that it belongs to."""
        n = group.blocks[0].factor.n
        pairs = [dofs if len(dofs) == 2 else self._tables.pair(n, dofs[0]) for dofs in index]
        first, second = ([pair[number] for pair in pairs] for number in (0, 1))
        if len(group.places) + group.is_symmetric > 1 and not isinstance(value, prim.Variable):
            name = prim.Variable(self._builder.temporary("entry", (), self._builder.value_type))
            self._builder.assign(name, value)
            value = name
        for place in group.places:
            signed = value if place.sign > 0 else -value
            rows, columns = (second, first) if place.is_transposed else (first, second)
            for i, j in ((rows, columns), (columns, rows))[: 1 + group.is_symmetric]:
                (row, row_sign), (column, column_sign) = self._row(place.rows, i), self._row(place.columns, j)
                entry = prim.Variable("A")[row, column]
                self._builder.accumulate(entry, _signed(_signed(signed, row_sign), column_sign))

    def _row(self, block: _Dofs, index: Sequence[Expression]) -> tuple[Expression, Expression | None]:
        """Return the row or column of the result for one multi-index per role, and its sign if it may be -1."""
        number, sign = self._access.dof(block.side, block.factor, index)
        return block.start + block.stride * number, sign


class _HalvedResult:
    """Results that are stored in halves, before they are added to a vector."""

    def __init__(self, builder: KernelBuilder, halves: Halves, block: _Dofs, dim: int) -> None:
        self._builder = builder
        self._halves = halves
        self._block = block
        self._extents = (block.factor.n,) * dim
        size = halves.n_lanes * half(block.factor.n) ** dim
        self._array = prim.Variable(builder.temporary("t", (size,)))

    def store(self, index: Index, value: Expression) -> None:
        """Assign a vector."""
        place = self._halves.flat_index(self._extents, [i for (i,) in index])
        self._builder.assign(self._array[place], value)

    def add(self, numbers: Any) -> None:
        """Add all entries to the result, given their numbers."""
        for number, place in self._halves.scatter(self._extents, numbers):
            row = self._block.start + self._block.stride * number
            self._builder.accumulate(prim.Variable("A")[row], self._array[place])


def _signed(value: Expression, sign: Expression | None) -> Expression:
    return value if sign is None else prim.Product((sign, value))


def _place(groups: Sequence[_Group], found: EqualBlocks) -> _Group:
    """Return the group of a block that is computed, with all places that its values belong to."""
    group = groups[found.number]
    for copy in (Copy(found.number, is_transposed=False, sign=1), *found.copies):
        rows, columns = groups[copy.number].blocks
        group.places.append(_Place(rows, columns, copy.is_transposed, copy.sign))
    group.is_symmetric = found.is_symmetric
    return group


@dataclass(frozen=True)
class _Factor:
    """The factors of one key."""

    group: _Group
    number: int

    def __call__(self, index: Index) -> Expression:
        return self.group.factor(self.number, tuple(q for (q,) in index))
