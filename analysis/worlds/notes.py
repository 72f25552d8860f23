"""What each table of the study of worlds means, in words for a reader who sees it for the first time."""

from __future__ import annotations

from tomserve.studies import baselines
from tomserve.studies.words import ABOUT_EFFECT, ABOUT_TESTS, ABOUT_WORST

_SHARE = (
    "accuracy is the share of right answers, ci_low and ci_high the ends of its 95% interval over worlds, which says "
    "what to expect of further worlds like these; a failure (no answer, or none that can be read) counts as wrong"
)
_CHANCE = "chance is what a blind guess among the choices gets right"

NOTES = {
    "accuracy": f"All questions: {_SHARE}. {baselines.ABOUT}",
    baselines.TABLE: baselines.NOTE,
    "families": f"By family of worlds and by what is asked about: {_SHARE}; {_CHANCE}; best_rule_accuracy is what the "
    "best rule that follows nobody's mind has right of the same questions.",
    "tasks": f"By family and task: {_SHARE}; {_CHANCE}.",
    "conditions": "By what the person asked about (of several the last) believes at the end: something false "
    f"(false_belief), something true (true_belief), or nothing (ignorance). {_CHANCE[0].upper()}{_CHANCE[1:]}.",
    "false_minus_true": "Questions about a first-order belief, intention or action: the share right where the person "
    "believes falsely (share_treated) minus the share right where the person believes truly (share_control), within "
    "the same worlds, each world counted once, with its 95% interval. A model that answers with what is really so has "
    "the second right and the first wrong. What is below zero is lost where a mind differs from the world.",
    "joint": "A question counts only if it is right in both tellings of its world: the one in which the person asked "
    "about believes falsely, and the one in which the same person believes truly; only questions whose right answers "
    "differ between the two are counted. product is what that share would be "
    "if the two were independent of each other; chance is that of two blind guesses. Rules that always give what is "
    "really so, or always what was so first, have none of these pairs right.",
    "orders": "Questions about reality (order 0), about what somebody believes (1), and about what somebody believes "
    f"that another believes (2 and more): {_SHARE}.",
    "prompting_effects": "Each strategy (way of asking) against vanilla, which asks for the answer alone, on the same "
    f"questions. {ABOUT_EFFECT} {ABOUT_TESTS} {ABOUT_WORST}",
}
"""The notes of recommended intervals, by the table's name."""

_INDEPENDENT = (
    "The share of right answers; its 95% interval takes the questions as independent of each other: (k + 2)/(n + 4) "
    "with the normal distribution."
)
PUBLISHED = dict.fromkeys(("accuracy", "families", "tasks", "conditions", "orders"), _INDEPENDENT) | {
    baselines.TABLE: baselines.NOTE
}
"""The notes of published intervals, by the table's name."""
