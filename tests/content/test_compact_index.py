"""The compact index of texts says exactly what a dictionary would say."""

from __future__ import annotations

import random

import pytest

from tomserve.content.compact_index import FirstPlaces


class Alike(str):
    """A text whose hash is that of all others of its kind."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 7


@pytest.mark.parametrize("kind", [str, Alike])
def test_a_text_is_found_where_it_came_first(kind: type[str]) -> None:
    chance = random.Random(1)
    texts = [kind(f"task-{chance.randrange(400)}/é") for _ in range(1000)]
    wanted: dict[str, int] = {}
    firsts = FirstPlaces()
    for place, text in enumerate(texts):
        known = next((first for name, first in wanted.items() if str.__eq__(name, text)), None)
        assert firsts.find(text) == known
        assert firsts.add(text, place) == (place if known is None else known)
        if known is None:
            wanted[text] = place
    assert len(firsts) == len(wanted) == len(set(map(str, map(str.__str__, texts))))
    assert kind("task-0/é ") not in firsts
    assert texts[0] in firsts


def test_texts_that_are_given_at_once_stand_at_their_places() -> None:
    firsts = FirstPlaces(["b", "a", "b"])
    assert (firsts.find("b"), firsts.find("a"), firsts.find("c"), len(firsts)) == (0, 1, None, 2)
    assert firsts.add("c", 2**32 - 1) == firsts.add("c", 5) == 2**32 - 1
