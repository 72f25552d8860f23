"""The study of interventions, on measured tables whose truth is known."""

import itertools
from collections.abc import Mapping
from functools import cache

import polars as pl
import pytest

from analysis.causal.study import CAUSES, NO_EFFECT, NO_MAP, NOT_MEASURED, NOT_SETTLED, NOT_TOLD, REPRODUCES, outcome
from analysis.causal.tables import LEVEL, _ranges, agree
from analysis.causal.tables import headline as headline_of
from tests.helpers import golden_tables
from tests.helpers import measured_tables as made
from tests.helpers.measured_tables import Truth, measured
from tomserve.causal.table import HELD_OUT, IDENTITY, PPT, SHUFFLED_PAIRS, net_effects
from tomserve.causal.table import read_outcomes as measured_rows
from tomserve.stats.proportions import Interval
from tomserve.stats.selection import NOTHING
from tomserve.studies import BAD, GOOD, OPEN, Card, Context, Study, load_study
from tomserve.studies.comparability import measurement_conditions

Tables = Mapping[str, pl.DataFrame]


@cache
def study() -> Study:
    return load_study("causal")


IN_DEPTH = ("WORKS", "REPRODUCED", "NOTHING", "FEW", "UNPROBED", "ALONE")
"""Truths whose tables are all looked at, in several layers; of others the layer with the effect is enough, and where a
verdict alone is asked for the table that it is taken from."""


@cache
def tables(truth_name: str, *names: str) -> Tables:
    layers = (1, 2, 3) if truth_name in IN_DEPTH else (made.PEAK[0],)
    return computed(measured(getattr(made, truth_name), layers=layers), *names)


def computed(frame: pl.DataFrame, *names: str) -> Tables:
    return study().tables(frame.lazy(), "recommended", names or None)


def at_peak(truth: Truth, items: int = 160) -> pl.DataFrame:
    """Measured in the layer with the effect alone."""
    return measured(truth, items=items, layers=(made.PEAK[0],))


def headline(truth_name: str) -> dict[str, object]:
    (row,) = tables(truth_name, *wanted(truth_name))["headline"].to_dicts()
    return row


def cards(truth_name: str) -> dict[str, Card]:
    (verdict,) = study().verdicts(tables(truth_name, *wanted(truth_name)), Context())
    return {card.question: card for card in verdict.cards}


def wanted(truth_name: str) -> tuple[str, ...]:
    return () if truth_name in IN_DEPTH else ("headline",)


@pytest.mark.parametrize(
    ("truth", "said", "tone"),
    [
        ("WORKS", CAUSES, GOOD),
        ("ALONE", CAUSES, GOOD),
        ("UNPROBED", CAUSES, GOOD),
        ("SURFACE", NOT_TOLD, OPEN),
        ("TOGETHER", NOT_TOLD, OPEN),
        ("REPRODUCED", REPRODUCES, BAD),
        ("SHARED", NO_MAP, OPEN),
        ("NOTHING", NO_EFFECT, BAD),
        ("FEW", NOT_MEASURED, OPEN),
        ("BROKEN", NOT_MEASURED, OPEN),
        ("NO_CEILING", NOT_MEASURED, OPEN),
    ],
)
def test_the_verdict_is_what_is_so(truth: str, said: str, tone: str) -> None:
    assert outcome(headline(truth))[0] == said
    card = cards(truth)["Does it cause the answer?"]
    assert (card.verdict.lower(), card.tone) == (said, tone)


def test_an_interval_that_is_too_wide_settles_nothing_and_says_how_many_items_would() -> None:
    weak = Truth({PPT: 0.4, SHUFFLED_PAIRS: 0.33})
    found = computed(at_peak(weak, items=70))
    (row,) = found["headline"].to_dicts()
    said, why = outcome(row)
    assert said == NOT_SETTLED
    assert row["items_needed"] > row["eligible"]
    assert f"About {row['items_needed']:,} eligible items would" in why
    assert any("points wide" in line for line in study().warnings(found))


def test_flips_are_counted_as_they_are_drawn() -> None:
    """The first item flips under the true target in one order of two and under the false one in none: 1/2."""
    frame = measured(made.WORKS, items=12)
    at = (pl.col("item") == "worlds/0/0") & (pl.col("map") == PPT) & (pl.col("fitted") == HELD_OUT)
    true = (pl.col("target") == "true") & (pl.col("order") == 0)
    role = pl.when(true).then(pl.lit("true")).otherwise(pl.lit("false")).cast(frame.schema["role"])
    strict = pl.when(at).then(pl.col("layer") != 3).otherwise(pl.col("strict"))
    before = pl.when(at).then(pl.lit("false").cast(frame.schema["role"])).otherwise(pl.col("role_before"))
    frame = frame.with_columns(role=pl.when(at).then(role).otherwise("role"), strict=strict, role_before=before)
    (found,) = measured_rows(frame.lazy())
    items = found.items.filter(item="worlds/0/0")
    for reading, expected in {"strict": (0.5, 0.5, 0.0), "choices": (0.5, 0.5, 0.5), "order_0": (1, 1, 0)}.items():
        effects = net_effects(found, PPT, reading, HELD_OUT, items=items)
        assert [effects.at(layer)[0, 0] for layer in (1, 2, 3)] == list(expected), reading
    assert not net_effects(found, PPT, "order_1", HELD_OUT, items=items).values.any()


