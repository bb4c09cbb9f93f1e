"""What a kernel runs over: cells or facets in batches, and the numbers of their dofs as engine.cc reads them."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from formcompiler.errors import UnsupportedFormError
from formcompiler.frontend.integrals import IN_CELLS
from formcompiler.runtime.mesh import ByteArray, IntArray, Mesh
from formcompiler.runtime.rows import RowStarts, find_row_starts
from formcompiler.runtime.rules import PointRules, RuleKey, check_entities, find_rules
from formcompiler.runtime.runs import Groups, cut_runs, find_runs

Positions = tuple[tuple[int, int], ...]
"""Facet number and facet permutation on each side."""

SubdomainId = int | Literal["otherwise"]


class KernelHandle(Protocol):
    """One compiled kernel of a form: a C function with the signature ``Kernel`` of engine.cc."""

    @property
    def integral_type(self) -> str:
        """Return "cell", "cutcell", "interface", "exterior_facet" or "interior_facet"."""

    @property
    def subdomain_ids(self) -> tuple[SubdomainId, ...]:
        """Return the tags of the entities; "otherwise" stands for all entities, tagged or not."""

    @property
    def address(self) -> int:
        """Return the address of the C function."""

    @property
    def coefficients(self) -> tuple[int, ...]:
        """Return the positions of the kernel's coefficients among those of the form."""

    @property
    def constants(self) -> tuple[int, ...]:
        """Return the positions of the kernel's constants among those of the form."""

    @property
    def lanes(self) -> int:
        """Return how many entities one call takes."""

    @property
    def coordinate_entries(self) -> tuple[int, ...] | None:
        """Return the flat numbers of the coordinates, axes (side, node, direction), that it reads; None for all."""

    @property
    def is_runtime(self) -> bool:
        """Tell whether it needs points and weights."""

    @property
    def positions(self) -> tuple[Positions, ...] | None:
        """Return the positions of the facets that it is for; None for all."""

    @property
    def assigns(self) -> bool:
        """Tell whether it assigns its result instead of adding to it."""


