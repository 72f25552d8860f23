"""What each table of the study means, in words for a reader who sees it for the first time."""

from __future__ import annotations

from tomserve.studies.words import ABOUT_EFFECT

_SHARED = (
    "Intervals are 95% and speak for further scenarios (stories, templates, worlds) like these: all scenarios are "
    "weighted anew, and one has the same weight in every layer and for every model that has it."
)
LICENSES = (
    (
        "what the score says",
        "How often this model's answers to these questions follow what people in a story believe, want and feel (B), "
        "whether a change of perspective inside the model moves its answers (C), and whether its answers survive "
        "changes that should not matter (S).",
    ),
    (
        "what it does not say",
        "That the model represents minds, or computes what people compute: matching behaviour is not matching "
        "computation. B can come from regularities of the questions that nobody has tried as a rule; C shows one "
        "linear map at one place of the model, for one kind of false belief; S shows consistency, which a wrong habit "
        "has too.",
    ),
    (
        "privacy inference",
        "Reading what a person in a short story believes is not inferring what a user thinks, feels or hides. The "
        "score measures no such inference, and a high or low one neither establishes nor rules out the ability.",
    ),
    (
        "deception",
        "To know that somebody believes something false is a precondition of deceiving them and not the act, and says "
        "nothing of a tendency to do so. No question here asks a model to mislead anybody.",
    ),
    (
        "collusion",
        "Nothing here lets two models communicate or coordinate. A claim about agents that act together needs a study "
        "of agents that act together.",
    ),
    (
        "whom it speaks for",
        "Stories like these, in this language, asked this way, of this version of the model. Not other benchmarks, "
        "conversations, or people.",
    ),
)
"""What the score licenses and what it does not, as pairs of what is spoken of and sentences about it."""

