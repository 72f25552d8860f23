"""Shortcut baselines: rules that answer an item without following anybody's belief, so that no accuracy is read alone.

Whether a baseline's answer is right stands in the score table beside every reply. Those of GENERIC are computed for
every benchmark; a benchmark adds its own by its field `rules`.

>>> item = Item(id="q", story=["Tea is here, no salt.", "More tea."], question="What is here?",
...             choices=["salt", "tea"], answer="tea")
>>> {rule.name: rule.answer(item) for rule in GENERIC[:2]}, list_mentions(item)
({'first choice': 'salt', 'last choice': 'tea'}, ('tea', 'salt', 'tea'))
>>> Baseline("first mentioned", lambda item: list_mentions(item)[0]).column
'rule_first_mentioned'
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from tomserve.errors import ConfigError, one_of
from tomserve.items import UNKNOWN, Item

BEGINNING = "rule_"
"""With this the names of the columns begin that say whether a rule answers the item right."""

KINDS = {
    "constant": "constant or positional: it gives one sort of answer, whatever the story tells",
    "surface": "surface: it goes by words of the story or of the question",
    "simpler": "simpler question: it answers an easier question about the same story",
    "learned": "learned: it was fitted to the right answers of other stories",
}
"""The kinds of rules, from the plainest on, and what each of them means."""

_SPACELESS = "\u2e80"
_LETTER = rf"[^\W{_SPACELESS}-\uffef]"
"""A character that belongs to a word with its neighbours: none of Chinese and the like, where no spaces stand."""

NAME = re.compile(r"[a-z0-9]+(?: [a-z0-9]+)*")


@dataclass(frozen=True)
class Baseline:
    """A rule that answers items. Raises ConfigError for a field that makes no sense.

    It may look at all of the item, the design factors and the right answer included, since "always reality" has to know
    what is real; its name should say what it knows.
    """

    name: str  # what tables call it, in small letters, digits and single spaces ("always reality")
    answer: Callable[[Item], str | None]  # one of the item's choices, or None where it says nothing of the item
    kind: str = "surface"  # one of KINDS

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name) or len(self.name) > 60:
            raise ConfigError(
                f"rules: the name of a rule is {self.name!r:.80}; expected small letters, digits and single spaces, at "
                "most 60 characters, such as 'always yes'"
            )
        if not callable(self.answer):
            raise ConfigError(
                f"rules: the answer of rule {self.name!r} is {self.answer!r:.60}; expected a function of the item"
            )
        if self.kind not in KINDS:
            raise ConfigError(f"rules: rule {self.name!r}: {one_of('kind', str(self.kind), KINDS)}")

    @property
    def column(self) -> str:
        """The column of the score table that says whether the rule answers the item right."""
        return BEGINNING + self.name.replace(" ", "_")


def baseline_name(column: str) -> str:
    """The name of the rule whose column that is."""
    return column.removeprefix(BEGINNING).replace("_", " ")


@lru_cache(maxsize=256)
def _pattern(choices: tuple[str, ...], letter: str) -> tuple[re.Pattern[str], dict[str, str]]:
    """What finds the choices but "unknown" between no letters, the longer one first where one is a part of another;
    each by its key."""
    labels = {label.casefold(): label for label in choices if label != UNKNOWN}
    words = "|".join(map(re.escape, sorted(labels, key=len, reverse=True))) or "(?!)"
    return re.compile(rf"(?<!{letter})(?:{words})(?!{letter})"), labels


@lru_cache(maxsize=64)
def _mentions(story: tuple[str, ...], choices: tuple[str, ...]) -> tuple[str, ...]:
    text = " ".join(story).casefold()
    # A pattern with so large a range of characters takes 20 ms to compile, as often as questions differ in choices.
    pattern, labels = _pattern(choices, _LETTER if max(text, default="") >= _SPACELESS else r"\w")
    return tuple(labels[found] for found in pattern.findall(text))


def list_mentions(item: Item) -> tuple[str, ...]:
    """The choices in the order in which the story mentions them as whole words, in whatever case, as often as it does;
    "unknown" is left out."""
    return _mentions(item.story, item.choices)


def _mentioned_or_unknown(item: Item) -> tuple[str | None, ...]:
    return list_mentions(item) or (UNKNOWN if UNKNOWN in item.choices else None,)


def find_first_mention(item: Item) -> str | None:
    """The label that the story mentions first; where it mentions none, "unknown", or None where that is no choice."""
    return _mentioned_or_unknown(item)[0]


def find_last_mention(item: Item) -> str | None:
    """The label that the story mentions last; where it mentions none, as `find_first_mention`."""
    return _mentioned_or_unknown(item)[-1]


def find_commonest(item: Item) -> str | None:
    """The label mentioned most often, of several the first; where there is none, as `find_first_mention`."""
    found = _mentioned_or_unknown(item)
    return max(dict.fromkeys(found), key=found.count)


def always(label: str) -> Callable[[Item], str | None]:
    """The answer of a rule that always gives this label, in whatever case the item writes it; None where that is no
    choice."""
    return lambda item: next((choice for choice in item.choices if choice.casefold() == label), None)


GENERIC = (
    Baseline("first choice", lambda item: item.choices[0], "constant"),
    Baseline("last choice", lambda item: item.choices[-1], "constant"),
    Baseline("always unknown", always(UNKNOWN), "constant"),
    Baseline("always yes", always("yes"), "constant"),
    Baseline("always no", always("no"), "constant"),
    Baseline("first mentioned", find_first_mention, "constant"),
    Baseline("last mentioned", find_last_mention, "constant"),
    Baseline("most mentioned", find_commonest, "constant"),
)
"""The rules that need nothing but an item, computed for every benchmark."""
