"""Studies of benchmarks that fall into parts: shares by part, and sets that are right together."""

from itertools import product

import polars as pl
import pytest

from tomserve.studies import Context, analyze, load_study
from tomserve.studies.answer_rows import prepare_rows
from tomserve.studies.study import joint_accuracy


def scores(**changes: object) -> pl.DataFrame:
    """Four pieces of two questions each by two strategies: `letters` has all of the first two pieces right and one
    question of each other piece; `letters_cot` has all right."""
    rows = []
    for strategy, number in product(("letters", "letters_cot"), range(8)):
        piece = number // 2
        right = strategy == "letters_cot" or piece < 2 or number % 2 == 0
        row = {"run": "r", "model": "m", "benchmark": "fantom", "strategy": strategy, "item": f"short/{number}"}
        row |= {"status": "ok", "answer": "x", "correct": right, "cluster": f"passage/{piece // 2}"}
        row |= {"context": "short", "accessible": piece % 2 == 0, "order": 1 + number % 2, "options": 2}
        row |= {"part": f"{piece // 2}", "piece": f"{piece}", "rule_first_choice": number % 2 == 0}
        rows.append(row)
    return pl.DataFrame(rows).with_columns(**changes)


def test_a_set_counts_only_where_all_its_questions_are_right() -> None:
    read = ("model", "strategy", "item", "status", "correct", "piece", "options")
    rows = prepare_rows(scores().lazy(), read).collect()
    first, second = joint_accuracy(rows, "piece", ())
    assert (first["sets"], first["questions"], first["all_right"], first["accuracy"]) == (4, 8, 0.5, 0.75)
    assert first["expected"] == pytest.approx(0.75**2)
    assert first["chance"] == 0.25
    assert second["all_right"] == 1
    failed = scores(status=pl.when(pl.col("item") == "short/0").then(pl.lit("timeout")).otherwise(pl.col("status")))
    rows = prepare_rows(failed.lazy(), read).collect()
    assert [row["all_right"] for row in joint_accuracy(rows, "piece", ())] == [0.25, 0.75], "a failure counts as wrong"


def test_the_study_of_fantom_counts_pieces_and_passages_and_quotes_apart() -> None:
    study = load_study("fantom")
    found = analyze(scores(), study, "recommended")
    assert found["accuracy"].select("accuracy", "chance").rows() == [(0.75, 0.5), (1, 0.5)]
    assert found["contexts"]["total"].to_list() == [4, 4, 4, 4]
    assert found["all_of_a_passage"].select("sets", "all_right").rows() == [(2, 0.5), (2, 1)]
    assert found["all_of_a_piece"]["all_right"].to_list() == [0.5, 0.5, 1, 1]
    assert found["published"].row(0) == ("Human", 93.8, 87.5)
    effect = found["prompting_effects"].row(0, named=True)
    assert (effect["control"], effect["treatment"], effect["risk_difference"]) == ("letters", "letters_cot", 0.25)
    card = study.verdicts(found, Context({}))[0].cards[0]
    assert "Each strategy is compared with letters, which asks for the answer alone" in card.remark


def test_the_authors_reading_stands_beside_ours() -> None:
    """Four of eight replies in free text are right by it, of which we take one for wrong; JSON is none of theirs."""
    theirs = pl.when(pl.col("strategy") == "letters").then(pl.col("item").str.slice(-1).is_in(list("0127")))
    for name in ("fantom", "mmtom"):
        study = load_study(name)
        table = scores(metric_official=theirs, task=pl.lit("belief"), type=pl.lit("1.1"))
        for intervals in ("recommended", "published"):
            found = analyze(table, study, intervals)["official"].select(
                pl.col("strategy").first(),
                pl.col("replies", "only_ours", "only_official").sum(),
                official=(pl.col("official_accuracy") * pl.col("replies")).sum(),
                ours=(pl.col("accuracy") * pl.col("replies")).sum(),
            )
            assert found.rows() == [("letters", 8, 3, 1, 4, 6)]
    assert "official" not in analyze(scores(), load_study("fantom"), "recommended"), "no reply in free text"
    refused = scores(metric_official=pl.when(pl.col("item") == "short/0").then(pl.lit(False)))
    assert "official" not in analyze(refused, load_study("fantom"), "recommended"), "a refusal where JSON is asked for"
