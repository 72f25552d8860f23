"""The manifest of a run, ``manifest.json``: which model was asked what, by which prompts, and in which sessions.

A manifest is changed by the methods of `Manifest` and `Session` only. Fields that this version does not know, because
a later one wrote them, are kept as they are.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import orjson
import pydantic
from pydantic import BaseModel, Field

from tomserve._version import __version__
from tomserve.content import files
from tomserve.content.paths import PACKAGE, run_name
from tomserve.content.validation import check_part, validation_error
from tomserve.engine.records import utc_now
from tomserve.engine.request import RESERVED, THINKING_BUDGET
from tomserve.errors import ConfigError, RunMismatchError
from tomserve.scoring.table import MEASURED

if TYPE_CHECKING:
    from tomserve.prompting.strategy import Strategy
    from tomserve.serving.endpoint import Target


LONGEST_NAME = 200  # most characters of the name of a strategy


class ManifestPart(BaseModel, extra="allow", strict=True):
    """A part of the manifest. When it is written, it holds the fields that were given, also unknown ones, and no
    others."""


class AskedStrategy(ManifestPart):
    """What the manifest keeps of a strategy."""

    digest: str | None = None  # a digest of everything that shapes its requests
    max_tokens: int | None = None  # how many tokens a reply may have
    chain: bool = False  # whether its replies are asked to hold a belief chain
    turns: int = 1  # how many requests one question takes, 0 where a program decides; written only where it is not one
    lettered: bool = False  # whether it shows the choices as A, B, C; written only where it does

    @classmethod
    def of(cls, strategy: Strategy) -> AskedStrategy:
        """The record of a loaded strategy."""
        several = {"turns": strategy.turns or 0} if strategy.is_multi_turn else {}
        letters = {"lettered": True} if strategy.lettered else {}
        fields = {"digest": strategy.digest, "max_tokens": strategy.max_tokens, "chain": strategy.chain}
        return cls.model_validate({**fields, **several, **letters})


class SamplingRecord(ManifestPart):
    """How replies are sampled, besides further fields of a request."""

    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False)  # 0 for greedy decoding
    seed: int | None = None  # of the first sample
    repeats: int | None = Field(default=None, ge=1)  # how many samples a question has


def check_strategy_names(strategies: dict[str, AskedStrategy]) -> dict[str, AskedStrategy]:
    """The strategies, of which none has a name that could be a path. Raises ValueError for one that could."""
    for name in strategies:
        if not name or "/" in name or name in (".", "..") or not name.isprintable() or len(name) > LONGEST_NAME:
            raise ValueError(
                f"{name[:60]!r} is no name of a strategy; expected 1 to {LONGEST_NAME} characters without '/'"
            )
    return strategies


class CutPrompts(ManifestPart):
    """Prompts that the server cut off: how many, and the fewest and most tokens and characters of one."""

    prompts: int
    tokens: list[int] = Field(min_length=2, max_length=2)
    characters: list[int] = Field(min_length=2, max_length=2)


class Doubts(ManifestPart):
    """What makes the replies of a session doubtful."""

    cut: CutPrompts | None = None  # the prompts that the server cut off
    strange: dict[str, int] = {}  # how many replies ended for a reason of a name that is not known, by that name
    providers: dict[str, int] = {}  # how many replies came from each of several providers behind a router


class NoiseRecord(ManifestPart):
    """What the noise check asks again. items, of: how many items were drawn, of how many. other_engines: engines that
    answers of the run came from and that differ from the engine of the last session."""

    share: float | None = None  # the share of the items that was drawn
    seed: int | None = None  # that of the draw
    items: int = 0
    of: int | None = None
    concurrencies: list[int] = []  # the numbers of requests in flight at which they are asked again
    other_engines: list[str] = []


class VariantsRecord(ManifestPart):
    """The variants of the run's questions (see tomserve.variants)."""

    kinds: list[str] = []  # the kinds that were wanted
    made: dict[str, int] = {}  # how many variants there are of each
    dropped: dict[str, dict[str, int]] = {}  # how many were left out of each, by reason


class TableRecord(ManifestPart):
    """The table of a measured run."""

    file: str  # its name in the run's folder
    bytes: int  # its length
    digest: str  # of its content
    rows: int  # how many it has


class MergedPart(ManifestPart):
    """A run whose rows a merged run holds (see tomserve.distributed.merge). rows, bytes, digest: of its journal as it
    was merged, whole lines only; the digest is None where nothing was asked yet."""

    run: str  # its name
    rows: int = 0
    bytes: int = 0
    digest: str | None = None
    complete: bool = False  # whether it had all its answers then


class ForeignFile(ManifestPart):
    """A file of another tool that a run was made from."""

    name: str  # without its folder
    bytes: int  # its length
    digest: str  # of its content


