"""Expands one variable, so that each of its elements is written once: which array, which index, what at the border."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import islpy as isl
import loopy as lp
import pymbolic.primitives as prim
from loopy.symbolic import set_to_cond_expr

from formcompiler.errors import TransformError
from formcompiler.loops.accesses import Access
from formcompiler.loops.dependence import Dependence
from formcompiler.loops.expansion import Editor, Index, NewArray, index_map, to_pieces
from formcompiler.loops.order import find_order

_IN, _OUT, _SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set


@dataclass
class _Home:
    """Where the values of one writing instruction live.

    Attributes:
        points: Its iterations.
        index: Index of the value in the new array, in terms of its loops.
        images: All indices that are in use, also those of guests: other writes, and initial values.
        array: The array, once it is known.
    """

    points: isl.Set
    index: Index
    images: list[isl.Set]
    array: NewArray | None = None


@dataclass
class _Initial:
    """Initial values that are guests in a new array: the elements concerned, and their new index."""

    elements: isl.Set
    index: Index
    host: str


@dataclass
class _Guest:
    """Another write whose values live in the host's array."""

    key: str
    index: Index
    image: isl.Set


@dataclass
class _Piece:
    """Where a read finds its value: in which write's array (empty: the variable itself), for which iterations."""

    key: str
    where: isl.Set
    index: Index


