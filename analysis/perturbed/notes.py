"""What each interval of the perturbation study means, and for which population: one line a table."""

RECOMMENDED = {
    "accuracy": "classes: Wilson's interval with n = tasks, for further tasks like these (few tasks: wide); overall: t "
    "over stage means, for stages not yet written; failures count as wrong",
    "perturbation_effects": "each class against the unperturbed tasks of the same stages, for new stages: t over "
    "stages, p by sign flips, p_adjusted over the ten classes (Benjamini-Yekutieli); p_smallest, p_adjusted_smallest: "
    "the least that so few stages can give; overall_perturbed: p_permutation first",
    "prompting_effects": "paired on the same items: this is the test, overlapping intervals of accuracies are none; "
    "classes by task, overall for new stages and for new tasks; gained, lost, McNemar and Tango take items as "
    "independent: descriptive",
    "strategies": "Cochran's Q takes items as independent: descriptive",
    "faithfulness": "a proper chain contains its final state, so phi of chain_proper is nearly a tautology: read "
    "answer_matches_last where the last state is wrong, and chain_path_proper; complete: rows "
    "with an answer and a chain; intervals: jackknife over stages; "
    "p_value takes items as independent",
    "criteria": "exact fractions; strict: more than half, lenient: at least half; classes_interval_above: the class's "
    "interval lies above 1/2; joint: false-belief question and control 1 right together",
    "challenging": "the five lowest matched effects of a model, ties with the fifth included",
    "placebo": "descriptive: whether a chain is proper is known only after the treatment; `null` is the effect if "
    "chains and answers had nothing to do with each other",
    "subtasks": "accuracy without interval: a cell has few tasks; failures count as wrong",
    "tasks": "solved: all sixteen questions right; empty where not all were asked",
    "chains": "means over questions; a chain that is missing scores 0",
    "failures": "accuracy_low, accuracy_high: if all failures were wrong, or right",
}

PUBLISHED = {
    "accuracy": "as published: questions as independent, items with a faulty output left out",
    "perturbation_effects": "as published: against class none, as if unpaired; overall has its own control inside",
    "prompting_effects": "as published: the same items as if they were different ones",
    "faithfulness": "as published: questions as independent; complete: every strategy answered; Fisher's z interval, "
    "which the paper does not print",
    "criteria": "exact fractions; strict: more than half, lenient: at least half",
    "challenging": "the five lowest effects of a model, ties with the fifth included",
    "placebo": "as published; descriptive: whether a chain is proper is known only after the treatment",
    "subtasks": "accuracy without interval; items with a faulty output left out",
    **{name: RECOMMENDED[name] for name in ("tasks", "chains", "failures")},
}
