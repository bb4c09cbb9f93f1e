"""Derivatives with respect to the position of the mesh against the formulas of shape calculus.

A mesh moves with a velocity v. What is made of nodes and dofs changes by these rules: volumes by div v, areas of facets
by its part along the facet, gradients of Lagrange functions by -(grad v)^T grad u, functions of H(curl) by
-(grad v)^T q, functions of H(div) by (grad v) q - (div v) q, and the normal by -(grad v)^T n plus what keeps its
length.
"""

from __future__ import annotations

import numpy as np
import pytest
import ufl
from checking import coefficient, mesh, refused, space
from oracles.case import FormCase
from ufl import Identity, derivative, div, dot, grad, inner

import formcompiler
from formcompiler.reference import element_tensor
from formcompiler.verify import tolerance

FLAT = [("triangle", 1), ("triangle", 2), ("quadrilateral", 1), *(("tetrahedron", 1), ("hexahedron", 1))]
SLOW = ("tetrahedron", "hexahedron", "prism")
PIOLA = {
    "triangle": ("N1curl", "RT"),
    "quadrilateral": ("RTCE", "RTCF"),
    "tetrahedron": ("N1curl", "RT"),
    "hexahedron": ("NCE", "NCF"),
}


def marked(settings):
    return [pytest.param(*s, marks=[pytest.mark.slow] * (s[0] in SLOW), id="-".join(map(str, s))) for s in settings]


class Setting:
    """A mesh with velocities v and w, a function u that moves with it, and measures."""

    def __init__(self, cell, degree, gdim=None):
        self.domain = mesh(cell, degree, gdim)
        V = ufl.FunctionSpace(self.domain, self.domain.ufl_coordinate_element())
        self.v, self.w = ufl.TestFunction(V), ufl.TrialFunction(V)
        self.x, self.n = ufl.SpatialCoordinate(self.domain), ufl.FacetNormal(self.domain)
        self.u = coefficient(self.domain, "Lagrange", 2 if cell != "prism" else 1)
        self.dx, self.ds, self.dS = (m(domain=self.domain, degree=6) for m in (ufl.dx, ufl.ds, ufl.dS))

    def change(self, form, velocity=None):
        return derivative(form, self.x, self.v if velocity is None else velocity)

    def stretch(self, velocity):
        """Return the rate at which areas of facets grow."""
        return div(velocity) - dot(self.n, dot(grad(velocity), self.n))


def equal(pairs, kind="cell"):
    """Check that kernels of shape derivatives equal dense assembly of formulas, on a random cell."""
    for name, (shape, formula) in pairs.items():
        data = FormCase(name, formula, kind, low=0.3, high=1.2).make_data()
        found = formcompiler.compile_form(shape).tabulate_tensor(**data)
        wanted = element_tensor(formula, **data)
        assert np.abs(found - wanted).max() < tolerance("float64") * max(np.abs(wanted).max(), 0.01), name


def integrals_over_cells(s):
    """Return shape derivatives and formulas for a volume, a load, a mass and an energy."""
    x, u, end = s.x, s.u, len(s.x) - 1
    load = x[0] ** 2 + x[end] * x[0]
    slope = (2 * x[0] + x[end]) * ufl.unit_vector(0, len(x)) + x[0] * ufl.unit_vector(end, len(x))
    size, strain = inner(grad(u), grad(u)), grad(s.v)
    return {
        "volume": (s.change(ufl.as_ufl(1.0) * s.dx), div(s.v) * s.dx),
        "load": (s.change(load * s.dx), (load * div(s.v) + dot(slope, s.v)) * s.dx),
        "mass": (s.change(u**2 * s.dx), u**2 * div(s.v) * s.dx),
        "energy": (s.change(size * s.dx), (size * div(s.v) - 2 * dot(grad(u), dot(strain.T, grad(u)))) * s.dx),
    }


@pytest.mark.parametrize(
    ("cell", "degree", "gdim"),
    marked(
        [
            *((cell, degree, None) for cell, degree in [("interval", 1), *FLAT, ("quadrilateral", 2), ("prism", 1)]),
            *(("interval", 1, 2), ("triangle", 1, 3), ("quadrilateral", 1, 3), ("triangle", 2, 3)),
        ]
    ),
)
def test_integrals_over_cells_change_by_divergence_and_strain(cell, degree, gdim):
    equal(integrals_over_cells(Setting(cell, degree, gdim)))


@pytest.mark.parametrize(("cell", "degree"), marked(FLAT))
def test_second_derivatives_of_volume_and_energy(cell, degree):
    s = Setting(cell, degree)
    V, W, g = grad(s.v), grad(s.w), grad(s.u)
    growth = div(s.v) * div(s.w) - inner(V, W.T)
    bend = dot(dot(V.T, g), dot(W.T, g)) + dot(g, dot(dot(V.T, W.T) + dot(W.T, V.T), g))
    cross = div(s.v) * dot(g, dot(W.T, g)) + div(s.w) * dot(g, dot(V.T, g))
    volume, energy = ufl.as_ufl(1.0) * s.dx, inner(g, g) * s.dx
    equal(
        {
            "volume": (s.change(s.change(volume), s.w), growth * s.dx),
            "energy": (s.change(s.change(energy), s.w), (inner(g, g) * growth - 2 * cross + 2 * bend) * s.dx),
        }
    )


