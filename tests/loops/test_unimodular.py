"""Unimodular transformations: the lecture's wavefront, exact bounds, validity, and the search."""

import islpy as isl
import loopy as lp
import numpy as np
import pytest
from loop_nests import (
    array,
    assert_same,
    column_sum,
    compiled,
    make,
    matrix_vector,
    random_arguments,
    three_levels,
    two_neighbours,
    wavefront,
)
from test_interchange import triangle

from formcompiler.errors import TransformError
from formcompiler.loops import (
    analyse_nest,
    find_doall_loops,
    find_iteration_space,
    find_wavefront,
    interpret,
    is_doall,
    is_unimodular,
    is_valid_unimodular,
    privatize,
    transform_unimodular,
)
from formcompiler.loops.program import to_kernel
from formcompiler.loops.unimodular import complete_row, determinant


def test_the_wavefront_of_the_lecture():
    program = wavefront()
    nest = analyse_nest(program)
    assert nest.matrix.tolist() == [[0, 1], [1, 0]]
    matrix = find_wavefront(nest)
    assert matrix.tolist() == [[1, 1], [1, 0]]
    changed = transform_unimodular(program, matrix)
    moved = analyse_nest(changed)
    # A(k1,k2) = A(k1-1,k2) + A(k1-1,k2-1)
    assert moved.inames == ("k1", "k2")
    assert moved.matrix.tolist() == [[1, 1], [0, 1]] == (matrix @ nest.matrix).tolist()
    assert [d.vectors for d in moved.of_kind("true")] == [((1, 0),), ((1, 1),)]
    assert find_doall_loops(moved) == ("k2",)
    space = find_iteration_space(changed)
    assert space.bounds("k1") == ("0", "6")
    assert space.bounds("k2") == ("max(0, k1 - 3)", "min(3, k1)")
    arguments = random_arguments(program)
    expected = interpret(program, arguments)["A"]
    for found in (
        interpret(changed, arguments),
        interpret(changed, arguments, lanes="k2"),
        interpret(changed, arguments, shuffled=["k2"]),
        compiled(changed, arguments),
    ):
        np.testing.assert_array_equal(found["A"], expected)


@pytest.mark.parametrize(
    ("kernel", "matrix", "valid"),
    [
        (wavefront, [[1, 1], [1, 0]], True),
        (wavefront, [[0, 1], [1, 0]], True),
        (wavefront, [[1, 0], [2, 1]], True),
        (wavefront, [[1, -1], [0, 1]], False),
        (wavefront, [[-1, 0], [0, 1]], False),
        (matrix_vector, [[-1, 0], [0, 1]], True),
        (matrix_vector, [[1, 0], [0, -1]], False),
        (column_sum, [[1, 0], [0, -1]], True),
        (column_sum, [[0, 1], [1, 0]], True),
        (three_levels, [[1, 1, 1], [0, 1, 0], [0, 0, 1]], True),
        (three_levels, [[0, 0, 1], [0, 1, 0], [1, 0, 0]], True),
        (three_levels, [[0, 0, -1], [0, 1, 0], [1, 0, 0]], False),
    ],
)
def test_valid_matrices_give_the_same_arrays_and_others_are_refused(kernel, matrix, valid):
    program = kernel()
    nest = analyse_nest(program)
    assert is_valid_unimodular(nest, matrix) == valid
    if valid:
        changed = transform_unimodular(program, matrix)
        arguments = random_arguments(program)
        expected, found = interpret(program, arguments), interpret(changed, arguments)
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name])
        vectors = {tuple(v) for v in (np.array(matrix) @ nest.matrix).T.tolist()}
        assert set(analyse_nest(changed).vectors) == vectors
    else:
        with pytest.raises(TransformError, match=r"dependence on \w from S\d? to S\d? with distance \("):
            transform_unimodular(program, matrix)


