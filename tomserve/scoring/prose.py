"""Read prose: what it states as its answer, and what its clauses assert and exclude about the question.

A clause asserts the choices that it names, excludes them ("and no", "not in", "rather than"), or does neither: asides
("because"), and what is supposed, asked or doubted. What it asserts ranks by how well it answers, from STATED to LOOSE;
past states, who moved or saw what, labels, and what others think have no rank.

| rung      | read | wrong | the text                                                                                 |
|-----------|------|-------|------------------------------------------------------------------------------------------|
| stated    |  224 |     3 | states its answer, each time the same, or another in the end after taking back others    |
| first     |  138 |     1 | begins with a choice ("B. blue_box", "blue_box because ...", "B" in its line), explained |
| last      |  114 |     0 | ends with one, in a line or sentence of its own, or at the beginning of the last line    |
| concluded |   83 |     1 | asserts one of whom the question asks, in a sentence that concludes ("so", "therefore")  |
| echoed    |  296 |     3 | asserts one of whom the question asks ("Ann thinks that Bo thinks it is in the box")     |
| settled   |   68 |     4 | asserts one in clauses that may answer the question ("she would look in the blue box")   |
| sole      |  101 |     5 | asserts one choice and no other, without doubt, in whatever words                        |

(Of 1,024 replies of bench/, by `bench/reading.py`.) What is stated decides; of the others those above "settled" have
to agree, and the last two read no clause that tells something else ("buys a walnut"). Of a text that breaks off its
beginning is read, and whole sentences. What a text denies is not its answer. Other words for not knowing name
"unknown".
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from tomserve.scoring.labels import (
    BOTH,
    DENIED_AFTER,
    LETTER,
    MARKS,
    LetteredChoices,
    Mention,
    edge_choice,
    find_mentions,
    leading_choice,
    list_options,
    prefer_words,
    remove_choices,
    settle_letters,
)
from tomserve.scoring.thoughts import find_tags

THEREFORE = re.compile(
    r"\W*(?:(?:and|but) )?(?:therefore|thus|so|hence|consequently|accordingly|in conclusion|to conclude|as a result|"
    r"in summary|to sum up|to summarize|overall|ultimately|in the end|finally|this means|that means|which means|"
    r"it follows|we can conclude|we conclude|i conclude|conclusion|based on (?:this|these|that|the|all)|"
    r"given (?:this|these|that|the|all)|from (?:this|these|that)|because of (?:this|that)|tl;?dr"
    r"|for (?:this|these) reasons?|i(?:['\u2019]d| would) say|i (?:think|believe)|i(?:['\u2019]m| am) confident)\b",
    re.I,
)
INNER = re.compile(
    r"(?i)(?:[,;:.]|\s?[\u2013\u2014\u2192-]| and) (?:so|therefore|thus|hence|consequently|which (?:means|leaves"
    r"|makes)|meaning)(?: that)?,? "
)
NECESSARY = re.compile(
    r"\b(?:it|this|that|which) (?:has to|must|can only) be\b|\b(?:that|this|which) (?:leaves|gives|makes)\b"
    r"|\bmust (?:still )?(?:think|believe|be)\b|\bin the end\b|\bso it(?:['\u2019]s| is)\b"
    r"|\b(?:i|we)(?:['\u2019]d|['\u2019]ll| would| will) (?:say|expect|conclude)\b"
)
SUPPOSED = re.compile(
    r"^\W*(?:if(?! you haven)|had|were|unless|suppose|supposing|assuming|should|even if)\b|\b(?:would|could"
    r"|might) (?:then |also |only |still )?have\b|\botherwise\b|\b(?:first|initial|usual|typical|obvious|intuitive"
    r"|naive|tempting|wrong) (?:instinct|thought|impression|guess|reading|answer)\b|\bi (?:first|initially|almost"
    r"|nearly) (?:wanted|thought|was|said|guessed)\b|\bwant(?:s|ed)? to (?:know|see)\b|\bone might (?:think|say"
    r"|expect)\b|\b(?:tempt(?:ed|ing)|at first (?:glance|sight)|normally|usually|typically)\b"
)
PAST = re.compile(
    r"(?i)\b(?:previously|initially|originally|at first|earlier|used to|no longer|not any ?more|anymore"
    r"|at the (?:beginning|start|outset)|in the (?:beginning|morning)|had been|started|starts|starting|began|begins"
    r"|until then|last saw|saw|seen|sees|watched|witnessed|noticed|was there|were there|moved?|moves|moving|puts?"
    r"|placed|enter(?:s|ed)?|exit(?:s|ed)?|left|leaves|took|takes|told|tells|went|goes|carried|brought|lays?|laid"
    r"|hides?|hid|drop(?:s|ped)|stor(?:es|ed))\b|\bbefore\W*$|^\W*before\b"
)
DOUBT = re.compile(
    r"(?i)\?|\b(?:un(?:clear|certain|sure|able|likely|determined|decided)|ambiguous|impossible|insufficient"
    r"|inconclusive|whether|if|unless|either|may|maybe|might|could|perhaps|possibly|doubt\w*|depend\w*|guess|sorry"
    r"|apolog\w+|refuse|decline|fails?|lacks?|(?:hard|difficult) to|(?:enough|more|further|missing) information"
    r"|no (?:way|information|answer)|none of the|I (?:do|am|would|could|have|can) ?not|can ?not (?:say|tell|be"
    r"|determine|know|conclude|answer|infer))\b|\bI \w{1,6}n['\u2019]t\b|\bcan['\u2019]t (?:say|tell|be|determine|know"
    r"|conclude|answer|infer|help)\b|(?:\bnot|n['\u2019]t|\bnever) (?:\w+ly )?(?:stated|specified|mentioned|revealed"
    r"|given|told|clear|settled?)\b"
)
NEGATION = re.compile(
    r"(?i)\b(?:not|no|never|none|neither|nor|nowhere|without|notwithstanding|(?:ruled?|rules|ruling) out|excluded"
    r"|runs? out of|unaware|ignorant|oblivious|cannot|cant|dont|doesnt|isnt|wasnt|wont|wrong|incorrect)\b|n['\u2019]t\b"
    r"|[\u4e0d\u6ca1\u975e\u672a]"
)
BOUNDARY = re.compile(
    r"(?P<instead>(?:,|;|\.\.\.|[\u2013\u2014]) (?:(?:no|wait|oh)[,:]? )?(?:no,|sorry|wait|i mean|or rather|make that"
    r"|correction)(?= |,))"
    r"|(?P<excluded>,? ?\b(?:(?:and|but|or) (?:not|no|never|nothing|nobody|none|neither)|rather than|instead of"
    r"|other than|as opposed to|unlike|except(?: for)?|without|nor|not (?=(?:in|at|on|the|under|behind|inside|an?|that"
    r"|for|of|to)\b)|(?<=, )(?:not|no)(?= ))\b)"
    r"|(?P<aside>\b(?:because|since|as(?! well as)|while|although|though|even|despite|whereas|before(?!\W*$)|after|when"
    r"|until|having|where|given)\b|(?<=, )who\b|\()"
    r"|(?P<main>[,;:] |\)| [\u2013\u2014-] |\b(?:but|yet)\b|\band (?=(?:it|he|she|they|that)\b))"
)
"""Where a clause begins: one that excludes what it names, one that says something aside, or a main one. As the patterns
for SUPPOSED, NECESSARY and _CUE it is for small letters, which are searched in half the time."""
BELIEF = re.compile(
    r"(?i)\b(?:think|believ|belief|expect|assum|look|search|know|feel|say|suppos|convinced|sure|imagin|guess"
    r"|reckon|thought|name|suspect)\w*"
)
FROM = re.compile(r"\b(?:from|out of|off) (?:the |an? )?[\"'\u201c]?$", re.I)
REALLY = re.compile(r"\b(?:in (?:fact|reality|truth)|actually|really|truly)\b", re.I)
WORD = re.compile(r"[\w-]+")
COMMON = frozenset(
    WORD.findall(
        "a an and are as at be been believe believes belief by did do does expect expects for from has have he her him "
        "his how in is it its know knows look looks of on or really said say says search she that the their them they "
        "think thinks thinking to was were what when where which who whom whose will with would currently now about "
        "inside there actually first still most likely probably had can could should before after under behind if then "
        "full not no yes i you we end story"
    )
)


def stem(word: str) -> str:
    """A word in small letters without its ending, so that "thinks" and "think" are one."""
    word = word.casefold()
    return re.sub(r"(?:ing|ed|es|s)$", "", word) if len(word) > 4 else word


_SENTENCE = re.compile(
    r"(?<=[.!?])(?<!\.\.\.(?= [a-z]))(?<![\s(\[\".][A-Za-z]\.)(?<!^[A-Za-z]\.)(?<!\b\d\.)[\"')\]\u201d]*\s+"
    r"|(?<= [A-Z]\.)\s+(?=(?:One|This|That|He|She|They|It|Because|Since|So|But|However|Therefore|Note|If|Although|As"
    r"|When|Then|There|Now|Hence|Thus|I|We|You|My|Our|Here|His|Her|In|At|After|Before|Let|Wait|No|Sorry|Hmm"
    r"|Actually)\b)"
)
_TICKED = re.compile(r"^[^\S\n]*[-*] \[[xX]\] ", re.M)
_UNTICKED = re.compile(r"^[^\S\n]*[-*] \[ \] .*$", re.M)
_ROW = re.compile(r"^[ \t]*\|(.+)\|[ \t]*$", re.M)
_DENIED = re.compile(r"[\u274c\u2717\u2718\u2716\U0001f6ab](?<!\?.)(?<!\? .)\ufe0f?(?!\W{0,40}(?:no|yes)\b)", re.I)
_SYMBOL = re.compile(r"[\u2300-\u27a0\u27a2-\u27bf\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff]+ ?")
_DECORATION = re.compile(r"\*{1,3}|`{1,3}|\$|^#{1,6} |^> |\\[()\[\]]", re.M)
_COURTESY = re.compile(
    r"(?i)\W*(?:please )?(?:let me know|i hope|hope (?:this|that|it)|feel free|thanks?|happy to|glad to|would you like"
    r"|if you (?:have|need|want|would)|is there anything|do you (?:have|want|need))\b"
)
_BULLET = re.compile(r"^(?:[-\u2022\u2013\u2014*\u2192\u27a1]\ufe0f?|[=-]>|\(?\d{1,2}[.)])\s+")


@lru_cache(maxsize=64)  # a reply is looked at for what it states and for how it begins and ends
def plain_lines(text: str) -> tuple[str, ...]:
    """The lines of a text without marks of markdown and lists, and courtesies at its end. A cross
    beside words is read as "wrong", the cells of a table's row as "first: second"."""
    text = _SYMBOL.sub("", _DENIED.sub(" (wrong)", text))
    if _TICKED.search(text):
        text = _TICKED.sub("", _UNTICKED.sub("", text))
    text = _ROW.sub(_cells, text)
    lines = [" ".join(one.split()) for one in _DECORATION.sub("", text).splitlines()]
    lines = [line for line in (_BULLET.sub("", one) for one in lines) if line]
    while len(lines) > 1 and _COURTESY.match(lines[-1]):
        lines.pop()
    return tuple(lines)


