"""What both of the other harnesses need to ask our questions and to score the replies: items, prompts, scores.

Nothing of another tool is imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tomserve import benchmarks
from tomserve.errors import ConfigError
from tomserve.items import Item, where
from tomserve.items.draw import limited
from tomserve.prompting.strategy import Strategy
from tomserve.scoring.metric import Scoring
from tomserve.scoring.score import score_row
from tomserve.status import LENGTH, OK


@dataclass(frozen=True)
class Asking:
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
        path: str | None = None,
        limit: int | None = None,
        conditions: Sequence[str] = (),
    ) -> Asking:
        """Load both.

        benchmark: its name, or the FILE.py that declares it. strategy: its name or folder; empty for the benchmark's
        first. path: the benchmark's file. limit: most questions, drawn as `tomserve eval --limit` does. conditions:
        that questions have to meet, such as order=1. Raises ConfigError for a strategy of several turns, which another
        harness cannot hold, and as the benchmark does.
        """
        found = benchmarks.get(benchmark)
        loaded = Strategy.load(strategy or found.strategies[0])
        if loaded.several:
            raise ConfigError(
                f"strategy {loaded.name!r} takes several turns, which only `tomserve eval` asks; choose another"
            )
        every = list(where(found.items(Path(path) if path else None, None, None), conditions))
        draw = benchmarks.draw_of(found, {item.benchmark for item in every})
        chosen = limited(every, limit, draw)
        scoring = replace(found.scoring, lettered=True) if loaded.lettered else found.scoring
        return cls(found.name, loaded, tuple(chosen), scoring)

    def messages(self, item: Item) -> list[dict[str, str]]:
        """What the model is shown for an item, each with `role` and `content`."""
        return [dict(one) for one in self.strategy.turn(item).messages]

    def scored(self, item: Item, text: str | None, *, cut_off: bool = False, model: str = "") -> dict[str, Any]:
        """The columns of the score table that belong to a reply. text: None where none came. cut_off: whether it ended
        at its number of tokens."""
        row = {"strategy": self.strategy.name, "status": LENGTH if cut_off else OK, "text": text or ""}
        return score_row("", model, item, row, self.strategy.chain, scoring=self.scoring)
