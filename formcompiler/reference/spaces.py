"""Functions of finite element spaces: from reference components to physical values, as jets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from formcompiler.elements.cells import FloatArray
from formcompiler.errors import UnsupportedFormError
from formcompiler.reference.geometry import Cell
from formcompiler.reference.jets import Jet, divide, stack
from formcompiler.reference.tensors import append_axes, contract


def basis_functions(cell: Cell, element: Any, order: int, shape: tuple[int, ...]) -> Jet:
    """Return the physical basis functions, axes (point, dof, *value shape)."""
    return _reshape(push_forward(cell, element, cell.basis(element, order)), shape)


def function(cell: Cell, element: Any, dofs: FloatArray, order: int, shape: tuple[int, ...]) -> Jet:
    """Return the function with given dofs, axes (point, *value shape)."""
    reference = cell.basis(element, order).map(lambda t: np.asarray(np.einsum("pnc,n->pc", t, dofs)))
    return _reshape(push_forward(cell, element, reference), shape)


def _reshape(flat: Jet, shape: tuple[int, ...]) -> Jet:
    return flat.map(lambda t: t.reshape(t.shape[:-1] + shape))


def push_forward(cell: Cell, element: Any, reference: Jet) -> Jet:
    """Return flat physical components (last axis) from flat reference components.

    Raises:
        UnsupportedFormError: for a pull-back that is not known.
    """
    kind = type(element.pullback).__name__
    if kind == "IdentityPullback":
        return reference
    if kind == "SymmetricPullback":
        symmetry = element.pullback._symmetry
        blocks = [symmetry[index] for index in np.ndindex(*element.pullback._block_shape)]
        return reference.map(lambda t: t[..., blocks])
    if kind == "MixedPullback":
        return _push_forward_blocks(cell, element, reference)
    if kind == "L2Piola":
        det = _spread(cell.jet("det_jacobian", reference.order), reference, 0)
        return divide(reference, det.map(lambda t: t[..., None]))
    return _push_forward_tensor(cell, kind, reference)


def _push_forward_blocks(cell: Cell, element: Any, reference: Jet) -> Jet:
    parts, start = [], 0
    for sub_element in element.sub_elements:
        stop = start + sub_element.reference_value_size
        block = reference.map(lambda t, a=start, b=stop: t[..., a:b])  # type: ignore[misc]
        physical = push_forward(cell, sub_element, block)
        parts += [physical.map(lambda t, i=i: t[..., i]) for i in range(physical.shape[-1])]  # type: ignore[misc]
        start = stop
    return stack(parts, reference.value.ndim - 1)


def _push_forward_tensor(cell: Cell, kind: str, reference: Jet) -> Jet:
    """Return the Piola maps: of vectors, rows of vectors, and tensors."""
    maps = {
        "ContravariantPiola": ("v",),
        "CovariantPiola": ("w",),
        "DoubleContravariantPiola": ("v", "v"),
        "DoubleCovariantPiola": ("w", "w"),
        "CovariantContravariantPiola": ("w", "v"),
    }
    if kind not in maps:
        raise UnsupportedFormError(f"elements with the pull-back {kind} are not supported; use a Piola-mapped element")
    tensor = _reshape(reference, (-1, *(cell.tdim for _ in maps[kind])))
    for axis, rule in enumerate(maps[kind]):
        matrix = _vector_map(cell, rule, reference)
        if len(maps[kind]) == 1:
            tensor = contract(matrix, tensor, "...ij,...kj->...ki")
        else:
            tensor = contract(matrix, tensor, "...ij,...kjn->...kin" if axis == 0 else "...ij,...knj->...kni")
    size = math.prod(tensor.shape[tensor.value.ndim - len(maps[kind]) - 1 :])
    n_axes = reference.value.ndim - 1
    return tensor.map(lambda t: t.reshape(*t.shape[:n_axes], size))


def _vector_map(cell: Cell, rule: str, reference: Jet) -> Jet:
    """Return J / det J ("v", keeps fluxes) or the transposed inverse of J ("w", keeps circulations)."""
    order = reference.order
    if rule == "w":
        inverse = cell.jet("inverse_jacobian", order).map(lambda t: np.swapaxes(t, -1, -2))
        return _spread(inverse, reference, 2)
    piola = divide(cell.jet("jacobian", order), append_axes(cell.jet("det_jacobian", order)))
    return _spread(piola, reference, 2)


def _spread(geometry: Jet, reference: Jet, rank: int) -> Jet:
    """Return a quantity with axes (point, ...) with the extra leading axes of ``reference``."""
    extra = reference.value.ndim - 2
    return geometry.map(lambda t: t.reshape(t.shape[0], *(1,) * extra, *t.shape[t.ndim - rank :]))
