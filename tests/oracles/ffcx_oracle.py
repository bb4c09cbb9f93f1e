"""Element tensors and expression values from kernels that FFCx generates and the C compiler builds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import basix
import ffcx.codegeneration.jit
import numpy as np
import numpy.typing as npt
from ufl.algorithms.analysis import extract_arguments, extract_coefficients, extract_constants

CACHE = Path(tempfile.gettempdir()) / f"ffcx-oracle-{os.getuid()}"
"""Built kernels stay here, for each user, between test runs."""

C_FLAGS = ["-O0", "-w"]
INTEGRAL_TYPES = ("cell", "exterior_facet", "interior_facet", "vertex", "ridge")
REAL_OF = {"float32": "float32", "float64": "float64", "complex64": "float32", "complex128": "float64"}
C_NAMES = {"float32": "float", "float64": "double", "complex64": "float _Complex", "complex128": "double _Complex"}

Kernel = tuple[Any, Any]
"""The object of the C interface, and the module that it lives in."""

_forms: dict[tuple[int, str], tuple[Kernel, Any]] = {}
_expressions: dict[tuple[int, bytes, str], tuple[Kernel, Any]] = {}


def _build(build: Any, items: list[Any], options: Mapping[str, Any]) -> list[Kernel]:
    objects, module, _ = build(
        items, options=dict(options), cache_dir=CACHE, cffi_extra_compile_args=C_FLAGS, timeout=120
    )
    return [(item, module) for item in objects]


def compile_forms(forms: Sequence[Any], **options: Any) -> None:
    """Build the kernels of many forms at once, which is faster than one by one.

    Args:
        forms: UFL forms.
        options: FFCx's options, such as scalar_type.
    """
    kernels = _build(ffcx.codegeneration.jit.compile_forms, list(forms), options)
    for form, kernel in zip(forms, kernels, strict=True):
        _forms[id(form), repr(sorted(options.items()))] = (kernel, form)


def compile_form(form: Any, **options: Any) -> Kernel:
    """Return the kernels of a form, built at the first call."""
    key = (id(form), repr(sorted(options.items())))
    if key not in _forms:
        compile_forms([form], **options)
    return _forms[key][0]


def compile_expression(expression: Any, points: npt.NDArray[np.float64], **options: Any) -> Kernel:
    """Return the kernel of an expression at points, built at the first call."""
    key = (id(expression), points.tobytes(), repr(sorted(options.items())))
    if key not in _expressions:
        (kernel,) = _build(ffcx.codegeneration.jit.compile_expressions, [(expression, points)], options)
        _expressions[key] = (kernel, expression)
    return _expressions[key][0]


def element_tensor(
    form: Any,
    integral_type: str = "cell",
    subdomain_id: int | None = None,
    coordinates: npt.ArrayLike = (),
    *,
    coefficients: Mapping[Any, Any] | None = None,
    constants: Mapping[Any, Any] | None = None,
    local_facet: int | Iterable[int] | None = None,
    facet_permutation: int | Iterable[int] | None = None,
    scalar_type: str = "float64",
    **options: Any,
) -> npt.NDArray[Any]:
    """Return the element tensor of a form; the contract is that of `formcompiler.reference.element_tensor`."""
    compiled, module = compile_form(form, scalar_type=scalar_type, **options)
    n_sides = 2 if integral_type == "interior_facet" else 1
    shape = tuple(n_sides * argument.ufl_function_space().ufl_element().dim for argument in form.arguments())
    if options.get("part") == "diagonal":
        shape = shape[:1]
    result = np.zeros(shape, dtype=scalar_type)
    positions = [compiled.original_coefficient_positions[i] for i in range(compiled.num_coefficients)]
    used = [form.coefficients()[position] for position in positions]
    facets = _index_array(local_facet, "intc")
    buffers = [
        _pack([(coefficients or {}).get(f, _unknown(f, n_sides)) for f in used], scalar_type),
        _pack([(constants or {})[c] for c in form.constants()], scalar_type),
        _pad_to_space(coordinates, REAL_OF[scalar_type]),
        facets,
        _index_array(facet_permutation, "uint8"),
    ]
    for integral in _applicable(form, compiled, integral_type, subdomain_id, int(facets[0])):
        _call(module, getattr(integral, f"tabulate_tensor_{scalar_type}"), result, buffers, scalar_type)
    return result


def expression_values(
    expression: Any,
    points: npt.ArrayLike,
    coordinates: npt.ArrayLike = (),
    *,
    coefficients: Mapping[Any, Any] | None = None,
    constants: Mapping[Any, Any] | None = None,
    local_facet: int | None = None,
    facet_permutation: int | None = None,
    scalar_type: str = "float64",
    **options: Any,
) -> npt.NDArray[Any]:
    """Return the values of an expression; the contract is that of `formcompiler.reference.expression_values`."""
    point_array = np.asarray(points, dtype=np.float64)
    compiled, module = compile_expression(expression, point_array, scalar_type=scalar_type, **options)
    known = extract_coefficients(expression)
    used = [known[compiled.original_coefficient_positions[i]] for i in range(compiled.num_coefficients)]
    dims = [argument.ufl_function_space().ufl_element().dim for argument in extract_arguments(expression)]
    result = np.zeros((len(point_array), int(np.prod(expression.ufl_shape, dtype=int)), *dims), dtype=scalar_type)
    buffers = [
        _pack([(coefficients or {})[f] for f in used], scalar_type),
        _pack([(constants or {})[c] for c in extract_constants(expression)], scalar_type),
        _pad_to_space(coordinates, REAL_OF[scalar_type]),
        _index_array(local_facet, "intc"),
        _index_array(facet_permutation, "uint8"),
    ]
    _call(module, getattr(compiled, f"tabulate_tensor_{scalar_type}"), result, buffers, scalar_type)
    return result


def _applicable(form: Any, compiled: Any, integral_type: str, subdomain_id: int | None, facet: int) -> list[Any]:
    """Return the integrals of a type that apply to an entity with an id and, for facets, to the shape of the facet."""
    number = INTEGRAL_TYPES.index(integral_type)
    ids = compiled.form_integral_ids
    chosen = [
        compiled.form_integrals[i]
        for i in range(compiled.form_integral_offsets[number], compiled.form_integral_offsets[number + 1])
        if ids[i] == -1 or (subdomain_id is not None and ids[i] == subdomain_id)
    ]
    cell = basix.CellType[form.ufl_domains()[0].ufl_cell().cellname]
    if cell.name in ("prism", "pyramid") and "facet" in integral_type:
        wanted = basix.cell.subentity_types(cell)[2][facet].value
        chosen = [integral for integral in chosen if integral.domain == wanted]
    return chosen


def _unknown(coefficient: Any, n_sides: int) -> npt.NDArray[np.float64]:
    """Return values that spoil the result if it depends on a coefficient that was not given."""
    return np.full(n_sides * coefficient.ufl_function_space().ufl_element().dim, np.nan)


def _pack(values: Sequence[Any], scalar_type: str) -> npt.NDArray[Any]:
    flat = [np.asarray(value, dtype=scalar_type).ravel() for value in values]
    return np.concatenate([*flat, np.zeros(1, dtype=scalar_type)])


def _pad_to_space(coordinates: npt.ArrayLike, real_type: str) -> npt.NDArray[Any]:
    """Return coordinates with three components each, the missing ones zero."""
    given = np.asarray(coordinates, dtype=real_type)
    result = np.zeros((*given.shape[:-1], 3), dtype=real_type)
    result[..., : given.shape[-1]] = given
    return result


def _index_array(given: int | Iterable[int] | None, kind: str) -> npt.NDArray[Any]:
    return np.resize(np.atleast_1d(np.asarray(0 if given is None else given, dtype=kind)), 2)


def _call(module: Any, kernel: Any, result: npt.NDArray[Any], buffers: list[npt.NDArray[Any]], scalar: str) -> None:
    """Call a kernel; the buffers are coefficients, constants, coordinates, entities and permutations."""
    types = [C_NAMES[scalar], C_NAMES[scalar], C_NAMES[scalar], C_NAMES[REAL_OF[scalar]], "int", "uint8_t"]
    pointers = [
        module.ffi.cast(f"{kind} *", array.ctypes.data) for kind, array in zip(types, [result, *buffers], strict=True)
    ]
    kernel(*pointers, module.ffi.NULL)
