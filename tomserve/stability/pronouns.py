"""Pronouns of the third person: whose they are, and a text told of a woman instead of a man, or the other way round.

Everything here is cautious: where a text leaves a doubt, the answer is None.

>>> turned("He lends Mark his key, which is not his, and asks himself who saw him.", to="woman")
'She lends Mark her key, which is not hers, and asks herself who saw her.'
>>> turned("She sees her brother. Nobody sees her.", to="man")
'He sees his brother. Nobody sees him.'
>>> turned("They watch her duck.", to="man")
>>> whose(["Noor is a cook.", "A guest sees her cap."], "Noor")
>>> whose(["Noor is a cook.", "She wipes her knife and sees a guest."], "Noor")
'woman'
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

from tomserve.stability.persons import EITHER, GENDERED, MAN, PERSON, TITLE, WOMAN, Gender
from tomserve.stability.wordlists import alternatives, listed

_OF_MAN, _OF_WOMAN = ("he", "him", "his", "himself"), ("she", "her", "hers", "herself")
PRONOUN = re.compile(rf"(?<![\w'’-])(?P<word>{'|'.join((*_OF_MAN, *_OF_WOMAN))})(?![\w-])", re.I)
"""A pronoun of one man or one woman; "he's" holds one, too."""

THEY = re.compile(r"(?<![\w'’-])(?:they|them|their|theirs|themselves|themself)(?![\w-])", re.I)
"""A pronoun of several, or of one who is neither called "he" nor "she"."""

_WORD = re.compile(r"\w[\w'’-]*|[^\w\s]")

_NOBODY = re.compile(r"\b(?:farmer|baker|teacher|children|men|women)['’]s?\s+(?:market|day|dozen)", re.I)
"""Words for persons that mean a place or a number."""

_FUNCTION = listed("""
    a an the this that these those my your our its their his her some any no every each both all another i you he
    she it we they me him us them himself herself itself themselves and or but nor so yet if whether because since
    although though while when where why how who whom whose what which than as until unless before after once in
    on at by to of for from with without within into onto upon over under above below behind beside between among
    near off out up down away through across along around about against during toward towards inside outside
    is are was were be been being am has have had does do did will would can could may might must shall should not
    never always often sometimes still just only even also too again now then soon later today yesterday tomorrow
    there here alone instead anyway together
""")
"""Words that are no beginning of what somebody owns, so that the "her" before them is somebody seen or helped. Words
that may also be adjectives, as in "her own", are left out."""

_TWO_OBJECTS = re.compile(
    r"(?:give|tell|show|teach|send|bring|offer|hand|buy|ask|call|name|make|let|help|have|sell|lend|pay|owe|read|write|"
    r"promise|serve|pass|get|find|see|watch|hear|feel|notice|observe|catch|keep|leave|spot|want|expect|consider)"
    r"(?:s|es|ing)?|gave|given|told|shown|showed|taught|sent|brought|offered|handed|bought|asked|called|named|made|"
    r"making|helped|had|having|gives|giving|sold|lent|paid|wrote|written|got|found|saw|seen|watched|heard|felt|noticed|"
    r"observed|caught|kept|left|leaving|spotted",
    re.I,
)
"""Verbs after which "her" may be a person although a word follows that could be hers: "gave her stories", "saw her
duck", "made her signature dish"."""

_EITHER_WAY = listed("back home right left best first last like past present most more very")
"""Words that may be hers, or belong to the verb before: "sends her back"."""

_TURN = re.compile(r"turn(?:s|ed|ing)?", re.I)
_SAYS = listed("""
    indicates says tells contains becomes seems appears remains belongs lies stands goes comes leaves takes gives gets
    brings keeps lets puts sees knows thinks believes wants begins starts stops ends opens closes falls breaks grows
    makes causes allows helps leads reads fits matches reveals suggests proves confirms displays
""")
"""Verbs that no noun looks like, or hardly one: "the map with her indicates"."""

_OWN = re.compile(r"own|hands?|eyes?|head|arms?|mind|way|name|house|room|work|job|shift|turn|.*['’]s", re.I)
"""Words that are hers whatever verb stands before."""


