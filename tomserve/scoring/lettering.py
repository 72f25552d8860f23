"""In which order a reply was shown its choices as A, B, C: a letter is only ever read with the list beside it.

Our own prompts show the choices in the order of the item. Another tool may have shown them in an order of its own: the
row of such a reply says which (`offered`), and where it does not, as in runs of version 0.15, the prompt that it keeps
(`asked`) does. Where nothing shows the order, a letter alone is not read.

>>> in_prompt("Where is it?\\nA. Blue box, B) (the) shelf, C. red box", ("red_box", "blue_box"))
('blue_box', None, 'red_box')
>>> in_list(["red box", "elsewhere", "blue box"], ("blue_box", "red_box")), in_list(["A", "B"], ("blue_box", "red_box"))
(('red_box', None, 'blue_box'), ())
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tomserve.items import Item
from tomserve.scoring.labels import Lettered, Order, match

OFFERED, ASKED = "offered", "asked"
"""The fields of a row of another tool that hold the order of its choices, and all that the model was shown."""

MOST = 26
"""So many choices have a letter."""

_OPENING, _ALONE = r"[(\[（【<\"'“*]", r"(?<![A-Za-z0-9])"
_LETTER = r"[A-Za-z](?:[)\]）】>\"'”*.:．：、,]{1,4}\s*|[ \t]*[-–—=|]\s*|\t\s*)"
_ENDED = r"[.,;:?!)\]）}\"'”*<|/，。；、]"
_AFTER = (
    rf"(?:(?={_OPENING}{{1,4}}{_LETTER}|{_ALONE}{_LETTER})"
    rf"|(?![A-Za-z0-9_-])(?=[ \t]*(?:{_ENDED}|\n|$|(?:or|and)\b|(?-i:[A-Z])\w*:|{_OPENING}{{0,4}}{_LETTER})))"
)
"""What may stand after a choice beside a letter, so that no longer text is meant."""


def choices_of(item: Item, row: Mapping[str, Any], lettered: bool) -> Sequence[str]:
    """The choices of an item as a reply to it is read by them. lettered: whether a prompt of ours shows them by
    letter."""
    shown = shown_to(item, row)
    return Lettered(item.choices, shown) if lettered or shown else item.choices


def shown_to(item: Item, row: Mapping[str, Any]) -> Order | None:
    """The choices beside the letters A, B, C that another tool showed for a reply, None for what is no choice of the
    item; empty where nothing says it. None for a reply to a prompt of ours. A row may come from anybody."""
    if ASKED not in row:
        return None
    if isinstance(listed := row.get(OFFERED), list):
        return tuple(one if isinstance(one, str) and one in item.choices else None for one in listed[:MOST])
    return in_prompt(asked, item.choices) if isinstance(asked := row[ASKED], str) else ()


def in_prompt(asked: str, choices: Sequence[str]) -> Order:
    """The choices in the order in which a text shows them as A, B, C; empty where it does not. Of several lists, as in
    a prompt with demonstrations, the one with most of the choices counts, then the last."""
    if len(choices) < 2:
        return ()
    lists: list[dict[int, str]] = []
    pattern, named = _pattern(tuple(choices))
    for one in pattern.finditer(asked):
        place, choice = ord(one[1][0].upper()) - ord("A"), named.get(_name(one[2]))
        if choice is None:
            continue
        if not lists or place <= max(lists[-1]) or choice in lists[-1].values():
            lists.append({})
        lists[-1][place] = choice
    best = max(reversed(lists), key=len, default={})
    return tuple(best.get(place) for place in range(max(best) + 1)) if len(best) > 1 else ()


def in_list(listed: Sequence[str], choices: Sequence[str]) -> Order:
    """The choices in the order of another tool's list of them, whose entries may carry letters of their own; empty
    where the list is not one of these choices."""
    if shown := in_prompt("\n".join(listed), choices):
        return shown
    names = tuple(match(one, Lettered(choices, ()))[0] for one in listed[:MOST])
    found = [name for name in names if name is not None]
    return names if len(found) == len(set(found)) > 1 else ()


@lru_cache(maxsize=1024)
def _pattern(choices: tuple[str, ...]) -> tuple[re.Pattern[str], dict[str, str | None]]:
    """What finds a letter with a choice beside it, and the choice of each name; None where two have one name."""
    named: dict[str, str | None] = {}
    for choice in choices:
        name = _name(choice)
        named[name] = None if name in named else choice
    words = (r"[\s_-]+".join(map(re.escape, name.split())) for name in sorted(named, key=len, reverse=True) if name)
    whole = rf"{_ALONE}{_OPENING}{{0,4}}({_LETTER})[\"'“]?({'|'.join(words)}){_AFTER}"
    return re.compile(whole, re.I), named


def _name(choice: str) -> str:
    """A choice in small letters, with single spaces for underscores and hyphens between words, without a full stop."""
    return " ".join(re.sub(r"_|(?<=\w)-(?=\w)", " ", choice.lower()).split()).rstrip(".!?")
