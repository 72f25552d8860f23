"""Match text to the offered choices of an item: by the label itself, by its letter (A, B, C), or by the words of a
sentence, and where and how a text names them.

Only what fits exactly one choice is a match; nothing is guessed. A letter is read only where the order in which the
choices were shown is known, and where it stands beside the words of another choice the words count.
"""

import re
import unicodedata
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import dropwhile, pairwise
from typing import Any, NamedTuple, Self

from tomserve.items import Item

AGAINST_LETTER = "against-letter"
"""The step that found a label in words beside the letter of another one."""

UNKNOWN = "unknown"
LONGEST = 260
"""Most characters of a label with its quotes and the like where no choice is long; a longer text is prose."""
BESIDE = 60
"""How many characters of quotes, letters and the like may stand beside a long choice."""

_ARTICLE = re.compile(r"(?:the|an|a)\s+", re.I)
_WRAPPING = "\u200b\ufeff \t\r\n\"'`*_“”‘’«»()[]「」『』【】（）［］"
_ENDING = ".,;:!。，；：！、" + _WRAPPING


_LETTER = re.compile(r"(?:(?:option|choice|answer)\s+)?[(\[]?([a-z])(?:[)\]]?\s*[.):,\]-]*\s*(?<=[\s.):,\]-])(.+))?")
_LETTER_LAST = re.compile(r"(.*[^\s,])[\s,]*[(\[]\s*(?:option\s+)?([a-z])")


Order = tuple[str | None, ...]
"""The choices beside the letters A, B, C; None for a letter that stood beside something else."""


class LetteredChoices(tuple[str, ...]):
    """Choices that were offered as A, B, C. offered: those beside these letters, none where it is empty; where nothing
    is said the choices in their order but for "unknown", a label of chains only."""

    offered: Order

    def __new__(cls, choices: Iterable[str], offered: Order | None = None) -> Self:
        """The choices, and the order in which they were offered."""
        made = super().__new__(cls, choices)
        made.offered = tuple(choice for choice in made if choice != UNKNOWN) if offered is None else offered
        return made

    def by_letter(self, letter: str) -> str | None:
        """The choice of that small letter, None where there is none."""
        place = ord(letter) - ord("a")
        return self.offered[place] if place < len(self.offered) else None


def longest_label(choices: Sequence[str]) -> int:
    """Most characters of a text that is one of these choices and no prose: LONGEST, more where a choice is so long."""
    return max(LONGEST, BESIDE + max(map(len, choices), default=0))


def extra_length(choices: Sequence[str]) -> int:
    """How many characters longer than usual a text may be that names one of these choices; 0 where none is long."""
    return longest_label(choices) - LONGEST


def match_label(value: Any, choices: Sequence[str]) -> tuple[str | None, str]:
    """The label that a value names, and the step that found it; (None, "") where nothing fits, or several do.

    The step is "" for an exact fit, "spelling" where case, white space, quotes or a full stop differ, "article" where a
    leading "the", "a" or "an" differs as well; for LetteredChoices also "words", "letter" and "against-letter".
    """
    if not isinstance(value, str):
        return None, ""
    if value in choices:  # which is so for most values, and known sooner than the length of the longest choice
        return value, ""
    if len(value) > longest_label(choices):
        return None, ""
    text = unicodedata.normalize("NFC", value)
    steps: tuple[tuple[str, Callable[[str], str]], ...] = (("spelling", _normalize_spelling), ("article", _bare))
    for step, normal in steps:
        wanted, named = normal(text), _normalize_choices(tuple(choices), normal)
        if wanted and wanted in named:
            return named[wanted], step if named[wanted] is not None else ""
    return _by_letter(text, choices) if isinstance(choices, LetteredChoices) else (None, "")


@lru_cache(maxsize=1024)
def _normalize_choices(choices: tuple[str, ...], normal: Callable[[str], str]) -> dict[str, str | None]:
    """The choice of each normal form; None where two have one form."""
    named: dict[str, str | None] = {}
    for choice in choices:
        form = normal(choice)
        named[form] = None if form in named else choice
    return named


WITHIN = "within"
"""The step that found a label in a list or object of one, or after the preposition of a place."""

