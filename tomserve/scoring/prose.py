"""Read prose: what it states outright as its answer, and what its sentences assert about the question.

Statements are forms ("Answer: x", <answer>x</answer>, "####" and boxes) and sentences ("the answer is x", "I choose
x"). Where there is none, these forms (rungs) are tried. Of the first four all that find a choice must find the same
one; each of the others is tried where those above find none.

| rung      | the text                                                                                              |
|-----------|-------------------------------------------------------------------------------------------------------|
| first     | begins with a choice ("B. blue_box", "blue_box because ...", "B" alone in its line), then explains it   |
| last      | ends with one, in a line or sentence of its own, or at the beginning of the last line                   |
| concluded | has a last sentence "Therefore, ..." (thus, so, hence, ...) that asserts one choice alone, without      |
|           | doubt; what follows it asserts no other choice                                                          |
| echoed    | says the question as a statement ("Ann thinks that Bo thinks the pen is in the blue box")               |
| headed    | has it below a heading or question that asks the same ("Ann's belief: blue box")                         |
| settled   | has a last sentence that answers the question in words of its own ("she would look in the blue box")     |
| sole      | names one choice alone, be it several times, and holds no negation, doubt, condition, question, apology  |

Asides in brackets or after "although", "because" and the like assert nothing, nor do sentences that suppose ("if she
were ..."). Of a text that breaks off in the middle only the beginning is read. Where a choice says that one cannot know
("unknown"), other words for that name it. A rule is here because it decides some reply of bench/replies.jsonl, of a
real model or of the tests; what decided none was taken out.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from tomserve.scoring.labels import (
    BOTH,
    LETTER,
    WORDS,
    LetteredChoices,
    Mention,
    extra_length,
    find_mentions,
    match_label,
)

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
"""Where a conclusion begins within a sentence."""

NECESSARY = re.compile(
    r"(?i)\b(?:it|this|that|which) (?:has to|must|can only|should|would|will) be\b|\b(?:that|this|which) (?:leaves"
    r"|gives|makes)\b"
    r"|\bmust (?:still )?(?:think|believe|be)\b|\bin the end\b|\b(?:so|then) it(?:['\u2019]s| is)\b|\bstick(?:s"
    r"|ing)? with\b"
    r"|\b(?:i|we)(?:['\u2019]d|['\u2019]ll| would| will)? (?:go|settle|say|expect|stick|conclude|answer)\b|\bonly\b"
    r"|\bas far as\b|\bmy (?:answer|conclusion|guess|verdict)\b"
)
"""What a sentence says that decides, though it does not begin with "therefore"."""

TURN = re.compile(
    r"(?i)\b(?:but|however|wait|hold on|hmm+|actually|yet|still|no,|no:|now|instead|rather|though|although|looking back"
    r"|let me (?:re|check|double|see)\w*|on (?:closer|second)|correction|nevertheless|nonetheless|later|afterwards)\b"
    r"|^\W*(?:no|nope)\b"
)
"""After such words something else may be said than before."""

SUPPOSED = re.compile(
    r"(?i)^\W*(?:if|had|were|unless|suppose|supposing|assuming|should|even if)\b(?!.*\?)"
    r"|\b(?:would|could|might) (?:then |also |only |still )?have\b|\botherwise\b"
    r"|\bI (?:first|initially|almost|nearly) (?:wanted|thought|was|said|guessed)\b"
    r"|\b(?:first|initial) (?:instinct|thought|impression|guess|reading)\b|\bone might (?:think|say|expect)\b"
    r"|\b(?:tempt(?:ed|ing)|at first (?:glance|sight)|normally|usually|typically)\b"
)
"""A sentence that supposes what is not so, or says what others would say, and asserts nothing."""

PAST = re.compile(
    r"(?i)\b(?:previously|initially|originally|at first|earlier|used to|no longer|not any ?more|anymore"
    r"|at the (?:beginning|start|outset)|in the (?:beginning|morning)|had been|started|starts|starting|began|begins"
    r"|until then|last saw|saw|seen|sees|watched|witnessed|noticed|was there|were there)\b|\bbefore\W*$|^\W*before\b"
)
"""What was so before, or what somebody saw: evidence, not yet what is asked."""

ONLY = re.compile(
    r"(?i)\b(?:no|not|nothing|nowhere|never|none|n['\u2019]t)\b(?:(?!\b(?:but|because|so)\b)[^,.;:?!]){0,80}?"
    r"\b(?:any(?:where|thing|body|one)? )?(?:other|else|different)(?: \w+)? (?:than|but|from|except)\b|\bnowhere but\b"
)
"""Two denials in one, such as "has no reason to look anywhere else than"."""

NOT_BUT = re.compile(
    r"(?i)(?:\b(?:not|never)|n['\u2019]t)\b[^.;:?!]{0,120}?,? but (?:rather |instead |still )?"
    r"(?=(?:in|on|at|under|behind|inside|the|an?|that|it|of|for)\b)"
)
"""What is denied in "does not look in the red box but in the blue box"."""
DOUBT = re.compile(
    r"\?|\b(?:un(?:clear|certain|sure|able|likely|determined|decided)|ambiguous|impossible|insufficient|inconclusive"
    r"|indeterminate|whether|if|unless|either|may|maybe|might|could|perhaps|possibly|doubt(?:s|ful)?|depend(?:s|ing)?"
    r"|assuming|guess|sorry|apologi[sz]e|apologies|refuse|decline|wrong|incorrect|fails?|lacks?|hard to"
    r"|difficult to|(?:enough|more|further|missing) information|no (?:way|information|answer)|none of the"
    r"|cannot (?:say|tell|be|determine|know|conclude|answer|infer)|can not|I (?:do|am|would|could|have) not)\b"
    r"|\bI (?:can|\w{1,6}n)['\u2019]t\b|\bcan['\u2019]t (?:say|tell|be|determine|know|conclude|answer|infer|help)\b"
    r"|\bI (?:(?:do|can|could|would|am) ?not|never|\w{1,6}n['\u2019]t) (?:really )?"
    r"(?:believe|think|say|tell|conclude)\b"
    r"|(?:\b(?:not|never)|n['\u2019]t) (?:really )?(?:believe|think|say|tell|conclude|expect)\b",
    re.I,
)
NEGATION = re.compile(
    r"(?i)\b(?:not|no|never|none|neither|nor|nowhere|without|notwithstanding|(?:ruled?|rules|ruling) out|excluded"
    r"|cannot|cant|dont|doesnt|isnt|wasnt|wont)\b|n['\u2019]t\b|[\u4e0d\u6ca1\u975e\u672a]"
)
CLAUSE = re.compile(
    r"(?i)[,;:] |[()]| [\u2013\u2014-] |\band not\b|\bnot (?=(?:in|at|on|the|under|behind|a|an)\b)|\b(?:because"
    r"|since|as|while|although|though|but|even|despite|whereas|rather than|instead of|before(?!\W*$)"
    r"|after|when|until|having|where|unlike)\b"
)
ASIDE = re.compile(
    r"(?i)\W*(?:and not|because|since|as|while|although|though|even|despite|whereas|rather than|instead of|before"
    r"|after|when|until|unlike|having|where|who|not)\b|\("
)
MOVED = re.compile(
    r"(?i)\b(?:moved?|moves|moving|put|puts|placed|enter(?:s|ed)?|exit(?:s|ed)?|left|leaves|took|takes|told|tells"
    r"|went|goes|carried|brought)\b"
)
BELIEF = re.compile(
    r"(?i)\b(?:think|believ|belief|expect|assum|look|search|know|feel|say|hold|suppos|convinced|sure|imagin|guess"
    r"|reckon)\w*"
)
FROM = re.compile(r"\b(?:from|out of|off) (?:the |an? )?[\"'\u201c]?$", re.I)
REALLY = re.compile(r"\b(?:in (?:fact|reality|truth)|actually|really|truly)\b", re.I)
WORD = re.compile(r"[\w-]+")
# fmt: off
COMMON = frozenset((
    "a", "an", "and", "are", "as", "at", "be", "been", "believe", "believes", "belief", "by", "did", "do", "does",
    "expect", "expects", "for", "from", "has", "have", "he", "her", "him", "his", "how", "in", "is", "it", "its",
    "know", "knows", "look", "looks", "of", "on", "or", "really", "said", "say", "says", "search", "she", "that",
    "the", "their", "them", "they", "think", "thinks", "thinking", "to", "was", "were", "what", "when", "where",
    "which", "who", "whom", "whose", "will", "with", "would", "currently", "now", "about", "inside", "there",
    "actually", "first", "still", "most", "likely", "probably", "has", "had", "can", "could", "should", "before",
    "after", "under", "behind", "if", "then", "full", "not", "no", "yes", "i", "you", "we",
))
# fmt: on
"""Words of a question that a statement may leave out or change."""


def stem(word: str) -> str:
    """A word in small letters without its ending, so that "thinks" and "think" are one."""
    word = word.casefold()
    return re.sub(r"(?:ing|ed|es|s)$", "", word) if len(word) > 4 else word


_HEAD_ALONE = re.compile(
    r"\W*[A-Za-z ]{0,30}(?:answer|explanation|reasoning|analysis|step|conclusion)[\w ]{0,20}\W*", re.I
)


def find_tags(text: str, choices: Sequence[str]) -> tuple[list[str], str]:
    """The texts in tags, boxes and lines after "####", in order and each once; and the whole text without its tags,
    where any of them holds something."""
    pattern = _pattern(extra_length(choices), isinstance(choices, LetteredChoices))
    texts = dict.fromkeys(next(filter(None, found.groups()), "") for found in pattern.finditer(text))
    told = [one for one in texts if one.strip() and not _HEAD_ALONE.fullmatch(one.strip())]
    return told, pattern.sub("", text) if told else text


_OPENS = r"[\s*\"\u201c(\[\uff08\u3010]{0,4}"
_LETTER = (
    rf"|(?<!not )(?<!\u4e0d\u662f)(?<!\u4e0d\u9009)(?<!\u5e76\u975e)\[\[[ ]?([A-Za-z])[ ]?\]\]"
    rf"|\u7b54\u6848(?:\u5e94\u8be5|\u5e94\u5f53|\u5e94)?[\u662f\u4e3a:\uff1a]{_OPENS}([A-Za-z])(?![A-Za-z])"
    rf"|(?:\u56e0\u6b64|\u6240\u4ee5|\u5e94\u8be5|\u5e94|\u6545|\u6211)\u9009\u62e9?{_OPENS}([A-Za-z])(?![A-Za-z])"
)
"""[[B]], unless "not" or its Chinese words stand before it; the Chinese for "the answer is B"; and that for "therefore
choose B", "should choose B" and "I choose B"."""


