"""The Poisson equation with discontinuous functions: the symmetric interior penalty Galerkin method (SIPG).

Nothing is imposed strongly: jumps between cells, and the distance to the boundary values, are penalized by integrals
over interior facets (dS) and boundary facets (ds).

    formcompiler run demo/sipg.py --refine 3
"""

import basix.ufl
from ufl import (
    CellDiameter,
    Coefficient,
    FacetNormal,
    FunctionSpace,
    Mesh,
    SpatialCoordinate,
    TestFunction,
    avg,
    cos,
    div,
    dS,
    ds,
    dx,
    grad,
    inner,
    jump,
    pi,
    sin,
)

from formcompiler import Box, Problem

cell, degree = "quadrilateral", 2

mesh = Mesh(basix.ufl.element("Lagrange", cell, 1, shape=(2,)))
V = FunctionSpace(mesh, basix.ufl.element("Discontinuous Lagrange", cell, degree))
u, v = Coefficient(V), TestFunction(V)

x, n = SpatialCoordinate(mesh), FacetNormal(mesh)
exact = sin(pi * x[0]) * cos(pi * x[1]) + x[0]
f = -div(grad(exact))

# Large enough to outweigh the products of gradients and jumps below, or else the matrix is not positive definite.
penalty = 6 * degree * (degree + 1) / CellDiameter(mesh)

F = inner(grad(u), grad(v)) * dx - f * v * dx(degree=2 * degree + 2)
F += avg(penalty) * inner(jump(u), jump(v)) * dS
F -= (inner(avg(grad(u)), jump(v, n)) + inner(jump(u, n), avg(grad(v)))) * dS
F += penalty * (u - exact) * v * ds
F -= (inner(grad(u), n) * v + (u - exact) * inner(grad(v), n)) * ds

problem = Problem(F, u, exact=exact, mesh=Box(8), title="Poisson equation, interior penalty method")
