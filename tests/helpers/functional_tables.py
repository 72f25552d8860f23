"""Answers whose B and S are known, about the scenarios of tests.helpers.measured_tables, so that layers share them."""

from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from analysis.functional import layers
from tomserve.scoring.table import COLUMNS
from tomserve.studies.answer_rows import with_columns

TASKS = (("understanding-1", "belief", 2), ("influence-1", "intention", 4), ("transformation-1", "emotion", 2))
"""The questions of each scenario: task, dimension, number of choices."""
KINDS = ("object", "person", "condensed", "choices")
"""The names of T1 to T4."""

Right = Callable[[str, int], bool]
"""Whether a question is answered right, by its task and the number of its scenario."""


def always(task: str, scenario: int) -> bool:
    """Every question is answered right."""
    del task, scenario
    return True


def share(of: float, seed: str = "") -> Right:
    """So large a share of the questions is answered right, whatever the task."""
    return lambda task, scenario: Random(f"{seed}/{task}/{scenario}").random() < of


def answers(
    right: Right = always,
    kept: float = 1.0,
    model: str = "m",
    *,
    strategy: str = "vanilla",
    scenarios: int = 80,
    kinds: Sequence[str] = KINDS,
    again: bool = True,
    benchmark: str = "worlds",
) -> pl.DataFrame:
    """A score table with a row for each original and each variant.

    right: see Right. kept: the probability that a variant is answered like its original. kinds: of variants. again:
    whether originals were asked again (T0), without any change.
    """
    rows: list[dict[str, Any]] = []
    for number in range(scenarios):
        for task, dimension, options in TASKS:
            item = f"{benchmark}/{number}/{task}"
            said = right(task, number)
            row: dict[str, Any] = {"run": f"run-{model}-{strategy}", "model": model, "benchmark": benchmark}
            row |= {"strategy": strategy, "status": "ok", "cluster": f"worlds/{number}", "task": task}
            row |= {"dimension": dimension, "floor_guess": 1 / options, "options": options, "kind": "unexpected"}
            row |= {"rule_first_choice": number % options == 0, "parse": "json"}
            place = 0 if said else 1
            own = {"item": item, "answer": "ab"[place], "correct": said, "original_item": None, "variant": None}
            own |= {"original_place": place, "noise_compared": [1, 64] if again else None, "noise_answer": None}
            rows.append({**row, **own})
            for kind in kinds:
                same = Random(f"{model}/{item}/{kind}").random() < kept
                then = place if same else 1 - place
                more = {"item": f"{item}/{kind}", "answer": "ab"[then], "correct": then == 0, "original_item": item}
                rows.append({**row, **more, "variant": kind, "original_place": then, "original_answer": "ab"[then]})
    lists = {name: pl.List(pl.Int64) for name in ("noise_compared", "noise_answer")}
    frame = pl.DataFrame(rows, schema_overrides=lists, infer_schema_length=None)
    absent = {name: kind for name, kind in COLUMNS.items() if name not in frame.columns}
    return with_columns(frame.lazy(), absent).collect()


def without_layer_tables(patched: pytest.MonkeyPatch) -> None:
    """The study of functional Theory of Mind without the tables of single layers, which take most of its time."""
    patched.setattr(layers, "load_study", lambda name: SimpleNamespace(tables=lambda *given, **named: {}))
