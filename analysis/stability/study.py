"""The study of stability: does an answer survive changes that should not matter?

    tomserve stability --benchmark worlds --limit 200   # asks questions with their variants, and prints these tables
    tomserve analyze RUN --study stability              # the tables of a run that holds variants

Where a run holds variants these tables stand beside those of its benchmark's own study. Two ways to count, by
`--intervals`: *recommended* (the default) has S beside what habits alone would give and beside the noise floor, with
intervals over clusters; *published* counts as the framework's source does, and repeats its printed table.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import polars as pl

from tomserve.reporting.html import charts
from tomserve.studies import BAD, GOOD, OPEN, Card, Context, Excerpt, Figure, Layout, Panel, Study, Verdict
from tomserve.studies.presentation import (
    Mark,
    Row,
    Tables,
    cell,
    cell_of,
    finite_or_none,
    first_names,
    interval_cell,
    mark_of,
    percent,
    readable_name,
    several,
    signed_interval,
)
from tomserve.studies.texts import Texts
from tomserve.studies.variant_pairs import pair_variants
from tomserve.variants import AGAIN

from . import tables as stability_tables
from .tables import (
    COLUMNS,
    by_factor,
    by_kind,
    count_variants,
    flip_answers,
    flipped_questions,
    flips,
    stability_controls,
)

# From which S on stable and wrong is worth a warning; below which share of the originals a kind is mostly left out;
# above which expected agreement the answers are hardly more than a habit
HIGH, MOSTLY, HABIT_AGREEMENT = 0.8, 0.5, 0.9


def summary(tables: Tables) -> Iterator[Excerpt]:
    """What the terminal prints: stability, what it does to accuracy, the rules beside, and how variants were made."""
    frame = tables.get("stability", pl.DataFrame())
    if "kappa" in frame.columns:
        yield Excerpt("stability: S by kind of variant", _shares(frame), ("stability",), TEXTS["reading"])
        if "difference" in frame.columns:
            kinds = frame.filter(pl.col("difference_low").is_not_null())
            yield Excerpt("accuracy on variants", _accuracy(kinds), ("stability",), TEXTS["accuracy"])
    elif frame.height:
        shown = (interval_cell("s", "s_low", "s_high", "S [95%]"), cell_of("d", "D"))
        kept = frame.select("model", "strategy", *several(frame, "benchmark"), _kind(), "pairs", *shown)
        yield Excerpt("stability as the source counts", kept, ("stability",))
    if "stability_controls" in tables:
        yield Excerpt(
            "S of shortcut baselines", _rules(tables["stability_controls"]), ("stability_controls",), TEXTS["rules"]
        )
    if "published_stability" in tables:
        name = "published_stability"
        yield Excerpt("published: table 5 of the source", tables[name], (name,), TEXTS["paper"])


def _kind() -> pl.Expr:
    named = pl.when(pl.col("variant").str.starts_with("mean") | (pl.col("short") == "")).then(pl.col("variant"))
    return named.otherwise(pl.format("{} {}", "short", "variant")).alias("kind")


def _shares(frame: pl.DataFrame) -> pl.DataFrame:
    again = pl.col("variant") == AGAIN.name
    kappa = pl.when(again).then(pl.lit("")).otherwise(interval_cell("kappa", "kappa_low", "kappa_high", "k"))
    columns = [interval_cell("s", "s_low", "s_high", "S [95%]"), kappa.alias("kappa [95%]")]
    if "minus_floor" in frame.columns:
        gap = pl.when(again).then(pl.lit("")).otherwise(interval_cell("minus_floor", "minus_low", "minus_high", "k"))
        columns.append(gap.alias("S - T0 [95%]"))
    left = [pl.col("left_out").alias("left")] if "left_out" in frame.columns else []
    return frame.select("model", "strategy", *several(frame, "benchmark"), _kind(), "pairs", *columns, *left)


def _accuracy(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(
        *("model", "strategy", *several(frame, "benchmark")),
        _kind(),
        *(cell_of("accuracy_original", "before"), cell_of("accuracy_variant", "after")),
        interval_cell("difference", "difference_low", "difference_high", "difference [95%]"),
        *(cell_of("s_right", "S right"), cell_of("s_wrong", "S wrong")),
        *("gained", "lost"),
    )


def _rules(frame: pl.DataFrame) -> pl.DataFrame:
    """A row for each constant rule, and for the best other one by the mean over kinds, a column for each kind."""
    where = ["model", *several(frame, "benchmark")]
    named = frame.with_columns(pl.when(pl.col("short") == "").then("variant").otherwise("short").alias("column"))
    means = named.group_by([*where, "rule", "kind"], maintain_order=True).agg(mean=pl.col("s").mean())
    others = means.filter(pl.col("kind") != "constant").sort("mean", descending=True, maintain_order=True)
    best = others.unique(where, keep="first", maintain_order=True)
    chosen = pl.concat([means.filter(kind="constant"), best]).select(*where, "rule")
    shown = named.join(chosen, on=[*where, "rule"], how="semi").with_columns(cell_of("s", "cell"))
    wide = shown.pivot("column", index=[*where, "rule", "kind"], values="cell", maintain_order=True)
    kinds = sorted(wide.columns[len(where) + 2 :])
    return wide.sort(*where, pl.col("kind") != "constant", "rule").select(*where, "rule", "kind", *kinds)


def warnings(tables: Tables) -> Iterator[str]:
    """One line for each reason to doubt the numbers: few stories, kinds that are mostly left out, habits, and answers
    that are stable and wrong."""
    frame = tables.get("stability", pl.DataFrame())
    if "kappa" not in frame.columns:
        return
    for row in frame.iter_rows(named=True):
        if not row["variant"].startswith("mean"):
            yield from (f"{row['model']}, {row['strategy']}, {row['variant']}: {said}" for said in _doubts(row))
    yield from _stable_and_wrong(frame)
    if AGAIN.name not in set(frame["variant"]):
        yield "T0 was not asked (--variants again), so that no S can be compared with what batching alone changes"


def _doubts(row: Row) -> Iterator[str]:
    pairs, left, unpaired = (int(str(row.get(name) or 0)) for name in ("pairs", "left_out", "unpaired"))
    again = row["variant"] == AGAIN.name
    if pairs and row["few_clusters"]:
        few = f"{row['clusters']} stories or tasks" if row["clusters"] != 1 else "one story or task"
        yield f"only {few}; the interval is approximate"
    if not again and pairs + unpaired < MOSTLY * (pairs + unpaired + left):
        yield f"{left} of {pairs + unpaired + left} originals have no such variant, so that S is that of the others"
    if unpaired:
        yield f"{unpaired} variants were answered whose originals were not; they are not counted"
    s0 = finite_or_none(row.get("s0"))
    if s0 is not None and s0 > HABIT_AGREEMENT:
        yield (
            f"nearly all answers name one place or unknown (S0 {percent(s0)}), so that S shows a habit rather than "
            "stability"
        )


def _stable_and_wrong(frame: pl.DataFrame) -> Iterator[str]:
    """A line for each model and strategy whose answers mostly survive although they are hardly ever right."""
    if "above_constant" not in frame.columns:  # a table of another tool, which knows no rules
        return
    stable = frame.filter(
        pl.col("variant") != AGAIN.name,
        ~pl.col("variant").str.starts_with("mean"),
        pl.col("s") >= HIGH,
        pl.col("s0").fill_null(0) <= HABIT_AGREEMENT,
        ~pl.col("above_constant"),
    )
    for (model, strategy), part in stable.group_by(["model", "strategy"], maintain_order=True):
        first = part.row(0, named=True)
        kinds, least = ", ".join(part["variant"]), percent(part["s"].min())
        right, constant = (percent(first[name]) for name in ("accuracy_original", "constant_accuracy"))
        yield (
            f"{model}, {strategy}: stable and wrong: S is {least} or more with {kinds}, but the originals are not "
            f"clearly more often right ({right}) than a rule that always gives one sort of answer ({constant})"
        )


# A kind is survived where the interval excludes that so large a share of answers or more is lost beyond noise
MARGIN = 0.1
TEXTS = Texts(__file__, margin=f"{100 * MARGIN:.0f}")

KEPT, LOST, HABIT, UNDECIDED = "kept", "lost", "habit", "undecided"
# The outcomes in the words of the report, in the order in which it names them
_OUTCOMES = {LOST: "does not survive", HABIT: "may be a habit", UNDECIDED: "not shown", KEPT: "survives"}


def verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """For each model whether its answers survive the variants."""
    frame = tables.get("stability", pl.DataFrame())
    if "kappa" not in frame.columns:
        return []
    models = frame["model"].unique(maintain_order=True)
    return [_verdict(str(model), frame.filter(model=model)) for model in models]


def outcome(row: Row) -> str:
    """What a row of the table says of its kind: KEPT, LOST, HABIT (agreement may be no more than habits would give) or
    UNDECIDED. Where T0 was not asked, S is compared with 1, and nothing is called lost, since noise is not known."""
    measured = finite_or_none(row.get("minus_floor")) is not None
    low, high = (
        finite_or_none(row.get(name)) for name in (("minus_low", "minus_high") if measured else ("s_low", "s_high"))
    )
    if low is None or high is None:
        return UNDECIDED
    if not measured:
        low, high = low - 1, high - 1
    if measured and high < 0 and low < -MARGIN:
        return LOST
    kappa = finite_or_none(row.get("kappa_low"))
    if kappa is None or kappa <= 0:
        return HABIT
    return KEPT if low >= -MARGIN else UNDECIDED


def _verdict(model: str, frame: pl.DataFrame) -> Verdict:
    lines: list[str] = []
    grounds: list[tuple[str, str]] = []
    found: dict[tuple[str, str], str] = {}
    marks: list[Mark] = []
    named = several(frame, "benchmark")
    for (strategy, benchmark), part in frame.group_by(["strategy", "benchmark"], maintain_order=True):
        who = readable_name(strategy) + (f", {readable_name(benchmark)}" if named else "")
        rows = part.to_dicts()
        kinds = [row for row in rows if row["pairs"] and row["variant"] != AGAIN.name and not _is_mean(row)]
        for row in kinds:
            found[who, _name(row)] = outcome(row)
        grounds += _grounds(who, kinds)
        again = [row for row in rows if row["variant"] == AGAIN.name]
        means = [row for row in rows if _is_mean(row)]
        lines.append(f"{who}: {_lead(again, means or kinds)}")
        for row in means or kinds:
            marks += mark_of(f"{who}, {row['variant']}", row, "s", ("s_low", "s_high"))
    verdict, tone = _whole(found)
    card = Card("Is it robust to irrelevant changes?", verdict, tone, tuple(grounds), TEXTS["survived"])
    return Verdict(model, tuple(lines), (card,), tuple(marks))


def _is_mean(row: Row) -> bool:
    return str(row["variant"]).startswith("mean")


def _name(row: Row) -> str:
    return readable_name(" ".join(filter(None, (str(row["short"] or ""), str(row["variant"])))))


def _lead(again: Sequence[Row], rows: Sequence[Row]) -> str:
    """S of the means (of the kinds where there are none), and of T0."""
    said = ", ".join(f"{row['variant']} {percent(row['s'])}" for row in rows) or "no variant was answered"
    if again:
        return f"answers that stayed the same: {said}; the same prompt again {percent(again[0]['s'])}"
    return f"answers that stayed the same: {said}; the same prompt was not asked again"


def _grounds(who: str, kinds: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """For each outcome the kinds that have it, with what it rests on."""
    for what, words in _OUTCOMES.items():
        told = [f"{_name(row)} {_describe_kind(row)}" for row in kinds if outcome(row) == what]
        if told:
            yield f"{who}, {words}", f"{'; '.join(told)}."


def _describe_kind(row: Row) -> str:
    """S, and S minus that of T0 with its interval, or else that of S; then kappa, with its interval if it decides."""
    text = percent(row["s"])
    if finite_or_none(row.get("minus_floor")) is not None:
        text += f", {signed_interval(row, 'minus_floor', 'minus_low', 'minus_high')} points"
    elif finite_or_none(row["s_low"]) is not None:
        text += f" [{percent(row['s_low'])} to {percent(row['s_high'])}]"
    kappa, least, most = (finite_or_none(row.get(name)) for name in ("kappa", "kappa_low", "kappa_high"))
    if kappa is None:
        return f"{text}, kappa undefined: all answers are one"
    bounds = f" [{cell(least)}, {cell(most)}]" if outcome(row) == HABIT else ""
    return f"{text}, kappa {cell(kappa)}{bounds}"


def _whole(found: dict[tuple[str, str], str]) -> tuple[str, str]:
    """The verdict of all kinds and strategies, and its tone."""
    outcomes = set(found.values())
    lost, habits, undecided = (
        list(dict.fromkeys(kind for (_, kind), said in found.items() if said == what))
        for what in (LOST, HABIT, UNDECIDED)
    )
    if not found:
        return "No variants were answered", OPEN
    if lost:
        everywhere = outcomes == {LOST}
        return f"No{', for no kind of change' if everywhere else f': {first_names(lost)}'}", BAD
    if habits:
        return f"Not distinguishable from a response habit ({first_names(habits)})", OPEN
    if undecided:
        return f"Not shown for {first_names(undecided)}" + ("; otherwise yes" if KEPT in outcomes else ""), OPEN
    return "Yes, for every kind of change asked", GOOD


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study that has rows, by name. Raises ConfigError for a table that lacks a column."""
    found = pair_variants(scores)
    if intervals == "published":
        listed = {"stability": list(stability_tables.stability_as_published(found))}
        frames = {"variants_made": count_variants(found), "published_stability": stability_tables.published_stability()}
    else:
        listed = {"stability": list(by_kind(found)), "stability_by": list(by_factor(found))}
        listed |= {"flips": list(flips(found)), "stability_controls": list(stability_controls(found))}
        frames = {
            **{"flip_answers": flip_answers(found), "flipped_questions": flipped_questions(found)},
            "variants_made": count_variants(found),
        }
    frames |= {name: pl.DataFrame(rows, infer_schema_length=None).fill_nan(None) for name, rows in listed.items()}
    whole = frames["stability"]  # the rows of T0 and of means lack some of the columns
    frames["stability"] = whole.select(name for name in COLUMNS if name in whole.columns)
    return {name: frames[name] for name in TEXTS.notes() if name in frames and frames[name].height}


