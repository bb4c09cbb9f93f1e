"""Compiled forms and expressions as Python objects: one kernel on one cell, for tests and for assemblers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from formcompiler.codegen.library import library_source
from formcompiler.elements import cells
from formcompiler.errors import InternalCompilerError, InvalidOptionError
from formcompiler.frontend.analysis import AnalysedForm
from formcompiler.frontend.integrals import IN_CELLS, FacetPosition, FormIntegral, SubdomainId
from formcompiler.inputs import InputReader, Inputs
from formcompiler.kernel.accesses import find_entries
from formcompiler.kernel.interface import result_shape
from formcompiler.kernels import Kernel, can_be_placed, compile_placed_kernel
from formcompiler.options import REAL_TYPE, Options
from formcompiler.runtime.compiler import build_library

INTEGRAL_TYPES = (*IN_CELLS, "exterior_facet", "interior_facet", "vertex")


@dataclass(frozen=True)
class IntegralInfo:
    """What one kernel of a form integrates.

    Attributes:
        integral_type: "cell", "cutcell", "interface", "exterior_facet", "interior_facet" or "vertex".
        subdomain_ids: Ids that it applies to; "otherwise" means every entity, marked or not.
        degrees: Degree of each quadrature rule (-1 for given points).
        n_points: Number of points of each rule; 0 if it is known at run time only.
        factorized: Whether the kernel is sum-factorized.
        reason: Why it is not.
        flops: Floating-point operations of one call, without those at points that are given at run time.
        symmetric: Whether the matrices are symmetric by their form, so that the kernel computes one triangle.
        flops_per_point: Operations at each point that is given at run time.
    """

    integral_type: str
    subdomain_ids: tuple[SubdomainId, ...]
    degrees: tuple[int, ...]
    n_points: tuple[int, ...]
    factorized: bool
    reason: str
    flops: int
    symmetric: bool = False
    flops_per_point: int = 0

    @property
    def type(self) -> str:
        """Return the integral type."""
        return self.integral_type

    @property
    def ids(self) -> tuple[SubdomainId, ...]:
        """Return the subdomain ids."""
        return self.subdomain_ids

    @property
    def degree(self) -> int:
        """Return the largest degree of its rules."""
        return max(self.degrees)

    @property
    def points(self) -> int:
        """Return the number of points of all rules together."""
        return sum(self.n_points)


Positions = tuple[tuple[int, int], ...]
"""Position of one facet in the cell of each side: see `FacetPosition`."""


@dataclass(frozen=True)
class KernelHandle:
    """A kernel of the library, for an assembler.

    Attributes:
        integral_type: Kind of entity.
        subdomain_ids: Ids that it applies to; "otherwise" means every entity.
        address: Address of a C function ``void (T* A, const T* const* w, const T* const* c, const R* coordinates,
            const int* facet, const unsigned char* permutation, int n_points, const R* points, const R* weights)`` that
            adds to A.
        coefficients: Position in ``form.coefficients()`` of each entry of w.
        constants: Position in ``form.constants()`` of each entry of c.
        lanes: Number of cells that one call takes. If there are several, A, the entries of w and the coordinates have
            the lane as their last axis: axes (entry, lane). Constants, facet numbers and permutations are shared.
        coordinate_entries: Flat numbers of the coordinates, axes (side, node, direction), that the function reads;
            None if it may read any.
        is_runtime: Whether it needs points, axes (point, direction), and weights; others do not look at them.
        positions: Positions (see `FacetPosition`) of the facets that it is for, one for each side; None for all.
        assigns: Whether it assigns to A instead of adding.
        operations: Floating-point operations of one call.
        compile_at: Compiles handles for facets of conforming meshes at each of some positions; None if that cannot be.
    """

    integral_type: str
    subdomain_ids: tuple[SubdomainId, ...]
    address: int
    coefficients: tuple[int, ...]
    constants: tuple[int, ...]
    lanes: int = 1
    coordinate_entries: tuple[int, ...] | None = None
    is_runtime: bool = False
    positions: tuple[Positions, ...] | None = None
    assigns: bool = False
    operations: int = 0
    compile_at: Callable[[Sequence[Positions]], tuple[KernelHandle, ...]] | None = None


class _Library:
    """The shared library of some kernels."""

    def __init__(self, kernels: Sequence[Kernel], options: Options) -> None:
        self._options = options
        self.source = library_source([k.method for k in kernels], options.scalar_type, REAL_TYPE[options.scalar_type])

    @cached_property
    def _handle(self) -> ctypes.CDLL:
        return ctypes.CDLL(str(build_library(self.source, name="kernels")))

    def address(self, kernel: Kernel) -> int:
        """Return the address of the entry of a kernel."""
        function = self._handle[f"call_{kernel.method.name}"]
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def call(self, kernel: Kernel, result: npt.NDArray[Any], inputs: Inputs) -> None:
        """Add the kernel's tensor to the result; a kernel of several cells computes the same cell in all lanes."""
        lanes = kernel.method.lanes
        if lanes > 1:
            batch = np.zeros((result.size, lanes), result.dtype)
            self._call_entry(kernel, batch, inputs.replicate(lanes))
            if not (batch == batch[:, :1]).all() and not np.isnan(batch).any():
                raise InternalCompilerError(f"kernel {kernel.method.name}: the lanes of equal cells differ")
            result += batch[:, 0].reshape(result.shape)
        else:
            self._call_entry(kernel, result, inputs)

    def _call_entry(self, kernel: Kernel, result: npt.NDArray[Any], inputs: Inputs) -> None:
        pointer = ctypes.c_void_p
        prototype = ctypes.CFUNCTYPE(None, *[pointer] * 6, ctypes.c_int, pointer, pointer)
        w, c = (_pointers(arrays) for arrays in (inputs.coefficients, inputs.constants))
        prototype(self.address(kernel))(
            result.ctypes.data,
            ctypes.cast(w, ctypes.c_void_p),
            ctypes.cast(c, ctypes.c_void_p),
            inputs.coordinates.ctypes.data,
            inputs.facets.ctypes.data,
            inputs.permutations.ctypes.data,
            len(inputs.weights),
            inputs.points.ctypes.data,
            inputs.weights.ctypes.data,
        )