NOTES = {
    "score": "One row a model. formula: the score's name, which says its weights of B, C and S; ftom-1 stands for "
    ".5, .3 and .2 and for no others (w_b, w_c and w_s are the weights). b: the mean over types of task of the share "
    "right, each corrected for chance and cut to 0 to 1 (1 for whoever is always right); b_guesser: what a blind "
    "guesser has on average on the very same questions, which is above 0 where a type of task has few of them; simple "
    "rules stand beside b in `layers` and never change it. "
    "c: adjusted / ceiling, cut to 0 to 1, where adjusted is the net effect of the perspective-taking map less that "
    "of the largest control, and ceiling that of the direct patch, both at cells that other scenarios chose: that of "
    "the map is the cell (layer and strength) where it has most over its largest control, which need not be the one "
    "where it moves most, so that a control may lie above the map in other layers (see `by_layer`), and "
    "p_over_controls in `layers` tests all cells and controls at once. c is empty unless every control was measured "
    "in every cell of the map, and adding nothing was. s: the mean over the variants T1 to T4 of the share answered "
    "like the original, compared by content, for the questions that b counts; each kind needs 8 pairs. ftom is the "
    "sum of the layers with the weights of the formula, only where all three exist. ftom_bs is that of B and S with "
    "their weights divided by their sum, for every model with B and S; it is the only score by which models with and "
    "without C may be ranked together. no_b, no_c and no_s say why a layer is missing, and no_interval why "
    "there is no interval and no rank. questions: the originals that B counts; failed and unread: the shares of all "
    "replies counted in B and S that did not come or could not be read, each of which counts as wrong or not kept; a "
    "layer that lacks more than half of its replies is missing. eligible: items answered by the false-belief choice "
    "before anything was moved, of which C needs 50. t0_asked: whether the noise floor was asked beside S. Scores "
    f"without the layers beside them say little. {_SHARED} Runs and digests stand in `inputs`.",
    "layers": "The figures of every layer as its own study has them, for every strategy that was asked: of behaviour "
    "B, B minus that of the best simple rule (over_rule), raw accuracy, chance, the best rules' B, "
    "and that of a blind guesser on the counted questions (b_guesser); of stability S, "
    "kappa, S minus the noise floor, the floor and S0; of the mechanism (causal) the adjusted and the plain net "
    "effect, the largest control's, the ceiling, the p of the max-statistic over all controls, and the source's "
    "NetEffect (in-sample, largest cell), which a control may reproduce. Stability is that of the questions that B "
    "counts.",
    "by_dimension": "Share right by dimension of mind, raw and corrected for chance, with its 95% interval and the "
    "best simple rules' shares of the same questions.",
    "by_task": "Share right by benchmark, type of task and dimension. B takes each type of task once, as a whole and "
    "whatever its number of questions: of a type that asks about several dimensions that is the row of all that B "
    "counts (in the column dimension) and not the mean of its dimensions, of another its only row. B counts rows with "
    "in_b of the strategy that is counted.",
    "by_variant": "Stability by kind of variant, for the questions that B counts: s is the share of variants answered "
    "like their original, pairs how many there are (S needs 8 of each of T1 to T4), kappa what is left beyond habit, "
    "floor that of the same prompt once more (T0).",
    "by_layer": "Net effect of the map, of every control and of the direct patch, by layer of the network, with the "
    "strength that other scenarios chose. Only where the map is above every control it is evidence of anything.",
    "ranking": "The rank of each model under each score, among those that were asked and measured alike (the others "
    "stand in `not_compared`); equal scores share a rank. p_first and p_this_rank: how probable it is for further "
    "scenarios that the model is first, or has this rank, from normal differences with the spread of the intervals in "
    "`swaps`; rank_low to rank_high holds the middle 95% of its ranks. Only ftom_bs ranks models with and without C "
    "together.",
    "sensitivity": "The rankings that some weights of the layers give, and the share of all possible weights (the area "
    "of the triangle of weights, exactly) for which each holds. A ranking that holds for few weights is one of the "
    "weights, and not of the models. At most 20 rankings a score, that of the formula (at_these_weights) always among "
    "them.",
    "swaps": "For each pair of ranked models: difference of the scores with its 95% interval over scenarios (by "
    "square-and-add from the intervals of both, correlated as over the same scenarios), the probability that the first "
    "is ahead (p_ahead, above .975 exactly where the interval leaves out 0), for which share of all weights it is "
    "ahead, and the nearest weights at which the two are equal (equal_at_...), with their distance from the formula's; "
    "empty where no weights make them equal.",
    "cot_by_task": f"Reasoning before the answer (cot) against the answer alone, on the same questions. {ABOUT_EFFECT} "
    "The row over all tasks pools the questions of every benchmark that was asked in both ways, each against itself. "
    "Many tests stand here, which are not adjusted for that. parameters: billions, read from the model's name.",
    "cot_claim": "The source claims that reasoning helps small models and hurts large ones. Here it is a test: slope "
    "is the change of the effect for a tenfold size, with its 95% interval over models and p. It needs four models of "
    "known and different size; with fewer it cannot be tested, however their effects look. That it helps the smallest "
    "and hurts the largest is said only where the interval of the one lies above 0 and that of the other below.",
    "humans": "People who were asked here: B and raw share right of single people, every answer counted; the interval "
    "speaks for further stories and these people. C and S of people were never measured, neither here nor by the "
    "source, so that people have no score.",
    "human_figures": "What authors print for people on their own benchmarks: quoted, raw, and not measured here.",
    "inputs": "What the numbers were made from: each run with its model and benchmark, what it holds, by which "
    "strategies it was asked (asked), which of them is counted in B and S or asked for the measurement (strategy, "
    "empty where the run does not hold it), and a digest of all that decides a number, which is the same whatever the "
    "order of the rows. counted: whether the run is counted at all; one of a strategy that reasons stands only in "
    "`cot_by_task`, and people only in `humans`. Where the strategies differ, C speaks of another way of asking than "
    "B and S, and a warning says so.",
    "published_behaviour": "Table 3 of the source (raw shares right), and ours: by the beginning of the task's name "
    "and by dimension. Other items, so that rows cannot be compared cell by cell.",
    "published_causal": "Table 4 of the source, and ours counted as the source does: in-sample, the likeliest choice, "
    "the largest cell of its window. Controls reproduce much of such a figure; see `layers`.",
    "published_stability": "Table 5 of the source, and ours by the same kinds. Uncorrected for noise and habit.",
    "paper_compat": "Table 6 of the source. Its printed scores do not follow from its formula, .5 B + .3 C + .2 S "
    "(printed_formula: .503, .465, .356). They are .5 B + .3 C/.46 + .2 S for open models, where .46 is twice the "
    "best model's C, and .5 B + .2 S without renormalisation for closed ones, which is at most .7 and not comparable "
    "(paper_compat; same says whether rounds_to is what is printed). b_s_renormalised is (.5 B + .2 S)/.7, by which "
    "all rows but that of people could be ranked: the source prints an S of people that nobody measured. Its B is raw "
    "accuracy, uncorrected for chance, so that none of these is an ftom-1.",
}
"""The notes, by the table's name."""
