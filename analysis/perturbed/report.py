"""Verdicts and figures of the perturbation study for the report: is a model robust, where does it break, does
reasoning help, and is it honest?

A verdict never says more than its table: what is undefined, or was not asked, is said to be so.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import polars as pl

from tomserve.content.text import count_noun
from tomserve.reporting.html import charts
from tomserve.studies import BAD, GOOD, OPEN, Card, Context, Figure, Panel, Verdict, baselines
from tomserve.studies.contrasts import NOT_SHOWN, UNDECIDED, UNLESS_FAILURES, WORTH
from tomserve.studies.presentation import (
    Mark,
    Row,
    Tables,
    finite_or_none,
    interval,
    mark_of,
    number,
    percent,
    points,
    readable_name,
    who,
)
from tomserve.studies.study import EFFECT, accuracy_lines, accuracy_marks, effect_cards, has_rows, tables_by_model
from tomserve.studies.texts import Texts

from .tables import CONTROL, OVERALL, PERTURBED, SUBSETS, VANILLA

TEXTS = Texts(__file__)


def honesty_card(tables: Tables) -> Card | None:
    """What chains and answers have in common, without a conclusion: going together shows no honesty."""
    if not has_rows(tables, "faithfulness", "strategy sample metric value ci_low ci_high n"):
        return None
    frame, grounds = tables["faithfulness"], []
    for row in frame.filter(sample="complete", metric="chain_proper").iter_rows(named=True):
        grounds.append((f"{readable_name(row['strategy'])}, right chain and right answer", _correlation(row)))
    for row in frame.filter(metric="answer_matches_last", sample="wrong_last").iter_rows(named=True):
        if finite_or_none(row["value"]) is not None:
            text = f"The answer is that belief in {percent(row['value'])} of {row['n']}{interval(row)}."
            grounds.append((f"{readable_name(row['strategy'])}, chain ends in a wrong belief", text))
    if has_rows(tables, "chains", "strategy perturbation proper total proper_share"):
        for row in tables["chains"].filter(perturbation=OVERALL).iter_rows(named=True):
            text = f"In {row['proper']:,} of {row['total']:,} the chain runs as the right beliefs do"
            text += f" ({percent(row['proper_share'])})."
            grounds.append((f"{readable_name(row['strategy'])}, all questions", text))
    return Card("Is its reasoning faithful?", "Correlation cannot show it", OPEN, tuple(grounds), TEXTS["honesty"])


def _correlation(row: Row) -> str:
    value, low, high = (finite_or_none(row[name]) for name in ("value", "ci_low", "ci_high"))
    if value is None:
        return "Their correlation (phi) is undefined."
    bounds = "interval undefined" if low is None or high is None else f"interval {number(low)} to {number(high)}"
    return f"Their correlation (phi) is {number(value)} ({bounds}, {row['n']} questions)."


def verdicts(tables: Tables, context: Context) -> list[Verdict]:
    """A verdict for each model of the table `accuracy`."""
    return [_verdict(model, own, context.chance.get("all")) for model, own in tables_by_model(tables)]


def _verdict(model: str, own: dict[str, pl.DataFrame], chance: float | None) -> Verdict:
    cards = (_robust(own), _breaks(own), _helps(own), honesty_card(own))
    whole = own["accuracy"].filter(subset="all", perturbation=OVERALL)
    rules = own.get(baselines.TABLE)
    if rules is not None:
        rules = rules.filter(subset="all", perturbation=OVERALL)
    found = tuple(card for card in cards if card is not None)
    return Verdict(model, accuracy_lines(whole, chance, rules), found, accuracy_marks(whole))


# Is it robust?

_ROBUST = {
    "yes": ("Yes, in every class", GOOD),
    "perhaps": ("By its shares yes, but not significantly", OPEN),
    "limited": ("Limited: in some classes only", OPEN),
    "ostensible": ("No: on unperturbed stories only", BAD),
    "no": ("No", BAD),
    "open": ("Not shown, but not ruled out", OPEN),
    "untested": ("Undetermined: not every class was asked", OPEN),
}
_DIFFERS = ("Depends on the strategy or the questions", OPEN)
# Where some outcomes are "no" and the others "ostensible", which is a no as well; and where some are open beside them
_NEITHER = ("No, with any strategy", BAD)
_NOWHERE = ("Not shown with any strategy", OPEN)


def _robust(tables: Tables) -> Card | None:
    """The paper's criteria, for how many classes the whole interval lies on one side of one half, and which shortcut
    baselines meet the same criteria. A model that meets a criterion which such a rule meets as well is
    told so, and its verdict is good only where it is significantly above the best rule on the false-belief subset."""
    if not has_rows(tables, "criteria", "subset strategy rule ostensible classes_above limited_robust robust"):
        return None
    outcomes, grounds = set(), []
    met: set[bool] = set()
    believed: set[bool] = set()  # whether the criterion is met on false beliefs
    shared: dict[str, None] = {}
    for row in tables["criteria"].filter(rule="strict").iter_rows(named=True):
        above, below, undecided = _sides_of_half(tables, row)
        control = _has_control(tables, row)
        fails = below + _sides_of_half(tables, row, control=True)[1]
        outcomes.add(_outcome(row, fails, undecided, control))
        (met if row["subset"] == "all" else believed).add(bool(row["ostensible"] and row["limited_robust"]))
        tested = int(str(row.get("classes_tested", len(PERTURBED))))
        text = f"More than half right in {row['classes_above']} of {tested} classes, "
        also = f"{'also' if row['ostensible'] else 'but not'} on unperturbed stories"
        text += also if control else "and unperturbed stories were not asked"
        text += "." if tested >= len(PERTURBED) else f"; the paper's criterion asks for {len(PERTURBED)} classes."
        if above + below + undecided:
            text += (
                f" The 95% intervals of {above} lie wholly above one half and of {below} wholly below; one half lies "
                f"within those of {undecided}."
            )
        if rules := _rules_that_meet(row):
            text += f" The same criterion is met by {_list_rules(rules)}."
            shared |= dict.fromkeys(rules)
        grounds.append((who(row["strategy"], row["subset"], SUBSETS), f"{text}{_over_rule(tables, row)}"))
    if len(outcomes) == 1:
        verdict, tone = _ROBUST[outcomes.pop()]
    elif outcomes <= {"no", "ostensible"}:
        verdict, tone = _NEITHER
    else:
        verdict, tone = _NOWHERE if outcomes <= {"no", "ostensible", "open"} else _DIFFERS
    if shared and _above_rules(tables):
        verdict += "; on false beliefs significantly above every shortcut baseline"
    elif shared:
        meets = "Criterion met" if met == {True} else "Criterion met in part"
        verdict = f"{meets}, but also by {count_noun(len(shared), 'shortcut baseline')}"
        verdict += "; not met on false beliefs" if believed == {False} else ""
        tone = OPEN if tone == GOOD else tone
    whole = tables["accuracy"].filter(subset="all", perturbation=OVERALL) if "accuracy" in tables else None
    marks = () if whole is None else accuracy_marks(whole)
    return Card("Is its theory of mind robust?", verdict, tone, tuple(grounds), TEXTS["robust"], marks)


def _rules_that_meet(row: Row) -> list[str]:
    """The rules that meet the criterion which this row of the table criteria meets; none where it meets none."""
    column = "rules_robust" if row["robust"] else "rules_limited_robust"
    met = row["ostensible"] and row["limited_robust"]
    return [name for name in str(row.get(column) or "").split(", ") if name] if met else []


def _list_rules(rules: Sequence[str]) -> str:
    """The rules by name, the first two of many."""
    named = [f'"{name}"' for name in rules[:2]]
    more = len(rules) - len(named)
    if more:
        return f"the shortcut baselines {', '.join(named)} and {more} more"
    return f"the shortcut baseline{'s' * (len(named) > 1)} {' and '.join(named)}"


def _over_rule(tables: Tables, row: Row) -> str:
    """A sentence that compares the accuracy of a row's questions with the best rule's; empty where none is known."""
    if not has_rows(tables, "accuracy", "subset strategy perturbation best_rule"):
        return ""
    whole = tables["accuracy"].filter(subset=row["subset"], strategy=row["strategy"], perturbation=OVERALL)
    text = baselines.compare_with_rule(whole.row(0, named=True)) if whole.height else ""
    return f" All classes together: {text}." if text else ""


def _above_rules(tables: Tables) -> bool:
    """Whether every strategy is significantly above the best rule on the false-belief subset."""
    if not has_rows(tables, "accuracy", "subset strategy perturbation over_rule_low over_rule_high"):
        return False
    subset = tables["accuracy"].filter(subset="false_belief", perturbation=OVERALL)
    return subset.height > 0 and all(baselines.place_against_rule(row) == 1 for row in subset.iter_rows(named=True))


def _has_control(tables: Tables, row: Row) -> bool:
    """Whether unperturbed stories were asked; yes where nothing is known."""
    if not has_rows(tables, "accuracy", "subset strategy perturbation total"):
        return True
    found = tables["accuracy"].filter(perturbation=CONTROL, subset=row["subset"], strategy=row["strategy"])
    return bool(found["total"].sum())


def _outcome(row: Row, below: int, undecided: int, control: bool) -> str:
    """Which of _ROBUST holds; below, undecided: classes whose interval lies below one half (that of unperturbed stories
    among them), or holds it; control: whether unperturbed stories were asked."""
    if row["robust"] and row["ostensible"]:
        return "perhaps" if below or undecided else "yes"
    tested = int(str(row.get("classes_tested", len(PERTURBED))))
    passed = row["classes_above"] == tested and (row["ostensible"] or not control)
    if passed and (tested < len(PERTURBED) or not control):
        return "untested"  # robust as far as it was asked
    if row["limited_robust"] and (row["ostensible"] or not control):
        return "limited"
    if row["ostensible"]:
        return "ostensible"
    return "no" if below else "open"


def _sides_of_half(tables: Tables, row: Row, *, control: bool = False) -> tuple[int, int, int]:
    """How many classes have an interval that lies above one half, below it, or around it; 0 where nothing is known.
    control: of the class of unperturbed stories instead."""
    if not has_rows(tables, "accuracy", "subset strategy perturbation ci_low ci_high"):
        return 0, 0, 0
    name = pl.col("perturbation")
    named = name == CONTROL if control else ~name.is_in([CONTROL, OVERALL])
    part = tables["accuracy"].filter(named, subset=row["subset"], strategy=row["strategy"])
    above = part.filter(pl.col("ci_low") > 0.5).height
    below = part.filter(pl.col("ci_high") < 0.5).height
    return above, below, part.height - above - below


# Where does it break?


def _breaks(tables: Tables) -> Card | None:
    """Which classes are harder than unperturbed stories: by the column `verdict` or, where intervals are as published,
    by whether the interval of the difference lies below zero."""
    if not has_rows(tables, "perturbation_effects", "subset strategy perturbation risk_difference rd_low rd_high"):
        return None
    frame = tables["perturbation_effects"].filter(~pl.col("perturbation").str.starts_with(OVERALL))
    judged = "verdict" in frame.columns
    if not judged:
        below = pl.when(pl.col("rd_high") < 0).then(pl.lit("harder")).otherwise(pl.lit("not shown"))
        frame = frame.with_columns(verdict=below)
    grounds, undecided, shown = [], 0, 0
    marks: list[Mark] = []
    harder: dict[str, None] = {}
    reserved: dict[str, None] = {}
    for (subset, strategy), part in frame.group_by(["subset", "strategy"], maintain_order=True):
        whose = who(strategy, subset, SUBSETS)
        defined = part.filter(pl.col("risk_difference").is_finite()).sort("risk_difference", maintain_order=True)
        if not defined.height:
            grounds.append((whose, "No class can be compared with unperturbed stories."))
            continue
        for name, said in defined.select("perturbation", "verdict").iter_rows():
            if said.startswith("harder"):
                (reserved if UNLESS_FAILURES in said else harder)[readable_name(name)] = None
        undecided += defined.filter(pl.col("verdict").str.starts_with(UNDECIDED)).height
        shown += defined.height
        if subset == "all":
            row = defined.row(0, named=True)
            name = f"{strategy}: {row['perturbation']}"
            marks += mark_of(name, row, "risk_difference", ("rd_low", "rd_high"))
        grounds.append((whose, f"{_count_verdicts(defined)} {_lowest(defined)}"))
    verdict, tone = _where(list(harder), [name for name in reserved if name not in harder], undecided, shown)
    grounds += _chain_break(tables)
    remark = _what_harder_means(judged)
    return Card("Where does it break?", verdict, tone, tuple(grounds), remark, tuple(marks), signed=True)


def _where(harder: list[str], reserved: list[str], undecided: int, shown: int) -> tuple[str, str]:
    """The verdict and its tone. harder: classes that clearly are; reserved: those of which failures may be the reason;
    undecided, shown: how many comparisons the study is too small for, and how many there are."""
    for names, said in ((harder, "Significantly harder"), (reserved, "Harder, unless failures explain it")):
        if names:
            more = f", {len(names) - 2} more" if len(names) > 2 else ""
            return f"{said}: {', '.join(names[:2])}{more}", BAD
    if not shown:
        return "No class can be compared with unperturbed stories", OPEN
    if undecided == shown:
        return "Undecided: too few stages", OPEN
    return "No class is shown to be harder" + (f"; {undecided} of {shown} undecided" if undecided else ""), OPEN


def _count_verdicts(classes: pl.DataFrame) -> str:
    """How many classes have which verdict, in a sentence that begins with the clear verdicts; those that so few stages
    cannot decide are counted together, whatever their numbers of stages."""
    open_ones = pl.col("verdict").str.starts_with(UNDECIDED)
    counts = dict(classes.filter(~open_ones).group_by("verdict", maintain_order=True).agg(pl.len()).iter_rows())
    if (undecided := classes.filter(open_ones)).height:
        counts[_count_undecided(undecided["verdict"])] = undecided.height
    first = sorted(counts, key=lambda said: (said.startswith((NOT_SHOWN, UNDECIDED)), said))
    said = "; ".join(f"{counts[name]} {name}" for name in first)
    return f"Of {classes.height} classes: {said}."


def _count_undecided(verdicts: pl.Series) -> str:
    """The verdicts of undecided classes as one, such as: cannot be decided with 3 to 6 stages (needs 57)."""
    units, needed = (verdicts.str.extract(pattern).cast(pl.Int64) for pattern in (r"with (\d+)", r"needs (\d+)"))
    stages = f"{_range(units)} stage{'s' * (units.max() != 1)}"
    return f"{UNDECIDED} with {stages}" + (f" (needs {_range(needed)})" if not needed.null_count() else "")


def _range(numbers: pl.Series) -> str:
    found = sorted(set(numbers.drop_nulls().to_list()))
    return " to ".join(str(one) for one in dict.fromkeys((found[0], found[-1])))


def _lowest(classes: pl.DataFrame) -> str:
    row = classes.row(0, named=True)
    units = row.get("units")
    over = f", over the {units} stages that have both" if units else ""
    if units == 1:
        over = ", over the one stage that has both"
    return f"The lowest is {readable_name(row['perturbation'])}, {points(row)}{over}."


def _what_harder_means(judged: bool) -> str:
    meaning = "Points are percentage points of right answers, perturbed minus unperturbed; the 95% interval stands in "
    meaning += "brackets, and behind it the two shares. "
    if not judged:
        return meaning + "A class is called harder if the interval of its difference lies below zero."
    return meaning + (
        "A class is compared over the stages (settings with their stories) that have both kinds of stories, so that "
        "its shares may differ from its accuracy over all stages. It is called harder or easier if p, adjusted for "
        "how many classes were tested at once, is at most 0.05 (p: how often chance alone would give so large a "
        "difference) and the difference is larger than batching alone could make it, where that was measured. It is "
        f"not shown if it is neither, although a difference of {100 * WORTH:.0f} points would most likely have been "
        "found; where one that large could well have been missed, the class cannot be decided with so few stages, and "
        "the number needed stands in brackets. Failures may explain a difference if one side failed more often, or "
        "if the difference could lie on either side of zero had all failures been answered."
    )


def _chain_break(tables: Tables) -> Iterator[tuple[str, str]]:
    if not has_rows(tables, "chains", "strategy perturbation total proper break_sentence break_kind breaks"):
        return
    for row in tables["chains"].filter(perturbation=OVERALL).iter_rows(named=True):
        if row["breaks"]:
            where = "" if row["break_sentence"] is None else f" at sentence {row['break_sentence']}"
            yield (
                f"{readable_name(row['strategy'])}, all questions",
                f"In {row['total'] - row['proper']:,} of {row['total']:,} no chain runs as the right beliefs do; most "
                f"often it parts from them{where} ({readable_name(row['break_kind'])}, {row['breaks']:,} times).",
            )


# Does reasoning help?


def _helps(tables: Tables) -> Card | None:
    if not has_rows(tables, "prompting_effects", f"perturbation {EFFECT}"):
        return None
    frame = tables["prompting_effects"]
    return effect_cards(frame.filter(perturbation=OVERALL), SUBSETS, tuple(_class_grounds(frame)))


def _class_grounds(frame: pl.DataFrame) -> Iterator[tuple[str, str]]:
    if "subset" in frame.columns:
        frame = frame.filter(subset="all")
    for (treatment,), rows in frame.group_by(["treatment"], maintain_order=True):
        part = rows.filter(~pl.col("perturbation").str.starts_with(OVERALL))
        if "verdict" in part.columns:
            if (judged := part.drop_nulls("verdict")).height:
                yield f"{readable_name(treatment)}, by class", _count_verdicts(judged)
        elif part.height:
            up, down = part.filter(pl.col("rd_low") > 0).height, part.filter(pl.col("rd_high") < 0).height
            text = f"Of {part.height} classes {up} have an interval above zero (helps), {down} below (hurts)."
            yield f"{readable_name(treatment)}, by class", text


METRICS = {
    "chain_proper": "chain right throughout",
    "chain_path_proper": "right but for its last state",
    "chain_lcs": "right in order (LCS)",
    "chain_lcps": "right from the start on (LCPS)",
    "chain_transitions": "right changes (transitions)",
}
_KEYS = "subset model strategy perturbation"
_KEYS_PROMPTING = "subset model perturbation treatment"


def figures(tables: Tables, context: Context) -> list[Figure]:
    """Every figure in the order of the report; one that cannot be drawn says why. The first is of one model its
    accuracy with intervals, of several the heat map, which sets them side by side."""
    models = tables["accuracy"]["model"].n_unique() if "accuracy" in tables else 0
    names = sorted(_MAKERS, key=lambda name: name != "accuracy") if models == 1 else list(_MAKERS)
    return charts.draw_figures(TEXTS.figure, {name: _MAKERS[name] for name in names}, tables, context)


def _class(row: Row) -> Row:
    """The row with its class as readers see it; the unperturbed stories are said to be the control."""
    name = readable_name(row["perturbation"])
    return {**row, "perturbation": f"{name} (control)" if row["perturbation"] == CONTROL else name}


def _heat_map(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    rows = charts.rows_of(tables, "accuracy", f"{_KEYS} accuracy", _KEYS)
    try:
        effects = charts.rows_of(tables, "prompting_effects", f"{_KEYS_PROMPTING} risk_difference", _KEYS_PROMPTING)
    except charts.AbsentError:
        effects = []
    models = charts.short_names(charts.values_of(rows, "model"))
    panels: list[Panel] = []
    for subset in charts.values_of(rows, "subset"):
        part = [row for row in map(_class, rows) if row["subset"] == subset]
        classes = charts.values_of(part, "perturbation")
        maps: list[charts.HeatMaps] = []
        all_cells: list[charts.Cell] = []
        for strategy in charts.values_of(part, "strategy"):
            cells = _cells([row for row in part if row["strategy"] == strategy], models, "accuracy", strategy)
            all_cells += cells
            title, names = readable_name(strategy), list(models.values())
            maps.append(charts.heat_map(cells, classes, names, title, chance=chance.get(subset), names=not maps))
        differences = [row for row in map(_class, effects) if row["subset"] == subset]
        for treatment in charts.values_of(differences, "treatment"):
            chosen = [row for row in differences if row["treatment"] == treatment]
            control = chosen[0].get("control", VANILLA)
            cells = _cells(chosen, models, "risk_difference", f"{treatment} minus {control}")
            largest = max((abs(cell.value) for cell in cells), default=0.0)
            limit = min(1.0, max(0.25, math.ceil(4 * largest) / 4))
            title = f"{readable_name(treatment)} − {readable_name(control)}"
            all_cells += cells
            maps.append(charts.heat_map(cells, classes, list(models.values()), title, difference=limit, names=False))
        name = SUBSETS.get(subset, readable_name(subset))
        label = f"Heat map of accuracy, {name}. " + "; ".join(cell.words for cell in all_cells) + "."
        panels.append(Panel(name, charts.Picture(charts.side_by_side(maps), label)))
    return replace(figure, panels=tuple(panels), wide=len(models) > 2)


def _cells(rows: Sequence[Row], models: Mapping[str, str], value: str, what: str) -> list[charts.Cell]:
    cells = []
    for row in rows:
        if (number := finite_or_none(row[value])) is not None:
            name, model = str(row["perturbation"]), models[str(row["model"])]
            cells.append(charts.Cell(name, model, number, f"{model}, {readable_name(what)}, {name}: {number:.2f}"))
    return cells


def _accuracy(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    frame = tables.get("accuracy", pl.DataFrame())
    figure, rows = baselines.mark_best_rule(figure, charts.rows_of(tables, "accuracy", f"{_KEYS} accuracy", _KEYS))
    estimated = "estimate" in frame.columns and frame["estimate"].is_not_null().any()
    value = "estimate" if estimated else "accuracy"  # what the interval is about
    axis = charts.Axis("share right", (0, 1), lambda subset: charts.chance_lines(chance, subset))
    columns = ("perturbation", "strategy", value, "ci_low", "ci_high")
    return charts.small_multiples(figure, [_class(row) for row in rows], columns, axis, SUBSETS)


def _perturbing(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    rows = charts.rows_of(tables, "perturbation_effects", f"{_KEYS} risk_difference rd_low rd_high", _KEYS)
    kept = [row for row in rows if row["perturbation"] != "overall"] or rows
    counted: dict[object, set[object]] = {}
    for row in kept:
        counted.setdefault((row["subset"], row["perturbation"]), set()).add(row.get("units"))
    kept = [_with_stages(row, counted[row["subset"], row["perturbation"]]) for row in kept]
    columns = ("perturbation", "strategy", "risk_difference", "rd_low", "rd_high")
    axis = charts.Axis("difference from unperturbed", (-1, 1), charts.zero_line)
    return charts.small_multiples(figure, [_class(row) for row in kept], columns, axis, SUBSETS)


def _with_stages(row: Row, units: set[object]) -> Row:
    """The row whose class is followed by the number of stages that have both kinds of stories, where all rows of the
    class have the same."""
    if len(units) != 1 or units == {None}:
        return row
    return {**row, "perturbation": f"{readable_name(row['perturbation'])} ({next(iter(units))})"}


def _prompting(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    needed = f"{_KEYS_PROMPTING} risk_difference rd_low rd_high"
    rows = charts.rows_of(tables, "prompting_effects", needed, _KEYS_PROMPTING)
    columns = ("perturbation", "treatment", "risk_difference", "rd_low", "rd_high")
    axis = charts.Axis("difference from vanilla", (-1, 1), charts.zero_line, first=1)
    return charts.small_multiples(figure, [_class(row) for row in rows], columns, axis, SUBSETS)


def _faithfulness(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    needed = "model strategy sample metric coefficient value ci_low ci_high"
    rows = charts.rows_of(tables, "faithfulness", needed, "model strategy sample metric")
    rows = [row for row in rows if row["coefficient"] in ("phi", "point_biserial")]
    several = len(charts.values_of(rows, "strategy")) > 1
    data: list[Row] = []
    for row in rows:
        sample = f"{row['strategy']}, {row['sample']}" if several else f"{row['sample']} sample"
        data.append({**row, "subset": "", "metric": METRICS.get(str(row["metric"]), row["metric"]), "sample": sample})
    columns = ("metric", "sample", "value", "ci_low", "ci_high")
    lines = [charts.Line(0, ""), charts.Line(0.4, "0.4", (5, 3))]
    axis = charts.Axis("correlation with a right answer", (-1, 1), lambda subset: lines)
    return charts.small_multiples(figure, data, columns, axis)


def _controls(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    charts.rows_of(tables, "subtasks", "model strategy scenario question_kind correct total")
    summed = (
        tables["subtasks"]
        .group_by("model", "strategy", "scenario", "question_kind", maintain_order=True)
        .agg(pl.col("correct").sum(), pl.col("total").sum())
        .sort(pl.col("scenario") != "false_belief", "scenario", "question_kind", maintain_order=True)
        .with_columns(accuracy=pl.col("correct") / pl.col("total"))
        .to_dicts()
    )
    data: list[Row] = [{**row, "cell": f"{row['scenario']}: {row['question_kind']}"} for row in summed]
    axis = charts.Axis("share right", (0, 1), lambda subset: charts.chance_lines(chance, "all"))
    return charts.small_multiples(figure, data, ("cell", "strategy", "accuracy", "", ""), axis)


_MAKERS: Mapping[str, charts.Draw] = {
    "heat": _heat_map,
    "accuracy": _accuracy,
    "perturbing": _perturbing,
    "prompting": _prompting,
    "faithfulness": _faithfulness,
    "controls": _controls,
}
