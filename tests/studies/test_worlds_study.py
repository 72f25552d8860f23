"""The study of worlds, on answerers of known behaviour."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from tomserve.benchmarks.worlds.drawing import worlds
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.benchmarks.worlds.rendering import items
from tomserve.items import Item
from tomserve.studies import Context, analyze, load_study


@pytest.fixture(scope="module")
def asked() -> list[Item]:
    lexicon = built_in()
    return [item for world in worlds(lexicon, 40, 5) for item in items(world, lexicon)]


def scored(asked: list[Item], **answerers: Callable[[Item], str | None]) -> pl.DataFrame:
    """A score table of answerers, each under the name of a strategy."""
    rows: list[dict[str, Any]] = []
    for name, answer in answerers.items():
        for item in asked:
            row = {"run": "r", "model": "m", "benchmark": "worlds", "strategy": name, "item": item.id, "status": "ok"}
            said = answer(item)
            row |= {"cluster": item.cluster, "answer": said, "correct": said == item.answer, **item.factors}
            row |= {"rule_always_reality": item.factors["reality"] == item.answer, "rule_first_choice": None}
            rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def reality(item: Item) -> str | None:
    real = item.factors["reality"]
    return str(real) if real in item.choices else None


def study(frame: pl.DataFrame, intervals: str = "recommended") -> dict[str, pl.DataFrame]:
    return analyze(frame, load_study("worlds"), intervals)


def test_whoever_is_always_right_is_right_in_every_table(asked: list[Item]) -> None:
    found = study(scored(asked, vanilla=lambda item: item.answer, cot=lambda item: item.answer))
    for name in ("accuracy", "families", "tasks", "conditions", "orders"):
        assert (found[name]["accuracy"] == 1).all(), name
    assert found["families"].filter(strategy="cot")["total"].sum() == len(asked)
    assert (found["joint"]["joint"] == 1).all()
    assert found["false_minus_true"]["risk_difference"].to_list() == [0, 0]
    assert found["prompting_effects"]["gained"].to_list() == [0]


def test_whoever_answers_with_what_is_so_has_true_beliefs_right_and_no_pair(asked: list[Item]) -> None:
    placed = [item for item in asked if item.factors["family"] in ("transfer", "contents")]
    found = study(scored([item for item in placed if item.factors["kind"] == "belief"], vanilla=reality))
    by_condition = dict(found["conditions"].select("condition", "accuracy").rows())
    assert by_condition == {"false_belief": 0, "ignorance": 0, "true_belief": 1}
    assert found["joint"].select("joint", "product").unique().rows() == [(0, 0)]
    shares = found["false_minus_true"].select("share_treated", "share_control", "risk_difference")
    assert shares.row(0) == (0, 1, -1)


def test_pairs_are_the_same_question_about_the_same_person_in_two_tellings(asked: list[Item]) -> None:
    first: dict[str, dict[tuple[object, ...], Item]] = {"false_belief": {}, "true_belief": {}}
    for item in sorted(asked, key=lambda one: one.id):
        key = (item.cluster, item.id.split("/")[2], *(item.factors[name] for name in ("kind", "asked", "task")))
        first.get(str(item.factors["condition"]), {}).setdefault(key, item)
    false, true = first.values()
    pairs = sum(
        false[key].factors["answer_key"] != true[key].factors["answer_key"] for key in false.keys() & true.keys()
    )
    found = study(scored(asked, vanilla=lambda item: item.answer))
    assert found["joint"].filter(family="all")["pairs"].to_list() == [pairs]
    assert pairs > 20


def test_verdicts_say_whether_a_false_belief_is_followed(asked: list[Item]) -> None:
    placed = [item for item in asked if item.factors["kind"] in ("belief", "action")]
    found = study(scored(placed, vanilla=reality))
    verdict = load_study("worlds").verdicts(found, Context({"all": 0.3}))[0]
    card = verdict.cards[0]
    assert card.question == "Is a belief followed where it is false?"
    assert card.verdict.startswith("No")
    assert "by two blind guesses" in card.grounds[0][1]
    right = study(scored(placed, vanilla=lambda item: item.answer))
    assert load_study("worlds").verdicts(right, Context({}))[0].cards[0].verdict.startswith("As often")
