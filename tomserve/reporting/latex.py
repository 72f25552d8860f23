r"""LaTeX for papers: tables laid out as the study says, and any text escaped so that it prints as it stands.

>>> print(render(pl.DataFrame({"model": ["a_b"], "n": [1]})))
\begin{tabular}{lr}
\toprule
model & n \\
\midrule
a\_b & 1 \\
\bottomrule
\end{tabular}
<BLANKLINE>
>>> escape("50% of a_b, x ≤ β"), escape("漢")
('50\\% of a\\_b, x $\\leq$ $\\beta$', '[U+6F22]')
"""

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import polars as pl

from tomserve.reporting import table_layout
from tomserve.studies.presentation import Layout

_ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        **dict.fromkeys("\n\r\t", " "),
        '"': "''",  # babel gives the straight sign a meaning of its own
        **{character: "\\" + character for character in "&%$#_{}"},
    }
)

# Where LaTeX would make two signs one: two hyphens a dash, two quotation marks another one, ?` a turned sign
_JOINED = re.compile(r"(?<=-)(?=-)|(?<=')(?=')|(?<=[`?!])(?=`)|(?<=,)(?=,)")

# Letters of Greek that LaTeX has no name for, since they look like these
_LATIN = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧο", "ABEZHIKMNOPTXo", strict=True))


def _greek() -> dict[str, str]:
    """The letters of Greek without accents, as LaTeX writes them."""
    found = {letter: rf"$\mathrm{{{latin}}}$" for letter, latin in _LATIN.items()}
    for letter in map(chr, range(0x391, 0x3CA)):
        said = re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER (\w+)", unicodedata.name(letter, ""))
        if said is not None and letter not in found:
            name = said[2].lower().replace("lamda", "lambda")
            found[letter] = rf"$\{name.capitalize() if said[1] == 'CAPITAL' else name}$"
    return found | {"ς": r"$\varsigma$"}


# Signs beyond ASCII, as LaTeX writes them
_SIGNS = {
    "\N{MINUS SIGN}": "$-$",
    "\N{EN DASH}": "--",
    "\N{EM DASH}": "---",
    "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
    "\N{LEFT SINGLE QUOTATION MARK}": "`",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{LEFT DOUBLE QUOTATION MARK}": "``",
    "\N{RIGHT DOUBLE QUOTATION MARK}": "''",
    "\N{NO-BREAK SPACE}": "~",
    "\N{BULLET}": r"\textbullet{}",
    "\N{MICRO SIGN}": r"$\mu$",
    "°": r"$^\circ$",
    "²": "$^2$",
    "³": "$^3$",
    **{"→": r"$\rightarrow$", "×": r"$\times$", "÷": r"$\div$", "±": r"$\pm$", "·": r"$\cdot$", "∞": r"$\infty$"},
    **{"≤": r"$\leq$", "≥": r"$\geq$", "≠": r"$\neq$", "≈": r"$\approx$"},
    **_greek(),
}

# Letters among those with accents that are not in the fonts that LaTeX takes where nobody chooses others (OT1)
_FURTHER = "ÐÞðþĄąĐđĘęĦħĮįĸĿŀŉŊŋŦŧŲųſ"

# What pdflatex cannot print without further packages: all but ASCII and most letters with accents
_BEYOND = re.compile(rf"[^\x20-\x7e\u00c0-\u017f]|[×÷{_FURTHER}]")


def escape(text: str) -> str:
    """The text with LaTeX's special characters escaped, so that LaTeX prints it as it stands. Letters of scripts that
    pdflatex does not have without further packages stand as their code, such as [U+6C49]."""
    escaped = "{}".join(part.translate(_ESCAPES) for part in _JOINED.split(text))
    return (
        escaped
        if escaped.isascii() and escaped.isprintable()
        else _BEYOND.sub(lambda found: _SIGNS.get(found[0]) or letter_code(found[0]), escaped)
    )


def printed_text(text: str) -> str:
    """The text as it takes room in print: letters that pdflatex does not have are written as their codes."""
    text = text.replace("\n", " ")
    return (
        text
        if text.isascii()
        else _BEYOND.sub(lambda found: found[0] if found[0] in _SIGNS else letter_code(found[0]), text)
    )


