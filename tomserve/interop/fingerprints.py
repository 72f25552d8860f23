r"""Which benchmark and which item another tool's sample is about, by the text that the model was shown.

A sample is an item if the whole story and then the question of the item stand in that text; only letters and digits
count. Where several items stand there, as in a prompt with demonstrations, it is the last one. ``beginnings.json``
keeps a checksum of the first words of every story of each benchmark, as reading all items takes up to half a minute;
after a change of the stories it is written anew:

    python -m tomserve.interop.fingerprints

>>> from tomserve.items import Item
>>> story = ["The box holds tea.", "Ann looks in."]
>>> item = Item(id="q", story=story, question="What is in it?", choices=["tea", "salt"], answer="tea")
>>> KnownBenchmark("demo", [item]).find("Story: 1. The box holds TEA.  2. Ann looks in.\nQ: What is in it?")
'q'
"""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import orjson

from tomserve import benchmarks
from tomserve.content.text import count_noun
from tomserve.errors import ConfigError
from tomserve.interop.samples import ReplyBuffer
from tomserve.items import Item
from tomserve.runs.item_store import ItemStore
from tomserve.runs.progress import Listener

WORDS = 8
"""Stories are looked up by so many of their first words."""

FEW = 20
"""Of fewer stories it cannot be told which of their words are common; then those of up to three letters are."""

COMMON = 0.2
"""A word that is in so large a share of the stories says nothing of any of them."""

ASKING = frozenset(
    (
        *("according", "answer", "answers", "asked", "based", "below", "carefully", "choice", "choices", "choose"),
        *("correct", "following", "label", "labels", "one", "option", "options", "passage", "pick", "please"),
        *("question", "questions", "read", "reply", "respond", "right", "statement", "step", "story", "text"),
        *("think", "use"),
    )
)
"""Words by which prompts lead to a question, also where a story has them."""

_NUMBER = re.compile(
    r"""(?:^|(?<=[.!?:])|(?<=[.!?:]["')\]]))\s*(?:sentence\s+)?[(\[]?\d{1,4}[.):\]]*(?=\s)""", re.M | re.I
)
_WORD = re.compile(r"[^\W_]+")


def normal_words(text: str) -> list[str]:
    """The words of a text in small letters, without the numbers that lines and sentences begin with."""
    return _WORD.findall(_NUMBER.sub(" ", text).casefold())


def story_words(item: Item) -> list[str]:
    """The words of an item's story."""
    return [word for sentence in item.story for word in normal_words(sentence)]


class KnownStory(NamedTuple):
    """A story, the questions that items ask about it with their choices and ids, all as words with single spaces."""

    story: str
    questions: list[tuple[str, tuple[str, ...], str]]


