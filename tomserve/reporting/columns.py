"""What the columns of comparisons and plans mean, in a sentence each, for the lines below a printed table.

>>> explained(["item", "n"])
['n: how many questions were compared; of changes how many there are of which the share is.']

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
        "the share of questions that B has right minus the share that A has right (A and B, with the weights of the "
        "difference: every cluster counts alike, that is, all questions about one story or text together, and a "
        "question that shares none by itself; where the questions name stages, every stage); of grades the difference "
        "of their means; 0.05 is five percentage points",
    ),
    (
        ("low", "high"),
        "the ends of the 95% interval of the difference, or of the share before them; the rule that makes such "
        "intervals covers the true value 19 times out of 20",
    ),
    (
        ("low_90", "high_90"),
        "the ends of the 90% interval of the difference, which shows that both are the same up to the margin where it "
        "lies wholly within",
    ),
    (
        ("p_not_inferior", "p_equivalent"),
        "the chance to see this or more, if B were worse by the margin, or if the difference were as large as the "
        "margin in one direction or the other; shown where they are at most .025 and .05",
    ),
    (
        ("change",),
        "harmful: only A has the question right; beneficial: only B has; of right, of wrong: of the questions that A "
        "has right, or wrong; churn: the answer is another one, also where both are wrong (two right answers are the "
        "same)",
    ),
    (
        ("p",),
        "the chance of so large a difference if there were none, by the test that the interval belongs to (t over "
        "clusters, or over stages where the questions name them): it is at most .05 exactly where the interval does "
        "not hold zero",
    ),
    (
        ("p_adjusted",),
        "the same p, corrected for testing all classes, or all values of a factor, at once (Benjamini and Hochberg's "
        "method)",
    ),
    (("p_sign_flip",), f"{_P}. A unit is a task (a story in its versions) or a stage (a setting with its tasks)"),
    (("gained", "lost"), "how many questions only B has right, and how many only A has right"),
    (("n",), "how many questions were compared; of changes how many there are of which the share is"),
    (
        ("noise", "noise_high"),
        "how far the server's batching alone could move the difference, and the upper end of that, which a difference "
        "has to exceed",
    ),
    (
        ("units",),
        "how many independent things are compared: a task is a story in its versions, a stage a setting with its "
        "tasks; questions about one story go together and are not counted singly",
    ),
    (
        ("sd",),
        "the standard deviation of the units' differences that the run has shown, pooled over classes and strategies; "
        "without one, as where no unit differs from another, it cannot be told which difference could be found",
    ),
    (
        ("minimum_detectable_effect",),
        "the smallest true difference of shares that would be found as often as the power says, if the units' "
        "differences have this standard deviation (SD); of classes, which are tested together, if one alone is "
        "affected. 0.191 is 19.1 percentage points; a cell is empty where none, however large, would be found so "
        "often, or where the run shows no spread",
    ),
    (
        ("SD",),
        "the standard deviation of the units' differences; where each question is a unit of its own, the root of the "
        "share of questions that only one of the two has right",
    ),
    (
        ("needed_not_inferior", "needed_equivalent"),
        "how many units show it as often as the power says, if there is no difference: at .025 that one is not worse "
        "by the margin, at .05 that both are the same up to it; more where nearly all answers are right",
    ),
    (("if all are affected",), "the same if all classes are affected alike, which is easier to find"),
    (
        ("units_needed",),
        "how many units are needed to find a difference of that size as often as the power says, if one class alone is "
        "affected",
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
    if name.endswith(" (factor)"):  # a factor that is called like one of these columns
        return False
    return name == beginning or name.startswith((f"{beginning} ", f"{beginning},"))
