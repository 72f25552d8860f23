"""The functional score of each model with ranks, weights and what can be compared; the published tables 3 to 6, and
whether chain of thought helps.

Only models that were asked the same, in the same way, are ranked. The source is Mohanty et al., "Functional Theory of
Mind Evaluation in Large Language Models: A Behavioral and Causal Stability Framework".
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.scoring.score import PEOPLE
from tomserve.stats.accuracy import guesser_mean, task_mean
from tomserve.stats.distributions import t_quantile
from tomserve.stats.functional import FEW_SCENARIOS, FTOM_1, LAYERS, Formula, ModelScore, score_models
from tomserve.stats.paper_formulas import paper_compat, printed_formula
from tomserve.stats.proportions import Interval
from tomserve.stats.ranks import EQUAL, Ranking, ScoreComparison, compare_scores, ranking_share, rankings, swap
from tomserve.studies import answer_rows, breakdowns, people, published_tables
from tomserve.studies.answer_rows import split_by
from tomserve.studies.comparability import Conditions, answer_conditions, group_comparable, measurement_conditions
from tomserve.studies.contrasts import Record, contrast, integer_codes, interval_columns, pair_rows
from tomserve.studies.presentation import finite_or_none, is_above, is_below

from .layers import (
    B_NAME,
    C_NAME,
    COUNTED,
    S_NAME,
    ModelLayers,
    Replies,
    explain_missing,
    has_repeats,
    questions,
    readable_layers,
    size_of,
    variants,
)

FULL, BS = "ftom", "ftom_bs"  # the two scores: that of all layers, and that of behaviour and stability
PARTS: Mapping[str, tuple[str, ...]] = {FULL: LAYERS, BS: ("b", "s")}  # the layers of each score
NAME = "not_compared"


@dataclass(frozen=True)
class Group:
    """What is compared by one score. ranked: the models that are, by name. apart: rows of the table `not_compared`."""

    ranked: Mapping[str, ModelScore] = field(default_factory=dict)
    apart: tuple[Record, ...] = ()


def estimate(one: ModelScore, score: str) -> Interval:
    """The score of a model by the score's name."""
    return one.ftom if score == FULL else one.ftom_bs


def conditions(found: ModelLayers, model: str) -> Conditions:
    """What decides whether a model can be compared with others by the score of all layers."""
    measured = found.measured.get(model)
    inside = measurement_conditions(measured) if measured is not None else None
    return Conditions(answer_conditions(questions(found, model), variants(found, model)), inside)


def groups(found: ModelLayers, scored: Mapping[str, ModelScore]) -> dict[str, Group]:
    """For each score the models that can be ranked by it, and why the others that have it cannot. scored: the models
    with their layers and scores."""
    return {score: _group(found, scored, score) for score in PARTS}


def _group(found: ModelLayers, scored: Mapping[str, ModelScore], score: str) -> Group:
    having = {model: one for model, one in scored.items() if math.isfinite(estimate(one, score).estimate)}
    keys = {model: conditions(found, model) for model, one in having.items() if score in one.draws}
    group = group_comparable(keys, measured=score == FULL)
    why = {**{model: why_no_rank(one) for model, one in having.items() if model not in keys}, **group.others}
    apart = tuple({"model": model, "score": score, "why": why[model]} for model in sorted(why))
    return Group({model: having[model] for model in having if model in group.largest}, apart)


def why_no_rank(one: ModelScore) -> str:
    """Why a score has neither an interval nor a rank, in a few words."""
    told = [f"{name.upper()} has only {count} scenario{'s' * (count != 1)}" for name, count in one.few.items()]
    if len(set(one.few.values())) == 1 and len(told) > 1:
        count = next(iter(one.few.values()))
        told = [f"only {count} scenario{'s' * (count != 1)}"]
    why = " and ".join(told)
    return f"{why}, and {FEW_SCENARIOS} are needed for an interval or a rank" if why else "the score has no interval"


def not_compared(groups: Mapping[str, Group]) -> Iterator[Record]:
    """The table `not_compared`: a row for each score and model that has the score and is not ranked by it."""
    for group in groups.values():
        yield from group.apart


