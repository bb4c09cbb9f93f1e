"""A short run of random forms under random options, and that failures are seen."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import fuzz


def test_random_forms_under_random_options_equal_dense_assembly(capsys):
    assert fuzz.main(["--seconds", "0", "--seed", "100", "--batch", "20"]) == 0
    assert "'failed': 0" in capsys.readouterr().out


@pytest.mark.slow
def test_many_random_forms_under_random_options_equal_dense_assembly():
    assert fuzz.main(["--seconds", "300", "--seed", "5000"]) == 0


def test_forms_and_options_of_a_seed_are_the_same_in_every_run():
    for seed in range(10):
        first, second = fuzz.make_candidate(seed), fuzz.make_candidate(seed)
        assert (first is None) == (second is None)
        if first is not None:
            assert first.options == second.options


def test_a_kernel_that_differs_is_reported_with_its_seed(monkeypatch):
    monkeypatch.setattr(fuzz, "tolerance", lambda _: -1.0)
    counts = Counter()
    candidates = [c for c in map(fuzz.make_candidate, range(100, 106)) if c is not None]
    failures = fuzz.run_batch(candidates, counts)
    assert counts["failed"] == len(failures) > 0
    assert all("differs by" in line and "seed 10" in line for line in failures)
