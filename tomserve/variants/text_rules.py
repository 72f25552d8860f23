"""Rule-based variants from text alone: another person, another detail of an object, another order of sentences.

The rules are cautious: what they are not sure of they leave to a rewriter (tomserve.variants.rewriter), by raising
InapplicableError. All questions about one story get the same retold story wherever the rules need not look at the
question.

    >>> item = Item(id="q", story=["Ann is a cook.", "Ann drops her pan."], question="What does Ann think?",
    ...             choices=["Ann's pan fell", "it did not"], answer="Ann's pan fell")
    >>> retell(item, PERSON).story
    ('Nuwan is a cook.', 'Nuwan drops his pan.')
    >>> change_detail("Ann puts the box on the chair.", ("Where is the box?",), "seed")
    'Ann puts the box on the purple chair.'
    >>> find_swaps(("The jar stands on the shelf.", "A lamp hangs above the door.", "Ann sits down.", "She smiles."))
    (0,)
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from tomserve.errors import InapplicableError
from tomserve.items import Item
from tomserve.items.draw import seeded_rank
from tomserve.variants import OBJECT, ORDER, PERSON, RULES, Kind, make_variant, names, pronouns, remember_reasons
from tomserve.variants.names import MAN, TITLE, WOMAN, Gender
from tomserve.variants.names import PERSON as PERSON_NOUN
from tomserve.variants.words import NameReplacer, alternatives, article, fix_articles, plural, word_set

COLOURS = ("red", "blue", "green", "yellow", "brown", "grey", "purple", "orange")
"""Colours that an object gets."""

_MORE_COLOURS = word_set("more_colours")
_MATERIALS = word_set("materials")

_THINGS = word_set("things")

_PLACES = word_set("places")
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


def change_detail(text: str, kept: Sequence[str], seed: str) -> str | None:
    """The text with a detail of one object changed; None where no object is surely harmless.

    kept: the question and the choices, of which nothing is changed that they mention. seed: what is drawn by.

    A colour or a material that the story has is exchanged for another one, everywhere; else an object gets a colour at
    its first mention, if it is mentioned by its noun alone and there is one of it; where none may, a place gets a size.
    """
    asked = " ".join(kept)
    return _exchange_detail(text, asked, seed) or _add_detail(text, asked, seed)


def _exchange_detail(text: str, asked: str, seed: str) -> str | None:
    """The text with one of its colours or materials exchanged; None where it has none that may be."""
    found: dict[str, str] = {}
    for match in re.finditer(
        rf"\b(?P<old>{alternatives({*COLOURS, *_MORE_COLOURS, *_MATERIALS})})\s+(?P<noun>{alternatives(_THINGS)})\b",
        text,
    ):
        found.setdefault(match["old"], match["noun"])
    for old in sorted(found, key=lambda word: seeded_rank(seed, word)):
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
        # the words that may stand in the place of a colour or a material
        alike = COLOURS if old in {*COLOURS, *_MORE_COLOURS} else ("wooden", "metal", "leather", "plastic", "ceramic")
        choices = [word for word in alike if word != old and not _says(word, f"{text} {asked}")]
        if choices:
            new = min(choices, key=lambda word: seeded_rank(seed, old, word))
            return fix_articles(re.sub(rf"\b{old}\b", new, text), [new])
    return None


def _add_detail(text: str, asked: str, seed: str) -> str | None:
    """The text with a colour for an object that has none; None where none may get one."""
    places = {match["noun"]: match for match in reversed(list(_plain(text, asked)))}
    if not places:
        return None
    noun = min(places, key=lambda word: (word in _PLACES, seeded_rank(seed, word)))
    details = [word for word in (_SIZES if noun in _PLACES else COLOURS) if not _says(word, f"{text} {asked}")]
    if not details:
        return None
    match, new = places[noun], min(details, key=lambda word: seeded_rank(seed, noun, word))
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


_WORD = re.compile(r"[^\W\d_][\w-]*(?:['’]\w+)?")

_LINKS = word_set("links")

_LEANS = word_set("leans")

_TIME = word_set("time")

_ABOUT = word_set("about")

_EXPLETIVE = re.compile(
    r"^It(?:['’]s| is| was)\s+(?:\w+\s+)?(?:raining|snowing|sunny|cold|warm|hot|dark|late|early|windy|"
    r"monday|tuesday|wednesday|thursday|friday|saturday|sunday|winter|summer|spring|autumn)\b",
    re.I,
)

_THAT = re.compile(
    r"\bthat['’]s\b|\bthat (?:is|was) (?:where|why|what|how|when|who)\b|"
    r"\b(?:about|after|at|before|behind|beside|by|for|from|into|of|on|to|under|with|without) that\b(?! [\w-]+ed\b)",
    re.I,
)
"""A "that" that points back instead of linking two parts: "Ben says that's where it is", "after that"."""

_COMMON = word_set("common")


@lru_cache(maxsize=1024)
def find_swaps(sentences: tuple[str, ...], known: frozenset[str] = frozenset()) -> tuple[int, ...]:
    """Places t (from 0) of sentences that may change places with the sentence after them; each by itself.

    sentences: the whole story. known: words that need no introduction, such as the labels, in small letters. Two
    neighbours may change places where

    - neither of them, nor the sentence after them, leans on what comes before it (see `leans_on_context`),
    - they do not share a word whose first mention in the story is in one of them, as the first may introduce what the
      second speaks of,
    - they are not both dated.
    """
    words = [content_words(sentence) for sentence in sentences]
    leaning = [*map(leans_on_context, sentences), False]
    free, before = [], set(known)
    for place in range(len(sentences) - 1):
        dated = names_a_time(sentences[place]) and names_a_time(sentences[place + 1])
        if not (any(leaning[place : place + 3]) or words[place] & words[place + 1] - before or dated):
            free.append(place)
        before |= words[place]
    return tuple(free)


def choose_swaps(places: Iterable[int]) -> tuple[int, ...]:
    """Of such places as many as can be exchanged together, from the first on: no sentence takes part in two exchanges,
    and the sentence after an exchanged pair, which was looked at as what follows it, begins none either."""
    taken: list[int] = []
    for place in sorted(places):
        if not taken or place > taken[-1] + 2:
            taken.append(place)
    return tuple(taken)


def swap_order(count: int, places: Iterable[int]) -> tuple[int, ...]:
    """The order of `count` sentences after each of the sentences at these places changed with the one after it: for
    each new place the old one. Raises ValueError where a sentence would take part in two exchanges."""
    order = list(range(count))
    for place in places:
        if order[place] != place or order[place + 1] != place + 1:
            raise ValueError(f"sentence {place + 1} takes part in two exchanges")
        order[place], order[place + 1] = place + 1, place
    return tuple(order)


def leans_on_context(sentence: str) -> bool:
    """Whether a sentence leans on what comes before it: by a pronoun of something or somebody that it does not name
    first, or by a word of order or contrast."""
    if _EXPLETIVE.match(sentence):
        return False
    if _THAT.search(sentence):
        return True
    named = False
    for number, match in enumerate(_WORD.finditer(sentence)):
        word = match[0]
        small = word.lower().partition("'")[0].partition("’")[0]
        if small in _ABOUT and not named:
            return True
        if small in _LEANS or (number == 0 and small in _LINKS):
            return True
        # A capital letter inside a sentence is a name; at its beginning it may be any word.
        named = named or (word[0].isupper() and (number > 0 or small not in _COMMON))
    return False


def names_a_time(sentence: str) -> bool:
    """Whether a sentence says when something happens."""
    return any(word.lower() in _TIME for word in _WORD.findall(sentence)) or re.search(r"\d", sentence) is not None


def content_words(sentence: str) -> frozenset[str]:
    """The words of a sentence by which another may refer to it, in small letters and without the endings of plurals
    and possessives."""
    words = (word.lower().replace("’", "'").removesuffix("'s") for word in _WORD.findall(sentence))
    return frozenset(_stem(word) for word in words if word not in _COMMON | _LEANS | _LINKS)


def _stem(word: str) -> str:
    if re.search(r"(?:x|ch|sh|ss|z)es$", word):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word


NEEDS_REWRITER = "a text alone is put in other words by a rewriter only"
LONGEST_SENTENCE, LONGEST_STORY = 5_000, 50_000  # characters of a text that rules retell
TOO_LONG = f"rules retell texts of at most {LONGEST_STORY:,} characters, {LONGEST_SENTENCE:,} in a sentence"
NO_NAME = "no person of the text has a name"
UNSURE_NAME = "it is not sure which words are the person's name"
UNSURE_PRONOUNS = "it is not sure whose the pronouns are"
NO_NEW_NAME = "no name is left that begins like no other word"
NO_DETAIL = "no object of the text surely bears on nothing"
NO_ORDER = "no sentence of the text can surely change its place"
"""Reasons for which rules drop a variant of a text."""


def retell(item: Item, kind: Kind) -> Item:
    """The variant of that kind. Raises InapplicableError where no rule is sure of it, and as `refuse_long`."""
    refuse_long(item)
    if kind is PERSON:
        return _of_person(item)
    if kind is OBJECT:
        kept = (item.question, *item.choices)
        return make_variant(item, OBJECT, by=RULES, story=_change_story_detail(item.story, kept, item.cluster))
    if kind is ORDER:
        return make_variant(item, ORDER, by=RULES, story=_reorder(item.story))
    raise InapplicableError(NEEDS_REWRITER)


def refuse_long(item: Item) -> None:
    """Raise InapplicableError for a text that is too long for rules, which take time by the square of a sentence's
    length."""
    texts = (*item.story, item.question, *item.choices)
    if max(map(len, texts)) > LONGEST_SENTENCE or sum(map(len, texts)) > LONGEST_STORY:
        raise InapplicableError(TOO_LONG)


class Cast(NamedTuple):
    """Who a story's person becomes. old, new: the two names. gender: MAN or WOMAN where the pronouns are turned to
    those of one, None where they stay. others: the names of the other persons."""

    old: str
    new: str
    gender: Gender | None
    others: tuple[str, ...]

    def tell(self, text: str) -> str:
        """A text of the story, its question or its choices with the new person in it."""
        made = pronouns.swap_gender(text, to=self.gender) if self.gender is not None else text
        return NameReplacer({self.old: self.new}).replace_all(text if made is None else made)


def _of_person(item: Item) -> Item:
    """The item with another person in the place of its protagonist."""
    old, asked = find_protagonist(item), (item.question, *item.choices)
    cast, story = _recast(item.story, old, item.cluster, True)
    if cast.gender is not None and not _sure(item.story, asked, cast):
        cast, story = _recast(item.story, old, item.cluster, False)
    question, *choices = map(cast.tell, asked)
    # A name that is a common word, too, as in "Will Will go?", cannot be told from it at the beginning of a sentence.
    word = any(names.occurs(old.lower(), text) for text in (*item.story, *asked))
    if word or any(names.occurs(one, text) for one in (old, old.upper()) for text in (*story, question, *choices)):
        raise InapplicableError(UNSURE_NAME)
    return make_variant(item, PERSON, by=RULES, story=story, question=question, choices=choices)


def _sure(story: Sequence[str], asked: Sequence[str], cast: Cast) -> bool:
    """Whether the pronouns of the question and the choices, each of which follows the story by itself, are surely the
    person's and can be turned."""
    before = pronouns.gender_of(" ".join(story))
    return all(
        pronouns.swap_gender(text, to=cast.gender) is not None
        and pronouns.sole_gender((*story, text), cast.old, cast.others) == before
        for text in filter(pronouns.PRONOUN.search, asked)
    )


