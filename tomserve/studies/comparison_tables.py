"""Further tables of a comparison: equivalence to a margin, differences of grades, effects by factor, flips."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.errors import ConfigError
from tomserve.stats import clustered
from tomserve.stats.clustered import clustered_mean, designed_share
from tomserve.stats.clusters import unit_means
from tomserve.stats.equivalence import VERDICTS, compare_margin, units_for_margin
from tomserve.stats.paired import mean_interval, t_p
from tomserve.stats.proportions import Interval, tango
from tomserve.studies import contrasts
from tomserve.studies.answer_rows import drop_undefined, split_by
from tomserve.studies.breakdowns import By, inner_names, left_out_lines, parse_factors, value_text
from tomserve.studies.breakdowns import table_name as name_of
from tomserve.studies.contrasts import Record, adjust_family, contrast, integer_codes
from tomserve.studies.presentation import finite_or_none

Floats = npt.NDArray[np.float64]
GRADE_TABLE = "values"  # Name of the table
# What is compared, in the column `of`: grades that another tool gave, or the share of a question's replies that are
# right.
GRADES, SAMPLES = "grades", "samples"
MEAN = "correct_mean"  # The column with that share


@dataclass(frozen=True)
class PairedGrades:
    """The grades of two runs by one strategy: means of the units [units], with worst_a and worst_b if each failure had
    the grade 1; bounded: whether all grades lie between 0 and 1; failed: questions of which a reply failed, or has no
    grade, on a side."""

    strategy: str
    kind: str
    a: Floats
    b: Floats
    whole: tuple[float, float]
    worst_a: Floats
    worst_b: Floats
    bounded: bool
    unit: str
    failed: int
    n: int

    @property
    def means(self) -> tuple[float, float]:
        return float(self.a.mean()), float(self.b.mean())

    @property
    def differences(self) -> Floats:
        return self.b - self.a

    def interval(self, level: float = 0.95) -> Interval:
        """The interval of the mean difference: t over units; where none differs undefined, but for grades between 0 and
        1 Tango's for as many pairs as there are units."""
        if not self.bounded:
            found = clustered_mean(self.differences, np.arange(self.a.size), level)
            return replace(found, method=f"t, {self.a.size - 1} df")
        moved, m = float(self.differences.mean()), float(self.a.size)
        gained, lost = (m * max(0.0, by) for by in (moved, -moved))
        return mean_interval(self.differences, level, tango(gained, lost, m, level))

    def worst(self) -> tuple[float, float]:
        """The least and the greatest difference that failures leave possible; nan where grades have no bounds and some
        failed."""
        if self.failed and not self.bounded:
            return math.nan, math.nan
        return float((self.b - self.worst_a).mean()), float((self.worst_b - self.a).mean())

    def row(self) -> dict[str, Any]:
        found = self.interval()
        return {
            **{"strategy": self.strategy, "of": self.kind, "value_a": self.means[0], "value_b": self.means[1]},
            **{"difference": found.estimate, "low": found.low, "high": found.high, "p": t_p(self.differences)},
            **{"mean_a": self.whole[0], "mean_b": self.whole[1], "failed": self.failed, "n": self.n},
            **{"unit": self.unit, "units": self.a.size, "method": found.method},
        }


def pair_grades(
    pairs: pl.DataFrame, tables: Sequence[pl.DataFrame], chosen: Sequence[str | None]
) -> list[PairedGrades]:
    """The grades of the paired questions, for each strategy; none where grades are only right or wrong. pairs: what
    contrasts.pair_rows makes, with `strategy`, `item`, `cluster`, `stage`. tables: of A and B. chosen: the strategy of
    each, or None."""
    found = []
    for kind, column in ((GRADES, "graded_value"), (SAMPLES, MEAN)):
        if any(column not in table.columns or table[column].is_null().all() for table in tables):
            continue
        if kind == SAMPLES and any("people" in table.columns for table in tables):
            continue  # people are compared in a table of their own (tomserve.studies.people)
        if all(table[column].drop_nulls().is_in([0.0, 1.0]).all() for table in tables):
            continue
        one, other = (_grades(*side, column) for side in zip(tables, chosen, strict=True))
        keys = ["item", "strategy"]
        joined = pairs.join(one.rename({"value": "a", "best": "best_a"}), on=keys, how="left").join(
            other.rename({"value": "b", "best": "best_b"}), on=keys, how="left"
        )
        for (strategy,), part in joined.group_by(["strategy"], maintain_order=True):
            if (made := _pair_grades(str(strategy), kind, part)) is not None:
                found.append(made)
    return found


