"""Single assignment: only true dependences remain, and the arrays stay the same."""

import islpy as isl
import loopy as lp
import numpy as np
import pytest
from loop_nests import array, assert_same, compiled, make, matrix_vector, random_arguments
from test_random_nests import random_imperfect_nest

from formcompiler.errors import TransformError
from formcompiler.loops import (
    analyse,
    analyse_nest,
    find_dependences,
    find_doall_loops,
    interpret,
    is_shift_invariant,
    localize,
    privatize,
    to_single_assignment,
)
from formcompiler.loops.expansion import to_pieces
from formcompiler.loops.program import to_kernel


def text(program):
    return {i.id: f"{i.assignee} = {i.expression}".replace("+ -", "- ") for i in to_kernel(program).instructions}


def only_true(program, names=None):
    return {d.kind for nest in analyse(program) for d in nest.dependences} <= {"true"}


def same_compiled(first, second, arguments):
    assert_same(first, second, arguments)
    expected, found = interpret(first, arguments), compiled(second, arguments)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-13)


def test_renaming_removes_an_anti_dependence():
    program = make("{:}", "A = B + C {id=S1}\nB = D + 2 {id=S2}", *map(array, "ABCD"))
    assert [d.kind for d in find_dependences(program)] == ["anti"]
    changed = to_single_assignment(program)
    assert text(changed) == {"S1": "A = B + C", "S2": "B1 = D + 2", "B_last": "B = B1"}
    assert not [d for d in find_dependences(changed) if {d.source.instruction, d.sink.instruction} == {"S1", "S2"}]
    same_compiled(program, changed, random_arguments(program))


def test_renaming_in_a_loop_removes_an_anti_dependence():
    program = make(
        "{[i]: 0<=i<9}", "A[i] = B[i] + C[i] {id=S1}\nB[i] = D[i] + 2 {id=S2}", *(array(n, 9) for n in "ABCD")
    )
    changed = to_single_assignment(program)
    assert text(changed)["S2"] == "B1[i] = D[i] + 2"
    assert analyse_nest(changed, "i").dependences == ()
    assert find_doall_loops(analyse_nest(changed, "i")) == ("i",)
    same_compiled(program, changed, random_arguments(program))


def test_a_scalar_in_a_loop_is_renamed_with_an_index_and_starts_with_its_old_value():
    program = make("{[i]: 0<=i<9}", "A[i] = B + C[i] {id=S1}\nB = D[i] + 2 {id=S2}",
                   array("A", 9), array("B"), array("C", 9), array("D", 9))  # fmt: skip
    changed = to_single_assignment(program)
    assert text(changed) == {
        "B1_first": "B1[0] = B",
        "S1": "A[i] = B1[i] + C[i]",
        "S2": "B1[1 + i] = D[i] + 2",
        "B_last": "B = B1[9]",
    }
    assert only_true(changed)
    same_compiled(program, changed, random_arguments(program))


def test_three_statements_keep_the_true_dependence_only():
    program = make("{:}", "A=B+C {id=S1}\nD=A+2 {id=S2}\nA=E+3 {id=S3}", *map(array, "ABCDE"))
    changed = to_single_assignment(program)
    found = [(d.kind, d.source.instruction, d.sink.instruction) for d in find_dependences(changed)]
    assert found == [("true", "S1", "S2"), ("true", "S3", "A_last")]
    same_compiled(program, changed, random_arguments(program))


def test_an_array_read_ahead_is_renamed():
    """The lecture's loop A(i) = B(i) + C(i); D(i) = A(i) + A(i+1)."""
    program = make("{[i]: 0<=i<9}", "A[i] = B[i] + C[i] {id=S1}\nD[i] = A[i] + A[i+1] {id=S2}",
                   array("A", 10), *(array(n, 9) for n in "BCD"))  # fmt: skip
    changed = to_single_assignment(program)
    assert text(changed)["S1"] == "A1[i] = B[i] + C[i]"
    assert text(changed)["S2"] == "D[i] = A1[i] + A[i + 1]"
    assert only_true(changed)
    same_compiled(program, changed, random_arguments(program))


