"""Which server an evaluation uses: given addresses, else a live server of `tomserve serve`, else the embedded one."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tomserve.errors import ConfigError
from tomserve.serving import provenance, records, reference
from tomserve.serving.keys import api_key
from tomserve.serving.presets import Preset
from tomserve.serving.probe import Probe, normalize

REFERENCE = "reference"


@dataclass
class Target:
    """What will be asked. No endpoints yet: the embedded server, to be started when something is left to ask."""

    model: str
    revision: str | None
    preset: Preset | None
    endpoints: list[str] = field(default_factory=list)
    context: int | None = None
    server: dict[str, Any] = field(default_factory=dict)

    @property
    def embedded(self) -> bool:
        """Whether a server of our own has to be started."""
        return not self.endpoints


def choose(base_urls: Sequence[str], model: str | None, revision: str | None) -> Target:
    """Decide and, for existing endpoints, ask them. Raises ConfigError or ServerError with the way out.

    Without addresses only servers that this user started on this machine are asked (see tomserve.serving.records):
    they are shown the API key.
    """
    if base_urls:
        endpoints = list(dict.fromkeys(map(normalize, base_urls)))
        ours = records.started_here(endpoints)
        target = ask_endpoints(endpoints, model, revision or (ours[0].revision if ours else None))
        return _told(target, ours) if ours else target
    found = records.live()
    for doubt in records.doubts():
        print(f"warning: a recorded server is not used: {doubt}", file=sys.stderr)
    if found:
        serving = [record for record in found if model in (None, record.model)]
        names = sorted({record.model for record in found})
        if not serving:
            listed = ", ".join(f"{record.model} at {record.url}" for record in found)
            raise ConfigError(f"model {model!r} is not served; live servers: {listed}. Stop them, or give --base-url")
        if len({record.model for record in serving}) > 1:
            raise ConfigError(f"several models are served; name one by --model (MODEL=): {', '.join(names)}")
        target = ask_endpoints([record.url for record in serving], serving[0].model, revision or serving[0].revision)
        return _told(target, serving)
    if model in (None, REFERENCE):
        if revision is not None:
            raise ConfigError("--revision is for endpoints; the embedded model's is the digest of its weights")
        return Target(REFERENCE, reference.revision(), Preset.load(REFERENCE))
    preset = Preset.lookup(model)
    if preset is None and model is not None:
        Preset.load(model)  # raises, naming the nearest preset
    raise ConfigError(f"no server with {model!r} is running; run `make serve MODEL={model}` first, or give --base-url")


def ask_endpoints(endpoints: list[str], model: str | None, revision: str | None) -> Target:
    """The target that running endpoints make: what they serve and say of themselves. Raises as `choose` does."""
    preset = Preset.lookup(model)
    wanted = [model, *([preset.served_name, preset.model] if preset else [])]
    told = [told_by(endpoint, wanted) for endpoint in endpoints]
    names = sorted({entry["model"] for entry in told})
    if len(names) > 1:
        raise ConfigError(f"the endpoints serve different models ({', '.join(names)}); replicas must serve one")
    server = combined(told)
    server["unknown"] = [
        *(["engine_version"] if server["engine_version"] is None else []),
        *provenance.unknown({"revision": revision}),
    ]
    if revision is None and preset is not None and preset.revision:
        revision = preset.revision
    found = preset or Preset.lookup(names[0])
    return Target(names[0], revision, found, endpoints, server["max_model_len"], server)


def told_by(endpoint: str, wanted: Sequence[str | None], timeout: float = 60.0) -> dict[str, Any]:
    """What one endpoint says of the model that any of `wanted` names, asked for `timeout` seconds: `model`,
    `engine_version`, `root`, `max_model_len`; None for what it does not say. Raises ServerError."""
    with Probe(endpoint, api_key(), timeout) as probe:
        served, version = probe.choose(wanted), probe.version()
    context = served.get("max_model_len")
    return {
        "model": served["id"],
        "engine_version": version,
        "root": served.get("root"),
        "max_model_len": context if isinstance(context, int) else None,
    }


def combined(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What several endpoints say of themselves: the one thing that all say, else the list; the shortest context."""
    limits = [entry["max_model_len"] for entry in told if entry["max_model_len"] is not None]
    return {
        "engine_version": _all(entry["engine_version"] for entry in told),
        "root": _all(entry["root"] for entry in told),
        "max_model_len": min(limits, default=None),
    }


def _all(values: Iterable[Any]) -> str | list[str] | None:
    found = sorted({value for value in values if isinstance(value, str) and value})
    return found if len(found) > 1 else next(iter(found), None)


def _told(target: Target, serving: Sequence[records.Record]) -> Target:
    """The target with what `tomserve serve` recorded of its servers. Raises ConfigError where they differ."""
    if len({str(_alike(record)) for record in serving}) > 1:
        raise ConfigError("the live servers of that model were started in different ways; stop all but one kind")
    target.server |= {"command": serving[0].command} | serving[0].server
    return target


def _alike(record: records.Record) -> dict[str, Any]:
    """What replicas of one server have in common."""
    return {name: record.server.get(name) for name in provenance.FIELDS if name not in ("command", "hardware")}