# fmt: off
_CALLED = frozenset((
    "label", "answer", "final_answer", "value", "choice", "option", "text", "name", "location", "place", "container",
    "object", "content", "result", "response", "output", "prediction", "selected", "selection", "chosen", "const",
))
# fmt: on
"""What a model may call its answer in an object that holds nothing else."""

_PLACED = re.compile(r"(?:(?:it is|it['\u2019]s|is) )?(?:inside of|in|inside|into|on|at) (?=\S)")
_PLACES = re.compile(r"(?:in|inside|into|on|at|under|behind|near|beside|above|below|to|from|by|not) (?=\S)")


def match_within(value: Any, choices: Sequence[str]) -> tuple[str | None, str]:
    """The label in a value that is a list of one label, an object of one, or a label after "in the" or the like, as
    `match_label` returns it: only what can mean nothing else."""
    inner = value
    for _ in range(2):
        if isinstance(inner, list) and len(inner) == 1:
            (inner,) = inner
        elif isinstance(inner, dict) and len(inner) == 1 and next(iter(inner)).strip().casefold() in _CALLED:
            (inner,) = inner.values()
    if not isinstance(inner, str) or len(inner) > longest_label(choices):
        return None, ""
    if inner is not value and (label := match_label(inner, choices)[0]) is not None:
        return label, WITHIN
    text = _normalize_spelling(unicodedata.normalize("NFC", inner))
    if (placed := _PLACED.match(text)) is None:
        return None, ""
    wanted = _bare(text[placed.end() :])
    fits = [choice for choice in choices if _bare(_PLACES.sub("", _bare(choice), count=1)) == wanted]
    return (fits[0], WITHIN) if len(fits) == 1 and _bare(fits[0]) == wanted else (None, "")


def _by_letter(text: str, choices: LetteredChoices) -> tuple[str | None, str]:
    """The label that a text names in words or by its letter, as `match_label` returns it."""
    if (label := _in_words(text, choices)) is not None:
        return label, "words"
    spelled = _normalize_spelling(text)
    if (found := _LETTER.fullmatch(spelled)) is not None:
        letter, beside = found.groups()
    elif (found := _LETTER_LAST.fullmatch(spelled)) is not None:
        beside, letter = found.groups()
    else:
        return None, ""
    label = choices.by_letter(letter)
    words = None if beside is None else _in_words(beside, choices)
    if words is not None and label is not None and words != label:
        return words, AGAINST_LETTER
    return (label, "letter") if label is not None and (beside is None or words == label) else (None, "")


def _in_words(text: str, choices: LetteredChoices) -> str | None:
    """The one choice that the text is when underscores and hyphens are read as spaces."""
    wanted = normalize_words(_bare(text))
    fits = [choice for choice in choices if normalize_words(_bare(choice)) == wanted]
    return fits[0] if len(fits) == 1 else None


def normalize_words(text: str) -> str:
    """The text with single spaces for underscores, hyphens and white space."""
    return " ".join(re.split(r"[\s_-]+", text)).strip()


def _normalize_spelling(text: str) -> str:
    """The text without case, quotes, brackets and marks of markdown around it, and with single spaces."""
    return " ".join(text.lstrip(_WRAPPING + "-").rstrip(_ENDING).casefold().split())


def _bare(text: str) -> str:
    """The text as `_normalize_spelling` gives it, without a leading article."""
    spelled = _normalize_spelling(text)
    found = _ARTICLE.match(spelled)
    return spelled[found.end() :] if found else spelled


OFFERED, ASKED = "offered", "asked"
"""The fields of a row of another tool that hold the order of its choices, and all that the model was shown."""

MOST = 26
"""So many choices have a letter."""

_OPENING, _ALONE = r"[(\[（【<\"'“*]", r"(?<![A-Za-z0-9])"
_SHOWN_LETTER = r"[A-Za-z](?:[)\]）】>\"'”*.:．：、,]{1,4}\s*|[ \t]*[-–—=|]\s*|\t\s*)"
_ENDED = r"[.,;:?!)\]）}\"'”*<|/，。；、]"
_AFTER = (
    rf"(?:(?={_OPENING}{{1,4}}{_SHOWN_LETTER}|{_ALONE}{_SHOWN_LETTER})"
    rf"|(?![A-Za-z0-9_-])(?=[ \t]*(?:{_ENDED}|\n|$|(?:or|and)\b|(?-i:[A-Z])\w*:|{_OPENING}{{0,4}}{_SHOWN_LETTER})))"
)
"""What may stand after a choice beside a letter, so that no longer text is meant."""