@lru_cache(maxsize=64)
def _pattern(more: int, lettered: bool) -> re.Pattern[str]:
    """more: how many characters beyond those of short choices may stand in a tag; a bound keeps the time linear.
    lettered: whether letters alone count."""
    return re.compile(
        rf"<(?:final_)?answer>(?=([^<\n]{{0,{300 + more}}})</(?:final_)?answer>)"
        rf"|\\boxed\{{(?:\\(?:text|textbf|mathrm|mathbf)\{{)?(?=([^{{}}\n]{{0,{300 + more}}})\}})|(?:^"
        rf"|\n)#{{4}}[ ]?(?=([^\n:?]{{0,{60 + more}}}(?:\n|$)))" + (_LETTER if lettered else ""),
        re.I,
    )


class Claim(NamedTuple):
    """One place where a text says what its answer is."""

    choice: str | None  # None for what is no choice, or for one that is doubted, denied or taken back
    form: bool  # whether it is a form such as "Answer: x"
    hedged: bool  # whether it says "would be" or the like


class Statements(NamedTuple):
    """The choices that a text gives as its answer, as in Claim, and the one that it comes to in the end, where all
    others were only supposed; else None."""

    forms: set[str | None]
    sentences: set[str | None]
    final: str | None = None


LONGEST = 400
"""How many characters after "the answer is" may name the choice, more where choices are long; a bound, so that a long
sentence is read in linear time."""

