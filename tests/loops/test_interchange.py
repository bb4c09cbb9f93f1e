"""Loop interchange: what is legal runs and gives the same arrays, what is not is refused."""

import loopy as lp
import numpy as np
import pytest
from loop_nests import array, assert_same, compiled, make, random_arguments, three_levels

from formcompiler.errors import TransformError
from formcompiler.kernel.linearize import linearize
from formcompiler.loops import analyse_nest, find_order, interchange, interpret, is_doall, privatize
from formcompiler.loops.program import to_kernel


def test_interchanging_j_and_k_makes_the_inner_j_loop_parallel():
    program = three_levels()
    changed = interchange(program, ("i", "k", "j"))
    nest = analyse_nest(changed)
    assert nest.inames == ("i", "k", "j")
    assert nest.matrix.tolist() == [[0, 0, 1], [1, 1, 1], [1, 0, 0]]
    assert nest.levels == (2, 2, 1)
    assert is_doall(nest, "j")
    arguments = random_arguments(program)
    assert_same(program, changed, arguments)
    expected = interpret(program, arguments)
    for found in (compiled(changed, arguments), interpret(changed, arguments, lanes="j")):
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("order", ["ikj", "jik", "jki", "kij", "kji"])
def test_every_valid_order_gives_the_same_arrays(order):
    program = three_levels()
    changed = interchange(program, tuple(order))
    assert find_order(to_kernel(changed)).loops["S1"] == tuple(order)
    assert_same(program, changed, random_arguments(program))


def test_the_present_order_changes_nothing():
    program = three_levels()
    assert interchange(program, ("i", "j", "k")) is program


def test_two_loops_can_be_named_alone():
    assert analyse_nest(interchange(three_levels(), ("k", "j"))).inames == ("i", "k", "j")


def test_kernels_come_back_as_kernels_and_units_as_units():
    assert isinstance(interchange(three_levels(), ("k", "j")), lp.TranslationUnit)
    assert isinstance(interchange(to_kernel(three_levels()), ("k", "j")), lp.LoopKernel)


def test_an_order_that_turns_a_dependence_backward_is_refused():
    program = make("{[i,j]: 1<=i<=4 and 0<=j<4}", "a[i,j] = a[i-1,j+1] {id=S}", array("a", 5, 5))
    with pytest.raises(
        TransformError, match=r"loop order \(j, i\) is not valid .* on a from S to S with distance \(1, -1\)"
    ):
        interchange(program, ("j", "i"))


def triangle():
    """An imperfect nest over a triangle of parametric size, with two inner loops that depend on the outer ones."""
    return make(
        ["[n] -> {[i]: 0<=i<n}", "[i] -> {[j]: 0<=j<=i}", "[i,j] -> {[l]: 0<=l<=i+j}", "[j] -> {[m]: j<=m<9}"],
        """
        s = 0 {id=Z,inames=i:j}
        s = s + a[i,l]*b[j,l] {id=S,inames=i:j:l}
        x[i,j] = s {id=T,inames=i:j}
        y[j,i,m] = x[i,j] {id=U,inames=i:j:m}
        """,
        *(lp.GlobalArg(n, np.float64, shape=s) for n, s in zip("abxy", ("n,10", "n,10", "n,n", "n,n,9"), strict=True)),
        lp.ValueArg("n", np.int32),
        temporaries=[("s", ())],
    )


def test_a_triangle_of_parametric_size_is_turned_with_exact_bounds():
    with pytest.raises(TransformError, match=r"dependence on s from \w to Z"):
        interchange(triangle(), ("j", "i"))
    program = privatize(privatize(triangle(), ["s"], "i"), ["s"], "j")
    changed = interchange(program, ("j", "i"))
    assert find_order(to_kernel(changed)).loops["S"] == ("j", "i", "l")
    assert_same(program, changed, random_arguments(program, n=5))


def test_domains_of_one_loop_each_are_reordered_for_program_order_linearization():
    program = make(
        ["{[i]: 0<=i<4}", "{[j]: 0<=j<3}", "{[k]: 0<=k<5}"],
        "a[i,j] = a[i,j] + b[i,j,k] {id=S}",
        *(array("a", 4, 3), array("b", 4, 3, 5)),
    )
    changed = interchange(program, ("j", "k", "i"))
    linear = linearize(changed).default_entrypoint
    assert find_order(linear).loops["S"] == ("j", "k", "i")
    assert_same(program, linear, random_arguments(program))


def test_a_linearized_kernel_loses_its_linearization():
    program = make(["{[i]: 0<=i<4}", "{[j]: 0<=j<3}"], "a[i,j] = 2*a[i,j] {id=S}", array("a", 4, 3))
    linear = linearize(program)
    changed = interchange(linear, ("j", "i"))
    assert changed.default_entrypoint.linearization is None
    assert find_order(linearize(changed).default_entrypoint).loops["S"] == ("j", "i")


def test_a_loop_that_is_not_there_is_named():
    with pytest.raises(TransformError, match="kernel nest has no loop 'q'; its loops are i, j, k"):
        interchange(three_levels(), ("q", "j"))
