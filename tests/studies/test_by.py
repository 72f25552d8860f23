"""Accuracy, effects and differences by any factor, on tables whose cells are known."""

from typing import Any

import polars as pl
import pytest

from tomserve.errors import ConfigError
from tomserve.reporting.html.figures import by_factors, figures_of
from tomserve.studies import Context, Study, analyze, compute

CLUSTERS = 12
PLACE = pl.int_range(pl.len())


def scored(strategies: tuple[str, ...] = ("vanilla", "cot"), **more: Any) -> pl.DataFrame:
    """Each of CLUSTERS stories has a near and a far question in the turns 1, 2 and 10. vanilla is right on all near
    ones and on no far one; the other is right on all of both but the far ones of turn 10."""
    rows = []
    for cluster in range(CLUSTERS):
        for kind in ("near", "far"):
            for turn in (1, 2, 10):
                for strategy in strategies:
                    right = kind == "near" or (not strategy.endswith("vanilla") and turn != 10)
                    row = {"run": "r", "model": "m", "strategy": strategy, "item": f"{cluster}/{kind}/{turn}"}
                    row |= {"cluster": f"s{cluster}", "status": "ok", "answer": "tea", "correct": right}
                    row |= {"floor_guess": 0.5 if turn < 10 else 0.25, "rule_first_choice": kind == "far"}
                    rows.append(row | {"kind": kind, "turn": turn, "early": turn < 3, "number": cluster * 3 + turn})
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(**more)


def test_a_split_of_nothing_and_all_is_shown_as_such() -> None:
    cells = analyze(scored(("vanilla",)), "accuracy", by=["kind"])["by_kind"]
    assert cells.select("kind", "correct", "total", "accuracy").rows() == [("far", 0, 36, 0.0), ("near", 36, 36, 1.0)]
    assert cells["ci_low"].is_between(0, 1).all()


def test_the_interval_counts_stories_and_the_published_one_questions() -> None:
    for way, high in (
        ("recommended", pytest.approx(0.2425, abs=1e-4)),  # Wilson's upper end for 0 of 12
        ("published", pytest.approx(0.05 + 1.96 * (0.05 * 0.95 / 40) ** 0.5, abs=1e-3)),  # (0 + 2)/(36 + 4)
    ):
        found = analyze(scored(("vanilla",)), "accuracy", way, by=["kind"])
        assert found["by_kind"].filter(kind="far")["ci_high"][0] == high
    assert set(found) & {"effects_by_kind", "differences_by_kind"} == set()


def test_chance_and_the_best_rule_are_those_of_the_very_questions() -> None:
    found = analyze(scored(), "accuracy", by=["turn", "kind"])
    by_turn = found["by_turn"].filter(strategy="cot")
    assert by_turn["turn"].to_list() == ["1", "2", "10"], "numbers in their own order"
    assert by_turn["chance"].to_list() == [0.5, 0.5, 0.25]
    assert found["by_kind"].filter(strategy="cot")["best_rule_accuracy"].to_list() == [1.0, 0.0]


def test_effects_are_paired_within_each_value() -> None:
    effects = analyze(scored(), "accuracy", by=["turn"])["effects_by_turn"]
    assert effects.select("turn", "treatment", "risk_difference", "gained", "lost").rows() == [
        ("1", "cot", 0.5, 12, 0),
        ("2", "cot", 0.5, 12, 0),
        ("10", "cot", 0.0, 0, 0),
    ]


def test_stories_and_questions_of_two_benchmarks_that_share_their_names_are_told_apart() -> None:
    told = {"task": pl.lit("near"), "dimension": pl.lit("belief")}
    names = [("tomi", "vanilla"), ("bigtom", "cot")]
    pair = [scored((one,), benchmark=pl.lit(name), run=pl.lit(name), **told) for name, one in names]
    assert "effects_by_kind" not in analyze(pl.concat(pair), "behaviour", by=["kind"])
    both = [scored(benchmark=pl.lit(name), item=name + pl.col("item"), run=pl.lit(name), **told) for name, _ in names]
    found = analyze(pl.concat(both), "behaviour", by=["kind"])["effects_by_kind"]
    assert found["units"].to_list() == [2 * CLUSTERS] * 2
    whole = compute(pl.concat(both).with_columns(run=pl.lit("r")), "accuracy")
    assert whole.tables["accuracy"]["tasks"].to_list() == [2 * CLUSTERS] * 2
    assert whole.warnings[0].startswith("m: questions of several benchmarks are counted together (bigtom, tomi); --by")


def test_variants_are_counted_by_their_kind_alone() -> None:
    both = [scored(("vanilla",), original_item=pl.lit(None, pl.String), variant=pl.lit(None, pl.String))]
    both.append(
        both[0].with_columns(original_item=pl.col("item"), item=pl.col("item") + "/t1", variant=pl.lit("object"))
    )
    found = analyze(pl.concat(both), "stability", by=["kind"])["by_kind"]
    assert found["total"].to_list() == [3 * CLUSTERS] * 2
    found = analyze(pl.concat(both), "stability", by=["variant"])["by_variant"]
    assert found.select("variant", "total").rows() == [("object", 6 * CLUSTERS)]
    every = pl.concat([both[0], both[1].with_columns(correct=pl.lit(False))])
    own = Study(name="own", tables=lambda scores, intervals: {}, variants=True)
    (figure,) = figures_of(every, compute(every, own), Context(), ["kind"])
    assert "near, vanilla: 1.00" in figure.panels[0].svg.label


