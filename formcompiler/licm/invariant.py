"""Arrays that are filled with the same values over and over are filled once, without the axes that do not matter.

Rewrite: ::

    for q: for i: t[q, i] = b[i] * x[i]      ->      for i: t2[i] = b[i] * x[i]

together with the scalars (sums under way, too) that only serve this instruction. An array whose first axis is always
accessed with literals is taken for as many arrays before.

Legality: the array is set by one instruction, at all its entries; nothing that goes into its value is written after the
loops have been entered, other than the scalars that move along.

Profitability: never more operations, if the scalars serve nothing else; less memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import loopy as lp
import pymbolic.primitives as prim
from loopy.schedule import EnterLoop, LeaveLoop, ScheduleItem
from loopy.symbolic import IdentityMapper

from formcompiler.kernel.names import names_in, names_written
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.edit import Editor
from formcompiler.licm.minimal import accesses_in
from formcompiler.licm.nest import Loops
from formcompiler.licm.substitute import substitute

Access = tuple[str, Any, bool]
"""Id of an instruction, an access to an array in it, and whether it is written."""


def shrink_arrays(facts: Analysis) -> lp.LoopKernel:
    """Return the kernel with arrays that do not have the axes along which they are constant."""
    known = facts.kernel.temporary_variables
    arrays = {n for n in facts.temporary_names if not facts.is_scalar(n) and known[n].initializer is None}
    if not arrays:
        return facts.kernel
    editor = facts.edit()
    _Shrinker(facts, editor, arrays).run()
    return editor.finish()


@dataclass(frozen=True)
class _Part:
    """An array, or the part of it that one literal first index stands for."""

    name: str
    literal: int | None = None


class _Shrinker:
    """Shrinks the arrays of one kernel, in the order in which they are set."""

    def __init__(self, facts: Analysis, editor: Editor, arrays: set[str]) -> None:
        self._facts = facts
        self._kernel = facts.kernel
        self._nest = facts.nest
        self._scopes = facts.scopes
        self._trips = facts.trips
        self._editor = editor
        self._arrays = arrays
        self._inames = facts.kernel.all_inames()
        self._copies: list[str] = []
        accesses = list(self._accesses())
        self._literal = self._find_literal_first(accesses)
        self._writers = self._find_writers(accesses)

    def run(self) -> None:
        """Shrink all arrays that can be."""
        for part, identifiers in self._writers.items():
            if len(identifiers) == 1:
                self._try(part, identifiers[0])

    def _accesses(self) -> Iterator[Access]:
        """Yield all accesses to arrays."""
        for name in self._nest.order:
            instruction = self._editor.instructions[name]
            if not isinstance(instruction, lp.Assignment):
                names = (*instruction.write_dependency_names(), *instruction.read_dependency_names())
                yield from ((name, prim.Variable(n), True) for n in names if n in self._arrays)
                continue
            if names_written(instruction)[0] in self._arrays:
                yield name, instruction.assignee, True
            if not self._arrays.isdisjoint(self._facts.reads(instruction)):
                for access in accesses_in(instruction.expression):
                    if getattr(getattr(access, "aggregate", access), "name", None) in self._arrays:
                        yield name, access, False

    @staticmethod
    def _find_literal_first(accesses: Sequence[Access]) -> set[str]:
        """Return the arrays whose first index is a literal everywhere."""
        first: dict[str, bool] = {}
        for _, access, _ in accesses:
            if isinstance(access, prim.Subscript):
                array: Any = access.aggregate
                index = access.index_tuple
                is_literal = len(index) > 1 and not isinstance(index[0], prim.ExpressionNode)
                first[array.name] = first.get(array.name, True) and is_literal
            else:
                first[access.name] = False
        return {name for name, is_literal in first.items() if is_literal}

    def _part(self, access: Any) -> _Part:
        name = access.aggregate.name
        return _Part(name, int(access.index_tuple[0]) if name in self._literal else None)

    def _find_writers(self, accesses: Sequence[Access]) -> dict[_Part, list[str]]:
        writers: dict[_Part, list[str]] = {}
        opaque: set[str] = set()
        for name, access, is_written in accesses:
            if not isinstance(access, prim.Subscript):
                opaque.add(access.name)
            elif is_written:
                writers.setdefault(self._part(access), []).append(name)
        return {part: ids for part, ids in writers.items() if part.name not in opaque}

    def _try(self, part: _Part, writer: str) -> None:
        instruction = self._editor.instructions[writer]
        loops = self._nest.loops[writer]
        index = instruction.assignee.index_tuple[1 if part.literal is not None else 0 :]
        names = [i.name for i in index if isinstance(i, prim.Variable)]
        if instruction.predicates or len(names) != len(index) or len(set(names)) != len(names):
            return
        if set(loops) <= names_in(instruction.expression) or set(names) != set(loops) | self._nest.lanes_of[writer]:
            return
        group = self._group(writer) if self._covers(part, names) else None
        if group is None:
            return
        around = {i for g in group for i in self._nest.loops[g]}
        used = {n for g in group for n in self._read(g, writer)} - (around - set(loops))
        redundant = [i for i in loops if i not in used]
        if redundant and self._facts.is_box(*sorted(around)):
            self._shrink(part, group, writer, frozenset(redundant))

    def _covers(self, part: _Part, names: Sequence[str]) -> bool:
        """Tell whether the instruction sets all entries."""
        temporary: Any = self._kernel.temporary_variables[part.name]
        shape = temporary.shape[1 if part.literal is not None else 0 :]
        return [self._trips.extent(n) for n in names] == list(shape)

    def _read(self, identifier: str, writer: str) -> frozenset[str]:
        """Return the names that an instruction of a group uses, the indices of the array itself not among them."""
        instruction = self._editor.instructions[identifier]
        read = names_in(instruction.expression)
        return read if identifier == writer else read | (names_in(instruction.assignee) & self._inames)

    def _group(self, writer: str) -> list[str] | None:
        """Return the instructions whose scalars serve a writer in its loops, in order; None if it cannot move.

        Where they use the inames of all loops there is nothing to shrink, and the search ends.
        """
        outermost = self._nest.loops[writer][:1]
        entry = self._nest.entry.get(outermost[0]) if outermost else None
        if entry is None:
            return None
        group = {writer}
        waiting = [writer]
        used: set[str] = set()
        while waiting:
            identifier = waiting.pop()
            used |= self._read(identifier, writer)
            if used.issuperset(self._nest.loops[writer]):
                return None
            for name in sorted(names_in(self._editor.instructions[identifier].expression)):
                if name in self._inames:
                    continue
                inside = [w for w in self._scopes.writers.get(name, ()) if self._nest.position[w] > entry]
                before = [w for w in inside if self._nest.position[w] < self._nest.position[writer]]
                if not before and not any(w in group for w in inside):
                    if any(outermost[0] in self._nest.loops[w] for w in inside):
                        return None
                    continue
                if not self._moves_along(name, before, outermost[0]) or len(before) != len(inside):
                    return None
                waiting += [w for w in before if w not in group]
                group.update(before)
        return sorted(group, key=self._nest.position.__getitem__)

    def _moves_along(self, name: str, writers: Sequence[str], outermost: str) -> bool:
        return self._facts.is_scalar(name) and all(
            isinstance(self._editor.instructions[w], lp.Assignment)
            and not self._editor.instructions[w].predicates
            and outermost in self._nest.loops[w]
            and names_in(self._editor.instructions[w].assignee) - {name} <= self._nest.lanes
            for w in writers
        )

    def _shrink(self, part: _Part, group: list[str], writer: str, redundant: frozenset[str]) -> None:
        """Copy the group to loops of its own, and let all readers read the smaller array."""
        editor = self._editor
        old = list(dict.fromkeys(i for g in group for i in self._nest.loops[g] if i not in redundant))
        inames = {i: editor.loop(i.split("_")[0], self._trips.extent(i)) for i in old}
        rename: dict[str, Any] = {i: prim.Variable(new) for i, new in inames.items()}
        for name in dict.fromkeys(self._target(g) for g in group if g != writer):
            setter = next(g for g in group if self._target(g) == name)
            lanes = sorted(names_in(editor.instructions[setter].assignee) & set(self._nest.lanes))
            access = editor.temporary(name, self._dtype(name), lanes)
            rename[name] = access.aggregate if lanes else access
        start = 1 if part.literal is not None else 0
        index = [i.name for i in self._editor.instructions[writer].assignee.index_tuple[start:]]
        kept = [axis for axis, i in enumerate(index) if i not in redundant]
        lanes = [i for i in index if i in self._nest.lanes]
        own = [inames[index[a]] for a in kept if index[a] not in lanes]
        extents = [self._trips.extent(index[a]) for a in kept if index[a] not in lanes]
        target = editor.temporary(part.name, self._dtype(part.name), (*own, *lanes), extents)
        items = self._copy(group, writer, target, rename, inames)
        editor.insert_before(EnterLoop(iname=self._nest.loops[writer][0]), items)
        axes = sorted(kept, key=lambda axis: index[axis] in lanes)
        self._redirect(part, target, [a + start for a in axes])

    def _dtype(self, name: str) -> Any:
        return self._kernel.temporary_variables[name].dtype

    def _target(self, identifier: str) -> str:
        return names_written(self._editor.instructions[identifier])[0]

    def _copy(
        self, group: list[str], writer: str, target: Any, rename: dict[str, Any], inames: dict[str, str]
    ) -> list[ScheduleItem]:
        replaced = substitute(rename)
        items: list[ScheduleItem] = []
        stack: list[str] = []
        for identifier in group:
            instruction = self._editor.instructions[identifier]
            wanted: Loops = tuple(inames[i] for i in self._nest.loops[identifier] if i in inames)
            while stack and tuple(stack) != wanted[: len(stack)]:
                items.append(LeaveLoop(iname=stack.pop()))
            for iname in wanted[len(stack) :]:
                items.append(EnterLoop(iname=iname))
                stack.append(iname)
            left = target if identifier == writer else replaced(instruction.assignee)
            run = self._editor.assign(left, replaced(instruction.expression), wanted, "shrunk")
            items.append(run)
            self._copies.append(run.insn_id)
        return items + [LeaveLoop(iname=i) for i in reversed(stack)]

    def _redirect(self, part: _Part, target: Any, kept: list[int]) -> None:
        mapper = _Redirect(part, target.aggregate if isinstance(target, prim.Subscript) else target, kept)
        for name in (*self._facts.readers.get(part.name, ()), *self._copies):
            instruction = self._editor.instructions[name]
            if part.name in names_in(instruction.expression):
                self._editor.change(name, expression=mapper(instruction.expression))


class _Redirect(IdentityMapper[[]]):
    """Lets accesses to a part of an array go to a smaller array."""

    def __init__(self, part: _Part, variable: Any, kept: list[int]) -> None:
        super().__init__()
        self._part = part
        self._variable = variable
        self._kept = kept

    def map_subscript(self, expr: Any) -> Any:
        """Return the new access."""
        index = expr.index_tuple
        is_part = expr.aggregate.name == self._part.name and self._part.literal in (None, index[0])
        if not is_part:
            return expr
        kept = tuple(index[axis] for axis in self._kept)
        return self._variable[kept] if kept else self._variable