_NOUN = r"(?:answer|choice|option|letter|solution|conclusion|response|selection)"
_FORM = re.compile(
    r"(?i)(?<!long )(?<!detailed )(?<!full )\b(?:answer|correct (?:choice|option))(?: (?:to|for) [^.:\n]{1,160}| is"
    r"| choice| option| letter)?[ ]?(?:[:=\uff1a]|=>|\u2192|->)[ ]?"
)
_CUE = re.compile(
    rf"(?i)\b(?:{_NOUN}|(?:appropriate|correct|right|best|only|fitting) (?:label|word|value))\b(?: (?:to|for|of"
    rf"|here|in|from|among|that|which|given|based|regarding|about)\b[^.!?:;\n]{{0,160}}?)?"
    r",? (?:is|are|would be|should be|must be|will be|has to be|can only be|remains|becomes)\b[ ]?:?"
    r"|\b(?:that|it|this)(?:['\u2019]s| is| would be|['\u2019]d be)(?= (?:option|choice|letter|answer) )"
    r"|\b(?:I|we)(?:['\u2019]d|['\u2019]ll| would| will| must| shall| can| should)?(?: therefore| thus| finally| then)?"
    r" (?:choose|pick|select|go with|opt for|settle on|answer|chose)\b[ ]?:?"
)
_IS_ANSWER = re.compile(
    r"[\"'\u201d)\]]{0,3},? (?:is|would be|should be|must be|seems to be)(?: (?:therefore|thus|clearly|then|indeed))?"
    r"(?: (?:the|my|our))?(?: (?:most|only|likely|logical|final|correct|right|best|accurate|appropriate|fitting"
    r"|suitable|sensible"
    r"|plausible|reasonable|probable|safest)){0,3}"
    rf" (?:{_NOUN}|one|correct|right)\b"
    r"|[\"'\u201d)\].]{0,3} ?[-\u2013\u2014:(]{1,2} ?(?:correct|right)\b"
    r"|[\"'\u201d)\]]{0,3} is (?:\w+ly |much |far )?(?:more|most) (?:likely|probable|plausible)\b"
    r"|[\"'\u201d)\]]{0,3},? it is[.!]?$",
    re.I,
)
_ADVERB = re.compile(
    r"(?i)^[\s:]*(?:(?:therefore|thus|hence|clearly|definitely|simply|actually|now|still|indeed|then|most likely|likely"
    r"|probably|obviously|of course|certainly)\b[,:]?\s*)+"
)
_DOUBTED = re.compile(
    r"(?i)\b(?:not|no|never|wrong|incorrect|first|initial|doubt|if|whether|unless|common|"
    r"an?|other|another|each|every|which|what)\b[^,;]{0,60}$|n['\u2019]t\b[^,;]{0,60}$"
)
_OTHERS = re.compile(r"\b(?:usual|typical|obvious|expected|intuitive|standard|naive|tempting)\b[^,;]{0,30}$", re.I)
_DENIAL = re.compile(
    r"(?i)\b(?:not|never|neither|nor|rather than|instead of|as opposed to|unlike|without|cannot|wrong|incorrect)\b"
    r"|n['\u2019]t\b"
)
_REASON = re.compile(
    r"\b(?:because|since|as|when|while|where|which|who|after|before|until|although|though|even|despite|given|whereas|"
    r"from|moved|was|were|had|has|see|saw|seen|left|but|so|that)\b|\(",
    re.I,
)
_TAKEN_BACK = re.compile(
    r"(?i)^\W*(?:no|or|wait|actually|hmm+|correction|sorry|instead|rather|scratch that|on second thoughts?)\b"
    r"|\b(?:wait,|on second thoughts?|i was (?:wrong|mistaken)|that(?:['\u2019]s| is| was) (?:wrong|incorrect))"
)
_HEDGED = re.compile(r"\b(?:would|could|might|should)\b|['\u2019]d\b", re.I)
_SENTENCE = re.compile(
    r"(?<=[.!?])(?<![\s(\[\".][A-Za-z]\.)(?<!^[A-Za-z]\.)(?<!\b\d\.)[\"')\]\u201d]*\s+"
    r"|(?<= [A-Z]\.)\s+(?=(?:One|This|That|He|She|They|It|Because|Since|So|But|However|Therefore|Note|If"
    r"|Although|As|When|Then|There|Now|Hence|Thus|I|We|You|My|Our)\b)"
)
_STRUCK = re.compile(r"^[^\w\n~]*~~[^~\n]{1,200}~~.*$|~~[^~\n]{1,200}~~", re.M)
_TICKED = re.compile(r"^[^\S\n]*[-*] \[[xX]\] ", re.M)
_UNTICKED = re.compile(r"^[^\S\n]*[-*] \[ \] .*$", re.M)
_ROW = re.compile(r"^[ \t]*\|(.+)\|[ \t]*$", re.M)
_DENIED = re.compile(r"(?<!\?)(?<!\? )[\u274c\u2717\u2718\u2716\U0001f6ab]\ufe0f?(?!\W*(?:no|yes)\b)", re.I)
_SYMBOL = re.compile(r"[\u2300-\u27a0\u27a2-\u27bf\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff]+ ?")
_DECORATION = re.compile(r"\*{1,3}|`{1,3}|\$|^#{1,6} |^> |\\[()\[\]]", re.M)
_COURTESY = re.compile(
    r"\W*(?:please let me know|let me know|i hope|hope (?:this|that|it)|feel free|thank|thanks|happy to|would you like"
    r"|if you (?:have|need|want|would|'d)|is there anything|do you (?:have|want|need)|glad to"
    r"|good luck|have a (?:nice|good|great))",
    re.I,
)
_BULLET = re.compile(r"^(?:[-\u2022\u2013\u2014*\u2192\u27a1]\ufe0f?|[=-]>|\(?\d{1,2}[.)])\s+")


def plain_lines(text: str) -> list[str]:
    """The lines of a text that hold anything, with single spaces for white space and without marks of markdown.

    What says nothing at the end ("Let me know if you have questions!") is left out, and so is what is struck through. A
    cross beside words is read as "wrong", and the cells of a table's row as "first: second".
    """
    text = _STRUCK.sub("", _SYMBOL.sub("", _DENIED.sub(" (wrong)", text)))
    if _TICKED.search(text):
        text = _TICKED.sub("", _UNTICKED.sub("", text))
    text = _ROW.sub(_cells, text)
    lines = [line for line in (" ".join(one.split()) for one in _DECORATION.sub("", text).splitlines()) if line]
    while len(lines) > 1 and _COURTESY.match(lines[-1]):
        lines.pop()
    return lines


def _cells(row: re.Match[str]) -> str:
    cells = [cell.strip() for cell in row[1].split("|")]
    return "" if all(set(cell) <= set("-: ") for cell in cells) else ": ".join(filter(None, cells))


def sentences(line: str) -> list[str]:
    """The sentences of a line. "B. blue box" is one, since a single letter or a number does not end a sentence."""
    return _SENTENCE.split(line)


def strip_bullet(line: str) -> str:
    """The line without the dash, dot or number of a list before it."""
    return _BULLET.sub("", line)