def _pointers(arrays: Sequence[npt.NDArray[Any]]) -> Any:
    return (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))


def _coordinate_entries(kernel: Kernel) -> tuple[int, ...] | None:
    """Return the flat numbers of the coordinates that a kernel reads; None if it may read any."""
    integral = kernel.integral
    n_nodes = integral.coordinate_element.dim // integral.gdim
    shape = (*((2,) if integral.n_sides == 2 else ()), n_nodes, integral.gdim)
    found = find_entries(kernel.t_unit, "coordinate_dofs", len(shape))
    return None if found is None else tuple(sorted(int(np.ravel_multi_index(entry, shape)) for entry in found))


def is_for_facets(integral: FormIntegral, facets: Sequence[int] | npt.NDArray[np.int32]) -> bool:
    """Tell whether a kernel is for facets of this kind: on prisms and pyramids there is one for each kind."""
    if not integral.facet_cell:
        return True
    return all(cells.facet_cells(integral.cell)[facet] == integral.facet_cell for facet in facets[: integral.n_sides])


class CompiledForm:
    """A form, compiled: facts about its integrals, its C++, and its element tensors.

    Attributes:
        integrals: One entry for each kernel.
        kernels_data: The kernels themselves.
        options: The options of the compilation.
    """

    def __init__(self, form: Any, analysed: AnalysedForm, kernels: Sequence[Kernel], options: Options) -> None:
        self.form = form
        self.analysed = analysed
        self.options = options
        self.kernel_objects = tuple(kernels)
        self._library = _Library(kernels, options)
        self._reader = InputReader(form.coefficients(), form.constants(), options)
        self.integrals = tuple(
            IntegralInfo(
                k.integral.integral_type,
                k.integral.subdomain_ids,
                tuple(i.rule.degree for i in k.integral.integrands),
                tuple(i.rule.n_points for i in k.integral.integrands),
                k.factorized,
                k.reason,
                k.operations,
                k.symmetric,
                k.operations_per_point,
            )
            for k in kernels
        )

    @property
    def source(self) -> str:
        """Return the C++ of all kernels."""
        return self._library.source

    @cached_property
    def kernels(self) -> tuple[KernelHandle, ...]:
        """Return the entries of the compiled library."""
        return tuple(self._handle(k, self._library) for k in self.kernel_objects)

    def _handle(self, kernel: Kernel, library: _Library) -> KernelHandle:
        integral = kernel.integral
        return KernelHandle(
            integral.integral_type,
            integral.subdomain_ids,
            library.address(kernel),
            tuple(c.position for c in integral.coefficients),
            tuple(c.position for c in integral.constants),
            kernel.method.lanes,
            _coordinate_entries(kernel),
            integral.is_runtime,
            (integral.positions,) if integral.positions else None,
            kernel.assigns,
            kernel.operations,
            partial(self._compile_at, kernel) if can_be_placed(kernel, self.options) else None,
        )

    def _compile_at(self, kernel: Kernel, wanted: Sequence[Positions]) -> tuple[KernelHandle, ...]:
        """Return handles for facets at some positions; there is none where the integrand vanishes."""
        names = [f"{kernel.method.name}_{'_'.join(str(n) for p in positions for n in p)}" for positions in wanted]
        places = [[FacetPosition(*position) for position in positions] for positions in wanted]
        placed = [compile_placed_kernel(kernel, p, n, self.options) for p, n in zip(places, names, strict=True)]
        kept = [k for k in placed if k is not None]
        library = _Library(kept, self.options)
        return tuple(self._handle(k, library) for k in kept)

    def tabulate_tensor(
        self,
        integral_type: str,
        subdomain_id: int | None,
        coordinates: Any,
        *,
        coefficients: Mapping[Any, Any] | None = None,
        constants: Mapping[Any, Any] | None = None,
        local_facet: Any = None,
        facet_permutation: Any = None,
        points: Any = None,
        weights: Any = None,
    ) -> npt.NDArray[Any]:
        """Return the element tensor of one entity, summed over all integrals of the type that apply to it.

        Args:
            integral_type: "cell", "cutcell", "interface", "exterior_facet", "interior_facet" or "vertex".
            subdomain_id: Id of the entity; None if it is unmarked.
            coordinates: Nodes of the cell, axes (node, direction), in the order of the coordinate element; both
                cells on interior facets, axes (side, node, direction).
            coefficients: Dofs of each ``ufl.Coefficient`` in basix order; both cells' on interior facets.
            constants: Value of each ``ufl.Constant``, row-major.
            local_facet: Local number of the facet (of the vertex for "vertex"); a pair on interior facets.
            facet_permutation: How the cell sees the facet, ``2 * rotations + reflections``; a pair.
            points: For integrals with quadrature_rule "runtime": reference coordinates, axes (point, direction), of
                the cell or the facet. They may lie outside of it, and there may be none.
            weights: One for each point, on the reference cell or facet: the kernel multiplies them by the factor by
                which the cell or facet is larger.

        Returns:
            One axis per argument, dofs in basix order, both cells' behind one another on interior facets; a scalar
            for rank 0.

        Raises:
            InvalidOptionError: for an unknown integral type, missing data, or data of the wrong size.
        """
        if integral_type not in INTEGRAL_TYPES:
            raise InvalidOptionError(f"integral_type={integral_type!r}: choose one of {', '.join(INTEGRAL_TYPES)}")
        sides = 2 if integral_type == "interior_facet" else 1
        shape = tuple(sides * e.dim for e in self.analysed.arguments)
        if self.options.part == "diagonal" and len(shape) == 2:
            shape = shape[:1]
        result = np.zeros(shape, dtype=self.options.scalar_type)
        for kernel in self.kernel_objects:
            ids = kernel.integral.subdomain_ids
            if kernel.integral.integral_type == integral_type and ("otherwise" in ids or subdomain_id in ids):
                inputs = self._reader.read(
                    kernel.integral,
                    coordinates,
                    coefficients,
                    constants,
                    local_facet,
                    facet_permutation,
                    (points, weights),
                )
                if is_for_facets(kernel.integral, inputs.facets):
                    self._library.call(kernel, result, inputs)
        return result[()] if shape == () else result


