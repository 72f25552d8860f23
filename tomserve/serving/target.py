"""Chooses the server of an evaluation: the addresses that are given, else a running `tomserve serve`, else its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pydantic

from tomserve.content.text import say
from tomserve.engine.redact import clean_text
from tomserve.engine.transport import MOST_TOKENS
from tomserve.errors import ConfigError
from tomserve.serving import loading, provenance, records, reference
from tomserve.serving.addresses import in_clear, normalize
from tomserve.serving.keys import api_key
from tomserve.serving.presets import Preset
from tomserve.serving.probe import LONGEST_ID, Probe
from tomserve.serving.waiting import ANSWER, Waiting

REFERENCE = "reference"
"""The name of the preset, and of the model, that the embedded server serves."""


@dataclass
class Target:
    """The server that will be asked.

    model: the served name. revision: of the model, None where it is not known. preset: the model's, None where it has
    none. endpoints: the addresses of its replicas; without any, a server will be started once there is something to
    ask. context: tokens of the shortest context, None where no server tells. server: the manifest's description.
    starts: what that server is to serve, in the words of `tomserve serve`: a preset, its file, a folder, or ORG/MODEL.
    """

    model: str
    revision: str | None
    preset: Preset | None
    endpoints: list[str] = field(default_factory=list)
    context: int | None = None
    server: dict[str, Any] = field(default_factory=dict)
    starts: str = REFERENCE

    @property
    def embedded(self) -> bool:
        """Whether there are no endpoints, so that tomserve has to start a server itself."""
        return not self.endpoints


def choose(
    base_urls: Sequence[str],
    model: str | None,
    revision: str | None,
    waiting: Waiting | None = None,
    *,
    start: bool = False,
) -> Target:
    """Choose the server that will be asked, and ask running endpoints what they serve.

    base_urls: addresses that the user gave. model: the wanted model; None for whichever is served. revision: the
    model's revision as the user states it. waiting: how to wait for a server that is busy or still loads; by default
    without a word. start: let a server of the model be started where none runs, whatever the model; otherwise only that
    of the reference model. Without addresses only servers that this user started on this machine are asked, since they
    are sent the API key (see tomserve.serving.records). Raises ConfigError or ServerError, with what to do, where no
    such server can be used.
    """
    waiting = waiting or Waiting()
    if base_urls:
        endpoints = list(dict.fromkeys(map(normalize, base_urls)))
        for warning in in_clear(endpoints, api_key()):
            say(f"warning: {warning}", error=True)
        loading.wait_at(endpoints, waiting)
        ours = records.started_here(endpoints)
        target = ask_endpoints(endpoints, model, revision or (ours[0].revision if ours else None), waiting)
        return _with_records(target, ours) if ours else target
    if model is not None and "/" in model and Path(model).is_dir():
        model = str(Path(model).resolve())  # a folder is served by its whole path
    running = loading.ready(model, waiting)
    for doubt in records.doubts():
        say(f"warning: a recorded server is not used: {doubt}", error=True)
    if running:
        serving = [record for record in running if model in (None, record.model, loading.asked_for(record))]
        names = sorted({record.model for record in running})
        if not serving and start:
            return _started(model, revision)
        if not serving:
            listed = ", ".join(f"{record.model} at {record.url}" for record in running)
            raise ConfigError(
                f"model {model!r} is not served; live servers: {listed}. Stop them, or give another address "
                "by --base-url"
            )
        if len({record.model for record in serving}) > 1:
            raise ConfigError(f"several models are served; name one by --model (MODEL=): {', '.join(names)}")
        addresses = [record.url for record in serving]
        target = ask_endpoints(addresses, serving[0].model, revision or serving[0].revision, waiting)
        return _with_records(target, serving)
    return _started(model, revision) if start else _embedded(model, revision)


def _started(model: str | None, revision: str | None) -> Target:
    """The target of a server that will be started for a model. Raises ConfigError, ContentError or MachineError where
    it cannot be found or does not fit this machine."""
    if model in (None, REFERENCE):
        return _embedded(model, revision)
    from tomserve.serving.deriving import resolve

    assert model is not None
    if revision is not None:
        raise ConfigError(
            "--revision is for endpoints that already run; write the revision into a preset (`tomserve serve "
            f"{model} --save`), and name that"
        )
    preset, _ = resolve(model)
    return Target(preset.served_name, preset.revision, preset, starts=model)


def _embedded(model: str | None, revision: str | None) -> Target:
    """The target where no server runs: the reference model. Raises ConfigError where another model is wanted."""
    if model in (None, REFERENCE):
        if revision is not None:
            raise ConfigError(
                "--revision is for endpoints that already run; the revision of the embedded model is the digest "
                "of its files, so leave --revision out"
            )
        return Target(REFERENCE, reference.revision(), Preset.load(REFERENCE))
    preset = Preset.lookup(model)
    if preset is None and model is not None and "/" not in model:
        Preset.load(model)  # where no preset has the name, this raises and suggests the nearest
    raise ConfigError(f"no server with {model!r} is running; run `make serve MODEL={model}` first, or give --base-url")


def ask_endpoints(
    endpoints: list[str], model: str | None, revision: str | None, waiting: Waiting | None = None
) -> Target:
    """Ask running endpoints what they serve, and describe them as one server.

    endpoints: the addresses of its replicas. model, revision and waiting: as in `choose`, but by default without any
    wait. Raises ServerError where an endpoint
    cannot be used, ConfigError where they serve different models.
    """
    preset = Preset.lookup(model)
    wanted = [model, *([preset.served_name, preset.model] if preset else [])]
    seconds = ANSWER if waiting is None else waiting.answer
    told = [told_by(endpoint, wanted, seconds, waiting) for endpoint in endpoints]
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


def told_by(
    endpoint: str, wanted: Sequence[str | None], timeout: float = ANSWER, waiting: Waiting | None = None
) -> dict[str, Any]:
    """What one endpoint says of the model that any of `wanted` names, asked for `timeout` seconds: `model`,
    `engine_version`, `root`, `max_model_len`; None for what it does not say. Raises ServerError."""
    with Probe(endpoint, api_key(), timeout, waiting) as probe:
        served, version = probe.choose(wanted), probe.version()
    context, root = served.get("max_model_len"), served.get("root")
    return {
        "model": served["id"],
        "engine_version": version,
        "root": clean_text(root, LONGEST_ID) if isinstance(root, str) else None,
        "max_model_len": context if type(context) is int and 0 < context < MOST_TOKENS else None,
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


def _with_records(target: Target, serving: Sequence[records.Record]) -> Target:
    """The target, its description completed by the records of its servers. Raises ConfigError where these differ."""
    if len({str(_alike(record)) for record in serving}) > 1:
        raise ConfigError(
            "the running servers of that model were started in different ways, so their answers may differ; stop "
            "some of them until all that run were started alike"
        )
    target.server |= {"command": serving[0].command} | serving[0].server
    if (own := serving[0].server.get("preset")) is not None:  # one that was derived, or stands in a file elsewhere
        try:
            target.preset = Preset.model_validate(own)
        except pydantic.ValidationError:
            raise ConfigError(
                f"{serving[0].url}: its record holds a preset that cannot be read; start the server again"
            ) from None
    return target


def _alike(record: records.Record) -> dict[str, Any]:
    """What a record says of its server that must be the same for all replicas of one model."""
    return {name: record.server.get(name) for name in provenance.FIELDS if name not in ("command", "hardware")}