def _grades(table: pl.DataFrame, strategy: str | None, column: str) -> pl.DataFrame:
    """The grades of a side as `item`, `strategy`, `value`, and `best`, what it might be at most: of a question without
    one 1, and of samples as if each that holds no answer were right. Of a chosen strategy the name is left out."""
    if strategy is not None:
        table = table.filter(pl.col("strategy") == strategy).with_columns(strategy=pl.lit(""))
    value, lost = pl.col(column).cast(pl.Float64), pl.lit(0.0)
    if column == MEAN and {"samples", "samples_read"} <= set(table.columns):
        lost = ((pl.col("samples") - pl.col("samples_read")) / pl.col("samples")).fill_null(0.0)
    return table.select("item", "strategy", value.alias("value"), (value + lost).fill_null(1.0).alias("best"))


def _pair_grades(strategy: str, kind: str, part: pl.DataFrame) -> PairedGrades | None:
    """The grades of one strategy; None where no question has one on both sides."""
    lacks = part["a"].is_null() | part["b"].is_null()
    known = pl.concat([part["a"].drop_nulls(), part["b"].drop_nulls()])
    if lacks.all():
        return None
    bounded = bool(known.is_between(0, 1).all())
    part = part if bounded else part.filter(~lacks)
    staged = part["stage"].null_count() == 0
    clusters = integer_codes(part["cluster"])
    units = integer_codes(part["stage"]) if staged else clusters

    def by_unit(side: str) -> Floats:
        return np.asarray(unit_means(part[side].fill_null(0.0).to_numpy(), clusters, units)[0])

    a, b = by_unit("a"), by_unit("b")
    own = "questions" if a.size == part.height else "clusters"
    whole = tuple(float(part[side].fill_null(0.0).to_numpy().mean()) for side in "ab")
    worst = by_unit("best_a"), by_unit("best_b")
    unit = "stages" if staged else own
    short = (part["best_a"] > part["a"].fill_null(0.0)) | (part["best_b"] > part["b"].fill_null(0.0))
    missing = int((lacks | short).sum()) if bounded else int(lacks.sum())
    return PairedGrades(strategy, kind, a, b, (whole[0], whole[1]), *worst, bounded, unit, missing, part.height)


MARGINS = "margins"  # Name of the table
RIGHT = "right"  # What is compared, in the column `of`: right answers. Else it is GRADES or SAMPLES.


def check_margin(margin: float | None) -> None:
    """Raise ConfigError for a margin that is no share."""
    if margin is not None and not 0 < margin < 1:
        raise ConfigError(f"--margin {margin:g}: expected a share above 0 and below 1, such as 0.02 for two points")


def margin_tests(pairs: pl.DataFrame, margin: float, valued: Sequence[PairedGrades] = ()) -> pl.DataFrame:
    """What tests against the margin show: a row for the right answers of each strategy, and one for grades between 0
    and 1."""
    rows = [
        {"strategy": strategy, "of": RIGHT, **_of_right(part, margin)}
        for (strategy,), part in pairs.group_by(["strategy"], maintain_order=True)
    ]
    for one in valued:
        if one.bounded:
            found = _row(one.interval, margin, one.differences, None)
            sides = {"share_a": one.means[0], "share_b": one.means[1], "unit": one.unit}
            worst = dict(zip(("worst_low", "worst_high"), one.worst(), strict=True))
            rows.append({"strategy": one.strategy, "of": one.kind, **found, **sides, **worst})
    columns = ["strategy", "of", "margin", "share_a", "share_b"]
    table = pl.DataFrame(rows, infer_schema_length=None).fill_nan(None)
    return table.select(*columns, pl.exclude(columns))


