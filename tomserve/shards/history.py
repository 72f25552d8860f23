"""The manifest of a run that is merged from others: what they all asked, and who answered when in each of them."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tomserve._version import __version__
from tomserve.engine.records import utc_now
from tomserve.errors import RunMismatchError
from tomserve.runs.manifest import (
    FIXED,
    AskedStrategy,
    Manifest,
    MergedPart,
    NoiseRecord,
    Session,
    VariantsRecord,
    short_text,
)
from tomserve.runs.noise_check import find_other_engines
from tomserve.shards.record import Shards

PART = "part"
"""The field of a session that says in which run it was; sessions of the merged run itself do not have it."""


class Told(NamedTuple):
    """The manifest of a run that is merged. name: of the run. folder: for messages. own: whether it is the merged run
    itself, which may have been resumed after it was merged."""

    name: str
    folder: Path
    manifest: Manifest
    own: bool = False


def check_same(told: Sequence[Told], shards: Shards | None) -> None:
    """Raise RunMismatchError at the first difference between runs that may not differ, because they then ask something
    else. shards: the record of what they are parts of; None where they are no parts."""
    known: dict[str, tuple[AskedStrategy, str]] = {}
    if shards is not None:
        known = {name: (one, "the record of the parts") for name, one in shards.strategies.items()}
    for one in told:
        if one.manifest.measured:
            raise RunMismatchError(f"{one.folder}: holds a measurement and no answers, so it cannot be merged")
        first = told[0]
        for name in FIXED:
            there, here = getattr(first.manifest, name), getattr(one.manifest, name)
            if there != here:
                raise _differs(one, f"{name} is {short_text(here)}, in {first.folder} it is {short_text(there)}")
        if shards is not None and one.manifest.benchmark_digest != shards.benchmark_digest:
            raise _differs(one, "its benchmark is another one than in the record of the parts")
        for name, strategy in one.manifest.strategies.items():
            former, where = known.setdefault(name, (strategy, str(one.folder)))
            for field in AskedStrategy.model_fields:
                if (was := getattr(former, field)) != (here := getattr(strategy, field)):
                    said = f"strategy {name!r}: {field} is {short_text(here)}, in {where} it is {short_text(was)}"
                    raise _differs(one, said)


def _differs(one: Told, said: str) -> RunMismatchError:
    return RunMismatchError(
        f"{one.folder}: {said}; only runs that ask the same can be merged, so leave one of them out"
    )


def united(run: str, told: Sequence[Told], shards: Shards | None, parts: Sequence[MergedPart]) -> Manifest:
    """The manifest of the merged run, which is not complete yet.

    run: its name. told: the manifests of all that is merged, the merged run's own last. shards: as in `check_same`; it
    says what the run asks where no part was begun. parts: the runs that are merged now.
    """
    given = _asked(told, shards)
    manifests = [one.manifest for one in told]
    sessions = _sessions(told)
    asked = [one for one in sessions if one.asked] or sessions
    oldest = min((one for one in manifests if one.created), key=lambda one: str(one.created), default=None)
    before = next((one.manifest.parts or [] for one in told if one.own), [])
    merged = {one.run: one for one in (*before, *parts)}
    fields = {
        "schema": 1,
        "run": run,
        **given,
        "endpoints": sorted({address for one in manifests for address in one.endpoints}),
        "server": next((dict(one.server) for one in manifests if _answered(one, asked)), {}),
        "sessions": [one.to_dict() for one in sessions],
        "tomserve": oldest.tomserve if oldest else __version__,
        "python": oldest.python if oldest else platform.python_version(),
        "platform": oldest.platform if oldest else platform.platform(),
        "created": oldest.created if oldest else utc_now(),
        "limit": _limit(manifests, shards),
        "parts": [merged[name].model_dump() for name in sorted(merged)],
    }
    made = Manifest.model_validate(fields)
    for one in manifests:
        for name, value in (one.model_extra or {}).items():
            if name not in (made.model_extra or {}):
                setattr(made, name, value)
    return made


def _asked(told: Sequence[Told], shards: Shards | None) -> dict[str, Any]:
    """The fields that say what was asked of which model, and by which strategies."""
    names = ("benchmark", "benchmark_path", "benchmark_gold", "benchmark_digest", "benchmark_items")
    model = ("model", "revision", "preset", "sampling")
    found: dict[str, Any] = {}
    strategies: dict[str, Any] = {}
    if shards is not None:
        found = {name: getattr(shards, name) for name in (*names, *model)} | shards.provenance
        strategies = {name: _written(one) for name, one in shards.strategies.items()}
    for one in told:
        there = one.manifest.to_dict()
        for name in (*names, "benchmark_file", *model):
            if name in there:
                found.setdefault(name, there[name])
        for name, strategy in there["strategies"].items():
            strategies.setdefault(name, strategy)
    content = {name: place for one in told for name, place in one.manifest.content.items()}
    if found.get("benchmark_gold") is None:
        found.pop("benchmark_gold", None)
    return {**found, "strategies": strategies, "content": content}


def _written(one: AskedStrategy) -> dict[str, Any]:
    """What a manifest holds of a strategy: what is as it mostly is, is left out."""
    always = {"digest": one.digest, "max_tokens": one.max_tokens, "chain": one.chain}
    return always | one.model_dump(exclude_defaults=True)


def _limit(manifests: Sequence[Manifest], shards: Shards | None) -> int | None:
    """To how many items the user limited the whole run; None for all, and where the runs had different limits."""
    if shards is not None:
        limit = shards.experiment.get("limit")
        return limit if type(limit) is int else None
    limits = {one.limit for one in manifests}
    return limits.pop() if len(limits) == 1 else None


def _sessions(told: Sequence[Told]) -> list[Session]:
    """The sessions of all runs in the order of their times, each once, with the run that each was in."""
    found: dict[tuple[str | None, str | None, int], Session] = {}
    for one in reversed(told):  # of a session that the merged run knows already, the run itself knows more by now
        count: Counter[tuple[str | None, str | None]] = Counter()
        for session in one.manifest.sessions:
            held = session.to_dict()
            part = held.get(PART) if isinstance(held.get(PART), str) else None if one.own else one.name
            place = (part, session.time)
            found[*place, count[place]] = Session.model_validate({**held, **({PART: part} if part else {})})
            count[place] += 1
    order = sorted(found, key=lambda key: (key[1] or "", key[0] or "", key[2]))
    return [found[key] for key in order]


def _answered(manifest: Manifest, asked: Sequence[Session]) -> bool:
    """Whether the run of that manifest had the last session of all."""
    return bool(asked) and any(one.time == asked[-1].time for one in manifest.sessions)


def note_checks(manifest: Manifest, told: Sequence[Told], *, apart: bool, again: int) -> None:
    """Note the noise check and the variants of all runs in the manifest of the merged one.

    apart: whether no two of the runs, the merged one left aside, have an item in common. again: how many items have
    replies of a noise check.
    """
    checks = [one.manifest.noise for one in told if one.manifest.noise]
    if checks:
        best = max(checks, key=lambda one: one.items)
        of = [one.manifest.noise.of or 0 for one in told if one.manifest.noise and not one.own]
        summed = sum(of) if apart and again > best.items else 0  # parts of one evaluation state what the whole draws
        manifest.noise = NoiseRecord(
            share=best.share,
            seed=best.seed,
            items=max(again, best.items),
            of=max([summed, *(one.of or 0 for one in checks)]) or None,
            concurrencies=sorted({level for one in checks for level in one.concurrencies}),
            other_engines=sorted(
                {name for one in checks for name in one.other_engines}
                | set(find_other_engines(manifest) if manifest.sessions else ())
            ),
        )
    made = [one.manifest.variants for one in told if one.manifest.variants and not one.own]
    own = [one.manifest.variants for one in told if one.manifest.variants and one.own]
    if made or own:
        alike = all(one == made[0] for one in made)  # as of the parts of one evaluation
        manifest.variants = _variants(made, own, apart=apart and not alike)


def _variants(made: Sequence[VariantsRecord], own: Sequence[VariantsRecord], *, apart: bool) -> VariantsRecord:
    """What is noted of the variants of all runs: their sums where the runs have no item in common."""

    def together(counts: Iterable[dict[str, int]], before: Iterable[dict[str, int]]) -> dict[str, int]:
        total: Counter[str] = Counter()
        for one in counts:
            for name, count in one.items():
                total[name] = total[name] + count if apart else max(total[name], count)
        for one in before:
            for name, count in one.items():
                total[name] = max(total[name], count)
        return dict(sorted(total.items()))

    kinds = list(dict.fromkeys(kind for one in (*made, *own) for kind in one.kinds))
    dropped = {
        kind: together((one.dropped.get(kind, {}) for one in made), (one.dropped.get(kind, {}) for one in own))
        for kind in kinds
    }
    return VariantsRecord(
        kinds=kinds,
        made=together((one.made for one in made), (one.made for one in own)),
        dropped={kind: counts for kind, counts in dropped.items() if any(kind in one.dropped for one in (*made, *own))},
    )
