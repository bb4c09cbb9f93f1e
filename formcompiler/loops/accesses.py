"""Which elements of which variables an instruction reads and writes: exact relations in isl."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import islpy as isl
import loopy as lp
import numpy as np
import pymbolic.primitives as prim
from loopy.diagnostic import ExpressionToAffineConversionError
from loopy.symbolic import IdentityMapper, condition_to_set, get_dependencies, pwaff_from_expr

from formcompiler.errors import TransformError
from formcompiler.loops.order import ProgramOrder
from formcompiler.loops.references import HIDDEN, Reference, find_code_uses, find_references

_TABLE_LIMIT = 1024
"""Constant index tables of more entries are not looked into."""


@dataclass(frozen=True, eq=False)
class Access:
    """One reference of an instruction to a variable.

    Attributes:
        key: Its name, unique in the kernel.
        instruction: Id of the instruction.
        variable: Name of the argument or temporary.
        memory: Name of the memory that is touched; what touches different memory is independent.
        subscript: The index expressions; none for a scalar.
        is_write: Whether it writes.
        is_conditional: Whether it happens only under a condition.
        is_whole: Whether it names an array without an index, and may touch all of it.
        is_plain: Whether it happens once in each iteration, and the subscript tells all about what is touched.
    """

    key: str
    instruction: str
    variable: str
    memory: str
    subscript: tuple[Any, ...]
    is_write: bool
    is_conditional: bool
    is_whole: bool
    is_plain: bool
    _relate: Callable[[], tuple[isl.Map, bool]]

    @cached_property
    def _related(self) -> tuple[isl.Map, bool]:
        return self._relate()

    @property
    def relation(self) -> isl.Map:
        """Return the relation from iterations of the instruction (loops outermost first) to elements.

        An access that is not exact is related to all elements that it could touch.
        """
        return self._related[0]

    @property
    def is_exact(self) -> bool:
        """Return whether the relation is exact: affine, and not under a condition that isl cannot express."""
        return self._related[1]

    def __str__(self) -> str:
        """Return it as it stands in the instruction."""
        index = ", ".join(map(str, self.subscript)).replace("+ -", "- ")
        return f"{self.variable}[{index}]" if self.subscript else self.variable


def iteration_domain(kernel: lp.LoopKernel, loops: Sequence[str]) -> isl.Set:
    """Return the points of loops, dimensions in the given order; parameters are bound by the kernel's assumptions.

    Raises:
        TransformError: if a bound is computed by the kernel itself.
    """
    basic = kernel.get_inames_domain(frozenset(loops)).project_out_except(list(loops), [isl.dim_type.set])
    domain = reorder(isl.Set.from_basic_set(basic), loops)
    for name in domain.get_var_names_not_none(isl.dim_type.param):
        if name in kernel.get_written_variables():
            raise TransformError(
                f"kernel {kernel.name}: the bounds of loops {', '.join(loops)} depend on {name}, which the kernel "
                "itself computes; make it an argument"
            )
    assumptions = isl.Set.from_basic_set(kernel.assumptions).params()
    return domain.intersect_params(assumptions)


def reorder(domain: isl.Set, names: Sequence[str]) -> isl.Set:
    """Return the set with its dimensions in the order of their names."""
    for name in names:
        position = domain.find_dim_by_name(isl.dim_type.set, name)
        domain = domain.move_dims(isl.dim_type.param, 0, isl.dim_type.set, position, 1)
    for n, name in enumerate(names):
        position = domain.find_dim_by_name(isl.dim_type.param, name)
        domain = domain.move_dims(isl.dim_type.set, n, isl.dim_type.param, position, 1)
    return domain


class AccessFinder:
    """Finds the accesses of a kernel's instructions.

    Args:
        kernel: The kernel.
        order: Its order; the dimensions of relations are loops in this order.
    """

    def __init__(self, kernel: lp.LoopKernel, order: ProgramOrder) -> None:
        self._kernel = kernel
        self._order = order
        arrays = {a.name for a in kernel.args if not isinstance(a, lp.ValueArg)}
        self._arrays = arrays | set(kernel.temporary_variables) | {HIDDEN}
        self._domains: dict[tuple[str, ...], isl.Set] = {}

    @cached_property
    def _renumbered(self) -> dict[str, frozenset[int]]:
        references = (r for i in self._kernel.instructions for r, _ in self._references(i))
        return find_renumbered(self._kernel, references, self._arrays)

    def accesses(self, instruction_id: str) -> tuple[Access, ...]:
        """Return the accesses of an instruction: reads in the order of the expression, then indices, then writes."""
        instruction = self._kernel.id_to_insn[instruction_id]
        return tuple(
            self._make(f"{instruction_id}.{n}", instruction, reference, is_write)
            for n, (reference, is_write) in enumerate(self._references(instruction))
        )

    def domain(self, loops: tuple[str, ...]) -> isl.Set:
        """Return the points of loops (`iteration_domain`)."""
        if loops not in self._domains:
            self._domains[loops] = iteration_domain(self._kernel, loops)
        return self._domains[loops]

    def _references(self, instruction: Any) -> list[tuple[Reference, bool]]:
        if isinstance(instruction, lp.NoOpInstruction):
            return []
        conditions = [
            (r, False) for p in sorted(instruction.predicates, key=str) for r in find_references(p, self._arrays)
        ]
        if isinstance(instruction, lp.CInstruction):
            uses = find_code_uses(instruction)
            sides = ((uses.reads, False), (uses.writes, True))
            return [*conditions, *((_whole(n), write) for names, write in sides for n in sorted(names & self._arrays))]
        found = [*((r, False) for r in find_references(instruction.expression, self._arrays)), *conditions]
        for assignee in instruction.assignees:
            target, *indices = find_references(assignee, self._arrays)
            found += [*((r, False) for r in indices), (target, True)]
        return found

    def _make(self, key: str, instruction: Any, reference: Reference, is_write: bool) -> Access:
        conditions = (*sorted(instruction.predicates, key=str), *reference.conditions)
        memory, shape = self._storage(reference)
        is_whole = reference.subscript is None or bool(shape and not reference.subscript)
        is_alone = len(instruction.assignees) == 1 and not conditions and not reference.reduction_inames
        return Access(
            key,
            instruction.id,
            reference.variable,
            memory,
            reference.subscript or (),
            is_write,
            bool(conditions),
            is_whole,
            is_alone and not is_whole and memory == reference.variable,
            lambda: self._find_relation(key, instruction, reference, conditions),
        )

    def _find_relation(
        self, key: str, instruction: Any, reference: Reference, conditions: tuple[Any, ...]
    ) -> tuple[isl.Map, bool]:
        """Return the relation of an access, and whether it is exact."""
        loops = self._order.loops[instruction.id]
        domain = self.domain((*loops, *reference.reduction_inames))
        domain = self._with_parameters(domain, (*conditions, *(reference.subscript or ())))
        is_exact = True
        for condition in conditions:
            where = condition_to_set(domain.space, condition)
            is_exact = is_exact and where is not None
            domain = domain if where is None else domain.intersect(where)
        memory, shape = self._storage(reference)
        subscript: tuple[Any, ...] = reference.subscript or ()
        if memory != reference.variable or reference.subscript is None or (shape and not subscript):
            is_exact, subscript = False, (None,) * len(shape)
        elif memory in self._renumbered:
            subscript, shape = self._renumber(memory, subscript, shape)
        relation, is_affine = self._relate(domain, subscript, shape)
        relation = relation.project_out(isl.dim_type.in_, len(loops), len(reference.reduction_inames))
        relation = relation.set_tuple_name(isl.dim_type.in_, key).set_tuple_name(isl.dim_type.out, memory)
        return relation, is_exact and is_affine

    def _with_parameters(self, domain: isl.Set, expressions: Iterable[Any]) -> isl.Set:
        """Return the domain with all value arguments of the expressions as parameters."""
        for name in sorted({name for expression in expressions for name in get_dependencies(expression)}):
            is_value = isinstance(self._kernel.arg_dict.get(name), lp.ValueArg)
            if is_value and domain.find_dim_by_name(isl.dim_type.param, name) < 0:
                n = domain.dim(isl.dim_type.param)
                domain = domain.insert_dims(isl.dim_type.param, n, 1).set_dim_name(isl.dim_type.param, n, name)
        return domain

    def _storage(self, reference: Reference) -> tuple[str, tuple[Any, ...]]:
        """Return the name of the memory behind a variable, and its shape; shared memory has none."""
        if reference.variable == HIDDEN:
            return HIDDEN, ()
        array = self._kernel.get_var_descriptor(reference.variable)
        if getattr(array, "base_storage", None):
            return f"storage {array.base_storage}", ()
        shape = array.shape
        if not isinstance(shape, tuple):
            if reference.subscript is None:
                raise TransformError(f"the shape of {reference.variable} must be known, because it is used as a whole")
            shape = (None,) * len(reference.subscript)
        return reference.variable, shape

    def _renumber(
        self, memory: str, subscript: Sequence[Any], shape: Sequence[Any]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return a subscript with look-ups replaced by where they look, and the shape that belongs to it."""
        indices: list[Any] = []
        extents: list[Any] = []
        for n, (index, extent) in enumerate(zip(subscript, shape, strict=True)):
            if n in self._renumbered[memory]:
                entry = _find_lookup(self._kernel, index, self._arrays)
                assert entry is not None
                indices += entry[0].index_tuple
                extents += [None] * len(entry[0].index_tuple)
            else:
                indices.append(index)
                extents.append(extent)
        return tuple(indices), tuple(extents)

    def _relate(self, domain: isl.Set, subscript: Sequence[Any], shape: Sequence[Any]) -> tuple[isl.Map, bool]:
        """Return the relation from points to elements, and whether it is exact."""
        n_loops = domain.dim(isl.dim_type.set)
        tables = _Tables(self._kernel, domain)
        plain = [None if index is None else tables.lower(index) for index in subscript]
        relation = isl.Map.from_domain_and_range(tables.domain, isl.Set("{ [] }"))
        is_exact = True
        for n, index in enumerate(plain):
            function = affine_function(tables.domain.space, index)
            if function is None:
                is_exact = False
                extent = _extent(shape[n] if n < len(shape) else None)
                function = isl.Map.from_domain_and_range(isl.Set.universe(tables.domain.space), extent)
            relation = relation.flat_range_product(function)
        extra = tables.domain.dim(isl.dim_type.set) - n_loops
        return relation.project_out(isl.dim_type.in_, n_loops, extra), is_exact


