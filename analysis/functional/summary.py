"""What the terminal shows of the study, in 80 columns, and what it warns of."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tomserve.stats.functional import FTOM_1
from tomserve.studies import Excerpt
from tomserve.studies.showing import Row, Tables
from tomserve.studies.words import cell, finite, percent

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
        shown = frame.select("score", "rank", "model", _cell("value"), _cell("p_first").alias("p 1st"), ranks)
        yield Excerpt("ranks", shown, ("ranking",), _RANKS)
    if (frame := tables.get("sensitivity")) is not None:
        now = pl.when("at_these_weights").then(pl.lit("yes")).otherwise(pl.lit("")).alias("now")
        few = frame.group_by("score", maintain_order=True).head(3)
        yield Excerpt("rankings by weights", few.select("score", "ranking", _cell("share"), now), ("sensitivity",),
                      _WEIGHTS)  # fmt: skip
    if (frame := tables.get("swaps")) is not None:
        close = frame.filter((pl.col("p_ahead") < 0.975) | (pl.col("share_of_weights") < 1 - 1e-9)).head(8)
        shown = close.select("score", pl.col("ahead").alias("A"), pl.col("behind").alias("B"),
                             _cell("p_ahead").alias("p ahead"), _cell("share_of_weights").alias("weights"))  # fmt: skip
        yield Excerpt("pairs whose order is not certain", shown, ("swaps",), _SWAPS)
    if (frame := tables.get("cot_by_task")) is not None:
        own = frame.filter(task="all tasks")
        effect = pl.format("{} [{}, {}]", *map(_cell, ("risk_difference", "rd_low", "rd_high"))).alias("CoT - vanilla")
        yield Excerpt("reasoning against the answer alone", own.select("model", effect), ("cot_by_task",), _COT)


def _cell(name: str) -> pl.Expr:
    return pl.col(name).map_elements(cell, pl.String, skip_nulls=False)


def _score(frame: pl.DataFrame) -> pl.DataFrame:
    """Two lines for each model: the estimates, and below them their intervals."""
    rows = []
    named = {"b": "B", "c": "C", "s": "S", "ftom": "FToM", "ftom_bs": "FToM_BS"}
    for row in frame.to_dicts():
        rows.append({"model": row["model"], **{new: cell(finite(row[old])) for old, new in named.items()}})
        ends = {new: _ends(row, old) for old, new in named.items()}
        if any(ends.values()):
            rows.append({"model": "", **ends})
    return pl.DataFrame(rows)


def _luck(frame: pl.DataFrame) -> str:
    """What a blind guesser has on the questions, as a sentence; empty where it is not known."""
    known = sorted({cell(finite(value)) for value in frame["b_guesser"].drop_nulls()})
    if not known:
        return ""
    return f" A blind guesser would have B {' to '.join(dict.fromkeys((known[0], known[-1])))} on the same questions."


def _ends(row: Row, name: str) -> str:
    low, high = finite(row[f"{name}_low"]), finite(row[f"{name}_high"])
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
    eligible = finite(row["eligible"])
    if row["no_c"] is None and eligible is not None and eligible < FEW:
        yield f"only {eligible:.0f} eligible items, so that C is known roughly"
    yield from _of_replies(row)
    scenarios = finite(row["scenarios"])
    if row["no_interval"] is not None:
        yield str(row["no_interval"])
    elif scenarios is not None and 0 < scenarios < FEW_SCENARIOS:
        yield f"only {scenarios:.0f} scenarios; an interval over so few is rough"


def _of_replies(row: Row) -> Iterator[str]:
    """What luck gives, and which replies are lacking."""
    luck = finite(row["b_guesser"])
    if luck is not None and luck > BY_LUCK:
        yield (
            f"a blind guesser would have B {cell(luck)} on these questions, since some types of task have few of them: "
            "ask more (--limit)"
        )
    words = {"failed": "failed", "unread": "could not be read"}
    lacking = [f"{percent(row[name])} of the counted replies {said}" for name, said in words.items()
               if (finite(row[name]) or 0.0) > LACKING]  # fmt: skip
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
            yield from _uncounted(str(model), answers.filter(~pl.col("benchmark").is_in([*counts])))
        if answers is not None and moved is not None:
            outside, inside = (
                ", ".join(part["strategy"].drop_nulls().unique(maintain_order=True)) for part in (answers, moved)
            )
            if outside and outside != inside:
                yield (
                    f"{model}: B and S count the strategy {outside}, and C was measured with {inside or 'another'}, so "
                    "that they speak of different ways of asking; measure again with the same strategy"
                )
    yield from _unmatched(frame)


def _uncounted(model: str, answers: pl.DataFrame) -> Iterator[str]:
    """A line for each benchmark none of whose runs is counted. answers: the rows of `inputs` of these."""
    for (benchmark,), part in answers.group_by(["benchmark"], maintain_order=True):
        asked = ", ".join(dict.fromkeys(", ".join(part["asked"].drop_nulls()).split(", ")))
        yield (
            f"{model}: {benchmark} was asked only by {asked}, none of which is known to ask for the answer alone, so "
            "that B and S do not count these answers; ask with vanilla"
        )


def _unmatched(frame: pl.DataFrame) -> Iterator[str]:
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
    apart = tables.get("not_compared", pl.DataFrame())
    for (score,), part in apart.group_by(["score"], maintain_order=True) if apart.height else ():
        told = "; ".join(f"{row['model']} ({row['why']})" for row in part.head(MOST_APART).to_dicts())
        more = f"; and {part.height - MOST_APART} more" if part.height > MOST_APART else ""
        yield f"{score}: left out of the ranks, as they cannot be compared: {told}{more} (see the table not_compared)"
    frame = tables.get("sensitivity", pl.DataFrame())
    if frame.height:
        for row in frame.filter("at_these_weights").iter_rows(named=True):
            if row["share"] < 0.5:
                yield (
                    f"{row['score']}: the ranking {row['ranking']} holds for only {percent(row['share'])} of all "
                    "weights, so that the weights decide it more than the models"
                )
    scored = tables.get("score", pl.DataFrame())
    if scored.height > 1 and scored["ftom"].null_count() not in (0, scored.height):
        yield "some models have no FToM; rank all of them by ftom_bs alone"
