"""Rules of readers who only look at words, against which the second edition is built.

Beside the rules that both editions share (tomserve.benchmarks.perturbed.rules) these answer the belief questions of the
false-belief scenario. Labels are replaced by marks or deleted, so that what is learned is which *role* the answer has:
the cue, the opposite, or unknown. All but `ten_words` are learned from the other stages, each stage from all others.

    ten words        ten words that told the first edition's answers: one of them, and the answer is the opposite of the cue
    bag of words     how often each word occurs, with the labels deleted
    word pairs       words and pairs of neighbouring words, with cue and opposite marked, and the class
    nearest story    the role of the most similar story of the same class in another stage
    last sentences   words of the last two sentences that name the person or a label
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from tomserve.benchmarks.perturbed.learned import held_out
from tomserve.items import UNKNOWN, Item

TEN_WORDS = re.compile(
    r"\b(sure|knows?|knew|sees?|saw|remembers?|remembered|counts? on|watches|watched|loves?|loved|usually|memory)\b"
)
CANNOT_READ = re.compile(r"\b(cannot|can not|could not|couldn't|can't) (read|make out)|\bnot (readable|legible)\b|\billegible\b")


def roles(item: Item) -> dict[str, str]:
    """The labels by role: the cue, the opposite and unknown."""
    cue = str(item.factors["cue"])
    return {
        "cue": cue,
        "opposite": next(choice for choice in item.choices if choice not in (cue, UNKNOWN)),
        "unknown": UNKNOWN,
    }


def ten_words(item: Item) -> str:
    """Unknown where something cannot be read, the opposite where one of ten words occurs, else the cue."""
    text, labels = " ".join(item.story).casefold(), roles(item)
    return labels["unknown" if CANNOT_READ.search(text) else "opposite" if TEN_WORDS.search(text) else "cue"]


def _plain(item: Item) -> str:
    text = " ".join(item.story).casefold()
    for role, label in roles(item).items():
        if role != "unknown":
            text = re.sub(rf"\b{re.escape(label.casefold())}\b", " ", text)
    return text


def _marked(sentences: Sequence[str], item: Item) -> str:
    text = " . ".join(sentences).casefold()
    for role, label in roles(item).items():
        if role != "unknown":
            text = re.sub(rf"\b{re.escape(label.casefold())}\b", f"role_{role}", text)
    return re.sub(rf"\b{re.escape(str(item.factors['asked']).casefold())}\b", "asked_person", text)


def _words(item: Item) -> list[str]:
    return re.findall(r"\w+", _plain(item))


def _pairs(item: Item) -> list[str]:
    words = re.findall(r"\w+", _marked(item.story, item))
    name = str(item.factors["perturbation"])
    pairs = [f"{one} {two}" for one, two in zip(words, words[1:], strict=False)]
    return [name, *words, *pairs, *(f"{name}:{word}" for word in set(words))]


def _last(item: Item) -> list[str]:
    named = [s for s in item.story if any(label in s for label in item.choices) or str(item.factors["asked"]) in s]
    return re.findall(r"\w+", _marked(named[-2:], item))


def nearest(items: Sequence[Item]) -> dict[str, str]:
    """The role of the story of the same class in another stage whose words are most similar (cosine of tf-idf)."""
    texts = {item.id: Counter(_words(item)) for item in items}
    spread = Counter(word for words in texts.values() for word in words)
    vectors = {}
    for name, words in texts.items():
        weights = {word: count * math.log(len(texts) / spread[word]) for word, count in words.items()}
        length = math.sqrt(sum(value**2 for value in weights.values())) or 1.0
        vectors[name] = {word: value / length for word, value in weights.items()}
    answers = {}
    for item in items:
        mine = vectors[item.id]

        def similar(other: Item, mine: dict[str, float] = mine) -> float:
            theirs = vectors[other.id]
            return sum(value * theirs.get(word, 0.0) for word, value in mine.items())

        others = [
            other
            for other in items
            if other.factors["stage"] != item.factors["stage"]
            and other.factors["perturbation"] == item.factors["perturbation"]
        ]
        if others:
            best = max(others, key=lambda other: (similar(other), other.id))
            role = next(role for role, label in roles(best).items() if label == best.answer)
            answers[item.id] = roles(item)[role]
    return answers


def fitted(items: Sequence[Item]) -> dict[str, dict[str, str]]:
    """The answers of all these rules by item id, by name of the rule.

    items: the belief questions of the false-belief scenario of at least two stages.
    """
    learned: dict[str, Callable[[Item], list[str]]] = {"bag of words": _words, "word pairs": _pairs, "last sentences": _last}
    found = {"ten words": {item.id: ten_words(item) for item in items}, "nearest story": nearest(items)}
    return found | {name: held_out(items, features, roles) for name, features in learned.items()}