CODE = r"\[U\+[0-9A-F]{4,6}\]"  # what matches a letter that is written as its code


def letter_code(letter: str) -> str:
    """A letter as its code."""
    return f"[U+{ord(letter):04X}]"


def guard_row(row: str) -> str:
    r"""A row of a table so that LaTeX does not take its first sign for an option of what ended the row before: a
    bracket after ``\\`` or ``\toprule`` is a length, and a star forbids to end the page."""
    return "{}" + row if row.lstrip().startswith(("[", "*")) else row


_CELL = 17  # how many characters a share with its interval takes, whose digits are small
_LONGEST = 24  # the longest part of a text that is never divided, in characters


def document(tables: Mapping[str, str]) -> str:
    """A whole document that shows tables, which lie in files beside it. tables: the caption by the name of the file,
    without its ending. A table that was set apart into several keeps one caption."""
    parts = [
        "\\refstepcounter{table}\\noindent Table \\thetable: "
        rf"{escape(name.replace('_', ' '))}. {escape(caption)}\label{{tab:{name}}}"
        "\n\n\\medskip{\\small\\parindent0pt\\parskip1ex\n"
        rf"\input{{{name}.tex}}}}"
        "\\clearpage"
        for name, caption in tables.items()
    ]
    head = (
        "\\documentclass[10pt]{article}\n\\usepackage[utf8]{inputenc}\n\\usepackage{booktabs}\n"
        "\\usepackage[textwidth=7in,textheight=9.5in]{geometry}\n\\begin{document}\n"
    )
    return head + "\n".join(parts) + "\n\\end{document}\n"


# What fits between the margins of a page of the class article in 10 points: about 66 characters
ROOM = table_layout.TableWidth(66, 3, 3)


def render(frame: pl.DataFrame, layout: Layout | None = None) -> str:
    """A frame as LaTeX text, in ``tabular`` environments that need the package booktabs and fit an ordinary page.
    layout: how the table is laid out (see tomserve.studies.Layout); None for a row of the frame in each line. Columns
    without values are left out, and a table without rows is a comment that says so. One that is too wide is set apart
    into several environments below each other (see tomserve.reporting.table_layout)."""
    if frame.is_empty():
        return "% This table has no rows and is left out.\n"
    if layout is None:
        return _plain(frame)
    parts = frame.partition_by(layout.by, maintain_order=True)
    named = {str(part[layout.by][0]): part for part in parts}
    return "\n".join(_lay_out(part, name, layout, alone=len(named) == 1) for name, part in named.items())


def _plain(frame: pl.DataFrame) -> str:
    empty = [name for name in frame.columns if frame[name].null_count() == frame.height]
    kept = frame.drop(empty) if len(empty) < frame.width else frame
    columns = [
        replace(one, name=_text(one.name), cells=tuple(map(_cell, kept[one.name])))
        for one in table_layout.columns_of(kept)
    ]
    said, parts = table_layout.arrange_table("", columns, ROOM)
    comments = [f"left out, as nothing is in them: {', '.join(empty)}"] if kept.width < frame.width else []
    comments += [said.strip()] if said else []
    texts = ["".join(f"% {comment}\n".replace("\r", " ") for comment in map(_one_line, comments))]
    for heading, part in parts:
        texts += [_block(block, heading) for block in table_layout.column_blocks(part, ROOM)]
    return "\n".join(text for text in texts if text)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _text(value: object) -> str:
    """A text as it takes room in print, in which a line may end within a word that is too long for one."""
    return table_layout.divide_text(printed_text(str(value)), _LONGEST, CODE)


