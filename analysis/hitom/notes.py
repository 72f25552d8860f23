"""What each table of the Hi-ToM study means, and for which population its intervals hold."""

from tomserve.studies import baselines
from tomserve.studies.words import ABOUT_EFFECT, ABOUT_TESTS, ABOUT_WORST

_BY_STORY = (
    "The 95% interval (made by a rule that covers the true share 19 times out of 20) counts stories (a story and its "
    "twins as one), not questions, because questions about one story go together; it says what to expect of further "
    "stories like these. From 20 stories on it is a t interval over stories (their mean, give or take their spread) on "
    "the logit scale, which keeps it between 0 and 1, below that Wilson's with as many cases as stories."
)
_FAILURES = "A failure (no answer, or none that can be read) counts as wrong."
_ARITHMETIC = (
    "Joint accuracy falls with order by itself: product is what it would be if the orders were independent of each "
    "other, after_right is the share right where the order asked before is right."
)
RECOMMENDED = {
    "accuracy": f"The share of right answers, over all questions together. {_BY_STORY} {_FAILURES} minus_vanilla is "
    f"the difference from vanilla on the same questions, with a t interval over stories. {baselines.ABOUT}",
    "prompting_effects": "Each strategy (way of asking) against vanilla, which asks for the answer alone, on the "
    f"same questions; stories take the place of clusters. {ABOUT_EFFECT} Read this difference and its interval: "
    f"whether the intervals of two accuracies overlap is no test. {ABOUT_TESTS} {ABOUT_WORST} The columns gained and "
    "lost, McNemar's test and Tango's interval take the questions as independent, which they are not; they only "
    "describe.",
    "joint_accuracy": "The order of a question is its depth of nesting: 0 asks for reality, 1 for what somebody "
    "thinks, 2 for what somebody thinks that another thinks. accuracy is the share right of all questions of the "
    "order. joint is the share of stories that have this and all lower asked orders right, among the stories that "
    f"were asked all of them (incomplete counts the others). {_ARITHMETIC} {_BY_STORY} In the counts each twin is a "
    "story of its own; in the intervals twins count as one.",
    "deception_count": "Accuracy by how many tells (lines in which somebody says where something is) are false when "
    "they are made, among all tells of the story or those about the object asked for. Longer stories have more "
    f"tells, so read the table of twins for an effect. {_BY_STORY}",
    "answer_position": "Accuracy by the place of the right answer among the choices as they were offered (choices), "
    "and among the containers in the order in which the story names them (mentions). chosen counts the answers given "
    "there, right or wrong.",
    "lower_order_match": "Accuracy where the right answer is also that of a rule that nests no beliefs, and where it "
    f"is not. Where it is, being right shows no nesting. {_BY_STORY}",
    "twins": "Stories that differ only in some lines (tells that lie or are true, filler lines, or none), compared "
    "question by question. The interval (t) and the tests count families of twins, each with equal weight, in both "
    "shares (share_treated and share_control, which accuracy and control_accuracy repeat), in their difference and in "
    "their ratio. The comparison planned as the primary one is deceptive against filler lines where the tells matter "
    "(tell_relevant is true); the others only describe, and are not adjusted for their number.",
    baselines.TABLE: f"{baselines.NOTE} The rules first order, joint witness and always reality nest no beliefs: they "
    "copy what the innermost person believes, take what all asked persons saw together last, or say where the object "
    "is. The last row of each part is a guess, whose accuracy is the mean of 1 / number of containers mentioned in the "
    "story.",
    "errors": "What may explain the wrong answers. share and flagged count an explanation wherever it holds, alone and "
    "share_alone where it is the only one (beside those that it implies). expected is the rate that a wrong container "
    "drawn blindly from those in the story would have, excess the difference from it, with a t interval over stories. "
    "The table only describes: what may explain an answer need not have caused it.",
    "chains": "A belief chain is what a reply says is believed as the story goes on, after every sentence or wherever "
    "it changes. Means of its measures over the questions with a gold chain; a missing chain counts as 0. path_phi is "
    "the correlation (phi) of a right path, its last state left aside, with a right answer; its interval comes from "
    "leaving out one story at a time (the jackknife). followed counts the answers that are the wrong last belief of "
    "their chain.",
    "scorer": "Which set of right answers the replies were compared with, and how the replies were read. Numbers that "
    "were scored in another way may differ.",
}
PUBLISHED = {
    **RECOMMENDED,
    "accuracy": "The share of right answers as published: the mean over the cells of length and order, overall the "
    "mean of the stories without and with deception. minus_vanilla is the difference of these. The paper prints no "
    f"intervals. {_FAILURES}",
    "prompting_effects": "The paper does not publish these effects with their tests; the table accuracy has the "
    "differences, minus_vanilla.",
    "joint_accuracy": "As published: order k counts as right only where all asked orders of the story up to k are "
    f"right. {_ARITHMETIC} accuracy is the share right of all questions of the order.",
    "deception_count": "Accuracy by how many tells are false when they are made, as published without intervals.",
    "lower_order_match": "Accuracy where the right answer is also that of a rule that nests no beliefs, and where it "
    "is not, as published without intervals.",
}
