"""The manifest of a run, ``manifest.json``: what was asked of whom, by which prompts, in which sessions.

A manifest is changed through the methods of `Manifest` and nowhere else. Fields that this version does not know, as a
later one may write them, are kept as they are.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import orjson
import pydantic
from pydantic import BaseModel, ConfigDict

import tomserve
from tomserve.content import files
from tomserve.content.yamlfile import first_error
from tomserve.engine.clock import now
from tomserve.errors import ConfigError, RunMismatchError
from tomserve.prompting.strategy import Strategy
from tomserve.serving.target import Target

WAY_OUT = "restore the file, or use --run NEW"

FIXED = ("benchmark", "benchmark_digest", "model", "revision", "sampling")
"""Fields that may not change within a run; prompts are compared strategy by strategy."""

HISTORY = ("created", "endpoints", "server", "sessions", "limit", "tomserve", "python", "platform", "noise")
"""Fields of a run in which something was asked: who answered, and when. Only a session that asks adds to them."""


class _Record(BaseModel):
    """A part of the manifest. Only what was given is written again, unknown fields among it."""

    model_config = ConfigDict(extra="allow", strict=True)


class AskedStrategy(_Record):
    """What the manifest keeps of a strategy. digest: of everything that shapes its requests; max_tokens: of a reply;
    chain: whether its replies are to hold a belief chain; turns: requests a question, written where it is not one."""

    digest: str | None = None
    max_tokens: int | None = None
    chain: bool = False
    turns: int = 1

    @classmethod
    def of(cls, strategy: Strategy) -> AskedStrategy:
        """The record of a loaded strategy."""
        several = {"turns": strategy.turns} if strategy.turns > 1 else {}
        return cls(digest=strategy.digest, max_tokens=strategy.max_tokens, chain=strategy.chain, **several)


class Session(_Record):
    """One call of the command that had something to ask.

    What the server told of itself (engine_version, root, hardware, ...) stands beside these fields. asked: whether it
    asked the run's own questions rather than the noise check alone; concurrency: requests in flight that it found or
    was given; prompt_tokens: what the server's prefix cache saved; answers: replies in which the model said something;
    served_models: the models that these named; changes: when the server or that model became another.
    """

    time: str | None = None
    endpoints: list[str] = []
    model: str | None = None
    revision: str | None = None
    asked: bool = True
    tomserve: str | None = None
    limit: int | None = None
    concurrency: int | None = None
    prompt_tokens: dict[str, Any] | None = None
    answers: int | None = None
    served_models: list[str] | None = None
    changes: list[dict[str, Any]] | None = None

    @classmethod
    def begun(cls, target: Target, told: Mapping[str, Any], *, asked: bool, limit: int | None) -> Session:
        """A session that begins now. told: what the server says of itself."""
        known = {name: value for name, value in told.items() if value is not None or name != "revision"}
        named = {"model": target.model, "revision": target.revision, **known}
        own = {"asked": asked, "tomserve": tomserve.__version__, "limit": limit}
        return cls.model_validate({"time": now(), "endpoints": list(target.endpoints), **named, **own})

    def to_dict(self) -> dict[str, Any]:
        """The fields that were set, and those that this version does not know."""
        return self.model_dump(exclude_unset=True)

    def found(self, concurrency: int | None, prompt_tokens: dict[str, Any]) -> None:
        """Note what asking found out."""
        if concurrency is not None:
            self.concurrency = concurrency
        self.prompt_tokens = prompt_tokens

    def answered(self, answers: int, served_models: Sequence[str]) -> None:
        """Note how many answers came in one phase, and which models the replies named so far."""
        self.answers = (self.answers or 0) + answers
        self.served_models = list(served_models)

    def changed(self, change: Mapping[str, Any], *, accepted: bool) -> None:
        """Note that the server, or the model that answers, is no longer what it was."""
        self.changes = [*(self.changes or []), {"time": now(), **change, "accepted": accepted}]

    def widened(self, name: str, value: Any) -> None:
        """From now on the session stands for servers of which this field has this value."""
        setattr(self, name, value)


class NoiseRecord(_Record):
    """What the noise check asks again: `items` of `of` items, the `share` drawn with `seed`, at these concurrencies.
    other_engines: the engines that the run's answers came from and that were not the last session's."""

    share: float | None = None
    seed: int | None = None
    items: int = 0
    of: int | None = None
    concurrencies: list[int] = []
    other_engines: list[str] = []


class Manifest(_Record):
    """The whole manifest; the fields stand in the order in which they are written."""

    schema_: Literal[1] = pydantic.Field(alias="schema")
    run: str | None = None
    benchmark: str
    benchmark_path: str | None = None
    benchmark_gold: str | None = None
    benchmark_digest: str | None = None
    benchmark_items: int | None = None
    benchmark_file: dict[str, Any] | None = None
    model: str
    revision: str | None = None
    preset: str | None = None
    sampling: dict[str, Any] = {}
    strategies: dict[str, AskedStrategy]
    content: dict[str, str] = {}
    endpoints: list[str] = []
    server: dict[str, Any] = {}
    sessions: list[Session] = []
    tomserve: str | None = None
    python: str | None = None
    platform: str | None = None
    created: str | None = None
    limit: int | None = None
    noise: NoiseRecord | None = None
    complete: bool = False

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The manifest of a run folder, None where there is none. Raises ConfigError by file and field."""
        path = folder / "manifest.json"
        try:
            with files.reading(path) as file:
                data = orjson.loads(file.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
        except orjson.JSONDecodeError as error:
            raise ConfigError(f"{path}:{error.lineno}: not JSON ({error.msg}); {WAY_OUT}") from None
        if not isinstance(data, dict) or data.get("schema") != 1:
            raise ConfigError(f"{path}: schema is not 1; it was written by another version of tomserve")
        try:
            return cls.model_validate(data)
        except pydantic.ValidationError as error:
            first = first_error(error)
            field = ".".join(map(str, first["loc"]))
            found = "missing" if first["type"] == "missing" else f"{first['input']!r:.60}"
            raise ConfigError(f"{path}: {field} is {found}; {WAY_OUT}") from None

    @classmethod
    def new(cls, folder: Path, strategies: Sequence[Strategy], **asked: Any) -> Manifest:
        """The manifest of a run that begins now. asked: the fields from `benchmark` to `sampling`."""
        given = {
            "schema": 1,
            "run": folder.resolve().name,
            **asked,
            "strategies": {strategy.name: AskedStrategy.of(strategy) for strategy in strategies},
            "content": portable({strategy.name: str(strategy.folder) for strategy in strategies}),
            "endpoints": [],
            "server": {},
            "sessions": [],
            "tomserve": tomserve.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "created": now(),
            "limit": None,
        }
        return cls.model_validate(given)

    def to_dict(self) -> dict[str, Any]:
        """What is written: the fields that were set, in their order, then those that this version does not know."""
        return self.model_dump(by_alias=True, exclude_unset=True)

    def went_on(self, old: Manifest, folder: Path, asked: Collection[str]) -> None:
        """Take over what a run was before. asked: the strategies that have rows; a run without any binds nobody.

        Raises RunMismatchError at the first fixed field in which the two differ.
        """
        if asked:
            self._check_same(old, folder, asked)
        self.strategies = {name: one for name, one in old.strategies.items() if name in asked} | self.strategies
        self.content = {name: place for name, place in old.content.items() if name in asked} | self.content
        if asked:
            for name in HISTORY:
                if name in old.model_fields_set:
                    setattr(self, name, getattr(old, name))
            for name, value in (old.model_extra or {}).items():
                setattr(self, name, value)

    def _check_same(self, old: Manifest, folder: Path, asked: Collection[str]) -> None:
        way_out = "use --run NEW for a new run (make: RUN=NEW)"
        for name in FIXED:
            before, wanted = getattr(old, name), getattr(self, name)
            if before != wanted:
                found = f"{name} of this run is {_short(before)}, now it would be {_short(wanted)}"
                raise RunMismatchError(f"{folder}: {found}; {way_out}")
        for name, strategy in self.strategies.items():
            former = old.strategies.get(name)
            if name not in asked or former is None:
                continue
            for field in AskedStrategy.model_fields:
                if (was := getattr(former, field)) != (is_now := getattr(strategy, field)):
                    found = f"{field} was {_short(was)} when it was asked, now it is {_short(is_now)}"
                    raise RunMismatchError(f"{folder}: strategy {name!r}, {found}; {way_out}")

    def began(self, session: Session, server: Mapping[str, Any]) -> None:
        """Add a session. A server that only answers the noise check is not the one that answered the run."""
        if session.asked or not self.server:
            self.server, self.endpoints = dict(server), session.endpoints
        if session.asked:
            self.limit = session.limit
        self.sessions = [*self.sessions, session]

    def turns(self, strategy: str) -> int:
        """How many requests make up a conversation of that strategy of the run."""
        return self.strategies[strategy].turns


def portable(value: Any) -> Any:
    """Paths of this machine in a form that can be shared: the checkout as ".", the home as "~", Python as "python".

    Applied to what only tells where something lay; nothing reads these fields back.
    """
    if isinstance(value, dict):
        return {name: portable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [portable(inner) for inner in value]
    if not isinstance(value, str):
        return value
    if value == sys.executable or value.startswith(f"{sys.prefix}/bin/python"):
        return "python"
    for folder, short in ((Path(tomserve.__file__).parents[1], "."), (Path.home(), "~")):
        if value.startswith(f"{folder}/"):
            return short + value[len(str(folder)) :]
    return value


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= 80 else text[:77] + "..."
