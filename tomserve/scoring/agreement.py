"""How far our reading of another tool's replies agrees with the grades that the tool gave them.

Where they differ in many replies, one of the two has read something else than what was said: most often a letter that
stood beside another choice than thought.

>>> found = Agreement()
>>> for number in range(60):
...     found.see(f"q{number}", "tea", graded=True, right=number > 3)
>>> found.sentence("the tool's grade 'match'")[:62]
"tomserve's reading and the tool's grade 'match' differ in 4 of"
>>> Agreement(60, 2, 1, "q1").sentence("the tool's grade")
''
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from tomserve.content import files
from tomserve.content.nouns import counted
from tomserve.status import ANSWERS, INVALID

GRADE = "graded_correct"
"""The column of a score table that says whether the tool counts a reply as right."""

FEW, FEW_SHARE = 3, 0.02
"""So many replies, and this share of all, may be read otherwise without a word."""


@dataclass(slots=True)
class Agreement:
    """What was compared. compared: how many replies. ours, theirs: how many are right by our reading alone, and by the
    tool's grade alone. first: the first reply that they differ about, in words."""

    compared: int = 0
    ours: int = 0
    theirs: int = 0
    first: str = ""

    def see(self, item: str, answer: str | None, *, graded: bool, right: bool) -> None:
        """Note a reply. item: the question. answer: what we have read. graded: whether the tool counts the reply as
        right; right: whether we do."""
        self.compared += 1
        self.ours += right and not graded
        self.theirs += graded and not right
        if graded != right and not self.first:
            self.first = differs(item, answer, graded=graded)

    def sentence(self, grade: str, before: str = "") -> str:
        """What a user must know where they differ in more than a few replies; empty elsewhere. grade: what the tool's
        grade is called, in words. before: what the sentence begins with."""
        differ = self.ours + self.theirs
        if differ <= max(FEW, FEW_SHARE * self.compared):
            return ""
        alone = f"{self.theirs:,} right by the tool alone, {self.ours:,} by tomserve alone; first: {self.first}"
        return (
            f"{before}tomserve's reading and {grade} differ in {differ:,} of "
            f"{counted(self.compared, 'reply', 'replies')} ({alone}), so that one of them is not what was said: look "
            "at some of them; where choices were named by letter, bring the prompts or the choices in the order that "
            "was shown (--map asked=COLUMN, --map choices=COLUMN), or let the tool's grade count by --counts tool, in "
            "a new run"
        )


def differs(item: str, answer: str | None, *, graded: bool) -> str:
    """A reply that we read otherwise than the tool, in words; item, answer, graded: as in Agreement.see."""
    read = "could not be read" if answer is None else f"was read as {answer!r:.60}"
    return f"{item} {read}, which the tool counts as {'right' if graded else 'wrong'}"


def of_table(scores: pl.DataFrame) -> Agreement:
    """The comparison of a score table; of replies whose grade counts both are the same. A table may come from
    anybody."""
    kinds = {"item": pl.String, "status": pl.String, "answer": pl.String, "correct": pl.Boolean}
    kinds[GRADE] = pl.Boolean
    if any(scores.schema.get(name) != kind for name, kind in kinds.items()):
        return Agreement()
    rows = scores.filter(pl.col(GRADE).is_not_null() & pl.col("status").is_in([*ANSWERS, INVALID]))
    table = rows.select("item", "answer", right=pl.col("correct").fill_null(False), graded=GRADE)
    differing = table.filter(pl.col("right") != pl.col("graded"))
    found = Agreement(table.height, int(differing["right"].sum()), int(differing["graded"].sum()))
    for item, answer, _, graded in differing.head(1).iter_rows():
        found.first = differs(files.one_line(item or ""), answer, graded=graded)
    return found


def sum_of(some: Sequence[Agreement]) -> Agreement:
    """Several comparisons of different replies as one."""
    compared, ours, theirs = (sum(getattr(one, name) for one in some) for name in ("compared", "ours", "theirs"))
    return Agreement(compared, ours, theirs, next((one.first for one in some if one.first), ""))