class VariableExpansion:
    """Expands one variable of a kernel.

    Args:
        kernel: The kernel.
        editor: Collects the new arrays and copies.
        accesses: All accesses to the variable, in program order; exact.
        dependences: All dependences on it.

    Attributes:
        targets: New left-hand sides by instruction.
        reads: New expressions of reads; those that stay are not here.
    """

    def __init__(
        self, kernel: lp.LoopKernel, editor: Editor, accesses: Sequence[Access], dependences: Sequence[Dependence]
    ) -> None:
        self._kernel = kernel
        self._editor = editor
        self._order = find_order(kernel)
        self._reads = [a for a in accesses if not a.is_write]
        self._writes = {a.key: a for a in accesses if a.is_write}
        self._output = [d for d in dependences if d.kind == "output"]
        self._true = [d for d in dependences if d.kind == "true"]
        self._name = accesses[0].variable
        self._homes = {key: self._make_home(a) for key, a in self._writes.items()}
        self._merged: dict[str, Index] = {}
        self._initial: list[_Initial] = []
        self._hosts = dict.fromkeys(self._writes, "")
        self.targets: dict[str, Any] = {}
        self.reads: list[tuple[Access, Any]] = []

    def expand(self) -> None:
        """Find the new arrays, and what becomes of reads and writes."""
        for access in self._reads:
            self._check_reads_one_element(access)
        for members in self._classes():
            self._try_to_merge(members)
        pieces = {access.key: self._find_pieces(access) for access in self._reads}
        for access in self._reads:
            self._cover(access, pieces[access.key])
        self._make_arrays()
        for key, access in self._writes.items():
            self.targets[access.instruction] = self._place(key)
        for access in self._reads:
            self._rewrite_read(access, pieces[access.key])
        self._copy_initial_values()
        if self._name in self._kernel.arg_dict:
            self._copy_final_values()

    def _make_arrays(self) -> None:
        count = 0
        for key, home in self._homes.items():
            if not self._hosts[key]:
                count += 1
                home.array = self._editor.add_array(f"{self._name}{count}", self._name, home.images)
        for key, host in self._hosts.items():
            if host:
                self._homes[key].array = self._homes[host].array

    def _place(self, key: str) -> Any:
        home = self._homes[key]
        assert home.array is not None
        return home.array.at(home.index)

    # --- what reads what

    def _points(self, access: Access) -> isl.Set:
        """Return the iterations in which an access happens, dimensions named as its loops."""
        points = access.relation.domain().reset_tuple_id()
        for n, iname in enumerate(self._order.loops[access.instruction]):
            points = points.set_dim_name(_SET, n, iname)
        return points

    def _check_reads_one_element(self, access: Access) -> None:
        if not access.relation.is_single_valued():
            raise TransformError(
                f"instruction {access.instruction} reads several elements of {self._name} at once, in a reduction; "
                "realize the reduction first (loopy.realize_reduction)"
            )

    def _sources(self, access: Access) -> dict[str, isl.Map]:
        """Return for each write that a read may see the relation from the read's iterations to the write's."""
        found: dict[str, isl.Map] = {}
        for dependence in self._true:
            if dependence.sink.key == access.key:
                relation = dependence.relation.reverse().reset_tuple_id(_IN).reset_tuple_id(_OUT)
                key = dependence.source.key
                found[key] = found[key].union(relation) if key in found else relation
        return found

    def _sees_initial(self, access: Access) -> isl.Set | None:
        """Return the iterations in which a read sees an initial value; None if there are none."""
        temporary = self._kernel.temporary_variables.get(self._name)
        if temporary is not None and temporary.initializer is None:
            return None
        points = self._points(access)
        for relation in self._sources(access).values():
            points = points.subtract(relation.domain())
        return None if points.is_empty() else points

    def _make_home(self, access: Access) -> _Home:
        """Return a new array's index: that of the variable, and loops until there is one element per iteration."""
        points = self._points(access)
        loops = self._order.loops[access.instruction]
        index = access.subscript
        for iname in ("", *loops):
            if iname:
                index = (*index, prim.Variable(iname))
            function = index_map(points, index)
            if function.is_injective():
                break
        for entry in [prim.Variable(i) for i in loops]:
            shorter = tuple(e for e in index[len(access.subscript) :] if e != entry)
            candidate = (*access.subscript, *shorter)
            if len(candidate) < len(index) and index_map(points, candidate).is_injective():
                index = candidate
        return _Home(points, index, [index_map(points, index).range()])

    # --- several sources of one read in one array

    def _classes(self) -> list[list[str]]:
        """Return groups of writes that some read cannot tell apart from one another, or from initial values."""
        parent = {key: key for key in self._writes}

        def root(key: str) -> str:
            return key if parent[key] == key else root(parent[key])

        mixed: set[str] = set()
        for access in self._reads:
            sources = list(self._sources(access))
            if len(sources) > 1 or (sources and self._sees_initial(access) is not None):
                mixed |= set(sources)
                for key in sources[1:]:
                    parent[root(key)] = root(sources[0])
        groups: dict[str, list[str]] = {}
        for key in self._writes:
            if key in mixed:
                groups.setdefault(root(key), []).append(key)
        return list(groups.values())

    def _try_to_merge(self, members: Sequence[str]) -> None:
        """Let the write with most loops host the others and the initial values, at the border of its array."""
        host = max(members, key=lambda key: len(self._order.loops[self._writes[key].instruction]))
        home = self._homes[host]
        extended: dict[str, Index] = {}
        values: dict[str, isl.Map] = {}
        for access in self._reads:
            sources = self._sources(access)
            initial = self._sees_initial(access)
            if not set(sources) & set(members) or (len(sources) == 1 and initial is None):
                continue
            if host not in sources:
                return
            pieces = to_pieces(sources[host].apply_range(index_map(home.points, home.index)))
            if len(pieces) != 1:
                return
            extended[access.key] = pieces[0][1]
            place = index_map(self._points(access), pieces[0][1])
            for key, relation in sources.items():
                if key != host:
                    _add(values, key, relation.reverse().apply_range(place))
            if initial is not None:
                element = access.relation.reset_tuple_id(_IN).reset_tuple_id(_OUT)
                _add(values, "", element.intersect_domain(initial).reverse().apply_range(place))
        guests = self._place_guests(home, values)
        if guests is None:
            return
        self._merged |= extended
        for guest in guests:
            home.images.append(guest.image)
            if guest.key:
                self._hosts[guest.key] = host
                self._homes[guest.key].index = guest.index
            else:
                self._initial.append(_Initial(self._named_elements(values[""].domain()), guest.index, host))

    def _place_guests(self, home: _Home, values: dict[str, isl.Map]) -> list[_Guest] | None:
        """Return an index for all iterations of other writes; None if they do not fit between the host's elements."""
        taken = home.images[0]
        guests = []
        for key, relation in values.items():
            points = self._homes[key].points if key else self._named_elements(relation.domain())
            relation = _name_inputs(relation, points)
            if not relation.is_single_valued():
                return None
            pieces = to_pieces(relation)
            if len(pieces) != 1:
                return None
            function = index_map(points, pieces[0][1])
            if not function.is_injective() or not function.range().is_disjoint(taken):
                return None
            taken = taken.union(function.range())
            guests.append(_Guest(key, pieces[0][1], function.range()))
        return guests

    def _named_elements(self, elements: isl.Set) -> isl.Set:
        """Return a set of the variable's elements, dimensions named after loops where the index is one."""
        subscripts = [a.subscript for a in (*self._writes.values(), *self._reads)]
        used: set[str] = set()
        for n in range(elements.dim(_SET)):
            names = [s[n].name for s in subscripts if isinstance(s[n], prim.Variable)]
            name = next((name for name in names if name not in used), f"e{n}")
            used.add(name)
            elements = elements.set_dim_name(_SET, n, name)
        return elements

    # --- what becomes of reads, and of values from before and for after

    def _find_pieces(self, access: Access) -> list[_Piece]:
        """Return where a read finds its value; the last piece also counts wherever no other does."""
        sources = self._sources(access)
        points = self._points(access)
        if access.key in self._merged:
            return [_Piece(next(iter(sources)), points, self._merged[access.key])]
        pieces = []
        for key, relation in sources.items():
            home = self._homes[key]
            function = _name_inputs(relation.apply_range(index_map(home.points, home.index)), points)
            pieces += [_Piece(key, where, index) for where, index in to_pieces(function)]
        initial = self._sees_initial(access)
        if initial is not None:
            pieces.append(_Piece("", initial, access.subscript))
        return pieces

    def _cover(self, access: Access, pieces: Sequence[_Piece]) -> None:
        """Let the array of the last piece be large enough for reads of values that were never written."""
        if not pieces or not pieces[-1].key:
            return
        points = self._points(access)
        for piece in pieces[:-1]:
            points = points.subtract(piece.where)
        host = self._hosts[pieces[-1].key] or pieces[-1].key
        self._homes[host].images.append(index_map(points, pieces[-1].index).range())

    def _rewrite_read(self, access: Access, pieces: Sequence[_Piece]) -> None:
        if not pieces or not any(piece.key for piece in pieces):
            return
        points = self._points(access)
        value = self._value(pieces[-1])
        for piece in reversed(pieces[:-1]):
            value = prim.If(set_to_cond_expr(piece.where.gist(points)), self._value(piece), value)
        self.reads.append((access, value))

    def _value(self, piece: _Piece) -> Any:
        array = self._homes[piece.key].array if piece.key else None
        return _element(self._name, piece.index) if array is None else array.at(piece.index)

    def _copy_initial_values(self) -> None:
        users = {a.instruction for a in (*self._writes.values(), *self._reads)}
        for initial in self._initial:
            array = self._homes[initial.host].array
            assert array is not None
            names = initial.elements.get_var_names_not_none(_SET)
            element = _element(self._name, tuple(map(prim.Variable, names)))
            for piece in initial.elements.coalesce().make_disjoint().get_basic_sets():
                self._editor.insert_copy(
                    f"{array.name}_first",
                    isl.Set.from_basic_set(piece),
                    array.at(initial.index),
                    element,
                    before=self._kernel.instructions[0].id,
                    users=users,
                )

    def _copy_final_values(self) -> None:
        """Write the values that nothing overwrites back to the argument."""
        everything = [i.id for i in self._kernel.instructions]
        for key, access in self._writes.items():
            last = self._homes[key].points
            for dependence in self._output:
                if dependence.source.key == key:
                    last = last.subtract(dependence.relation.domain().reset_tuple_id())
            for piece in last.coalesce().make_disjoint().get_basic_sets():
                points = isl.Set.from_basic_set(piece)
                if not points.is_empty():
                    target = _element(self._name, access.subscript)
                    self._editor.insert_copy(f"{self._name}_last", points, target, self._place(key), after=everything)


def _add(values: dict[str, isl.Map], key: str, relation: isl.Map) -> None:
    values[key] = values[key].union(relation) if key in values else relation


def _name_inputs(relation: isl.Map, points: isl.Set) -> isl.Map:
    for n, name in enumerate(points.get_var_names_not_none(_SET)):
        relation = relation.set_dim_name(_IN, n, name)
    return relation


def _element(name: str, index: Index) -> Any:
    if not index:
        return prim.Variable(name)
    return prim.Variable(name)[index if len(index) > 1 else index[0]]
