"""Rules of readers who only look at words, against which the second edition is built.

Beside the rules that both editions share (tomserve.benchmarks.perturbed.rules) these answer the belief questions of the
false-belief scenario, and say nothing of other questions. Labels are replaced by marks or deleted, so that what is
learned is which *role* the answer has: the cue (what a classic reading would answer), the opposite, or unknown. The
learned ones are fitted to the other stages, each stage by all others.

    ten words                ten words that told the first edition's answers: where one of them stands, the opposite of
                             the cue; where something cannot be read, unknown; else the cue
    last told label          the label that stands last in a sentence that names the person or begins with a pronoun; if
                             that sentence denies something, unknown
    words by role            how often each word occurs, with the labels deleted
    word pairs by role       words and pairs of neighbours, with cue and opposite marked, and the class
    last sentences by role   words of the last two sentences that name the person or a label
    nearest story            the role of the most similar story of the same class in another stage
    shape of the story       no words: how many sentences and labels, which stands first and last, where, in quotation
                             marks or denied, and the class

    python -c "from tomserve.benchmarks.perturbed_2 import load, shortcuts; shortcuts.write(list(load()))"

fits them anew, which takes about ten seconds, and writes their answers to ``learned_2.json`` beside this module.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from tomserve.benchmarks.perturbed.fitting import held_out
from tomserve.benchmarks.perturbed.shipped import Answers, Shipped
from tomserve.benchmarks.perturbed.stagefile import in_false_belief_subset
from tomserve.items import UNKNOWN, Item
from tomserve.scoring.baselines import Baseline, list_mentions

TEN_WORDS = re.compile(
    r"\b(sure|knows?|knew|sees?|saw|remembers?|remembered|counts? on|watches|watched|loves?|loved|usually|memory)\b"
)
CANNOT_READ = re.compile(
    r"\b(cannot|can not|could not|couldn't|can't) (read|make out)|\bnot (readable|legible)\b|\billegible\b"
)
DENIED = re.compile(r"\b(not|no|never|nothing|nobody|none|without|neither|nor|cannot)\b|n't\b")
PRONOUN = re.compile(r"(she|he|they|her|his|their)\b")

Features = Callable[[Item], list[str]]


def asked_of(item: Item) -> bool:
    """Whether the rules of this module answer the item: a belief question of the false-belief scenario that says who is
    asked about, and which label is the cue."""
    return (
        {"scenario", "question_kind"} <= item.factors.keys()
        and in_false_belief_subset(item.factors)
        and item.factors.get("cue") in item.choices
        and isinstance(item.factors.get("asked"), str)
        and len(item.choices) == len({*item.choices} | {UNKNOWN}) == 3
    )


def roles(item: Item) -> dict[str, str]:
    """The labels by role: the cue, the opposite and unknown."""
    cue = str(item.factors["cue"])
    return {
        "cue": cue,
        "opposite": next(choice for choice in item.choices if choice not in (cue, UNKNOWN)),
        "unknown": UNKNOWN,
    }


def ten_words(item: Item) -> str | None:
    """Unknown where something cannot be read, the opposite where one of ten words occurs, else the cue."""
    if not asked_of(item):
        return None
    text, labels = " ".join(item.story).casefold(), roles(item)
    return labels["unknown" if CANNOT_READ.search(text) else "opposite" if TEN_WORDS.search(text) else "cue"]


def last_told(item: Item) -> str | None:
    """The label that stands last in a sentence that names the asked person or begins with a pronoun; unknown where
    there is no such sentence, or where it denies something."""
    if not asked_of(item):
        return None
    name = str(item.factors["asked"])
    for sentence in reversed(item.story):
        found = list_mentions(item.model_copy(update={"story": (sentence,)}))
        if found and (name in sentence or PRONOUN.match(sentence.casefold())):
            return UNKNOWN if DENIED.search(sentence.casefold()) else found[-1]
    return UNKNOWN


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


def pairs_of(item: Item) -> list[str]:
    """The class, all words, all pairs of neighbouring words, and each word with the class; labels are marked."""
    words = re.findall(r"\w+", _marked(item.story, item))
    name = str(item.factors["perturbation"])
    pairs = [f"{one} {two}" for one, two in pairwise(words)]
    return [name, *words, *pairs, *(f"{name}:{word}" for word in sorted(set(words)))]


def _last(item: Item) -> list[str]:
    named = [s for s in item.story if any(label in s for label in item.choices) or str(item.factors["asked"]) in s]
    return re.findall(r"\w+", _marked(named[-2:], item))


def _shape(item: Item) -> list[str]:
    """What can be counted of a story without reading it, alone and together with the class."""
    marked = [_marked([sentence], item) for sentence in item.story]
    found = re.findall(r"role_(\w+)", " ".join(marked))
    counted = Counter(found)
    told = [f"sentences {len(marked)}", f"words {sum(len(one.split()) for one in marked) // 10}"]
    told += [f"first {found[0]}", f"last {found[-1]}", f"before last {found[-2:-1]}"] if found else []
    told += [f"{role} {counted[role]}" for role in ("cue", "opposite")]
    told += [f"quoted {role}" for role in re.findall(r'"[^"]*role_(\w+)[^"]*"', " ".join(marked))]
    for place, sentence in enumerate(reversed(marked)):
        told += [f"{role} at {place}" for role in sorted(set(re.findall(r"role_(\w+)", sentence)))]
        denied = "denied" if DENIED.search(sentence) else "said"
        told += [f"{denied} {role}" for role in re.findall(r"role_(\w+)", sentence)]
        told += [f"{denied} at {place}"] if place < 3 else []
    name = str(item.factors["perturbation"])
    return [*told, *(f"{name}: {one}" for one in told)]


def nearest(items: Sequence[Item], only: Collection[str] | None = None) -> dict[str, str]:
    """The role of the story of the same class in another stage whose words are most similar (cosine of tf-idf).

    only: the stages that are answered, None for all.
    """
    import numpy as np  # imported here, because scoring imports this module, and needs no fit
    from scipy import sparse

    texts = [Counter(_words(item)) for item in items]
    spread = Counter(word for words in texts for word in words)
    columns = {word: place for place, word in enumerate(spread)}
    entries = [
        (row, columns[word], count * math.log(len(texts) / spread[word]))
        for row, words in enumerate(texts)
        for word, count in words.items()
    ]
    rows, places, weights = zip(*entries, strict=True)
    vectors = sparse.csr_array((weights, (rows, places)), shape=(len(texts), len(columns)))
    lengths = np.sqrt(vectors.power(2).sum(axis=1))
    vectors = sparse.diags_array(1.0 / np.where(lengths > 0, lengths, 1.0)) @ vectors
    stages = np.array([item.factors["stage"] for item in items])
    classes = np.array([item.factors["perturbation"] for item in items])
    # Of stories that are equally similar the one whose id comes last counts, so that their order has no influence.
    order = np.argsort([item.id for item in items], kind="stable")[::-1]
    answers = {}
    for place, item in enumerate(items):
        others = order[((classes == classes[place]) & (stages != stages[place]))[order]]
        if (only is None or stages[place] in only) and others.size:
            alike = np.round((vectors[others] @ vectors[[place]].T).toarray().ravel(), 9)
            other = items[others[alike.argmax()]]
            role = next(role for role, label in roles(other).items() if label == other.answer)
            answers[item.id] = roles(item)[role]
    return answers


_FITTED: dict[str, Features] = {
    "words by role": _words,
    "word pairs by role": pairs_of,
    "last sentences by role": _last,
    "shape of the story": _shape,
}

SHIPPED = Shipped(
    (*_FITTED, "nearest story"),
    Path(__file__).with_name("learned_2.json"),
    'python -c "from tomserve.benchmarks.perturbed_2 import load, shortcuts; shortcuts.write(list(load()))"',
)

WRITTEN = (Baseline("ten words", ten_words), Baseline("last told label", last_told))


def fitted(items: Sequence[Item], only: Collection[str] | None = None) -> dict[str, dict[str, str]]:
    """The answers of the learned rules as labels by item id, by name of the rule.

    items: of either edition; the rules answer those of `asked_of`. Of one stage alone nothing can be learned. only: the
    stages that are answered, None for all.
    """
    asked = [item for item in items if asked_of(item)]
    if not asked:
        return {name: {} for name in SHIPPED.names}
    found = {name: held_out(asked, features, roles, only) for name, features in _FITTED.items()}
    return {**found, "nearest story": nearest(asked, only)}


def problems(items: Sequence[Item], answers: Answers) -> Iterator[str]:
    """A sentence for each way in which the file does not hold what a fit to these items gives (see Shipped.problems).

    answers: as `fitted` gives them.
    """
    return SHIPPED.problems([item for item in items if asked_of(item)], answers)


def write(items: Sequence[Item]) -> None:
    """Fit the learned rules to these items, and write their answers to the file."""
    SHIPPED.write([item for item in items if asked_of(item)], fitted(items))
