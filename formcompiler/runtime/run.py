"""Solves a problem on one or more meshes: discretize, iterate, measure errors, write files."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from formcompiler.elements.cells import dimension
from formcompiler.elements.layout import is_lagrange
from formcompiler.errors import UnsupportedFormError
from formcompiler.frontend.errornorms import ErrorForms, make_error_forms, make_jacobian
from formcompiler.problem import Box, Problem
from formcompiler.progress import stage
from formcompiler.runtime.functions import CompiledExpression, Compilers, FormCompiler, FunctionData, find_fixed
from formcompiler.runtime.mesh import FloatArray, IntArray, Mesh, box_mesh, check_cell, refine
from formcompiler.runtime.meshfile import read_mesh
from formcompiler.runtime.solve import NewtonResult, SolverOptions, solve_nonlinear
from formcompiler.runtime.spaces import DofMap, raise_degree
from formcompiler.runtime.tables import convergence_order, format_table
from formcompiler.runtime.terminal import Progress


@dataclass(frozen=True)
class FieldError:
    """Error norms of one part of the unknown; h1 contains the error of values and gradient."""

    name: str
    l2: float
    h1: float


@dataclass(frozen=True)
class Row:
    """What is known about the solution on one mesh.

    Attributes:
        h: Largest distance of two vertices of one cell.
        n_cells: Number of cells.
        n_dofs: Number of unknowns, fixed ones included.
        n_iterations: Steps of Newton's method.
        seconds: Time to assemble and solve, without compilation.
        errors: Error norms of each part of the unknown; () if there is no exact solution.
    """

    h: float
    n_cells: int
    n_dofs: int
    n_iterations: int
    seconds: float
    errors: tuple[FieldError, ...]


@dataclass(frozen=True, eq=False)
class RunResult:
    """A solved problem.

    Attributes:
        title: Title of the problem.
        rows: One per mesh, from coarse to fine.
        dofmap: Dofs of the unknown on the finest mesh.
        solution: Their values.
        files: What was written.
    """

    title: str
    rows: tuple[Row, ...]
    dofmap: DofMap
    solution: FloatArray
    files: tuple[Path, ...]

    @property
    def mesh(self) -> Mesh:
        """Return the finest mesh."""
        return self.dofmap.mesh

    @property
    def table(self) -> str:
        """Return the rows as text, with errors and orders of convergence."""
        header = ["h", "cells", "dofs", "steps", "seconds"]
        for error in self.rows[0].errors:
            suffix = f"({error.name})" if error.name else ""
            header += [f"L2{suffix}", "order", f"H1{suffix}", "order"]
        return format_table(header, [self._format_row(number) for number in range(len(self.rows))])

    def _format_row(self, number: int) -> list[str]:
        row = self.rows[number]
        cells = [f"{row.h:.3e}", str(row.n_cells), str(row.n_dofs), str(row.n_iterations), f"{row.seconds:.2f}"]
        for part, error in enumerate(row.errors):
            for norm in ("l2", "h1"):
                order = self.order(number, part, norm)
                cells += [f"{getattr(error, norm):.3e}", "-" if order is None else f"{order:.2f}"]
        return cells

    def order(self, row: int, part: int = 0, norm: str = "l2") -> float | None:
        """Return the order of convergence from the row before; None for the first.

        Args:
            row: Number of the row; may be negative.
            part: Number of the part of the unknown that has an exact solution.
            norm: "l2" or "h1".
        """
        errors = [getattr(r.errors[part], norm) for r in self.rows]
        return convergence_order(errors, [r.h for r in self.rows], row % len(self.rows))


def run_problem(
    problem: Problem,
    compile_form: FormCompiler,
    compile_expression: Callable[[Any, FloatArray], CompiledExpression],
    *,
    refine: int = 0,
    output_dir: str | Path | None = None,
    name: str = "u",
    unknown: str = "u",
    solver: SolverOptions | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Solve a problem, on ``refine`` uniformly refined meshes as well, and write the finest solution.

    Args:
        problem: What to solve.
        compile_form: Compiles a UFL form for cells of which ``geometry=`` is known.
        compile_expression: Compiles a UFL expression for reference points, axes (point, direction).
        refine: Number of refinements.
        output_dir: Where to write ``name.vtu`` and ``name.png``; nothing is written if not given.
        name: Name of the files.
        unknown: Name of the unknown in files and pictures.
        solver: How to solve.
        progress: Where to show progress; the standard error, if that is a terminal, if not given.

    Raises:
        UnsupportedFormError: if the problem does not fit together or the engine.
        SolverError: if it cannot be solved.
    """
    shown = progress or Progress()
    try:
        compilers = Compilers(compile_form, compile_expression)
        task = _prepare(problem, solver or SolverOptions(), shown)
        rows = []
        mesh = None
        for level in range(refine + 1):
            mesh = _next_mesh(problem, mesh, level)
            data = FunctionData(mesh, compilers, problem.constants)
            _compile(task, compilers, data.geometry)
            row, dofmap, solution = _solve_level(task, data)
            rows.append(row)
        shown.show("writing files ...")
        files = () if output_dir is None else _write(dofmap, solution, Path(output_dir) / name, unknown, problem.title)
    finally:
        shown.clear()
    return RunResult(problem.title, tuple(rows), dofmap, solution, files)


@dataclass(frozen=True, eq=False)
class _Task:
    """A problem with the forms that follow from it, and how to solve it."""

    problem: Problem
    jacobian: Any
    errors: tuple[ErrorForms, ...]
    solver: SolverOptions
    progress: Progress


