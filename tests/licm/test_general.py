"""The steps of the general mode, each on a kernel written by hand: the same numbers, and how many operations."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest
from licm.interpreter import run
from licm.nests import add_table, assign, finish, jacobian_nest, matrix_data

from formcompiler.kernel.builder import KernelBuilder
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.bilinear import Split, make_plan
from formcompiler.licm.columns import find_groups, group_columns
from formcompiler.licm.contract import contract_kernel
from formcompiler.licm.edit import link_dependencies
from formcompiler.licm.general import put_targets_first
from formcompiler.licm.invariant import shrink_arrays
from formcompiler.licm.monomials import Expander, Monomial
from formcompiler.licm.motion import hoist_nested
from formcompiler.licm.scale import scale_sums
from formcompiler.licm.share import share_values


def check_step(step, kernel, data):
    """Compare a kernel before and after one step; return operations before and after, and the kernel after."""
    facts = Analysis(put_targets_first(kernel))
    after = link_dependencies(step(facts), facts.reads)
    wanted, actual = run(kernel, data), run(after, data)
    for name, values in wanted.items():
        np.testing.assert_allclose(actual[name], values, rtol=1e-13, atol=1e-13)
    done = set()
    for instruction in after.instructions:
        assert instruction.depends_on <= done
        done.add(instruction.id)
    return facts.of(kernel).cost, facts.of(after).cost, after


# --- sums over points


def test_a_sum_with_a_runtime_factor_at_each_point_is_covered_by_its_one_column():
    before, after, kernel = check_step(contract_kernel, jacobian_nest(), matrix_data())
    assert before == 3 * 4 * 5 * 6
    assert after == 3 * (4 * 3 + 4 * 5 * 2)
    assert any(i.startswith("summed") for i in kernel.temporary_variables) is False


def constant_jacobian(n_points=6):
    b = KernelBuilder("constant", "float64", ["A", "g", "t", "w", "f"])
    b.argument("A", (3, 4), written=True)
    b.argument("g", (2,))
    rng = np.random.default_rng(5)
    add_table(b, "w", rng.uniform(size=n_points))
    add_table(b, "t", rng.uniform(size=(n_points, 4)))
    b.declare("f")
    with b.loop("q", n_points):
        assign(b, "f", "w[q] * (g[0] + g[1])")
        with b.loops(("i", 3), ("j", 4)):
            assign(b, "A[i, j]", "A[i, j] + f * t[q, i] * t[q, j]")
    return finish(b)


def test_a_factor_that_is_the_same_at_all_points_leaves_the_loop_and_tables_are_summed_at_compile_time():
    data = {"A": np.ones((3, 4)), "g": np.array([1.5, 2.0])}
    _, after, kernel = check_step(contract_kernel, constant_jacobian(), data)
    assert after == 2 * 3 * 4 + 1
    t, w = (constant_jacobian().temporary_variables[n].initializer for n in ("t", "w"))
    summed = next(v.initializer for n, v in kernel.temporary_variables.items() if n.startswith("summed"))
    np.testing.assert_allclose(summed, np.einsum("q,qi,qj->ij", w, t[:, :3], t))


def test_a_factor_that_varies_between_points_stays():
    b = KernelBuilder("varying", "float64", ["A", "u", "t"])
    b.argument("A", (3,), written=True)
    b.argument("u", (5,))
    add_table(b, "t", np.random.default_rng(6).uniform(size=(5, 3)))
    with b.loops(("q", 5), ("i", 3)):
        assign(b, "A[i]", "A[i] + u[q] * t[q, i]")
    before, after, _ = check_step(contract_kernel, finish(b), {"A": np.zeros(3), "u": np.arange(5.0)})
    assert before == after


def test_results_that_the_kernel_reads_elsewhere_and_predicates_are_left_alone():
    kernel = constant_jacobian()
    last = kernel.instructions[-1]
    changed = last.copy(predicates=frozenset([lp.symbolic.parse("g[0] > 0")]))
    kernel = kernel.copy(instructions=[kernel.instructions[0], changed])
    before, after, _ = check_step(contract_kernel, kernel, {"A": np.ones((3, 4)), "g": np.array([1.5, 2.0])})
    assert before == after


def test_columns_of_a_row_go_to_an_array_where_that_is_cheaper():
    """One row factor times three column factors: one product in the innermost loop instead of three."""
    one = Monomial(1, ("c",))
    splits = [Split(one, ("p",), (f"d{n}",)) for n in range(3)]
    plan = make_plan(splits, 10, 10)
    assert (list(plan.rows), plan.columns) == ([("p",)], {})
    assert plan.cost == 10 * 10 * 2 + 10 * (3 + 2)


def test_a_plan_for_all_pairs_of_two_factors_has_two_products():
    splits = [Split(Monomial(1, (f"c{a}{b}",)), (f"t{a}",), (f"s{b}",)) for a in range(2) for b in range(2)]
    assert make_plan(splits, 3, 3).cost == 3 * 3 * 4 + 3 * 2 * 3


def test_monomials_are_sorted_and_added_up():
    expand = Expander(lambda v: None, lambda e: True)
    parse = lp.symbolic.parse
    found = expand(parse("2 * a * b + b * a + a * (c + b) - 3 * a * c * 0"))
    assert {(m.factor, tuple(map(str, m.atoms))) for m in found} == {(4, ("a", "b")), (1, ("a", "c"))}


# --- shared values


def scalars_kernel(*pairs, n=4):
    names = [name for name, _ in pairs]
    b = KernelBuilder("scalars", "float64", ["r", "w", *names])
    b.argument("r", (n, len(pairs)), written=True)
    b.argument("w", (n, 6))
    for name in names:
        b.declare(name)
    with b.loop("i", n):
        for name, value in pairs:
            assign(b, name, value)
        for number, name in enumerate(names):
            assign(b, f"r[i, {number}]", name)
    return finish(b), {"r": np.zeros((n, len(pairs))), "w": np.random.default_rng(7).uniform(1, 2, (n, 6))}


@pytest.mark.parametrize(
    ("pairs", "operations"),
    [
        ([("a", "w[i, 0] * w[i, 1] * w[i, 2]"), ("b", "w[i, 3] * w[i, 1] * w[i, 0]")], 3),
        ([("a", "w[i, 0] * w[i, 1] + w[i, 2]"), ("b", "w[i, 2] + w[i, 1] * w[i, 0]")], 2),
        ([("a", "w[i, 0] / w[i, 1]"), ("b", "w[i, 0] / w[i, 1] * w[i, 2]")], 2),
        ([("a", "sqrt(w[i, 0])"), ("b", "w[i, 1] + sqrt(w[i, 0])")], 2),
        ([("a", "w[i, 0] * w[i, 0] * w[i, 1]"), ("b", "w[i, 0] * w[i, 0] * w[i, 2]")], 3),
        ([("a", "w[i, 0] - w[i, 1]"), ("b", "w[i, 1] * w[i, 2]")], 2),
    ],
)
def test_values_are_shared_whatever_the_order_of_operands(pairs, operations):
    kernel, data = scalars_kernel(*pairs)
    _, after, _ = check_step(share_values, kernel, data)
    assert after == 4 * operations


def test_an_instruction_with_a_known_value_disappears():
    kernel, data = scalars_kernel(("a", "w[i, 0] * w[i, 1]"), ("b", "w[i, 1] * w[i, 0]"))
    _, _, after = check_step(share_values, kernel, data)
    assert "b" not in after.temporary_variables


def test_what_values_of_several_loops_share_stands_in_front_of_all_of_these():
    b = KernelBuilder("k", "float64", ["r", "x", "t"])
    b.argument("r", (2, 3), written=True)
    b.argument("x", (6,))
    b.argument("t", (3,))
    for row in range(2):
        with b.loop(f"i{row}", 3):
            assign(b, f"r[{row}, i{row}]", f"t[i{row}] * (x[0] - x[1] + x[{row + 2}])")
    data = {"r": np.zeros((2, 3)), "x": np.random.default_rng(12).uniform(size=6), "t": np.arange(3.0)}
    _, after, kernel = check_step(share_values, finish(b), data)
    assert after == 3 + 2 * 3
    new = [i for i in kernel.instructions if i.assignee_name != "r"]
    assert [i.within_inames for i in new] == [frozenset()] * 3


def test_a_variable_that_changes_is_another_value_afterwards():
    b = KernelBuilder("k", "float64", ["r", "w", "s"])
    b.argument("r", (3, 3), written=True)
    b.argument("w", (3,))
    b.declare("s")
    with b.loop("i", 3):
        assign(b, "s", "w[i]")
        assign(b, "r[i, 0]", "s * w[0]")
        assign(b, "s", "s + 1.0")
        assign(b, "r[i, 1]", "s * w[0]")
        with b.loop("k", 3):
            assign(b, "s", "s + w[k]")
        assign(b, "r[i, 2]", "s * w[0]")
    before, after, _ = check_step(share_values, finish(b), {"r": np.zeros((3, 3)), "w": np.arange(3.0)})
    assert before == after


# --- tables with repeated columns and rows


def test_columns_that_differ_in_sign_form_a_group():
    columns = np.array([[1.0, -1.0, 0.0, 2.0], [3.0, -3.0, 0.0, 1.0]])
    assert find_groups(columns) == [[(0, 1.0), (1, -1.0)], [(3, 1.0)]]


def dof_sum_kernel(table):
    b = KernelBuilder("sums", "float64", ["r", "x", "t", "s"])
    n_points, n_dofs = np.shape(table)
    b.argument("r", (n_points,), written=True)
    b.argument("x", (n_dofs, 2))
    add_table(b, "t", table)
    b.declare("s")
    with b.loop("q", n_points):
        assign(b, "s", 0.0)
        with b.loop("k", n_dofs):
            assign(b, "s", "s + t[q, k] * x[k, 1]")
        assign(b, "r[q]", "s")
    return finish(b), {"r": np.zeros(n_points), "x": np.random.default_rng(8).uniform(size=(n_dofs, 2))}


def test_sums_with_a_bilinear_gradient_take_differences_and_distinct_rows():
    y = np.array([0.2, 0.2, 0.8, 0.8])
    kernel, data = dof_sum_kernel(np.stack([y - 1, 1 - y, -y, y], axis=1))
    before, after, changed = check_step(group_columns, kernel, data)
    assert before == 4 * 7
    assert after == 2 * (3 + 2)
    assert [tuple(t.shape) for n, t in changed.temporary_variables.items() if n.startswith("s_")] == [(2,)]


def test_sums_with_a_table_of_distinct_columns_stay():
    kernel, data = dof_sum_kernel(np.random.default_rng(9).uniform(size=(4, 3)))
    before, after, _ = check_step(group_columns, kernel, data)
    assert before == after


# --- factors of sums, arrays that are constant along an axis


def contraction_kernel(value):
    b = KernelBuilder("contraction", "float64", ["r", "b", "x", "s", "t"])
    b.argument("r", (3, 4), written=True)
    b.argument("b", (3,))
    b.argument("x", (5, 4))
    b.declare("s")
    b.declare("t", (2, 3, 4))
    with b.loops(("i", 3), ("j", 4)):
        assign(b, "s", 0.0)
        with b.loop("k", 5):
            assign(b, "s", value)
        assign(b, "t[1, i, j]", "s")
    with b.loops(("m", 3), ("n", 4)):
        assign(b, "r[m, n]", "t[1, m, n] * b[m]")
    rng = np.random.default_rng(10)
    return finish(b), {"r": np.zeros((3, 4)), "b": rng.uniform(size=3), "x": rng.uniform(size=(5, 4))}


def test_a_common_factor_is_multiplied_after_the_sum():
    kernel, data = contraction_kernel("s + b[i] * x[k, j]")
    before, after, _ = check_step(scale_sums, kernel, data)
    assert before - after == 3 * 4 * (5 - 1)


@pytest.mark.parametrize("is_inside", [True, False])
def test_a_sum_in_a_sum_takes_the_factors_of_both(is_inside):
    b = KernelBuilder("nested", "float64", ["r", "a", "x", "y", "s", "t"])
    b.argument("r", (3,), written=True)
    for name, length in (("a", 3), ("x", 4), ("y", 5)):
        b.argument(name, (length,))
    b.declare("s")
    b.declare("t")

    def inner_sum():
        assign(b, "s", 0.0)
        with b.loop("k", 4):
            assign(b, "s", "s + a[i] * x[k]")

    with b.loop("i", 3):
        if not is_inside:
            inner_sum()
        assign(b, "t", 0.0)
        with b.loop("j", 5):
            if is_inside:
                inner_sum()
            assign(b, "t", "t + a[i] * s * y[j]")
        assign(b, "r[i]", "r[i] + t")
    rng = np.random.default_rng(11)
    data = {"r": np.zeros(3), "a": rng.uniform(size=3), "x": rng.uniform(size=4), "y": rng.uniform(size=5)}
    before, after, _ = check_step(scale_sums, finish(b), data)
    assert after < before


def test_an_array_without_its_constant_axis_is_filled_once():
    kernel, data = contraction_kernel("s + x[k, j] * x[k, 0]")
    before, after, changed = check_step(shrink_arrays, kernel, data)
    assert before - after == (3 - 1) * 4 * 9
    assert {tuple(t.shape) for n, t in changed.temporary_variables.items() if n.startswith("t")} == {(4,)}


def test_an_array_that_varies_along_all_axes_stays():
    kernel, data = contraction_kernel("s + b[i] * x[k, j]")
    before, after, _ = check_step(shrink_arrays, kernel, data)
    assert before == after


def test_a_factor_and_then_an_axis_disappear():
    kernel, data = contraction_kernel("s + b[i] * x[k, j]")
    _, after, _ = check_step(lambda facts: shrink_arrays(facts.of(scale_sums(facts))), kernel, data)
    assert after == 4 * 4 + 3 * 4 + 3 * 4


# --- types


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "value", ["2.0 / 3.0 * w[i]", "w[i] + 2.0 * 3.0", "(0.5 / 3.0) * w[0] * w[i]", "sqrt(2.0) * w[i]"]
)
def test_values_made_of_literals_have_the_precision_of_the_kernel(dtype, value):
    b = KernelBuilder("literals", dtype, ["r", "w"])
    b.argument("r", (2, 4), written=True)
    b.argument("w", (4,))
    with b.loop("i", 4):
        assign(b, "r[0, i]", value)
        assign(b, "r[1, i]", f"{value} + w[1]")
    facts = Analysis(finish(b))
    for step in (hoist_nested, share_values):
        new = step(facts).temporary_variables.values()
        assert {t.dtype.numpy_dtype for t in new} == {np.dtype(dtype)}
