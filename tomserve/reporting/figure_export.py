"""Export of a study's figures for print: PDF and SVG, as wide as one or two columns of a paper, with embedded fonts
and the same bytes each time.

Letters have eight points where the width allows it. An SVG embeds what it needs of the renderer's font, Liberation
Sans, whose files lie in ``fonts/``.
"""

from __future__ import annotations

import base64
import io
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import vl_convert
from fontTools import subset
from fontTools.ttLib import TTFont

from tomserve.content import output_path
from tomserve.errors import ConfigError
from tomserve.reporting.html.charts import CONFIG, SVG, Drawing, rename_ids
from tomserve.reporting.latex import escape
from tomserve.studies.presentation import Figure

FAMILY = "Liberation Sans"
_FONTS = Path(__file__).parent / "fonts"
_FACES = {
    ("normal", "normal"): "Regular",
    ("bold", "normal"): "Bold",
    ("normal", "italic"): "Italic",
    ("bold", "italic"): "BoldItalic",
}

Style = tuple[str, str]  # how letters are set: their weight (normal or bold) and their slope (normal or italic)


def embed_fonts(svg: str) -> str:
    """The SVG with the letters of its texts as fonts of its own, one for each weight and slope that it uses; letters
    that the font does not have (see `missing_letters`) are left to the reader's fonts."""
    root = ElementTree.fromstring(svg)
    faces = [
        f"@font-face{{font-family:'{FAMILY}';font-weight:{weight};font-style:{slope};"
        f"src:url(data:font/ttf;base64,{base64.b64encode(_subset_font((weight, slope), known)).decode()})}}"
        for (weight, slope), letters in sorted(_letters(root).items())
        if (known := letters & _alphabet((weight, slope)))
    ]
    if not faces:
        return svg
    ElementTree.register_namespace("", SVG)
    sheet = ElementTree.Element(f"{{{SVG}}}style")
    sheet.text = "text{text-rendering:geometricPrecision}" + "".join(faces)  # as far apart as the font says
    root.insert(0, sheet)
    for element in root.iter(f"{{{SVG}}}text"):
        element.set("font-family", f"'{FAMILY}', Arial, Helvetica, sans-serif")
    return ElementTree.tostring(root, encoding="unicode")


def missing_letters(svg: str) -> str:
    """The letters of an SVG's texts that the font of the figures does not have, each once, in order."""
    styles = _letters(ElementTree.fromstring(svg)).items()
    return "".join(sorted(set().union(*(letters - _alphabet(style) for style, letters in styles))))


def _letters(root: ElementTree.Element) -> dict[Style, set[str]]:
    """The letters of all texts by how they are set."""
    found: dict[Style, set[str]] = {}
    for element in root.iter(f"{{{SVG}}}text"):
        bold = element.get("font-weight", "normal") in ("bold", "bolder", "600", "700", "800", "900")
        slanted = element.get("font-style", "normal") in ("italic", "oblique")
        style = "bold" if bold else "normal", "italic" if slanted else "normal"
        text = unicodedata.normalize("NFC", "".join(element.itertext()))  # as what draws it looks its glyphs up
        letters = set(filter(str.isprintable, text))
        if letters:
            found.setdefault(style, set()).update(letters)
    return found


def _font(style: Style) -> TTFont:
    return TTFont(_FONTS / f"LiberationSans-{_FACES[style]}.ttf", recalcTimestamp=False)


@cache
def _alphabet(style: Style) -> frozenset[str]:
    return frozenset(map(chr, _font(style).getBestCmap()))


def _subset_font(style: Style, letters: Iterable[str]) -> bytes:
    """The font with these letters alone, without the hints for coarse screens."""
    font = _font(style)
    options = subset.Options(hinting=False, notdef_outline=True, layout_features=[], name_IDs=["*"])
    options.drop_tables += ["FFTM", "GPOS", "GSUB", "kern"]  # a figure has no more room than the letters one by one
    kept = subset.Subsetter(options)
    kept.populate(text="".join(sorted(letters)))
    kept.subset(font)
    out = io.BytesIO()
    font.save(out)
    return out.getvalue()


INCHES = {1: 3.3, 2: 7.0}  # how wide one and two columns are, in inches