@dataclass(frozen=True, eq=False)
class Entities:
    """The cells or facets that a kernel is called for; all arrays have the axes (entity, side)."""

    cells: IntArray
    facets: IntArray
    permutations: ByteArray

    def take(self, rows: npt.NDArray[np.int64]) -> Entities:
        """Return some of them."""
        return Entities(self.cells[rows], self.facets[rows], self.permutations[rows])

    def at(self, positions: Iterable[Positions] | None) -> Entities:
        """Return the facets at certain positions; all if they do not matter."""
        if positions is None:
            return self
        wanted = np.array([[number for position in one for number in position] for one in positions])
        keys = self._position_columns()
        chosen = np.zeros(len(keys), dtype=bool)
        for key in wanted:
            chosen |= (keys == key).all(axis=1)
        return self.take(np.flatnonzero(chosen))

    def _position_columns(self) -> IntArray:
        """Return facet and permutation of each side, axes (entity, side and one of these two)."""
        both = np.stack([self.facets, self.permutations], axis=2)
        return both.reshape(len(both), 2 * both.shape[1])

    def count_positions(self) -> dict[Positions, int]:
        """Return how many facets there are at each position."""
        keys, extents = self.position_keys()
        counts = np.bincount(keys)
        numbers = np.stack(np.unravel_index(np.flatnonzero(counts), extents), axis=1)
        positions = numbers.reshape(len(numbers), len(extents) // 2, 2).tolist()
        found = (tuple((facet, permutation) for facet, permutation in one) for one in positions)
        return dict(zip(found, counts[counts > 0].tolist(), strict=True))

    def position_keys(self) -> tuple[npt.NDArray[np.unsignedinteger[Any]], tuple[int, ...]]:
        """Return one number for the position of each facet, and the extents of facet and permutation of each side."""
        columns = self._position_columns().T
        extents = tuple(int(column.max(initial=0)) + 1 for column in columns)
        kind = np.min_scalar_type(math.prod(extents))
        return np.ravel_multi_index(list(columns), extents).astype(kind), extents


def select_entities(mesh: Mesh, integral_type: str, subdomain_ids: Iterable[SubdomainId]) -> Entities:
    """Return the entities of each subdomain after one another; those in two subdomains come twice.

    Raises:
        UnsupportedFormError: for integral types that the engine has no loop for.
    """
    everything, tags = all_entities(mesh, integral_type)
    chosen = [np.arange(len(tags)) if i == "otherwise" else np.flatnonzero(tags == i) for i in subdomain_ids]
    return everything.take(np.concatenate([np.zeros(0, dtype=np.int64), *chosen]))


def all_entities(mesh: Mesh, integral_type: str) -> tuple[Entities, IntArray]:
    """Return all cells or facets of a kind, with their tags.

    Raises:
        UnsupportedFormError: for integral types that the engine has no loop for.
    """
    if integral_type in IN_CELLS:
        cells = np.arange(mesh.n_cells, dtype=np.int32)[:, None]
        tags, facets, permutations = mesh.cell_tags, np.zeros_like(cells), np.zeros(cells.shape, dtype=np.uint8)
    elif integral_type == "exterior_facet":
        boundary = mesh.boundary_facets
        cells, facets, tags = boundary.cells[:, None], boundary.local_facets[:, None], boundary.tags
        permutations = np.zeros(cells.shape, dtype=np.uint8)
    elif integral_type == "interior_facet":
        interior = mesh.interior_facets
        cells, facets, permutations = interior.cells, interior.local_facets, interior.permutations
        tags = interior.tags
    else:
        raise UnsupportedFormError(
            f"the embedded engine has no loop for integrals of type '{integral_type}'; use dx, ds or dS"
        )
    return Entities(cells, facets, permutations), tags


def make_batches(entities: Entities, lanes: int) -> IntArray:
    """Return the entities in batches of equal facet numbers and permutations, axes (batch, lane); -1 pads the last."""
    keys, _ = entities.position_keys()
    order = np.argsort(keys, kind="stable").astype(np.int32)  # short keys are sorted in linear time
    counts = np.bincount(keys)
    batches = [np.zeros((0, lanes), dtype=np.int32)]
    for members in np.split(order, np.cumsum(counts)[:-1]):
        padded = np.pad(members, (0, -len(members) % lanes), constant_values=-1)
        batches.append(padded.reshape(-1, lanes))
    return np.concatenate(batches)


class Table(ctypes.Structure):
    """The struct of this name in engine.cc."""

    _fields_ = (("numbers", ctypes.c_void_p), ("width", ctypes.c_int64))


class _Pieces(ctypes.Structure):
    _fields_ = (("begin", ctypes.c_void_p), ("n", ctypes.c_int64))


class IndicesStructure(ctypes.Structure):
    """The struct ``Indices`` of engine.cc."""

    _fields_ = (
        ("starts", ctypes.c_void_p),
        ("row_starts", ctypes.c_void_p),
        ("splits", ctypes.c_void_p),
        ("n_groups", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("entries", _Pieces),
        ("own_entries", _Pieces),
        ("blocks", _Pieces),
        ("singles", _Pieces),
        ("own_blocks", _Pieces),
        ("own_singles", _Pieces),
    )


@dataclass(frozen=True, eq=False)
class Indices:
    """What the engine needs to find numbers of dofs: see ``Indices`` in engine.cc.

    Attributes:
        starts: Number of the representative of each group, axes (batch, side and group, lane).
        rows: The batches whose lanes are in rows of cells.
        width: Entries of all sides.
        pieces: Entries of rows that are added, and that are written; of other batches, blocks and singles that are
            added, blocks and singles that are written. Those of rows come group by group.
    """

    starts: IntArray
    rows: RowStarts
    width: int
    pieces: tuple[IntArray, ...]

    @cached_property
    def structure(self) -> IndicesStructure:
        """Return what the engine is given."""
        pieces = [_Pieces(pointer(part), len(part)) for part in self.pieces]
        tables = (self.starts, self.rows.starts, self.rows.splits)
        return IndicesStructure(*map(pointer, tables), self.starts.shape[1], self.width, *pieces)


@dataclass(frozen=True, eq=False)
class BatchPoints:
    """Points and weights of each batch, which is one entity.

    Attributes:
        rules: All of them.
        first: Number of the first point of each batch.
        counts: Number of points of each batch.
    """

    rules: PointRules
    first: npt.NDArray[np.int64]
    counts: IntArray


class Task:
    """One kernel with its entities in batches, and the tables that its loop reads.

    Args:
        kernel: The kernel.
        mesh: The mesh.
        rules: Points and weights of kernels that get them at run time.

    Attributes:
        cells: Cells of the batches, axes (batch, lane, side).
        points: Those of this kernel, None if it knows its points.

    Raises:
        InvalidOptionError: if rules are missing or do not fit the mesh.
    """

    def __init__(self, kernel: KernelHandle, mesh: Mesh, rules: Mapping[RuleKey, PointRules] | None = None) -> None:
        self.kernel = kernel
        own = _own_rules(kernel, mesh, rules or {}) if kernel.is_runtime else None
        if own is None:
            self.entities = select_entities(mesh, kernel.integral_type, kernel.subdomain_ids).at(kernel.positions)
        else:
            self.entities = all_entities(mesh, kernel.integral_type)[0].take(own.entities)
        batches = make_batches(self.entities, kernel.lanes)
        self.points = None if own is None else _arrange_points(own, batches[:, 0])
        self.counts = (batches >= 0).sum(axis=1, dtype=np.int32)
        padded = np.where(batches < 0, batches[:, :1], batches)
        self.facets = np.ascontiguousarray(self.entities.facets[padded[:, 0]])
        self.permutations = np.ascontiguousarray(self.entities.permutations[padded[:, 0]])
        self.cells = self.entities.cells[padded]
        self._tables: dict[int, tuple[IntArray, IntArray]] = {}  # what is kept alive, so that its id stays its own
        self._starts: dict[int, tuple[Groups, IntArray, RowStarts]] = {}
        self.coordinates = self.indices(mesh.coordinate_numbers, mesh.coordinate_groups, kernel.coordinate_entries)

    @property
    def n_sides(self) -> int:
        """Return how many cells an entity has."""
        return int(self.entities.cells.shape[1])

    def table(self, cell_numbers: IntArray) -> IntArray:
        """Return numbers given per cell, axes (cell, entry), with the axes (batch, side and entry, lane)."""
        key = id(cell_numbers)
        if key not in self._tables:
            self._tables[key] = cell_numbers, self._arrange(cell_numbers)
        return self._tables[key][1]

    def indices(
        self,
        cell_numbers: IntArray,
        groups: Groups,
        entries: Sequence[int] | None = None,
        own: npt.NDArray[np.bool_] | None = None,
        is_read: bool = True,
    ) -> Indices:
        """Return the same numbers compressed.

        Args:
            cell_numbers: Axes (cell, entry).
            groups: Their groups.
            entries: Flat numbers of the entries that are needed, axes (side, entry); all if not given.
            own: Tells of each entry of a cell whether it is written and not added.
            is_read: Whether the vector is read, and not added to.
        """
        key = id(groups)
        if key not in self._starts:
            starts = self._arrange(cell_numbers[:, groups.representatives])
            lengths = np.tile(groups.lengths, self.n_sides)
            self._starts[key] = groups, starts, find_row_starts(starts, lengths, self.counts)
        n_groups, width = len(groups.representatives), cell_numbers.shape[1]
        own = np.zeros(width, dtype=bool) if own is None else own
        wanted = np.arange(self.n_sides * width) if entries is None else np.array(entries, dtype=np.int64)
        pieces: list[IntArray] = []
        in_rows: list[IntArray] = []
        for is_own in (False, True):
            runs = []
            for side in range(self.n_sides):
                here = wanted[wanted // width == side] - side * width
                found = find_runs(groups, here[own[here] == is_own])
                runs.append(found + np.array([side * n_groups, side * width, 0, 0], dtype=np.int32))
            may_overlap = is_own or is_read
            found = np.concatenate(runs)
            pieces += cut_runs(found, _block_size(self.kernel.lanes), may_overlap=may_overlap)
            singles = cut_runs(found, 1, may_overlap=False)[1]
            in_rows.append(singles[np.argsort(singles[:, 0], kind="stable")])
        return Indices(*self._starts[key][1:], self.n_sides * width, (*in_rows, *pieces))

    def _arrange(self, cell_numbers: IntArray) -> IntArray:
        numbers = cell_numbers[self.cells]  # axes (batch, lane, side, entry)
        n_batches, lanes, sides, width = numbers.shape
        flat = numbers.reshape(n_batches, lanes, sides * width)
        return np.ascontiguousarray(flat.transpose(0, 2, 1), dtype=np.int32)


def _own_rules(kernel: KernelHandle, mesh: Mesh, rules: Mapping[RuleKey, PointRules]) -> PointRules:
    """Return the checked rules of one kernel."""
    own = find_rules(rules, kernel.integral_type, kernel.subdomain_ids)
    is_inside = kernel.integral_type in IN_CELLS
    n_entities = len(all_entities(mesh, kernel.integral_type)[1])
    check_entities(own, n_entities, mesh.tdim if is_inside else mesh.tdim - 1, kernel.integral_type)
    return own


def _arrange_points(rules: PointRules, entities: IntArray) -> BatchPoints:
    """Return the points of entities in the order of their batches."""
    counts = np.diff(rules.offsets)
    return BatchPoints(rules, np.ascontiguousarray(rules.offsets[:-1][entities]), counts[entities].astype(np.int32))


def pointer(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    """Return the address of an array, which the caller keeps alive."""
    return ctypes.c_void_p(array.ctypes.data)


def make_table(numbers: IntArray) -> Table:
    """Return what the engine is given of numbers, axes (batch, entry, lane), which the caller keeps alive."""
    return Table(pointer(numbers), numbers.shape[1])


def _block_size(lanes: int) -> int:
    """Return how many entries the engine turns at once: 8 x 8 numbers fit the registers."""
    return lanes if lanes == 8 else 1
