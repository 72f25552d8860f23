"""Baselines beside every accuracy: counted by hand, compared on the same questions, and said in the verdicts; and other
numbers and words that stand beside each other, which agree."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from tests.helpers.scored import answered, wrong_choice
from tomserve.benchmarks import perturbed
from tomserve.benchmarks.perturbed.baselines import RULES
from tomserve.items import Item
from tomserve.studies import GOOD, OPEN, Card, Context, Figure, Study, Verdict, baselines, load_study
from tomserve.studies.analysis import compute
from tomserve.studies.baselines import (
    RuleKinds,
    compare_with_rule,
    count_rules,
    place_against_rule,
    rule_columns,
)
from tomserve.studies.presentation import cell, number, p_value

ROWS = pl.DataFrame(
    {
        "item": ["1", "2", "3", "4"],
        "correct": [True, True, True, False],
        "faulty": [False, False, False, True],
        "cluster": ["a", "a", "b", "b"],
        "rule_first_choice": [True, False, False, False],
        "rule_keyword": [True, None, True, None],
        "rule_last_choice": [True, True, False, False],
        "rule_always_yes": [None, None, None, None],
    },
    schema_overrides={"rule_always_yes": pl.Boolean},
)
KINDS = RuleKinds({"rule_keyword": "surface", **dict.fromkeys(ROWS.columns[4:5] + ROWS.columns[6:], "constant")})


def test_rules_are_counted_on_the_rows_and_the_plainest_of_the_best_comes_first() -> None:
    found = [(one["rule"], one["kind"], one["right"], one["total"], one["said"]) for one in count_rules(ROWS, KINDS)]
    assert found == [
        ("last choice", "constant", 2, 4, 4),
        ("keyword", "surface", 2, 4, 2),  # what it says nothing of, it has not right
        ("first choice", "constant", 1, 4, 4),
    ]


def test_the_difference_is_that_of_the_two_shares_on_the_same_questions() -> None:
    found = rule_columns(ROWS, KINDS)
    named = ("best_rule", "best_rule_kind", "best_rule_accuracy", "best_rule_estimate", "over_rule")
    assert [found[name] for name in named] == ["last choice", "constant", 0.5, 0.5, 0.75 - 0.5]
    assert found["over_rule_low"] < 0 < found["over_rule_high"]
    assert list(found) == baselines.RULE_COLUMNS.split()
    assert list(rule_columns(ROWS, KINDS, interval=False)) == baselines.KNOWN_COLUMNS.split()


def test_without_rules_all_is_empty() -> None:
    assert set(rule_columns(ROWS, RuleKinds({})).values()) == {None}
    assert RuleKinds.of(ROWS.select(pl.exclude("^rule_.*$")).lazy()) == RuleKinds({})
    assert compare_with_rule(rule_columns(ROWS, RuleKinds({}))) == ""


def test_shares_beside_a_difference_over_stories_are_those_of_stories() -> None:
    rows = ROWS.with_columns(
        cluster=pl.Series(["a", "a", "a", "b"]), unread=False, options=2, model=pl.lit("m"), strategy=pl.lit("vanilla")
    )
    (row,) = baselines.shares_by(rows, (), KINDS, "recommended", brief=False)
    assert (row["accuracy"], row["best_rule_accuracy"], row["over_rule"]) == (0.75, 0.5, (3 / 3 + 0) / 2 - 2 / 3 / 2)
    assert compare_with_rule(row).endswith(" points, 50% against 33% with stories weighted equally)")
    (excerpt,) = baselines.excerpts(pl.DataFrame([row]), ("strategy",))
    assert excerpt.frame.rows()[0][1:4] == (".50", "last choice", ".33")
    figure = Figure("f", "F", "Asked", "Caption.", ())
    assert baselines.mark_best_rule(figure, [row])[1][0]["other"] == 0.5, "beside the share of questions"


def test_the_kind_of_a_rule_is_what_its_benchmark_says() -> None:
    scores = ROWS.with_columns(benchmark=pl.lit("perturbed"), rule_bag_of_words=True, rule_mine=True)
    known = {"rule_keyword": "surface", "rule_bag_of_words": "learned", "rule_first_choice": "constant"}
    known["rule_mine"] = "surface"  # of a benchmark's file that is not at hand
    assert {name: RuleKinds.of(scores.lazy()).by_column[name] for name in known} == known


@pytest.mark.parametrize(
    ("low", "high", "where", "words"),
    [
        (0.1, 0.3, 1, "significantly above"),
        (-0.1, 0.3, 0, "no significant difference from"),
        (-0.3, -0.1, -1, "significantly below"),
    ],
)
def test_the_place_is_read_off_the_interval(low: float, high: float, where: int, words: str) -> None:
    row: dict[str, Any] = {"best_rule": "keyword", "best_rule_accuracy": 0.5, "over_rule": (low + high) / 2}
    row |= {"over_rule_low": low, "over_rule_high": high}
    assert place_against_rule(row) == where
    assert compare_with_rule(row).startswith(f'{words} the baseline "keyword" (50%; difference ')


# Who answers by a rule, and who answers truly


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return list(perturbed.load())


@pytest.fixture(scope="module")
def study() -> Study:
    return load_study("perturbed")


def marked(right: Callable[[Item], bool]) -> Callable[[Item], str]:
    """An answer that is right or wrong."""
    return lambda item: item.answer if right(item) else wrong_choice(item)


def judged(scores: pl.DataFrame, study: Study) -> tuple[Any, Verdict]:
    found = compute(scores, study)
    (verdict,) = study.verdicts(found.tables, Context({"all": 1 / 3, "false_belief": 1 / 3}))
    return found, verdict


REALITY = next(rule for rule in RULES["perturbed"] if rule.name == "always reality")


def test_who_always_answers_reality_is_told_so_and_gets_no_good_verdict(items: list[Item], study: Study) -> None:
    found, verdict = judged(answered(items, REALITY.answer), study)
    whole = found.tables["criteria"].filter(subset="all", rule="strict").select("robust", "rules_robust")
    assert whole.rows() == [(True, "always reality, keyword")]
    card = verdict.cards[0]
    assert card.verdict == "Criterion met, but also by 2 shortcut baselines; not met on false beliefs"
    assert card.tone != GOOD
    assert "982 of 1,088 correct (90%" in verdict.lead[0]
    assert 'no significant difference from the baseline "always reality" (90%; difference 0 [' in verdict.lead[0]
    assert verdict.lead[-1].startswith(
        'Best shortcut baselines: 90% "always reality" (constant or positional), '
        '73% "keyword" (surface), 47% "question only" (learned)'
    )
    overall = found.tables["accuracy"].filter(subset="all", perturbation="overall")
    assert overall.select("best_rule", "over_rule", "p_over_rule").row(0) == ("always reality", 0.0, 1.0)


def test_a_truthful_answerer_is_clearly_above_every_rule(items: list[Item], study: Study) -> None:
    found, verdict = judged(answered(items, lambda item: item.answer), study)
    for subset, rule, right in (
        ("all", "always reality", 982 / 1088),
        ("false_belief", "opposite of the cue", 96 / 136),
    ):
        row = found.tables["accuracy"].filter(subset=subset, perturbation="overall").row(0, named=True)
        assert (row["best_rule"], row["best_rule_accuracy"]) == (rule, right)
        assert row["over_rule_low"] > 0
        assert row["estimate"] - row["best_rule_estimate"] == pytest.approx(row["over_rule"], abs=1e-12)
    assert 'significantly above the baseline "always reality"' in verdict.lead[0]


@pytest.mark.parametrize(("said", "listed"), [(30, False), (50, True)])
def test_a_rule_that_says_nothing_of_most_questions_is_not_listed_among_the_best(said: int, listed: bool) -> None:
    """Its share of all of them would look like a score, and it was not asked about most."""
    rows = [("always reality", "constant", 80, 0.8, 100), ("bag of words", "learned", 15, 0.15, said)]
    rules = pl.DataFrame(rows, ["rule", "kind", "right", "accuracy", "said"], orient="row").with_columns(total=100)
    best = baselines.best_of_kinds(rules)
    assert ("always reality" in best, "bag of words" in best) == (True, listed)
    assert bool(baselines.best_of_kinds(rules.filter(rule="bag of words"))) == listed


# Numbers and words that stand beside each other agree


def cards(scores: pl.DataFrame, study: Study) -> list[Card]:
    return list(judged(scores, study)[1].cards)


def mixed(item: Item) -> bool:
    """About four of five right, other ones in every task."""
    return sum(map(ord, item.id)) % 5 != 0


def test_nothing_is_shown_as_minus_zero_or_as_a_p_of_zero_and_rounding_never_contradicts_the_interval() -> None:
    assert (cell(-0.004), number(-1e-12)) == (".00", "0.00")
    shown = [p_value(p) for p in (0.0, 1e-9, 0.0006, 0.0496, 0.05, 0.0504, 1.0)]
    assert shown == ["p < 0.001"] * 2 + ["p = 0.001", "p = 0.0496", "p = 0.050", "p = 0.0504", "p = 1.000"]


def test_what_was_not_asked_is_neither_passed_nor_failed(items: list[Item], study: Study) -> None:
    some = [item for item in items[::2] if item.factors["perturbation"] == "late_label"]
    (shown,) = (one.frame for one in compute(answered(some, marked(mixed)), study).summary() if "criteria" in one.title)
    assert shown.select("unperturbed", "paper's term").unique().rows() == [("not asked", "cannot be told")]
    robust, *others = cards(answered(some, marked(mixed)), study)
    assert (robust.verdict, robust.tone) == ("Undetermined: not every class was asked", OPEN)
    assert robust.grounds[0][1].startswith(
        "More than half right in 1 of 1 classes, and unperturbed stories were not asked"
    )
    assert others[0].verdict == "No class can be compared with unperturbed stories"
    assert cards(answered(some, marked(lambda _: False)), study)[0].verdict == "No", "half of what was asked is wrong"
