r"""Which benchmark and which item another tool's sample is about, by the text that the model was shown.

A sample is an item if the whole story and then the question of the item stand in that text; only letters and digits
count. Where several items stand there, as in a prompt with demonstrations, it is the last one.

>>> from tomserve.items import Item
>>> story = ["The box holds tea.", "Ann looks in."]
>>> item = Item(id="q", story=story, question="What is in it?", choices=["tea", "salt"], answer="tea")
>>> KnownBenchmark("demo", [item]).find("Story: 1. The box holds TEA.  2. Ann looks in.\nQ: What is in it?")
'q'
"""

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import orjson

from tomserve import benchmarks, content
from tomserve.content import cache
from tomserve.content.text import count_noun
from tomserve.errors import ConfigError
from tomserve.interop.samples import ReplyBuffer, original_id
from tomserve.items import Item
from tomserve.runs.progress import Listener

WORDS = 8
"""Stories are looked up by so many of their first words."""

FEW, COMMON = 20, 0.2
"""A word that is in so large a share of the stories says nothing of any of them; of fewer than FEW stories these are
the words of up to three letters."""

ASKING = frozenset(
    re.findall(
        r"\w+",
        """according answer answers asked based below carefully choice choices choose correct following label labels one
    option options passage pick please question questions read reply respond right statement step story text think
    use""",
    )
)
"""Words by which prompts lead to a question, also where a story has them."""

LONGEST_ASKED = 1_000_000
"""Of a longer text, only so many of its last characters are looked at."""

MOST_STORIES = 100
"""After so many whole stories without their question, no further one is looked for before them."""

_NUMBER = re.compile(
    r"""(?:^|(?<=[.!?:])|(?<=[.!?:]["')\]]))[^\S\n]*(?:sentence\s+)?[(\[]?\d{1,4}[.):\]]*(?=\s)""", re.M | re.I
)
_WORD = re.compile(r"[^\W_]+")


def normal_words(text: str) -> list[str]:
    """The words of a text in small letters, without the numbers that lines and sentences begin with."""
    return _WORD.findall(_NUMBER.sub(" ", text).casefold())


def _last_words(asked: str) -> list[str]:
    """The normal words of the end of a text that was asked."""
    return normal_words(asked[-LONGEST_ASKED:])


def _story_words(story: Iterable[str]) -> Iterator[str]:
    return (word for sentence in story for word in normal_words(sentence))


def _beginning(story: Iterable[str]) -> str:
    return " ".join(islice(_story_words(story), WORDS))


class _Question(NamedTuple):
    """A question about a story: its words, those of its choices, and the id of the item."""

    words: str
    choices: tuple[str, ...]
    item: str


class KnownBenchmark:
    """The items of a benchmark by their ids, which are found by their stories."""

    def __init__(self, name: str, items: Iterable[Item]) -> None:
        self.name, self.items = name, {item.id: item for item in items}
        self._stories: dict[str, list[_Question]] = {}
        self._beginnings: dict[str, list[str]] = {}
        for item in self.items.values():
            story = " ".join(_story_words(item.story))
            if story not in self._stories:
                self._beginnings.setdefault(_beginning(item.story), []).append(story)
            question, *choices = (" ".join(normal_words(text)) for text in (item.question, *item.choices))
            self._stories.setdefault(story, []).append(_Question(question, tuple(choices), item.id))
        self._lengths = {beginning.count(" ") + 1 for beginning in self._beginnings}
        counts = Counter(word for story in self._stories for word in set(story.split()))
        many = COMMON * len(self._stories) if len(self._stories) >= FEW else None
        self._common = {word for word, count in counts.items() if (len(word) <= 3 if many is None else count >= many)}

    def find(self, asked: str, item: str | None = None) -> str | None:
        """The id of the item whose story and question the text holds, None where it holds none, or where several fit.
        item: the id that the file names, which is chosen among several that fit; that of a variant of one fits none."""
        if item is not None and original_id(item) in self.items:
            return None
        words = _last_words(asked)
        text, looked_at = f"{' '.join(words)} ", 0
        start = len(text)
        for place in range(len(words) - 1, -1, -1):
            start -= len(words[place]) + 1
            begun = (self._beginnings.get(" ".join(words[place : place + length]), ()) for length in self._lengths)
            stories = [story for several in begun for story in several if text.startswith(f"{story} ", start)]
            # Of a story and one that goes on where it ends, the whole one was told.
            for story in sorted(stories, key=len, reverse=True):
                if found := self._asked(story, text[start + len(story) :], item):
                    return item if item in found else found[0] if len(found) == 1 else None
            if (looked_at := looked_at + len(stories)) >= MOST_STORIES:
                break
        return None

    def _asked(self, story: str, rest: str, item: str | None) -> list[str]:
        """The ids of the items about this story whose question is the last that the text after it asks and, where
        several have that question, those whose choices stand there, too, in their order. None where the story goes on,
        unless the file names one of them, as of a conversation whose earlier replies stand between the two."""
        questions = self._stories[story]
        ends = {one.words: rest.rfind(f" {one.words} ") + len(one.words) for one in questions if one.words}
        # A question that ends with another one is the longer of the two.
        there = {words: (end, len(words)) for words, end in ends.items() if end >= len(words)}
        if not there:
            return []
        last = max(there, key=there.__getitem__)
        end = there[last][0]
        found = [one for one in questions if one.words == last]
        if all(one.item != item for one in found) and self._goes_on(story, rest[: end - len(last)], found):
            return []
        if len(found) > 1:
            found = [one for one in found if _in_order(one.choices, rest[end:])] or found
        return [one.item for one in found]

    def _goes_on(self, story: str, between: str, found: Sequence[_Question]) -> bool:
        """Whether the text between a story and its question tells more of it: whether it has a word of that story which
        most others do not have. Other questions about the story, and choices, may stand there, too."""
        others = {one.words for one in self._stories[story]} | {label for one in found for label in one.choices}
        for text in sorted(others, key=len, reverse=True):
            between = between.replace(f" {text} ", " ")
        between = f"{between} "
        return any(f" {word} " in between for word in set(story.split()) - self._common - ASKING)


