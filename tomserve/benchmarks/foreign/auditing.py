"""What a benchmark's file holds: counts, where right answers stand, what mindless readers get, doubles and leaks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from tomserve.benchmarks.findings import Findings
from tomserve.items import Item
from tomserve.scoring.rules import GENERIC, Rule

NOTES = {
    "items": "Questions by part of the benchmark: how many, about how many stories, with how many choices, and what a "
    "blind guess among them has right.",
    "right": "Where the right answer stands in the order of choices, and which choice is right most often.",
    "rules": "The share of right answers of rules that follow nobody's belief, on the questions that each has an "
    "answer to. Where a rule is above chance, so much of an accuracy needs no mind.",
    "doubles": "Questions that are asked twice in the same words, questions that are asked twice with different right "
    "answers, and stories that state the right answer in the question's words.",
}


def audited(
    items: Sequence[Item], parts: Sequence[str], rules: Iterable[Rule] = (), said: Sequence[str] = ()
) -> Findings:
    """The audit of items: its tables, and lines about what is known to be wrong with them.

    items: all of them. parts: the factors by which they are counted. rules: the benchmark's own, beside those that
    every benchmark has. said: further lines, such as that the file is not the known one. The exit code is 0: what is
    found is the benchmark's own affair, and belongs beside every figure.
    """
    groups = list(_groups(items, parts))
    tables = {
        "items": pl.DataFrame([{**names, **_counts(group)} for names, group in groups]),
        "right answers": pl.DataFrame([{**names, **_right(group)} for names, group in groups]),
        "rules": pl.DataFrame([{**names, **_ruled(group, (*GENERIC, *rules))} for names, group in groups]),
        "doubles and leaks": pl.DataFrame([_doubles(items)]),
    }
    return Findings(tables=tables, notes=NOTES, lines=tuple(said))


def _groups(items: Sequence[Item], parts: Sequence[str]) -> Iterator[tuple[dict[str, str], list[Item]]]:
    """All items, then those of each part."""
    yield dict.fromkeys(parts, "all"), list(items)
    found: dict[tuple[str, ...], list[Item]] = defaultdict(list)
    for item in items:
        found[tuple(str(item.factors.get(name)) for name in parts)].append(item)
    if len(found) > 1:
        for names, group in sorted(found.items()):
            yield dict(zip(parts, names, strict=True)), group


def _counts(items: Sequence[Item]) -> dict[str, object]:
    sizes = Counter(len(item.choices) for item in items)
    return {
        "questions": len(items),
        "stories": len({item.story for item in items}),
        "clusters": len({item.cluster for item in items}),
        "choices": ", ".join(f"{size}: {count:,}" for size, count in sorted(sizes.items())),
        "chance": round(sum(1 / len(item.choices) for item in items) / len(items), 3),
    }


def _right(items: Sequence[Item]) -> dict[str, object]:
    places = Counter(item.choices.index(item.answer) + 1 for item in items)
    label, often = Counter(item.answer for item in items).most_common(1)[0]
    return {
        "places": " ".join(f"{place}: {places[place]:,}" for place in sorted(places)),
        "most_often": label if len(label) <= 40 else f"{label[:37]}...",
        "share": round(often / len(items), 3),
        "answers": len({item.answer for item in items}),
    }


def _ruled(items: Sequence[Item], rules: Iterable[Rule]) -> dict[str, object]:
    shares: dict[str, object] = {}
    for rule in rules:
        answers = [(rule.answer(item), item.answer) for item in items]
        told = [(given, right) for given, right in answers if given is not None]
        shares[rule.name] = round(sum(given == right for given, right in told) / len(told), 3) if told else None
    return shares


def _doubles(items: Sequence[Item]) -> dict[str, int]:
    asked: dict[tuple[object, ...], set[str]] = defaultdict(set)
    times: Counter[tuple[object, ...]] = Counter()
    leaks = 0
    for item in items:
        key = (item.story, item.question, frozenset(item.choices))
        asked[key].add(item.answer)
        times[key] += 1
        told = " ".join(item.story).casefold()
        others = [choice for choice in item.choices if choice != item.answer]
        leaks += item.answer.casefold() in told and not any(choice.casefold() in told for choice in others)
    return {
        "asked_twice": sum(count - 1 for count in times.values()),
        "two_answers": sum(len(answers) > 1 for answers in asked.values()),
        "only_the_answer_is_in_the_story": leaks,
    }
