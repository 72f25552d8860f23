"""Export of a study's figures for print: PDF and SVG, as wide as one or two columns of a paper, with embedded fonts
and the same bytes each time.

Letters have eight points where the width allows it. An SVG embeds what it needs of the renderer's font, Liberation
Sans, whose files lie in ``fonts/``.
"""

import base64
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

from tomserve.content.files import refuse_os_errors
from tomserve.errors import ConfigError
from tomserve.reporting.drawing import Drawing
from tomserve.reporting.html.charts import Chart, Fit, Picture
from tomserve.reporting.latex import escape
from tomserve.reporting.pdf import pdf
from tomserve.reporting.tables import write_output
from tomserve.studies.presentation import Figure

FAMILY = "Liberation Sans"
_FONT = Path(__file__).parent / "fonts/LiberationSans-Regular.ttf"


@cache
def alphabet() -> frozenset[str]:
    """The letters that the font of figures has."""
    return frozenset(map(chr, TTFont(_FONT).getBestCmap()))


def missing_letters(letters: str) -> str:
    """Those of the letters that the font of figures does not have."""
    return "".join(sign for sign in letters if sign not in alphabet())


@cache
def subset_font(letters: str) -> tuple[TTFont, bytes]:
    """The font of figures with these letters alone, without the hints for coarse screens, and the bytes of its file."""
    font = TTFont(_FONT, recalcTimestamp=False)
    for table in {"FFTM", "GPOS", "GSUB", "kern"} & set(font.keys()):  # a figure has the letters one by one
        del font[table]  # before they are read, which takes longer than all else
    options = subset.Options(hinting=False, notdef_outline=True, layout_features=[], name_IDs=["*"])
    kept = subset.Subsetter(options)
    kept.populate(text=letters)
    kept.subset(font)
    out = io.BytesIO()
    font.save(out)
    return font, out.getvalue()


def font_style(letters: str) -> str:
    """A style sheet that brings the font with these letters; what the font lacks is left to the reader's fonts."""
    known = "".join(sign for sign in letters if sign in alphabet())
    if not known:
        return ""
    data = base64.b64encode(subset_font(known)[1]).decode()
    face = f"@font-face{{font-family:'{FAMILY}';src:url(data:font/ttf;base64,{data})}}"
    return f"text{{text-rendering:geometricPrecision}}{face}"  # as far apart as the font says


INCHES = {1: 3.3, 2: 7.0}  # how wide one and two columns are, in inches

FORMS = ("pdf", "svg")
POINTS = 8.0  # how large letters are where the width allows it, in points
LEAST = 6.0  # how large letters have to be so that they can be read on paper, in points
_LETTERS = 12.0  # how large letters are in a chart, in its own units
_NARROWEST = 90.0  # the shortest axis, in units of a chart
_LABEL = 150.0  # how long labels are at most where there is not enough room


@dataclass(frozen=True)
class ExportedFigure:
    """A figure that was written. title, caption: in words."""

    name: str  # of its files
    title: str
    caption: str
    files: tuple[Path, ...]  # the paths
    letters: float  # how large its letters are, in points
    lacking: str  # the letters in it that its font does not have

    def doubts(self) -> Iterator[str]:
        """What its author should know, in sentences."""
        if self.letters < LEAST:
            yield (
                f"{self.name}: is so wide that its letters have {self.letters:.1f} points; draw it over two columns "
                "(--columns 2), or fewer strategies at once"
            )
        if self.lacking:
            shown = " ".join(f"{one} (U+{ord(one):04X})" for one in self.lacking[:8])
            yield (
                f"{self.name}: its font does not have {shown}, which may look otherwise elsewhere, or be missing; a "
                "model gets another name by --label RUN=NAME"
            )


def write_figures(
    figures: Sequence[Figure], folder: Path, forms: Sequence[str], columns: int, inputs: Sequence[Path] = ()
) -> list[ExportedFigure]:
    """Write every picture of these figures into a folder, each with its caption, and ``figures.tex``, which shows all.
    figures: of a study. folder: where. forms: pdf, svg, or both. columns: 1 or 2. inputs: what must not be overwritten.
    Raises ConfigError where a file cannot be written, or no figure has a picture; then nothing is written."""
    pictures = list(_pictures(figures))
    if not pictures:
        raise ConfigError(
            "the study has no figure that can be drawn of these runs; its tables are there (analyze --out)"
        )
    with refuse_os_errors(folder, "cannot be written", "choose another --out"):
        folder.mkdir(parents=True, exist_ok=True)
        written = [_write_picture(one, folder, forms, columns, inputs) for one in pictures]
        if "pdf" in forms:
            write_output(folder / "figures.tex", document(written, columns), inputs)
    return written


