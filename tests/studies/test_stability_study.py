"""The study of stability, on answerers of known behaviour."""

import math
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from tests.conftest import Endpoint, completion, make_item
from tests.helpers import golden_tables
from tests.helpers.scored import score_table
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.studies import Context, analyze, compute, load_study
from tomserve.studies.presentation import BAD, GOOD, OPEN
from tomserve.variants import KINDS, Kind, make_variant, make_variants

Answer = Callable[[Item, Item], str | None]
"""An answerer: given an item and its original, one of the item's choices, or None for a reply that cannot be read."""

LABELS = ("tea", "salt", "rice", "unknown")
STUDY = load_study("stability")


def originals(count: int = 48, per_story: int = 2) -> list[Item]:
    """Questions with three labels and "unknown" in drawn order, so that no place is always right."""
    rng = Random(7)
    items = []
    for number in range(count):
        choices = rng.sample(LABELS, 4)
        story = [f"Jar {number} holds {choices[0]}.", "Ada looks into it.", "She leaves."]
        factors: dict[str, Any] = {"family": "ab"[number % 2], "reality": "tea", "number": str(number)}
        answer = rng.choice(choices)
        items.append(
            make_item(number, story=story, choices=choices, answer=answer, gold=None, factors=factors,
                      cluster=f"story/{number // per_story}")
        )  # fmt: skip
    return items


def retell(item: Item, kind: Kind) -> Item:
    """Other names for the choices where an object is another one, else another question."""
    if kind.name == "object":
        choices = [label if label == "unknown" else f"the {label}" for label in item.choices]
        return make_variant(item, kind, by="record", choices=choices)
    return make_variant(item, kind, by="rules", question=f"{kind.short}: {item.question}")


def asked(items: list[Item], kinds: tuple[Kind, ...] = KINDS) -> list[Item]:
    return [*items, *(one for one in make_variants(items, kinds, lambda name: retell) if isinstance(one, Item))]


def scored(answers: dict[str, Answer], items: list[Item] | None = None, again: bool = True) -> pl.DataFrame:
    """A score table of answerers, each as a strategy; T0 was asked of every original and changed nothing."""
    every = asked(originals()) if items is None else items
    known = {item.id: item for item in every}
    rows = []
    for strategy, answer in answers.items():
        for item in every:
            said = answer(item, known[item.base or item.id])
            text = f'{{"answer": "{said}"}}' if said is not None else "hm"
            rows.append((item, {"strategy": strategy, "status": "ok", "text": text}))
    scores = score_table("r", "m", rows)
    if again:
        told = pl.col("original_item").is_null()
        scores = scores.with_columns(noise_compared=pl.when(told).then([1, 64]).otherwise(None))
    return scores


right: Answer = lambda item, base: item.answer  # noqa: E731
first: Answer = lambda item, base: item.choices[0]  # noqa: E731


def keeps(share: float, wrong_only: bool = False) -> Answer:
    """Answers the original at random and each variant alike with this probability, else by another choice."""

    def answer(item: Item, base: Item) -> str:
        said = Random(base.id).choice(base.choices)
        stays = (wrong_only and said == base.answer) or Random(f"{item.id}/{share}").random() < share
        if item.base is not None and not stays:
            said = Random(item.id).choice([label for label in base.choices if label != said])
        return next(label for label in item.choices if item.meaning(label) == said)

    return answer


def stability(scores: pl.DataFrame, intervals: str | None = None) -> pl.DataFrame:
    return analyze(scores, STUDY, intervals)["stability"]


def test_whoever_follows_the_content_survives_every_change() -> None:
    found = stability(scored({"vanilla": right}))
    assert found["variant"].to_list() == [*(kind.name for kind in KINDS), "mean T1-T4", "mean T1-T6"]
    assert found.select("s", "d").unique().rows() == [(1, 0)]
    kinds = found.filter(pl.col("short").str.len_chars() == 2, pl.col("short") != "T0")
    columns = ("kappa", "minus_floor", "pairs", "clusters", "accuracy_original", "s_right", "s_wrong")
    assert kinds.select(columns).rows() == [(1, 0, 48, 24, 1, 1, None)] * 6
    assert (kinds["minus_low"] < 0).all()


def test_whoever_always_says_the_same_has_no_kappa_and_is_told_so() -> None:
    scores = scored({"vanilla": lambda item, base: "unknown"})
    analysis = compute(scores, STUDY)
    kinds = analysis.tables["stability"].filter(pl.col("short").str.len_chars() == 2, pl.col("short") != "T0")
    assert kinds.select("s", "s0", "kappa").unique().rows() == [(1, 1, None)]
    assert any("a habit rather than stability" in said for said in analysis.warnings)
    (card,) = analysis.verdicts()[0].cards
    assert card.tone == OPEN
    assert card.verdict.startswith("Not distinguishable from a response habit")


def test_what_flips_only_when_wrong_shows_among_the_wrong_alone() -> None:
    items = asked(originals(160), tuple(kind for kind in KINDS if kind.short in ("T1", "T5")))
    found = analyze(scored({"vanilla": keeps(0.3, wrong_only=True)}, items), STUDY)
    for row in found["stability"].filter(pl.col("short").is_in(["T1", "T5"])).iter_rows(named=True):
        assert row["s_right"] == 1
        assert abs(row["s_wrong"] - 0.3) < 0.12
        assert row["right"] + row["wrong"] == row["pairs"] == 160
    for row in found["flips"].iter_rows(named=True):
        assert row["right_to_wrong"] == 0
        assert row["flipped"] == row["wrong_to_right"] + row["wrong_to_other"]


