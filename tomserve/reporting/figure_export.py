"""Export of a study's figures for print: PDF and SVG, as wide as one or two columns of a paper, with embedded fonts
and the same bytes each time.

Letters have eight points where the width allows it. The renderer's font, Liberation Sans, comes in no file of its
own: the glyphs that an SVG needs are taken from PDFs that the renderer writes.
"""

from __future__ import annotations

import base64
import io
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.sax import saxutils

import vl_convert
from fontTools import subset
from fontTools.fontBuilder import FontBuilder
from fontTools.ttLib import TTFont

from tomserve.content import output_path
from tomserve.errors import ConfigError
from tomserve.reporting.html.charts import CONFIG, SVG, Drawing, rename_ids
from tomserve.reporting.latex import escape
from tomserve.studies.presentation import Figure

FAMILY = "Liberation Sans"
_SVG = "http://www.w3.org/2000/svg"

_UNKNOWN = (
    "the letters of a figure cannot be taken from the PDF that vl-convert wrote, so that no SVG can be made with its "
    "font; install the version of vl-convert-python that launch/constraints.txt names"
)

Style = tuple[str, str]  # how letters are set: their weight (normal or bold) and their slope (normal or italic)


def embed_fonts(svg: str) -> str:
    """The SVG with the letters of its texts as fonts of its own, one for each weight and slope that it uses.

    Letters that the font does not have (see `missing_letters`) are left to the reader's fonts. Raises ConfigError where
    the font cannot be found in a PDF, as another version of vl-convert might write it.
    """
    root = ElementTree.fromstring(svg)
    faces = [face for style, letters in sorted(_letters(root).items()) for face in _faces(letters, style)]
    if not faces:
        return svg
    ElementTree.register_namespace("", _SVG)
    sheet = ElementTree.Element(f"{{{_SVG}}}style")
    sheet.text = "text{text-rendering:geometricPrecision}" + "".join(faces)  # as far apart as the font says
    root.insert(0, sheet)
    for element in root.iter(f"{{{_SVG}}}text"):
        element.set("font-family", f"'{FAMILY}', Arial, Helvetica, sans-serif")
    return ElementTree.tostring(root, encoding="unicode")


def missing_letters(svg: str) -> str:
    """The letters of an SVG's texts that the font of the figures does not have, each once, in order."""
    found = set()
    for style, letters in _letters(ElementTree.fromstring(svg)).items():
        found |= letters - {letter for _, glyphs in _parts(letters, style) for letter in glyphs}
    return "".join(sorted(found))


def _letters(root: ElementTree.Element) -> dict[Style, set[str]]:
    """The letters of all texts by how they are set."""
    found: dict[Style, set[str]] = {}
    for element in root.iter(f"{{{_SVG}}}text"):
        bold = element.get("font-weight", "normal") in ("bold", "bolder", "600", "700", "800", "900")
        slanted = element.get("font-style", "normal") in ("italic", "oblique")
        style = "bold" if bold else "normal", "italic" if slanted else "normal"
        letters = {letter for text in element.itertext() for letter in text if letter.isprintable()}
        if letters:
            found.setdefault(style, set()).update(letters)
    return found


def _faces(letters: set[str], style: Style) -> Iterator[str]:
    """The rules of a style sheet that hold these letters."""
    for place, (program, glyphs) in enumerate(_parts(letters, style)):
        data = base64.b64encode(_name_glyphs(program, glyphs)).decode()
        only = f"unicode-range:{','.join(f'U+{ord(one):X}' for one in sorted(glyphs))};" if place else ""
        about = f"font-family:'{FAMILY}';font-weight:{style[0]};font-style:{style[1]};{only}"
        yield f"@font-face{{{about}src:url(data:font/ttf;base64,{data})}}"


def _parts(letters: set[str], style: Style) -> Iterator[tuple[bytes, dict[str, int]]]:
    """Parts of the font (TrueType) that together have these letters, each with the numbers of their glyphs.

    There is more than one where two letters look alike, such as the Greek mu and the sign for a millionth: a PDF says
    of a glyph that it is one of them. Letters that the font does not have are in none.
    """
    left = {one for one in letters if _is_one_glyph(one, style)}
    while left:
        found = _font_in_pdf(vl_convert.svg_to_pdf(_specimen_svg(left, style)))
        if found is None or not found[1].keys() & left:
            if any(one.isascii() and one.isalnum() for one in left):
                raise ConfigError(_UNKNOWN)  # of these it has all
            return
        program, glyphs = found
        yield program, {letter: number for letter, number in glyphs.items() if letter in left}
        left -= glyphs.keys()


def _is_one_glyph(letter: str, style: Style) -> bool:
    """Whether a letter that may be written as a letter and a mark, such as one with an accent, is one glyph; what the
    font puts together from two glyphs is not a letter that it has."""
    apart = unicodedata.decomposition(letter)
    if not apart or apart.startswith("<"):
        return True
    found = _font_in_pdf(vl_convert.svg_to_pdf(_specimen_svg([letter], style)))
    return found is not None and found[1].get(letter) == 1


def _specimen_svg(letters: Iterable[str], style: Style) -> str:
    """An SVG that shows these letters, each by itself, so that none is joined with its neighbour; a blank, which is
    nothing by itself, between two letters."""
    about = f'font-family="{FAMILY}" font-size="12" font-weight="{style[0]}" font-style="{style[1]}"'
    texts = [
        f'<text x="{20 * place}" y="20" xml:space="preserve" {about}>{saxutils.escape(one)}</text>'
        for place, one in enumerate("n n" if one == " " else one for one in sorted(letters))
    ]
    return f'<svg xmlns="{_SVG}" width="{20 * len(texts)}" height="30">{"".join(texts)}</svg>'


