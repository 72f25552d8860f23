"""What each table of the study of interventions means, in words for a reader who sees it for the first time."""

from __future__ import annotations

_ELIGIBLE = (
    "An item is eligible if the model answered it by the false-belief choice before anything was moved, in both orders "
    "of its choices, where an answer counts only if the likeliest token of the whole vocabulary begins a choice."
)
_NET = (
    "net is the net effect: the share of eligible items whose answer becomes the true-belief choice when the state is "
    "moved towards the true-belief state, minus that when it is moved towards the false-belief state (each item is the "
    "mean over its two orders), from -1 to 1"
)
_CHOSEN = (
    "The layer and the strength alpha are chosen on half of the scenarios and measured on the other half, which then "
    "change places; the mean over several such splits is shown. net_low and net_high are the ends of the 95% interval "
    "over scenarios, which repeats the choice in every draw; layer and alpha are what was chosen most often, and "
    "chosen_share in which share of the splits"
)
_CONTROLS = (
    "shuffled_pairs: a map fitted on pairs put together at random; shuffled_target: the map, aimed at the state of "
    "another item; random_map: a random map with the same singular values; random_direction: a random direction; "
    "identity: no map at all; shifted_identity: the same after both means are taken off; seen_identity: the same "
    "within what the map sees, which leaves out what only the target's states vary in; mean_difference: the same step "
    "for every item. Each is scaled to move every state as far as the map does."
)

NOTES = {
    "headline": f"A row for each model and benchmark. {_ELIGIBLE} {_NET}. {_CHOSEN}. control is the control that was "
    "the largest most often in the cell that is the map's best one (nothing, where none was above 0), control_net the "
    "net effect of the largest one there, on the scenarios that did not choose it. adjusted is what the map has over "
    "the largest control in the cell where that is most (adjusted_layer, adjusted_alpha; mostly another cell than the "
    "map's best one, so that it is not net minus control_net), on the scenarios that did not choose it, with its "
    "interval: this is the number to judge by; adding nothing, whose effect is 0, is a control as well. p_net: how "
    "often the largest net effect of all cells is as large when the signs of whole scenarios are flipped at random; "
    "null_95: what that largest value stays below in 95% of the flips. p_over_controls is the same for "
    "what the map has over the largest control in one and the same cell. ceiling is the net effect of the patch, the "
    "whole step from the item's state to its true-belief state, in the best layer, chosen likewise; net_of_ceiling and "
    "adjusted_of_ceiling are shares of it, and empty where it is not clearly above 0. no_op_changes is the share of "
    "answers that change although nothing is added, and must be 0. counted: the eligible items that have every move. "
    "controls_lacking: controls that were not measured in every cell of the map; then nothing is said of the map. "
    "error is the leave-one-out error of the map in the chosen layer, displacement the length of its step relative "
    "to the state, alpha_at_edge whether the chosen strength is the weakest or the strongest that was tried. "
    "items_needed: so many eligible items would give intervals of 5 points on either side, if they vary as these do. "
    "published_net counts as the source does: the map is fitted on the items on which it is tried, the likelier "
    "choice counts whatever else the model would say, and the largest of all cells with alpha from 0.0001 to 0.01 is "
    "reported; published_control comes closest to it by the same measure (its map is fitted without the item), and "
    "reproduced says whether it reaches 80% of it.",
    "net_by_layer": f"The map, every control and the patch in each layer. {_NET}. Only alpha is chosen here, on the "
    "other half of the scenarios; alpha is the one chosen most often. mean_over_alphas is the mean over all of them, "
    f"without a choice. Many layers stand here, and the largest of them is too good. {_CONTROLS}",
    "controls": f"Each control with its own best layer and strength. {_NET}. difference is the net effect of the map "
    "minus that of this control alone (or minus 0, where the control is below that), in the cell where that is most, "
    "as the other half of the scenarios chooses it, with its 95% interval; p is that of the largest difference over "
    f"all cells. {_CONTROLS}",
    "cells": "Every layer and strength of every map, without any choice: flip_true and flip_false are the shares of "
    "the eligible items whose answer becomes the true-belief choice under a move towards the true-belief and the "
    "false-belief state, net is their difference, displacement the median length of the step relative to the state. "
    "fitted says whether the map was fitted without the item's scenario (held_out) or on all items (in_sample, as "
    "published). `replace` puts the moved mean of both orders in place of each order's own state.",
    "fits": "How well the maps of each layer fit, as means over folds. error is the leave-one-out error relative to "
    "the length of the states, where 1 is no better than a map to zero; as all states have much in common, one far "
    "below 1 says little by itself, and stands beside that of shuffled_pairs; worst_error the largest of any fold; "
    "penalty is the median ridge penalty that it chose, rank the rank of the map, gain its median singular "
    "value, norm the "
    "median length of the states.",
    "readings": "The headline under other readings of the same answers: over all items, where those that cannot flip "
    "count as 0; by the likelier choice alone, whatever token is the likeliest; in either order of the choices alone. "
    "Where the readings differ much, the answer depends on what is counted.",
    "references": "What needs no map, in each layer over the eligible items. no_op adds nothing, and must change "
    "nothing. patch goes the whole way to the true-belief state of the item (flip_true; the ceiling), or to the "
    "false-belief state as the protagonist saw it (flip_false); patch_twin to the true-belief state as told in the "
    "third person. replace_no_op puts the mean of both orders in place of each order's own: what it changes, "
    "replacement breaks by itself. changed is the share of answers that become another choice, or unreadable.",
    "probes": "What a linear classifier reads out of states of scenarios that it was not trained on. told: in which "
    "telling (all: in all of them). accuracy is the share right with its 95% interval over scenarios, shuffled that of "
    "the same classifier trained on labels shuffled between scenarios, chance that of one who knows only how often "
    "each label is right elsewhere. A label is the words of a choice, and one of the item's own choices is read. "
    "selectivity is accuracy minus shuffled, with a t interval over scenarios: what is read because the state says it, "
    "and not because a classifier can learn anything. What can be read is not thereby used.",
    "transfer": "A map that was fitted on one family of stories (fitted_on), tried on the eligible items of another "
    f"(applied_to). {_NET}. {_CHOSEN}. adjusted is what the map has over the larger of the controls "
    "that were fitted alike (shuffled_pairs and identity) in the cell where that is most; within is the net effect of "
    "maps that were fitted across families, without the item's scenario, on the same items.",
    "answers": "What the model said before anything was moved, by telling and order of the choices (0: as the item "
    "lists them, 1: reversed). false is the false-belief story, own the same as the protagonist saw it, told to you; "
    "own_twin and twin are the stories in which the protagonist noticed, told to you and in the third person. "
    "share_false, share_true and share_other are shares of all answers, unread is the rest; right is the share that "
    "is right there (the false belief in the first two tellings), with its 95% interval over scenarios. A model that "
    "does not answer the tellings to you rightly has no state in them that could be aimed at.",
    "published_causal": "What table 4 of the framework's source prints (Mohanty et al.): the largest NetEffect and the "
    "layers of the peak. Its items, code and answers are not public, it has no controls and no intervals, and its map "
    "was fitted on the items on which it was tried; so these cells cannot be compared with any number here but "
    "published_net, and with that only in how they were counted.",
}
"""The notes by the table's name."""
