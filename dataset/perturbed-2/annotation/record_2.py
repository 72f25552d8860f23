"""What readers of the second edition were handed out and what they wrote, beside what is right, then and now.

A folder of annotation holds for a stage and a reader (a letter) `sheets/STAGE-a.txt`, what was handed out, and
`replies/STAGE-a.reply`, what came back; `gold/STAGE-LETTERS.txt` is what was right when the sheets of these readers
were handed out. A reply counts for a story while neither its text nor its questions nor its gold has changed since.

>>> from pathlib import Path
>>> readings = readings(HERE)                                              # doctest: +SKIP
>>> [one.where for one in readings if one.reader == "c" and one.changed]   # doctest: +SKIP
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tomserve.benchmarks.perturbed.stages import Stage, load_stages
from tomserve.items import UNKNOWN, Item

HERE = Path(__file__).parent
KINDS = ("belief", "reality")
"""The two questions of a story, which a sheet calls Q1 and Q2."""

SEED = 21
"""The seed of the codes and of all random orders; the replies refer to codes made with it."""

REPLY = re.compile(r"(?P<code>[0-9a-f]{6}) Q1 (?P<belief>[ABC ]+?) Q2 (?P<reality>[ABC ]+?)(?: *# *(?P<remark>.*))?")
GOLD = re.compile(r"(?P<code>[0-9a-f]{6}) (?P<name>\S+) Q1 (?P<belief>[xyu ]+?) Q2 (?P<reality>[xyu ]+)")


class Entry(NamedTuple):
    """A story as a sheet has it: its sentences, the question about belief and the one about reality, and the labels by
    the letters that stand for them."""

    sentences: tuple[str, ...]
    questions: tuple[str, str]
    labels: Mapping[str, str]

    def same(self, other: Entry) -> bool:
        """Whether both tell and ask the same in the same words, whatever the letters."""
        return self[:2] == other[:2] and set(self.labels.values()) == set(other.labels.values())


class Sets(NamedTuple):
    """The labels possible after each sentence, as x, y and u (unknown)."""

    belief: tuple[frozenset[str], ...]
    reality: tuple[frozenset[str], ...]

    def __str__(self) -> str:
        belief, reality = (" ".join("".join(sorted(one)) for one in sets) for sets in self)
        return f"Q1 {belief} Q2 {reality}"


class CurrentStory(NamedTuple):
    """A story as it is now: its name (class and version) and its two questions, both of the unswapped version."""

    name: str
    belief: Item
    reality: Item
    symbols: Mapping[str, str]

    @property
    def entry(self) -> Entry:
        """What a sheet would say of the story, with symbols in place of letters."""
        labels = {symbol: label for label, symbol in self.symbols.items()}
        return Entry(self.belief.story, (self.belief.question, self.reality.question), labels)

    @property
    def sets(self) -> Sets:
        """What is right after each sentence. The items of this edition always say."""
        layers = [item.gold.sets or () for item in (self.belief, self.reality) if item.gold]
        belief, reality = (tuple(frozenset(self.symbols[label] for label in one) for one in sets) for sets in layers)
        return Sets(belief, reality)


class Reading(NamedTuple):
    """What one reader wrote of one story, beside the gold of that time. symbols: x, y and u by their labels. changed:
    whether the story's text, questions or gold have changed since."""

    stage: str
    name: str
    code: str
    reader: str
    entry: Entry
    gold: Sets
    sets: Sets
    symbols: Mapping[str, str]
    remark: str
    changed: bool

    @property
    def where(self) -> str:
        """The story's whole name."""
        return f"{self.stage}/{self.name}"


def code(story: str) -> str:
    """Six hex digits for a story, given by its name, which say nothing about it."""
    return hashlib.sha256(f"{SEED}:{story}".encode()).hexdigest()[:6]


