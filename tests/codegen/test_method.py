"""The text of one function, on hand-written kernels."""

from __future__ import annotations

import re

import basix.ufl
import numpy as np
import pymbolic.primitives as prim
import pytest
import ufl
from ufl import grad, inner

import formcompiler
from formcompiler.codegen.method import emit_method
from formcompiler.errors import InternalCompilerError
from formcompiler.kernel.builder import KernelBuilder
from formcompiler.kernel.linearize import linearize


def _kernel():
    builder = KernelBuilder("scale", "float64", ["A", "x"])
    builder.argument("A", (3,), written=True)
    builder.argument("x", (3,))
    A, x = prim.Variable("A"), prim.Variable("x")
    with builder.loop("i", 3) as i:
        double = prim.Variable(builder.temporary("double_x"))
        builder.assign(double, 2.0 * x[i])
        builder.accumulate(A[i], double)
    return builder.build()


def test_values_that_are_set_once_are_constants_where_they_are_set() -> None:
    text = emit_method(linearize(_kernel()), (), "float64").text
    assert "static void scale(double* __restrict__ A, const double* __restrict__ x)" in text
    assert "for (int i = 0; i < 3; ++i) {" in text
    assert "const double double_x = 2.0 * x[i];" in text
    assert "A[i] += double_x;" in text


def test_predicates_are_refused_instead_of_being_left_out() -> None:
    t_unit = linearize(_kernel())
    kernel = t_unit.default_entrypoint
    first, *others = kernel.instructions
    guarded = first.copy(predicates=frozenset([prim.Comparison(prim.Variable("x")[0], ">", 0)]))
    with pytest.raises(InternalCompilerError, match="insn0 has a predicate"):
        emit_method(t_unit.with_kernel(kernel.copy(instructions=[guarded, *others])), (), "float64")


@pytest.mark.parametrize(("vectorize", "entry_bytes"), [("cells", 64), ("none", 8)])
@pytest.mark.parametrize("degree", [3, 7])
def test_equal_entries_of_arrays_in_a_row_do_not_share_a_cache_set(
    degree: int, vectorize: str, entry_bytes: int
) -> None:
    mesh = ufl.Mesh(basix.ufl.element("Lagrange", "hexahedron", 1, shape=(3,)))
    V = ufl.FunctionSpace(mesh, basix.ufl.element("Lagrange", "hexahedron", degree))
    w, u, v = ufl.Coefficient(V), ufl.Coefficient(V), ufl.TestFunction(V)
    form = inner(grad(w), grad(w)) * inner(grad(u), grad(v)) * ufl.dx(degree=2 * degree + 1)
    source = formcompiler.compile_form(form, vectorize=vectorize, lanes="8", geometry="affine").source
    sizes = [int(size) for size in re.findall(r"alignas\(64\) \w+ \w+\[(\d+)\];", source)]
    over_points = [size * entry_bytes for size in sizes if size >= (degree + 1) ** 3]
    starts = np.cumsum([0, *over_points])[:-1] // 64 % 64  # numbers of sets, if the innermost cache has 64
    assert len(over_points) >= 6
    assert len(set(starts.tolist())) == len(starts)
