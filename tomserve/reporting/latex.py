"""Writes tables in LaTeX for papers, laid out as the study says, or else column by column as they are.

>>> print(render(pl.DataFrame({"model": ["a_b"], "n": [1]})))
\\begin{tabular}{lr}
\\toprule
model & n \\\\
\\midrule
a\\_b & 1 \\\\
\\bottomrule
\\end{tabular}
<BLANKLINE>
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import polars as pl

from tomserve.studies.showing import Layout

_ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "\n": " ",
        **{character: "\\" + character for character in "&%$#_{}"},
    }
)


def escape(text: str) -> str:
    """The text with LaTeX's special characters escaped, so that LaTeX prints it as it stands."""
    return text.translate(_ESCAPES)


def render(frame: pl.DataFrame, layout: Layout | None = None) -> str:
    """A frame as LaTeX text, in ``tabular`` environments that need the package booktabs.

    layout: how the table is laid out (see tomserve.studies.Layout); None for a row of the frame in each line.
    """
    if layout is None or frame.is_empty():
        return _plain(frame)
    parts = frame.partition_by(layout.by, maintain_order=True)
    return "\n".join(_laid_out(part, str(part[layout.by][0]), layout) for part in parts)


def _plain(frame: pl.DataFrame) -> str:
    columns = "".join("r" if kind.is_numeric() else "l" for kind in frame.dtypes)
    rows = [" & ".join(_cell(value) for value in row) for row in frame.iter_rows()]
    return _tabular(columns, [" & ".join(map(escape, frame.columns))], rows)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return _number(value) if isinstance(value, float) else escape(str(value))


def _number(value: float) -> str:
    if math.isnan(value):
        return "--"
    if math.isinf(value):
        return r"$\infty$" if value > 0 else r"$-\infty$"
    text = f"{value:.3f}"
    return f"${text}$" if text.startswith("-") else text  # in math mode the hyphen is set as a minus sign


def _tabular(columns: str, head: Sequence[str], rows: Sequence[str]) -> str:
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [line if line.startswith(r"\cmidrule") else line + r" \\" for line in head]
    lines += [r"\midrule", *(row + r" \\" for row in rows), r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def _laid_out(part: pl.DataFrame, title: str, layout: Layout) -> str:
    first, second = layout.columns
    across = list(dict.fromkeys(part.select(first, second).iter_rows()))
    across.sort(key=lambda pair: list(dict.fromkeys(part[first])).index(pair[0]))
    low, high = layout.interval
    cells = {
        (row[layout.rows], (row[first], row[second])): (row[layout.value], row[low], row[high])
        for row in part.iter_rows(named=True)
    }
    rows = []
    for name in dict.fromkeys(part[layout.rows]):
        values = [cells.get((name, pair)) for pair in across]
        rows.append(" & ".join([escape(name), *_marked(values, layout.above)]))
    groups = [(name, sum(pair[0] == name for pair in across)) for name in dict.fromkeys(pair[0] for pair in across)]
    spans = " & ".join(rf"\multicolumn{{{width}}}{{c}}{{{escape(str(name))}}}" for name, width in groups)
    rules, at = [], 2
    for _, width in groups:
        rules.append(rf"\cmidrule(lr){{{at}-{at + width - 1}}}")
        at += width
    head = [f" & {spans}", "".join(rules), " & ".join(["", *(escape(str(pair[1])) for pair in across)])]
    comment = f"% {layout.value}, {title.replace(chr(10), ' ')}; best of a row bold"
    if layout.above is not None:
        comment += f", above {layout.above:g} underlined"
    return comment + "\n" + _tabular("l" + "c" * len(across), head, rows)


def _marked(cells: Sequence[tuple[float, float, float] | None], above: float | None) -> Iterator[str]:
    known = [cell[0] for cell in cells if cell is not None and cell[0] is not None and not math.isnan(cell[0])]
    for cell in cells:
        if cell is None:
            yield ""
            continue
        value, low, high = (math.nan if bound is None else bound for bound in cell)
        text = _number(value)
        if above is not None and value > above:
            text = rf"\underline{{{text}}}"
        if known and value == max(known):
            text = rf"\textbf{{{text}}}"
        yield (
            text
            if math.isnan(low) and math.isnan(high)
            else rf"{text} {{\scriptsize [{_number(low)}, {_number(high)}]}}"
        )
