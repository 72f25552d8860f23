"""The study of MuMA-ToM's scenes as text, by the authors' three kinds of questions.

    tomserve analyze mumatom-mymodel --study mumatom

accuracy, baselines, prompting_effects    as in the study `accuracy`, with `letters` as the strategy to compare with
tasks                                     belief, social goal, and belief of the other's goal, as the paper's table
likely                                    the same, apart for the MOST and the LEAST likely statement
"""

import polars as pl

from tomserve.studies.study import study_in_parts

STUDY = study_in_parts(
    "mumatom",
    {"tasks": {"task": pl.String}, "likely": {"task": pl.String, "likely": pl.String}},
    {
        "tasks": "By kind of question: what the helper or hinderer believed, whether it was help or hindrance "
        "(social_goal), and what the one took for the other's goal (belief_of_goal).",
        "likely": "The same, apart for questions that ask for the most and for the least likely statement. In "
        "social_goal one of the three options is never right, so that chance is one half there.",
    },
    baseline="letters",
)
