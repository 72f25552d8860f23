"""Analyses of runs that are computed beside the server: the panels of a report, files to download, and comparisons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from tomserve.content import files
from tomserve.content.paths import run_name
from tomserve.errors import ConfigError, one_of
from tomserve.reporting import tables
from tomserve.reporting.html import page as pages
from tomserve.reporting.html import report as reports
from tomserve.runs.measurement import refuse_measured
from tomserve.runs.runfolder import find_run
from tomserve.runs.scores import scores_of
from tomserve.scoring.table import write_scores
from tomserve.studies import comparison
from tomserve.web.background import Computation, Result, without_paths

FLIPS, EFFECTS = "flips.parquet", "effects.parquet"
SIZE = 10  # flips on a page


def compare(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Compare two runs, or two strategies of one. options: `strategies`, a pair of names or None; `common`; `margin`, a
    share or None. Returns what the page says. Raises ConfigError where they cannot be compared."""
    first, second = runs[0], runs[1] if len(runs) > 1 else None
    chosen = options.get("strategies")
    pair = (str(chosen[0]), str(chosen[1])) if chosen else None
    common, margin = bool(options.get("common")), options.get("margin")
    found = comparison.compare(first, second, strategies=pair, common=common, margin=margin)
    found.flips.write_parquet(out / FLIPS)
    found.effects.write_parquet(out / EFFECTS)
    frames = {"effects": comparison.effect_excerpt(found)[1], **comparison.further_excerpts(found)}
    if found.people.height:
        frames["people"] = found.people.drop("method")
    said = comparison.comparison_notes(found)
    shown = [_table(name, frames[name], said.get(name, "")) for name in comparison.TITLES if name in frames]
    facts: dict[str, Any] = orjson.loads(without_paths(orjson.dumps({**_facts(found), "tables": shown}).decode()))
    return facts


def _facts(found: comparison.Comparison) -> dict[str, Any]:
    last = found.effects.group_by("strategy", maintain_order=True).last()
    wanted = "strategy share_control share_treated risk_difference rd_low rd_high p n gained lost"
    overall = last.select([name for name in wanted.split() if name in last.columns]).to_dicts()
    return {
        "a": str(found.a),
        "b": str(found.b),
        "strategies": [found.a.strategy, found.b.strategy],
        "verdicts": comparison.comparison_verdicts(found),
        "caption": found.caption,
        "noise": found.noise,
        "lacking": list(found.lacking),
        "left_out": list(found.left_out),
        "flips": found.flips.height,
        "gained": found.flips.filter(pl.col("flip") == "gained").height,
        "differences": [[name, *comparison.shorten_pair(a, b, 200)] for name, a, b in found.differences[:500]],
        "overall": overall,
        "reach": _reach(found.effects.to_dicts()),
        "overall_reach": _reach(overall),
    }


def _reach(rows: Sequence[Mapping[str, Any]]) -> float:
    """Half of the scale on which all intervals of these differences fit, from 0.05 to 1."""
    ends = [abs(float(row[end])) for row in rows for end in ("rd_low", "rd_high") if row.get(end) is not None]
    return min(1.0, max([0.05, *ends]))


def _table(name: str, frame: pl.DataFrame, note: str) -> dict[str, Any]:
    table = pages.page_table(name, frame, note)
    title = comparison.TITLES[name]
    return {
        **{"name": name, "title": title[:1].upper() + title[1:], "note": note},
        **{"columns": table.columns, "rows": table.rows, "total": table.total},
    }


@dataclass(frozen=True)
class Flips:
    """A page of the questions that only one side has right."""

    rows: tuple[Mapping[str, Any], ...]
    total: int
    page: int
    pages: int


def comparison_of(
    a: Path, b: Path, strategies: tuple[str, str] | None, *, common: bool, margin: float | None
) -> Computation:
    """The comparison of two runs, given by their folders, or of two strategies of one."""
    pair = list(strategies) if strategies else None
    return Computation(
        "compare", tuple(dict.fromkeys((a, b))), {"strategies": pair, "common": common, "margin": margin}
    )


def flips_page(result: Result, page: int, *, kind: str = "", item: str = "", strategy: str = "") -> Flips:
    """A page of the flips. kind: "gained" or "lost", "" for both. item: a part of the id. strategy: one of them."""
    frame = files.scan_parquet(result.folder / FLIPS).with_row_index("place")
    if kind:
        frame = frame.filter(pl.col("flip") == kind)
    if strategy:
        frame = frame.filter(pl.col("strategy") == strategy)
    if item:
        frame = frame.filter(pl.col("item").str.contains_any([item], ascii_case_insensitive=True))
    places = frame.select("place").collect()["place"]
    pages = max(1, -(-places.len() // SIZE))
    number = min(max(page, 1), pages)
    chosen = places.slice((number - 1) * SIZE, SIZE)
    rows = frame.filter(pl.col("place").is_in(chosen.implode())).collect().to_dicts() if chosen.len() else []
    return Flips(tuple(rows), places.len(), number, pages)


PANELS = "panels.html"
TABLE_FORMS = {"latex": "tex", "csv": "csv", "md": "md"}  # the forms of the files of a table, each with its ending


def panels(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Write the panels of a run's report, and each of its tables in all forms. options: study, intervals, by. Returns
    what the page shows besides. Raises what `report_panels` raises."""
    by = tuple(options.get("by") or ())
    said, analysis = reports.report_panels(runs[0], options.get("study"), options.get("intervals"), by)
    (out / PANELS).write_text(pages.fragment(said), encoding="utf-8")
    for name, frame in analysis.tables.items():
        for form, ending in TABLE_FORMS.items():
            text = tables.render(frame, form, analysis.study.layouts.get(name))
            (out / f"table-{name}.{ending}").write_text(text, encoding="utf-8")
    return {
        "title": said.title,
        "facts": [list(fact) for fact in said.facts],
        "study": analysis.study.name,
        "intervals": analysis.intervals,
        "ways": list(analysis.study.intervals),
        "tables": {name: frame.height for name, frame in analysis.tables.items()},
        "sections": [[one.name, one.link] for one, _ in said.sections],
        "answers": said.answers,
        "canaries": list(said.canaries),
    }


SCORE_FORMS = ("parquet", "csv", "jsonl")  # the forms in which a score table can be had

REPORT = "report.html"


def scores(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Write the score table of a run. options: form, one of FORMS. Returns the name of the file. Raises ConfigError for
    another form, and where the run cannot be scored."""
    if (form := str(options.get("form"))) not in SCORE_FORMS:
        raise ConfigError(one_of("form", form, SCORE_FORMS))
    folder = find_run(runs[0])
    write_scores(scores_of(folder), out / f"scores.{form}")
    return {"file": f"scores.{form}", "as": f"{run_name(folder).replace('/', '-')}.{form}"}


def report(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Write the report of a run, one file that opens offline. options: study, intervals, by. Returns the file's name.
    Raises what `report_html` raises."""
    text = reports.report_html(
        (runs[0],), options.get("intervals"), (), options.get("study"), by=tuple(options.get("by") or ())
    )
    (out / REPORT).write_text(text, encoding="utf-8")
    return {"file": REPORT, "as": f"{run_name(Path(runs[0])).replace('/', '-')}-{REPORT}"}


def rescore(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Score a run anew into its own ``scores.parquet``. options: none. Returns what is said of it."""
    del out, options
    folder = find_run(runs[0])
    refuse_measured(folder, "cannot be scored again")
    table = scores_of(folder)
    return {"said": f"{run_name(folder)}: {table.height} answers scored, {table['correct'].sum()} correct"}
