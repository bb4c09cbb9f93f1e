"""Kernels over facets turn their cells: they give what plain loops give wherever the facet lies in its cells."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import basix
import basix.ufl
import numpy as np
import pytest
import ufl
from ufl import avg, div, dot, dS, ds, grad, jump

import formcompiler
from formcompiler.elements import cells
from formcompiler.frontend.analysis import analyse_form
from formcompiler.frontend.facet_positions import turn
from formcompiler.frontend.integrals import FormIntegral
from formcompiler.kernel.flops import count_operations
from formcompiler.kernel.turning import can_turn
from formcompiler.options import Options
from formcompiler.sumfact.build import build_sumfact_kernel

LEGENDRE = {"lagrange_variant": basix.LagrangeVariant.legendre}


def space(cell: str, degree: int, geometry_degree: int = 1, **variant: Any) -> Any:
    shape = (cells.dimension(cell),)
    domain = ufl.Mesh(basix.ufl.element("Lagrange", cell, geometry_degree, shape=shape))
    return ufl.FunctionSpace(domain, basix.ufl.element("DG", cell, degree, **variant))


def penalty(V: Any, u: Any = None) -> Any:
    """Return the facet terms of the interior penalty method."""
    u, v, n = u or ufl.Coefficient(V), ufl.TestFunction(V), ufl.FacetNormal(V.ufl_domain())
    interior = 3.7 * jump(u) * jump(v) - dot(avg(grad(u)), jump(v, n)) - dot(jump(u, n), avg(grad(v)))
    return interior * dS(degree=3) + (3.7 * u * v - dot(grad(u), n) * v - u * dot(grad(v), n)) * ds(degree=3)


def signed(V: Any) -> Any:
    """Return a form that knows the sign of the Jacobian's determinant and the first direction of a cell."""
    u, v, n = ufl.Coefficient(V), ufl.TestFunction(V), ufl.FacetNormal(V.ufl_domain())
    det, jacobian = ufl.JacobianDeterminant(V.ufl_domain()), ufl.Jacobian(V.ufl_domain())
    interior = det("+") * avg(u) * dot(grad(v)("-"), n("-")) + jacobian[0, 0]("-") * v("+") * u("-")
    return interior * dS(degree=3) + det * div(grad(u)) * dot(grad(v), grad(u)) * ds(degree=2)


def integrals(form: Any, **options: Any) -> tuple[FormIntegral, ...]:
    return tuple(analyse_form(form, Options(**options), {}).integrals)


def assert_same_as_plain_loops(form: Any, every: int = 1, **options: Any) -> None:
    """Compare kernels for facets in all positions of their cells, or in a part of them, on distorted cells."""
    factorized, plain = (
        formcompiler.compile_form(form, sum_factorization=choice, **options) for choice in ("auto", "off")
    )
    assert all(info.factorized for info in factorized.integrals)
    element = form.ufl_domains()[0].ufl_coordinate_element()
    cell, nodes = element.cell_type.name, element.sub_elements[0].basix_element.points
    n_facets, n_permutations = len(cells.facet_cells(cell)), cells.n_facet_permutations(cells.facet_cells(cell)[0])
    rng = np.random.default_rng(0)
    for n_sides, kind in enumerate(("exterior_facet", "interior_facet"), start=1):
        places = list(itertools.product(range(n_facets), range(n_permutations if n_sides == 2 else 1)))
        for place in list(itertools.product(places, repeat=n_sides))[::every]:
            if options.get("geometry") == "axis_parallel":
                x = nodes * rng.choice([-1.5, 0.7], (n_sides, 1, nodes.shape[1]))
            else:
                x = nodes * rng.choice([-1, 1], (n_sides, 1, nodes.shape[1]))
                x = x + 0.1 * rng.standard_normal((n_sides, *nodes.shape))
            dims = {f: f.ufl_function_space().ufl_element().dim for f in form.coefficients()}
            w = {f: rng.standard_normal((n_sides, n)) for f, n in dims.items()}
            facets, turned = zip(*place, strict=True)
            if n_sides == 1:
                x, w, facets, turned = x[0], {f: a[0] for f, a in w.items()}, facets[0], turned[0]
            found, expected = (
                c.tabulate_tensor(kind, None, x, coefficients=w, local_facet=facets, facet_permutation=turned)
                for c in (factorized, plain)
            )
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("cell", ["interval", "quadrilateral"])
@pytest.mark.parametrize("make_form", [penalty, signed])
@pytest.mark.parametrize("variant", [{}, LEGENDRE])
def test_kernels_for_all_facets_agree_with_plain_loops(cell: str, make_form: Any, variant: dict[str, Any]) -> None:
    assert_same_as_plain_loops(make_form(space(cell, 2, **variant)))