def _whole(name: str) -> Reference:
    """Return a reference to all elements of a variable."""
    return Reference(name, None, (), ())


def find_renumbered(
    kernel: lp.LoopKernel, references: Iterable[Reference], arrays: Collection[str]
) -> dict[str, frozenset[int]]:
    """Return by variable the dimensions that are only ever indexed through one constant table without repetitions.

    Such a look-up renumbers the elements: where it looks says as well which element is meant, and is affine.
    """
    seen: dict[tuple[str, int], set[tuple[str, str] | None]] = {}
    for reference in references:
        for n, index in enumerate(reference.subscript or ()):
            found = _find_lookup(kernel, index, arrays)
            key = None if found is None else (found[0].aggregate.name, str(found[1]))
            seen.setdefault((reference.variable, n), set()).add(key)
        if not reference.subscript:
            seen.setdefault((reference.variable, -1), set()).add(None)
    renumbered: dict[str, set[int]] = {}
    for (variable, n), keys in seen.items():
        if len(keys) == 1 and None not in keys and (variable, -1) not in seen:
            renumbered.setdefault(variable, set()).add(n)
    return {variable: frozenset(dimensions) for variable, dimensions in renumbered.items()}


def _find_lookup(kernel: lp.LoopKernel, index: Any, arrays: Collection[str]) -> tuple[Any, Any] | None:
    """Return (look-up, index with the look-up replaced by a variable) if that determines the index one to one."""
    tables = _Collected(kernel)
    outer = tables.rec(index)
    if len(tables.found) != 1 or get_dependencies(outer) != {"_entry"}:
        return None
    function = affine_function(isl.Space.create_from_names(isl.DEFAULT_CONTEXT, ["_entry"]), outer)
    values = table_values(kernel, tables.found[0].aggregate.name)
    if function is None or not function.is_injective() or len(np.unique(values)) < values.size:
        return None
    return tables.found[0], outer


