"""The study of behaviour: one table across benchmarks, by type of task and by dimension of mind.

    tomserve analyze RUN... --study behaviour

It sets several benchmarks that a model was asked side by side (the behavioural layer of the functional framework).
Two ways to count, by `--intervals`: *recommended* (the default) corrects every share for chance,
with intervals over clusters; *published* has raw shares as the framework's source prints them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from tomserve.reporting.html.charts import Axis, Draw, draw_figures, rows_of, small_multiples, zero_line
from tomserve.scoring.baselines import baseline_name
from tomserve.stats.accuracy import TaskMean, correct_for_chance, mean_of, task_mean
from tomserve.studies import Excerpt, Figure, Study, baselines, published_tables
from tomserve.studies.answer_rows import BASELINE, split_by
from tomserve.studies.breakdowns import MACRO, TaskRows, corrected_share, is_mean, order_dimensions, task_rows
from tomserve.studies.contrasts import Record, integer_codes, interval_columns, prompting_effects
from tomserve.studies.presentation import (
    BAD,
    GOOD,
    OPEN,
    Card,
    Context,
    Row,
    Tables,
    Verdict,
    cell_of,
    finite_or_none,
    interval_cell,
    percent,
    readable_name,
    side_of,
    signed_interval,
)
from tomserve.studies.texts import Texts

TEXTS = Texts(__file__)


def human_figures(benchmarks: Iterable[str]) -> pl.DataFrame:
    """The table `human_figures`: the printed figures of these benchmarks, as behaviour.yaml has them."""
    columns = ("part", "measure", "quoted", "source", "remark")
    printed: dict[str, list[list[Any]]] = TEXTS.section("human_figures")
    return pl.DataFrame(
        [
            {"benchmark": name, **dict(zip(columns, cells, strict=True))}
            for name, figures in printed.items()
            if name in benchmarks
            for cells in figures
        ]
    )


def of_people(benchmark: str) -> Record:
    """The printed share of all questions that people have right, and where; None where no figure counts questions."""
    for row in human_figures([benchmark]).to_dicts():
        if (row["part"], row["measure"]) == ("all", "questions"):
            said = f"quoted from {row['source']}" + (f" ({row['remark']})" if row["remark"] else "")
            return {"human": row["quoted"], "human_source": said}
    return {"human": None, "human_source": None}


CONSTANT = "constant"  # the kind of rules that give one sort of answer, whatever the story tells

NOBODY: Mapping[str, None] = dict.fromkeys(
    (
        *("b", "b_low", "b_high", "constant_rule", "constant_b", "surface_rule", "surface_b"),
        *("over_rule", "over_low", "over_high", "method"),
    )
)


def by_benchmark(found: TaskRows) -> Iterator[Record]:
    """The table `behaviour`: a row for each model, strategy and benchmark, and their mean where there are several."""
    rows = found.rows.filter("mind")
    for (model, strategy), arm in rows.group_by(["model", "strategy"], maintain_order=True):
        parts: list[tuple[Record, TaskMean | None]] = []
        for key, part in split_by(arm, ("benchmark",)):
            record, mean = _benchmark(part, found.kinds)
            whole = {"model": model, "strategy": strategy, **key, **record, **of_people(key["benchmark"])}
            parts.append((whole, mean))
        yield from (record for record, _ in parts)
        means = [mean for _, mean in parts if mean is not None]
        if len(means) > 1 and len(means) == len(parts):
            yield {"model": model, "strategy": strategy, **_macro([record for record, _ in parts], means)}


def _benchmark(part: pl.DataFrame, kinds: baselines.RuleKinds) -> tuple[Record, TaskMean | None]:
    """The record of one model, strategy and benchmark, and its B with those of the best rules: the sides of the mean
    are the model, the best constant rule and the best other one, of those that there are."""
    counted = baselines.accuracy(part, kinds, "recommended", brief=True)
    names = ("correct", "total", "accuracy", "ci_low", "ci_high")
    record: Record = {name: counted[name] for name in names}
    record |= {"chance": part["chance"].mean(), "tasks": part["task"].n_unique(), "clusters": counted["tasks"]}
    record |= {"failed": counted["failed"], "unread": counted["unread"]}
    if part["chance"].null_count():
        return {**record, **NOBODY}, None
    said = [name for name in kinds.columns if part[name].null_count() < part.height]
    sides = np.column_stack(
        [part["correct"].to_numpy(), *(part[name].fill_null(False).to_numpy() for name in said)]
    ).astype(float)
    mean = task_mean(sides, part["chance"].to_numpy(), integer_codes(part["task"]), integer_codes(part["cluster"]))
    best = {
        kind: max(places, key=lambda place: (mean.estimate[place], -place), default=None)
        for kind, places in (
            ("constant", [p for p, name in enumerate(said, 1) if kinds.by_column[name] == CONSTANT]),
            ("surface", [p for p, name in enumerate(said, 1) if kinds.by_column[name] != CONSTANT]),
        )
    }
    own = mean.interval()
    record |= interval_columns("b", own)
    for kind, place in best.items():
        record[f"{kind}_rule"] = None if place is None else baseline_name(said[place - 1])
        record[f"{kind}_b"] = None if place is None else float(mean.estimate[place])
    places = [place for place in best.values() if place is not None]
    rival = max(places, key=lambda place: float(mean.estimate[place]), default=None)
    gap = None if rival is None else mean.difference(0, rival)
    record |= interval_columns("over_rule", gap, "over")
    record["method"] = own.method
    return record, _sides(mean, [0, *([] if rival is None else [rival])])


def _sides(mean: TaskMean, places: Sequence[int]) -> TaskMean:
    chosen = list(places)
    draws, least, few = mean.draws[:, chosen], mean.least[:, chosen], mean.few_bounds[chosen]
    return replace(mean, estimate=mean.estimate[chosen], draws=draws, least=least, few_bounds=few)


def _macro(records: Sequence[Record], means: Sequence[TaskMean]) -> Record:
    """The mean over benchmarks, each counted once; shares are means, and counts are sums."""
    own = mean_of(list(means))
    found: Record = {"benchmark": MACRO.format(len(records))}
    found |= {name: sum(record[name] for record in records) for name in ("correct", "total", "tasks", "clusters")}
    found |= {name: _mean([record[name] for record in records]) for name in ("accuracy", "chance")}
    unread = [record["unread"] for record in records]
    found |= {"failed": sum(record["failed"] for record in records), "unread": None if None in unread else sum(unread)}
    found |= {**interval_columns("b", own), "method": own.method}
    found |= {f"{kind}_b": _mean([record[f"{kind}_b"] for record in records]) for kind in ("constant", "surface")}
    if all(len(mean.estimate) > 1 for mean in means):
        gap = mean_of([_difference(mean) for mean in means], floor=-1.0)
        found |= interval_columns("over_rule", gap, "over")
    return found


def _difference(mean: TaskMean) -> TaskMean:
    """The model minus the rule, as if it were one side."""
    low, high = mean.differences(0, 1)
    gap, unknown = mean.estimate[:1] - mean.estimate[1:], np.full((1, 2), np.nan)
    return replace(mean, estimate=gap, draws=high[:, None], least=low[:, None], few_bounds=unknown)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def by_task(found: TaskRows, intervals: str) -> Iterator[Record]:
    """The table `task_types`: a row for each model, strategy, benchmark, task and dimension."""
    for key, part in split_by(found.rows, ("model", "strategy", "benchmark", "task", "dimension")):
        yield {**key, **_cell(part, found.kinds, intervals), "in_b": bool(part["mind"].all())}


def by_dimension(found: TaskRows, intervals: str) -> Iterator[Record]:
    """The table `dimensions`: a row for each model, strategy, dimension and benchmark, and the mean over benchmarks
    where several ask about a dimension."""
    for (model, strategy), arm in found.rows.group_by(["model", "strategy"], maintain_order=True):
        for dimension in order_dimensions(arm["dimension"].unique().to_list()):
            part = arm.filter(dimension=dimension)
            apart = split_by(part, ("benchmark",))
            records = [{**key, **_cell(some, found.kinds, intervals)} for key, some in apart]
            if len(records) > 1:
                mean: Record = {"benchmark": MACRO.format(len(records)), "total": part.height}
                whole = ("accuracy", "chance", "corrected", "constant", "surface")
                shares = [name for name in whole if name in records[0]]  # as published nothing is corrected for chance
                records.append(mean | {name: _mean([record.get(name) for record in records]) for name in shares})
            for record in records:
                yield {"model": model, "strategy": strategy, "dimension": dimension, **record}


def effects(found: TaskRows) -> Iterator[Record]:
    """The table `prompting_effects`: by benchmark, task and dimension, each strategy against the one that asks for the
    answer alone, on the same questions; nothing where no question was asked in both ways."""
    keys = ("benchmark", "task", "dimension")
    yield from prompting_effects(found.rows.sort("model", *keys, maintain_order=True), None, keys)


def _cell(part: pl.DataFrame, kinds: baselines.RuleKinds, intervals: str) -> Record:
    """The share right of some questions with its interval, chance, the corrected share, and the best baselines."""
    record = corrected_share(part, kinds, intervals)
    if intervals == "published":
        return record
    best: dict[str, float] = {}
    for rule in baselines.count_rules(part, kinds):
        best.setdefault(CONSTANT if rule["kind"] == CONSTANT else "surface", rule["accuracy"])
    unread = record.pop("unread")
    return {**record, CONSTANT: best.get(CONSTANT), "surface": best.get("surface"), "unread": unread}


def published_table() -> pl.DataFrame:
    """The table `published_behaviour`: the printed cells as shares, and the mean of the three types of task, from which
    the printed overall share differs in every row."""
    means = [round(sum(cells[1:4]) / 300, 3) for cells in published_tables.TABLE_3.values()]
    return published_tables.behaviour().with_columns(mean_of_tasks=pl.Series(means))


FEW, SMALL = 20, 10  # below so many clusters, and below so many questions of a type of task, a reader is warned


def summary(tables: Tables) -> Iterator[Excerpt]:
    """What the terminal prints: the table across benchmarks, its dimensions and tasks, quoted and published figures."""
    if (frame := tables.get("behaviour")) is not None:
        yield Excerpt("behaviour: one table across benchmarks", _behaviour(frame), ("behaviour",), TEXTS["reading"])
    for name, title in (("dimensions", "by dimension of mind"), ("task_types", "by benchmark and type of task")):
        if (frame := tables.get(name)) is not None:
            corrected = "corrected" in frame.columns
            yield Excerpt(
                title, _cells(frame, corrected), (name,), TEXTS["tasks"] if corrected else TEXTS["plain_reading"]
            )
    if (frame := tables.get("prompting_effects")) is not None:
        yield Excerpt(
            "strategies: what a way of asking changes", _effects(frame), ("prompting_effects",), TEXTS["strategies"]
        )
    if (frame := tables.get("human_figures")) is not None:
        shown = frame.select("benchmark", "part", "measure", _number("quoted"), "source")
        yield Excerpt("people, as quoted", shown, ("human_figures",), TEXTS["quoted"])
    if (frame := tables.get("published_behaviour")) is not None:
        cells = [_number(name) for name in frame.columns[1:]]
        shown = frame.select("model", *cells)
        yield Excerpt("published: table 3 of the source", shown, ("published_behaviour",), TEXTS["paper"])


_number = partial(cell_of, missing="")
_with = partial(interval_cell, missing="")


def _behaviour(frame: pl.DataFrame) -> pl.DataFrame:
    own: list[pl.Expr] = [_with("b", "b_low", "b_high", "B [95%]")]
    if frame["constant_b"].is_not_null().any():
        own += [_number("constant_b", "constant"), _number("surface_b", "other")]
        own += [_with("over_rule", "over_low", "over_high", "B - rule [95%]")]
    human = [_number("human")] if frame["human"].is_not_null().any() else []
    counts = [pl.col("total").alias("questions"), pl.col("tasks"), _number("accuracy", "right"), _number("chance")]
    return frame.select("model", "strategy", "benchmark", *counts, *own, *human)


def _effects(frame: pl.DataFrame) -> pl.DataFrame:
    named = [pl.col("treatment").alias("strategy"), *(("control",) if frame["control"].n_unique() > 1 else ())]
    shares = [_number("share_treated", "right"), _number("share_control", "control's")]
    gap = _with("risk_difference", "rd_low", "rd_high", "difference [95%]")
    return frame.select("model", "benchmark", "task", "dimension", *named, *shares, gap, "p")


def _cells(frame: pl.DataFrame, corrected: bool) -> pl.DataFrame:
    keys = frame.columns[: frame.columns.index("correct" if "correct" in frame.columns else "total")]
    if not corrected:
        right = _with("accuracy", "ci_low", "ci_high", "right [95%]")
        return frame.select(*keys, "total", right, _number("chance"))
    shares = (_number("accuracy", "right"), _number("chance"))
    gap = _with("corrected", "corrected_low", "corrected_high", "corrected [95%]")
    rules = (
        _number(name, new) for name, new in (("constant", "constant"), ("surface", "other")) if name in frame.columns
    )
    return frame.select(*keys, "total", *shares, gap, *rules)


def warnings(tables: Tables) -> Iterator[str]:
    """One line for each reason to doubt the numbers: no chance, no rules, few clusters, tasks of few questions, and
    questions that are left out."""
    yield from baselines.missing_warnings(tables)
    frame = tables.get("behaviour", pl.DataFrame())
    for row in frame.iter_rows(named=True):
        who = f"{row['model']}, {row['strategy']}, {row['benchmark']}"
        if row["chance"] is None or row["b"] is None:
            yield (
                f"{row['benchmark']}: its score table does not say how many choices each question has (floor_guess), "
                "so that no share is corrected for chance; score the run again with this version (tomserve score RUN)"
            )
        elif row["clusters"] < FEW:
            yield f"{who}: only {row['clusters']} stories or templates; the interval is approximate"
    small = tables.get("task_types", pl.DataFrame())
    if small.height:
        few = small.filter(pl.col("total") < SMALL)
        for benchmark, task in few.select("benchmark", "task").unique(maintain_order=True).iter_rows():
            many = f"fewer than {SMALL} questions, which count in B as much as any other type of task"
            yield f"{benchmark}, {task}: {many}"
    for name, count in tables.get("unusable", pl.DataFrame()).iter_rows():
        yield f"{name}: {count:,} answers to questions that the benchmark marks as unusable are left out"


QUESTION = "Is it above the shortcut baselines?"


def verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """For each model B by strategy, and whether it is above the best shortcut baseline in every benchmark."""
    frame = tables.get("behaviour", pl.DataFrame())
    if "over_rule" not in frame.columns:
        return []
    return [_verdict(str(name), frame.filter(model=name)) for name in frame["model"].unique(maintain_order=True)]


def _verdict(model: str, frame: pl.DataFrame) -> Verdict:
    lines = []
    frame = frame.sort(pl.col("strategy") != BASELINE, maintain_order=True)
    for (strategy,), part in frame.group_by(["strategy"], maintain_order=True):
        row = part.to_dicts()[-1]  # the mean, where there are several benchmarks
        lines.append(f"{readable_name(strategy)}: {_clause(row)} ({row['benchmark']})")
    single = [row for row in frame.to_dicts() if not is_mean(row["benchmark"])]
    signs = [side_of(row.get("over_low"), row.get("over_high")) for row in single]
    verdict, tone = "It cannot be told", OPEN
    if signs and all(one == 1 for one in signs):
        verdict, tone = "Yes, in every benchmark" if len({row["benchmark"] for row in single}) > 1 else "Yes", GOOD
    elif signs and all(one == -1 for one in signs):
        verdict, tone = "No, below the best of them", BAD
    elif 1 in signs:
        verdict = "Not in every benchmark or with every strategy"
    elif signs and all(one is not None for one in signs):
        verdict, tone = "Not shown", OPEN
    card = Card(QUESTION, verdict, tone, tuple(_grounds(single)), TEXTS["verdict"])
    return Verdict(model, tuple(lines), (card,))


def _clause(row: Row) -> str:
    if finite_or_none(row["b"]) is None:
        return f"{percent(row['accuracy'])} right; chance is not known"
    bounds = ""
    if finite_or_none(row["b_low"]) is not None:
        bounds = f", 95% interval {percent(row['b_low'])} to {percent(row['b_high'])}"
    return f"B {percent(row['b'])}{bounds}; {percent(row['accuracy'])} right, chance {percent(row['chance'])}"


def _grounds(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    for row in rows:
        text = _clause(row)
        if finite_or_none(row.get("over_rule")) is not None:
            known = {kind: finite_or_none(row[f"{kind}_b"]) for kind in ("constant", "surface")}
            better = max((share, kind) for kind, share in known.items() if share is not None)[1]
            text += (
                f'; B of the rule "{row[f"{better}_rule"]}" {percent(row[f"{better}_b"])}, difference '
                f"{signed_interval(row, 'over_rule', 'over_low', 'over_high')} points"
            )
        if finite_or_none(row.get("human")) is not None:
            text += f"; people {percent(row['human'])} right, {row['human_source']}"
        yield f"{readable_name(row['strategy'])}, {readable_name(row['benchmark'])}", f"{text}."


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study that has rows, by name. Raises ConfigError for a table that lacks a column."""
    found = task_rows(scores)
    listed = {"task_types": list(by_task(found, intervals)), "dimensions": list(by_dimension(found, intervals))}
    if intervals == "recommended":
        listed = {"behaviour": list(by_benchmark(found)), **listed, "prompting_effects": list(effects(found))}
    rules = baselines.rule_records(found.rows.filter("mind"), found.kinds, ("benchmark", "model"))
    listed[baselines.TABLE] = list(rules)
    frames = {name: pl.DataFrame(records, infer_schema_length=None).fill_nan(None) for name, records in listed.items()}
    if intervals == "recommended":
        frames["human_figures"] = human_figures(set(found.rows["benchmark"].unique()))
    frames["published_behaviour"] = published_table()
    if found.unusable:
        left = [{"benchmark": name, "left_out": count} for name, count in found.unusable.items()]
        frames["unusable"] = pl.DataFrame(left)
    return {name: frame for name, frame in frames.items() if frame.height}


