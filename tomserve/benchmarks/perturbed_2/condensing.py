"""A story in 30 to 40% fewer words, from a short form of each of its sentences.

>>> chosen([Form("Ann, who is tall, finds a tin.", "Ann finds a tin.", 2), Form("It is a fine day.", "", 0),
...         Form("She has tea with milk and sugar and reads it.", "She has tea and reads it.", 2)])
('Ann finds a tin.', 'It is a fine day.', 'She has tea and reads it.')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tomserve.stability.kinds import LEAST, MOST


class Form(NamedTuple):
    """A sentence as it is, in its short form ("" where it may be left out), and how much it matters (0 the least)."""

    full: str
    short: str
    weight: int


def chosen(forms: Sequence[Form]) -> tuple[str, ...] | None:
    """Of each sentence the full or the short form, so that the story has 30 to 40% fewer words (LEAST to MOST of
    tomserve.stability.kinds); "" for one that is left out. None where that cannot be had.

    All are short at first. Where that is too short, sentences get their full form back, those that matter least first
    and of these the first in the story first, unless the story would be too long then.
    """
    words = [(len(form.full.split()), len(form.short.split())) for form in forms]
    before = sum(full for full, _ in words)
    now = sum(short for _, short in words)
    told = [form.short for form in forms]
    for place in sorted(range(len(forms)), key=lambda place: (forms[place].weight, place)):
        full, short = words[place]
        if now >= (1 - MOST) * before:
            break
        if now - short + full <= (1 - LEAST) * before:
            told[place], now = forms[place].full, now - short + full
    shorter = 1 - now / before
    return tuple(told) if LEAST <= shorter <= MOST else None


def shortened(forms: Sequence[Form]) -> float:
    """By which share a story has fewer words where all its sentences are short."""
    return 1 - sum(len(form.short.split()) for form in forms) / sum(len(form.full.split()) for form in forms)
