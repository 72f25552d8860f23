"""The order of scenes: which neighbours may change places, so that the text still reads well.

Which roles may change places is declared here, family by family, by somebody who has read all their phrasings. A
sentence that says when it happens, or leans on the one before it, stays where it is, and so do two neighbours before
such a sentence. Whether the truth at the end is the same says tomserve.benchmarks.worlds.retelling.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tomserve.benchmarks.worlds.record import World
from tomserve.errors import InapplicableError
from tomserve.stability import order

_TRUST = ("trusts", "doubts")
_FACES = ("mask_glad", "mask_sad", "open_glad", "open_sad")

PAIRS: Mapping[str, frozenset[tuple[str, str]]] = {
    "contents": frozenset([("box", "people"), ("read", "read"), ("read", "look"), ("look", "read")]),
    "transfer": frozenset(
        [("wants", "absent"), ("wants", "put"), ("leaves", "leaves"), ("goes", "leaves"), ("elsewhere", "elsewhere")]
    ),
    "second_order": frozenset([("wants", "late"), ("late", "absent")]),
    "causal": frozenset([("wants", "wants"), ("view", "ignorant"), ("ignorant", "view")]),
    "appearance": frozenset((one, two) for one in _FACES for two in _FACES),
    "testimony": frozenset([("tells", "tells"), *((one, two) for one in _TRUST for two in _TRUST)]),
    "valley": frozenset([("trust", "replies")]),
}
"""By family the roles of neighbours that may change places: both say who somebody is, what somebody wants, knows or
does apart from the other, and neither names what only the other has introduced."""

_LEANS = re.compile(
    r"^(?:Then|After|Afterwards|Now|And now|Next|Only now|At last|Later(?! today)|Back again|With that|"
    r"The story begins|On the way|Soon|Among those|As all of them)\b|\bthen\b|\bthat is all\b"
)
"""How a sentence leans on the one before it, or on the order in which things happen."""

_UNFIT = {("wants", "put"): re.compile(r"\bbrought\b")}
"""Words for which neighbours of two roles stay where they are: nobody is told to have brought what was put away."""

STUCK = "no two of its sentences can change places"


def reordered(world: World, story: Sequence[str]) -> tuple[World, tuple[int, ...]]:
    """The world with neighbours in each other's place, and for each new line the old one. story: its sentences.

    All neighbours change places that may, from the first on, none twice. Raises InapplicableError where none may.
    """
    exchanged: list[int] = []
    leaning = [_LEANS.search(text) is not None for text in story] + [False]
    place = 0
    while place + 1 < len(story):
        roles = world.scenes[place].role, world.scenes[place + 1].role
        unfit = roles in _UNFIT and _UNFIT[roles].search(story[place]) is not None
        if roles in PAIRS.get(world.family, ()) and not unfit and not any(leaning[place : place + 3]):
            exchanged.append(place)
            place += 1
        place += 1
    if not exchanged:
        raise InapplicableError(STUCK)
    new = order.exchanged(len(story), exchanged)
    return world.model_copy(update={"scenes": tuple(world.scenes[place] for place in new)}), new