def _block(columns: Sequence[table_layout.Column], heading: str) -> str:
    """One environment, or several with the same head where it has more lines than fit a page. heading: what all its
    rows have in common, which stands above them; may be empty."""
    widths, _ = table_layout.fit_widths(columns, ROOM)
    kinds = "".join("r" if one.number else "l" for one in columns)
    names = (_lines(one.name, widths[one.name]) for one in columns)
    head = [" & ".join(_stack_lines(name, kind) for name, kind in zip(names, kinds, strict=True))]
    if heading:
        head.insert(0, rf"\multicolumn{{{len(columns)}}}{{l}}{{{_stack_lines(_lines(heading, ROOM.width), 'l')}}}")
    rows: list[tuple[str, int]] = []
    for place in range(len(columns[0].cells)):
        row = [[one.cells[place]] if one.number else _lines(one.cells[place], widths[one.name]) for one in columns]
        rows += _rows(row, [one.number for one in columns])
    above = max(len(_lines(one.name, widths[one.name])) for one in columns) + bool(heading)
    return "\n".join(_tabular(kinds, head, part) for part in _pages(rows, above))


# The most lines of one environment with its head; more would not fit a page, and follow in another with that head
TALLEST = 43


_HIGHEST = 30  # the most lines of one row


def _rows(cells: Sequence[Sequence[str]], numbers: Sequence[bool]) -> Iterator[tuple[str, int]]:
    """A row of a table, or several where its cells have more lines than fit a page, each with the number of its lines.
    cells: the lines of each. numbers: whether each is a number."""
    for at in range(0, max(map(len, cells)), _HIGHEST):
        parts = [cell[at : at + _HIGHEST] for cell in cells]
        told = (
            _number_in_math("".join(part)) if number else _stack_lines(part, "l")
            for part, number in zip(parts, numbers, strict=True)
        )
        yield " & ".join(told), max(map(len, parts))


def _pages(rows: Sequence[tuple[str, int]], above: int) -> Iterator[list[str]]:
    """The rows in groups that have no more lines than fit a page below a head of so many lines."""
    page: list[str] = []
    taken = 0
    for row, lines in rows:
        if page and above + taken + lines > TALLEST:
            yield page
            page, taken = [], 0
        page.append(row)
        taken += lines
    yield page


