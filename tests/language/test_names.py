"""Names in C++, forms of hundreds of functions, and the same text in every run."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
import time

import basix.ufl
import numpy as np
import pytest
import ufl
from checking import coefficient, mesh, space, tensor

import formcompiler
from formcompiler.errors import UnsupportedFormError

PROGRAM = textwrap.dedent(
    """
    import sys
    import basix.ufl, ufl, formcompiler
    for _ in range(int(sys.argv[1])):
        other = ufl.Mesh(basix.ufl.element("Lagrange", "interval", 1, shape=(1,)))
        ufl.Constant(other), ufl.Coefficient(ufl.FunctionSpace(other, basix.ufl.element("DG", "interval", 0)))
        ufl.indices(3), ufl.variable(ufl.SpatialCoordinate(other)[0])
    mesh = ufl.Mesh(basix.ufl.element("Lagrange", "quadrilateral", 1, shape=(2,)))
    V = ufl.FunctionSpace(mesh, basix.ufl.element("Lagrange", "quadrilateral", 2, shape=(2,)))
    u, v, du = ufl.Coefficient(V), ufl.TestFunction(V), ufl.TrialFunction(V)
    mu, lam, b = ufl.Constant(mesh), ufl.Constant(mesh), ufl.Constant(mesh, shape=(2,))
    F = ufl.variable(ufl.Identity(2) + ufl.grad(u))
    psi = mu * ufl.inner(F, F) + lam * ufl.ln(ufl.det(F)) ** 2
    i, j = ufl.indices(2)
    R = ufl.inner(ufl.diff(psi, F), ufl.grad(v)) * ufl.dx(degree=3) + u[i] * v[i] * ufl.ds
    R += b[i] * v[i] * ufl.dx((3, 1))
    R += ufl.cell_avg(u[0]) * v[1] * ufl.dx
    R += ufl.avg(ufl.CellVolume(mesh)) * ufl.jump(u)[0] * ufl.avg(v)[1] * ufl.dS
    print(formcompiler.compile_form(ufl.derivative(R, u, du)).source)
    print(formcompiler.compile_form(R, vectorize="cells").source)
    """
)


def run(offset, seed):
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    command = [sys.executable, "-c", PROGRAM, str(offset)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_the_text_does_not_depend_on_the_process_nor_on_what_was_made_before():
    texts = [run(*arguments) for arguments in ((0, 0), (7, 1), (23, 12345))]
    digests = {hashlib.sha256(text.encode()).hexdigest() for text in texts}
    assert len(digests) == 1 and len(texts[0]) > 1000


def test_names_that_cpp_reserves_and_foreign_letters_become_identifiers():
    line = mesh("interval")
    words = ["double", "A", "facet", "coordinate_dofs", "λ", "ü", "M_PI", "two words", "q0", "weight", "x_0", "w-1", ""]
    functions = [coefficient(line, "DG", 0) for _ in words]
    constant = ufl.Constant(line)
    names = {id(f): word for f, word in zip(functions, words, strict=True)} | {id(constant): "double"}
    form = sum((2.0**i * f for i, f in enumerate(functions)), constant) * ufl.dx
    compiled = formcompiler.compile_form(form, names=names)
    data = {f: [1.0] for f in functions}
    value = compiled.tabulate_tensor("cell", None, [[0], [1]], coefficients=data, constants={constant: 1.0})
    assert value == 2.0 ** len(words)


@pytest.mark.parametrize("n", [500])
def test_forms_of_hundreds_of_functions_compile_in_seconds(n):
    line = mesh("triangle")
    functions = [coefficient(line) for _ in range(n)]
    v = ufl.TestFunction(space(line))
    start = time.process_time()
    form = formcompiler.compile_form(sum(ufl.sin(f) for f in functions) * v * ufl.dx(degree=1))
    assert time.process_time() - start < 20
    corners = [[0, 0], [1, 0], [0, 1]]
    found = form.tabulate_tensor("cell", None, corners, coefficients={f: np.ones(3) for f in functions})
    assert np.allclose(found, n * np.sin(1) / 6)


def test_a_form_and_an_equal_one_get_the_same_text():
    domain = mesh("hexahedron")
    u, v = ufl.TrialFunction(space(domain)), ufl.TestFunction(space(domain))
    texts = [formcompiler.compile_form(ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx).source for _ in range(2)]
    assert texts[0] == texts[1]


def test_the_user_s_form_stays_as_it_is():
    domain = mesh("triangle", 2, 3)
    f = coefficient(domain)
    form = ufl.div(ufl.SpatialCoordinate(domain)) ** f * ufl.dx(degree=2)
    before = repr(form), form.signature()
    tensor(form, np.random.default_rng(0).random((6, 3)), coefficients={f: np.ones(3)})
    formcompiler.compile_form(form, scalar_type="complex128")
    assert (repr(form), form.signature()) == before


def test_refusals_call_functions_by_the_names_of_the_user():
    domain = mesh("triangle")
    pressure, flux = coefficient(domain, "DG", 1), coefficient(domain)
    test = ufl.TestFunction(space(domain))
    names = {id(pressure): "pressure", id(flux): "flux", id(test): "q"}
    with pytest.raises(UnsupportedFormError, match=r"must be restricted.*without a restriction here: pressure\)"):
        formcompiler.compile_form(pressure * flux * ufl.avg(test) * ufl.dS, names=names)
    other = coefficient(ufl.Mesh(basix.ufl.element("Lagrange", "triangle", 1, shape=(2,)), ufl_id=9137))
    with pytest.raises(UnsupportedFormError, match=r"^tracer is defined on another mesh"):
        formcompiler.compile_form(other * test * ufl.dx(domain=domain), names={id(other): "tracer"})
    with pytest.raises(UnsupportedFormError, match="depending on form argument q"):
        formcompiler.compile_form(test**2 * flux * ufl.dx, names=names)