def _font_in_pdf(pdf: bytes) -> tuple[bytes, dict[str, int]] | None:
    """The part of the font of the figures that a PDF holds, and the number of the glyph of each letter; None where it
    holds none.

    A PDF is a list of numbered objects. A font (Type0) names the object that says what its glyphs stand for and, by two
    steps, the one that holds their shapes. Raises ConfigError where one of them is not as expected.
    """
    marks = re.finditer(rb"(?<!\d)(\d+) 0 obj\b(.*?)\bendobj\b", pdf, re.S)
    objects = {int(one[1]): one[2] for one in marks}
    try:
        for one in objects.values():
            if b"/Type0" not in one or FAMILY.replace(" ", "").encode() not in one:
                continue
            below = objects[_reference(objects[_reference(one, b"DescendantFonts")], b"FontDescriptor")]
            program = _stream(objects[_reference(below, b"FontFile2")])
            table = _stream(objects[_reference(one, b"ToUnicode")])
            return program, {text: number for number, text in _numbers(table) if number and len(text) == 1}
    except (KeyError, ValueError, zlib.error):
        raise ConfigError(_UNKNOWN) from None
    return None


def _reference(dictionary: bytes, key: bytes) -> int:
    """The number of the object that a key of a dictionary of a PDF names. Raises ValueError where it names none."""
    found = re.search(rb"/" + key + rb"\s*\[?\s*(\d+) 0 R", dictionary)
    if found is None:
        raise ValueError
    return int(found[1])


def _stream(content: bytes) -> bytes:
    """What the stream of an object holds. Raises ValueError where it has none, zlib.error where it is damaged."""
    head, mark, body = content.partition(b"stream")
    if not mark:
        raise ValueError
    body = body.removeprefix(b"\r").removeprefix(b"\n")
    return zlib.decompressobj().decompress(body) if b"/FlateDecode" in head else body


def _numbers(table: bytes) -> Iterator[tuple[int, str]]:
    """By the number of a glyph the text that it stands for, as a table of the kind ToUnicode lists them one by one."""
    for block in re.findall(rb"beginbfchar(.*?)endbfchar", table, re.S):
        for number, text in re.findall(rb"<([0-9A-Fa-f]+)>\s*<([0-9A-Fa-f]+)>", block):
            yield int(number, 16), bytes.fromhex(text.decode()).decode("utf-16-be")


def _name_glyphs(program: bytes, glyphs: dict[str, int]) -> bytes:
    """The font with what a browser needs and a PDF does not: a table that says which of its glyphs each letter is, and
    one with its heights (OS/2); without the hints for coarse screens."""
    font = TTFont(io.BytesIO(program), recalcTimestamp=False)
    order, heights = font.getGlyphOrder(), font["hhea"]
    builder = FontBuilder(font=font)
    builder.setupCharacterMap({ord(letter): order[number] for letter, number in sorted(glyphs.items())})
    builder.setupOS2(
        sTypoAscender=heights.ascent,
        sTypoDescender=heights.descent,
        sTypoLineGap=heights.lineGap,
        usWinAscent=heights.ascent,
        usWinDescent=-heights.descent,
        fsType=0,  # the licence of the font, OFL, allows to embed it
    )
    taken = subset.Subsetter(subset.Options(hinting=False, notdef_outline=True, name_IDs=["*"]))
    taken.populate(text="".join(glyphs))
    taken.subset(font)
    out = io.BytesIO()
    font.save(out)
    return out.getvalue()


INCHES = {1: 3.3, 2: 7.0}  # how wide one and two columns are, in inches

FORMS = ("pdf", "svg")
POINTS = 8.0  # how large letters are where the width allows it, in points
LEAST = 6.0  # how large letters have to be so that they can be read on paper, in points
_LETTERS = 12.0  # how large letters are in a chart, in its own units
_NARROWEST = 90.0  # the shortest axis, in units of a chart

_FIELD, _SCALE, _GAP, _LABEL = 34.0, 72.0, 10.0, 150.0
"""The narrowest field of a map, the shortest scale of colours, the least room between maps, and how long labels are at
most where there is not enough room, in units of a chart."""

PRINT: dict[str, Any] = {
    **CONFIG,
    "background": "white",
    "padding": {"left": 2, "top": 2, "right": 2, "bottom": 2},
    "title": {**CONFIG["title"], "fontWeight": "normal"},
}


@dataclass(frozen=True)
class ExportedFigure:
    """A figure that was written.

    title, caption: in words.
    """

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
    Raises ConfigError where a file cannot be written, or no figure has a picture; then nothing is written.
    """
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
    """The chart as SVG in its own units, and the scale at which it is no wider than the column.

    An axis that may be of any length is made as long as the column allows. Letters have POINTS points where that is
    possible (see the head of this module); a chart that is narrower is left so.
    """
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
    fields: float = 1
    """How much is left of the width of fields and scales of colours, from 0 to 1, but never less than the least."""
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


_NAMED_PARTS = re.compile(rb"(/(?:ExtGState|XObject|Pattern|Shading|Font) <<\n)((?: +/\w+ \d+ 0 R\n)+)")
"""The list of parts of one kind in a PDF, each on a line; in another order they take as many bytes."""


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
