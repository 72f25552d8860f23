"""Draws the figures of a study for print: as PDF and SVG, as wide as one or two columns of a paper, with their fonts.

The letters have eight points, or as many as the width allows; a chart whose axis may be of any length is made as long
as the column is wide. What a figure shows and what a reader must know of it is the same as in the report.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import vl_convert

from tomserve.content import outputs
from tomserve.errors import ConfigError
from tomserve.reporting.embedding import embedded
from tomserve.reporting.html.svg import CONFIG, Drawing
from tomserve.reporting.latex import escape
from tomserve.studies.showing import Figure

INCHES = {1: 3.3, 2: 7.0}
"""How wide one and two columns are, in inches."""

FORMS = ("pdf", "svg")
POINTS = 8.0
"""How large letters are where the width allows it, in points."""

_LETTERS = 12.0
"""How large letters are in a chart, in its own units."""

_NARROWEST = 90.0
"""The shortest axis, in units of a chart."""

PRINT: dict[str, Any] = {
    **CONFIG,
    "background": "white",
    "padding": {"left": 2, "top": 2, "right": 2, "bottom": 2},
    "title": {**CONFIG["title"], "fontWeight": "normal"},
}


@dataclass(frozen=True)
class Drawn:
    """A figure that was written. name: of its files. title, caption: in words. files: the paths."""

    name: str
    title: str
    caption: str
    files: tuple[Path, ...]


def write(
    figures: Sequence[Figure],
    folder: Path,
    forms: Sequence[str],
    columns: int,
    inputs: Sequence[Path] = (),
) -> list[Drawn]:
    """Write every picture of these figures into a folder, each with its caption, and ``figures.tex``, which shows all.

    figures: of a study. folder: where. forms: pdf, svg, or both. columns: 1 or 2. inputs: what must not be overwritten.
    Raises ConfigError where a file cannot be written, or no figure has a picture.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = [one for figure in figures for one in _written(figure, folder, forms, columns, inputs)]
    if not written:
        raise ConfigError(
            "the study has no figure that can be drawn of these runs; its tables are there (analyze --out)"
        )
    if "pdf" in forms:
        _put(folder / "figures.tex", document(written, columns).encode(), inputs)
    return written


def _written(
    figure: Figure, folder: Path, forms: Sequence[str], columns: int, inputs: Sequence[Path]
) -> Iterator[Drawn]:
    pictures = [(panel.title, panel.svg) for panel in figure.panels if isinstance(panel.svg, Drawing)]
    for number, (title, picture) in enumerate(pictures, 1):
        name = re.sub(r"[^A-Za-z0-9-]+", "-", figure.name).strip("-") or "figure"
        name = name if len(pictures) == 1 else f"{name}-{number}"
        spec, scale = fitted(picture.specification, columns)
        files = []
        for form in forms:
            path = folder / f"{name}.{form}"
            _put(path, _pdf(spec, scale) if form == "pdf" else _svg(spec, scale).encode(), inputs)
            files.append(path)
        told = " ".join(one for one in (f"{title}." if title else "", figure.caption, figure.caveat) if one)
        _put(folder / f"{name}.txt", f"{figure.title}\n\n{told}\n".encode(), inputs)
        yield Drawn(name, figure.title, told, tuple(files))


def _put(path: Path, content: bytes, inputs: Sequence[Path]) -> None:
    try:
        with outputs.writing(path, *inputs) as file:
            file.write(content)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}); choose another --out") from None


def fitted(specification: Mapping[str, Any], columns: int) -> tuple[dict[str, Any], float]:
    """The chart with an axis as long as the column allows, and the scale at which it is as wide as the column.

    Letters have POINTS points; a chart that is wider even with the shortest axis is made smaller as a whole, and one
    that is narrower is left so.
    """
    spec = {**specification}
    scale = POINTS / _LETTERS
    room = 72 * INCHES[columns] / scale
    if isinstance(width := spec.get("width"), int | float):
        beside = _width(spec) - width
        spec["width"] = max(_NARROWEST, room - beside - 1)
    return spec, min(scale, scale * room / _width(spec))


def _width(spec: Mapping[str, Any]) -> float:
    """How wide a chart is when it is drawn, in its own units."""
    return float(ElementTree.fromstring(_drawn(spec)).get("width", "0"))


def _drawn(spec: Mapping[str, Any]) -> str:
    try:
        return str(vl_convert.vegalite_to_svg({**spec}, config=PRINT, allowed_base_urls=[]))
    except ValueError as error:
        raise ConfigError(f"a figure cannot be drawn: {' '.join(str(error).split())[:200]}") from None


def _svg(spec: Mapping[str, Any], scale: float) -> str:
    """The chart as SVG of its size in points, with its letters. Roles for screen readers stay as they are."""
    return embedded(_sized(_drawn(spec), scale)) + "\n"


def _sized(text: str, scale: float, unit: str = "pt") -> str:
    """An SVG of which a unit is so many points wide. unit: what points are called; in a PDF a unit is one."""
    root = ElementTree.fromstring(text)
    for side in ("width", "height"):
        length = float(root.get(side, "0")) * scale
        text = re.sub(rf'(<svg[^>]*? ){side}="[^"]*"', rf'\g<1>{side}="{length:.2f}{unit}"', text, count=1)
    return text


def _pdf(spec: Mapping[str, Any], scale: float) -> bytes:
    """The chart as PDF of its size in points."""
    found: bytes = vl_convert.svg_to_pdf(_sized(_drawn(spec), scale, ""))
    return found


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