def find_statements(text: str, choices: Sequence[str]) -> Statements:
    """What the text says that its answer is, in time proportional to its length."""
    texts, text = find_tags(text, choices)
    claims: list[Claim] = []
    known: dict[tuple[str, str], list[Claim]] = {}  # a reply that repeats itself is read once
    for line, after in pairwise((*plain_lines(text), "")):
        if (line, after) not in known:
            known[line, after] = list(_list_claims(line, after, choices))
        claims += known[line, after]
    forms = {_first_of(one, choices) for one in texts} | {one.choice for one in claims if one.form}
    last = claims[-1].choice if claims else None
    final = last if all(one.hedged or one.choice in (None, last) for one in claims) else None
    return Statements(forms, {one.choice for one in claims if not one.form}, final)


def _list_claims(line: str, after: str, choices: Sequence[str]) -> Iterator[Claim]:
    """What one line states, in forms and in sentences; `after` is the line below, for one that ends in a colon."""
    line = strip_bullet(line)
    stated_form = None
    if found := _FORM.search(line):
        rest = line[found.end() :].strip(" \"'") or strip_bullet(after)
        line = line[: found.start()]
        if rest and not rest.startswith(("\x00", "{", "<answer", "</answer")):
            doubted = _DOUBTED.search(re.split(r"[:;,]|[.!?] ", line)[-1])
            stated_form = Claim(None if doubted else _first_of(rest, choices), form=True, hedged=False)
    for sentence, following in pairwise((*sentences(line), "")):
        yield from _in_sentence(sentence, following, choices)
    if stated_form is not None:
        yield stated_form


def _in_sentence(sentence: str, following: str, choices: Sequence[str]) -> Iterator[Claim]:
    if SUPPOSED.search(sentence):
        return  # "if she were, the answer would be": it is not so
    for one in find_mentions(sentence, choices):
        if _IS_ANSWER.match(sentence, one.end):
            denied = _DOUBTED.search(sentence[max(0, one.start - 60) : one.start]) or sentence.endswith("?")
            unsure = denied or _TAKEN_BACK.search(following)
            yield Claim(None if unsure else one.choice, form=False, hedged=bool(_HEDGED.search(sentence, one.end)))
            return
    seen: set[tuple[str, str]] = set()
    for cue in _CUE.finditer(sentence):
        before = re.split(r"[:;,]", sentence[max(0, cue.start() - 60) : cue.start()])[-1]
        rest = sentence[cue.end() : cue.end() + LONGEST + extra_length(choices)]
        if (before, rest) in seen:
            continue
        seen.add((before, rest))
        if _OTHERS.search(before):
            continue  # "the usual answer would be": it is somebody else's
        label = _first_of(rest, choices)
        if label is None and not find_mentions(rest, choices):
            continue  # "the answer is not easy to see": it says nothing of any choice
        unsure = _DOUBTED.search(before) or sentence.endswith("?") or _TAKEN_BACK.search(following)
        yield Claim(None if unsure else label, form=False, hedged=bool(_HEDGED.search(cue[0])))


def _first_of(text: str, choices: Sequence[str]) -> str | None:
    """The first choice that a text names and does not deny; None where it is doubted, taken back or one of several."""
    # One of several sentences has to be taken as a whole.
    if (
        any(len(sentences(one)) > 1 for one in choices)
        and (label := match_label(text.strip(" \"'"), choices)[0]) is not None
    ):
        return label
    parts = sentences(text)
    text, rest = _ADVERB.sub("", parts[0]), " ".join(parts[1:])
    named = find_mentions(text, choices)
    place = 0
    for number, one in enumerate(named):
        between = text[place : one.start]
        place = one.end
        if _DENIAL.search(between):
            continue
        if text.rstrip(" \"'").endswith("?") or _TAKEN_BACK.search(rest):
            return None
        return None if _is_one_of_several(text[one.end :], one, named[number + 1 :]) else one.choice
    return None


def _is_one_of_several(rest: str, one: Mention, others: Sequence[Mention]) -> bool:
    """Whether the rest of a sentence names another choice as an equal of this one."""
    other = next((found for found in others if found.choice != one.choice), None)
    between = "" if other is None else rest[: other.start - one.end]
    return other is not None and not (_DENIAL.search(between) or _REASON.search(between))


_PERSON = re.compile(r"(?<![\w'\u2019])[A-Z][a-z]+(?:-[A-Z][a-z]+)?(?!\w)")
_OPENER = re.compile(
    r"\W*(?:[A-Z][a-z]+)(?=(?:['\u2019]s)?,? (?:\w+ly )?(?:is|was|has|had|would|will|did|does|thinks?|believes?|knows?|"
    r"expects?|saw|left|moved|told|\w+s\b|\w+ed\b))"
)
_PRONOUNS = frozenset(("he", "she", "they", "it", "his", "her", "their", "there", "him", "them", "i", "one"))
# fmt: off
_NO_NAMES = frozenset((
    "so", "thus", "hence", "therefore", "then", "now", "since", "because", "but", "and", "although", "while", "when",
    "after", "before", "if", "as", "however", "finally", "also", "yes", "no", "this", "that", "these", "those", "it",
    "there", "he", "she", "they", "his", "her", "their", "its", "what", "who", "where", "which", "nobody", "everyone",
    "everybody", "someone", "somebody", "nothing", "everything", "both", "all", "let", "here", "step", "answer", "the",
    "option", "choice", "once", "only", "still", "given", "based", "according", "later", "meanwhile", "first", "next",
    "last", "lastly", "second", "third", "final", "conclusion", "reality", "belief", "consequently", "accordingly",
    "ultimately", "overall", "well", "okay", "ok", "hmm", "wait", "actually", "in", "at", "on", "from", "to", "by",
    "is", "does", "did", "would", "not", "even", "just", "maybe", "perhaps", "likewise", "label", "contents",
))
# fmt: on
"""Words that begin a sentence and are no names, though a verb may follow them."""
_ANSWER_HEAD = re.compile(
    r"(?i)\W*(?:(?:the|my|so|final|short|predicted|expected|likely|most|correct|overall|in)\W+){0,3}(?:answer"
    r"|emotion|feelings?|mood|action"
    r"|prediction|behaviou?r|conclusions?|verdict|result|decision|choice|pick|tl;?dr|short|bottom line|summary"
    r"|motive|reaction)\W*"
)
_HEAD_WORDS = frozenset(map(stem, (
    "step", "belief", "perspective", "view", "mind", "current", "answer", "so", "now", "what", "contents", "location",
)))  # fmt: skip
_KIN = re.compile(
    r"(?i)(?:\b(?:his|her|their|the|my|an?) |^\W*)(?P<kin>aunt|uncle|mother|father|mom|mum|dad|brother|sister"
    r"|friend|neighbou?r"
    r"|teacher|boss|grand(?:ma|pa|mother|father)|cousin|wife|husband|colleague|son|daughter|narrator|reader|author"
    r"|(?:label|lid|sticker|picture|sign)(?= (?:says?|said|reads?|shows?|suggests?|claims?)))s?\b"
)
"""Who or what may believe or say something without a name; a question about them names them, too."""

