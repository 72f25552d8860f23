r"""Find what a text puts into a tag, a box or a last line as its answer: <answer>x</answer>, \boxed{x}, #### x.

>>> tagged("So it is \\boxed{\\text{tea}}.", ("tea", "salt"))[0]
['tea']
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from tomserve.scoring.labels import further

_HEAD_ALONE = re.compile(
    r"\W*[A-Za-z ]{0,30}(?:answer|explanation|reasoning|analysis|step|conclusion)[\w ]{0,20}\W*", re.I
)


def tagged(text: str, choices: Sequence[str]) -> tuple[list[str], str]:
    """The texts in tags, boxes and lines after "####", in order and each once; and the whole text without its tags,
    where any of them holds something."""
    pattern = _pattern(further(choices))
    texts = dict.fromkeys(next(filter(None, found.groups()), "") for found in pattern.finditer(text))
    told = [one for one in texts if one.strip() and not _HEAD_ALONE.fullmatch(one.strip())]
    return told, pattern.sub("", text) if told else text


@lru_cache(maxsize=64)
def _pattern(more: int) -> re.Pattern[str]:
    """more: how many characters beyond those of short choices may stand in a tag; a bound keeps the time linear."""
    return re.compile(
        rf"<(?:final_)?answer>(?=([^<\n]{{0,{300 + more}}})</(?:final_)?answer>)"
        rf"|\\boxed\{{(?:\\(?:text|textbf|mathrm|mathbf)\{{)?(?=([^{{}}\n]{{0,{300 + more}}})\}})|(?:^"
        rf"|\n)#{{4}}[ ]?(?=([^\n:?]{{0,{60 + more}}}(?:\n|$)))",
        re.I,
    )
