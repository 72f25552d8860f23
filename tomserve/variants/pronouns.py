"""Pronouns: whose they are, and a text told of another gender, to the reader as "you", or by "I".

The rules are cautious: whoever is not surely meant by a pronoun, and a verb whose subject cannot be told, make a
doubt, and the text has no such version.

    >>> swap_gender("He lends Mark his key, which is not his, and asks himself who saw him.", to="woman")
    'She lends Mark her key, which is not hers, and asks herself who saw her.'
    >>> swap_gender("They watch her duck.", to="man")
    >>> sole_gender(["Noor is a cook.", "A guest sees her cap."], "Noor")
    >>> sole_gender(["Noor is a cook.", "She wipes her knife and sees a guest."], "Noor")
    'woman'
    >>> shift_person(["Noor is a cook.", "She fills her jug and puts it away."], "Noor", YOU)
    ['You are a cook.', 'You fill your jug and put it away.']
    >>> shift_person(["Noor believes that her jug is full."], "Noor", I, gender="woman")
    ['I believe that my jug is full.']
"""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from tomserve.variants.names import EITHER, GENDERED, MAN, PERSON, TITLE, WOMAN, Gender
from tomserve.variants.words import alternatives, word_set

_OF_MAN, _OF_WOMAN = ("he", "him", "his", "himself"), ("she", "her", "hers", "herself")
PRONOUN = re.compile(rf"(?<![\w'’-])(?P<word>{'|'.join((*_OF_MAN, *_OF_WOMAN))})(?![\w-])", re.I)
"""A pronoun of one man or one woman; "he's" holds one, too."""

THEY = re.compile(r"(?<![\w'’-])(?:they|them|their|theirs|themselves|themself)(?![\w-])", re.I)
"""A pronoun of several, or of one who is neither called "he" nor "she"."""

_WORD = re.compile(r"\w[\w'’-]*|[^\w\s]")

_NOBODY = re.compile(r"\b(?:farmer|baker|teacher|children|men|women)['’]s?\s+(?:market|day|dozen)", re.I)
"""Words for persons that mean a place or a number."""

_FUNCTION = word_set("function")

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

_EITHER_WAY = word_set("either_way")

_TURN = re.compile(r"turn(?:s|ed|ing)?", re.I)
_SAYS = word_set("says")

_OWN = re.compile(r"own|hands?|eyes?|head|arms?|mind|way|name|house|room|work|job|shift|turn|.*['’]s", re.I)
"""Words that are hers whatever verb stands before."""


def swap_gender(text: str, *, to: Gender | None = None) -> str | None:
    """The text with all its pronouns of a man changed to those of a woman, or the other way round.

    to: MAN or WOMAN, where all pronouns "he" or "she" are those of one person (see `sole_gender`); others stay. None
    where all persons of a story change their gender at once, so that each pronoun still means whom it meant. Returns
    None where a form cannot be told: "her" may be "him" or "his".
    """
    parts, end = [], 0
    for match in PRONOUN.finditer(text):
        old = match["word"]
        new = _other_pronoun(text, match, to or (WOMAN if old.lower() in _OF_MAN else MAN))
        if new is None:
            return None
        like = new.upper() if old.isupper() else new.capitalize() if old[0].isupper() else new
        parts += [text[end : match.start()], like]
        end = match.end()
    return "".join((*parts, text[end:]))


def _other_pronoun(text: str, match: re.Match[str], to: Gender) -> str | None:
    """The pronoun of the other gender in the place of a match; None where it cannot be told."""
    word = match["word"].lower()
    if to == WOMAN:
        known = {"he": "she", "him": "her", "himself": "herself"}
        return known.get(word) or (word if word in _OF_WOMAN else _choose_form(text, match, ("her", "hers")))
    known = {"she": "he", "hers": "his", "herself": "himself"}
    return known.get(word) or (word if word in _OF_MAN else _choose_form(text, match, ("his", "him")))


def _choose_form(text: str, match: re.Match[str], forms: tuple[str, str]) -> str | None:
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
    if _TWO_OBJECTS.fullmatch(before) and not _is_owned(text, following):
        return None
    return forms[0]


def _is_owned(text: str, following: re.Match[str]) -> bool:
    """Whether what follows "her" can only be hers: one person, who would need an article, or one of a few words."""
    person = PERSON.match(text, following.start())
    singular = person is not None and not person[0].endswith("s")
    return singular or _OWN.fullmatch(following[0]) is not None


def gender_of(text: str) -> Gender | None:
    """MAN or WOMAN where the text has pronouns of only one of them; None without any, and where it has both."""
    found = {MAN if match["word"].lower() in _OF_MAN else WOMAN for match in PRONOUN.finditer(text)}
    return found.pop() if len(found) == 1 else None


