"""Values on a mesh: numbers, UFL expressions and functions of x, evaluated, interpolated, and given to forms."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from formcompiler.elements.cells import classify
from formcompiler.elements.layout import find_leaves, value_size
from formcompiler.elements.tables import Element
from formcompiler.errors import UnsupportedFormError
from formcompiler.frontend.errornorms import find_coefficients, find_constants, find_number
from formcompiler.problem import Dirichlet, Value, is_expression
from formcompiler.progress import stage
from formcompiler.runtime.assembly import Operator
from formcompiler.runtime.mesh import UNTAGGED, FloatArray, IntArray, Mesh
from formcompiler.runtime.spaces import DofMap, Evaluate, make_dofmap, physical_points
from formcompiler.runtime.tasks import KernelHandle


class CompiledForm(Protocol):
    """A form that the engine can assemble."""

    @property
    def kernels(self) -> Sequence[KernelHandle]:
        """Return the kernels."""


class CompiledExpression(Protocol):
    """An expression that the engine can evaluate at its points."""

    def tabulate_tensor(
        self, coordinates: FloatArray, *, coefficients: Mapping[Any, Any] | None, constants: Mapping[Any, Any] | None
    ) -> npt.NDArray[Any]:
        """Return the values on one cell, axes (point, component)."""


class FormCompiler(Protocol):
    """Compiles a form."""

    def __call__(self, form: Any, /, *, geometry: str) -> CompiledForm:
        """Return a form compiled for cells of which something is known: "general", "affine" or "axis_parallel"."""


@dataclass(frozen=True, eq=False)
class Compilers:
    """The functions that compile, with a memory: nothing is compiled twice.

    Attributes:
        compile_form: From a UFL form and ``geometry=``, what is known of the cells.
        compile_expression: From a UFL expression and reference points, axes (point, direction).
    """

    compile_form: FormCompiler
    compile_expression: Callable[[Any, FloatArray], CompiledExpression]
    _forms: dict[tuple[Any, str], CompiledForm] = field(default_factory=dict)
    _expressions: dict[Any, CompiledExpression] = field(default_factory=dict)

    def form(self, form: Any, geometry: str) -> CompiledForm:
        """Return a form compiled for cells of a kind."""
        key = (form, geometry)
        if key not in self._forms:
            self._forms[key] = self.compile_form(form, geometry=geometry)
        return self._forms[key]

    def build(self, forms: Sequence[Any], geometry: str) -> None:
        """Compile several forms; the C++ compiler works on all of them at the same time."""
        compiled = [self.form(form, geometry) for form in forms]
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            list(pool.map(lambda one: one.kernels, compiled))

    def expression(self, expression: Any, points: FloatArray) -> CompiledExpression:
        """Return an expression compiled for some points."""
        key = (expression, points.tobytes())
        if key not in self._expressions:
            self._expressions[key] = self.compile_expression(expression, points)
        return self._expressions[key]


class FunctionData:
    """The functions and constants of a problem on one mesh.

    Args:
        mesh: The mesh.
        compilers: Compile forms and expressions.
        constants: Value of each ``ufl.Constant``.
    """

    def __init__(self, mesh: Mesh, compilers: Compilers, constants: Mapping[Any, Any]) -> None:
        self.mesh = mesh
        self.geometry = classify(mesh.cell, mesh.points[mesh.cells])
        self.vectors: dict[Any, FloatArray] = {}
        self._compilers = compilers
        self._constants = {key: np.asarray(value, dtype=np.float64) for key, value in constants.items()}
        self._dofmaps: dict[Element, DofMap] = {}

    def dofmap(self, element: Element) -> DofMap:
        """Return the dofs of an element, numbered once."""
        if element not in self._dofmaps:
            self._dofmaps[element] = make_dofmap(element, self.mesh)
        return self._dofmaps[element]

    def operator(self, form: Any) -> Operator:
        """Return a form compiled and bound to this mesh."""
        arguments = sorted(form.arguments(), key=lambda argument: argument.number())
        return Operator(
            self._compilers.form(form, self.geometry).kernels,
            self.mesh,
            arguments=[self.dofmap(argument.ufl_element()) for argument in arguments],
            coefficients=[self.dofmap(coefficient.ufl_element()) for coefficient in form.coefficients()],
            constants=[self.constant(constant) for constant in form.constants()],
        )

    def constant(self, constant: Any) -> npt.NDArray[np.float64]:
        """Return the value of a constant.

        Raises:
            UnsupportedFormError: if it has none.
        """
        if constant not in self._constants:
            raise UnsupportedFormError(f"the constant {constant} has no value: set Problem(constants={{...}})")
        return self._constants[constant]

    def coefficient_vectors(self, form: Any) -> list[FloatArray]:
        """Return the dofs of each coefficient of a form."""
        return [self.vector(coefficient) for coefficient in form.coefficients()]

    def vector(self, coefficient: Any) -> FloatArray:
        """Return the dofs of a coefficient.

        Raises:
            UnsupportedFormError: if it has no value.
        """
        if coefficient not in self.vectors:
            raise UnsupportedFormError(
                f"the coefficient {coefficient} has no value (yet): set Problem(coefficients={{...}}); a value may "
                "use earlier coefficients only, and the unknown is known to none"
            )
        return self.vectors[coefficient]

    def interpolate(self, element: Element, value: Value) -> FloatArray:
        """Return the dofs of the interpolant of a value."""
        dofmap = self.dofmap(element)
        return dofmap.interpolate(self.evaluator(value, dofmap.value_size))

    def evaluator(self, value: Value, n_components: int) -> Evaluate:
        """Return what gives the values of a number, an expression, or a function of x on cells.

        Raises:
            UnsupportedFormError: if the number of components is another one.
        """
        if is_expression(value):
            number = find_number(value)
            if number is None:
                return lambda points, cells: self._evaluate(value, points, cells, n_components)
            value = number
        if callable(value):
            return lambda points, cells: _call(value, physical_points(self.mesh, points, cells), n_components)
        flat = np.asarray(value, dtype=np.float64).ravel()
        _check_components(value, flat.size, n_components)
        return lambda points, cells: np.broadcast_to(flat, (len(cells), len(points), n_components))

    def _evaluate(
        self, expression: Any, points: FloatArray, cells: npt.NDArray[np.integer], n_components: int
    ) -> FloatArray:
        _check_components(expression, int(np.prod(expression.ufl_shape)), n_components)
        compiled = self._compilers.expression(expression, points)
        functions = [
            (function, self.vector(function), self.dofmap(function.ufl_element()).cell_dofs)
            for function in find_coefficients(expression)
        ]
        constants = {constant: self.constant(constant) for constant in find_constants(expression)}
        values = np.zeros((len(cells), len(points), n_components))
        for row, cell in zip(values, cells, strict=True):
            dofs = {function: vector[cell_dofs[cell]] for function, vector, cell_dofs in functions}
            result = compiled.tabulate_tensor(self.mesh.coordinates[cell], coefficients=dofs, constants=constants)
            row[...] = np.asarray(result).reshape(row.shape)
        return values


def _check_components(value: Any, given: int, needed: int) -> None:
    if given != needed:
        raise UnsupportedFormError(f"the value {value} has {given} components where {needed} are needed")


def _call(function: Callable[[FloatArray], Any], points: FloatArray, n_components: int) -> FloatArray:
    """Return values of a function of x at points, axes (cell, point, direction)."""
    x = points.reshape(-1, points.shape[-1]).T
    try:
        result = np.broadcast_to(np.asarray(function(x), dtype=np.float64), (n_components, x.shape[1]))
    except (TypeError, ValueError, IndexError) as error:
        raise UnsupportedFormError(
            f"the value {function!r} must return {n_components} x {x.shape[1]} numbers (component, point) for x of "
            f"shape {x.shape} (direction, point): {error}"
        ) from error
    return np.asarray(result.T.reshape(*points.shape[:2], n_components))


def find_facets(condition: Dirichlet, mesh: Mesh) -> tuple[IntArray, IntArray]:
    """Return the cells and local facets on which a condition holds.

    Raises:
        UnsupportedFormError: if there are none.
    """
    chosen = np.zeros(mesh.facet_tags.shape, dtype=bool)
    boundary = mesh.boundary_facets
    if condition.tags is not None:
        chosen[...] = np.isin(mesh.facet_tags, condition.tags)
        present = np.setdiff1d(mesh.facet_tags, [UNTAGGED]).tolist()
        hint = f"the mesh has the facet tags {present}" if present else "the mesh has no facet tags"
    elif callable(condition.where):
        chosen[boundary.cells, boundary.local_facets] = _call_predicate(condition.where, mesh)
        hint = "the function of x is True for no whole facet of the boundary; compare with a tolerance (np.isclose)"
    else:
        chosen[boundary.cells, boundary.local_facets] = True
        hint = "the mesh has no boundary"
    if not chosen.any():
        raise UnsupportedFormError(f"Dirichlet(where={condition.where!r}) holds nowhere: {hint}")
    cells, local = np.nonzero(chosen)
    return cells.astype(np.int32), local.astype(np.int32)


def _call_predicate(where: Callable[[FloatArray], Any], mesh: Mesh) -> npt.NDArray[np.bool_]:
    """Return for each boundary facet whether all its vertices and its centre are in a set."""
    corners = mesh.points[mesh.facet_vertices(mesh.boundary_facets)]
    points = np.concatenate([corners, corners.mean(axis=1, keepdims=True)], axis=1)
    x = points.reshape(-1, mesh.gdim).T
    try:
        inside = np.broadcast_to(np.asarray(where(x), dtype=bool), x.shape[1:])
    except (TypeError, ValueError, IndexError) as error:
        raise UnsupportedFormError(
            f"Dirichlet(where={where!r}) must return {x.shape[1]} booleans for x of shape {x.shape} (direction, "
            f"point): {error}"
        ) from error
    return np.asarray(inside.reshape(points.shape[:2]).all(axis=1))


@stage("boundary values")
def find_fixed(
    conditions: Sequence[Dirichlet], dofmap: DofMap, data: FunctionData
) -> tuple[IntArray, npt.NDArray[np.float64]]:
    """Return the dofs that Dirichlet conditions fix, sorted, and their values.

    Raises:
        UnsupportedFormError: if a condition holds nowhere, does not fit its component, or the space has no dofs there.
    """
    values = np.zeros(dofmap.n_dofs)
    is_fixed = np.zeros(dofmap.n_dofs, dtype=bool)
    for condition in conditions:
        cells, local = find_facets(condition, dofmap.mesh)
        dofs = dofmap.facet_dofs(cells, local, condition.path)
        if not len(dofs):
            raise UnsupportedFormError(
                f"Dirichlet(where={condition.where!r}): the space has no dofs on facets (it is discontinuous); put the "
                "boundary value into the form instead (Nitsche's method)"
            )
        n_components = _n_components(dofmap.element, condition.path)
        evaluate = data.evaluator(condition.value, n_components)
        found = dofmap.interpolate(evaluate, condition.path, np.unique(cells))
        values[dofs] = found[dofs]
        is_fixed[dofs] = True
    fixed = np.flatnonzero(is_fixed)
    return fixed.astype(np.int32), values[fixed]


def _n_components(element: Element, path: tuple[int, ...]) -> int:
    leaves = find_leaves(element, path)
    return (
        value_size(element) if not path else 1 + max(c for leaf in leaves for block in leaf.components for c in block)
    )
