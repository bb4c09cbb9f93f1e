"""1D factors of elements on products of intervals: their products and their mirror images are the functions."""

from __future__ import annotations

from typing import Any

import basix
import basix.ufl
import numpy as np
import pytest

from formcompiler.elements import cells
from formcompiler.elements.tables import tensor_factor

VARIANTS = [
    ("gll_warped", False),
    ("gll_warped", True),
    ("equispaced", False),
    ("gl_centroid", True),
    ("chebyshev_isaac", True),
    ("legendre", True),
    ("bernstein", False),
]


def make_element(cell: str, variant: str, *, discontinuous: bool) -> Any:
    kind = getattr(basix.LagrangeVariant, variant)
    try:
        return basix.ufl.element("Lagrange", cell, 3, lagrange_variant=kind, discontinuous=discontinuous)
    except RuntimeError as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize(("variant", "discontinuous"), VARIANTS)
@pytest.mark.parametrize("cell", ["interval", "quadrilateral"])
def test_functions_are_products_and_mirror_images(cell: str, variant: str, *, discontinuous: bool) -> None:
    element = make_element(cell, variant, discontinuous=discontinuous)
    factor = tensor_factor(element)
    assert factor is not None
    x = np.array([0.0, 0.17, 0.62, 1.0])
    lines = factor.tabulate(0, x)
    points = np.stack([axis.ravel() for axis in np.meshgrid(*(x,) * cells.dimension(cell), indexing="ij")], axis=1)
    product = lines if cell == "interval" else np.einsum("pi,qj->pqij", lines, lines).reshape(len(points), -1)
    values = element.tabulate(0, points)[0]
    np.testing.assert_allclose(values[:, factor.permutation.ravel()], product, atol=1e-12)
    mirrored = factor.tabulate(0, 1 - x)
    np.testing.assert_allclose(lines, factor.mirror_signs * mirrored[:, factor.mirror], atol=1e-12)