@dataclass(frozen=True)
class _Picture:
    """One picture of a figure: the name of its files, its title and caption, its text alternative, and the chart."""

    name: str
    title: str
    caption: str
    label: str
    chart: Chart


def _pictures(figures: Sequence[Figure]) -> Iterator[_Picture]:
    taken: set[str] = set()
    for figure in figures:
        pictures = [(panel.title, panel.svg) for panel in figure.panels if isinstance(panel.svg, Picture)]
        stem = re.sub(r"[^A-Za-z0-9-]+", "-", figure.name).strip("-") or "figure"
        for number, (title, picture) in enumerate(pictures, 1):
            wanted = stem if len(pictures) == 1 else f"{stem}-{number}"
            name, more = wanted, 2
            while name.lower() in taken:  # two names that differ in what no file should be called
                name, more = f"{wanted}-{more}", more + 1
            taken.add(name.lower())
            told = (f"{title}." if title else "", figure.caption, figure.caveat)
            yield _Picture(name, figure.title, " ".join(filter(None, told)), picture.label, picture.chart)


def _write_picture(
    picture: _Picture, folder: Path, forms: Sequence[str], columns: int, inputs: Sequence[Path]
) -> ExportedFigure:
    drawing, scale = fit_chart(picture.chart, columns)
    letters = drawing.letters()
    files = [folder / f"{picture.name}.{form}" for form in forms]
    for path in files:
        content = (
            pdf(drawing, scale, *subset_font(letters))
            if path.suffix == ".pdf"
            else drawing.svg(picture.label, "pt", scale, font_style(letters)) + "\n"
        )
        write_output(path, content, inputs)
    write_output(folder / f"{picture.name}.txt", f"{picture.title}\n\n{picture.caption}\n", inputs)
    return ExportedFigure(
        picture.name, picture.title, picture.caption, tuple(files), scale * _LETTERS, missing_letters(letters)
    )


def fit_chart(chart: Chart, columns: int) -> tuple[Drawing, float]:
    """The chart drawn in its own units, and the scale at which it is no wider than the column. An axis that may be of
    any length is made as long as the column allows. Letters have POINTS points where that is possible (see the head of
    this module): fields and scales of colours get narrower first, then labels are cut off. A chart that is narrower
    than the column is left so."""
    scale = POINTS / _LETTERS
    room = 72 * INCHES[columns] / scale
    drawn = chart.drawing(Fit())
    for fit, enough in (
        (Fit(), POINTS),
        (Fit(fields=0.6), POINTS),
        (Fit(fields=0.3), POINTS),
        (Fit(fields=0), LEAST),
        (Fit(fields=0, label=_LABEL), LEAST),
    ):
        drawn = chart.drawing(fit)
        if chart.stretches:
            axis = room - chart.drawing(replace(fit, axis=1000.0)).width + 1000.0
            drawn = chart.drawing(replace(fit, axis=max(_NARROWEST, axis)))
        if drawn.width <= room * POINTS / enough + 0.01:
            break
    return drawn, min(scale, scale * room / drawn.width)


def document(drawn: Sequence[ExportedFigure], columns: int) -> str:
    """A LaTeX document that shows every figure with its caption and a label, in one or two columns."""
    star = "*" if columns == 2 else ""
    parts = [
        f"\\begin{{figure{star}}}\n\\centering\n\\includegraphics{{{one.name}.pdf}}\n"
        f"\\caption{{{escape(one.title)}. {escape(one.caption)}}}\n\\label{{fig:{one.name}}}\n"
        f"\\end{{figure{star}}}\n\\clearpage"
        for one in drawn
    ]
    head = "\\documentclass[10pt,twocolumn]{article}\n\\usepackage[utf8]{inputenc}\n"
    head += "\\usepackage{graphicx}\n\\usepackage[textwidth=7in,columnsep=0.4in]{geometry}\n\\begin{document}\n"
    return head + "\n".join(parts) + "\n\\end{document}\n"
