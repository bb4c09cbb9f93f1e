"""Linear elasticity -div sigma(u) = f: a square block, held at the left, with given tractions on its other sides.

The picture shows the length of the displacement.

    formcompiler run demo/elasticity.py --refine 3
"""

import basix.ufl
from ufl import (
    Coefficient,
    Constant,
    FacetNormal,
    FunctionSpace,
    Identity,
    Mesh,
    SpatialCoordinate,
    TestFunction,
    as_vector,
    cos,
    div,
    dot,
    ds,
    dx,
    grad,
    inner,
    sin,
    sym,
    tr,
)

from formcompiler import Box, Dirichlet, Problem

cell, degree = "quadrilateral", 2
left, right, bottom, top = 1, 2, 3, 4  # the facet tags of a Box

mesh = Mesh(basix.ufl.element("Lagrange", cell, 1, shape=(2,)))
V = FunctionSpace(mesh, basix.ufl.element("Lagrange", cell, degree, shape=(2,)))
u, v = Coefficient(V), TestFunction(V)
lmbda, mu = Constant(mesh), Constant(mesh)


def sigma(w):
    """Return the stress of a displacement."""
    return lmbda * tr(grad(w)) * Identity(2) + 2 * mu * sym(grad(w))


x, n = SpatialCoordinate(mesh), FacetNormal(mesh)
exact = as_vector([sin(x[0]) * cos(2 * x[1]), (1 - cos(2 * x[0])) * (1 + x[1] ** 2)])
f = -div(sigma(exact))
traction = dot(sigma(exact), n)

F = inner(sigma(u), sym(grad(v))) * dx - inner(f, v) * dx - inner(traction, v) * ds((right, bottom, top))

problem = Problem(
    F,
    u,
    dirichlet=Dirichlet((0, 0), where=left),
    constants={lmbda: 2.0, mu: 1.0},
    exact=exact,
    mesh=Box(8),
    title="Linear elasticity",
)
