"""The perturbation study's tables about stories that come in several versions: roles, pairs, ground, awareness."""

import polars as pl
import pytest

from tests.conftest import ROOT
from tests.helpers import golden_tables
from tomserve import benchmarks
from tomserve.benchmarks.perturbed.stages import load_stage
from tomserve.items import Item
from tomserve.scoring.table import score_table
from tomserve.studies import analyze, load_study

NEW_TABLES = {"roles", "pairs", "ground", "awareness"}


@pytest.fixture(scope="module")
def items() -> list[Item]:
    """The practice stage, three times over as three stages."""

    def renamed(item: Item, stage: str) -> Item:
        names = {"id": item.id.replace("P1", stage), "cluster": item.cluster.replace("P1", stage)}
        return item.model_copy(update={**names, "factors": {**item.factors, "stage": stage}})

    made = load_stage(ROOT / "tests/data/practice_stage_2.yaml").items()
    return [renamed(item, stage) for stage in ("P1", "P2", "P3") for item in made]


def studied(items: list[Item], wrong: set[str], name: str = "vanilla") -> dict[str, pl.DataFrame]:
    """The tables of a model that answers all but the items whose names begin so."""
    rows = []
    for item in items:
        answer = item.answer
        if any(item.id.startswith(one) for one in wrong):
            answer = next(choice for choice in item.choices if choice != item.answer)
        rows.append((item, {"strategy": name, "status": "ok", "text": f'{{"answer": "{answer}"}}'}))
    scores = score_table("r", "m", rows, rules=benchmarks.scoring_of)
    return analyze(scores, load_study("perturbed"), "recommended")


def test_a_pair_is_solved_where_both_stories_are_right(items: list[Item]) -> None:
    found = studied(items, {"P1/late_label/forgot", "P2/late_label/remembers", "P3/automatic_change_knowledge/knows"})
    late = found["pairs"].row(by_predicate=pl.col("perturbation") == "late_label", named=True)
    assert (late["solved"], late["pairs"]) == (2, 6)
    assert (late["only_cue"], late["only_other"], late["neither"]) == (2, 2, 0)
    overall = found["pairs"].row(by_predicate=pl.col("perturbation") == "overall", named=True)
    assert (overall["solved"], overall["pairs"], overall["target"]) == (6, 12, "new stages")


def test_pairs_of_the_released_and_of_a_fresh_edition_are_not_mixed(items: list[Item]) -> None:
    """Of two editions that one model was asked, each story goes with the twin of its own edition."""
    named = ({"id": f"{one.id}/fresh-7", "factors": {**one.factors, "base": one.id, "fresh": 7}} for one in items)
    fresh = [item.model_copy(update=names) for item, names in zip(items, named, strict=True)]
    found = studied([*items, *fresh], {"P1/late_label/forgot"})["pairs"]
    late = found.row(by_predicate=pl.col("perturbation") == "late_label", named=True)
    assert (late["solved"], late["pairs"], late["only_cue"] + late["only_other"]) == (8, 12, 4)


def test_a_rule_that_answers_by_the_cue_solves_no_pair(items: list[Item]) -> None:
    """Of a pair one story is answered by the cue and the other is not, so that a rule of one role solves none."""
    asked = [
        one for one in items if (one.factors["scenario"], one.factors["question_kind"]) == ("false_belief", "belief")
    ]
    by_cue = {f"{one.cluster}/{one.factors['version']}" for one in asked if one.answer != one.factors["cue"]}
    found = studied(items, by_cue)["pairs"].row(by_predicate=pl.col("perturbation") == "overall", named=True)
    assert (found["solved"], found["only_cue"], found["only_other"]) == (0, 12, 0)
    assert found["best_rule"] not in (None, "always classic", "opposite of the cue", "always unknown")


def test_ground_is_compared_within_class_and_stage(items: list[Item]) -> None:
    found = studied(items, {f"P{n}/late_label/remembers" for n in (1, 2, 3)} | {"P1/late_label/forgot"})["ground"]
    late = found.row(by_predicate=pl.col("perturbation") == "late_label", named=True)
    assert (late["right_treated"], late["asked_treated"]) == (6, 12)
    assert (late["right_control"], late["asked_control"]) == (10, 12)
    assert late["risk_difference"] == pytest.approx(-1 / 3)
    overall = found.row(by_predicate=pl.col("perturbation") == "overall", named=True)
    assert overall["risk_difference"] == pytest.approx(-1 / 3 / 3)  # three classes, one of which differs


def test_the_first_edition_tells_awareness_in_different_stages_and_has_no_pairs() -> None:
    some = [item for item in benchmarks.load("perturbed") if "automatic" in str(item.factors["perturbation"])]
    found = studied(some, set())
    assert set(found) & NEW_TABLES == {"awareness"}
    row = found["awareness"].row(0, named=True)
    assert (row["asked_treated"], row["asked_control"], row["stages"]) == (6, 4, 0)
    assert row["risk_difference"] is None
    assert row["method"] == "no stage has both"


def test_a_whole_task_has_as_many_questions_as_it_says(items: list[Item]) -> None:
    found = studied(items, set())["tasks"]
    assert found["solved"].to_list() == [True] * 9
    part = studied([item for item in items if item.factors["version"] != "plain"], set())["tasks"]
    assert part.filter(perturbation="none")["solved"].to_list() == [None] * 3
    assert part.filter(perturbation="late_label")["solved"].to_list() == [True] * 3


def test_numbers_of_all_tables_are_what_they_were(items: list[Item]) -> None:
    wrong = {"P1/late_label/passed_by", "P2/late_label/remembers", "P1/automatic_change_knowledge/knows", "P3/none"}
    golden_tables.check("perturbed-versions", studied(items, wrong))
