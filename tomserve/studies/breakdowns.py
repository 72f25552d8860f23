"""Breakdowns of accuracy and effects by factors of the design, or by task and dimension of mind, counted file by file:
a counter looks at the rows of every file twice, once to know what there is, and once to count."""

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from tomserve.errors import ConfigError, one_of
from tomserve.items import RESERVED, RESERVED_BEGINNINGS
from tomserve.scoring.table import COLUMNS
from tomserve.stats.accuracy import correct_for_chance
from tomserve.stats.clustered import unmatched_effect
from tomserve.studies import answer_rows, baselines, contrasts
from tomserve.studies.answer_rows import BASELINE, REQUIRED, name_apart, prepare_rows, with_columns
from tomserve.studies.answer_rows import READ as PREPARED
from tomserve.studies.baselines import RuleKinds
from tomserve.studies.contrasts import Record, pair_rows
from tomserve.studies.phrases import PHRASES
from tomserve.studies.presentation import finite_or_none

# Gives the prepared rows (tomserve.studies.answer_rows) of every file, as often as it is called.
Rows = Callable[[], Iterable[pl.DataFrame]]
Key = tuple[Any, ...]
ARM = ("model", "strategy")


class Counter:
    """What `count_files` leads over files."""

    def first(self, rows: pl.DataFrame) -> None:
        """Look at the rows of a file."""

    def second(self, rows: pl.DataFrame, spanning: pl.Series) -> None:
        """Look at them again. spanning: the hashes of the names of clusters that lie in several files."""


def count_files(rows: Rows, counters: Sequence[Counter]) -> None:
    seen: list[pl.Series] = []
    for part in rows():
        seen.append(part["cluster"].unique().hash())
        for counter in counters:
            counter.first(part)
    hashes = pl.concat(seen) if seen else pl.Series(dtype=pl.UInt64)
    spanning = hashes.filter(hashes.is_duplicated()).unique() if len(seen) > 1 else hashes.clear()
    for part in rows():
        for counter in counters:
            counter.second(part, spanning)


