"""What readers answer to ToMi who follow nobody's belief, or that of one person where two are asked about.

Both places are named in every story, the first where the object was at first, the last where it is in the end; "first
mentioned" and "last mentioned", which every benchmark has, are therefore "always memory" and nearly "always reality".
"""

from __future__ import annotations

from functools import lru_cache

from tomserve.benchmarks.tomi.tracker import Asked, Told
from tomserve.items import Item
from tomserve.scoring.baselines import Baseline


@lru_cache(maxsize=256)
def _read(story: tuple[str, ...], question: str) -> tuple[Asked, Told] | None:
    try:
        asked = Asked.of(question)
        return asked, Told.of(story, asked.object)
    except ValueError:
        return None


def _answer(item: Item, people: slice) -> str | None:
    """The answer to the same question about some of the people only; None where the item has another form."""
    if (found := _read(item.story, item.question)) is None:
        return None
    asked, told = found
    label = told.answer(asked._replace(task="reality", people=asked.people[people]))
    return label if label in item.choices else None


def _one_of_two(item: Item, people: slice) -> str | None:
    """The same for questions about two people; None for others, of which it would be the very answer."""
    found = _read(item.story, item.question)
    return _answer(item, people) if found is not None and len(found[0].people) > 1 else None


RULES = (
    Baseline("always reality", lambda item: _answer(item, slice(0)), "constant"),
    Baseline("only the second person", lambda item: _one_of_two(item, slice(1, None)), "simpler"),
    Baseline("only the first person", lambda item: _one_of_two(item, slice(1)), "simpler"),
)
"""The rules of the benchmark's field `rules`."""
