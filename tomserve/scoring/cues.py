"""The words by which a sentence shows what it does: conclude, doubt, deny, take back, suppose, retell, look back, explain.

Each is a regular expression for one sentence or clause with single spaces for white space; see tomserve.scoring.told for
how they are used.
"""

from __future__ import annotations

import re

TAKEN_BACK = re.compile(
    r"\b(?:wait,|correction:|on second thoughts?|scratch that|i was (?:wrong|mistaken)"
    r"|that(?:['\u2019]s| is| was) (?:wrong|incorrect|not right))",
    re.I,
)
THEREFORE = re.compile(
    r"\W*(?:(?:and|but) )?(?:therefore|thus|so|hence|consequently|accordingly|in conclusion|to conclude|as a result|"
    r"in summary|to sum up|to summarize|overall|ultimately|in the end|finally|this means|that means|which means|"
    r"it follows|we can conclude|we conclude|i conclude|conclusion|based on (?:this|these|that|the|all)|"
    r"given (?:this|these|that|the|all)|from (?:this|these|that)|because of (?:this|that)|tl;?dr"
    r"|for (?:this|these) reasons?|i(?:['\u2019]d| would) say|i (?:think|believe)|i(?:['\u2019]m| am) confident)\b",
    re.I,
)
INNER = re.compile(r"[,;:] (?:so|therefore|thus|hence|which means|meaning)(?: that)?,? ", re.I)
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
    r"\b(?:not|no|never|none|neither|nor|nowhere|without|cannot|cant|dont|doesnt|isnt|wasnt|wont)\b|n['\u2019]t\b", re.I
)
CLAUSE = re.compile(
    r"[,;:] |[()]|\b(?:because|since|as|while|although|though|but|even|despite|whereas|rather than|instead of|before"
    r"|after|when|until|having|where|unlike)\b",
    re.I,
)
ASIDE = re.compile(
    r"\W*(?:because|since|as|while|although|though|even|despite|whereas|rather than|instead of|before|after|when"
    r"|until|unlike|having|where|who|not)\b|\(",
    re.I,
)
MOVED = re.compile(
    r"\b(?:moved?|moves|moving|put|puts|placed|enter(?:s|ed)?|exit(?:s|ed)?|left|leaves|took|takes|told|tells|went|goes|carried|brought)\b",
    re.I,
)
BELIEF = re.compile(
    r"\b(?:think|believ|belief|expect|assum|look|search|know|feel|say|hold|suppos|convinced|imagin|guess|reckon)\w*",
    re.I,
)
FROM = re.compile(r"\bfrom (?:the |an? )?[\"'\u201c]?$", re.I)
REALLY = re.compile(r"\b(?:in (?:fact|reality|truth)|actually|really|truly)\b", re.I)
RECAP = re.compile(
    r"\W*(?:explanation|reasoning|rationale|recap|summary|key (?:points?|steps?|takeaways?)|takeaways?|notes?|caveats?"
    r"|step[- ]by[- ]step|here(?: is|['\u2019]s)|let me|to explain|this is because|that is because|because|since"
    r"|difficulty|verification|double[- ]check)\b",
    re.I,
)
WORD = re.compile(r"[\w'\u2019-]+")
# fmt: off
COMMON = frozenset((
    "a", "an", "and", "are", "as", "at", "be", "been", "believe", "believes", "belief", "by", "did", "do", "does",
    "expect", "expects", "for", "from", "has", "have", "he", "her", "him", "his", "how", "in", "is", "it", "its",
    "know", "knows", "look", "looks", "of", "on", "or", "really", "said", "say", "says", "search", "she", "that",
    "the", "their", "them", "they", "think", "thinks", "thinking", "to", "was", "were", "what", "when", "where",
    "which", "who", "whom", "whose", "will", "with", "would", "currently", "now", "about", "inside", "there",
    "actually",
))
# fmt: on
"""Words of a question that a statement may leave out or change."""


def stem(word: str) -> str:
    """A word in small letters without its ending, so that "thinks" and "think" are one."""
    word = re.sub(r"['\u2019]s$", "", word.casefold())
    return re.sub(r"(?:ing|ed|es|s)$", "", word) if len(word) > 4 else word
