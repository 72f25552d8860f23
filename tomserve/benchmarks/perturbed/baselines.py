"""Shortcut baselines of the perturbed benchmark, hand-written or learned: they follow nobody's belief.

Those of the second edition answer the belief questions of the false-belief scenario and say nothing of other questions.
Labels are replaced by marks or deleted, so that what is learned is which *role* the answer has: the cue (what a classic
reading would answer), the opposite, or unknown. The learned ones are fitted to the other stages, each stage by all
others; `write_answers` writes what they answer to the files beside this module, where scoring finds it.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import polars as pl

from tomserve.benchmarks.learned_baselines import Answers, Features, ShippedAnswers, predict_held_out
from tomserve.benchmarks.perturbed.stages import (
    FIRST,
    PERTURBATIONS,
    SECOND,
    Edition,
    in_false_belief_subset,
    load_stages,
)
from tomserve.items import UNKNOWN, Item
from tomserve.scoring.baselines import GENERIC, Baseline, find_first_mention, list_mentions

TEN_WORDS = re.compile(
    r"\b(sure|knows?|knew|sees?|saw|remembers?|remembered|counts? on|watches|watched|loves?|loved|usually|memory)\b"
)
CANNOT_READ = re.compile(
    r"\b(cannot|can not|could not|couldn't|can't) (read|make out)|\bnot (readable|legible)\b|\billegible\b"
)
DENIED = re.compile(r"\b(not|no|never|nothing|nobody|none|without|neither|nor|cannot)\b|n't\b")
PRONOUN = re.compile(r"(she|he|they|her|his|their)\b")


def applies_to(item: Item) -> bool:
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
    if not applies_to(item):
        return None
    text, labels = " ".join(item.story).casefold(), roles(item)
    return labels["unknown" if CANNOT_READ.search(text) else "opposite" if TEN_WORDS.search(text) else "cue"]


def last_mentioned(item: Item) -> str | None:
    """The label that stands last in a sentence that names the asked person or begins with a pronoun; unknown where
    there is no such sentence, or where it denies something."""
    if not applies_to(item):
        return None
    name = str(item.factors["asked"])
    for sentence in reversed(item.story):
        found = list_mentions(item.model_copy(update={"story": (sentence,)}))
        if found and (name in sentence or PRONOUN.match(sentence.casefold())):
            return UNKNOWN if DENIED.search(sentence.casefold()) else found[-1]
    return UNKNOWN


def _mark(sentences: Sequence[str], item: Item) -> str:
    text = " . ".join(sentences).casefold()
    for role, label in roles(item).items():
        if role != "unknown":
            text = re.sub(rf"\b{re.escape(label.casefold())}\b", f"role_{role}", text)
    return re.sub(rf"\b{re.escape(str(item.factors['asked']).casefold())}\b", "asked_person", text)


def _words(item: Item) -> list[str]:
    """All words, with the labels deleted."""
    text = " ".join(item.story).casefold()
    for role, label in roles(item).items():
        if role != "unknown":
            text = re.sub(rf"\b{re.escape(label.casefold())}\b", " ", text)
    return re.findall(r"\w+", text)


def pairs_of(item: Item) -> list[str]:
    """The class, all words, all pairs of neighbouring words, and each word with the class; labels are marked."""
    words = re.findall(r"\w+", _mark(item.story, item))
    name = str(item.factors["perturbation"])
    pairs = [f"{one} {two}" for one, two in pairwise(words)]
    return [name, *words, *pairs, *(f"{name}:{word}" for word in sorted(set(words)))]


def _last(item: Item) -> list[str]:
    """The words of the last two sentences that name the person or a label; labels are marked."""
    named = [s for s in item.story if any(label in s for label in item.choices) or str(item.factors["asked"]) in s]
    return re.findall(r"\w+", _mark(named[-2:], item))


def _shape(item: Item) -> list[str]:
    """What can be counted of a story without reading it, alone and together with the class."""
    marked = [_mark([sentence], item) for sentence in item.story]
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
    """The role of the story of the same class in another stage whose words are most similar (cosine of tf-idf), for the
    stages in `only`, or all."""
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

WRITTEN = (Baseline("ten words", ten_words), Baseline("last told label", last_mentioned))


def _shipped(edition: Edition, file: str, *names: str) -> ShippedAnswers:
    code = f"from tomserve.benchmarks.perturbed import baselines; baselines.write_answers({edition.name!r})"
    return ShippedAnswers(names, Path(__file__).with_name(file), f'python -c "{code}"')


SHIPPED = {
    FIRST.name: _shipped(FIRST, "learned.json", "question only", "bag of words"),
    SECOND.name: _shipped(SECOND, "learned_2.json", *_FITTED, "nearest story"),
}
"""The learned rules by edition, with the files of their answers."""


def select_learnable(items: Iterable[Item], edition: Edition) -> list[Item]:
    """The items that the learned rules of an edition answer."""
    return [item for item in items if not edition.pairs or applies_to(item)]


def fit_rules(items: Sequence[Item], edition: Edition, only: Collection[str] | None = None) -> Answers:
    """The answers of the edition's learned rules as labels by item id, by name of the rule, for the stages in `only`,
    or all. items: of either edition, and of several stages, as nothing can be learned of one alone."""
    asked, names = select_learnable(items, edition), SHIPPED[edition.name].names
    if not asked:
        return {name: {} for name in names}
    if not edition.pairs:
        features: dict[str, Features] = dict(zip(names, (_question_kind, _mask_words), strict=True))
        return {name: predict_held_out(asked, one, _roles_1, only) for name, one in features.items()}
    found = {name: predict_held_out(asked, one, roles, only) for name, one in _FITTED.items()}
    return {**found, "nearest story": nearest(asked, only)}


def write_answers(name: str) -> None:
    """Fit the learned rules of an edition, by its name, to its stages, and write their answers to the file."""
    edition = {one.name: one for one in (FIRST, SECOND)}[name]
    items = [item for stage in load_stages(None, edition) for item in stage.items()]
    SHIPPED[name].write(select_learnable(items, edition), fit_rules(items, edition))


def _roles_1(item: Item) -> dict[str, str]:
    """Labels by a role that can be seen without knowing the gold: first mentioned, other, unknown."""
    first = (list_mentions(item) or item.choices)[0]
    others = [choice for choice in item.choices if choice not in (first, UNKNOWN)]
    return {"first": first, "other": others[0] if others else first, "unknown": UNKNOWN}


def _question_kind(item: Item) -> list[str]:
    return [str(item.factors["question_kind"])]


def _mask_words(item: Item) -> list[str]:
    text = " ".join([*item.story, item.question]).casefold()
    for role, label in _roles_1(item).items():
        text = text.replace(label.casefold(), f"role_{role}")
    return [*_question_kind(item), *re.findall(r"\w+", text)]


_BELIEF = re.compile(r"\b(?:think|believe|expect|know)s?\b", re.IGNORECASE)
_FINDING_OUT = frozenset(
    ["tells", "told", "shows", "opens", "opened", "looks", "sees", "saw", "watches", "peeks", "stays", "believes"]
)
_PLACING = frozenset(
    (*(("", verb) for verb in ("hold", "holds")), *((one, "the") for one in ("to", "in", "into", "on")))
)
"""Words of placing: pairs of a preposition and "the", or a verb after whatever word."""

_MARKS = str.maketrans(dict.fromkeys('.,;:!?"', " "))


def classic(item: Item) -> str | None:
    """The answer that a classic false-belief task of this kind expects; None for an item without that factor."""
    cue = item.factors.get("cue")
    return cue if isinstance(cue, str) and cue in item.choices else None


def reality(item: Item) -> str | None:
    """What is really so, by the factor `reality` or the right answer; None for an item without the factors that tell
    it. Where the belief is false or unknown it is the other label, or the first of several: whichever, it is wrong."""
    real = item.factors.get("reality")
    if isinstance(real, str) and real in item.choices:
        return real
    false = item.factors.get("belief_is_false")
    if item.factors.get("question_kind") == "reality" or (false is False and item.answer != UNKNOWN):
        return item.answer
    if not isinstance(false, bool):
        return None
    return next((choice for choice in item.choices if choice not in (item.answer, UNKNOWN)), None)


def label(item: Item) -> str | None:
    """The last label in quotation marks, which a sign, a label or a speaker gives; else the first label mentioned."""
    pieces = " ".join(item.story).split('"')
    quoted = " ".join(pieces[1 : len(pieces) - 1 : 2]).casefold()
    found = [one for one in list_mentions(item) if one.casefold() in quoted] if quoted else []
    return found[-1] if found else find_first_mention(item)


def opposite(item: Item) -> str | None:
    """The first choice that is neither what a classic task expects nor "unknown"."""
    cue = classic(item)
    return None if cue is None else next((one for one in item.choices if one not in (cue, UNKNOWN)), None)


def _places(words: Sequence[str]) -> bool:
    """Whether these words end in one of placing, or in one of placing and then one other word."""
    ends = (words[-2:], words[-3:-1])
    return any(len(end) == 2 and ((end[0], end[1]) in _PLACING or ("", end[1]) in _PLACING) for end in ends)


@lru_cache(maxsize=64)
def _found_out(story: tuple[str, ...], choices: tuple[str, ...]) -> tuple[str | None, bool]:
    """The label that the story places last, by its words, and whether somebody finds something out."""
    text = " ".join(story)
    placed, last = None, -1
    for choice in choices:
        at = text.rfind(choice) if choice != UNKNOWN else -1
        while at > last:
            whole = not (text[at + len(choice) :][:1] or " ").isalnum() and text[at - 1] == " "
            if whole and _places(text[max(0, at - 60) : at].split()):
                placed, last = choice, at
                break
            at = text.rfind(choice, 0, at + len(choice) - 1)
    return placed, not _FINDING_OUT.isdisjoint(text.translate(_MARKS).casefold().split())


def keyword(item: Item) -> str | None:
    """The label that follows the last word of placing, where the question names no belief or the story has a word of
    finding out; else the first label mentioned."""
    placed, found_out = _found_out(item.story, item.choices)
    if not found_out and _BELIEF.search(item.question):
        return find_first_mention(item)
    return placed or (list_mentions(item) or (find_first_mention(item),))[-1]


PLAIN = (
    Baseline("always classic", classic, "constant"),
    Baseline("always reality", reality, "constant"),
    Baseline("always label", label, "constant"),
    Baseline("opposite of the cue", opposite),
    Baseline("keyword", keyword),
)
"""The rules that need no fit, which both editions have."""

RULES = {FIRST.name: (*PLAIN, *SHIPPED[FIRST.name].rules), SECOND.name: (*PLAIN, *WRITTEN, *SHIPPED[SECOND.name].rules)}
"""The rules by edition. What the learned ones look at, their features say."""


def audit_baselines(
    items: Sequence[Item], learned: Answers, rules: Sequence[Baseline]
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """The accuracy of every rule by class, the robustness criteria that it meets, and its kind, as three tables.

    learned: as `fit_rules` gives them. rules: those of the benchmark, beside those that every benchmark has. The first
    two tables are over all questions and over the false-belief subset. The criteria are those of arXiv 2602.22072:
    "ostensible" is more than half right in the class `none`; "limited robust" also in at least five of the ten classes
    of perturbation; "robust" in all ten. A rule that says nothing of any item is left out.
    """
    frame = pl.DataFrame(_answers(items, learned, rules), infer_schema_length=None)
    both = pl.concat([frame.with_columns(subset=pl.lit("all")), frame.filter(pl.col("subset") == "false_belief")])
    table = (
        pl.concat([both, both.with_columns(perturbation=pl.lit("overall"))])
        .group_by("subset", "rule", "perturbation", maintain_order=True)
        .agg(right=pl.col("right").sum().cast(pl.Int64), total=pl.len().cast(pl.Int64))
    )
    over = pl.col("right") * 2 > pl.col("total")
    classes = pl.col("perturbation").is_in([name for name in PERTURBATIONS if name != "none"])
    criteria = table.group_by("subset", "rule", maintain_order=True).agg(
        ostensible=(over & (pl.col("perturbation") == "none")).any(),
        classes_above=(over & classes).sum().cast(pl.Int64),
    )
    criteria = criteria.with_columns(
        limited_robust=pl.col("ostensible") & (pl.col("classes_above") >= 5),
        robust=pl.col("ostensible") & (pl.col("classes_above") >= 10),
    )
    return table, criteria, frame.select("rule", "kind").unique(maintain_order=True)


def _answers(items: Sequence[Item], learned: Answers, rules: Sequence[Baseline]) -> Iterator[dict[str, object]]:
    for rule in (*rules, *GENERIC):
        given = {item.id: rule.answer(item) for item in items} if rule.kind != "learned" else learned[rule.name]
        for item in items:
            if given.get(item.id) is not None:
                yield {
                    "rule": rule.name,
                    "kind": rule.kind,
                    "perturbation": item.factors["perturbation"],
                    "subset": "false_belief" if in_false_belief_subset(item.factors) else "rest",
                    "right": given[item.id] == item.answer,
                }