def test_a_matrix_vector_product_single_assigned_and_localized_is_the_lectures():
    program = matrix_vector()
    changed = localize(to_single_assignment(program), "b", "i")
    assert text(changed) == {
        "c1_first": "c1[i_0, 0] = c[i_0]",
        "b1_first": "b1[0, j_0] = b[j_0]",
        "b1_next": "b1[i, j] = b1[-1 + i, j]",
        "S": "c1[i, j] = c1[i, -1 + j] + a[i, j]*b1[i, j]",
        "c_last": "c[i_1] = c1[i_1, 5]",
    }
    nest = analyse_nest(changed, "i")
    assert is_shift_invariant(nest)
    assert {d.kind for d in nest.dependences} == {"true"}
    assert sorted(nest.vectors) == [(0, 1), (1, 0)]
    same_compiled(program, changed, random_arguments(program))


def test_an_assignment_before_the_loop_becomes_the_border_of_the_new_array():
    program = make(
        "{[i,j]: 1<=i<=4 and 1<=j<=5}",
        "c[i] = 0 {id=S0,inames=i}\nc[i] = c[i] + a[i,j]*b[j] {id=S,inames=i:j}",
        *(array("c", 5), array("a", 5, 6), array("b", 6)),
    )
    changed = to_single_assignment(program)
    assert text(changed)["S0"] == "c1[i, 0] = 0"
    assert text(changed)["S"] == "c1[i, j] = c1[i, -1 + j] + a[i, j]*b[j]"
    assert only_true(changed)
    same_compiled(program, changed, random_arguments(program))


def test_several_updates_per_iteration_get_an_array_each():
    program = make("{[i]: 0<=i<9}", "x=x+A[i] {id=S1,inames=i}\nx=x*2 {id=S2,inames=i}\nA[i]=x {id=S3,inames=i}",
                   array("A", 9), array("x"))  # fmt: skip
    changed = to_single_assignment(program, ["x"])
    assert len([n for n in to_kernel(changed).temporary_variables if n.startswith("x")]) == 2
    assert not [d for d in find_dependences(changed) if d.kind != "true" and d.variable not in ("x", "A")]
    same_compiled(program, changed, random_arguments(program))


def test_a_value_that_may_come_from_two_instructions_becomes_a_condition():
    program = make(
        "{[i]: 0<=i<9}",
        "x=A[i] {id=S1,inames=i}\nif i>3\nx=x*2 {id=S2,inames=i}\nend\nB[i]=x {id=S3,inames=i}",
        *(array("A", 9), array("B", 9), array("x")),
    )
    changed = to_single_assignment(program)
    assert " if " in text(changed)["S3"]
    assert only_true(changed)
    same_compiled(program, changed, random_arguments(program))


def test_elements_that_many_iterations_update_get_the_missing_index():
    program = make("{[i,j]: 0<=i,j<5}", "x[i+j] = 0.5*x[i+j] + A[i,j] {id=S}", array("A", 5, 5), array("x", 9))
    changed = to_single_assignment(program)
    assert only_true(changed)
    same_compiled(program, changed, random_arguments(program))


def test_parametric_extents():
    program = make("[n] -> {[i]: 0<=i<n}", "x = x + A[i] {id=S1,inames=i}\nA[i] = x {id=S2,inames=i}",
                   lp.GlobalArg("A", np.float64, shape="n"), array("x"), lp.ValueArg("n", np.int32))  # fmt: skip
    changed = to_single_assignment(program)
    assert only_true(changed)
    for n in (1, 6):
        assert_same(program, changed, random_arguments(program, n=n))


def test_indices_with_remainders():
    program = make("{[i]: 0<=i<12}", "A[i % 3] = A[i % 3] + B[i] {id=S}", array("A", 3), array("B", 12))
    assert analyse_nest(program).vectors == ((3,),)
    changed = to_single_assignment(program)
    assert only_true(changed)
    same_compiled(program, changed, random_arguments(program))


def test_temporaries_are_replaced_without_copies():
    program = make(
        "{[i,j]: 0<=i<4 and 0<=j<5}",
        "s = 0 {id=Z,inames=i}\ns = s + a[i,j] {id=S,inames=i:j}\nb[i] = s {id=T,inames=i}",
        *(array("a", 4, 5), array("b", 4)),
        temporaries=[("s", ())],
    )
    changed = to_single_assignment(program)
    assert set(text(changed)) == {"Z", "S", "T"}
    assert set(to_kernel(changed).temporary_variables) == {"s1"}
    assert only_true(changed)
    assert find_doall_loops(analyse_nest(changed)) == ("i",)
    same_compiled(program, changed, random_arguments(program))