def read_lines(text: str, choices: Sequence[str]) -> tuple[str, ...]:
    """The lines of a text, as `plain_lines` gives them, without a list that repeats what was offered."""
    lines = settle_letters(plain_lines(text), choices)
    marks = {line: one[1] for line in dict.fromkeys(lines) if (one := _OFFERED.match(line)) is not None}
    marks = {line: mark for line, mark in marks.items() if find_mentions(line, choices)}
    repeats = len(set(marks.values()) - {None}) > 2
    return tuple(line for line in lines if line not in marks or (marks[line] is not None and not repeats))


_OFFERED = re.compile(r"\W{0,2}(?:([A-Z])[.):][^.:;?(\u2013\u2014]{1,80}\.?$|(?:[Ll]abels|[Cc]hoices|[Oo]ptions):)")


def _cells(row: re.Match[str]) -> str:
    cells = [cell.strip() for cell in row[1].split("|")]
    return "" if all(set(cell) <= set("-: ") for cell in cells) else ": ".join(filter(None, cells))


_NOUN = r"(?:answer|choice|option|letter|solution|conclusion|response|selection)"
_FORM = re.compile(
    r"(?i)(?<!long )(?<!detailed )(?<!full )\b(?:answer|correct (?:choice|option))(?: (?:to|for) [^.:\n]{1,160}| is"
    r"| choice| option| letter)?[ ]?(?:[:=\uff1a]|=>|\u2192|->)[ ]?"
)
_CUE = re.compile(
    rf"\b(?:{_NOUN}|(?:appropriate|correct|right|best|only|fitting) (?:label|word|value))\b(?: (?:to|for|of"
    rf"|here|in|from|among|that|which|given|based|regarding|about)\b[^.!?:;\n]{{0,160}}?)?"
    r",? (?:is|are|would be|should be|must be|will be|has to be|can only be|remains|becomes)\b[ ]?:?|\b(?:i"
    r"|we)(?:['\u2019]d|['\u2019]ll| would| will| must| shall| can| should)?(?: therefore| thus| finally"
    r"| then)? (?:choose|pick|select|go with|opt for|settle on|answer|chose)\b[ ]?:?"
)
_TAKEN_BACK = re.compile(
    r"(?i)^\W*(?:no|or|wait|actually|hmm+|correction|sorry|instead|rather|scratch that|on second thoughts?)\b"
    r"|\b(?:wait,|on second thoughts?|i was (?:wrong|mistaken)|that(?:['\u2019]s| is| was) (?:wrong|incorrect))"
)
_HEDGED = re.compile(r"\b(?:would|could|might|should)\b|['\u2019]d\b", re.I)


