"""The benchmark DynToM, which its authors' table also calls by states: its items, its audit and its validation.

tomserve eval --benchmark dyntom --path DynToM/data/script/data --limit 710
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tomserve.benchmarks.benchmark import Benchmark
from tomserve.benchmarks.dyntom import asking
from tomserve.benchmarks.dyntom.rules import RULES
from tomserve.benchmarks.dyntom.trials import source, trials
from tomserve.benchmarks.findings import Findings, Say
from tomserve.items import Item
from tomserve.items.draw import Draw


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """Yield the questions of all trials of five scenes, trial by trial; of a single trial, whatever scenes it has.

    path: the folder of trials (see tomserve.benchmarks.dyntom.trials.folders). gold: not used, as there is one set of
    right answers. Raises ConfigError and ContentError for what is missing or is not as it should be.
    """
    del gold
    for trial in trials(path):
        yield from asking.items(trial)


def validate(path: Path | None, say: Say) -> Findings:
    """Whether the trials are those of the known commit (see tomserve.benchmarks.dyntom.checking)."""
    from tomserve.benchmarks.dyntom.checking import validated  # imported here, because asking needs none of it

    return validated(path, say)


def audit(path: Path | None, say: Say) -> Findings:
    """What the trials hold, and what is wrong with it (see tomserve.benchmarks.dyntom.checking)."""
    from tomserve.benchmarks.dyntom.checking import audited_trials  # imported here, because asking needs none of it

    return audited_trials(path, say)


BENCHMARK = Benchmark(
    "dyntom",
    load,
    papers=(
        "Towards Dynamic Theory of Mind: Evaluating LLM Adaptation to Temporal Evolution of Human States "
        "(arXiv:2505.17663)",
    ),
    terms=source().words,
    study="dyntom",
    strategies=("dyntom_vanilla", "dyntom_cot"),
    draw=Draw(unit=("story", "stories")),
    lettered=True,
    rules=RULES,
    validate=validate,
    audit=audit,
)
"""Whole stories are drawn, each with all its questions."""
