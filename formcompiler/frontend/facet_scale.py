"""The measure of a facet by its normal: one root gives both, and leaves the product of the two.

The columns of the cofactors of the Jacobian J map reference normals to normals that are as long as facets are stretched
(Nanson's relation): with the unit normal N of a facet of the reference cell and the measure M of that facet relative to
the reference facet's,

    ds = M |det J| |J^-T N| dS,    n = J^-T N / |J^-T N|.

UFL takes the root of the Gram determinant of the facet's tangents for ds, and another root for n. With one root the
flux through a facet, n ds, has none at all.
"""

from __future__ import annotations

from typing import Any

import ufl
import ufl.classes as uc
from ufl.algorithms.analysis import has_type
from ufl.algorithms.apply_geometry_lowering import apply_geometry_lowering

from formcompiler.elements.cells import TENSOR_CELLS


def preserved_types(form: Any) -> tuple[Any, ...]:
    """Return the quantities that UFL has to leave for `lower_facet_scale`: none where it differentiates them."""
    is_left = not any(has_type(form, kind) for kind in (uc.CoordinateDerivative, uc.FacetJacobianDeterminant))
    return (uc.FacetJacobianDeterminant,) if is_left else ()


def lower_facet_scale(integrand: Any, domain: Any) -> Any:
    """Return an integrand with the determinants of facets written in terms of Jacobians and reference normals.

    Args:
        integrand: A UFL expression whose restrictions are at the terminals.
        domain: The mesh that is integrated over.
    """
    if not has_type(integrand, uc.FacetJacobianDeterminant):
        return integrand
    determinant, scale = uc.FacetJacobianDeterminant(domain), _scale(domain)
    mapping = {determinant: scale}
    for side in ("+", "-"):
        leaves = {t: t(side) for t in (uc.Jacobian(domain), uc.ReferenceNormal(domain), uc.CellFacetJacobian(domain))}
        mapping[determinant(side)] = ufl.replace(scale, leaves)
    return ufl.replace(integrand, mapping)


def _scale(domain: Any) -> Any:
    """Return the measure of a facet; M is 1 on cubes, where reference facets have the measure of the cell's facets."""
    fills = domain.geometric_dimension == domain.topological_dimension > 1
    if not fills or domain.ufl_cell().cellname not in TENSOR_CELLS:
        return apply_geometry_lowering(uc.FacetJacobianDeterminant(domain), (uc.Jacobian,))
    inverse, normal = uc.JacobianInverse(domain), uc.ReferenceNormal(domain)
    i, j = ufl.indices(2)
    direction = ufl.as_vector(inverse[j, i] * normal[j], i)
    length = ufl.sqrt(direction[i] * direction[i])
    return apply_geometry_lowering(uc.Abs(uc.JacobianDeterminant(domain)) * length, (uc.Jacobian,))
