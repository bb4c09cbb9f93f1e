"""Stokes flow -div grad u + grad p = 0, div u = 0 in a square where two streams collide, by Taylor-Hood elements.

The velocity is given on three sides. On the fourth, the force on the fluid is given, which fixes the pressure.

    formcompiler run demo/stokes.py --refine 3
"""

import basix.ufl
from ufl import (
    Coefficient,
    FacetNormal,
    FunctionSpace,
    Mesh,
    SpatialCoordinate,
    TestFunctions,
    as_vector,
    div,
    dot,
    ds,
    dx,
    grad,
    inner,
    split,
)

from formcompiler import Box, Dirichlet, Problem

cell, degree = "triangle", 2  # the degree of the velocity; that of the pressure is one less
left, right, bottom, top = 1, 2, 3, 4  # the facet tags of a Box

mesh = Mesh(basix.ufl.element("Lagrange", cell, 1, shape=(2,)))
velocities = basix.ufl.element("Lagrange", cell, degree, shape=(2,))
pressures = basix.ufl.element("Lagrange", cell, degree - 1)
W = FunctionSpace(mesh, basix.ufl.mixed_element([velocities, pressures]))
w = Coefficient(W)
(u, p), (v, q) = split(w), TestFunctions(W)

(x, y), n = SpatialCoordinate(mesh), FacetNormal(mesh)
exact_u = as_vector([20 * x * y**3, 5 * x**4 - 5 * y**4])
exact_p = 60 * x**2 * y - 20 * y**3
force = dot(grad(exact_u), n) - exact_p * n

F = (inner(grad(u), grad(v)) - p * div(v) - q * div(u)) * dx - inner(force, v) * ds(right)

problem = Problem(
    F,
    w,
    dirichlet=Dirichlet(exact_u, where=(left, bottom, top), component=0),
    exact=(exact_u, exact_p),
    mesh=Box(8, lower=-1, upper=1),
    title="Stokes flow: velocity and pressure",
)
