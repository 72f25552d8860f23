"""Items, prompts and scores for other harnesses (Inspect, lm-evaluation-harness) that ask our questions.

Nothing of another tool is imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from tomserve import benchmarks
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.items.draw import limit_items
from tomserve.items.rationale import Automaton
from tomserve.prompting.conversation import Turn
from tomserve.prompting.strategy import Strategy
from tomserve.scoring.metrics import Scoring, compile_gold
from tomserve.scoring.score import score_row
from tomserve.status import OK


@dataclass(frozen=True)
class HarnessTask:
    """The questions of a benchmark, and the strategy by which they are asked."""

    benchmark: str
    strategy: Strategy
    items: tuple[Item, ...]
    scoring: Scoring

    @classmethod
    def of(
        cls,
        benchmark: str,
        strategy: str = "",
        *,
        path: str = "",
        gold: str = "",
        limit: int | None = None,
        conditions: Sequence[str] = (),
    ) -> HarnessTask:
        """Load both; what is asked for again is not loaded again.

        benchmark: its name, or the FILE.py that declares it. strategy: its name or folder; empty for the benchmark's
        first. path, gold: the benchmark's file, and which of its sets of right answers counts; empty for the default.
        limit: most questions, drawn as `tomserve eval --limit` does; None for all. conditions: that questions have to
        meet, such as order=1; empty for the benchmark's own. Raises ConfigError for a strategy of several turns, which
        another harness cannot hold, for a limit below 1, and as the benchmark does.
        """
        if limit is not None and limit < 1:
            raise ConfigError(f"limit is {limit}; expected at least 1, or none for all questions")
        return _load_task(benchmark, strategy, path, gold, limit, tuple(conditions))

    def turn(self, item: Item) -> Turn:
        """What is asked about an item: messages, schema, further fields, and how many tokens the reply may have."""
        turn = self.strategy.turn(item)
        return turn._replace(max_tokens=turn.max_tokens or self.strategy.max_tokens)

    def messages(self, item: Item) -> list[dict[str, str]]:
        """What the model is shown for an item, each with `role` and `content`."""
        return [dict(one) for one in self.strategy.turn(item).messages]

    @cached_property
    def known(self) -> dict[str, Item]:
        """The items by their ids."""
        return {item.id: item for item in self.items}

    @cached_property
    def _stories(self) -> dict[tuple[str, ...], list[Item]]:
        found: dict[tuple[str, ...], list[Item]] = {}
        for item in self.items:
            found.setdefault((item.cluster, *item.story), []).append(item)
        return found

    def _others(self, item: Item) -> tuple[Automaton, ...]:
        """The rationales of other questions about the story, which tell whether a wrong belief is another person's."""
        golds = (one.gold for one in self._stories[(item.cluster, *item.story)] if one.id != item.id)
        return tuple(dict.fromkeys(compile_gold(gold) for gold in golds if gold is not None and gold != item.gold))

    def score(self, item: Item, text: str | None, *, status: str = OK, model: str = "") -> dict[str, Any]:
        """The columns of the score table that belong to a reply. text: None where none came. status: of the reply, one
        of tomserve.status."""
        row = {"strategy": self.strategy.name, "status": status, "text": text or ""}
        return score_row("", model, item, row, self.strategy.chain, self._others(item), self.scoring)


@cache
def _load_task(
    benchmark: str, strategy: str, path: str, gold: str, limit: int | None, conditions: tuple[str, ...]
) -> HarnessTask:
    found = benchmarks.get(benchmark)
    loaded = Strategy.load(strategy or found.strategies[0])
    if loaded.is_multi_turn:
        raise ConfigError(
            f"strategy {loaded.name!r} takes several turns, which only `tomserve eval` asks; choose another"
        )
    every = tuple(_items(benchmark, path, gold, found.conditions(conditions)))
    draw = benchmarks.draw_of(found, {item.benchmark for item in every})
    scoring = replace(found.scoring, lettered=True) if loaded.lettered else found.scoring
    return HarnessTask(found.name, loaded, tuple(limit_items(every, limit, draw)), scoring)


@cache
def _items(benchmark: str, path: str, gold: str, conditions: tuple[str, ...]) -> tuple[Item, ...]:
    """The questions that meet the conditions, without variants of others, which no limit draws."""
    place = Path(path).expanduser() if path else None
    every = benchmarks.load(benchmark, place, gold or None, conditions or benchmarks.ALL)
    return tuple(item for item in every if item.base is None)
