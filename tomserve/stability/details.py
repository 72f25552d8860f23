"""A detail of an object that bears on nothing: another colour or material, or a colour where there was none.

>>> other("A red lamp hangs above the door.", (), "seed")
'A green lamp hangs above the door.'
>>> other("Ann puts the box on the chair.", ("Where is the box?", "chair"), "seed")
>>> other("Ann puts the box on the chair.", ("Where is the box?",), "seed")
'Ann puts the box on the purple chair.'
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence

from tomserve.stability.rewording import article, mended, plural
from tomserve.stability.wordlists import alternatives, listed

COLOURS = ("red", "blue", "green", "yellow", "brown", "grey", "purple", "orange")
"""Colours that an object gets."""

_MORE_COLOURS = listed("gray pink black white beige turquoise violet crimson scarlet gold golden silver")
_MATERIALS = listed("wooden metal metallic plastic leather steel iron copper brass ceramic stone cotton woollen silk")

_THINGS = listed("""
    bag basket box crate chest drawer cupboard cabinet shelf table desk chair bench stool sofa armchair bed pillow
    blanket carpet rug curtain towel apron hat cap coat jacket scarf glove shoe boot sock belt backpack suitcase
    purse wallet umbrella bucket barrel bowl plate cup mug saucer spoon fork knife pan pot kettle teapot tray oven
    stove fridge refrigerator toaster blender lamp lantern candle clock phone telephone radio computer laptop
    tablet printer projector camera tripod microphone guitar violin piano flute drum trumpet accordion cello easel
    paintbrush brush palette canvas pen pencil notebook book diary envelope folder binder ruler chalkboard
    whiteboard hammer saw drill ladder rope toolbox shovel spade rake wheelbarrow hose broom mop boat canoe kayak
    ship bicycle bike car truck van bus tractor wagon cart tent kite ball racket helmet skateboard surfboard door
    gate fence roof wall mailbox parcel package telescope trowel net thermos pitcher vest robe dress skirt shirt
    sweater uniform cloth tablecloth napkin doorstep porch bookshelf bookcase wardrobe dresser counter
    workbench closet sink bathtub trolley stall kiosk booth container case tin
""")
"""Things that may have any colour, which would tell nothing of what is in them or what they do."""

_PLACES = listed("""
    kitchen pantry workshop studio bakery shop store garden park market house cottage cabin barn shed garage hall
    room office library gallery museum school classroom restaurant café cafe hotel playground backyard yard
    courtyard cellar basement attic hallway corridor station theater theatre temple church warehouse laboratory
    lab salon stable