def _prepare(problem: Problem, solver: SolverOptions, progress: Progress) -> _Task:
    """Derive all forms."""
    jacobian = problem.jacobian
    if jacobian is None:
        jacobian = make_jacobian(problem.residual, problem.unknown)
    errors: tuple[ErrorForms, ...] = ()
    if problem.exact is not None:
        element = problem.unknown.ufl_element()
        errors = make_error_forms(problem.unknown, problem.exact, 2 * _degree(element) + 3)
    return _Task(problem, jacobian, errors, solver, progress)


@stage("compile")
def _compile(task: _Task, compilers: Compilers, geometry: str) -> None:
    """Compile all forms for cells of a kind."""
    task.progress.show("compiling the residual, the Jacobian, and error norms ...")
    norms = [form for error in task.errors for form in (error.l2, error.h1)]
    compilers.build([task.problem.residual, task.jacobian, *norms], geometry)


def _degree(element: Any) -> int:
    if element.is_mixed or element.block_size > 1:
        return max(_degree(sub_element) for sub_element in element.sub_elements)
    return int(element.embedded_subdegree)


@stage("mesh")
def _next_mesh(problem: Problem, previous: Mesh | None, level: int) -> Mesh:
    """Return the first mesh of a problem, or the one after another."""
    domain = problem.unknown.ufl_function_space().ufl_domain()
    geometry = domain.ufl_coordinate_element()
    cell, gdim = geometry.cell.cellname, geometry.block_size
    if isinstance(problem.mesh, Box):
        n, lower, upper = problem.mesh.resolve(gdim)
        _check_dimensions(cell, gdim)
        mesh = box_mesh(cell, [k * 2**level for k in n], lower, upper)
    else:
        mesh = read_mesh(problem.mesh, gdim) if previous is None else refine(previous)
    if (mesh.cell, mesh.gdim) != (cell, gdim):
        raise UnsupportedFormError(
            f"the form lives on {cell} cells in {gdim}D, the mesh '{problem.mesh}' has {mesh.cell} cells in "
            f"{mesh.gdim}D: change the coordinate element of ufl.Mesh, or the mesh"
        )
    if not is_lagrange(geometry, geometry.degree):
        raise UnsupportedFormError(f"the coordinate element {geometry} of the domain must be continuous Lagrange")
    return raise_degree(mesh, geometry.sub_elements[0])


def _check_dimensions(cell: str, gdim: int) -> None:
    check_cell(cell)
    needed = dimension(cell)
    if gdim != needed:
        raise UnsupportedFormError(
            f"a Box of {cell} cells has {needed} dimensions, the form has {gdim}: use a mesh file"
        )


def _solve_level(task: _Task, data: FunctionData) -> tuple[Row, DofMap, FloatArray]:
    """Solve on one mesh."""
    problem, unknown = task.problem, task.problem.unknown
    dofmap = data.dofmap(unknown.ufl_element())
    task.progress.show(f"{_describe(data, dofmap)}: setting up ...")
    for coefficient, value in problem.coefficients.items():
        data.vectors[coefficient] = data.interpolate(coefficient.ufl_element(), value)
    fixed, values = find_fixed(problem.conditions, dofmap, data)
    if problem.initial is None:
        start = np.zeros(dofmap.n_dofs)
    else:
        start = data.interpolate(unknown.ufl_element(), problem.initial)
    start[fixed] = values
    begin = time.perf_counter()
    result = _iterate(task, data, start, fixed)
    seconds = time.perf_counter() - begin
    data.vectors[unknown] = result.solution
    errors = tuple(_measure(error, data) for error in task.errors)
    row = Row(data.mesh.h, data.mesh.n_cells, dofmap.n_dofs, result.n_iterations, seconds, errors)
    return row, dofmap, result.solution


def _describe(data: FunctionData, dofmap: DofMap) -> str:
    return f"{data.mesh.n_cells} cells, {dofmap.n_dofs} dofs"


def _iterate(task: _Task, data: FunctionData, start: FloatArray, fixed: IntArray) -> NewtonResult:
    problem = task.problem
    where = _describe(data, data.dofmap(problem.unknown.ufl_element()))

    def show(text: str) -> None:
        task.progress.show(f"{where}: {text}")

    residual, jacobian = data.operator(problem.residual), data.operator(task.jacobian)

    def evaluate(x: FloatArray) -> FloatArray:
        data.vectors[problem.unknown] = x
        return residual.vector(data.coefficient_vectors(problem.residual))

    def linearize(x: FloatArray) -> Any:
        data.vectors[problem.unknown] = x
        show("assembling the matrix ...")
        matrix = jacobian.matrix(data.coefficient_vectors(task.jacobian), fixed)
        show("solving the linear system ...")
        return matrix

    return solve_nonlinear(
        evaluate,
        linearize,
        start,
        fixed=fixed,
        options=task.solver,
        observe=lambda step, norm: show(f"step {step}, residual {norm:.1e}"),
    )


@stage("errors")
def _measure(error: ErrorForms, data: FunctionData) -> FieldError:
    l2, gradient = (data.operator(form).number(data.coefficient_vectors(form)) for form in (error.l2, error.h1))
    return FieldError(error.name, max(l2, 0.0) ** 0.5, max(l2 + gradient, 0.0) ** 0.5)


@stage("files")
def _write(dofmap: DofMap, solution: FloatArray, path: Path, unknown: str, title: str) -> tuple[Path, ...]:
    from formcompiler.runtime.output import write_png, write_vtu  # matplotlib takes a second to load

    path.parent.mkdir(parents=True, exist_ok=True)
    vtu, png = path.with_name(f"{path.name}.vtu"), path.with_name(f"{path.name}.png")
    write_vtu(vtu, dofmap, solution, unknown)
    write_png(png, dofmap, solution, name=unknown, title=title)
    return vtu, png
