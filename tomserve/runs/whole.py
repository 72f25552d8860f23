"""What a run knows of the evaluation of which it is a part (see tomserve.shards).

A part asks some of an evaluation's questions. Its manifest describes the whole evaluation, so that the parts' manifests
agree and their rows can be joined into the run that would have been made without parts. Therefore the benchmark, the
limit, the variants and what the noise check draws are those of the whole, and only the items are the part's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tomserve.errors import RunMismatchError
from tomserve.runs.manifest import Manifest, short
from tomserve.runs.manifest_parts import AskedStrategy, VariantsRecord
from tomserve.runs.noise_check import Drawn
from tomserve.runs.stock import Stock
from tomserve.serving.endpoint import Target

if TYPE_CHECKING:
    from tomserve.runs.planning import Plan

WAY_OUT = "ask with what the evaluation was divided with, or divide it again under another name"
"""What a user can do where a part would be asked in another way than the others."""


@dataclass(frozen=True)
class Whole:
    """The evaluation of which a run is a part.

    noted: the fields of its manifest from `benchmark` to `sampling`. strategies: what is known of those that ask.
    digest: of the items of this part alone. drawn: what the noise check of the whole draws. again: the ids of the items
    of this part that it draws. variants: the record of all variants, None where none were wanted.
    """

    noted: Mapping[str, Any]
    strategies: Mapping[str, AskedStrategy]
    digest: str
    drawn: Drawn
    again: frozenset[str] = field(default_factory=frozenset)
    variants: VariantsRecord | None = None

    def agreed(self, target: Target) -> Target:
        """The server, with the revision of the whole's model: a server that does not say which one it serves is taken
        at the user's word. Raises RunMismatchError where it serves another model, or another revision of it."""
        revision = self.noted.get("revision")
        if target.model != self.noted["model"]:
            raise _differs("model", self.noted["model"], target.model)
        if None not in (revision, target.revision) and revision != target.revision:
            raise _differs("revision", revision, target.revision)
        return replace(target, revision=revision)

    def check(self, made: Plan) -> None:
        """Raise RunMismatchError at the first thing in which a plan would not ask this part of the whole: its items,
        its sampling, and what shapes the requests of its strategies."""
        if made.every.digest() != self.digest:
            raise RunMismatchError(
                "items.jsonl of this part holds other questions than it was given (their digest differs); restore the "
                "file, or divide the evaluation again under another name"
            )
        if (sampling := made.sampling.record()) != self.noted["sampling"]:
            raise _differs("sampling", self.noted["sampling"], sampling)
        loaded = {one.name: AskedStrategy.of(one) for one in made.questions.strategies}
        if sorted(loaded) != sorted(self.strategies):
            raise _differs("strategies", sorted(self.strategies), sorted(loaded))
        for name, strategy in loaded.items():
            for part in AskedStrategy.model_fields:
                if (was := getattr(self.strategies[name], part)) != (now := getattr(strategy, part)):
                    raise _differs(f"{part} of strategy {name!r}", was, now)

    def repeated(self, originals: Stock) -> Stock:
        """Those of the part's items that its noise check asks again."""
        return originals.part([place for place, name in enumerate(originals.ids) if name in self.again])


def _differs(what: str, planned: Any, found: Any) -> RunMismatchError:
    difference = f"{what} was {short(planned)} when the evaluation was divided, here it is {short(found)}"
    return RunMismatchError(f"{difference}; {WAY_OUT}")


def noted_of(made: Plan) -> dict[str, Any]:
    """The fields of the manifest, from `benchmark` to `sampling`, of what a plan asks."""
    options = made.options
    return {
        "benchmark": made.called,
        "benchmark_path": str(options.path) if options.path else None,
        **({"benchmark_gold": options.gold} if options.gold else {}),
        "benchmark_digest": made.every.digest(),
        "benchmark_items": len(made.wanted),
        **made.benchmark.provenance,
        "model": made.target.model,
        "revision": made.target.revision,
        "preset": made.target.preset.name if made.target.preset else None,
        "sampling": made.sampling.record(),
    }


def manifest_of(made: Plan, folder: Path) -> Manifest:
    """The manifest of a run in that folder that begins now, and asks what was planned."""
    whole = made.options.whole
    noted = noted_of(made) if whole is None else whole.noted
    return Manifest.new(folder, made.questions.strategies, **noted)