_THEN_WORDS = re.compile(r"\b(?:before|at first|initially|originally|at the (?:beginning|start)|was|were|did)\b", re.I)


class QuestionTerms:
    """A question: the stems of the names in it, in order, and of its other telling words, and whether it is about a
    belief, reality, the past or a person."""

    def __init__(self, text: str | None, choices: Sequence[str]) -> None:
        self.known = text is not None
        asked = sentences(text.strip())[-1] if text else ""
        words = WORD.findall(asked)
        self.names = [stem(word) for word in words[1:] if word[0].isupper() and word.casefold() not in COMMON]
        self.others = {stem(word) for word in words if word.casefold() not in COMMON} - set(self.names)
        self.own = {stem(word) for word in words} - {"the", "that", "is", "and", "of", "to", "in", "a"}
        self.stems = {stem(word) for word in words} | {stem(word) for word in COMMON}
        self.of_choices = {stem(word) for choice in choices for word in WORD.findall(choice)}
        self.believes = BELIEF.search(asked) is not None
        self.of_reality = text is None or bool(REALLY.search(asked)) or not self.believes
        self.of_who = bool(re.match(r"\W*who\b", asked, re.I))
        self.of_past = bool(_THEN_WORDS.search(asked))

    def occurs_in(self, sentence: str, start: int) -> bool:
        """Whether a sentence says the question as a statement; `start` is where it first names a choice. It has the
        names in order, and a verb of belief where the question has one; "she" may stand for one person, and a question
        about nobody has to be said word by word."""
        if self.of_who and not sentence[:start].strip(" \"'(*"):
            after = [stem(word) for word in WORD.findall(sentence)[1:4]]
            return bool(self.own & set(after[:2]))
        if not (self.names or self.others) or (self.believes and not BELIEF.search(sentence)):
            return False
        told = _stems(sentence)
        lead = sentence[:start] if len(WORD.findall(sentence[:start])) > 2 else sentence
        by_name = _in_order(self.names, _stems(lead)) and (bool(self.names) or self.others <= set(told))
        if self.people(lead) - set(self.names):
            return False
        by_pronoun = len(self.names) == 1 and bool({"he", "she", "they"} & set(told)) and self.others <= set(told)
        return by_name or by_pronoun

    def about(self, lead: str, decides: bool) -> bool:
        """Whether a sentence with these words before a choice answers the question. One that decides ("so", "it must
        be") may leave out whom it speaks of."""
        told = _stems(lead)
        people = self.people(lead)
        if people - set(self.names):
            return False
        if self.believes and not decides and not BELIEF.search(lead):
            return False
        if people:
            return _in_order(self.names, told) or (decides and len(self.names) == 1)
        return decides or (len(self.names) < 2 and bool(_PRONOUNS & set(told)))

    def is_restated(self, head: str) -> bool:
        """Whether a heading or a question in a reply asks for the same ("Emotion", "Ann's belief", "So what does she
        think?"): it may leave out words of the question, but adds none."""
        believes, really = BELIEF.search(head) is not None, REALLY.search(head) is not None
        people = self.people(head)
        if people - set(self.names) or (people and not _in_order(self.names, _stems(head))):
            return False
        if _ANSWER_HEAD.fullmatch(head):
            return True
        added = {word for word in _stems(head) if not word.isdigit()} - self.stems - _HEAD_WORDS
        if added:
            return False
        return believes or bool(people) if self.believes else bool(people or really or self.others & set(_stems(head)))

    def is_about_others(self, sentence: str) -> bool:
        """Whether a sentence speaks of what other people than the question's first one believe."""
        if not (self.names and self.believes):
            return False
        people, stems = self.people(sentence), _stems(sentence)
        if not people or self.names[0] in people:
            return set(self.names) <= people and not _in_order(self.names, stems)
        first = min(stems.index(one) if one in stems else len(stems) for one in people)
        return not {"he", "she", "they", "i"} & set(stems[:first])  # "she thinks that Bo ..." speaks of her

    def people(self, text: str) -> set[str]:
        """The stems of the names in a text. Its first word counts where the question knows it or a verb follows."""
        first = _OPENER.match(text)
        start = len(text) - len(text.lstrip(" \"'(*"))
        found = {
            stem(one[0]) for one in _PERSON.finditer(text) if one.start() > start and one[0].lower() not in _NO_NAMES
        }
        if first is not None and first[0].strip(" \"'(*").split("'")[0].casefold() not in _NO_NAMES:
            found.add(stem(WORD.findall(first[0])[0]))
        found |= {stem(word) for word in WORD.findall(text) if word[0].isupper() and stem(word) in self.names}
        found = {one for one in found if one not in self.of_choices and one not in COMMON}
        return found | {kin for kin in (stem(one["kin"]) for one in _KIN.finditer(text)) if kin not in self.stems}


def _stems(text: str) -> list[str]:
    return list(map(stem, WORD.findall(text)))


def _in_order(names: Iterable[str], told: Sequence[str]) -> bool:
    words = iter(told)
    return all(name in words for name in names)


_WAS = re.compile(r"\b(?:was|were|did|had)\b", re.I)
_ASKING = re.compile(r"(?P<head>[^?]{2,120}\?)(?: ?[:\u2192-])?[ ]?(?P<rest>.*)$")
_HEAD = re.compile(r"(?P<head>[^:\u2192=]{2,60}?)[ ]?(?::|\u2192|[=-]>|\u21d2|\s[\u2013\u2014-])[ ](?P<rest>.+)$")
_THEN = re.compile(
    r",? (?:then|it is|(?:is|are) (?:what|where)\b.{0,60}\b(?:think|believ|expect|look|will|would)\w*)\b", re.I
)
_CONCEDED = re.compile(r"(?i)\W*(?:although|though|even though|while|whereas|despite|in spite of) [^,;:]{3,200}, ")
_BUT = re.compile(r"(?i)[^,;:]{3,200}, (?:but|yet) ")
"""What a sentence concedes before it comes to its point, which has to be about whom the question asks for."""
_CONTRAST = re.compile(r"(?i)\b(?:although|though|while|whereas|despite|in spite of)\b")
_OPEN_END = re.compile(r"(?::|\b(?:in|is|the|think|thinks|at))$")


