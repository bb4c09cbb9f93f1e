"""Recording of stages."""

import pytest

from formcompiler import progress
from formcompiler.progress import record_stages, stage


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes forward only when told to."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])

    def advance(seconds):
        now[0] += seconds

    return advance


def test_stages_add_up_by_their_names_and_surroundings(clock):
    with record_stages() as times:
        for seconds in (1.0, 2.0):
            with stage("passes"):
                with stage("licm"):
                    clock(seconds)
                clock(0.5)
        with stage("licm"):
            clock(8.0)
    assert times.seconds == {("passes",): 4.0, ("passes", "licm"): 3.0, ("licm",): 8.0}
    assert times.counts == {("passes",): 2, ("passes", "licm"): 2, ("licm",): 1}


def test_a_stage_that_fails_counts(clock):
    with record_stages() as times:
        with pytest.raises(ZeroDivisionError), stage("outer"), stage("inner"):
            clock(1.0)
            raise ZeroDivisionError
        with stage("next"):
            clock(2.0)
    assert times.seconds == {("outer",): 1.0, ("outer", "inner"): 1.0, ("next",): 2.0}


def test_stages_outside_of_a_recording_are_not_kept(clock):
    with stage("before"):
        clock(1.0)
    with record_stages() as times:
        pass
    with stage("after"):
        clock(1.0)
    assert times.seconds == {}


def test_the_table_indents_inner_stages_and_gives_shares_of_the_whole(clock):
    with record_stages() as times:
        with stage("passes"), stage("licm"):
            clock(3.0)
        with stage("emit"):
            clock(1.0)
    assert times.table().splitlines() == [
        "passes     3.0000 s   75.0%      1 x",
        "  licm     3.0000 s   75.0%      1 x",
        "emit       1.0000 s   25.0%      1 x",
    ]


def test_a_table_without_stages_is_empty():
    with record_stages() as times:
        pass
    assert times.table() == ""