class Tally(Counter):
    """Counts of answers by model, strategy and the values of some columns; rows without a value are left out. kinds:
    the rules whose best stands beside each share. effects: each strategy with vanilla ("baseline"), or with the one
    that asks for the answer alone ("within"). differences: keep the clusters of every cell, so that cells can be
    compared. guess: count the column floor_guess."""

    def __init__(
        self,
        by: tuple[str, ...],
        kinds: RuleKinds,
        *,
        effects: Literal["baseline", "within"] | None = None,
        differences: bool = False,
        guess: bool = False,
    ) -> None:
        self.by, self.kinds, self.guess = by, kinds, guess
        self.differences, self._effects = differences, effects
        self._keys = [*ARM, *by]
        self._rules: list[pl.DataFrame] = []
        self._best: dict[Key, Record] | None = None
        self._totals: list[pl.DataFrame] = []
        self._open: list[pl.DataFrame] = []
        self._cells: list[pl.DataFrame] = []
        self._guesses: list[pl.DataFrame] = []
        self._beside: dict[Key, list[pl.DataFrame]] = {}
        self._pairs: dict[Key, list[pl.DataFrame]] = {}

    def first(self, rows: pl.DataFrame) -> None:
        """Count how many answers of each cell every rule has right."""
        if self.kinds.columns:
            self._rules.append(self._with_values(rows).group_by(self._keys).agg(baselines.rule_sums(self.kinds)))

    def second(self, rows: pl.DataFrame, spanning: pl.Series) -> None:
        """Count the answers of each cell and cluster."""
        rows = self._with_values(rows)
        if rows.is_empty():
            return
        sums = contrasts.sums_of_answers(rows, self._keys)
        apart = sums["cluster"].hash().is_in(spanning.implode()) if spanning.len() else None
        if apart is not None:
            self._open.append(sums.filter(apart))
        self._totals.append(_totals(sums if apart is None else sums.filter(~apart), self._keys))
        if self.differences:
            self._cells.append(sums)
        if self.guess:
            self._guesses.append(rows.group_by(*self._keys, "floor_guess").len())
        if self.kinds.columns:
            self._count_beside(rows)
        if self._effects is not None:
            for key, pairs in _pairs(rows, self.by, self._effects):
                self._pairs.setdefault(key, []).append(pairs)

    def _with_values(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.drop_nulls(list(self.by)) if self.by else rows

    def _count_beside(self, rows: pl.DataFrame) -> None:
        for key, part in rows.group_by(self._keys, maintain_order=True):
            if (best := self.best(key)) is not None:
                found = contrasts.sums_of_pairs(baselines.pair_with_rule(part, pl.col(best["column"])))
                self._beside.setdefault(key, []).append(found)

    def best(self, key: Key) -> Record | None:
        """The best rule of a cell; None where no rule says anything of it."""
        if self._best is None:
            self._best = {}
            for row in _add_frames(self._rules, self._keys).iter_rows(named=True) if self._rules else ():
                if ranked := baselines.rank_rules(row, self.kinds.by_column):
                    self._best[tuple(row[name] for name in self._keys)] = ranked[0]
        return self._best.get(key)

    def cells(self) -> pl.DataFrame:
        """The totals of all cells, sorted by keys: answers, right, failed, unread, clusters and contrasts.SQUARES."""
        whole = list(self._totals)
        if self._open:
            whole.append(_totals(contrasts.add_sums(self._open), self._keys))
        return _add_frames(whole, self._keys) if whole else pl.DataFrame()

    def clusters(self) -> pl.DataFrame:
        """The sums of all cells by cluster (contrasts.sums_of_answers), where `differences` are wanted."""
        return contrasts.add_sums(self._cells) if self._cells else pl.DataFrame()

    def shares(self, intervals: str = "recommended", *, brief: bool = False) -> Iterator[tuple[Key, Record]]:
        """For each cell its key and what baselines.accuracy says of its rows, with `chance` where guesses are counted.
        brief: without the interval of the difference to the best rule."""
        chances = _chances(self._guesses, self._keys) if self._guesses else {}
        for row in self.cells().iter_rows(named=True):
            key = tuple(row[name] for name in self._keys)
            found = baselines.share_by_intervals(row, intervals)
            if intervals in ("recommended", baselines.EFFECTIVE):
                sums = self._beside.get(key)
                found |= baselines.rule_columns_of_sums(
                    self.best(key), contrasts.add_sums(sums) if sums and not brief else None, brief
                )
            yield key, {**found, **({"chance": chances.get(key)} if self.guess else {})}

    def effects(self) -> Iterator[Record]:
        """The records of contrasts.prompting_effects, with "within" without a baseline."""
        names = ["model", *self.by]
        cells = self.cells()
        for key, part in cells.group_by(names, maintain_order=True) if cells.height else ():
            asked = part["strategy"].to_list()
            for treatment, controls in contrasts.controls_of(asked, BASELINE if self._effects != "within" else None):
                for control in controls:
                    if (found := self._pairs.get((*key, treatment, control))) is not None:
                        named = dict(zip(names, key, strict=True)) | {"treatment": treatment, "control": control}
                        yield {**named, **contrasts.contrast(contrasts.add_sums(found))}
                        break


class RuleCounter(Counter):
    """Counts how many questions of a model each rule has right, of which each counts once, whatever it was asked by."""

    def __init__(self, kinds: RuleKinds) -> None:
        self.kinds = kinds
        self._rules: list[pl.DataFrame] = []

    def first(self, rows: pl.DataFrame) -> None:
        if self.kinds.columns:
            read = rows.select("model", "item", *self.kinds.columns)
            once = read.unique(["model", "item"], keep="first", maintain_order=True)
            self._rules.append(once.group_by("model").agg(baselines.rule_sums(self.kinds)))

    def records(self) -> Iterator[Record]:
        """The records of baselines.TABLE by model."""
        if self._rules:
            yield from baselines.records_of_counts(_add_frames(self._rules, ["model"]), ["model"], self.kinds)


def _add_frames(frames: Sequence[pl.DataFrame], keys: Sequence[str]) -> pl.DataFrame:
    return pl.concat(frames).group_by(keys).agg(pl.all().sum()).sort(keys)


def _totals(sums: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    counted = contrasts.counts_of(sums)
    clusters = pl.len().cast(pl.Int64).alias("clusters")
    return sums.group_by(keys).agg(pl.col(counted).sum(), clusters, *contrasts.square_sums())


def _chances(guesses: Sequence[pl.DataFrame], keys: Sequence[str]) -> Mapping[Key, float | None]:
    """By cell the mean of floor_guess, added up in the order of its values, so that it is the same for any files."""
    whole = pl.concat(guesses).drop_nulls("floor_guess").group_by(*keys, "floor_guess").agg(pl.col("len").sum())
    found = {}
    for key, part in whole.sort(*keys, "floor_guess").group_by(keys, maintain_order=True):
        found[key] = float((part["floor_guess"] * part["len"]).sum()) / int(part["len"].sum())
    return found


def _pairs(rows: pl.DataFrame, by: Sequence[str], effects: str) -> Iterator[tuple[Key, pl.DataFrame]]:
    """By cell, treatment and control the sums of their pairs, for every control that may be wanted in the end."""
    for key, part in rows.group_by("model", *by, maintain_order=True):
        arms = {str(name): arm for (name,), arm in part.group_by("strategy", maintain_order=True)}
        plain = [
            name for name in arms if (name == BASELINE if effects == "baseline" else not answer_rows.reasons(name))
        ]
        for treatment, treated in arms.items():
            for control in plain:
                if control == treatment:
                    continue
                pairs = pair_rows(treated, arms[control])
                if pairs.height:
                    yield (*key, treatment, control), contrasts.sums_of_pairs(pairs)


By = tuple[str, ...]  # The names of one factor, or of several that are crossed
MOST = 12  # How many values a factor has at most that is looked at without having been asked for, and that is drawn
# How many values a factor may have at most that is asked for, such as 57 subjects of an exam: with more it is a name or
# a measurement rather than a condition.
TABLED_VALUES = 100
CELLS = 400  # How many combinations of values of crossed factors may have been asked at most
# The way to count that takes questions as independent; any other that a study has gives intervals over clusters.
PLAIN = "published"
GUESS = "floor_guess"  # The column with what a blind guess has right of a question, where a score table says it
ITEMS = "benchmark"  # A column that is no factor of the items, and by which they can be told apart all the same
CHANCE = "; chance: what a blind guess gets right"
_SHARES = "correct total accuracy ci_low ci_high chance best_rule best_rule_accuracy unread"
_EFFECT = "control share_treated share_control risk_difference rd_low rd_high p gained lost noise_high"
_DIFFERENCE = "compared_with share_treated share_control risk_difference rd_low rd_high p units pairing"
# The column that stands first behind the model, the strategy and the values of factors, in each kind of table.
AFTER = ("correct", "control", "compared_with")
# What no column of a factor is called in these tables, even where a table lacks the column that is called so.
TABLE_COLUMNS = frozenset(
    (*AFTER, "treatment", "estimate", "minus_vanilla", *f"{_SHARES} {_EFFECT} {_DIFFERENCE}".split())
)


def find_factors(scores: pl.DataFrame) -> list[str]:
    """The factors of a score table's items, and `benchmark` where it has several."""
    taken = {*COLUMNS, *RESERVED}
    nested = {name for name, kind in scores.schema.items() if kind.is_nested()}
    own = [
        name
        for name in scores.columns
        if name not in taken and name not in nested and not name.startswith(RESERVED_BEGINNINGS)
    ]
    several = ITEMS in scores.columns and scores[ITEMS].n_unique() > 1
    return [*([ITEMS] if several else []), *own]


def parse_factors(given: Sequence[str], scores: pl.DataFrame) -> list[By]:
    """The factors that texts such as "kind" and "kind,order" name, each once. Raises ConfigError for an unknown factor,
    one with more than TABLED_VALUES values, and crossed factors with more than CELLS combinations."""
    known = find_factors(scores)
    found: dict[By, None] = {}
    for text in given:
        names = (text,) if text in known else tuple(dict.fromkeys(name.strip() for name in text.split(",")))
        for name in names:
            if name not in known:
                listed = one_of("factor", name, known) if known else f"unknown factor {name!r}; the questions have none"
                raise ConfigError(f"--by {text}: {listed}")
            if (count := scores[name].drop_nulls().n_unique()) > TABLED_VALUES:
                raise ConfigError(
                    f"--by {text}: factor {name!r} has {count:,} values; at most {TABLED_VALUES} can be set side by "
                    "side. Write a factor of fewer values into the items, such as ranges of this one, or count the "
                    "score table yourself (tomserve score RUN --out FILE)"
                )
        if (count := scores.select(names).drop_nulls().unique().height) > CELLS:
            raise ConfigError(
                f"--by {text}: these factors have {count:,} combinations of values; at most {CELLS} can be shown. "
                "Cross fewer factors, or give them one by one (--by A --by B)"
            )
        found[names] = None
    return list(found)


def factor_rows(scores: pl.LazyFrame, names: Iterable[str], kinds: baselines.RuleKinds) -> pl.DataFrame:
    """The prepared rows of a score table with these factors, under the names that `inner_names` gives them."""
    apart = inner_names(names)
    guess = {GUESS: pl.Float64} if GUESS in scores.collect_schema() else {}
    every = scores.with_columns(pl.col(name).alias(own) for name, own in apart.items())
    every = name_apart(every, ("item", "cluster"))
    return prepare_rows(every, (*REQUIRED, *kinds.columns, *apart.values()), guess).collect()


def count_by_factors(
    rows: Rows,
    by: Sequence[By],
    intervals: str,
    kinds: baselines.RuleKinds,
    *,
    guess: bool,
    taken: Collection[str] = (),
) -> dict[str, pl.DataFrame]:
    """For each entry of `by` the table of shares and, with recommended intervals, of effects and of differences.

    rows: of every file, as `factor_rows` gives them for all names in `by`, in this order. intervals: the way to count.
    guess: whether they have the column GUESS. taken: names of tables that the new ones must not have. Values of factors
    are text, in the order of the numbers where they are numbers; rows without a value are left out. A factor that is
    called like another column of these tables, such as `accuracy`, is the column `accuracy (factor)`."""
    apart, plain = inner_names(name for one in by for name in one), intervals == PLAIN
    owns = [tuple(apart[name] for name in one) for one in by]
    tallies = [
        Tally(own, kinds, effects=None if plain else "within", differences=not plain, guess=guess) for own in owns
    ]
    count_files(rows, tallies)
    made: dict[str, pl.DataFrame] = {}
    way = intervals if plain or intervals == baselines.EFFECTIVE else "recommended"  # a study may have others
    for one, own, tally in zip(by, owns, tallies, strict=True):
        about = table_name(one, {*taken, *made})
        listed = {about: list(_shares(tally, way))}
        if not plain:
            listed |= {f"effects_{about}": [_texts(record, own) for record in tally.effects()]}
            listed |= {f"differences_{about}": list(_differences(tally.clusters(), own))}
        frames = {name: pl.DataFrame(records, infer_schema_length=None) for name, records in listed.items() if records}
        frames = {name: baselines.drop_rule_columns(frame, kinds) for name, frame in frames.items()}
        columns = {name for frame in frames.values() for name in frame.columns} | TABLE_COLUMNS
        titles = {
            inside: f"{name} (factor)" if name in columns else name for inside, name in zip(own, one, strict=True)
        }
        made |= {name: frame.fill_nan(None).rename(titles, strict=False) for name, frame in frames.items()}
    return made


def inner_names(names: Iterable[str]) -> dict[str, str]:
    """By factor the name of its column while it is counted, since a factor may be called like a column that counting
    makes."""
    return {name: f"factor {place}" for place, name in enumerate(dict.fromkeys(names))}


def factor_notes(made: Mapping[str, pl.DataFrame], intervals: str) -> dict[str, str]:
    """What each table of `count_by_factors` means, by its name."""
    own = PHRASES.get(f"by_factor_{intervals}", PHRASES["by_factor"])
    said = {"by": own, **{kind: PHRASES[f"by_factor_{kind}"] for kind in ("effects", "differences")}}
    found = {name: said[name.partition("_")[0]] for name in made}
    open_ = {name for name, frame in made.items() if "chance" in frame.columns and frame["chance"].is_null().all()}
    guessed = f" {PHRASES['about_guess']}"
    return {name: text.replace(guessed, "") if name in open_ else text for name, text in found.items()}


def left_out_lines(tables: Sequence[pl.LazyFrame], by: Sequence[By]) -> list[str]:
    """A sentence for each entry of `by` that questions of the tables have no value of, so that they are in no row."""
    every, found = _questions(tables, ()), []
    for one in by:
        if without := every - _questions(tables, one):
            found.append(
                f"--by {','.join(one)}: {without:,} of {every:,} questions have no value of it and are left out"
            )
    return found


def _questions(tables: Sequence[pl.LazyFrame], having: Sequence[str]) -> int:
    key = [name for name in (ITEMS, "item") if name in tables[0].collect_schema()]
    names = list(dict.fromkeys((*key, *having)))
    asked = pl.struct(key).hash().unique().alias("item")
    known = [table.select(names).drop_nulls(list(having)).select(asked) for table in tables]
    return pl.concat([one.collect(engine="streaming") for one in known])["item"].n_unique()


def factor_excerpt(name: str, frame: pl.DataFrame) -> tuple[str, pl.DataFrame, str]:
    """The title, the columns and the reading with which the terminal shows a table of `count_by_factors`."""
    kind = name.partition("_")[0]
    columns = {"by": _SHARES, "effects": _EFFECT, "differences": _DIFFERENCE}[kind].split()
    first = dict(zip(("by", "effects", "differences"), AFTER, strict=True))[kind]
    keys = frame.columns[: frame.columns.index(first)]
    there = [column for column in columns if column in frame.columns and not frame[column].is_null().all()]
    about = ", ".join(key for key in keys if key not in ("model", "strategy", "treatment"))
    title = {
        "by": f"by {about}: how much is right",
        "effects": f"by {about}: each strategy's share right minus that of the answer alone, on the same questions",
        "differences": f"by {about}: the share right minus that of the value it is compared with",
    }[kind]
    reading = PHRASES[{"by": "by_factor_read", "effects": "by_factor_effects_read"}.get(kind, f"by_factor_{kind}")]
    if kind == "by":
        reading += f"{CHANCE * ('chance' in there)}."
    return title, frame.select(*keys, *there), reading


def table_name(one: By, taken: Collection[str]) -> str:
    """A name for the tables of these factors that is also the name of a file, and that no other table has."""
    base = "by_" + "_".join(re.sub(r"\W+", "_", name).strip("_").lower()[:60] or "factor" for name in one)
    for number in itertools.count(2):
        if base not in taken:
            break
        base = f"{base.rstrip('0123456789').rstrip('_')}_{number}"
    return base


def value_text(value: object) -> str:
    """One value as tables show it; two values never have one text, since they would be counted as one."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _texts(record: Record, names: Sequence[str]) -> Record:
    return {**record, **{name: value_text(record[name]) for name in names}}


def _shares(tally: Tally, intervals: str) -> Iterator[Record]:
    for key, found in tally.shares(intervals):
        named = _texts(dict(zip((*ARM, *tally.by), key, strict=True)), tally.by)
        first = {name: found.pop(name) for name in ("correct", "total", "accuracy", "ci_low", "ci_high")}
        yield {**named, **first, "chance": found.pop("chance", None), **found}


def _differences(sums: pl.DataFrame, one: By) -> Iterator[Record]:
    """Each value of the first factor against the first of its values, at every value of the others."""
    name, *rest = one
    names = (*ARM, *rest)
    for key, part in sums.group_by(names, maintain_order=True) if sums.height else ():
        first, *others = part[name].unique(maintain_order=True).to_list()
        for value in others:
            found = _difference(part.filter(pl.col(name).is_in([first, value])), name, value)
            named = dict(zip(names, key, strict=True)) | {name: value, "compared_with": first}
            yield {**_texts(named, (*one, "compared_with")), **found}


def _difference(sums: pl.DataFrame, name: str, value: object) -> Record:
    """The difference between two values: within clusters where half of those of the rarer value hold both."""
    treated = sums[name] == value
    sides = [part["cluster"] for part in (sums.filter(treated), sums.filter(~treated))]
    if 2 * sides[0].is_in(sides[1].implode()).sum() >= min(map(len, sides)):
        found = contrasts.matched_contrast(sums, treated, stratum="cluster")
        shown = ("risk_difference", "rd_low", "rd_high", "share_treated", "share_control", "p", "units", "method")
        return {**{one: found[one] for one in shown}, "pairing": "within clusters",
                **{one: found[one] for one in ("noise", "noise_high")}}  # fmt: skip
    answers = sums["answers"].to_numpy()
    effect = unmatched_effect(sums["right"].to_numpy() / answers, treated.cast(pl.Int64).to_numpy(), answers)
    return {
        **{"risk_difference": effect.estimate, "rd_low": effect.low, "rd_high": effect.high},
        **{"share_treated": effect.share_treated, "share_control": effect.share_control, "p": effect.p},
        **{"units": effect.units, "method": effect.method, "pairing": "between clusters"},
    }


# The dimensions in the order of the tables; others follow by their names.
DIMENSIONS = ("belief", "desire", "intention", "emotion", "action", "knowledge")
# Dimensions of questions about the world and the story, whose answers need nobody's mind: they are shown, and not
# counted in B.
WORLD = ("reality", "memory", "fact")
MACRO = "mean of {} benchmarks"  # What stands in the column `benchmark` of a mean over benchmarks
UNKNOWN = "not said"  # The task and the dimension of items that do not say theirs
# Factors that place a question, and what a guess scores; a table may lack any of them.
FACTORS: Mapping[str, Any] = {
    **dict.fromkeys(("benchmark", "task", "dimension", "question_kind", "answer_role"), pl.String),
    **dict.fromkeys(("belief_is_false", "usable"), pl.Boolean),
    **dict.fromkeys(("order", "options"), pl.Int64),
    "floor_guess": pl.Float64,
}

# Every column of a score table that decides what is counted here and how; rules stand beside it and decide nothing.
READ = (*PREPARED, *FACTORS)
STAGES = ("perturbed", "perturbed-2", "bundles")
NESTED = "hitom"  # Benchmarks whose items have neither task nor dimension


@dataclass(frozen=True)
class TaskRows:
    """The rows; the kinds of the rules beside them; and how many rows are left out as unusable, by benchmark."""

    rows: pl.DataFrame
    kinds: baselines.RuleKinds
    unusable: Mapping[str, int]


def task_rows(scores: pl.LazyFrame) -> TaskRows:
    """The rows of a score table with `benchmark`, `task`, `dimension` (none of them null), `chance` (what a guess among
    the question's own choices scores, null where nobody knows) and `mind` (whether the question is counted in B)."""
    kinds = baselines.RuleKinds.of(scores)
    typed = with_columns(scores, FACTORS, strict=False)
    rows = prepare_rows(typed, (*REQUIRED, *FACTORS, *kinds.columns)).with_columns(*_place_columns()).collect()
    usable = rows["usable"].fill_null(True)
    left = rows.filter(~usable).group_by("benchmark").len().sort("benchmark")
    guess = pl.coalesce("floor_guess", 1 / pl.col("options"))
    kept = rows.filter(usable).with_columns(
        chance=pl.when(guess.is_between(0, 1, closed="left")).then(guess), mind=~pl.col("dimension").is_in(WORLD)
    )
    return TaskRows(kept, kinds, dict(left.iter_rows()))


def _place_columns() -> tuple[pl.Expr, ...]:
    """Where each question belongs, from its factors."""
    stage = pl.col("benchmark").is_in(STAGES)
    nested = (pl.col("benchmark") == NESTED) & pl.col("order").is_not_null()
    world = (stage & (pl.col("question_kind") == "reality")) | (nested & (pl.col("order") == 0))
    belief = (
        pl.when(pl.col("belief_is_false"))
        .then(pl.lit("false_belief"))
        .when(pl.col("answer_role") == "unknown")
        .then(pl.lit("no_belief"))
        .otherwise(pl.lit("true_belief"))
    )
    task = (
        pl.when(world)
        .then(pl.lit("reality"))
        .when(stage)
        .then(belief)
        .when(nested)
        .then(pl.format("order_{}", "order"))
        .otherwise(pl.lit(UNKNOWN))
    )
    dimension = pl.when(world).then(pl.lit("reality")).when(stage | nested).then(pl.lit("belief"))
    return (
        pl.col("benchmark").fill_null("items"),
        pl.coalesce("task", task).alias("task"),
        pl.coalesce("dimension", dimension, pl.lit(UNKNOWN)).alias("dimension"),
    )


def corrected_share(part: pl.DataFrame, kinds: baselines.RuleKinds, intervals: str) -> Record:
    """The share right of some of these rows with its interval, chance and, unless intervals are as published, the share
    corrected for chance."""
    found = baselines.accuracy(part, kinds, intervals, brief=True)
    chance = None if part["chance"].null_count() else float(part["chance"].mean())  # type: ignore[arg-type]
    record: Record = {name: found[name] for name in ("correct", "total", "accuracy", "ci_low", "ci_high")}
    record["chance"] = chance
    if intervals != "published":
        for name, share in (("corrected", "accuracy"), ("corrected_low", "ci_low"), ("corrected_high", "ci_high")):
            record[name] = None if chance is None else finite_or_none(correct_for_chance(float(found[share]), chance))
    return {**record, "unread": found["unread"]}


def is_mean(benchmark: object) -> bool:
    return str(benchmark).startswith(MACRO.partition("{")[0])


def order_dimensions(names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: (DIMENSIONS.index(name) if name in DIMENSIONS else len(DIMENSIONS), name))