def sole_gender(story: Sequence[str], name: str, others: Collection[str] = ()) -> Gender | None:
    """MAN or WOMAN where every "he" or "she" of a story is surely one person's, and nothing else tells the gender.

    story: its sentences; those of a question or of choices may follow. name: the person's name. others: names of all
    other persons, who might be meant as well.

    A pronoun is sure where the person is named before it and nobody else has been mentioned in its sentence, nor,
    unless the person is named there, in the sentence before. None without any pronoun, with pronouns of both genders,
    and where a word such as "fisherman" or "Mrs" tells the gender in another way.
    """
    gender, named = gender_of(" ".join(story)), _any_name((name,))
    if gender is None or named is None or any(_tells(sentence, named) for sentence in story):
        return None
    return gender if all(sure for _, sure in _each(story, named, _any_name(tuple(others)))) else None


def known_gender(story: Sequence[str], name: str, others: Collection[str] = ()) -> Gender | None:
    """MAN or WOMAN where some pronouns of a story are surely that person's and all of these agree, EITHER where there
    are no pronouns, None where it is in doubt. story, name, others: as in `sole_gender`."""
    named = _any_name((name,))
    if named is None or not any(map(PRONOUN.search, story)):
        return EITHER
    found = {gender for gender, sure in _each(story, named, _any_name(tuple(others))) if sure}
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
    return any(not _OF_RELATIVES.search(sentence[: match.start()]) for match in GENDERED.finditer(sentence))


_OF_RELATIVES = re.compile(r"(?:\b(?:his|her)|['’]s)(?:\s+[\w-]+){0,2}\s+$", re.I)
"""What stands before a word for one of the person's relatives: "her younger", "Noor's"."""


@lru_cache(maxsize=4096)
def _any_name(names: tuple[str, ...]) -> re.Pattern[str] | None:
    """A pattern for any of these names; None without any."""
    return re.compile(rf"(?<!\w)(?:{alternatives(names)})(?!\w)") if any(names) else None


class PersonForms(NamedTuple):
    """The forms of a pronoun (subject, object, possessive, alone, reflexive), and of the verb "to be" with it."""

    subject: str
    object: str
    possessive: str
    alone: str
    reflexive: str
    am: str
    was: str


YOU = PersonForms("you", "you", "your", "yours", "yourself", "are", "were")
I = PersonForms("I", "me", "my", "mine", "myself", "am", "was")  # noqa: E741 - it is the word

_BEFORE_SUBJECT = word_set("before_subject")

_BREAK = re.compile(
    r"\b(?:that|which|who|whom|where|when|while|because|as|if|what|whether|so|until|since|after|before)\b"
)
"""Words that begin a clause, which may have a subject of its own."""

_ADVERB = r"(?:\w+ly|now|also|just|then|always|often|never|still|even|already|soon)"
_NO_VERB = word_set("no_verb")

_OBJECT = word_set("object")
_BELIEVES = re.compile(rf"\s*(?:{_ADVERB} )?(?:believes|thinks|knows|assumes|hopes|wishes)\b")
"""After these verbs a whole clause follows, and a further verb belongs to that clause."""

_SHORT = {"been": "'ve", "got": "'ve", "had": "'ve", "already": "'ve"}
"""What "'s" is after "he" or "she" before these words."""

_OF_A_NOUN = re.compile(r"\bher (?:can|will|might|may)\b", re.I)
"""Words that may be a noun that is hers, or a verb."""

_COORDINATED = re.compile(rf"\b(?:and|but|or)(?: then)? (?:{_ADVERB} )?(?P<verb>\w+s)\b(?= (?P<next>\w+))?")
_NAMES_APPOSITION = re.compile(rf"^(?P<who>\w+), (?:an?|the|who) [^,]+, (?:{_ADVERB} )?(?P<verb>\w+s)\b")


def shift_person(texts: Sequence[str], name: str, person: PersonForms, *, gender: Gender | None = None) -> list[str]:
    """The texts, with the person called `name` in that grammatical person.

    texts: sentences in their order. gender: of the pronouns that mean the person, where it is known from a longer text,
    EITHER where all do; None to find out from this one, where every pronoun has to be surely the person's. Raises
    ValueError with the reason where a rule is in doubt.
    """
    if any(map(PRONOUN.search, texts)):
        gender = gender or sole_gender(texts, name)
        if gender is None:
            raise ValueError("it is not sure whom a pronoun means")
    elif any(map(THEY.search, texts)) and gender is None:
        raise ValueError("they may be the person")
    made = [_shift_text(text, name, person, gender) for text in texts]
    for text in made:
        _check(text, name, person, gender)
    return made


