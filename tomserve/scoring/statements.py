r"""Explicit answers in free text: forms ("Answer: x", <answer>x</answer>, \boxed{x}) and sentences ("the answer is x",
"I choose x").

Of the choices that are named after "the answer is" the first one counts that is not denied. What is doubted ("might
be"), asked ("?"), taken back ("no, wait"), or followed by another choice with "or" is None: a reader would not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from tomserve.scoring.labels import LetteredChoices, Mention, extra_length, find_mentions, match_label

TAKEN_BACK = re.compile(
    r"(?i)\b(?:wait,|correction:|on second thoughts?|scratch that|i was (?:wrong|mistaken)|i take (?:it|that) back"
    r"|that(?:['\u2019]s| is| was) (?:wrong|incorrect|not right))"
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

GIVEN_UP = re.compile(
    r"(?i)\b(?:inconclusive|undetermined|undecidable|indeterminate|ambiguous|(?:remains?|is"
    r"|it['\u2019]s) (?:unclear|uncertain|unknown))\b"
    r"|\b(?:can(?:no|['\u2019])t|can not|could(?:n['\u2019]t| not)|impossible to|unable to|hard to|difficult to"
    r"|no way (?:to|of)|does(?:n['\u2019]t| not)|do(?:n['\u2019]t| not)) (?:\w+ )?(?:be )?"
    r"(?:determin\w*|decid\w*|tell which|say which|settle\w*|conclud\w*|infer\w*|say for sure|be sure|know for)\b"
    r"|\b(?:not|n['\u2019]t|in)[ -]?(?:enough|sufficient) info\w*|\b(?:either|both) (?:\w+ )?(?:is|are"
    r"|could be) (?:possible|plausible)"
    r"|\b(?:could|can) go either way\b|\bdepend(?:s|ing) (?:on|upon|whether)\b|\bnot sure\b|\bno answer\b"
)
"""Somebody who gives up deciding."""

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
RECAP = re.compile(
    r"\W*(?:explanation|reasoning|rationale|recap|summary|key (?:points?|steps?|takeaways?)|takeaways?|notes?|caveats?"
    r"|step[- ]by[- ]step|here(?: is|['\u2019]s)|let me|to explain|this is because|that is because|because|since"
    r"|difficulty|verification|double[- ]check)\b",
    re.I,
)
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
    """One place where a text says what its answer is.

    choice: None for something that is no choice, or for a choice that is doubted, denied or taken back. form: whether
    it is a form such as "Answer: x". hedged: whether it says "would be" or the like. place: how many characters of the
    text stand before it.
    """

    choice: str | None
    form: bool
    hedged: bool
    place: int


class Statements(NamedTuple):
    """The choices that a text gives as its answer, in forms and in sentences, and the one that it comes to in the end.

    None stands for something that is no choice, or for a choice that is doubted, denied or taken back. final: the last
    choice, if the text turns ("wait", "but") between any other and this one; else None.
    """

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
_BUT = re.compile(r"\b(?:but|it is|it['\u2019]s|instead,|rather,)\b", re.I)
_UNSURE = re.compile(
    r"(?i)\b(?:might|may|could|either|perhaps|possibly|maybe|between|one of|whether|unclear|uncertain|depends"
    r"|neither|none)\b"
)
_REASON = re.compile(
    r"\b(?:because|since|as|when|while|where|which|who|after|before|until|although|though|even|despite|given|whereas|"
    r"from|moved|was|were|had|has|see|saw|seen|left|but|so|that)\b|\(",
    re.I,
)
_OTHER = re.compile(r"^\W*(?:or|and|and/or|versus|vs)\b|^[\s/&|;,+]*$", re.I)
_TAKEN_BACK = re.compile(
    r"(?i)^\W*(?:no|or|wait|actually|hmm+|correction|sorry|instead|rather|scratch that|on second thoughts?)\b"
    r"|\b(?:wait,|on second thoughts?|i was (?:wrong|mistaken)|that(?:['\u2019]s| is| was) (?:wrong|incorrect))"
)
_HEDGED = re.compile(r"\b(?:would|could|might|should)\b|['\u2019]d\b", re.I)
_TURNS = re.compile(
    r"\b(?:wait|hold on|hmm+|but|however|actually|no,|correction|looking back|on second thoughts?|let me re\w*)\b", re.I
)
_AGAIN = re.compile(
    r"(?i)\b(?:wait|hold on|correction|on second thoughts?|let me re\w*|i (?:made|was) (?:an? )?(?:mistake|error"
    r"|wrong|mistaken)|looking (?:back|again)|scratch that)\b"
)
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
_AFFIRMED = re.compile(r"(?<=[\w.)*]) ?[\u2705\u2713\u2714\u2611]\ufe0f?")
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
    cross or a tick beside words is read as "wrong" or "correct", and the cells of a table's row as "first: second".
    """
    if not text.isascii():
        text = _SYMBOL.sub("", _AFFIRMED.sub(" (correct)", _DENIED.sub(" (wrong)", text)))
    if "~~" in text:
        text = _STRUCK.sub("", text)
    if _TICKED.search(text):
        text = _TICKED.sub("", _UNTICKED.sub("", text))
    if "|" in text:
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
    in_tags = {_one(one, choices) for one in texts}
    lines = plain_lines(text)
    claims: list[Claim] = []
    known: dict[tuple[str, str], list[Claim]] = {}  # a reply that repeats itself is read once
    start = 0
    for place, line in enumerate(lines):
        after = lines[place + 1] if place + 1 < len(lines) else ""
        if (line, after) not in known:
            known[line, after] = list(_of_line(line, after, choices))
        claims += [one._replace(place=start + one.place) for one in known[line, after]]
        start += len(line) + 1
    forms = in_tags | {one.choice for one in claims if one.form}
    return Statements(forms, {one.choice for one in claims if not one.form}, _final(claims, "\n".join(lines)))


