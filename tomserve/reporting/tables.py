"""Writes tables to the terminal and to files, in the formats table (the terminal), csv, md, latex and json, with what
their columns mean.

Text that comes from models or datasets can neither run as a formula in a spreadsheet nor act as markup in a terminal.

>>> explain_columns(["item", "n"])
['n: how many questions were compared; of changes how many there are of which the share is.']
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import polars as pl
from rich.console import Console

from tomserve.content import files, output_path
from tomserve.content.text import FORMULA, HIDDEN, escape_formula, escape_hidden, mark_hidden
from tomserve.content.validation import load_yaml
from tomserve.errors import ConfigError, ContentError, one_of
from tomserve.reporting.table_layout import cell_text, print_prose, print_table
from tomserve.studies import Analysis, Layout


@cache
def _meanings() -> dict[str, str]:
    return dict(load_yaml(Path(__file__).with_name("columns.yaml"))[0])


def explain_columns(columns: Sequence[str]) -> list[str]:
    """A line for each meaning of columns.yaml that the named columns have, in its order; none for others. A name fits
    where it is a beginning there, or goes on after one with a space or a comma: "can reach 0.05"."""
    lines = []
    for beginnings, meaning in _meanings().items():
        named = [name for name in columns if any(_fits(name, beginning) for beginning in beginnings.split(" | "))]
        if named:
            lines.append(f"{' and '.join(named)}: {meaning}.")
    return lines


def _fits(name: str, beginning: str) -> bool:
    if name.endswith(" (factor)"):  # a factor that is called like one of these columns
        return False
    return name == beginning or name.startswith((f"{beginning} ", f"{beginning},"))


FORMATS = ("table", "csv", "md", "latex", "json")

# Where a reader of a study finds more than the notes say
FURTHER = (
    "All columns of all tables, with notes that explain them: `tomserve analyze RUN --out FOLDER`. "
    "docs/explanation/numbers.md says what each number means and what it does not show, "
    "docs/explanation/statistics.md how intervals and tests work."
)


def show_tables(frames: Mapping[str, pl.DataFrame], console: Console, notes: Mapping[str, str] | None = None) -> None:
    """Print frames as aligned tables, each under its title, and below them what a reader needs to understand them.
    frames: the tables by title. notes: what is to be said of the tables, by name. None, unlike an empty mapping, means
    that nobody explains them: then a sentence for each statistical column stands below (see tomserve.reporting.tables).
    """
    for title, frame in frames.items():
        print_table(title, frame, console)
    if notes is None:
        columns = dict.fromkeys(name for frame in frames.values() for name in frame.columns)
        lines = explain_columns(list(columns))
    else:
        lines = [f"{name}: {note}" for name, note in notes.items()]
    for line in lines:
        print_prose(line, console, "dim")
    if lines:
        console.print()


def show_analysis(analysis: Analysis, console: Console) -> None:
    """Print a study's verdicts, then its summary of the tables, each with what is needed to read it. Below them stand
    the notes of tables that do not say how to read them; a reader in a hurry can stop after the verdicts."""
    _show_verdicts(analysis, console)
    excerpts = analysis.summary()
    for place, excerpt in enumerate(excerpts, 1):
        print_table(excerpt.title, excerpt.frame, console)
        if excerpt.reading and (place == len(excerpts) or excerpts[place].reading != excerpt.reading):
            print_prose(f"{excerpt.reading}\n", console, "dim")
    show_tables({}, console, analysis.summary_notes())
    print_prose(f"{FURTHER}\n", console, "dim")


def _show_verdicts(analysis: Analysis, console: Console) -> None:
    """Print the verdicts in short. A study whose verdicts need what only the items tell has them in the report alone,
    which a line says, since its tables can be shown all the same."""
    try:
        verdicts = analysis.verdicts()
    except ContentError as error:
        print_prose(f"The verdicts are in the report only: {error}\n", console)
        return
    for verdict in verdicts:
        print_prose(f"in short: {verdict.model}", console, "bold")
        for line in (*verdict.lead, *(f"{card.question} {card.verdict}." for card in verdict.cards)):
            print_prose(f"- {line}", console, hanging=2)
        console.print()


def frame(rows: Sequence[Sequence[str]], columns: Sequence[str]) -> pl.DataFrame:
    """Rows of texts as a frame with these columns; there may be no rows."""
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")


def render(frame: pl.DataFrame, form: str, layout: Layout | None = None) -> str:
    """A frame as text. form: csv, md, latex or json. layout: how the table is laid out in LaTeX; the other formats do
    not use it. Numbers that are undefined or infinite are written as nan and inf, in JSON as text, since JSON has no
    such numbers. Raises ConfigError for another format."""
    if form == "csv":
        inert = _inert(frame)
        floats = [pl.col(name).cast(pl.String) for name, kind in inert.schema.items() if kind.is_float()]
        # an undefined number reads nan in every format
        texts = inert.with_columns(one.str.replace("NaN", "nan", literal=True) for one in floats)
        return texts.write_csv(null_value="", line_terminator="\n")
    if form == "json":
        return escape_hidden(json.dumps(_records(frame), ensure_ascii=False)) + "\n"
    if form == "latex":
        from tomserve.reporting import latex

        return mark_hidden(latex.render(frame, layout).replace("\r", " "))
    if form == "md":
        head = ["| " + " | ".join(map(markdown, frame.columns)) + " |", "|" + "---|" * frame.width]
        rows = ["| " + " | ".join(markdown(cell_text(value)) for value in row) + " |" for row in frame.iter_rows()]
        return "\n".join([*head, *rows]) + "\n"
    raise ConfigError(one_of("format", form, FORMATS))


def markdown(text: str) -> str:
    r"""The text so that it stays within one line of Markdown, or one cell of a table, and is no link and no HTML there.

    >>> markdown("[m](javascript:x)|<b>")
    '\\[m\\](javascript:x)\\|&lt;b>'
    """
    return mark_hidden(text).translate(_MARKDOWN)


_MARKDOWN = str.maketrans(
    {"\\": "\\\\", "|": "\\|", "<": "&lt;", "[": "\\[", "]": "\\]", "\n": " ", "\r": " ", "\t": " "}
)


def render_all(
    frames: Mapping[str, pl.DataFrame], form: str, layouts: Mapping[str, Layout], notes: Mapping[str, str] | None = None
) -> str:
    """All frames in one text: in JSON one object, in the other formats each after a line with its name and its note.
    frames, layouts, notes: by the name of the table. form: as for `render`. A single frame stands without that line."""
    notes = notes or {}
    if form == "json":
        return (
            escape_hidden(json.dumps({name: _records(frame) for name, frame in frames.items()}, ensure_ascii=False))
            + "\n"
        )
    mark = "%" if form == "latex" else "#"
    if len(frames) == 1:
        return "".join(render(frame, form, layouts.get(name)) for name, frame in frames.items())
    heads = {name: f"{mark} {name}" + (f": {notes[name]}" if name in notes else "") for name in frames}
    heads = {name: " ".join(mark_hidden(head).split()) for name, head in heads.items()}
    return "\n".join(f"{heads[name]}\n{render(frame, form, layouts.get(name))}" for name, frame in frames.items())


def _records(frame: pl.DataFrame) -> list[dict[str, object]]:
    return [
        {
            name: value if not isinstance(value, float) or math.isfinite(value) else str(value)
            for name, value in row.items()
        }
        for row in frame.iter_rows(named=True)
    ]


def _inert(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame without hidden characters, and with an apostrophe before each text that a spreadsheet would otherwise
    run as a formula; some do so behind blanks, too. The names of columns are texts as well."""
    strings = [pl.col(name) for name, kind in frame.schema.items() if kind == pl.String]
    shown = frame.with_columns(text.str.replace_all(rf"{HIDDEN}|\r", "\N{REPLACEMENT CHARACTER}") for text in strings)
    shown = shown.with_columns(
        pl.when(text.str.contains(FORMULA)).then("'" + text).otherwise(text).name.keep() for text in strings
    )
    names: dict[str, str] = {}
    for name in frame.columns:
        said = escape_formula(mark_hidden(name.replace("\r", " ")))
        while said in names.values():  # two names that differ in what is hidden only
            said += "_"
        names[name] = said
    return shown.rename(names)


