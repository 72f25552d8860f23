"""How a leaderboard is shown: in the terminal, as a page that opens offline, and as files of CSV and Markdown.

Names of models and messages of errors come from strangers: they are escaped in the page, and inert elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import polars as pl
from markupsafe import escape
from rich.console import Console

from tomserve._version import __version__
from tomserve.api.board import ALL, APART, BS, CALLED, SCORES, Board
from tomserve.content import files
from tomserve.content.files import one_line
from tomserve.engine.records import utc_now
from tomserve.errors import ConfigError
from tomserve.reporting import tables
from tomserve.reporting.table_layout import print_prose, print_table
from tomserve.stats.functional import FTOM_1
from tomserve.studies import Excerpt
from tomserve.studies.presentation import Row, cell

PAGE, NOTES = "leaderboard.html", "notes.md"
"""The names of the page, and of the file that says in Markdown what is said below its tables."""

FILES = (*(f"{name}.{form}" for name in (ALL, BS, APART) for form in ("csv", "md")), NOTES, PAGE)
"""Every file that a leaderboard may have."""

_TITLES = {
    ALL: ("All three layers", "Ranked by FToM: only models with behaviour (B), mechanism (C) and stability (S), all of "
          "the same questions and cases."),
    BS: ("Behaviour and stability", "Ranked by FToM_BS, the only score that ranks models with and without weights at "
         "hand together, all of the same questions."),
    APART: ("Not ranked", "What could not be compared or measured, and why."),
}  # fmt: skip

_COUNTS = ("questions", "scenarios", "cases", "replies", "unread", "failed")
"""The columns that say how much stands behind a score."""

_UNKNOWN = "?"


class Cell(NamedTuple):
    """A cell for readers: what it says, and what stands below that in small letters."""

    said: str
    below: str = ""


def show(board: Board, screen: Console) -> None:
    """Print the warnings under the names of their models, then the tables, and below them what a reader must know."""
    for models, warnings in _warnings(board):
        print_prose(f"warnings: {models}", screen, "bold")
        for line in warnings:
            print_prose(f"- {line}", screen, hanging=2)
        screen.print()
    for excerpt in excerpts(board):
        print_table(excerpt.title, excerpt.frame, screen)
        print_prose(f"{excerpt.reading}\n", screen, "dim")
    if (apart := board.tables.get(APART)) is not None:
        print_prose("not ranked", screen, "bold")
        for model, why in apart.iter_rows():
            print_prose(f"- {one_line(model)}: {why}", screen, hanging=2)
        screen.print()
    for line in board.sentences:
        print_prose(line, screen)
    if board.sentences:
        screen.print()


def _warnings(board: Board) -> list[tuple[str, tuple[str, ...]]]:
    """The names of models and their warnings; models with the very same ones stand together."""
    found: dict[tuple[str, ...], list[str]] = {}
    for model, warnings in board.warnings.items():
        found.setdefault(warnings, []).append(one_line(model))
    return [(", ".join(models), warnings) for warnings, models in found.items()]


def excerpts(board: Board) -> list[Excerpt]:
    """What the terminal shows of the ranks in 80 columns: two lines for each model, the intervals in the second."""
    found = []
    for name, (score, layers) in SCORES.items():
        if (frame := board.tables.get(name)) is None:
            continue
        rows = []
        for row in frame.iter_rows(named=True):
            names = {"score": score, **{CALLED[part]: part for part in layers}}
            cells = {heading: _number(row, part, "-") for heading, part in names.items()}
            first = {name: one.said for name, one in cells.items()}
            lost = {"unread": f"{row['unread']}/{row['replies']}"}
            lost |= {"failed": str(row["failed"])} if frame["failed"].sum() else {}
            chances = {"p(1st)": cell(row["p_first"]), "ranks": _ranks(row)}
            rows.append({"rank": row["rank"], "model": one_line(row["model"]), **first, **chances, **lost})
            rows.append({name: cells[name].below if name in cells else "" for name in rows[-1]})
        row = frame.row(0, named=True)
        asked = f"{_counted(row['questions'], 'question')} of {_counted(row['scenarios'], 'scenario')}"
        cases = f", {_counted(row['cases'], 'case')}" if "cases" in row else ""
        title = f"ranks by {CALLED[score]} ({asked}{cases})"
        found.append(
            Excerpt(title, pl.DataFrame(rows), (name,), " ".join(_reading(name, frame, board.formula, "p(1st)")))
        )
    return found


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _number(row: Row, name: str, to: str = " to ") -> Cell:
    """An estimate, and below it its interval."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    known = isinstance(low, float) and isinstance(high, float)
    return Cell(cell(row[name]), f"{cell(low)}{to}{cell(high)}" if known else _UNKNOWN)  # type: ignore[arg-type]


