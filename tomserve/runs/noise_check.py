"""The noise check of a run (`eval --noise-check SHARE`): it measures how often an answer changes by chance.

Greedy decoding is not batch-invariant: the requests that a GPU computes together decide which of two nearly equally
likely tokens is chosen. A share of the items, drawn with a fixed seed, is asked again with the same bytes, at two
numbers of requests in flight that differ from the run's own. The replies go to ``noise.jsonl``, as rows with a field
`concurrency`, and are never scored as answers of the run.

>>> choose_levels([]), choose_levels([64]), choose_levels([1])
((1, 64), (1, 16), (16, 64))
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tomserve.engine.request import Request
from tomserve.items.draw import LIMIT_SEED
from tomserve.runs.conversations import Build, Conversations, Phase, Questions, answered_questions, is_finished
from tomserve.runs.journal import Journal
from tomserve.runs.manifest import Manifest, NoiseRecord, Session
from tomserve.runs.progress import Listener
from tomserve.scoring.responses import NOISE

LEVELS = (1, 64, 16)
"""The numbers of requests in flight at which items can be asked again, the most informative first: a request alone, in
a large batch, and in a small batch."""

TIMES = 2
"""At so many of LEVELS a noise check asks each of its items again."""


def choose_levels(own: Sequence[int]) -> tuple[int, ...]:
    """TIMES of LEVELS, if possible at least twice or at most half of each number in `own`. own: the numbers of requests
    in flight at which the sessions of the run asked."""
    apart = [level for level in LEVELS if not any(level / 2 < used < level * 2 for used in own)]
    return tuple(sorted(list(dict.fromkeys([*apart, *LEVELS]))[:TIMES]))


def choose_concurrencies(manifest: Manifest) -> list[int]:
    """The numbers of requests in flight for the noise check of a run: those of its first check, if there was one."""
    own = [session.concurrency for session in manifest.sessions if session.concurrency]
    return (manifest.noise and manifest.noise.concurrencies) or list(choose_levels(own))


class NoiseSample(NamedTuple):
    """What a noise check draws: a share of the evaluation's items, how many items these are, and of how many."""

    share: float = 0.0
    items: int = 0
    of: int = 0


def make_noise_record(manifest: Manifest, new: NoiseSample) -> NoiseRecord:
    """The record of a noise check for the manifest. The numbers of requests in flight stay those of the first check;
    after a check of more items, one of fewer leaves share, seed and counts as they are."""
    before = manifest.noise or NoiseRecord()
    drawn = {"share": new.share, "seed": LIMIT_SEED, "items": new.items, "of": new.of}
    return NoiseRecord(
        **(drawn if new.items >= before.items else {name: getattr(before, name) for name in drawn}),
        concurrencies=choose_concurrencies(manifest),
        other_engines=sorted({*before.other_engines, *find_other_engines(manifest)}),
    )


def find_other_engines(manifest: Manifest) -> list[str]:
    """The engines that answers of the run came from and that differ from that of the last session in a property known
    of both: an answer may then change because of the engine."""
    *_, last = manifest.sessions
    return sorted({_engine(session) for session in manifest.sessions if session.asked and _differ(session, last)})


_ENGINE = ("engine_version", "hardware", "dtype", "quantization", "tensor_parallel")
"""Fields of a session that say what its server computed with."""


def _properties(session: Session) -> list[Any]:
    """What a session's server computed with, one value for each of _ENGINE; None for what is not known."""
    return [(session.model_extra or {}).get(name) for name in _ENGINE]


def _differ(one: Session, other: Session) -> bool:
    """Whether the engines of two sessions differ in a property that is known of both."""
    pairs = zip(_properties(one), _properties(other), strict=True)
    return any(a is not None and b is not None and a != b for a, b in pairs)


def _engine(session: Session) -> str:
    """The engine in words: version, hardware, data type, parallelism, as far as they are known."""
    parts = (part for part in _properties(session) if part is not None)
    return " ".join("+".join(part) if isinstance(part, list) else str(part) for part in parts)


@dataclass(frozen=True)
class NoiseCheck:
    """The noise check of an evaluation."""

    questions: Questions  # what is asked again
    sample: NoiseSample  # what was drawn of the evaluation's items, or, in a part of one, of those of the whole
    folder: Path  # the run's folder
    journal: Journal  # the run's own journal, with the answers that the new ones are compared with
    build: Build  # makes the request of a turn
    listener: Listener  # told what happens

    def left(self, manifest: Manifest) -> int:
        """How many requests the noise check has still to send, over all its numbers of requests in flight."""
        left = 0
        for level in choose_concurrencies(manifest):
            with self._open_journal(level) as noise:
                left += self._phase(noise, level).count().left
        return left

    def phases(self, manifest: Manifest) -> Iterator[Phase]:
        """One phase for each number of requests in flight, after the check was recorded. To be called after the run
        itself was asked, as only then it is known how many were in flight there."""
        manifest.noise = make_noise_record(manifest, self.sample)
        if others := manifest.noise.other_engines:
            self.listener.message(
                f"warning: earlier answers of this run came from engine {', '.join(others)}; an answer that changes in "
                "the noise check may do so because of that engine rather than by chance"
            )
        for level in manifest.noise.concurrencies:
            with self._open_journal(level) as noise:
                yield self._phase(noise, level)

    def _phase(self, noise: Journal, level: int) -> Phase:
        """The phase with `level` requests in flight. It is not hedged, because a second copy would be one more."""
        what = f"to ask again, {level} in flight"
        return Phase(
            noise,
            lambda: answered_questions(self.journal, self.questions),
            lambda conversations: self._requests(conversations, noise),
            self.build,
            lambda left, total: f"noise check: {left} of {total} answers {what}",
            level,
            what=what,
        )

    def _requests(self, conversations: Conversations, noise: Journal) -> Iterator[Request]:
        """The first requests of the answered questions that the run sent with the same bytes."""
        wanted = {
            one.turn(0) for one in answered_questions(self.journal, self.questions) if not is_finished(noise, one)
        }
        for request in self.questions.requests(conversations, lambda one: one.turn(0) in wanted):
            if self.journal.find(request.key) is not None:
                yield request

    def _open_journal(self, level: int) -> Journal:
        """The rows of ``noise.jsonl`` that were asked with `level` requests in flight, as a journal of their own."""
        noise = Journal(self.folder / NOISE, {"concurrency": level})
        if noise.torn:
            torn = f"the last line was torn by a crash; moved to {noise.torn.name}"
            self.listener.message(f"warning: {noise.path.name}: {torn}")
        return noise