def test_second_derivative_of_the_area_of_a_surface():
    s = Setting("triangle", 1, 3)
    V, W = grad(s.v), grad(s.w)
    normal = Identity(3) - dot(ufl.Jacobian(s.domain), ufl.JacobianInverse(s.domain))
    growth = div(s.v) * div(s.w) - inner(V, W.T) + inner(dot(normal, V), dot(normal, W))
    equal({"area": (s.change(s.change(ufl.as_ufl(1.0) * s.dx), s.w), growth * s.dx)})


@pytest.mark.parametrize(("cell", "degree"), marked(FLAT))
def test_integrals_over_facets_change_by_what_lies_in_the_facet(cell, degree):
    s = Setting(cell, degree)
    V, n, u = grad(s.v), s.n, s.u
    turn = n * dot(n, dot(V, n)) - dot(V.T, n)
    flux, load = dot(grad(u), n), u * dot(s.x, n)
    change = dot(grad(u), turn) - dot(dot(V.T, grad(u)), n)
    moved = u * (dot(s.v, n) + dot(s.x, turn))
    equal(
        {
            "area": (s.change(ufl.as_ufl(1.0) * s.ds), s.stretch(s.v) * s.ds),
            "load": (s.change(load * s.ds), (load * s.stretch(s.v) + moved) * s.ds),
            "flux": (s.change(flux**2 * s.ds), (flux**2 * s.stretch(s.v) + 2 * flux * change) * s.ds),
        },
        "exterior_facet",
    )
    jump = ufl.jump(u) ** 2
    if degree == 1:
        equal({"jump": (s.change(jump * s.dS), jump * s.stretch(s.v)("+") * s.dS)}, "interior_facet")


@pytest.mark.parametrize(("cell", "degree"), marked(FLAT))
def test_second_derivative_of_the_area_of_a_facet(cell, degree):
    s = Setting(cell, degree)
    along = Identity(len(s.n)) - ufl.outer(s.n, s.n)
    V, W = dot(grad(s.v), along), dot(grad(s.w), along)
    growth = s.stretch(s.v) * s.stretch(s.w) - inner(dot(along, V), dot(along, W).T) + dot(dot(s.n, V), dot(s.n, W))
    equal({"area": (s.change(s.change(ufl.as_ufl(1.0) * s.ds), s.w), growth * s.ds)}, "exterior_facet")


@pytest.mark.parametrize(("cell", "degree"), marked(FLAT))
def test_circulations_and_fluxes_are_carried_along(cell, degree):
    s = Setting(cell, degree)
    V = grad(s.v)
    q, r = (coefficient(s.domain, family, 1) for family in PIOLA[cell])
    equal(
        {
            "circulation": (s.change(dot(q, q) * s.dx), (dot(q, q) * div(s.v) - 2 * dot(q, dot(V.T, q))) * s.dx),
            "flux": (s.change(dot(r, r) * s.dx), (2 * dot(r, dot(V, r)) - dot(r, r) * div(s.v)) * s.dx),
        }
    )
    through = s.u * dot(r, s.n) * s.ds
    data = FormCase("through", through, "exterior_facet").make_data()
    change = formcompiler.compile_form(s.change(through)).tabulate_tensor(**data)
    assert np.abs(change).max() < 1e-12, "what flows through a facet stays the same"


@pytest.mark.parametrize(("cell", "degree"), marked(FLAT[:3]))
def test_derivatives_by_functions_and_by_the_mesh_mix(cell, degree):
    s = Setting(cell, degree)
    test, trial = ufl.TestFunction(s.u.ufl_function_space()), ufl.TrialFunction(s.u.ufl_function_space())
    energy = inner(grad(s.u), grad(s.u)) * s.dx

    def change(function, velocity):
        strain = 2 * ufl.sym(grad(velocity))
        return (
            2 * (inner(grad(s.u), grad(function)) * div(velocity) - dot(grad(function), dot(strain, grad(s.u)))) * s.dx
        )

    equal(
        {
            "residual": (s.change(derivative(energy, s.u, test), s.w), change(test, s.w)),
            "gradient": (derivative(s.change(energy), s.u, trial), change(trial, s.v)),
        }
    )


def test_derivatives_of_the_jacobian_are_refused_where_there_is_no_rule():
    s = Setting("quadrilateral", 1)
    flux = ufl.Coefficient(space(s.domain, "RTCF", 1))
    for form in (div(flux) ** 2 * s.dx, grad(grad(s.u))[0, 0] * s.dx):
        refused(s.change(form), "second derivatives, and of derivatives of .* functions, is known on affine cells only")
