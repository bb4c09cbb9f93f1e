"""Which loads and stores the places of the lanes lead to."""

from __future__ import annotations

import pytest

from formcompiler.codegen.vectors import Vectors, find_windows
from formcompiler.kernel.addresses import Linear
from formcompiler.naming import Namer


def vectors(extent: int, padded: tuple[str, ...] = ("x",)) -> Vectors:
    return Vectors({"lane": extent}, (), padded, "double", 8, Namer())


def load(offsets: list[int], padded: tuple[str, ...] = ("x",)) -> str:
    places = [Linear(offset) for offset in offsets]
    return vectors(len(offsets), padded).load("x", places, "lane", lambda p: f"x[{p.constant}]")


def store(offsets: list[int]) -> list[str]:
    places = [Linear(offset) for offset in offsets]
    return vectors(len(offsets)).store(places, "lane", lambda p: f"x[{p.constant}]", "v")


def test_elements_in_a_row_are_one_load() -> None:
    assert load([5, 6, 7, 8]) == "reinterpret_cast<const LanesInMemory&>(x[5])"


def test_one_element_for_all_lanes_is_a_broadcast() -> None:
    assert load([3, 3, 3, 3]) == "(x[3] - Lanes{})"


def test_two_halves_are_two_half_loads() -> None:
    assert "Lanes2InMemory&>(x[0])" in load([0, 1, 8, 9])


def test_elements_of_an_array_without_slack_are_not_read_behind_the_last_one() -> None:
    assert load([0, 2, 1], padded=()) == "Lanes{x[0], x[2], x[1]}"
    assert "InMemory&>(x[0])" in load([0, 2, 1])


def test_slack_covers_all_that_is_read() -> None:
    found = vectors(5)
    found.load("x", [Linear(n) for n in range(5)], "lane", lambda p: f"x[{p.constant}]")
    assert found.slack == {"x": 3}


@pytest.mark.parametrize("offsets", [[0, 4, 8, 12], [0, 1, 4, 8], [0, 9, 1, 20]])
def test_elements_that_are_far_apart_have_no_windows(offsets: list[int]) -> None:
    assert find_windows(offsets) is None


@pytest.mark.parametrize("offsets", [[0, 2, 4, 6], [3, 2, 1, 0], [0, 0, 7, 7], [0, 1, 2, 9]])
def test_windows_hold_the_elements_where_they_say(offsets: list[int]) -> None:
    found = find_windows(offsets)
    assert found is not None
    elements = [start + n for start in (found.starts[0], found.starts[-1]) for n in range(found.length)]
    assert [elements[number] for number in found.numbers] == offsets


def test_stores_touch_the_elements_of_the_lanes_only() -> None:
    assert store([0, 1, 2]) == [
        "reinterpret_cast<Lanes2InMemory&>(x[0]) = __builtin_shufflevector(v, v, 0, 1);",
        "x[2] = v[2];",
    ]
    assert store([0, 4, 8, 12]) == [f"x[{4 * n}] = v[{n}];" for n in range(4)]