def _in_order(choices: Sequence[str], text: str) -> bool:
    """Whether the choices stand in the text in this order."""
    end = 0
    for choice in choices:
        if (start := text.find(f" {choice} ", end)) < 0:
            return False
        end = start + len(choice) + 1
    return True


NONE = "none"
"""The benchmark that says that questions are taken as they are."""

LOOKED_AT = 20
"""Whether questions may be those of a benchmark is seen by so many of them, spread over all."""


class QuestionOrigin(NamedTuple):
    """Whose questions were asked."""

    known: KnownBenchmark | None = None  # None where they are taken as they are
    found: Sequence[str | None] = ()  # for each reply the id of its item, None for one that is none of the benchmark's
    path: Path | None = None  # the benchmark's file, where it was given
    nearly: str = ""  # of which benchmark most questions are that are taken as they are


class BenchmarkFinder:
    """The benchmarks whose questions may have been asked, each loaded when it is first looked at. named: which one the
    user names, NONE for none, None to find out. path: its file. Raises ConfigError for a file without a benchmark."""

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
        found = [known.find(one.asked, one.item or one.id) for one in samples]
        if not any(found):
            raise ConfigError(
                f"--benchmark {self._named}: of {count_noun(len(found), 'question')} none is one of its items by story "
                "and question; leave --benchmark out, or give --benchmark none to take them as they are"
            )
        return QuestionOrigin(known, found, self._path)

    def _find_benchmark(self, samples: ReplyBuffer) -> QuestionOrigin:
        nearly, some = "", [(one.asked, one.item or one.id) for one in samples.spread(LOOKED_AT)]
        known_beginnings = _story_beginnings()
        every = frozenset(chain.from_iterable(known_beginnings.values()))
        shown = {one for text, _ in some for one in _beginnings(_last_words(text)) if one in every}
        for name, beginnings in known_beginnings.items():
            if shown.isdisjoint(beginnings):
                continue
            known = self._known(name)
            if not any(known.find(asked, item) for asked, item in some):
                continue
            found = [known.find(one.asked, one.item or one.id) for one in samples]
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


def _story_beginnings() -> dict[str, list[str]]:
    """How the stories begin of each benchmark that needs no file of the user's, those with most strategies first; kept
    in the user's cache, as to read all of them takes seconds."""
    names = sorted(benchmarks.names(), key=lambda one: (-len(benchmarks.get(one).strategies), one))
    made_from = content.code_digest([content.PACKAGE / "benchmarks", *(root / "dataset" for root in content.roots())])
    path = cache.place("beginnings", made_from.encode(), *map(str.encode, names))
    if (kept := cache.find(path)) is not None:
        with kept, contextlib.suppress(orjson.JSONDecodeError):  # as a disk may leave it
            return orjson.loads(kept.read())  # type: ignore[no-any-return]
    found = {}
    for name in names:
        with contextlib.suppress(ConfigError):  # it needs a file of its own
            items = benchmarks.load(name, None, None, benchmarks.ALL)
            found[name] = sorted({_beginning(item.story) for item in items})
    cache.keep(path, orjson.dumps(found))
    return found


def _beginnings(words: Sequence[str]) -> Iterator[str]:
    """All that the first words of a story may be where it begins somewhere in a text."""
    return (" ".join(words[at : at + length]) for length in range(1, WORDS + 1) for at in range(len(words)))
