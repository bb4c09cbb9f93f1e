"""The order in which a kernel runs, and refusals where there is none."""

import loopy as lp
import pytest
from loop_nests import array, make, three_levels

from formcompiler.errors import TransformError
from formcompiler.loops import find_order
from formcompiler.loops.program import to_kernel


def order_of(program):
    return find_order(to_kernel(program))


def test_loops_are_nested_as_in_the_domain_unless_priorities_say_otherwise():
    assert order_of(three_levels()).loops["S1"] == ("i", "j", "k")
    assert order_of(lp.prioritize_loops(three_levels(), "k,i")).loops["S1"] == ("j", "k", "i")


def test_a_loop_around_more_instructions_is_further_out():
    order = order_of(
        make(
            "{[i,j]: 0<=i,j<4}",
            "a[i,j] = 0 {id=S,inames=i:j}\nb[j] = 1 {id=T,inames=j}",
            array("a", 4, 4),
            array("b", 4),
        )
    )
    assert order.loops == {"S": ("j", "i"), "T": ("j",)}
    assert order.positions == {"S": (0, 0, 0), "T": (0, 1)}


def test_a_bound_that_depends_on_a_loop_puts_it_inside():
    order = order_of(make(["[i] -> {[j]: 0<=j<=i}", "{[i]: 0<=i<4}"], "a[i,j] = 0 {id=S}", array("a", 4, 4)))
    assert order.loops["S"] == ("i", "j")


def test_nests_know_common_loops_and_whether_they_are_perfect():
    first, second = order_of(
        make(
            ["{[i,j]: 0<=i,j<4}", "{[k]: 0<=k<4}"],
            "b[i] = 0 {id=S,inames=i}\na[i,j] = b[i] {id=T,inames=i:j}\nc[k] = 1 {id=U}",
            array("a", 4, 4), array("b", 4), array("c", 4),
        )
    ).nests  # fmt: skip
    assert (first.inames, first.band, first.instructions, first.is_perfect) == (("i", "j"), ("i",), ("S", "T"), False)
    assert (second.inames, second.is_perfect) == (("k",), True)


def test_a_linearization_is_the_order():
    program = lp.prioritize_loops(three_levels(), "k,j,i")
    unit = lp.preprocess_program(program)
    linear = lp.get_one_linearized_kernel(unit.default_entrypoint, unit.callables_table)
    order = find_order(linear)
    assert set(order.loops.values()) == {("k", "j", "i")}
    assert order.instructions == find_order(to_kernel(program)).instructions


def test_dependencies_come_before_the_order_of_the_text():
    program = make("{:}", "a = 1 {id=S}\nb = 2 {id=T}", array("a"), array("b"))
    kernel = program.default_entrypoint
    first, second = kernel.instructions
    turned = [first.copy(depends_on=frozenset(["T"])), second.copy(depends_on=frozenset())]
    assert find_order(kernel.copy(instructions=turned)).instructions == ("T", "S")


def test_instructions_that_wait_for_each_other_are_refused():
    program = make("{:}", "a = 1 {id=S}\nb = 2 {id=T}", array("a"), array("b"))
    kernel = program.default_entrypoint
    first, second = kernel.instructions
    with pytest.raises(TransformError, match=r"S, instruction T would each .* another; .*seq_dependencies=True"):
        find_order(kernel.copy(instructions=[first.copy(depends_on=frozenset(["T"])), second]))


def test_a_loop_that_would_be_opened_twice_is_refused():
    program = make(
        "{[i,j,k]: 0<=i,j,k<4}",
        "a[i,j] = 0 {id=S,inames=i:j}\nb[i,k] = 0 {id=T,inames=i:k}\nc[j,k] = 0 {id=U,inames=j:k}",
        *(array(n, 4, 4) for n in "abc"),
    )
    with pytest.raises(TransformError, match=r"loop \w would have to be opened twice, for instruction"):
        order_of(program)


def test_priorities_that_contradict_each_other_are_refused():
    kernel = to_kernel(three_levels()).copy(loop_priority=frozenset([("i", "j"), ("j", "i")]))
    with pytest.raises(TransformError, match="loops i, j would each have to be inside of another"):
        find_order(kernel)


def test_what_is_no_kernel_is_refused():
    with pytest.raises(TransformError, match="expected a loopy kernel or translation unit, got int"):
        to_kernel(3)
    unit = three_levels().with_entrypoints(frozenset())
    with pytest.raises(TransformError, match="must have one entry point, but has none"):
        to_kernel(unit)
