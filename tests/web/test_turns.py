"""What becomes of an experiment when its process has ended, by its exit code and by what people wanted."""

from __future__ import annotations

import pytest

from tomserve.web.cards import Job, State
from tomserve.web.turns import DEATHS, End, after

RUNS = Job(state=State.RUNNING, turn=3, deaths=1)


@pytest.mark.parametrize(
    ("code", "wanted", "leaving", "state"),
    [
        (0, None, False, "done"),
        (1, None, False, "done"),
        (2, None, False, "failed"),
        (3, None, False, "queued"),
        (-9, None, False, "queued"),
        (None, None, False, "queued"),
        (143, None, False, "paused"),
        (130, None, False, "paused"),
        (143, None, True, "queued"),
        (-15, None, True, "queued"),
        (2, None, True, "failed"),
        (0, None, True, "done"),
        (143, State.PAUSED, False, "paused"),
        (143, State.CANCELLED, False, "cancelled"),
        (143, State.PAUSED, True, "paused"),
        (143, State.CANCELLED, True, "cancelled"),
        (None, State.PAUSED, False, "paused"),
        (-9, State.CANCELLED, False, "cancelled"),
        (3, State.CANCELLED, False, "cancelled"),
        (2, State.CANCELLED, False, "cancelled"),
        (2, State.PAUSED, False, "failed"),
        (0, State.PAUSED, False, "done"),
        (0, State.CANCELLED, False, "done"),
    ],
)
def test_the_state_that_follows(code: int | None, wanted: State | None, leaving: bool, state: str) -> None:
    job = RUNS if wanted is None else RUNS.model_copy(update={"state": State.STOPPING, "wanted": wanted})
    found = after(job, End(code, said="the last line", leaving=leaving))
    assert found.state.value == state
    assert found.wanted is None
    assert found.exit_code == code
    assert (found.ended is not None) == (state in ("done", "failed", "cancelled"))
    assert found.turn == (4 if state in ("queued", "paused") else 3)


def test_what_it_ended_by_is_said() -> None:
    assert after(RUNS, End(0, said="report: x")).said == ""
    assert after(RUNS, End(1, said="report: x", failures="failures: 2 timeout")).said == "failures: 2 timeout"
    assert after(RUNS, End(1, said="report: x")).said == "report: x"
    assert after(RUNS, End(2, said="no such model")).said == "no such model"
    assert after(RUNS, End(7)).said == "ended with exit code 7"
    assert "the server went away; it goes on by itself" in after(RUNS, End(3, said="the server went away")).said


def test_one_that_dies_again_and_again_without_getting_further_has_failed() -> None:
    job = RUNS.model_copy(update={"deaths": 0})
    for number in range(1, DEATHS):
        job = after(job, End(-9, grown=False)).model_copy(update={"state": State.RUNNING})
        assert job.deaths == number
    assert after(job, End(-9, grown=True)).deaths == 0
    found = after(job, End(-9, grown=False))
    assert (found.state, found.said) == ("failed", "its process was killed by signal 9; that came 3 times in a row")