def test_crossed_factors_have_a_row_for_each_combination_and_compare_the_first() -> None:
    found = analyze(scored(), "accuracy", by=["kind, turn"])
    cells = found["by_kind_turn"].filter(strategy="cot").select("kind", "turn", "accuracy").rows()
    assert cells == [(k, t, float(k == "near" or t != "10")) for k in ("far", "near") for t in ("1", "2", "10")]
    gaps = found["differences_by_kind_turn"].filter(strategy="cot").sort("turn")
    assert gaps.select("turn", "kind", "compared_with", "risk_difference", "pairing").rows() == [
        ("1", "near", "far", 0.0, "within clusters"),
        ("10", "near", "far", 1.0, "within clusters"),
        ("2", "near", "far", 0.0, "within clusters"),
    ]


def test_values_that_share_no_story_are_compared_between_stories() -> None:
    half = pl.when(pl.col("cluster").is_in(["s1", "s2", "s3", "s4"])).then(pl.lit("a")).otherwise(pl.lit("b"))
    gaps = analyze(scored(half=half), "accuracy", by=["half"])["differences_by_half"].filter(strategy="vanilla")
    assert gaps.select("half", "compared_with", "risk_difference", "pairing").rows() == [
        ("b", "a", 0.0, "between clusters")
    ]


def test_one_odd_story_of_both_values_does_not_stand_for_all_others() -> None:
    """Each story is asked of one kind, but for one, whose two answers are both right."""
    number = pl.col("cluster").str.slice(1).cast(pl.Int64)
    some = scored(("vanilla",)).filter((number == 0) | ((number % 2 == 0) == (pl.col("kind") == "near")))
    some = some.with_columns(correct=(number == 0) | pl.col("correct"))
    gap = analyze(some, "accuracy", by=["kind"])["differences_by_kind"]
    assert gap.select("kind", "compared_with", "pairing", "units").rows() == [("near", "far", "between clusters", 13)]
    assert gap["risk_difference"].item() == pytest.approx(1 - 1 / 7)


def test_failures_are_wrong_and_questions_without_a_value_are_left_out_and_said() -> None:
    some = scored(
        status=pl.when(pl.col("item") == "0/near/1").then(pl.lit("timeout")).otherwise(pl.lit("ok")),
        kind=pl.when(pl.col("turn") == 10).then(None).otherwise("kind"),
    ).with_columns(answer=pl.when(pl.col("status") == "timeout").then(None).otherwise("answer"))
    found = compute(some, "accuracy", by=["kind"])
    cells = found.tables["by_kind"].filter(strategy="vanilla").select("kind", "correct", "total", "failed").rows()
    assert cells == [("far", 0, 24, 0), ("near", 23, 24, 1)]
    assert "--by kind: 24 of 72 questions have no value of it and are left out" in found.warnings
    parts = [scored(benchmark=pl.lit(name), run=pl.lit(name), model=pl.lit(name)) for name in ("one", "two")]
    told = compute(pl.concat([parts[0], parts[1].with_columns(kind=pl.lit(None, pl.String))]), "accuracy", by=["kind"])
    assert "--by kind: 72 of 144 questions have no value of it and are left out" in told.warnings


@pytest.mark.parametrize(
    ("by", "more", "said"),
    [
        ("knd", {}, r"--by knd: unknown factor 'knd'; did you mean 'kind'\? Known: .*turn"),
        ("number", {"number": PLACE}, r"factor 'number' has 144 values; at most 100 .*Write a factor of fewer"),
        ("correct", {}, "unknown factor 'correct'"),
    ],
)
def test_what_is_no_factor_or_of_too_many_values_is_refused_with_the_way_out(
    by: str, more: dict[str, pl.Expr], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        analyze(scored(**more), "accuracy", by=[by])


def test_tables_are_named_so_that_they_can_be_files_and_take_no_others_place() -> None:
    names = {"../../evil": "kind", "kind!": "turn", "kind": "kind"}
    odd = scored(**{name: pl.col(old) for name, old in names.items()})
    found = analyze(odd, "accuracy", by=["../../evil", "kind", "kind!"])
    assert {name for name in found if name.startswith("by_")} == {"by_evil", "by_kind", "by_kind_2"}


def test_a_share_that_hides_a_split_is_warned_of() -> None:
    (said,) = [one for one in compute(scored(("vanilla",)), "accuracy").warnings if "hides" in one]
    assert "kind (from 0% where it is far to 100% where it is near)" in said
    even = scored(("vanilla",), correct=pl.col("turn") == 1)
    assert not [one for one in compute(even, "accuracy").warnings if "kind (" in one]


NAMES = "kind faulty other model_ literal"


def test_a_factor_may_be_called_like_a_column_that_counting_makes() -> None:
    """The same numbers, excerpts and figures as under a name of its own; only the column may be `NAME (factor)`."""
    names = NAMES.split()
    same = scored().with_columns(pl.col("kind").alias(name) for name in names)
    analysis = compute(same, "accuracy", by=[f"{name},turn" for name in names])
    rows = [analysis.tables[table].rows() for table in analysis.by]
    assert rows == rows[:3] * len(names)
    shown = {column for one in analysis.summary() for column in one.frame.columns}
    assert all({name, f"{name} (factor)"} & shown for name in names)
    figures = by_factors({table: analysis.tables[table] for table in analysis.by})
    assert sum("near" in str(figure.panels[0].svg) for figure in figures) >= len(names)