class Assertions:
    """The sentences of a text, each with the choices that it asserts."""

    def __init__(self, lines: Sequence[str], choices: Sequence[str], question: str | None) -> None:
        self.choices, self.lines = choices, lines
        self.question = QuestionTerms(question, choices)
        joined: list[str] = []
        for line in lines:
            if joined and _OPEN_END.search(joined[-1]) and begins_with_choice(line, choices):
                joined[-1] = f"{joined[-1]} {line}"  # "Therefore, it is in:" and the choice in a line of its own
            else:
                joined.append(line)
        told = (part for line in joined for one in sentences(line) for part in one.split("; "))
        self.sentences = [NOT_BUT.sub("", ONLY.sub("only", one)) for one in told if one]

    def find_conclusion(self) -> str | None:
        """The choice of the last sentence that concludes something of one choice."""
        for place in range(len(self.sentences) - 1, -1, -1):
            sentence = self.sentences[place]
            if THEREFORE.match(sentence) is None:
                inner = list(INNER.finditer(sentence))
                if not inner:
                    continue
                sentence = sentence[inner[-1].end() :]
            if not find_mentions(sentence, self.choices) or self.question.is_about_others(sentence):
                continue
            label = None if self.has_doubt(sentence) else self.find_assertion(sentence)
            return label if label is not None and self._stands(place, label) else None
        return None

    def find_echo(self) -> str | None:
        """The choice of the sentences that say the question as a statement, where they all say the same one."""
        said: dict[int, str | None] = {}
        for place, sentence in enumerate(self.sentences):
            named = find_mentions(sentence, self.choices)
            if not named or not self.question.occurs_in(sentence, named[0].start):
                continue
            said[place] = None if self.has_doubt(sentence) else self.find_assertion(sentence)
        if not said or len(set(said.values())) != 1:
            return None
        (place, label) = list(said.items())[-1]
        return label if label is None or place == 0 or self._stands(place, label) else None

    def find_under_heading(self) -> str | None:
        """The choice under a heading, or after a question, that asks the same ("Ann's belief: the red box", "So where
        does she look? In the red box."); all of them have to agree."""
        found: set[str | None] = set()
        for place, sentence in enumerate(self.sentences):
            head = _ASKING.match(sentence) or _HEAD.match(sentence)
            if head is None or not self.question.is_restated(head["head"]):
                continue
            rest = head["rest"] or (self.sentences[place + 1] if place + 1 < len(self.sentences) else "")
            found.add(self.find_assertion(rest))
        return next(iter(found)) if len(found) == 1 else None

    def find_own_words(self) -> str | None:
        """The choice of the last sentence that answers the question in its own words, such as "she will look there";
        where earlier ones answered otherwise, it has to conclude, or something between has to turn ("but")."""
        found: list[tuple[int, str]] = []
        for place in range(len(self.sentences)):
            label = self._answers(place)
            if label is not None:
                found.append((place, label))
        if not found:
            return None
        place, label = found[-1]
        others = [earlier for earlier, other in found if other != label]
        if others and not (_decides(self.sentences[place]) or self._turns(others[-1], place + 1)):
            return None
        for sentence in self.sentences[place + 1 :]:
            others_named = {one.choice for one in find_mentions(sentence, self.choices)} - {label}
            if others_named and self.has_doubt(sentence):
                return None
        return label

    def has_doubt(self, sentence: str) -> bool:
        """Whether a sentence doubts or asks, apart from the words of the choices themselves."""
        return any(DOUBT.search(bare) for bare, _, _ in self._clauses(sentence))

    def _answers(self, place: int) -> str | None:
        """The choice that a sentence gives as an answer to the question; None where it answers something else."""
        sentence = self.sentences[place]
        if (rest := self._rest(sentence)) is not None:
            sentence = rest
        named = find_mentions(sentence, self.choices)
        if not named or sentence.startswith("(") or SUPPOSED.search(sentence) or self.has_doubt(sentence):
            return None
        label = self.find_assertion(sentence)
        if label is None:
            return None
        one = next(one for one in named if one.choice == label)
        lead = sentence[: one.start]
        alone = _plain(lead) and (
            not WORD.search(sentence, named[-1].end) or _THEN.match(sentence, one.end) is not None
        )
        decides = rest is None and (alone or _decides(sentence))
        return label if self.question.about(lead, decides) else None

    def _rest(self, sentence: str) -> str | None:
        """What a sentence says that concedes one choice and then names another; None for any other sentence."""
        conceded = _CONCEDED.match(sentence) or _BUT.match(sentence)
        if conceded is None or BELIEF.search(conceded[0]) or not find_mentions(conceded[0], self.choices):
            return None
        rest = sentence[conceded.end() :]
        named = conceded.re is _CONCEDED or self.question.people(rest)
        return rest if named and find_mentions(rest, self.choices) else None

    def _turns(self, start: int, end: int) -> bool:
        return any(TURN.search(sentence) for sentence in self.sentences[start:end])

    def _stands(self, place: int, label: str) -> bool:
        """Whether what follows a sentence leaves its choice standing: it asserts no other, or only explains."""
        for later in range(place + 1, len(self.sentences)):
            sentence = self.sentences[later]
            if self._list_assertions(sentence, seen=True) - {label} and not self.question.is_about_others(sentence):
                return False
        return True

    def find_assertion(self, sentence: str) -> str | None:
        """The one choice that a sentence asserts, None where it asserts none or several, or only concedes one."""
        kept = self._list_assertions(sentence)
        if len(kept) != 1:
            return None
        label, conceded = next(iter(kept)), _CONCEDED.match(sentence)
        only = conceded is not None and label not in {
            one.choice for one in find_mentions(sentence[conceded.end() :], self.choices)
        }
        return None if only else label

    def _list_assertions(self, sentence: str, seen: bool = False) -> set[str | None]:
        """The choices that a sentence names outside of asides, denials, and clauses about who moved or saw what. seen:
        whether what was so before, or what somebody saw, counts nevertheless."""
        kept: set[str | None] = set()
        for bare, clause, here in self._clauses(sentence):
            if not here or NEGATION.search(bare):
                continue
            believes = BELIEF.search(clause)
            if not believes and MOVED.search(clause) and not NECESSARY.search(clause):
                continue
            if not believes and not self.question.of_reality and REALLY.search(bare):
                continue
            if not seen and not self.question.of_past and not believes and PAST.search(clause):
                continue
            kept |= here
        return kept

    def _clauses(self, sentence: str) -> Iterator[tuple[str, str, set[str | None]]]:
        """The clauses of a sentence that are no asides: without the words of choices, with them, and these choices. Of
        "from the red box to the blue box" only the second is counted."""
        named = find_mentions(sentence, self.choices)
        starts = [one.start for one in named]
        inside = []
        for one in CLAUSE.finditer(sentence):
            place = bisect_right(starts, one.start()) - 1
            if place < 0 or named[place].end <= one.start():
                inside.append(one)
        ends = [0, *(one.start() for one in inside), len(sentence)]
        for start, end in pairwise(ends):
            clause = sentence[start:end].lstrip(",;:) ")
            if start and ASIDE.match(clause):
                continue
            here = named[bisect_left(starts, start) : bisect_left(starts, end)]
            bare = remove_choices(sentence, start, end, here)
            if len(here) > 1 and FROM.search(sentence[start : here[0].start]):
                here = here[1:]
            yield bare, clause, {one.choice for one in here}


