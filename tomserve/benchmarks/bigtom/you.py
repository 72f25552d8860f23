"""A text about a person, told to the reader as that person ("you"), or said by that person ("I").

The rules are cautious: whoever is not surely meant by a pronoun, and a verb whose subject cannot be told, make a doubt,
and the text has no such version.

>>> told(["Noor is a cook.", "She fills her jug and puts it away."], "Noor", YOU)
['You are a cook.', 'You fill your jug and put it away.']
>>> told(["Noor believes that her jug is full."], "Noor", I, gender="woman")
['I believe that my jug is full.']
>>> told(["Noor sees a guest.", "She waves."], "Noor", YOU)
Traceback (most recent call last):
...
ValueError: it is not sure whom a pronoun means
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tomserve.stability.persons import MAN, WOMAN, Gender
from tomserve.stability.pronouns import PRONOUN, THEY, turned, whose
from tomserve.stability.wordlists import listed


class Person(NamedTuple):
    """The forms of a pronoun (subject, object, possessive, alone, reflexive), and of the verb "to be" with it."""

    subject: str
    object: str
    possessive: str
    alone: str
    reflexive: str
    am: str
    was: str


YOU = Person("you", "you", "your", "yours", "yourself", "are", "were")
I = Person("I", "me", "my", "mine", "myself", "am", "was")  # noqa: E741 - it is the word

_BEFORE_SUBJECT = listed("""
    while when as that because after before if and but or until since where though although so once whenever which
    what whether however than suddenly unbeknownst later meanwhile
""")
"""Words after which a name is the subject of a clause."""

_BREAK = re.compile(
    r"\b(?:that|which|who|whom|where|when|while|because|as|if|what|whether|so|until|since|after|before)\b"
)
"""Words that begin a clause, which may have a subject of its own."""

_ADVERB = r"(?:\w+ly|now|also|just|then|always|often|never|still|even|already|soon)"
_NO_VERB = listed("""
    its his this as less various always perhaps flowers vegetables imperfections debris sultanas lifeless dangerous
    flawless delicious precious spacious gorgeous famous glasses scissors lens bus pass
""")
"""Words that end in -s after "and" and are no verbs; others there are taken for verbs only before one of _OBJECT."""

_OBJECT = listed("""
    it them her his him their its the a an that this some to on in into for from at with if how one all time clear
