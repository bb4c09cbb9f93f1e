"""Which loops run in parallel: the lecture's tests, and claims tried by running loops in other orders."""

import loopy as lp
import numpy as np
import pytest
from loop_nests import array, column_sum, make, matrix_vector, random_arguments, three_levels, two_neighbours, wavefront

from formcompiler.errors import TransformError
from formcompiler.loops import (
    analyse_nest,
    find_doall_loops,
    find_lane_loops,
    find_outer_parallel_loops,
    has_doall_innermost,
    inner_parallel_level,
    interpret,
    is_doall,
    is_shift_invariant,
)


def test_two_neighbours_have_no_doall_loop():
    nest = analyse_nest(two_neighbours())
    assert find_doall_loops(nest) == ()
    assert not has_doall_innermost(nest)
    assert inner_parallel_level(nest) == 3
    assert find_outer_parallel_loops(nest) == ()


def test_the_last_row_of_a_column_sum_is_zero_so_that_j_is_doall():
    nest = analyse_nest(column_sum())
    assert nest.matrix[-1].tolist() == [0]
    assert has_doall_innermost(nest)
    assert find_doall_loops(nest) == ("j",)
    assert inner_parallel_level(nest) == 2


def test_a_zero_row_is_outer_parallelism():
    assert find_outer_parallel_loops(analyse_nest(matrix_vector())) == ("i",)
    assert find_outer_parallel_loops(analyse_nest(three_levels())) == ()


def test_without_dependences_all_loops_are_parallel():
    nest = analyse_nest(make("{[i,j]: 0<=i,j<4}", "a[i,j] = b[j,i] {id=S}", array("a", 4, 4), array("b", 4, 4)))
    assert find_doall_loops(nest) == find_outer_parallel_loops(nest) == ("i", "j")
    assert inner_parallel_level(nest) == 1
    assert nest.matrix.shape == (2, 0)


def test_interchanged_recurrences_have_a_parallel_inner_loop_though_the_last_row_is_not_zero():
    nest = analyse_nest(lp.prioritize_loops(three_levels(), "i,k,j"))
    assert nest.inames == ("i", "k", "j")
    assert nest.levels == (2, 2, 1)
    assert is_doall(nest, "j")
    assert inner_parallel_level(nest) == 3
    assert not has_doall_innermost(nest)


@pytest.mark.parametrize("kernel", [two_neighbours, column_sum, matrix_vector, three_levels, wavefront])
def test_doall_loops_give_the_same_arrays_in_any_order_and_others_do_not(kernel):
    program = kernel()
    arguments = random_arguments(program)
    expected = interpret(program, arguments)
    nest = analyse_nest(program)
    for iname in nest.inames:
        for keywords in ({"shuffled": [iname], "seed": 1}, {"lanes": iname}):
            found = interpret(program, arguments, **keywords)
            same = all(np.array_equal(found[name], expected[name]) for name in expected)
            if is_doall(nest, iname):
                assert same
            elif kernel is not matrix_vector:  # a sum in another order differs by rounding only
                assert not same or "lanes" in keywords


def test_shift_invariance_needs_one_pattern_everywhere():
    assert is_shift_invariant(analyse_nest(two_neighbours()))
    assert is_shift_invariant(analyse_nest(three_levels()))
    arrays = array("a", 9, 9), array("b", 9, 9)
    for reason, instruction in (
        ("distance varies", "a[2*i,j] = a[i,j]"),
        ("condition", "a[i,j+1] = a[i,j] if i > 1 else b[i,j]"),
        ("two vectors for one pair", "a[0,0] = a[0,0] + b[i,j]"),
    ):
        kernel = make("{[i,j]: 0<=i,j<4}", f"{instruction} {{id=S}}", *arrays)
        assert not is_shift_invariant(analyse_nest(kernel)), reason


def test_a_nest_whose_bounds_do_not_run_in_parallel_is_not_shift_invariant():
    for bounds, expected in (("i <= j < i + 4", True), ("i <= j < 8", False)):
        kernel = make(f"{{[i,j]: 0<=i<4 and {bounds}}}", "a[i,j+1] = a[i,j] {id=S}", array("a", 4, 9))
        assert is_shift_invariant(analyse_nest(kernel)) == expected


def dot_products(extra=""):
    return make(
        ["{[i,j]: 0<=i,j<4}", "{[k]: 0<=k<4}"],
        f"""
        acc = 0 {{id=S0,inames=i}}
        acc = acc + a[i,j]*b[j] {{id=S1,inames=i:j}}
        c[i] = acc {{id=S2,inames=i}}
        {extra}
        """,
        *(array("a", 4, 4), array("b", 4), array("c", 4)),
        temporaries=[("acc", ())],
    )


def test_an_accumulator_must_be_expanded_before_its_outer_loop_becomes_lanes():
    outer, inner = find_lane_loops(analyse_nest(dot_products()))
    assert (outer.iname, outer.privatize, outer.is_legal) == ("i", ("acc",), True)
    assert (inner.iname, inner.is_legal) == ("j", False)
    assert {(d.kind, d.variable) for d in inner.blockers} == {("true", "acc"), ("anti", "acc"), ("output", "acc")}


def test_a_temporary_that_is_used_after_the_loop_cannot_be_expanded():
    (outer, _) = find_lane_loops(analyse_nest(dot_products("b[k] = acc {id=S3,inames=k}"), "i"))
    assert not outer.is_legal


def test_a_value_that_goes_from_one_iteration_to_the_next_cannot_be_expanded():
    kernel = make("{[i]: 1<=i<4}", "c[i] = t + a[i] {id=S1}\nt = a[i] {id=S2}", array("a", 4), array("c", 4),
                  temporaries=[("t", ())])  # fmt: skip
    (loop,) = find_lane_loops(analyse_nest(kernel))
    assert next(d.kind for d in loop.blockers) == "true"


def test_a_loop_that_is_not_there_is_refused():
    with pytest.raises(TransformError, match="the nest has no loop 'k'; its loops are i, j"):
        is_doall(analyse_nest(two_neighbours()), "k")
