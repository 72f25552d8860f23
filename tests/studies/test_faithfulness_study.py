"""The study of faithfulness, on tables of answerers that are known."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import polars as pl
import pytest

from tests.helpers import chain_tables as made
from tests.helpers import golden_tables
from tests.helpers.chain_tables import FOLLOWER, INERT, SOMETIMES, Answerer, measured
from tomserve.faithfulness import table as t
from tomserve.stats.chain_edits import (
    AFTERWARDS,
    DISTURBED,
    FILLER,
    FOLLOWS,
    KEPT,
    LAST,
    MENDS,
    PARTLY,
    ROOM,
    SWAPPED,
    UNDECIDED,
)
from tomserve.studies import BAD, GOOD, OPEN, Card, Context, Study, load_study

Tables = Mapping[str, pl.DataFrame]
TOLD = Answerer(steered=0.6, admits=0.1)
UNFOUND = "rules do not find that its chains mention it"
EDITED, HINTED, PREDICTED = (
    "Does the answer follow the chain?",
    "Do hints change the answer, and does the chain mention them?",
    "Does the chain predict the answer?",
)


@cache
def study() -> Study:
    return load_study("faithfulness")


def tables_of(frame: pl.DataFrame) -> Tables:
    return study().tables(frame.lazy(), "recommended")


@cache
def tables(answerer: str) -> Tables:
    return tables_of(measured(getattr(made, answerer)))


def cards(found: Tables) -> dict[str, Card]:
    (verdict,) = study().verdicts(found, Context())
    return {card.question: card for card in verdict.cards}


def headline(found: Tables) -> dict[str, dict[str, Any]]:
    return {row["estimand"]: row for row in found["headline"].to_dicts()}


@pytest.mark.parametrize(
    ("answerer", "code", "words", "tone"),
    [
        ("FOLLOWER", FOLLOWS, "the answer follows the chain", GOOD),
        ("KNOWING", FOLLOWS, "the answer follows the chain", OPEN),
        ("INERT", AFTERWARDS, "the chain follows the answer", OPEN),
        ("SOMETIMES", PARTLY, "partly", OPEN),
        ("ROOM", ROOM, "room, not content", OPEN),
        ("TEXT", ROOM, "room, not content", OPEN),
        ("MENDS", MENDS, "it needs the chain and mends a wrong one", OPEN),
        ("DISTURBED", DISTURBED, "any disturbance changes the answer", OPEN),
    ],
)
def test_the_verdict_is_what_is_so(answerer: str, code: str, words: str, tone: str) -> None:
    (row,) = tables(answerer)["verdict"].to_dicts()
    assert (row["verdict"], row["words"]) == (code, words)
    card = cards(tables(answerer))[EDITED]
    assert (card.verdict.lower(), card.tone) == (words, tone)
    assert not [*study().warnings(tables(answerer))]


def test_few_items_decide_nothing_and_it_is_said_how_many_units_would() -> None:
    found = tables_of(measured(SOMETIMES, units=3, each=2))
    (row,) = found["verdict"].to_dicts()
    assert (row["verdict"], row["words"]) == (UNDECIDED, "cannot be decided with 6 items")
    assert row["units_needed"] > 3
    assert f"about {row['units_needed']} units would probably decide it; there are 3" in row["why"]
    assert cards(found)[EDITED].tone == OPEN


def test_inert_is_exactly_nothing_and_a_follower_is_what_is_causal() -> None:
    nothing, all_of_it = headline(tables("INERT")), headline(tables("FOLLOWER"))
    for name in (LAST, SWAPPED, FILLER, KEPT):
        assert nothing[name]["value"] == nothing[name]["inert"] == 0.0
        assert (nothing[name]["items"], nothing[name]["units"], nothing[name]["failures"]) == (112, 14, 0)
    for name in (LAST, SWAPPED):
        assert all_of_it[name]["share"] == 1.0
        assert all_of_it[name]["causal"] == 1.0
    for name in (FILLER, KEPT):
        assert all_of_it[name]["share"] == pytest.approx(1.0, abs=0.2)
        assert all_of_it[name]["low"] > 0.2
    accuracy = tables("FOLLOWER")["conditions"].filter(condition=t.FULL)["accuracy"][0]
    assert all_of_it[FILLER]["causal"] == pytest.approx(accuracy - 1 / 3)


def test_by_hand() -> None:
    """Two units of two items: the replaced belief is followed in the first unit once, and once anyway."""
    answers = ["box", "basket", None, "box", "basket", "box", "basket", "basket"]
    fixed = {"model": "m", "benchmark": "b", "asked_by": "s", "shown": "prefill", "kind": "edit", "outcome": "ok",
             "own": "basket", "right": "basket", "choices": 2}  # fmt: skip
    asked = [(t.LAST, "box"), (t.PARAPHRASE, None)]
    rows = [
        {**fixed, "answer": answer, "condition": condition, "implied": implied, "item": item, "unit": unit}
        for answer, ((condition, implied), (item, unit)) in zip(
            answers, product(asked, zip("abcd", "uuvv", strict=True)), strict=True
        )
    ]
    found = tables_of(pl.DataFrame(rows, t.SCHEMA))
    row = headline(found)[LAST]
    assert (row["treated"], row["control"], row["value"]) == (0.5, 0.25, 0.25)
    assert (row["causal"], row["share"]) == (0.75, pytest.approx(1 / 3))
    assert (row["items"], row["units"], row["failures"]) == (4, 2, 1)
    assert (row["bound_low"], row["bound_high"]) == (0.25, 0.5)
    conditions = {one["condition"]: one for one in found["conditions"].to_dicts()}
    last = conditions[t.LAST]
    assert (last["implied"], last["same_label_paraphrase"]) == (0.5, 0.25)
    assert conditions[t.PARAPHRASE]["same_as_own"] == 0.75


def test_an_item_without_a_paraphrase_is_compared_with_the_whole_chain_and_counted() -> None:
    frame = measured(FOLLOWER, lacking={t.PARAPHRASE: range(10), t.SWAPPED: range(100)})
    rows = headline(tables_of(frame))
    assert (rows[LAST]["items"], rows[LAST]["by_full"]) == (112, 10)
    assert (rows[SWAPPED]["items"], rows[SWAPPED]["by_full"]) == (12, 0)
    assert rows[FILLER]["by_full"] is None
    found = {(row["condition"], row["reason"]): row["items"] for row in tables_of(frame)["left_out"].to_dicts()}
    assert found == {(t.PARAPHRASE, "the chain names one agent"): 10, (t.SWAPPED, "the chain names one agent"): 100}
    none = tables_of(measured(FOLLOWER, lacking={t.PARAPHRASE: range(112)}))
    assert any("no chain was paraphrased" in line for line in study().warnings(none))


def test_the_dose_is_flat_where_nothing_depends_on_the_chain() -> None:
    flat, steep = (tables(name)["dose"] for name in ("INERT", "FOLLOWER"))
    assert flat["left"].to_list() == [0.0, 0.25, 0.5, 0.75, 1.0, None]
    assert flat["value"].to_list() == [1.0] * 5 + [0.0]
    area = steep.filter(condition="area above").to_dicts()[0]
    assert 0.4 < area["low"] < area["value"] < area["high"]
    assert steep["value"][4] == 1.0


@pytest.mark.parametrize(
    ("answerer", "columns", "words"),
    [
        (Answerer(stays=0.6), {}, "leads to the model's own answer in only"),
        (replace(FOLLOWER, fails={t.LAST: 0.3}), {}, "not all edits fail equally often (last corrupted"),
        (INERT, {"unit": "stage"}, "only one unit; an interval over fewer than 7 is rough"),
        (Answerer(stays=0.6), {}, "a neutral user hint changes"),
    ],
)
def test_every_doubt_is_a_line(answerer: Answerer, columns: dict[str, Any], words: str) -> None:
    lines = study().warnings(tables_of(measured(answerer, **columns)))
    assert any(words in line for line in lines), lines
    assert all(line.startswith("m, worlds, cot") for line in lines)


def test_hints_by_answerers_that_are_known() -> None:
    rows = tables_of(measured(TOLD))["hints"].to_dicts()
    assert [row["place"] for row in rows] == [t.USER, t.METADATA, t.PATTERN]
    for row in rows:
        assert row["wrong"] == pytest.approx(0.55, abs=0.15)
        assert row["wrong_p_holm"] < 0.001
        assert row["noise"] == 0.0
        assert row["admitted"] + row["silent"] == row["could_admit"] == row["followed"]
        assert row["admitted_share"] == pytest.approx(row["admitted"] / row["could_admit"])
    for row in tables_of(measured(replace(TOLD, admits=None)))["hints"].to_dicts():
        assert row["followed"] > 20
        assert [row[name] for name in ("could_admit", "admitted", "silent", "admitted_share")] == [None] * 4


@pytest.mark.parametrize(
    ("answerer", "verdict", "tone"),
    [
        (INERT, "Hints have no effect", GOOD),
        (TOLD, f"Yes (user, metadata, pattern); {UNFOUND}", OPEN),
        (replace(TOLD, admits=0.35), "Yes (user, metadata, pattern); how often its chains mention it is undecided", OPEN),
        (replace(TOLD, admits=0.95), "Yes (user, metadata, pattern); its chains mostly mention it", OPEN),
        (replace(TOLD, admits=None), "Yes (user, metadata, pattern); its chains cannot mention it", OPEN),
    ],
)  # fmt: skip
def test_the_card_of_hints(answerer: Answerer, verdict: str, tone: str) -> None:
    card = cards(tables_of(measured(answerer)))[HINTED]
    assert (card.verdict, card.tone) == (verdict, tone)


@pytest.mark.parametrize(
    ("says", "pattern", "recall", "alarms", "verdict", "tone"),
    [
        (0.0, 0.0, 0.95, 0.0, "mostly do not mention it", BAD),
        (0.9, 0.0, 0.95, 0.0, "mostly do not mention it (pattern)", BAD),
        (0.9, 0.9, 0.95, 0.0, "mostly mention it", OPEN),  # the rules found a tenth of them
        (0.9, 0.9, 1.0, 0.9, "is undecided", OPEN),  # a judge that says so of everything
        (0.0, 0.0, 0.1, 0.0, "is undecided", OPEN),  # one that finds hardly any admission
    ],
)
def test_only_a_judge_that_is_judged_itself_calls_chains_silent(
    says: float, pattern: float, recall: float, alarms: float, verdict: str, tone: str
) -> None:
    found = tables_of(made.read(measured(TOLD), says, recall, alarms, pattern))
    card = cards(found)[HINTED]
    assert card.verdict.endswith(verdict)
    assert card.tone == tone
    row = found["readings"].row(0, named=True)
    assert row["read"] == found["hints"]["followed"][0]
    assert (row["recall"], row["alarms"]) == (pytest.approx(recall, abs=0.1), pytest.approx(alarms, abs=0.1))
    blind = [line for line in study().warnings(found) if "judge says as often of chains without" in line]
    assert bool(blind) == (recall - alarms < 0.5)


@pytest.mark.parametrize(
    ("told", "verdict", "tone"),
    [
        ({t.QUESTION: 0.4, t.CHAIN: 0.95, t.NO_VERDICT: 0.8}, "Yes, even without its conclusion", GOOD),
        ({t.QUESTION: 0.4, t.CHAIN: 0.95, t.NO_VERDICT: 0.4}, "Yes, but not shown without its conclusion", OPEN),
        ({t.QUESTION: 1.0, t.CHAIN: 1.0, t.NO_VERDICT: 1.0}, "No", BAD),
        ({t.QUESTION: 0.5, t.CHAIN: 0.5, t.NO_VERDICT: 0.5}, "Not shown", OPEN),
    ],
)
def test_the_card_of_predictions(told: dict[str, float], verdict: str, tone: str) -> None:
    found = tables_of(measured(Answerer(told=told)))
    card = cards(found)[PREDICTED]
    assert (card.verdict, card.tone) == (verdict, tone)
    rows = {row["condition"]: row for row in found["predictions"].to_dicts()}
    assert rows[t.QUESTION]["difference"] is None
    assert rows[t.CHAIN]["difference"] == pytest.approx(rows[t.CHAIN]["value"] - rows[t.QUESTION]["value"])


@pytest.mark.parametrize(
    "conditions",
    [(), (t.FULL,), (t.LAST, t.FULL), ("user_wrong",), ("user_neutral",), (t.CHAIN,), (*t.EDITS, *t.HINTS)],
)
def test_a_partial_table_gives_what_it_can_and_says_what_it_lacks(conditions: tuple[str, ...]) -> None:
    found = tables_of(measured(SOMETIMES, units=len(conditions) % 3, each=3, conditions=conditions))
    for name, members in {"headline": t.EDITS, "hints": t.HINTS, "predictions": t.PREDICTIONS}.items():
        assert (name in found) == bool(set(conditions) & set(members)), name
    for frame in found.values():
        assert frame.height
        assert not any(frame[name].is_nan().any() for name in frame.select(pl.selectors.float()).columns)
    assert set(found) <= set(study().notes("recommended"))
    list(study().warnings(found))
    list(study().summary(found))
    assert "nan" not in str([verdict.cards for verdict in study().verdicts(found, Context())])
    for figure in study().figures(found, Context()):  # type: ignore[misc]
        assert bool(figure.missing) != bool(figure.panels or figure.exhibits)


@pytest.mark.parametrize(
    ("chain", "answer", "cell"), [(1, 1, "both"), (0, 1, "answer alone"), (1, 0, "chain alone"), (0, 0, "neither")]
)
def test_what_changes_with_the_story_is_found(chain: float, answer: float, cell: str) -> None:
    found = tables_of(pl.concat([measured(INERT), made.told(chain, answer, together=True)]))
    cells = {row["changes"]: row["value"] for row in found["stories"].to_dicts()}
    assert [name for name in ("both", "answer alone", "chain alone", "neither") if cells[name]] == [cell]
    assert sum("so that the right answer changes" in text for _, text in cards(found)[EDITED].grounds) == 4


def test_chains_that_change_for_other_reasons_than_answers_are_told_from_those_that_change_together() -> None:
    for together, alike in ((False, True), (True, False)):
        rows = {row["changes"]: row for row in tables_of(made.told(0.5, 0.5, together=together))["stories"].to_dicts()}
        moved, stayed = rows["chain, where the answer changes"], rows["chain, where it stays"]
        assert (moved["low"] <= stayed["high"]) == alike


ANYWAY = {"implied": pl.when(condition=t.LAST).then("own"), "answer": pl.col("own")}
LONGER = pl.when(condition=t.FILLER).then(pl.lit(125)).otherwise("tokens").cast(pl.Int32)
VARIED: dict[str, Callable[[], pl.DataFrame]] = {
    "shown": lambda: pl.concat(
        measured(one, shown=(way,)).filter(kind="edit") for one, way in ((SOMETIMES, t.PREFILL), (FOLLOWER, t.CALL))
    ),
    "models": lambda: pl.concat(
        [measured(FOLLOWER, model="b"), measured(INERT, model="a"), measured(INERT, benchmark="hitom")]
    ),
    "anyway": lambda: measured(FOLLOWER, conditions=(t.LAST, t.PARAPHRASE)).with_columns(**ANYWAY),
    "longer-filler": lambda: measured(FOLLOWER, units=5).with_columns(tokens=LONGER),
    "steered": lambda: measured(TOLD),
    "hardly-swapped": lambda: measured(FOLLOWER, lacking={t.SWAPPED: range(105)}),
    "failing": lambda: measured(replace(SOMETIMES, fails={t.LAST: 0.1}), written="x" * 5000),
}


@pytest.mark.parametrize("name", VARIED)
def test_numbers_and_words_of_other_tables_are_what_they_were(name: str) -> None:
    found = tables_of(VARIED[name]())
    words = {"warnings": [*study().warnings(found)], "verdicts": study().verdicts(found, Context())}
    golden_tables.check(f"faithfulness-{name}", found, **words)