@pytest.mark.parametrize("matrix", [[[1, 1], [1, 0]], [[1, 0], [2, 1]], [[1, -1], [0, 1]], [[0, 1], [1, 0]]])
def test_inner_loops_and_parameters_follow(matrix):
    program = privatize(privatize(triangle(), ["s"], "i"), ["s"], "j")
    changed = transform_unimodular(program, matrix, ("i", "j"))
    assert_same(program, changed, random_arguments(program, n=5))


def test_a_transformed_triangle_compiles_with_loopy():
    program = make("[n] -> {[i,j]: 0<=j<=i<n}", "a[i+1,j+1] = a[i,j+1] + a[i+1,j] {id=S}",
                   lp.GlobalArg("a", np.float64, shape="n+1,n+1"), lp.ValueArg("n", np.int32))  # fmt: skip
    changed = transform_unimodular(program, [[1, 1], [1, 0]])
    arguments = random_arguments(program, n=8)
    expected = interpret(program, arguments)["a"]
    np.testing.assert_array_equal(compiled(changed, arguments)["a"], expected)
    np.testing.assert_array_equal(interpret(changed, arguments, lanes="k2")["a"], expected)


def test_new_names_are_the_users_or_free_ones():
    assert analyse_nest(transform_unimodular(wavefront(), [[1, 1], [1, 0]], new_inames=("t", "x"))).inames == ("t", "x")
    taken = make("{[k1,j]: 0<=k1,j<=3}", "A[k1+1,j+1] = A[k1+1,j] + A[k1,j+1] {id=S}", array("A", 5, 5))
    first, second = analyse_nest(transform_unimodular(taken, [[1, 1], [1, 0]])).inames
    assert (first != "k1", second) == (True, "k2")
    with pytest.raises(TransformError, match="A is in use"):
        transform_unimodular(wavefront(), [[1, 1], [1, 0]], new_inames=("A", "x"))
    with pytest.raises(TransformError, match="2 different new loop names are needed"):
        transform_unimodular(wavefront(), [[1, 1], [1, 0]], new_inames=("x", "x"))


def test_priorities_of_other_loops_stay():
    program = lp.prioritize_loops(three_levels(), "i,j,k")
    changed = to_kernel(transform_unimodular(program, [[1, 1], [0, 1]], ("j", "k")))
    assert ("i", "k1", "k2") in changed.loop_priority
    assert_same(program, changed, random_arguments(program))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[2, 0], [0, 1]], r"\[\[2, 0\], \[0, 1\]\] has determinant 2, but must have 1 or -1"),
        ([[1, 1], [1, 1]], "has determinant 0"),
        ([[1, 1]], "need a matrix of 2 rows, not 1"),
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], "needs rows of 2 integers"),
        ([[1, 0.5], [0, 1]], "must be integers"),
    ],
)
def test_matrices_that_are_not_unimodular_are_refused(matrix, message):
    with pytest.raises(TransformError, match=message):
        transform_unimodular(wavefront(), matrix)


@pytest.mark.parametrize("seed", range(8))
def test_determinants_agree_with_numpy(seed):
    matrix = np.random.default_rng(seed).integers(-4, 5, (1 + seed % 5,) * 2)
    assert determinant(matrix) == round(np.linalg.det(matrix))
    assert is_unimodular(matrix) == (abs(round(np.linalg.det(matrix))) == 1)


@pytest.mark.parametrize("row", [(1, 1), (2, 3), (6, 10, 15), (0, 0, 1), (-1,), (3, -2, 5, 7), (0, 4, 0, 9)])
def test_a_row_without_common_divisor_is_completed(row):
    matrix = complete_row(row)
    assert matrix[0].tolist() == list(row)
    assert is_unimodular(matrix)


def test_a_row_with_common_divisor_is_refused():
    with pytest.raises(TransformError, match=r"\[2, 4\] has greatest common divisor 2"):
        complete_row((2, 4))


@pytest.mark.parametrize("kernel", [wavefront, two_neighbours, three_levels, column_sum, matrix_vector])
def test_a_wavefront_makes_all_inner_loops_parallel(kernel):
    program = kernel()
    changed = transform_unimodular(program, find_wavefront(analyse_nest(program)))
    nest = analyse_nest(changed)
    assert all(is_doall(nest, iname) for iname in nest.inames[1:])
    arguments = random_arguments(program)
    expected = interpret(program, arguments)
    found = interpret(changed, arguments, shuffled=nest.inames[1:], seed=3)
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])


