"""One compiled kernel: from an integral through a builder and the pipeline to C++."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import loopy as lp

from formcompiler.codegen.method import MethodCode, emit_method
from formcompiler.elements.cells import TENSOR_CELLS
from formcompiler.errors import VectorizationError
from formcompiler.frontend.facet_positions import at_positions, turn
from formcompiler.frontend.integrals import FacetPosition, FormIntegral
from formcompiler.kernel.flops import count_operations
from formcompiler.kernel.interface import integral_parameters
from formcompiler.kernel.overwrite import assign_instead_of_adding
from formcompiler.kernel.symmetry import has_symmetric_matrix
from formcompiler.kernel.turning import can_turn
from formcompiler.options import REAL_TYPE, Options
from formcompiler.pipeline import run_pipeline
from formcompiler.progress import stage
from formcompiler.quadloop.build import build_quadloop_kernel
from formcompiler.sumfact.build import build_sumfact_kernel
from formcompiler.sumfact.eligibility import find_obstacle, find_obstacle_to_halves

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Kernel:
    """One kernel in all its forms.

    Attributes:
        integral: What it computes.
        method: Its C++.
        t_unit: The linearized loopy kernel.
        factorized: Whether it is sum-factorized.
        reason: Why it is not, or "".
        operations: Floating-point operations of one call, for all its cells; without those at points that are given at
            run time.
        symmetric: Whether its matrices are symmetric, so that it computes one triangle.
        assigns: Whether it assigns its result instead of adding to it.
    """

    integral: FormIntegral
    method: MethodCode
    t_unit: lp.TranslationUnit
    factorized: bool
    reason: str
    operations: int
    symmetric: bool = False
    assigns: bool = False

    @property
    def operations_per_point(self) -> int:
        """Return the operations at each point that is given at run time; 0 if the points are known."""
        return count_operations(self.t_unit, 1) - self.operations if self.integral.is_runtime else 0


def describe_operations(kernel: Kernel) -> str:
    """Return the operations of one call as text, such as "120", or "40 + 25 n" for n points given at run time."""
    per_point = kernel.operations_per_point
    return f"{kernel.operations} + {per_point} n" if kernel.integral.is_runtime else str(kernel.operations)


StageObserver = Callable[[str, str, float, lp.TranslationUnit], None]
"""Called with the kernel's name, the stage, its seconds and its result."""


def compile_kernel(integral: FormIntegral, name: str, options: Options, observe: StageObserver | None = None) -> Kernel:
    """Return the kernel of one integral."""
    start = time.perf_counter()
    reason = _reason_against_factorization(integral, options)
    types = (options.scalar_type, REAL_TYPE[options.scalar_type])
    with stage("build"):
        seen = integral if reason else _turned(integral, options)
        if reason:
            built = build_quadloop_kernel(integral, name, *types, options.part)
        else:
            built = build_sumfact_kernel(seen, name, *types)

    def notify(stage_name: str, seconds: float, t_unit: lp.TranslationUnit) -> None:
        if observe is not None:
            observe(name, stage_name, seconds, t_unit)

    def build_in_halves() -> lp.TranslationUnit:
        _check_halves(integral, name, options, reason)
        return build_sumfact_kernel(seen, name, *types, in_halves=True)

    notify("build", time.perf_counter() - start, built)
    parameters = integral_parameters(integral, options.part)
    t_unit = run_pipeline(built, options, parameters, build_in_halves, notify)
    emitting = time.perf_counter()
    with stage("emit"):
        method = emit_method(t_unit, parameters, options.scalar_type)
    notify("emit", time.perf_counter() - emitting, t_unit)
    is_symmetric = options.part == "full" and has_symmetric_matrix(integral)
    kernel = Kernel(integral, method, t_unit, not reason, reason, count_operations(t_unit, 0), is_symmetric)
    _log_kernel(kernel, time.perf_counter() - start)
    return kernel


def _turned(integral: FormIntegral, options: Options) -> FormIntegral:
    """Return an integral that sees all facets in the same place, if its cells can be turned; else the integral."""
    is_over_facets = integral.integral_type in ("exterior_facet", "interior_facet")
    if not is_over_facets or integral.positions or not options.scalar_type.startswith("float"):
        return integral
    is_line = integral.cell == "interval" and integral.coordinate_element.degree == 1
    is_affine = options.geometry != "general" or is_line
    return turn(integral) if can_turn(integral, is_affine=is_affine) else integral


def _check_halves(integral: FormIntegral, name: str, options: Options, reason: str) -> None:
    """Check that the lanes of a kernel can be halves of all directions.

    Raises:
        VectorizationError: if they cannot.
    """
    obstacle = (
        f"it is not sum-factorized: {reason}" if reason else find_obstacle_to_halves(integral, options.scalar_type)
    )
    n_lanes = 2 ** TENSOR_CELLS.get(integral.cell, 0)
    if obstacle is None and options.vectorize == "halves" and options.lanes not in ("auto", str(n_lanes)):
        obstacle = f"a {integral.cell} has {n_lanes} of them, not lanes={options.lanes}"
    if obstacle is not None:
        raise VectorizationError(f"kernel {name} has no halves of all directions as lanes: {obstacle}; use in_cell")


def can_be_placed(kernel: Kernel, options: Options) -> bool:
    """Return whether there are kernels of an integral for facets in one position: `compile_placed_kernel`."""
    is_over_facets = kernel.integral.integral_type in ("exterior_facet", "interior_facet")
    return is_over_facets and kernel.factorized and options.scalar_type.startswith("float")


def compile_placed_kernel(
    kernel: Kernel, positions: Sequence[FacetPosition], name: str, options: Options
) -> Kernel | None:
    """Return a kernel for facets that all lie in the same place, one position for each side; None if it vanishes.

    It works on conforming meshes only, since it takes the tangents of a facet from one of its cells. It assigns its
    result if it meets each entry once.
    """
    with stage("place"):
        integral = at_positions(kernel.integral, positions)
    if not integral.integrands:
        return None
    adding = compile_kernel(integral, name, options)
    assigning = assign_instead_of_adding(adding.t_unit, "A")
    if assigning is None:
        return adding
    method = emit_method(assigning, adding.method.parameters, options.scalar_type)
    return replace(adding, t_unit=assigning, method=method, assigns=True)


def _reason_against_factorization(integral: FormIntegral, options: Options) -> str:
    """Return why the kernel gets plain loops, "" if it is sum-factorized; warn if that was asked for."""
    if options.sum_factorization == "off":
        return "sum_factorization=off"
    obstacle = find_obstacle(integral, options.part)
    if obstacle is not None and options.sum_factorization == "on" and integral.cell in TENSOR_CELLS:
        _log.warning("%s integral is not sum-factorized: %s", integral.integral_type, obstacle)
    return obstacle or ""


def _log_kernel(kernel: Kernel, seconds: float) -> None:
    rules = ", ".join(
        "points at run time" if i.rule.is_runtime else f"degree {i.rule.degree} ({i.rule.n_points} points)"
        for i in kernel.integral.integrands
    )
    _log.info(
        "%s: %s %s, %s, %s, %s flops, %.2f s",
        kernel.method.name,
        kernel.integral.integral_type,
        ",".join(map(str, kernel.integral.subdomain_ids)),
        rules,
        "sum-factorized" if kernel.factorized else f"plain loops ({kernel.reason})",
        describe_operations(kernel),
        seconds,
    )
