"""What a benchmark offers: one frozen value, declared as BENCHMARK by a module of this package or by anybody's file.

>>> def load(path, gold):
...     yield Item(id="1", story=["Tea is in it."], question="What is in it?", choices=["tea", "salt"], answer="tea")
>>> [item.benchmark for item in Benchmark("mine", load).items()]
['mine']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tomserve.benchmarks.findings import Check, Findings
from tomserve.content.pyfile import failed
from tomserve.errors import ConfigError, ContentError, TomserveError, one_of
from tomserve.items import Item
from tomserve.scoring.metric import Metric, Scoring, columns_of

Load = Callable[[Path | None, str | None], Iterator[Item]]
"""Yields the items: given the user's ``--path`` and ``--gold``, each None where it was left out."""

Beliefs = Callable[[Item], Sequence[tuple[str, Sequence[str]]]]
"""What is known of beliefs beside the gold chain, for the report: headings, each with one label a sentence."""

ANYBODYS = "items"
"""What an item calls its benchmark where nothing was said."""

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")


def no_beliefs(item: Item) -> Sequence[tuple[str, Sequence[str]]]:
    """Of a benchmark that knows of no beliefs beside the gold chain."""
    del item
    return ()


@dataclass(frozen=True)
class Benchmark:
    """A benchmark. Only `name` and `load` have to be given. Raises ConfigError for a field that makes no sense.

    name: small letters, digits, "-" and "_"; what the items and the run call it. load: yields the items (see Load); an
    item that names no benchmark gets this one's name, and one of another is refused unless they are `mixed`. study: the
    study that reads its scores. strategies: those that are asked by default. stratum: the factor over whose values
    ``--limit`` is spread, None for none. golds: where the answers of its questions are disputed, the names of the sets
    of answers, the default first. lettered: whether its choices are offered by letter, so that a reply may name one by
    it. metrics: columns of the score table beside the standard ones. beliefs: more beliefs after every sentence, for
    the report. validate: proves the dataset's structure. audit: scores shortcuts on it, or compares its labels.
    generate: makes new items; a function whose parameters are options of the command line, each annotated as typer
    wants it. file: where it was declared, and digest: of that file; None for one of this package, both are set when a
    file is loaded.
    """

    name: str
    load: Load
    study: str = "accuracy"
    strategies: tuple[str, ...] = ("vanilla", "cot")
    stratum: str | None = None
    golds: tuple[str, ...] = ()
    lettered: bool = False
    metrics: tuple[Metric, ...] = ()
    beliefs: Beliefs = no_beliefs
    validate: Check | None = None
    audit: Check | None = None
    generate: Callable[..., Findings] | None = None
    mixed: bool = False
    file: Path | None = None
    digest: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise ConfigError(f"name is {self.name!r}; expected small letters, digits, '-' and '_'")
        for field in ("load", "beliefs", "validate", "audit", "generate"):
            value = getattr(self, field)
            if not callable(value) and not (value is None and field in ("validate", "audit", "generate")):
                raise ConfigError(f"{field} is {value!r:.60}; expected a function")
        for field, kind, wanted in (
            ("strategies", str, "names"),
            ("golds", str, "names"),
            ("metrics", Metric, "values of tomserve.scoring.metric.Metric"),
        ):
            value = getattr(self, field)
            if not isinstance(value, tuple | list) or not all(isinstance(entry, kind) for entry in value):
                raise ConfigError(f"{field} is {value!r:.60}; expected a tuple of {wanted}")
            object.__setattr__(self, field, tuple(value))
        columns_of(self.metrics)
        _ = self.scoring

    @property
    def scoring(self) -> Scoring:
        """What scoring needs to know of it."""
        return Scoring(self.metrics, self.lettered)

    @property
    def provenance(self) -> dict[str, Any]:
        """What a run's manifest says of a benchmark that was declared in a file: the file's name and digest, never its
        folder. Nothing for one of this package."""
        if self.file is None:
            return {}
        return {"benchmark_file": {"name": self.file.name, "digest": self.digest}}

    def items(self, path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
        """The items. path: the user's ``--path``. gold: the user's ``--gold``, one of `golds`.

        Raises ConfigError for another gold, ContentError by file and line for what cannot be read and for a function
        `load` of a user's file that fails.
        """
        if gold is not None and not self.golds:
            raise ConfigError(f"--gold {gold!r}: benchmark {self.name!r} has one set of answers; leave --gold out")
        if gold is not None and gold not in self.golds:
            raise ConfigError(one_of(f"--gold of benchmark {self.name!r}", gold, self.golds))
        return self.load(path, gold) if self.mixed else self._own(path, gold)

    def _own(self, path: Path | None, gold: str | None) -> Iterator[Item]:
        """The items of `load`, each once: one that names no benchmark gets this one's name, what is none is refused."""
        file = self.file or Path(self.name)
        places: dict[str, int] = {}
        count = 0
        try:
            for count, item in enumerate(self.load(path, gold), 1):
                if not isinstance(item, Item):
                    raise ContentError(f"load gave {item!r:.60} as item {count}; expected a tomserve.Item", path=file)
                if (first := places.setdefault(item.id, count)) != count:
                    raise ContentError(f"load gave the item {item.id!r} twice, as item {first} and {count}", path=file)
                if item.benchmark not in (self.name, ANYBODYS):
                    reason = (
                        f"item {item.id!r} names the benchmark {item.benchmark!r}; leave it out or say {self.name!r}"
                    )
                    raise ContentError(reason, path=file)
                yield item if item.benchmark == self.name else item.model_copy(update={"benchmark": self.name})
        except TomserveError:
            raise
        except Exception as error:
            if self.file is None:  # a mistake of ours
                raise
            raise failed(error, file, f"load failed after {count} items") from None
        if not count:
            raise ContentError("load gave no items", path=file)
