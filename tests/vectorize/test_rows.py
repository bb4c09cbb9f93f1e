"""Instructions that set neighbouring entries by one formula become one with lanes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pymbolic.primitives as prim

from formcompiler.kernel.builder import KernelBuilder
from formcompiler.loops import interpret
from formcompiler.vectorize.rows import find_rows, is_same_formula
from formcompiler.vectorize.slices import SliceLanes

A, X = prim.Variable("A"), prim.Variable("x")


def rows(formulas: Sequence[tuple[int, object]]) -> object:
    """Return the kernel that sets A[i, k] to a formula for some k."""
    builder = KernelBuilder("rows", "float64", ["A", "x"])
    builder.argument("A", (2, 8), written=True)
    builder.argument("x", (2,))
    with builder.loop("i", 2) as i:
        for k, formula in formulas:
            builder.assign(A[i, k], formula(X[i]))
    return builder.build()


def sizes(formulas: Sequence[tuple[int, object]], lanes: int = 8) -> list[int]:
    instructions = rows(formulas).default_entrypoint.instructions
    return [len(row.instructions) for row in find_rows(instructions, lanes)]


def test_entries_side_by_side_are_a_row_of_at_most_so_many_lanes() -> None:
    formulas = [(k, lambda x, k=k: 0.1 * k * x) for k in range(2, 8)]
    assert sizes(formulas) == [6]
    assert sizes(formulas, lanes=4) == [4]


def test_gaps_and_other_formulas_end_a_row() -> None:
    line = [(k, lambda x, k=k: 0.5 * k * x) for k in range(3)]
    assert sizes([*line, (5, lambda x: 0.5 * x)]) == [3]
    assert sizes([line[0], line[1], (2, lambda x: 0.5 + x)]) == []


def test_numbers_differ_and_indices_do_not() -> None:
    assert is_same_formula(0.5 * X[0] + 1.0, 0.25 * X[0] + 2.0)
    assert not is_same_formula(0.5 * X[0], 0.5 * X[1])
    assert not is_same_formula(0.5 * X[0], 0.5 + X[0])


def test_rows_give_the_same_numbers() -> None:
    t_unit = rows([(k, lambda x, k=k: (0.1 * k + 1.0) * x + 2.0) for k in range(1, 7)])
    found = SliceLanes(8)(t_unit)
    assert len(found.default_entrypoint.instructions) == 1
    data = {"A": np.zeros((2, 8)), "x": np.array([1.5, -2.5])}
    wanted, got = (interpret(t, data)["A"] for t in (t_unit, found))
    assert np.array_equal(wanted, got)
