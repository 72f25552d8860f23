"""The study of functional Theory of Mind: behaviour, mechanism and stability side by side, and a score of them.

    tomserve analyze RUN_ANSWERS RUN_MEASURED --study functional

It reads runs of answers (with variants, for S) and measured runs (for C) of one model or several together; what is
missing stays empty. `ftom-1` is .5 B + .3 C + .2 S; see tomserve.stats.functional.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import polars as pl

from tomserve.causal.table import OPTIONAL, SCHEMA
from tomserve.reporting.html.charts import draw_figures
from tomserve.stats.functional import FEW_SCENARIOS, FTOM_1, Formula
from tomserve.studies import BAD, GOOD, OPEN, Card, Context, Excerpt, Study, Verdict
from tomserve.studies.comparability import Conditions
from tomserve.studies.presentation import (
    Mark,
    Row,
    Tables,
    capitalize_first,
    cell,
    cell_of,
    finite_or_none,
    mark_of,
    p_value,
    percent,
    readable_name,
    signed_interval,
    signed_points,
)
from tomserve.studies.texts import Texts

from . import score
from .figures import MAKERS
from .layers import B_NAME, C_NAME, S_NAME, gather_layers

FEW = 100  # with fewer eligible items C is known only roughly, and a reader is warned
BY_LUCK = 0.05  # from a larger B of a blind guesser on a reader is warned
LACKING = 0.02  # from a larger share of replies that failed or could not be read on a reader is warned

MARGIN = 0.2  # so far above its control the interval of a layer that is shown has to lie; a convention

MOST_APART = 4  # so many models that are not ranked are named in the warning

TEXTS = Texts(__file__, few_scenarios=str(FEW_SCENARIOS), margin=cell(MARGIN))


def summary(tables: Tables) -> Iterator[Excerpt]:
    """What the terminal prints: the score, ranks, weights and reasoning."""
    if (frame := tables.get("score")) is not None:
        name = str(frame["formula"][0])
        told = TEXTS["ftom_1"] if name == FTOM_1.name else TEXTS["weighted"]
        yield Excerpt(f"functional Theory of Mind: {name}", _score(frame), ("score",),
                      f"{TEXTS['layers']} {told} {TEXTS['score']}{_luck(frame)}")  # fmt: skip
    if (frame := tables.get("ranking")) is not None:
        ranks = pl.format("{} to {}", "rank_low", "rank_high").alias("ranks")
        shown = frame.select("score", "rank", "model", cell_of("value"), cell_of("p_first", "p 1st"), ranks)
        yield Excerpt("ranks", shown, ("ranking",), TEXTS["ranks"])
    if (frame := tables.get("sensitivity")) is not None:
        now = pl.when("at_these_weights").then(pl.lit("yes")).otherwise(pl.lit("")).alias("now")
        few = frame.group_by("score", maintain_order=True).head(3)
        yield Excerpt("rankings by weights", few.select("score", "ranking", cell_of("share"), now), ("sensitivity",),
                      TEXTS["weights"])  # fmt: skip
    if (frame := tables.get("swaps")) is not None:
        close = frame.filter((pl.col("p_ahead") < 0.975) | (pl.col("share_of_weights") < 1 - 1e-9)).head(8)
        shown = close.select("score", pl.col("ahead").alias("A"), pl.col("behind").alias("B"),
                             cell_of("p_ahead", "p ahead"), cell_of("share_of_weights", "weights"))  # fmt: skip
        yield Excerpt("pairs whose order is not certain", shown, ("swaps",), TEXTS["swaps"])
    if (frame := tables.get("cot_by_task")) is not None:
        own = frame.filter(task="all tasks")
        effect = pl.format("{} [{}, {}]", *map(cell_of, ("risk_difference", "rd_low", "rd_high"))).alias(
            "with - without"
        )
        title = "chain of thought against the answer alone"
        yield Excerpt(title, own.select("model", effect), ("cot_by_task",), TEXTS["cot"])


def _score(frame: pl.DataFrame) -> pl.DataFrame:
    """Two lines for each model: the estimates, and below them their intervals."""
    rows = []
    named = {"b": "B", "c": "C", "s": "S", "ftom": "FToM", "ftom_bs": "FToM_BS"}
    for row in frame.to_dicts():
        shown = {new: cell(finite_or_none(row[old])) for old, new in named.items()}
        ends = {new: _ends(row, old) for old, new in named.items()}
        if _is_uncounted(row):
            shown["C"], ends["C"] = f"({cell(row['c_measured'])})", f"({_ends(row, 'c_measured')})"
        rows.append({"model": row["model"], **shown})
        if any(ends.values()):
            rows.append({"model": "", **ends})
    return pl.DataFrame(rows)


def _is_uncounted(row: Row) -> bool:
    """Whether C is known and does not count."""
    return row["no_c"] is not None and finite_or_none(row.get("c_measured")) is not None


def _luck(frame: pl.DataFrame) -> str:
    """What a blind guesser has on the questions, as a sentence; empty where it is not known."""
    known = sorted({cell(finite_or_none(value)) for value in frame["b_guesser"].drop_nulls()})
    if not known:
        return ""
    return f" A blind guesser would have B {' to '.join(dict.fromkeys((known[0], known[-1])))} on the same questions."


def _ends(row: Row, name: str) -> str:
    low, high = finite_or_none(row[f"{name}_low"]), finite_or_none(row[f"{name}_high"])
    return "" if low is None or high is None else f"{cell(low)} to {cell(high)}"


def warnings(tables: Tables) -> Iterator[str]:
    """One line for each reason to doubt the numbers: layers that are missing, few items or scenarios, no noise floor,
    several benchmarks, and names that do not match."""
    for row in tables.get("score", pl.DataFrame()).iter_rows(named=True):
        yield from (f"{row['model']}: {said}" for said in _doubts(row))
    yield from _of_inputs(tables)
    yield from _of_ranks(tables)


def _doubts(row: Row) -> Iterator[str]:
    for layer, name in (("b", "behaviour"), ("c", "mechanism"), ("s", "stability")):
        why = row[f"no_{layer}"]
        if why is not None:
            score = "no FToM" if layer == "c" else "neither FToM nor FToM_BS"
            how = "does not count" if layer == "c" and _is_uncounted(row) else "is missing"
            yield f"{layer.upper()} ({name}) {how} ({why}), so that there is {score}"
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
        yield f"only {scenarios:.0f} scenarios; the interval is approximate"


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
        few = scored.filter(pl.col("no_interval").is_not_null()).select(
            "model", why=pl.col("no_interval").cast(pl.String)
        )
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


QUESTION = "Which layers are shown?"
LICENSE = "What does the score support?"
ALIKE = "Does reasoning help small models and hurt large ones?"


def verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """For each model its layers and scores, the claim about reasoning, and what follows from them."""
    frame = tables.get("score", pl.DataFrame())
    licensed = Card(LICENSE, "Less than the number suggests", OPEN, tuple(TEXTS.section("licenses").items()))
    return [
        Verdict(str(row["model"]), (_lead(row),), (_layers(row, tables), *_claims(tables), licensed))
        for row in frame.to_dicts()
    ]


def _lead(row: Row) -> str:
    if finite_or_none(row["ftom"]) is not None:
        beside = f"FToM_BS, without the mechanism, {_with(row, 'ftom_bs')}"
        return f"{row['formula']}: FToM {_with(row, 'ftom')}; {beside}"
    if finite_or_none(row["ftom_bs"]) is not None:
        how = "does not count" if _is_uncounted(row) else "is missing"
        return f"FToM_BS, without the mechanism, {_with(row, 'ftom_bs')}; no FToM, as C {how} ({row['no_c']})"
    lacking = [name for name in "bs" if row[f"no_{name}"]] or ["c"]  # C alone, where B and S have no weight
    return "no score: " + "; ".join(f"{name.upper()} is missing ({row[f'no_{name}']})" for name in lacking)


def _with(row: Row, name: str) -> str:
    low, high = finite_or_none(row[f"{name}_low"]), finite_or_none(row[f"{name}_high"])
    ends = "" if low is None or high is None else f" [{cell(low)}, {cell(high)}]"
    return f"{cell(finite_or_none(row[name]))}{ends}"


def _layers(row: Row, tables: Tables) -> Card:
    """The three layers with what stands beside each, and a verdict that is as good as the weakest of them."""
    beside = _figures(str(row["model"]), tables)
    grounds, unknown = [], []
    marks: list[Mark] = []
    shown: dict[str, bool] = {}
    for name, words, proof in (("b", "behaviour", "over_rule"), ("c", "mechanism", ""), ("s", "stability", "kappa")):
        if name == "c" and _is_uncounted(row):
            said = f"{_with(row, 'c_measured')}, which does not count ({row['no_c']}){_mechanism(row, tables)}."
            grounds.append((f"{words} (C)", said))
            shown[words] = False
            continue
        if row[f"no_{name}"] is not None:
            grounds.append((f"{words} ({name.upper()})", f"Not known: {row[f'no_{name}']}."))
            unknown.append(words)
            continue
        low = min((one[1] for one in beside.get(proof, [])), default=None)
        low = finite_or_none(row["c_low"]) if name == "c" else low
        shown[words] = low is not None and low > MARGIN
        clause = _mechanism(row, tables) if name == "c" else _beside(name, beside)
        grounds.append((f"{words} ({name.upper()})", f"{_with(row, name)}{clause}."))
        marks += mark_of(words, row, name, (f"{name}_low", f"{name}_high"))
    verdict, tone = _how_many(shown, unknown)
    return Card(QUESTION, verdict, tone, tuple(grounds), TEXTS["layers_remark"], tuple(marks))


def _how_many(shown: dict[str, bool], unknown: list[str]) -> tuple[str, str]:
    """The verdict on the layers and its tone. shown: whether each that is known is shown."""
    if not shown:
        return "Nothing is known", OPEN
    if all(shown.values()) and not unknown:
        return f"All three layers are shown, by more than {cell(MARGIN)}", GOOD
    parted = {
        "shown": [words for words, is_shown in shown.items() if is_shown],
        "not shown": [words for words, is_shown in shown.items() if not is_shown],
        "not known": unknown,
    }
    said = "; ".join(f"{how}: {', '.join(words)}" for how, words in parted.items() if words)
    return capitalize_first(said), OPEN if any(shown.values()) or unknown else BAD


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
        "; in the layer and at the strength where other scenarios show the map most above its controls, which need not "
        f"be where it moves most, it is {signed_points(row['adjusted'])} points above the largest control{tested}; "
        f"ceiling {signed_points(row['ceiling'])}, {row['eligible']} eligible items"
    )


def _beside(name: str, figures: dict[str, list[tuple[float, float, float]]]) -> str:
    """What stands beside B or S, as a clause."""
    figure, words = ("kappa", "kappa by kind")
    if name == "b":
        figure, words = "over_rule", "B minus that of the best shortcut baseline"
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
        yield Card(ALIKE, capitalize_first(str(row["verdict"])), OPEN, grounds, TEXTS["claims"])


def tables(
    scores: pl.LazyFrame, intervals: str, formula: Formula = FTOM_1, why_no_c: str = ""
) -> dict[str, pl.DataFrame]:
    """Every table of the study that has rows, by name. Raises ConfigError for a table that lacks a column."""
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
    return {name: frames[name] for name in TEXTS.notes() if name in frames and frames[name].height}


def conditions(scores: pl.LazyFrame) -> dict[str, Conditions]:
    """By model what its scores are made from. scores: as for `tables`."""
    found = gather_layers(scores, tables=False)
    return {model: score.conditions(found, model) for model in found.models}


STUDY = Study(
    name="functional",
    tables=tables,
    columns=dict(SCHEMA),
    optional=OPTIONAL,
    intervals=("recommended",),
    notes=TEXTS.notes,
    warnings=warnings,
    summary=summary,
    figures=partial(draw_figures, TEXTS.figure, MAKERS),
    verdicts=verdicts,
    labels={"task": "task", "dimension": "dimension"},
    variants=True,
    across=True,
    together=True,
    conditions=conditions,
)