def turned(text: str, *, to: Gender) -> str | None:
    """The text with all its pronouns of a man changed to those of a woman, or the other way round.

    text: all of its pronouns "he" or "she" must be those of one person (see `whose`); others stay. to: MAN or WOMAN.
    Returns None where a form cannot be told: "her" may be "him" or "his". A text without such pronouns is unchanged.
    """
    parts, end = [], 0
    for match in PRONOUN.finditer(text):
        new = _other(text, match, to)
        if new is None:
            return None
        old = match["word"]
        like = new.upper() if old.isupper() else new.capitalize() if old[0].isupper() else new
        parts += [text[end : match.start()], like]
        end = match.end()
    return "".join((*parts, text[end:]))


def _other(text: str, match: re.Match[str], to: Gender) -> str | None:
    """The pronoun of the other gender in the place of a match; None where it cannot be told."""
    word = match["word"].lower()
    if to == WOMAN:
        known = {"he": "she", "him": "her", "himself": "herself"}
        return known.get(word) or (word if word in _OF_WOMAN else _standing(text, match, ("her", "hers")))
    known = {"she": "he", "hers": "his", "herself": "himself"}
    return known.get(word) or (word if word in _OF_MAN else _standing(text, match, ("his", "him")))


def _standing(text: str, match: re.Match[str], forms: tuple[str, str]) -> str | None:
    """The first of the two forms where a noun follows that the person owns, the second where nothing owned follows,
    None where both may be."""
    following = _WORD.match(text, match.end() + len(text[match.end() :]) - len(text[match.end() :].lstrip()))
    if following is None or not following[0][0].isalnum():
        return forms[1]
    word = following[0].replace("’", "'").partition("'")[0].lower()
    if word in _FUNCTION:
        return forms[1]
    if match["word"].lower() == "his":
        return forms[0]
    if following[0][0].isupper() or word in ("right", "wrong") or re.fullmatch(r"(?!red$|bed$)\w+ed", word):
        return None  # "next to her Ann sat", "with her right there", "the one before her emptied it"
    before = (_WORD.findall(text[: match.start()])[-1:] or [""])[0]
    word = following[0].lower()
    if word in _EITHER_WAY:
        return forms[0] if word == "back" and _TURN.fullmatch(before) else None
    if word in _SAYS:
        return forms[1]
    if _TWO_OBJECTS.fullmatch(before) and not _owned(text, following):
        return None
    return forms[0]


def _owned(text: str, following: re.Match[str]) -> bool:
    """Whether what follows "her" can only be hers: one person, who would need an article, or one of a few words."""
    person = PERSON.match(text, following.start())
    singular = person is not None and not person[0].endswith("s")
    return singular or _OWN.fullmatch(following[0]) is not None


def gender_of(text: str) -> Gender | None:
    """MAN or WOMAN where the text has pronouns of only one of them; None without any, and where it has both."""
    found = {MAN if match["word"].lower() in _OF_MAN else WOMAN for match in PRONOUN.finditer(text)}
    return found.pop() if len(found) == 1 else None


def whose(story: Sequence[str], name: str, others: Collection[str] = ()) -> Gender | None:
    """MAN or WOMAN where every "he" or "she" of a story is surely one person's, and nothing else tells the gender.

    story: its sentences; those of a question or of choices may follow. name: the person's name. others: names of all
    other persons, who might be meant as well.

    A pronoun is sure where the person is named before it and nobody else has been mentioned in its sentence, nor,
    unless the person is named there, in the sentence before. None without any pronoun, with pronouns of both genders,
    and where a word such as "fisherman" or "Mrs" tells the gender in another way.
    """
    gender, named = gender_of(" ".join(story)), _named((name,))
    if gender is None or named is None or any(_tells(sentence, named) for sentence in story):
        return None
    return gender if all(sure for _, sure in _each(story, named, _named(others))) else None


def known(story: Sequence[str], name: str, others: Collection[str] = ()) -> Gender | None:
    """MAN or WOMAN where some pronouns of a story are surely that person's and all of these agree, EITHER where there
    are no pronouns, None where it is in doubt. story, name, others: as in `whose`."""
    named = _named((name,))
    if named is None or not any(map(PRONOUN.search, story)):
        return EITHER
    found = {gender for gender, sure in _each(story, named, _named(others)) if sure}
    return found.pop() if len(found) == 1 else None