def choices_of(item: Item, row: Mapping[str, Any], lettered: bool) -> Sequence[str]:
    """The choices of an item as a reply to it is read by them. lettered: whether a prompt of ours shows them by
    letter."""
    shown = find_shown_order(item, row)
    return lettered_choices(item, shown) if lettered or shown else item.choices


WITHOUT_UNKNOWN = frozenset({"hitom"})
"""Benchmarks whose questions do not offer "unknown", which is a label of their chains alone."""


def lettered_choices(item: Item, shown: Order | None = None) -> LetteredChoices:
    """The choices of an item that were shown as A, B, C. shown: in which order, where that is not the item's own."""
    if shown is None and item.benchmark not in WITHOUT_UNKNOWN:
        shown = item.choices
    return LetteredChoices(item.choices, shown)


def count_offered(benchmark: str, choices: Sequence[str]) -> int:
    """How many of an item's choices the prompts of its benchmark offer, among which a guess is made."""
    return len(choices) - (UNKNOWN in choices and benchmark in WITHOUT_UNKNOWN)


def find_shown_order(item: Item, row: Mapping[str, Any]) -> Order | None:
    """The choices beside the letters A, B, C that another tool showed for a reply, None for what is no choice of the
    item; empty where nothing says it. None for a reply to a prompt of ours. A row may come from anybody."""
    if ASKED not in row:
        return None
    if isinstance(listed := row.get(OFFERED), list):
        return tuple(one if isinstance(one, str) and one in item.choices else None for one in listed[:MOST])
    return find_prompt_order(asked, item.choices) if isinstance(asked := row[ASKED], str) else ()


def find_prompt_order(asked: str, choices: Sequence[str]) -> Order:
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


def find_list_order(listed: Sequence[str], choices: Sequence[str]) -> Order:
    """The choices in the order of another tool's list of them, whose entries may carry letters of their own; empty
    where the list is not one of these choices."""
    if shown := find_prompt_order("\n".join(listed), choices):
        return shown
    names = tuple(match_label(one, LetteredChoices(choices, ()))[0] for one in listed[:MOST])
    found = [name for name in names if name is not None]
    return names if len(found) == len(set(found)) > 1 else ()


@lru_cache(maxsize=1024)
def _pattern(choices: tuple[str, ...]) -> tuple[re.Pattern[str], dict[str, str | None]]:
    """What finds a letter with a choice beside it, and the choice of each name; None where two have one name."""
    named = _normalize_choices(choices, _name)
    words = (r"[\s_-]+".join(map(re.escape, name.split())) for name in sorted(named, key=len, reverse=True) if name)
    whole = rf"{_ALONE}{_OPENING}{{0,4}}({_SHOWN_LETTER})[\"'“]?({'|'.join(words)}){_AFTER}"
    return re.compile(whole, re.I), named


def _name(choice: str) -> str:
    """A choice in small letters, with single spaces for underscores and hyphens between words, without a full stop."""
    return " ".join(re.sub(r"_|(?<=\w)-(?=\w)", " ", choice.lower()).split()).rstrip(".!?")


_ARTICLES = re.compile(r"^(?:the|an|a)[\s_]+", re.I)
_WORD = re.compile(r"[^\s_,;-]+")
# fmt: off
_LEADING = frozenset((
    "a", "an", "the", "his", "her", "their", "its", "my", "your", "that", "this", "in", "on", "at", "to", "under",
    "behind", "inside", "into", "near", "with", "by", "beside", "of", "from", "there", "are", "is", "be",
))
# fmt: on
"""Words with which the telling part of a choice does not begin."""

_ORDINALS = {
    "first": "one", "second": "two", "third": "three", "fourth": "four", "1": "one", "2": "two", "3": "three",
    "4": "four", "1st": "one", "2nd": "two", "3rd": "three", "4th": "four",
}  # fmt: skip


def wording_key(text: str) -> str:
    """The words of a name in small letters, with single spaces, without a leading article and a full stop."""
    words = _WORD.findall(_ARTICLES.sub("", text.casefold().strip()))
    return " ".join(words).rstrip(".!?") or text.casefold()