""")
_BELIEVES = re.compile(rf"\s*(?:{_ADVERB} )?(?:believes|thinks|knows|assumes|hopes|wishes)\b")
"""After these verbs a whole clause follows, and a further verb belongs to that clause."""

_SHORT = {"been": "'ve", "got": "'ve", "had": "'ve", "already": "'ve"}
"""What "'s" is after "he" or "she" before these words."""

_OF_A_NOUN = re.compile(r"\bher (?:can|will|might|may)\b", re.I)
"""Words that may be a noun that is hers, or a verb."""

_COORDINATED = re.compile(rf"\b(?:and|but|or)(?: then)? (?:{_ADVERB} )?(?P<verb>\w+s)\b(?= (?P<next>\w+))?")
_NAMES_APPOSITION = re.compile(rf"^(?P<who>\w+), (?:an?|the|who) [^,]+, (?:{_ADVERB} )?(?P<verb>\w+s)\b")


def told(texts: Sequence[str], name: str, person: Person, *, gender: Gender | None = None) -> list[str]:
    """The texts, with the person called `name` in that grammatical person.

    texts: sentences in their order. gender: of the pronouns that mean the person, where it is known from a longer text;
    None to find out from this one, where every pronoun has to be surely the person's. Raises ValueError with the reason
    where a rule is in doubt.
    """
    if any(map(PRONOUN.search, texts)):
        gender = gender or whose(texts, name)
        if gender is None:
            raise ValueError("it is not sure whom a pronoun means")
    elif any(map(THEY.search, texts)) and gender is None:
        raise ValueError("they may be the person")
    made = [_retold(text, name, person, gender) for text in texts]
    for text in made:
        _check(text, name, person, gender)
    return made


def _retold(text: str, name: str, person: Person, gender: Gender | None) -> str:
    text = _coordinated(text, name, person)
    text = _question(text, name)
    if (found := _NAMES_APPOSITION.match(text)) is not None and found["who"] == name:
        text = f"{text[: found.start('verb')]}{_verb(found['verb'], person)}{text[found.end('verb') :]}"
    if gender is not None:
        text = _pronouns(text, person, gender)
    named = re.compile(rf"\b{re.escape(name)}(?P<s>['’]s)?(?![\w-])(?P<rest> (?:{_ADVERB} )*(?P<verb>\w+))?")
    parts, end = [], 0
    for match in named.finditer(text):
        parts.append(text[end : match.start()])
        subject = _begins_clause(text[: match.start()])
        rest = match["rest"] or ""
        if match["s"]:
            word = person.possessive
        else:
            word = person.subject if subject else person.object
            if subject and match["verb"] and not _after_do(text[: match.start()]):
                rest = rest[: len(rest) - len(match["verb"])] + _verb(match["verb"], person)
        parts.append(_like(word, text, match.start()) + rest)
        end = match.end()
    return "".join((*parts, text[end:]))


def _question(text: str, name: str) -> str:
    """A question about the person with the verb "do" as after "you"."""
    text = re.sub(rf"^Does (?={re.escape(name)}\b)", "Do ", text)
    return re.sub(r"\bdoes (?=(?:she|he)\b)", "do ", text)


def _after_do(before: str) -> bool:
    """Whether a text ends in a verb that another one follows in its base form: "Do", "will"."""
    return re.search(r"\b(?:do|does|did|will|would|can|could|should|may|might|must)\s+$", before, re.I) is not None


def _begins_clause(before: str) -> bool:
    """Whether what follows this text is the subject of a clause."""
    stripped = before.rstrip()
    if not stripped or stripped[-1] in ",;:.!?" or _after_do(before):
        return True
    return re.split(r"\W+", stripped)[-1].lower() in _BEFORE_SUBJECT


def _pronouns(text: str, person: Person, gender: Gender) -> str:
    """The text with each pronoun of that gender in the other person."""
    other = turned(text, to=WOMAN if gender == MAN else MAN)
    if other is None or _OF_A_NOUN.search(text):
        raise ValueError("it cannot be told whether a pronoun is possessive")
    parts, end = [], 0
    beside = [match["word"].lower() for match in PRONOUN.finditer(other)]
    for match, twin in zip(PRONOUN.finditer(text), beside, strict=True):
        word = match["word"].lower()
        parts.append(text[end : match.start()])
        end = match.end()
        if word in ("he", "she"):
            parts.append(_like(person.subject, text, match.start()))
            if (short := re.compile(r"['’]s (?P<next>\w+)").match(text, end)) is not None:
                parts.append(_shortened(short["next"], person))
                end += 2
                continue
            rest = re.compile(rf"(?: {_ADVERB})* (?P<verb>\w+)").match(text, end)
            if rest is not None and not _after_do(text[: match.start()]):
                parts.append(text[end : rest.start("verb")] + _verb(rest["verb"], person))
                end = rest.end()
            continue
        parts.append(_like(_form(word, twin, person), text, match.start()))
    return "".join((*parts, text[end:]))


def _shortened(following: str, person: Person) -> str:
    """What stands for the "'s" of "he's" before that word. Raises ValueError where it may be "is" or "has"."""
    if following.endswith("ing"):
        return "'re" if person is YOU else "'m"
    if following not in _SHORT:
        raise ValueError("it cannot be told what a short form stands for")
    return _SHORT[following]


def _form(word: str, twin: str, person: Person) -> str:
    """The form for a pronoun that is no subject. twin: the pronoun of the other gender in its place."""
    if word in ("himself", "herself"):
        return person.reflexive
    if "him" in (word, twin):
        return person.object
    return person.alone if "hers" in (word, twin) else person.possessive


def _like(word: str, text: str, place: int) -> str:
    """The word with a capital letter where it begins a sentence."""
    start = not text[:place].strip() or re.search(r"[.!?]\s+$", text[:place]) is not None
    return word[0].upper() + word[1:] if start else word


def _coordinated(text: str, name: str, person: Person) -> str:
    """The text with a second verb of the person ("and puts it away") in its form. Raises ValueError in doubt."""
    start = re.match(rf"(?:Today, )?(?:{re.escape(name)}|She|He)\b(?!['’]s)", text)
    if start is None:
        subject = re.search(rf"\b(?:{re.escape(name)}|she|he) (?:{_ADVERB} )?\w+s\b", text)
        later = subject and next(
            (found for found in _COORDINATED.finditer(text, subject.end()) if _is_verb(found)), None
        )
        if subject and later and "," not in text[subject.end() : later.start()]:
            raise ValueError("it cannot be told whose second verb it is")
        return text
    if _BELIEVES.match(text, start.end()):
        return text
    parts, end = [], 0
    for found in _COORDINATED.finditer(text):
        if not _is_verb(found):
            continue
        if _BREAK.search(text[start.end() : found.start()]):
            raise ValueError("it cannot be told whose second verb it is")
        parts += [text[end : found.start("verb")], _verb(found["verb"], person)]
        end = found.end("verb")
    return "".join((*parts, text[end:]))


def _is_verb(found: re.Match[str]) -> bool:
    word = found["verb"].lower()
    if word in _NO_VERB or word.endswith(("less", "ous")):
        return False
    return found["next"] is None or word in _BE or found["next"] in _OBJECT


_BE = {"is": "am", "was": "was", "has": "have", "does": "do", "goes": "go"}


def _verb(word: str, person: Person) -> str:
    """A verb as it stands after that person; a word that is no verb of the third person stays."""
    lower = word.lower()
    if lower in ("is", "was"):
        return person.am if lower == "is" else person.was
    if lower in _BE:
        return _BE[lower]
    if not lower.endswith("s") or lower.endswith("ss"):
        return word
    if lower.endswith("ies") and len(lower) > len("lies"):
        return f"{word[:-3]}y"
    return word[:-2] if re.search(r"(?:ss|sh|ch|x|zz)es$", lower) else word[:-1]


def _check(text: str, name: str, person: Person, gender: Gender | None) -> None:
    """Raise ValueError where the person is still in the text, or a verb does not fit."""
    if re.search(rf"\b{re.escape(name)}\b", text) or (gender is not None and PRONOUN.search(text)):
        raise ValueError("the person is still named")
    wrong = {"is", "has", "does", *(["was"] if person.was != "was" else [])}
    if re.search(rf"\b{person.subject} (?:{_ADVERB} )?(?:{'|'.join(wrong)})\b", text, re.I):
        raise ValueError("a verb does not fit")
