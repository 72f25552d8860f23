"""The words of the generated stories (names, things, containers, rooms), none of which occurs in dataset/.

The lists are in ``words.yaml``. Every fifth word of a list is held out, so that no training story ever shows it.
Training also uses invented words, so that the model has to copy a label from the story and cannot remember it; held-out
stories use real words only.
"""

from __future__ import annotations

import random
from pathlib import Path

import yaml

HELD_OUT_EVERY = 5
"""The words at positions 4, 9, 14, ... of each list are held out."""

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
"""All names, things, containers and rooms that training shows."""
_REAL = {form for pool in _POOLS for word in pool for form in (word.lower(), word.lower() + "s", word.lower()[:-1])}
"""Forms of listed words that no invented word may have."""


def split(words: list[str], held_out: bool) -> list[str]:
    """The training part or the held-out part of a list; a word that one list holds out is held out in all."""
    return [word for word in words if (word in _HELD_OUT) == held_out]


def invent(rng: random.Random) -> str:
    """A made-up lower-case word of at least five letters: syllables, or the beginning of one word and the end of
    another.

    It is none of the lists' words and none that occurs in dataset/ (`clashes` in the YAML file).
    """
    while True:
        if rng.random() < 0.5:
            first, second = rng.choice(SEEN), rng.choice(SEEN)
            word = (first[: rng.randint(1, 4)] + second[-rng.randint(2, 4) :]).lower()
        else:
            word = "".join(rng.choice(part) for _ in range(rng.choice((1, 2, 2, 2, 3))) for part in _SYLLABLES)
        if len(word) >= 5 and word not in _REAL and word not in _CLASHES:
            return word