@lru_cache(maxsize=4096)
def find_wordings(choices: tuple[str, ...]) -> tuple[re.Pattern[str], dict[str, str | None]]:
    """A pattern that finds the names of the choices, and the choice of each name; None where two have one name.

    A name may lack its full stop, be in the plural or the singular, be spelled gray or grey, and be the telling part.
    """
    named = _normalize_choices(choices, wording_key)
    spelled = dict(named)
    for name, meant in named.items():
        gray, single = name.replace("grey", "gray"), re.sub(r"(?:(?<=ch)e|(?<=sh)e|(?<=ss)e|(?<=x)e)?s$", "", name)
        inner = re.sub(r"(?<=[a-rt-z])s\b(?=[ ]\w)", "", name)
        for other in (f"{name}s", single, re.sub(r"ies$", "y", name), gray, gray.replace("gray", "grey"), inner):
            if len(other) > 3 and other not in named and meant is not None:
                spelled[other] = None if spelled.get(other, meant) != meant else meant
    for name, meant in _telling([choice for choice in choices if named[wording_key(choice)] is not None]).items():
        spelled.setdefault(name, meant)
    heads = {name: meant for name, meant in _heads(choices).items() if name not in spelled}
    spelled |= heads
    names = sorted((name for name in spelled if name), key=len, reverse=True)
    bodies = [r"(?<=the )" * (name in heads) + r"[\s_,;-]{1,3}".join(map(re.escape, name.split(" "))) for name in names]
    return re.compile(rf"(?<!\w)(?:{'|'.join(bodies)})(?![\w]|-[a-z])", re.I), spelled


def _telling(choices: Sequence[str]) -> dict[str, str]:
    """The parts of names that tell the choices apart, each with its choice; a part that two could have is left out."""
    words = [wording_key(choice).split(" ") for choice in choices]
    found: dict[str, str] = {}
    doubled: set[str] = set()
    for choice, mine in zip(choices, words, strict=True):
        for part in _parts(mine, words):
            if found.setdefault(part, choice) != choice:
                doubled.add(part)
    whole = [wording_key(choice) for choice in choices]
    return {
        part: choice
        for part, choice in found.items()
        if part not in doubled and sum(f" {part} " in f" {name} " for name in whole) <= 1
    }


def _pairs(mine: list[str], taken: Collection[str]) -> list[list[str]]:
    """Two words of a sentence beside each other, but for such as "the", that are none of those taken."""
    telling = [place for place, word in enumerate(mine) if len(word) > 3 and word not in _LEADING]
    pairs = [(one, other) for one, other in pairwise(telling) if other - one < 4]
    return [mine[one : other + 1] for one, other in pairs if mine[one] not in taken and mine[other] not in taken]


def _heads(choices: Sequence[str]) -> dict[str, str]:
    """The last words of names of two words, such as "painting", that no other choice has; "the" stands before them."""
    words = [wording_key(choice).split(" ") for choice in choices]
    counts = Counter(word for one in words for word in one)
    pairs = zip(choices, map(_strip_words, words), strict=True)
    return {bare[1]: choice for choice, bare in pairs if len(bare) == 2 and counts[bare[1]] == 1}


def _parts(mine: list[str], every: Sequence[Sequence[str]]) -> list[str]:
    """Shorter names of one choice: without its leading preposition, and what only it has among `every` choice."""
    parts = [_strip_words(mine)]
    others = [other for other in every if other is not mine and min(len(mine), len(other)) > 2 and mine[0] == other[0]]
    if others:
        first = min(_common(mine, other) for other in others)
        last = min(_common(mine[first:][::-1], other[first:][::-1]) for other in others)
        middle = _strip_words(mine[first : len(mine) - last])
        parts += [middle, _strip_words(mine[first:])]
        if len(middle) > 2 and middle[0].endswith(("ed", "en", "less", "ful")):
            parts.append(middle[:1])  # "blocked by the landslide" is told by "blocked"
        parts += _with_pronoun(middle, others)
        parts += _pairs(mine, {word for other in others for word in other})
        after = max((place for place, word in enumerate(mine) if word in _LEADING), default=len(mine))
        parts += [mine[after + 1 :]] if len(mine) - after > 2 else []  # "the left drawer", whatever is done to it
    if len(mine) == 2 and mine[0] in _ORDINALS:
        parts.append([mine[1], _ORDINALS[mine[0]]])
    if len(mine) == 2:
        parts.append([mine[0], "one"])  # "the green one" of two bags
    joined = [" ".join(part) for part in parts if part != list(mine)]
    return [part for part in joined if len(part) > 2]