def _of_right(part: pl.DataFrame, margin: float) -> dict[str, Any]:
    """The tests of the shares of right answers of one strategy."""
    staged = "stage" if part["stage"].null_count() == 0 else None
    sums = contrasts.sums_of_pairs(part, [staged] if staged else [])
    units = contrasts.pair_sums(sums, staged)
    kept = replace(units, treated=sums["kept"].to_numpy(), control=sums["control_kept"].to_numpy())
    worst = clustered.bounds(kept, sums["failed"].to_numpy(), sums["control_failed"].to_numpy())
    sides = [units.by_unit(one) for one in (units.control, units.treated)]
    interval = clustered.margin_intervals(units, strata=staged is not None)
    return {
        **_row(interval, margin, sides[1] - sides[0], float(units.by_unit(units.changed).mean())),
        "share_a": float(sides[0].mean()),
        "share_b": float(sides[1].mean()),
        "unit": "stages" if staged else unit_of(units.units, part.height),
        "worst_low": worst[0],
        "worst_high": worst[1],
    }


def unit_of(clusters: int, questions: int) -> str:
    """What is counted as independent: questions where each is a cluster of its own."""
    return "questions" if clusters == questions else "clusters"


def _row(
    interval: Callable[[float], Interval],
    margin: float,
    differences: np.ndarray[Any, np.dtype[np.float64]],
    changed: float | None,
) -> dict[str, Any]:
    """The columns that belong to any test. differences: those of the units. changed: as for `units_for_margin`."""
    found = asdict(compare_margin(interval, margin))
    sd = float(differences.std(ddof=1)) if differences.size > 1 else math.nan
    spread = sd or math.nan  # units that happen to agree do not show that all would
    one, both = units_for_margin(margin, spread, changed)
    return {
        **{"margin": margin, "difference": float(differences.mean()), **found},
        **{"units": differences.size, "needed_not_inferior": one, "needed_equivalent": both},
        "method": interval(0.95).method,
    }


_SAID = {
    "equivalent": "B is equivalent to A",
    "better": "B is better than A",
    "not inferior": "B is not inferior to A",
    "inferior": "B is inferior to A",
    "undecided": "it is shown neither that B is worse by as much, nor that it is not",
}
_OF = {RIGHT: "", GRADES: " in its grades", SAMPLES: " in the mean of its samples"}
_BETTER = "B's mean is clearly higher"


def margin_verdicts(table: pl.DataFrame) -> Iterator[str]:
    """A sentence for each row: what was shown, and what not."""
    for row in table.iter_rows(named=True):
        yield f"{row['strategy']}: {_sentence(row)}" if row["strategy"] else _sentence(row)


def _sentence(row: Mapping[str, Any]) -> str:
    verdict, margin = row["verdict"], row["margin"]
    level, ends = (90, ("low_90", "high_90")) if verdict == "equivalent" else (95, ("low", "high"))
    values = [row[name] for name in ("difference", *ends)]
    of = _OF[row["of"]]
    means = "" if verdict == "undecided" else f" ({_BETTER if of and verdict == 'better' else VERDICTS[verdict]})"
    interval = "has no interval"
    if all(finite_or_none(value) is not None for value in values):
        difference, low, high = _points(values, margin)
        interval = f"is {difference} points, {level}% interval {low} to {high}"
    more = "".join(clause(row) for clause in (_clear, _few, _failures, _trivial))
    return f"with a margin of {100 * margin:g} points, {_SAID[verdict]}{of}{means}: B minus A {interval}{more}."


def _points(values: Sequence[float], margin: float) -> list[str]:
    """Differences in percentage points, with as many decimals as tell each from the margin, at least one."""
    for decimals in range(1, 5):
        shown = [f"{100 * value:+.{decimals}f}" for value in values]
        bound = f"{100 * margin:.{decimals}f}"
        if not any(one[1:] == bound and abs(value) != margin for one, value in zip(shown, values, strict=True)):
            break
    return [f"{0:.{decimals}f}" if not one.strip("+-0.") else one.replace("-", "−") for one in shown]


def _clear(row: Mapping[str, Any]) -> str:
    """That there clearly is a difference, where the verdict does not say so."""
    low, high = finite_or_none(row["low"]), finite_or_none(row["high"])
    if low is None or high is None or not (low > 0 or high < 0):
        return ""
    if row["verdict"] == "equivalent":
        return "; there clearly is a difference, but a smaller one"
    return "; B clearly is worse, but not clearly by so much" if row["verdict"] == "undecided" else ""


