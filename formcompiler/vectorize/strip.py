"""Rewriting loops as blocks of lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import islpy as isl
import loopy as lp
import numpy as np
import pymbolic.primitives as prim
from loopy.kernel.data import Iname, VectorizeTag
from pymbolic.mapper import IdentityMapper, WalkMapper
from pytools import memoize_on_first_arg

from formcompiler.kernel.names import names_in
from formcompiler.naming import Namer
from formcompiler.vectorize.blocks import Block, LaneLoops
from formcompiler.vectorize.cells import target_of, widen_array
from formcompiler.vectorize.rows import Row, merge

LANE = "lane"


@dataclass(frozen=True)
class Body:
    """What loops that become lanes contain.

    Attributes:
        choice: The loops.
        instructions: All instructions inside, in program order.
        varying: Ids of those that differ between lanes.
        wide: Temporaries that get a lane axis.
        inner: Other loops that open inside.
    """

    choice: LaneLoops
    instructions: tuple[Any, ...]
    varying: frozenset[str]
    wide: frozenset[str]
    inner: tuple[str, ...]


def examine(choice: LaneLoops, instructions: Sequence[Any], around: Iterable[str]) -> Body:
    """Return what loops contain.

    Args:
        choice: The loops.
        instructions: All instructions inside.
        around: Loops around them.
    """
    names = set(choice.inames)
    while True:
        found = [i for i in instructions if (names_in(i.expression) | names_in(i.assignee)) & names]
        grown = names | {target_of(i) for i in found if target_of(i) in choice.private}
        if grown == names:
            break
        names = grown
    inner = dict.fromkeys(n for i in instructions for n in sorted(i.within_inames - {*around, *choice.inames}))
    wide = frozenset(names - set(choice.inames))
    return Body(choice, tuple(instructions), frozenset(i.id for i in found), wide, tuple(inner))


class _IndexMapper(IdentityMapper[[]]):
    """Puts in indices, names and lanes."""

    def __init__(self, indices: Mapping[str, Any], wide: frozenset[str], lane: Any) -> None:
        super().__init__()
        self._indices = indices
        self._wide = wide
        self._lane = lane

    def map_variable(self, expr: Any) -> Any:
        renamed = self._indices.get(expr.name, expr)
        return renamed[self._lane] if expr.name in self._wide and self._lane is not None else renamed

    def map_subscript(self, expr: Any) -> Any:
        name = expr.aggregate.name
        index = tuple(self.rec(i) for i in expr.index_tuple)
        if name in self._wide and self._lane is not None:
            index = (*index, self._lane)
        return self._indices.get(name, expr.aggregate)[index]


def put_in(indices: Mapping[str, Any], wide: frozenset[str] = frozenset(), lane: Any = None) -> Callable[[Any], Any]:
    """Return what puts in indices for inames, other names for variables, and a lane behind the indices of some.

    Args:
        indices: What stands for inames and for renamed variables.
        wide: Variables that get the lane.
        lane: The lane; None if there is one only.
    """
    return _IndexMapper(indices, wide, lane)


@dataclass
class Stripper:
    """A kernel some of whose loops become lanes; it is put together in the end, in one walk.

    Attributes:
        kernel: The kernel as it was.
        lanes: Number of lanes W.
    """

    kernel: lp.LoopKernel
    lanes: int

    def __post_init__(self) -> None:
        kernel = self.kernel
        self._new: dict[str, list[Any]] = {}
        self._ids: dict[str, frozenset[str]] = {}
        self._domains = [d for d in kernel.domains if d.dim(isl.dim_type.set)]
        self._temporaries = dict(kernel.temporary_variables)
        self._lanes: dict[int, str] = {}
        self._tables: dict[tuple[Any, bytes], str] = {}
        names = {*kernel.arg_dict, *kernel.temporary_variables, *kernel.all_inames(), *kernel.id_to_insn}
        self._namer = Namer(names)

    def strip(self, body: Body, blocks: Sequence[Block]) -> None:
        """Replace loops by blocks of lanes, one kind after another; no instruction is in two bodies or rows."""
        ids: dict[str, frozenset[str]] = {i.id: frozenset() for i in body.instructions}
        copies: list[Any] = []
        users = _users(self.kernel)
        names = frozenset().union(*(_names(self.kernel, i.id) for i in body.instructions))
        used_outside = {name for name in names if users[name] - ids.keys()}
        for number, block in enumerate(blocks):
            new = self._copy(body, block, ids, used_outside, is_first=number == 0)
            ids = {old.id: ids[old.id] | {i.id} for old, i in zip(body.instructions, new, strict=True)}
            copies += new
        self._replace(body.instructions, copies, ids)
        self._domains = [d for d in self._domains if not set(body.choice.inames) & set(_names_of(d))]

    def _put_together(self) -> Iterator[Any]:
        """Return all instructions in program order, each depending on all copies of what it depended on."""
        for old in self.kernel.instructions:
            new = self._new.get(old.id, [old])
            own = {i.id for i in new}
            for i in new:
                if not any(n in self._ids and n not in own for n in i.depends_on):
                    yield i
                    continue
                copies = ({n} if n in own else self._ids.get(n, {n}) for n in i.depends_on)
                yield i.copy(depends_on=frozenset().union(*copies))

    def _replace(self, old: Sequence[Any], new: list[Any], ids: Mapping[str, frozenset[str]]) -> None:
        """Put new instructions where the first of the old ones is."""
        self._new |= {i.id: [] for i in old}
        self._new[old[0].id] = new
        self._ids |= ids

    def join(self, row: Row) -> None:
        """Make one instruction of a row."""
        first = row.instructions[0]
        lane = prim.Variable(self._lane(len(row.instructions)))

        def make_table(numbers: Sequence[float]) -> Any:
            return prim.Variable(self._table(numbers, first))[lane]

        target = first.assignee
        last = prim.Sum((row.start, lane)) if row.start else lane
        ids = dict.fromkeys((i.id for i in row.instructions), frozenset([first.id]))
        joined = first.copy(
            assignee=target.aggregate[(*target.index_tuple[:-1], last)],
            expression=merge([i.expression for i in row.instructions], make_table),
            within_inames=first.within_inames | {lane.name},
            depends_on=frozenset().union(*(i.depends_on for i in row.instructions)).difference(ids),
        )
        self._replace(row.instructions, [joined], ids)

    def _table(self, numbers: Sequence[float], instruction: Any) -> str:
        """Return the name of a table of numbers, of the type of what an instruction sets."""
        arrays: dict[str, Any] = {**self.kernel.arg_dict, **self._temporaries}
        dtype = arrays[target_of(instruction)].dtype.numpy_dtype
        values = np.array(numbers, dtype)
        key = (dtype, values.tobytes())
        if key not in self._tables:
            name = self._tables[key] = self._namer.unique("row")
            self._temporaries[name] = lp.TemporaryVariable(
                name,
                dtype=dtype,
                shape=values.shape,
                address_space=lp.AddressSpace.GLOBAL,
                read_only=True,
                initializer=values,
            )
        return self._tables[key]

    def _copy(
        self, body: Body, block: Block, ids: Mapping[str, frozenset[str]], used_outside: set[str], *, is_first: bool
    ) -> list[Any]:
        inames = body.choice.inames
        lane = prim.Variable(self._lane(block.extent)) if block.extent > 1 else None
        trip: Any = 0
        loops: dict[str, str] = {}
        if block.n_trips > 1:
            trip = prim.Variable(self._namer.unique(f"{inames[0]}_block"))
            self._insert(inames[0], trip.name, block.n_trips)
        indices = dict(block.indices(inames, trip, 0 if lane is None else lane))
        if not is_first:
            loops = {iname: self._copy_loop(iname) for iname in body.inner}
            indices |= {old: prim.Variable(new) for old, new in loops.items()}
        own = dict.fromkeys(target_of(i) for i in body.instructions)
        for name in own:
            if name not in self._temporaries or name in used_outside:
                continue
            temporary, new_name = self.kernel.temporary_variables[name], name
            if not is_first:
                new_name = self._namer.unique(name)
                indices[name] = prim.Variable(new_name)
                temporary = temporary.copy(name=new_name)
            is_wide = name in body.wide and lane is not None
            self._temporaries[new_name] = widen_array(temporary, block.extent) if is_wide else temporary
        mapper = put_in(indices, body.wide, lane)
        added = {trip.name} if block.n_trips > 1 else set()
        new_ids = {i.id: i.id if is_first else self._namer.unique(i.id) for i in body.instructions}
        return [
            i.copy(
                id=new_ids[i.id],
                assignee=mapper(i.assignee),
                expression=mapper(i.expression),
                within_inames=frozenset(loops.get(n, n) for n in i.within_inames - set(inames))
                | added
                | ({lane.name} if lane is not None and i.id in body.varying else set()),
                depends_on=frozenset(new_ids.get(n, n) for n in i.depends_on).union(
                    *(ids.get(n, frozenset()) for n in i.depends_on)
                ),
            )
            for i in body.instructions
        ]

    def _pad(self, instructions: Sequence[Any]) -> None:
        """Give arrays with lanes along their last axis room for whole vectors."""
        finder = _LaneAxisFinder(set(self._lanes.values()))
        for i in instructions:
            finder(i.assignee)
            finder(i.expression)
        for name in sorted(finder.found & self._temporaries.keys()):
            temporary: Any = self._temporaries[name]
            old = self.kernel.temporary_variables.get(name)
            if temporary.initializer is None and old is not None and old.shape == temporary.shape:
                self._temporaries[name] = temporary.copy(shape=padded_shape(temporary.shape, self.lanes))

    def _lane(self, extent: int) -> str:
        if extent not in self._lanes:
            self._lanes[extent] = self._namer.unique(LANE)
        return self._lanes[extent]

    def _copy_loop(self, iname: str) -> str:
        name = self._namer.unique(iname)
        self._insert(iname, name, int(self.kernel.get_constant_iname_length(iname)))
        return name

    def _insert(self, before: str, iname: str, extent: int) -> None:
        """Add a loop next to another one."""
        place = next(n for n, d in enumerate(self._domains) if before in _names_of(d))
        self._domains.insert(place, isl.BasicSet(f"{{ [{iname}] : 0 <= {iname} < {extent} }}"))

    def finish(self) -> lp.LoopKernel:
        """Return the kernel."""
        instructions = list(self._put_together())
        self._pad(instructions)
        lanes = {name: extent for extent, name in self._lanes.items()}
        domains = [isl.BasicSet(f"{{ [{name}] : 0 <= {name} < {extent} }}") for name, extent in lanes.items()]
        old = self.kernel.inames
        loops = [name for d in self._domains for name in _names_of(d)]
        inames = {name: old.get(name) or Iname(name, tags=frozenset()) for name in loops}
        return self.kernel.copy(
            instructions=instructions,
            temporary_variables=self._temporaries,
            domains=[*self._domains, *domains] or [isl.BasicSet("{ : }")],
            inames={**inames, **{name: Iname(name, tags=frozenset([VectorizeTag()])) for name in lanes}},
        )


def padded_shape(shape: tuple[int, ...], lanes: int) -> tuple[int, ...]:
    """Return a shape whose last axis holds whole vectors: of W lanes, and of as few more as hold the rest."""
    rest = shape[-1] % lanes
    return (*shape[:-1], shape[-1] - rest + (1 << (rest - 1).bit_length())) if rest else shape


class _LaneAxisFinder(WalkMapper[[]]):
    """Collects arrays with lanes along their last axis, which are more than the bare lane."""

    def __init__(self, lanes: set[str]) -> None:
        super().__init__()
        self._lanes = lanes
        self.found: set[str] = set()

    def map_subscript(self, expr: Any) -> None:
        if names_in(expr.index_tuple[-1]) & self._lanes:
            self.found.add(expr.aggregate.name)
        for index in expr.index_tuple:
            self.rec(index)


def _names_of(domain: isl.BasicSet) -> list[str]:
    return list(domain.get_var_names_not_none(isl.dim_type.set))


@memoize_on_first_arg
def _names(kernel: lp.LoopKernel, name: str) -> frozenset[str]:
    """Return the names that an instruction reads or sets; the kernel keeps them."""
    instruction = kernel.id_to_insn[name]
    return frozenset(instruction.read_dependency_names() | instruction.write_dependency_names())


@memoize_on_first_arg
def _users(kernel: lp.LoopKernel) -> Mapping[str, frozenset[str]]:
    """Return the ids of the instructions that read or set each name; the kernel keeps them."""
    users: dict[str, set[str]] = {}
    for i in kernel.instructions:
        for name in _names(kernel, i.id):
            users.setdefault(name, set()).add(i.id)
    return {name: frozenset(ids) for name, ids in users.items()}