Floats = npt.NDArray[np.float64]

MOST = 20  # so many rankings are listed at most, and that of the formula's own weights in any case


def count_layers(found: ModelLayers, formula: Formula = FTOM_1) -> dict[str, ModelScore]:
    """The layers and scores of each model; a layer most of whose replies failed or could not be read is missing."""
    layers, why = readable_layers(found)
    return explain_missing(score_models(layers, formula), why)


def by_model(
    found: ModelLayers, scored: Mapping[str, ModelScore], formula: Formula = FTOM_1, why_no_c: str = ""
) -> Iterator[Record]:
    """The table `score`: a row for each model; those with a score of all layers first, by that, then by FToM_BS.
    why_no_c: why nothing was measured, where it was tried."""
    rows = []
    for model, one in scored.items():
        row: Record = {"model": model, "formula": formula.name, "holds": holds(one)}
        parts = dict(zip((*LAYERS, FULL, BS), (one.b, one.c, one.s, one.ftom, one.ftom_bs), strict=True))
        for name, found_part in parts.items():
            row |= interval_columns(name, found_part if name not in one.missing_layers else None)
        row |= interval_columns("c_measured", one.c)
        behaviour = found.models[model].b if "b" not in one.missing_layers else None
        luck = guesser_mean(behaviour.chance, behaviour.task) if behaviour is not None else None
        row["b_guesser"] = finite_or_none(luck)
        asked = Replies.of(questions(found, model))
        every = asked + Replies.of(variants(found, model))
        row |= {"questions": asked.count, "scenarios": _scenarios(found, model)}
        row |= {name: getattr(every, name) / every.count if every.count else None for name in ("failed", "unread")}
        measured = found.measured.get(model)
        row |= {"adjusted": finite_or_none(one.adjusted), "ceiling": finite_or_none(one.ceiling)}
        row |= {"eligible": measured.select().height if measured is not None else None}
        row |= {f"no_{name}": one.missing_layers.get(name) for name in LAYERS}
        if why_no_c and measured is None:
            row["no_c"] = why_no_c
        if (
            model not in {who for who, _ in found.plain}
            and found.asked is not None
            and found.asked.rows.filter(model=model).height
        ):
            why = "asked by no strategy that is known to ask for the answer alone"
            row |= {name: why for name in ("no_b", "no_s") if row[name] is not None}
        row |= {"no_interval": why_no_rank(one) if one.few else None}
        row |= {"t0_asked": has_repeats(found, model)}
        row |= {f"w_{name}": weight for name, weight in zip(LAYERS, formula.weights, strict=True)}
        row |= {"inputs": ", ".join(dict.fromkeys(each["run"] or "a table" for each in found.inputs
                                                  if each["model"] == model and each["counted"]))}  # fmt: skip
        rows.append(row)
    # The highest score first and a missing one last; a score of 0 is none that is missing.
    values = {row["model"]: [math.inf if row[name] is None else -row[name] for name in (FULL, BS)] for row in rows}
    yield from sorted(rows, key=lambda row: (values[row["model"]], row["model"]))


def holds(one: ModelScore) -> str:
    """Which layers a model has, such as "b, s"."""
    return ", ".join(name for name in LAYERS if name not in one.missing_layers) or "none"


def _scenarios(found: ModelLayers, model: str) -> int:
    layers = found.models[model]
    names = {str(name) for part in (layers.b, layers.c, layers.s) if part is not None for name in
             np.unique(np.asarray(part.scenario, dtype=np.str_))}  # fmt: skip
    return len(names)


