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
from tomserve.scoring.tablefile import COLUMNS
from tomserve.stats.clustered import unmatched_effect
from tomserve.studies import baselines
from tomserve.studies.contrasts import Record, codes, effects_within, matched, share
from tomserve.studies.rows import REQUIRED, prepared
from tomserve.studies.words import ABOUT_EFFECT, ABOUT_TESTS, percent

By = tuple[str, ...]
"""The names of one factor, or of several that are crossed."""

MOST = 12
"""How many values a factor may have at most: with more it is a name or a measurement rather than a condition."""

CELLS = 144
"""How many combinations of values of crossed factors may have been asked at most."""

PLAIN = "published"
"""The way to count that takes questions as independent; any other that a study has gives intervals over clusters."""

ITEMS = "benchmark"
"""A column that is no factor of the items, and by which they can be told apart all the same."""

NOTE = (
    "The share of right answers for each value of the factor (of crossed factors, for each combination of values that "
    "was asked), with its 95% interval, which counts clusters (stories, tasks), not questions. A failure counts as "
    f"wrong. chance is what a blind guess among the choices of these questions gets right. {baselines.ABOUT}"
)
PUBLISHED = (
    "The share of right answers for each value of the factor; its 95% interval takes the questions as independent of "
    "each other: (k + 2)/(n + 4) with the normal distribution. chance is what a blind guess gets right."
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
    "stories or tasks; chance: what a blind guess gets right."
)
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

    Raises ConfigError for an unknown factor, with those there are, for a factor with more than MOST values, and for
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
            if (count := scores[name].drop_nulls().n_unique()) > MOST:
                raise ConfigError(
                    f"--by {text}: factor {name!r} has {count:,} values; at most {MOST} can be set side by side. Write "
                    "a factor of fewer values into the items, such as ranges of this one, or count the score table "
                    "yourself (tomserve score RUN --out FILE)"
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
    kinds = baselines.Kinds.of(scores.lazy())
    apart = inner(name for one in by for name in one)
    guess = {"floor_guess": pl.Float64} if "floor_guess" in scores.columns else {}
    every = scores.lazy().with_columns(pl.col(name).alias(own) for name, own in apart.items())
    rows = prepared(every, (*REQUIRED, *kinds.columns, *apart.values()), guess).collect()
    made: dict[str, pl.DataFrame] = {}
    for one in by:
        own = tuple(apart[name] for name in one)
        part = _valued(rows, own)
        about = _called(one, {*taken, *made})
        listed = {about: list(_shares(part, own, kinds, PLAIN if intervals == PLAIN else "recommended"))}
        if intervals != PLAIN:
            listed |= {f"effects_{about}": list(effects_within(part, own))}
            listed |= {f"differences_{about}": list(_differences(part, own))}
        frames = {name: pl.DataFrame(records, infer_schema_length=None) for name, records in listed.items() if records}
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
    said = {"by": PUBLISHED if intervals == PLAIN else NOTE, "effects": EFFECTS, "differences": DIFFERENCES}
    return {name: said[name.partition("_")[0]] for name in made}


def left_out(scores: pl.DataFrame, by: Sequence[By]) -> list[str]:
    """A sentence for each entry of `by` that questions have no value of, so that they are in none of its rows."""
    every = scores["item"].n_unique()
    found = []
    for one in by:
        without = every - scores.drop_nulls(one)["item"].n_unique()
        if without:
            found.append(
                f"--by {','.join(one)}: {without:,} of {every:,} questions have no value of it and are left out"
            )
    return found


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
    reading = {"by": READING, "effects": EFFECTS_READING, "differences": DIFFERENCES}[kind]
    return title, frame.select(*keys, *there), reading


WIDE = 0.3
"""How far apart the shares right of two values of a factor are before a reader of one share for all is told of it."""

TOLD = 3
"""How many factors a reader is told of at most."""


def spread(scores: pl.DataFrame) -> list[str]:
    """A sentence on the factors by whose values accuracy differs most, where one share for all questions would hide it;
    none where no two values differ clearly and by WIDE or more.

    scores: a score table.
    """
    names = [name for name in factors(scores) if 1 < scores[name].drop_nulls().n_unique() <= MOST]
    found: list[tuple[float, str]] = []
    apart = inner(names)
    every = scores.lazy().with_columns(pl.col(name).alias(own) for name, own in apart.items())
    rows = prepared(every, (*REQUIRED, *apart.values())).collect()
    for name, own in apart.items():
        widest: tuple[float, str] | None = None
        for _, arm in _keyed(rows, ("model", "strategy")):
            values = [(share(part), str(key[own])) for key, part in _keyed(_valued(arm, (own,)), (own,))]
            if not values:  # answers that came without this factor, as those of another source may
                continue
            low, high = (pick(values, key=lambda one: one[0]["accuracy"]) for pick in (min, max))
            gap = high[0]["accuracy"] - low[0]["accuracy"]
            if gap >= WIDE and low[0]["ci_high"] < high[0]["ci_low"] and (widest is None or gap > widest[0]):
                shares = (percent(low[0]["accuracy"]), low[1], percent(high[0]["accuracy"]), high[1])
                widest = gap, "{} (from {} where it is {} to {} where it is {})".format(name, *shares)
        if widest is not None:
            found.append(widest)
    told = [said for _, said in sorted(found, key=lambda one: -one[0])[:TOLD]]
    if not told:
        return []
    return [f"one share for all questions hides how far it differs by {'; '.join(told)}: --by FACTOR shows it"]


def _called(one: By, taken: Collection[str]) -> str:
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


def _valued(rows: pl.DataFrame, one: By) -> pl.DataFrame:
    """The rows that have a value of all these factors, sorted by them, with the values as text."""
    part = rows.drop_nulls(list(one)).sort("model", "strategy", *one, maintain_order=True)
    texts = [
        pl.col(name).map_elements(text_of, pl.String).alias(name) for name in one if part.schema[name] != pl.String
    ]
    return part.with_columns(texts)


def _keyed(rows: pl.DataFrame, names: Sequence[str]) -> Iterator[tuple[dict[str, object], pl.DataFrame]]:
    for key, part in rows.group_by(list(names), maintain_order=True):
        yield dict(zip(names, key, strict=True)), part


def _shares(rows: pl.DataFrame, one: By, kinds: baselines.Kinds, intervals: str) -> Iterator[Record]:
    for key, part in _keyed(rows, ("model", "strategy", *one)):
        chance = part["floor_guess"].mean() if "floor_guess" in part.columns else None
        found = baselines.accuracy(part, kinds, intervals)
        yield {**key, **{name: found.pop(name) for name in ("correct", "total", "accuracy", "ci_low", "ci_high")},
               "chance": chance, **found}  # fmt: skip


def _differences(rows: pl.DataFrame, one: By) -> Iterator[Record]:
    """Each value of the first factor against the first of its values, at every value of the others."""
    name, *rest = one
    for key, part in _keyed(rows, ("model", "strategy", *rest)):
        first, *others = part[name].unique(maintain_order=True).to_list()
        for value in others:
            found = _difference(part.filter(pl.col(name).is_in([first, value])), name, value)
            yield {**key, name: value, "compared_with": first, **found}


def _difference(rows: pl.DataFrame, name: str, value: str) -> Record:
    """The difference between two values of a factor: within clusters where half of those of the rarer value hold both.

    Where fewer do, they are a handful of odd ones, which say little of the many that hold one value."""
    treated = rows[name] == value
    sides = [set(part["cluster"]) for part in (rows.filter(treated), rows.filter(~treated))]
    if 2 * len(sides[0] & sides[1]) >= min(map(len, sides)):
        arms = rows.with_columns(whole=pl.col("cluster"), cluster=pl.format("{}/{}", "cluster", name))
        found = matched(arms, treated, stratum="whole")
        shown = ("risk_difference", "rd_low", "rd_high", "share_treated", "share_control", "p", "units", "method")
        return {**{one: found[one] for one in shown}, "pairing": "within clusters",
                **{one: found[one] for one in ("noise", "noise_high")}}  # fmt: skip
    effect = unmatched_effect(rows["correct"].cast(pl.Float64).to_numpy(), treated.to_numpy(), codes(rows["cluster"]))
    return {
        **{"risk_difference": effect.estimate, "rd_low": effect.low, "rd_high": effect.high},
        **{"share_treated": effect.share_treated, "share_control": effect.share_control, "p": effect.p},
        **{"units": effect.units, "method": effect.method, "pairing": "between clusters"},
    }