class ForeignRecord(ManifestPart):
    """Where a run comes from whose replies another tool collected (see tomserve.interop.importer)."""

    tool: str
    version: str | None = None
    tasks: list[str] = []  # as the tool names them
    files: list[ForeignFile] = []  # what was read
    created: str | None = None
    samples: int = 0  # how many replies were read
    left_out: dict[str, int] = {}  # how many were not, by reason
    matched: int = 0  # questions found in a benchmark of tomserve's; 0 where they were taken from the files
    counts: Literal["tomserve", "tool"] = "tool"  # whose reading counts: ours, or the grades in the files
    grades: list[str] = []  # which of the tool's scorers or metrics made the grades that the run keeps
    other_grades: list[str] = []  # what other grades the files hold
    settings: dict[str, Any] = {}  # what the files record of how the model was asked


def explain_closed(measured: bool, foreign: ForeignRecord | None) -> str | None:
    """What a run holds that takes no answers of ours: a measurement, or another tool's replies. None for other runs."""
    if measured:
        return "a measurement"
    return None if foreign is None else f"replies that another tool ({foreign.tool[:40]}) collected"


def refuse_closed(folder: Path, measured: bool, foreign: ForeignRecord | None) -> None:
    """Raise RunMismatchError where a run (its folder) holds what no answers can be added to."""
    if (held := explain_closed(measured, foreign)) is not None:
        raise RunMismatchError(f"{folder}: holds {held}, to which no answers can be added; use --run NEW")


def refuse_difference(folder: Path, before: Mapping[str, Any], wanted: Mapping[str, Any], way_out: str) -> None:
    """Raise RunMismatchError at the first field of a run that is to have another value than before."""
    for name in dict.fromkeys((*wanted, *before)):
        if before.get(name) != wanted.get(name):
            was, is_now = (short_text(one[name]) if name in one else "not set" for one in (before, wanted))
            raise RunMismatchError(f"{folder}: {name} of this run is {was}, now it would be {is_now}; {way_out}")


WAY_OUT = "restore the file, or use --run NEW"  # what a user can do about a manifest that is broken

FIXED = ("benchmark", "settings", "benchmark_digest", "model", "revision", "sampling")
"""Fields that must stay the same within a run. Prompts must, too; they are compared strategy by strategy."""

HISTORY = (
    *("created", "endpoints", "server", "sessions", "limit", "tomserve", "python", "platform", "noise", "variants"),
    *("adaptations", "parts"),
)
"""Fields that say who answered, and when. They are taken over when a run is resumed in which something was asked."""

ANSWERS: Literal["answers"] = "answers"
"""The kind of a run that holds what a model answered; see MEASURED for the other one."""


class Session(ManifestPart):
    """One call of the command that had something to ask. What the server reports of itself (engine_version, root,
    hardware, ...) stands beside these fields. model, revision: the model's id, and its exact version where that is
    known. prompt_tokens: how many prompt tokens there were, and how many of them the prefix cache saved and could have
    saved. changes: each change of the server, or of the model that answers, with its time. measured_on: of a measured
    run, what it was measured with: hardware and versions of libraries, by name."""

    time: str | None = None  # when the session began, in UTC
    endpoints: list[str] = pydantic.Field(default_factory=list)  # the addresses that were asked
    model: str | None = None
    revision: str | None = None
    asked: bool = True  # whether the run's own questions were asked, rather than the noise check alone
    tomserve: str | None = None  # the version of tomserve
    limit: int | None = None  # to how many items the user limited the run; None for all
    where: list[str] | None = None  # the conditions that the user set for its items; None for the benchmark's own
    concurrency: int | None = None  # how many requests were in flight, as the user said or as was found out
    prompt_tokens: dict[str, Any] | None = None
    answers: int | None = None  # how many replies held something that the model said
    served_models: list[str] | None = None  # the models that these replies named
    doubts: Doubts | None = None  # what makes its replies doubtful
    changes: list[dict[str, Any]] | None = None
    measured_on: dict[str, Any] | None = None

    @classmethod
    def begin(
        cls, target: Target, server: Mapping[str, Any], *, asked: bool, limit: int | None, where: Collection[str] = ()
    ) -> Session:
        """A session that begins now. server: what the server reports of itself. asked: whether the run's own questions
        are asked. where: the user's conditions, empty for the benchmark's own."""
        reported = {name: value for name, value in server.items() if value is not None or name != "revision"}
        named = {"model": target.model, "revision": target.revision, **reported}
        own = {"asked": asked, "tomserve": __version__, "limit": limit}
        own |= {"where": list(where)} if where else {}
        return cls.model_validate({"time": utc_now(), "endpoints": list(target.endpoints), **named, **own})

    def to_dict(self) -> dict[str, Any]:
        """The fields that were set, and those that this version does not know."""
        return self.model_dump(exclude_unset=True)

    def note_load(self, concurrency: int | None, prompt_tokens: dict[str, Any]) -> None:
        """Note how many requests were in flight (None: as before), and the prompt tokens with those saved."""
        if concurrency is not None:
            self.concurrency = concurrency
        self.prompt_tokens = prompt_tokens

    def note_answers(self, answers: int, served_models: Sequence[str]) -> None:
        """Add the answers of one phase, and note which models the replies of the session named so far."""
        self.answers = (self.answers or 0) + answers
        self.served_models = list(served_models)

    def note_change(self, change: Mapping[str, Any], *, accepted: bool) -> None:
        """Note that the server, or the model that answers, changed, and whether the user accepts that."""
        self.changes = [*(self.changes or []), {"time": utc_now(), **change, "accepted": accepted}]