def test_the_floor_counts_every_number_of_requests_and_is_compared_with_each_kind() -> None:
    changed = pl.col("original_item").is_null() & pl.col("item").is_in([f"demo/{n}" for n in range(12)])
    scores = scored({"vanilla": right}).with_columns(
        noise_answer=pl.when(changed).then(pl.lit([64], pl.List(pl.Int64))).otherwise(None)
    )
    found = stability(scores)
    again = found.filter(short="T0").row(0, named=True)
    assert (again["pairs"], again["same"], again["left_out"]) == (96, 84, 0)
    assert again["s"] == pytest.approx(84 / 96)
    assert found.filter(short="T1")["minus_floor"].to_list() == [pytest.approx(12 / 96)]
    assert "floor" not in stability(scored({"vanilla": right}, again=False)).columns


def test_the_verdict_is_good_open_or_bad() -> None:
    many = asked(originals(40, 1))

    def card(answer: Answer, again: bool = True) -> Any:
        tables = analyze(scored({"vanilla": answer}, many, again), STUDY)
        (verdict,) = STUDY.verdicts(tables, Context({}))
        return verdict.cards[0]

    good, bad = card(right), card(first)
    assert (good.verdict, good.tone) == ("Yes, for every kind of change asked", GOOD)
    assert (bad.verdict, bad.tone) == ("No: T4 choices", BAD)
    assert card(keeps(0.2)).verdict == "No, for no kind of change"
    assert card(keeps(0.2), again=False).tone == OPEN  # what noise does is not known
    assert card(right, again=False).tone == GOOD


def test_kinds_of_others_are_no_means_and_count_originals_once() -> None:
    """Twelve originals have three variants each of a kind called meaning: 36 pairs, and 36 originals of 48 without."""
    items = originals()
    told = [
        make_variant(item, KINDS[1], by="rules", question=f"{item.question} {n}?").model_copy(
            update={"id": f"{item.id}/{kind}/{n}", "factors": {**item.factors, "variant": kind}}
        )
        for kind in ("meaning", "T1")
        for item in items[:12]
        for n in range(3)
    ]
    made = compute(scored({"vanilla": right}, [*items, *told, *asked(items, KINDS[1:2])[48:]]), STUDY)
    assert any("meaning: 36 of 48 originals have no such variant" in said for said in made.warnings)
    assert made.summary()[0].frame["kind"].to_list()[-2:] == ["T1", "meaning"]
    assert made.verdicts()[0].cards[0].verdict == "Not shown for T1, meaning; otherwise yes"


def test_the_published_table_follows_from_its_own_cells() -> None:
    tables = analyze(scored({"vanilla": first}), STUDY, "published")
    printed = tables["published_stability"]
    assert printed.height == 5
    assert printed["same"].all()
    means = printed.select(mean=(pl.col("T1") + pl.col("T2") + pl.col("T3") + pl.col("T4")) / 4)["mean"]
    assert printed["mean"].to_list() == pytest.approx(means.to_list())
    own = tables["stability"].filter(short="T1-T4")
    assert own["s"].to_list() == [0.75]
    assert "published_stability" not in analyze(scored({"vanilla": first}), STUDY)


def test_a_table_without_variants_is_refused_with_the_way_out() -> None:
    scores = scored({"vanilla": right}, originals(), again=False)
    with pytest.raises(ConfigError, match=r"no variants of questions.*eval --variants"):
        analyze(scores, STUDY)


def test_a_run_with_variants_shows_the_study_beside_its_own(endpoint: Endpoint, tmp_path: Path) -> None:
    import tomserve

    endpoint.script = lambda body, number: None if body.get("preflight") else completion('{"answer": "unknown"}')
    run = tomserve.ask(originals(6), "vanilla", base_url=endpoint.url, run="r", variants="again,choices")
    analysis = compute(run.scores(), "accuracy")
    assert {"accuracy", "stability", "variants_made", "stability_controls"} <= set(analysis.tables)
    cards = analysis.verdicts()[0].cards
    assert cards[-1].question == "Is it robust to irrelevant changes?"
    assert math.isfinite(analysis.tables["stability"].filter(short="T0")["s"][0])


def unread(item: Item, base: Item) -> str | None:
    return None if item.base is None and int(base.id.split("/")[1]) % 3 == 0 else item.answer


def wrong(item: Item, base: Item) -> str:
    """Stable, and never right."""
    said = base.choices[(base.choices.index(base.answer) + int(base.id.split("/")[1]) % 3 + 1) % 4]
    return next(label for label in item.choices if item.meaning(label) == said)


def test_numbers_and_words_of_several_answerers_are_what_they_were() -> None:
    answerers = {"vanilla": keeps(0.6), "cot": first, "letters": unread, "mine": wrong}
    found = compute(scored(answerers), STUDY)
    golden_tables.check("stability-answerers", found.tables, warnings=found.warnings, verdicts=found.verdicts())
    some = asked(originals(), tuple(kind for kind in KINDS if kind.short in ("T1", "T4")))
    golden_tables.check("stability-two-kinds", analyze(scored({"vanilla": first}, some), STUDY))
