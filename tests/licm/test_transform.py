"""The pass as a whole: kernels before and after on the same data, operations, refusals and reports."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest
from licm.interpreter import run
from licm.nests import assign, finish, jacobian_nest, macro_cell_data, macro_cell_nest, matrix_data
from loopy.kernel.array import VectorArrayDimTag
from loopy.symbolic import parse
from loopy.translation_unit import make_program
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

from formcompiler.errors import InvalidOptionError
from formcompiler.kernel.builder import KernelBuilder
from formcompiler.kernel.flops import count_operations
from formcompiler.licm.transform import HoistInvariants, explain

MODES = ("cse", "nested", "general")


def transform(kernel, mode):
    """Return the program, the transformed one and the report."""
    t_unit = make_program(kernel).with_entrypoints(frozenset([kernel.name]))
    return t_unit, *HoistInvariants(mode).run(t_unit)


def check_same(kernel, mode, data, **options):
    """Compare a kernel before and after; return the report."""
    before, after, report = transform(kernel, mode)
    wanted = run(kernel, data, **options)
    actual = run(after.default_entrypoint, data, **options)
    for name, values in wanted.items():
        np.testing.assert_allclose(actual[name], values, rtol=1e-13, atol=1e-13)
    assert report.flops_before == count_operations(before)
    assert report.flops_after == count_operations(after) <= report.flops_before
    return report


@pytest.mark.parametrize("mode", MODES)
def test_macro_cell_kernel_keeps_its_result(mode):
    check_same(finish(macro_cell_nest()), mode, macro_cell_data())


@pytest.mark.parametrize("mode", ["nested", "general"])
def test_values_in_a_vectorized_loop_get_a_vector_axis_by_hand(mode):
    kernel = finish(macro_cell_nest(), "ex", is_looped=True)
    check_same(kernel, mode, macro_cell_data())
    after = transform(kernel, mode)[1].default_entrypoint
    new = {n: t for n, t in after.temporary_variables.items() if n not in kernel.temporary_variables}
    vectors = [t for t in new.values() if t.shape == (1, 3)]
    assert vectors
    assert all(isinstance(t.dim_tags[1], VectorArrayDimTag) for t in vectors)
    for instruction in after.instructions:
        if instruction.assignee_name in new and new[instruction.assignee_name].shape == ():
            assert "ex" not in instruction.within_inames


def test_macro_cell_values_go_to_their_loops():
    report = check_same(finish(macro_cell_nest()), "nested", macro_cell_data())
    assert report.used == "nested"
    assert ("q", "ex", "ey") in {h.loops for h in report.hoisted}
    assert report.flops_after < report.flops_before
    assert report.temporary_bytes == 8 * len(report.hoisted)


def test_hoisted_values_of_lanes_are_vectors_and_others_are_scalars():
    b = KernelBuilder("k", "float64", ["r", "w", "c"])
    b.argument("r", (3, 4), written=True)
    b.argument("w", (4,))
    b.argument("c", (3,))
    with b.loops(("i", 3), ("lane", 4)):
        assign(b, "r[i, lane]", "r[i, lane] + exp(w[lane] * c[0]) * (c[1] + c[2] * c[1])")
    kernel = finish(b, "lane")
    data = {"r": np.zeros((3, 4)), "w": np.arange(4) / 4, "c": np.array([0.5, 2.0, 3.0])}
    check_same(kernel, "nested", data)
    after = transform(kernel, "nested")[1].default_entrypoint
    new = {n: t.shape for n, t in after.temporary_variables.items()}
    assert sorted(new.values()) == [(), (4,)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_sum", [True, False])
def test_jacobian_keeps_its_result(mode, is_sum):
    check_same(jacobian_nest(is_sum=is_sum), mode, matrix_data())


def test_unnested_loops_fall_back_to_sharing_and_say_why():
    report = check_same(jacobian_nest(is_sum=False), "nested", matrix_data())
    assert (report.requested, report.used) == ("nested", "cse")
    assert "{i, q} and on {j, q}" in report.fallback


def test_general_mode_needs_no_nesting():
    nested = check_same(jacobian_nest(), "nested", matrix_data())
    general = check_same(jacobian_nest(), "general", matrix_data())
    assert (general.used, general.fallback) == ("general", "")
    assert general.flops_after < nested.flops_after


def predicated_kernel():
    b = KernelBuilder("boundary", "float64", ["r", "w", "flag"])
    b.argument("r", (2, 3, 4), written=True)
    b.argument("w", (3,))
    b.argument("flag", (3,))
    with b.loops(("q", 3), ("i", 4)):
        assign(b, "r[0, q, i]", "r[0, q, i] * exp(w[q])")
        assign(b, "r[1, q, i]", "r[1, q, i] + exp(w[q])")
    kernel = finish(b)
    predicates = [frozenset([parse("flag[q] > 0")]), frozenset([parse("flag[q] < 0")])]
    changed = [i.copy(predicates=p) for i, p in zip(kernel.instructions, predicates, strict=True)]
    return kernel.copy(instructions=changed)


@pytest.mark.parametrize("mode", MODES)
def test_predicated_instructions_keep_their_result(mode):
    data = {"r": np.ones((2, 3, 4)), "w": np.array([1.0, 2.0, 3.0]), "flag": np.array([1.0, 0.0, -1.0])}
    check_same(predicated_kernel(), mode, data)


def test_hoisted_values_run_under_the_predicates_of_all_users():
    after = transform(predicated_kernel(), "nested")[1].default_entrypoint
    hoisted = next(i for i in after.instructions if str(i.expression) == "exp(w[q])")
    assert hoisted.predicates == {parse("flag[q] > 0 or flag[q] < 0")}
    assert hoisted.within_inames == {"q"}


@pytest.mark.parametrize("mode", MODES)
def test_c_code_stays_and_what_it_writes_is_respected(mode):
    b = KernelBuilder("opaque", "float64", ["r", "w", "s"])
    b.argument("r", (3, 4), written=True)
    b.argument("w", (3,))
    b.declare("s")
    with b.loop("q", 3):
        assign(b, "s", "w[q]")
        with b.loop("i", 4):
            assign(b, "r[q, i]", "r[q, i] + s * s * w[0]")
    kernel = finish(b)
    code = lp.CInstruction(
        (),
        "s = 2 * s;",
        assignees=("s",),
        read_variables=frozenset(["s"]),
        id="code",
        within_inames=frozenset(["q"]),
        depends_on=frozenset(["insn0"]),
    )
    items = list(kernel.linearization)
    items.insert(
        items.index(lp.schedule.RunInstruction(insn_id="insn0")) + 1, lp.schedule.RunInstruction(insn_id="code")
    )
    kernel = kernel.copy(instructions=[kernel.instructions[0], code, kernel.instructions[1]], linearization=items)

    def double(_, values):
        values["s"][()] *= 2

    data = {"r": np.zeros((3, 4)), "w": np.array([1.0, 2.0, 3.0])}
    check_same(kernel, mode, data, on_opaque=double)
    assert code in transform(kernel, mode)[1].default_entrypoint.instructions


def test_kernels_without_linearization_get_one_and_parameters_count_as_two():
    t_unit = lp.make_kernel(
        "{[q, i]: 0 <= q < n and 0 <= i < 3}",
        "r[q, i] = w[q] * w[q] * t[q, i] {id=one}",
        [lp.GlobalArg("r,w,t", np.float64, shape=lp.auto), lp.ValueArg("n", np.int32)],
        target=lp.CTarget(),
        name="parametric",
    )
    after, report = HoistInvariants("nested").run(lp.prioritize_loops(t_unit, "q,i"))
    assert (report.flops_before, report.flops_after) == (12, 8)
    data = {"r": np.zeros((5, 3)), "w": np.arange(5.0), "t": np.arange(15.0).reshape(5, 3)}
    actual = run(after.default_entrypoint, data, parameters={"n": 5})
    np.testing.assert_allclose(actual["r"], (data["w"] ** 2)[:, None] * data["t"])


def test_the_code_that_loopy_writes_has_the_hoisted_value():
    t_unit = lp.make_kernel(
        "{[q, i]: 0 <= q < 4 and 0 <= i < 3}",
        "r[q, i] = w[q] * w[q] * t[q, i]",
        [lp.GlobalArg("r,w,t", np.float64, shape=lp.auto)],
        target=lp.CTarget(),
    )
    t_unit = lp.prioritize_loops(t_unit, "q,i")
    code = lp.generate_code_v2(HoistInvariants("nested")(t_unit)).device_code()
    assert "h = w[q] * w[q];" in code.replace("double const ", "")


@pytest.mark.parametrize("mode", [*MODES, "off"])
def test_transformation_is_deterministic_and_idempotent_in_cost(mode):
    kernel = finish(macro_cell_nest())
    first, second = (transform(kernel, mode)[1].default_entrypoint for _ in range(2))
    assert list(map(str, first.instructions)) == list(map(str, second.instructions))
    assert transform(first, mode)[2].flops_after <= transform(kernel, mode)[2].flops_after


def test_off_changes_nothing():
    kernel = finish(macro_cell_nest())
    before, after, report = transform(kernel, "off")
    assert after.default_entrypoint.instructions == before.default_entrypoint.instructions
    assert report.hoisted == ()


def test_explain_tells_depths_and_bytes():
    kernel = finish(macro_cell_nest())
    report = explain(transform(kernel, "off")[0], "nested")
    assert sum(report.by_depth.values()) == len(report.hoisted)
    assert all(h.text and h.depth == len(h.loops) for h in report.hoisted)


def test_an_unknown_mode_is_refused():
    with pytest.raises(InvalidOptionError, match="choose one of off, cse, nested, general"):
        HoistInvariants("none")