def _final(claims: Sequence[Claim], text: str) -> str | None:
    """The choice of the last claim, where those before it that differ are taken back, or were only supposed."""
    if not claims or claims[-1].choice is None:
        return None
    last = claims[-1]
    for one in claims[:-1]:
        if one.choice in (None, last.choice):
            continue
        turn = _TURNS.search(text, one.place, last.place)
        if turn is None or not (one.hedged or _AGAIN.search(text, one.place, last.place)):
            return None
    return last.choice


def _of_line(line: str, after: str, choices: Sequence[str]) -> Iterator[Claim]:
    """What one line states, in forms and in sentences; `after` is the line below, for one that ends in a colon."""
    line = strip_bullet(line)
    stated_form = None
    if found := _FORM.search(line):
        rest = line[found.end() :].strip(" \"'")
        if not rest and after and not after.startswith(("{", "<", "[")):
            rest = strip_bullet(after)
        if rest and not rest.startswith(("\x00", "{", "<answer", "</answer")):
            doubted = _DOUBTED.search(re.split(r"[:;,]|[.!?] ", line[: found.start()])[-1])
            stated_form = Claim(None if doubted else _first_of(rest, choices, whole=True), True, False, found.start())
        line = line[: found.start()]
    whole = sentences(line)
    start = 0
    for place, sentence in enumerate(whole):
        following = whole[place + 1] if place + 1 < len(whole) else ""
        for label, hedged in _in_sentence(sentence, following, after if place + 1 == len(whole) else "", choices):
            yield Claim(label, False, hedged, start)
        start += len(sentence) + 1
    if stated_form is not None:
        yield stated_form


