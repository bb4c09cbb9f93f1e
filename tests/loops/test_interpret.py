"""The interpreter against loopy's C code and numpy, and its own refusals."""

import loopy as lp
import numpy as np
import pytest
from loop_nests import (
    array,
    column_sum,
    compiled,
    make,
    matrix_vector,
    random_arguments,
    three_levels,
    two_neighbours,
    wavefront,
)

from formcompiler.errors import TransformError
from formcompiler.loops import interpret


@pytest.mark.parametrize("kernel", [two_neighbours, column_sum, matrix_vector, three_levels, wavefront])
def test_interpreted_and_compiled_kernels_agree(kernel):
    program = kernel()
    arguments = random_arguments(program)
    expected = compiled(lp.prioritize_loops(program, "i,j,k" if kernel is three_levels else "i,j"), arguments)
    found = interpret(program, arguments)
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])


def test_arguments_are_not_changed():
    program = matrix_vector()
    arguments = random_arguments(program)
    before = {name: value.copy() for name, value in arguments.items()}
    interpret(program, arguments)
    for name, value in before.items():
        np.testing.assert_array_equal(arguments[name], value)


def test_functions_conditions_reductions_and_tables():
    table = lp.TemporaryVariable(
        "p", shape=(4,), read_only=True, initializer=np.array([3, 1, 0, 2], np.int32),
        address_space=lp.AddressSpace.GLOBAL,
    )  # fmt: skip
    program = make(
        ["{[i]: 0<=i<4}", "[i] -> {[k]: 0<=k<=i}"],
        "b[i] = sum(k, a[p[k]]) if i > 1 else abs(a[i]) + sin(a[i])**2 {id=S}",
        array("a", 4), array("b", 4), table,
    )  # fmt: skip
    a = np.array([-1.0, 2.0, 3.0, 5.0])
    order = a[[3, 1, 0, 2]]
    expected = [1 + np.sin(1) ** 2, 2 + np.sin(2) ** 2, order[:3].sum(), order.sum()]
    np.testing.assert_allclose(interpret(program, {"a": a})["b"], expected)


def test_a_temporary_is_nan_until_it_is_written():
    program = make("{[i]: 0<=i<2}", "b[i] = t {id=S,inames=i}\nt = a[i] {id=T,inames=i}", array("a", 2), array("b", 2),
                   temporaries=[("t", ())])  # fmt: skip
    found = interpret(program, {"a": np.array([1.0, 2.0])})["b"]
    assert np.isnan(found[0])
    assert found[1] == 1.0


def test_lockstep_runs_each_instruction_for_all_lanes():
    program = make("{[i]: 0<=i<3}", "b[i] = a[i] {id=S}\na[i] = b[2-i] {id=T}", array("a", 3), array("b", 3))
    a = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(interpret(program, {"a": a}, lanes="i")["a"], a[::-1])


def test_wrong_arguments_are_named():
    program = matrix_vector()
    arguments = random_arguments(program)
    with pytest.raises(TransformError, match="argument a of kernel nest has no value"):
        interpret(program, {n: v for n, v in arguments.items() if n != "a"})
    with pytest.raises(TransformError, match=r"argument b must have shape \(6,\), not \(2,\)"):
        interpret(program, {**arguments, "b": np.zeros(2)})
    with pytest.raises(TransformError, match="argument n of kernel nest has no value"):
        interpret(make("[n] -> {[i]: 0<=i<n}", "a[i] = 0", array("a", 4), lp.ValueArg("n", np.int32)), {})
    with pytest.raises(TransformError, match="has no loop 'q'"):
        interpret(program, arguments, lanes="q")


def test_indices_outside_of_an_array_are_errors():
    program = make("{[i]: 0<=i<4}", "a[i] = b[i-1] {id=S}", array("a", 4), array("b", 4))
    with pytest.raises(TransformError, match=r"is outside of b, shape \(4,\), at \(-1,\)"):
        interpret(program, random_arguments(program))