def layers(found: ModelLayers) -> Iterator[Record]:
    """The table `layers`: what the study of each layer says of each model, strategy and benchmark, a row a figure."""
    for study, name, figures in (
        (B_NAME, "behaviour", ("b", "over_rule", "accuracy", "chance", "constant_b", "surface_b")),
        (S_NAME, "stability", ("s", "kappa", "minus_floor", "floor", "s0")),
        (C_NAME, "headline", ("adjusted", "net", "control_net", "ceiling", "p_over_controls", "published_net")),
    ):
        for row in found.told.get(study, {}).get(name, pl.DataFrame()).iter_rows(named=True):
            if study == S_NAME and row["short"] not in (*COUNTED, "T1-T4"):
                continue
            key = {"layer": study, "model": row["model"], "benchmark": row["benchmark"]}
            strategy = {"strategy": row.get("strategy"), "of": row.get("variant")}
            for figure in figures:
                stem = _ENDS.get(figure, figure)
                low, high = row.get(f"{stem}_low"), row.get(f"{stem}_high")
                if row.get(figure) is not None:
                    yield {**key, **strategy, "figure": figure, "value": float(row[figure]), "low": low, "high": high}
    for model, own in found.models.items():
        for (benchmark, name), value in _guesser_scores(found, model) if own.b is not None else ():
            told = {"layer": B_NAME, "model": model, "benchmark": benchmark, "strategy": name, "of": None}
            yield {**told, "figure": "b_guesser", "value": value, "low": None, "high": None}


def _guesser_scores(found: ModelLayers, model: str) -> Iterator[tuple[tuple[str, str], float]]:
    """B that a blind guesser has on average on the questions of each benchmark, where their chances are known."""
    for (benchmark, strategy), part in questions(found, model).group_by("benchmark", "strategy", maintain_order=True):
        value = guesser_mean(part["chance"].cast(pl.Float64).to_numpy(), part["task"].to_numpy())
        if math.isfinite(value):
            yield (str(benchmark), str(strategy)), value


_ENDS = {"over_rule": "over", "minus_floor": "minus", "accuracy": "ci"}


def _compare_group(group: Group, name: str) -> ScoreComparison:
    own = group.ranked
    scores = {model: estimate(one, name) for model, one in own.items()}
    return compare_scores(scores, {model: one.draws[name] for model, one in own.items()})


def ranking(groups: Mapping[str, Group]) -> Iterator[Record]:
    """The table `ranking`: for each score the rank of each model that can be compared, and how probable ranks are.
    Equal scores have one rank, and the next one follows after as many as there are."""
    for name, group in groups.items():
        own = group.ranked
        if len(own) < 2:
            continue
        chances = _compare_group(group, name).rank_probabilities()
        values = {model: estimate(one, name).estimate for model, one in own.items()}
        for model in sorted(own, key=lambda model: (-values[model], model)):
            rank = 1 + sum(other > values[model] + EQUAL for other in values.values())
            shares = chances[model]
            ends = np.searchsorted(np.cumsum(shares), (0.025, 0.975 - 1e-12)) + 1
            row: Record = {"score": name, "rank": rank, "model": model, "value": values[model]}
            row |= {"p_first": float(shares[0]), "p_this_rank": float(shares[rank - 1])}
            row |= {"expected_rank": float(shares @ np.arange(1, len(own) + 1))}
            row |= {"rank_low": int(ends[0]), "rank_high": int(min(ends[1], len(own)))}
            yield row


def sensitivity(groups: Mapping[str, Group], formula: Formula = FTOM_1) -> Iterator[Record]:
    """The table `sensitivity`: the rankings that some weights give, and for which share of all weights. The ranking of
    the formula's weights is among them however rare it is."""
    for name, group in groups.items():
        own, names = sorted(group.ranked), PARTS[name]
        if len(own) < 2:
            continue
        parts = _estimates(group.ranked, own, names)
        now = tuple(np.argsort(-np.round(parts @ _weights(formula, names), 12), kind="stable").tolist())
        found = rankings(parts)
        of_formula = next((one for one in found if one.order == now), None) or Ranking(now, ranking_share(parts, now))
        listed = found[:MOST] if of_formula in found[:MOST] else [*found[: MOST - 1], of_formula]
        for one in listed:
            yield {"score": name, "ranking": " > ".join(own[k] for k in one.order), "share": one.share,
                   "at_these_weights": one.order == now}  # fmt: skip