def find_protagonist(item: Item) -> str:
    """The name of the person whom the question or a choice names; else the first of the story."""
    of_story = _people(item.story)
    asked = (item.question, *item.choices)
    for name in (*of_story, *names.names_asked_about(item.question, item.story)):
        if any(names.occurs(name, text) for text in asked):
            return name
    if not of_story:
        raise InapplicableError(NO_NAME)
    return of_story[0]


@lru_cache(maxsize=4096)
def _people(story: tuple[str, ...]) -> tuple[str, ...]:
    return names.find_people(story)


@remember_reasons(4096)
def _recast(story: tuple[str, ...], old: str, seed: str, turn: bool) -> tuple[Cast, tuple[str, ...]]:
    """Who the person becomes, and the story told of that one. turn: whether pronouns are turned where they are sure."""
    found = dict.fromkeys((*_people(story), *names.find_possible_names(story), *sorted(names.find_openers(story))))
    others = tuple(name for name in found if name not in old.split(" "))
    if are_alike(old, others) or _has_title(old, story):
        raise InapplicableError(UNSURE_NAME)
    gender = pronouns.known_gender(story, old, others)
    if gender is None:
        raise InapplicableError(UNSURE_PRONOUNS)
    turned = {MAN: WOMAN, WOMAN: MAN}.get(pronouns.sole_gender(story, old, others) or "") if turn else None
    if turned is not None and any(pronouns.swap_gender(sentence, to=turned) is None for sentence in story):
        turned = None
    made = names.choose_names([(old, turned or gender)], seed, names.find_capitalised(story))
    if made is None:
        raise InapplicableError(NO_NEW_NAME)
    cast = Cast(old, made[old], turned, others)
    return cast, tuple(map(cast.tell, story))