""")
_SIZES = ("small", "big", "old")
"""Places, which have no colour, and what they get instead."""

_LOOKS = re.compile(
    r"\b(?:clear|transparent|translucent|see-through|seethrough|open|opened|opens|opening|glass|glassy|crystal|mirror\w*|"
    r"label\w*|sign|signs|marked|marking|window\w*|visible|invisible|empty|lid|lidless|tag|tags|logo|colou?r\w*|paint\w*|"
    r"dye\w*|stain\w*|rust\w*|bleach\w*|ripe\w*|rainbow|light|dark)\b",
    re.I,
)
"""Words of a sentence in which no object gets another look: it may be seen through, or its look may tell something."""

_SHAPED = re.compile(
    r"\b(?:carv|sculpt|build|built|craft|fire|fired|firing|burn|float|sink|sank|cut|saw|break|broke|crack|melt|bend|bent|"
    r"rust|wood|woods|metal|leather|plastic|ceramic|clay|mak|made|forg|mold|mould|termite)(?:s|es|ed|er|ers|e|ing|t)?\b",
    re.I,
)
"""Words of a story in which no material changes, since something happens to it or with it."""

_DETERMINER = r"(?P<determiner>\b(?:an?|the|his|her|their|my|your|our)\s+)"
_ALONE = re.compile(rf"{_DETERMINER}(?P<noun>{alternatives(_THINGS | _PLACES)})(?![\w-])", re.I)
_DETAILED = re.compile(
    rf"\b(?P<old>{alternatives({*COLOURS, *_MORE_COLOURS, *_MATERIALS})})\s+(?P<noun>{alternatives(_THINGS)})\b"
)
_FOLLOWS = re.compile(
    r"\s*(?:$|[.,;:!?]|(?:in|on|at|by|to|of|for|from|with|without|into|onto|under|over|above|behind|beside|between|near|"
    r"off|out|up|down|through|across|along|around|inside|outside|and|or|but|while|when|before|after|as|that|which|is|was|"
    r"has|had|will|can|stands|lies|hangs|sits|appears|seems|belongs|needs|falls|so|because|until|if|where)\b)"
)
"""What may follow a noun that stands by itself, so that it is not the first part of another one ("coffee shop")."""

_SEVERAL = (
    r"\b(?:two|three|four|five|several|many|some|both|other|another|second|third|different|identical|each|every)\b"
)


SHOWS = re.compile(
    r"\b(?:transparent|translucent|see-through|clear|open|opened|closed|shut|glass|label\w*|window\w*|mirror\w*|visible|"
    r"invisible|lid)\b",
    re.I,
)
"""Words by which one may see into something or learn what is in it."""


def other(text: str, kept: Sequence[str], seed: str) -> str | None:
    """The text with a detail of one object changed; None where no object is surely harmless.

    text: a story. kept: the question and the choices: nothing of what they mention is changed. seed: what the object
    and its new detail are drawn by.

    A colour or a material that the story has is exchanged for another one, everywhere; else an object gets a colour at
    its first mention, if it is mentioned by its noun alone and there is one of it; where no object may, a place gets
    a size or an age.
    """
    asked = " ".join(kept)
    for made in (_exchanged(text, asked, seed), _added(text, asked, seed)):
        if made is not None:
            return made
    return None


def _exchanged(text: str, asked: str, seed: str) -> str | None:
    """The text with one of its colours or materials exchanged; None where it has none that may be."""
    found: dict[str, str] = {}
    for match in re.finditer(
        rf"\b(?P<old>{alternatives({*COLOURS, *_MORE_COLOURS, *_MATERIALS})})\s+(?P<noun>{alternatives(_THINGS)})\b",
        text,
    ):
        found.setdefault(match["old"], match["noun"])
    for old in sorted(found, key=lambda word: _draw(seed, word)):
        sentences = [sentence for sentence in _sentences(text) if _says(old, sentence)]
        nouns = rf"(?:{re.escape(found[old])}|{re.escape(plural(found[old]))})"
        only = all(re.search(rf"\b{old}\s+{nouns}\b", sentence) for sentence in sentences)
        once = all(len(re.findall(rf"\b{old}\b", sentence)) == 1 for sentence in sentences)
        if old in _MATERIALS and _SHAPED.search(text):
            continue
        if not only or not once or _says(old, asked) or _has(found[old], asked) or any(map(_LOOKS.search, sentences)):
            continue
        if len(set(re.findall(rf"\b(\w+)\s+{nouns}\b", text)) - {"the", "a", "an", "his", "her", "their", old}):
            continue  # another object of that name may be told apart by its own detail
        choices = [word for word in _class(old) if word != old and not _says(word, f"{text} {asked}")]
        if choices:
            new = min(choices, key=lambda word: _draw(seed, old, word))
            return mended(re.sub(rf"\b{old}\b", new, text), [new])
    return None


def _class(word: str) -> tuple[str, ...]:
    """The words that may stand in the place of a colour or a material."""
    return COLOURS if word in {*COLOURS, *_MORE_COLOURS} else ("wooden", "metal", "leather", "plastic", "ceramic")


def _added(text: str, asked: str, seed: str) -> str | None:
    """The text with a colour for an object that has none; None where none may get one."""
    places = {match["noun"]: match for match in reversed(list(_plain(text, asked)))}
    if not places:
        return None
    noun = min(places, key=lambda word: (word in _PLACES, _draw(seed, word)))
    details = [word for word in (_SIZES if noun in _PLACES else COLOURS) if not _says(word, f"{text} {asked}")]
    if not details:
        return None
    match, new = places[noun], min(details, key=lambda word: _draw(seed, noun, word))
    determiner = match["determiner"]
    if determiner.strip().lower() in ("a", "an"):
        made = article(new)
        determiner = (made.capitalize() if determiner[0].isupper() else made) + determiner[len(determiner.strip()) :]
    return f"{text[: match.start()]}{determiner}{new} {match['noun']}{text[match.end() :]}"


def _plain(text: str, asked: str) -> Iterator[re.Match[str]]:
    """The first mentions of objects that may get a colour, each as determiner and noun."""
    for match in _ALONE.finditer(text):
        noun = match["noun"]
        first = re.search(rf"\b(?:{re.escape(noun)}|{re.escape(plural(noun))})\b", text, re.I)
        if first is None or first.start() != match.start("noun") or not _FOLLOWS.match(text, match.end()):
            continue
        if _has(noun, asked) or any(_LOOKS.search(one) for one in _sentences(text) if _has(noun, one)):
            continue
        if re.search(rf"\b{re.escape(plural(noun))}\b|{_SEVERAL}(?:\s+\w+)?\s+{re.escape(noun)}\b", text, re.I):
            continue
        yield match


def _says(word: str, text: str) -> bool:
    """Whether a text has this very word."""
    return re.search(rf"\b{word}\b", text, re.I) is not None


def _has(word: str, text: str) -> bool:
    """Whether a text has a word, in the singular or the plural, also as the end of another word ("sailboat")."""
    return re.search(rf"(?:{re.escape(word)}|{re.escape(plural(word))})\b", text, re.I) is not None


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+|\n", text)


def _draw(*parts: str) -> bytes:
    return hashlib.sha256("\0".join(parts).encode()).digest()