FORMS = ("pdf", "svg")
POINTS = 8.0  # how large letters are where the width allows it, in points
LEAST = 6.0  # how large letters have to be so that they can be read on paper, in points
_LETTERS = 12.0  # how large letters are in a chart, in its own units
_NARROWEST = 90.0  # the shortest axis, in units of a chart

# The narrowest field of a map, the shortest scale of colours, the least room between maps, and how long labels are at
# most where there is not enough room, in units of a chart
_FIELD, _SCALE, _GAP, _LABEL = 34.0, 72.0, 10.0, 150.0

PRINT: dict[str, Any] = {
    **CONFIG,
    "background": "white",
    "padding": {"left": 2, "top": 2, "right": 2, "bottom": 2},
    "title": {**CONFIG["title"], "fontWeight": "normal"},
}


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
    figures: Sequence[Figure],
    folder: Path,
    forms: Sequence[str],
    columns: int,
    inputs: Sequence[Path] = (),
) -> list[ExportedFigure]:
    """Write every picture of these figures into a folder, each with its caption, and ``figures.tex``, which shows all.
    figures: of a study. folder: where. forms: pdf, svg, or both. columns: 1 or 2. inputs: what must not be overwritten.
    Raises ConfigError where a file cannot be written, or no figure has a picture; then nothing is written."""
    pictures = list(_pictures(figures))
    if not pictures:
        raise ConfigError(
            "the study has no figure that can be drawn of these runs; its tables are there (analyze --out)"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [_write_picture(one, folder, forms, columns, inputs) for one in pictures]
        if "pdf" in forms:
            _write_file(folder / "figures.tex", document(written, columns), inputs)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written ({error.strerror}); choose another --out") from None
    return written


@dataclass(frozen=True)
class _Picture:
    """One picture of a figure: the name of its files, its title and caption, and the chart."""

    name: str
    title: str
    caption: str
    chart: Mapping[str, Any]


def _pictures(figures: Sequence[Figure]) -> Iterator[_Picture]:
    taken: set[str] = set()
    for figure in figures:
        pictures = [(panel.title, panel.svg) for panel in figure.panels if isinstance(panel.svg, Drawing)]
        stem = re.sub(r"[^A-Za-z0-9-]+", "-", figure.name).strip("-") or "figure"
        for number, (title, picture) in enumerate(pictures, 1):
            wanted = stem if len(pictures) == 1 else f"{stem}-{number}"
            name, more = wanted, 2
            while name.lower() in taken:  # two names that differ in what no file should be called
                name, more = f"{wanted}-{more}", more + 1
            taken.add(name.lower())
            told = (f"{title}." if title else "", figure.caption, figure.caveat)
            yield _Picture(name, figure.title, " ".join(filter(None, told)), picture.specification)


def _write_picture(
    picture: _Picture, folder: Path, forms: Sequence[str], columns: int, inputs: Sequence[Path]
) -> ExportedFigure:
    svg, scale = fit_chart(picture.chart, columns)
    files = [folder / f"{picture.name}.{form}" for form in forms]
    for path in files:
        _write_file(path, _pdf(svg, scale) if path.suffix == ".pdf" else _svg(svg, scale), inputs)
    _write_file(folder / f"{picture.name}.txt", f"{picture.title}\n\n{picture.caption}\n", inputs)
    return ExportedFigure(
        picture.name, picture.title, picture.caption, tuple(files), scale * _LETTERS, missing_letters(svg)
    )


def _write_file(path: Path, content: bytes | str, inputs: Sequence[Path]) -> None:
    with output_path.open_output(path, *inputs) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def fit_chart(specification: Mapping[str, Any], columns: int) -> tuple[str, float]:
    """The chart as SVG in its own units, and the scale at which it is no wider than the column. An axis that may be of
    any length is made as long as the column allows. Letters have POINTS points where that is possible (see the head of
    this module); a chart that is narrower is left so."""
    scale = POINTS / _LETTERS
    room = 72 * INCHES[columns] / scale
    drawn, width = "", 0.0
    for spec, enough in _attempts(specification):
        drawn = _draw_svg(spec)
        width = _width(drawn)
        if isinstance(axis := spec.get("width"), int | float):
            drawn = _draw_svg({**spec, "width": max(_NARROWEST, room - (width - axis) - 1)})
            width = _width(drawn)
        if width <= room * POINTS / enough:
            break
    return drawn, min(scale, scale * room / width)


def _attempts(specification: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], float]]:
    """The chart as it is, and then ever narrower: the legend in more lines, then fields and scales of colours, then
    labels, which are cut off. Each with how large its letters have to be, in points, to be taken."""
    yield {**specification}, POINTS
    for narrowed, enough in (
        (_Narrowing(2), POINTS),
        (_Narrowing(1), POINTS),
        (_Narrowing(2, 0.6), POINTS),
        (_Narrowing(2, 0.3), POINTS),
        (_Narrowing(1, 0), LEAST),
        (_Narrowing(1, 0, _LABEL), LEAST),
    ):
        yield {key: narrowed.of(key, value) for key, value in specification.items()}, enough


