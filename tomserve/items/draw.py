"""Seeded, stratified draws: which items `--limit` asks, and which ones the noise check asks again.

>>> from tomserve.items import Item
>>> tea = {"story": ["The jar holds tea."], "question": "What is in the jar?", "choices": ["tea", "salt"]}
>>> items = [Item(id=f"q{number}", answer="tea", **tea) for number in range(50)]
>>> len(limited(items, 10)), len(drawn(items, 0.02)), drawn(items, 0.02)[0] in drawn(items, 0.1)
(10, 1, True)
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence

from tomserve.items import Item

LIMIT_SEED = 0


def limited(items: Sequence[Item], limit: int | None, stratum: str | None = None) -> list[Item]:
    """The first `limit` items of a seeded order that takes the values of `stratum` in turn; file order is kept.

    stratum: the factor over which the draw is spread, None for none; items without it are one stratum. limit: None for
    all items.
    """
    if limit is None or limit >= len(items):
        return list(items)
    chosen = spread(((item.id, item.factors.get(stratum) if stratum else None) for item in items), limit)
    return [item for item in items if item.id in chosen]


def spread(members: Iterable[tuple[str, object]], limit: int) -> set[str]:
    """So many of these (name, stratum), in a seeded order of names that takes the strata in turn."""
    strata: dict[object, list[str]] = defaultdict(list)
    for name, stratum in sorted(members, key=lambda one: hashlib.sha256(f"{LIMIT_SEED}:{one[0]}".encode()).digest()):
        strata[stratum].append(name)
    ranked = sorted(
        ((place, stratum, name) for stratum, names in strata.items() for place, name in enumerate(names)),
        key=lambda entry: (entry[0], str(entry[1])),
    )
    return {name for _, _, name in ranked[:limit]}


def drawn(items: Sequence[Item], share: float, stratum: str | None = None) -> list[Item]:
    """That share of the items (0 < share <= 1), at least one, drawn as `limited` does; a larger share contains it."""
    return limited(items, share_of(len(items), share), stratum)


def share_of(count: int, share: float) -> int:
    """How many of `count` items a share is: at least one."""
    return max(1, round(share * count))
