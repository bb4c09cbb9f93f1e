"""Tables of basis functions: of one component on a cell, and of the 1D factors of tensor-product elements."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import basix
import basix.ufl
import numpy as np
import numpy.typing as npt

from formcompiler.elements.cells import TENSOR_CELLS, FloatArray, cell_type
from formcompiler.errors import UnsupportedFormError

_NOISE = 64 * float(np.finfo(np.float64).eps)

Element = Any
"""An element of basix.ufl."""


@dataclass(frozen=True, eq=False)
class ComponentTable:
    """Values of the basis functions that make up one reference component.

    Attributes:
        values: Axes (point, basis function of the component).
        offset: Dof of the first of these basis functions in the whole element.
        stride: Distance of the next ones.
    """

    values: FloatArray
    offset: int
    stride: int


def component_layout(element: Element, component: int) -> tuple[Element, int, int]:
    """Return the scalar element of one flat reference component, with offset and stride of its dofs."""
    sub_element, offset, stride = element.get_component_element(component)
    if isinstance(sub_element, basix.ufl._ComponentElement) and sub_element._element.reference_value_size == 1:
        sub_element = sub_element._element
    return sub_element, int(offset), int(stride)


def tabulate_component(
    element: Element, component: int, derivatives: tuple[int, ...], points: FloatArray
) -> ComponentTable:
    """Return one derivative of one reference component at points, axes (point, direction)."""
    sub_element, offset, stride = component_layout(element, component)
    if getattr(sub_element, "is_real", False) or _is_quadrature(sub_element):
        return ComponentTable(_tabulate_pointwise(sub_element, derivatives, points), offset, stride)
    order = sum(derivatives)
    if order and sub_element.polyset_type != basix.PolysetType.standard and sub_element.cell_type.name in TENSOR_CELLS:
        # Basix 0.11 gives numbers of size 1e19 here.
        raise UnsupportedFormError(
            f"derivatives of macro elements on a {sub_element.cell_type.name} are not available: {sub_element}; use a "
            "Lagrange element on a refined mesh, or triangles or tetrahedra"
        )
    tables = sub_element.tabulate(order, points)
    index = basix.index(*derivatives) if order else 0
    return ComponentTable(_clean(np.asarray(tables[index], dtype=np.float64)), offset, stride)


def component_degree(element: Element, component: int) -> int:
    """Return the degree of a Lagrange element that contains the functions of one reference component."""
    sub_element, _, _ = component_layout(element, component)
    return 0 if getattr(sub_element, "is_real", False) else int(sub_element.embedded_superdegree)


@lru_cache(maxsize=4096)
def vanishes(element: Element, component: int, derivatives: tuple[int, ...]) -> bool:
    """Tell whether a derivative of one reference component is zero for all basis functions, as for constants."""
    points = np.array([[0.11, 0.23, 0.31], [0.42, 0.17, 0.05], [0.29, 0.35, 0.13], [0.07, 0.08, 0.61]])
    inside = points[:, : len(derivatives)]
    return any(derivatives) and not tabulate_component(element, component, derivatives, inside).values.any()


def _is_quadrature(element: Element) -> bool:
    return isinstance(element, basix.ufl._QuadratureElement)


def _tabulate_pointwise(element: Element, derivatives: tuple[int, ...], points: FloatArray) -> FloatArray:
    if not _is_quadrature(element):
        return np.full((len(points), 1), 0.0 if any(derivatives) else 1.0)
    return np.asarray(element.tabulate(sum(derivatives), points)[0], dtype=np.float64)


def _clean(table: FloatArray) -> FloatArray:
    """Return the table with rounding noise around -1, 0 and 1 removed (a few units of the last place)."""
    scale = max(1.0, float(np.abs(table).max(initial=0.0)))
    result = table.copy()
    for exact in (-1.0, 0.0, 1.0):
        result[np.abs(result - exact) < _NOISE * scale] = exact
    return result


@dataclass(frozen=True, eq=False)
class TensorFactor:
    """A scalar element on a tensor cell as the product of one 1D element with itself.

    Attributes:
        element: The basix element on the interval.
        n: Its number of basis functions.
        permutation: Dof of the cell element for each multi-index of 1D dofs in natural order (nodes from 0 to 1),
            first direction slowest; shape (n,) * dim.
        order: 1D basis function for each position in natural order, shape (n,).
        mirror: For each 1D basis function, in natural order, the one that it is the mirror image of; shape (n,).
        mirror_signs: 1, or -1 where it is minus the mirror image; shape (n,).
    """

    element: Any
    n: int
    permutation: npt.NDArray[np.int64]
    order: npt.NDArray[np.int64]
    mirror: npt.NDArray[np.int64]
    mirror_signs: FloatArray

    def tabulate(self, derivative: int, points: FloatArray) -> FloatArray:
        """Return one derivative of the 1D basis in natural order at 1D points, axes (point, basis function).

        Tables are kept, since plans of contractions ask for them again and again: they are not to be written to.
        """
        return _tabulate_line(self, derivative, np.asarray(points, dtype=np.float64).tobytes())


@lru_cache(maxsize=1024)
def _tabulate_line(factor: TensorFactor, derivative: int, points: bytes) -> FloatArray:
    table = factor.element.tabulate(derivative, np.frombuffer(points).reshape(-1, 1))[derivative, :, :, 0]
    result = _clean(np.asarray(table, dtype=np.float64)[:, factor.order])
    result.setflags(write=False)
    return result


@lru_cache(maxsize=256)
def tensor_factor(element: Element) -> TensorFactor | None:
    """Return the 1D factor of a scalar Lagrange-like element on a tensor cell, or None if it has none.

    The product is checked on values: every basis function must be one product of 1D basis functions.
    """
    if not isinstance(element, basix.ufl._BasixElement) or element.element_family != basix.ElementFamily.P:
        return None
    cell = element.cell_type.name
    if cell not in TENSOR_CELLS:
        return None
    line: Any = basix.create_element(
        basix.ElementFamily.P,
        basix.CellType.interval,
        element.degree,
        lagrange_variant=element.basix_element.lagrange_variant,
        discontinuous=element.discontinuous,
    )
    order = _natural_order(line)
    points = np.array([[0.13, 0.58, 0.37], [0.71, 0.29, 0.83], [0.44, 0.91, 0.06]])[:, : TENSOR_CELLS[cell]]
    values = np.asarray(element.basix_element.tabulate(0, points)[0, :, :, 0])
    lines = [line.tabulate(0, points[:, d : d + 1])[0, :, order, 0] for d in range(TENSOR_CELLS[cell])]
    permutation = _match_products(values, lines)
    if permutation is None:
        return None
    mirror = _match_mirror_images(line.tabulate(0, 1 - points[:, :1])[0, :, order, 0], lines[0])
    return None if mirror is None else TensorFactor(line, line.dim, permutation, order, *mirror)


def _match_mirror_images(mirrored: FloatArray, values: FloatArray) -> tuple[npt.NDArray[np.int64], FloatArray] | None:
    """Return for each mirrored function which function it is, and with which sign; axes (function, point)."""
    scale = 1e-11 * max(1.0, np.abs(values).max())
    near = np.array([np.abs(values[:, None] - sign * mirrored[None]).max(axis=2) < scale for sign in (1, -1)])
    if not (near.any(axis=0).sum(axis=0) == 1).all():
        return None
    return near.any(axis=0).argmax(axis=0), np.where(near[0].any(axis=0), 1.0, -1.0)


def _natural_order(line: Any) -> npt.NDArray[np.int64]:
    """Return the 1D dofs sorted by the centre of their functionals; hierarchical bases keep their order."""
    nodes = np.concatenate([points.reshape(-1) for entity in line.x for points in entity])
    if len(nodes) != line.dim or not np.allclose(line.tabulate(0, nodes.reshape(-1, 1))[0, :, :, 0], np.eye(line.dim)):
        return np.arange(line.dim)
    return np.argsort(nodes, kind="stable")


def _match_products(values: FloatArray, lines: list[FloatArray]) -> npt.NDArray[np.int64] | None:
    """Return which column of values, axes (point, dof), equals each product of lines, axes (1D dof, point)."""
    shape = tuple(len(line) for line in lines)
    result = np.full(shape, -1)
    for multi_index in np.ndindex(*shape):
        product = np.prod([line[i] for line, i in zip(lines, multi_index, strict=True)], axis=0)
        near = np.flatnonzero(np.abs(values - product[:, None]).max(axis=0) < 1e-11 * max(1.0, np.abs(product).max()))
        if len(near) != 1:
            return None
        result[multi_index] = near[0]
    return result


def joint_polyset(elements: list[Element], cell: str) -> Any:
    """Return the polynomial set type on a cell that holds the functions of all elements (macro elements or not)."""
    result = basix.PolysetType.standard
    for element in elements:
        result = basix.polyset_superset(cell_type(cell), result, element.polyset_type)
    return result


def quadrature_element_rule(element: Element) -> tuple[FloatArray, FloatArray] | None:
    """Return points and weights of a quadrature element (also blocked or inside a mixed element), or None."""
    if element.is_mixed:
        found = [quadrature_element_rule(sub) for sub in element.sub_elements]
        return next((rule for rule in found if rule is not None), None)
    if not element.is_quadrature:
        return None
    points, weights = element.custom_quadrature()
    return np.asarray(points, dtype=np.float64), np.asarray(weights, dtype=np.float64)
