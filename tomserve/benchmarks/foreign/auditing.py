"""What a benchmark's file holds: counts, where right answers stand, what mindless readers get, doubles and leaks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import polars as pl

from tomserve.benchmarks.findings import Findings
from tomserve.items import Item
from tomserve.scoring.baselines import GENERIC, Baseline

NOTES = {
    "items": "Questions by part of the benchmark: how many, about how many stories, with how many choices, and what a "
    "blind guess among them has right.",
    "right": "Where the right answer stands in the order of choices, and which choice is right most often.",
    "rules": "The share of right answers of rules that follow nobody's belief, on the questions that each has an "
    "answer to; empty where those are fewer than one in twenty. Where a rule is above chance, so much of an accuracy "
    "needs no mind.",
    "doubles": "Questions that are asked twice in the same words, questions that are asked twice with different right "
    "answers, and stories that state the right answer in the question's words.",
}


def audited(
    items: Iterable[Item], parts: Sequence[str], rules: Iterable[Baseline] = (), said: Sequence[str] = ()
) -> Findings:
    """The audit of items: its tables, and lines about what is known to be wrong with them.

    items: all of them, of which one at a time is held. parts: the factors by which they are counted. rules: the
    benchmark's own, beside those that every benchmark has. said: further lines, such as that the file is not the known
    one. The exit code is 0: what is found is the benchmark's own affair, and belongs beside every figure.
    """
    every = (*GENERIC, *rules)
    whole, found, doubles = _Part(), defaultdict[tuple[str, ...], _Part](_Part), _Doubles()
    for item in items:
        answers = {rule.name: rule.answer(item) for rule in every}
        for part in (whole, found[tuple(str(item.factors.get(name)) for name in parts)]):
            part.add(item, answers)
        doubles.add(item)
    groups = [(dict.fromkeys(parts, "all"), whole)]
    if len(found) > 1:
        groups += [(dict(zip(parts, names, strict=True)), part) for names, part in sorted(found.items())]
    names = [rule.name for rule in every]
    tables = {
        "items": pl.DataFrame([{**named, **part.counts()} for named, part in groups]),
        "right answers": pl.DataFrame([{**named, **part.right()} for named, part in groups]),
        "rules": pl.DataFrame([{**named, **part.ruled(names)} for named, part in groups], infer_schema_length=None),
        "doubles and leaks": pl.DataFrame([doubles.counts()]),
    }
    return Findings(tables=tables, notes=NOTES, lines=tuple(said))


@dataclass
class _Part:
    """What is counted of the items of one part of the benchmark. Stories are known by their hashes."""

    stories: set[int] = field(default_factory=set)
    clusters: set[str] = field(default_factory=set)
    sizes: Counter[int] = field(default_factory=Counter)
    places: Counter[int] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    said: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)

    def add(self, item: Item, answers: dict[str, str | None]) -> None:
        self.stories.add(hash(item.story))
        self.clusters.add(item.cluster)
        self.sizes[len(item.choices)] += 1
        self.places[item.choices.index(item.answer) + 1] += 1
        self.labels[item.answer] += 1
        for name, given in answers.items():
            self.said[name] += given is not None
            self.hits[name] += given == item.answer

    def counts(self) -> dict[str, object]:
        total = self.sizes.total()
        return {
            "questions": total,
            "stories": len(self.stories),
            "clusters": len(self.clusters),
            "choices": ", ".join(f"{size}: {count:,}" for size, count in sorted(self.sizes.items())),
            "chance": round(sum(count / size for size, count in self.sizes.items()) / total, 3),
        }

    def right(self) -> dict[str, object]:
        label, often = self.labels.most_common(1)[0]
        return {
            "places": " ".join(f"{place}: {count:,}" for place, count in sorted(self.places.items())),
            "most_often": label if len(label) <= 40 else f"{label[:37]}...",
            "share": round(often / self.labels.total(), 3),
            "answers": len(self.labels),
        }

    def ruled(self, names: Sequence[str]) -> dict[str, object]:
        least = max(1, self.sizes.total() / 20)  # a share of two questions in two hundred says nothing of the part
        return {
            name: round(self.hits[name] / self.said[name], 3) if self.said[name] >= least else None for name in names
        }


class _Doubles:
    """Questions that come again, known by their hashes, and stories that state the right answer alone."""

    def __init__(self) -> None:
        self.asked: dict[int, set[int]] = defaultdict(set)
        self.again = self.leaks = 0

    def add(self, item: Item) -> None:
        answers = self.asked[hash((item.story, item.question, frozenset(item.choices)))]
        self.again += bool(answers)
        answers.add(hash(item.answer))
        told = " ".join(item.story).casefold()
        if item.answer.casefold() in told:
            self.leaks += not any(choice.casefold() in told for choice in item.choices if choice != item.answer)

    def counts(self) -> dict[str, int]:
        return {
            "asked_twice": self.again,
            "two_answers": sum(len(answers) > 1 for answers in self.asked.values()),
            "only_the_answer_is_in_the_story": self.leaks,
        }
