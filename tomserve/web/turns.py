"""What becomes of an experiment when its process has ended."""

from __future__ import annotations

from dataclasses import dataclass

from tomserve.engine.records import utc_now
from tomserve.web.cards import Job, State

DEATHS = 3
"""How often in a row a process may end by what nobody wanted, and get no further, until the experiment has failed."""

STOPPED = (129, 130, 143)
"""Exit codes of a command that a signal has stopped, with everything kept."""

LOST = 3
"""Exit code of a command whose server, or whose disk, went away."""


@dataclass(frozen=True, slots=True)
class End:
    """How a process ended. code: its exit code, negative where a signal killed it, None where nobody knows. grown:
    whether it got any further. said: its last line. failures: its line about requests that failed. leaving: whether the
    worker itself ends."""

    code: int | None
    grown: bool = True
    said: str = ""
    failures: str = ""
    leaving: bool = False


def after(job: Job, end: End) -> Job:
    """The place in the queue of an experiment whose process has ended."""
    code = end.code
    if code in (0, 1):
        return _changed(job, State.DONE, code, end.failures or end.said if code else "", ended=utc_now(), deaths=0)
    if job.wanted is State.CANCELLED:
        return _changed(job, State.CANCELLED, code, "", ended=utc_now())
    if job.wanted is not None and (code in STOPPED or code is None or code < 0 or code == LOST):
        return _changed(job, job.wanted, code, "")
    if end.leaving and (code is None or code < 0 or code in STOPPED or code == LOST):
        return _changed(job, State.QUEUED, code, "stopped with the workbench, and goes on when that is started again")
    if code in STOPPED:
        return _changed(job, State.PAUSED, code, "a signal from elsewhere stopped it; let it go on")
    if code is None or code < 0 or code == LOST:
        deaths = 0 if end.grown else job.deaths + 1
        why = end.said if code == LOST else _killed(code)
        if deaths < DEATHS:
            return _changed(job, State.QUEUED, code, f"{why}; it goes on by itself", deaths=deaths)
        return _changed(
            job, State.FAILED, code, f"{why}; that came {deaths} times in a row", ended=utc_now(), deaths=deaths
        )
    return _changed(job, State.FAILED, code, end.said or f"ended with exit code {code}", ended=utc_now())


def _killed(code: int | None) -> str:
    return "its process ended while no worker ran" if code is None else f"its process was killed by signal {-code}"


def _changed(job: Job, state: State, code: int | None, said: str, **more: object) -> Job:
    turn = job.turn + 1 if state in (State.QUEUED, State.PAUSED) else job.turn
    update = {"state": state, "turn": turn, "exit_code": code, "said": said, "wanted": None, **more}
    return job.model_copy(update=update)