def _ranks(row: Row) -> str:
    return _UNKNOWN if row["rank_low"] is None else f"{row['rank_low']} to {row['rank_high']}"


def _for_readers(name: str, row: Row) -> dict[str, Cell]:
    """A row of a table as readers see it, by the headings of the columns."""
    if name == APART:
        return {column: Cell(one_line(str(value))) for column, value in row.items()}
    score, layers = SCORES[name]
    inside = f"C measured in {one_line(str(row['c_measured_in']))}" if "c_measured_in" in row else ""
    counts = {what: Cell(f"{row[what]:,}") for what in _COUNTS if what in row}
    return {
        "rank": Cell(str(row["rank"])),
        "model": Cell(one_line(str(row["model"])), inside),
        **{CALLED[part]: _number(row, part) for part in (score, *layers)},
        "chance of rank 1": Cell(cell(row["p_first"])),  # type: ignore[arg-type]
        "likely ranks": Cell(_ranks(row)),
        **counts,
    }


def _reading(name: str, frame: pl.DataFrame, formula: str, first: str) -> Iterator[str]:
    """Sentences that explain the columns of a table which are there. first: the heading of the probability."""
    if name == APART:
        return
    score, _ = SCORES[name]
    c = "C: mechanism, above the largest control and over its ceiling; " if name == ALL else ""
    yield f"B: behaviour, corrected for chance; {c}S: the share of answers that survive the variants T1 to T4."
    sums = {ALL: "FToM = .5 B + .3 C + .2 S.", BS: "FToM_BS = (.5 B + .2 S)/.7."}
    yield sums[name] if formula == FTOM_1.name else f"{CALLED[score]} has the weights of {formula}, and is no ftom-1."
    yield "Beside or below each value stands its 95% interval over scenarios."
    if frame["p_first"].count():
        likely = "ranks" if first == "p(1st)" else "likely ranks"
        yield (
            f"{first}: over scenarios weighted anew, how often the model is first; {likely}: the middle 95% of its "
            "ranks. 1.00 says that no weighting ranked otherwise, not that it cannot be."
        )
    if frame["rank"].str.ends_with("=").any():
        yield "Models with equal scores share a rank (=)."
    yield "unread: replies in which no answer could be read; failed: requests without a reply; both count as wrong."
    if name == ALL and first == "p(1st)":
        inside = (f"{one_line(model)} in {one_line(place)}" for model, place in
                  frame.select("model", "c_measured_in").iter_rows())  # fmt: skip
        yield f"C was measured in these weights: {'; '.join(inside)}."
    yield "Neither the score nor the ranks say anything of other benchmarks."


