"""The labelled replies to questions of others, of which nothing that is theirs is kept."""

import re
from collections.abc import Callable
from types import ModuleType

import orjson
import pytest

import tomserve
from tests.conftest import ROOT, data_file, make_item


@pytest.mark.parametrize(("name", "file"), [("bigtom", "bigtom.csv"), ("tomato", "tomato_fb.json")])
def test_labelled_replies_hold_no_words_of_other_peoples_items(name: str, file: str) -> None:
    items = {item.id: item for item in tomserve.load(name, path=data_file(file))}
    rows = [orjson.loads(line) for line in (ROOT / "bench/published.jsonl").read_bytes().splitlines()]
    rows = [row for row in rows if row["kind"] == name]
    assert rows
    for row in rows:
        item = items[row["item"]]
        told = "\n".join((*item.story, item.question, *item.choices))
        for own in (piece for piece in row["text"] if isinstance(piece, str)):
            words = list(re.finditer(r"\w+", own))
            for first, last in zip(words, words[3:], strict=False):
                assert own[first.start() : last.end()] not in told, row["id"]


def test_words_of_the_item_are_filled_in(load: Callable[[str], ModuleType]) -> None:
    item = make_item()
    filled = load("reading").fill_in({"text": ["In short, ", [4, 17], "."], "label": 1}, item)
    assert (filled["text"], filled["label"]) == ("In short, jar stands on the.", "salt")
