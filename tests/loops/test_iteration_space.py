"""Iteration spaces as matrices: the lecture's two examples, exact bounds, and points against brute force."""

import islpy as isl
import numpy as np
import pytest
from loop_nests import array, make, wavefront

from formcompiler.errors import TransformError
from formcompiler.loops import find_iteration_space, to_iteration_space


def space(text):
    return to_iteration_space(isl.Set(text))


def test_constant_bounds_are_a_box_and_regular():
    found = space("{[i,j]: 0 <= i <= 5 and 3 <= j <= 7}")
    assert found.lower_matrix.tolist() == found.upper_matrix.tolist() == [[1, 0], [0, 1]]
    assert found.lower.tolist() == [[0], [3]]
    assert found.upper.tolist() == [[5], [7]]
    assert found.is_rectangular and found.is_regular


def test_bounds_with_different_slopes_are_triangular_but_not_regular():
    found = space("{[i,j]: 0 <= i <= 5 and 2*i - 1 <= j <= 3*i + 2}")
    assert found.lower_matrix.tolist() == [[1, 0], [-2, 1]]
    assert found.upper_matrix.tolist() == [[1, 0], [-3, 1]]
    assert (found.lower.tolist(), found.upper.tolist()) == ([[0], [-1]], [[5], [2]])
    assert (found.is_triangular, found.is_regular, found.is_rectangular) == (True, False, False)
    assert found.bounds("j") == ("2*i - 1", "3*i + 2")


def test_parallel_bounds_are_regular_but_no_box():
    found = space("{[i,j]: 0 <= i <= 5 and i <= j <= i + 3}")
    assert (found.is_regular, found.is_rectangular) == (True, False)


def test_a_bound_that_follows_from_inner_loops_is_found():
    assert space("{[i,j]: 0 <= i and i <= j <= 5}").bounds("i") == ("0", "5")


def test_a_skewed_square_has_two_bounds_on_each_side():
    found = space("{[k1,k2]: 0 <= k2 <= 3 and 0 <= k1 - k2 <= 3}")
    assert found.bounds("k1") == ("0", "6")
    assert found.bounds("k2") == ("max(0, k1 - 3)", "min(3, k1)")
    assert not found.is_triangular


def test_parameters_are_columns_of_the_right_hand_side_in_order_of_their_names():
    found = space("[n,m] -> {[i,j]: m >= 0 and 0 <= i < n and i <= j < 2*m + n}")
    assert found.parameters == ("m", "n")
    assert found.upper.tolist() == [[0, 1, -1], [2, 1, -1]]
    assert found.bounds("j") == ("i", "2*m + n - 1")
    assert len(found.enumerate({"n": 2, "m": 1})) == 4 + 3


def test_coefficients_of_the_loop_itself_are_divisions_in_the_bounds():
    assert space("{[i,j]: 0 <= i < 9 and i <= 3*j <= i + 7}").bounds("j") == ("ceil((i)/3)", "floor((i + 7)/3)")


@pytest.mark.parametrize(
    "text",
    [
        "{[i,j]: 0 <= i <= 5 and 2*i - 1 <= j <= 3*i + 2}",
        "{[k1,k2]: 0 <= k2 <= 3 and 0 <= k1 - k2 <= 3}",
        "{[i,j,k]: 0 <= i < 4 and i <= 2*j <= 9 and j - i <= k < 3}",
    ],
)
def test_the_matrices_describe_exactly_the_points(text):
    found = space(text)
    box = np.stack(np.meshgrid(*[np.arange(-5, 25)] * len(found.inames), indexing="ij"), -1)
    box = box.reshape(-1, len(found.inames))
    inside = (box @ found.lower_matrix.T >= found.lower[:, -1]).all(1) & (
        box @ found.upper_matrix.T <= found.upper[:, -1]
    ).all(1)
    np.testing.assert_array_equal(box[inside], found.enumerate())


def test_strides_and_holes_are_refused():
    with pytest.raises(TransformError, match=r"loop i are not all points of a polyhedron, e\.g\. for a stride"):
        space("{[i]: 0 <= i < 9 and i mod 2 = 0}")
    with pytest.raises(TransformError, match="the points of loop i are not one polyhedron"):
        space("{[i]: 0 <= i < 3 or 5 <= i < 9}")


def test_missing_parameters_and_loops_are_named():
    found = space("[n] -> {[i]: 0 <= i < n}")
    with pytest.raises(TransformError, match="parameter n has no value"):
        found.enumerate()
    with pytest.raises(TransformError, match="no loop 'k' here; the loops are i"):
        found.bounds("k")
    with pytest.raises(TransformError, match="kernel nest has no loop 'x'; its loops are i, j"):
        find_iteration_space(wavefront(), ["x"])
    with pytest.raises(TransformError, match="infinitely many points"):
        space("{[i]: 0 <= i}").enumerate()


def test_a_loop_without_upper_bound_says_so():
    assert space("{[i]: 0 <= i}").bounds("i") == ("0", "inf")


def test_the_assumptions_of_a_kernel_count():
    program = make("[n] -> {[i]: 0<=i<n and i<9}", "a[i] = 0 {id=S}", array("a", 9))
    assert find_iteration_space(program).bounds("i") == ("0", "min(8, n - 1)")
    kernel = program.default_entrypoint.copy(assumptions=isl.BasicSet("[n] -> { : n >= 9 }"))
    assert find_iteration_space(kernel).bounds("i") == ("0", "8")
