"""A small design: stories of two tellings, and answers of known accuracy."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from random import Random

from tests.conftest import make_item
from tomserve.items import Item
from tomserve.weakness.design import Design

FACTORS = {"colour": "the box is {}", "size": "the box is {}", "tellings": "told [] {}|first as|in another way, as"}


def tell(seed: int, number: int, fresh: bool) -> list[Item]:
    """A story in its two tellings, each with one question."""
    dice, told = Random(f"{seed}/{number}"), []
    for telling in ("1", "2"):
        colour, size = dice.choice(("red", "green", "blue")), dice.choice(("big", "small", "tiny"))
        story = (f"Story {number} by {seed} is told as {telling}{' <anew>' * fresh}.",)
        answer = "tea" if telling == "1" else "salt"
        factors = {"colour": colour, "size": size, "tellings": telling}
        more = {"choices": ("tea", "salt"), "gold": None, "cluster": f"{seed}-{number}"}
        name = f"{seed}-{number}-{telling}"
        told.append(make_item(id=name, benchmark="worlds", story=story, answer=answer, factors=factors, **more))
    return told


def stories(seed: int, fresh: bool, families: Sequence[str]) -> Iterator[list[Item]]:
    """Stories without end; each question has its twin in the other telling."""
    return (tell(seed, number, fresh) for number in count())


DESIGN = Design(FACTORS, stories, lambda item: {}, lambda item: item.cluster)


def weak_in(**levels: str) -> Callable[[Item], bool]:
    """Answers by chance: right in one of three where all these levels meet, else in nine of ten."""

    def answer(item: Item) -> bool:
        weak = bool(levels) and all(item.factors[name] == level for name, level in levels.items())
        return Random(f"answer/{item.id}").random() < (1 / 3 if weak else 0.9)

    return answer