def write(board: Board, folder: Path) -> list[Path]:
    """Write the tables as CSV and Markdown, the notes, and one page that opens offline; returns the paths, the page
    last. Files that an earlier leaderboard had and this one has not are removed, so that none of them speaks of others.

    Raises ConfigError where a file cannot be written.
    """
    texts = {f"{name}.csv": tables.render(frame, "csv") for name, frame in board.tables.items()}
    texts |= {f"{name}.md": _markdown(board, name, frame) for name, frame in board.tables.items()}
    texts |= {NOTES: "".join(_notes(board)), PAGE: "".join(_page(board, folder))}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            with files.replace_file(folder / name) as file:
                file.write(text.encode())
        for name in FILES:
            if name not in texts:
                (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written ({error.strerror}); choose another --run") from None
    return [folder / name for name in texts]


def _markdown(board: Board, name: str, frame: pl.DataFrame) -> str:
    """A table for readers, under its title, with what is needed to read it."""
    title, note = _TITLES[name]
    rows = [{column: f"{one.said} ({one.below})" if one.below else one.said for column, one in _for_readers(name, row)
             .items()} for row in frame.iter_rows(named=True)]  # fmt: skip
    told = " ".join(_reading(name, frame, board.formula, "chance of rank 1"))
    return f"# {title}\n\n{note}\n\n{tables.render(pl.DataFrame(rows), 'md')}" + (f"\n{told}\n" if told else "")


def _notes(board: Board) -> Iterator[str]:
    yield f"# Functional Theory of Mind\n\n{_made(board)}\n"
    if board.sentences:
        yield "\n" + "".join(f"- {tables.markdown(line)}\n" for line in board.sentences)
    if board.warnings:
        yield "\n## Warnings\n"
    for models, warnings in _warnings(board):
        yield f"\n### {tables.markdown(models)}\n\n"
        yield "".join(f"- {tables.markdown(line)}\n" for line in warnings)


def _made(board: Board) -> str:
    """By what and when the leaderboard was made."""
    day, _, time = utc_now().partition("T")
    return f"Made by tomserve {__version__} on {day} at {time[:5]} UTC; the score is {board.formula}."


_STYLE = """
:root{color-scheme:light dark;--ground:#fff;--ink:#1c2430;--soft:#566171;--line:#d9dee5;--link:#0a58a6}
@media(prefers-color-scheme:dark){:root{--ground:#11151b;--ink:#e5eaf1;--soft:#a3afbf;--line:#323c49;--link:#86bdf5}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;padding:1.5rem 1rem 3rem;max-width:78rem;background:var(--ground);
color:var(--ink);overflow-wrap:anywhere}
h1{line-height:1.2}h2{margin-top:2.2rem}a{color:var(--link)}p,li{max-width:75ch}
.soft,small,th{color:var(--soft)}
table{border-collapse:collapse;width:100%}
th,td{padding:.35rem .6rem .35rem 0;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
th{font-weight:600;font-size:.85rem;overflow-wrap:normal}
small{display:block}.n{white-space:nowrap;font-variant-numeric:tabular-nums}
@media(max-width:60rem){
table,tbody,tr{display:block}thead{position:absolute;left:-999rem}
tbody tr{display:grid;grid-template-columns:repeat(auto-fill,minmax(6.5rem,1fr));gap:.4rem .8rem;margin:0 0 .8rem;
border:1px solid var(--line);border-radius:6px;padding:.6rem .8rem}
td{display:block;padding:0;border:0}td.wide{grid-column:2/-1}td.whole{grid-column:1/-1}
td::before{content:attr(data-label);display:block;white-space:normal;font-size:.8rem;color:var(--soft)}}
""".replace("\n", "")


def _page(board: Board, folder: Path) -> Iterator[str]:
    """The page: one table after the other, without any script. folder: where it will stand."""
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Functional Theory of Mind</title>\n'
        f"<style>{_STYLE}</style></head><body>\n<h1>Functional Theory of Mind</h1>\n"
        f'<p class="soft">{escape(_made(board))}</p>\n'
    )
    for line in board.sentences:
        yield f"<p>{escape(one_line(line))}</p>\n"
    links = {model: _link(path, folder) for model, path in board.reports.items()}
    for name, frame in board.tables.items():
        title, note = _TITLES[name]
        yield f"<h2>{escape(title)}</h2>\n<p>{escape(note)}</p>\n"
        rows = [_for_readers(name, row) for row in frame.iter_rows(named=True)]
        yield from _table(rows, list(frame["model"]), links)
        if told := " ".join(_reading(name, frame, board.formula, "chance of rank 1")):
            yield f'<p class="soft">{escape(told)}</p>\n'
    if board.warnings:
        yield "<h2>Warnings</h2>\n"
    for models, warnings in _warnings(board):
        yield f"<h3>{escape(models)}</h3>\n<ul>\n"
        yield "".join(f"<li>{escape(one_line(line))}</li>\n" for line in warnings) + "</ul>\n"
    yield "</body></html>\n"


def _table(rows: Sequence[Mapping[str, Cell]], models: Sequence[str], links: Mapping[str, str]) -> Iterator[str]:
    """A table of cells, whose columns are named again in each row, for screens on which a row is a list. The roles say
    that it is a table all the same. models: of the rows. links: to the report of a model."""
    yield '<table role="table"><thead role="rowgroup"><tr role="row">'
    yield "".join(f'<th role="columnheader" scope="col">{escape(column)}</th>' for column in rows[0])
    yield '</tr></thead><tbody role="rowgroup">\n'
    for model, row in zip(models, rows, strict=True):
        yield '<tr role="row">'
        for column, one in row.items():
            said = str(escape(one.said))
            if column == "model" and model in links:
                said = f'<a href="{escape(links[model])}">{said}</a>'
            below = f"<small>{escape(one.below)}</small>" if one.below else ""
            kind = "whole" if "why" in row else "wide" if column == "model" else "n"
            yield f'<td role="cell" data-label="{escape(column)}" class="{kind}">{said}{below}</td>'
        yield "</tr>\n"
    yield "</tbody></table>\n"


def _link(path: Path, folder: Path) -> str:
    """The address of a file as seen from the page; one that begins with ./ is never taken for another scheme."""
    return "./" + quote(Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix())
