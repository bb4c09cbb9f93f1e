"""Linearization in program order, and the operation count, on hand-written kernels."""

from __future__ import annotations

import loopy as lp
import pymbolic.primitives as prim
import pytest
from loopy.schedule import EnterLoop, LeaveLoop, RunInstruction

from formcompiler.errors import InternalCompilerError
from formcompiler.kernel.builder import KernelBuilder
from formcompiler.kernel.flops import count_operations
from formcompiler.kernel.linearize import linearize


def _matrix_vector() -> lp.TranslationUnit:
    builder = KernelBuilder("product", "float64", ["A", "M", "x"])
    builder.argument("A", (3,), written=True)
    builder.argument("M", (3, 4))
    builder.argument("x", (4,))
    A, M, x = map(prim.Variable, "AMx")
    with builder.loop("i", 3) as i:
        total = prim.Variable(builder.temporary("total"))
        builder.assign(total, 0.0)
        with builder.loop("j", 4) as j:
            builder.accumulate(total, M[i, j] * x[j])
        builder.assign(A[i], total)
    return builder.build()


def _text(t_unit: lp.TranslationUnit) -> list[str]:
    names = {EnterLoop: "for", LeaveLoop: "end"}
    return [
        f"{names[type(item)]} {item.iname}" if type(item) in names else item.insn_id
        for item in t_unit.default_entrypoint.linearization or ()
        if isinstance(item, (EnterLoop, LeaveLoop, RunInstruction))
    ]


def test_loops_open_and_close_around_the_instructions_in_program_order() -> None:
    assert _text(linearize(_matrix_vector())) == [
        "for i", "insn0", "for j", "insn1", "end j", "insn2", "end i",
    ]  # fmt: skip


def test_linearizing_does_not_change_the_kernel_that_is_given() -> None:
    before = _matrix_vector()
    linearize(before)
    assert before.default_entrypoint.linearization is None


def test_an_instruction_before_one_that_it_depends_on_is_an_error() -> None:
    t_unit = _matrix_vector()
    kernel = t_unit.default_entrypoint
    backwards = t_unit.with_kernel(kernel.copy(instructions=list(reversed(kernel.instructions))))
    with pytest.raises(InternalCompilerError, match="comes before one that it depends on"):
        linearize(backwards)


def test_a_loop_that_would_open_twice_is_an_error() -> None:
    builder = KernelBuilder("twice", "float64", ["A"])
    builder.argument("A", (3,), written=True)
    with builder.loop("i", 3) as i:
        builder.assign(prim.Variable("A")[i], 1.0)
    builder.assign(prim.Variable("A")[0], 2.0)
    t_unit = builder.build()
    kernel = t_unit.default_entrypoint
    again = kernel.instructions[0].copy(id="again", depends_on=frozenset(["insn1"]))
    with pytest.raises(InternalCompilerError, match="loop i would be opened twice, at instruction again"):
        linearize(t_unit.with_kernel(kernel.copy(instructions=[*kernel.instructions, again])))


def test_loopy_itself_takes_the_kernel_and_finds_an_equivalent_order() -> None:
    """The builder leaves out nothing that loopy needs: its own scheduler accepts the kernel."""
    scheduled = lp.linearize(lp.preprocess_program(_matrix_vector()))
    assert scheduled.default_entrypoint.linearization is not None


def test_operations_are_products_of_trip_counts_and_the_addition_to_zero_is_free() -> None:
    assert count_operations(_matrix_vector()) == 3 * (4 * 2 - 1)


def test_signs_neutral_elements_and_indices_are_free() -> None:
    builder = KernelBuilder("free", "float64", ["A", "x"])
    builder.argument("A", (5,), written=True)
    builder.argument("x", (9,))
    A, x = prim.Variable("A"), prim.Variable("x")
    with builder.loop("i", 5) as i:
        builder.assign(A[i], prim.Product((-1.0, x[2 * i - 0])))
        builder.assign(A[i], prim.Sum((x[i], prim.Product((1.0, x[i])), 0.0)))
        builder.assign(A[i], prim.Quotient(prim.Variable("sqrt")(x[i]), x[i]))
    assert count_operations(builder.build()) == 5 * (0 + 1 + 2)


def test_names_and_equal_tables_are_given_out_once() -> None:
    import numpy as np

    builder = KernelBuilder("names", "float64", ["A"])
    assert builder.temporary("t") == "t"
    assert builder.temporary("t") == "t_2"
    assert builder.table("T", np.eye(2)) == builder.table("other", np.eye(2)) == "T"
    assert builder.table("T", np.ones(2)) == "T_2"


def test_a_loop_of_one_trip_is_no_loop() -> None:
    builder = KernelBuilder("one", "float64", ["A"])
    builder.argument("A", (1,), written=True)
    with builder.loop("i", 1) as i:
        assert i == 0
        builder.assign(prim.Variable("A")[i], 1.0)
    assert _text(linearize(builder.build())) == ["insn0"]