def test_eligible_is_the_false_belief_choice_in_both_orders_strictly() -> None:
    frame = measured(Truth(eligible=1.0), items=10)
    first = (pl.col("kind") == "answer") & (pl.col("told") == "false") & (pl.col("order") == 1)
    other = pl.lit("true").cast(frame.schema["role"])
    frame = frame.with_columns(
        role=pl.when(first & (pl.col("item") == "worlds/1/0")).then(other).otherwise("role"),
        strict=pl.col("strict") & ~(first & (pl.col("item") == "worlds/2/0")),
    )
    (found,) = measured_rows(frame.lazy())
    assert set(found.items["item"]) - set(found.select()["item"]) == {"worlds/1/0", "worlds/2/0"}
    assert set(found.items["item"]) - set(found.select("choices")["item"]) == {"worlds/1/0"}


def test_the_headline_finds_the_planted_cell_and_measures_it_without_optimism() -> None:
    row = headline("WORKS")
    assert (row["layer"], row["alpha"], row["chosen_share"]) == (*made.PEAK, pytest.approx(1.0, abs=0.1))
    assert row["net"] == pytest.approx(0.7, abs=0.08)
    assert row["adjusted"] == pytest.approx(0.52, abs=0.08)
    assert row["adjusted_low"] > 0.35
    assert (row["control"], row["ceiling"]) == ("mean_difference", pytest.approx(0.95, abs=0.05))
    assert max(row["p_net"], row["p_over_controls"]) < 0.01
    assert row["published_net"] >= row["net"], "in-sample and the best of all cells"
    assert row["published_layers"] == str(made.PEAK[0]), "the peak stands out"
    assert _ranges([1, 2, 4, 6, 7, 8]) == "1-2, 4, 6-8"


@pytest.mark.parametrize("p", [None, 0.001, 0.04, 0.06, 0.9])
def test_interval_and_p_of_an_effect_say_the_same(p: float | None) -> None:
    for estimate, half in itertools.product((-0.2, 0.0, 0.1, 0.3), (0.0, 0.05, 0.2)):
        given = Interval(estimate, estimate - half, estimate + half, "t")
        found, said = agree(given, p, 40)
        assert found.low <= given.low
        assert (found.estimate, found.high) == (estimate, given.high)
        if said is not None:
            assert (found.low > 0) == (said < LEVEL), (estimate, half)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ahead", [0.0, 0.15, 0.3])
def test_verdict_interval_and_p_never_contradict_each_other(seed: int, ahead: float) -> None:
    truth = Truth({PPT: 0.3 + ahead, SHUFFLED_PAIRS: 0.3})
    (found,) = measured_rows(measured(truth, items=120, layers=(2,), seed=seed).lazy())
    (row,) = headline_of(found)
    said, above = outcome(row)[0], row["adjusted_low"] > 0
    assert (said in (CAUSES, NOT_TOLD)) == above == (row["p_over_controls"] < LEVEL)
    assert (row["net_low"] > 0) == (row["p_net"] < LEVEL)
    assert said not in (REPRODUCES, NO_EFFECT) or not above


def test_nothing_reproduces_nothing() -> None:
    """Where no control is above 0 in the map's best cell, none is said to do what the map does."""
    row = {**headline("REPRODUCED"), "control": NOTHING, "control_net": 0.0}
    assert outcome(headline("REPRODUCED"))[0] == REPRODUCES
    assert outcome(row)[0] == NOT_SETTLED


def test_what_does_as_much_anywhere_is_named_with_its_number() -> None:
    """The map is never exceeded at its own length; identity does more by a longer step."""
    frame = measured(Truth({PPT: 0.5, IDENTITY: 0.0}), layers=(made.PEAK[0],), alphas=(1e-3, 1e-2, 1e-1))
    far = (
        (pl.col("map") == IDENTITY)
        & (pl.col("alpha") == 1e-3)
        & (pl.col("target") == "true")
        & (pl.col("fitted") == HELD_OUT)
    )
    flipped = pl.when(far.fill_null(value=False)).then(pl.lit("true").cast(frame.schema["role"])).otherwise("role")
    found = computed(frame.with_columns(role=flipped))
    (row,) = found["headline"].to_dicts()
    assert (row["ceiling_move"], row["ceiling"]) == (IDENTITY, pytest.approx(1.0))
    (verdict,) = study().verdicts(found, Context())
    specific = verdict.cards[1].verdict
    assert outcome(row)[0] == CAUSES
    assert "identity does as much (+100 points, the map +" in specific
    assert "by a longer step" in specific


