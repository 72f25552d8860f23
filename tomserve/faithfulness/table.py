"""The table of a measurement of faithfulness: a row for each edited chain, hint or prediction, and what came of it.

The study `faithfulness` reads it; tomserve.faithfulness.measurement makes it.

>>> [name for name in EDITS if name in TRUNCATED]
['truncated_0', 'truncated_25', 'truncated_50', 'truncated_75']
"""

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

STUDY = "faithfulness"
"""The study that reads the table."""

EDIT, HINT, PREDICTION, READING, STORY = "edit", "hint", "prediction", "reading", "story"
UNLEARNING = "unlearning"
"""Kinds of rows: an answer after an edited chain, a whole reply to a prompt with a hint, what a second model predicts
the answer to be, whether a second model says that a chain speaks of a hint (tomserve.faithfulness.hint_reader), a
chain of the run beside that of a twin whose story leads to another answer (tomserve.faithfulness.story_twins), and an
answer after a step was unlearned (tomserve.faithfulness.unlearning)."""

FULL = "full"
PARAPHRASE = "paraphrase"
FILLER = "filler"
OTHER = "other_item"
LAST = "last_corrupted"
LOCAL = "middle_local"
PROPAGATED = "middle_propagated"
SWAPPED = "agents_swapped"
GOLD = "gold"
TRUNCATED: Mapping[str, float] = {f"truncated_{percent}": percent / 100 for percent in (0, 25, 50, 75)}
"""The conditions that show only the beginning of the chain, with the share of it that is left."""

EDITS = (FULL, PARAPHRASE, *TRUNCATED, FILLER, OTHER, LAST, LOCAL, PROPAGATED, SWAPPED, GOLD)
"""Every way in which a chain is shown, in the order in which an item's are asked.

full: as the model wrote it. paraphrase: the same in another form. truncated: its beginning. filler: as many tokens that
say nothing. other_item: the chain of another item. last_corrupted: its last belief replaced. middle_local: one belief
in the middle replaced, what follows left as it is. middle_propagated: the same with everything that follows from it by
the gold rationale. agents_swapped: what it says of one agent said of another; in a list of beliefs those of somebody
else in the story or, where nobody else is asked about, what is really so. gold: a right chain.
"""

RESUMED, CONTINUED = "resumed", "continued"
CONTINUATIONS = (RESUMED, CONTINUED)
"""The beginning of the chain up to a belief in the middle, as it was written (the control) and with that belief
replaced, from where the model goes on with its chain itself, and then answers (Lanham et al. 2023)."""

ORIGINAL, TWIN = "original", "twin"
STORIES = (ORIGINAL, TWIN)
"""The two questions of a pair of stories, in rows of the same item."""

USER, METADATA, PATTERN = "user", "metadata", "pattern"
AUTHORITY, GRADER, EARLIER, SUM = "authority", "grader", "earlier", "sum"
PLACES = (USER, METADATA, PATTERN, AUTHORITY, GRADER, EARLIER, SUM)
"""Where a hint stands: a user suggests an answer, a metadata tag names it, examples have all their answers at one
place, a professor states it, the grader's code compares with it, an earlier turn mentions it, or a sum of six numbers
gives its place among the choices, which a model hardly finds without writing it down."""

WRONG, RIGHT, NEUTRAL = "wrong", "right", "neutral"
BESIDE_RIGHT = f"{PATTERN}_{NEUTRAL}_{RIGHT}"
HINTS = (
    *(f"{where}_{which}" for where in (USER, METADATA, PATTERN) for which in (WRONG, RIGHT, NEUTRAL)),
    BESIDE_RIGHT,
    *(f"{where}_{which}" for where in PLACES[3:] for which in (WRONG, NEUTRAL)),
)
"""The hints: where each stands, and whether it points to a wrong answer, to the right one (the first three places), or
(the control, which is worded as much alike as can be) to none. A pattern puts the answer that it points to in front, so
that its neutral hints list the choices in the same order: pattern_neutral as pattern_wrong does, BESIDE_RIGHT as
pattern_right does."""

INTACT, STEP, PUT_BACK, OTHERS, UNRELATED = "intact", "step", "put_back", "others", "unrelated"
UNLEARNINGS = (INTACT, STEP, PUT_BACK, OTHERS, UNRELATED)
"""What the checkpoint answers when it goes on with its chain from before a step: as it is; after that step was
unlearned; then with the step put back into the chain, and to the question of another story; after an unrelated step was
unlearned."""

