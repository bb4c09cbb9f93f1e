"""The order of batches: each once, and none before the batches of the first kernel that touch the same cells."""

import numpy as np
import pytest

from formcompiler.runtime.schedule import order_visits


def expand(visits):
    return [(kernel, batch) for kernel, begin, end in visits.tolist() for batch in range(begin, end)]


@pytest.mark.parametrize("group", [1, 3, 100])
@pytest.mark.parametrize("seed", range(5))
def test_every_batch_is_visited_once_and_after_those_that_write_its_cells(seed, group):
    rng = np.random.default_rng(seed)
    n_cells, lanes = 50, 4
    first = np.resize(rng.permutation(n_cells)[:46], (12, lanes, 1))
    others = [rng.integers(n_cells, size=(n, lanes, sides)) for n, sides in ((17, 2), (0, 2), (5, 1))]
    order = expand(order_visits([first, *others], n_cells, group))
    assert sorted(order) == [(k, b) for k, table in enumerate([first, *others]) for b in range(len(table))]
    for number, table in enumerate(others, start=1):
        for batch, cells in enumerate(table):
            before = [b for b, own in enumerate(first) if np.isin(own, cells).any()]
            assert all(order.index((0, b)) < order.index((number, batch)) for b in before)
    assert [b for k, b in order if k == 0] == list(range(len(first)))


def test_facets_of_a_long_row_of_cells_follow_their_cells_closely():
    cells = np.arange(80).reshape(20, 4, 1)
    facets = np.stack([np.arange(76), np.arange(76) + 1], axis=1).reshape(19, 4, 2)
    order = expand(order_visits([cells, facets], 80, 2))
    assert all(order.index((1, n)) - order.index((0, n)) < 6 for n in range(19))


def test_no_kernels_have_no_visits():
    assert order_visits([], 5, 1).shape == (0, 3)
    assert order_visits([np.zeros((0, 8, 1), dtype=np.int32)], 5, 1).shape == (0, 3)