class KnownBenchmark:
    """The items of a benchmark, by their stories.

    name: of the benchmark. items: all of them. answers, choices: of each item, by its id; places: where it is in the
    items. It needs some ten times the memory of the items' texts.
    """

    def __init__(self, name: str, items: Iterable[Item]) -> None:
        self.name = name
        self.answers: dict[str, str] = {}
        self.choices: dict[str, tuple[str, ...]] = {}
        self.places: dict[str, int] = {}
        self._stories: dict[str, KnownStory] = {}
        self._begin: dict[str, list[KnownStory]] = {}
        self.items = ItemStore(self._note_items(items))
        self._lengths = sorted({key.count(" ") + 1 for key in self._begin})
        counts = Counter(word for story in self._stories for word in set(story.split()))
        many = len(self._stories) >= FEW
        self._common = frozenset(
            word for word, count in counts.items() if (count >= COMMON * len(self._stories) if many else len(word) <= 3)
        )

    def _note_items(self, items: Iterable[Item]) -> Iterator[Item]:
        same: dict[tuple[str, ...], tuple[str, ...]] = {}
        for item in items:
            parts = story_words(item)
            text = " ".join(parts)
            if (story := self._stories.get(text)) is None:
                story = self._stories[text] = KnownStory(text, [])
                self._begin.setdefault(" ".join(parts[:WORDS]), []).append(story)
            choices = tuple(" ".join(normal_words(choice)) for choice in item.choices)
            story.questions.append((" ".join(normal_words(item.question)), choices, item.id))
            self.answers[item.id] = item.answer
            self.choices[item.id] = same.setdefault(item.choices, item.choices)
            self.places[item.id] = len(self.places)
            yield item

    def find(self, asked: str, item: str | None = None) -> str | None:
        """The id of the item whose story and question the text holds, None where it holds none, or where several fit.

        item: the id that the file names, which is chosen among several that fit.
        """
        text = normal_words(asked)
        whole = f" {' '.join(text)} "
        starts = [1]
        for word in text:
            starts.append(starts[-1] + len(word) + 1)
        for place in range(len(text) - 1, -1, -1):
            here = [
                story
                for length in self._lengths
                for story in self._begin.get(" ".join(text[place : place + length]), ())
                if whole.startswith(f"{story.story} ", starts[place])
            ]
            # Of a story and one that goes on where it ends, the whole one was told.
            for story in sorted(here, key=lambda one: len(one.story), reverse=True):
                if found := self._match_questions(story, whole[starts[place] + len(story.story) :], item):
                    return item if item in found else found[0] if len(found) == 1 else None
        return None

    def _match_questions(self, story: KnownStory, rest: str, item: str | None) -> list[str]:
        """The ids of the items about this story whose question is the last that the text after it asks and, where
        several have that question, those whose choices stand there, too, in their order; none where the story goes on,
        unless the file names one of them (`item`), as of a conversation whose earlier replies stand between the two.

        A question that ends with another one is the longer of the two.
        """
        ends = {question: rest.rfind(f" {question} ") + len(question) for question, _, _ in story.questions if question}
        there = {question: (end, len(question)) for question, end in ends.items() if end >= len(question)}
        if not there:
            return []
        last = max(there, key=there.__getitem__)
        found = [one for one in story.questions if one[0] == last]
        named = any(identity == item for _, _, identity in found)
        if not named and self._goes_on(story, rest[: there[last][0] - len(last)], found):
            return []
        if len(found) > 1:
            after = rest[there[last][0] :]
            found = [one for one in found if _in_order(one[1], after)] or found
        return [identity for _, _, identity in found]

    def _goes_on(self, story: KnownStory, between: str, asked: Sequence[tuple[str, tuple[str, ...], str]]) -> bool:
        """Whether the text between a story and its question tells more of it: whether it has a word of that story
        which most others do not have. Other questions about the story, and choices, may stand there, too."""
        others = {question for question, _, _ in story.questions} | {label for one in asked for label in one[1]}
        for text in sorted(others, key=len, reverse=True):
            between = between.replace(f" {text} ", " ")
        rare = {word for word in between.split() if word not in self._common} - ASKING
        return any(f" {word} " in f" {story.story} " for word in rare)


def _in_order(choices: tuple[str, ...], text: str) -> bool:
    """Whether the choices stand in the text in this order."""
    place = 0
    for choice in choices:
        place = text.find(f" {choice} ", place)
        if place < 0:
            return False
        place += len(choice) + 1
    return True


CHECKSUM_FILE = Path(__file__).with_name("beginnings.json")

FIRST_WORDS = 6
"""So many words are the beginning of a story."""

_DIGITS = 8
"""How many hexadecimal digits a checksum has."""


def story_checksums(items: Iterable[Item]) -> frozenset[int]:
    """The checksums of the beginnings of these items' stories."""
    return frozenset(_checksum(story_words(item)[:FIRST_WORDS]) for item in items)


def likely_benchmarks(texts: Iterable[str]) -> list[str]:
    """The benchmarks about which at least one of these texts may ask, in the order of the file.

    All benchmarks of the file where the user has content of his own, which may hold other stories.
    """
    known = read_checksums()
    if os.environ.get("TOMSERVE_CONTENT"):
        return list(known)
    found: set[str] = set()
    for text in texts:
        words = normal_words(text)
        windows = {_checksum(words[place : place + FIRST_WORDS]) for place in range(len(words) - FIRST_WORDS + 1)}
        found |= {name for name, begin in known.items() if name not in found and not begin.isdisjoint(windows)}
    return [name for name in known if name in found]


@cache
def read_checksums() -> dict[str, frozenset[int]]:
    """The checksums that the file keeps of each benchmark."""
    kept = orjson.loads(CHECKSUM_FILE.read_bytes())
    return {
        name: frozenset(int(text[at : at + _DIGITS], 16) for at in range(0, len(text), _DIGITS))
        for name, text in kept.items()
    }