class Manifest(ManifestPart):
    """The whole manifest; its fields are written in the order in which they stand here. A run holds a model's answers
    or, where `kind` is "measured", a table that was measured inside of it (see tomserve.runs.measurement). Only such a
    run has a `command` (that made it) and a `table` (which file holds it); it, and a run whose questions followed from
    its answers, have a `study` (that reads it) and `settings` (what was measured how, or what the questions follow
    from). `parts` are the runs it was merged from. `foreign` says which tool's files it was made from, where another
    tool asked. `adaptations` names how requests were changed for a server that refused part of them (see
    tomserve.engine.adaptations)."""

    schema_: Literal[1] = pydantic.Field(alias="schema")
    run: str | None = None
    kind: Literal["answers", "measured"] = ANSWERS
    study: str | None = None
    command: str | None = None
    benchmark: str
    benchmark_path: str | None = None
    benchmark_gold: str | None = None
    benchmark_digest: str | None = None
    benchmark_items: int | None = None
    benchmark_file: dict[str, Any] | None = None
    model: str
    revision: str | None = None
    preset: str | None = None
    sampling: dict[str, Any] = pydantic.Field(default_factory=dict)
    adaptations: list[str] | None = None
    strategies: dict[str, AskedStrategy]
    content: dict[str, str] = pydantic.Field(default_factory=dict)
    endpoints: list[str] = pydantic.Field(default_factory=list)
    server: dict[str, Any] = pydantic.Field(default_factory=dict)
    sessions: list[Session] = pydantic.Field(default_factory=list)
    tomserve: str | None = None
    python: str | None = None
    platform: str | None = None
    created: str | None = None
    limit: int | None = None
    noise: NoiseRecord | None = None
    variants: VariantsRecord | None = None
    settings: dict[str, Any] = pydantic.Field(default_factory=dict)
    table: TableRecord | None = None
    parts: list[MergedPart] | None = None
    foreign: ForeignRecord | None = None
    stopped: str | None = None  # why the last call of the command ended early, where the server was the reason
    complete: bool = False

    _named = pydantic.field_validator("strategies")(check_strategy_names)

    @pydantic.field_validator("sampling")
    @classmethod
    def _check_sampling(cls, sampling: dict[str, Any]) -> dict[str, Any]:
        check_part(sampling, SamplingRecord)
        if taken := sorted(sampling.keys() & (RESERVED.keys() - SamplingRecord.model_fields - {THINKING_BUDGET})):
            raise ValueError(f"{taken[0]}: tomserve sets this field of a request itself, and no run records it")
        return sampling

    @pydantic.field_validator("settings")
    @classmethod
    def _check_search(cls, settings: dict[str, Any]) -> dict[str, Any]:
        if (search := settings.get("search")) is not None and not (
            isinstance(search, dict) and all(type(search.get(name)) is int for name in ("budget", "seed"))
        ):
            raise ValueError("search: expected the budget and the seed of a search, two whole numbers")
        return settings

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """Read the manifest of a run folder; None where there is none. Raises ConfigError that names the file, the
        field and what was found, where the manifest is broken."""
        path = folder / "manifest.json"
        try:
            data = files.read_json(path, WAY_OUT)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
        if not isinstance(data, dict) or data.get("schema") != 1:
            raise ConfigError(f"{path}: schema is not 1; it was written by another version of tomserve")
        try:
            return cls.model_validate(data)
        except pydantic.ValidationError as error:
            raise validation_error(error, data, cls, path, WAY_OUT) from None

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """The manifest of a run. Raises ConfigError where there is no run, and as `read` does."""
        if (manifest := cls.read(folder)) is None:
            raise ConfigError(f"{folder}: no run there (manifest.json is missing)")
        return manifest

    @classmethod
    def new(cls, folder: Path, strategies: Sequence[Strategy], **asked: Any) -> Manifest:
        """The manifest of a run that begins now. asked: the fields from `benchmark` to `sampling`."""
        given = {
            "schema": 1,
            "run": run_name(folder),
            **asked,
            "strategies": {strategy.name: AskedStrategy.of(strategy) for strategy in strategies},
            "content": make_portable({strategy.name: str(strategy.folder) for strategy in strategies}),
            "endpoints": [],
            "server": {},
            "sessions": [],
            "tomserve": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "created": utc_now(),
            "limit": None,
        }
        return cls.model_validate(given)

    def to_dict(self) -> dict[str, Any]:
        """The manifest as it is written: the fields that were set, in their order, then the unknown ones."""
        return self.model_dump(by_alias=True, exclude_unset=True)

    def take_over(self, old: Manifest, folder: Path, asked: Collection[str]) -> None:
        """Take over the history of a run that is resumed. asked: the strategies that have rows in the journal; where
        there are none, the run may still become a different one. Raises RunMismatchError at the first difference that
        it may not have."""
        refuse_closed(folder, old.measured, old.foreign)
        if asked:
            self._check_same(old, folder, asked)
        self.strategies = {name: one for name, one in old.strategies.items() if name in asked} | self.strategies
        self.content = {name: place for name, place in old.content.items() if name in asked} | self.content
        if asked:
            for name in HISTORY:
                if name in old.model_fields_set:
                    setattr(self, name, getattr(old, name))
            self.take_further_fields(old)

    def take_further_fields(self, other: Manifest) -> None:
        """Take over those fields of another manifest that this version does not know, unless this one has them."""
        if self.model_extra is not None:  # attributes are not set, as a stranger's field may be called like a method
            self.model_extra.update({**(other.model_extra or {}), **self.model_extra})

    def _check_same(self, old: Manifest, folder: Path, asked: Collection[str]) -> None:
        """Raise RunMismatchError at the first difference to the old manifest that a run may not have."""
        way_out = "use --run NEW for a new run (make: RUN=NEW)"
        before, wanted = ({name: getattr(one, name) for name in FIXED} for one in (old, self))
        refuse_difference(folder, before, wanted, way_out)
        for name, strategy in self.strategies.items():
            former = old.strategies.get(name)
            if name not in asked or former is None:
                continue
            for field in AskedStrategy.model_fields:
                if (was := getattr(former, field)) != (is_now := getattr(strategy, field)):
                    difference = f"{field} was {short_text(was)} when it was asked, now it is {short_text(is_now)}"
                    raise RunMismatchError(f"{folder}: strategy {name!r}, {difference}; {way_out}")

    def add_session(self, session: Session, server: Mapping[str, Any]) -> None:
        """Add a session. server: what its server reports of itself. That server is noted as the run's own only where
        the session asks the run's questions, as one that answers the noise check alone did not answer the run."""
        if session.asked or not self.server:
            self.server, self.endpoints = dict(server), session.endpoints
        if session.asked:
            self.limit = session.limit
        self.sessions = [*self.sessions, session]

    def note_variants(self, record: VariantsRecord | None) -> None:
        """Note the variants of this session; kinds that only an earlier session wanted keep what was noted of them."""
        if record is None:
            return
        before = self.variants or VariantsRecord()
        self.variants = VariantsRecord(
            kinds=list(dict.fromkeys([*before.kinds, *record.kinds])),
            made={**before.made, **record.made},
            dropped={**before.dropped, **record.dropped},
        )

    @property
    def measured(self) -> bool:
        """Whether the run holds a measured table, rather than answers."""
        return self.kind == MEASURED

    @property
    def repeats(self) -> int:
        """How many samples of each question there are."""
        repeats = self.sampling.get("repeats", 1)
        return repeats if type(repeats) is int and repeats > 0 else 1

    def turns(self, strategy: str) -> int:
        """How many requests make up a conversation of that strategy of the run; 0 where its program decides."""
        return self.strategies[strategy].turns


def make_portable(value: Any) -> Any:
    """A value in which paths of this machine are replaced (by ".", "~", "python"), in lists and dictionaries as well,
    so that it can be shared; nothing reads such a path back."""
    if isinstance(value, dict):
        return {name: make_portable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [make_portable(inner) for inner in value]
    if not isinstance(value, str):
        return value
    if value == sys.executable or value.startswith(f"{sys.prefix}/bin/python"):
        return "python"
    for folder, short in ((PACKAGE.parent, "."), (Path.home(), "~")):
        if value.startswith(f"{folder}/"):
            return short + value[len(str(folder)) :]
    return value


def short_text(value: Any) -> str:
    """A value of the manifest as text of at most 80 characters, for messages."""
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= 80 else text[:77] + "..."
