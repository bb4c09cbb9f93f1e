"""Kernels that assign instead of adding: only if every entry is met once."""

import loopy as lp
import numpy as np
import pymbolic.primitives as prim
import pytest

from formcompiler.kernel.builder import KernelBuilder
from formcompiler.kernel.overwrite import assign_instead_of_adding

A, w = prim.Variable("A"), prim.Variable("w")


def build(write, shape=(6,)):
    builder = KernelBuilder("f", "float64", ["A", "w"])
    builder.argument("A", shape, written=True)
    builder.argument("w", shape)
    write(builder)
    return builder.build()


def added_once(t_unit):
    return [str(i.expression) for i in t_unit.default_entrypoint.instructions]


def test_entries_of_a_table_that_is_a_permutation_are_assigned():
    def write(builder):
        table = prim.Variable(builder.table("gather", np.array([[3, 0, 5], [1, 4, 2]])))
        with builder.loops(("i", 2), ("j", 3)) as (i, j):
            builder.accumulate(A[table[i, j]], 2 * w[3 * i + j])

    (expression,) = added_once(assign_instead_of_adding(build(write), "A"))
    assert "A" not in expression
    assert "w" in expression


def test_several_instructions_may_share_the_entries():
    def write(builder):
        with builder.loops(("i", 3)) as (i,):
            builder.accumulate(A[i], w[i])
            builder.accumulate(A[i + 3], w[i] + w[i + 3])

    changed = assign_instead_of_adding(build(write), "A")
    assert all("A" not in text for text in added_once(changed))


def _twice(builder):
    with builder.loops(("i", 6)) as (i,):
        builder.accumulate(A[i], w[i])
    builder.accumulate(A[2], w[2])


def _not_all(builder):
    with builder.loops(("i", 5)) as (i,):
        builder.accumulate(A[i], w[i])


def _same_entry_in_a_loop(builder):
    with builder.loops(("i", 6), ("k", 2)) as (i, _):
        builder.accumulate(A[i], w[i])


def _unknown_index(builder):
    order = prim.Variable(builder.temporary("order", (), "int32"))
    builder.assign(order, 0)
    with builder.loops(("i", 6)) as (i,):
        builder.accumulate(A[i + order], w[i])


def _read_elsewhere(builder):
    with builder.loops(("i", 6)) as (i,):
        builder.accumulate(A[i], w[i] * A[0])


def _not_added(builder):
    with builder.loops(("i", 6)) as (i,):
        builder.assign(A[i], w[i] + A[i])


@pytest.mark.parametrize(
    "write", [_twice, _not_all, _same_entry_in_a_loop, _unknown_index, _read_elsewhere, _not_added]
)
def test_all_else_stays_an_addition(write):
    assert assign_instead_of_adding(build(write), "A") is None


def test_lanes_are_entries_too():
    def write(builder):
        with builder.loops(("i", 6), ("lane", 2)) as (i, lane):
            builder.accumulate(A[i, lane], w[i, lane])

    t_unit = build(write, (6, 2))
    assert isinstance(t_unit, lp.TranslationUnit)
    assert assign_instead_of_adding(t_unit, "A") is not None
    assert assign_instead_of_adding(build(write, (6, 3)), "A") is None
