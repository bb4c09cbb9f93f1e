"""Localization: each iteration gets its copy, from its neighbour or from the source."""

import numpy as np
import pytest
from loop_nests import array, assert_same, compiled, make, matrix_vector, random_arguments

from formcompiler.errors import TransformError
from formcompiler.loops import analyse_nest, find_broadcasts, interpret, localize
from formcompiler.loops.program import to_kernel


def text(program):
    return {i.id: f"{i.assignee} = {i.expression}" for i in to_kernel(program).instructions}


def test_reads_with_fewer_indices_than_loops_are_broadcasts():
    found = find_broadcasts(analyse_nest(matrix_vector()))
    assert [(b.variable, b.missing) for b in found] == [("b", ("i",))]


def test_a_localized_variable_is_handed_on_along_the_loop():
    program = matrix_vector()
    changed = localize(program, "b", "i")
    assert text(changed)["b1_first"] == "b1[0, j_0] = b[j_0]"
    assert text(changed)["b1_next"] == "b1[i, j] = b1[-1 + i, j]"
    nest = analyse_nest(changed, "i")
    assert [d.vectors for d in nest.of_kind("true") if d.variable == "b1"] == [((1, 0),), ((0, 0),)]
    assert not any(b.variable == "b1" for b in find_broadcasts(nest))
    assert_same(program, changed, random_arguments(program))
    arguments = random_arguments(program)
    np.testing.assert_array_equal(compiled(changed, arguments)["c"], interpret(program, arguments)["c"])


def test_a_copy_per_lane_has_no_recurrence():
    program = matrix_vector()
    changed = localize(program, "b", "i", copy=True)
    assert text(changed)["b1_copy"] == "b1[i, j] = b[j]"
    assert {d.vectors for d in analyse_nest(changed).dependences if d.variable == "b1"} == {((0, 0),)}
    assert_same(program, changed, random_arguments(program))


@pytest.mark.parametrize("copy", [False, True])
def test_scalars_and_triangles_and_several_references(copy):
    program = make("{[i,j]: 0<=i<4 and i<=j<4}", "c[i,j] = a[i]*b[j] + s + b[0]",
                   array("a", 4), array("b", 4), array("s"), array("c", 4, 4))  # fmt: skip
    changed = program
    for variable, iname in (("a", "j"), ("s", "i"), ("b", "i")):
        changed = localize(changed, variable, iname, copy=copy)
    assert find_broadcasts(analyse_nest(changed, "i")) == () or copy
    assert_same(program, changed, random_arguments(program))


def test_a_variable_that_is_set_before_and_after_the_nest_is_copied_in_between():
    program = make(
        ["{[p]: 0<=p<4}", "{[i,j]: 0<=i,j<4}", "{[q]: 0<=q<4}"],
        "b[p] = 2*b[p] {id=P}\nc[i,j] = a[i,j]*b[j] {id=S}\nb[q] = 3*b[q] {id=Q}",
        *(array("a", 4, 4), array("b", 4), array("c", 4, 4)),
    )
    changed = localize(program, "b", "i")
    ids = [i.id for i in to_kernel(changed).instructions]
    assert ids == ["P", "b1_first", "b1_next", "S", "Q"]
    assert_same(program, changed, random_arguments(program))


def test_a_variable_that_the_nest_writes_is_refused():
    with pytest.raises(TransformError, match="instruction S writes c in the nest"):
        localize(matrix_vector(), "c", "j")


def test_what_differs_along_the_loop_is_refused():
    with pytest.raises(TransformError, match="no instruction reads the same element of a in all iterations of i"):
        localize(matrix_vector(), "a", "i")
    with pytest.raises(TransformError, match="has no variable 'z'"):
        localize(matrix_vector(), "z", "i")
