"""The study of FANToM's belief choices: accuracy by what was heard, and all questions of a set right together.

    tomserve analyze fantom-mymodel --study fantom

accuracy, baselines, prompting_effects    as in the study `accuracy`, with `letters` as the strategy to compare with
contexts          by how much of the conversation is shown, and whether the person asked about heard the information
orders            the same, apart for first- and second-order beliefs
all_of_a_piece    all questions about one piece of information right together, as the authors' ALL of a set
all_of_a_passage  all questions about one passage right together, both what was heard and what was missed
official          the authors' reading of replies beside tomserve's, by what was shown and heard
published         figures that the authors' page prints, as quoted
"""

import polars as pl

from tomserve.studies.study import study_in_parts

SHOWN = {"context": pl.String}
HEARD = {**SHOWN, "accessible": pl.Boolean}
# Percentages that the README of github.com/skywalker023/fantom prints for short contexts, of information that the
# person missed: belief questions with choices, and ALL
PRINTED = {
    "Human": ("93.8", "87.5"),
    "GPT-4-1106-preview": ("51.9", "0.2"),
    "GPT-3.5-turbo-1106": ("9.6", "0.2"),
    "Zephyr 7B beta": ("41.5", "0.2"),
}

STUDY = study_in_parts(
    "fantom",
    {"contexts": HEARD, "orders": {**HEARD, "order": pl.Int64}},
    {
        "contexts": "By what is shown of the conversation (short: the passage alone; full: all of it), and whether the "
        "person asked about heard the information (accessible). Whoever always says 'does not know' is right where it "
        "was missed and wrong where it was heard, so read both together.",
        "orders": "The same, apart for what somebody believes (1) and what somebody believes of another's belief (2).",
        "all_of_a_piece": "All belief questions about one piece of information right together. The authors' ALL also "
        "counts questions that ask for a list of people, or for yes or no, and which are not asked here, so that it is "
        "lower. In the CSV files, which do not say the pieces, they are found by the words of the questions.",
        "all_of_a_passage": "All belief questions about one passage right together, both those about information that "
        "was heard and those about information that was missed, so that no one answer to all of them is enough.",
        "published": "Quoted from the authors' page, in percent, and not computed here: short contexts, information "
        "that was missed. Compare belief_choice with the rows of `official` where context is short and accessible is "
        "false; all counts further kinds of questions.",
    },
    baseline="letters",
    together={"all_of_a_piece": ("piece", HEARD), "all_of_a_passage": ("part", SHOWN)},
    quoted={
        "published": pl.DataFrame(
            [{"who": who, "belief_choice": float(one), "all": float(every)} for who, (one, every) in PRINTED.items()]
        )
    },
    official=HEARD,
)