@pytest.mark.parametrize("make_form", [penalty, signed])
def test_kernels_agree_on_facets_of_hexahedra(make_form: Any) -> None:
    assert_same_as_plain_loops(make_form(space("hexahedron", 2)), every=97)


def test_matrices_and_curved_cells_and_mirrored_functions_with_signs_agree() -> None:
    V = space("quadrilateral", 2, 2, **LEGENDRE)
    assert_same_as_plain_loops(penalty(V, ufl.TrialFunction(V)), every=3)


@pytest.mark.parametrize("geometry", ["axis_parallel", "general"])
def test_kernels_in_lanes_of_one_cell_agree(geometry: str) -> None:
    assert_same_as_plain_loops(penalty(space("quadrilateral", 3)), every=5, vectorize="in_cell", geometry=geometry)


def test_forms_that_mean_the_same_in_every_numbering_can_turn() -> None:
    for cell in ("interval", "quadrilateral", "hexahedron"):
        assert all(can_turn(i, is_affine=False) for i in integrals(penalty(space(cell, 1, 2))))
        assert all(can_turn(i, is_affine=True) for i in integrals(penalty(space(cell, 1)), geometry="affine"))


def test_forms_that_know_directions_cannot_turn() -> None:
    assert not any(can_turn(i, is_affine=False) for i in integrals(signed(space("quadrilateral", 1))))
    V = space("quadrilateral", 1)
    x, v = ufl.SpatialCoordinate(V.ufl_domain()), ufl.TestFunction(V)
    (first,) = integrals(grad(v)[0] * ufl.Jacobian(V.ufl_domain())[0, 0] * ds)
    assert not can_turn(first, is_affine=False)
    (position,) = integrals(x[0] * grad(v)[0] * ds)
    assert can_turn(position, is_affine=False)


def test_a_jacobian_that_is_diagonal_knows_directions() -> None:
    found = integrals(penalty(space("quadrilateral", 1)), geometry="axis_parallel")
    assert not any(can_turn(i, is_affine=True) for i in found)


def test_differences_of_vertices_are_known_on_affine_cells_only() -> None:
    (_, exterior) = integrals(penalty(space("quadrilateral", 1)), geometry="affine")
    assert can_turn(exterior, is_affine=True)
    assert not can_turn(exterior, is_affine=False)


def test_geometry_cancels_in_turned_kernels() -> None:
    """The normal and the measure of a facet have the same root; another one is for the normal of the other cell."""
    for integral in integrals(penalty(space("hexahedron", 2))):
        turned = turn(integral)
        counts = [count_operations(build_sumfact_kernel(i, "k", "float64", "float64"), 0) for i in (integral, turned)]
        assert counts[1] < 0.85 * counts[0]
        (integrand,) = turned.integrands
        text = " ".join(str(e) for e in (*(e for _, e in integrand.definitions), *(t.factor for t in integrand.terms)))
        assert text.count("sqrt") == integral.n_sides
        assert not any(t.kind in ("reference_normal", "facet_jacobian") for t in integrand.terminals.values())
    assert replace(turned, turned=False, integrands=integral.integrands) == integral
