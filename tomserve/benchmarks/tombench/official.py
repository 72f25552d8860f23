"""ToMBench's own way to read replies and to vote, as its repository does it (get_results.py), beside tomserve's.

>>> letter_of("I think it is [[B]]."), letter_of("The answer is C"), letter_of("no idea")
(('B', 'marked'), ('C', 'last letter'), ('A', 'nothing'))
>>> majority(["tea", "salt", "salt", "tea", None])
'tea'
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tomserve.benchmarks.tombench.source import LETTERS
from tomserve.items import Item
from tomserve.scoring.answers import Reading
from tomserve.scoring.metrics import Metric

SHUFFLES = 5
"""How often the official evaluation asks each question, each time with the options in another order."""

MARKED, LAST, NOTHING = "marked", "last letter", "nothing"
"""How the official reader came to a letter: by [[B]] or [B]; by the last capital A to D of the reply, be it the first
letter of a sentence; or by nothing at all, where it takes A."""


def letter_of(text: str) -> tuple[str, str]:
    """The letter that the official reader finds in a reply, and how it came to it.

    Of several marked letters the first of the alphabet counts, not the last that was written: a reply that weighs [[A]]
    and ends with [[B]] is read as A.
    """
    for form in ("[[{}]]", "[{}]"):
        for letter in LETTERS:
            if form.format(letter) in text:
                return letter, MARKED
    last = max(((text.rfind(letter), letter) for letter in LETTERS), key=lambda found: found[0])
    return (last[1], LAST) if last[0] >= 0 else (LETTERS[0], NOTHING)


def majority(votes: Sequence[str | None]) -> str | None:
    """What most votes are for; of several the one that was voted for first. None, no readable vote, counts for nothing;
    None as well where there is no vote."""
    counts: dict[str, int] = {}
    for vote in votes:
        if vote is not None:
            counts[vote] = counts.get(vote, 0) + 1
    return max(counts, key=lambda vote: counts[vote]) if counts else None


def orders(item_id: str, choices: Sequence[str], count: int = SHUFFLES) -> list[list[str]]:
    """The options in as many orders as are asked for, drawn by the question alone: the same in both languages, in every
    run, whatever else is asked. The official evaluation draws them by one seed for the whole run, so that a question's
    orders depend on all questions before it.

    item_id: the item's id, whose last part is the language.
    """
    question = item_id.rpartition("/")[0] or item_id
    return [
        [
            choices[place]
            for place in sorted(
                range(len(choices)), key=lambda place: hashlib.sha256(f"{question}:{number}:{place}".encode()).digest()
            )
        ]
        for number in range(count)
    ]


def official(item: Item, reading: Reading) -> Mapping[str, Any]:
    """The columns of METRIC for one reply, from its text alone: a letter, or the account of a vote."""
    if not reading.text:
        return {}
    try:
        account = json.loads(reading.text)
    except (ValueError, RecursionError):
        account = None
    if isinstance(account, dict) and isinstance(account.get("official"), list):
        votes = [vote if isinstance(vote, str) else None for vote in account["official"]]
        fallbacks = account.get("fallbacks")
        chosen = majority([vote or "" for vote in votes]) or None
        share = fallbacks / len(votes) if isinstance(fallbacks, int) and votes else None
    elif isinstance(account, dict):
        return {}  # a reply in another form, which the official reader is not made for
    else:
        letter, how = letter_of(reading.text)
        if not (offered := reading.shown(item.choices)):
            return {}  # nothing says what the letters stood for
        place = LETTERS.index(letter)
        chosen = offered[place] if place < len(offered) else None
        share = float(how != MARKED)
    return {"metric_official_correct": chosen == item.answer and _can_be_right(item), "metric_official_guessed": share}


def _can_be_right(item: Item) -> bool:
    """Whether the official comparison can succeed: it compares the letter with the file's, which is once "A. "."""
    return item.factors.get("fault") != "letter_misspelt"


METRIC = Metric({"metric_official_correct": pl.Boolean, "metric_official_guessed": pl.Float64}, official)
"""Whether the official scorer counts the reply as right; and whether (of a vote: in what share of the replies) its
reader found no marked letter, and took the last capital A to D, or A."""
