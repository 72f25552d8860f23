"""What each table of the perturbation study means, and for which population its intervals hold.

The terms are explained where a table first needs them; a reader may meet any table first, so the shortest explanation
is repeated where it has to be.
"""

_FAILURES = "A failure (no answer, or none that can be read) counts as wrong."
_PLAIN = {
    "tasks": "A task is solved if all its sixteen questions are right; the cell is empty where not all were asked.",
    "chains": "Means of the measures of the written belief chains over all questions; a missing chain counts as 0.",
    "failures": "Questions without a readable answer, by status. The columns accuracy_low and accuracy_high say what "
    "the accuracy would be if all failures were wrong, or all were right.",
}

RECOMMENDED = {
    "accuracy": "The share of right answers with its 95% interval. For a single class the interval (Wilson's) counts "
    "tasks, not questions, because the questions of one task go together: it says what to expect of further tasks like "
    "these, and is wide where there are few. In the row overall it says what to expect of stages not yet written (a t "
    f"interval over the means of the stages). {_FAILURES}",
    "perturbation_effects": "The share right in a class minus the share right on the unperturbed tasks of the same "
    "stages (risk_difference), with a 95% t interval over the stages: what to expect of stages not yet written. "
    "p_sign_flip is the p value of a sign-flip test: the share of all ways of flipping the signs of the stages' "
    "differences that give an effect at least as large. p_adjusted corrects it for testing ten classes at once "
    "(Benjamini and Yekutieli's method). p_smallest and p_adjusted_smallest are the least that so few stages can give, "
    "whatever the answers. For all classes together (overall_perturbed) read p_permutation first.",
    "prompting_effects": "Each strategy against vanilla on the same items. Read this difference and its interval: "
    "overlapping intervals of two accuracies are no test of it. The interval of a class counts tasks; "
    "the row overall stands twice, for new stages and for new tasks. The columns gained and lost, McNemar's test and "
    "Tango's interval take the questions as independent, which they are not; they only describe.",
    "strategies": "Cochran's Q tests whether all strategies are right equally often. It takes the questions as "
    "independent, which they are not, and so only describes.",
    "faithfulness": "How strongly belief chains go with right answers on the false-belief questions. A proper chain "
    "contains its final state, which mostly is the answer, so that phi (the correlation) of chain_proper is high "
    "nearly by definition: read answer_matches_last where the last state is wrong (does the answer follow the chain?), "
    "and chain_path_proper, which leaves the last state aside. The sample complete holds the questions with an answer "
    "and a chain. Intervals come from leaving out one stage at a time (the jackknife). p_value takes the questions as "
    "independent.",
    "criteria": "The paper's criteria, counted as exact fractions: the rule strict asks for more than half right, "
    "lenient for at least half. classes_interval_above counts the classes whose interval lies wholly above one half. "
    "classes_joint and robust_joint ask for the false-belief question and the same question of the true-belief control "
    "to be right together.",
    "challenging": "How many models have a class among their five lowest effects; classes that tie with the fifth are "
    "counted too. Effects are those matched by stage.",
    "placebo": "The effect of a strategy by whether its chain was proper. It only describes, because whether a chain "
    "is proper is known only after the treatment; null is the effect that would be seen if chains and answers had "
    "nothing to do with each other.",
    "subtasks": f"Accuracy by scenario and question, without intervals, since a cell has few tasks. {_FAILURES}",
    **_PLAIN,
}

_COMPLETE = "Items with a faulty output of any strategy are left out, as in the paper."

PUBLISHED = {
    "accuracy": "The share of right answers as the paper counts it: questions are taken as independent, which makes "
    f"the 95% interval too narrow. {_COMPLETE}",
    "perturbation_effects": "As published: each class against the class none, as if they were unpaired samples. The "
    "row overall has its own control among what is compared with it.",
    "prompting_effects": "As published: the same items with two strategies are compared as if they were different "
    "items (as if unpaired).",
    "faithfulness": "How strongly belief chains go with right answers, as published: questions are taken as "
    "independent. The sample complete holds the items that every strategy answered. The interval is Fisher's (by his z "
    "transform of the correlation), which the paper does not print.",
    "criteria": "The paper's criteria, counted as exact fractions: the rule strict asks for more than half right, "
    "lenient for at least half.",
    "challenging": "How many models have a class among their five lowest effects; classes that tie with the fifth are "
    "counted too.",
    "placebo": "The effect of a strategy by whether its chain was proper, as published. It only describes, because "
    "whether a chain is proper is known only after the treatment.",
    "subtasks": f"Accuracy by scenario and question, without intervals. {_COMPLETE}",
    **_PLAIN,
}
