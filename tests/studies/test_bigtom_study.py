"""The study of BigToM, on answerers of known behaviour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pytest

from tests.conftest import ROOT
from tomserve import benchmarks
from tomserve.benchmarks.bigtom import official, rules
from tomserve.items import Item
from tomserve.scoring.answers import Reading
from tomserve.scoring.metric import NO_REPLY
from tomserve.studies import Context, analyze, load_study
from tomserve.studies.showing import Card


@pytest.fixture(scope="module")
def every() -> list[Item]:
    """The small file, its four templates three times under other names, so that there are enough for intervals."""
    found = benchmarks.load("bigtom", ROOT / "tests/data/bigtom_small.csv", where=benchmarks.ALL)
    items = [item for item in found if item.factors["usable"]]
    copies = ({"id": f"{item.id}/{n}", "cluster": f"{item.cluster}/{n}"} for n in range(3) for item in items)
    return [item.model_copy(update=names) for item, names in zip(items * 3, copies, strict=True)]


def scored(items: Sequence[Item], **answerers: Callable[[Item], str]) -> pl.DataFrame:
    """A score table of answerers that reply by key, each under the name of a strategy."""
    rows: list[dict[str, Any]] = []
    for name, answer in answerers.items():
        for item in items:
            said = answer(item)
            text = f"Answer: {official.KEYS[item.choices.index(said)]}{said}"
            row = {"run": "r", "model": "m", "benchmark": "bigtom", "strategy": name, "item": item.id, "status": "ok"}
            row |= {"cluster": item.cluster, "answer": said, "correct": said == item.answer, **item.factors}
            row |= rules.PLACES.compute(item, NO_REPLY)
            row |= official.compute(item, Reading(None, None, text=text))
            row |= {rule.column: rule.answer(item) == item.answer for rule in rules.RULES}
            rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def study(frame: pl.DataFrame, intervals: str = "recommended") -> dict[str, pl.DataFrame]:
    return analyze(frame, load_study("bigtom"), intervals)


def test_whoever_is_always_right_is_right_in_every_table(every: list[Item]) -> None:
    found = study(scored(every, vanilla=right, cot=right))
    for name in ("accuracy", "conditions", "order"):
        assert (found[name]["accuracy"] == 1).all(), name
    assert found["joint"].select("joint", "templates").unique().rows() == [(1, 12)]
    assert told(found, "both followed").tone == "good"
    assert told(found, "harder").verdict == "No difference can be seen"
    for name in ("false_minus_true", "controls", "initial_belief"):
        assert (found[name]["risk_difference"] == 0).all(), name
    assert (found["official"]["agree"] == 1).all()
    assert found["conditions"].filter(strategy="cot")["total"].sum() == len(every)


def test_whoever_answers_with_the_world_has_true_beliefs_right_and_no_template(every: list[Item]) -> None:
    found = study(scored(every, vanilla=world))
    shares = dict(found["conditions"].group_by("condition").agg(pl.col("accuracy").mean()).rows())
    assert (shares["true_belief"], shares["false_belief"], shares["false_control"]) == (1, 0, 1)
    assert found["joint"].select("joint", "product", "true_belief").unique().rows() == [(0, 0, 1)]
    for name in ("false_minus_true", "controls"):
        assert (found[name]["risk_difference"] == -1).all()
    assert set(found["controls"]["task"]) == {"forward_belief", "forward_action", "backward_belief"}
    both, harder = told(found, "both followed"), told(found, "harder")
    assert (both.verdict[:2], both.tone, harder.verdict[:3], harder.tone) == ("No", "bad", "Yes", "bad")
    assert "0% of 12 templates right with both" in both.grounds[0][1]
    assert len(both.grounds) == 3  # a task each, without the initial belief


def world(item: Item) -> str:
    return str(rules.RULES[0].answer(item))


def right(item: Item) -> str:
    return item.answer


def told(found: dict[str, pl.DataFrame], question: str) -> Card:
    """The card of that question about the only model."""
    (verdict,) = load_study("bigtom").verdicts(found, Context({"all": 0.5}))
    (card,) = (card for card in verdict.cards if question in card.question)
    return card


def test_the_authors_scoring_stands_beside_ours(every: list[Item]) -> None:
    frame = scored(every, vanilla=right).with_columns(
        metric_official=pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit(False)),
        metric_both_keys=pl.lit(True),
    )
    found = study(frame)["official"].row(0, named=True)
    assert found["undecided"] == len(every) // 2
    assert (found["official"], found["ours"], found["agree"]) == (0, 1, 0)
    assert (found["official_only"], found["ours_only"]) == (0, len(every) - len(every) // 2)
    assert found["both_keys"] == len(every)


def test_a_table_without_the_factors_has_what_can_be_said(every: list[Item]) -> None:
    bare = scored(every, vanilla=right)["model", "strategy", "item", "status", "correct", "answer"]
    found = study(bare)
    assert found["accuracy"]["accuracy"].to_list() == [1]
    assert not {"joint", "official"} & set(found)


def test_wishes_are_doubted(every: list[Item]) -> None:
    frame = scored(every, vanilla=right).with_columns(task=pl.lit("backward_desire"))
    loaded = load_study("bigtom")
    warned = loaded.warnings(analyze(frame, loaded, "recommended"))
    assert any("backward_desire was asked" in line for line in warned)


def test_the_authors_reasoning_is_compared_with_their_question_which_is_no_reasoning(every: list[Item]) -> None:
    found = study(scored(every, vanilla=right, bigtom_0shot=world, bigtom_cot=world))
    pairs = found["prompting_effects"].select("treatment", "control").rows()
    assert sorted(pairs) == [("bigtom_0shot", "vanilla"), ("bigtom_cot", "bigtom_0shot")]
    card = told(found, "reasoning")
    assert [who for who, _ in card.grounds] == ["bigtom cot"]
    assert "compared with bigtom 0shot" in card.remark
    alone = study(scored(every, bigtom_0shot=world, bigtom_cot=right))
    assert told(alone, "reasoning").tone == "good"
    plain = study(scored(every, vanilla=world, bigtom_cot=world))
    assert plain["prompting_effects"]["control"].to_list() == ["vanilla"]
