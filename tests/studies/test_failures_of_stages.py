"""Whether failures of two strategies differ is judged by the units of the effect: tasks of a stage fail alike."""

from __future__ import annotations

import polars as pl

from tomserve.studies.contrasts import contrast


def test_tasks_that_fail_together_in_one_stage_are_one_observation() -> None:
    """In one of seven stages all eleven tasks fail with one strategy: eleven tasks, but one stage, tell against it."""
    rows = [
        {"cluster": f"{stage}/{task}", "stage": stage, "correct": True, "control": True}
        | {"faulty": stage == 0, "control_faulty": False}
        for stage in range(7)
        for task in range(11)
    ]
    pairs = pl.DataFrame(rows)
    assert contrast(pairs)["p_failure"] < 0.01
    assert contrast(pairs, "stage")["p_failure"] > 0.3
