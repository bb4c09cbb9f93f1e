"""A large plate with a round hole, pulled at its ends: Kirsch's problem, on a mesh made with gmsh.

The stress at the edge of the hole is three times that far away. A quarter of the plate is enough, for it is symmetric.
demo/meshes/make_meshes.py makes the mesh and its tags.

    formcompiler run demo/plate_with_hole.py --refine 2
"""

from pathlib import Path

import basix.ufl
from ufl import (
    Coefficient,
    FacetNormal,
    FunctionSpace,
    Identity,
    Mesh,
    SpatialCoordinate,
    TestFunction,
    as_vector,
    dot,
    ds,
    dx,
    grad,
    inner,
    sqrt,
    sym,
    tr,
)

from formcompiler import Dirichlet, Problem

cell, degree = "triangle", 2
young, poisson, tension, radius = 10.0, 0.3, 1.0, 1.0
symmetry_y, right, top, symmetry_x, hole = 1, 2, 3, 4, 5  # the physical curves of the mesh

mesh = Mesh(basix.ufl.element("Lagrange", cell, 1, shape=(2,)))
V = FunctionSpace(mesh, basix.ufl.element("Lagrange", cell, degree, shape=(2,)))
u, v = Coefficient(V), TestFunction(V)
mu = young / (2 * (1 + poisson))
lmbda = 2 * mu * poisson / (1 - 2 * poisson)


def sigma(w):
    """Return the stress of a displacement in plane strain."""
    return lmbda * tr(grad(w)) * Identity(2) + 2 * mu * sym(grad(w))


def infinite_plate(x, y):
    """Return the displacement of an infinite plate that is pulled in direction x."""
    r, kappa = sqrt(x**2 + y**2), 3 - 4 * poisson
    c, s, q = x / r, y / r, radius / r
    c3, s3 = 4 * c**3 - 3 * c, 3 * s - 4 * s**3  # cosine and sine of three times the angle
    ux = (kappa + 1) * c / q + 2 * q * ((1 + kappa) * c + c3) - 2 * q**3 * c3
    uy = (kappa - 3) * s / q + 2 * q * ((1 - kappa) * s + s3) - 2 * q**3 * s3
    return tension * radius / (8 * mu) * as_vector([ux, uy])


n = FacetNormal(mesh)
exact = infinite_plate(*SpatialCoordinate(mesh))
traction = dot(sigma(exact), n)  # zero on the round hole, not quite on the edges of triangles along it

F = inner(sigma(u), sym(grad(v))) * dx - inner(traction, v) * ds((right, top, hole), degree=2 * degree + 2)

problem = Problem(
    F,
    u,
    dirichlet=[Dirichlet(0, where=symmetry_x, component=0), Dirichlet(0, where=symmetry_y, component=1)],
    exact=exact,
    mesh=Path(__file__).parent / "meshes" / "plate_with_hole.msh",
    title="Plate with a hole",
)
