"""Other words for what a chain in prose says, by rules, and whether a text by a model says the same as a chain.

>>> reworded("So, Ann still thinks that it isn't in the box.", [])
'Therefore, Ann continues to believe that it is not in the box.'
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_CONTRACTED = "does|did|do|is|was|are|were|has|had|have|would|could|should"
_THINK = {"thinks": "believes", "think": "believe", "thought": "believed", "thinking": "believing"}
_SYNONYMS = {
    **_THINK,
    **{made: word for word, made in _THINK.items()},
    **{"because": "since", "however,": "even so,", "so,": "therefore,", "therefore,": "so,", "thus,": "therefore,"},
    **{"hence,": "therefore,", "first,": "to begin with,", "in the end,": "finally,", "finally,": "in the end,"},
    **{"although": "though", "initially,": "at first,", "at first,": "initially,", "let's": "let us"},
    **{"let us": "let's", "assumes that": "supposes that", "as a result,": "consequently,", "needs to": "has to"},
    **{"consequently,": "as a result,", "at this point,": "at this moment,", "cannot": "can't", "can't": "cannot"},
    **{"knows that": "is aware that", "is aware that": "knows that", "does not know that": "is not aware that"},
    **{"doesn't know that": "isn't aware that", "is unaware that": "does not know that", "after that,": "afterwards,"},
    **{"is not aware that": "does not know that", "still thinks": "continues to believe", "right after": "just after"},
    **{"still believes": "continues to think", "continues to believe": "still thinks", "currently": "at present"},
    **{"continues to think": "still believes", "step by step": "one step at a time", "therefore": "thus"},
}
"""Words and what may stand in their place, in small letters; a capital letter at the beginning is kept."""

_CLAUSE = r"(?= (?:the|an?|it|its|he|she|they|there|his|her|their|(?-i:[A-Z])\w*)\b)"
"""The beginning of a clause, before which "that" joins two and is no pronoun."""

_FOLLOWS = {
    **dict.fromkeys((one for one in _SYNONYMS if one.endswith(("know that", "knows that", "aware that"))), _CLAUSE),
    **dict.fromkeys(("thinks", "think", "thought", "thinking"), r"(?! (?:about|of|through|hard|back|twice|step)\b)"),
    **dict.fromkeys(("still thinks", "continues to think"), r"(?! (?:about|of|through|hard|back|twice|step)\b)"),
    **dict.fromkeys(("believes", "believe", "believed", "believing"), r"(?! in\b)"),
    **dict.fromkeys(("still believes", "continues to believe"), r"(?! in\b)"),
    **{"because": r"(?! of\b)", "step by step": r"(?! \d)", "therefore": "(?!,)"},
}
"""What must not follow some of these words, since then they have another meaning."""

_NOUN_BEFORE = r"(?<!the )(?<!this )(?<!that )(?<!her )(?<!his )(?<!of )(?<!a )"
_BEFORE = dict.fromkeys(("thought", "think", "thinking"), _NOUN_BEFORE) | {
    "so,": r"(?:^|(?<=[.;:!?*-] )|(?<=\*))",  # at the beginning of a sentence alone
    "because": r"(?<!is )(?<!was )(?<!just )(?<!only )(?<!'s )(?<!\u2019s )",
}
"""What must not stand before some of them."""


_CAREFUL = r"(?! (?:only|just|he|she|it|they|we|you|I|the)\b)"
"""What must not follow a contraction or what it stands for, since the order of the words would change."""


def _pattern() -> re.Pattern[str]:
    ordered = sorted(_SYNONYMS, key=lambda word: (-len(word), word))
    words = "|".join(
        _BEFORE.get(word, "") + re.escape(word) + ("" if word.endswith(",") else r"(?!\w)") + _FOLLOWS.get(word, "")
        for word in ordered
    )
    negated = rf"(?P<verb>{_CONTRACTED})(?:(?P<apart> not)|n['\u2019]t)\b{_CAREFUL}"
    number = r"(?P<number>^[ \t]{0,8}\d{1,2})\.(?= \S)"
    return re.compile(rf"(?<![\w'\u2019-])(?:(?P<word>{words})|{negated})|{number}", re.I | re.M)


_PLACES = _pattern()


def reworded(text: str, kept: Sequence[tuple[int, int]]) -> str:
    """The text in other words wherever a rule knows some. kept: pieces of the text, in order, that stay as they are."""
    waiting = list(reversed(kept))

    def other(match: re.Match[str]) -> str:
        while waiting and waiting[-1][1] <= match.start():
            waiting.pop()
        if waiting and waiting[-1][0] < match.end():
            return match[0]
        if match["number"] is not None:
            return match["number"] + ")"
        if match["verb"] is not None:
            if match["apart"] is not None:
                return match["verb"] + "n't"
            return match[0] if match["verb"][0].isupper() else match["verb"] + " not"
        word = match["word"]
        made = _SYNONYMS[word.lower().replace("\u2019", "'")]
        return made[0].upper() + made[1:] if word[0].isupper() else made

    return _PLACES.sub(other, text)