def _shift_text(text: str, name: str, person: PersonForms, gender: Gender | None) -> str:
    text = _inflect_second_verb(text, name, person)
    text = re.sub(rf"^Does (?={re.escape(name)}\b)", "Do ", text)  # as after "you"
    text = re.sub(r"\bdoes (?=(?:she|he)\b)", "do ", text)
    if (found := _NAMES_APPOSITION.match(text)) is not None and found["who"] == name:
        text = f"{text[: found.start('verb')]}{_verb(found['verb'], person)}{text[found.end('verb') :]}"
    if gender is not None:
        text = _pronouns(text, person, gender)

    def shifted(match: re.Match[str]) -> str:
        subject = _begins_clause(text[: match.start()])
        rest = match["rest"] or ""
        if match["s"]:
            word = person.possessive
        else:
            word = person.subject if subject else person.object
            if subject and match["verb"] and not _after_do(text[: match.start()]):
                rest = rest[: len(rest) - len(match["verb"])] + _verb(match["verb"], person)
        return _like(word, text, match.start()) + rest

    named = rf"\b{re.escape(name)}(?P<s>['’]s)?(?![\w-])(?P<rest> (?:{_ADVERB} )*(?P<verb>\w+))?"
    return re.sub(named, shifted, text)


def _after_do(before: str) -> bool:
    """Whether a text ends in a verb that another one follows in its base form: "Do", "will"."""
    return re.search(r"\b(?:do|does|did|will|would|can|could|should|may|might|must)\s+$", before, re.I) is not None


def _begins_clause(before: str) -> bool:
    """Whether what follows this text is the subject of a clause."""
    stripped = before.rstrip()
    if not stripped or stripped[-1] in ",;:.!?" or _after_do(before):
        return True
    return re.split(r"\W+", stripped)[-1].lower() in _BEFORE_SUBJECT


def _pronouns(text: str, person: PersonForms, gender: Gender) -> str:
    """The text with each pronoun of that gender in the other person."""
    other = swap_gender(text, to={MAN: WOMAN, WOMAN: MAN}.get(gender))
    if other is None or _OF_A_NOUN.search(text):
        raise ValueError("it cannot be told whether a pronoun is possessive")
    parts, end = [], 0
    beside = [match["word"].lower() for match in PRONOUN.finditer(other)]
    for match, twin in zip(PRONOUN.finditer(text), beside, strict=True):
        word = match["word"].lower()
        if not _is_of(word, gender):
            continue
        parts.append(text[end : match.start()])
        end = match.end()
        if word in ("he", "she"):
            parts.append(_like(person.subject, text, match.start()))
            if (short := re.compile(r"['’]s (?P<next>\w+)").match(text, end)) is not None:
                parts.append(_spell_out(short["next"], person))
                end += 2
                continue
            rest = re.compile(rf"(?: {_ADVERB})* (?P<verb>\w+)").match(text, end)
            if rest is not None and not _after_do(text[: match.start()]):
                parts.append(text[end : rest.start("verb")] + _verb(rest["verb"], person))
                end = rest.end()
            continue
        parts.append(_like(_form(word, twin, person), text, match.start()))
    return "".join((*parts, text[end:]))


def _is_of(word: str, gender: Gender) -> bool:
    """Whether a pronoun may be one of a person of that gender."""
    return word in {MAN: _OF_MAN, WOMAN: _OF_WOMAN}.get(gender, (*_OF_MAN, *_OF_WOMAN))


def _spell_out(following: str, person: PersonForms) -> str:
    """What stands for the "'s" of "he's" before that word. Raises ValueError where it may be "is" or "has"."""
    if following.endswith("ing"):
        return "'re" if person is YOU else "'m"
    if following not in _SHORT:
        raise ValueError("it cannot be told what a short form stands for")
    return _SHORT[following]


def _form(word: str, twin: str, person: PersonForms) -> str:
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


def _inflect_second_verb(text: str, name: str, person: PersonForms) -> str:
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

    def inflected(found: re.Match[str]) -> str:
        if not _is_verb(found):
            return found[0]
        if _BREAK.search(text[start.end() : found.start()]):
            raise ValueError("it cannot be told whose second verb it is")
        return found[0].removesuffix(found["verb"]) + _verb(found["verb"], person)

    return _COORDINATED.sub(inflected, text)


def _is_verb(found: re.Match[str]) -> bool:
    word = found["verb"].lower()
    if word in _NO_VERB or word.endswith(("less", "ous")):
        return False
    return found["next"] is None or word in _BE or found["next"] in _OBJECT


_BE = {"is": "am", "was": "was", "has": "have", "does": "do", "goes": "go"}


def _verb(word: str, person: PersonForms) -> str:
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


def _check(text: str, name: str, person: PersonForms, gender: Gender | None) -> None:
    """Raise ValueError where the person is still in the text, or a verb does not fit."""
    left = gender is not None and any(_is_of(found["word"].lower(), gender) for found in PRONOUN.finditer(text))
    if left or re.search(rf"\b{re.escape(name)}\b", text):
        raise ValueError("the person is still named")
    wrong = {"is", "has", "does", *(["was"] if person.was != "was" else [])}
    if re.search(rf"\b{person.subject} (?:{_ADVERB} )?(?:{'|'.join(wrong)})\b", text, re.I):
        raise ValueError("a verb does not fit")
