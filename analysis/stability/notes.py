"""What each table of the study of stability means, in words for a reader who sees it for the first time."""

from __future__ import annotations

_WHAT = (
    "A variant asks a question once more with a change that should not matter, and its right answer is that of the "
    "original. T0: the same prompt among other requests; T1: another object; T2: another person; T3: the story in 30 "
    "to 40% fewer words; T4: the choices in reversed order; T5: other words; T6: sentences in another order."
)
_S = (
    "s is S, the share of pairs of an original and its variant that got the same answer, compared by what the answer "
    "says and never by its letter or place; an answer that could not be read on either side counts as another one. d "
    "is D = 1 - S. s_low and s_high are the ends of its 95% interval, which says what to expect of further stories "
    "like these (Wilson's, for the effective number of answers: those to one story go together)"
)
_KAPPA = (
    "s0 is the S that two answerers would reach who share nothing but how often they name each place among the "
    'original\'s choices, "unknown" being a category of its own; kappa = (S - S0)/(1 - S0) is 0 where answers agree '
    "no more than that, and 1 where all survive. It is empty where all answers are one and the same, of which S says "
    "nothing"
)
_FLOOR = (
    "floor is S of T0: what changes although nothing was changed; minus_floor is S minus that, with the interval "
    "minus_low to minus_high (square-and-add, without a correlation, so that it is rather too wide than too narrow)"
)

NOTES = {
    "stability": f"{_WHAT} {_S}. {_KAPPA}. {_FLOOR}. s_right and s_wrong are S among the originals that were answered "
    "right and among the others (right and wrong count them). accuracy_original and accuracy_variant are the shares "
    "right of the same pairs, as means over clusters (stories, tasks); difference is the one minus the other, with its "
    "95% interval (t over clusters) and p. gained and lost: variants that are right where the original is wrong, and "
    "the reverse; mcnemar_exact tests the two, taking pairs as independent. constant_accuracy is the share right of "
    "the best rule that always gives one sort of answer, above_constant whether the model is clearly above it. "
    "left_out: originals without a variant of that kind; unpaired: variants whose original has no answer yet. The "
    "means count every kind once; T1 to T4 are the source's.",
    "stability_by": f"The same by factors of the benchmark, for all kinds together and for each. {_S}. {_KAPPA}.",
    "flips": "What became of right, wrong and unreadable answers: right_to_wrong counts originals that were right "
    "and whose variant is wrong, and so on; wrong_to_same and wrong_to_other are wrong answers that stayed the same or "
    "became another wrong one. flipped counts all pairs that do not agree, pairs that cannot be read among them. "
    "mcnemar_exact is the p of McNemar's exact test of gained against lost, which takes pairs as independent: it only "
    "describes.",
    "flip_answers": "Only answers that changed: from the original's answer to the variant's, both named as places "
    "among the original's choices, as what is really so where the items say what that is, as unknown, or as "
    "unreadable. share is that of all changes of this kind; lost and gained count those that made a right answer "
    "wrong, and the reverse.",
    "flipped_questions": "The questions whose answer changes in the largest share of their variants: kinds counts the "
    "variants, flipped those whose answer changed, which names their kinds; right says whether the original was right; "
    "from is its answer, to the answers of the variants that changed. At most 200 rows.",
    "stability_controls": "The same S of rules that follow nobody's belief, on the same pairs: s is the share of the "
    "pairs of which a rule says something (said) that it answers alike. Whoever always names the first choice, or "
    "always what is really so, has S = 1 wherever the order of the choices stays: high stability alone shows nothing "
    "about minds, and is to be read beside accuracy and kappa.",
    "variants_made": "How many variants of each kind were asked, and how they were made: from the record of the story, "
    "whose truth was computed again (record), by rules that change the text (rules), or by a model whose every "
    "rewriting was verified (rewriter:NAME). share is that of the originals that have one. Why the others have none "
    "stands in the run's manifest.",
    "published_stability": "Printed cells of table 5 of the framework's source (Mohanty et al.), whose items and "
    "answers are not public, so that they cannot be computed again or compared item by item with any run. S is "
    "uncorrected there: nothing is said of answers that could not be read, of habits or of noise, and there are no "
    "intervals. mean is the mean of the four cells, and same says whether it rounds to the printed average.",
}
"""The notes of recommended intervals, by the table's name."""

PUBLISHED = {
    "stability": f"{_WHAT} s is S, the share of pairs of an original and its variant that got the same answer, "
    "compared by what the answer says; an unreadable answer counts as another one; d is D = 1 - S. Nothing is "
    "corrected, as in the source; the interval, which the source lacks, takes pairs as independent: (k + 2)/(n + 4) "
    "with the normal distribution.",
    "variants_made": NOTES["variants_made"],
    "published_stability": NOTES["published_stability"],
}
"""The notes of published intervals, by the table's name."""
