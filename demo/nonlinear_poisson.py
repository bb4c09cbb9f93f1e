"""Heat conduction -div((1 + u²) grad u) = f, where the conductivity grows with the temperature.

The Jacobian is derived from the residual; Newton's method takes several steps, as the table shows.

    formcompiler run demo/nonlinear_poisson.py --refine 3
"""

import basix.ufl
from ufl import Coefficient, FunctionSpace, Mesh, SpatialCoordinate, TestFunction, div, dx, exp, grad, inner, pi, sin

from formcompiler import Box, Dirichlet, Problem

cell, degree = "triangle", 2

mesh = Mesh(basix.ufl.element("Lagrange", cell, 1, shape=(2,)))
V = FunctionSpace(mesh, basix.ufl.element("Lagrange", cell, degree))
u, v = Coefficient(V), TestFunction(V)


def conductivity(w):
    return 1 + w**2


x = SpatialCoordinate(mesh)
exact = exp(x[0]) * sin(pi * x[1])
f = -div(conductivity(exact) * grad(exact))

F = conductivity(u) * inner(grad(u), grad(v)) * dx - f * v * dx(degree=2 * degree + 2)

problem = Problem(F, u, dirichlet=Dirichlet(exact), exact=exact, mesh=Box(8), title="Heat conduction with (1 + u²)")
