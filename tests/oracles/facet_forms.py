"""Forms over exterior and interior facets."""

from __future__ import annotations

from typing import Any

import ufl
from ufl import dS, ds, dx, grad, inner

from oracles.case import FormCase, mesh, space, trial_and_test


def _robin(cell: str, degree: int) -> Any:
    domain = mesh(cell)
    V = space(domain, "Lagrange", degree)
    u, v = trial_and_test(V)
    f, x = ufl.Coefficient(V), ufl.SpatialCoordinate(domain)
    return (f * u * v + x[0] * u * v) * ds(degree=2 * degree + 2) + u * v * dx


def _nitsche(cell: str, degree: int) -> Any:
    domain = mesh(cell)
    u, v = trial_and_test(space(domain, "Lagrange", degree))
    n, h = ufl.FacetNormal(domain), ufl.Constant(domain)
    return (u * v / h - ufl.dot(grad(u), n) * v - u * ufl.dot(grad(v), n)) * ds(degree=2 * degree + 1)


def _normal_flux(cell: str, family: str) -> Any:
    domain = mesh(cell)
    v = ufl.TestFunction(space(domain, family, 1))
    return ufl.dot(v, ufl.FacetNormal(domain)) * ufl.SpatialCoordinate(domain)[0] * ds(degree=4)


def _boundary_traction() -> Any:
    domain = mesh("hexahedron")
    V = space(domain, "Lagrange", 1, shape=(3,))
    u, v, n = ufl.Coefficient(V), ufl.TestFunction(V), ufl.FacetNormal(domain)
    return inner(ufl.dot(ufl.sym(grad(u)), n), v) * ds(degree=4)


def _interior_penalty(cell: str, degree: int) -> Any:
    domain = mesh(cell)
    u, v = trial_and_test(space(domain, "DG", degree))
    n, alpha = ufl.FacetNormal(domain), ufl.Constant(domain)
    jump, avg = ufl.jump, ufl.avg
    consistency = inner(avg(grad(u)), jump(v, n)) + inner(jump(u, n), avg(grad(v)))
    return (alpha * inner(jump(u, n), jump(v, n)) - consistency) * dS(degree=2 * degree)


def _upwind(cell: str) -> Any:
    domain = mesh(cell)
    q, v = ufl.Coefficient(space(domain, "DG", 1)), ufl.TestFunction(space(domain, "DG", 1))
    b, n = ufl.Coefficient(space(domain, "Lagrange", 1, shape=(2,))), ufl.FacetNormal(domain)
    out = (ufl.dot(b, n) + abs(ufl.dot(b, n))) / 2
    return ufl.jump(v) * (out("+") * q("+") - out("-") * q("-")) * dS(degree=3)


def _vector_jump(cell: str) -> Any:
    domain = mesh(cell)
    V = space(domain, "DG", 1, shape=(2,))
    u, v = trial_and_test(V)
    n = ufl.FacetNormal(domain)
    return (inner(ufl.jump(u), ufl.jump(v)) + inner(ufl.avg(grad(u)) * n("+"), v("-"))) * dS(degree=3)


def _normal_trace_jump(cell: str, family: str) -> Any:
    domain = mesh(cell)
    u, v = trial_and_test(space(domain, family, 1))
    n = ufl.FacetNormal(domain)
    return (ufl.jump(u, n) * ufl.avg(ufl.div(v)) + inner(u("+"), v("-"))) * dS(degree=3)


def _facet_derivative(cell: str) -> Any:
    domain = mesh(cell)
    V = space(domain, "DG", 2)
    w = ufl.Coefficient(V)
    v, n = ufl.TestFunction(V), ufl.FacetNormal(domain)
    residual = inner(ufl.jump(v, n), ufl.avg((1 + w**2) * grad(w))) * dS(degree=5)
    return ufl.derivative(residual, w, ufl.TrialFunction(V))


def _hessian_jump(cell: str) -> Any:
    domain = mesh(cell)
    w = ufl.Coefficient(space(domain, "Lagrange", 2))
    n = ufl.FacetNormal(domain)
    hessian = grad(grad(w))
    return ufl.jump(grad(w), n) * inner(ufl.avg(hessian), ufl.outer(n("+"), n("+"))) * dS(degree=4)


def _cell_sizes(cell: str) -> Any:
    domain = mesh(cell)
    h, r, f = ufl.CellDiameter(domain), ufl.Circumradius(domain), ufl.FacetArea(domain)
    volume, edge = ufl.CellVolume(domain), ufl.MinCellEdgeLength(domain)
    sizes = ufl.avg(h) / h("+") + r("-") * ufl.avg(volume) / f("+") + edge("-")
    if cell == "tetrahedron":
        sizes += ufl.MaxFacetEdgeLength(domain)("+") / ufl.MinFacetEdgeLength(domain)("-")
    return sizes * dS


def facet_forms() -> list[FormCase]:
    """Return cases over exterior and interior facets."""
    exterior = [
        FormCase("robin_interval", _robin("interval", 2), "exterior_facet"),
        FormCase("robin_triangle", _robin("triangle", 2), "exterior_facet"),
        FormCase("robin_hexahedron", _robin("hexahedron", 1), "exterior_facet"),
        FormCase("nitsche_quadrilateral", _nitsche("quadrilateral", 2), "exterior_facet"),
        FormCase("nitsche_tetrahedron", _nitsche("tetrahedron", 2), "exterior_facet"),
        FormCase("normal_flux_triangle", _normal_flux("triangle", "RT"), "exterior_facet"),
        FormCase("normal_flux_quadrilateral", _normal_flux("quadrilateral", "RTCF"), "exterior_facet"),
        FormCase("traction_hexahedron", _boundary_traction(), "exterior_facet"),
    ]
    interior = [
        FormCase("penalty_interval", _interior_penalty("interval", 2), "interior_facet"),
        FormCase("penalty_triangle", _interior_penalty("triangle", 2), "interior_facet"),
        FormCase("penalty_quadrilateral", _interior_penalty("quadrilateral", 2), "interior_facet"),
        FormCase("penalty_tetrahedron", _interior_penalty("tetrahedron", 1), "interior_facet"),
        FormCase("penalty_hexahedron", _interior_penalty("hexahedron", 1), "interior_facet"),
        FormCase("upwind_triangle", _upwind("triangle"), "interior_facet"),
        FormCase("vector_jump_quadrilateral", _vector_jump("quadrilateral"), "interior_facet"),
        FormCase("normal_trace_jump_triangle", _normal_trace_jump("triangle", "RT"), "interior_facet"),
        FormCase("normal_trace_jump_quadrilateral", _normal_trace_jump("quadrilateral", "RTCF"), "interior_facet"),
        FormCase("facet_derivative_triangle", _facet_derivative("triangle"), "interior_facet"),
        FormCase("hessian_jump_quadrilateral", _hessian_jump("quadrilateral"), "interior_facet"),
        FormCase("cell_sizes_triangle", _cell_sizes("triangle"), "interior_facet"),
        FormCase("cell_sizes_tetrahedron", _cell_sizes("tetrahedron"), "interior_facet"),
    ]
    return exterior + interior
