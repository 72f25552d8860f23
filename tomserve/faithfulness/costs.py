"""What a measurement of faithfulness will cost, counted from items alone, before a run has written any chain."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tomserve.benchmarks import Benchmark
from tomserve.errors import ConfigError
from tomserve.faithfulness.making import estimated
from tomserve.faithfulness.settings import LIMIT
from tomserve.faithfulness.source import marked
from tomserve.faithfulness.table import EDITS, HINTS
from tomserve.items import EVERY, Item, where
from tomserve.prompting.strategy import Strategy


def costs(benchmark: Benchmark, items: Sequence[Item], strategies: Sequence[str], models: int = 1) -> pl.DataFrame:
    """A row for each of the strategies that marks where its reasoning is, with the requests that its chains take.

    benchmark: whose conditions say which questions count. items: those of the run. strategies: their names. models: how
    many models are measured. Requests are those of all edits and hints in one way of showing chains, which some chains
    do not take; prompt tokens are estimated, without the chains themselves. The edits of one chain share its prompt,
    which a server with a prefix cache computes once.

    Raises ConfigError where no strategy marks its reasoning.
    """
    loaded = [one for one in map(Strategy.load, dict.fromkeys(strategies)) if marked(one)]
    if not loaded:
        raise ConfigError(
            f"none of {', '.join(strategies)} marks where its reasoning is (`reasoning` in strategy.yaml, or a list of "
            "beliefs), so that no chains can be edited; name one by --strategy, such as cot"
        )
    try:
        wanted = list(where(items, benchmark.reasoned or (EVERY,)))
    except ConfigError:  # none of the questions that were drawn meets the benchmark's conditions
        wanted = []
    rows = []
    for strategy in loaded:
        chains = min(len(wanted), LIMIT)
        prompts = [sum(estimated(m["content"]) for m in strategy.turn(item).messages) for item in wanted]
        tokens = sum(prompts) / max(1, len(prompts)) * chains * models
        calls = strategy.turns or strategy.calls
        edited, hinted = len(EDITS) * chains * models, len(HINTS) * chains * calls * models
        rows.append(
            {
                "strategy": strategy.name,
                "chains": chains * models,
                "after edits": edited,
                "with hints": hinted,
                "requests": edited + hinted,
                "prompt tokens (about)": round(tokens * (len(EDITS) + len(HINTS) * calls)),
                "of them new": round(tokens * (1 + len(HINTS))),
            }
        )
    return pl.DataFrame(rows)
