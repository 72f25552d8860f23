"""What the form of an experiment offers to choose from, and what it says of each: benchmarks, strategies, presets, and
the models of an endpoint that somebody asks for."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tomserve import benchmarks, content
from tomserve.content import validation
from tomserve.errors import ConfigError
from tomserve.serving.endpoint import normalize_url
from tomserve.serving.presets import Preset
from tomserve.serving.probe import Probe
from tomserve.web import streaming
from tomserve.web.register import Line
from tomserve.web.settings import Settings

PATIENCE = 8.0
"""Seconds that an endpoint may take to say which models it has."""

MOST_MODELS = 500
PACED = 5
"""Of so many of the newest runs of a model the rate is looked for."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Something to choose: its name, and what it is in a line."""

    name: str
    about: str


def offered_benchmarks() -> tuple[Offer, ...]:
    """All benchmarks by name, each with the first line of what its module says."""
    return _benchmarks(tuple(benchmarks.names()))


@lru_cache(maxsize=1)
def _benchmarks(names: tuple[str, ...]) -> tuple[Offer, ...]:
    """The first line of each module is read and not run: to import all of them takes longer than a page may."""
    found = []
    for name in names:
        spec = importlib.util.find_spec(f"{benchmarks.__name__}.{name.replace('-', '_')}")
        about = ""
        if spec is not None and spec.origin is not None:
            with Path(spec.origin).open(encoding="utf-8") as file:
                about = file.readline().strip().strip('"').replace("`", "")
        found.append(Offer(name, about))
    return tuple(found)


def offered_strategies(chosen: Sequence[str] = (), benchmark: str = "") -> list[Offer]:
    """All strategies that can be found, each with its description, or with what is wrong with it: first those that are
    chosen, in their order, then those by which the benchmark is asked where nothing is chosen."""
    known = benchmarks.find(benchmark) if benchmark in benchmarks.names() else None
    first = [*chosen, *(known.strategies if known is not None else ())]
    offers = [_strategy(name, path) for name, path in content.names("prompts", "/strategy.yaml").items()]
    return sorted(offers, key=lambda one: first.index(one.name) if one.name in first else len(first))


def _strategy(name: str, path: Path) -> Offer:
    """A strategy by its description alone: to load the templates of all of them takes longer than a page may."""
    try:
        told, _ = validation.load_yaml(path)
    except ConfigError as error:
        return Offer(name, f"cannot be used: {error}")
    return Offer(name, str(told.get("description", "")) if isinstance(told, dict) else "")


def offered_presets() -> tuple[Offer, ...]:
    """All presets that can be read, each with the model that it serves."""
    return _presets(tuple(content.names("launch/models", ".yaml")))


@lru_cache(maxsize=2)
def _presets(names: tuple[str, ...]) -> tuple[Offer, ...]:
    return tuple(
        Offer(one.name, f"{one.model}, {one.weights_gb:g} GB") for one in Preset.readable() if one.name in names
    )


def usual_of(name: str) -> str:
    """What a benchmark asks where nothing is said, in a sentence; "" for one that is unknown."""
    found = benchmarks.find(name) if name in benchmarks.names() else None
    if found is None:
        return ""
    said = f"Where nothing is chosen, it is asked by {' and '.join(found.strategies)}"
    return f"{said}, where {' and '.join(found.usual)}." if found.usual else f"{said}."


def golds_of(name: str) -> tuple[str, ...]:
    """The sets of right answers that a benchmark has to choose from; none where there is only one."""
    found = benchmarks.find(name) if name in benchmarks.names() else None
    return found.golds if found is not None else ()


def models_at(address: str, key: str, settings: Settings) -> list[str]:
    """The models that an endpoint lists, asked once and within bounds.

    key: the name of the variable that holds its API key; "" to ask without. Raises ConfigError where the key may not be
    sent there, ServerError where the endpoint does not answer as one.
    """
    place = normalize_url(address)
    secret = None
    if key:
        bound = dict(settings.keys).get(key)
        if bound is None or (bound and normalize_url(bound) != place):
            raise ConfigError(f"key: {key} may not be sent to {place}; choose none, or another")
        secret = os.environ.get(key) or None
    with Probe(place, secret, PATIENCE) as probe:
        return [str(model["id"]) for model in probe.models()[:MOST_MODELS]]


def pace_of(lines: Iterable[Line], model: str | None) -> tuple[float, str] | None:
    """How many rows a second the newest run of a model wrote whose times tell it, and the name of that run."""
    own = [line for line in lines if model and line.model == model and line.kind == "answers"]
    for line in own[:PACED]:
        if (rate := streaming.pace(line.folder)) is not None:
            return rate, line.name
    return None
