"""Draw a part of the items, by a seed and spread over strata: those that `--limit` asks, or the noise check asks again.

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
"""The seed of the order in which items are drawn; it never changes, so that a draw can be repeated."""


def limited(items: Sequence[Item], limit: int | None, stratum: str | None = None) -> list[Item]:
    """At most `limit` items, in the order of the file; None keeps all.

    They are the first of a seeded order that takes the values of the factor `stratum` in turn, so that a larger limit
    contains a smaller one's items. Without a stratum, and for items that lack it, all are one stratum.
    """
    if limit is None or limit >= len(items):
        return list(items)
    chosen = spread(((item.id, item.factors.get(stratum) if stratum else None) for item in items), limit)
    return [item for item in items if item.id in chosen]


def spread(members: Iterable[tuple[str, object]], limit: int) -> set[str]:
    """At most `limit` of the names, drawn from all strata in turn.

    members: pairs of a name and its stratum. Which names are drawn depends on the seed and the names, not on their
        order.
    """
    strata: dict[object, list[str]] = defaultdict(list)
    for name, stratum in sorted(members, key=lambda one: hashlib.sha256(f"{LIMIT_SEED}:{one[0]}".encode()).digest()):
        strata[stratum].append(name)
    ranked = sorted(
        ((place, stratum, name) for stratum, names in strata.items() for place, name in enumerate(names)),
        key=lambda entry: (entry[0], str(entry[1])),
    )
    return {name for _, _, name in ranked[:limit]}


def drawn(items: Sequence[Item], share: float, stratum: str | None = None) -> list[Item]:
    """This share of the items, 0 < share <= 1, rounded and at least one item, drawn as `limited` does; a larger share
    contains a smaller one.
    """
    return limited(items, share_of(len(items), share), stratum)


def share_of(count: int, share: float) -> int:
    """How many of `count` items this share is, rounded; at least one."""
    return max(1, round(share * count))