def _few(row: Mapping[str, Any]) -> str:
    """How many units would be needed, where too few are why nothing is shown."""
    wanted = row["needed_not_inferior"]
    if row["verdict"] != "undecided" or wanted is None or wanted <= row["units"]:
        return ""
    return (
        f"; if there were no difference, about {wanted:,} {row['unit']} like these {row['units']:,} would show "
        "non-inferiority in 4 of 5 studies"
    )


def _failures(row: Mapping[str, Any]) -> str:
    """That failures could turn the verdict."""
    worst = finite_or_none(row["worst_low"]), finite_or_none(row["worst_high"])
    if worst[0] is None or worst[1] is None or row["verdict"] in ("undecided", "inferior"):
        return ""
    if worst[0] > -row["margin"] and (row["verdict"] != "equivalent" or worst[1] < row["margin"]):
        return ""
    low, high = _points((worst[0], worst[1]), row["margin"])
    return f"; the failures are counted as wrong, and leave anything from {low} to {high} possible"


def _trivial(row: Mapping[str, Any]) -> str:
    if row["share_a"] is None or row["share_a"] > row["margin"]:
        return ""
    return f"; but the margin is no test here: A has only {100 * row['share_a']:.1f} points, which B cannot fall below"


CLASS_WORDS = ("B lower", "B higher")  # What a clear effect below and above zero is called
# What no column of a factor is called, since the terminal shows other columns by these names.
RESERVED_NAMES = frozenset(("A", "B", "B - A", "low", "high", "class", "n"))
_CELL = "values"  # The name of the column that tells the rows of a strategy apart while they are tested together


def question_factors(tables: Sequence[pl.DataFrame], given: Sequence[str]) -> tuple[list[By], pl.DataFrame]:
    """The factors that texts such as "kind" and "kind,order" name, and a table with them for every item, from A's table
    or else B's. Raises ConfigError as breakdowns.parse_factors does."""
    if not given:
        return [], pl.DataFrame()
    own, more = (table.unique("item", keep="first", maintain_order=True) for table in tables)
    added = [name for name in more.columns if name not in own.columns]
    questions = own.join(more.select("item", *added), on="item", how="left", maintain_order="left")
    return parse_factors(given, questions), questions


def factor_warnings(
    pairs: pl.DataFrame, tables: Sequence[pl.DataFrame], questions: pl.DataFrame, by: Sequence[By]
) -> list[str]:
    """A sentence for each entry of `by` that some questions have no value of, and for each factor of which A and B have
    different values for the same question."""
    if not by:
        return []
    asked = pairs.select("item").unique()
    said = left_out_lines([questions.join(asked, on="item", how="semi").lazy()], by)
    sides = [asked.join(table.unique("item", keep="first"), on="item", how="left").sort("item") for table in tables]
    for name in dict.fromkeys(name for one in by for name in one if all(name in side.columns for side in sides)):
        of_a, of_b = (side[name].map_elements(value_text, pl.String) for side in sides)
        if other := int((of_a != of_b).sum()):
            said.append(
                f"--by {name}: A and B have different values of it for {other:,} of {asked.height:,} questions; those "
                "of A are used"
            )
    return said


def effects_by(pairs: pl.DataFrame, questions: pl.DataFrame, by: Sequence[By]) -> dict[str, pl.DataFrame]:
    """For each entry of `by` a table with a row for each strategy and value, of the paired difference. A factor that is
    called like another column is the column `NAME (factor)`. Raises ConfigError where no question has a value."""
    apart = inner_names(name for one in by for name in one)
    known = questions.select("item", *(pl.col(name).alias(own) for name, own in apart.items()))
    joined = pairs.join(known, on="item", how="left", maintain_order="left")
    made: dict[str, pl.DataFrame] = {}
    for one in by:
        owns = [apart[name] for name in one]
        arms = joined.drop_nulls(owns).group_by("strategy", maintain_order=True)
        records = [record for _, part in arms for record in _effects(part, owns)]
        if not records:
            raise ConfigError(f"--by {','.join(one)}: no question that both were asked has a value of it")
        frame = records_frame(records)
        taken = {*frame.columns, *RESERVED_NAMES}
        titles = {own: f"{name} (factor)" if name in taken else name for own, name in zip(owns, one, strict=True)}
        made[name_of(one, made)] = frame.rename(titles)
    return made


