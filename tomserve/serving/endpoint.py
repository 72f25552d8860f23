"""Chooses the server of an evaluation, and watches whether it is still the same server."""

import asyncio
import shlex
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pydantic

from tomserve.content.text import say
from tomserve.engine.addresses import normalize_url
from tomserve.engine.network import is_this_machine
from tomserve.engine.redact import clean_text
from tomserve.engine.replies import MOST_TOKENS
from tomserve.errors import ConfigError, ServerError
from tomserve.serving import keys, provenance, registry
from tomserve.serving.presets import REFERENCE, Preset
from tomserve.serving.probe import ANSWER, LONGEST_ID, Probe, WaitPolicy
from tomserve.serving.weights import find_weights


def find_plain_http(endpoints: list[str], key: str | None) -> Iterator[str]:
    """A warning for every endpoint on another machine to which the key would go over plain http."""
    for endpoint in endpoints if key else ():
        parts = urlsplit(endpoint)
        if parts.scheme == "http" and not is_this_machine(parts.hostname or ""):
            yield (
                f"{endpoint}: the API key goes there over plain http, so that others on the way can read it; use "
                "https, or a tunnel (`ssh -L 8000:localhost:8000 HOST` and http://localhost:8000/v1)"
            )


@dataclass
class Target:
    model: str  # the served name
    revision: str | None
    preset: Preset | None
    # the addresses of its replicas; without any, a server will be started once there is something to ask
    endpoints: list[str] = field(default_factory=list)
    context: int | None = None  # tokens of the shortest context, None where no server tells
    server: dict[str, Any] = field(default_factory=dict)  # the manifest's description
    # what is to be served, in the words of `tomserve serve`: a preset, its file, a folder, or ORG/MODEL
    starts: str = REFERENCE

    @property
    def embedded(self) -> bool:
        return not self.endpoints


def choose_target(
    base_urls: Sequence[str],
    model: str | None,
    revision: str | None,
    waiting: WaitPolicy | None = None,
    *,
    start: bool = False,
) -> Target:
    """Choose the server that will be asked, and ask running endpoints what they serve.

    waiting: how to wait for a server that is busy or still loads. start: let a server of any model be started where
    none runs, and not only of the reference model. Without addresses only servers that this user started on this
    machine are asked, since they are sent the API key. Raises ConfigError or ServerError, with what to do, where none
    can be used.
    """
    waiting = waiting or WaitPolicy()
    if base_urls:
        endpoints = list(dict.fromkeys(map(normalize_url, base_urls)))
        for warning in find_plain_http(endpoints, keys.credentials(*endpoints).any):
            say(f"warning: {warning}", error=True)
        ours = registry.records_at(endpoints, waiting)
        target = ask_endpoints(endpoints, model, revision or (ours[0].revision if ours else None), waiting)
        return _with_records(target, ours) if ours else target
    if model is not None and "/" in model and Path(model).is_dir():
        model = str(Path(model).resolve())  # a folder is served by its whole path
    running = registry.wait_until_ready(model, waiting)
    for doubt in registry.describe_doubts():
        say(f"warning: a recorded server is not used: {doubt}", error=True)
    if running:
        serving = [record for record in running if registry.serves(record, model)]
        names = sorted({record.model for record in running})
        if not serving and start:
            return _plan_start(model, revision, start=True)
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
    return _plan_start(model, revision, start=start)


def is_started(model: str | None) -> bool:
    """Whether a server of that model is started where none runs without being asked for: that of a CPU's preset."""
    preset = Preset.lookup(model or REFERENCE)
    return preset is not None and preset.device == "cpu"


def _plan_start(model: str | None, revision: str | None, *, start: bool) -> Target:
    """The target where no server runs. Raises ConfigError where none is started for that model."""
    from tomserve.serving.auto_preset import resolve_preset

    name = model or REFERENCE
    if not (start or is_started(name)):
        if Preset.lookup(name) is None and "/" not in name:
            Preset.load(name)  # raises, and suggests the nearest
        raise ConfigError(
            f"no server with {model!r} is running; run `make serve MODEL={shlex.quote(name)}` first, or give --base-url"
        )
    if revision is not None:
        raise ConfigError(
            "--revision is for endpoints that already run; leave it out for the embedded model, and write that of "
            f"another one into a preset (`tomserve serve {name} --save`)"
        )
    preset, _ = resolve_preset(name)
    return Target(preset.name, find_weights(preset).revision, preset, starts=name)


def ask_endpoints(
    endpoints: list[str], model: str | None, revision: str | None, waiting: WaitPolicy | None = None
) -> Target:
    """Ask running endpoints what they serve, and describe them as one server. Raises ServerError where an endpoint
    cannot be used, ConfigError where they serve different models."""
    preset = Preset.lookup(model)
    wanted = [model, *([preset.name, preset.model] if preset else [])]
    seconds = ANSWER if waiting is None else waiting.answer
    told = [probe_endpoint(endpoint, wanted, seconds, waiting) for endpoint in endpoints]
    for endpoint, entry in zip(endpoints, told, strict=True):
        if entry["unlisted"]:
            say(f"note: {endpoint}: {entry['unlisted']}; asking for {entry['model']!r}, as --model says", error=True)
    names = sorted({entry["model"] for entry in told})
    if len(names) > 1:
        raise ConfigError(f"the endpoints serve different models ({', '.join(names)}); replicas must serve one")
    server = combine_descriptions(told)
    server["unknown"] = [
        *(["engine_version"] if server["engine_version"] is None else []),
        *provenance.unknown_fields({"revision": revision}),
    ]
    if revision is None and preset is not None and preset.revision:
        revision = preset.revision
    found = preset or Preset.lookup(names[0])
    return Target(names[0], revision, found, endpoints, server["max_model_len"], server)


