"""What single assignment and localization share: new arrays, and loops that copy into and out of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import islpy as isl
import loopy as lp
import pymbolic.primitives as prim
from loopy.isl_helpers import static_max_of_pw_aff, static_min_of_pw_aff
from loopy.kernel.data import Iname
from loopy.symbolic import IdentityMapper, SubstitutionMapper, aff_to_expr, simplify_via_aff
from pymbolic.mapper.substitutor import make_subst_func

from formcompiler.errors import TransformError
from formcompiler.loops.accesses import affine_function
from formcompiler.loops.domains import to_basic
from formcompiler.loops.program import unlinearized

Index = tuple[Any, ...]


def substitute(expression: Any, values: Mapping[str, Any]) -> Any:
    """Return an expression with variables replaced, and affine indices simplified."""
    return _Tidy()(SubstitutionMapper(make_subst_func(dict(values)))(expression))


class _Tidy(IdentityMapper[[]]):
    """Simplifies affine indices."""

    def map_subscript(self, expr: Any) -> Any:
        """Simplify the index of an element."""
        index = tuple(simplify_via_aff(self.rec(entry)) for entry in expr.index_tuple)
        return expr.aggregate[index if len(index) > 1 else index[0]]


def index_map(points: isl.Set, index: Sequence[Any]) -> isl.Map:
    """Return the function from named points to the values of affine index expressions.

    Raises:
        TransformError: if one is not affine.
    """
    result = isl.Map.from_domain_and_range(points, isl.Set("{ [] }"))
    for entry in index:
        function = affine_function(points.space, entry)
        if function is None:
            raise TransformError(f"the index {entry} is not affine in the loops")
        result = result.flat_range_product(function)
    return result


def to_pieces(function: isl.Map) -> list[tuple[isl.Set, Index]]:
    """Return where a single-valued relation has which value, as expressions in its named input dimensions.

    Raises:
        TransformError: if it is not single-valued.
    """
    if not function.is_single_valued():
        raise TransformError(f"an iteration needs several values at once: {function}")
    pieces: list[tuple[isl.Set, Index]] = []

    def add(where: isl.Set, value: isl.MultiAff) -> None:
        n_out = value.dim(isl.dim_type.out)
        pieces.append((where, tuple(aff_to_expr(value.get_aff(n)) for n in range(n_out))))

    isl.PwMultiAff.from_map(function.coalesce()).foreach_piece(add)
    return pieces


def fixed_values(points: isl.Set) -> dict[str, int]:
    """Return the dimensions of a set that have one constant value."""
    found = {}
    for n, name in enumerate(points.get_var_names_not_none(isl.dim_type.set)):
        low, high = points.dim_min_val(n), points.dim_max_val(n)
        if low.is_int() and high.is_int() and low.eq(high):
            found[name] = int(low.to_python())
    return found


@dataclass
class Editor:
    """Collects changes to a kernel; `finish` makes them all at once.

    Attributes:
        kernel: The kernel as it was.
    """

    kernel: lp.LoopKernel
    _domains: list[isl.BasicSet] = field(default_factory=list)
    _inames: list[str] = field(default_factory=list)
    _temporaries: dict[str, lp.TemporaryVariable] = field(default_factory=dict)
    _inserted: dict[str | None, list[lp.Assignment]] = field(default_factory=dict)
    _changed: dict[str, Any] = field(default_factory=dict)
    _extra_dependencies: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._new_name = self.kernel.get_var_name_generator()
        self._new_id = self.kernel.get_instruction_id_generator()

    def add_array(self, wish: str, like: str, images: Iterable[isl.Set]) -> NewArray:
        """Add a temporary that can be indexed by all points of some sets.

        Args:
            wish: Its name, if that is free.
            like: The variable whose type it gets.
            images: Sets of indices, of equal dimension; unnamed.
        """
        first, *rest = images
        for image in rest:
            first = first.union(image)
        low, extents = [], []
        for n in range(first.dim(isl.dim_type.set)):
            least = first.dim_min_val(n)
            if not least.is_int():
                least = static_min_of_pw_aff(first.dim_min(n), constants_only=True).get_constant_val()
            low.append(min(0, int(least.to_python())))
            most = aff_to_expr(static_max_of_pw_aff(first.dim_max(n), constants_only=False))
            extents.append(simplify_via_aff(most + 1 - low[-1]))
        name = self._new_name(wish)
        self._temporaries[name] = lp.TemporaryVariable(
            name,
            dtype=self.kernel.get_var_descriptor(like).dtype,
            shape=tuple(extents),
            address_space=lp.AddressSpace.PRIVATE,
        )
        return NewArray(name, tuple(-n for n in low))

    def change(self, instruction_id: str, **changes: Any) -> None:
        """Change an instruction."""
        self._changed[instruction_id] = self._instruction(instruction_id).copy(**changes)

    def _instruction(self, instruction_id: str) -> Any:
        return self._changed.get(instruction_id, self.kernel.id_to_insn[instruction_id])

    def map_instruction(self, instruction_id: str, mapper: Any) -> None:
        """Apply a mapper to all expressions of an instruction."""
        self._changed[instruction_id] = self._instruction(instruction_id).with_transformed_expressions(mapper)

    def insert(
        self,
        wish: str,
        target: Any,
        value: Any,
        within: Iterable[str],
        *,
        before: str | None = None,
        after: Collection[str] = (),
        users: Collection[str] = (),
    ) -> str:
        """Insert an assignment, and return its id.

        Args:
            wish: Its id, if that is free.
            target: Left-hand side.
            value: Right-hand side.
            within: Its loops.
            before: Id of an instruction of the kernel; at the end if None.
            after: Ids of instructions that it depends on.
            users: Ids of instructions that depend on it.
        """
        name = str(self._new_id(wish))
        self._inserted.setdefault(before, []).append(
            lp.Assignment(
                target,
                value,
                id=name,
                within_inames=frozenset(within),
                within_inames_is_final=True,
                depends_on=frozenset(after),
                depends_on_is_final=True,
            )
        )
        for user in users:
            self._extra_dependencies.setdefault(user, set()).add(name)
        return name

    def insert_copy(self, wish: str, points: isl.Set, target: Any, value: Any, **keywords: Any) -> str:
        """Insert an assignment for all points of a set, in new loops; keywords as in `insert`.

        Args:
            wish: Its id, if that is free.
            points: The points, of named dimensions; outer loops first.
            target: Left-hand side, in terms of these names.
            value: Right-hand side.
        """
        names = points.get_var_names_not_none(isl.dim_type.set)
        values: dict[str, Any] = dict(fixed_values(points))
        basic = to_basic(points.project_out_except([n for n in names if n not in values], [isl.dim_type.set]))
        within = []
        for n, name in enumerate(basic.get_var_names_not_none(isl.dim_type.set)):
            new = self._new_name(name)
            basic = basic.set_dim_name(isl.dim_type.set, n, new)
            values[name] = prim.Variable(new)
            within.append(new)
        if within:
            self._domains.append(basic)
            self._inames += within
        return self.insert(wish, substitute(target, values), substitute(value, values), within, **keywords)

    def finish(self, drop: Collection[str] = ()) -> lp.LoopKernel:
        """Return the changed kernel.

        Args:
            drop: Temporaries that are removed if nothing uses them any more.
        """
        instructions: list[Any] = []
        for instruction in self.kernel.instructions:
            instructions += self._inserted.get(instruction.id, [])
            extra = self._extra_dependencies.get(instruction.id, set())
            changed = self._instruction(instruction.id)
            instructions.append(changed.copy(depends_on=changed.depends_on | extra))
        instructions += self._inserted.get(None, [])
        used = {n for i in instructions for n in i.read_dependency_names() | i.write_dependency_names()}
        temporaries = {
            name: t for name, t in self.kernel.temporary_variables.items() if name not in drop or name in used
        }
        inames = {name: Iname(name, tags=frozenset()) for name in self._inames}
        return unlinearized(
            self.kernel,
            domains=[*self.kernel.domains, *self._domains],
            inames={**self.kernel.inames, **inames},
            instructions=instructions,
            temporary_variables={**temporaries, **self._temporaries},
        )


@dataclass(frozen=True)
class NewArray:
    """A temporary whose indices are shifted so that none is negative.

    Attributes:
        name: Its name.
        shift: What is added to each index.
    """

    name: str
    shift: tuple[int, ...]

    def at(self, index: Sequence[Any]) -> Any:
        """Return the element with an index."""
        if not index:
            return prim.Variable(self.name)
        entries = tuple(simplify_via_aff(entry + shift) for entry, shift in zip(index, self.shift, strict=True))
        return prim.Variable(self.name)[entries if len(entries) > 1 else entries[0]]


class ReferenceMapper(IdentityMapper[[]]):
    """Replaces references to variables.

    Args:
        replacements: New expressions by variable and subscript.
    """

    def __init__(self, replacements: Mapping[tuple[str, Index], Any]) -> None:
        super().__init__()
        self._replacements = replacements

    def map_variable(self, expr: Any) -> Any:
        """Replace a scalar."""
        return self._replacements.get((expr.name, ()), expr)

    def map_subscript(self, expr: Any) -> Any:
        """Replace an element, or what its index refers to."""
        found = self._replacements.get((expr.aggregate.name, expr.index_tuple))
        if found is not None:
            return found
        index = tuple(self.rec(entry) for entry in expr.index_tuple)
        return expr.aggregate[index if len(index) > 1 else index[0]]
