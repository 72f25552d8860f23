"""What each table of the OpenToM study means, in words for a reader who sees it for the first time."""

from __future__ import annotations

from tomserve.studies import baselines
from tomserve.studies.words import ABOUT_EFFECT, ABOUT_TESTS, ABOUT_WORST

_F1 = (
    "f1 is the macro-averaged F1: for each class of answers (such as Yes and No) the harmonic mean of precision and "
    "recall, and then the mean over the classes, so that a class counts the same however rare it is. Of fine locations "
    "the classes are the first place and the new one. A failure (no answer, or none that can be read) is given to no "
    "class. f1_low and f1_high are the ends of the 95% interval, by drawing narratives anew"
)
_BESIDE = "constant_f1 is what the best constant answer earns, guess_f1 what a blind guess earns"

NOTES = {
    "accuracy": "All questions: the share of right answers with its 95% interval over "
    f"narratives; a failure counts as wrong. {baselines.ABOUT}",
    "lengths": "The same by length of the narratives. The long ones are about plots of the normal ones.",
    "macro_f1": f"By task and order of belief (0: the narrator's, that is what is so): {_F1}; {_BESIDE}.",
    "perspectives": f"By task, order, whose perspective is asked for and whether the observer saw the move: {_F1}. "
    "An observer who saw nothing believes what is no longer so. Where all right answers are of one class, f1 is 1 only "
    "if no other class is ever given.",
    "coarse_and_fine": "Questions about one belief, asked coarsely (is it where it was?) and finely (where is it?): "
    "both is the share of pairs with both answers right, with its 95% interval; product is what it would be if the two "
    "were independent; contradict is the share of pairs, of those with both replies read (both_read), whose answers "
    "cannot both be so.",
    "labels": "Tasks in which some labels contradict the plot, or what the same person is said to believe in coarse "
    "ones (contradicted: how many). f1 is that of all questions, f1_without that of the rest, with its 95% "
    "interval.",
    "prompting_effects": "Each strategy (way of asking) against vanilla, which asks for the answer alone, on the same "
    f"questions: differences of the share of right answers. {ABOUT_EFFECT} {ABOUT_TESTS} {ABOUT_WORST}",
    baselines.TABLE: baselines.NOTE,
}
"""The notes of recommended intervals, by the table's name."""

PUBLISHED = {
    "accuracy": "The share of right answers; its 95% interval takes the questions as independent of each other: "
    "(k + 2)/(n + 4) with the normal distribution.",
    "lengths": "The same by length of the narratives.",
    "macro_f1": "The macro-averaged F1 and the accuracy by the authors' reading of replies, which looks for words "
    "anywhere in them and leaves out those in which it finds none or too many (left_out: their share). The authors ask "
    "five samples of 50 narratives and print the mean; here it is all that was asked. multihop takes fullness and "
    'accessibility together by the numbers of their classes, and so "less full" with "more accessible", as their '
    "program does.",
    baselines.TABLE: baselines.NOTE,
}
"""The notes of published intervals, by the table's name."""
