"""ToMBench's files: where they come from, what a row of them holds, and which rows are known to be faulty.

They lie in the repository zhchen18/ToMBench; their 2,860 rows are known here by their digests alone. Their licence is
MIT; their owners ask that they be used for evaluation only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from tomserve.benchmarks.foreign import Source
from tomserve.errors import ConfigError, ContentError

TASKS = {
    "Unexpected Outcome Test": "unexpected_outcome",
    "Scalar Implicature Test": "scalar_implicature",
    "Persuasion Story Task": "persuasion_story",
    "False Belief Task": "false_belief",
    "Ambiguous Story Task": "ambiguous_story",
    "Hinting Task Test": "hinting",
    "Strange Story Task": "strange_story",
    "Faux-pas Recognition Test": "faux_pas_recognition",
}
"""The names of the files of the eight tasks, in the paper's order, and what tables call them."""

PROBES = {
    name: re.sub(r"\W", "_", name.lower())
    for name in (
        *("Completion of Failed Actions", "Discrepant Desires", "Discrepant Emotions", "Discrepant Intentions"),
        *("Emotion Regulation", "Hidden Emotions", "Knowledge-Attention Links", "Knowledge-Pretend Play Links"),
        *("Moral Emotions", "Multiple Desires", "Percepts-Knowledge Links", "Prediction of Actions"),
    )
}
"""The names of the other twelve files, each of which holds questions on one ability, and what tables call them."""

KNOWN = {**TASKS, **PROBES}

LETTERS = "ABCD"
ABILITY, NUMBER, ANSWER = "能力\nABILITY", "序号\nINDEX", "答案\nANSWER"
FIELDS = {
    "en": ("STORY", "QUESTION", tuple(f"OPTION-{letter}" for letter in LETTERS)),
    "zh": ("故事", "问题", tuple(f"选项{letter}" for letter in LETTERS)),
}
"""The fields of the story, the question and the four options, by language."""


@cache
def source() -> Source:
    """Where the files come from, with the digests of the known rows."""
    known = files("tomserve.benchmarks.foreign").joinpath("tombench.txt").read_text("utf-8").split()
    return Source(
        "tombench",
        "zhchen18/ToMBench",
        "data",
        "MIT, for evaluation only",
        "4f491f0",
        digests=tuple(known),
        note="--path names the folder with its 20 files *.jsonl, or one of these files",
    )


class Row(NamedTuple):
    """One question in both languages. file, line: where it stands. task: of KNOWN. data: its fields as they stand."""

    file: Path
    line: int
    task: str
    data: dict[str, Any]

    def text(self, field: str) -> str:
        """The text of a field. Raises ContentError where it holds none."""
        value = self.data.get(field)
        if not isinstance(value, str) or not value.strip():
            raise self.error(field, value, "a text")
        return value.strip()

    def options(self, language: str) -> list[str]:
        """The options in the order of the file without their letters, as many as there are: the last two may be null
        or NaN. Raises ContentError where fewer than two are there, or one is missing between others."""
        found = []
        for letter, field in zip(LETTERS, FIELDS[language][2], strict=True):
            value = self.data.get(field)
            if value is None or value != value:  # NaN, which the files have where JSON has null
                break
            found.append(bare(self.text(field), letter))
        rest = [field for field in FIELDS[language][2][len(found) :] if isinstance(self.data.get(field), str)]
        if len(found) < 2 or rest:
            field = FIELDS[language][2][len(found)]
            raise self.error(field, self.data.get(field), "two options, or four")
        return found

    @property
    def letter(self) -> str:
        """The letter of the right answer. Raises ContentError where it is none."""
        letter = self.text(ANSWER).rstrip(". ")
        if letter not in LETTERS or not letter:
            raise self.error(ANSWER, self.data.get(ANSWER), "one of A, B, C, D")
        return letter

    def error(self, field: str, found: object, expected: str) -> ContentError:
        """The error that says what a field holds and what it should hold."""
        name = field.replace("\n", "\\n")
        reason = f"{name}: found {found!r:.60}; expected {expected}. Take the file anew from {source().words}"
        return ContentError(reason, path=self.file, line=self.line)


def bare(option: str, letter: str) -> str:
    """The option without its own letter, which many options carry in one of several spellings.

    >>> bare("B.tea", "B"), bare("B: tea", "B"), bare("A. tea", "B"), bare("A big jar", "A")
    ('tea', 'tea', 'A. tea', 'A big jar')
    """
    return " ".join(re.sub(rf"^{letter}\s*[.:,\u3001\uff0c\uff0e\uff1a]\s*(?=\S)", "", option).split())


def paths(path: Path | None) -> list[Path]:
    """The files, in the order of KNOWN. Raises ConfigError where some of a folder's are missing, or a name is none of
    the twenty."""
    found = source().need(path)
    if not found.is_dir():
        if found.stem not in KNOWN:
            expected = f"one of the names of {source().words}, such as {next(iter(KNOWN))}.jsonl"
            raise ConfigError(f"{found}: the name says which task it holds; expected {expected}")
        return [found]
    files_of = [found / f"{name}.jsonl" for name in KNOWN]
    if missing := [one.name for one in files_of if not one.is_file()]:
        raise ConfigError(
            f"{found}: lacks {len(missing)} of 20 files, the first is {missing[0]!r}; expected {source().words}, "
            "or --path FILE for one of them"
        )
    return files_of


def lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that hold something, with their numbers. Raises ContentError where it cannot be read."""
    try:
        whole = file.read_bytes()
    except OSError as error:
        raise ContentError(f"cannot be read ({error.strerror}); expected {source().words}", path=file) from None
    for number, line in enumerate(whole.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if line.strip():
            yield number, line.strip()


def rows(path: Path | None) -> Iterator[Row]:
    """All rows. Raises ConfigError as `paths` does, ContentError by file and line for what is no row."""
    for file in paths(path):
        for number, line in lines(file):
            try:
                data = json.loads(line)
            except (ValueError, RecursionError) as error:
                reason = f"is no JSON ({' '.join(str(error).split())}); expected {source().words}"
                raise ContentError(reason, path=file, line=number) from None
            if not isinstance(data, dict):
                raise ContentError(f"found {data!r:.60}; expected a JSON object", path=file, line=number)
            yield Row(file, number, KNOWN[file.stem], data)
