"""The pass: constants, tables and loops over tables of one kernel, folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import islpy as isl
import loopy as lp
import numpy as np
from loopy.kernel.data import VectorizeTag

from formcompiler.constfold.expressions import Folder, is_literal, is_value
from formcompiler.constfold.tables import Tables
from formcompiler.constfold.unroll import Unrolling, split_accumulation, unroll_loop
from formcompiler.errors import InvalidOptionError
from formcompiler.kernel.flops import loop_extent
from formcompiler.kernel.instructions import after, with_changes
from formcompiler.kernel.names import Reads
from formcompiler.naming import Namer

LEVELS = ("off", "literals", "full")
_MAX_ROUNDS = 6


@dataclass(frozen=True)
class FoldConstants:
    """Folds constants.

    Rewrite: ``x = 2.0 * 4.0 * y * table[1]``, where ``table[1]`` is 1, becomes ``x = 8.0 * y``; with "full" also
    ``for k: s = s + t[k] * y[k]``, where ``t`` is -1, 1, 0, becomes ``s = s - y[0] + y[1]``.

    Legality: see `formcompiler.constfold.expressions` for what is exact. "full" takes table entries within 4e-15 of
    -1, 0 and 1 for these numbers. Loops are unrolled and instructions dropped only in kernels that are not yet
    linearized, whose instructions are in program order, with one domain for each iname; in others, expressions are
    folded and nothing else.

    Profitability: a loop is unrolled if that saves operations.

    Failure: none.

    Attributes:
        level: "off"; "literals": expressions; "full": tables and loops over tables as well.
    """

    level: str = "full"

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise InvalidOptionError(f"constfold={self.level!r}: choose one of {', '.join(LEVELS)}")

    def __call__(self, t_unit: lp.TranslationUnit, /) -> lp.TranslationUnit:
        """Return the folded program."""
        if self.level == "off":
            return t_unit
        return t_unit.with_kernel(fold_kernel(t_unit.default_entrypoint, is_full=self.level == "full"))


def fold_kernel(kernel: lp.LoopKernel, *, is_full: bool) -> lp.LoopKernel:
    """Return the folded kernel; see `FoldConstants`."""
    state = _State(kernel, is_full=is_full)
    if not (is_full and is_in_program_order(kernel)):
        return kernel.copy(instructions=state.fold_all())
    for _ in range(_MAX_ROUNDS):
        before = state.instructions
        state.instructions = state.fold_all()
        state.unroll()
        state.merge_initializations()
        state.drop_unread()
        if state.instructions == before:
            break
    return state.finish()


def is_in_program_order(kernel: lp.LoopKernel) -> bool:
    """Tell whether a kernel has one-dimensional domains and its instructions stand in the order in which they run."""
    if kernel.linearization is not None or any(d.dim(isl.dim_type.set) > 1 for d in kernel.domains):
        return False
    done: set[str] = set()
    for instruction in kernel.instructions:
        if not instruction.depends_on_is_final or not instruction.depends_on <= done:
            return False
        done.add(instruction.id)
    return True


class _State:
    """A kernel under transformation."""

    def __init__(self, kernel: lp.LoopKernel, *, is_full: bool) -> None:
        self._kernel = kernel
        self.instructions: list[Any] = list(kernel.instructions)
        self._tables = Tables(kernel, is_rounding=is_full)
        self._entry = self._tables.entry if is_full else None
        self._dtype = _real_type(kernel)
        self._namer = Namer(kernel.id_to_insn)
        self._reads = Reads()
        names = [name for d in kernel.domains for name in d.get_var_names_not_none(isl.dim_type.set)]
        self._rank = {name: number for number, name in enumerate(names)}
        self._lanes = {name for name in kernel.inames if kernel.iname_tags_of_type(name, VectorizeTag)}

    def fold_all(self) -> list[Any]:
        """Return all instructions with folded expressions; scalars that are literals are put in where they are read."""
        writers = _writers(self.instructions)
        values: dict[str, Any] = {}
        fold = Folder(self._dtype, values, self._entry)
        result = []
        for instruction in self.instructions:
            if not isinstance(instruction, lp.Assignment):
                result.append(instruction)
                continue
            expression = fold(instruction.expression)
            name = instruction.assignee_var_names()[0]
            is_scalar = self._is_scalar(name) and not instruction.predicates
            if is_scalar and is_literal(expression) and len(writers[name]) == 1:
                values[name] = expression
            target = fold.target(instruction.assignee)
            is_same = target == instruction.assignee and expression == instruction.expression
            result.append(instruction if is_same else with_changes(instruction, assignee=target, expression=expression))
        return result

    def _is_scalar(self, name: str) -> bool:
        temporary = self._kernel.temporary_variables.get(name)
        return temporary is not None and temporary.shape == ()

    def unroll(self) -> None:
        """Unroll innermost loops that are better unrolled."""
        fold = Folder(self._dtype, {}, self._entry)
        ids: dict[str, frozenset[str]] = {}
        tried: set[tuple[str, ...]] = set()
        while unrolled := self._unroll_innermost(fold, tried):
            for some in unrolled.values():
                ids.update((u.old.id, frozenset(i.id for i in u.new)) for u in some)
            self._replace(unrolled)
        self.instructions = [_with_dependencies(i, ids) for i in self.instructions]

    def _unroll_innermost(self, fold: Folder, tried: set[tuple[str, ...]]) -> dict[str, list[Unrolling]]:
        """Return what becomes of innermost loops that were not tried before, by the ids of their last instructions."""
        by_loops: dict[frozenset[str], list[Any]] = {}
        counts = Counter[str]()
        for instruction in self.instructions:
            loops = instruction.within_inames - self._lanes
            by_loops.setdefault(loops, []).append(instruction)
            counts.update(loops)
        found = {}
        for loops, body in by_loops.items():
            key = tuple(i.id for i in body)
            iname = max(loops, key=self._rank.__getitem__, default=None)
            if iname is None or key in tried or counts[iname] > len(body):
                continue
            tried.add(key)
            extent = loop_extent(self._kernel, iname)
            unrolled = [] if isinstance(extent, str) else self._unroll_loop(body, iname, extent, fold)
            if unrolled:
                found[body[-1].id] = unrolled
        return found

    def _unroll_loop(self, body: list[Any], iname: str, extent: int, fold: Folder) -> list[Unrolling]:
        return unroll_loop(body, iname, extent, fold, self._namer.unique, self._reads)

    def _replace(self, unrolled: dict[str, list[Unrolling]]) -> None:
        """Put unrolled instructions behind their loops, whose last instructions are given."""
        old = {u.old.id for some in unrolled.values() for u in some}
        result = []
        for instruction in self.instructions:
            if instruction.id not in old:
                result.append(instruction)
            result += [new for u in unrolled.get(instruction.id, ()) for new in u.new]
        self.instructions = result

    def merge_initializations(self) -> None:
        """Make ``x = 0; x = x + y`` in the same loops one assignment."""
        position = {i.id: number for number, i in enumerate(self.instructions)}
        merged: dict[str, Any] = {}
        dropped: dict[str, frozenset[str]] = {}
        for name, ids in _writers(self.instructions).items():
            if len(ids) != 2 or not self._is_private(name):
                continue
            start, end = (position[n] for n in ids)
            first, second = self.instructions[start], self.instructions[end]
            terms = split_accumulation(second)
            is_same = first.assignee == second.assignee and first.within_inames == second.within_inames
            if terms and is_same and is_value(first.expression, 0) and not self._is_read(name, start + 1, end):
                value = terms[0] if len(terms) == 1 else second.expression.__class__(terms)
                merged[second.id] = with_changes(second, expression=value)
                dropped[first.id] = first.depends_on
        kept = [merged.get(i.id, i) for i in self.instructions if i.id not in dropped]
        self.instructions = [_with_dependencies(i, dropped) for i in kept]

    def _is_private(self, name: str) -> bool:
        temporary = self._kernel.temporary_variables.get(name)
        return temporary is not None and temporary.initializer is None

    def _is_read(self, name: str, start: int, end: int) -> bool:
        return any(name in self._reads(i) for i in self.instructions[start:end])

    def drop_unread(self) -> None:
        """Drop assignments to temporaries that nothing reads, and those of a variable to itself."""
        while True:
            read = frozenset[str]().union(*map(self._useful_reads, self.instructions))
            dropped = {
                i.id: i.depends_on
                for i in self.instructions
                if isinstance(i, lp.Assignment)
                and (i.expression == i.assignee or self._is_unread(i.assignee_var_names()[0], read))
            }
            if not dropped:
                return
            kept = [i for i in self.instructions if i.id not in dropped]
            self.instructions = [_with_dependencies(i, dropped) for i in kept]

    def _useful_reads(self, instruction: Any) -> frozenset[str]:
        """Return what an instruction reads, other than to update its own variables."""
        own = frozenset(instruction.assignee_var_names())
        read = self._reads(instruction)
        return read if own.isdisjoint(read) else read - (own - _indices(instruction))

    def _is_unread(self, name: str, read: frozenset[str]) -> bool:
        return self._is_private(name) and name not in read

    def finish(self) -> lp.LoopKernel:
        """Return the kernel without what is no longer used."""
        used = {n for i in self.instructions for n in (*self._reads(i), *i.assignee_var_names())}
        inames = {iname for i in self.instructions for iname in i.within_inames}
        temporaries = {**self._kernel.temporary_variables, **self._tables.new}
        domains = [d for d in self._kernel.domains if set(d.get_var_names_not_none(isl.dim_type.set)) <= inames]
        return self._kernel.copy(
            instructions=self.instructions,
            temporary_variables={name: t for name, t in temporaries.items() if name in used},
            domains=[d for d in domains if d.dim(isl.dim_type.set)] or [isl.BasicSet("{ : }")],
            inames={name: iname for name, iname in self._kernel.inames.items() if name in inames},
        )


def _indices(instruction: Any) -> set[str]:
    return {name for deps in instruction.assignee_subscript_deps() for name in deps}


def _with_dependencies(instruction: Any, instead: dict[str, frozenset[str]]) -> Any:
    """Return an instruction with ids of dropped instructions replaced, also where these depend on one another."""
    ids = instruction.depends_on
    if ids.isdisjoint(instead):
        return instruction
    while not ids.isdisjoint(instead):
        ids = frozenset().union(*(instead.get(name, frozenset([name])) for name in ids))
    return with_changes(instruction, happens_after=after(sorted(ids)))


def _writers(instructions: Iterable[Any]) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for instruction in instructions:
        for name in dict.fromkeys(instruction.assignee_var_names()):
            result.setdefault(name, []).append(instruction.id)
    return result


def _real_type(kernel: lp.LoopKernel) -> Any:
    """Return the type in which the kernel's literals are combined: that of its written arguments."""
    types = [a.dtype.numpy_dtype for a in kernel.args if a.name in kernel.get_written_variables() and a.dtype]
    floating = [t for t in types if t.kind in "fc"]
    return np.empty(0, floating[0]).real.dtype if floating else np.dtype(np.float64)
