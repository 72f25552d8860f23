"""Accuracy, effects and differences by any factor of the design, beside the tables of any study.

A factor is a column of the score table that describes the question, such as `kind`. Several factors that are named
together are crossed: each combination of their values that was asked is a row.

>>> rows = {"model": "m", "strategy": "vanilla", "item": ["a", "b"], "status": "ok", "correct": [True, False],
...         "kind": ["near", "far"], "turn": [1, 2]}
>>> scores = pl.DataFrame(rows)
>>> wanted(["kind", "kind,turn"], scores)
[('kind',), ('kind', 'turn')]
>>> tables(scores, [("kind",)], "recommended")["by_kind"].select("kind", "correct", "total").rows()
[('far', 0, 1), ('near', 1, 1)]
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import polars as pl

from tomserve.errors import ConfigError, one_of
from tomserve.items import RESERVED, RESERVED_BEGINNINGS
from tomserve.scoring.table import COLUMNS
from tomserve.stats.clustered import unmatched_means
from tomserve.studies import baselines, ruled, summed
from tomserve.studies.counting import ARM, Rows, Tally, take
from tomserve.studies.rows import REQUIRED, prepared
from tomserve.studies.summed import Record
from tomserve.studies.words import ABOUT_EFFECT, ABOUT_TESTS

By = tuple[str, ...]
"""The names of one factor, or of several that are crossed."""

MOST = 12
"""How many values a factor has at most that is looked at without having been asked for, and that is drawn."""

TABLED = 100
"""How many values a factor may have at most that is asked for, such as 57 subjects of an exam: with more it is a name
or a measurement rather than a condition."""

CELLS = 400
"""How many combinations of values of crossed factors may have been asked at most."""

PLAIN = "published"
"""The way to count that takes questions as independent; any other that a study has gives intervals over clusters."""

GUESS = "floor_guess"
"""The column with what a blind guess has right of a question, where a score table says it."""

ITEMS = "benchmark"
"""A column that is no factor of the items, and by which they can be told apart all the same."""

GUESSED = "chance is what a blind guess among the choices of these questions gets right."
NOTE = (
    "The share of right answers for each value of the factor (of crossed factors, for each combination of values that "
    "was asked), with its 95% interval, which counts clusters (stories, tasks), not questions. A failure counts as "
    f"wrong. {GUESSED} {baselines.ABOUT}"
)
EFFECTIVE = NOTE.replace("which counts clusters (stories, tasks), not questions.", baselines.ABOUT_EFFECTIVE)
PUBLISHED = (
    "The share of right answers for each value of the factor; its 95% interval takes the questions as independent of "
    f"each other: (k + 2)/(n + 4) with the normal distribution. {GUESSED}"
)
EFFECTS = (
    "Each strategy against the one that asks for the answer alone (control), on the same questions, for each value of "
    "the factor. "
    f"{ABOUT_EFFECT} {ABOUT_TESTS} The rows are many tests, whose p values are not adjusted for that."
)
DIFFERENCES = (
    "Within a strategy, the share right of the questions with this value (share_treated) minus that of the questions "
    "with the value it is compared with (compared_with, share_control), with its 95% interval. Where at least half "
    "of the clusters (stories, tasks) of the rarer value hold questions of both, the two are compared within these "
    "clusters (pairing: within clusters), and both shares are means over them; else all clusters of the one with all "
    "of the other (between clusters), and other stories may be part of the difference. Of crossed factors the first is "
    "compared, for each value of the others. The rows are many tests, whose p values are not adjusted for that."
)
READING = (
    "accuracy: correct of total, failures counted as wrong; ci_low and ci_high: the ends of its 95% interval over "
    "stories or tasks"
)
CHANCE = "; chance: what a blind guess gets right"
EFFECTS_READING = (
    "risk_difference: the strategy's share right minus that of the strategy that asks for the answer alone, with its "
    "95% interval (rd_low to rd_high); p is at most .05 exactly where that does not hold 0. Many tests stand here, "
    "which are not adjusted for that."
)
_SHARES = "correct total accuracy ci_low ci_high chance best_rule best_rule_accuracy unread"
_EFFECT = "control share_treated share_control risk_difference rd_low rd_high p gained lost noise_high"
_DIFFERENCE = "compared_with share_treated share_control risk_difference rd_low rd_high p units pairing"


AFTER = ("correct", "control", "compared_with")
"""The column that stands first behind the model, the strategy and the values of factors, in each kind of table."""


TAKEN = frozenset((*AFTER, "treatment", "estimate", "minus_vanilla", *f"{_SHARES} {_EFFECT} {_DIFFERENCE}".split()))
"""What no column of a factor is called in these tables, even where a table lacks the column that is called so."""


def factors(scores: pl.DataFrame) -> list[str]:
    """The columns of a score table by which answers can be told apart: the factors of its items, and `benchmark` where
    it has several."""
    taken = {*COLUMNS, *RESERVED}
    nested = {name for name, kind in scores.schema.items() if kind.is_nested()}
    own = [
        name
        for name in scores.columns
        if name not in taken and name not in nested and not name.startswith(RESERVED_BEGINNINGS)
    ]
    several = ITEMS in scores.columns and scores[ITEMS].n_unique() > 1
    return [*([ITEMS] if several else []), *own]


def wanted(given: Sequence[str], scores: pl.DataFrame) -> list[By]:
    """The factors that texts such as "kind" and "kind,order" name, each once.

    Raises ConfigError for an unknown factor, with those there are, for a factor with more than TABLED values, and for
    crossed factors with more than CELLS combinations.
    """
    known = factors(scores)
    found: dict[By, None] = {}
    for text in given:
        names = (text,) if text in known else tuple(dict.fromkeys(name.strip() for name in text.split(",")))
        for name in names:
            if name not in known:
                listed = one_of("factor", name, known) if known else f"unknown factor {name!r}; the questions have none"
                raise ConfigError(f"--by {text}: {listed}")
            if (count := scores[name].drop_nulls().n_unique()) > TABLED:
                raise ConfigError(
                    f"--by {text}: factor {name!r} has {count:,} values; at most {TABLED} can be set side by side. "
                    "Write a factor of fewer values into the items, such as ranges of this one, or count the score "
                    "table yourself (tomserve score RUN --out FILE)"
                )
        if (count := scores.select(names).drop_nulls().unique().height) > CELLS:
            raise ConfigError(
                f"--by {text}: these factors have {count:,} combinations of values; at most {CELLS} can be shown. "
                "Cross fewer factors, or give them one by one (--by A --by B)"
            )
        found[names] = None
    return list(found)


def tables(
    scores: pl.DataFrame, by: Sequence[By], intervals: str, taken: Collection[str] = ()
) -> dict[str, pl.DataFrame]:
    """For each entry of `by` the table of shares and, with recommended intervals, of effects and of differences.

    scores: a score table. by: as `wanted` gives it. intervals: the way to count. taken: names of tables that the
    new ones must not have. The values of factors are text, in the order of the numbers where they are numbers; rows
    without a value are left out. A factor that is called like another column of these tables, such as `accuracy`, is
    the column `accuracy (factor)`.
    """
    every = scores.lazy()
    kinds, guess = baselines.Kinds.of(every), GUESS in scores.columns
    rows = rows_of(every, [name for one in by for name in one], kinds)
    return counted(lambda: [rows], by, intervals, kinds, guess=guess, taken=taken)


def rows_of(scores: pl.LazyFrame, names: Iterable[str], kinds: baselines.Kinds) -> pl.DataFrame:
    """The prepared rows of a score table with these factors, under the names that `inner` gives them."""
    apart = inner(names)
    guess = {GUESS: pl.Float64} if GUESS in scores.collect_schema() else {}
    every = scores.with_columns(pl.col(name).alias(own) for name, own in apart.items())
    return prepared(every, (*REQUIRED, *kinds.columns, *apart.values()), guess).collect()


def counted(
    rows: Rows,
    by: Sequence[By],
    intervals: str,
    kinds: baselines.Kinds,
    *,
    guess: bool,
    taken: Collection[str] = (),
) -> dict[str, pl.DataFrame]:
    """The tables of `tables`, counted file by file (see tomserve.studies.counting).

    rows: the rows of every file, as `rows_of` gives them for all names in `by`, in this order. guess: whether they have
    the column GUESS.
    """
    apart, plain = inner(name for one in by for name in one), intervals == PLAIN
    owns = [tuple(apart[name] for name in one) for one in by]
    tallies = [
        Tally(own, kinds, effects=None if plain else "within", differences=not plain, guess=guess) for own in owns
    ]
    take(rows, tallies)
    made: dict[str, pl.DataFrame] = {}
    for one, own, tally in zip(by, owns, tallies, strict=True):
        about = called(one, {*taken, *made})
        listed = {about: list(_shares(tally, _way(intervals)))}
        if not plain:
            listed |= {f"effects_{about}": [_texts(record, own) for record in tally.effects()]}
            listed |= {f"differences_{about}": list(_differences(tally.clusters(), own))}
        frames = {name: pl.DataFrame(records, infer_schema_length=None) for name, records in listed.items() if records}
        frames = {name: baselines.dropped(frame, kinds) for name, frame in frames.items()}
        columns = {name for frame in frames.values() for name in frame.columns} | TAKEN
        titles = {
            inside: f"{name} (factor)" if name in columns else name for inside, name in zip(own, one, strict=True)
        }
        made |= {name: frame.fill_nan(None).rename(titles, strict=False) for name, frame in frames.items()}
    return made


def inner(names: Iterable[str]) -> dict[str, str]:
    """By factor the name of its column while it is counted: a factor may be called like a column that counting makes,
    such as `faulty` or `accuracy`."""
    return {name: f"factor {place}" for place, name in enumerate(dict.fromkeys(names))}


def notes(made: Mapping[str, pl.DataFrame], intervals: str) -> dict[str, str]:
    """What each table of `tables` means, by its name."""
    own = {PLAIN: PUBLISHED, ruled.EFFECTIVE: EFFECTIVE}.get(intervals, NOTE)
    said = {"by": own, "effects": EFFECTS, "differences": DIFFERENCES}
    found = {name: said[name.partition("_")[0]] for name in made}
    open_ = {name for name, frame in made.items() if "chance" in frame.columns and frame["chance"].is_null().all()}
    return {name: text.replace(f" {GUESSED}", "") if name in open_ else text for name, text in found.items()}


def left_out(scores: pl.DataFrame, by: Sequence[By]) -> list[str]:
    """A sentence for each entry of `by` that questions have no value of, so that they are in none of its rows."""
    every = scores["item"].n_unique()
    found = []
    for one in by:
        without = every - scores.drop_nulls(one)["item"].n_unique()
        if without:
            found.append(left_out_line(one, without, every))
    return found


def left_out_line(one: By, without: int, every: int) -> str:
    """The sentence of `left_out` on so many of all questions."""
    return f"--by {','.join(one)}: {without:,} of {every:,} questions have no value of it and are left out"


def shown(name: str, frame: pl.DataFrame) -> tuple[str, pl.DataFrame, str]:
    """The title, the columns and the reading with which the terminal shows a table of `tables`."""
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
    shares = f"{READING}{CHANCE * ('chance' in there)}."
    reading = {"by": shares, "effects": EFFECTS_READING, "differences": DIFFERENCES}[kind]
    return title, frame.select(*keys, *there), reading


def called(one: By, taken: Collection[str]) -> str:
    """A name for the tables of these factors that is also the name of a file, and that no other table has."""
    base = "by_" + "_".join(re.sub(r"\W+", "_", name).strip("_").lower()[:60] or "factor" for name in one)
    for number in itertools.count(2):
        if base not in taken:
            break
        base = f"{base.rstrip('0123456789').rstrip('_')}_{number}"
    return base


def text_of(value: object) -> str:
    """One value as tables show it: true and false in small letters, whole numbers without a point. Two values never
    have one text, since they would be counted as one."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _texts(record: Record, names: Sequence[str]) -> Record:
    """The record with the values of these factors as text."""
    return {**record, **{name: text_of(record[name]) for name in names}}