_NAME = re.compile(r"(?<![\w'\u2019])[A-Z\u00c0-\u00de][^\W\d_A-Z]+(?:-\w+)?(?!\w)")
_OPENER = re.compile(
    r"\W*(?P<name>[A-Z][a-z]+(?:-[A-Z]?[a-z]+)?)(?=(?:['\u2019]s)?,? (?:\w+ly )?(?:is|was|has|had|would|will|did|does"
    r"|thinks?|believes?|knows?|expects?|saw|left|told|\w+s|\w+ed)\b|, (?:who|by contrast|however|in turn"
    r"|on the other)\b)"
)
_PRONOUNS = frozenset(("he", "she", "they", "it", "his", "her", "their", "there", "him", "them", "i", "one", "person"))
_NO_NAMES = frozenset(
    WORD.findall(
        "accord according accordingly all also although answer bas based because both but choice conclusion "
        "consequently content contents even everybody everyone everyth everything final finally given hence here hmm "
        "however just label last lastly later let likewise maybe meanwhile my next nobody none noth nothing ok okay "
        "once only option overall perhap perhaps question reality second since so somebody someone step "
        "therefore these third this those thus ultimately until wait well while"
    )
)
_PLAIN = _PRONOUNS | _NO_NAMES | set(map(stem, WORD.findall(
    "not both neither those any some other another own more very only contains contents being held holds place located "
    "placed known time aware given next means would two final correct right ll re person sees out into go end"
)))  # fmt: skip
"""Stems, beside those of the question, that any answer to it may have."""
_MODIFIER = re.compile(r"\b[Tt]he ((?:[A-Z]\w+ )+)([a-z]+)\b")  # such as "the Friday market"
_KIN = re.compile(
    r"(?i)(?:\b(?:his|her|their|the|my|an?) |^\W*)(?P<kin>aunt|uncle|mother|father|mom|mum|dad|brother|sister|friend"
    r"|neighbou?r|teacher|boss|grand(?:ma|pa|mother|father)|cousin|wife|husband|colleague|son|daughter|narrator|reader"
    r"|author)s?\b"
)
_LABEL = re.compile(
    r"(?i)\b(?:label|lid|sticker|picture|sign|tag|note|cover|inscription)s?(?: \w+){0,4}? (?:says?|said|saying|reads?"
    r"|reading|shows?|suggests?|claims?|states?)\b|\b(?:label|lid|sticker|picture|sign|tag|inscription|reads?"
    r"|reading|word)s?(?: (?:of|with|the|words?)){0,3}[^\w,;.]{0,3}[\"'\u201c]\W*$|\b(?:labell?ed|marked)\b"
)
_WRITTEN = re.compile(r"\W*(?:is |was )?(?:printed|written|painted|stamped|stitched|drawn) on\b")
_PLAN = re.compile(
    r"(?i)\b(?:will|going to|set to|plan(?:s|ned|ning)?|wants?|wanted|intends?|about to|hopes?|tr(?:y|ies))\b"
)
_REFERS = re.compile(
    rf"(?i)\bthat(?:['\u2019]s| is) (?:where|what|who)\b[^,;:]{{0,40}}{BELIEF.pattern[4:]}"
    rf"|\bwhich is the (?:\w+ )?answer\b"
)
"""Words that make what was said before them the answer, such as "so that is where she thinks it is"."""
_PASSIVE = re.compile(r"(?i)\b(?:is|was|to be) (?:believed|thought|expected|assumed)\b")
_THING = re.compile(
    r"(?i)\W*(?:(?:and|but|so) )?(?:the|an?) ((?:[\w-]+ ){1,5}?)(?:is|was|are|were|lies|can|will|has|had)\b"
)
_COMPLEMENT = re.compile(r"\bthat (?:the|an?) ((?:[\w-]+ ){1,5}?)(?:is|was|are|were)(?: an?| the)? ?\W?$")
_HEAD_WORDS = frozenset(
    WORD.findall("step belief perspective view mind current answer so now what content location contents believ")
)
_ASKING = re.compile(r"(?P<head>[^?]{2,120}\?)(?: ?[:\u2192-])?[ ]?(?P<rest>.*)$")
_HEAD = re.compile(r"(?P<head>[^:\u2192=]{2,60}?)[ ]?(?::|\u2192|[=-]>|\u21d2|\s[\u2013\u2014-])[ ](?P<rest>.+)$")
_SEPARATOR = re.compile(r"[:\u2192>\u21d2\u2013\u2014-] ")  # what _HEAD needs; seldom there, and soon found
_COMMON_STEMS = frozenset(map(stem, COMMON))

