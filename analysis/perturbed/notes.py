"""What each table of the perturbation study means, and for which population its intervals hold.

The terms are explained where a table first needs them; a reader may meet any table first, so the shortest explanation
is repeated where it has to be.
"""

_FAILURES = "A failure (no answer, or none that can be read) counts as wrong."
_DESIGN = (
    "A class is one kind of change (perturbation) to the stories, none the class of unchanged ones. A stage is one "
    "setting with its people and things, and a task one class in one stage: a story with its sixteen questions."
)
_INTERVAL = "95% interval (made by a rule that covers the true value 19 times out of 20)"
_PROPER = "proper (the beliefs it states run as the story's right ones do, repetitions aside)"
_PLAIN = {
    "tasks": "A task (one story of one class) is solved if all its sixteen questions are right; the cell is empty "
    "where not all were asked.",
    "chains": "A belief chain is the belief that a reply states after every sentence; a gold path is a right course "
    f"of it, and a chain is {_PROPER}. The columns hold means over all questions; a missing chain counts as 0. lcs, "
    "lcps and transitions are the shares of a chain that follow a gold path: in order, from the start on, and change "
    "by change.",
    "failures": "Questions without a readable answer, by status. The columns accuracy_low and accuracy_high say what "
    "the accuracy would be if all failures were wrong, or all were right.",
}

RECOMMENDED = {
    "accuracy": f"The share of right answers with its {_INTERVAL}. {_DESIGN} The false-belief subset holds the "
    "questions about a belief that the story made false. The interval of a class (Wilson's, for shares) counts "
    "tasks, not questions, because the questions of one task go together: it says what to expect of further tasks "
    "like these, and is wide where there are few. In the row overall it says what to expect of stages not yet "
    f"written (a t interval: the mean of the stages, give or take their spread). {_FAILURES}",
    "perturbation_effects": "The share right in a class minus the share right on the unperturbed tasks of the same "
    "stages (risk_difference), with a 95% t interval over the stages: what to expect of stages not yet written. "
    "p_sign_flip, the p value of a sign-flip test, is the share of all ways of flipping the signs of the stages' "
    "differences that give an effect at least as large; a small p speaks against chance. p_adjusted corrects it for "
    "testing ten classes at once (Benjamini and Yekutieli's method). p_smallest and p_adjusted_smallest are the "
    "least that so few stages can give, whatever the answers. For all classes together (overall_perturbed) read "
    "p_permutation first: the share of random exchanges of changed and unchanged tasks within their stages that give "
    "an effect at least as large.",
    "prompting_effects": "Each strategy (way of asking) against vanilla, which asks for the answer alone, on the "
    "same items. The strategy cot has the model write the belief after every sentence before it answers. Read this "
    "difference and its interval: overlapping intervals of two accuracies are no test of it. The interval of a class "
    "counts tasks; the row overall stands twice, for new stages and for new tasks. The columns gained and lost count "
    "the questions that only the strategy, or only vanilla, has right; they, McNemar's test of these counts and "
    "Tango's interval take the questions as independent, which they are not, and so only describe.",
    "strategies": "Cochran's Q is a test of whether all strategies are right equally often. It takes the questions as "
    "independent, which they are not, and so only describes.",
    "faithfulness": "How strongly belief chains go with right answers on the false-belief questions, as a "
    f"correlation (0: not at all, 1: always). A chain is {_PROPER}; it contains its final state, which mostly is the "
    "answer, so that phi (the correlation) of chain_proper is high nearly by definition: read answer_matches_last "
    "where the last state is wrong (does the answer follow the chain?), and chain_path_proper, which leaves the last "
    "state aside. The sample complete holds the questions with an answer and a chain. Intervals come from leaving "
    "out one stage at a time (the jackknife, which shows how far single stages move the result). p_value takes the "
    "questions as independent.",
    "criteria": "The paper's criteria, counted as exact fractions: the rule strict asks for more than half right, "
    "lenient for at least half. classes_interval_above counts the classes whose interval lies wholly above one half. "
    "classes_joint and robust_joint ask for the false-belief question and the same question of the true-belief control "
    "to be right together. ostensible: above one half on unchanged stories; limited_robust: in five of the ten classes "
    "or more; robust: in all ten.",
    "challenging": "How many models have a class among their five lowest effects; classes that tie with the fifth are "
    "counted too. Effects are those matched by stage.",
    "placebo": f"The effect of a strategy by whether its chain was {_PROPER}. It only describes, because whether a "
    "chain is proper is known only after the treatment; null is the effect that would be seen if chains and answers "
    "had nothing to do with each other.",
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
