"""Forms of many kinds, each on all cells, entities and with both kinds of kernels."""

from __future__ import annotations

import basix
import basix.ufl
import numpy as np
import pytest
import ufl
from checking import FLAT_CELLS, agree, arguments, coefficient, mesh, refused, space

import formcompiler
from formcompiler.errors import UnsupportedFormError

FAMILIES = {
    "interval": (),
    "triangle": ("RT", "BDM", "N1curl", "N2curl", "Regge", "HHJ", "CR"),
    "quadrilateral": ("RTCF", "RTCE", "BDMCF", "BDMCE", "S", "DPC"),
    "tetrahedron": ("RT", "BDM", "N1curl", "N2curl", "Regge", "CR"),
    "hexahedron": ("NCF", "NCE", "S", "DPC"),
}
FACETS = {"triangle": "interval", "quadrilateral": "interval", "tetrahedron": "triangle", "hexahedron": "quadrilateral"}
HIGH = {"interval": 5, "triangle": 6, "quadrilateral": 5, "tetrahedron": 4, "hexahedron": 3}


def forms_of_rules(cell):
    domain = mesh(cell)
    u, v = arguments(space(domain, "Lagrange", 2))
    f, g, k = coefficient(domain, "Lagrange", 2), coefficient(domain, "DG", 1), ufl.Constant(domain)
    vertex = {"quadrature_rule": "vertex", "quadrature_degree": 1}
    same = {"quadrature_degree": 2, "quadrature_rule": "default"}
    return {
        "two degrees": u * v * ufl.dx(degree=2) + u * v * ufl.dx(degree=0) + u * v * ufl.ds(degree=1) + u * v * ufl.ds,
        "two degrees inside": u("+") * v("-") * ufl.dS(degree=2) + u("-") * v("-") * ufl.dS(degree=0),
        "one rule": f * v * ufl.dx(degree=2) + g * v * ufl.dx(metadata=same) + k * v * ufl.dx(degree=2),
        "vertices": u * v * (ufl.dx(metadata=vertex))
        + u * v * ufl.ds(metadata=vertex)
        + ufl.avg(u) * ufl.jump(v) * ufl.dS(metadata=vertex),
        "ids": k * ufl.dx
        + 10 * k * ufl.dx(1)
        + 100 * k * ufl.dx((1, 2))
        + 7 * k * ufl.ds(1)
        + 5 * k * ufl.ds
        + f("+") * ufl.dS(3)
        + f("-") * ufl.dS((3, 5)),
    }


def forms_of_facets(cell):
    domain = mesh(cell)
    dim = domain.geometric_dimension
    V = space(domain, "DG", 1)
    (u, v), q, n = arguments(V), ufl.Coefficient(V), ufl.FacetNormal(domain)
    b, K = coefficient(domain, "Lagrange", 1, shape=(dim,)), ufl.Constant(domain, shape=(dim, dim))
    out = (ufl.dot(b, n) + abs(ufl.dot(b, n))) / 2
    f = coefficient(domain, "Lagrange", 2)
    i, j, k = ufl.indices(3)
    T = ufl.as_tensor(b[i].dx(j) * K[k, j], (k, i))
    return {
        "upwind": ufl.jump(v) * (out("+") * u("+") - out("-") * u("-")) * ufl.dS(degree=3)
        + v * out * u * ufl.ds(degree=3),
        "its derivative": ufl.derivative(
            ufl.jump(v) * (out("+") * q("+") ** 2 - out("-") * q("-")) * ufl.dS(degree=3), q
        ),
        "constants": K[0, dim - 1] * ufl.jump(u) * ufl.jump(v) * ufl.dS
        + ufl.inner(K * ufl.avg(ufl.grad(u)), n("+")) * v("-") * ufl.dS,
        "indices": T[i, j] * T[j, i] * v * ufl.dx(degree=2) + b[i] * n[i] * n[j] * n[j] * v * ufl.ds(degree=2),
        "means": ufl.cell_avg(f) ** 2 * v * ufl.dx(degree=2)
        + ufl.facet_avg(f) * v * ufl.ds(degree=2)
        + ufl.jump(ufl.facet_avg(v)) * ufl.avg(ufl.facet_avg(f)) * ufl.dS(degree=2),
        "means of arguments": ufl.cell_avg(u) * ufl.cell_avg(v) * ufl.dx(degree=2)
        + ufl.facet_avg(f) * ufl.facet_avg(u) * v * ufl.ds(degree=2),
    }


