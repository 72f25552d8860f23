"""What `tomserve functional` is told of several models and of weights, made into wishes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tomserve.errors import ConfigError, one_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tomserve.stats.functional import Formula
    from tomserve.workflows.functional import FunctionalPlan


def several(
    wish: FunctionalPlan, models: Sequence[str], weights: Sequence[str], *, one: str | None
) -> dict[str, FunctionalPlan]:
    """The wish of each model, by its name, with a folder of its own below that of all.

    models: NAME or NAME@URL. weights: MODEL=DIR. one: what --model says, which must be nothing. Raises ConfigError for
    what is given twice, or of a model that is not named.
    """
    from tomserve.causal.experiment import Hardware
    from tomserve.causal.settings import Settings
    from tomserve.runs.runfolder import default_name
    from tomserve.workflows.functional import NO_WEIGHTS

    if one is not None:
        raise ConfigError(f"--model {one} and --models are both given; expected one of them")
    of: dict[str, str] = {}
    without = list(weights) == [NO_WEIGHTS]  # said once, for all models
    for given in () if without else weights:
        name, equals, place = given.partition("=")
        if not equals or not place or name in of:
            raise ConfigError(f"--weights {given!r}: expected MODEL=DIR, once for each model, or `none` for all")
        of[name] = place
    found: dict[str, FunctionalPlan] = {}
    run = wish.run or "functional"
    for name, url in map(_apart, models):
        if name in found:
            raise ConfigError(f"--models: {name!r} is named twice")
        asking = replace(wish.asking, model=name, base_urls=(url,) if url else wish.asking.base_urls)
        folder = default_name("model", name).removeprefix("model-")
        own = NO_WEIGHTS if without else of.pop(name, None)
        found[name] = replace(wish, asking=asking, weights=own, run=f"{run.rstrip('/')}/{folder}")
        if not own and weights and asking.base_urls:  # how to measure inside concerns those whose weights are named
            found[name] = replace(found[name], inside=Settings(), on=Hardware())
    if of:
        raise ConfigError(f"--weights: {one_of('model', next(iter(of)), found)}")
    if len({each.run for each in found.values()}) < len(found):
        raise ConfigError(f"--models: {', '.join(found)} would share a folder; run them one by one with --run")
    return found


def _apart(given: str) -> tuple[str, str]:
    """A model's name and its address, such as my-model@http://host:8000/v1; names may hold an @ themselves."""
    at = max(given.find("@http://"), given.find("@https://"))
    return (given, "") if at < 0 else (given[:at], given[at + 1 :])


def formula(given: str) -> Formula:
    """The formula of an option such as .5,.3,.2. Raises ConfigError for what is no three numbers."""
    from tomserve.workflows.functional import make_formula

    try:
        weights = [float(part) for part in given.split(",")]
    except ValueError:
        raise ConfigError(f"--weights-bcs {given!r}: expected three numbers such as .5,.3,.2") from None
    return make_formula(weights)
