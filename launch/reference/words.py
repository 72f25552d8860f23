"""The words of the generated stories: names, things, containers, rooms; none of them occurs in dataset/.

Every fifth word of a list is held out, so that no training story ever shows it. Invented words are mixed into training,
so that a label has to be copied from the story, not remembered; held-out stories use real words only. The lists are in
``words.yaml``.
"""

from __future__ import annotations

import random
from pathlib import Path

import yaml

HELD_OUT_EVERY = 5
"""Words at positions 4, 9, 14, ... are held out."""

_FILE: dict[str, str] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
WOMEN, MEN, CONTENTS, OBJECTS, CLOSED, PLACES, ROOMS, JOBS, ADJECTIVES = (
    _FILE[name].split()
    for name in ("women", "men", "contents", "objects", "closed", "places", "rooms", "jobs", "adjectives")
)

_CLASHES = set(_FILE["clashes"].split())
_SYLLABLES = _FILE["onsets"].split(), _FILE["vowels"].split(), [""] * 8 + _FILE["codas"].split()
_POOLS = (WOMEN, MEN, CONTENTS, OBJECTS, CLOSED, PLACES, ROOMS, JOBS, ADJECTIVES)
_HELD_OUT = {word for pool in _POOLS for word in pool[HELD_OUT_EVERY - 1 :: HELD_OUT_EVERY]}
SEEN = [word for pool in _POOLS[:7] for word in pool if word not in _HELD_OUT]
"""All training names, things, containers and rooms."""
_REAL = {form for pool in _POOLS for word in pool for form in (word.lower(), word.lower() + "s", word.lower()[:-1])}


def split(words: list[str], held_out: bool) -> list[str]:
    """The training or the held-out part of a list; a word that is held out in one list is in all."""
    return [word for word in words if (word in _HELD_OUT) == held_out]


def invent(rng: random.Random) -> str:
    """A made-up lower-case word of at least five letters: syllables, or the beginning of a word and the end of another;
    none of the lists, and none that dataset/ knows (`clashes`)."""
    while True:
        if rng.random() < 0.5:
            first, second = rng.choice(SEEN), rng.choice(SEEN)
            word = (first[: rng.randint(1, 4)] + second[-rng.randint(2, 4) :]).lower()
        else:
            word = "".join(rng.choice(part) for _ in range(rng.choice((1, 2, 2, 2, 3))) for part in _SYLLABLES)
        if len(word) >= 5 and word not in _REAL and word not in _CLASHES:
            return word
