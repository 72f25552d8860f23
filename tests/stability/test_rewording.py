"""English words put in the place of others: their forms, and the articles before them."""

import pytest

from tomserve.stability import rewording


@pytest.mark.parametrize(
    ("word", "wanted"),
    [("urn", "an"), ("unit", "a"), ("uninformed", "an"), ("European", "a"), ("hour", "an"), ("house", "a"), ("one", "a"),
     ("oven", "an"), ("usual", "a"), ("utensil", "a"), ("honest", "an"), ("Umbrella", "an")],
)  # fmt: skip
def test_articles_follow_the_sound(word: str, wanted: str) -> None:
    assert rewording.article(word) == wanted
    assert rewording.Things({"thing": word}).replaced("A thing.") == f"{wanted.capitalize()} {word}."


@pytest.mark.parametrize(
    ("one", "several"),
    [("box", "boxes"), ("penknife", "penknives"), ("lorry", "lorries"), ("tray", "trays"), ("scarf", "scarves"),
     ("bench", "benches"), ("tin", "tins"), ("thermos", "thermoses"), ("snowman", "snowmen")],
)  # fmt: skip
def test_plurals(one: str, several: str) -> None:
    assert rewording.plural(one) == several
    assert rewording.looks_plural(several) or one == "snowman"
    assert not rewording.looks_plural(one)
