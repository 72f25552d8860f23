"""Who a question asks about: the persons whose minds it goes through, the outermost first.

>>> find_people("Where does Ann think Bo thinks the pen is?"), find_people("Where is the pen really?")
(('Ann', 'Bo'), ())

A question asks about a mind as "does Ann [really] think", "will Ann look" or "Ann's belief", "the belief of Ann",
wherever in its text that stands; a person is one or several capitalised words, a pronoun, or an article and up to three
words ("the old man"). Inside a state of mind, "[that] Bo believes" and, for names, "Bo will look" or "Bo looks" go one
mind deeper. A question that does none of this asks about what is really the case. An item's factor ``person`` ("Ann >
Bo", the outermost first; "" for nobody) wins over the text of its question.
"""

import re
from functools import lru_cache

from tomserve.items import Item


def _third(verb: str) -> str:
    """The form of a verb that goes with he or she: thinks, wishes, does, worries."""
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return verb + "es"
    return re.sub(r"(?<![aeou])y$", "ie", verb) + "s"


_BELIEFS = "think|believe|know|expect|suppose|assume|suspect|imagine|guess|remember|want|hope|wish|feel|fear|intend"
_STATES = f"{_BELIEFS}|plan|prefer|consider|reckon|understand|realise|realize|recall|see|doubt|mean|like|love|notice"
_ACTS = (
    "search|look|go|reach|check|say|answer|reply|tell|do|open|take|buy|put|pick|move|find|act|respond|report|point|use|"
    "choose|call|eat|drink|walk|head|try|get|react|claim|start|bring"
)
_PAST = (
    "thought|believed|knew|expected|supposed|assumed|suspected|imagined|guessed|remembered|wanted|hoped|wished|felt|"
    "feared|intended|planned"
)
_ASK = "(?i:does|did|do|will|would|can|could|should|is|was|has|had|might|may|must)"
_ADVERB = (
    "(?:(?:really|truly|actually|now|still|then|first|most|likely|probably|currently|falsely|wrongly|also|always|at"
    " first|at last) )*"
)
_WORD = r"[^\W\d_a-zß-öø-ÿ][\w'’-]{0,40}?"
_NAME = rf"(?:(?:Mr|Mrs|Ms|Dr|Prof|St)\. )?{_WORD}(?: {_WORD}){{0,4}}(?!\w)"
_ROLE = r"(?:the|her|his|their|my) [a-zß-öø-ÿ-]+(?: [a-zß-öø-ÿ-]+){0,2}?"
_SOMEBODY = f"{_NAME}|{_ROLE}"
_ASKED = rf"{_NAME}(?:['’]s? [a-z]+)?|{_ROLE}|he|she|they"
_NOUN = "(?:belief|desire|intention|emotion|action|opinion|view|thought|feeling|goal|knowledge|expectation|mind)s?"
_SURE = "(?:aware|sure|certain|convinced|confident|of the opinion|under the impression)"
_STATE = rf"(?:(?:{_STATES}|thinking|believing|feeling|hoping|expecting|planning)|{_SURE})\b"
_ACT = rf"(?:{_ACTS})\b"


def _thirds(verbs: str) -> str:
    """The forms of verbs that go with he or she."""
    return "|".join(_third(verb) for verb in verbs.split("|"))


_VERB = re.compile(rf"\b{_ASK} (?P<person>{_ASKED}) {_ADVERB}(?:(?P<state>{_STATE})|{_ACT})")
_OF = re.compile(
    rf"\b{_NOUN} of (?P<person>{_SOMEBODY})(?!\w)"
    rf"|\b(?!(?:In|On|From|By|To) )(?P<owner>{_SOMEBODY})['’]s? {_NOUN}\b"
)
_DEEPER = re.compile(
    rf" (?:about )?(?:that |where |what |whether )?(?:"
    rf"(?P<person>{_SOMEBODY}) {_ADVERB}(?:{_thirds(_BELIEFS)}|{_PAST}|{_BELIEFS}|(?:is|was) {_SURE})\b"
    rf"|(?P<actor>{_NAME}) {_ADVERB}(?:(?:will|would|is going to) {_ADVERB}(?:{_STATE}|{_ACT})|(?:{_thirds(_ACTS)})\b))"
)


@lru_cache(maxsize=4096)
def find_people(question: str) -> tuple[str, ...]:
    """The persons whose minds the question goes through, the outermost first; () where it asks about no mind."""
    verb, noun = _VERB.search(question), _OF.search(question)
    if verb is None or (noun is not None and noun.start() < verb.start()):
        return () if noun is None else (noun["person"] or noun["owner"],)
    chain = [verb["person"]]
    deeper = _DEEPER.match(question, verb.end()) if verb["state"] else None
    while deeper is not None:
        chain.append(deeper["person"] or deeper["actor"])
        deeper = _DEEPER.match(question, deeper.end()) if deeper["person"] else None
    return tuple(chain)


def people_of(item: Item) -> tuple[str, ...]:
    """The persons whose minds the item's question goes through: by its factor `person`, else by the question's text."""
    given = item.factors.get("person")
    if isinstance(given, str):
        return tuple(name for part in given.split(">") if (name := part.strip()))
    return find_people(item.question)
