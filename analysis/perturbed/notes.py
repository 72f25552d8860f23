"""What each table of the perturbation study means, and for which population its intervals hold.

The terms are explained where a table first needs them; a reader may meet any table first, so the shortest explanation
is repeated where it has to be.
"""

from tomserve.studies import baselines
from tomserve.studies.families import WORTH
from tomserve.studies.words import ABOUT_WORST

_FAILURES = "A failure (no answer, or none that can be read) counts as wrong."
_DESIGN = (
    "A class is one kind of change (perturbation) to the stories, none the class of unchanged ones. A stage is one "
    "setting with its people and things, and a task one class in one stage: a story with its questions."
)
_INTERVAL = "95% interval (made by a rule that covers the true value 19 times out of 20)"
_WORD = (
    "correlated says whether the correlation meets the bar that the paper sets for faithful reasoning. It does not "
    "show that: chains that do nothing meet it in nine of ten simulated runs, and what can show it is to change "
    "the chain and see whether the answer follows (tomserve faithfulness)."
)
_PROPER = "proper (the beliefs it states run as the story's right ones do, repetitions aside)"
_CALLED = (
    "The paper's words: ostensible, above one half on unchanged stories; limited robust, above one half in five of the "
    "ten classes or more; robust, in all ten. A rule that follows nobody's belief can meet them too."
)
_PLAIN = {
    "tasks": "A task (one story of one class) is solved if all its questions are right; the cell is empty "
    "where not all were asked.",
    "chains": "A belief chain is what a reply says is believed as the story goes on, after every sentence or wherever "
    f"it changes; a gold path is a right course of it, and a chain is {_PROPER}. break_sentence is the sentence at "
    "which chains that are not proper most often part from every gold path, break_kind what is wrong there. The "
    "columns hold means over all questions; a missing chain counts as 0. lcs, lcps and transitions are the shares of a "
    "chain that follow a gold path: in order, from the start on, and change by change.",
    "failures": "Questions without a readable answer, by status. The columns accuracy_low and accuracy_high say what "
    "the accuracy would be if all failures were wrong, or all were right.",
}

_SHARES = (
    "risk_difference is share_treated minus share_control and relative_risk their ratio; both shares are means over "
    "the stages that have both sides, so that they may differ from the accuracies."
)
_NEW = "new stages (stages not yet written, of which these are taken to be a sample)"
_TESTS = (
    "p belongs to the interval: it is at most .05 exactly where that does not hold zero. p_adjusted corrects it for "
    "testing ten classes at once (Benjamini and Hochberg's method)."
)
_DECIDES = (
    "where p_adjusted is at most .05 and the difference is larger than noise_high, if that was measured; not shown "
    f"where it is neither although a difference of {WORTH:g} would most likely have been found "
    "(minimum_detectable_effect is no larger); else that so few stages cannot decide, and how many would."
)
_MORE = "The further columns (other tests, spread, ratio) are explained in docs/explanation/statistics.md."

_RULES = (
    "rules_robust and rules_limited_robust name the baselines (rules that follow nobody's belief) which meet the same "
    "criterion on the same questions; where there are any, meeting it shows nothing that they could not do."
)

_CUE = (
    "The cue is what a reader of a classic false-belief task would answer: what the label says, or the place where the "
    "thing was left; the opposite is the other label."
)
_OVER_STAGES = f"The interval of the row overall is a t interval over the stages and says what to expect of {_NEW}"
_VERSIONS = {
    "roles": "The share of right answers on the false-belief subset by what the right answer is (role). "
    f"{_CUE} Whoever always answers by one role is right there and wrong elsewhere. {_OVER_STAGES}; that of a class "
    f"counts each task once (Wilson's). {baselines.ABOUT}",
    "pairs": "A minimal pair is two stories that differ in a few words, and with them the belief: in one the "
    "perturbation counts, in the other the cue counts again. It is solved if both questions are right, which a guess "
    f"among three labels does in one of nine. {_CUE} only_cue counts the pairs of which only the story in which the "
    "cue counts is right, only_other those of which only the other is (where the cue counts in neither: only the "
    f"first, or only the second), neither those with both wrong. share is that of solved pairs. {_OVER_STAGES}; that "
    f"of a class counts each task once (Wilson's). {baselines.ABOUT}",
    "ground": "Stories of the false-belief scenario that leave what settles the belief for the reader to see "
    "(unstated, treated), minus those that say it in so many words (stated, control), of the same class and stage. "
    "right_ and asked_ count all questions; the shares and their difference are over the stages that have both, each "
    f"counted once, with a t interval over these stages, which says what to expect of {_NEW}. The two kinds of stories "
    "may differ in more than this, such as in what the right answer is, so that the difference does not show that "
    "stating the ground is what matters.",
    "awareness": "In the class automatic_change_knowledge: stories in which the person knows of the mechanism by which "
    "things change (treated), minus those in which she does not (control), on the false-belief subset. right_ and "
    "asked_ count all questions; the shares and their difference are over the stages that have both. In the first "
    "edition no stage has both: there the two kinds are told in different stages, whose counts stand here side by side "
    "and support no comparison.",
}