Texts = Sequence[str]
Outcome = tuple[str, str] | str | None
"""The rung and the choice; or the reason why a text with choices has no answer; or None where it makes none."""

STATED, ASKED, FITTING, LOOSE, DENIED = 4, 3, 2, 1, -1
"""How well a clause answers a question: it states the answer; it says of whom is asked what is asked; it may leave that
out; it says no more than that something is so."""
LONG = 25  # characters that a choice has at most which is a name and no sentence
MOST_NAMES = 20  # names of a question that count
LONGEST = 300  # characters before a choice that tell of what it is said; bounded, so that time is linear


def _stems(text: str) -> list[str]:
    return [stem(word) for word in WORD.findall(text) if word != "s"]


def _in_order(names: Iterable[str], told: Sequence[str]) -> bool:
    words = iter(told)
    return all(name in words for name in names)


_ROLE = re.compile(rf"\b(?:do|does|did|will|would) (?:the|an?|his|her|their|my) (\w+) {BELIEF.pattern[6:]}")
_PERSON = re.compile(r"\b(?:he|she|they|him|her|them)\b")


class QuestionFocus:
    """A question: whom it names, in order, and whether it asks for a belief, for reality, for a plan or the past."""

    def __init__(self, text: str | None, choices: Sequence[str]) -> None:
        asked = _SENTENCE.split(text.strip())[-1] if text else ""
        words = WORD.findall(asked)
        self.known = text is not None
        self.names = [
            stem(one) for one in words[1:] if one[0].isupper() and one[1:2].islower() and one.casefold() not in COMMON
        ][:MOST_NAMES]
        roles = [] if self.names else [stem(one) for one in _ROLE.findall(asked)][:MOST_NAMES]
        if not (self.names or roles) and _PERSON.search(asked):  # "she", of whom the sentences before speak
            self.names = [stem(one) for one in _NAME.findall(text or "")[:1] if one.casefold() not in COMMON]
        self.spelled: dict[str, str] = {}
        self.names = self.names or roles
        self.topic = {stem(one) for one in words if one.casefold() not in COMMON} - set(self.names)
        self.stems = set(map(stem, words)) | _COMMON_STEMS
        self.things = (self.stems - _COMMON_STEMS) | {"object", "item", "thing", "content", "location", "place", "one"}
        self.of_choices = {stem(word) for choice in choices for word in WORD.findall(choice)}
        self.believes = BELIEF.search(asked) is not None
        self.really = text is None or not self.believes or REALLY.search(asked) is not None
        self.first = "first" in words
        self.past = PAST.search(asked) is not None
        self.plans = _PLAN.search(asked) is not None
        self.who = re.match(r"\W*who\b", asked, re.I) is not None
        self.verbs = set(map(stem, words[1:])) - {"the", "that", "is", "and", "of", "to", "in", "a", "s", "still"}
        self.depth = len(BELIEF.findall(asked))

    def people(self, text: str) -> set[str]:
        """The stems of the names in a text, and of words such as "aunt" where the question has them not."""
        first, start = _OPENER.match(text), len(text) - len(text.lstrip(" \"'(*"))
        found = {stem(one[0]) for one in _NAME.finditer(text) if one.start() > start or stem(one[0]) in self.names}
        found -= {
            stem(one) for names, thing in _MODIFIER.findall(text) if stem(thing) in self.things for one in names.split()
        }
        if first is not None:
            found.add(stem(first["name"]))
        found -= self.of_choices | _NO_NAMES | _COMMON_STEMS
        for name in found.difference(self.names):  # a small model misspells names
            self.spelled[name] = (get_close_matches(name, self.names, 1, 0.83) or [name])[0] if len(name) > 4 else name
        found = {self.spelled.get(name, name) for name in found}
        return found | {kin for kin in (stem(one["kin"]) for one in _KIN.finditer(text)) if kin not in self.stems}

    def rank(self, lead: str, rest: str, decides: bool) -> int:
        """ASKED, FITTING, LOOSE, or 0 for a clause that speaks of others, of labels, of what was or is planned. lead,
        rest: its words before and after the choice. decides: whether it concludes something."""
        people, own = self.people(lead), set(self.names)
        told = [self.spelled.get(word, word) for word in _stems(lead)]
        believes, words = BELIEF.search(lead) is not None, f"{lead} {rest}"
        pronoun = not _PRONOUNS.isdisjoint(told)
        others = self.known and bool(people - own)
        if _LABEL.search(lead) or _WRITTEN.match(rest) or (others and (believes or own or self.believes)):
            return 0
        if not (believes or decides or self.past) and PAST.search(words):
            return 0
        if not (believes or decides or self.plans or (own and not self.believes)) and _PLAN.search(lead):
            return 0
        thing = _THING.match(lead) if self.known and not (decides or believes) and (self.believes or not own) else None
        thing = thing or _COMPLEMENT.search(lead)
        if thing is not None and self.things.isdisjoint(_stems(thing[1])):
            return 0
        if others:
            return LOOSE
        if not self.known:
            return ASKED if decides else FITTING if believes else LOOSE
        if self.who and not lead.strip(" \"'(*"):
            return ASKED if self.verbs & set(_stems(rest)[:3]) else LOOSE
        if self.believes and not believes:
            if people - set(self.names[:1]) or (REALLY.search(words) and not self.really):
                return 0
            return ASKED if decides else LOOSE
        if self.believes:
            if self.depth == 1 and not people and _PASSIVE.search(lead):
                return ASKED
            if people and self.names[0] not in people and not (pronoun and self.depth < 2):
                return LOOSE if people == set(self.names[-1:]) else 0
            if _in_order(self.names, told) and (own or pronoun):
                return ASKED
            if own and own <= people:  # in another order: of two it is another question, a longer chain is garbled
                return FITTING if len(own) > 2 and own.intersection(told[: told.index(self.names[0])]) == set() else 0
            return ASKED if decides else FITTING if pronoun and self.depth < 2 else LOOSE
        if not own and (pronoun or people) and believes:
            return LOOSE
        if own:
            return ASKED if _in_order(self.names, told) or decides else FITTING if pronoun else LOOSE
        return ASKED if self.topic and self.topic <= {*told, *_stems(rest)} else FITTING

    def strays(self, said: Sequence[str], choice: str, choices: Sequence[str]) -> bool:
        """Whether all sentences that name this choice, a name, have before it more than one word that answers have not:
        they tell something else, such as "She went to town and bought a walnut"."""
        if len(choice) > LONG or _UNKNOWN.fullmatch(choice):
            return False
        named = ((one, found.start) for one in said for found in find_mentions(one, choices) if found.choice == choice)
        own = self.stems | self.of_choices | _PLAIN
        leads = dict.fromkeys(one[max(0, start - LONGEST) : start] for one, start in named)  # many are alike
        foreign = [{word for word in _stems(lead) if not word.isdigit()} - own for lead in leads]
        return bool(foreign) and min(map(len, foreign)) > 1

    def restates(self, head: str) -> bool:
        """Whether a heading or a question in a reply asks for the same; it may leave out words, but adds none."""
        people, told = self.people(head), _stems(head)
        if people - set(self.names) or (people and not _in_order(self.names, told)):
            return False
        if {word for word in told if not word.isdigit()} - self.stems - _HEAD_WORDS:
            return False
        if self.believes:
            return BELIEF.search(head) is not None or bool(people)
        return bool(people or REALLY.search(head) or self.topic & set(told))


