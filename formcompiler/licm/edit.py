"""Edits of a linearized kernel: new temporaries, tables, loops and instructions, placed in the linearization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import islpy as isl
import loopy as lp
import numpy as np
import numpy.typing as npt
import pymbolic.primitives as prim
from loopy.kernel.data import Iname
from loopy.schedule import EnterLoop, LeaveLoop, RunInstruction, ScheduleItem

from formcompiler.kernel.instructions import after, make_assignment, make_temporary, with_changes
from formcompiler.kernel.names import Reads, names_in, names_written
from formcompiler.licm.cost import TripCounts
from formcompiler.licm.nest import Nest
from formcompiler.naming import Namer


class Editor:
    """A linearized kernel under transformation.

    Attributes:
        added: Types of new temporaries and tables.

    Args:
        kernel: The kernel.
        nest: Its loops.
        trips: Numbers of iterations. No new iname gets the name of one that they know, from kernels before.
        reads: Names that instructions read.
    """

    def __init__(
        self,
        kernel: lp.LoopKernel,
        nest: Nest,
        trips: TripCounts,
        reads: Reads,
    ) -> None:
        self.kernel = kernel
        self.instructions: dict[str, Any] = dict(kernel.id_to_insn)
        self._nest = nest
        self._reads = reads
        self._trips = trips
        self._changed: set[str] = set()
        self._before: dict[int, list[ScheduleItem]] = {}
        self._after: dict[int, list[ScheduleItem]] = {}
        self._removed: set[int] = set()
        self._temporaries = dict(kernel.temporary_variables)
        self._domains = list(kernel.domains)
        self._inames = dict(kernel.inames)
        self.added: dict[str, np.dtype[Any]] = {}

    @cached_property
    def _names(self) -> Namer:
        return Namer(self.kernel.all_variable_names() | set(self.kernel.inames) | self._trips.inames)

    @cached_property
    def _tables(self) -> dict[tuple[np.dtype[Any], tuple[int, ...]], list[str]]:
        """Return the names of constant tables by type and shape, in order."""
        result: dict[tuple[np.dtype[Any], tuple[int, ...]], list[str]] = {}
        for name, known in self._temporaries.items():
            if known.initializer is not None and known.read_only:
                result.setdefault((known.initializer.dtype, known.initializer.shape), []).append(name)
        return result

    @cached_property
    def _ids(self) -> Namer:
        return Namer(self.kernel.id_to_insn)

    def temporary(self, wish: str, dtype: Any, index: Sequence[str] = (), extents: Sequence[int] = ()) -> Any:
        """Add a temporary and return its access: one axis per index, a last one for a lane."""
        name = self._names.unique(wish)
        shape = (*extents, *(self._trips.extent(i) for i in index[len(extents) :]))
        self._temporaries[name] = make_temporary(name, shape, dtype)
        self.added[name] = np.dtype(getattr(dtype, "numpy_dtype", dtype))
        variable = prim.Variable(name)
        return variable[tuple(map(prim.Variable, index))] if index else variable

    def table(self, wish: str, values: npt.NDArray[Any]) -> Any:
        """Add a constant table, once for equal values, and return its variable."""
        alike = self._tables.setdefault((values.dtype, values.shape), [])
        for name in alike:
            known: Any = self._temporaries[name].initializer
            if np.array_equal(known, values):
                return prim.Variable(name)
        name = self._names.unique(wish)
        alike.append(name)
        self._temporaries[name] = lp.TemporaryVariable(
            name,
            dtype=values.dtype,
            shape=values.shape,
            address_space=lp.AddressSpace.GLOBAL,
            read_only=True,
            initializer=np.ascontiguousarray(values),
        )
        self.added[name] = values.dtype
        return prim.Variable(name)

    def loop(self, wish: str, extent: int) -> str:
        """Add an iname from 0 to below an extent and return it."""
        iname = self._names.unique(wish)
        self._domains.append(isl.BasicSet(f"{{ [{iname}] : 0 <= {iname} < {extent} }}"))
        self._inames[iname] = Iname(iname, tags=frozenset())
        self._trips.add(iname, extent)
        return iname

    def assign(self, target: Any, value: Any, loops: Sequence[str], wish: str = "hoist") -> RunInstruction:
        """Add an instruction, in the given loops and the lanes of its target, and return the item that runs it."""
        identifier = self._ids.unique(wish)
        lanes = names_in(target) & self._nest.lanes
        self._put(make_assignment(target, value, identifier, lanes.union(loops)))
        return RunInstruction(insn_id=identifier)

    def change(self, identifier: str, **attributes: Any) -> None:
        """Change attributes of an instruction."""
        self._put(with_changes(self.instructions[identifier], **attributes))

    def transform(self, identifier: str, transform: Callable[[Any], Any]) -> None:
        """Apply a function to the expression and the predicates of an instruction."""
        instruction = self.instructions[identifier]
        if isinstance(instruction, lp.MultiAssignmentBase):
            predicates = frozenset(map(transform, instruction.predicates))
            self.change(identifier, expression=transform(instruction.expression), predicates=predicates)
        else:
            self._put(instruction.with_transformed_expressions(transform, lambda target: target))

    def _put(self, instruction: Any) -> None:
        self.instructions[instruction.id] = instruction
        self._changed.add(instruction.id)

    def insert_before(self, item: ScheduleItem, items: Sequence[ScheduleItem]) -> None:
        """Put items in front of one of the kernel's own, behind those put there before."""
        self._before.setdefault(self._nest.index(item), []).extend(items)

    def insert_after(self, item: ScheduleItem, items: Sequence[ScheduleItem]) -> None:
        """Put items behind one of the kernel's own, behind those put there before."""
        self._after.setdefault(self._nest.index(item), []).extend(items)

    def remove(self, identifier: str) -> None:
        """Remove an instruction."""
        self._removed.add(self._nest.position[identifier])

    @property
    def is_changed(self) -> bool:
        """Tell whether anything was changed."""
        return bool(self._changed or self._before or self._after or self._removed)

    def finish(self) -> lp.LoopKernel:
        """Return the kernel, without dead instructions, empty loops and unused variables.

        Dependencies of instructions are left as they were: see `link_dependencies`.
        """
        if not self.is_changed:
            return self.kernel
        items, used = self._without_dead(self._merged())
        items = _without_empty_loops(items)
        order = [self.instructions[i.insn_id] for i in items if isinstance(i, RunInstruction)]
        inames = set[str]().union(*{i.within_inames for i in order})
        opened = [i.iname for i in items if isinstance(i, EnterLoop)]
        return self.kernel.copy(
            instructions=order,
            temporary_variables={n: t for n, t in self._temporaries.items() if n in used},
            domains=_sorted_domains(self._domains, inames, opened),
            inames={n: i for n, i in self._inames.items() if n in inames},
            linearization=items,
        )

    def _merged(self) -> list[ScheduleItem]:
        """Return the linearization with all insertions in their places, and without what was removed."""
        items: list[ScheduleItem] = []
        start = 0
        for index in sorted({*self._before, *self._after, *self._removed}):
            end = index if index in self._removed else index + 1
            items += self._nest.items[start:index]
            items += self._before.get(index, ())
            items += self._nest.items[index:end]
            items += self._after.get(index, ())
            start = index + 1
        return items + list(self._nest.items[start:])

    def _without_dead(self, items: list[ScheduleItem]) -> tuple[list[ScheduleItem], set[str]]:
        """Return items without assignments to temporaries that no other instruction reads, and all names in use."""
        running = {i.insn_id: self.instructions[i.insn_id] for i in items if isinstance(i, RunInstruction)}
        readers: dict[str, int] = {}
        writers: dict[str, list[str]] = {}
        for name, instruction in running.items():
            for read in self._reads.of_others(instruction):
                readers[read] = readers.get(read, 0) + 1
            if isinstance(instruction, lp.Assignment):
                writers.setdefault(names_written(instruction)[0], []).append(name)
        dead = [variable for variable in writers if variable in self._temporaries and not readers.get(variable)]
        for variable in dead:
            for name in writers[variable]:
                for read in self._reads.of_others(running.pop(name)):
                    readers[read] -= 1
                    if not readers[read] and read in writers and read in self._temporaries:
                        dead.append(read)
        used = {name for name, count in readers.items() if count}
        used.update(*map(names_written, running.values()))
        if dead:
            items = [i for i in items if not isinstance(i, RunInstruction) or i.insn_id in running]
        return items, used


