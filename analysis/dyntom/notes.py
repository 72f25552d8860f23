"""What each table of the study of DynToM means, in words for a reader who sees it for the first time."""

from __future__ import annotations

from tomserve.studies import baselines
from tomserve.studies.words import ABOUT_EFFECT, ABOUT_TESTS, ABOUT_WORST

_SHARE = (
    "accuracy is the share of right answers, ci_low and ci_high the ends of its 95% interval over stories, which says "
    "what to expect of further stories like these; a failure (no answer, or none that can be read) counts as wrong"
)
_BESIDE = (
    "chance is what a blind guess among the options gets right, best_rule_accuracy what the best rule that follows "
    'nobody\'s mind has right of the same questions. The rule "shared words" looks for the option whose words stand in '
    "the scenes asked about; the backgrounds of these stories often say what the main character feels or wants"
)

NOTES = {
    "accuracy": f"All questions: {_SHARE}; chance is what a blind guess among the options gets right. "
    f"{baselines.ABOUT}",
    baselines.TABLE: baselines.NOTE,
    "states": "By the state that is asked about and by task: understanding asks what the main character believes, "
    "feels, intends or does in a scene; influence how one state leads to the next within a scene; transformation "
    f"whether, how and why a state changes between scenes. Of an influence, state is what is influenced. {_SHARE}; "
    f"{_BESIDE}.",
    "forms": 'By the form of the question. "No" is never right where a question asks whether a state changes; the '
    "mapping of the three forms of transformation to the numbers 1 to 3 in other tables is not stated by the authors, "
    f"so that they are named here by their words. {_SHARE}; {_BESIDE}. over_rule is the accuracy minus the rule's, "
    "with its interval over stories, as in the table accuracy.",
    "scenes": f"By the scene that is asked about; of a change it is the earlier one. {_SHARE}; {_BESIDE}.",
    "options": "By the number of different options, options with equal texts counted once. corrected is what is "
    f"above chance as a share of what could be: (accuracy - chance) / (1 - chance), from 0 to 1. {_SHARE}.",
    "consistency": "A state of a story counts only if its questions of this form are right in all scenes. product is "
    "what that share would be if the scenes were independent of each other, chance that of blind guesses; mean is the "
    "share of right answers of the same questions.",
    "changes": "Questions whether a state changes from one scene to the next, by how many of the two questions what "
    "the state is in these two scenes the model has right (ends_right). Who knows both ends and follows them has the "
    f"change right, too. {_SHARE}; {_BESIDE}.",
    "understanding_minus_transformation": "The share of understanding questions right (share_treated) minus that of "
    "transformation questions (share_control) within the same stories, each story counted once, with its 95% interval. "
    "The two have other numbers of options: 8 against 5, 8 and 16, by chance .125 and .131 right.",
    "prompting_effects": "Each strategy (way of asking) against the one that asks for the answer alone, on the same "
    f"questions. {ABOUT_EFFECT} {ABOUT_TESTS} {ABOUT_WORST}",
    "published_states": "Quoted, not computed: what the README of github.com/GAIR-NLP/DynToM prints for people and "
    "GPT-4o, by state, understanding (u) and transformation (t), as shares. Its prompt and its 1,100 stories are not "
    "stated, so that no difference from the tables above is a finding. weight_of_u is the weight that understanding "
    "would need for the printed average to follow from the two means; people's differs from GPT-4o's.",
}
"""The notes of recommended intervals, by the table's name."""

_INDEPENDENT = (
    "The share of right answers; its 95% interval takes the questions as independent of each other: (k + 2)/(n + 4) "
    "with the normal distribution."
)
PUBLISHED = dict.fromkeys(("accuracy", "states", "forms", "scenes", "options"), _INDEPENDENT) | {
    baselines.TABLE: baselines.NOTE,
    "published_states": NOTES["published_states"],
}
"""The notes of published intervals, by the table's name."""