class CompiledExpression:
    """An expression at fixed reference points, compiled."""

    def __init__(self, coefficients: Sequence[Any], constants: Sequence[Any], kernel: Kernel, options: Options) -> None:
        self.kernel = kernel
        self.options = options
        self._library = _Library([kernel], options)
        self._reader = InputReader(coefficients, constants, options)

    @property
    def source(self) -> str:
        """Return the C++ of the kernel."""
        return self._library.source

    def tabulate_tensor(
        self,
        coordinates: Any,
        *,
        coefficients: Mapping[Any, Any] | None = None,
        constants: Mapping[Any, Any] | None = None,
        local_facet: Any = None,
        facet_permutation: Any = None,
    ) -> npt.NDArray[Any]:
        """Return the values, axes (point, component, dof of each argument); data as in `CompiledForm`.

        Coordinates that the values do not depend on are not looked at, and may be None.
        """
        result = np.zeros(result_shape(self.kernel.integral, "full"), dtype=self.options.scalar_type)
        integral = self.kernel.integral
        nodes = np.zeros(integral.coordinate_element.dim) if _coordinate_entries(self.kernel) == () else coordinates
        inputs = self._reader.read(integral, nodes, coefficients, constants, local_facet, facet_permutation)
        self._library.call(self.kernel, result, inputs)
        return result
