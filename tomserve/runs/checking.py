"""Checks the options of an evaluation that are wrong by themselves, whatever is asked of whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tomserve.errors import ConfigError

if TYPE_CHECKING:
    from tomserve.runs.planning import EvalOptions

HOTTEST = 2
"""The highest temperature that servers take."""

SEEDS = 2**31
"""Seeds are below this number; servers take 32 bits with a sign at least."""

MOST_REPEATS = 1000
"""How many samples of a question there may be at most."""


def check(options: EvalOptions) -> None:
    """Raise ConfigError where lists, numbers, temperature, seed or the number of samples cannot be."""
    _check_lists(options)
    _check_numbers(options)
    _check_sampling(options)


def _check_lists(options: EvalOptions) -> None:
    """Raise ConfigError where one text was given for several, which would be taken letter by letter."""
    several: dict[str, object] = {
        "base_urls": options.base_urls,
        "strategies": options.strategies,
        "variants": options.variants,
        "where": options.where,
    }
    for name, given in several.items():
        if isinstance(given, str):
            raise ConfigError(f"{name} is the text {given!r:.60}; expected a list of texts, such as [{given!r:.60}]")


def _check_numbers(options: EvalOptions) -> None:
    """Raise ConfigError for a number of items, tokens, requests or seconds that is too small or no number."""
    counts = {"limit": options.limit, "max_tokens": options.max_tokens, "concurrency": options.concurrency}
    for name, count in counts.items():
        if count is not None and (type(count) is not int or count < 1):
            raise ConfigError(f"{name} is {count!r:.40}; expected a whole number from 1 on")
    for name, seconds in {
        "the timeout": options.timeout,
        "hedge": options.hedge,
        "the patience": options.patience,
    }.items():
        if seconds is not None and not (isinstance(seconds, int | float) and seconds >= 1):
            raise ConfigError(f"{name} is {seconds!r:.40}; expected seconds, at least 1")


def _check_sampling(options: EvalOptions) -> None:
    """Raise ConfigError where temperature, seed or the number of samples is no such number, or they do not fit."""
    temperature, seed, repeats = options.temperature, options.seed, options.repeats
    if not isinstance(temperature, int | float) or isinstance(temperature, bool) or not 0 <= temperature <= HOTTEST:
        raise ConfigError(f"temperature is {temperature!r:.40}; expected a number from 0 (greedy) to {HOTTEST}")
    if type(seed) is not int or not 0 <= seed < SEEDS:
        raise ConfigError(f"seed is {seed!r:.40}; expected a whole number from 0 to {SEEDS - 1}")
    if type(repeats) is not int or not 1 <= repeats <= MOST_REPEATS:
        raise ConfigError(f"repeats is {repeats!r:.40}; expected a whole number from 1 to {MOST_REPEATS}")
    if repeats > 1 and not temperature:
        raise ConfigError(
            f"--repeats {repeats}: at temperature 0 all samples of a question are the same; add a temperature, such as "
            "--temperature 0.7, or use --noise-check SHARE to see how often an answer changes by chance"
        )
