"""The variants of a run's questions (`eval --variants`): made before anything is asked, and asked in the same run.

A variant belongs to an original, so that a limit draws originals and every drawn original brings its variants. A file
of items may hold variants already, such as rewritten ones; these are asked rather than made again.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import orjson

from tomserve import variants as tomserve_variants
from tomserve.content.compact_index import FirstPlaces
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.runs.manifest_parts import VariantsRecord
from tomserve.runs.stock import Stock
from tomserve.variants import Dropped, Kind, Retell

AGAIN_ITEMS = 200
"""Of so many originals T0 asks the same prompt again, where --noise-check names no share."""

REASONS = 20
"""So many reasons for which variants were left out are recorded of each kind; further ones are counted together."""


@dataclass(frozen=True)
class Varied:
    """The items of a run: the originals, and the variants that go with them.

    originals, variants: in the order in which they are asked. kinds: the kinds that were wanted. dropped: for each
    kind, how many variants were left out, by reason.
    """

    originals: Stock
    variants: Stock = field(default_factory=Stock)
    kinds: Sequence[Kind] = ()
    dropped: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def items(self) -> Stock:
        """All of them, the originals first."""
        return self.originals.joined(self.variants) if len(self.variants) else self.originals

    @property
    def made(self) -> dict[str, int]:
        """How many variants there are of each kind that was wanted."""
        counted = Counter(entry.kind for entry in self.variants.entries())
        return {kind.name: counted[kind.name] for kind in self.kinds if kind is not tomserve_variants.AGAIN}

    def again(self, share: float | None) -> float:
        """The share of the originals that is asked again: what --noise-check says, else what T0 needs, else 0."""
        if share or tomserve_variants.AGAIN not in self.kinds or not len(self.originals):
            return share or 0.0
        return min(1.0, AGAIN_ITEMS / len(self.originals))

    def record(self) -> VariantsRecord | None:
        """What the manifest keeps of the variants; None where none were wanted."""
        if not self.kinds:
            return None
        dropped = {}
        for kind, reasons in self.dropped.items():
            most = dict(Counter(reasons).most_common(REASONS))
            rest = sum(reasons.values()) - sum(most.values())
            dropped[kind] = most | ({"other reasons": rest} if rest else {})
        return VariantsRecord(kinds=[kind.name for kind in self.kinds], made=self.made, dropped=dropped)

    def described(self) -> str | None:
        """In one line, how many variants of each kind there are, and how many were left out; None without variants."""
        if not self.kinds:
            return None
        made = ", ".join(f"{kind} {count:,}" for kind, count in self.made.items())
        left = {kind: sum(reasons.values()) for kind, reasons in self.dropped.items() if reasons}
        without = ", ".join(f"{kind} {count:,}" for kind, count in left.items())
        many = f"{len(self.originals):,} question{'s' * (len(self.originals) != 1)}"
        text = f"variants of {many}: {made}" if made else ""
        return (f"{text}; left out: {without}" if without else text) or None


def apart(every: Stock) -> tuple[Stock, Stock]:
    """The items that are no variants, and those that are, checked against their originals.

    Raises ConfigError for a variant whose original is not among the items, or is a variant itself; whose choices or
    right answer do not stand for those of its original; and whose factor `variant` names no kind.
    """
    originals, given = every.apart()
    places = FirstPlaces(originals.ids if len(given) else ())
    for line in given.lines:
        made = orjson.loads(line)
        name, base, kind = made["id"], made["base"], made["factors"].get("variant", "other")
        if (place := places.find(base)) is None:
            raise ConfigError(
                f"item {name!r} is a variant of {base!r} (its field 'base'), and no item that is no variant itself has "
                "this id; keep the originals together with their variants, or leave 'base' out"
            )
        own = orjson.loads(originals.lines[place])
        means = dict(zip(made["choices"], made.get("meanings") or made["choices"], strict=True))
        if set(means.values()) != set(own["choices"]) or means[made["answer"]] != own["answer"]:
            raise ConfigError(
                f"item {name!r} is a variant of {base!r} (its field 'base'), but its choices or its answer do not "
                f"stand for those of {base!r}; say by 'meanings' which choice stands for which, or leave 'base' out"
            )
        if not isinstance(kind, str) or not kind or kind == tomserve_variants.AGAIN.name:
            raise ConfigError(
                f"item {name!r}: factor 'variant' is {kind!r:.60}; expected the name of a kind of variant"
            )
    return originals, given


def varied(
    originals: Stock,
    given: Stock,
    kinds: Sequence[Kind],
    retelling: Callable[[str], Retell],
    taken: Iterable[str] = (),
) -> Varied:
    """The originals with their variants.

    originals: the questions of the run. given: variants that came with the items, some of other questions perhaps.
    kinds: the kinds of variants that are wanted; empty for those that were given. retelling: what tells the items of a
    benchmark otherwise, by the benchmark's name (see tomserve.benchmarks.retelling). taken: the ids of all items, asked
    or not, none of which a variant may get.
    """
    chosen = FirstPlaces(originals.ids if kinds or len(given) else ())
    wanted = {kind.name for kind in kinds}
    fitting = (entry for entry in given.entries() if not wanted or entry.kind in wanted)
    known = given.part(array("Q", (entry.place for entry in fitting if str(entry.base) in chosen)))
    if not kinds:
        return Varied(originals, known)
    have = {(entry.base, entry.kind) for entry in known.entries()}
    dropped: dict[str, Counter[str]] = {kind.name: Counter() for kind in kinds if kind is not tomserve_variants.AGAIN}
    ids = FirstPlaces(chain(taken, originals.ids, given.ids))

    def made() -> Iterator[Item]:
        for one in tomserve_variants.make_variants(originals, kinds, retelling, have):
            if isinstance(one, Dropped):
                dropped[one.kind.name][one.reason] += 1
            elif one.id in ids:
                dropped[str(one.factors["variant"])][tomserve_variants.TAKEN] += 1
            else:
                yield one

    variants = known.joined(Stock(made()))
    return Varied(originals, variants, tuple(kinds), {kind: dict(one) for kind, one in dropped.items()})