def swaps(groups: Mapping[str, Group], formula: Formula = FTOM_1) -> Iterator[Record]:
    """The table `swaps`: for each pair of models the difference of their scores with its interval, and how often, over
    all weights, the one that is ahead is ahead."""
    for name, group in groups.items():
        values = {model: estimate(one, name).estimate for model, one in group.ranked.items()}
        own, names = sorted(values, key=lambda model: (-values[model], model)), PARTS[name]
        if len(own) < 2:
            continue
        parts, weights = _estimates(group.ranked, own, names), _weights(formula, names).tolist()
        pairs = _compare_group(group, name)
        for (first, a), (second, b) in itertools.combinations(enumerate(own), 2):
            found = swap(parts, first, second, weights)
            i, j = pairs.names.index(a), pairs.names.index(b)
            near = found.nearest or (None,) * len(names)
            yield {
                **{"score": name, "ahead": a, "behind": b, "difference": values[a] - values[b]},
                **{"low": float(pairs.low[i, j]), "high": float(pairs.high[i, j])},
                **{"p_ahead": pairs.ahead(a, b), "share_of_weights": found.share},
                **{f"equal_at_{part}": value for part, value in zip(names, near, strict=True)},
                "distance": finite_or_none(found.distance),
            }


def _estimates(scored: Mapping[str, ModelScore], models: Sequence[str], names: Sequence[str]) -> Floats:
    of = {model: {"b": one.b, "c": one.c, "s": one.s} for model, one in scored.items()}
    return np.array([[of[model][name].estimate for name in names] for model in models])


def _weights(formula: Formula, names: Sequence[str]) -> Floats:
    chosen = np.array([formula.weights[LAYERS.index(name)] for name in names])
    return chosen / chosen.sum() if chosen.sum() > 0 else np.full(len(names), 1 / len(names))


def humans(found: ModelLayers) -> Iterator[Record]:
    """The table `humans`: B of people who were asked, each answer of each person counted; C and S are unknown."""
    if not found.people.height or not set(PEOPLE) <= set(found.people.columns):
        return
    placed = breakdowns.task_rows(found.people.lazy()).rows.filter("mind")
    answers = people.people_answers(found.people).select(
        "model", "strategy", "item", "person", right=pl.col("right") > 0
    )
    rows = answers.join(placed.drop("correct"), on=["model", "strategy", "item"], how="inner")
    for key, part in split_by(rows.sort("item"), ("model", "benchmark")):
        row: Record = {"people": key["model"], "benchmark": key["benchmark"], "answers": part.height,
                       "persons": part["person"].n_unique(), "accuracy": part["right"].mean()}  # fmt: skip
        if not part["chance"].null_count():
            mean = task_mean(part["right"].to_numpy(), part["chance"].to_numpy(), integer_codes(part["task"]),
                             integer_codes(part["cluster"]))  # fmt: skip
            row |= interval_columns("b", mean.interval())
        yield {**row, "c": None, "s": None}


SOURCE, OURS = "source", "ours"  # where a row comes from


def printed_scores() -> pl.DataFrame:
    """The table `paper_compat`: printed scores, what reproduces them, what the printed formula gives, and FToM_BS."""
    rows = []
    for model, (b, c, s, score, kind, rank) in published_tables.TABLE_6.items():
        # Decimals, since a half is to be rounded up as the source does: .335 + .16 = .495 is printed as .50.
        made = Decimal(str(round(paper_compat(b, c, s), 9)))
        rounded = float(made.quantize(Decimal("0.01"), ROUND_HALF_UP))
        rows.append(
            {
                **{"model": model, "holds": kind, "rank": rank, "b": b, "c": c, "s": s, "printed": score},
                "paper_compat": float(made) if score is not None else None,
                "rounds_to": rounded if score is not None else None,
                "same": None if score is None else rounded == score,
                "printed_formula": None if c is None else round(printed_formula(b, c, s), 4),
                # The source prints an S of people, which nobody measured.
                "b_s_renormalised": None if kind == published_tables.REFERENCE else round(FTOM_1.without_c(b, s), 4),
            }
        )
    return pl.DataFrame(rows)


