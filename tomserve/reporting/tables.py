"""Tables to the terminal and to files: table, csv, md, latex, json.

Text that comes from models or datasets cannot run as a formula in a spreadsheet nor as markup in a terminal.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tomserve.content import files
from tomserve.errors import ConfigError, one_of
from tomserve.reporting import latex
from tomserve.studies import Analysis, Layout

FORMATS = ("table", "csv", "md", "latex", "json")


def show(frames: Mapping[str, pl.DataFrame], console: Console, notes: Mapping[str, str] | None = None) -> None:
    """Print frames as aligned tables under their titles, and all the notes below."""
    for title, frame in frames.items():
        _print(title, frame, console)
    for name, note in (notes or {}).items():
        console.print(Text(f"{name}: {note}", style="dim"))
    if notes:
        console.print()


def show_analysis(analysis: Analysis, console: Console) -> None:
    """Print what a study found, as its summary says, and below it the notes of the tables that the summary shows."""
    for excerpt in analysis.summary():
        _print(excerpt.title, excerpt.frame, console)
    show({}, console, analysis.summary_notes())


def _print(title: str, frame: pl.DataFrame, console: Console) -> None:
    table = Table(
        title=Text(title),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
    )
    for name, kind in frame.schema.items():
        table.add_column(Text(name), justify="right" if kind.is_numeric() else "left", no_wrap=True)
    for row in frame.iter_rows():
        table.add_row(*(Text(cell(value)) for value in row))
    console.print(table)
    console.print()


def frame(rows: Sequence[Sequence[str]], columns: Sequence[str]) -> pl.DataFrame:
    """A frame of text, also of no rows."""
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")


def cell(value: object) -> str:
    """One value as text: three decimals for numbers, nothing for null."""
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def render(frame: pl.DataFrame, form: str, layout: Layout | None = None) -> str:
    """A frame as text in csv, md, latex (laid out as `layout` says) or json.

    Undefined numbers are nan and inf everywhere, in JSON as text, which has no numbers for them.
    """
    if form == "csv":
        return _spelled(_inert(frame)).write_csv(null_value="", line_terminator="\n")
    if form == "json":
        return json.dumps(_records(frame), ensure_ascii=False) + "\n"
    if form == "latex":
        return latex.render(frame, layout)
    if form == "md":
        head = ["| " + " | ".join(frame.columns) + " |", "|" + "---|" * frame.width]
        escape = str.maketrans({"|": "\\|", "<": "&lt;", "\n": " "})
        rows = ["| " + " | ".join(cell(value).translate(escape) for value in row) + " |" for row in frame.iter_rows()]
        return "\n".join([*head, *rows]) + "\n"
    raise ConfigError(one_of("format", form, FORMATS))


def render_all(
    frames: Mapping[str, pl.DataFrame], form: str, layouts: Mapping[str, Layout], notes: Mapping[str, str] | None = None
) -> str:
    """All frames in one text: one object in JSON, else each after a line with its name and note."""
    notes = notes or {}
    if form == "json":
        return json.dumps({name: _records(frame) for name, frame in frames.items()}, ensure_ascii=False) + "\n"
    mark = "%" if form == "latex" else "#"
    if len(frames) == 1:
        return "".join(render(frame, form, layouts.get(name)) for name, frame in frames.items())
    heads = {name: f"{mark} {name}" + (f": {notes[name]}" if name in notes else "") for name in frames}
    return "\n".join(f"{heads[name]}\n{render(frame, form, layouts.get(name))}" for name, frame in frames.items())


def _records(frame: pl.DataFrame) -> list[dict[str, object]]:
    return [
        {
            name: value if not isinstance(value, float) or math.isfinite(value) else str(value)
            for name, value in row.items()
        }
        for row in frame.iter_rows(named=True)
    ]


def _spelled(frame: pl.DataFrame) -> pl.DataFrame:
    """Floats as text, undefined ones as nan."""
    floats = [name for name, kind in frame.schema.items() if kind.is_float()]
    return frame.with_columns(pl.col(name).cast(pl.String).str.replace("NaN", "nan", literal=True) for name in floats)


def _inert(frame: pl.DataFrame) -> pl.DataFrame:
    """Put an apostrophe before text that a spreadsheet would run as a formula."""
    strings = [name for name, kind in frame.schema.items() if kind == pl.String]
    return frame.with_columns(
        pl.when(pl.col(name).str.contains(r"^[=+\-@\t\r]")).then("'" + pl.col(name)).otherwise(pl.col(name)).alias(name)
        for name in strings
    )


def write(
    frames: Mapping[str, pl.DataFrame],
    folder: Path,
    form: str,
    layouts: Mapping[str, Layout] | None = None,
    notes: Mapping[str, str] | None = None,
) -> list[Path]:
    """One file a table, ``<name>.<form>`` (LaTeX: .tex), and ``notes.txt``, a line a table; returns the paths.

    Raises ConfigError where they cannot be written.
    """
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, frame in frames.items():
            path = folder / f"{name}.{'tex' if form == 'latex' else form}"
            _replace(path, render(frame, form, (layouts or {}).get(name)))
            written.append(path)
        if notes:
            path = folder / "notes.txt"
            _replace(path, "".join(f"{name}: {notes[name]}\n" for name in frames if name in notes))
            written.append(path)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written ({error.strerror}); choose another --out") from None
    return written


def _replace(path: Path, text: str) -> None:
    with files.replacing(path) as file:
        file.write(text.encode())
