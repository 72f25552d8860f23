"""Write the sheets for the blind annotation of the second edition: every story once, without class or right answer.

    python dataset/perturbed-2/annotation/sheets_2.py OUT [STAGE ...]

writes STAGE-a.txt and STAGE-b.txt, which differ in the order of the stories and of the labels. A story is known by a
code, a hash of its name, so that a sheet does not tell what it is about. `read` reads a reply; its form is in
instructions.md.
"""

from __future__ import annotations

import hashlib
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tomserve.benchmarks.perturbed_2 import stages
from tomserve.items import Item

SEED = 21
"""The seed of the codes and of all random orders; the replies refer to codes made with it."""

ANNOTATORS = ("a", "b")


class Told(NamedTuple):
    """A story's two questions, both of the unswapped version."""

    belief: Item
    reality: Item


class Reading(NamedTuple):
    """What an annotator wrote of a story: for both questions the labels possible after each sentence; and a remark."""

    belief: list[frozenset[str]]
    reality: list[frozenset[str]]
    remark: str


def code(story: str) -> str:
    """Six hex digits for a story, given by its name, which say nothing about it."""
    return hashlib.sha256(f"{SEED}:{story}".encode()).hexdigest()[:6]


def stories(stage: str) -> dict[str, Told]:
    """The unswapped stories of a stage by their codes. Raises ValueError where two have the same code."""
    (found,) = [one for one in stages() if one.file.stage == stage]
    by_code: dict[str, dict[str, Item]] = {}
    for item in found.items():
        if not item.factors["swapped"]:
            name = item.id.rsplit("/", 2)[0]
            by_code.setdefault(code(name), {})[str(item.factors["question_kind"])] = item
    if len(by_code) * 2 != sum(not item.factors["swapped"] for item in found.items()):
        raise ValueError(f"{stage}: two stories have the same code")
    return {key: Told(pair["belief"], pair["reality"]) for key, pair in by_code.items()}


def letters(annotator: str, key: str, item: Item) -> dict[str, str]:
    """The labels of a story by the letters that an annotator sees."""
    labels = sorted(item.choices)
    random.Random(f"{SEED}/{annotator}/{key}").shuffle(labels)
    return dict(zip("ABC", labels, strict=True))


def sheet(stage: str, annotator: str) -> Iterator[str]:
    """The lines of a sheet."""
    told = stories(stage)
    keys = sorted(told)
    random.Random(f"{SEED}/{annotator}/{stage}").shuffle(keys)
    for key in keys:
        belief, reality = told[key]
        yield f"=== {key}"
        yield from (f"{number}. {sentence}" for number, sentence in enumerate(belief.story, 1))
        yield f"Q1: {belief.question}"
        yield f"Q2: {reality.question}"
        yield "Labels: " + ", ".join(f"{one} {label}" for one, label in letters(annotator, key, belief).items())
        yield ""


LINE = re.compile(r"(?P<code>[0-9a-f]{6}) Q1 (?P<belief>[ABC ]+?) Q2 (?P<reality>[ABC ]+?)(?: *# *(?P<remark>.*))?")


def read(text: str, stage: str, annotator: str) -> dict[str, Reading]:
    """The readings of a reply by the story's code.

    Raises ValueError by line for what is no reading of a story of that stage, for a story that is told twice, and where
    one is missing.
    """
    told, found = stories(stage), dict[str, Reading]()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        match = LINE.fullmatch(line.strip())
        if match is None or match["code"] not in told or match["code"] in found:
            raise ValueError(f"line {number}: {line[:60]!r} is no reading of a story that is still to be read")
        item = told[match["code"]].belief
        known = letters(annotator, match["code"], item)
        sets = [
            [frozenset(known[letter] for letter in one) for one in match[which].split()]
            for which in ("belief", "reality")
        ]
        if any(len(one) != len(item.story) for one in sets):
            raise ValueError(f"line {number}: {len(sets[0])} and {len(sets[1])} sets for {len(item.story)} sentences")
        found[match["code"]] = Reading(sets[0], sets[1], match["remark"] or "")
    if missing := sorted(set(told) - set(found)):
        raise ValueError(f"{len(missing)} stories are not read, such as {missing[0]}")
    return found


def main() -> None:
    """Write the sheets. Exits with the usage where no folder is given."""
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for stage in sys.argv[2:] or [one.file.stage for one in stages()]:
        for annotator in ANNOTATORS:
            (out / f"{stage}-{annotator}.txt").write_text("\n".join(sheet(stage, annotator)), encoding="utf-8")


if __name__ == "__main__":
    main()