def published_and_ours(found: ModelLayers) -> dict[str, pl.DataFrame]:
    """The tables `published_behaviour`, `published_causal` and `published_stability`: the source's rows, then ours."""
    made = {}
    for name, quoted, ours in (
        ("behaviour", published_tables.behaviour(), _behaviour),
        ("causal", published_tables.causal(), _causal),
        ("stability", published_tables.stability(), _stability),
    ):
        rows: list[Record] = [{"from": SOURCE, **row} for row in quoted.iter_rows(named=True)]
        rows += [{"from": OURS, "model": model, **row} for model in found.models for row in ours(found, model)]
        made[f"published_{name}"] = pl.DataFrame(rows, infer_schema_length=None)
    return made


def _behaviour(found: ModelLayers, model: str) -> list[Record]:
    """Raw shares right as the source counts them: of all questions that B counts, by the beginning of the task, and by
    dimension."""
    if found.asked is None or B_NAME not in found.told:
        return []
    part = questions(found, model)
    if not part.height:
        return []
    row: Record = {"overall": part["correct"].mean()}
    for name in published_tables.BEHAVIOUR_COLUMNS[1:4]:
        row[name] = part.filter(pl.col("task").str.starts_with(name))["correct"].mean()
    row |= {name: part.filter(dimension=name)["correct"].mean() for name in published_tables.BEHAVIOUR_COLUMNS[4:]}
    return [row]


def _causal(found: ModelLayers, model: str) -> list[Record]:
    """The source's NetEffect (in-sample, likeliest choice, the largest cell of its window) of our measurement."""
    headline = found.told.get(C_NAME, {}).get("headline", pl.DataFrame())
    if model not in found.measured or not headline.height:
        return []
    own = headline.filter(model=model, benchmark=found.measured[model].arm["benchmark"])
    return [
        {"net_effect": row["published_net"], "layers": row["published_layers"],
         "alpha": None if (alpha := row["published_alpha"]) is None else f"{alpha:g}"}
        for row in own.iter_rows(named=True)
    ]  # fmt: skip


def _stability(found: ModelLayers, model: str) -> list[Record]:
    table = found.told.get(S_NAME, {}).get("stability", pl.DataFrame())
    if not table.height:
        return []
    rows = []
    for key, part in split_by(table.filter(model=model), ("strategy", "benchmark"), sort=False):
        if found.plain.get((model, key["benchmark"] or "items")) == key["strategy"]:
            shares = {str(short): s for short, s in part.select("short", "s").iter_rows()}
            row: Record = {kind: shares.get(kind) for kind in published_tables.KINDS}
            rows.append({**row, "average": shares.get("T1-T4")})
    return rows


# With fewer models of known size a slope over sizes has at most one degree of freedom, and no test is made
FEWEST = 4
ALL = "all tasks"


def by_task(found: ModelLayers) -> Iterator[Record]:
    """The table `cot_by_task`: by model, benchmark and task, reasoning against the answer alone on the same questions;
    then a row for each model over all tasks of all benchmarks, in each of which the two were asked the same questions.
    The answer alone is the strategy that B counts. Where a benchmark was asked by several ways of reasoning, the one
    that goes with it stands for the benchmark in the row over all tasks: letters_cot where letters is counted."""
    if found.asked is None:
        return
    rows = found.asked.rows.filter("mind")
    arms = list(_arms(rows, found.plain))
    for model, benchmark, control, treatments, part in arms:
        for key, own in split_by(part, ("task",)):
            for treatment in treatments:
                pairs = _pairs(own, treatment, control)
                if pairs.height:
                    yield _row(model, (benchmark, key["task"]), (treatment, control), pairs)
    for model in dict.fromkeys(arm[0] for arm in arms):
        own_arms = [(benchmark, control, treatments[0], part) for who, benchmark, control, treatments, part in arms
                    if who == model]  # fmt: skip
        parts = [_pairs(part, treatment, control) for _, control, treatment, part in own_arms]
        asked = [arm for arm, pairs in zip(own_arms, parts, strict=True) if pairs.height]
        if asked:
            without, reasoning = (", ".join(dict.fromkeys(str(arm[place]) for arm in asked)) for place in (1, 2))
            yield _row(model, (ALL, ALL), (reasoning, without), pl.concat(parts))


