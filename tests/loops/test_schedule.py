"""Validity of schedules and loop orders."""

import loopy as lp
import numpy as np
import pytest
from loop_nests import array, make, three_levels, two_neighbours

from formcompiler.errors import TransformError
from formcompiler.loops import analyse_nest, check_schedule, find_violations, is_valid_order, is_valid_schedule


def anti_diagonal():
    """a(i,j) = a(i-1,j+1): distance (1, -1)."""
    return make("{[i,j]: 1<=i<=4 and 0<=j<4}", "a[i,j] = a[i-1,j+1] {id=S}", array("a", 5, 5))


@pytest.mark.parametrize(
    ("schedule", "valid"),
    [
        ((1, 1), True),
        ((2, 1), True),
        ((1, 0), False),
        ((1, -1), False),
        ([(1, 0), (0, 1)], True),
        ([(1, -1), (0, 1)], False),
    ],
)
def test_a_linear_schedule_must_make_all_neighbours_wait(schedule, valid):
    assert is_valid_schedule(analyse_nest(two_neighbours()), schedule) == valid


def test_iterations_without_dependence_may_run_at_the_same_time():
    nest = analyse_nest(make("{[i,j]: 0<=i,j<4}", "a[i,j] = b[i,j] {id=S}", array("a", 4, 4), array("b", 4, 4)))
    assert is_valid_schedule(nest, (0, 1))


@pytest.mark.parametrize("order", ["ijk", "ikj", "jik", "jki", "kij", "kji"])
def test_every_order_of_three_recurrences_is_valid(order):
    assert is_valid_order(analyse_nest(three_levels()), tuple(order))


def test_a_distance_with_a_negative_entry_forbids_interchange():
    nest = analyse_nest(anti_diagonal())
    assert is_valid_order(nest, ("i", "j"))
    assert not is_valid_order(nest, ("j", "i"))
    (violation,) = find_violations(nest, np.eye(2, dtype=int)[::-1])
    assert (violation.distance, violation.time) == ((1, -1), (-1, 1))


def test_the_refusal_names_variable_instructions_and_vector():
    with pytest.raises(
        TransformError,
        match=r"^the plan is not valid for kernel nest: the true dependence on a from S to S "
        r"with distance \(1, -1\) in \(i, j\) would become \(-1, 1\)$",
    ):
        check_schedule(analyse_nest(anti_diagonal()), [(0, 1), (1, 0)], what="the plan")


def test_distances_that_vary_are_tested_exactly():
    # a[i,j] reads a[i-1,*]: every j of the row before, but only for even sums is there a pair that forbids
    nest = analyse_nest(make("{[i,j]: 1<=i<4 and 0<=j<4}", "a[i,j] = a[i-1,0] {id=S}", array("a", 4, 4)))
    (true,) = nest.of_kind("true")
    assert true.vectors == ((1, "0+"),)
    assert is_valid_order(nest, ("j", "i"))
    nest = analyse_nest(make("{[i,j]: 1<=i<4 and 0<=j<4}", "a[i,j] = a[i-1,3] {id=S}", array("a", 4, 4)))
    assert not is_valid_order(nest, ("j", "i"))


def test_a_dependence_that_an_outer_loop_carries_does_not_hinder_inner_ones():
    nest = analyse_nest(make("{[o,i,j]: 1<=o<4 and 0<=i,j<4}", "a[o,i,j] = a[o-1,3-i,3-j] {id=S}", array("a", 4, 4, 4)))
    assert is_valid_order(nest, ("j", "i"))
    assert is_valid_schedule(nest, [(-1, 0), (0, -1)], ("i", "j"))
    assert not is_valid_order(nest, ("i", "o", "j"))


def test_schedules_that_do_not_fit_are_refused():
    nest = analyse_nest(two_neighbours())
    for schedule, message in (
        ((1, 1, 1), "needs rows of 2 integers"),
        ((0.5, 1), "must be integers"),
        ("ab", "a row of integers or a list of rows"),
        ([], "needs rows"),
    ):
        with pytest.raises(TransformError, match=message):
            is_valid_schedule(nest, schedule)
    with pytest.raises(TransformError, match=r"must contain each of \(i, j\) once"):
        is_valid_order(nest, ("i", "j", "i"))
    with pytest.raises(TransformError, match=r"has loops \(i, j\), but not k"):
        is_valid_order(nest, ("i", "k"))


def test_loops_that_are_not_neighbours_need_the_one_between():
    with pytest.raises(TransformError, match=r"loop j is between \(i, k\); include it"):
        is_valid_order(analyse_nest(three_levels()), ("k", "i"))


def test_instructions_in_some_of_the_loops_only_are_named():
    nest = analyse_nest(
        make(
            "{[i,j]: 0<=i,j<4}",
            "b[i] = 0 {id=Z,inames=i}\nb[i] = b[i] + a[i,j] {id=S,inames=i:j}",
            array("a", 4, 4),
            array("b", 4),
        )
    )
    with pytest.raises(TransformError, match="instruction Z is in loop i but not in j"):
        is_valid_order(nest, ("j", "i"))


def test_priorities_change_the_order_that_vectors_refer_to():
    nest = analyse_nest(lp.prioritize_loops(two_neighbours(), "j,i"))
    assert nest.inames == ("j", "i")
    assert nest.matrix.tolist() == [[0, 1], [1, 0]]