def _way(intervals: str) -> str:
    """How shares are counted by factors where a study counts by these `intervals`: it may have ways of its own."""
    return intervals if intervals in (PLAIN, ruled.EFFECTIVE) else "recommended"


def _shares(tally: Tally, intervals: str) -> Iterator[Record]:
    for key, found in tally.shares(intervals):
        named = _texts(dict(zip((*ARM, *tally.by), key, strict=True)), tally.by)
        first = {name: found.pop(name) for name in ("correct", "total", "accuracy", "ci_low", "ci_high")}
        yield {**named, **first, "chance": found.pop("chance", None), **found}


def _differences(sums: pl.DataFrame, one: By) -> Iterator[Record]:
    """Each value of the first factor against the first of its values, at every value of the others.

    sums: of all cells by cluster (Tally.clusters)."""
    name, *rest = one
    names = (*ARM, *rest)
    for key, part in sums.group_by(names, maintain_order=True) if sums.height else ():
        first, *others = part[name].unique(maintain_order=True).to_list()
        for value in others:
            found = _difference(part.filter(pl.col(name).is_in([first, value])), name, value)
            named = dict(zip(names, key, strict=True)) | {name: value, "compared_with": first}
            yield {**_texts(named, (*one, "compared_with")), **found}


def _difference(sums: pl.DataFrame, name: str, value: object) -> Record:
    """The difference between two values of a factor: within clusters where half of those of the rarer value hold both.

    Where fewer do, they are a handful of odd ones, which say little of the many that hold one value."""
    treated = sums[name] == value
    sides = [part["cluster"] for part in (sums.filter(treated), sums.filter(~treated))]
    if 2 * sides[0].is_in(sides[1].implode()).sum() >= min(map(len, sides)):
        found = summed.matched(sums, treated, "cluster")
        shown = ("risk_difference", "rd_low", "rd_high", "share_treated", "share_control", "p", "units", "method")
        return {**{one: found[one] for one in shown}, "pairing": "within clusters",
                **{one: found[one] for one in ("noise", "noise_high")}}  # fmt: skip
    answers = sums["answers"].to_numpy()
    effect = unmatched_means(sums["right"].to_numpy() / answers, treated.cast(pl.Int64).to_numpy(), answers)
    return {
        **{"risk_difference": effect.estimate, "rd_low": effect.low, "rd_high": effect.high},
        **{"share_treated": effect.share_treated, "share_control": effect.share_control, "p": effect.p},
        **{"units": effect.units, "method": effect.method, "pairing": "between clusters"},
    }