def _benchmarks(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    rows = rows_of(tables, "behaviour", "model strategy benchmark b b_low b_high constant_b surface_b")
    data: list[Row] = [{**row, "other": _greater(row, "constant_b", "surface_b")} for row in rows]
    columns = ("benchmark", "strategy", "b", "b_low", "b_high")
    return small_multiples(figure, data, columns, Axis("B, corrected for chance", (0, 1)))


def _dimensions(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    rows = rows_of(tables, "dimensions", "model strategy benchmark dimension corrected corrected_low corrected_high")
    single = [row for row in rows if not is_mean(row["benchmark"])]
    several = len({row["benchmark"] for row in single}) > 1
    data: list[Row] = []
    for row in single:
        name = f"{row['dimension']}, {row['benchmark']}" if several else row["dimension"]
        rule, guess = _greater(row, "constant", "surface"), finite_or_none(row.get("chance"))
        other = None if rule is None or guess is None else finite_or_none(correct_for_chance(rule, guess))
        data.append({**row, "row": name, "other": other})
    columns = ("row", "strategy", "corrected", "corrected_low", "corrected_high")
    return small_multiples(figure, data, columns, Axis("share right, corrected for chance", (0, 1)))


def _strategies(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    names = "model benchmark task dimension treatment risk_difference rd_low rd_high"
    rows = rows_of(tables, "prompting_effects", names)
    told = [name for name in ("task", "dimension", "benchmark") if len({row[name] for row in rows}) > 1] or ["task"]
    data: list[Row] = [{**row, "row": ", ".join(readable_name(row[name]) for name in told)} for row in rows]
    axis = Axis("difference", (-1, 1), zero_line, first=1)
    only = {readable_name(row["treatment"]) for row in rows}  # with several, a legend names them
    figure = replace(figure, title=f"{figure.title}: {only.pop()}") if len(only) == 1 else figure
    return small_multiples(figure, data, ("row", "treatment", "risk_difference", "rd_low", "rd_high"), axis)


def _greater(row: Row, *names: str) -> float | None:
    return max((value for name in names if (value := finite_or_none(row.get(name))) is not None), default=None)


_MAKERS: Mapping[str, Draw] = {"behaviour": _benchmarks, "behaviour-dimensions": _dimensions}
_OF_STRATEGIES: Mapping[str, Draw] = {"behaviour-strategies": _strategies}


def figures(tables: Tables, context: Context) -> Sequence[Figure]:
    """The figures of B by benchmark, of shares by dimension and, where strategies can be compared, of their effects."""
    makers = {**_MAKERS, **(_OF_STRATEGIES if "prompting_effects" in tables else {})}
    return draw_figures(TEXTS.figure, makers, tables, context)


STUDY = Study(
    name="behaviour",
    tables=tables,
    notes=TEXTS.notes,
    warnings=warnings,
    summary=summary,
    figures=figures,
    verdicts=verdicts,
    labels={"task": "task", "dimension": "dimension"},
    across=True,
)
