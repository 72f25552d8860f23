"""`tomserve plan --people`: power and size of a study with people."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.conftest import Cli
from tests.helpers.drawn import crowd
from tests.helpers.outcomes import passes
from tests.helpers.questionnaires import items
from tomserve import benchmarks
from tomserve.errors import ConfigError
from tomserve.items.draw import limit_items
from tomserve.stats.power import Spread, class_power, model_power
from tomserve.studies import power
from tomserve.studies import power as planning


def test_each_comparison_has_power_and_sizes() -> None:
    found = power.people_power_table(items(), 20, 4, spread=Spread())
    assert found["comparison"].to_list() == [
        "one class against none",
        "all classes against none",
        "people against a model, one class",
        "people against a model, overall",
    ]
    assert found["power for 0.2"][0] == class_power(20, (2, 2), (4, 4), 0.2)
    assert found["power for 0.1"][3] == model_power(20, 4, 8, 32, 0.1)
    assert found["people for 0.1"][0] is None, "four tasks a class are too few whatever the number of people"
    plain = power.people_power_table([one.model_copy(update={"factors": {}}) for one in items()], 20, 4)
    assert plain["comparison"].to_list() == ["people against a model, overall"]


def test_more_stories_than_tasks_are_refused(cli: Cli) -> None:
    assert power.people_power_table(items(), 20, 8).height == 4
    with pytest.raises(ConfigError, match=r"--stories 9: there are 8 tasks .* ask for at most 8 stories"):
        power.people_power_table(items(), 20, 9)
    done = cli("plan", "--benchmark", "perturbed", "--people", 40, "--stories", 1000)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "--stories 1000: there are " in done.err


def test_a_plan_is_for_the_questions_that_would_be_drawn(cli: Cli) -> None:
    asked = benchmarks.get("perturbed")
    chosen = planning.draw_items(asked, None, 100)
    assert chosen == limit_items(list(asked.items(None)), 100, asked.draw)
    part = planning.draw_items(asked, None, 50, ["perturbation=none"])
    assert {one.factors["perturbation"] for one in part} == {"none"}
    assert 0 < len(part) <= 50
    assert planning.plan_study(asked, None, ("vanilla",), items=chosen).items == len(chosen)
    done = passes(cli("plan", "--benchmark", "perturbed", "--people", 20, "--stories", 5, "--limit", 100, "--all"))
    assert done.out.startswith(f"{len(chosen)} questions, 1 model")
    tasks = len({one.cluster for one in chosen})
    assert f"Questions to choose from: {len(chosen)} about {tasks} tasks" in " ".join(done.out.split())


def test_a_pilot_study_tells_the_spread(tmp_path: Path, cli: Cli) -> None:
    one = crowd(np.random.default_rng(2), 40, 6, 12, 0.0, Spread(share=0.6, people=0.2))
    rows = pl.DataFrame(
        {
            "person": [f"P{n}" for n in one.person], "right": one.right.astype(int), "item": [f"t{n}" for n in one.task],
            "perturbation": ["late_label" if arm else "none" for arm in one.treated],
        }
    )  # fmt: skip
    named = pl.lit("human").alias("model"), pl.lit("whole").alias("strategy"), pl.lit("ok").alias("status")
    scores = rows.group_by("item", "perturbation", maintain_order=True).agg(
        pl.col("person").alias("people"), pl.col("right").alias("people_right")
    ).with_columns(*named, pl.col("item").alias("cluster"), pl.col("people_right").list.mean().gt(0.5).alias("correct"),
                   pl.lit("tea").alias("answer"))  # fmt: skip
    spread = power.people_spread(scores)
    assert spread is not None
    assert spread.share == pytest.approx(float(one.right.mean()))
    assert spread.people > 0.1
    assert power.people_spread(scores.drop("people")) is None
    scores.write_parquet(tmp_path / "pilot.parquet")
    small = ("plan", "--benchmark", "perturbed", "--limit", 200, "--people", 30, "--stories", 9, "--all")
    done = passes(cli(*small, "--like", tmp_path / "pilot.parquet"))
    assert power.spread_in_words(spread).split(";")[0] in done.out
    assert f"Measured in {tmp_path / 'pilot.parquet'}: " in " ".join(done.out.split())
    scores.drop("people", "people_right").write_parquet(tmp_path / "model.parquet")
    said = " ".join(cli(*small, "--like", tmp_path / "model.parquet").out.split())
    assert f"Assumed ({tmp_path / 'model.parquet'} has too few answers of people): 80% right" in said
