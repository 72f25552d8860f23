"""What each table of the study of behaviour means, in words for a reader who sees it for the first time."""

from __future__ import annotations

from tomserve.studies import baselines
from tomserve.studies.words import ABOUT_EFFECT, ABOUT_TESTS

_CHANCE = (
    "chance is what a blind guess among each question's own choices has right, on average over these questions; a "
    "share p is corrected for chance as (p - chance)/(1 - chance), and as 0 where it is below chance: 0 is a "
    "guesser, 1 somebody who is always right"
)
B = (
    "B is the mean over types of task of the share right, corrected for chance; every type counts once, however many "
    "questions it has. Questions about the world (reality, memory, facts) are not counted in it, since they need "
    "nobody's mind."
)
NOTES = {
    "behaviour": f"{B} {_CHANCE[0].upper()}{_CHANCE[1:]}. b_low and b_high are the ends of its 95% interval, a "
    "bootstrap over clusters (stories, templates), which speaks for further clusters like these; of somebody who "
    "guesses B is a little above 0, since what is below chance counts as 0, and only b_low tells whether it is more. "
    "accuracy, correct and total are of the same questions, with the interval over clusters; a failure counts as "
    "wrong. constant_b and surface_b are the B of rules that follow nobody's mind: of the best one that always gives "
    "the same sort of answer (constant_rule names it) and of the best other one (surface_rule), both chosen on these "
    "questions, which favours the rules. over_rule is B minus that of the better of the two, with its "
    "95% interval over the same clusters. human is a share of right answers that the benchmark's authors print for "
    "people (human_source): quoted, not measured, and not corrected for chance. The row of the mean counts every "
    "benchmark once; its interval speaks for further clusters of these benchmarks, not for further benchmarks.",
    "task_types": "The share of right answers by benchmark, type of task and dimension (what the question is about), "
    f"with its 95% interval over clusters; {_CHANCE}. constant and surface are the shares that the best constant rule "
    "and the best other rule that follows nobody's mind have right of the same questions. in_b: whether the "
    "questions count in B. Benchmarks whose items do not say their task or dimension have 'not said'.",
    "dimensions": f"The same by dimension and benchmark; {_CHANCE}. The row of the mean counts every benchmark once.",
    "prompting_effects": "Each strategy (treatment: a way of asking) against the one that asks for the answer alone "
    "(control), on the same questions, by benchmark, type of task and dimension. These are differences of raw shares: "
    f"chance is the same on both sides. {ABOUT_EFFECT} {ABOUT_TESTS} The rows are many tests, whose p values are not "
    "adjusted for that.",
    baselines.TABLE: baselines.NOTE,
    "unusable": "How many answers are left out by benchmark, because the benchmark marks their questions as unusable.",
    "human_figures": "Shares that authors print for people on their own benchmarks, as quoted from the named source. "
    "They were not measured here; people saw other instructions, and sometimes other material, than a model does.",
    "published_behaviour": "Cells printed in table 3 of Mohanty et al. (Functional Theory of Mind Evaluation), as "
    "shares. Its items and answers are not public, so that nothing of it can be computed again. mean_of_tasks is the "
    "mean of the printed cells of the three types of task; the printed overall share is lower than it in every row, "
    "and the source does not say how it was averaged. These are raw accuracies, not corrected for chance.",
}
"""The notes of recommended intervals, by the table's name."""

_PLAIN = (
    "As the source counts: raw shares of right answers; the 95% interval takes the questions as independent of each "
    "other: (k + 2)/(n + 4) with the normal distribution."
)
PUBLISHED = {
    **dict.fromkeys(("task_types", "dimensions"), _PLAIN),
    baselines.TABLE: baselines.NOTE,
    "unusable": NOTES["unusable"],
    "published_behaviour": NOTES["published_behaviour"],
}
"""The notes of published intervals, by the table's name."""
