"""Forms that vanish keep their shape; what is not there costs nothing."""

from __future__ import annotations

import logging

import basix.ufl
import numpy as np
import pytest
import ufl
from checking import arguments, coefficient, mesh, refused, space

import formcompiler

CORNERS = {"triangle": [[0, 0], [1, 0], [0, 1]], "quadrilateral": [[0, 0], [1, 0], [0, 1], [1, 1]]}


@pytest.mark.parametrize("cell", CORNERS)
@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("scalar_type", ["float64", "complex64"])
def test_a_form_that_vanishes_gives_zeros_of_its_shape_and_says_so(cell, rank, scalar_type, caplog):
    domain = mesh(cell)
    u, v = arguments(space(domain, "DG", 0))
    f = coefficient(domain, "DG", 0)
    hidden = ufl.transpose(ufl.as_tensor([[0, 0], [0, 1]]))[0, 0]
    integrand = [hidden * f, ufl.conj(hidden * v), ufl.inner(ufl.grad(u), ufl.grad(v))][rank]
    caplog.set_level(logging.INFO, logger="formcompiler")
    compiled = formcompiler.compile_form(integrand * ufl.dx, scalar_type=scalar_type)
    found = compiled.tabulate_tensor("cell", None, CORNERS[cell], coefficients={f: [1.0]})
    assert np.shape(found) == (1,) * rank and not np.any(found)
    assert np.asarray(found).dtype == scalar_type
    assert "cell integral vanishes" in caplog.text


def test_integrals_that_a_derivative_removes_have_no_kernel():
    domain = mesh("triangle")
    V = space(domain)
    f, v, du = ufl.Coefficient(V), ufl.TestFunction(V), ufl.TrialFunction(V)
    residual = f**2 * v * ufl.dx + v * ufl.ds + ufl.avg(v) * ufl.dS
    jacobian = formcompiler.compile_form(ufl.derivative(residual, f, du))
    assert [i.integral_type for i in jacobian.integrals] == ["cell"]
    data = {"coefficients": {f: np.ones(3)}, "local_facet": 0}
    found = jacobian.tabulate_tensor("exterior_facet", None, CORNERS["triangle"], **data)
    assert np.array_equal(found, np.zeros((3, 3)))


def test_forms_that_are_zero_before_they_are_compiled_are_refused_with_what_to_write():
    domain = mesh("triangle")
    v = ufl.TestFunction(space(domain))
    refused(0 * v * ufl.dx(domain=domain), "all of its terms are zero.*a Constant that is set to 0")
    refused(ufl.Form([]), "the form is empty")


def stokes(cell, degree, coupled):
    domain = mesh(cell)
    dim = domain.geometric_dimension
    velocity = basix.ufl.element("Lagrange", cell, degree, shape=(dim,))
    W = ufl.FunctionSpace(domain, basix.ufl.mixed_element([velocity, basix.ufl.element("Lagrange", cell, 1)]))
    (u, p), (v, q) = ufl.TrialFunctions(W), ufl.TestFunctions(W)
    form = ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx(degree=2)
    return form + (2 * p * q - 2 * p * q) * ufl.dx(degree=2) if coupled else form


@pytest.mark.parametrize("cell", ["triangle", "quadrilateral", "tetrahedron"])
def test_empty_blocks_of_a_system_cost_nothing(cell):
    """The velocity alone, in its own space and as part of a system, takes the same operations."""
    alone = space(mesh(cell), "Lagrange", 2, shape=(mesh(cell).geometric_dimension,))
    u, v = arguments(alone)
    wanted = formcompiler.compile_form(ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx(degree=2)).integrals[0].flops
    found = formcompiler.compile_form(stokes(cell, 2, False)).integrals[0].flops
    assert found <= 1.01 * wanted
    assert formcompiler.compile_form(stokes(cell, 2, True)).integrals[0].flops <= 1.01 * wanted


def test_terms_that_cancel_leave_no_operations():
    domain = mesh("triangle")
    u, v = arguments(space(domain, "Lagrange", 2))
    base = formcompiler.compile_form(u * v * ufl.dx(degree=4)).integrals[0].flops
    more = formcompiler.compile_form((u * v + 0 * u.dx(0) * v.dx(1)) * ufl.dx(degree=4)).integrals[0].flops
    assert more == base
