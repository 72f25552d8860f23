"""The noise check of a run (`eval --noise-check SHARE`): what was asked is asked again, with more or fewer beside it.

Greedy decoding is not batch-invariant: the shape of a batch decides in which order a GPU sums, and near ties between
tokens fall one way or the other. How often that turns an answer is measured, not assumed: a seeded share of the items
is re-asked, the same bytes, at two fixed numbers of requests in flight that are not the run's own. The replies go to
``noise.jsonl`` beside the journal, a row as there with `concurrency`; they are never scored as answers.

>>> levels([]), levels([64]), levels([1])
((1, 64), (1, 16), (16, 64))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tomserve.engine.request import Identity, Request
from tomserve.errors import ConfigError
from tomserve.items.draw import LIMIT_SEED
from tomserve.runs.journal import Journal
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


def concurrencies(manifest: Mapping[str, Any]) -> list[int]:
    """At how many in flight a run is asked again: as in its first check, else apart from what it was asked at."""
    own = [session["concurrency"] for session in manifest["sessions"] if session.get("concurrency")]
    return (manifest.get("noise") or {}).get("concurrencies") or list(levels(own))


def entry(manifest: Mapping[str, Any], share: float, items: int, of: int) -> dict[str, Any]:
    """`noise` of the manifest: what is to be re-asked (`items` of as many), at what, and which other engines the run's
    answers came from. The numbers in flight stay those of a run's first check, and fewer items take nothing back."""
    before = manifest.get("noise") or {}
    drawn = {"share": share, "seed": LIMIT_SEED, "items": items, "of": of}
    return {
        **(drawn if items >= before.get("items", 0) else {name: before.get(name) for name in drawn}),
        "concurrencies": concurrencies(manifest),
        "other_engines": sorted({*before.get("other_engines", []), *other_engines(manifest)}),
    }


def other_engines(manifest: Mapping[str, Any]) -> list[str]:
    """The engines that the run's own answers came from and that are not the last session's: then what changes when it
    is asked again may be the engine's doing. Only what is known of both is compared."""
    *_, last = manifest["sessions"]
    used = [session for session in manifest["sessions"] if session.get("asked", True)]
    return sorted({_engine(session) for session in used if _differ(session, last)})


_TELLING = ("engine_version", "hardware", "dtype", "quantization", "tensor_parallel")


def _differ(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    pairs = ((one.get(name), other.get(name)) for name in _TELLING)
    return any(a is not None and b is not None and a != b for a, b in pairs)


def _engine(session: Mapping[str, Any]) -> str:
    """What a session's server computed with, as far as it is known: version, hardware, data type, parallelism."""
    told = (session.get(name) for name in _TELLING)
    return " ".join("+".join(part) if isinstance(part, list) else str(part) for part in told if part is not None)


def opened(folder: Path, level: int) -> Journal:
    """The rows of ``noise.jsonl`` that were asked with so many in flight, as a journal of their own."""
    return Journal(folder / NOISE, {"concurrency": level})


def answered(journal: Journal, identity: Identity) -> bool:
    """Whether the run has an answer there (ok or length) with which another can be compared."""
    return identity in journal.final and identity not in journal.failed


def sent(requests: Iterable[Request], journal: Journal) -> Iterator[Request]:
    """Of these requests those that were sent before, byte for byte, and answered."""
    for request in requests:
        if answered(journal, request.identity) and journal.find(request.key) is not None:
            yield request