_focus = lru_cache(maxsize=1024)(QuestionFocus)


class Assertion(NamedTuple):
    """What one sentence says of a choice."""

    place: int  # of the sentence
    choice: str | None  # None where it doubts, or names several
    rank: int  # STATED, ASKED, FITTING, LOOSE or 0
    decides: bool  # whether the sentence concludes something; of what is stated, whether it says more than "would be"


def list_assertions(text: str, choices: Sequence[str], asked: QuestionFocus) -> tuple[list[str], list[Assertion]]:
    """The sentences of a text, and what they assert, in order."""
    tags, text = find_tags(text, choices)
    lines = read_lines(text, choices)
    kept = _before_heading(lines, choices)
    stating = [one for one in lines[len(kept) :] if _CUE.search(one.lower()) and not _HEDGED.search(one)]
    said = _split((*kept, *stating), choices)
    found: list[Assertion] = []
    known: dict[tuple[str, str], list[Assertion]] = {}  # a text that repeats itself is read once
    naming = {one for one in dict.fromkeys(said) if find_mentions(one, choices)}
    ends = max((place for place, one in enumerate(said) if one in naming), default=0)
    for place, pair in enumerate(pairwise((*said, ""))):
        if place >= ends and not NEGATION.search(pair[1]):  # nothing else is named instead
            pair = (pair[0], "")
        if pair not in known:
            known[pair] = list(_of_sentence(*pair, choices, asked))
        found += [one._replace(place=place) for one in known[pair]]
        said_of = [one for one in found[-2:] if one.rank != DENIED]
        if said_of and _REFERS.search(pair[0]):
            found.append(said_of[-1]._replace(place=place, rank=FITTING, decides=True))
    return said, found + [_as_stated(one, choices, asked, len(said)) for one in tags]


