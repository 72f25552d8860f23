"""Studies of answers that lie in many files say the very same as of all rows in memory."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.conftest import ROOT
from tomserve.errors import ConfigError, MachineError
from tomserve.runs.scores import load_scores
from tomserve.studies import analysis
from tomserve.studies.analysis import compute, compute_files


def drawn(
    seed: int, clusters: int, *, noise: bool = False, metric: bool = False, samples: bool = False
) -> pl.DataFrame:
    """A random score table of two models and three strategies, with failures, rules, factors and uneven clusters."""
    draw = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for cluster in range(clusters):
        skill = draw.beta(1, 1)
        for question in range(int(draw.integers(1, 5))):
            kind = ("near", "far", None)[int(draw.integers(0, 3))]
            rules = {"rule_first_choice": bool(draw.random() < 0.4), "rule_always_yes": kind == "near" or None}
            more = {"kind": kind, "turn": float(draw.integers(0, 3)), "early": bool(draw.random() < 0.5)}
            for model in ("m", "n"):
                for strategy in ("vanilla", "cot", "letters"):
                    if draw.random() < 0.1:
                        continue
                    status = ("ok", "invalid", "timeout", "length")[int(draw.choice(4, p=[0.8, 0.1, 0.05, 0.05]))]
                    right = status == "ok" and bool(draw.random() < skill)
                    row = {"run": model, "model": model, "strategy": strategy, "item": f"{cluster}/{question}"}
                    row |= {"cluster": f"c{cluster:03}", "status": status, "correct": right, "benchmark": "none"}
                    row |= {"answer": "tea" if status == "ok" else None, "floor_guess": [0.5, 0.25, None][question % 3]}
                    if noise:
                        again = draw.random() < 0.5
                        row |= {"noise_compared": [1, 8] if again else None, "chain": None}
                        row |= {"noise_answer": [8] if again and draw.random() < 0.3 else None}
                    if metric:
                        row |= {"metric_words": int(draw.integers(0, 9)) if status == "ok" else None}
                        row |= {"metric_share": float(draw.random())}
                    if samples:
                        got = int(draw.integers(0, 4))
                        row |= {"sample": 0, "samples": 3, "samples_right": got, "samples_read": 3}
                        row |= {"correct_any": got > 0, "correct_all": got == 3, "correct_mean": got / 3}
                    rows.append({**row, **rules, **more})
    lists = {"noise_compared": pl.List(pl.Int64), "noise_answer": pl.List(pl.Int64), "chain": pl.List(pl.String)}
    kinds = {"kind": pl.String, "answer": pl.String, "rule_always_yes": pl.Boolean, **(lists if noise else {})}
    return pl.DataFrame(rows, infer_schema_length=None, schema_overrides=kinds)


def in_files(scores: pl.DataFrame, count: int, seed: int) -> list[pl.LazyFrame]:
    """The rows in so many files, by question: a cluster may lie in several of them. Some files may be empty of a
    model or a strategy, and rows are in another order."""
    files = np.random.default_rng(seed).integers(0, count, scores["item"].n_unique())
    names = dict(zip(scores["item"].unique().sort(), files.tolist(), strict=True))
    of = scores["item"].replace_strict(names, return_dtype=pl.Int64)
    parts = [scores.filter(of == number).sample(fraction=1, shuffle=True, seed=seed) for number in range(count)]
    return [part.lazy() for part in parts if part.height]


@settings(max_examples=3)
@given(seed=st.integers(0, 10**6), clusters=st.integers(2, 20), count=st.integers(2, 5), noise=st.booleans())
@pytest.mark.parametrize("intervals", ["recommended", "effective", "published"])
def test_every_cell_of_every_table_is_that_of_the_rows_in_memory(
    seed: int, clusters: int, count: int, noise: bool, intervals: str
) -> None:
    scores = drawn(seed, clusters, noise=noise)
    by = ("kind", "turn", "early,kind")
    whole = compute(scores, "accuracy", intervals, by)
    parts = compute_files(in_files(scores, count, seed), "accuracy", intervals, by)
    assert list(parts.tables) == list(whole.tables)
    for name, table in whole.tables.items():
        assert_frame_equal(parts.tables[name], table, check_exact=True)
    assert parts.warnings == whole.warnings
    assert parts.notes == whole.notes
    assert parts.by == whole.by


def test_metrics_and_samples_agree_to_the_last_digits_that_sums_of_fractions_have() -> None:
    scores = drawn(3, 25, metric=True, samples=True)
    whole, parts = compute(scores, "accuracy"), compute_files(in_files(scores, 4, 1), "accuracy")
    assert {"metrics", "samples"} <= set(whole.tables)
    for name, table in whole.tables.items():
        assert_frame_equal(parts.tables[name], table, abs_tol=1e-12, rel_tol=1e-12)


def test_a_question_with_answers_in_two_files_is_counted_in_memory() -> None:
    scores = drawn(5, 12)
    files = [scores.filter(strategy=name).lazy() for name in ("vanilla", "cot", "letters")]
    whole, parts = compute(scores, "accuracy"), compute_files(files, "accuracy")
    for name, table in whole.tables.items():
        assert_frame_equal(parts.tables[name], table, check_exact=True)
    with pytest.raises(ConfigError, match="more than one row for"):
        compute_files([scores.lazy(), scores.head(1).lazy()], "accuracy")
    several = (
        scores.head(1)
        .select(pl.all().repeat_by(5001).explode())
        .with_columns(pl.int_range(5001).cast(pl.String).alias("model"))
    )
    with pytest.raises(ConfigError, match="column 'model' has 5,001 values; expected at most 5,000"):
        compute(several, "accuracy")


def test_files_are_never_in_memory_together_where_a_study_can_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("all rows were loaded")

    monkeypatch.setattr(analysis, "compute", refused)
    monkeypatch.setattr(analysis, "_report_memory", refused)
    files = in_files(drawn(2, 10), 3, 1)
    assert compute_files(files, "accuracy", by=["kind"]).tables["accuracy"].height == 6
    assert compute_files(in_files(load_scores(str(ROOT / "runs/example")), 2, 1), "perturbed").tables["criteria"].height
    with pytest.raises(AssertionError, match="all rows were loaded"):
        compute_files(files, "behaviour")


def test_what_cannot_fit_is_refused_before_it_begins_and_what_is_large_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    files = in_files(scores := load_scores(str(ROOT / "runs/example")), 2, 1)
    assert scores.height == 352
    said: list[str] = []
    monkeypatch.setattr(analysis, "LARGE_MEMORY", 1.0)
    compute_files(files, "behaviour", note=said.append)
    assert "takes about 0.0 GB of memory for 352 answers, since it is computed from rows" in said[0]
    monkeypatch.setattr(analysis, "memory_needed", lambda schema, rows: 1e15)
    with pytest.raises(MachineError, match=r"and this machine has .* GB; .*--study accuracy"):
        compute_files(files, "behaviour")
