"""Writes the kernel in which groups of strands run together: one nest with a loop over quantities.

The loop over quantities is inside of all loops that surround the whole strand. What a strand writes goes into packed
arrays, where lanes are written alike, or is put into the arrays of each strand behind the loop. What differs between
strands is chosen by the number of the quantity. Padded quantities do what the first one does, and nobody reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import islpy as isl
import loopy as lp
import pymbolic.primitives as prim
from loopy.kernel.data import Iname
from pymbolic.mapper import IdentityMapper
from pymbolic.mapper.substitutor import SubstitutionMapper, make_subst_func

from formcompiler.kernel.choices import choose
from formcompiler.kernel.program import Program
from formcompiler.naming import Namer
from formcompiler.vectorize.packing import Group, Operand, Packs, find_operand
from formcompiler.vectorize.strands import Step, Strand, StrandGraph, find_added, hole, loop_name, name_of

Expression = Any

QUANTITY = "quantity"
"""Wish for the inames that run over quantities."""


@dataclass(frozen=True)
class QuantityLoop:
    """A loop over quantities.

    Attributes:
        iname: The loop.
        around: The loops around it.
        instructions: Ids of all instructions inside, in program order.
        private: Scalars that are used nowhere else.
    """

    iname: str
    around: tuple[str, ...]
    instructions: tuple[str, ...]
    private: frozenset[str]


def fuse(
    kernel: lp.LoopKernel, graph: StrandGraph, groups: Sequence[Group]
) -> tuple[lp.LoopKernel, tuple[QuantityLoop, ...]]:
    """Return the kernel that runs groups one after the other, and its loops over quantities.

    Instructions of strands that run alone keep their ids.

    Args:
        kernel: The kernel.
        graph: Its strands.
        groups: All strands, in a valid order.
    """
    return _Fusion(kernel, graph, groups).run()


class _Fusion:
    """A kernel under construction."""

    def __init__(self, kernel: lp.LoopKernel, graph: StrandGraph, groups: Sequence[Group]) -> None:
        self.kernel = kernel
        self.namer = Namer({*kernel.arg_dict, *kernel.temporary_variables, *kernel.all_inames()})
        self.packs: Packs = {name: place for group in groups for name, place in group.packs.items()}
        self.program = Program()
        self.ids = Namer(kernel.id_to_insn)
        self.pack_names: dict[tuple[str | None, ...], str] = {}
        self._strands = graph.strands
        self._groups = groups
        self._rank = {i.id: n for n, i in enumerate(kernel.instructions)}
        self._temporaries: dict[str, lp.TemporaryVariable] = dict(kernel.temporary_variables)
        self._domains: dict[str, isl.BasicSet] = {}
        self._used_nests: set[int] = set()

    def run(self) -> tuple[lp.LoopKernel, tuple[QuantityLoop, ...]]:
        """Return the kernel and its loops over quantities."""
        self._declare_packs()
        loops = []
        alone: list[Strand] = []
        for group in self._groups:
            first = self._strands[group.members[0]]
            if alone and (len(group.members) > 1 or first.nest != alone[0].nest):
                self._write_alone(alone)
                alone = []
            if len(group.members) > 1:
                loops.append(_GroupWriter(self, [None if n is None else self._strands[n] for n in group.lanes]).write())
            else:
                alone.append(first)
        if alone:
            self._write_alone(alone)
        return self._finish(), tuple(loops)

    def _declare_packs(self) -> None:
        for place in self.packs.values():
            if place.pack in self.pack_names:
                continue
            names = [name for name in place.pack if name is not None]
            array = self.kernel.temporary_variables[names[0]]
            own = self.pack_names[place.pack] = self.namer.unique(_common_name(names))
            self.declare(own, array.dtype, (*_shape(array), len(place.pack)))

    def declare(self, name: str, dtype: Any, shape: tuple[int, ...]) -> None:
        """Add a temporary array."""
        private = lp.AddressSpace.PRIVATE
        self._temporaries[name] = lp.TemporaryVariable(
            name, dtype=dtype, shape=shape, address_space=private, alignment=64
        )

    def open(self, iname: str, like: str) -> Any:
        """Return a new loop inside of those that were opened last, with as many trips as another one."""
        domain = self.kernel.get_inames_domain(frozenset([like]))
        position = domain.get_var_names_not_none(isl.dim_type.set).index(like)
        self._domains[iname] = domain.set_dim_name(isl.dim_type.set, position, iname)
        return prim.Variable(iname)

    def open_quantities(self, n: int) -> Any:
        """Return a new loop over quantities."""
        iname = self.namer.unique(QUANTITY)
        self._domains[iname] = isl.BasicSet(f"{{ [{iname}] : 0 <= {iname} < {n} }}")
        return prim.Variable(iname)

    def _write_alone(self, strands: Sequence[Strand]) -> None:
        """Write strands of one nest as they are."""
        instructions = sorted((i for s in strands for i in s.instructions), key=lambda i: self._rank[i.id])
        again = strands[0].nest in self._used_nests
        self._used_nests.add(strands[0].nest)
        renamed = {}
        for strand in strands:
            for iname in strand.loops:
                if iname not in renamed:
                    renamed[iname] = self.open(self.namer.unique(iname) if again else iname, iname)
        mapper = _Moved(self.moved, renamed)
        loops = {i.id: s.loops for s in strands for i in s.instructions}
        for instruction in instructions:
            inames = [renamed[n].name for n in loops[instruction.id] if n in instruction.within_inames]
            target, value = mapper(instruction.assignee), mapper(instruction.expression)
            self.program.assign(target, value, inames, instruction.id)

    def moved(self, access: Expression) -> Expression:
        """Return an access of one lane of a packed array for one of an array that is packed."""
        place = self.packs.get(access.aggregate.name)
        if place is None:
            return access
        index = tuple(access.index_tuple[axis] for axis in place.axes)
        return prim.Variable(self.pack_names[place.pack])[(*index, place.lane)]

    def _finish(self) -> lp.LoopKernel:
        instructions = self.program.instructions
        used = {n for i in instructions for n in i.read_dependency_names() | i.write_dependency_names()}
        return self.kernel.copy(
            instructions=instructions,
            domains=list(self._domains.values()) or [isl.BasicSet("{ : }")],
            inames={n: self.kernel.inames.get(n, Iname(n, tags=frozenset())) for n in self._domains},
            temporary_variables={n: t for n, t in self._temporaries.items() if n in used},
        )


class _GroupWriter:
    """Writes the loop nest of one group."""

    def __init__(self, fusion: _Fusion, strands: Sequence[Strand | None]) -> None:
        self._fusion = fusion
        self._strands = strands
        self._first = next(s for s in strands if s is not None)

    def write(self) -> QuantityLoop:
        """Write all steps, and then put what is not packed where it belongs."""
        first, fusion = self._first, self._fusion
        inames = []
        for position, name in enumerate(first.loops):
            if position == first.n_common_loops:
                self._quantity = fusion.open_quantities(len(self._strands))
            inames.append(fusion.open(fusion.namer.unique(name), name))
        if len(inames) == first.n_common_loops:
            self._quantity = fusion.open_quantities(len(self._strands))
        self._to_loops = SubstitutionMapper(make_subst_func({loop_name(n): i for n, i in enumerate(inames)}))
        scalars = {canonical: prim.Variable(name) for canonical, name in first.scalars.items()}
        start = len(fusion.program.instructions)
        later: list[tuple[Expression, Expression, list[str]]] = []
        for step in first.steps:
            fill = _Filled({h: self._read(self._operand(h)) for h in step.reads}, scalars)
            within = [inames[n].name for n in step.loops]
            target, value = self._split(step, scalars, within, later)
            fusion.program.assign(target, fill(value), [*within, self._quantity.name], fusion.ids.unique("fused"))
        instructions = tuple(i.id for i in fusion.program.instructions[start:])
        for target, value, within in later:
            fusion.program.assign(target, value, within, fusion.ids.unique("fused"))
        around = tuple(i.name for i in inames[: first.n_common_loops])
        return QuantityLoop(self._quantity.name, around, instructions, frozenset(first.scalars.values()))

    def _operand(self, number: int) -> Operand:
        return find_operand([None if s is None else s.holes[number] for s in self._strands], self._fusion.packs)

    def _place(self, leaf: Expression) -> Expression:
        """Return an operand of one strand in terms of the nest's loops and of packed arrays."""
        leaf = self._to_loops(leaf)
        return self._fusion.moved(leaf) if isinstance(leaf, prim.Subscript) else leaf

    def _read(self, operand: Operand) -> Expression:
        present = next(leaf for leaf in operand.leaves if leaf is not None)
        if operand.kind == "uniform":
            return self._place(present)
        if operand.kind == "vector":
            return self._vector(operand)
        return choose([self._place(present if leaf is None else leaf) for leaf in operand.leaves], self._quantity)

    def _vector(self, operand: Operand) -> Expression:
        index = tuple(map(self._to_loops, operand.index))
        return prim.Variable(self._fusion.pack_names[operand.pack])[(*index, self._quantity)]

    def _split(
        self, step: Step, scalars: Mapping[str, Expression], within: list[str], later: list[Any]
    ) -> tuple[Expression, Expression]:
        """Return what a step assigns for each quantity, and to what; add what has to be done behind the loop."""
        if step.written is None:
            return scalars[step.target.name], step.value
        operand = self._operand(step.written)
        if operand.kind == "vector":
            return self._vector(operand), step.value
        places = [None if leaf is None else self._place(leaf) for leaf in operand.leaves]
        value = find_added(step, self._strands)
        dtype = self._fusion.kernel.get_var_descriptor(name_of(next(p for p in places if p is not None))).dtype
        name = self._fusion.namer.unique("value")
        self._fusion.declare(name, dtype, (len(self._strands),))
        values = prim.Variable(name)
        for n, place in enumerate(places):
            if place is not None:
                later.append((place, values[n] if value is None else place + values[n], within))
        return values[self._quantity], step.value if value is None else value


