"""Draws the figures of a study for print: as PDF and SVG, as wide as one or two columns of a paper, with their fonts.

The letters have eight points where the width allows it. A chart whose axis may be of any length is made as long as the
column is wide; one that is too wide gets narrower fields and a legend of more lines, and only then smaller letters.
What a figure shows and what a reader must know of it is the same as in the report.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import vl_convert

from tomserve.content import output_path
from tomserve.errors import ConfigError
from tomserve.reporting.embedding import embedded, lacking
from tomserve.reporting.html.svg import CONFIG, SVG, Drawing, rename
from tomserve.reporting.texletters import escape
from tomserve.studies.presentation import Figure

INCHES = {1: 3.3, 2: 7.0}
"""How wide one and two columns are, in inches."""

FORMS = ("pdf", "svg")
POINTS = 8.0
"""How large letters are where the width allows it, in points."""

LEAST = 6.0
"""How large letters have to be so that they can be read on paper, in points."""

_LETTERS = 12.0
"""How large letters are in a chart, in its own units."""

_NARROWEST = 90.0
"""The shortest axis, in units of a chart."""

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
class Drawn:
    """A figure that was written.

    name: of its files. title, caption: in words. files: the paths. letters: how large its letters are, in points.
    lacking: the letters in it that its font does not have.
    """

    name: str
    title: str
    caption: str
    files: tuple[Path, ...]
    letters: float
    lacking: str

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


def write(
    figures: Sequence[Figure],
    folder: Path,
    forms: Sequence[str],
    columns: int,
    inputs: Sequence[Path] = (),
) -> list[Drawn]:
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
        written = [_written(one, folder, forms, columns, inputs) for one in pictures]
        if "pdf" in forms:
            _put(folder / "figures.tex", document(written, columns), inputs)
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


def _written(picture: _Picture, folder: Path, forms: Sequence[str], columns: int, inputs: Sequence[Path]) -> Drawn:
    svg, scale = fitted(picture.chart, columns)
    files = [folder / f"{picture.name}.{form}" for form in forms]
    for path in files:
        _put(path, _pdf(svg, scale) if path.suffix == ".pdf" else _svg(svg, scale), inputs)
    _put(folder / f"{picture.name}.txt", f"{picture.title}\n\n{picture.caption}\n", inputs)
    return Drawn(picture.name, picture.title, picture.caption, tuple(files), scale * _LETTERS, lacking(svg))


def _put(path: Path, content: bytes | str, inputs: Sequence[Path]) -> None:
    with output_path.open_output(path, *inputs) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def fitted(specification: Mapping[str, Any], columns: int) -> tuple[str, float]:
    """The chart as SVG in its own units, and the scale at which it is no wider than the column.

    An axis that may be of any length is made as long as the column allows. Letters have POINTS points where that is
    possible (see the head of this module); a chart that is narrower is left so.
    """
    scale = POINTS / _LETTERS
    room = 72 * INCHES[columns] / scale
    drawn, width = "", 0.0
    for spec, enough in _attempts(specification):
        drawn = _drawn(spec)
        width = _width(drawn)
        if isinstance(axis := spec.get("width"), int | float):
            drawn = _drawn({**spec, "width": max(_NARROWEST, room - (width - axis) - 1)})
            width = _width(drawn)
        if width <= room * POINTS / enough:
            break
    return drawn, min(scale, scale * room / width)


def _attempts(specification: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], float]]:
    """The chart as it is, and then ever narrower: the legend in more lines, then fields and scales of colours, then
    labels, which are cut off. Each with how large its letters have to be, in points, to be taken."""
    yield {**specification}, POINTS
    for narrowed, enough in (
        (_Narrowed(2), POINTS),
        (_Narrowed(1), POINTS),
        (_Narrowed(2, 0.6), POINTS),
        (_Narrowed(2, 0.3), POINTS),
        (_Narrowed(1, 0), LEAST),
        (_Narrowed(1, 0, _LABEL), LEAST),
    ):
        yield {key: narrowed.of(key, value) for key, value in specification.items()}, enough


@dataclass(frozen=True)
class _Narrowed:
    """How a chart is made narrower.

    legend: how many names stand side by side at most. fields: how much is left of the width of fields and scales of
    colours, from 0 to 1, but never less than the least. label: how long labels are at most.
    """

    legend: int
    fields: float = 1
    label: float | None = None

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


def _drawn(spec: Mapping[str, Any]) -> str:
    try:
        text = vl_convert.vegalite_to_svg({**spec}, config=PRINT, allowed_base_urls=[])
    except ValueError as error:
        raise ConfigError(f"a figure cannot be drawn: {' '.join(str(error).split())[:200]}") from None
    ElementTree.register_namespace("", SVG)
    root = ElementTree.fromstring(text)
    rename(root, "part")  # Vega counts its gradients up through the process
    return ElementTree.tostring(root, encoding="unicode")


def _svg(svg: str, scale: float) -> str:
    """The chart as SVG of its size in points, with its letters. Roles for screen readers stay as they are."""
    return embedded(_sized(svg, scale)) + "\n"


def _sized(text: str, scale: float, unit: str = "pt") -> str:
    """An SVG of which a unit is so many points wide. unit: what points are called; in a PDF a unit is one."""
    root = ElementTree.fromstring(text)
    for side in ("width", "height"):
        length = float(root.get(side, "0")) * scale
        text = re.sub(rf'(<svg[^>]*? ){side}="[^"]*"', rf'\g<1>{side}="{length:.2f}{unit}"', text, count=1)
    return text


def _pdf(svg: str, scale: float) -> bytes:
    """The chart as PDF of its size in points, the same bytes each time: what draws it names the parts that a page uses
    in an order that changes from one time to the next."""
    found: bytes = vl_convert.svg_to_pdf(_sized(svg, scale, ""))
    return _NAMED_PARTS.sub(lambda one: one[1] + b"".join(sorted(one[2].splitlines(keepends=True))), found)


_NAMED_PARTS = re.compile(rb"(/(?:ExtGState|XObject|Pattern|Shading|Font) <<\n)((?: +/\w+ \d+ 0 R\n)+)")
"""The list of parts of one kind in a PDF, each on a line; in another order they take as many bytes."""


def document(drawn: Sequence[Drawn], columns: int) -> str:
    """A LaTeX document that shows every figure with its caption and a label, in one or two columns."""
    star = "*" if columns == 2 else ""
    parts = [
        rf"\begin{{figure{star}}}"
        "\n\\centering\n"
        rf"\includegraphics{{{one.name}.pdf}}"
        "\n"
        rf"\caption{{{escape(one.title)}. {escape(one.caption)}}}"
        "\n"
        rf"\label{{fig:{one.name}}}"
        "\n"
        rf"\end{{figure{star}}}"
        "\n\\clearpage"
        for one in drawn
    ]
    head = "\\documentclass[10pt,twocolumn]{article}\n\\usepackage[utf8]{inputenc}\n"
    head += "\\usepackage{graphicx}\n\\usepackage[textwidth=7in,columnsep=0.4in]{geometry}\n\\begin{document}\n"
    return head + "\n".join(parts) + "\n\\end{document}\n"
