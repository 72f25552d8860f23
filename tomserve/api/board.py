"""Several models, one after the other, and a leaderboard that sets side by side only what can be compared.

Models are ranked by FToM among those that have all three layers, of the same questions and the same cases, and by
FToM_BS among all that were asked the same questions. What is left out is listed with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from markupsafe import escape

from tomserve.api.layering import Doing, Layered, Wish, analysed, carry_out, scored
from tomserve.content import digest, files
from tomserve.errors import ConfigError, StoppedError, TomserveError
from tomserve.reporting import tables
from tomserve.runs.manifest import Manifest
from tomserve.stats.functional import Formula
from tomserve.studies.combining import combined
from tomserve.studies.together import split
from tomserve.studies.words import cell

ALL, BS, APART = "leaderboard_ftom", "leaderboard_ftom_bs", "not_ranked"
"""The names of the tables, and of their files."""

PAGE = "leaderboard.html"

_SHOWN = {ALL: ("ftom", ("b", "c", "s")), BS: ("ftom_bs", ("b", "s"))}
"""The score and the layers that each table shows."""

_TITLES = {
    ALL: ("All three layers", "FToM, only of models with behaviour (b), mechanism (c) and stability (s), all of the "
          "same questions and cases."),
    BS: ("Behaviour and stability", "FToM_BS, the only score by which models with and without weights at hand are "
         "ranked together, of the same questions."),
    APART: ("Not ranked", "Models that could not be compared or measured, and why."),
}  # fmt: skip

_ENDS = (
    "low and high are the ends of the 95% interval over scenarios; p_first is the probability of being first, and "
    "rank_low to rank_high hold 95% of the probability of the rank, both over the same draws of scenarios. Neither "
    "says anything of other benchmarks."
)


@dataclass(frozen=True)
class Queue:
    """What came of several wishes. done: of those that could be measured. failed: why not, by the name of the model."""

    done: tuple[Layered, ...]
    failed: Mapping[str, TomserveError]


def carry_out_all(wishes: Mapping[str, Wish], doing: Doing, *, report: bool = True) -> Queue:
    """Carry out the wishes one after the other; one that fails does not stop the others.

    wishes: by the name of the model. Raises StoppedError where somebody stops it; repeated, it goes on.
    """
    done, failed = [], {}
    for number, (name, wish) in enumerate(wishes.items(), 1):
        doing.part(f"model {number} of {len(wishes)}: {name}")
        try:
            done.append(carry_out(wish, doing, report=report))
        except StoppedError:
            raise
        except TomserveError as error:
            failed[name] = error
            doing.note(f"{name} is left out: {error}")
    return Queue(tuple(done), failed)


def boards(queue: Queue, formula: Formula) -> dict[str, pl.DataFrame]:
    """The tables of the leaderboard by name; those without rows are left out."""
    apart = [{"model": name, "table": "all", "why": str(error)} for name, error in queue.failed.items()]
    found: dict[str, pl.DataFrame] = {}
    rows = {id(told): told.analysis.tables["score"].row(0, named=True) for told in queue.done}
    for name, (score, layers) in _SHOWN.items():
        having = [told for told in queue.done if rows[id(told)][score] is not None]
        for told in queue.done:
            if rows[id(told)][score] is None:
                why = [f"no {part}: {rows[id(told)][f'no_{part}']}" for part in layers if rows[id(told)][f"no_{part}"]]
                apart.append({"model": told.model, "table": name, "why": "; ".join(why)})
        same, others = _alike(having, cases="c" in layers)
        apart += [
            {"model": told.model, "table": name, "why": "was asked or measured something else"} for told in others
        ]
        if same:
            found[name] = _ranked(same, score, layers, formula)
    if apart:
        found[APART] = pl.DataFrame(apart)
    return found


def _alike(told: Sequence[Layered], *, cases: bool) -> tuple[list[Layered], list[Layered]]:
    """Those that were asked the same (and measured on the same cases), the largest such group, and the others."""
    keys = [(_questions(one), _cases(one) if cases else "") for one in told]
    if not keys:
        return [], []
    most, _ = Counter(keys).most_common(1)[0]
    return (
        [one for one, key in zip(told, keys, strict=True) if key == most],
        [one for one, key in zip(told, keys, strict=True) if key != most],
    )


def _questions(told: Layered) -> str:
    """A digest of all questions and variants that were asked."""
    asked = split(scored(told)).answers.select("benchmark", "item").unique().sort("benchmark", "item")
    return digest(asked.write_csv().encode())


def _cases(told: Layered) -> str:
    """A digest of the cases that were measured."""
    manifest = Manifest.read(told.inside) if told.inside is not None else None
    return manifest.benchmark_digest or "" if manifest is not None else ""


def _ranked(told: Sequence[Layered], score: str, layers: Sequence[str], formula: Formula) -> pl.DataFrame:
    """A row for each model, the highest score first."""
    analysis = analysed(combined([scored(one) for one in told]), formula)
    values = analysis.tables["score"]
    columns = [f"{part}{end}" for part in (score, *layers) for end in ("", "_low", "_high")]
    shown = values.select("model", "formula", *columns)
    if (ranks := analysis.tables.get("ranking")) is not None:
        own = ranks.filter(score=score).select("model", "rank", "p_first", "rank_low", "rank_high")
        shown = shown.join(own, on="model", how="left")
    return shown.sort(score, "model", descending=[True, False])


def write(frames: Mapping[str, pl.DataFrame], folder: Path) -> list[Path]:
    """Write the tables as CSV and Markdown and one page that opens offline; returns the paths, the page last.

    Raises ConfigError where a file cannot be written.
    """
    written = [path for form in ("csv", "md") for path in tables.write(frames, folder, form)]
    path = folder / PAGE
    try:
        with files.replacing(path) as file:
            file.write("".join(_page(frames)).encode())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}); choose another --run") from None
    return [*written, path]


def _page(frames: Mapping[str, pl.DataFrame]) -> Iterator[str]:
    """The page: one table after the other, without any script."""
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Functional Theory of Mind</title>\n'
        "<style>body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem}"
        "table{border-collapse:collapse;display:block;overflow-x:auto}"
        "th,td{padding:.3rem .7rem;border-bottom:1px solid #ccc;text-align:left;vertical-align:top}"
        "small{color:#555;display:block;white-space:nowrap}</style></head><body>\n<h1>Functional Theory of Mind</h1>\n"
    )
    for name, frame in frames.items():
        title, note = _TITLES[name]
        yield f"<h2>{escape(title)}</h2>\n<p>{escape(note)}</p>\n<table><thead><tr>"
        shown = [column for column in frame.columns if not column.endswith(("_low", "_high"))]
        yield "".join(f'<th scope="col">{escape(column)}</th>' for column in shown) + "</tr></thead><tbody>\n"
        for row in frame.iter_rows(named=True):
            yield "<tr>" + "".join(f"<td>{_said(row, column)}</td>" for column in shown) + "</tr>\n"
        yield "</tbody></table>\n"
    yield f"<p>{escape(_ENDS)}</p>\n</body></html>\n"


def _said(row: Mapping[str, object], column: str) -> str:
    """A cell, with its interval below it where it has one."""
    value, ends = row[column], (row.get(f"{column}_low"), row.get(f"{column}_high"))
    said = cell(value) if isinstance(value, float) else "" if value is None else str(value)
    if all(isinstance(end, int | float) for end in ends):
        shown = [cell(end) if isinstance(end, float) else str(end) for end in ends]
        return f"{escape(said)}<small>{escape(shown[0])} to {escape(shown[1])}</small>"
    return str(escape(said))