def _plain(lead: str) -> bool:
    """Whether the words before a choice are common ones that say nothing of the past, such as "it is in the"."""
    return all(word.casefold() in COMMON for word in WORD.findall(lead)) and not _WAS.search(lead)


def _decides(sentence: str) -> bool:
    """Whether a sentence concludes or settles something."""
    return bool(THEREFORE.match(sentence) or NECESSARY.search(sentence))


def remove_choices(sentence: str, start: int, end: int, named: Sequence[Mention]) -> str:
    """A part of a sentence without the words of the choices in it, which may hold a "not" themselves."""
    parts, place = [], start
    for one in named:
        parts.append(sentence[place : one.start])
        place = min(one.end, end)
    return " ".join((*parts, sentence[place:end]))


def begins_with_choice(line: str, choices: Sequence[str]) -> bool:
    """Whether a line begins with a choice, with at most an article or the like before it."""
    named = find_mentions(line, choices)
    return bool(named) and len(WORD.findall(line[: named[0].start])) < 2


_OPEN = re.compile(r"(?i)\W*(?:or|and|no|not|wait|actually|rather|instead|correction|hmm|but)\b|\s*\?|\s*[/|]")
_CUT = re.compile(
    r"(?:[,:;(=\u2192\u279c\u27a1-]|\b(?:the|an?|in|to|that|is|was|are|thinks?|believes?|told|and|or|of|by|from"
    r"|with|at|on|so"
    r"|because|since|as|if|when|while|but|has|had|not|his|her|its|their|who|where|which|would|will|moved|affect))\s*$"
)
"""The end of a text that goes on, so that it was cut off there."""
_CANNOT_KNOW = re.compile(
    r"(?i)\b(?:cannot|can ?not|can['\u2019]t|could not|impossible to) (?:be )?"
    r"(?:determined?|known?|told|tell|said|say|inferred|infer)\b"
    r"|\b(?:not|n['\u2019]t|in)[ -]?(?:enough|sufficient) info(?:rmations?)?\b|\bno way (?:to know|of knowing)\b"
    r"|\b(?:not|n['\u2019]t|never) (?:stated|specified|mentioned|known|said)\b"
)
_UNKNOWN = re.compile(
    r"(?i)unknown|undetermined"
    r"|(?:there (?:is|isn['\u2019]t) )?(?:not )?(?:enough|sufficient|insufficient) info(?:rmation)?.*"
    r"|(?:it )?can(?:not|['\u2019]t| not) (?:be )?(?:determined?|know|known|tell|told|say|said).*"
)
_HEADING = re.compile(
    r"\W*(?:explanation|reasoning|rationale|recap|summary|(?:\w+ )?key (?:points?|steps?|takeaways?)|takeaways?|notes?"
    r"|caveats?|verification|why|not(?= ?:))\b[^.]{0,40}$",
    re.I,
)
_DENIED_AFTER = re.compile(
    r"(?i)\W{0,3}(?:is|was|would|can|could) ?(?:not|n['\u2019]t|never|wrong|incorrect)\b|\W{0,4}(?:wrong|incorrect"
    r"|false)\b"
)
_REASONS = re.compile(r"\W*(?:explanation|reason(?:ing|s)?|rationale|justification|why|because|notes?):", re.I)
_ALONE = re.compile(r"[\"')\]\u201d]{0,2}(?:,? (?:then|it is|i think|i['\u2019]d say|i guess))?[.!]*$", re.I)
_MARKS = " \t\"'`*_()[]."
DIFFERENT = "the text begins, ends or concludes with different choices"

Outcome = tuple[str, str] | str | None
"""The rung and the choice; or the reason why a text with choices has no answer; or None where it makes none."""


def read_prose(text: str, choices: Sequence[str], question: str | None = None, whole: bool = True) -> Outcome:
    """Read an answer out of prose, in time proportional to its length; the arguments as for `answers.read_reply`."""
    lines = [strip_bullet(line) for line in plain_lines(text)]
    if not lines:
        return None
    whole = whole and (_CUT.search(text) is None or text.count(text[-60:-20]) > 2)  # or it repeats itself for ever
    assertions = Assertions(_before_heading(lines, choices), choices, question)
    begins = _edge(lines, 0, 1, choices)
    if question is not None and not question.rstrip().endswith("?"):  # it goes on where the question stops
        begins = find_leading(sentences(lines[0])[0].split(", but ")[0], choices)[0]
    by_rung = {"first": begins}
    if whole:
        by_rung |= {
            "last": _ending(_before_reasons(assertions.lines), choices, assertions.question),
            "concluded": assertions.find_conclusion(),
            "echoed": assertions.find_echo(),
        }
    found = {rung: label for rung, label in by_rung.items() if label is not None}
    if len(set(found.values())) > 1:
        return DIFFERENT
    if found:
        return next(iter(found.items()))
    if not whole:
        return None
    for rung, label in (("headed", assertions.find_under_heading()), ("settled", assertions.find_own_words())):
        if label is not None:
            return rung, label
    return _sole(lines, choices, assertions.question)


_LEADS = ("", "the", "a", "an", "in", "it's", "in the", "in a", "at the", "on the", "so", "it is", "it is in")
"""What may stand before the choice with which a text begins."""


def find_leading(text: str, choices: Sequence[str]) -> tuple[str | None, str]:
    """The choice with which a text begins, and the words that name it; (None, "") where it begins with none, asks
    ("B?"), offers two ("A or B") or takes it back."""
    text = " ".join(text.split())
    named = find_mentions(text, choices)
    if not named:
        return None, ""
    one = named[0]
    before, rest = text[: one.start].strip(_MARKS + "-:,").casefold(), text[one.end :]
    if before not in _LEADS:
        return None, ""
    if _OPEN.match(rest) or _DENIED_AFTER.match(rest):
        return None, ""
    other = next((found for found in named[1:] if found.choice != one.choice), None)
    listed = other is not None and not text[one.end : other.start].strip(" ,;/|.")
    if listed or one.choice is None:
        return None, ""
    if _is_paraphrase(rest, one.choice):
        return one.choice, text
    return one.choice, text[one.start : one.end]


