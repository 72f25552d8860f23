"""Keys as bytes are ordered as the tuples are, also where SQLite sorts them in a file."""

import itertools
import random
import resource
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tomserve.benchmarks import get
from tomserve.errors import MachineError
from tomserve.prompting.strategy import Strategy
from tomserve.runs import item_store
from tomserve.runs.conversations import Questions
from tomserve.runs.item_store import ItemStore, sort_key, sort_places

TEXTS = st.text(st.sampled_from("\0\x01\x02aAé€\uffff\U0001f600"), max_size=4)
KEYS = st.tuples(TEXTS, st.integers(-(2**63), 2**63 - 1), st.lists(TEXTS, max_size=3).map(tuple), TEXTS)


@given(KEYS, KEYS)
def test_bytes_are_ordered_as_the_tuples_are(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    assert (sort_key(one) < sort_key(other)) == (one < other)
    assert (sort_key(one) == sort_key(other)) == (one == other)


@pytest.mark.parametrize("held", [1 << 10, 1 << 24])
def test_equal_keys_keep_their_order_wherever_they_are_sorted(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_store, "HELD", held)
    chance = random.Random(1)
    keys = [bytes(chance.choices(b"\0\1a\xff", k=chance.randrange(6))) for _ in range(3000)]
    assert list(sort_places(iter(keys))) == sorted(range(len(keys)), key=keys.__getitem__)
    assert list(sort_places([])) == []


@pytest.mark.parametrize("name", ["vanilla", "simtom"])
def test_questions_come_in_the_order_of_their_prompts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_store, "HELD", 1 << 12)
    strategy, items = Strategy.load(name), list(itertools.islice(get("perturbed").items(), 200))
    chosen = random.Random(2).sample(items, 90)
    questions = Questions(ItemStore(chosen), [strategy])
    wanted = sorted(range(90), key=lambda place: strategy.order(chosen[place]))
    assert list(questions._in_order(strategy, lambda question: True)) == wanted
    left = {item.id for item in chosen[::3]}
    some = [place for place in wanted if chosen[place].id in left]
    assert list(questions._in_order(strategy, lambda question: question.item in left)) == some


@pytest.fixture
def full_disk() -> Iterator[None]:
    """No file may grow beyond a few kilobytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.usefixtures("full_disk")
def test_no_room_to_sort_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_store, "HELD", 1 << 10)
    with pytest.raises(MachineError, match=r"cannot be sorted in a temporary file .*SQLITE_TMPDIR"):
        sort_places(b"%d" % number * 200 for number in range(2000))