RECOMMENDED = {
    "accuracy": f"The share of right answers with its {_INTERVAL}. {_DESIGN} The false-belief subset holds the "
    "questions about a belief in the false-belief scenario, where what the person goes by and what is so may part. The "
    "interval of a class (Wilson's, for shares) says what to expect of further tasks like these. The "
    "questions of one task go together and count for fewer: over all questions for as many as their "
    "likeness in this run says (method: effective n), on the false-belief subset for "
    "one a task, or also by their likeness where a task has several such stories. In the row overall the interval says "
    f"what to expect of {_NEW}: a t interval, the mean of the stages, give or take their spread. {_FAILURES} "
    f"{baselines.ABOUT}",
    "perturbation_effects": "The share right in a class minus the share right on the unperturbed tasks of the same "
    f"stages. {_SHARES} The 95% interval (t over the stages) says what to expect of {_NEW}. {_TESTS} verdict says "
    f"harder or easier {_DECIDES} {ABOUT_WORST} For all classes together (overall_perturbed) the interval is made of "
    "the intervals of both shares, and a second row speaks for further tasks of these very stages (target: these "
    f"stages), with the shares of a fitted model. {_MORE}",
    "prompting_effects": "Each strategy (way of asking) against vanilla, which asks for the answer alone, on the "
    "same items. The strategy cot has the model write down how the belief develops before it answers. Read this "
    "difference and its interval: overlapping intervals of two accuracies are no test of it. Columns are as in "
    f"perturbation_effects; verdict says helps or hurts {_DECIDES} The row overall stands twice, for {_NEW} and for "
    "further tasks of these very stages (target: these stages). The columns gained and lost count the questions that "
    "only the strategy, or only vanilla, has right; they, McNemar's test of these counts and Tango's interval take the "
    "questions as independent, which they are not, and so only describe.",
    "strategies": "Cochran's Q is a test of whether all strategies are right equally often. It takes the questions as "
    "independent, which they are not, and so only describes.",
    "faithfulness": "How strongly belief chains go with right answers on the false-belief questions, as a "
    f"correlation (0: not at all, 1: always). A chain is {_PROPER}; it contains its final state, which mostly is the "
    "answer, so that phi (the correlation) of chain_proper is high nearly by definition: read answer_matches_last "
    "where the last state is wrong (does the answer follow the chain?), and chain_path_proper, which leaves the last "
    "state aside. The sample complete holds the questions with an answer and a chain. Intervals come from leaving "
    "out one stage at a time (the jackknife, which shows how far single stages move the result). p_value takes the "
    f"questions as independent. {_WORD} Here it is true from .4 on where the whole interval lies above zero.",
    "criteria": "The paper's criteria, counted as exact fractions: the rule strict asks for more than half right, "
    "lenient for at least half. classes_interval_above counts the classes whose interval lies wholly above one half. "
    "classes_joint and robust_joint ask for the false-belief question and the same question of the true-belief control "
    "(the story in which the label is right, or nothing is moved) to be right together. "
    f"{_CALLED} {_RULES} tasks_solved counts the tasks with all questions right, of tasks.",
    "challenging": "How many models have a class among their five lowest effects; classes that tie with the fifth are "
    "counted too. Effects are those matched by stage.",
    "placebo": f"The effect of a strategy by whether its chain was {_PROPER}. It only describes and supports no "
    "conclusion, because whether a chain is proper is known only after the treatment: the split alone makes proper "
    "chains look like a gain and improper ones like a loss; null is the effect that would be seen if chains and "
    "answers had nothing to do with each other.",
    "subtasks": f"Accuracy by scenario and question, without intervals, since a cell has few tasks. {_FAILURES}",
    baselines.TABLE: baselines.NOTE,
    **_VERSIONS,
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
    "transform of the correlation), which the paper does not print. "
    f"{_WORD} It is true from .4 on with a p_value of at most .05.",
    "criteria": "The paper's criteria, counted as exact fractions: the rule strict asks for more than half right, "
    f"lenient for at least half. {_CALLED} {_RULES}",
    "challenging": "How many models have a class among their five lowest effects; classes that tie with the fifth are "
    "counted too.",
    "placebo": "The effect of a strategy by whether its chain was proper, as published. It only describes and supports "
    "no conclusion, because whether a chain is proper is known only after the treatment.",
    "subtasks": f"Accuracy by scenario and question, without intervals. {_COMPLETE}",
    baselines.TABLE: baselines.NOTE,
    **_PLAIN,
}