def _without_empty_loops(items: list[ScheduleItem]) -> list[ScheduleItem]:
    result: list[ScheduleItem] = []
    for item in items:
        if isinstance(item, LeaveLoop) and isinstance(result[-1], EnterLoop):
            result.pop()
        else:
            result.append(item)
    return result


def _sorted_domains(domains: Sequence[Any], inames: set[str], opened: Sequence[str]) -> list[Any]:
    """Return the domains in use, those of outer loops first, those of lanes last."""
    rank = {iname: n for n, iname in enumerate(opened)}
    kept = []
    for domain in domains:
        names = domain.get_var_names_not_none(isl.dim_type.set)
        if names and set(names) <= inames:
            kept.append((min(rank.get(n, len(rank)) for n in names), domain))
    return [domain for _, domain in sorted(kept, key=lambda pair: pair[0])] or [isl.BasicSet("{ : }")]


def link_dependencies(kernel: lp.LoopKernel, reads: Reads) -> lp.LoopKernel:
    """Return a kernel whose instructions, in program order, depend on all earlier ones that must come first."""
    writers: dict[str, list[str]] = {}
    readers: dict[str, list[str]] = {}
    result = []
    for instruction in kernel.instructions:
        written = names_written(instruction)
        read = reads(instruction)
        before: set[str] = set()
        for name in writers.keys() & read.union(written):
            before.update(writers[name])
        for name in readers.keys() & written:
            before.update(readers[name])
        before.discard(instruction.id)
        is_same = before == instruction.happens_after.keys()
        result.append(instruction if is_same else with_changes(instruction, happens_after=after(sorted(before))))
        for name in written:
            writers.setdefault(name, []).append(instruction.id)
        for name in read:
            readers.setdefault(name, []).append(instruction.id)
    return kernel.copy(instructions=result)