class _Collected(IdentityMapper[[]]):
    """Replaces look-ups in constant integer tables by a variable, and collects them."""

    def __init__(self, kernel: lp.LoopKernel) -> None:
        super().__init__()
        self._kernel = kernel
        self.found: list[Any] = []

    def map_subscript(self, expr: Any) -> Any:
        """Replace a look-up."""
        if table_values(self._kernel, expr.aggregate.name) is None:
            return expr
        self.found.append(expr)
        return prim.Variable("_entry")


def table_values(kernel: lp.LoopKernel, name: str) -> Any:
    """Return the entries of a constant table of integers, or None if the variable is not one."""
    array = kernel.temporary_variables.get(name)
    values = None if array is None or not array.read_only else array.initializer
    return None if values is None or values.dtype.kind not in "iu" else values


def affine_function(space: isl.Space, expression: Any) -> isl.Map | None:
    """Return the function of an index expression, or None if it is not affine."""
    if expression is None or not get_dependencies(expression) <= set(space.get_var_dict()):
        return None
    try:
        return isl.Map.from_pw_aff(pwaff_from_expr(space, expression, frozenset()))
    except ExpressionToAffineConversionError:
        return None


def _extent(size: Any) -> isl.Set:
    return isl.Set(f"{{ [x] : 0 <= x < {size} }}" if isinstance(size, int | np.integer) else "{ [x] }")


