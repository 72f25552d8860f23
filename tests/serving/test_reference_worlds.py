"""The world stories that the reference model is taught: what they share with the release, and what they say."""

from __future__ import annotations

import importlib
import random
import sys

import pytest

from tests.conftest import ROOT
from tomserve.benchmarks.worlds.benchmark import load
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


@pytest.mark.system
def test_names_and_labels_are_no_words_of_the_release(taught: list) -> None:
    words = social.released_words()
    assert {"akosua", "quinoa"} <= words
    for told in taught:
        for item in told.items:
            if item.factors["kind"] in ("belief", "reality") and item.factors["family"] in ("transfer", "contents"):
                labels = {part for label in item.choices if label != UNKNOWN for part in label.split()}
                assert labels.isdisjoint(words), item.choices
