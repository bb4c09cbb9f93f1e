"""Comparison of compiled kernels with dense assembly straight from the form, on random cells and values."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from formcompiler.compiled import CompiledForm, IntegralInfo
from formcompiler.errors import UnsupportedFormError, VerificationError
from formcompiler.frontend.integrals import FormIntegral
from formcompiler.options import REAL_TYPE
from formcompiler.reference import element_tensor
from formcompiler.reference.jets import Array
from formcompiler.reference.random_data import RANGES, Entity, random_entity, random_rule, random_values

_log = logging.getLogger(__name__)
_N_SAMPLES = 2
_FLOOR = 1e-2
"""Differences of tensors that vanish up to rounding are measured on this scale; cells and values are of size one."""

_STEP = 1e-7
"""Relative change of the data that tells how much a form magnifies rounding."""


class Verification(NamedTuple):
    """How far one kernel is from dense assembly.

    Attributes:
        integral: The kernel.
        difference: Largest difference of two entries over the largest entry; not a number if there is nothing to
            compare with: the form has no finite value on any random data, or moves the mesh.
    """

    integral: IntegralInfo
    difference: float


def tolerance(scalar_type: str) -> float:
    """Return the relative difference that rounding explains.

    A kernel adds some thousand products at most, in another order than dense assembly: 2000 units of the last place of
    the type. What the form itself magnifies is counted in the scale of the differences, not here.
    """
    return 2000.0 * float(np.finfo(REAL_TYPE[scalar_type]).eps)


def verify_form(form: Any, *, seed: int = 0, **options: Any) -> list[Verification]:
    """Compile a form and return how far each kernel is from dense assembly on random cells and values.

    Args:
        form: A ``ufl.Form``.
        seed: Number of the random data.
        **options: Compiler options by name.

    Raises:
        UnsupportedFormError: if the form is outside the language.
        InvalidOptionError: for an unknown option or value.
    """
    from formcompiler import compile_form

    return verify_compiled(compile_form(form, **options), seed)


def verify_compiled(compiled: CompiledForm, seed: int = 0) -> list[Verification]:
    """Return how far each kernel of a compiled form is from dense assembly."""
    result = []
    for kernel, info in zip(compiled.kernel_objects, compiled.integrals, strict=True):
        rng = np.random.default_rng([seed, zlib.crc32(kernel.method.name.encode())])
        try:
            differences = [_compare(compiled, kernel.integral, rng) for _ in range(_N_SAMPLES)]
        except UnsupportedFormError as reason:
            _log.warning("%s cannot be verified: %s", kernel.method.name, reason)
            differences = [float("nan")]
        result.append(Verification(info, float(np.max(differences))))
    return result


def describe(found: Verification, scalar_type: str, role: str) -> str:
    """Return one line on a kernel; role says what the kernel computes."""
    entities = f"{found.integral.integral_type.replace('_', ' ')} {','.join(map(str, found.integral.subdomain_ids))}"
    if np.isnan(found.difference):
        return f"not verified: {role}, {entities}: there is nothing to compare with"
    return (
        f"verified: {role}, {entities}: differs from dense assembly by {found.difference:.1e} "
        f"(rounding explains {tolerance(scalar_type):.1e})"
    )


def check_verified(found: Verification, scalar_type: str, role: str) -> None:
    """Check that rounding explains the difference of a kernel from dense assembly.

    Raises:
        VerificationError: if it does not; the message names the kernel and how far it is off.
    """
    if found.difference > tolerance(scalar_type):
        kind = found.integral.integral_type.replace("_", " ")
        raise VerificationError(
            f"{role}, {kind} {found.integral.subdomain_ids}: the kernel differs from dense assembly by "
            f"{found.difference:.1e}, more than the {tolerance(scalar_type):.1e} that rounding in {scalar_type} "
            "explains; please report it with the form file, or try --scalar-type float64 and --sum-factorization off"
        )


@dataclass(frozen=True, eq=False)
class _Sample:
    """Random data of one entity."""

    entity: Entity
    coefficients: Mapping[Any, Array]
    constants: Mapping[Any, Array]
    rule: tuple[Array, Array] | None = None

    def arguments(self) -> dict[str, Any]:
        """Return keyword arguments of kernels and dense assembly."""
        return {
            "coordinates": self.entity.coordinates,
            "coefficients": self.coefficients,
            "constants": self.constants,
            "local_facet": self.entity.local_facet,
            "facet_permutation": self.entity.facet_permutation,
            **({} if self.rule is None else {"points": self.rule[0], "weights": self.rule[1]}),
        }

    def disturbed(self, rng: np.random.Generator) -> _Sample:
        """Return data that differ a little."""

        def move(values: Array) -> Array:
            wide = np.asarray(values, np.result_type(values, np.float64))
            return np.asarray(wide * (1 + _STEP * rng.uniform(-1, 1, np.shape(values))))

        entity = Entity(move(self.entity.coordinates), self.entity.local_facet, self.entity.facet_permutation)
        return _Sample(
            entity,
            {f: move(v) for f, v in self.coefficients.items()},
            {c: move(v) for c, v in self.constants.items()},
            self.rule and (move(self.rule[0]), move(self.rule[1])),
        )


def _compare(compiled: CompiledForm, integral: FormIntegral, rng: np.random.Generator) -> float:
    """Return the relative difference on data for which the form is finite, NaN if there are none."""
    number = next((i for i in integral.subdomain_ids if i != "otherwise"), None)
    for limits in RANGES:
        sample = _draw(compiled, integral, rng, limits)
        wanted = _assemble(compiled, integral.integral_type, number, sample)
        if np.isfinite(wanted).all():
            actual = compiled.tabulate_tensor(integral.integral_type, number, **sample.arguments())
            difference = float(np.abs(actual - wanted).max(initial=0.0))
            return difference / _scale(compiled, integral.integral_type, number, sample, wanted, difference, rng)
    return float("nan")


def _draw(compiled: CompiledForm, integral: FormIntegral, rng: Any, limits: tuple[float, float]) -> _Sample:
    """Return random data in the precision of the kernel."""
    scalar, n_sides = compiled.options.scalar_type, integral.n_sides
    kind = compiled.options.geometry
    entity = random_entity(integral.coordinate_element, integral.integral_type, rng, integral.facet_cell, kind)
    coordinates = entity.coordinates.astype(REAL_TYPE[scalar]).astype(np.float64)
    sides = (2,) if n_sides == 2 else ()
    form = compiled.form
    return _Sample(
        Entity(coordinates, entity.local_facet, entity.facet_permutation),
        {
            f: random_values((*sides, f.ufl_function_space().ufl_element().dim), rng, limits, scalar)
            for f in form.coefficients()
        },
        {c: random_values(c.ufl_shape, rng, limits, scalar) for c in form.constants()},
        _draw_rule(compiled, integral, rng),
    )


def _draw_rule(compiled: CompiledForm, integral: FormIntegral, rng: Any) -> tuple[Array, Array] | None:
    """Return random points and weights if an integral that is compared with this one gets them at run time."""
    alike = [k.integral for k in compiled.kernel_objects if k.integral.integral_type == integral.integral_type]
    rule = next((i.integrands[0].rule for i in alike if i.is_runtime), None)
    if rule is None:
        return None
    return random_rule(rule.cell, rng, REAL_TYPE[compiled.options.scalar_type])


def _assemble(compiled: CompiledForm, integral_type: str, number: int | None, sample: _Sample) -> Array:
    options = compiled.options
    wide = "complex128" if options.scalar_type.startswith("complex") else "float64"
    result = element_tensor(
        compiled.form,
        integral_type,
        number,
        scalar_type=wide,
        max_quadrature_degree=options.max_quadrature_degree,
        **sample.arguments(),
    )
    return np.diag(result) if options.part == "diagonal" and result.ndim == 2 else result


def _scale(
    compiled: CompiledForm,
    integral_type: str,
    number: int | None,
    sample: _Sample,
    wanted: Array,
    difference: float,
    rng: np.random.Generator,
) -> float:
    """Return the size of the tensor, plus the size of what is lost in it if rounding alone does not explain all."""
    size = max(float(np.abs(wanted).max(initial=0.0)), _FLOOR)
    if difference <= tolerance(compiled.options.scalar_type) * size:
        return size
    moved = _assemble(compiled, integral_type, number, sample.disturbed(rng))
    growth = float(np.abs(moved - wanted).max(initial=0.0)) / _STEP
    return size + growth if np.isfinite(growth) else size