def _arms(
    rows: pl.DataFrame, plain: Mapping[tuple[str, str], str]
) -> Iterator[tuple[str, str, str, list[str], pl.DataFrame]]:
    """Each model and benchmark that was asked in both ways: the strategy without reasoning, those with it, the partner
    of the former first, and the rows."""
    for key, part in split_by(rows, ("model", "benchmark")):
        model, benchmark = map(str, key.values())
        control = plain.get((model, benchmark))
        if control is None:
            continue
        own = answer_rows.cot_partner(control)
        found = sorted(filter(answer_rows.is_cot, part["strategy"].unique()), key=lambda name: (name != own, name))
        if found:
            yield model, benchmark, control, found, part


def _pairs(rows: pl.DataFrame, treatment: str, control: str) -> pl.DataFrame:
    """The same questions in both ways; a story or task is one of its benchmark."""
    named = rows.with_columns(cluster=pl.format("{}: {}", "benchmark", "cluster"))
    return pair_rows(named.filter(strategy=treatment), named.filter(strategy=control))


def _row(model: str, where: tuple[str, str], ways: tuple[str, str], pairs: pl.DataFrame) -> Record:
    told = dict(zip(("benchmark", "task", "treatment", "control"), (*where, *ways), strict=True))
    return {"model": model, **told, **contrast(pairs), "parameters": size_of(model)}


def claim(effects: pl.DataFrame) -> Iterator[Record]:
    """The table `cot_claim`: the slope of the effect of reasoning over the size of models, where it can be tested.
    effects: the table `cot_by_task`. Each model counts once, with its effect over all tasks; the slope is that of an
    ordinary regression on the logarithm of its parameters, with Student's t and n - 2 degrees of freedom, so that it
    speaks for further models like these. Sizes are read from the models' names. That reasoning helps the smallest model
    and hurts the largest is said only where the intervals of their effects lie above 0 and below 0."""
    if not effects.height:
        return
    own = effects.filter(pl.col("task") == ALL).unique("model", keep="first", maintain_order=True)
    known = own.filter(pl.col("parameters").is_not_null(), pl.col("risk_difference").is_not_null())
    row: Record = {"models": own.height, "of_known_size": known.height}
    row |= {"smallest": known["parameters"].min(), "largest": known["parameters"].max()}
    ordered = known.sort("parameters", "model").to_dicts() or [{}]
    small, large = ordered[0], ordered[-1]
    row |= {"small_effect": small.get("risk_difference"), "large_effect": large.get("risk_difference")}
    x, y = np.log10(known["parameters"].to_numpy()), known["risk_difference"].to_numpy()
    if known.height < FEWEST or np.ptp(x) < 1e-9:
        models = f"{known.height} model{'s' * (known.height != 1)} of known size"
        said = f"cannot be tested with {models}; {FEWEST} of different size are needed"
        yield {**row, **dict.fromkeys(("slope", "slope_low", "slope_high", "p")), "verdict": said}
        return
    from scipy.stats import linregress

    fit = linregress(x, y)
    slope, half = float(fit.slope), t_quantile(0.975, known.height - 2) * float(fit.stderr)
    low, high = slope - half, slope + half
    verdict = (
        "the effect of reasoning falls with size" if high < 0 else "it rises with size" if low > 0 else "not shown"
    )
    if high < 0:
        turns = is_above(small, "rd_low") and is_below(large, "rd_high")
        verdict += ", and helps the smallest and hurts the largest" if turns else (
            "; that it helps the smallest and hurts the largest is not shown")  # fmt: skip
    p = finite_or_none(float(fit.pvalue))
    yield {**row, "slope": slope, "slope_low": low, "slope_high": high, "p": p, "verdict": verdict}
