"""Forms assembled on a mesh: what the C++ loops of engine.cc are given, and what they give back."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp  # type: ignore[import-untyped]

from formcompiler.errors import InternalCompilerError, UnsupportedFormError
from formcompiler.progress import stage
from formcompiler.runtime.compiler import build_library
from formcompiler.runtime.first import Ranges, find_first_entries, find_ranges
from formcompiler.runtime.mesh import FloatArray, IntArray, Mesh
from formcompiler.runtime.rules import PointRules, RuleKey
from formcompiler.runtime.schedule import CACHED_BYTES, order_visits
from formcompiler.runtime.spaces import DofMap
from formcompiler.runtime.tasks import Indices, IndicesStructure, KernelHandle, Table, Task, make_table, pointer

KERNEL_TYPE = ctypes.c_void_p


class _Loop(ctypes.Structure):
    _fields_ = (
        ("kernel", KERNEL_TYPE),
        ("assigns", ctypes.c_int64),
        ("n_lanes", ctypes.c_int64),
        ("n_batches", ctypes.c_int64),
        ("counts", ctypes.c_void_p),
        ("n_sides", ctypes.c_int64),
        ("facets", ctypes.c_void_p),
        ("permutations", ctypes.c_void_p),
        ("nodes", ctypes.c_void_p),
        ("coordinates", IndicesStructure),
        ("n_coefficients", ctypes.c_int64),
        ("vectors", ctypes.c_void_p),
        ("coefficients", ctypes.c_void_p),
        ("constants", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("target", IndicesStructure),
        ("arguments", ctypes.c_void_p),
        ("n_points", ctypes.c_void_p),
        ("first_points", ctypes.c_void_p),
        ("n_directions", ctypes.c_int64),
        ("points", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
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


@dataclass(frozen=True, eq=False)
class _Inputs:
    """What one kernel reads besides vectors, as the engine is given it: the same in every assembly.

    Attributes:
        indices: Dofs of the kernel's coefficients; they own what the structures point to.
        structures: The same for the engine.
        constants: Addresses of the constants.
        arguments: Dofs of the arguments of a bilinear form.
    """

    indices: tuple[Indices, ...]
    structures: ctypes.Array[Any]
    constants: ctypes.Array[Any]
    arguments: ctypes.Array[Any]


class Operator:
    """A compiled form on a mesh.

    Args:
        kernels: The kernels of the form.
        mesh: The mesh.
        arguments: Dofs of the arguments, test function first.
        coefficients: Dofs of the form's coefficients.
        constants: Values of the form's constants.
        rules: Points and weights of the integrals that get them at run time, by type and subdomain of the integral.
    """

    def __init__(
        self,
        kernels: Sequence[KernelHandle],
        mesh: Mesh,
        *,
        arguments: Sequence[DofMap] = (),
        coefficients: Sequence[DofMap] = (),
        constants: Sequence[npt.ArrayLike] = (),
        rules: Mapping[RuleKey, PointRules] | None = None,
    ) -> None:
        self.mesh = mesh
        self.arguments = tuple(arguments)
        self.coefficients = tuple(coefficients)
        self.constants = tuple(np.ascontiguousarray(value, dtype=np.float64) for value in constants)
        self._tasks = [Task(kernel, mesh, rules) for kernel in kernels]

    @cached_property
    def _own(self) -> tuple[npt.NDArray[np.bool_], Ranges]:
        """Return the entries of a linear form that the first kernel writes, and the ranges of all other dofs."""
        dofmap = self.arguments[0]
        tasks = self._tasks
        own = np.zeros(dofmap.cell_dofs.shape[1], dtype=bool)
        is_zero = np.ones(dofmap.n_dofs, dtype=bool)
        if tasks and tasks[0].n_sides == 1:
            others = np.concatenate([task.entities.cells.ravel() for task in tasks])
            others = np.setdiff1d(others, tasks[0].entities.cells)
            first, counts = tasks[0].cells[:, :, 0], tasks[0].counts
            own = find_first_entries(dofmap.cell_dofs, dofmap.n_dofs, first, counts, others)
            is_zero[dofmap.cell_dofs[tasks[0].entities.cells[:, 0]][:, own]] = False
        return own, find_ranges(is_zero)

    @cached_property
    def _targets(self) -> list[Indices]:
        """Return where each kernel of a linear form adds."""
        dofmap = self.arguments[0]
        owns = [self._own[0], *(None for _ in self._tasks[1:])]
        return [
            task.indices(dofmap.cell_dofs, dofmap.groups, own=own, is_read=False)
            for task, own in zip(self._tasks, owns, strict=False)
        ]

    @stage("assemble numbers")
    def number(self, vectors: Sequence[FloatArray] = ()) -> float:
        """Return the integral of a form without arguments; ``vectors`` are the dofs of each coefficient."""
        result = ctypes.c_double(0.0)
        self._check_rank(0)
        for number, task in enumerate(self._tasks):
            loop, _keep = self._make_loop(number, vectors)
            _check_lanes(load_engine().fc_assemble_number(ctypes.byref(loop), ctypes.byref(result)), [task])
        return result.value

    @stage("assemble vectors")
    def vector(self, vectors: Sequence[FloatArray] = (), out: FloatArray | None = None) -> FloatArray:
        """Return the assembled linear form, shape (n_dofs of the test function,); out is overwritten if given."""
        self._check_rank(1)
        shape = (self.arguments[0].n_dofs,)
        if out is None:
            out = np.empty(shape)
        elif out.shape != shape or out.dtype != np.float64 or not out.flags.c_contiguous:
            raise InternalCompilerError(f"the result needs a contiguous array of {shape[0]} float64 numbers")
        if not self._tasks:
            out[...] = 0.0
            return out
        loops, _keep = zip(*(self._make_loop(n, vectors) for n in range(len(self._tasks))), strict=True)
        pointers = (ctypes.POINTER(_Loop) * len(loops))(*map(ctypes.pointer, loops))
        status = load_engine().fc_assemble_vector(pointers, len(loops), *self._order, pointer(out))
        _check_lanes(status, self._tasks)
        return out

    @cached_property
    def _order(self) -> list[Any]:
        """Return what the engine is given besides loops: in which order it visits them, and what it sets to zero."""
        return [x for table in (self._visits, self._own[1]) for x in (pointer(table), len(table))]

    @cached_property
    def _visits(self) -> IntArray:
        """Return the order in which batches are assembled into a vector."""
        width = self.arguments[0].cell_dofs.shape[1] * self._tasks[0].kernel.lanes if self._tasks else 1
        group = max(1, CACHED_BYTES // (8 * width))
        return order_visits([task.cells for task in self._tasks], self.mesh.n_cells, group)

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
        for number, task in enumerate(self._tasks):
            loop, _keep = self._make_loop(number, vectors)
            tables = [pointer(table) for table in (starts, columns, values, rows, cols)]
            n_lost = load_engine().fc_assemble_matrix(ctypes.byref(loop), *tables)
            _check_lanes(n_lost, [task])
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

    @cached_property
    def _inputs(self) -> list[_Inputs]:
        """Return what each kernel reads besides vectors."""
        return [self._find_inputs(task) for task in self._tasks]

    def _find_inputs(self, task: Task) -> _Inputs:
        coefficients = [self.coefficients[k] for k in task.kernel.coefficients]
        indices = [task.indices(dofmap.cell_dofs, dofmap.groups) for dofmap in coefficients]
        tables = [task.table(dofmap.cell_dofs) for dofmap in self.arguments] if len(self.arguments) == 2 else []
        constants = [self.constants[k] for k in task.kernel.constants]
        return _Inputs(
            tuple(indices),
            (IndicesStructure * len(indices))(*(one.structure for one in indices)),
            (ctypes.c_void_p * len(constants))(*map(pointer, constants)),
            (Table * len(tables))(*map(make_table, tables)),
        )

    @cached_property
    def _loops(self) -> list[_Loop]:
        """Return the description of each kernel's loop, without vectors."""
        loops = []
        for number, (task, inputs) in enumerate(zip(self._tasks, self._inputs, strict=True)):
            kernel = task.kernel
            loop = _Loop(
                kernel=kernel.address,
                assigns=kernel.assigns,
                n_lanes=kernel.lanes,
                n_batches=len(task.counts),
                counts=pointer(task.counts),
                n_sides=task.n_sides,
                facets=pointer(task.facets),
                permutations=pointer(task.permutations),
                nodes=pointer(self.mesh.coordinate_values),
                coordinates=task.coordinates.structure,
                n_coefficients=len(inputs.indices),
                coefficients=ctypes.cast(inputs.structures, ctypes.c_void_p),
                constants=ctypes.cast(inputs.constants, ctypes.c_void_p),
                rank=len(self.arguments),
                arguments=ctypes.cast(inputs.arguments, ctypes.c_void_p),
            )
            if len(self.arguments) == 1:
                loop.target = self._targets[number].structure
            if task.points is not None:
                loop.n_points, loop.first_points = pointer(task.points.counts), pointer(task.points.first)
                loop.n_directions = task.points.rules.points.shape[1]
                loop.points, loop.weights = pointer(task.points.rules.points), pointer(task.points.rules.weights)
            loops.append(loop)
        return loops

    def _make_loop(self, number: int, vectors: Sequence[FloatArray]) -> tuple[_Loop, list[Any]]:
        """Return the loop's description, and what must stay alive as long as it is used."""
        chosen = self._tasks[number].kernel.coefficients
        own = [np.ascontiguousarray(vectors[k], dtype=np.float64) for k in chosen]
        for k, vector in zip(chosen, own, strict=True):
            if vector.shape != (self.coefficients[k].n_dofs,):
                raise InternalCompilerError(
                    f"coefficient {k} has {vector.shape} dofs, not {self.coefficients[k].n_dofs}"
                )
        addresses = (ctypes.c_void_p * len(own))(*map(pointer, own))
        loop = _Loop.from_buffer_copy(self._loops[number])
        loop.vectors = ctypes.cast(addresses, ctypes.c_void_p)
        return loop, [own, addresses]


def _check_lanes(status: int, tasks: Sequence[Task]) -> None:
    if status < 0:
        lanes = ", ".join(str(task.kernel.lanes) for task in tasks)
        raise InternalCompilerError(f"the engine has no loop for batches of {lanes} cells")


def _incidence(dofmap: DofMap, cells: IntArray) -> sp.csr_matrix:
    """Return a matrix with an entry for each dof, a column, of each entity, a row."""
    dofs = dofmap.cell_dofs[cells].reshape(len(cells), cells.shape[1] * dofmap.cell_dofs.shape[1])
    starts = np.arange(0, dofs.size + 1, dofs.shape[1])
    return sp.csr_matrix((np.ones(dofs.size, dtype=np.int32), dofs.ravel(), starts), shape=(len(cells), dofmap.n_dofs))