@pytest.mark.parametrize("seed", range(10))
def test_random_nests_keep_their_results(seed):
    generator = np.random.default_rng(100 + seed)
    lines = []
    for n in range(2 + seed % 2):
        refs = []
        for _ in range(3):
            a, b, c = generator.integers(0, 2), generator.integers(-1, 2), generator.integers(4, 6)
            refs.append(f"{generator.choice(['x', 'y'])}[{a}*i + {b}*j + {c}]")
        lines.append(f"{refs[0]} = 0.5*{refs[1]} + 0.25*{refs[2]} {{id=S{n},inames=i:j}}")
    program = make("{[i,j]: 0<=i<4 and 0<=j<3}", "\n".join(lines), array("x", 14), array("y", 14))
    changed = to_single_assignment(program)
    assert only_true(changed)
    assert_same(program, changed, random_arguments(program, seed))


@pytest.mark.parametrize("seed", range(8))
def test_random_imperfect_nests_keep_their_results(seed):
    program, _ = random_imperfect_nest(seed)
    changed = to_single_assignment(program)
    assert only_true(changed)
    assert_same(program, changed, random_arguments(program, seed))


def test_a_value_that_was_never_set_is_not_looked_for_outside_of_the_new_array():
    program = make("{[i]: 0<=i<4}", "b[i] = t {id=S,inames=i}\nt = a[i] {id=T,inames=i}", array("a", 4), array("b", 4),
                   temporaries=[("t", ())])  # fmt: skip
    changed = to_single_assignment(program)
    assert to_kernel(changed).temporary_variables["t1"].shape == (5,)
    assert_same(program, changed, random_arguments(program))


def test_accesses_that_are_not_exact_are_refused_by_name():
    program = make("{[i]: 0<=i<9}", "x[p[i]] = x[p[i]] + a[i] {id=S}", array("x", 9), array("a", 9),
                   lp.GlobalArg("p", np.int32, shape=9))  # fmt: skip
    with pytest.raises(TransformError, match=r"x\[p\[i\]\] in instruction S is not known exactly"):
        to_single_assignment(program)


def test_reductions_are_refused():
    program = make(["{[i]: 1<=i<9}", "{[q]: 0<=q<=1}"], "a[i] = sum(q, a[i-q]) {id=S}", array("a", 9))
    with pytest.raises(TransformError, match="instruction S reads several elements of a at once, in a reduction"):
        to_single_assignment(program, ["a"])


def test_an_access_that_needs_several_values_is_refused():
    with pytest.raises(TransformError, match="an iteration needs several values at once"):
        to_pieces(isl.Map("{ [i] -> [j] : 0 <= j <= 1 }"))


def test_a_variable_that_is_not_written_is_refused():
    with pytest.raises(TransformError, match="kernel nest writes no variable 'b'"):
        to_single_assignment(matrix_vector(), ["b"])


# --- privatization


def dot_products():
    return make(
        "{[i,j]: 2<=i<6 and 0<=j<4}",
        "s = 0 {id=Z,inames=i}\ns = s + a[i,j]*b[j] {id=S,inames=i:j}\nc[i] = s {id=T,inames=i}",
        *(array("a", 6, 4), array("b", 4), array("c", 6)),
        temporaries=[("s", ())],
    )


def test_a_privatized_accumulator_lets_iterations_run_in_lockstep():
    program = dot_products()
    changed = privatize(program, ["s"], "i")
    assert to_kernel(changed).temporary_variables["s"].shape == (4,)
    assert "i" in find_doall_loops(analyse_nest(changed, "i"))
    arguments = random_arguments(program)
    expected = interpret(program, arguments)["c"]
    np.testing.assert_array_equal(interpret(changed, arguments, lanes="i")["c"], expected)
    assert not np.array_equal(interpret(program, arguments, lanes="i")["c"], expected)
    same_compiled(program, changed, arguments)


@pytest.mark.parametrize(
    ("instructions", "variable", "message"),
    [
        ("t = a[i] {id=S}\nb[i] = t {id=T}", "b", "b is not a temporary"),
        ("b[i] = t {id=S,inames=i}\nt = a[i] {id=T}", "t", r"an iteration of i reads what another wrote: true .*\(1\)"),
        ("t = a[i] {id=S}\nb[k] = t {id=T,inames=k}", "t", "instruction T uses t outside of loop i"),
    ],
)
def test_values_that_leave_their_iteration_cannot_be_privatized(instructions, variable, message):
    program = make(
        ["{[i]: 0<=i<4}", "{[k]: 0<=k<4}"], instructions, array("a", 4), array("b", 4), temporaries=[("t", ())]
    )
    with pytest.raises(TransformError, match=f"{variable} cannot have a value for each iteration of loop i: {message}"):
        privatize(program, [variable], "i")