def _shape(array: lp.TemporaryVariable) -> tuple[int, ...]:
    assert isinstance(array.shape, tuple)
    return tuple(int(str(extent)) for extent in array.shape)


def _common_name(names: Sequence[str]) -> str:
    """Return the pieces that names have in common: x_points for x_0_points and x_1_points; or the first name."""
    pieces = [name.split("_") for name in names]
    common = [piece for piece in pieces[0] if all(piece in other for other in pieces)]
    name = "_".join(common)
    return name if name and name[0].isalpha() else names[0]


class _Moved(IdentityMapper[[]]):
    """Puts loops and places of packed arrays into instructions that run alone."""

    def __init__(self, moved: Any, inames: Mapping[str, Expression]) -> None:
        super().__init__()
        self._moved = moved
        self._inames = inames

    def map_variable(self, expr: Any) -> Any:
        return self._inames.get(expr.name, expr)

    def map_subscript(self, expr: Any) -> Any:
        return self._moved(expr.aggregate[tuple(map(self.rec, expr.index_tuple))])

    def map_call(self, expr: Any) -> Any:
        return prim.Call(expr.function, tuple(map(self.rec, expr.parameters)))


class _Filled(IdentityMapper[[]]):
    """Fills the holes of a skeleton."""

    def __init__(self, values: Mapping[int, Expression], scalars: Mapping[str, Expression]) -> None:
        super().__init__()
        self._values = {hole(number).name: value for number, value in values.items()}
        self._scalars = scalars

    def map_variable(self, expr: Any) -> Any:
        return self._values[expr.name] if expr.name in self._values else self._scalars[expr.name]

    def map_call(self, expr: Any) -> Any:
        return prim.Call(expr.function, tuple(map(self.rec, expr.parameters)))
