"""What each table of the BigToM study means, in words for a reader who sees it for the first time."""

from __future__ import annotations

from tomserve.studies import baselines
from tomserve.studies.words import ABOUT_EFFECT, ABOUT_TESTS, ABOUT_WORST

_SHARE = (
    "accuracy is the share of right answers, ci_low and ci_high the ends of its 95% interval over templates, which "
    "says what to expect of further templates like these; a failure (no answer, or none that can be read) counts as "
    "wrong"
)
_DIFFERENCE = (
    "share_treated minus share_control on the same templates, with its 95% interval over templates; below zero, the "
    "first is harder"
)

NOTES = {
    "accuracy": f"All questions that were asked: {_SHARE}. {baselines.ABOUT}",
    baselines.TABLE: baselines.NOTE,
    "conditions": "By what is asked (forward: from what the person perceives to what she believes or does; backward: "
    "from what she does to what she believes), by whether her belief is true or false or the event of the story "
    "changes nothing (a control), and by whether the story says what she believed at first (init_belief 1): "
    f"{_SHARE}. A blind guess has half of them right.",
    "joint": "A template counts only if its question with the true belief and the one with the false belief are both "
    "right, as the paper advises. product is what that share would be if the two were independent; chance is that of "
    "two blind guesses. A reader who always gives the state after the event, or always the one before, has none.",
    "false_minus_true": f"Questions with a false belief (treated) and with a true one (control): {_DIFFERENCE}.",
    "controls": "Questions with a false belief (treated), and the same questions where an event happens instead that "
    f"changes nothing (control), so that the right answer is the same: {_DIFFERENCE}. It is what the misleading event "
    "costs.",
    "initial_belief": "Questions whose story says what the person believed at first (treated), and the same without "
    f"that sentence (control): {_DIFFERENCE}. Saying it gives the answer to false beliefs away.",
    "order": "Accuracy where the right answer is shown first or second (shown), and where the question names it first "
    "or second (named; nearly all questions about beliefs name the state before the event first). chose_first is the "
    "share of readable answers that are the choice shown or named first: without a leaning it is the share of "
    "questions whose right answer it is, right_first.",
    "official": "Our reading of the replies beside the authors' (plain: whether the key of the right option, a) or b), "
    "stands anywhere in the reply; after answer: only after 'Answer:', as for their chat prompt with reasoning). "
    "undecided: replies without a key, which their script has a language model grade; official: the share they count "
    "as right, of the decided ones; ours: our share right of the same ones; both_keys: replies that name both options, "
    "which their rule counts as right whatever they conclude.",
    "prompting_effects": "Each strategy (way of asking) against vanilla, which asks for the answer alone, on the same "
    f"questions; bigtom_cot against bigtom_0shot, where both were asked. {ABOUT_EFFECT} {ABOUT_TESTS} {ABOUT_WORST}",
}
"""The notes of recommended intervals, by the table's name."""

_INDEPENDENT = (
    "The share of right answers; its 95% interval takes the questions as independent of each other: (k + 2)/(n + 4) "
    "with the normal distribution."
)
PUBLISHED = {
    **{name: NOTES[name] for name in (baselines.TABLE, "order", "official")},
    "accuracy": _INDEPENDENT,
    "conditions": _INDEPENDENT,
}
"""The notes of published intervals, by the table's name."""