def _is_paraphrase(rest: str, choice: str) -> bool:
    """Whether what follows a letter says its choice in nearly the same words."""
    wanted = [stem(word) for word in WORD.findall(choice)]
    said = {stem(word) for word in WORD.findall(sentences(rest.lstrip(" .):"))[0])}
    return len(wanted) > 2 and sum(word in said for word in wanted) >= 0.6 * len(wanted)


def _leading_choice(line: str, choices: Sequence[str]) -> str | None:
    """The choice with which a line begins. A letter alone has to be the whole line ("A. First, ..." is a list), and
    words have to end a clause or be followed by a reason ("blue_box because ..."), not go on as a subject."""
    label, words = find_leading(line, choices)
    if label is None or words == line:
        return label
    if len(words.strip(_MARKS + ":")) == 1:
        return None
    return label if _CLAUSE_END.match(line, line.index(words) + len(words)) else None


_CLAUSE_END = re.compile(
    r"[\"')\]]{0,2}(?:[.!;:,](?:\s|$)|$|\s(?:\(|[-\u2013\u2014\u2190]\s|because\b|since\b|as\b|(?:he|she|they|it|i|we)\b"
    r"|is (?:where|what|the (?:answer|one|place|location|right|correct|only|best|most))\b))",
    re.I,
)


def _edge(lines: Sequence[str], place: int, beside: int, choices: Sequence[str]) -> str | None:
    """The choice with which the first or the last line begins, unless the line beside it begins in the same way with
    another one, as in a list of the choices."""
    label = _leading_choice(lines[place], choices)
    if label is None or len(lines) < 2:
        return label
    other = _leading_choice(lines[beside], choices)
    return (
        None
        if other not in (None, label) and _shape(lines[place], choices) == _shape(lines[beside], choices)
        else label
    )


def _shape(line: str, choices: Sequence[str]) -> tuple[bool, bool]:
    """Whether a line begins with a letter, and whether it names a choice in words."""
    named = find_mentions(line, choices)
    return bool(named) and named[0].by != WORDS, any(one.by != LETTER for one in named)


def _ending(lines: Sequence[str], choices: Sequence[str], asked: QuestionTerms) -> str | None:
    """The choice with which the last line begins, or that its last sentence is ("Mustard, then.", "So: mustard.",
    "I'm confident: option J.")."""
    if (label := _edge(lines, -1, -2, choices)) is not None or _leading_choice(lines[-1], choices) is not None:
        return label
    last = sentences(lines[-1])[-1]
    named = find_mentions(last, choices)
    bare = remove_choices(last, 0, len(last), named)
    if not named or len({one.choice for one in named}) > 1 or NEGATION.search(bare):
        return None
    one = named[-1]
    before = last[: one.start].strip(_MARKS)
    marked = one.by in (LETTER, BOTH)
    head = before.endswith(":") and not asked.people(before) - set(asked.names)
    if head and len(lines) > 1 and re.match(r"[^:]{2,60}: ", last):
        head = asked.is_restated(before.rstrip(":"))  # one of a list of facts
    if not _ALONE.match(last[one.end :]) or not (marked or head or (len(before.split()) < 3 and before[-1:] != ":")):
        return None
    return one.choice


def _before_heading(lines: list[str], choices: Sequence[str]) -> list[str]:
    """The lines before a heading such as "Key takeaways", where they name a choice: what follows only explains."""
    for place, line in enumerate(lines):
        if place and _HEADING.match(line) and not find_mentions(line, choices):
            return lines[:place] if any(find_mentions(one, choices) for one in lines[:place]) else lines
    return lines


def _before_reasons(lines: Sequence[str]) -> Sequence[str]:
    """The lines before one that begins with "Reason:", "Explanation:" or the like."""
    return next((lines[:place] for place, line in enumerate(lines) if place and _REASONS.match(line)), lines)


def _sole(lines: Sequence[str], choices: Sequence[str], asked: QuestionTerms) -> Outcome:
    """The one choice that a text names in words, or by letters with a mark ("(c)", "option c") where it names none in
    words; or the choice that says that one cannot know."""
    text = "\n".join(lines)
    named = [(line, one) for line in lines for one in find_mentions(line, choices)]
    told = {one.choice for _, one in named if one.by != LETTER}
    letters = {one.choice for line, one in named if one.by == LETTER and _has_mark(line, one)}
    bare = "\n".join(remove_choices(line, 0, len(line), find_mentions(line, choices)) for line in lines)
    if not told and not letters and _CANNOT_KNOW.search(text):
        offered = (isinstance(choices, LetteredChoices) and choices.offered) or choices
        unknown = [choice for choice in offered if choice and _UNKNOWN.fullmatch(choice.rstrip("."))]
        return ("sole", unknown[0]) if len(unknown) == 1 else None
    found = told or letters
    if len(found) != 1 or None in found or NEGATION.search(bare) or DOUBT.search(bare):
        return _one_sentence(lines, choices)
    telling = [one for line in lines for one in sentences(line) if find_mentions(one, choices)]
    if telling and all(MOVED.search(one) and not BELIEF.search(one) for one in telling):
        return None  # it retells who moved what, which says nothing of the question
    if telling and all(asked.is_about_others(one) and asked.people(one) != set(asked.names[-1:]) for one in telling):
        return None  # "Bo thinks it is there" may be said for "Ann thinks that Bo thinks", but of nobody else
    label = next(iter(found))
    if told and any(one.by == LETTER and one.choice not in (None, label) for _, one in named):
        return DIFFERENT  # such as a choice in words and the letter of another one elsewhere
    return ("sole", str(label))


def _one_sentence(lines: Sequence[str], choices: Sequence[str]) -> Outcome:
    """What a reply of one sentence asserts ("Sam would say tea, not salt")."""
    whole = Assertions(lines, choices, None)
    if len(whole.sentences) > 1 or whole.has_doubt(whole.sentences[0]) or MOVED.search(whole.sentences[0]):
        return None
    if _CONTRAST.search(whole.sentences[0]) and len({one.choice for one in find_mentions(lines[0], choices)}) > 1:
        return None  # which of both the question asks for is told by no form
    label = whole.find_assertion(whole.sentences[0])
    return None if label is None else ("sole", label)


def _has_mark(line: str, one: Mention) -> bool:
    return line[one.start] in "([" or re.match(r"option|choice|letter", line[one.start :], re.I) is not None
