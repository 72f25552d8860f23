"""The study of ToMATO, by mental state, order, and whether the belief that is asked for is false.

    tomserve analyze tomato-mymodel --study tomato

accuracy, baselines, prompting_effects    as in the study `accuracy`, with `letters` as the strategy to compare with
states                                    each mental state by order, as the paper's table has them
false_belief                              second-order questions about a false belief (ToMATO-FB), and all others
official                                  the authors' reading of replies beside tomserve's, by mental state
"""

import polars as pl

from tomserve.studies.study import study_in_parts

STUDY = study_in_parts(
    "tomato",
    {"states": {"order": pl.Int64, "task": pl.String}, "false_belief": {"order": pl.Int64, "false_belief": pl.Boolean}},
    {
        "states": "By order and mental state: what a speaker felt, believed, wanted, intended or knew (1), or took the "
        "other speaker for (2).",
        "false_belief": "By order, apart where the speaker took the other one for what that one was not.",
    },
    baseline="letters",
    official={"task": pl.String},
)
