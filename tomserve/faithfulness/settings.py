"""What a measurement of faithfulness measures, and how its model is reached."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tomserve.engine import transports
from tomserve.engine.retry import RetryPolicy
from tomserve.errors import ConfigError, one_of
from tomserve.faithfulness.table import CALL, EDITS, PLACES, PREFILL

LIMIT = 300
"""So many chains of each strategy are edited unless the user wants another number."""

UNLEARN_LIMIT = 40
"""The same where steps are unlearned, which takes minutes a chain on a CPU."""

AUTO, BOTH = "auto", "both"
WAYS = (AUTO, PREFILL, CALL, BOTH)
"""How chains are shown. auto: a strategy whose answer is a turn of its own is asked by that turn, any other one by a
prefilled reply, or by a second call where the server cannot continue a reply. both: in both ways, to compare them."""

EDIT_PROBE, HINT_PROBE, CONTINUE_PROBE = "edits", "hints", "continued"
PROBES = (EDIT_PROBE, HINT_PROBE)
KNOWN_PROBES = (*PROBES, CONTINUE_PROBE)
"""What the model is asked: its own chains after they were edited; its prompts with hints in them; and, if wanted, to go
on itself with a chain that was changed in the middle."""


def usual_settings(unlearn: str | None) -> dict[str, Any]:
    """What Settings are without a limit or probes of the user's own, where a step is unlearned and where none is."""
    return {"limit": LIMIT, "probes": PROBES} if unlearn is None else {"limit": UNLEARN_LIMIT, "probes": ()}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is measured; everything here decides what the table holds. Raises ConfigError for another value."""

    run: Path  # the folder of the finished run
    strategies: tuple[str, ...] = ()  # those whose chains are edited, empty for all that mark theirs
    where: tuple[str, ...] = ()  # conditions ``factor=value`` on the questions, empty for those of the benchmark
    limit: int = LIMIT  # how many chains of a strategy are edited
    probes: tuple[str, ...] = PROBES
    edits: tuple[str, ...] = EDITS  # `full` and `paraphrase` are what the others are compared with
    hints: tuple[str, ...] = PLACES  # where the hints stand
    shown: str = AUTO  # one of WAYS
    predictor: str | None = None  # address or name of a second model that predicts answers
    predictor_model: str | None = None  # which of several at that address
    rewriter: str | None = None  # the same for one that paraphrases prose
    rewriter_model: str | None = None
    reader: str | None = None  # the same for one that reads chains for hints
    reader_model: str | None = None
    unlearn: str | None = None  # the checkpoint of the run's model (a preset or a folder), of which steps are unlearned

    def __post_init__(self) -> None:
        for name in ("strategies", "where"):
            _texts(name, getattr(self, name))
        for name in (f"{who}{part}" for who in ("predictor", "rewriter", "reader") for part in ("", "_model")):
            _texts(name, () if getattr(self, name) is None else (getattr(self, name),))
        _check("probe", self.probes, KNOWN_PROBES)
        _check("edit", self.edits, EDITS)
        _check("hint", self.hints, PLACES)
        _check("way of showing chains", (self.shown,), WAYS)
        _whole("limit", self.limit)
        if self.limit < 1:
            raise ConfigError(f"limit is {self.limit}; expected 1 or more chains")
        _texts("unlearn", () if self.unlearn is None else (self.unlearn,))
        if not self.probes and self.predictor is None and self.unlearn is None:
            raise ConfigError(f"nothing is to be measured; name some of the probes {', '.join(KNOWN_PROBES)}")
        if self.reader is not None and HINT_PROBE not in self.probes:
            raise ConfigError("--reader reads chains for hints, which are not asked; add --probe hints")

    def record(self) -> dict[str, Any]:
        """What the manifest keeps of it, besides what it keeps of the run and of other models."""
        names = ("strategies", "where", "limit", "probes", "edits", "hints", "shown")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class Connection:
    """How the model is reached; it may differ from session to session."""

    base_urls: tuple[str, ...] = ()  # of servers; empty for one that runs on this machine, else one that is started
    revision: str | None = None  # of the model, as the user states it
    timeout: float = 600.0  # seconds that one request may take
    concurrency: int | None = None  # requests in flight, None to find it out
    transport: str = transports.DEFAULT
    setup: bool = False  # install vLLM first where it is missing
    patience: float | None = None  # seconds to wait for a server that loads
    policy: RetryPolicy = field(default_factory=RetryPolicy)

    def __post_init__(self) -> None:
        _texts("base_urls", self.base_urls)
        if self.concurrency is not None:
            _whole("concurrency", self.concurrency)
            if self.concurrency < 1:
                raise ConfigError(f"concurrency is {self.concurrency}; expected 1 or more requests in flight")
        if isinstance(self.timeout, bool) or not isinstance(self.timeout, int | float) or not self.timeout > 0:
            raise ConfigError(f"timeout is {self.timeout!r:.60}; expected seconds above 0")
        if self.revision is not None and not isinstance(self.revision, str):
            raise ConfigError(f"revision is {self.revision!r:.60}; expected text")


def _check(name: str, given: Sequence[str], known: Sequence[str]) -> None:
    _texts(name, given)
    for one in given:
        if one not in known:
            raise ConfigError(one_of(name, one, known))


def _texts(name: str, given: Sequence[object]) -> None:
    for one in given:
        if not isinstance(one, str):
            raise ConfigError(f"{name} is {one!r:.60}; expected text")


def _whole(name: str, given: object) -> None:
    if isinstance(given, bool) or not isinstance(given, int):
        raise ConfigError(f"{name} is {given!r:.60}; expected a whole number")
