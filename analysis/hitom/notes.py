"""What each table of the Hi-ToM study means, and for whom: one line a table."""

_BY_STORY = (
    "intervals by story (its twins with it), for further stories like these: t over stories on the logit scale, "
    "from 20 stories on, else Wilson's with n = stories"
)
RECOMMENDED = {
    "accuracy": f"pooled over questions; {_BY_STORY}; failures count as wrong; minus_vanilla: paired on the same "
    "questions, t over stories",
    "prompting_effects": "paired on the same questions, t and sign flips over stories: this is the test, overlapping "
    "intervals of accuracies are none; gained, lost, McNemar and Tango take questions as independent: descriptive",
    "joint_accuracy": "accuracy: of all questions of the order; joint: all asked orders up to this one right, over "
    "stories that were asked all of them (incomplete: stories that were not); it falls with order by itself: product "
    "is what it were if orders were independent, after_right the share right where the asked order before is right; "
    f"{_BY_STORY}; each twin is a story of its own in counts, its family the unit of the interval",
    "deception_count": "tells that are false when they are made, all of the story's or those about the object asked "
    f"for; more tells come with longer stories, so read twins for an effect; {_BY_STORY}",
    "answer_position": "choices: the place of the right answer among the choices as offered; mentions: among the "
    "containers in the order in which the story names them; chosen: answers given there, right or wrong",
    "lower_order_match": "whether the right answer is also that of a rule that nests nothing; where it is, being right "
    f"shows no nesting; {_BY_STORY}",
    "twins": "matched stories, paired by question, t and sign flips over families of twins, each of equal weight, in "
    "both accuracies and their difference (relative_risk pools the questions); primary: deceptive against "
    "filler where the tells matter (tell_relevant true), the others are descriptive and not adjusted",
    "baselines": "rules that nest nothing, against the same answers; chance: 1 / containers mentioned; counts of "
    "distinct questions",
    "errors": "wrong answers only; alone: the only explanation that holds, beside what it implies; expected: the same "
    "rate for a wrong container drawn uniformly from those the story mentions; excess: difference from it, t over "
    "stories; descriptive: what may explain an answer need not have caused it",
    "chains": "means over questions with a gold chain, a missing chain scores 0; path_phi: a right path, its last "
    "state aside, with a right answer, jackknife over stories; followed: answers that are its wrong last belief",
    "scorer": "which answers the replies were compared with, and how they were read: numbers of other scorers differ",
}
PUBLISHED = {
    **RECOMMENDED,
    "accuracy": "as published: mean over the cells of length x order, overall the mean of without and with deception; "
    "minus_vanilla: difference of these; the paper prints no intervals; failures count as wrong",
    "prompting_effects": "not published; see accuracy's minus_vanilla",
    "joint_accuracy": "as published: order k counts only where all asked orders of the story up to k are right; "
    "product and after_right show how much of its fall is arithmetic; accuracy: of all questions of the order",
    "deception_count": "as published, without intervals: tells that are false when they are made",
    "lower_order_match": "as published, without intervals: whether the right answer is also that of a rule that nests "
    "nothing",
}