QUESTION, CHAIN, NO_VERDICT = "question", "chain", "no_verdict"
PREDICTIONS = (QUESTION, CHAIN, NO_VERDICT)
"""What the predicting model is shown: the question alone (the control), with the chain, and with the chain without its
verdict (its last belief or concluding sentence). It never sees the story."""

LABELS, TEXT, THINKING = "labels", "text", "thinking"
"""Forms of a chain: a JSON list of beliefs, prose, or prose between a thinking model's own marks."""

YES, NO = "yes", "no"
"""What a reader of hints says of a chain: whether it speaks of its hint."""

RECALL = (35, 64)
"""How many chains that admit a hint in words of their own the rules find, of how many that were written by hand to
measure it (part ``last`` of prompts/hints/chains.yaml)."""

PREFILL, CALL = "prefill", "call"
"""How a chain is shown: as the beginning of the model's own reply, which it continues, or as an earlier message of it,
after which a second call asks for the answer."""

LEFT_OUT = "left_out"
"""The outcome of an edit or hint that could not be made; `reason` says why."""

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **{"run": pl.String, "model": pl.String, "benchmark": pl.String, "item": pl.String, "cluster": pl.String},
    **{
        "unit": pl.String,
        "asked_by": pl.String,
        "form": pl.String,
        "kind": pl.Enum((EDIT, HINT, PREDICTION, READING, STORY, UNLEARNING)),
    },
    **{
        "condition": pl.Enum((*EDITS, *HINTS, *PREDICTIONS, *CONTINUATIONS, *STORIES, *UNLEARNINGS)),
        "shown": pl.Enum((PREFILL, CALL)),
    },
    **{"outcome": pl.String, "reason": pl.String, "parse": pl.String, "answer": pl.String, "right": pl.String},
    **{"choices": pl.Int16, "own": pl.String, "implied": pl.String, "admits": pl.Boolean, "predictor": pl.String},
    **{"tokens": pl.Int32, "cached": pl.Int32, "question": pl.String, "written": pl.String, "edited": pl.String},
    **{"fell": pl.Float64, "steps": pl.Int16, "unwritten": pl.Boolean},
}
"""The columns of the table.

run, model, benchmark, item, cluster: as in a score table; `model` is the one whose chains are edited. unit: what counts
as one independent draw in an interval: the stage where items name one, else the cluster. asked_by: the strategy whose
chain it is. form: how chains of that strategy are written (LABELS, TEXT, THINKING). kind, condition: see EDIT, EDITS,
HINTS, PREDICTIONS. shown: PREFILL or CALL for an edit; null otherwise.

outcome: a status as in a score table ("ok", "invalid", "length", ...), or LEFT_OUT. reason: why it was left out, or why
there is no answer. parse: how the answer was read. answer: what the model (for a prediction: the predicting model)
answered; null where it gave none. right: the right answer. choices: how many answers were offered. own: the model's
answer in the run, after its own chain. implied: the answer that the edited chain leads to, or that the hint points to;
for a prediction the same as `own`; null where nothing is implied (full, paraphrase, truncated, filler, a neutral hint).

admits: for a hint, whether the chain speaks of it by rules; null where a chain of labels cannot. predictor: the second
model that predicts or reads; null otherwise. tokens, cached: the tokens of the prompt, and how many of them the server
had in its cache; null where it does not tell, and for a reply that came for an equal request. question: what was asked.
written: the chain as it was written. edited: the chain as it was shown, for a hint the new chain, for a prediction what
the predicting model was shown of it.

A reading answers yes or no; right says which is so, and is null for the chain of an answer that followed a hint.
Condition is the wrong hint, or the neutral one of its place for a chain that was written without any. Of a story
answer, right and edited are of the original or of its twin, own and written of the original, and implied is the label
on which edited ends.

Of an unlearning own is what the checkpoint answers as it is (for INTACT what was answered in the run), edited the new
chain, fell how much the natural logarithm of the probability of what was unlearned has fallen, steps the gradient steps
that were taken, unwritten whether a chain written anew no longer names the label of the step; null in all other rows.
"""


def of_rows(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """The table of these rows; a column that a row lacks is null there."""
    return pl.DataFrame([{name: row.get(name) for name in SCHEMA} for row in rows], schema=SCHEMA)


OPTIONAL = ("fell", "steps", "unwritten")
"""Columns that tables from before steps were unlearned lack."""
