"""The Poisson equation -div grad u = f on the unit square, u given on the boundary.

The first command solves it on finer and finer meshes, the second writes a C++ header.

    formcompiler run demo/poisson.py --refine 3
    formcompiler compile demo/poisson.py -o results
"""

from math import prod

import basix.ufl
from ufl import Coefficient, FunctionSpace, Mesh, SpatialCoordinate, TestFunction, cos, div, dx, grad, inner, pi

from formcompiler import Box, Dirichlet, Problem

cell, dim, degree = "quadrilateral", 2, 2

mesh = Mesh(basix.ufl.element("Lagrange", cell, 1, shape=(dim,)))
V = FunctionSpace(mesh, basix.ufl.element("Lagrange", cell, degree))
u, v = Coefficient(V), TestFunction(V)

x = SpatialCoordinate(mesh)
exact = prod(cos(pi * x[i] - i - 1) for i in range(dim))
f = -div(grad(exact))

F = inner(grad(u), grad(v)) * dx - f * v * dx(degree=2 * degree + 2)

problem = Problem(F, u, dirichlet=[Dirichlet(exact)], exact=exact, mesh=Box(8), title="Poisson equation")
