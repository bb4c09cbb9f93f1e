"""Forms assembled on a mesh: what the C++ loops of engine.cc are given, and what they give back."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp  # type: ignore[import-untyped]

from formcompiler.errors import InternalCompilerError, UnsupportedFormError
from formcompiler.progress import stage
from formcompiler.runtime.compiler import build_library
from formcompiler.runtime.mesh import ByteArray, FloatArray, IntArray, Mesh
from formcompiler.runtime.spaces import DofMap

KERNEL_TYPE = ctypes.c_void_p
SubdomainId = int | Literal["otherwise"]


class KernelHandle(Protocol):
    """One compiled kernel of a form: a C function with the signature ``Kernel`` of engine.cc."""

    @property
    def integral_type(self) -> str:
        """Return "cell", "exterior_facet" or "interior_facet"."""

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


@dataclass(frozen=True, eq=False)
class Entities:
    """The cells or facets that a kernel is called for; all arrays have the axes (entity, side)."""

    cells: IntArray
    facets: IntArray
    permutations: ByteArray


def select_entities(mesh: Mesh, integral_type: str, subdomain_ids: Iterable[SubdomainId]) -> Entities:
    """Return the entities of each subdomain after one another; those in two subdomains come twice.

    Raises:
        UnsupportedFormError: for integral types other than cell, exterior_facet and interior_facet.
    """
    if integral_type == "cell":
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
    chosen = [np.arange(len(tags)) if i == "otherwise" else np.flatnonzero(tags == i) for i in subdomain_ids]
    rows = np.concatenate([np.zeros(0, dtype=np.int64), *chosen])
    return Entities(*(np.ascontiguousarray(table[rows]) for table in (cells, facets, permutations)))


def make_batches(entities: Entities, lanes: int) -> IntArray:
    """Return the entities in batches of equal facet numbers and permutations, axes (batch, lane); -1 pads the last."""
    n = len(entities.cells)
    keys = np.hstack([entities.facets, entities.permutations])
    groups = np.unique(keys, axis=0, return_inverse=True)[1].ravel() if n else np.zeros(0, dtype=np.int64)
    batches = []
    for group in range(int(groups.max(initial=-1)) + 1):
        members = np.flatnonzero(groups == group)
        members = np.pad(members, (0, -len(members) % lanes), constant_values=-1)
        batches.append(members.reshape(-1, lanes))
    return np.concatenate([np.zeros((0, lanes), dtype=np.int32), *batches]).astype(np.int32)


class _Table(ctypes.Structure):
    _fields_ = (("numbers", ctypes.c_void_p), ("width", ctypes.c_int64))


class _Loop(ctypes.Structure):
    _fields_ = (
        ("kernel", KERNEL_TYPE),
        ("n_lanes", ctypes.c_int64),
        ("n_batches", ctypes.c_int64),
        ("counts", ctypes.c_void_p),
        ("n_sides", ctypes.c_int64),
        ("facets", ctypes.c_void_p),
        ("permutations", ctypes.c_void_p),
        ("points", ctypes.c_void_p),
        ("gdim", ctypes.c_int64),
        ("nodes", _Table),
        ("n_entries", ctypes.c_int64),
        ("entries", ctypes.c_void_p),
        ("n_coefficients", ctypes.c_int64),
        ("vectors", ctypes.c_void_p),
        ("coefficients", ctypes.c_void_p),
        ("constants", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("arguments", ctypes.c_void_p),
    )


@cache
def load_engine() -> ctypes.CDLL:
    """Return the library of assembly loops, compiled if this machine has not got it yet.

    Raises:
        BuildError: if there is no C++ compiler.
    """
    source = resources.files("formcompiler.runtime").joinpath("engine.cc").read_text(encoding="utf-8")
    library = ctypes.CDLL(str(build_library(source, name="engine", flags=["-O3"])))
    for function in (library.fc_assemble_number, library.fc_assemble_vector, library.fc_assemble_matrix):
        function.restype = ctypes.c_int64
    return library


class _Task:
    """One kernel with its entities in batches, and the tables that its loop reads."""

    def __init__(self, kernel: KernelHandle, mesh: Mesh) -> None:
        self.kernel = kernel
        self.entities = select_entities(mesh, kernel.integral_type, kernel.subdomain_ids)
        batches = make_batches(self.entities, kernel.lanes)
        self.counts = (batches >= 0).sum(axis=1, dtype=np.int32)
        padded = np.where(batches < 0, batches[:, :1], batches)
        self.facets = np.ascontiguousarray(self.entities.facets[padded[:, 0]])
        self.permutations = np.ascontiguousarray(self.entities.permutations[padded[:, 0]])
        self._cells = self.entities.cells[padded]
        n = self.n_sides * mesh.cells.shape[1] * mesh.gdim
        read = range(n) if kernel.coordinate_entries is None else kernel.coordinate_entries
        self.entries = np.array(read, dtype=np.int32)
        self._tables: dict[int, tuple[IntArray, IntArray]] = {}  # what is kept alive, so that its id stays its own

    @property
    def n_sides(self) -> int:
        """Return how many cells an entity has."""
        return int(self.entities.cells.shape[1])

    def table(self, cell_numbers: IntArray) -> IntArray:
        """Return numbers given per cell, axes (cell, entry), with the axes (batch, side and entry, lane)."""
        key = id(cell_numbers)
        if key not in self._tables:
            numbers = cell_numbers[self._cells]  # axes (batch, lane, side, entry)
            n_batches, lanes, sides, width = numbers.shape
            flat = numbers.reshape(n_batches, lanes, sides * width)
            self._tables[key] = cell_numbers, np.ascontiguousarray(flat.transpose(0, 2, 1), dtype=np.int32)
        return self._tables[key][1]


class Operator:
    """A compiled form on a mesh.

    Args:
        kernels: The kernels of the form.
        mesh: The mesh.
        arguments: Dofs of the arguments, test function first.
        coefficients: Dofs of the form's coefficients.
        constants: Values of the form's constants.
    """

    def __init__(
        self,
        kernels: Sequence[KernelHandle],
        mesh: Mesh,
        *,
        arguments: Sequence[DofMap] = (),
        coefficients: Sequence[DofMap] = (),
        constants: Sequence[npt.ArrayLike] = (),
    ) -> None:
        self.mesh = mesh
        self.arguments = tuple(arguments)
        self.coefficients = tuple(coefficients)
        self.constants = tuple(np.ascontiguousarray(value, dtype=np.float64) for value in constants)
        self._tasks = [_Task(kernel, mesh) for kernel in kernels]

    @stage("assemble numbers")
    def number(self, vectors: Sequence[FloatArray] = ()) -> float:
        """Return the integral of a form without arguments; ``vectors`` are the dofs of each coefficient."""
        result = ctypes.c_double(0.0)
        self._check_rank(0)
        for task in self._tasks:
            loop, _keep = self._make_loop(task, vectors)
            _check_lanes(load_engine().fc_assemble_number(ctypes.byref(loop), ctypes.byref(result)), task)
        return result.value

    @stage("assemble vectors")
    def vector(self, vectors: Sequence[FloatArray] = (), out: FloatArray | None = None) -> FloatArray:
        """Return the assembled linear form, shape (n_dofs of the test function,); out is overwritten if given."""
        self._check_rank(1)
        shape = (self.arguments[0].n_dofs,)
        if out is None:
            out = np.zeros(shape)
        elif out.shape != shape or out.dtype != np.float64 or not out.flags.c_contiguous:
            raise InternalCompilerError(f"the result needs a contiguous array of {shape[0]} float64 numbers")
        else:
            out.fill(0.0)
        for task in self._tasks:
            loop, _keep = self._make_loop(task, vectors)
            _check_lanes(load_engine().fc_assemble_vector(ctypes.byref(loop), _pointer(out)), task)
        return out

    @stage("assemble matrices")
    def matrix(self, vectors: Sequence[FloatArray] = (), constrained: npt.ArrayLike = ()) -> sp.csr_matrix:
        """Return the assembled bilinear form.

        Args:
            vectors: Dofs of each coefficient.
            constrained: Dofs whose rows and columns are those of the identity; both arguments must then share them.
        """
        self._check_rank(2)
        starts, columns = self._pattern
        values = np.zeros(len(columns))
        rows, cols = (np.zeros(dofmap.n_dofs, dtype=np.uint8) for dofmap in self.arguments)
        fixed = np.asarray(constrained, dtype=np.int64)
        rows[fixed] = cols[fixed] = 1
        for task in self._tasks:
            loop, _keep = self._make_loop(task, vectors)
            tables = [_pointer(table) for table in (starts, columns, values, rows, cols)]
            n_lost = load_engine().fc_assemble_matrix(ctypes.byref(loop), *tables)
            _check_lanes(n_lost, task)
            if n_lost:
                raise InternalCompilerError("an entry of the matrix has no place in its pattern")
        shape = tuple(dofmap.n_dofs for dofmap in self.arguments)
        matrix = sp.csr_matrix((values, columns, starts), shape=shape)
        if len(fixed):
            diagonal = matrix.diagonal()
            diagonal[fixed] = 1.0
            matrix.setdiag(diagonal)
        return matrix

    @cached_property
    def _pattern(self) -> tuple[IntArray, IntArray]:
        """Return row starts and sorted columns of all entries that the kernels can touch, and of the diagonal."""
        pattern = sp.csr_matrix(tuple(dofmap.n_dofs for dofmap in self.arguments), dtype=np.int32)
        if pattern.shape[0] == pattern.shape[1]:
            pattern = sp.identity(pattern.shape[0], dtype=np.int32, format="csr")
        for task in self._tasks:
            tests, trials = (_incidence(dofmap, task.entities.cells) for dofmap in self.arguments)
            pattern = pattern + tests.T @ trials
        pattern = pattern.tocsr()
        pattern.sort_indices()
        if pattern.nnz > np.iinfo(np.int32).max:
            raise UnsupportedFormError(f"a matrix of {pattern.nnz} entries is too large for 32-bit indices; coarsen")
        return pattern.indptr.astype(np.int32), pattern.indices.astype(np.int32)

    def _check_rank(self, rank: int) -> None:
        if len(self.arguments) != rank:
            raise InternalCompilerError(f"a form with {len(self.arguments)} arguments is assembled as one with {rank}")

    def _make_loop(self, task: _Task, vectors: Sequence[FloatArray]) -> tuple[_Loop, list[Any]]:
        """Return the loop's description, and what must stay alive as long as it is used."""
        kernel = task.kernel
        own = [np.ascontiguousarray(vectors[k], dtype=np.float64) for k in kernel.coefficients]
        constants = [self.constants[k] for k in kernel.constants]
        for k, vector in zip(kernel.coefficients, own, strict=True):
            if vector.shape != (self.coefficients[k].n_dofs,):
                raise InternalCompilerError(
                    f"coefficient {k} has {vector.shape} dofs, not {self.coefficients[k].n_dofs}"
                )
        arrays: list[ctypes.Array[Any]] = [
            (ctypes.c_void_p * len(own))(*map(_pointer, own)),
            (_Table * len(own))(*(_table(task.table(self.coefficients[k].cell_dofs)) for k in kernel.coefficients)),
            (ctypes.c_void_p * len(constants))(*map(_pointer, constants)),
            (_Table * len(self.arguments))(*(_table(task.table(dofmap.cell_dofs)) for dofmap in self.arguments)),
        ]
        pointers = [ctypes.cast(array, ctypes.c_void_p) for array in arrays]
        loop = _Loop(
            kernel=kernel.address,
            n_lanes=kernel.lanes,
            n_batches=len(task.counts),
            counts=_pointer(task.counts),
            n_sides=task.n_sides,
            facets=_pointer(task.facets),
            permutations=_pointer(task.permutations),
            points=_pointer(self.mesh.points),
            gdim=self.mesh.gdim,
            nodes=_table(task.table(self.mesh.cells)),
            n_entries=len(task.entries),
            entries=_pointer(task.entries),
            n_coefficients=len(own),
            vectors=pointers[0],
            coefficients=pointers[1],
            constants=pointers[2],
            rank=len(self.arguments),
            arguments=pointers[3],
        )
        return loop, [own, arrays]


def _check_lanes(status: int, task: _Task) -> None:
    if status < 0:
        raise InternalCompilerError(f"the engine has no loop for batches of {task.kernel.lanes} cells")


def _pointer(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _table(numbers: IntArray) -> _Table:
    return _Table(_pointer(numbers), numbers.shape[1])


def _incidence(dofmap: DofMap, cells: IntArray) -> sp.csr_matrix:
    """Return a matrix with an entry for each dof, a column, of each entity, a row."""
    dofs = dofmap.cell_dofs[cells].reshape(len(cells), -1)
    starts = np.arange(0, dofs.size + 1, dofs.shape[1])
    return sp.csr_matrix((np.ones(dofs.size, dtype=np.int32), dofs.ravel(), starts), shape=(len(cells), dofmap.n_dofs))
