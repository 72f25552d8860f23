"""The study of functional Theory of Mind: behaviour, mechanism and stability side by side, and a score of them.

    tomserve analyze RUN_ANSWERS RUN_MEASURED --study functional

It reads runs of answers (with variants, for S) and measured runs (for C) of one model or several together; what is
missing stays empty. `ftom-1` is .5 B + .3 C + .2 S; see tomserve.stats.functional. NOTES says what each table means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from tomserve.causal.table import SCHEMA
from tomserve.stats.functional import FTOM_1, Formula
from tomserve.studies import BAD, GOOD, OPEN, Card, Context, Excerpt, Study, Verdict
from tomserve.studies.comparability import Conditions
from tomserve.studies.presentation import (
    ABOUT_EFFECT,
    Row,
    Tables,
    capitalize_first,
    cell,
    cell_of,
    finite_or_none,
    p_value,
    percent,
    readable_name,
    signed_interval,
    signed_points,
)

from . import score
from .figures import figures
from .layers import B_NAME, C_NAME, S_NAME, gather_layers

FEW = 100
"""With fewer eligible items C is known only roughly, and a reader is warned."""
FEW_SCENARIOS = 20
BY_LUCK = 0.05
"""From a larger B of a blind guesser on a reader is warned."""
LACKING = 0.02
"""From a larger share of replies that failed or could not be read on a reader is warned."""

MOST_APART = 4
"""So many models that are not ranked are named in the warning."""

_LAYERS = (
    "B: behaviour, corrected for chance; C: mechanism, above the largest control and over its ceiling; S: answers that "
    "survive T1 to T4. "
)
_FTOM_1 = (
    "FToM = .5 B + .3 C + .2 S, only where all are known; FToM_BS = (.5 B + .2 S)/.7 is the only score that ranks "
    "models with and without C together. "
)
_WEIGHTED = (
    "FToM: their sum with the weights of B, C and S that its name says, only where all are known; FToM_BS: that of B "
    "and S with their weights over their sum, the only one that ranks models with and without C together. Neither is "
    "comparable with ftom-1. "
)
_SCORE = "Below each its 95% interval over scenarios. ?: not known; the reasons stand in the warnings."
_RANKS = (
    "p 1st: probability of the first rank for further scenarios; ranks: the middle 95% of them. Only models that were "
    "asked and measured alike are ranked, and only ftom_bs ranks models with and without C together."
)
_WEIGHTS = "share: of all possible weights of the layers, for which this ranking holds; now: by the formula's weights."
_SWAPS = (
    "p ahead: probability that A is above B for further scenarios; weights: the share of all weights for which it is."
)
_COT = "Right with reasoning minus right without, over all tasks, in points, with its 95% interval."


def summary(tables: Tables) -> list[Excerpt]:
    """What the terminal prints: the score, ranks, weights and reasoning."""
    return [excerpt for excerpt in _excerpts(tables) if excerpt.frame.height]


def _excerpts(tables: Tables) -> Iterator[Excerpt]:
    if (frame := tables.get("score")) is not None:
        name = str(frame["formula"][0])
        told = _FTOM_1 if name == FTOM_1.name else _WEIGHTED
        yield Excerpt(f"functional Theory of Mind: {name}", _score(frame), ("score",),
                      f"{_LAYERS}{told}{_SCORE}{_luck(frame)}")  # fmt: skip
    if (frame := tables.get("ranking")) is not None:
        ranks = pl.format("{} to {}", "rank_low", "rank_high").alias("ranks")
        shown = frame.select("score", "rank", "model", cell_of("value"), cell_of("p_first", "p 1st"), ranks)
        yield Excerpt("ranks", shown, ("ranking",), _RANKS)
    if (frame := tables.get("sensitivity")) is not None:
        now = pl.when("at_these_weights").then(pl.lit("yes")).otherwise(pl.lit("")).alias("now")
        few = frame.group_by("score", maintain_order=True).head(3)
        yield Excerpt("rankings by weights", few.select("score", "ranking", cell_of("share"), now), ("sensitivity",),
                      _WEIGHTS)  # fmt: skip
    if (frame := tables.get("swaps")) is not None:
        close = frame.filter((pl.col("p_ahead") < 0.975) | (pl.col("share_of_weights") < 1 - 1e-9)).head(8)
        shown = close.select("score", pl.col("ahead").alias("A"), pl.col("behind").alias("B"),
                             cell_of("p_ahead", "p ahead"), cell_of("share_of_weights", "weights"))  # fmt: skip
        yield Excerpt("pairs whose order is not certain", shown, ("swaps",), _SWAPS)
    if (frame := tables.get("cot_by_task")) is not None:
        own = frame.filter(task="all tasks")
        effect = pl.format("{} [{}, {}]", *map(cell_of, ("risk_difference", "rd_low", "rd_high"))).alias(
            "CoT - vanilla"
        )
        yield Excerpt("reasoning against the answer alone", own.select("model", effect), ("cot_by_task",), _COT)


def _score(frame: pl.DataFrame) -> pl.DataFrame:
    """Two lines for each model: the estimates, and below them their intervals."""
    rows = []
    named = {"b": "B", "c": "C", "s": "S", "ftom": "FToM", "ftom_bs": "FToM_BS"}
    for row in frame.to_dicts():
        rows.append({"model": row["model"], **{new: cell(finite_or_none(row[old])) for old, new in named.items()}})
        ends = {new: _ends(row, old) for old, new in named.items()}
        if any(ends.values()):
            rows.append({"model": "", **ends})
    return pl.DataFrame(rows)


def _luck(frame: pl.DataFrame) -> str:
    """What a blind guesser has on the questions, as a sentence; empty where it is not known."""
    known = sorted({cell(finite_or_none(value)) for value in frame["b_guesser"].drop_nulls()})
    if not known:
        return ""
    return f" A blind guesser would have B {' to '.join(dict.fromkeys((known[0], known[-1])))} on the same questions."


def _ends(row: Row, name: str) -> str:
    low, high = finite_or_none(row[f"{name}_low"]), finite_or_none(row[f"{name}_high"])
    return "" if low is None or high is None else f"{cell(low)} to {cell(high)}"


def warnings(tables: Tables) -> list[str]:
    """One line for each reason to doubt the numbers: layers that are missing, few items or scenarios, no noise floor,
    several benchmarks, and names that do not match."""
    doubts: dict[str, None] = {}
    frame = tables.get("score", pl.DataFrame())
    for row in frame.iter_rows(named=True):
        doubts |= dict.fromkeys(f"{row['model']}: {said}" for said in _doubts(row))
    doubts |= dict.fromkeys(_of_inputs(tables))
    doubts |= dict.fromkeys(_of_ranks(tables))
    return list(doubts)


def _doubts(row: Row) -> Iterator[str]:
    for layer, name in (("b", "behaviour"), ("c", "mechanism"), ("s", "stability")):
        why = row[f"no_{layer}"]
        if why is not None:
            score = "no FToM" if layer == "c" else "neither FToM nor FToM_BS"
            yield f"{layer.upper()} ({name}) is missing ({why}), so that there is {score}"
    if row["no_s"] is None and not row["t0_asked"]:
        yield "T0 was not asked (--variants again), so that S cannot be compared with what batching alone changes"
    eligible = finite_or_none(row["eligible"])
    if row["no_c"] is None and eligible is not None and eligible < FEW:
        yield f"only {eligible:.0f} eligible items, so that C is known roughly"
    yield from _of_replies(row)
    scenarios = finite_or_none(row["scenarios"])
    if row["no_interval"] is not None:
        yield str(row["no_interval"])
    elif scenarios is not None and 0 < scenarios < FEW_SCENARIOS:
        yield f"only {scenarios:.0f} scenarios; an interval over so few is rough"


def _of_replies(row: Row) -> Iterator[str]:
    """What luck gives, and which replies are lacking."""
    luck = finite_or_none(row["b_guesser"])
    if luck is not None and luck > BY_LUCK:
        yield (
            f"a blind guesser would have B {cell(luck)} on these questions, since some types of task have few of them: "
            "ask more (--limit)"
        )
    words = {"failed": "failed", "unread": "could not be read"}
    lacking = [f"{percent(row[name])} of the counted replies {said}" for name, said in words.items()
               if (finite_or_none(row[name]) or 0.0) > LACKING]  # fmt: skip
    if lacking:
        yield f"{' and '.join(lacking)}; they count as wrong and as not kept"


def _of_inputs(tables: Tables) -> Iterator[str]:
    frame = tables.get("inputs", pl.DataFrame())
    if not frame.height:
        return
    for (model,), part in frame.group_by(["model"], maintain_order=True):
        sorts = {kind: own for (kind,), own in part.group_by(["holds"], maintain_order=True)}
        answers, moved = sorts.get("answers"), sorts.get("measurement")
        counted = answers.filter("counted") if answers is not None else frame.clear()
        counts = counted["benchmark"].unique(maintain_order=True).to_list()
        if len(counts) > 1:
            yield (
                f"{model}: B and S mix benchmarks ({', '.join(counts)}); every type of task counts once, so that a "
                "benchmark with many types weighs more"
            )
        if moved is not None and moved["benchmark"].n_unique() > 1:
            yield f"{model}: several benchmarks were measured, of which one counts in C (see the table inputs)"
        if answers is not None and moved is not None and set(answers["benchmark"]).isdisjoint(moved["benchmark"]):
            yield f"{model}: C was measured on another benchmark than the one that was asked; no scenario is shared"
        if answers is not None:
            yield from _uncounted_warnings(str(model), answers.filter(~pl.col("benchmark").is_in([*counts])))
        if answers is not None and moved is not None:
            outside, inside = (
                ", ".join(part["strategy"].drop_nulls().unique(maintain_order=True)) for part in (answers, moved)
            )
            if outside and outside != inside:
                yield (
                    f"{model}: B and S count the strategy {outside}, and C was measured with {inside or 'another'}, so "
                    "that they speak of different ways of asking; measure again with the same strategy"
                )
    yield from _name_warnings(frame)


def _uncounted_warnings(model: str, answers: pl.DataFrame) -> Iterator[str]:
    """A line for each benchmark none of whose runs is counted. answers: the rows of `inputs` of these."""
    for (benchmark,), part in answers.group_by(["benchmark"], maintain_order=True):
        asked = ", ".join(dict.fromkeys(", ".join(part["asked"].drop_nulls()).split(", ")))
        yield (
            f"{model}: {benchmark} was asked only by {asked}, none of which is known to ask for the answer alone, so "
            "that B and S do not count these answers; ask with vanilla"
        )


def _name_warnings(frame: pl.DataFrame) -> Iterator[str]:
    """A line where some models were only asked and others only measured: one model may go by two names."""
    kinds = {name: set(part["holds"]) for (name,), part in frame.group_by(["model"], maintain_order=True)}
    asked = [name for name, own in kinds.items() if own == {"answers"}]
    moved = [name for name, own in kinds.items() if own == {"measurement"}]
    if asked and moved:
        run = frame.filter(model=moved[0])["run"][0] or "RUN"
        yield (
            f"answers of {', '.join(map(str, asked))} and measurements of {', '.join(map(str, moved))} go by different "
            f"names; if two are one model, give it one name by --label {run}=NAME"
        )


def _of_ranks(tables: Tables) -> Iterator[str]:
    scored = tables.get("score", pl.DataFrame())
    apart = tables.get("not_compared", pl.DataFrame())
    if apart.height:  # that scenarios are too few is said of each model already
        few = scored.filter(pl.col("no_interval").is_not_null()).select("model", why="no_interval")
        apart = apart.join(few, on=["model", "why"], how="anti", maintain_order="left")
    for (name,), part in apart.group_by(["score"], maintain_order=True) if apart.height else ():
        told = "; ".join(f"{row['model']} ({row['why']})" for row in part.head(MOST_APART).to_dicts())
        more = f"; and {part.height - MOST_APART} more" if part.height > MOST_APART else ""
        yield f"{name}: left out of the ranks, as they cannot be compared: {told}{more} (see the table not_compared)"
    frame = tables.get("sensitivity", pl.DataFrame())
    if frame.height:
        for row in frame.filter("at_these_weights").iter_rows(named=True):
            if row["share"] < 0.5:
                yield (
                    f"{row['score']}: the ranking {row['ranking']} holds for only {percent(row['share'])} of all "
                    "weights, so that the weights decide it more than the models"
                )
    if scored.height > 1 and scored["ftom"].null_count() not in (0, scored.height):
        yield "some models have no FToM; rank all of them by ftom_bs alone"


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


QUESTION = "How far does it reach, layer by layer?"
LICENSE = "What does this license, and what not?"
ALIKE = "Does reasoning help small models and hurt large ones?"


def verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """For each model its layers and scores, the claim about reasoning, and what follows from them.

    tables: by name. context: what a guesser scores, for which B is corrected already.
    """
    del context
    frame = tables.get("score", pl.DataFrame())
    return [_verdict(row, tables) for row in frame.to_dicts()]


def _verdict(row: Row, tables: Tables) -> Verdict:
    license_card = Card(LICENSE, "Less than the number suggests", OPEN, LICENSES)
    return Verdict(str(row["model"]), (_lead(row),), (_layers(row, tables), *_claims(tables), license_card))


def _lead(row: Row) -> str:
    if finite_or_none(row["ftom"]) is not None:
        return f"{row['formula']}: FToM {_with(row, 'ftom')}; without the mechanism FToM_BS {_with(row, 'ftom_bs')}"
    if finite_or_none(row["ftom_bs"]) is not None:
        return f"FToM_BS {_with(row, 'ftom_bs')}; there is no FToM, as C is missing ({row['no_c']})"
    return "no score: " + "; ".join(f"{name.upper()} is missing ({row[f'no_{name}']})" for name in "bs"
                                    if row[f"no_{name}"])  # fmt: skip


def _with(row: Row, name: str) -> str:
    low, high = finite_or_none(row[f"{name}_low"]), finite_or_none(row[f"{name}_high"])
    ends = "" if low is None or high is None else f" [{cell(low)}, {cell(high)}]"
    return f"{cell(finite_or_none(row[name]))}{ends}"


def _layers(row: Row, tables: Tables) -> Card:
    """The three layers with what stands beside each, and a verdict that is as good as the weakest of them."""
    beside = _figures(str(row["model"]), tables)
    grounds, unknown = [], []
    shown: dict[str, bool] = {}
    for name, words, proof in (("b", "behaviour", "over_rule"), ("c", "mechanism", ""), ("s", "stability", "kappa")):
        if row[f"no_{name}"] is not None:
            grounds.append((f"{words} ({name.upper()})", f"Not known: {row[f'no_{name}']}."))
            unknown.append(words)
            continue
        low = min((one[1] for one in beside.get(proof, [])), default=None)
        low = finite_or_none(row["c_low"]) if name == "c" else low
        shown[words] = low is not None and low > 0
        clause = _mechanism(row, tables) if name == "c" else _beside(name, beside)
        grounds.append((f"{words} ({name.upper()})", f"{_with(row, name)}{clause}."))
    remark = (
        "A layer is shown where its control is left behind: B above the best simple rule in every benchmark, C above 0 "
        "after the largest control, kappa above 0 with every kind of variant, each by its 95% interval. The score adds "
        "layers up, and can be high although one of them shows nothing: read the layers first."
    )
    if not shown:
        return Card(QUESTION, "Nothing is known", OPEN, tuple(grounds), remark)
    if all(shown.values()) and not unknown:
        return Card(QUESTION, "All three layers are shown", GOOD, tuple(grounds), remark)
    parted = {
        "shown": [words for words, is_shown in shown.items() if is_shown],
        "not shown": [words for words, is_shown in shown.items() if not is_shown],
        "not known": unknown,
    }
    said = "; ".join(f"{how}: {', '.join(words)}" for how, words in parted.items() if words)
    bad = not any(shown.values()) and not unknown
    return Card(QUESTION, capitalize_first(said), BAD if bad else OPEN, tuple(grounds), remark)


def _figures(model: str, tables: Tables) -> dict[str, list[tuple[float, float, float]]]:
    """By figure: estimate and ends in every benchmark, of the strategy that is counted."""
    layers, inputs = tables.get("layers", pl.DataFrame()), tables.get("inputs", pl.DataFrame())
    if not layers.height or not inputs.height:
        return {}
    plain = {(str(row["benchmark"]), row["strategy"]) for row in
             inputs.filter("counted", model=model, holds="answers").to_dicts()}  # fmt: skip
    found: dict[str, list[tuple[float, float, float]]] = {}
    for row in layers.filter(pl.col("model") == model).to_dicts():
        low, high = finite_or_none(row["low"]), finite_or_none(row["high"])
        named = (str(row["benchmark"]) or "items", row["strategy"])
        if low is not None and high is not None and named in plain:
            found.setdefault(str(row["figure"]), []).append((float(row["value"]), low, high))
    return found


def _mechanism(row: Row, tables: Tables) -> str:
    """What stands beside C, as a clause. It is counted in another cell than that in which the map moves most, so that
    a reader who sees the map below a control in a layer of the figure has to be told."""
    layers, inputs = tables.get("layers", pl.DataFrame()), tables.get("inputs", pl.DataFrame())
    tested = ""
    if layers.height and inputs.height:
        measured = inputs.filter("counted", model=row["model"], holds="measurement")["benchmark"].to_list()
        over = layers.filter(model=row["model"], layer="causal", figure="p_over_controls")
        own = [one["value"] for one in over.to_dicts() if (one["benchmark"] or "items") in measured]
        tested = f", {p_value(own[0])} over all cells and controls" if own else ""
    return (
        "; counted in the layer and at the strength where other scenarios show the map most above its controls, which "
        f"need not be where it moves most: there it is {signed_points(row['adjusted'])} points above the largest "
        f"control{tested}; ceiling {signed_points(row['ceiling'])}, {row['eligible']} eligible items"
    )


def _beside(name: str, figures: dict[str, list[tuple[float, float, float]]]) -> str:
    """What stands beside B or S, as a clause."""
    figure, words = ("over_rule", "B minus that of the best simple rule") if name == "b" else ("kappa", "kappa by kind")
    told = [f"{cell(value)} [{cell(low)}, {cell(high)}]" for value, low, high in figures.get(figure, [])]
    return f"; {words} {', '.join(told)}" if told else ""


def _claims(tables: Tables) -> Iterator[Card]:
    """The claim about sizes, where there are sizes to compare: not with one model alone."""
    for row in tables.get("cot_claim", pl.DataFrame()).to_dicts():
        if (finite_or_none(row["models"]) or 0) < 2:
            continue
        effects = tables["cot_by_task"].filter(task="all tasks").to_dicts()
        grounds = tuple(
            (readable_name(one["model"]), f"{signed_interval(one, 'risk_difference', 'rd_low', 'rd_high')} points with "
             f"reasoning ({percent(one['share_treated'])} against {percent(one['share_control'])} right).")
            for one in effects
        )  # fmt: skip
        remark = (
            "The source says so of its models without a test. Here the effect over all tasks, on the same questions, "
            "is regressed on the logarithm of the models' size; a claim about sizes needs several models of each."
        )
        yield Card(ALIKE, capitalize_first(str(row["verdict"])), OPEN, grounds, remark)


ALL_NOTES = {**NOTES, score.NAME: score.NOTE}
"""What each table means, by its name, in the order of the tables."""


def tables(
    scores: pl.LazyFrame, intervals: str, formula: Formula = FTOM_1, why_no_c: str = ""
) -> dict[str, pl.DataFrame]:
    """Every table of the study, by name; those without rows are left out.

    scores: answers and measurements in one table (see tomserve.studies.answer_rows). intervals: the only way to count.
    formula: other weights have another name. why_no_c: why nothing was measured, where it was tried. Raises ConfigError
    for a table that lacks a column.
    """
    del intervals
    found = gather_layers(scores)
    scored = score.count_layers(found, formula)
    alike = score.groups(found, scored)
    effects = pl.DataFrame(list(score.by_task(found)), infer_schema_length=None).fill_nan(None)
    listed = {
        "score": score.by_model(found, scored, formula, why_no_c),
        "layers": score.layers(found),
        "ranking": score.ranking(alike),
        score.NAME: score.not_compared(alike),
        "sensitivity": score.sensitivity(alike, formula),
        "swaps": score.swaps(alike, formula),
        "cot_claim": score.claim(effects),
        "humans": score.humans(found),
        "inputs": iter(found.inputs),
    }
    frames = {name: pl.DataFrame(list(rows), infer_schema_length=None).fill_nan(None) for name, rows in listed.items()}
    frames["cot_by_task"] = effects
    for name, study, table in (
        ("by_dimension", B_NAME, "dimensions"),
        ("by_task", B_NAME, "task_types"),
        ("human_figures", B_NAME, "human_figures"),
        ("by_variant", S_NAME, "stability"),
        ("by_layer", C_NAME, "net_by_layer"),
    ):
        frames[name] = found.told.get(study, {}).get(table, pl.DataFrame())
    frames |= {**score.published_and_ours(found), "paper_compat": score.printed_scores()}
    return {name: frames[name] for name in ALL_NOTES if name in frames and frames[name].height}


def conditions(scores: pl.LazyFrame) -> dict[str, Conditions]:
    """By model what its scores are made from. scores: as for `tables`."""
    found = gather_layers(scores, tables=False)
    return {model: score.conditions(found, model) for model in found.models}


STUDY = Study(
    name="functional",
    tables=tables,
    columns=dict(SCHEMA),
    intervals=("recommended",),
    notes=lambda intervals: ALL_NOTES,
    warnings=warnings,
    summary=summary,
    figures=figures,
    verdicts=verdicts,
    labels={"task": "task", "dimension": "dimension"},
    variants=True,
    across=True,
    together=True,
    conditions=conditions,
)
"""The value by which tomserve knows the study."""