def stories(stage: Stage) -> dict[str, CurrentStory]:
    """The unswapped stories of a stage by their codes. Raises ValueError where two have the same code."""
    symbols = {slot.label: symbol for symbol, slot in stage.file.labels.items()} | {UNKNOWN: "u"}
    by_name: dict[str, dict[str, Item]] = {}
    for item in stage.items():
        if not item.factors["swapped"]:
            by_name.setdefault(item.id.rsplit("/", 2)[0], {})[str(item.factors["question_kind"])] = item
    told = {
        code(name): CurrentStory(name.split("/", 1)[1], pair["belief"], pair["reality"], symbols)
        for name, pair in by_name.items()
    }
    if len(told) < len(by_name):
        raise ValueError(f"{stage.file.stage}: two stories have the same code; rename one of their versions")
    return told


def sheet(path: Path) -> dict[str, Entry]:
    """The stories of a sheet by their codes. Raises ValueError by line for a line of another form."""
    found: dict[str, Entry] = {}
    key, sentences, questions = "", list[str](), list[str]()
    for number, text in enumerate(path.read_text("utf-8").splitlines(), 1):
        if text.startswith("=== "):
            key, sentences, questions = text[4:], [], []
        elif re.match(rf"{len(sentences) + 1}\. ", text):
            sentences.append(text.split(" ", 1)[1])
        elif text.startswith(f"Q{len(questions) + 1}: "):
            questions.append(text[4:])
        elif text.startswith("Labels: ") and key not in found and len(questions) == len(KINDS):
            labels = _labels(text)
            found[key] = Entry(tuple(sentences), (questions[0], questions[1]), labels)
        elif text:
            raise ValueError(f"{path}:{number}: {text[:60]!r} is not what a sheet has in this place")
    return found


def reply(path: Path, entries: Mapping[str, Entry]) -> dict[str, tuple[tuple[tuple[frozenset[str], ...], ...], str]]:
    """Of each story of a reply the labels for both questions, and the remark. entries: the stories of the sheet.

    Raises ValueError by line for what is no reading of a story of the sheet, for a story that is told twice, for
    another number of sets than sentences, and where a story is missing.
    """
    found: dict[str, tuple[tuple[tuple[frozenset[str], ...], ...], str]] = {}
    for number, text in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not text.strip():
            continue
        match = REPLY.fullmatch(text.strip())
        if match is None or match["code"] not in entries or match["code"] in found:
            raise ValueError(f"{path}:{number}: {text[:60]!r} is no reading of a story that is still to be read")
        entry = entries[match["code"]]
        sets = tuple(tuple(frozenset(entry.labels[one] for one in word) for word in match[k].split()) for k in KINDS)
        if any(len(one) != len(entry.sentences) for one in sets):
            counts = " and ".join(str(len(one)) for one in sets)
            raise ValueError(f"{path}:{number}: {counts} sets for {len(entry.sentences)} sentences; give one for each")
        found[match["code"]] = sets, match["remark"] or ""
    if missing := sorted(set(entries) - set(found)):
        raise ValueError(f"{path}: {len(missing)} stories of the sheet are not read, such as {missing[0]}; add them")
    return found


def gold_lines(told: Mapping[str, CurrentStory], entries: Mapping[str, Entry], stage: str) -> Iterator[str]:
    """The lines of a file of gold for the stories of a sheet, as they are now: first the labels, then a line a story.
    Raises ValueError for a story that the sheet tells otherwise."""
    for index, (key, entry) in enumerate(sorted(entries.items())):
        if key not in told or not told[key].entry.same(entry):
            raise ValueError(
                f"{stage}: story {key} is not as the sheet tells it; give the folder of the stage files as they were "
                "when it was handed out: --stages FOLDER"
            )
        if not index:
            yield "Labels: " + ", ".join(f"{symbol} {label}" for label, symbol in told[key].symbols.items())
        yield f"{key} {told[key].name} {told[key].sets}"


