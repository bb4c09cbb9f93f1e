"""Batches of different cells for kernels with lanes, and the same cells one by one."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from formcompiler.kernel.interface import result_shape

Array = npt.NDArray[Any]


def different_cells(data: Mapping[str, Any], lanes: int, *, low: float, high: float) -> list[dict[str, Any]]:
    """Return variants of one entity's data with other coordinates and coefficients, but the same constants and facets.

    Args:
        data: Arguments of ``tabulate_tensor``.
        lanes: Number of variants; the first is the data itself.
        low: Smallest value of coefficients.
        high: Largest one.
    """
    rng = np.random.default_rng(7)
    result = [dict(data)]
    for _ in range(lanes - 1):
        changed = {f: rng.uniform(low, high, np.shape(v)).astype(v.dtype) for f, v in data["coefficients"].items()}
        coordinates = data["coordinates"] + 0.03 * rng.standard_normal(np.shape(data["coordinates"]))
        result.append({**data, "coefficients": changed, "coordinates": coordinates})
    return result


def tabulate(compiled: Any, data: Mapping[str, Any]) -> Array:
    """Return the element tensor of one entity."""
    others = {k: v for k, v in data.items() if k not in ("integral_type", "subdomain_id", "coordinates")}
    tensor = compiled.tabulate_tensor(data["integral_type"], data["subdomain_id"], data["coordinates"], **others)
    return np.asarray(tensor)


def tabulate_batch(compiled: Any, cells: list[dict[str, Any]]) -> Array:
    """Return the element tensors of a batch, axes (cell, axes of the tensor), summed over all kernels that apply."""
    first = cells[0]
    total = None
    for kernel, handle in zip(compiled.kernel_objects, compiled.kernels, strict=True):
        applies = "otherwise" in handle.subdomain_ids or first["subdomain_id"] in handle.subdomain_ids
        if handle.integral_type != first["integral_type"] or not applies:
            continue
        assert handle.lanes == len(cells)
        shape = result_shape(kernel.integral, compiled.options.part)
        tensors = np.zeros((int(np.prod(shape, dtype=int)), handle.lanes), compiled.options.scalar_type)
        _call(handle, tensors, compiled.form, cells, np.dtype(compiled.options.scalar_type))
        batch = np.moveaxis(tensors.reshape(*shape, handle.lanes), -1, 0)
        total = batch if total is None else total + batch
    assert total is not None
    return total


def _call(handle: Any, tensors: Array, form: Any, cells: list[dict[str, Any]], dtype: Any) -> None:
    def by_lane(values: list[Any]) -> Array:
        return np.ascontiguousarray(np.stack([np.ravel(v) for v in values], axis=-1), dtype=dtype)

    first = cells[0]
    coefficients, constants = form.coefficients(), form.constants()
    w = [by_lane([c["coefficients"][coefficients[i]] for c in cells]) for i in handle.coefficients]
    c = [np.ascontiguousarray(first["constants"][constants[i]], dtype=dtype).ravel() for i in handle.constants]
    facets = np.array([*np.ravel(first.get("local_facet", 0)), 0], np.int32)
    permutations = np.array([*np.ravel(first.get("facet_permutation", 0)), 0], np.uint8)
    coordinates = by_lane([cell["coordinates"] for cell in cells])
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6)
    arrays = [(ctypes.c_void_p * (len(a) + 1))(*(v.ctypes.data for v in a)) for a in (w, c)]
    prototype(handle.address)(
        tensors.ctypes.data,
        *(ctypes.cast(a, ctypes.c_void_p) for a in arrays),
        coordinates.ctypes.data,
        facets.ctypes.data,
        permutations.ctypes.data,
    )
