"""Local operators with integrals over cut cells and interfaces: they ask their data for points and weights."""

from __future__ import annotations

import numpy as np
import pytest
import stub_harness as stub
import ufl

from formcompiler import compile_form

NITSCHE = """
mesh = Mesh(basix.ufl.element("Lagrange", "triangle", 1, shape=(2,)))
V = FunctionSpace(mesh, basix.ufl.element("Lagrange", "triangle", 2))
u, v, f = Coefficient(V), TestFunction(V), Coefficient(V)
n = grad(f) / sqrt(dot(grad(f), grad(f)))
residual = inner(grad(u), grad(v)) * dC((1, 2)) + (u**3 - dot(grad(u), n)) * v * dI + u * v * dx(5)
forms = [residual]
"""
RULES = (
    ("cutcell", 1, ((0.1, 0.2), (0.5, 0.25), (0.3, 0.6)), (0.1, 0.2, 0.05)),
    ("cutcell", 2, ((0.7, 0.1),), (0.125,)),
    ("interface", -1, ((0.25, 0.5), (0.5, 0.125)), (0.75, 1.5)),
)


@pytest.fixture(scope="module")
def driver():
    return stub.build("nitsche", NITSCHE, coefficients=("f",), rules=RULES)


def element_tensors(form, data, corners):
    """Return what all rules give together."""
    compiled = compile_form(form)
    parts = [compiled.tabulate_tensor("cell", 5, corners, **data)]
    for kind, number, points, weights in RULES:
        marker = None if number < 0 else number
        parts.append(compiled.tabulate_tensor(kind, marker, corners, points=points, weights=weights, **data))
    return sum(parts)


def test_operators_use_the_points_of_their_data(driver):
    rng = np.random.default_rng(2)
    corners = stub.random_cell("triangle", 3)
    x, z, f = (rng.uniform(0.2, 1.0, 6) for _ in range(3))
    found = driver.run(["volume", 1.0, 5, corners, f, x, z])
    u = driver["u"]
    data = {"coefficients": {u: stub.from_dune(driver.trial, x), driver["f"]: stub.from_dune(driver.trial, f)}}
    residual = element_tensors(driver["residual"], data, corners)
    jacobian = element_tensors(ufl.derivative(driver["residual"], u), data, corners)
    np.testing.assert_allclose(found["alpha"], stub.to_dune(driver.test, residual), atol=1e-12)
    wanted = stub.to_dune(driver.test, jacobian, (0, 1))
    np.testing.assert_allclose(found["jacobian"].reshape(6, 6), wanted, atol=1e-12)
    np.testing.assert_allclose(found["apply"], wanted @ z, atol=1e-12)


def test_the_class_says_what_it_asks_for(driver):
    words = " ".join(driver.header.replace("///", "").split())
    assert "weights that add up to the area of the interface in the cell" in words
    assert "give Nitsche a Data type with cutcell_rule" in words
    assert "residual_volume_interface_kernel" in words


def test_points_on_facets_leave_kernels_only():
    text = NITSCHE.replace("u * v * dx(5)", 'u * v * ds(metadata={"quadrature_rule": "runtime"})')
    (header,) = stub.write_headers("facet_points", text)
    words = " ".join(header.read_text().replace("///", "").split())
    assert "kernels only, no methods of a local operator: it has an integral over facets with quadrature_rule" in words
    assert "residual_boundary_runtime_kernel" in words