def _each(
    story: Sequence[str], named: re.Pattern[str], others: re.Pattern[str] | None
) -> Iterator[tuple[Gender, bool]]:
    """For each pronoun of the story its gender, and whether it is surely that person's."""
    about = alone = True  # whether the sentence before is about the person alone; whether nobody else was mentioned yet
    mentioned = False
    for sentence in story:
        for match in PRONOUN.finditer(sentence):
            here = named.search(sentence, 0, match.start()) is not None
            sure = here or (mentioned and (about or alone))
            sure = sure and not _somebody_else(sentence, match.start(), named, others)
            yield MAN if match["word"].lower() in _OF_MAN else WOMAN, sure
        mentioned = mentioned or named.search(sentence) is not None
        else_here = _somebody_else(sentence, len(sentence), named, others)
        about = not else_here and (named.search(sentence) is not None or PRONOUN.search(sentence) is not None)
        alone = alone and not else_here


_ROLE = re.compile(
    r"(?:is|was|works|working|serves|serving|acts|studies|job|employed|trained)\s+(?:as\s+)?(?:an?|the)\s+[^,.;]*?$|"
    r",\s+(?:an?|the)\s+[^,.;]*?$|\bas\s+(?:an?|the)\s+[^,.;]*?$"
)
"""What stands before a word that says what the person is: "Noor is a skilled", "working as a", ", a"."""


def _somebody_else(text: str, end: int, named: re.Pattern[str], others: re.Pattern[str] | None) -> bool:
    """Whether a text speaks, before that place, of a person besides the named one. What this one is said to be ("a
    skilled chef") is not somebody else."""
    if others is not None and others.search(text, 0, end):
        return True
    for start, stop in _persons(text):
        if stop > end:
            return False
        before = text[:start]
        owner = named.search(before) is not None or PRONOUN.match(text.lstrip()) is not None
        if not owner or not _ROLE.search(before) or text.startswith(("'s ", "’s "), stop):
            return True
    return False


@lru_cache(maxsize=4096)
def _persons(text: str) -> tuple[tuple[int, int], ...]:
    """Where the words for persons begin and end in a text."""
    text = _NOBODY.sub(lambda match: " " * len(match[0]), text)
    return tuple(match.span() for match in PERSON.finditer(text))


_HINTS = re.compile(
    r"\b(?:pregnan\w*|beard\w*|mo?ustache\w*|maternity|paternity|husband|wife|boyfriend|girlfriend|bride|groom|lipstick)\b",
    re.I,
)
"""Words that make one gender likely, although they are no words for the person."""


def _tells(sentence: str, named: re.Pattern[str]) -> bool:
    """Whether a sentence tells the person's gender by another word than a pronoun."""
    if _HINTS.search(sentence) or any(TITLE.search(sentence[: match.start()]) for match in named.finditer(sentence)):
        return True
    return any(not _related(sentence[: match.start()]) for match in GENDERED.finditer(sentence))


def _related(before: str) -> bool:
    """Whether the word after this text is one of the person's relatives: "her younger", "Noor's"."""
    return re.search(r"(?:\b(?:his|her)|['’]s)(?:\s+[\w-]+){0,2}\s+$", before, re.I) is not None


def _named(names: Collection[str]) -> re.Pattern[str] | None:
    return _pattern(tuple(names))


@lru_cache(maxsize=4096)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str] | None:
    """A pattern for any of these names; None without any."""
    return re.compile(rf"(?<!\w)(?:{alternatives(names)})(?!\w)") if any(names) else None


def mirrored(text: str) -> str | None:
    """The text with every pronoun of a man changed to that of a woman and every pronoun of a woman to that of a man.

    Where all persons of a story change their gender at once, each pronoun still means whom it meant, whoever that is.
    Returns None where a form cannot be told, as in `turned`.
    """
    parts, end = [], 0
    for match in PRONOUN.finditer(text):
        new = _other(text, match, WOMAN if match["word"].lower() in _OF_MAN else MAN)
        if new is None:
            return None
        parts += [text[end : match.start()], new.capitalize() if match["word"][0].isupper() else new]
        end = match.end()
    return "".join((*parts, text[end:]))