def are_alike(old: str, others: Sequence[str]) -> bool:
    """Whether another name is nearly the same: a longer form of it, or a slip of the pen."""
    parts = set(old.split(" "))
    return any(parts & set(one.split(" ")) or difflib.SequenceMatcher(None, old, one).ratio() > 0.7 for one in others)


def _has_title(old: str, story: Sequence[str]) -> bool:
    """Whether the name stands after a title such as "Mrs", or before a further name."""
    text = "\n".join(story)
    found = re.finditer(rf"(?<![\w-]){re.escape(old)}(?![\w-])(?P<more> [A-Z]\w+)?", text)
    return any(match["more"] or TITLE.search(text[: match.start()]) for match in found)


@remember_reasons(4096)
def _change_story_detail(story: tuple[str, ...], kept: tuple[str, ...], seed: str) -> tuple[str, ...]:
    """The story with another detail of an object."""
    made = change_detail("\n".join(story), kept, seed)
    if made is None:
        raise InapplicableError(NO_DETAIL)
    return tuple(made.split("\n"))


_SCENERY = re.compile(
    r"(?:An?|The|There|Two|Three|Some|On|In|Beside|Near|Above|Below|Under|Behind|It)\b.*"
    r"\b(?:is|are|stands?|lies?|hangs?|sits?|leans?)\b(?!\s+(?:\w+ed|\w+ing|taken|put|told|brought|seen|hidden|lost|not)\b)"
)
"""How a sentence begins and goes on that only says what is where or how something is."""


@remember_reasons(4096)
def _reorder(story: tuple[str, ...]) -> tuple[str, ...]:
    """The story with sentences of scenery in another order: those before anybody is mentioned and anything happens."""
    people = _people(story)
    scenery = 0
    for sentence in story:
        somebody = PERSON_NOUN.search(sentence) or any(names.occurs(name, sentence) for name in people)
        if somebody or not _SCENERY.match(sentence):
            break
        scenery += 1
    places = choose_swaps(place for place in find_swaps(story) if place + 1 < scenery)
    if not places:
        raise InapplicableError(NO_ORDER)
    return tuple(story[place] for place in swap_order(len(story), places))