def render_checksums(benchmarks: dict[str, frozenset[int]]) -> bytes:
    """The text of the file for these benchmarks."""
    texts = {name: "".join(f"{one:0{_DIGITS}x}" for one in sorted(found)) for name, found in benchmarks.items()}
    return orjson.dumps(texts, option=orjson.OPT_INDENT_2) + b"\n"


def _checksum(begin: list[str]) -> int:
    return zlib.crc32(" ".join(begin).encode())


NONE = "none"
"""The benchmark that says that questions are taken as they are."""

LOOKED_AT = 20
"""Whether questions may be those of a benchmark is seen by so many of them, spread over all."""


class QuestionOrigin(NamedTuple):
    """Whose questions were asked. known: the benchmark; None where they are taken as they are. found: for each reply
    the id of its item, None for one that is none of the benchmark's. path: the benchmark's file, where it was given.
    nearly: in words, of which benchmark most questions are that are taken as they are, because some are not."""

    known: KnownBenchmark | None = None
    found: Sequence[str | None] = ()
    path: Path | None = None
    nearly: str = ""


class BenchmarkFinder:
    """The benchmarks whose questions may have been asked, each loaded when it is first looked at.

    named: which one the user names, NONE for none, None to find out. path: its file. listener: is told what takes long.
    Raises ConfigError for a file without a benchmark.
    """

    def __init__(self, named: str | None, path: Path | None, listener: Listener) -> None:
        self._named, self._path, self._listener = named, path, listener
        if path is not None and named in (None, NONE):
            raise ConfigError("--path belongs to --benchmark NAME")
        if named not in (None, NONE):
            benchmarks.get(named)  # an unknown name is said before anything is read
        self._loaded: dict[str, KnownBenchmark] = {}

    def of(self, samples: ReplyBuffer) -> QuestionOrigin:
        """Whose questions these are. Raises ConfigError where a benchmark was named, and none of its questions is among
        them."""
        if self._named == NONE:
            return QuestionOrigin()
        if self._named is None:
            return self._find_benchmark(samples)
        known = self._known(self._named)
        found = _match_samples(known, samples)
        if not any(found):
            raise ConfigError(
                f"--benchmark {self._named}: of {count_noun(len(found), 'question')} none is one of its items by story "
                "and question; leave --benchmark out, or give --benchmark none to take them as they are"
            )
        return QuestionOrigin(known, found, self._path)

    def _find_benchmark(self, samples: ReplyBuffer) -> QuestionOrigin:
        nearly, some = "", [(one.asked, one.item) for one in samples.spread(LOOKED_AT)]
        for name in likely_benchmarks(asked for asked, _ in some):
            known = self._known(name)
            if not any(known.find(asked, item) for asked, item in some):
                continue
            found = _match_samples(known, samples)
            if all(found):
                return QuestionOrigin(known, found)
            place = next(one.place for one, item in zip(samples, found, strict=True) if item is None)
            count = len(found) - found.count(None)
            there = f"{count:,} of {len(found):,} replies {'is' if count == 1 else 'are'} to items of {name}"
            nearly = nearly or (
                f"{there}, the others are not (first: {place}), so that all were taken as they are; --benchmark {name} "
                "brings those alone"
            )
        return QuestionOrigin(nearly=nearly)

    def _known(self, name: str) -> KnownBenchmark:
        if name not in self._loaded:
            self._listener.message(f"looking through the questions of {name}")
            items = benchmarks.load(name, self._path, None, benchmarks.ALL)
            self._loaded[name] = KnownBenchmark(benchmarks.get(name).name, items)
        return self._loaded[name]


def _match_samples(known: KnownBenchmark, samples: ReplyBuffer) -> list[str | None]:
    return [known.find(one.asked, one.item) for one in samples]


def _write_checksums() -> None:
    """Write the file anew, from the stories of all benchmarks that need no file of the user's."""
    found: dict[str, frozenset[int]] = {}
    for name in sorted(benchmarks.names(), key=lambda one: -len(benchmarks.get(one).strategies)):
        with contextlib.suppress(ConfigError):  # it needs a file of its own
            begin = story_checksums(benchmarks.load(name, None, None, benchmarks.ALL))
            if begin not in found.values():
                found[name] = begin
    CHECKSUM_FILE.write_bytes(render_checksums(dict(sorted(found.items()))))


if __name__ == "__main__":
    _write_checksums()
