"""C++ expressions give the numbers of the pymbolic expressions that they are written from."""

from __future__ import annotations

import math
import shutil
import subprocess
from pathlib import Path

import pymbolic.primitives as prim
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymbolic.mapper.evaluator import EvaluationMapper

from formcompiler.codegen.expressions import ExpressionWriter
from formcompiler.errors import InternalCompilerError
from formcompiler.kernel.addresses import AddressFinder

NAMES = {"a": 1.25, "b": -0.5, "c": 3.0}
A, B, C = (prim.Variable(name) for name in NAMES)
write = ExpressionWriter(AddressFinder({"u": (3, 4), "v": (5,)}, {}), "float64")


leaves = st.one_of(st.sampled_from([A, B, C]), st.sampled_from([-1.0, 1.0, -2.0, 0.5, 3.0]))
trees = st.recursive(
    leaves,
    lambda sub: st.one_of(
        st.lists(sub, min_size=2, max_size=4).map(lambda c: prim.Sum(tuple(c))),
        st.lists(sub, min_size=2, max_size=4).map(lambda c: prim.Product(tuple(c))),
        st.tuples(sub, sub).map(lambda p: prim.Quotient(*p)),
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(trees)
def test_text_has_the_value_of_the_expression(tree: object) -> None:
    try:
        expected = EvaluationMapper(NAMES)(tree)
    except ZeroDivisionError:
        return
    got = eval(write(tree), {}, NAMES)
    assert math.isclose(got, expected, rel_tol=1e-13, abs_tol=1e-13)
    assert "--" not in write(tree) and "++" not in write(tree)


def test_two_minus_signs_cancel_instead_of_becoming_a_decrement() -> None:
    assert write(prim.Product((-1.0, prim.Product((-1.0, A))))) == "-(-a)"
    assert write(prim.Product((-1.0, -1.0, A))) == "a"
    assert write(prim.Sum((A, prim.Product((-1.0, -2.0))))) == "a - -2.0"


def test_sums_keep_their_order_of_evaluation() -> None:
    assert write(prim.Sum((A, prim.Sum((B, C))))) == "a + (b + c)"
    assert write(prim.Sum((prim.Sum((A, B)), C))) == "a + b + c"
    assert write(prim.Product((A, prim.Quotient(B, C)))) == "a * (b / c)"
    assert write(prim.Quotient(A, prim.Product((B, C)))) == "a / (b * c)"


def test_array_accesses_are_linear_indices_with_folded_constants() -> None:
    i, j = prim.Variable("i"), prim.Variable("j")
    assert write(prim.Variable("u")[2, 1]) == "u[9]"
    assert write(prim.Variable("u")[i, j]) == "u[4 * i + j]"
    assert write(prim.Variable("u")[i, 3 + 2 * (j + 1)]) == "u[4 * i + 2 * j + 5]"
    assert write(prim.Variable("u")[prim.Variable("v")[i], j]) == "u[4 * v[i] + j]"


def test_an_index_that_is_not_linear_is_refused() -> None:
    with pytest.raises(InternalCompilerError, match="index is not linear"):
        write(prim.Variable("v")[A * B])


def test_unknown_functions_are_refused() -> None:
    with pytest.raises(InternalCompilerError, match="frobnicate"):
        write(prim.Variable("frobnicate")(A))


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_selects_and_conditions_run_in_cpp(tmp_path: Path) -> None:
    condition = prim.LogicalAnd((prim.Comparison(A, "<", C), prim.LogicalNot(prim.Comparison(B, ">=", A))))
    expression = prim.Sum((A, prim.Product((prim.If(condition, B, C), 2.0))))
    source = tmp_path / "main.cc"
    values = "".join(f"const double {n} = {v};" for n, v in NAMES.items())
    source.write_text(f'#include <cstdio>\nint main() {{ {values} std::printf("%.17g", {write(expression)}); }}')
    subprocess.run(["g++", "-Wall", "-Werror", str(source), "-o", str(tmp_path / "main")], check=True)
    output = subprocess.run([str(tmp_path / "main")], check=True, capture_output=True, text=True).stdout
    assert float(output) == EvaluationMapper(NAMES)(expression)


def test_single_precision_literals_have_a_suffix() -> None:
    single = ExpressionWriter(AddressFinder({}, {}), "float32")
    assert single(prim.Product((2.0, A))) == "2.0F * a"
    assert single(1.5 - 2j) == "std::complex<float>(1.5F, -2.0F)"


def test_integers_have_integer_literals() -> None:
    i = prim.Variable("i")
    assert write.integer(prim.Product((5, i))) == "5 * i"
    assert write.integer(prim.Sum((1, prim.Product((-2, prim.Variable("v")[i]))))) == "-2 * v[i] + 1"
    assert write.integer(7) == "7"
