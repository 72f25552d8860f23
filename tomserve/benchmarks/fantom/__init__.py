"""FANToM, its multiple-choice belief questions (Kim et al. 2023, arXiv 2310.15421): who missed what in a conversation?

    tomserve items fantom --path FOLDER --where context=short

Some people leave a conversation and come back. What do they believe about what was said meanwhile? Each question has
two options: that the person knows it, and that the person does not. `context` says how much of the conversation is
shown: the passage alone (short), as the authors' table counts, or all of it (full); `accessible` whether the person
heard what is asked about; `order` is 2 for a belief about a belief; `part` and `piece` are the passage and the piece of
information, `tom_type` the official file's name of the order. Passages of one conversation are one cluster. The
official order of the options is drawn for each run; here it follows from the question.
"""

from __future__ import annotations

import hashlib
import re
import string
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from tomserve.benchmarks.benchmark import Benchmark
from tomserve.benchmarks.fantom.pieces import pieces
from tomserve.benchmarks.fantom.reading import NAME, SOURCE, Asked, files, read
from tomserve.benchmarks.findings import Findings, Say
from tomserve.benchmarks.foreign.auditing import audited
from tomserve.benchmarks.foreign.known import digests
from tomserve.benchmarks.foreign.made import made
from tomserve.benchmarks.foreign.options import RULES, denies
from tomserve.benchmarks.foreign.prose import key, mixed
from tomserve.items import Item
from tomserve.items.draw import Draw
from tomserve.scoring.answers import Reading
from tomserve.scoring.baselines import Baseline
from tomserve.scoring.metrics import Metric