def _drawn(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    """S and kappa by kind of variant, with two pictures for each model."""
    needed = "model strategy benchmark variant short s s_low s_high kappa kappa_low kappa_high"
    rows = charts.rows_of(tables, "stability", needed)
    series = [readable_name(name) for name in charts.values_of(rows, "strategy")]
    panels: list[Panel] = []
    for title, own in charts.rows_by_arm(rows):
        floors = [row for row in own if row["variant"] == AGAIN.name]
        kinds = [row for row in own if row["variant"] != AGAIN.name and not _is_mean(row)]
        panels += _panels(kinds, floors, (figure.title, title), series)
    return replace(figure, panels=tuple(panels))


def _panels(kinds: Sequence[Row], floors: Sequence[Row], titles: tuple[str, str], series: Sequence[str]) -> list[Panel]:
    """The picture of S with the bands of T0, and that of kappa. titles: the figure's, and that of whose answers these
    are."""
    found: list[Panel] = []
    for value, name, domain in (("s", "S, the share that survives", (0.0, 1.0)), ("kappa", "kappa", (-0.5, 1.0))):
        drawn = (charts.point_of(row, _name(row), readable_name(row["strategy"]), value) for row in kinds)
        if not (marks := [mark for mark in drawn if mark is not None]):
            continue
        names = list(dict.fromkeys(_name(row) for row in kinds))
        lines = [charts.Line(0, "")] if value == "kappa" else []
        bands = [] if value == "kappa" else _bands(floors)
        chart = charts.points(marks, names, series, domain, lines, name, width=300, bands=bands)
        label = f"{': '.join(titles)}, {name}. " + "; ".join(mark.in_words() for mark in marks) + "."
        if value == "s":
            label += "".join(f" {_in_words(row)}." for row in floors)
        found.append(Panel(f"{titles[1]}: {'S' if value == 's' else 'kappa'}", charts.Picture(chart, label)))
    return found


def _in_words(row: Row) -> str:
    return f"T0, {readable_name(row['strategy'])}: {row['s']:.2f} [{row['s_low']:.2f}, {row['s_high']:.2f}]"


def _bands(floors: Sequence[Row]) -> list[charts.Band]:
    """An upright band for T0 of each strategy, with a line at its estimate."""
    found = []
    for row in floors:
        low, high, at = (finite_or_none(row[name]) for name in ("s_low", "s_high", "s"))
        if low is not None and high is not None and at is not None:
            found.append(charts.Band(low, high, at, readable_name(row["strategy"]), _in_words(row)))
    return found


STUDY = Study(
    name="stability",
    tables=tables,
    notes=TEXTS.notes,
    warnings=warnings,
    summary=summary,
    layouts={"stability": Layout("s", ("s_low", "s_high"), rows="variant", by="benchmark")},
    figures=partial(charts.draw_figures, TEXTS.figure, {"stability": _drawn}),
    verdicts=verdicts,
    variants=True,
)