def test_steep_distances_need_steep_wavefronts():
    program = make("{[i,j]: 0<=i<6 and 0<=j<6}", "a[i+1,j+2] = a[i,j+4] + a[i+1,j+1] {id=S}", array("a", 7, 10))
    nest = analyse_nest(program)
    assert set(nest.vectors) == {(1, -2), (0, 1)}
    matrix = find_wavefront(nest)
    assert (matrix[0] @ nest.matrix >= 1).all()
    assert matrix[0].tolist() == [3, 1]
    assert find_wavefront(nest, max_coefficient=2) is None


def test_an_outer_loop_stays_if_it_cannot_take_part():
    # the distance along i is not bounded by a constant for parametric n, so that o must carry it
    program = make(
        "[n] -> {[o,i,j]: 0<=o<n and 0<=i,j<n}",
        "s = s + a[i+1,j+1] {id=T,inames=o:i:j}\na[i+1,j+1] = a[i,j+1] + a[i+1,j] {id=S,inames=o:i:j}",
        lp.GlobalArg("a", np.float64, shape=(9, 9)), array("s"), lp.ValueArg("n", np.int32),
    )  # fmt: skip
    assert find_wavefront(analyse_nest(program)) is None
    program = make(
        "[n] -> {[o,i,j]: 1<=o<n and 0<=i,j<n}",
        "a[o,i+1,j+1] = a[o,i,j+1] + a[o,i+1,j] + a[o-1,1,n-j] {id=S}",
        lp.GlobalArg("a", np.float64, shape=(9, 9, 9)), lp.ValueArg("n", np.int32),
    )  # fmt: skip
    nest = analyse_nest(program)
    assert not nest.is_constant
    matrix = find_wavefront(nest)
    changed = transform_unimodular(program, matrix)
    inner = [iname for n, iname in enumerate(analyse_nest(changed).inames) if n >= 2]
    assert all(is_doall(analyse_nest(changed), iname) for iname in inner)
    arguments = random_arguments(program, n=4)
    expected = interpret(program, arguments)["a"]
    np.testing.assert_array_equal(interpret(changed, arguments, shuffled=inner)["a"], expected)


def test_the_new_domain_is_the_exact_image():
    changed = to_kernel(transform_unimodular(wavefront(), [[1, 1], [1, 0]]))
    (domain,) = changed.domains
    assert isl.Set.from_basic_set(domain).is_equal(isl.Set("{[k1,k2]: 0 <= k2 <= 3 and 0 <= k1 - k2 <= 3}"))


def test_a_wavefront_of_parametric_size():
    program = make("[n,m] -> {[i,j]: 0<=i<n and 0<=j<m}", "A[i+1,j+1] = A[i+1,j] + A[i,j+1] {id=S}",
                   lp.GlobalArg("A", np.float64, shape="n+1,m+1"), lp.ValueArg("n,m", np.int32))  # fmt: skip
    changed = transform_unimodular(program, find_wavefront(analyse_nest(program)))
    space = find_iteration_space(changed)
    assert space.bounds("k1") == ("0", "m + n - 2")
    assert space.bounds("k2") == ("max(0, k1 - m + 1)", "min(k1, n - 1)")
    arguments = random_arguments(program, n=3, m=5)
    found = interpret(changed, arguments, lanes="k2")["A"]
    np.testing.assert_array_equal(found, interpret(program, arguments)["A"])


def test_strides_are_carried_over():
    program = make(
        "{[i,j]: 0<=i,j<8 and i mod 2 = 0}", "A[i+2,j] = A[i,j] + B[i] {id=S}", array("A", 10, 8), array("B", 8)
    )
    assert analyse_nest(program).vectors == ((2, 0),)
    assert_same(program, transform_unimodular(program, [[1, 1], [0, 1]]), random_arguments(program))
