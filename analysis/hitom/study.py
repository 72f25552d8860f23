"""The Hi-ToM study (arXiv 2310.16755): from a score table to the paper's tables, and to others that explain them.

    tomserve analyze hitom-mymodel --study hitom --out tables --format csv
    tomserve analyze theirs.parquet --study hitom --intervals published

Two ways to count, by `--intervals`. *recommended* (the default): shares over all questions with intervals by story,
strategies and twins compared on the same questions; a failure is a wrong answer. *published*: means over the cells of
length and order without intervals, as in the paper's Table 5. The notes say what each table means.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from tomserve.reporting.html import charts
from tomserve.studies import (
    BAD,
    GOOD,
    OPEN,
    Card,
    Context,
    Excerpt,
    Figure,
    ItemOutline,
    Layout,
    Panel,
    Study,
    Verdict,
    baselines,
)
from tomserve.studies.breakdowns import Rows
from tomserve.studies.contrasts import Record, pair_rows
from tomserve.studies.missing_data import with_unread
from tomserve.studies.noise import noise_columns
from tomserve.studies.phrases import PHRASES
from tomserve.studies.presentation import (
    Chance,
    Mark,
    Row,
    Tables,
    cell_of,
    finite_or_none,
    interval,
    interval_cell,
    mark_of,
    mean_of,
    percent,
    readable_name,
    signed_points,
    worst_case,
)
from tomserve.studies.study import (
    EFFECT,
    FileCounting,
    accuracy_lines,
    accuracy_marks,
    effect_cards,
    has_rows,
    tables_by_model,
)
from tomserve.studies.texts import Texts

from .tables import (
    ALL,
    CHAIN_COLUMNS,
    ERROR_COLUMNS,
    OVERALL,
    REQUIRED,
    RULES,
    arms,
    by,
    by_deception,
    chains,
    control_of,
    effect_of,
    errors,
    frame,
    joint_accuracy,
    place_in,
    share_of,
    study_rows,
    twins,
)

TEXTS = Texts(__file__)


def warnings(tables: Tables) -> Iterator[str]:
    """One line for each reason to doubt the numbers: right answers known to be wrong, several sets of right answers,
    and strategies that were asked different items or failed on different ones."""
    golds = tables["scorer"]["gold"].drop_nulls().unique().sort().to_list()
    if "released" in golds:
        yield "gold released: the file's own labels, stale in the VP half; see tomserve dataset audit hitom"
    if len(golds) > 1:
        yield f"answers were compared with several sets of labels: {', '.join(golds)}"
    overall = tables["accuracy"].filter(deception=OVERALL)
    asked = {(row["model"], row["strategy"]): row["total"] for row in overall.iter_rows(named=True)}
    effects = tables.get("prompting_effects", pl.DataFrame())
    if "prompting_effects" in tables:
        for model, strategy, control in (
            overall.filter(pl.col("control").is_not_null() & pl.col("minus_vanilla").is_null())
            .select("model", "strategy", "control")
            .iter_rows()
        ):
            yield f"{model}: {strategy} and {control} were asked no item in common, and are not compared"
    for row in effects.iter_rows(named=True):
        if row["deception"] == OVERALL:
            model, pairs = row["model"], f"{row['treatment']} and {row['control']}"
            most = max(asked.get((model, name), 0) for name in (row["treatment"], row["control"]))
            if row["n"] < most:
                yield f"{model}: {pairs} were asked different items: {row['n']} of {most} compare"
            if row["p_failure"] is not None and row["p_failure"] <= 0.05:
                failed = f"{percent(row['failed_treated'])} against {percent(row['failed_control'])}"
                yield (
                    f"{model}: {pairs} did not fail equally often ({failed}, p {row['p_failure']:.3f}), so that their "
                    f"difference, {signed_points(row['risk_difference'])} points, may be due to failures; "
                    f"{worst_case(row)}"
                )
    yield from baselines.missing_warnings(tables)


def summary(tables: Tables) -> list[Excerpt]:
    """The tables that the terminal prints: accuracy by deception (the paper's Table 5), effects of prompting, joint
    accuracy by order, the primary comparison of twins, and wrong answers with a single explanation."""
    right = pl.format("{}/{} {}", "correct", "total", interval_cell("accuracy", "ci_low", "ci_high"))
    excerpts = []
    for (model,), part in tables["accuracy"].group_by(["model"], maintain_order=True):
        wide = part.with_columns(right.alias("cell")).pivot("strategy", index="deception", values="cell")
        wide = with_unread(baselines.with_best_rule(wide, part, "deception"), part, "deception")
        reading = TEXTS["accuracy"] + (f" {PHRASES['about_unread']}" if "unread" in wide.columns else "")
        excerpts.append(Excerpt(f"{model}: accuracy by deception", wide, ("accuracy",), reading))
    excerpts += baselines.excerpts(tables["accuracy"].filter(deception=OVERALL), ("strategy",))
    if "prompting_effects" in tables and tables["prompting_effects"].height:
        effect = interval_cell("risk_difference", "rd_low", "rd_high", "difference [95%]")
        frame = tables["prompting_effects"]
        shares = (cell_of("share_treated", "strategy's"), cell_of("share_control", "control's"))
        named, p = ("model", "treatment", "control", "deception"), pl.col("p").round(3)
        effects = frame.select(*named, *shares, effect, p, *noise_columns(frame))
        title = "prompting effects: the strategy's share right minus the control's, on the same questions"
        excerpts.append(Excerpt(title, effects, ("prompting_effects",), TEXTS["prompting_effects"]))
    joint = tables["joint_accuracy"].filter(deception=OVERALL, length=ALL)
    columns = ("model", "strategy", "order", "stories", "accuracy", "joint", "product", "after_right")
    title = "joint accuracy: this and all lower asked orders right; product: what it would be were orders independent"
    excerpts.append(Excerpt(title, joint.select(columns), ("joint_accuracy",), TEXTS["joint_accuracy"]))
    if tables["twins"].height:
        primary = tables["twins"].filter(treatment="deceptive", control="filler", order=ALL)
        effect = interval_cell("risk_difference", "rd_low", "rd_high", "difference [95%]")
        title = "twins: stories with lines that lie, against stories with as many lines that say nothing"
        shares, p = (cell_of("share_treated", "deceptive"), cell_of("share_control", "filler")), pl.col("p").round(3)
        frame = primary.select("model", "strategy", "tell_relevant", *shares, effect, p, *noise_columns(primary))
        excerpts.append(Excerpt(title, frame, ("twins",), TEXTS["twins"]))
    alone = tables["errors"].filter(pl.col("alone") > 0, order=ALL) if tables["errors"].height else tables["errors"]
    if tables["errors"].height:
        counted = ("model", "strategy", "explanation", "alone", "wrong", "share_alone", "expected_alone")
        title = "wrong answers with one explanation alone; expected_alone: the share a blind wrong guess would have"
        excerpts.append(Excerpt(title, alone.select(counted), ("errors",), TEXTS["errors"]))
    return excerpts


def verdicts(tables: Tables, context: Context) -> list[Verdict]:
    """A verdict for each model of the table `accuracy`. tables: by name. context: what a guesser scores."""
    found = []
    for model, own in tables_by_model(tables):
        effects = own.get("prompting_effects", pl.DataFrame())
        helps = effect_cards(effects) if has_rows(own, "prompting_effects", EFFECT) else None
        cards = tuple(card for card in (_nests(own), helps) if card is not None)
        rules = own.get(baselines.TABLE)
        if rules is not None:
            rules = rules.filter(pl.col("kind") != "guess", deception=OVERALL, order=ALL)
        lines = accuracy_lines(own["accuracy"], context.chance.get("all"), rules)
        found.append(Verdict(model, lines, cards, accuracy_marks(own["accuracy"])))
    return found


_NESTS = {"yes": ("Better than guessing", GOOD), "no": ("No: it copies", BAD), "open": ("Not shown", OPEN)}


def _nests(tables: Tables) -> Card | None:
    """Whether nested questions are answered also where copying a first-order answer fails."""
    if not has_rows(tables, "lower_order_match", "strategy rule order matches correct total accuracy"):
        return None
    grounds, outcomes = [], set()
    marks: list[Mark] = []
    rows = tables["lower_order_match"].filter(rule="first_order", order=ALL, matches=False)
    for row in rows.iter_rows(named=True):
        low, high, guess = (finite_or_none(row.get(name)) for name in ("ci_low", "ci_high", "guess"))
        if guess is not None and low is not None and high is not None:
            outcomes.add("yes" if low > guess else "no" if high < guess else "open")
        text = f"{row['correct']:,} of {row['total']:,} right ({percent(row['accuracy'])}{interval(row)})"
        guessing = "" if guess is None else f"; a guess among the containers mentioned gets {percent(guess)}"
        grounds.append((f"{readable_name(row['strategy'])}, the first-order answer is wrong", f"{text}{guessing}."))
        marks += mark_of(row["strategy"], row, "accuracy", _INTERVAL, "guess")
    if not grounds:
        return None
    grounds += _all_orders(tables)
    verdict, tone = _NESTS.get(outcomes.pop(), ("Not shown", OPEN)) if len(outcomes) == 1 else ("Undecided", OPEN)
    return Card("Does it nest beliefs?", verdict, tone, tuple(grounds), TEXTS["nests"], tuple(marks))


def _all_orders(tables: Tables) -> Iterator[tuple[str, str]]:
    """For each strategy how many stories have all asked orders right, up to the highest order that can be told."""
    if not has_rows(tables, "joint_accuracy", "strategy deception length order joint stories product"):
        return
    joint = tables["joint_accuracy"].filter(deception=OVERALL, length=ALL).drop_nulls("joint")
    for row in joint.unique("strategy", keep="last", maintain_order=True).iter_rows(named=True):
        text = f"{percent(row['joint'])} of {row['stories']:,} stories; it would be {percent(row['product'])} if the"
        text += " orders were independent."
        yield f"{readable_name(row['strategy'])}, all asked orders up to {row['order']} right", text


LAYOUTS = {
    "accuracy": Layout("accuracy", ("ci_low", "ci_high"), "deception", "model"),
    "prompting_effects": Layout(
        "risk_difference", ("rd_low", "rd_high"), "deception", "model", columns=("model", "treatment")
    ),
}
SHARE = (
    "correct total accuracy ci_low ci_high failed unread accuracy_dropped accuracy_high stories few_stories estimate "
    "method"
)
EFFECT_COLUMNS = (
    "risk_difference rd_low rd_high share_treated share_control p p_sign_flip p_smallest p_failure failed_treated "
    "failed_control worst_low worst_high relative_risk rr_low rr_high noise noise_high minimum_detectable_effect "
    "units_needed sd units stories few_stories gained lost both neither mcnemar_exact mcnemar_mid_p tango_low "
    "tango_high n target method zeros"
)
# The name of the guesser in the table of baselines, whose `accuracy` is what he is expected to get right
GUESS = "a guess among the containers mentioned"

COLUMNS = {
    "accuracy": f"model strategy deception {SHARE} cells control minus_vanilla minus_low minus_high noise noise_high "
    f"{baselines.RULE_COLUMNS}",
    "prompting_effects": f"model deception treatment control {EFFECT_COLUMNS}",
    "joint_accuracy": "model strategy deception length order stories accuracy joint joint_low joint_high product "
    "after_right after_right_n after_wrong after_wrong_n incomplete few_stories method",
    "deception_count": f"model strategy counted order false_tells {SHARE}",
    "answer_position": f"model strategy counted position {SHARE} chosen chosen_share answer_share",
    "lower_order_match": f"model strategy rule order matches {SHARE} guess",
    "twins": f"model strategy treatment control tell_relevant order accuracy control_accuracy {EFFECT_COLUMNS}",
    baselines.TABLE: "model deception order rule kind right total accuracy said containers_mentioned",
    "errors": ERROR_COLUMNS,
    "chains": CHAIN_COLUMNS,
    "scorer": "model strategy gold status parse rows correct share",
}


def count_tables(files: Rows, kinds: baselines.RuleKinds, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study by name, from the rows of every file, of which one at a time is read with all its
    columns."""
    rows = pl.concat(files()).sort("model", "strategy", "item")
    effects = [] if intervals == "published" else list(_prompting(rows))
    made = {
        "accuracy": _accuracy(rows, effects, intervals, kinds),
        "prompting_effects": effects,
        "joint_accuracy": joint_accuracy(rows, intervals),
        "deception_count": _deception_count(rows, intervals),
        "answer_position": _positions(rows, intervals),
        "lower_order_match": _matches(rows, intervals),
        "twins": twins(rows),
        baselines.TABLE: list(_baselines(rows, kinds)),
        "errors": errors(rows),
        "chains": chains(rows, intervals),
        "scorer": _scorer(rows),
    }
    if intervals == "published":
        del made["prompting_effects"]
    return {name: frame(records, COLUMNS[name]) for name, records in made.items()}


def _prompting(rows: pl.DataFrame) -> Iterator[Record]:
    """Every strategy against its control, where one was asked, on the same items."""
    for (model,), part in rows.group_by(["model"], maintain_order=True):
        control = control_of(part["strategy"].unique())
        for arm, treated in arms(part):
            if control is None or arm["strategy"] == control:
                continue
            for name, pairs in by_deception(pair_rows(treated, part.filter(strategy=control))):
                key = {"model": model, "deception": name, "treatment": arm["strategy"], "control": control}
                yield {**key, **effect_of(pairs)}


def _accuracy(
    rows: pl.DataFrame, effects: list[Record], intervals: str, kinds: baselines.RuleKinds
) -> Iterator[Record]:
    paired = {(r["model"], r["treatment"], r["deception"]): r for r in effects}
    controls: dict[tuple[str, str], float] = {}
    for arm, part in arms(rows):
        model, strategy = arm.values()
        control = control_of(rows.filter(model=model)["strategy"].unique())
        means: dict[str, float] = {}
        records = []
        for name, some in by_deception(part):
            cells = some.group_by("length", "order", "deception").agg(pl.col("correct").mean())
            record = {**arm, "deception": name, **share_of(some, intervals)}
            if intervals != "published":
                record |= baselines.rule_columns(some, kinds)
            records.append({**record, "cells": cells.height, "control": control if strategy != control else None})
            means[name] = cells.sort("deception", "length", "order").select(pl.col("correct").mean()).item() or 0.0
        if intervals == "published":
            apart = [value for name, value in means.items() if name != OVERALL]
            means[OVERALL] = sum(apart) / len(apart)
        for record in records:
            name = record["deception"]
            if intervals == "published":
                record["accuracy"] = means[name]
                if strategy == control:
                    controls[model, name] = means[name]
                elif (model, name) in controls:
                    record["minus_vanilla"] = means[name] - controls[model, name]
            elif (effect := paired.get((model, strategy, name))) is not None:
                record["minus_vanilla"] = effect["risk_difference"]
                record |= {"minus_low": effect["rd_low"], "minus_high": effect["rd_high"]}
                record |= {name: effect[name] for name in ("noise", "noise_high")}
            yield record


def _deception_count(rows: pl.DataFrame, intervals: str) -> Iterator[Record]:
    for arm, part in arms(rows):
        for column, counted in (("tells_false", "in the story"), ("tells_false_asked", "about the object")):
            for order, of_order in by(part, "order"):
                for count in of_order[column].drop_nulls().unique().sort():
                    found = share_of(of_order.filter(pl.col(column) == count), intervals)
                    yield {**arm, "counted": counted, "order": order, "false_tells": count, **found}


def _positions(rows: pl.DataFrame, intervals: str) -> Iterator[Record]:
    for arm, part in arms(rows):
        for counted, column in (("choices", "places_offered"), ("mentions", "places_mentioned")):
            known = part.filter(pl.col(column).is_not_null() & pl.col("gold_answer").is_not_null())
            listed = known.select(column, "gold_answer", "answer").rows()
            known = known.with_columns(
                right=pl.Series([place_in(places, gold) for places, gold, _ in listed], dtype=pl.Int64),
                given=pl.Series([place_in(places, answer) for places, _, answer in listed], dtype=pl.Int64),
            )
            given = int(known["given"].is_not_null().sum())
            last = max((len(places) for places, _, _ in listed), default=0)
            for position in range(1, last + 1):
                chosen = int((known["given"] == position).sum())
                here = known.filter(right=position)
                shares = {"chosen_share": chosen / given if given else None, "answer_share": here.height / known.height}
                key = {**arm, "counted": counted, "position": position}
                yield {**key, **share_of(here, intervals), "chosen": chosen, **shares}


def _matches(rows: pl.DataFrame, intervals: str) -> Iterator[Record]:
    lower = pl.col("gold_answer").is_in(pl.col("places_lower_order").fill_null([]))
    rules = rows.with_columns(
        equals_lower_order=pl.when(pl.col("places_offered").is_not_null() & pl.col("gold_answer").is_not_null()).then(
            lower
        )
    )
    for arm, part in arms(rules):
        for rule in RULES:
            least = 2 if rule in ("first_order", "lower_order") else 1  # below, the rule is the question itself
            some = part.filter(pl.col("order") >= least)
            for order, of_order in by(some, "order"):
                for matches in (True, False):
                    here = of_order.filter(pl.col(f"equals_{rule}") == matches)
                    if here.height:
                        key = {**arm, "rule": rule, "order": order, "matches": matches}
                        guess = (1 / here["n_containers_mentioned"]).mean()
                        yield {**key, **share_of(here, intervals), "guess": guess}


def _baselines(rows: pl.DataFrame, kinds: baselines.RuleKinds) -> Iterator[Record]:
    """Every rule by deception and order, the best first, and last a guess among the containers that the story mentions,
    each question of a model counted once."""
    questions = rows.unique(["model", "item"], keep="first", maintain_order=True)
    for deception, part in by_deception(questions):
        for order, some in by(part, "order"):
            key: dict[str, Any] = {"deception": deception, "order": order}
            for record in baselines.rule_records(some, kinds, ("model",)):
                yield {**key, **record}
            for (model,), own in some.group_by(["model"], maintain_order=True):
                mentioned = own["n_containers_mentioned"]
                guess = {"rule": GUESS, "kind": "guess", "total": own.height, "said": mentioned.count()}
                chance = {"accuracy": (1 / mentioned).mean(), "containers_mentioned": mentioned.mean()}
                yield {**key, "model": model, **guess, **chance}


def _scorer(rows: pl.DataFrame) -> Iterator[Record]:
    keys = ["gold", "status", "parse"]
    for arm, part in arms(rows):
        counted = part.group_by(keys).agg(rows=pl.len().cast(pl.Int64), correct=pl.col("correct").sum().cast(pl.Int64))
        for record in counted.sort(*keys).iter_rows(named=True):
            yield {**arm, **record, "share": record["rows"] / part.height}


def chance(items: Iterable[ItemOutline]) -> Chance:
    """What a guesser scores who picks a container that the story mentions: the mean of 1 / their number. Many of the
    choices stand nowhere in the story, so that nobody who has read it would guess them."""
    told = ((item.factors.get("n_containers_mentioned"), item.choices) for item in items)
    share = mean_of([1 / (known if isinstance(known, int) and known > 0 else choices) for known, choices in told])
    return Chance({} if share is None else {"all": share}, "mean over questions of 1 / number of containers mentioned")


_MEASURES = {"accuracy": "right at this order", "joint": "right at this and all lower asked orders"}
_RULES = {
    "first_order": "first-order answer",
    "lower_order": "a lower order's answer",
    "reality": "reality",
    "joint_witness": "last seen together",
}
_RELEVANCE = {"all": "all questions", "true": "tells matter"}


def _by_order_and_length(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    """A panel for each model, kind of story and measure: a heat map a strategy, chapters down, orders across."""
    keys = "model strategy deception length order"
    rows = charts.rows_of(tables, "joint_accuracy", f"{keys} accuracy joint", keys)
    models = charts.short_names(charts.values_of(rows, "model"))
    by_kind = [row for row in rows if row["deception"] != OVERALL]
    panels: list[Panel] = []
    for model, short in models.items():
        for kind in charts.values_of(by_kind or rows, "deception"):
            part = [row for row in rows if row["model"] == model and row["deception"] == kind]
            stories = "all stories" if kind == OVERALL else f"{kind} deception"
            for measure, words in _MEASURES.items():
                title = ", ".join((*([short] if len(models) > 1 else []), stories, words))
                if any(finite_or_none(row[measure]) is not None for row in part):
                    at = chance.get("all") if measure == "accuracy" else None
                    panels.append(Panel(title, _maps(part, measure, title, at)))
    return replace(figure, panels=tuple(panels))


def _maps(rows: Sequence[Row], measure: str, title: str, chance: float | None) -> charts.Picture:
    lengths = sorted({_length(row) for row in rows}, key=lambda name: (name.startswith("all"), len(name), name))
    orders = sorted({str(row["order"]) for row in rows}, key=lambda name: (len(name), name))
    maps: list[charts.HeatMaps] = []
    all_cells: list[charts.Cell] = []
    for strategy in charts.values_of(rows, "strategy"):
        cells = []
        for row in rows:
            if row["strategy"] == strategy and (value := finite_or_none(row[measure])) is not None:
                down, across = _length(row), str(row["order"])
                cells.append(
                    charts.Cell(down, across, value, f"{readable_name(strategy)}, {down}, order {across}: {value:.2f}")
                )
        all_cells += cells
        if cells:
            maps.append(charts.heat_map(cells, lengths, orders, readable_name(strategy), chance=chance, names=not maps))
    label = f"Heat map, {title}. " + "; ".join(cell.words for cell in all_cells) + "."
    return charts.Picture(charts.side_by_side(maps), label)


def _length(row: Row) -> str:
    length = str(row["length"])
    return "all lengths" if length == ALL else f"{length} chapter{'' if length == '1' else 's'}"


def _kind(row: Row) -> Row:
    """The row with its kind of story said in full: with deception."""
    return {**row, "deception": f"{row['deception']} deception"} if row["deception"] in ("with", "without") else row


def _accuracy_figure(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    frame = tables.get("accuracy", pl.DataFrame())
    rows = charts.rows_of(tables, "accuracy", "model strategy deception accuracy", "model deception strategy")
    figure, rows = baselines.mark_best_rule(figure, rows)
    estimated = "estimate" in frame.columns and frame["estimate"].is_not_null().any()
    value = "estimate" if estimated else "accuracy"  # what the interval is about
    axis = charts.Axis("share right", (0, 1), lambda part: charts.chance_lines(chance, part))
    return charts.small_multiples(
        figure, [_kind(row) for row in rows], ("deception", "strategy", value, *_INTERVAL), axis
    )


_INTERVAL = ("ci_low", "ci_high")


def _twins_figure(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    """The effect of lines that lie or tell the truth on matched twins, all questions and those where tells matter."""
    needed = "model strategy treatment control tell_relevant order risk_difference rd_low rd_high"
    if tables["twins"].is_empty():
        return replace(figure, missing="Not drawn: these stories have no matched twins.")
    data: list[Row] = []
    for row in charts.rows_of(tables, "twins", needed):
        if row["order"] == ALL and (relevant := _RELEVANCE.get(str(row["tell_relevant"]))):
            data.append({**row, "contrast": f"{row['treatment']} − {row['control']}, {relevant}"})
    columns = ("contrast", "strategy", "risk_difference", "rd_low", "rd_high")
    return charts.small_multiples(
        figure, data, columns, charts.Axis("difference from the twin", (-1, 1), charts.zero_line)
    )


def _prompting_figure(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    keys = "model deception treatment"
    rows = charts.rows_of(tables, "prompting_effects", f"{keys} risk_difference rd_low rd_high", keys)
    columns = ("deception", "treatment", "risk_difference", "rd_low", "rd_high")
    axis = charts.Axis("difference from vanilla", (-1, 1), charts.zero_line, first=1)
    return charts.small_multiples(figure, [_kind(row) for row in rows], columns, axis)


def _by_rule(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    """Accuracy where the answer is that of a rule which nests nothing, and where it is not."""
    data: list[Row] = []
    for row in charts.rows_of(tables, "lower_order_match", "model strategy rule order matches accuracy"):
        if row["order"] == ALL:
            cell = f"{_RULES.get(str(row['rule']), row['rule'])}: {'yes' if row['matches'] else 'no'}"
            value = row["accuracy"] if row.get("estimate") is None else row["estimate"]  # what the interval is about
            data.append({**row, "cell": cell, "value": value})
    axis = charts.Axis("share right", (0, 1), lambda part: charts.chance_lines(chance, "all"))
    return charts.small_multiples(figure, data, ("cell", "strategy", "value", *_INTERVAL), axis)


_MAKERS: Mapping[str, charts.Draw] = {
    "heat": _by_order_and_length,
    "accuracy": _accuracy_figure,
    "perturbing": _twins_figure,
    "prompting": _prompting_figure,
    "controls": _by_rule,
}


def figures(tables: Tables, context: Context) -> list[Figure]:
    """Every figure in the order of the report, that of strategies where some can be compared."""
    kept = {name: make for name, make in _MAKERS.items() if name != "prompting" or "prompting_effects" in tables}
    return charts.draw_figures(TEXTS.figure, kept, tables, context)


COUNTED = FileCounting(study_rows, count_tables)

STUDY = Study(
    name="hitom",
    tables=COUNTED.of_one,
    counted=COUNTED,
    required=REQUIRED,
    intervals=("recommended", "published"),
    notes=TEXTS.notes,
    warnings=warnings,
    summary=summary,
    layouts=LAYOUTS,
    figures=figures,
    verdicts=verdicts,
    chance=chance,
    strata=("order",),
    labels={
        "order": "Order",
        "length": "Chapters",
        "deception": "Deception",
        "tell_relevant": "Tells matter",
        "equals_joint_witness": "Joint witness right",
        "twin_kind": "Twin",
    },
)
