"""Write the questions of a Hi-ToM story, and read them back exactly.

>>> write_question(("Ann", "Bo"), "pen")
'Where does Ann think Bo thinks the pen is?'
>>> read_question("Where is the pen really?")
((), 'pen')

The order is the number of named agents; at order 1 the released sentences have "really".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_QUESTION = re.compile(
    r"Where (?:is the (?P<real>[\w'-]+) really"
    r"|does (?P<who>[\w'-]+(?: think [\w'-]+)?(?: thinks [\w'-]+)*)(?: really)? thinks? the (?P<object>[\w'-]+) is)\?"
)
EXPECTED = (
    "'Where is the <object> really?', 'Where does <A> really think the <object> is?' or "
    "'Where does <A> think <B> thinks ... the <object> is?'"
)


def write_question(asked: Sequence[str], obj: str) -> str:
    """The question where `asked[0]` thinks `asked[1]` thinks ... `obj` is; without agents where it really is."""
    if not asked:
        return f"Where is the {obj} really?"
    if len(asked) == 1:
        return f"Where does {asked[0]} really think the {obj} is?"
    inner = " ".join(f"{name} thinks" for name in asked[1:])
    return f"Where does {asked[0]} think {inner} the {obj} is?"


def read_question(text: str) -> tuple[tuple[str, ...], str]:
    """The agents asked about, the outermost first, and the object. Raises ValueError for a text of another form."""
    match = _QUESTION.fullmatch(text)
    if match is not None:
        asked = tuple(re.split(r" thinks? ", match["who"])) if match["who"] else ()
        obj = match["real"] or match["object"]
        if write_question(asked, obj) == text:
            return asked, obj
    raise ValueError(f"unknown question {text!r}; expected {EXPECTED}")
