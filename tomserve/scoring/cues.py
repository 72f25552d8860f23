"""The words by which a sentence shows what it does: conclude, doubt, deny, take back, suppose, retell or explain.

Each is a regular expression for one sentence or clause with single spaces for white space; tomserve.scoring.told and
tomserve.scoring.prose say how they are used.
"""

from __future__ import annotations

import re

TAKEN_BACK = re.compile(
    r"\b(?:wait,|correction:|on second thoughts?|scratch that|i was (?:wrong|mistaken)|i take (?:it|that) back"
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
INNER = re.compile(
    r"(?:[,;:.]|\s?[\u2013\u2014\u2192-]| and) (?:so|therefore|thus|hence|consequently|which (?:means|leaves"
    r"|makes)|meaning)"
    r"(?: that)?,? ",
    re.I,
)
"""Where a conclusion begins within a sentence."""

NECESSARY = re.compile(
    r"\b(?:it|this|that|which) (?:has to|must|can only|should|would|will) be\b|\b(?:that|this|which) (?:leaves"
    r"|gives|makes)\b"
    r"|\bmust (?:still )?(?:think|believe|be)\b|\bin the end\b|\b(?:so|then) it(?:['\u2019]s| is)\b|\bstick(?:s"
    r"|ing)? with\b"
    r"|\b(?:i|we)(?:['\u2019]d|['\u2019]ll| would| will)? (?:go|settle|say|expect|stick|conclude|answer)\b|\bonly\b"
    r"|\bas far as\b|\bmy (?:answer|conclusion|guess|verdict)\b",
    re.I,
)
"""What a sentence says that decides, though it does not begin with "therefore"."""

TURN = re.compile(
    r"\b(?:but|however|wait|hold on|hmm+|actually|yet|still|no,|no:|now|instead|rather|though|although|looking back"
    r"|let me (?:re|check|double|see)\w*|on (?:closer|second)|correction|nevertheless|nonetheless|later|afterwards)\b"
    r"|^\W*(?:no|nope)\b",
    re.I,
)
"""After such words something else may be said than before."""

SUPPOSED = re.compile(
    r"^\W*(?:if|had|were|unless|suppose|supposing|assuming|should|even if)\b(?!.*\?)"
    r"|\b(?:would|could|might) (?:then |also |only |still )?have\b|\botherwise\b"
    r"|\bI (?:first|initially|almost|nearly) (?:wanted|thought|was|said|guessed)\b"
    r"|\b(?:first|initial) (?:instinct|thought|impression|guess|reading)\b|\bone might (?:think|say|expect)\b"
    r"|\b(?:tempt(?:ed|ing)|at first (?:glance|sight)|normally|usually|typically)\b",
    re.I,
)
"""A sentence that supposes what is not so, or says what others would say, and asserts nothing."""

PAST = re.compile(
    r"\b(?:previously|initially|originally|at first|earlier|used to|no longer|not any ?more|anymore"
    r"|at the (?:beginning|start|outset)|in the (?:beginning|morning)|had been|started|starts|starting|began|begins"
    r"|until then|last saw|saw|seen|sees|watched|witnessed|noticed|was there|were there)\b|\bbefore\W*$|^\W*before\b",
    re.I,
)
"""What was so before, or what somebody saw: evidence, not yet what is asked."""

GIVEN_UP = re.compile(
    r"\b(?:inconclusive|undetermined|undecidable|indeterminate|ambiguous|(?:remains?|is"
    r"|it['\u2019]s) (?:unclear|uncertain|unknown))\b"
    r"|\b(?:can(?:no|['\u2019])t|can not|could(?:n['\u2019]t| not)|impossible to|unable to|hard to|difficult to"
    r"|no way (?:to|of)"
    r"|does(?:n['\u2019]t| not)|do(?:n['\u2019]t| not)) (?:\w+ )?(?:be )?"
    r"(?:determin\w*|decid\w*|tell which|say which|settle\w*|conclud\w*|infer\w*|say for sure|be sure|know for)\b"
    r"|\b(?:not|n['\u2019]t|in)[ -]?(?:enough|sufficient) info\w*|\b(?:either|both) (?:\w+ )?(?:is|are"
    r"|could be) (?:possible|plausible)"
    r"|\b(?:could|can) go either way\b|\bdepend(?:s|ing) (?:on|upon|whether)\b|\bnot sure\b|\bno answer\b",
    re.I,
)
"""Somebody who gives up deciding."""

ONLY = re.compile(
    r"\b(?:no|not|nothing|nowhere|never|none|n['\u2019]t)\b(?:(?!\b(?:but|because|so)\b)[^,.;:?!]){0,80}?"
    r"\b(?:any(?:where|thing|body|one)? )?(?:other|else|different)(?: \w+)? (?:than|but|from|except)\b|\bnowhere but\b",
    re.I,
)
"""Two denials in one, such as "has no reason to look anywhere else than"."""

NOT_BUT = re.compile(
    r"(?:\b(?:not|never)|n['\u2019]t)\b[^.;:?!]{0,120}?,? but (?:rather |instead |still )?"
    r"(?=(?:in|on|at|under|behind|inside|the|an?|that|it|of|for)\b)",
    re.I,
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
    r"\b(?:not|no|never|none|neither|nor|nowhere|without|notwithstanding|(?:ruled?|rules|ruling) out|excluded"
    r"|cannot|cant|dont|doesnt|isnt|wasnt|wont)\b|n['\u2019]t\b|[\u4e0d\u6ca1\u975e\u672a]",
    re.I,
)
CLAUSE = re.compile(
    r"[,;:] |[()]| [\u2013\u2014-] |\band not\b|\bnot (?=(?:in|at|on|the|under|behind|a|an)\b)|\b(?:because"
    r"|since|as|while|although|though|but|even|despite|whereas|rather than|instead of|before(?!\W*$)"
    r"|after|when|until|having|where|unlike)\b",
    re.I,
)
ASIDE = re.compile(
    r"\W*(?:and not|because|since|as|while|although|though|even|despite|whereas|rather than|instead of|before"
    r"|after|when"
    r"|until|unlike|having|where|who|not)\b|\(",
    re.I,
)
MOVED = re.compile(
    r"\b(?:moved?|moves|moving|put|puts|placed|enter(?:s|ed)?|exit(?:s|ed)?|left|leaves|took|takes|told|tells"
    r"|went|goes|carried|brought)\b",
    re.I,
)
BELIEF = re.compile(
    r"\b(?:think|believ|belief|expect|assum|look|search|know|feel|say|hold|suppos|convinced|sure|imagin|guess"
    r"|reckon)\w*",
    re.I,
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