def _lines(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` characters."""
    return table_layout.break_lines(text, width).split("\n")


def _stack_lines(lines: Sequence[str], side: str) -> str:
    """Lines below each other, at the left (l), in the middle (c) or at the right (r)."""
    told = [escape(line.replace(table_layout.BREAK, "")) for line in lines]
    if len(told) < 2:
        return "".join(told)
    return rf"\shortstack[{side}]{{" + r" \\ ".join(map(guard_row, told)) + "}"


def _cell(value: object) -> str:
    """A value as plain text, whose length is that of what LaTeX shows."""
    if value is None:
        return ""
    return _plain_number(value) if isinstance(value, float) else _text(value)


def _plain_number(value: float) -> str:
    if math.isnan(value):
        return "--"
    return "inf" if value == math.inf else "-inf" if value == -math.inf else table_layout.number_text(value)


def _number_in_math(text: str) -> str:
    """A number as LaTeX sets it: in math mode where it has a sign or is infinite.

    >>> _number_in_math(">-0.001"), _number_in_math("0.012")
    ('$>-0.001$', '0.012')
    """
    text = text.replace("inf", r"\infty")
    return f"${text}$" if re.match(r"-[^-]|[<>]", text) or "infty" in text else text


def _number(value: float) -> str:
    return _number_in_math(_plain_number(value))


def _tabular(columns: str, head: Sequence[str], rows: Sequence[str]) -> str:
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [line if line.startswith(r"\cmidrule") else guard_row(line) + r" \\" for line in head]
    lines += [r"\midrule", *(guard_row(row) + r" \\" for row in rows), r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def _lay_out(part: pl.DataFrame, title: str, layout: Layout, *, alone: bool) -> str:
    """One part of a table that is laid out. title: what its rows have in common, which stands above them unless it is
    `alone`, the only part."""
    first, second = layout.columns
    across = list(dict.fromkeys(part.select(first, second).iter_rows()))
    across.sort(key=lambda pair: list(dict.fromkeys(part[first])).index(pair[0]))
    low, high = layout.interval
    cells: dict[tuple[str, tuple[object, object]], _Cell] = {}
    for row in part.iter_rows(named=True):  # where a row stands twice, for two populations, the first is the main one
        place = row[layout.rows], (row[first], row[second])
        cells.setdefault(place, (row[layout.value], row[low], row[high]))
    names = list(dict.fromkeys(part[layout.rows]))
    longest = min(max(len(_text(name)) for name in names), ROOM.width - _CELL - ROOM.narrow)
    room = max(1, (ROOM.width - longest) // (_CELL + ROOM.narrow))
    comment = f"% {layout.value}, {_one_line(title)}; best of a row bold"
    if layout.above is not None:
        comment += f", above {layout.above:g} underlined"
    bests = {name: _best([cells.get((name, pair)) for pair in across]) for name in names}
    texts = []
    for start in range(0, len(across), room):
        chosen = across[start : start + room]
        rows = []
        for name in names:
            lines = _lines(_text(name), longest)
            marked = _mark_best([cells.get((name, pair)) for pair in chosen], bests[name], layout.above)
            rows.append((" & ".join([_stack_lines(lines, "l"), *marked]), len(lines)))
        if unread := _unread(part, layout):
            rows.append((" & ".join([escape(_UNREAD), *(str(unread.get(pair, "")) for pair in chosen)]), 1))
        head = _span_heads(chosen)
        if not alone:
            above = _stack_lines(_lines(_text(f"{layout.by} {title}"), ROOM.width), "l")
            head.insert(0, rf"\multicolumn{{{len(chosen) + 1}}}{{l}}{{{above}}}")
        texts += [_tabular("l" + "c" * len(chosen), head, page) for page in _pages(rows, 3)]
    return f"{comment}\n" + "\n".join(texts)


_UNREAD = "unread, at most"  # the name of the row below a table of shares that says how many replies could not be read


def _unread(part: pl.DataFrame, layout: Layout) -> dict[tuple[object, object], int]:
    """The most replies of one cell that could not be read, for each column of the table, which is the number of all
    where a row holds all; empty where every reply was read, or nobody counted."""
    if "unread" not in part.columns or not part["unread"].sum():
        return {}
    most = part.group_by(layout.columns, maintain_order=True).agg(pl.col("unread").max())
    return {(first, second): unread for first, second, unread in most.iter_rows()}


def _span_heads(across: Sequence[tuple[object, object]]) -> list[str]:
    """The lines of a head in which the first values of pairs span the second ones."""
    groups = [(name, sum(pair[0] == name for pair in across)) for name in dict.fromkeys(pair[0] for pair in across)]
    spans = " & ".join(rf"\multicolumn{{{width}}}{{c}}{{{_above(name, width)}}}" for name, width in groups)
    rules, at = [], 2
    for _, width in groups:
        rules.append(rf"\cmidrule(lr){{{at}-{at + width - 1}}}")
        at += width
    return [f" & {spans}", "".join(rules), " & ".join(["", *(_above(pair[1], 1) for pair in across)])]


def _above(name: object, columns: int) -> str:
    """A name above so many columns."""
    return _stack_lines(_lines(_text(name), columns * _CELL + (columns - 1) * ROOM.narrow), "c")


_Cell = tuple[float, float, float] | None


def _best(cells: Sequence[_Cell]) -> float | None:
    """The highest value of a row; None where there are not at least two to choose from."""
    known = [cell[0] for cell in cells if cell is not None and cell[0] is not None and not math.isnan(cell[0])]
    return max(known) if len(known) > 1 else None


def _mark_best(cells: Sequence[_Cell], best: float | None, above: float | None) -> Iterator[str]:
    for cell in cells:
        if cell is None:
            yield ""
            continue
        value, low, high = (math.nan if bound is None else bound for bound in cell)
        text = _number(value)
        if above is not None and value > above:
            text = rf"\underline{{{text}}}"
        if best is not None and value == best:
            text = rf"\textbf{{{text}}}"
        yield (
            text
            if math.isnan(low) and math.isnan(high)
            else rf"{text} {{\scriptsize [{_number(low)}, {_number(high)}]}}"
        )
