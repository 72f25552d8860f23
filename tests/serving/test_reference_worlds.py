"""The world stories that the reference model is taught: what they share with the release, and what they say."""

from __future__ import annotations

import importlib
import random
import sys

import pytest

from tests.conftest import ROOT
from tomserve.benchmarks.worlds.benchmark import load
from tomserve.benchmarks.worlds.families import BY_NAME
from tomserve.items import UNKNOWN, Item

sys.path.insert(0, str(ROOT / "launch/reference"))
social = importlib.import_module("social")


@pytest.fixture(scope="module")
def taught() -> list:
    return [social.tell(random.Random(f"test/{number}"), f"test-{number}") for number in range(80)]


def texts(item: Item) -> list[str]:
    return [" ".join(item.story), item.question]


@pytest.mark.system
def test_no_eight_words_in_a_row_are_those_of_the_release(taught: list) -> None:
    theirs = social.runs({text for item in load() for text in texts(item)})
    ours = social.runs({text for told in taught for item in told.items for text in texts(item)})
    assert len(theirs) > 100_000
    assert len(ours) > 2_000
    assert not theirs & ours


def test_names_and_labels_are_no_words_of_the_release(taught: list) -> None:
    words = social.released_words()
    assert {"akosua", "quinoa"} <= words
    for told in taught:
        for item in told.items:
            if item.factors["kind"] in ("belief", "reality") and item.factors["family"] in ("transfer", "contents"):
                labels = {part for label in item.choices if label != UNKNOWN for part in label.split()}
                assert labels.isdisjoint(words), item.choices


def test_every_family_that_can_be_told_in_other_words_is_taught_in_both_persons(taught: list) -> None:
    assert {told.items[0].factors["family"] for told in taught} == set(social.FAMILIES)
    assert set(social.FAMILIES) == set(BY_NAME) - {"causal", "valley"}
    assert any(" you " in " ".join(told.items[0].story) for told in taught)


def test_what_a_sentence_lets_people_know_is_what_they_believe_after_it(taught: list) -> None:
    checked = 0
    for told in taught:
        for item in told.items:
            if item.id in told.asked and item.gold is not None and item.factors["kind"] == "belief":
                person = told.asked[item.id]
                for number, learned in enumerate(told.learned):
                    if person in learned.who and learned.what is not None:
                        assert item.gold.sets[number][0] == learned.what
                        checked += 1
    assert checked > 50
