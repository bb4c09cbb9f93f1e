"""Block systems: arguments in parts, derivatives by several coefficients, and real numbers among the unknowns."""

from __future__ import annotations

import basix.ufl
import numpy as np
import pytest
import ufl
from checking import agree, agree_both, mesh, refused, space, tensor

import formcompiler
from formcompiler.formfile import load_form_file
from formcompiler.frontend.operators import plan_operators

CORNERS = [[0, 0], [1, 0.1], [0.3, 1]]


def stokes():
    """Return a form on a space of velocities, pressures and one real number, its blocks' sizes and its load."""
    domain = mesh("triangle")
    velocities = space(domain, "Lagrange", 2, shape=(2,))
    numbers = ufl.FunctionSpace(domain, basix.ufl.real_element("triangle"))
    W = ufl.MixedFunctionSpace(velocities, space(domain), numbers)
    (u, p, r), (v, q, s) = ufl.TrialFunctions(W), ufl.TestFunctions(W)
    form = (ufl.inner(ufl.grad(u), ufl.grad(v)) - p * ufl.div(v) - 2 * q * ufl.div(u) + p * s + 3 * q * r) * ufl.dx
    return form + 5 * r * s * ufl.ds, (12, 3, 1), v[0] * ufl.dx + q * ufl.dx + s * ufl.dx


def test_parts_of_arguments_are_blocks_of_the_element_matrix():
    form, sizes, load = stokes()
    whole = tensor(form, CORNERS)
    ends = np.cumsum(sizes)
    for row, blocks in enumerate(ufl.extract_blocks(form)):
        for column, block in enumerate(blocks):
            rows, columns = (slice(ends[k] - sizes[k], ends[k]) for k in (row, column))
            wanted = np.zeros((sizes[row], sizes[column])) if block is None else tensor(block, CORNERS)
            np.testing.assert_allclose(whole[rows, columns], wanted, atol=1e-14)
    agree({"form": form, "load": load})


def test_one_part_of_each_argument_is_a_block_of_its_own():
    form = stokes()[0]
    kept = ufl.extract_blocks(form, 0, 1, replace_argument=False)
    np.testing.assert_allclose(tensor(kept, CORNERS), tensor(form, CORNERS)[:12, 12:15], atol=1e-14)


def test_parts_that_are_missing_are_refused():
    domain = mesh("triangle")
    W = ufl.MixedFunctionSpace(space(domain), space(domain), space(domain))
    first, _, third = ufl.TestFunctions(W)
    refused((first + third) * ufl.dx, "parts 0, 2 of the test function.*Use all parts, or compile each block")


def test_parts_on_several_meshes_are_refused():
    domain = mesh("triangle")
    W = ufl.MixedFunctionSpace(space(domain), space(mesh("triangle")))
    first, second = ufl.TestFunctions(W)
    refused(first * ufl.dx(domain) + second * ufl.dx(domain), "live on 2 meshes")


def test_derivatives_by_several_coefficients_are_those_by_each():
    domain = mesh("triangle")
    V = space(domain, "Lagrange", 2)
    f, g, v = ufl.Coefficient(V), ufl.Coefficient(space(domain)), ufl.TestFunction(V)
    energy = f**2 * g * ufl.dx
    gradient = ufl.derivative(energy, (f, g))
    agree({"gradient": gradient, "second": ufl.derivative(gradient, (f, g))})
    data = {"coefficients": {f: np.arange(6.0), g: np.array([2.0, -1.0, 3.0])}}
    slope = tensor(ufl.derivative(energy, f, v), CORNERS, **data)
    np.testing.assert_allclose(tensor(gradient, CORNERS, **data)[:6], slope, rtol=1e-12)


def mean_value_forms(cell):
    """Return a residual with a real number that fixes the mean of the solution, and its derivative."""
    domain = mesh(cell)
    element = formcompiler.mixed_element([basix.ufl.element("Lagrange", cell, 2), basix.ufl.real_element(cell, (2,))])
    w, test = ufl.Coefficient(ufl.FunctionSpace(domain, element)), ufl.TestFunction(ufl.FunctionSpace(domain, element))
    (u, c), (v, d) = ufl.split(w), ufl.split(test)
    residual = (ufl.inner(ufl.grad(u), ufl.grad(v)) + c[0] * v + u**2 * d[0] + c[1] * d[1]) * ufl.dx
    residual += ufl.avg(u) * c[1]("+") * d[0]("-") * ufl.dS
    return {"residual": residual, "jacobian": ufl.derivative(residual, w)}


@pytest.mark.parametrize("cell", ["triangle", "quadrilateral"])
def test_real_numbers_are_parts_of_mixed_elements(cell):
    agree_both(mean_value_forms(cell))


def test_a_multiplier_fixes_the_mean_of_a_solution(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "neumann.py"
    path.write_text(
        """
import basix.ufl
from ufl import *
import formcompiler
mesh = Mesh(basix.ufl.element("Lagrange", "triangle", 1, shape=(2,)))
parts = [basix.ufl.element("Lagrange", "triangle", 2), basix.ufl.real_element("triangle")]
W = FunctionSpace(mesh, formcompiler.mixed_element(parts))
w = Coefficient(W)
(u, c), (v, d), x = split(w), TestFunctions(W), SpatialCoordinate(mesh)
exact = cos(pi * x[0]) * cos(pi * x[1])
F = (inner(grad(u), grad(v)) + c * v + u * d - 2 * pi**2 * exact * v) * dx
problem = formcompiler.Problem(F, w, exact=(exact, 0.0))
""",
        encoding="utf-8",
    )
    from formcompiler.driver import run_file
    from formcompiler.options import Options

    result = run_file(load_form_file(path), 1, tmp_path, Options())
    solution, multiplier = result.rows[-1].errors
    assert solution.l2 < 1e-3 and multiplier.l2 < 1e-10


def test_operators_take_arguments_in_parts():
    form, sizes, load = stokes()
    (operator,) = plan_operators("stokes", [("a", form), ("L", load)], {})
    assert operator.trial_element.dim == sum(sizes)
    assert list(operator.forms) == ["residual", "load", "jacobian"]
    agree(dict(operator.forms))
