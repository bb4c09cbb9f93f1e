"""The pass on kernels: tables, loops over tables, and what it leaves alone."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest
from licm.interpreter import run
from licm.nests import assign
from loopy.translation_unit import make_program

from formcompiler.constfold.fold import FoldConstants, is_in_program_order
from formcompiler.errors import InvalidOptionError
from formcompiler.kernel.builder import KernelBuilder
from formcompiler.kernel.flops import count_operations
from formcompiler.kernel.linearize import linearize


def table_kernel(table, value="s + t[k] * x[k]", dtype="float64"):
    b = KernelBuilder("k", dtype, ["r", "x", "s", "t", "c"])
    n = len(table)
    b.argument("r", (1,), written=True)
    b.argument("x", (n,))
    b.declare("t", (n,))
    b._temporaries[-1] = b._temporaries[-1].copy(
        address_space=lp.AddressSpace.GLOBAL, read_only=True, initializer=np.array(table, dtype)
    )
    b.declare("s")
    b.declare("c")
    assign(b, "c", 2.0)
    assign(b, "s", 0.0)
    with b.loop("k", n):
        assign(b, "s", value)
    assign(b, "r[0]", "r[0] + c * s")
    return b.build(), {"r": np.array([0.5], dtype), "x": np.arange(1.0, n + 1, dtype=dtype) / 3}


def check_exact(t_unit, data, level="full"):
    """Compare a kernel before and after, digit by digit; return the kernel after."""
    after = FoldConstants(level)(t_unit)
    wanted = run(linearize(t_unit).default_entrypoint, data)
    actual = run(linearize(after).default_entrypoint, data)
    for name, values in wanted.items():
        np.testing.assert_array_equal(actual[name], values)
    assert count_operations(after) <= count_operations(t_unit)
    return after


def inames(t_unit):
    return sorted(t_unit.default_entrypoint.all_inames())


@pytest.mark.parametrize(
    ("table", "operations"),
    [([-1, 1, 0], 3), ([0, 0, 0], 0), ([0, 2, 0], 3), ([0, 0, 1], 2)],
)
def test_loops_over_small_integer_tables_are_unrolled(table, operations):
    after = check_exact(*table_kernel(table))
    assert count_operations(after) == operations
    assert inames(after) == []


def test_loops_over_tables_of_other_numbers_stay():
    after = check_exact(*table_kernel([0.3, 0.7, 0.1]))
    assert inames(after) == ["k"]


def test_a_constant_table_becomes_a_literal_and_a_literal_scalar_disappears():
    after = check_exact(*table_kernel([0.25] * 3)).default_entrypoint
    assert {"t", "c"}.isdisjoint(after.temporary_variables)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_are_the_same_digit_by_digit_in_any_precision(dtype):
    check_exact(*table_kernel([-1, 0, 2], "s + 0.1 * 0.3 * t[k] * x[k]", dtype))


def test_literals_level_leaves_tables_and_loops():
    t_unit, data = table_kernel([-1, 1, 0])
    after = check_exact(t_unit, data, "literals")
    assert inames(after) == ["k"]
    assert len(after.default_entrypoint.instructions) == len(t_unit.default_entrypoint.instructions)


def test_off_returns_the_program_itself():
    t_unit, _ = table_kernel([-1, 1, 0])
    assert FoldConstants("off")(t_unit) is t_unit


def test_axes_along_which_a_table_is_constant_are_dropped():
    b = KernelBuilder("k", "float64", ["r", "t"])
    b.argument("r", (3, 4), written=True)
    b.declare("t", (3, 4))
    values = np.tile(np.array([0.1, 0.2, 0.3, 0.4]), (3, 1))
    b._temporaries[-1] = b._temporaries[-1].copy(
        address_space=lp.AddressSpace.GLOBAL, read_only=True, initializer=values
    )
    with b.loops(("i", 3), ("j", 4)):
        assign(b, "r[i, j]", "t[i, j]")
    after = check_exact(b.build(), {"r": np.zeros((3, 4))}).default_entrypoint
    (table,) = after.temporary_variables.values()
    assert table.shape == (4,)


def test_an_accumulation_over_points_is_not_copied_by_unrolling():
    b = KernelBuilder("k", "float64", ["r", "w", "t"])
    b.argument("r", (3,), written=True)
    b.argument("w", (5,))
    b.declare("t", (3,))
    b._temporaries[-1] = b._temporaries[-1].copy(
        address_space=lp.AddressSpace.GLOBAL, read_only=True, initializer=np.array([-1.0, 1.0, 0.0])
    )
    with b.loops(("q", 5), ("i", 3)):
        assign(b, "r[i]", "r[i] + w[q] * t[i]")
    after = check_exact(b.build(), {"r": np.zeros(3), "w": np.arange(5.0)})
    assert inames(after) == ["i", "q"]


def test_a_sum_that_the_loop_reads_is_not_unrolled():
    b = KernelBuilder("k", "float64", ["r", "x", "s", "t"])
    b.argument("r", (3,), written=True)
    b.argument("x", (3,))
    b.declare("t", (3,))
    b._temporaries[-1] = b._temporaries[-1].copy(
        address_space=lp.AddressSpace.GLOBAL, read_only=True, initializer=np.array([-1.0, 1.0, 0.0])
    )
    b.declare("s")
    assign(b, "s", 0.0)
    with b.loop("k", 3):
        assign(b, "s", "s + t[k] * x[k]")
        assign(b, "r[k]", "s * x[0]")
    check_exact(b.build(), {"r": np.zeros(3), "x": np.arange(3.0) + 0.1})


def test_linearized_kernels_keep_their_instructions():
    t_unit = linearize(table_kernel([-1, 1, 0])[0])
    assert not is_in_program_order(t_unit.default_entrypoint)
    after = FoldConstants("full")(t_unit).default_entrypoint
    assert [i.id for i in after.instructions] == [i.id for i in t_unit.default_entrypoint.instructions]


def test_folding_twice_changes_nothing_more():
    once = FoldConstants("full")(table_kernel([-1, 1, 0])[0])
    twice = FoldConstants("full")(once)
    assert list(map(str, twice.default_entrypoint.instructions)) == list(map(str, once.default_entrypoint.instructions))


def test_programs_keep_their_entry_point():
    t_unit, _ = table_kernel([1, 1, 1])
    assert (
        FoldConstants()(t_unit).entrypoints
        == make_program(t_unit.default_entrypoint).with_entrypoints(frozenset(["k"])).entrypoints
    )


def test_an_unknown_level_is_refused():
    with pytest.raises(InvalidOptionError, match="choose one of off, literals, full"):
        FoldConstants("all")
