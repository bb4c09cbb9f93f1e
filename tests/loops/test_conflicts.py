"""Iterations that meet at an element of an array, behind tables of indices."""

from __future__ import annotations

import numpy as np
import pymbolic.primitives as prim
import pytest

from formcompiler.kernel.builder import KernelBuilder
from formcompiler.loops import analyse
from formcompiler.loops.conflicts import UnknownVariableError, find_conflict


def scatter(places: list[list[int]] | None) -> object:
    """Return the nest of A[places[i, j]] += 1; the places are an argument if they are not given."""
    builder = KernelBuilder("scatter", "float64", ["A", "n"])
    builder.argument("A", (6,), written=True)
    if places is None:
        builder.argument("n", (2, 3), "int32")
        table = "n"
    else:
        table = builder.table("places", np.array(places))
    with builder.loops(("i", 2), ("j", 3)) as (i, j):
        builder.accumulate(prim.Variable("A")[prim.Variable(table)[i, j]], 1.0)
    (nest,) = analyse(builder.build(), variables=())
    return nest


def test_a_permutation_lets_all_iterations_run_at_once() -> None:
    nest = scatter([[3, 1, 5], [0, 2, 4]])
    assert find_conflict(nest, "i", "A") is None
    assert find_conflict(nest, "j", "A") is None


def test_two_iterations_of_the_outer_loop_that_meet_do_not_bind_the_inner_one() -> None:
    nest = scatter([[3, 1, 5], [0, 2, 1]])
    assert find_conflict(nest, "i", "A") == "iterations 0 and 1 of loop i touch the same element of A"
    assert find_conflict(nest, "j", "A") is None


def test_two_iterations_of_the_inner_loop_that_meet_bind_it() -> None:
    assert find_conflict(scatter([[3, 1, 5], [4, 0, 4]]), "j", "A") is not None


def test_places_that_are_known_at_run_time_only_are_not_guessed() -> None:
    with pytest.raises(UnknownVariableError):
        find_conflict(scatter(None), "i", "A")
