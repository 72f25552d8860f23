"""The kinds of variants: what is changed of a question although it should not matter.

T1 to T4 are those of the functional framework (Mohanty et al., layer 3: object, person, truncation, order of choices);
T0, T5 and T6 are ours.

>>> [kind.name for kind in named(["t1,order"])]
['object', 'order']
>>> named(["all"]) == KINDS
True
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tomserve.errors import ConfigError, one_of


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of variant: its name, which is the factor `variant` of its items, its short name, and what is changed."""

    name: str
    short: str
    changes: str


AGAIN = Kind("again", "T0", "nothing: the same prompt is sent again while other requests are in flight")
OBJECT = Kind("object", "T1", "an object of the story, or a detail of one, that does not bear on the answer")
PERSON = Kind("person", "T2", "who the person is: name and culture and, where all pronouns are sure, gender")
CONDENSED = Kind("condensed", "T3", "the length: the story is told in 30 to 40% fewer words")
CHOICES = Kind("choices", "T4", "the order of the choices, which is reversed")
PARAPHRASE = Kind("paraphrase", "T5", "the wording: every sentence is put in other words")
ORDER = Kind("order", "T6", "the order of sentences that do not depend on each other")

KINDS = (AGAIN, OBJECT, PERSON, CONDENSED, CHOICES, PARAPHRASE, ORDER)
"""All kinds, in the order of their short names."""

LEAST, MOST = 0.30, 0.40
"""By which share of its words a condensed story is shorter, at least and at most."""

ALL = "all"
"""What names all kinds at once."""


def named(names: Iterable[str]) -> tuple[Kind, ...]:
    """The kinds of these names or short names, each once and in the order of KINDS.

    names: texts of one or several names with commas between them; "all" stands for all kinds. Raises ConfigError for a
    name that no kind has, and where no kind is named.
    """
    known = {name: kind for kind in KINDS for name in (kind.name, kind.short.lower())}
    wanted = [part.strip().lower() for text in names for part in text.split(",")]
    if not any(wanted):
        raise ConfigError(f"no kind of variant is named; expected {ALL}, or some of {', '.join(_shown())}")
    chosen: set[Kind] = set()
    for name in filter(None, wanted):
        if name == ALL:
            chosen.update(KINDS)
        elif name in known:
            chosen.add(known[name])
        else:
            raise ConfigError(f"--variants: {one_of('kind', name, [ALL, *_shown()])}")
    return tuple(kind for kind in KINDS if kind in chosen)


def _shown() -> list[str]:
    return [kind.name for kind in KINDS]
