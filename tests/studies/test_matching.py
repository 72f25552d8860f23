"""A fresh edition beside the released one: which questions are compared, and whether memory shows as a gap."""

from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tomserve.errors import ConfigError
from tomserve.studies import comparison
from tomserve.studies.answer_rows import REQUIRED, prepare_rows
from tomserve.studies.comparison import compare, comparison_verdicts
from tomserve.studies.contrasts import contrast, pair_rows

STAGES, CLASSES, QUESTIONS = 12, 4, 8
"""Of a simulated edition: stages, classes in each, and questions of one class in one stage."""


def edition(correct: np.ndarray, seed: int | None = None) -> pl.DataFrame:
    """A score table of an edition, released or told anew.

    correct: STAGES x CLASSES x QUESTIONS booleans.
    """
    released = _questions().with_columns(correct=pl.Series(correct.ravel()))
    told = {"item": pl.col("item") + f"/fresh-{seed}", "base": pl.col("item"), "fresh": pl.lit(seed)}
    return released if seed is None else released.with_columns(**told)


@cache
def _questions() -> pl.DataFrame:
    rows = []
    for stage, task, number in np.ndindex(STAGES, CLASSES, QUESTIONS):
        cluster = {"cluster": f"S{stage:02d}/class_{task}", "stage": f"S{stage:02d}", "perturbation": f"class_{task}"}
        rows.append({"item": f"{cluster['cluster']}/{number}", **cluster})
    fixed = {"model": "m", "strategy": "vanilla", "status": "ok", "answer": "a"}
    return pl.DataFrame(rows).with_columns(**{name: pl.lit(value) for name, value in fixed.items()})


def answers(rng: np.random.Generator, remembered: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What a model answers to both editions: by understanding alike, which differs from stage to stage and question to
    question, and by memory to a share `remembered` of the released questions, all of which it then has right."""
    size = (STAGES, CLASSES, QUESTIONS)
    ability = np.clip(rng.normal(0.6, 0.12, (STAGES, 1, 1)) + rng.normal(0, 0.15, size), 0.02, 0.98)
    released = (rng.random(size) < ability) | (rng.random(size) < remembered)
    return edition(released), edition(rng.random(size) < ability, seed=7)


def gap(rng: np.random.Generator, remembered: float) -> dict[str, float]:
    """Fresh minus released over all questions, with its interval."""
    tables, _ = comparison.match_questions(answers(rng, remembered), ("a", "b"))
    rows = [
        prepare_rows(table.lazy(), REQUIRED, {"cluster": pl.String, "stage": pl.String}).collect() for table in tables
    ]
    return contrast(pair_rows(rows[1], rows[0], ["item", "strategy"]), "stage")


def test_half_of_the_stories_by_heart_is_a_gap_and_none_is_none_at_the_nominal_rate() -> None:
    """The true gap is half of what the model does not know, 0.5 * 0.4; intervals of 95% cover it, and cover 0 where
    nothing was remembered."""
    rng = np.random.default_rng(20261122)
    clean = [gap(rng, 0.0) for _ in range(40)]
    assert sum(one["rd_low"] > 0 or one["rd_high"] < 0 for one in clean) <= 5
    assert abs(np.mean([one["risk_difference"] for one in clean])) < 0.015
    by_heart = [gap(rng, 0.5) for _ in range(10)]
    assert all(one["rd_high"] < 0 for one in by_heart)
    assert np.mean([one["risk_difference"] for one in by_heart]) == pytest.approx(-0.2, abs=0.03)
    assert sum(one["rd_low"] <= -0.2 <= one["rd_high"] for one in by_heart) >= 8


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    """The score tables of a model that remembers half of the released stories."""
    paths = tmp_path / "released.parquet", tmp_path / "fresh.parquet"
    for table, path in zip(answers(np.random.default_rng(1), 0.5), paths, strict=True):
        table.write_parquet(path)
    return paths


def test_a_fresh_edition_is_compared_with_the_items_that_it_was_made_from(tables: tuple[Path, Path], cli) -> None:
    found = compare(*map(str, tables))
    assert found.left_out == (0, 0)
    overall = found.effects.filter(perturbation="overall").row(0, named=True)
    assert overall["n"] == STAGES * CLASSES * QUESTIONS
    assert overall["rd_high"] < 0
    assert "B is significantly less accurate than A" in comparison_verdicts(found)[0]
    said = " ".join(cli("compare", *tables, "--all").out.split())
    assert "B tells A's questions anew: each is compared with the one that it was made from." in said


def test_the_order_of_the_two_is_free_and_two_fresh_editions_pair(tables: tuple[Path, Path], tmp_path: Path) -> None:
    turned = compare(*map(str, reversed(tables)))
    assert turned.caption.startswith("A tells B's questions anew")
    assert turned.effects.filter(perturbation="overall")["rd_low"].item() > 0
    fresh = pl.read_parquet(tables[1])
    other = tmp_path / "other.parquet"
    fresh.with_columns(item=pl.col("base") + "/fresh-8").write_parquet(other)
    both = compare(str(tables[1]), str(other))
    assert both.caption.startswith("A and B tell the same questions in two ways")
    assert both.flips.is_empty()


def test_items_made_in_another_way_pair_too_without_talk_of_memory(tables: tuple[Path, Path], tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    pl.read_parquet(tables[1]).drop("fresh").write_parquet(other)
    found = compare(str(tables[0]), str(other))
    assert found.left_out == (0, 0)
    assert "pair by these" in found.caption
    assert "by heart" not in found.caption


def test_a_part_of_an_edition_needs_common(tables: tuple[Path, Path], tmp_path: Path) -> None:
    part = tmp_path / "part.parquet"
    pl.read_parquet(tables[1]).head(100).write_parquet(part)
    with pytest.raises(ConfigError, match="--common compares what both were asked"):
        compare(str(tables[0]), str(part))
    assert compare(str(tables[0]), str(part), common=True).left_out == (STAGES * CLASSES * QUESTIONS - 100, 0)


def test_two_editions_in_one_table_are_refused(tables: tuple[Path, Path], tmp_path: Path) -> None:
    fresh, both = pl.read_parquet(tables[1]), tmp_path / "both.parquet"
    pl.concat([fresh, fresh.with_columns(item=pl.col("base") + "/fresh-8")]).write_parquet(both)
    with pytest.raises(ConfigError, match=r"'S00/class_0/0/fresh-7' and 'S00/class_0/0/fresh-8' are both made from"):
        compare(str(tables[0]), str(both))
