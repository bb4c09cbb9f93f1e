"""Generated operators in C++, called as an assembler calls them, against element tensors in Python."""

from typing import Any

import numpy as np
import pytest
import stub_harness as stub
import ufl

CELLS = {"interval": 1, "triangle": 2, "quadrilateral": 2, "tetrahedron": 3, "hexahedron": 3}
WEIGHT = 0.7


def mesh(cell: str) -> str:
    return f'mesh = Mesh(basix.ufl.element("P", "{cell}", 1, shape=({CELLS[cell]},)))\n'


POISSON = (
    mesh("triangle")
    + """
V = FunctionSpace(mesh, basix.ufl.element("P", "triangle", 2))
u, v = TrialFunction(V), TestFunction(V)
f = Coefficient(V)
kappa = Constant(mesh)
a = kappa * inner(grad(u), grad(v)) * dx
L = f * v * dx
"""
)


def random_vector(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, n)


def test_poisson_pair_has_the_residual_a_minus_load() -> None:
    driver = stub.build("poisson", POISSON, constants=(("kappa", 2.5),), coefficients=("f",))
    corners = stub.random_cell("triangle", 1)
    f, x, z = (random_vector(6, seed) for seed in (2, 3, 4))
    found = driver.run(["volume", WEIGHT, -1, corners, f, x, z])
    V = driver.trial
    matrix = stub.tabulate(driver["a"], "cell", None, corners, constants={driver["kappa"]: 2.5})
    matrix = stub.to_dune(V, matrix, (0, 1))
    load = stub.tabulate(driver["L"], "cell", None, corners, coefficients={driver["f"]: stub.from_dune(V, f)})
    assert np.allclose(found["jacobian"].reshape(6, 6), WEIGHT * matrix, atol=1e-13)
    assert np.allclose(found["alpha"], WEIGHT * matrix @ x, atol=1e-13)
    assert np.allclose(found["apply"], WEIGHT * matrix @ z, atol=1e-13)
    assert np.allclose(found["lambda"], -WEIGHT * stub.to_dune(V, load), atol=1e-13)
    assert found["pattern"] == [36]