def _in_sentence(
    sentence: str, following: str, after: str, choices: Sequence[str]
) -> Iterator[tuple[str | None, bool]]:
    """What one sentence says that the answer is: a choice, or None where it is doubted; and whether it is hedged."""
    if SUPPOSED.search(sentence):
        return  # "if she were, the answer would be": it is not so
    for one in find_mentions(sentence, choices):
        if _IS_ANSWER.match(sentence, one.end):
            denied = _DOUBTED.search(sentence[max(0, one.start - 60) : one.start]) or sentence.endswith("?")
            hedged = _HEDGED.search(sentence, one.end) is not None
            yield (None if denied or _TAKEN_BACK.search(following) else one.choice), hedged
            return
    seen: set[tuple[str, str]] = set()
    for cue in _CUE.finditer(sentence):
        before = re.split(r"[:;,]", sentence[max(0, cue.start() - 60) : cue.start()])[-1]
        rest = sentence[cue.end() : cue.end() + LONGEST + extra_length(choices)]
        if (before, rest) in seen:
            continue
        seen.add((before, rest))
        if not rest.strip(" :\"'") and after:
            rest, following = strip_bullet(after), ""
        if rest.lstrip(" :\"'").startswith(("\x00", "{")):
            continue
        if _OTHERS.search(before):
            continue  # "the usual answer would be": it is somebody else's
        doubted = bool(_DOUBTED.search(before))
        label = _first_of(rest, choices)
        if label is None and not find_mentions(rest, choices):
            continue  # "the answer is not easy to see": it says nothing of any choice
        unsure = doubted or sentence.endswith("?") or bool(_TAKEN_BACK.search(following))
        yield (None if unsure else label), _HEDGED.search(cue[0]) is not None


def _one(text: str, choices: Sequence[str]) -> str | None:
    """The choice that a whole text is, or names first."""
    label, _ = match_label(text.strip(" *_\"'"), choices)
    return label if label is not None else _first_of(text, choices, whole=True)


def _first_of(text: str, choices: Sequence[str], *, whole: bool = False) -> str | None:
    """The first choice that the text names and does not deny; None where it is doubted, taken back, or one of several.

    whole: the text is all that was said, such as a line after "Answer:", in which "No, x" takes the answer back.
    """
    if _of_several(tuple(choices)) and (label := match_label(text.strip(" \"'"), choices)[0]) is not None:
        return label
    parts = sentences(text)
    text, rest = _ADVERB.sub("", parts[0]), " ".join(parts[1:])
    if (label := match_label(text.strip(" \"'"), choices)[0]) is not None:
        return None if text.rstrip(" \"'").endswith("?") or _TAKEN_BACK.search(rest) else label
    named = find_mentions(text, choices)
    place = 0
    for number, one in enumerate(named):
        between = text[place : one.start]
        place = one.end
        if _denies(between):
            continue
        if _UNSURE.search(between) or text.rstrip(" \"'").endswith("?") or _TAKEN_BACK.search(rest):
            return None
        return None if _revokes(text[one.end :], one, named[number + 1 :], one.end) else one.choice
    return None


@lru_cache(maxsize=256)
def _of_several(choices: tuple[str, ...]) -> bool:
    """Whether one of the choices has several sentences, so that the text has to be taken as a whole."""
    return any(len(sentences(choice)) > 1 for choice in choices)


def _denies(between: str) -> bool:
    """Whether what stands before a choice denies it: "not the", "rather than the", but not "not there but in the"."""
    denials = list(_DENIAL.finditer(between))
    return bool(denials) and not _BUT.search(between, denials[-1].end())


def _revokes(rest: str, one: Mention, others: Sequence[Mention], offset: int) -> bool:
    """Whether what follows a choice in its sentence takes it back or names another one as its equal."""
    other = next((found for found in others if found.choice != one.choice), None)
    between = rest if other is None else rest[: other.start - offset]
    if re.match(r"\W*(?:is|was|would be) (?:not|n['\u2019]t|wrong|incorrect)\b|\s*\?", between, re.I):
        return True
    if re.search(r"\b(?:no wait|wait|actually|correction|on second thoughts?)\b", between, re.I):
        return True
    if other is None:
        return False
    return bool(_OTHER.match(between)) or not (_denies(between) or _REASON.search(between))
