"""The noise check of a run (`eval --noise-check SHARE`): what was asked is asked again, with more or fewer beside it.

Greedy decoding is not batch-invariant: the shape of a batch decides in which order a GPU sums, and near ties between
tokens fall one way or the other. How often that turns an answer is measured, not assumed: a seeded share of the items
is re-asked, the same bytes, at two fixed numbers of requests in flight that are not the run's own. The replies go to
``noise.jsonl`` beside the journal, a row as there with `concurrency`; they are never scored as answers.

>>> levels([]), levels([64]), levels([1])
((1, 64), (1, 16), (16, 64))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tomserve.engine.request import Identity, Request
from tomserve.errors import ConfigError
from tomserve.items.draw import LIMIT_SEED
from tomserve.runs.journal import Journal
from tomserve.runs.listening import Listener
from tomserve.runs.manifest import Manifest, NoiseRecord, Session
from tomserve.runs.phases import Phase, Questions
from tomserve.scoring.sources import NOISE

LEVELS = (1, 64, 16)
"""Requests in flight to re-ask at, the most telling first: alone, in a large batch, in a small one."""


def check_share(share: float | None) -> None:
    """Raise ConfigError unless 0 < share <= 1 (None: no check was wanted)."""
    if share is not None and not 0 < share <= 1:
        raise ConfigError(f"--noise-check {share:g}: expected a share of the items above 0, at most 1, e.g. 0.02")


def levels(own: Sequence[int]) -> tuple[int, ...]:
    """Two of LEVELS, at least twice or at most half of what the run was asked at (`own`, found or fixed)."""
    apart = [level for level in LEVELS if not any(level / 2 < used < level * 2 for used in own)]
    return tuple(sorted(list(dict.fromkeys([*apart, *LEVELS]))[:2]))


def concurrencies(manifest: Manifest) -> list[int]:
    """At how many in flight a run is asked again: as in its first check, else apart from what it was asked at."""
    own = [session.concurrency for session in manifest.sessions if session.concurrency]
    return (manifest.noise and manifest.noise.concurrencies) or list(levels(own))


def record(manifest: Manifest, share: float, items: int, of: int) -> NoiseRecord:
    """What the manifest is to say of a check of `items` of `of` items. The numbers in flight stay those of a run's
    first check, and a check of fewer items takes nothing back."""
    before = manifest.noise or NoiseRecord()
    drawn = {"share": share, "seed": LIMIT_SEED, "items": items, "of": of}
    return NoiseRecord(
        **(drawn if items >= before.items else {name: getattr(before, name) for name in drawn}),
        concurrencies=concurrencies(manifest),
        other_engines=sorted({*before.other_engines, *other_engines(manifest)}),
    )


def other_engines(manifest: Manifest) -> list[str]:
    """The engines that the run's own answers came from and that are not the last session's: then what changes when it
    is asked again may be the engine's doing. Only what is known of both is compared."""
    *_, last = manifest.sessions
    return sorted({_engine(session) for session in manifest.sessions if session.asked and _differ(session, last)})


_TELLING = ("engine_version", "hardware", "dtype", "quantization", "tensor_parallel")


def _told(session: Session) -> list[Any]:
    """What a session's server computed with; None for what is not known."""
    return [(session.model_extra or {}).get(name) for name in _TELLING]


def _differ(one: Session, other: Session) -> bool:
    pairs = zip(_told(one), _told(other), strict=True)
    return any(a is not None and b is not None and a != b for a, b in pairs)


def _engine(session: Session) -> str:
    """The engine in words: version, hardware, data type, parallelism, as far as they are known."""
    known = (part for part in _told(session) if part is not None)
    return " ".join("+".join(part) if isinstance(part, list) else str(part) for part in known)


@dataclass(frozen=True)
class NoiseCheck:
    """The noise check of an evaluation: `questions`, whose items are `share` of the `of` items that the evaluation
    asks. requests: makes the requests of these questions. journal: the run's own, with what was answered."""

    questions: Questions
    share: float
    of: int
    folder: Path
    journal: Journal
    requests: Callable[[], Iterable[Request]]
    listener: Listener

    def left(self, manifest: Manifest) -> int:
        """How many answers are still to come at all its numbers in flight, as far as the run itself is answered."""
        found = 0
        for level in concurrencies(manifest):
            with self._opened(level) as noise:
                found += self._phase(noise, level).left()
        return found

    def phases(self, manifest: Manifest) -> Iterator[Phase]:
        """One phase for each number in flight, noted in the manifest first. Each closes its file when the next begins.

        To be called when the run itself was asked: only then is it known how many were in flight there."""
        manifest.noise = record(manifest, self.share, len(self.questions.items), self.of)
        if others := manifest.noise.other_engines:
            self.listener.message(
                f"warning: engine {', '.join(others)} answered; what changes now may be another's doing"
            )
        for level in manifest.noise.concurrencies:
            with self._opened(level) as noise:
                yield self._phase(noise, level)

    def _phase(self, noise: Journal, level: int) -> Phase:
        """The same bytes again, with so many in flight. Not hedged: a second copy would be one more."""
        what = f"to ask again, {level} in flight"
        return Phase(
            noise,
            self._answered,
            self._sent,
            lambda left, total: f"noise check: {left} of {total} answers {what}",
            level,
            what=what,
        )

    def _answered(self) -> Iterator[Identity]:
        """The identities that the run has an answer to, with which another can be compared."""
        return (one for one in self.questions.identities() if answered(self.journal, one))

    def _sent(self) -> Iterator[Request]:
        """The requests that were sent before, byte for byte, and answered."""
        for request in self.requests():
            if answered(self.journal, request.identity) and self.journal.find(request.key) is not None:
                yield request

    def _opened(self, level: int) -> Journal:
        """The rows of ``noise.jsonl`` that were asked with so many in flight, as a journal of their own."""
        noise = Journal(self.folder / NOISE, {"concurrency": level})
        if noise.torn:
            torn = f"the last line was torn by a crash; moved to {noise.torn.name}"
            self.listener.message(f"{noise.path.name}: {torn}")
        return noise


def answered(journal: Journal, identity: Identity) -> bool:
    """Whether the run has an answer there (ok or length)."""
    return identity in journal.final and identity not in journal.failed
