"""What the columns of comparisons and plans mean, in a sentence each, for the lines below a printed table.

>>> explained(["item", "least p"])[0][:58]
'least p: the smallest p that so few units can give, whatev'

A study explains its own tables in its notes; these sentences stand below tables that come without notes.
"""

from __future__ import annotations

from collections.abc import Sequence

_P = (
    "the share of all ways of flipping the signs of the units' differences that give an effect at least as large as "
    "the one found (a sign-flip test); a small p speaks against chance"
)

MEANINGS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("B - A",),
        "the share of questions that B has right minus the share that A has right; 0.05 is five percentage points",
    ),
    (
        ("low", "high"),
        "the ends of the 95% interval of the difference; the rule that makes such intervals covers the true difference "
        "19 times out of 20",
    ),
    (("p_sign_flip",), f"{_P}. A unit is a task (a story in its versions) or a stage (a setting with its tasks)"),
    (("p_adjusted",), "the same p, corrected for testing all classes at once (Benjamini and Yekutieli's method)"),
    (("gained", "lost"), "how many questions only B has right, and how many only A has right"),
    (("n",), "how many questions were compared"),
    (
        ("noise", "noise_high"),
        "how far the server's batching alone could move the difference, and the upper end of the 95% interval of that",
    ),
    (
        ("units",),
        "how many independent things are compared: a task is a story in its versions, a stage a setting with its "
        "tasks; questions about one story go together and are not counted singly",
    ),
    (("least p",), f"the smallest p that so few units can give, whatever the answers; p is {_P}"),
    (
        ("least adjusted p",),
        "the same after the correction for testing all classes at once (Benjamini and Yekutieli's method)",
    ),
    (("can reach",), "whether the least p, adjusted where it is, is small enough to count as found at that level"),
    (
        ("detectable, in SD",),
        "the smallest true effect that would be found as often as the power says, in standard deviations (SD) of the "
        "units' differences",
    ),
    (
        ("in probability",),
        "the same effect as a difference of shares, if the standard deviation of the units' differences is the assumed "
        "one; 0.191 is 19.1 percentage points",
    ),
)
"""The beginnings of columns' names that share a meaning, and the meaning."""


def explained(columns: Sequence[str]) -> list[str]:
    """A line for each meaning of MEANINGS that the named columns have, in the order of MEANINGS; none for others.

    A name fits where it is a beginning of MEANINGS, or goes on after one with a space or a comma: "can reach 0.05".
    """
    lines = []
    for beginnings, meaning in MEANINGS:
        named = [name for name in columns if any(_fits(name, beginning) for beginning in beginnings)]
        if named:
            lines.append(f"{' and '.join(named)}: {meaning}.")
    return lines


def _fits(name: str, beginning: str) -> bool:
    return name == beginning or name.startswith((f"{beginning} ", f"{beginning},"))
