"""Loads the strategies by which an evaluation asks, as the preset of its model changes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tomserve.benchmarks import Benchmark
from tomserve.content.validation import strategy_name
from tomserve.errors import ConfigError, one_of
from tomserve.prompting.strategy import Strategy
from tomserve.serving.presets import Preset

if TYPE_CHECKING:
    from tomserve.runs.planning import EvalOptions


def strategies_of(options: EvalOptions, benchmark: Benchmark, preset: Preset | None, thinking: int) -> list[Strategy]:
    """The strategies that the user wants, else the benchmark's own, as the model's preset changes them.

    Raises ConfigError where two have the same name.
    """
    strategies = [
        Strategy.load(
            name,
            system_role=preset.system_role if preset else True,
            overrides=preset.prompt_parts if preset else {},
            max_tokens=options.max_tokens or 0,
            thinking=thinking,
        )
        for name in dict.fromkeys(options.strategies or benchmark.strategies)
    ]
    if twice := [name for name, count in Counter(s.name for s in strategies).items() if count > 1]:
        raise ConfigError(f"two strategies are called {twice[0]!r}; rename the folder of one")
    return strategies


def from_folders(names: Sequence[str], given: Sequence[str], *, some: bool = False) -> tuple[str, ...]:
    """The strategies that a record names, those by their folders that the user gives for them now.

    some: whether the record may name only some of those. Raises ConfigError where the user gives one that it does not.
    """
    folders = {strategy_name(one): one for one in given}
    if not some and (strange := [name for name in folders if name not in names]):
        raise ConfigError(one_of("--strategy", strange[0], names))
    return tuple(folders.get(name, name) for name in names)


def thinking_of(preset: Preset | None, model: str, wanted: str | None) -> int:
    """How many tokens a reply may think. Raises ConfigError where no preset says how the model's thinking is set."""
    if preset is None and wanted is not None:
        raise ConfigError(
            f"--thinking {wanted}: no preset tells how {model} is switched; write launch/models/NAME.yaml with a "
            "reasoning: section (qwen3-8b.yaml is an example)"
        )
    return preset.thinking_tokens(wanted) if preset is not None else 0


def check_chance(options: EvalOptions, strategies: Sequence[Strategy]) -> None:
    """Raise ConfigError where samples are wanted of a strategy whose own temperature makes them all the same."""
    for strategy in strategies if options.repeats > 1 else ():
        if strategy.greedy(options.temperature):
            raise ConfigError(
                f"--repeats {options.repeats}: strategy {strategy.name} sets the temperature of its turns to 0 in "
                f"{strategy.folder / 'strategy.yaml'}, so that all samples of a question are the same; leave it out"
            )