def test_tellings_to_you_that_are_answered_wrongly_are_warned_of_and_left_out_of_a_reading() -> None:
    frame = at_peak(made.WORKS)
    wrong = (pl.col("told") == "own_twin") & (pl.col("item").str.ends_with("/0"))
    role = pl.when(wrong.fill_null(value=False)).then(pl.lit("other").cast(frame.schema["role"])).otherwise("role")
    found = computed(frame.with_columns(role=role))
    assert found["headline"]["understood"][0] == pytest.approx(0.5, abs=0.05)
    assert any("told to you): where they are not" in line for line in study().warnings(found))
    readings = {row["reading"]: row["items"] for row in found["readings"].to_dicts()}
    right = round(found["headline"]["understood"][0] * found["headline"]["eligible"][0])
    assert readings['strict, right as "you", too'] == right


def test_transfer_is_measured_between_families_and_said_to_be_missing_without_them() -> None:
    frame = tables("WORKS")["transfer"]
    assert set(frame.select("fitted_on", "applied_to").rows()) == {("contents", "transfer"), ("transfer", "contents")}
    assert cards("WORKS")["Does it transfer?"].verdict == "Yes"
    assert cards("NOTHING")["Does it transfer?"].tone == BAD
    assert "transfer" not in tables("ALONE")
    assert cards("ALONE")["Does it transfer?"].verdict == "Not measured"


def test_shares_of_scenarios_of_unequal_size_count_what_stands_beside_them_counts() -> None:
    one = pl.when(pl.col("family") == "contents").then(pl.lit("one")).otherwise(pl.col("cluster"))
    found = computed(measured(made.WORKS).with_columns(cluster=one), "answers", "probes")
    said = found["answers"].filter(told="false")
    assert said["right"].to_list() == pytest.approx(said["share_false"].to_list())
    read = found["probes"].to_dicts()
    differences = [row["accuracy"] - row["shuffled"] for row in read]
    assert [row["selectivity"] for row in read] == pytest.approx(differences, abs=1e-6)


def test_probes_have_selectivity_in_the_layer_that_the_intervention_chose() -> None:
    row = tables("WORKS")["probes"].filter(probe="protagonist", told="all", layer=2).to_dicts()[0]
    assert row["selectivity"] == pytest.approx(row["accuracy"] - row["shuffled"])
    assert row["selectivity_low"] < 0.4 < row["selectivity_high"]
    assert 0 <= row["shuffled"] <= row["accuracy"] <= 1
    card = cards("WORKS")["Is the belief readable?"]
    assert card.tone == GOOD
    assert cards("UNPROBED")["Is the belief readable?"].verdict == "Not measured"


@pytest.mark.parametrize(
    ("truth", "words"),
    [
        ("FEW", "at least 50 are needed"),
        ("BROKEN", "adding nothing changes"),
        ("UNFITTED", "no map at all"),
        ("LONG", "2.5 times as long as the state"),
    ],
)
def test_every_doubt_is_a_line(truth: str, words: str) -> None:
    assert any(words in line for line in study().warnings(tables(truth)))


@pytest.mark.parametrize("truth", ["REPRODUCED", "NOTHING", "FEW", "UNPROBED", "ALONE"])
def test_numbers_and_words_of_other_truths_are_what_they_were(truth: str) -> None:
    words = {"warnings": [*study().warnings(tables(truth))], "verdicts": study().verdicts(tables(truth), Context())}
    golden_tables.check(f"causal-{truth.lower()}", tables(truth), **words)


def test_strengths_of_their_own_are_no_difference_between_measurements() -> None:
    frame = measured(made.WORKS, items=60, layers=(1, 2))
    own = frame.with_columns(alpha=pl.col("alpha") * pl.col("layer"))
    conditions = [measurement_conditions(measured_rows(one.lazy())[0]).alphas for one in (frame, own)]
    assert conditions == [made.ALPHAS, ()]


def test_items_that_lack_a_move_are_left_out_and_counted() -> None:
    frame = measured(made.WORKS, layers=(1, 2))
    (item,) = measured_rows(frame.lazy())[0].select()["item"].head(1)
    gone = (pl.col("item") == item) & (pl.col("map") == PPT).fill_null(value=False) & (pl.col("layer") == 1)
    found = computed(frame.filter(~gone))
    (row,) = found["headline"].to_dicts()
    assert row["counted"] == row["eligible"] - 1
    assert any("1 eligible items lack some of the moves" in line for line in study().warnings(found))


def test_nothing_answered_by_the_false_belief_gives_tables_and_no_numbers() -> None:
    found = computed(at_peak(Truth(eligible=0.0)))
    (row,) = found["headline"].to_dicts()
    assert (row["eligible"], row["net"], row["published_net"]) == (0, None, None)
    assert outcome(row)[0] == NOT_MEASURED
    (verdict,) = study().verdicts(found, Context())
    assert verdict.lead == ("0 of 160 items eligible; cannot be measured",)