def _with_pronoun(middle: list[str], others: Sequence[Sequence[str]]) -> list[list[str]]:
    """What somebody will do with what all choices name: "water them", "leaves it alone" for "leave the plant alone"."""
    shared = [all(word in other for other in others) for word in middle]
    if not any(shared):
        return []
    start = shared.index(True)
    end = next((place for place in range(start, len(middle)) if not shared[place]), len(middle))
    short = [[word] for word in ("it", "them", "him", "her")] + [["the", middle[end - 1]]]
    found = [[*middle[:start], *words, *middle[end:]] for words in short]
    return found + [[f"{one[0]}s", *one[1:]] for one in (*found, middle)]


def _strip_words(words: Sequence[str]) -> list[str]:
    return list(dropwhile(_LEADING.__contains__, words))


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words two choices begin with in common."""
    same = zip(one, other, strict=False)
    return next((count for count, (mine, theirs) in enumerate(same) if mine != theirs), min(len(one), len(other)))


WORDS, LETTER, BOTH, AGAINST = "words", "letter", "both", "against letter"
"""How a choice is named: by its words, by its letter, by both, or by words beside the letter of another choice."""


class Mention(NamedTuple):
    """A place of a text, from `start` to before `end`, that names a choice."""

    start: int
    end: int
    choice: str | None  # None for a letter that no choice has
    by: str  # one of WORDS, LETTER, BOTH and AGAINST


_LETTERS = re.compile(
    r"(?i)(?<![\w'\u2019])(?:(?P<word>option|choice|letter)[ ]?[:#]?[ ]?)?"
    r"(?P<open>[(\[\"'\u201c]{0,2})(?P<letter>(?-i:[A-Za-z]))(?P<close>[)\]\"'\u201d]{0,2})(?P<after>[.:,;)]?)(?![\w'\u2019])"
)
_NO_ARTICLE = re.compile(
    r"(?:,? (?:or|and|nor|not|than|over|rather|instead|but|because|since|is|was|would|must|seems|fits|cannot)\b"
    r"|,? ?[/|>,] ?[\"'\u201c(]?[B-Z](?![\w'\u2019]))"
)
"""What stands behind a letter A that is no article: another letter, or a word that no noun is."""
_DETERMINER = re.compile(r"no (?!(?:he|she|they|it|i|we|because|since|as)\b)[a-z]", re.I)
"""A "no" that belongs to the word after it, as in "no one" and "no reason", and names no choice."""
_BESIDE = re.compile(
    r"[\s)\].:,;\"'\u201c\u201d(=\u2013\u2014-]{0,8}(?:(?:the|an|a|i\.e\.|namely)\s)?[\"'\u201c]?", re.I
)


def find_mentions(text: str, choices: Sequence[str]) -> tuple[Mention, ...]:
    """Every place of a line or sentence, with single spaces for white space, that names a choice, in order and in time
    proportional to its length. Of names that overlap the one that begins first counts, then the longer one."""
    return _mentions(text, tuple(choices), choices.offered if isinstance(choices, LetteredChoices) else ())


@lru_cache(maxsize=1024)  # a sentence is looked at for several rungs
def _mentions(text: str, choices: tuple[str, ...], offered: Order) -> tuple[Mention, ...]:
    pattern, named = find_wordings(choices)
    found = [Mention(one.start(), one.end(), named.get(wording_key(one[0])), WORDS) for one in pattern.finditer(text)]
    found = [one for one in found if one.choice is None or not _DETERMINER.match(text, one.start)]
    if not offered:
        return tuple(found)
    starts = [one.start for one in found]
    free = []
    for one in _letters(text, LetteredChoices(choices, offered)):
        place = bisect(starts, one.start) - 1
        if place < 0 or found[place].end <= one.start:  # a letter that is a part of a name is no letter
            free.append(one)
    return tuple(_join_mentions(text, found, free))


def _letters(text: str, choices: LetteredChoices) -> list[Mention]:
    """Single letters that can be meant as the letter of a choice. "A" and "I" are words, and small letters may be, so
    that these count only with a bracket, a full stop or the like, or after a word such as "option"."""
    found = []
    first, last = len(text) - len(text.lstrip(" .:-")), len(text.rstrip(" ."))
    for one in _LETTERS.finditer(text):
        if text.startswith("(", one.end()):
            continue  # such as "H(A)"
        letter, closed = one["letter"], bool(one["close"]) or one["after"] in (")", ":", ".")
        marked = bool(one["word"]) or (one["close"] == ")" and text[max(0, one.start() - 1)] != "(")
        begins = one.start() <= first and (closed or one.end() >= last)
        alone = letter not in "AI" or closed or one.end() == len(text)
        alone = alone or (letter == "A" and _NO_ARTICLE.match(text, one.end("close")) is not None)
        if marked or begins or (letter.isupper() and alone):
            end = one.end() - len(one["after"])
            found.append(Mention(one.start(), end, choices.by_letter(letter.casefold()), LETTER))
    return found


def _join_mentions(text: str, names: list[Mention], letters: list[Mention]) -> list[Mention]:
    """The mentions in order, a letter and words side by side as one."""
    merged: list[Mention] = []
    for one in sorted([*names, *letters]):
        last = merged[-1] if merged else None
        if last is not None and (last.by, one.by) == (LETTER, WORDS) and _BESIDE.fullmatch(text[last.end : one.start]):
            by = BOTH if last.choice == one.choice else AGAINST
            merged[-1] = Mention(last.start, one.end, one.choice, by)
            continue
        merged.append(one)
    return merged


def prefer_words(named: Sequence[Mention]) -> Sequence[Mention]:
    """These mentions without letters, where words name another choice: the words count."""
    words = [one for one in named if one.by != LETTER]
    return words if words and len({one.choice for one in named}) > 1 else named


def remove_choices(sentence: str, start: int, end: int, named: Sequence[Mention]) -> str:
    """A part of a sentence without the words of the choices in it, which may hold a "not" themselves."""
    parts, place = [], start
    for one in named:
        parts.append(sentence[place : one.start])
        place = min(one.end, end)
    return " ".join((*parts, sentence[place:end]))


_MARK = re.compile(r"\W{0,2}([A-Z])[.):] ")


_LETTER_AND_WORDS = re.compile(
    r"(?P<before>(?:[^.!?]{0,80}[\s:(\"'])?)(?P<letter>(?<![^\s:(\"'])[A-Z]|^[a-z])[.):]{1,2} (?P<words>\S.{24,}?)"
    r"(?P<rest>(?:(?<=[.!?]) .*)?$)"
)


_ANOTHER = re.compile(r"(?<![\w'\u2019])[A-Za-z][.):] ")


def settle_letter(line: str, choices: Sequence[str]) -> str:
    """A line that names a sentence by a letter and in words, with the letter alone of what it names: that of the words
    if most of them are of one choice, else its own if no other has more of them; a letter that no choice has where the
    words are of several. As it is where they are of none, and where choices are no sentences."""
    offered = choices.offered if isinstance(choices, LetteredChoices) else ()
    if not isinstance(choices, LetteredChoices) or min((len(one or "") for one in offered), default=0) < SENTENCE:
        return line
    found = _LETTER_AND_WORDS.match(line)
    own = None if found is None or _ANOTHER.search(found["rest"]) else choices.by_letter(found["letter"].lower())
    if found is None or own is None:
        return line
    told = wording_key(found["words"]).split()
    shares = {one: _shared(told, wording_key(one).split()) for one in offered if one is not None}
    best = max(shares, key=lambda one: (shares[one], one == own))
    if shares[best] < 1 - MOST_WORDS:
        return line
    others = max((share for one, share in shares.items() if one != best), default=0.0)
    sure = shares[best] >= MOST_WORDS and shares[best] - others >= 1 - MOST_WORDS
    if best != own and not sure and told != wording_key(best).split():
        best = own if shares[own] >= others else ""
    place = offered.index(best) if best else len(offered)
    return f"{found['before']}{chr(ord('A') + place)}.{found['rest']}"


def settle_letters(lines: Sequence[str], choices: Sequence[str]) -> tuple[str, ...]:
    """The lines with sentences named as `settle_letter` does it, one such as "The answer is:" joined with a letter
    after it, and without lines that are several letters: a list of what was offered."""
    joined: list[str] = []
    for line in lines:
        if joined and _ANNOUNCED.search(joined[-1]) and _LISTED.match(line):
            joined[-1] += f" {line}"
        else:
            joined.append(line)
    settled = [settle_letter(line, choices) for line in joined]
    letters = {one for one, line in zip(settled, joined, strict=True) if one != line and len(one) < 3}
    return tuple(one for one in settled if len(letters) < 2 or one not in letters)


_ANNOUNCED = re.compile(r"(?i)\b(?:answer|choice|option|letter|response)\b.{0,160} is:$")
_LISTED = re.compile(r"\W{0,2}[A-Za-z][.):] ")
SENTENCE = 30
"""Characters that a choice has at least which is a sentence."""
MOST_WORDS = 0.7
"""Share of the pairs of words of a text, or of a choice if that is shorter, that make the one name the other."""


def _shared(told: Sequence[str], choice: Sequence[str]) -> float:
    """The share of the words beside each other in the shorter one that stand so in both."""
    pairs, others = set(pairwise(told)), set(pairwise(choice))
    return len(pairs & others) / max(1, min(len(pairs), len(others)))


def list_options(line: str, beside: str, choices: Sequence[str]) -> bool:
    """Whether two lines beside each other are of a list of options by letter, neither of them crossed out or asked."""
    one, other = _MARK.match(line), _MARK.match(beside)
    if one is None or other is None or one[1] == other[1] or "(wrong)" in line + beside:
        return False
    return all(text[-1] != "?" and find_mentions(text, choices) for text in (line, beside))


_OPEN = re.compile(r"(?i)\W*(?:or|and|no|not|wait|actually|rather|instead|correction|hmm|but)\b|\s*\?|\s*[/|]")
DENIED_AFTER = re.compile(
    r"(?i)\W{0,3}(?:is|was|would|can|could) ?(?:not|n['\u2019]t|never|wrong|incorrect)\b|\W{0,4}(?:wrong|incorrect"
    r"|false)\b"
)
"""What denies the choice after which it stands."""
MARKS = " \t\"'`*_()[]."
"""What may stand around a choice, and says nothing."""
_LEADS = ("", "the", "a", "an", "in", "it's", "in the", "in a", "at the", "on the", "so", "it is", "it is in")
"""What may stand before the choice with which a text begins."""
_CLAUSE_END = re.compile(
    r"[\"')\]]{0,2}(?:[.!;:,](?:\s|$)|$|\s(?:\(|[-\u2013\u2014\u2190]\s|because\b|since\b|as\b|(?:he|she|they|it|i"
    r"|we)\b|is (?:where|what|the (?:answer|one|place|location|right|correct|only|best|most))\b))",
    re.I,
)


def leading_choice(line: str, choices: Sequence[str], goes_on: bool = False) -> str | None:
    """The choice with which a line begins, as the whole line or clause, or before a reason ("blue_box because ...").
    None where it asks, offers two, or takes it back."""
    named = find_mentions(line, choices)
    if not named or line[: named[0].start].strip(MARKS + "-:,").casefold() not in _LEADS:
        return None
    one, rest = named[0], line[named[0].end :]
    other = next((found for found in named[1:] if found.choice != one.choice), None)
    listed = other is not None and not line[one.end : other.start].strip(" ,;/|.")
    if listed or _OPEN.match(rest) or DENIED_AFTER.match(rest):
        return None
    if one.by == LETTER and one.end - one.start < 5 and rest.strip(MARKS + ":"):
        return None
    return one.choice if goes_on or _CLAUSE_END.match(rest) or not rest.strip(MARKS) else None


def edge_choice(lines: Sequence[str], place: int, beside: int, choices: Sequence[str]) -> str | None:
    """The choice with which the first or last line begins, if the line beside it does not list another one."""
    label = leading_choice(lines[place], choices)
    if label is None or len(lines) < 2:
        return label
    listed = list_options(lines[place], lines[beside], choices)
    return label if not listed and leading_choice(lines[beside], choices) in (None, label) else None