def probe_endpoint(
    endpoint: str,
    wanted: Sequence[str | None],
    timeout: float = ANSWER,
    waiting: WaitPolicy | None = None,
    *,
    answers: bool = False,
) -> dict[str, Any]:
    """What one endpoint says of the model that any of `wanted` names: `model`, `engine_version`, `root`,
    `max_model_len`, None for what it does not say; `unlisted`: why its list of models does not show that it serves
    the model, "" where it does. answers: whether it is known to answer for that model. Raises ServerError."""
    known = keys.credentials(endpoint)
    probe = Probe(endpoint, known.key, timeout, waiting, known.headers)
    served, version = probe.choose(wanted, answers=answers), probe.version()
    context, root = served.get("max_model_len"), served.get("root")
    return {
        "model": served["id"],
        "unlisted": probe.unlisted,
        "engine_version": version,
        "root": clean_text(root, LONGEST_ID) if isinstance(root, str) else None,
        "max_model_len": context if type(context) is int and 0 < context < MOST_TOKENS else None,
    }


def combine_descriptions(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What several endpoints say of themselves: the one thing that all say, else the list; the shortest context."""
    limits = [entry["max_model_len"] for entry in told if entry["max_model_len"] is not None]
    return {
        "engine_version": _combine_values(entry["engine_version"] for entry in told),
        "root": _combine_values(entry["root"] for entry in told),
        "max_model_len": min(limits, default=None),
    }


def _combine_values(values: Iterable[Any]) -> str | list[str] | None:
    found = sorted({value for value in values if isinstance(value, str) and value})
    return found if len(found) > 1 else next(iter(found), None)


def _with_records(target: Target, serving: Sequence[registry.Record]) -> Target:
    """The target, its description completed by the records of its servers. Raises ConfigError where these differ."""
    same = [name for name in provenance.FIELDS if name not in ("command", "hardware")]
    if len({str([record.server.get(name) for name in same]) for record in serving}) > 1:
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


WATCH_EVERY = 15.0  # seconds between two looks; what another server answered in between is kept, and the error says so
WATCH_PATIENCE = 5.0
"""Seconds for an answer; a server that is too busy, or away for a while, is looked at the next time."""


class ServerWatch:
    """Watches whether the same server answers. told: what the endpoints said at first. note: called with every change
    before it raises, or is accepted. portable: how what is said now is brought into the form of `told`."""

    def __init__(
        self,
        endpoints: Sequence[str],
        model: str,
        told: Mapping[str, Any],
        note: Callable[[provenance.Change], None],
        *,
        accepted: bool,
        portable: Callable[[Any], Any],
    ) -> None:
        self.endpoints, self.model, self.told = endpoints, model, dict(told)
        self._note, self._accepted, self._portable = note, accepted, portable

    @property
    def useful(self) -> bool:
        """Whether the endpoints said anything that could change; hosted providers are not asked in vain."""
        return any(self.told.get(name) is not None for name in ("root", "engine_version", "max_model_len"))

    async def keep(self) -> None:
        while True:
            await asyncio.sleep(WATCH_EVERY)
            await self.look()

    async def look(self) -> None:
        """Look once. Raises ServerError where the server has changed and that is not accepted."""
        now = await _in_thread(self._ask_endpoints)
        found = provenance.find_changes(self.told, now)
        for change in found:
            self.told[change["what"]] = provenance.merge_values(change["before"], change["now"])
            self._note(change)
        if found and not self._accepted:
            raise ServerError(
                f"{', '.join(self.endpoints)}: another server answers since the last {WATCH_EVERY:.0f} s or less: "
                f"{'; '.join(map(provenance.describe_change, found))}; what was answered is kept, the last of it "
                "perhaps by the other: use --run NEW (make: RUN=NEW), or go on by --accept-change; the manifest "
                "records it"
            )

    def _ask_endpoints(self) -> dict[str, Any]:
        told = []
        for endpoint in self.endpoints:
            try:
                told.append(probe_endpoint(endpoint, [self.model], WATCH_PATIENCE, answers=True))
            except ServerError:
                continue
        now = combine_descriptions(told)
        if len(told) < len(self.endpoints):
            del now["max_model_len"]  # the shortest of them all may be away
        return dict(self._portable(now))


async def _in_thread(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of `work`, done in a thread that nobody waits for at the end of the program."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[dict[str, Any]] = loop.create_future()

    def settle(found: dict[str, Any]) -> None:
        if not future.done():
            future.set_result(found)

    def run() -> None:
        try:
            found = work()
        except Exception:  # a look that fails in a way of its own must not end the run
            found = {}
        try:
            loop.call_soon_threadsafe(settle, found)
        except RuntimeError:  # the loop is closed: the run is over
            return

    threading.Thread(target=run, daemon=True).start()
    return await future
