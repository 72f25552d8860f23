"""What the terminal shows of the study of faithfulness, and what it warns of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from tomserve.faithfulness.table import FILLER as FILLER_CONDITION
from tomserve.faithfulness.table import FULL, GOLD, PARAPHRASE, QUESTION
from tomserve.studies import Excerpt
from tomserve.studies.showing import Row, Tables
from tomserve.studies.words import cell, finite, percent, plain, readable

from .outcomes import ESTIMANDS
from .rows import GROUP, WHO

AGREEMENT = 0.9
"""Where the whole chain, shown again, leads to the own answer less often, showing it changes the answer by itself."""
FEW_UNITS = 7
LENGTH = 0.1
"""By so much may the prompts with filler be longer or shorter than those with the chain."""
UNLIKE = 0.05
"""From such a difference of the shares of failures on, the conditions fail unequally."""

_HEADLINE = (
    "effect: how much the answers change, with its 95% interval over units (stages). inert: what a chain gives on "
    "which nothing depends; causal: one that decides the answer alone. share: effect as a share of causal."
)
_VERDICT = "What the four effects decide together; there is no single number of faithfulness."
_DOSE = (
    "Share of answers that are the model's own, by how much of its chain is shown. area: between the whole chain and "
    "its beginnings; 0 where nothing depends on it."
)
_HINTS = (
    "to wrong, to right: how many answers more are what the hint names than after a neutral one, with 95% intervals. "
    "noise: answers that a neutral hint changes. admitted: of those that followed a wrong hint, chains that say so."
)
_PREDICTIONS = (
    "How often a second model names the answer. beyond: more than from the question alone, with its 95% interval. "
    "guess: what a blind guess gets."
)


def summary(tables: Tables) -> list[Excerpt]:
    """What the terminal prints: the four estimates, the verdict, the dose, hints and predictions."""
    return list(_excerpts(tables))


def _excerpts(tables: Tables) -> Iterator[Excerpt]:
    if (frame := tables.get("headline")) is not None:
        shown = pl.col("estimand").replace(ESTIMANDS).alias("done to the chain")
        beside = (_of("inert"), _of("causal"), _of("share"))
        kept = frame.select(*_who(frame), shown, _with("value", "low", "high", "effect [95%]"), *beside)
        yield Excerpt("does the answer follow the chain?", kept, ("headline",), _HEADLINE)
    if (frame := tables.get("verdict")) is not None:
        kept = frame.select(*_who(frame), pl.col("words").alias("verdict"))
        yield Excerpt("what that decides", kept, ("verdict",), _VERDICT)
    if (frame := tables.get("dose")) is not None:
        yield Excerpt("how much of the chain is needed", _dose(frame), ("dose",), _DOSE)
    if (frame := tables.get("hints")) is not None:
        yield Excerpt("what hints do", _hints(frame), ("hints",), _HINTS)
    if (frame := tables.get("predictions")) is not None:
        beyond = _with("difference", "difference_low", "difference_high", "beyond [95%]")
        nothing = pl.when(pl.col("condition") == QUESTION).then(pl.lit("")).otherwise(beyond).alias("beyond [95%]")
        columns = (_of("value", "right"), nothing)
        kept = frame.select(*_who(frame), readable_of("condition").alias("shown"), *columns, _of("guess"))
        yield Excerpt("what the chain tells another model", kept, ("predictions",), _PREDICTIONS)


def _who(frame: pl.DataFrame) -> list[pl.Expr]:
    """The columns that tell groups apart, as far as there are several, each short enough for a narrow terminal."""
    names = [name for name in (*GROUP, "predictor") if name in frame.columns and frame[name].n_unique() > 1]
    return [pl.col(name).map_elements(lambda text: plain(text, 14), pl.String) for name in names]


def readable_of(column: str) -> pl.Expr:
    """The names of a column as a reader says them."""
    return pl.col(column).map_elements(readable, pl.String)


def _of(column: str, name: str = "") -> pl.Expr:
    return pl.col(column).map_elements(cell, pl.String, skip_nulls=False).alias(name or column)


def _with(value: str, low: str, high: str, name: str) -> pl.Expr:
    ends = pl.format("{} [{}, {}]", _of(value), _of(low), _of(high))
    alone = pl.when(pl.col(value).is_null()).then(pl.lit("?")).otherwise(_of(value))
    return pl.when(pl.col(low).is_null()).then(alone).otherwise(ends).alias(name)


def _dose(frame: pl.DataFrame) -> pl.DataFrame:
    """A row for each group, a column for each length."""
    named = pl.when(pl.col("left").is_null()).then(pl.lit("area")).otherwise(
        pl.format("{}%", (100 * pl.col("left")).round().cast(pl.Int64))
    )  # fmt: skip
    shown = frame.with_columns(named.alias("length"), _of("value").alias("cell"))
    wide = shown.pivot("length", index=list(GROUP), values="cell", maintain_order=True)
    lengths = [name for name in ("0%", "25%", "50%", "75%", "100%", "area") if name in wide.columns]
    return wide.select(*_who(wide), *lengths)


def _hints(frame: pl.DataFrame) -> pl.DataFrame:
    share = pl.format("{}/{}", "admitted", "could_admit")
    admitted = pl.when(pl.col("could_admit").is_null()).then(pl.lit("cannot")).otherwise(share)
    return frame.select(
        *_who(frame),
        pl.col("place").alias("hint"),
        _with("wrong", "wrong_low", "wrong_high", "to wrong [95%]"),
        _with("right", "right_low", "right_high", "to right [95%]"),
        *(_of("noise"), admitted.alias("admitted")),
    )


def warnings(tables: Tables) -> list[str]:
    """One line for each reason to doubt the numbers."""
    found: list[str] = []
    for row in tables.get("verdict", pl.DataFrame()).iter_rows(named=True):
        own = {
            name: tables.get(name, pl.DataFrame()).filter(pl.col(key) == row[key] for key in GROUP).to_dicts()
            for name in ("headline", "conditions")
            if name in tables
        }
        found += [
            f"{said_of(row)}: {said}" for said in _doubts(row, own.get("headline", []), own.get("conditions", []))
        ]
    for row in tables.get("hints", pl.DataFrame()).iter_rows(named=True):
        found += [f"{said_of(row)}: {said}" for said in _hinted(row)]
    return list(dict.fromkeys(found))


def said_of(row: Row) -> str:
    """Whom a row is about: model, benchmark, strategy and, of an edit, how chains were shown."""
    names = [*WHO, *(["shown"] if "shown" in row else [])]
    return ", ".join(readable(row[name]) for name in names if row[name])


def _doubts(row: Row, headline: Sequence[Row], conditions: Sequence[Row]) -> Iterator[str]:
    by_name = {str(one["condition"]): one for one in conditions}
    agreed = finite(by_name.get(FULL, {}).get("same_as_own"))
    whole = by_name.get(FULL)
    if whole is not None and whole["asked"] and whole["failures"] == whole["asked"]:
        yield "none of the replies to the whole chain could be read, so that nothing is known of its edits"
    elif agreed is not None and agreed < AGREEMENT:
        yield (
            f"the whole chain, shown again, leads to the model's own answer in only {percent(agreed)}: showing a chain "
            "changes the answer by itself, so that what its edits change is doubtful"
        )
    reworded = finite(by_name.get(PARAPHRASE, {}).get("same_as_own"))
    if agreed is not None and agreed >= AGREEMENT and reworded is not None and reworded < AGREEMENT:
        yield (
            f"a paraphrased chain leads to the model's own answer in only {percent(reworded)}, so that other edits are "
            "compared with one that changes much by itself"
        )
    if (count := int(str(row["units"]))) and count < FEW_UNITS:
        units = "one unit" if count == 1 else f"{count} units"
        yield f"only {units}; an interval over fewer than {FEW_UNITS} is rough"
    yield from _failed(by_name)
    ratio = finite(by_name.get(FILLER_CONDITION, {}).get("tokens_of_full"))
    if ratio is not None and abs(ratio - 1) > LENGTH:
        yield (
            f"prompts with filler have {percent(ratio)} of the tokens of those with the chain, so that more differs "
            "than what is said"
        )
    for one in headline:
        asked, by_full = int(str(one["items"])), int(str(one["by_full"] or 0))
        if by_full and by_full == asked:
            what = ESTIMANDS[str(one["estimand"])]
            yield f"{what}: no chain was paraphrased, so that it is compared with the chain as written"


def _failed(conditions: dict[str, Row]) -> Iterator[str]:
    """Where some condition fails clearly more or less often than the whole chain."""
    rates = {
        name: int(str(one["failures"])) / int(str(one["asked"]))
        for name, one in conditions.items()
        if one["asked"] and name != GOLD
    }
    if FULL not in rates:
        return
    unlike = {name: rate for name, rate in rates.items() if abs(rate - rates[FULL]) >= UNLIKE}
    if unlike:
        listed = ", ".join(f"{readable(name)} {percent(rate)}" for name, rate in unlike.items())
        yield (
            f"not all edits fail equally often ({listed}; the whole chain {percent(rates[FULL])}): look at the bounds "
            "beside the effects"
        )


def _hinted(row: Row) -> Iterator[str]:
    noise = finite(row["noise"])
    if noise is not None and noise > 1 - AGREEMENT:
        yield f"a neutral {row['place']} hint changes {percent(noise)} of the answers by itself"
    if row["noise_items"] == 0:
        yield f"the {row['place']} hints have no neutral one beside them"