OFFICIAL = "fantom_v1.json"
_SILENT = re.compile(r"[^\s:]+:")
"""A line of a conversation in which nothing is said."""


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The questions in the order of the files; one whose options are the same is left out. Raises as `reading.read`."""
    del gold
    asked = [one for one in read(path) if one.right.casefold() != one.wrong.casefold()]
    places = _places(asked)
    conversations = _conversations(asked, {content: part for content, (part, _) in places.items()})
    seen: dict[str, int] = defaultdict(int)
    for one in asked:
        part, piece = places[_content(one)]
        name = f"{one.context}/{_content(one)}"
        seen[name] += 1
        yield made(
            one.file,
            one.line,
            one.place,
            id=name if seen[name] == 1 else f"{name}/{seen[name]}",
            benchmark="fantom",
            story=one.told,
            question=one.question,
            choices=mixed((one.right, one.wrong), one.question),
            answer=one.right,
            cluster=f"conversation/{conversations[part]}",
            factors={
                **{"task": "belief", "dimension": "belief", "context": one.context, "accessible": one.accessible},
                **{"order": one.order, "part": part, "piece": piece, "options": 2},
                "tom_type": one.tom_type,
            },
        )


def _content(one: Asked) -> str:
    """What a question is known by, whichever part of the conversation is shown."""
    return key(one.question, sorted((one.right, one.wrong)), one.accessible, one.order)


def _places(asked: Sequence[Asked]) -> dict[str, tuple[str, str]]:
    """The passage and the piece of information of each question, by its content.

    Where the file does not say them, the passage is that of the short context, or the whole conversation where only
    that is at hand; and the pieces are found by the words of the questions, those that all heard apart from the others.
    """
    passages: dict[str, Asked] = {}
    for one in sorted(asked, key=lambda one: one.context != "full"):  # the short ones last, so that they count
        passages[_content(one)] = one
    found: dict[str, tuple[str, str]] = {}
    together: dict[tuple[str, bool], list[Asked]] = defaultdict(list)
    for content, one in passages.items():
        if one.part is not None and one.piece is not None:
            found[content] = (one.part, f"{one.piece}/{'heard' if one.accessible else 'missed'}")
        else:
            together[key(one.told), one.accessible].append(one)
    for (part, accessible), group in together.items():
        people = {line.split(":")[0].casefold() for line in group[0].told}
        numbers = pieces([one.question for one in group], people)
        for one, number in zip(group, numbers, strict=True):
            found[_content(one)] = (part, f"{part}/{'heard' if accessible else 'missed'}/{number}")
    return found


def _conversations(asked: Sequence[Asked], parts: Mapping[str, str]) -> dict[str, str]:
    """The conversation of each passage: by the official file, or else that in which it is found.

    asked: the questions. parts: the passage of each, by its content. A passage belongs to the conversation that is
    shown with the same question, or that holds its text; one for which neither is at hand stands alone.
    """
    found: dict[str, str] = {}
    told: dict[str, str] = {}  # the text of each whole conversation, by its key
    for one in asked:
        part = parts[_content(one)]
        if one.conversation is not None:
            found[part] = one.conversation
        elif one.context == "full":
            found[part] = key(one.told)
            told[found[part]] = "\n".join(one.told)
    for one in asked:
        if (part := parts[_content(one)]) not in found:
            text = "\n".join(one.told)
            holding = [name for name, whole in told.items() if text in whole]
            found[part] = holding[0] if len(holding) == 1 else part
    return found


def official(item: Item, reading: Reading) -> dict[str, bool | None]:
    """Whether the authors' program counts a reply in free text as right: it begins with the letter of the right option,
    or holds that letter in brackets anywhere."""
    text = reading.text.strip()
    if text.startswith("{"):
        return {}  # the authors ask for no form
    for cue in ("Answer:", "Choose an answer from above:"):
        if cue in text:
            text = text.split(cue)[-1].strip()
            break
    if item.answer not in (offered := reading.shown(item.choices)):
        return {}  # nothing says what the letters stood for
    text, letter = text.lower(), string.ascii_lowercase[offered.index(item.answer)]
    begins = text.startswith((f"({letter})", *(f"{letter}{mark}" for mark in ").:,")))
    return {"metric_official": begins or f"({letter})" in text or text == letter}


def audit(path: Path | None, say: Say) -> Findings:
    """What the files hold, by context, accessibility and order (see tomserve.benchmarks.foreign.auditing)."""
    del say
    same = sum(one.right.casefold() == one.wrong.casefold() for one in read(path))
    items = list(load(path))
    shown = Counter((item.story, item.question) for item in items)
    whole = sum(count - 1 for count in shown.values())
    silent = sum(any(_SILENT.fullmatch(line) for line in item.story) for item in items)
    said = [
        f"{whole:,} questions are asked twice, because the passage is the whole conversation (context short and full)."
        if whole
        else "",
        "Where the information was missed, the option that denies is nearly always right, and where it was heard, the "
        "other one: each half alone is answered without a mind (see the rules), so read both halves together.",
        f"{same:,} questions whose two options are the same are left out." if same else "",
        f"{silent:,} questions show a conversation in which somebody's line is empty." if silent else "",
        *_compared(path),
    ]
    return audited(items, ("context", "accessible", "order"), (*RULES, *OWN), [line for line in said if line])


def _compared(path: Path | None) -> list[str]:
    """How the files differ from the known ones, and which are not there: one line each."""
    known = dict(line.split("=") for line in digests("fantom"))
    at_hand = files(path)
    if any(file.name.endswith(".json") for file in at_hand):
        return [f"{OFFICIAL} is not compared with the authors' file, whose digest tomserve does not know."]
    found = {named[0]: blob(file.read_bytes()) for file in at_hand if (named := NAME.search(file.name))}
    missing = sorted(set(known) - set(found))
    return [
        *(
            f"{name} is not the file of commit {SOURCE.commit} of {SOURCE.repository}."
            for name, digest in sorted(found.items())
            if known.get(name) != digest
        ),
        *([f"Not at hand: {', '.join(missing)}."] if missing and path is not None and path.is_dir() else []),
    ]


def blob(content: bytes) -> str:
    """The name by which git knows a file of that content, as `git ls-tree` prints it."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def validate(path: Path | None, say: Say) -> Findings:
    """Whether the files are the known ones, and can be read whole."""
    del say
    count = sum(1 for _ in load(path))
    wrong = _compared(path)
    if wrong:
        return Findings(lines=(f"{count:,} questions can be read, but:", *wrong), code=1)
    return Findings(lines=(f"{count:,} questions: ok; these are the files of commit {SOURCE.commit}, byte for byte.",))


def _reader(denying: bool) -> Callable[[Item], str]:
    """The answer of somebody who takes the option that denies, or the one that does not, and where both or neither do
    the shorter one, or the longer one, since "does not know" is soon said."""

    def answer(item: Item) -> str:
        those = [choice for choice in item.choices if denies(choice) is denying]
        return those[0] if len(those) == 1 else sorted(item.choices, key=len)[0 if denying else -1]

    return answer


OWN = (Baseline("denying else shortest", _reader(True)), Baseline("affirming else longest", _reader(False)))
"""What the options alone give away: the first of information that was missed, the second of what was heard."""

BENCHMARK = Benchmark(
    "fantom",
    load,
    papers=("FANToM: A Benchmark for Stress-testing Machine Theory of Mind in Interactions (arXiv:2310.15421)",),
    terms=SOURCE.words,
    study="fantom",
    strategies=("letters", "letters_cot"),
    draw=Draw(unit=("conversation", "conversations")),
    lettered=True,
    metrics=(Metric({"metric_official": pl.Boolean}, official),),
    rules=(*RULES, *OWN),
    validate=validate,
    audit=audit,
)