def write_tables(
    frames: Mapping[str, pl.DataFrame],
    folder: Path,
    form: str,
    layouts: Mapping[str, Layout] | None = None,
    notes: Mapping[str, str] | None = None,
    *,
    inputs: Sequence[Path] = (),
) -> list[Path]:
    """Write each table to a file of its own in a folder, and the notes to ``notes.txt`` there; return the paths.

    frames: by the name of the table, which becomes the name of its file. folder: made where it is missing. form: csv,
    md, latex (the files then end in .tex, and ``tables.tex`` is a document that shows all of them) or json. layouts:
    how tables are laid out in LaTeX, by name. notes: what is to be said of a table, by its name; each becomes a line.
    inputs: files, or folders of files, that must not be overwritten. Raises ConfigError where a file cannot be written.
    """
    ending, said = "tex" if form == "latex" else form, notes or {}
    texts = {f"{name}.{ending}": render(frame, form, (layouts or {}).get(name)) for name, frame in frames.items()}
    if said:
        texts["notes.txt"] = "".join(f"{name}: {said[name]}\n" for name in frames if name in said)
    if form == "latex":
        from tomserve.reporting import latex

        shown = {name: said.get(name, "") for name, frame in frames.items() if frame.height}
        texts["tables.tex"] = latex.document(shown)
    with files.refuse_os_errors(folder, "cannot be written", "choose another --out"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_output(folder / name, text, inputs)
    return [folder / name for name in texts]


def write_output(path: Path, content: bytes | str, inputs: Sequence[Path]) -> None:
    """Write one file of several that a user wants. inputs: what must not be overwritten."""
    with output_path.open_output(path, *inputs) as file:
        file.write(content.encode() if isinstance(content, str) else content)