@dataclass(frozen=True)
class _Narrowing:
    """How a chart is made narrower."""

    legend: int  # how many names stand side by side at most
    # How much is left of the width of fields and scales of colours, from 0 to 1, but never less than the least
    fields: float = 1
    label: float | None = None  # how long labels are at most

    def of(self, key: str, value: Any) -> Any:
        """What stands under that key of a chart."""
        if key == "columns":
            return min(value, self.legend)
        if key == "width" and isinstance(value, Mapping) and "step" in value:
            return {**value, "step": self._less(value["step"], _FIELD)}
        if key == "gradientLength":
            return self._less(value, _SCALE)
        if key == "spacing":
            return self._less(value, _GAP)
        if isinstance(value, Mapping):
            found = {inner: self.of(inner, one) for inner, one in value.items()}
            if self.label is not None and key == "axis" and "labelLimit" not in value:
                found["labelLimit"] = self.label
            return found
        return [self.of("", one) for one in value] if isinstance(value, list | tuple) and key != "values" else value

    def _less(self, value: float, least: float) -> float:
        return max(min(value, least), value * self.fields)


def _width(svg: str) -> float:
    """How wide an SVG is, in its own units."""
    return float(ElementTree.fromstring(svg).get("width", "0"))


def _draw_svg(spec: Mapping[str, Any]) -> str:
    try:
        text = vl_convert.vegalite_to_svg({**spec}, config=PRINT, allowed_base_urls=[])
    except ValueError as error:
        raise ConfigError(f"a figure cannot be drawn: {' '.join(str(error).split())[:200]}") from None
    ElementTree.register_namespace("", SVG)
    root = ElementTree.fromstring(text)
    rename_ids(root, "part")  # Vega counts its gradients up through the process
    return ElementTree.tostring(root, encoding="unicode")


def _svg(svg: str, scale: float) -> str:
    """The chart as SVG of its size in points, with its letters. Roles for screen readers stay as they are."""
    return embed_fonts(_resize_svg(svg, scale)) + "\n"


def _resize_svg(text: str, scale: float, unit: str = "pt") -> str:
    """An SVG of which a unit is so many points wide. unit: what points are called; in a PDF a unit is one."""
    root = ElementTree.fromstring(text)
    for side in ("width", "height"):
        length = float(root.get(side, "0")) * scale
        text = re.sub(rf'(<svg[^>]*? ){side}="[^"]*"', rf'\g<1>{side}="{length:.2f}{unit}"', text, count=1)
    return text


def _pdf(svg: str, scale: float) -> bytes:
    """The chart as PDF of its size in points, the same bytes each time: what draws it names the parts that a page uses
    in an order that changes from one time to the next."""
    found: bytes = vl_convert.svg_to_pdf(_resize_svg(svg, scale, ""))
    return _NAMED_PARTS.sub(lambda one: one[1] + b"".join(sorted(one[2].splitlines(keepends=True))), found)


# The list of parts of one kind in a PDF, each on a line; in another order they take as many bytes
_NAMED_PARTS = re.compile(rb"(/(?:ExtGState|XObject|Pattern|Shading|Font) <<\n)((?: +/\w+ \d+ 0 R\n)+)")


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
