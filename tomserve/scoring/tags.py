r"""Find what a text puts into a tag, a box or a last line as its answer: <answer>x</answer>, \boxed{x}, #### x; and,
where choices were offered by letter, a letter in double brackets or after the Chinese words for "the answer is".

>>> tagged("So it is \\boxed{\\text{tea}}.", ("tea", "salt"))[0]
['tea']
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from tomserve.scoring.labels import Lettered, further

_HEAD_ALONE = re.compile(
    r"\W*[A-Za-z ]{0,30}(?:answer|explanation|reasoning|analysis|step|conclusion)[\w ]{0,20}\W*", re.I
)


def tagged(text: str, choices: Sequence[str]) -> tuple[list[str], str]:
    """The texts in tags, boxes and lines after "####", in order and each once; and the whole text without its tags,
    where any of them holds something."""
    pattern = _pattern(further(choices), isinstance(choices, Lettered))
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