def _of_sentence(sentence: str, following: str, choices: Sequence[str], asked: QuestionFocus) -> Iterator[Assertion]:
    """What one sentence asserts. following: the sentence after it, which may take back what it states."""
    if (form := _FORM.search(sentence)) is not None:
        rest = sentence[form.end() :].strip(" \"'")
        yield from _clauses_of(sentence[: form.start()], choices, asked)
        if rest and not rest.startswith(("\x00", "{", "<answer", "</answer")):
            before = BOUNDARY.split(small_letters(sentence[: form.start()]))[-1] or ""
            stated = _as_stated(rest, choices, asked)
            unsure = NEGATION.search(before) or DOUBT.search(before) or _TAKEN_BACK.search(following)
            yield stated._replace(choice=None) if unsure else stated
        return
    head = _ASKING.match(sentence) or (_SEPARATOR.search(sentence, 2, 64) and _HEAD.match(sentence))
    if head is not None and not find_mentions(head["head"], choices):
        if asked.restates(head["head"]):
            rest = head["rest"] or following
            yield from (one._replace(rank=max(one.rank, FITTING)) for one in _clauses_of(rest, choices, asked))
            return
        if head.re is _ASKING or asked.people(head["head"]) - set(asked.names):
            return
    found = list(_clauses_of(sentence, choices, asked))
    if not found and _CUE.search(sentence.lower()) and not find_mentions(sentence, choices):
        # a small letter counts only where it stands alone
        alone = sentence.rstrip(" .:*\"'").rpartition(" ")[2]
        found = [_as_stated(f"({alone})", choices, asked)] if len(alone) == 1 and alone.isalpha() else []
    for one in found:
        yield one._replace(choice=None) if one.rank == STATED and _TAKEN_BACK.search(following) else one


def _as_stated(text: str, choices: Sequence[str], asked: QuestionFocus, place: int = 0) -> Assertion:
    """What stands in a form: the choice of its first clause that names one, None where it names none, or several."""
    found = list(_clauses_of(text, choices, asked, stated=True))
    return Assertion(place, found[0].choice if found else None, STATED, True)


def _clauses_of(
    sentence: str, choices: Sequence[str], asked: QuestionFocus, stated: bool = False
) -> Iterator[Assertion]:
    """What the clauses of a sentence assert, once for each rank. stated: whether the first with a choice states it."""
    every = find_mentions(sentence, choices)
    named = prefer_words(every)
    small = small_letters(sentence) if named else ""
    if not named or SUPPOSED.search(small) or sentence.rstrip("\"'\u201d) ").endswith("?"):
        return
    if not stated and every[0].by == LETTER and _BESIDE.match(sentence):  # other words than those of its choice
        yield Assertion(0, None, 0, False)
        named = named[named[0] == every[0] :]
    decided = THEREFORE.match(sentence) is not None or NECESSARY.search(small) is not None
    inner = INNER.search(sentence)
    inner_end = len(sentence) + 1 if inner is None else inner.end()
    by_rank: dict[int, set[str | None]] = {}
    lead, doubts, denied, hedged = "", False, False, False
    for kind, start, end, here in _clauses(small, named):
        bare = remove_choices(sentence, start, end, here)
        if kind == "instead":
            by_rank.clear()
        if kind == "aside" or not sentence[start:end].strip(" ,"):
            continue
        first = here[0].start if here else end
        own = sentence[start:first]
        if by_rank and (_SUBJECT.match(own) if stated else asked.first and _NEXT.search(own)):
            break
        opened = not by_rank and sentence.startswith(", ", max(0, start - 2)) and _OPENED.search(lead) is not None
        lead = (own if not lead or (_SUBJECT.match(own) and not opened) else f"{lead}, {own.strip()} ")[-LONGEST:]
        denied = NEGATION.search(bare) is not None or (denied and own.lstrip().startswith("that "))
        if len(here) > 1 and _COPULA.fullmatch(sentence, here[-2].end, here[-1].start):
            here = here[-1:]  # "the socks are really mittens"
        moved = len(here) > 1 and FROM.search(own) is not None
        here = [one for one in here[moved:] if not DENIED_AFTER.match(sentence, one.end)]
        if by_rank and not denied and _ALSO.match(own) and sentence.endswith("but", 0, start):
            others = asked.of_choices - set(_stems(" ".join(filter(None, set().union(*by_rank.values())))))
            doubts = doubts or not others.isdisjoint(_stems(sentence[start:end]))
        if here and denied and asked.rank(lead, "", False) >= FITTING:
            by_rank.setdefault(DENIED, set()).update(one.choice for one in here)
        elif here and kind != "excluded" and not denied:
            decides = decided or inner_end <= first
            if len(here[0].choice or "") > LONG:  # a sentence as a choice tells itself of whom it speaks
                lead += sentence[here[0].start : here[0].end]
            if _CUE.search(lead.lower()) or (here[0].by == LETTER and _IT_WAS.search(lead)):
                rank, hedged = STATED, _HEDGED.search(sentence, start, end) is not None
            else:
                rank = STATED if stated else asked.rank(lead, remove_choices(sentence, first, end, here), decides)
                rank = 0 if moved and BELIEF.search(lead) is None else rank
            if by_rank and asked.really and _REALLY_IS.search(own):  # what the sentence said before only seemed so
                rank = max(rank, *by_rank)
                by_rank.clear()
            by_rank.setdefault(rank, set()).update(one.choice for one in here)
            doubts = doubts or DOUBT.search(bare) is not None
    decides = decided or inner is not None
    for rank, kept in by_rank.items():
        choice = next(iter(kept)) if len(kept) == 1 and not doubts else None
        yield Assertion(0, choice, rank, not hedged if rank == STATED else decides)


