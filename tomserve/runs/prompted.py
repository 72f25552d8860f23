"""Makes the prompts of a run once more, and compares the keys of its rows with those of these prompts.

A key is a digest of all that was said to the model (see tomserve.engine.request). So a row whose key is that of the
prompt that its question and strategy make answers this prompt, and no other: where a question, a template or a choice
was changed after the asking, keys do not fit any more. The later turns of a conversation are made from the replies of
the run.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tomserve.content import files
from tomserve.content.compact_index import FirstPlaces
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.errors import TomserveError
from tomserve.items import Item, read_items
from tomserve.prompting import strategy as known
from tomserve.prompting.conversation import Turn
from tomserve.prompting.strategy import Strategy
from tomserve.runs.journal import Row, identity_of, read_rows
from tomserve.runs.manifest import Manifest
from tomserve.runs.manifest_parts import AskedStrategy
from tomserve.runs.stock import Stock
from tomserve.runs.talking import Talks
from tomserve.serving.presets import Preset


@dataclass
class Keys:
    """What came of comparing the keys of rows.

    equal: how many rows have the key of their prompt. first: the first row that has another one, in words; None where
    there is none. differing: how many have. strange: how many rows, by their strategy, could not be compared, because
    today's prompts of that strategy are others, or there is none of that name here.
    """

    equal: int = 0
    differing: int = 0
    first: str | None = None
    strange: Counter[str] = field(default_factory=Counter)

    def count(self, row: Row, key: str | None) -> None:
        """Compare a row's key with that of its prompt; None for a turn that nobody would have asked."""
        if row["key"] == key:
            self.equal += 1
            return
        self.differing += 1
        if self.first is None:
            self.first = f"item {row['item']!r}, strategy {row['strategy']!r}, turn {row['turn']} (counted from 0)"


class Prompts:
    """The prompts of a run, made from its items, by today's strategies of the same digests, for its model.

    folder: the run's folder. manifest: that of the run. given: folders of the user's own strategies. Raises ConfigError
    where the items cannot be read.
    """

    def __init__(self, folder: Path, manifest: Manifest, given: Sequence[str] = ()) -> None:
        self._manifest = manifest
        self._items = Stock(read_items(folder / "items.jsonl"))
        self._places = FirstPlaces(self._items.ids)
        self._sampling = sampling_of(manifest)
        folders = [Path(one).expanduser().resolve() for one in given]
        own = {folder.name: str(folder) for folder in folders}
        asked = manifest.strategies.items()
        self._strategies = {name: same(name, one, manifest, own.get(name)) for name, one in asked}

    def compare(self, journal: Path) -> Keys:
        """Compare the key of every row of a journal. Raises ConfigError where a row cannot be read, or a strategy's
        program makes a mistake."""
        keys = Keys()
        talks: dict[tuple[str, str, int], array[int]] = {}
        for offset, row in read_rows(journal):
            strategy, place = self._strategies.get(row["strategy"]), self._places.find(row["item"])
            if strategy is None:
                keys.strange[row["strategy"]] += 1
            elif place is None:
                keys.count(row, None)
            elif strategy.several:
                talks.setdefault(identity_of(row).question, array("Q")).append(offset)
            else:
                keys.count(row, self._build(identity_of(row), strategy.turn(self._items[place])).key)
        with files.open_for_reading(journal) as file:
            for question, offsets in talks.items():
                rows = []
                for offset in offsets:
                    file.seek(offset)
                    rows.append(orjson.loads(file.readline()))
                self._compare_talk(question, rows, keys)
        return keys

    def _compare_talk(self, question: tuple[str, str, int], rows: list[Row], keys: Keys) -> None:
        """Lead a conversation once more with the replies of the run, and compare the keys of its rows."""
        name, by, sample = question
        item, strategy = self._item(name), self._strategies[by]
        assert strategy is not None
        last = {row["turn"]: row for row in rows}
        talks, asked = Talks(self._build), dict[int, str]()
        waiting = list(talks.begin(strategy, item, sample))
        while waiting:
            request = waiting.pop(0)
            asked[request.identity.turn] = request.key
            if (row := last.get(request.identity.turn)) is not None:
                waiting += talks.follow({**row, "strategy": strategy.name})
        for row in rows:
            keys.count(row, asked.get(row["turn"]))

    def _item(self, name: str) -> Item:
        place = self._places.find(name)
        assert place is not None  # rows of unknown items are counted before
        return self._items[place]

    def _build(self, identity: Identity, turn: Turn) -> Request:
        manifest = self._manifest
        return Request.build(identity, turn, model=manifest.model, revision=manifest.revision, sampling=self._sampling)


def sampling_of(manifest: Manifest) -> Sampling:
    """The sampling of a run, as its manifest records it."""
    fields: dict[str, Any] = dict(manifest.sampling)
    temperature, seed = fields.pop("temperature", 0.0), fields.pop("seed", 0)
    fields.pop("repeats", None)
    return Sampling(temperature, seed, fields, manifest.repeats)


def same(name: str, asked: AskedStrategy, manifest: Manifest, own: str | None = None) -> Strategy | None:
    """The strategy of today that asks what that one of a run asked, by its digest; None where there is none.

    Only strategies of this user's content are looked at, by their names, and the folder `own` that the user gave: what
    a run folder says is never a path to look for one.
    """
    if own is None and name not in known.list_strategies():
        return None
    for options in _options(asked, manifest):
        try:
            found = Strategy.load(own or name, **options)
            renamed = found.renamed(asked.digest) if asked.digest not in (None, found.digest) else None
            if renamed is not None:
                found = Strategy.load(renamed, **options)
                return found if found.digest_as(name) == asked.digest else None
        except TomserveError:
            continue
        if found.digest == asked.digest:
            return found
    return None


def _options(asked: AskedStrategy, manifest: Manifest) -> Iterator[dict[str, Any]]:
    """The options with which a strategy may have been loaded: those of its model's preset, thinking or not, and the
    number of tokens that the run gave it."""
    try:
        preset = Preset.lookup(manifest.preset)
    except TomserveError:
        preset = None
    thoughts = {0} if preset is None else {preset.thinking_tokens(), 0}
    extra = manifest.sampling.get("thinking_token_budget")
    thoughts |= {extra} if type(extra) is int else set()
    own = {} if preset is None else {"system_role": preset.system_role, "overrides": preset.prompt_parts}
    for thinking in sorted(thoughts, reverse=True):
        for most in (0, max(0, (asked.max_tokens or 0) - thinking)):
            yield {**own, "max_tokens": most, "thinking": thinking}
