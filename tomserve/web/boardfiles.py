"""The leaderboard as files: all cells as CSV, a table for a paper in LaTeX, and a page that opens offline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
from markupsafe import escape

from tomserve._version import __version__
from tomserve.content.files import one_line
from tomserve.engine.records import utc_now
from tomserve.errors import ConfigError, one_of
from tomserve.reporting import tables
from tomserve.studies.presentation import cell as two_digits
from tomserve.web.ranking import LAYERED, Board, Column
from tomserve.web.tallying import Share

FORMS = {"csv": "CSV", "tex": "LaTeX", "html": "HTML"}
"""The files that a leaderboard is downloaded as, and what they are called."""


def written(found: Board, form: str) -> tuple[str, str]:
    """The board as the text of a file, and the kind of file in words of HTTP. Raises ConfigError for another form."""
    if form == "csv":
        return tables.render(frame(found), "csv"), "text/csv; charset=utf-8"
    if form == "tex":
        return f"% {made()}\n" + tables.render(paper(found), "latex"), "text/x-tex; charset=utf-8"
    if form == "html":
        return "".join(_page(found)), "text/html; charset=utf-8"
    raise ConfigError(one_of("format", form, FORMS))


def made() -> str:
    """By what and when a file was made, and what a reader of it must know."""
    return (
        f"Made by tomserve {__version__} at {utc_now()}. Shares of right answers with 95% intervals over stories "
        "or tasks; a failure counts as wrong. Only what was asked and scored alike stands in one column."
    )


def frame(found: Board) -> pl.DataFrame:
    """The board as a table with a row for each cell."""
    rows = list(_cells(found)) + list(_layers(found))
    return pl.DataFrame(rows, infer_schema_length=None)


def _cells(found: Board) -> Iterator[dict[str, Any]]:
    for column in found.columns:
        for row in found.rows:
            if (cell := row.cells.get(column.key)) is None:
                continue
            share = cell.share
            yield {
                **{"model": row.model, "note": row.note, "benchmark": column.asked.benchmark},
                **{"strategy": column.asked.strategy, "column": column.key, "questions": column.asked.count},
                **{"estimate": share.estimate, "ci_low": share.low, "ci_high": share.high},
                **{"correct": share.correct, "total": share.total, "unread": share.unread, "failed": share.failed},
                **{"people": share.people, "chance": column.chance, "best_rule": column.rule},
                **{"best_rule_share": column.rule_share, "run": cell.run, "other_runs": len(cell.others)},
            }


def _layers(found: Board) -> Iterator[dict[str, Any]]:
    for number, group in enumerate(found.layers, 1):
        for one in group:
            layers = one.layers
            named = {"FToM": layers.ftom, "FToM_BS": layers.ftom_bs, "B": layers.b, "C": layers.c, "S": layers.s}
            for called, value in named.items():
                if not value or value[0] is None:
                    continue
                yield {
                    **{"model": one.model, "benchmark": LAYERED, "strategy": called, "column": f"{LAYERED} {number}"},
                    **{"questions": layers.questions, "estimate": value[0], "ci_low": value[1], "ci_high": value[2]},
                    **{"unread": layers.unread, "failed": layers.failed, "run": one.run},
                }


def paper(found: Board) -> pl.DataFrame:
    """The board as a table for a paper: a row for each model, a share with its interval for each column."""
    rows = []
    for row in found.rows:
        cells = {"model": f"{row.model} ({row.note})" if row.note else row.model}
        for column in found.columns:
            cells[heading(column)] = said(row.cells[column.key].share) if column.key in row.cells else ""
        rows.append(cells)
    return pl.DataFrame(rows, infer_schema_length=None)


def heading(column: Column) -> str:
    """The name of a column in one line."""
    number = f" ({column.number})" if column.number else ""
    return f"{column.asked.benchmark} {column.asked.strategy}{number}"


def said(share: Share) -> str:
    """A share with its interval, such as .77 [.65, .85]."""
    bounds = f" [{two_digits(share.low)}, {two_digits(share.high)}]" if share.low is not None else ""
    return f"{two_digits(share.estimate)}{bounds}"


_STYLE = """
:root{color-scheme:light dark;--ground:#fff;--ink:#1c2430;--soft:#566171;--line:#d9dee5}
@media(prefers-color-scheme:dark){:root{--ground:#11151b;--ink:#e5eaf1;--soft:#a3afbf;--line:#323c49}}
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;padding:1.5rem 1rem 3rem;max-width:78rem;background:var(--ground);
color:var(--ink);overflow-wrap:anywhere}
.soft,small{color:var(--soft)}small{display:block}.wide{overflow-x:auto}
table{border-collapse:collapse}th,td{padding:.35rem .8rem .35rem 0;border-bottom:1px solid var(--line);text-align:left;
vertical-align:top}
""".replace("\n", "")


def _page(found: Board) -> Iterator[str]:
    """One page without any script, which says all that the files of CSV say to readers."""
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        'content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src '
        f"'unsafe-inline'\"><title>Leaderboard</title>\n<style>{_STYLE}</style></head><body>\n<h1>Leaderboard</h1>\n"
        f'<p class="soft">{escape(made())}</p>\n'
    )
    if found.columns:
        yield '<div class="wide"><table><thead><tr><th scope="col">model</th>'
        for column in found.columns:
            told = [f"{column.asked.count:,} questions"]
            told += [f"chance {two_digits(column.chance)}"] if column.chance is not None else []
            told += [f"rule “{column.rule}” {two_digits(column.rule_share)}"] if column.rule else []
            told += [column.differs] if column.differs else []
            yield f'<th scope="col">{_text(heading(column))}<small>{_text("; ".join(told))}</small></th>'
        yield "</tr></thead><tbody>\n"
        for row in found.rows:
            yield f'<tr><th scope="row">{_text(row.model)}<small>{_text(row.note)}</small></th>'
            for column in found.columns:
                yield f"<td>{_cell(row.cells[column.key].share) if column.key in row.cells else ''}</td>"
            yield "</tr>\n"
        yield "</tbody></table></div>\n"
    if found.layers:
        yield f"<h2>{escape(LAYERED.capitalize())}</h2>\n"
    for group in found.layers:
        yield '<div class="wide"><table><thead><tr><th>model</th><th>FToM</th><th>FToM_BS</th><th>B</th><th>C</th>'
        yield "<th>S</th></tr></thead><tbody>\n"
        for one in group:
            layers = one.layers
            yield f'<tr><th scope="row">{_text(one.model)}</th>'
            for value in (layers.ftom, layers.ftom_bs, layers.b, layers.c, layers.s):
                yield f"<td>{escape(ends(value))}</td>"
            yield "</tr>\n"
        yield "</tbody></table></div>\n"
    if found.apart:
        yield "<h2>Not ranked</h2>\n<ul>\n"
        for apart in found.apart:
            yield f"<li>{_text(apart.run)}, {_text(apart.model)}, {_text(apart.benchmark)}: {_text(apart.why)}</li>\n"
        yield "</ul>\n"
    yield "</body></html>\n"


def ends(value: tuple[float | None, ...]) -> str:
    """A score with its interval, "" where it is not known."""
    if not value or value[0] is None:
        return ""
    bounds = f" [{two_digits(value[1])}, {two_digits(value[2])}]" if value[1] is not None else ""
    return f"{two_digits(value[0])}{bounds}"


def _cell(share: Share) -> str:
    told = [f"{share.correct:,} of {share.total:,}"]
    told += [f"{share.unread:,} unread"] if share.unread else []
    told += [f"{share.failed:,} failed"] if share.failed else []
    told += [f"{share.people:,} people"] if share.people else []
    return f"{escape(said(share))}<small>{escape(', '.join(told))}</small>"


def _text(text: str) -> str:
    return str(escape(one_line(text)))
