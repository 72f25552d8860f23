"""The study of DynToM, on answerers of known behaviour."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from tests.helpers.dyntom import write_trials
from tomserve.benchmarks import get, load
from tomserve.items import Item
from tomserve.studies import Context, analyze, load_study

RULES = get("dyntom").rules


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> list[Item]:
    return list(load("dyntom", write_trials(tmp_path_factory.mktemp("dyntom"), 12)))


def study(
    asked: list[Item], intervals: str = "recommended", **answerers: Callable[[Item], str | None]
) -> dict[str, pl.DataFrame]:
    """The tables of answerers, each under the name of a strategy."""
    rows: list[dict[str, Any]] = []
    for name, answer in answerers.items():
        for item in asked:
            row = {"run": "r", "model": "m", "benchmark": "dyntom", "strategy": name, "item": item.id, "status": "ok"}
            said = answer(item)
            row |= {"cluster": item.cluster, "answer": said, "correct": said == item.answer, **item.factors}
            row |= {rule.column: rule.answer(item) == item.answer for rule in RULES}
            rows.append(row)
    return analyze(pl.DataFrame(rows, infer_schema_length=None), load_study("dyntom"), intervals)


def by_states(item: Item) -> str:
    """Whoever has every state right in scenes 1 to 3 and no change."""
    right = item.factors["form"] == "what" and int(str(item.factors["scene"])) <= 3
    return item.answer if right else next(choice for choice in item.choices if choice != item.answer)


def test_whoever_is_always_right_is_right_in_every_table(asked: list[Item]) -> None:
    found = study(asked, dyntom_vanilla=lambda item: item.answer, dyntom_cot=lambda item: item.answer)
    for name in ("accuracy", "states", "forms", "scenes", "options", "changes"):
        assert (found[name]["accuracy"] == 1).all(), name
    assert (found["consistency"]["all_right"] == 1).all()
    effects = found["prompting_effects"]
    assert effects.select("treatment", "control", "gained").row(0) == ("dyntom_cot", "dyntom_vanilla", 0)
    assert (found["understanding_minus_transformation"]["risk_difference"] == 0).all()


def test_cells_of_a_known_answerer(asked: list[Item]) -> None:
    found = study(asked, dyntom_vanilla=by_states)
    states = {(state, task): (total, share) for state, task, total, share in
              found["states"].select("state", "task", "total", "accuracy").iter_rows()}  # fmt: skip
    assert states["belief", "understanding"] == (60, 0.6)
    assert states["all", "understanding"] == (240, 0.6)
    assert states["emotion", "influence"] == (60, 0)
    assert ("belief", "influence") not in states, "nothing influences a belief"
    scenes = found["scenes"].filter(form="what")
    assert dict(scenes.select("scene", "accuracy").iter_rows()) == {1: 1, 2: 1, 3: 1, 4: 0, 5: 0}
    row = found["consistency"].filter(form="what").row(0, named=True)
    assert (row["states"], row["all_right"], row["product"], row["stories"]) == (48, 0, 0, 12)
    assert row["mean"] == pytest.approx(0.6)
    ends = found["changes"].select("ends_right", "total", "accuracy").rows()
    assert ends == [(0, 48, 0), (1, 48, 0), (2, 96, 0)], "changes 1-2 and 2-3, 3-4, and 4-5 of 48 states"


def test_a_state_counts_only_where_all_its_scenes_were_asked(asked: list[Item]) -> None:
    some = [item for item in asked if not (item.cluster == "trial1" and item.factors["scene"] == 5)]
    found = study(some, dyntom_vanilla=lambda item: item.answer)["consistency"]
    assert dict(found.select("form", "states").iter_rows()) == {"what": 44, "how": 33, "whether": 48, "why": 48}


def test_the_verdict_says_whether_the_words_give_a_change_away(asked: list[Item]) -> None:
    told = load_study("dyntom")
    worse = told.verdicts(study(asked, dyntom_vanilla=by_states), Context({"all": 0.14}))[0]
    card = worse.cards[0]
    assert card.question == "Is a change of mind followed?"
    assert card.verdict.startswith("No")
    words = study(asked, dyntom_vanilla=RULES[0].answer)
    assert told.verdicts(words, Context({}))[0].cards[0].verdict.startswith("Not shown")