_BESIDE = re.compile(r"\W*[A-Za-z]\. (?!because|since|as\b)\w")
_IT_WAS = re.compile(r"\b[Ii]t was \W*$")
_ALSO = re.compile(rf" (?:he|she|they|[A-Z]\w+) (?:also |still )?{BELIEF.pattern[4:]}")
_REALLY_IS = re.compile(r"\b(?:which|but|that) (?:(?:is|are|was|were) )?(?:actually|really|in fact)\b")
_OPENED = re.compile(rf"{BELIEF.pattern} that [^,]*$")
_NEXT = re.compile(r"\b(?:then|next|second|afterwards?|after that)\b", re.I)
_COPULA = re.compile(
    r"(?: (?:in|on|inside|that)\b[^,;:]{0,30})? (?:is|are|was|were|being) (?:\w+ly |in fact )?(?:an? |the )?\W?"
)
_SUBJECT = re.compile(
    r"\W*(?:(?:[Aa]nd|[Bb]ut|[Ss]o|[Tt]hen|[Yy]et|[Nn]ow|[Tt]hus|[Hh]ence|[Tt]herefore|[Ss]till|\w+ly)\W+){0,9}(?:[A-Z]\w+"
    r"|it|he|she|they|I|we|there|this|that|which|the|an?|his|her|their|its|my|nobody|who|what)\b.*?(?:\b(?:is|are|was"
    r"|were|will|would|must|sees?|saw|finds?|found|has|had|do|does|did|can|could|should|holds?|contains?)\b"
    r"|['\u2019]s\b|" + BELIEF.pattern.removeprefix("(?i)") + ")"
)


def small_letters(text: str) -> str:
    """The text in small letters, each at its place."""
    return text.replace("\u0130", "I").lower()  # the one letter that would become two


def _clauses(sentence: str, named: Sequence[Mention]) -> Iterator[tuple[str, int, int, list[Mention]]]:
    """Kind, start and end of each clause of a sentence in small letters, and the choices in it; none is divided."""
    starts = [one.start for one in named]
    kind, start, taken = "main", 0, 0
    for one in BOUNDARY.finditer(sentence):
        place = bisect_right(starts, one.start())
        if place and named[place - 1].end > one.start():
            continue
        if kind == "aside" and sentence.startswith("(", start) and sentence[one.start()] != ")":
            continue
        yield kind, start, one.start(), list(named[taken:place])
        kind, start, taken = one.lastgroup or "main", one.end() if one.lastgroup == "main" else one.start(), place
    yield kind, start, len(sentence), list(named[taken:])


def find_stated(text: str, choices: Sequence[str]) -> set[str | None]:
    """The choices that a text states as its answer, None for what is no choice, or one that it doubts."""
    return {one.choice for one in list_assertions(text, choices, QuestionFocus(None, choices))[1] if one.rank == STATED}


def read_prose(text: str, choices: Sequence[str], question: str | None = None, whole: bool = True) -> Outcome:
    """Read an answer out of prose, in time proportional to its length; the arguments as for `answers.read_reply`."""
    lines = read_lines(text, choices)
    if not lines:
        return None
    asked = _focus(question, tuple(choices))
    said, assertions = list_assertions(text, choices, asked)
    if stated := [one for one in assertions if one.rank == STATED]:
        last = stated[-1].choice
        sure = all(one.choice in (None, last) or not one.decides for one in stated)
        sure = sure and edge_choice(lines, 0, 1, choices) in (None, last)
        return ("stated", last) if last is not None and sure else SEVERAL
    if text.lstrip().startswith(("{", "[")):  # a broken object is no prose
        return None
    whole = whole and (_CUT.search(text) is None or text.count(text[-40:-20]) > 3)  # or it repeats itself for ever
    begins = edge_choice(lines, 0, 1, choices)
    if question is not None and not question.rstrip().endswith("?"):  # it goes on where the question stops
        begins = leading_choice(_SENTENCE.split(lines[0])[0].split(", but ")[0], choices, goes_on=True)
        whole = whole and begins is None
    if not whole:
        said = said if said and said[-1].endswith((".", "!")) else said[:-1]
        kept = [one for one in assertions if one.place < len(said)]
        empty = _EMPTY.search(text) is not None
        agreed = _agreed(kept, ASKED) or (None if empty else _agreed(kept, FITTING))
        if begins is not None:
            return "first", begins
        if agreed is not None and agreed.choice is not None:
            later = {one.choice for one in kept if one.rank and one.place > agreed.place}
            return None if later - {agreed.choice, None} else ("echoed", agreed.choice)
        about = any(one.rank and asked.topic.intersection(_stems(said[one.place])) for one in kept)
        return _sole(text, said, kept, choices) if about and not empty else None
    denied = {one.choice for one in assertions if one.rank == DENIED}
    assertions = [one for one in assertions if one.rank == DENIED or one.choice not in denied]
    last = _ending(_before_heading(lines, choices), choices, asked)
    by_rung = {"first": begins, "last": last}
    if (agreed := _agreed(assertions, ASKED)) is not None:
        by_rung["concluded" if agreed.decides else "echoed"] = agreed.choice
    elif begins is None and last is None and (agreed := _agreed(assertions, FITTING)) is not None:
        by_rung["settled"] = agreed.choice
    found = {rung: label for rung, label in by_rung.items() if label is not None}
    if len(set(found.values())) > 1:
        return DIFFERENT
    outcome = next(iter(found.items())) if found else _sole(text, said, assertions, choices)
    if isinstance(outcome, tuple) and outcome[0] in ("settled", "sole") and asked.known:
        return None if asked.strays(said, outcome[1], choices) else outcome
    return outcome


