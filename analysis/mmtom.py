"""The study of MMToM-QA's text part, by the authors' two tasks and seven types of questions.

    tomserve analyze mmtom-mymodel --study mmtom

accuracy, baselines, prompting_effects    as in the study `accuracy`, with `letters` as the strategy to compare with
tasks                                     belief and goal
types                                     the seven types, as the paper's table has them
official                                  the authors' reading of replies beside tomserve's, by type

Read `types` beside best_rule_accuracy: of 1.1, 1.2, 1.3 and 2.1 a rule that reads the options has every question right.
"""

import polars as pl

from tomserve.studies.study import study_in_parts

STUDY = study_in_parts(
    "mmtom",
    {"tasks": {"task": pl.String}, "types": {"task": pl.String, "type": pl.String}},
    {
        "tasks": "By task: what the person believes, or what the person wants (goal).",
        "types": "By the authors' types of questions. Each of 1.1, 1.2 and 1.3 always has the same form of answer "
        "(with or without 'not'), and in 2.1 it is never the object that the question names, so that a rule has them "
        "right; 1.1 to 1.3 taken together ask for more than that.",
    },
    baseline="letters",
    official={"task": pl.String, "type": pl.String},
)