class _Tables(IdentityMapper[[]]):
    """Replaces look-ups in constant tables by new dimensions of the domain, which hold what is found there."""

    def __init__(self, kernel: lp.LoopKernel, domain: isl.Set) -> None:
        super().__init__()
        self._kernel = kernel
        self.domain = domain

    def lower(self, expression: Any) -> Any:
        """Return an index expression without tables that are known."""
        return self.rec(expression)

    def map_subscript(self, expr: Any) -> Any:
        """Look up in a table, if it is one whose entries are known integers."""
        values = table_values(self._kernel, expr.aggregate.name)
        if values is None or values.size > _TABLE_LIMIT:
            return expr
        relation = isl.Map.from_domain_and_range(self.domain, isl.Set("{ [] }"))
        for index in expr.index_tuple:
            function = affine_function(self.domain.space, self.rec(index))
            if function is None:
                return expr
            relation = relation.flat_range_product(function)
        n = self.domain.dim(isl.dim_type.set)
        names = self.domain.get_var_names_not_none(isl.dim_type.set)
        found = relation.apply_range(_table_map(values)).wrap().flatten()
        for i, name in enumerate([*names, f"_entry{n}"]):
            found = found.set_dim_name(isl.dim_type.set, i, name)
        self.domain = found
        return prim.Variable(f"_entry{n}")


def _table_map(values: Any) -> isl.Map:
    """Return the entries of an integer table as a relation from index to value."""
    entries = (f"[{', '.join(map(str, index))}] -> [{value}]" for index, value in np.ndenumerate(values))
    return isl.Map(f"{{ {'; '.join(entries)} }}")