def _split(lines: Sequence[str], choices: Sequence[str]) -> list[str]:
    """The sentences of these lines, of which none divides a choice."""
    parts: list[str] = []
    long = any(len(_SENTENCE.split(choice)) > 1 for choice in choices)
    for line in lines:
        spans = [(one.start, one.end) for one in find_mentions(line, choices)] if long else []
        start = 0
        for end in _SENTENCE.finditer(line):
            if not any(one <= end.start() < other for one, other in spans):
                parts.append(line[start : end.start()])
                start = end.end()
        parts.append(line[start:])
    return [one for part in parts for one in part.split("; ") if one and not _COURTESY.match(one)]


def _agreed(assertions: Sequence[Assertion], rank: int) -> Assertion | None:
    """The last assertion of a rank, if all are of the same choice or it concludes, and what follows asserts no other
    choice."""
    last = next((one for one in reversed(assertions) if one.rank == rank), None)
    if last is None or any(
        one.rank >= FITTING and one.choice != last.choice for one in assertions if one.place >= last.place
    ):
        return None
    others = any(one.rank == rank and one.choice not in (last.choice, None) for one in assertions)
    return last if last.decides or not others else None


def _sole(text: str, said: Sequence[str], assertions: Sequence[Assertion], choices: Sequence[str]) -> Outcome:
    """The one choice that a text asserts, or that says that one cannot know, where the text says so in other words."""
    kept = {one.choice for one in assertions if one.rank != DENIED}
    if not kept and len(choices) == 2 and len(denied := {one.choice for one in assertions}) == 1:
        return next((("sole", one) for one in choices if {one} != denied and None not in denied), None)
    if len(kept) == 1 and any(one.rank for one in assertions):
        doubted = any(DOUBT.search(one) and not find_mentions(one, choices) for one in said)
        label = kept.pop()
        return ("sole", label) if label is not None and (_UNKNOWN.fullmatch(label.rstrip(".")) or not doubted) else None
    if any(find_mentions(one, choices) for one in said) or not _CANNOT_KNOW.search(text):
        return None
    offered = (isinstance(choices, LetteredChoices) and choices.offered) or choices
    unknown = [choice for choice in offered if choice and _UNKNOWN.fullmatch(choice.rstrip("."))]
    return ("sole", unknown[0]) if len(unknown) == 1 else None


_EMPTY = re.compile(r"(?i)\banswer(?: is)?:\W*$")
_CUT = re.compile(
    r"(?:[,:;(=\u2192\u279c\u27a1-]|\b(?:the|an?|in|to|that|is|was|are|thinks?|believes?|told|and|or|of|by|from|with|at"
    r"|on|so|because|since|as|if|when|while|but|has|had|not|his|her|its|their|who|where|which|would|will|moved))\s*$"
)
_CANNOT_KNOW = re.compile(
    r"(?i)\b(?:cannot|can ?not|can['\u2019]t|could not|impossible to) (?:be )?(?:determined?|known?|told|tell|said|say"
    r"|inferred|infer)\b|\b(?:not|n['\u2019]t|in)[ -]?(?:enough|sufficient) info(?:rmations?)?\b|\bno way (?:to know"
    r"|of knowing)\b|(?<!which is )(?<!which was )\b(?:not|n['\u2019]t|never) (?:stated|specified"
    r"|mentioned|known|said)\b"
)
_UNKNOWN = re.compile(
    r"(?i)unknown|undetermined|(?:there (?:is|isn['\u2019]t) )?(?:not )?(?:in|suf|en)\w+ info(?:rmation)?.*"
    r"|(?:it )?can(?:not|['\u2019]t| not) (?:be )?(?:determined?|know|known|tell|told|say|said).*"
)
_HEADING = re.compile(
    r"\W*(?:(?:explanation|reasoning|rationale|recap|summary|(?:\w+ )?key (?:points?|steps?|takeaways?)|takeaways?"
    r"|notes?|caveats?|verification|why|not(?= ?:))\b[^.]{0,40}$|(?:explanation|reason(?:ing|s)?|rationale"
    r"|justification|why|because|notes?):)",
    re.I,
)
_ALONE = re.compile(r"[\"')\]\u201d]{0,2}(?:,? (?:then|it is|i think|i['\u2019]d say|i guess))?[.!]*$", re.I)
SEVERAL = "the text states several answers, or one that is not a label"
DIFFERENT = "the text begins, ends or concludes with different choices"


def _ending(lines: Sequence[str], choices: Sequence[str], asked: QuestionFocus) -> str | None:
    """The choice with which the last line begins, or that its last sentence is ("So: mustard.", "I say: option J.")."""
    if (label := edge_choice(lines, -1, -2, choices)) is not None or leading_choice(lines[-1], choices) is not None:
        return label
    if len(lines) > 1 and list_options(lines[-1], lines[-2], choices):
        return None
    last = _SENTENCE.split(lines[-1])[-1]
    named = prefer_words(find_mentions(last, choices))
    bare = remove_choices(last, 0, len(last), named)
    if len({one.choice for one in named}) != 1 or NEGATION.search(bare) or not _ALONE.match(last[named[-1].end :]):
        return None
    before = last[: named[-1].start].strip(MARKS)
    head = before.endswith(":") and not asked.people(before) - set(asked.names)
    if head and len(lines) > 1 and re.match(r"[^:]{2,60}: ", last):
        head = asked.restates(before.rstrip(":"))  # one of a list of facts
    alone = named[-1].by in (LETTER, BOTH) or (len(before.split()) < 3 and before[-1:] != ":")
    return named[-1].choice if alone or head else None


def _before_heading(lines: Texts, choices: Texts) -> Texts:
    """The lines before one such as "Key takeaways" or "Reason: ...", where they name a choice."""
    for place, line in enumerate(lines):
        if place and _HEADING.match(line):
            return lines[:place] if any(find_mentions(one, choices) for one in lines[:place]) else lines
    return lines