def records_frame(records: Sequence[Record]) -> pl.DataFrame:
    """The records as a table, in which what is undefined or infinite is null."""
    return drop_undefined(pl.DataFrame(records, infer_schema_length=None))


def _effects(pairs: pl.DataFrame, owns: Sequence[str]) -> list[Record]:
    """The rows of one strategy, in the order of the values, tested together."""
    staged = "stage" if pairs["stage"].null_count() == 0 else None
    found: list[Record] = []
    for place, (key, part) in enumerate(split_by(pairs, owns)):
        named = {"strategy": part["strategy"][0], **{name: value_text(value) for name, value in key.items()}}
        found.append({**named, _CELL: str(place), **contrast(part, staged)})
    rows = adjust_family(found, [row[_CELL] for row in found], _CELL, CLASS_WORDS, "stage" if staged else "task")
    return [{name: value for name, value in row.items() if name != _CELL} for row in rows]


def clear_effects(tables: Mapping[str, pl.DataFrame]) -> list[str]:
    """A sentence for each table and strategy: which values clearly differ between the two sides, if any."""
    said = []
    for frame in tables.values():
        names = factor_columns(frame)
        for (strategy,), part in frame.group_by("strategy", maintain_order=True):
            shown = part.filter(pl.col("verdict").cast(pl.String).str.starts_with("B "))
            values = [f"{', '.join(map(str, row[:-1]))} ({row[-1]})" for row in shown.select(*names, "verdict").rows()]
            text = f"by {' and '.join(names)}: {'; '.join(values) or 'no single value is shown to differ'}"
            said.append(f"{strategy}: {text}." if strategy else f"{text}.")
    return said


def factor_columns(frame: pl.DataFrame) -> list[str]:
    return frame.columns[1 : frame.columns.index("risk_difference")]


CHANGES = "changes"  # Name of the table
HARMFUL, BENEFICIAL, CHURN = "harmful", "beneficial", "churn"
# The values of the column `change`.
OF_RIGHT, OF_WRONG, BOTH_WRONG = f"{HARMFUL} of right", f"{BENEFICIAL} of wrong", f"{CHURN} both wrong"


def answer_changes(pairs: pl.DataFrame, first: pl.DataFrame) -> pl.DataFrame:
    """What changed between the runs: for each strategy a row for every kind of change that there can have been. pairs:
    with `strategy` and B's `answer`. first: A's rows."""
    before = first.select("item", "strategy", pl.col("answer").alias("answer_a"))
    right, right_before = pl.col("correct"), pl.col("control")
    joined = pairs.join(before, on=["item", "strategy"], how="left", maintain_order="left").with_columns(
        lost=~right & right_before,
        gained=right & ~right_before,
        other=(_same("answer") != _same("answer_a")) & ~(right & right_before),
    )
    made: list[dict[str, Any]] = []
    for (strategy,), part in joined.group_by(["strategy"], maintain_order=True):
        known = part.filter(pl.col("answer").is_not_null() & pl.col("answer_a").is_not_null())
        for change, rows, column in (
            (HARMFUL, part, "lost"),
            (BENEFICIAL, part, "gained"),
            (OF_RIGHT, part.filter(right_before), "lost"),
            (OF_WRONG, part.filter(~right_before), "gained"),
            (CHURN, known, "other"),
            (BOTH_WRONG, known.filter(~right & ~right_before), "other"),
        ):
            if rows.height:
                found = designed_share(rows[column].cast(pl.Float64).to_numpy(), integer_codes(rows["cluster"]))
                counts = {"change": change, "changed": int(rows[column].sum()), "n": rows.height}
                share = {"share": found.estimate, "low": found.low, "high": found.high, "method": found.method}
                made.append({"strategy": strategy, **counts, **share})
    return pl.DataFrame(made, infer_schema_length=None)


def _same(name: str) -> pl.Expr:
    """An answer as it is compared: without regard to letter case and white space."""
    return pl.col(name).str.strip_chars().str.to_lowercase().str.replace_all(r"\s+", " ")
