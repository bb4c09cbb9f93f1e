"""The comparison of kernels with dense assembly that users can ask for: what it finds, and what it says."""

from __future__ import annotations

import dataclasses

import basix
import basix.ufl
import numpy as np
import pytest
import ufl
from checking import coefficient, mesh, space

import formcompiler
from formcompiler import verify
from formcompiler.cli import main
from formcompiler.elements.cells import dimension
from formcompiler.errors import VerificationError
from formcompiler.verify import tolerance, verify_compiled, verify_form

POISSON = """
import basix.ufl, ufl
mesh = ufl.Mesh(basix.ufl.element("Lagrange", "quadrilateral", 1, shape=(2,)))
V = ufl.FunctionSpace(mesh, basix.ufl.element("Lagrange", "quadrilateral", 2))
u, v, f = ufl.TrialFunction(V), ufl.TestFunction(V), ufl.Coefficient(V)
a = ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx
L = f * v * ufl.dx + f * v * ufl.ds(3)
forms = [a, L]
"""


@pytest.fixture
def form_file(tmp_path):
    path = tmp_path / "poisson.py"
    path.write_text(POISSON)
    return path


def residual(cell="triangle"):
    domain = mesh(cell)
    f, v = coefficient(domain, "Lagrange", 2), ufl.TestFunction(space(domain))
    return ufl.exp(f) * v * ufl.dx(degree=3) + f * v * ufl.ds((1, 4)) + ufl.avg(f) * ufl.jump(v) * ufl.dS


@pytest.mark.parametrize("scalar_type", ["float32", "float64"])
def test_all_kernels_of_a_form_are_compared(scalar_type):
    found = verify_form(residual(), scalar_type=scalar_type)
    assert [f.integral.integral_type for f in found] == ["cell", "exterior_facet", "interior_facet"]
    eps = float(np.finfo(scalar_type).eps)
    assert all(f.difference < tolerance(scalar_type) for f in found)
    assert max(f.difference for f in found) > eps / 100, "rounding shows that something was compared"
    assert tolerance(scalar_type) < 5000 * eps


@pytest.mark.parametrize("geometry", ["affine", "axis_parallel"])
@pytest.mark.parametrize("cell", ["interval", "quadrilateral", "hexahedron"])
def test_kernels_for_cells_of_one_kind_are_compared_on_such_cells(cell, geometry):
    found = verify_form(residual(cell), geometry=geometry)
    assert len(found) == 3 and all(f.difference < tolerance("float64") for f in found)


def test_a_kernel_of_another_form_is_found_out():
    domain = mesh("triangle")
    f, v = coefficient(domain), ufl.TestFunction(space(domain))
    right = formcompiler.compile_form(f * v * ufl.dx)
    wrong = formcompiler.compile_form((f + 1e-9) * v * ufl.dx)
    wrong.form = right.form
    ((_, difference),) = verify_compiled(wrong)
    assert 1e-11 < difference < 1e-7


def test_rounding_that_a_form_magnifies_is_no_error():
    domain = mesh("triangle")
    f = coefficient(domain)
    ((_, difference),) = verify_form((1e9 + f - 1e9) * f * ufl.dx, licm="off")  # else 1e9 - 1e9 is exact
    assert difference < tolerance("float64") * 1e4
    ((_, difference),) = verify_form(ufl.exp(40 * f) * ufl.cos(1e4 * f) * ufl.dx(degree=4))
    assert difference < tolerance("float64")


def test_a_form_without_an_oracle_is_not_comparable():
    domain = mesh("triangle")
    x = ufl.SpatialCoordinate(domain)
    moved = ufl.derivative(x[0] * ufl.dx, x, ufl.TestFunction(space(domain, shape=(2,))))
    ((_, difference),) = verify_form(moved)
    assert np.isnan(difference)
    ((_, difference),) = verify_form(ufl.ln(-1 - ufl.Constant(domain) ** 2) * ufl.dx)
    assert np.isnan(difference)


@pytest.mark.parametrize("command", ["compile", "report"])
def test_the_flag_tells_how_far_each_kernel_is(command, form_file, tmp_path, capsys):
    output = ["-o", str(tmp_path)] if command == "compile" else []
    assert main([command, str(form_file), "--verify", *output]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("verified: ")]
    assert any("exterior facet 3: differs from dense assembly by" in line for line in lines)
    assert all("rounding explains 4.4e-13" in line for line in lines)


def test_a_kernel_that_is_wrong_ends_the_command_with_status_2(form_file, monkeypatch, capsys):
    def lie(form, **options):
        return [verify.Verification(f.integral, 0.1) for f in verify_form(form, **options)]

    monkeypatch.setattr(verify, "verify_form", lie)
    assert main(["report", str(form_file), "--verify"]) == 2
    assert "differs from dense assembly by 1.0e-01, more than the 4.4e-13 that rounding" in capsys.readouterr().err


def test_the_error_names_the_kernel():
    (found, *_) = verify_form(residual("interval"))
    wrong = dataclasses.replace(found.integral), 1.0
    with pytest.raises(VerificationError, match=r"R residual, cell \('otherwise',\): the kernel differs"):
        verify.check_verified(verify.Verification(*wrong), "float64", "R residual")


@pytest.mark.parametrize(
    ("family", "cell", "options"),
    [
        ("S", "quadrilateral", {}),
        ("S", "hexahedron", {}),
        ("Lagrange", "triangle", {"lagrange_variant": basix.LagrangeVariant.bernstein}),
        ("Lagrange", "quadrilateral", {"lagrange_variant": basix.LagrangeVariant.legendre, "discontinuous": True}),
    ],
    ids=["serendipity", "serendipity-3D", "bernstein", "legendre"],
)
def test_cells_whose_geometry_is_not_given_by_nodes_are_compared(family, cell, options):
    shape = (dimension(cell),)
    domain = ufl.Mesh(basix.ufl.element(family, cell, 2, shape=shape, **options))
    f, v, x = coefficient(domain), ufl.TestFunction(space(domain)), ufl.SpatialCoordinate(domain)
    form = f * v * ufl.dx + x[0] * v * ufl.ds + ufl.avg(f) * ufl.avg(v) * ufl.dS
    found = verify_form(form + ufl.inner(x("+") - x("-"), x("+")) * v("+") * ufl.dS(degree=2))
    assert all(f.difference < tolerance("float64") for f in found)