def gold(path: Path) -> tuple[dict[str, str], dict[str, tuple[str, Sets]]]:
    """The symbols of a file of gold by their labels; and of each story its name and what is right. Raises ValueError by
    line for a line of another form."""
    first, *lines = path.read_text("utf-8").splitlines()
    if not first.startswith("Labels: "):
        raise ValueError(f"{path}:1: {first[:60]!r} does not name the labels; write the file again with --gold")
    found: dict[str, tuple[str, Sets]] = {}
    for number, text in enumerate(lines, 2):
        match = GOLD.fullmatch(text)
        if match is None:
            raise ValueError(f"{path}:{number}: {text[:60]!r} is no gold of a story; write the file again with --gold")
        belief, reality = (tuple(frozenset(word) for word in match[kind].split()) for kind in KINDS)
        found[match["code"]] = match["name"], Sets(belief, reality)
    return {label: symbol for symbol, label in _labels(first).items()}, found


def named(path: Path) -> tuple[str, str]:
    """The stage and the reader (or readers) that a file's name tells. Raises ValueError for another name."""
    match = re.fullmatch(r"([A-Z]\d+)-([a-z]+)", path.stem)
    if match is None:
        raise ValueError(f"{path}: the name does not tell a stage and a reader; call it as C01-a{path.suffix}")
    return match[1], match[2]


def golds(folder: Path) -> dict[tuple[str, str], Path]:
    """The files of gold of a folder by stage and reader."""
    found: dict[tuple[str, str], Path] = {}
    for path in sorted((folder / "gold").glob("*.txt")):
        stage, readers = named(path)
        found |= {(stage, reader): path for reader in readers}
    return found


def without_reply(folder: Path) -> list[str]:
    """The names of the sheets to which no reply has come yet."""
    return [
        path.stem
        for path in sorted((folder / "sheets").glob("*.txt"))
        if not (folder / "replies" / f"{path.stem}.reply").exists()
    ]


def readings(folder: Path, now: Sequence[Stage] | None = None) -> list[Reading]:
    """All readings of a folder of annotation, by stage and reader.

    now: the stages as they are, None for the dataset's own. Raises ValueError for a file of another form, for a reply
    to no sheet, and for a sheet without gold.
    """
    told = {stage.file.stage: stories(stage) for stage in (load_stages() if now is None else now)}
    known, found = golds(folder), list[Reading]()
    for path in sorted((folder / "replies").glob("*.reply")):
        stage, reader = named(path)
        handed = folder / "sheets" / f"{path.stem}.txt"
        if not handed.exists():
            raise ValueError(f"{path}: there is no sheet {handed.name} in {handed.parent}; rename the reply, or add it")
        if (stage, reader) not in known:
            raise ValueError(f"{handed}: what was right at that time is not kept; write it with sheets_2.py --gold")
        if stage in told:
            entries = sheet(handed)
            found += _joined(path, entries, known[stage, reader], told[stage])
    return found


def _joined(
    path: Path, entries: Mapping[str, Entry], right: Path, told: Mapping[str, CurrentStory]
) -> Iterator[Reading]:
    stage, reader = named(path)
    symbols, of_story = gold(right)
    for key, (labels, remark) in sorted(reply(path, entries).items()):
        if key not in of_story or any(len(one) != len(entries[key].sentences) for one in of_story[key][1]):
            raise ValueError(
                f"{right}: story {key} is not there as the sheet {path.stem} tells it; write it with --gold"
            )
        name, then = of_story[key]
        belief, reality = (tuple(frozenset(symbols[one] for one in word) for word in sets) for sets in labels)
        now = told.get(key)
        changed = now is None or now.sets != then or not now.entry.same(entries[key])
        yield Reading(stage, name, key, reader, entries[key], then, Sets(belief, reality), symbols, remark, changed)


def _labels(text: str) -> dict[str, str]:
    """The labels of a line `Labels: A one, B other, C unknown` by what stands for them."""
    pairs = (one.partition(" ") for one in text.removeprefix("Labels: ").split(", "))
    return {symbol: label for symbol, _, label in pairs}