def forms_of_families(cell):
    domain = mesh(cell)
    forms = {}
    for family in FAMILIES[cell]:
        V = space(domain, family, 1)
        (p, r), h = arguments(V), ufl.Coefficient(V)
        forms[family] = (ufl.inner(p, r) + ufl.inner(ufl.grad(p), ufl.grad(r))) * ufl.dx(degree=2) + ufl.inner(
            p, r
        ) * ufl.ds(degree=2)
        forms[f"sides of {family}"] = ufl.inner(h("+") - 2 * h("-"), r("-") + 3 * r("+")) * ufl.dS(degree=2)
    gll = {"lagrange_variant": basix.LagrangeVariant.gll_warped}
    legendre = {"lagrange_variant": basix.LagrangeVariant.legendre, "discontinuous": True}
    for name, degree, options in (("high", HIGH[cell], gll), ("orthogonal", 2, legendre)):
        V = space(domain, "Lagrange", degree, **options)
        f, v = ufl.Coefficient(V), ufl.TestFunction(V)
        inside = (ufl.inner(ufl.grad(f), ufl.grad(v)) + f * v) * ufl.dx
        forms[name] = inside + f * v * ufl.ds + ufl.inner(ufl.jump(f), ufl.avg(v)) * ufl.dS
    if cell in FACETS:
        f, v = coefficient(domain, "Lagrange", 2), ufl.TestFunction(space(domain))
        on_facets = coefficient(mesh(FACETS[cell], 1, domain.geometric_dimension), "Lagrange", 2)
        slope = ufl.Dx(on_facets, 1) + ufl.inner(ufl.grad(on_facets), ufl.grad(f))
        forms["mesh of facets"] = (slope + on_facets**2) * v * ufl.ds(domain=domain, degree=3)
    return forms


KINDS = {"rules": forms_of_rules, "facets": forms_of_facets, "families": forms_of_families}


def cases():
    """Return all kinds on all cells; those in three dimensions take long where processors are few."""
    for kind in KINDS:
        for cell in FLAT_CELLS:
            marks = [pytest.mark.slow] * (cell in ("tetrahedron", "hexahedron") and kind != "rules")
            yield pytest.param(kind, cell, id=f"{kind}-{cell}", marks=marks)


@pytest.mark.parametrize(("kind", "cell"), list(cases()))
def test_kernels_of_all_kinds_equal_dense_assembly(kind, cell):
    agree(KINDS[kind](cell))


@pytest.mark.parametrize("options", [{"sum_factorization": "off"}, {"scalar_type": "float32"}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_of_quadrilaterals_equal_dense_assembly_under_other_options(kind, options):
    agree(KINDS[kind]("quadrilateral"), **options)


def test_equal_integrands_on_many_subdomains_share_a_kernel():
    domain = mesh("triangle")
    u, v = arguments(space(domain))
    form = sum((ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx(k) for k in range(1, 40)), u * v * ufl.dx(0))
    compiled = formcompiler.compile_form(form)
    assert sorted(len(integral.subdomain_ids) for integral in compiled.integrals) == [1, 39]
    corners = [[0, 0], [1, 0], [0, 1]]
    assert np.array_equal(compiled.tabulate_tensor("cell", 40, corners), np.zeros((3, 3)))


def test_expressions_of_numbers_alone_need_no_mesh_and_no_coordinates():
    constant = ufl.Constant(mesh("hexahedron"), shape=(2,))
    values = formcompiler.compile_expression(3 * constant, [[0.1, 0.2, 0.3]]).tabulate_tensor(
        None, constants={constant: [1, 2]}
    )
    assert np.array_equal(values, [[3, 6]])
    f = coefficient(mesh("quadrilateral"), "DG", 0)
    for expression, wanted in ((ufl.as_ufl(3.0), [3]), (ufl.Identity(2), [1, 0, 0, 1]), (ufl.grad(f), [0, 0])):
        compiled = formcompiler.compile_expression(expression, [[0.1, 0.2], [0.3, 0.4]])
        assert np.array_equal(compiled.tabulate_tensor(np.eye(4), coefficients={f: [1]}), [wanted, wanted])


def test_expressions_that_are_no_tensors_at_points_are_refused():
    f, other = coefficient(mesh("triangle")), coefficient(mesh("triangle"))
    with pytest.raises(UnsupportedFormError, match="1 free indices: sum over them"):
        formcompiler.compile_expression(ufl.grad(f)[ufl.Index()], [[0.1, 0.2]])
    with pytest.raises(UnsupportedFormError, match="lives on 2 meshes"):
        formcompiler.compile_expression(f * other, [[0.1, 0.2]])
    with pytest.raises(UnsupportedFormError, match="points must have 1, 2 or 3 coordinates"):
        formcompiler.compile_expression(ufl.as_ufl(1.0), [0.1, 0.2])


def test_quadrature_elements_of_a_named_rule_fit_integrals_with_this_rule():
    domain = mesh("quadrilateral")
    points = basix.ufl.quadrature_element("quadrilateral", scheme="GLL", degree=3)
    q, v = ufl.Coefficient(ufl.FunctionSpace(domain, points)), ufl.TestFunction(space(domain))
    agree({"named": q * v * ufl.dx(scheme="GLL", degree=3), "by the element": q * v * ufl.dx})
    refused(q * v * ufl.dx(degree=3), "quadrature_rule asks for other points")


def test_values_that_several_loops_share_are_computed_in_front_of_all_of_them():
    u, v = arguments(space(mesh("hexahedron"), "NCE", 1))
    agree({"curls": ufl.inner(ufl.curl(u), ufl.curl(v)) * ufl.dx(degree=2)})
