"""Draws charts as static SVG when the report is made, so that no program in the page reads what models wrote.

What Vega draws is parsed again and only known elements and attributes are kept. Colours are those of PALETTE; the
page's stylesheet replaces them by the colours of its scheme. Descriptions of marks become tooltips.
"""

from __future__ import annotations

import contextlib
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import altair as alt
import vl_convert
from altair.utils.schemapi import debug_mode
from markupsafe import Markup

INK, MUTED, GRID = "#1c2430", "#5b6675", "#d9dee5"
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#785ef0")
"""Okabe and Ito's colours, told apart by the colour-blind; shapes say the same once more."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")

VALIDATED = False
"""Whether altair checks what charts are made of against the schema of Vega-Lite, which takes as long as to draw them.
Nothing that a run holds decides what a chart is made of, so that the tests check it for all of them."""

_SVG = "http://www.w3.org/2000/svg"
_ELEMENTS = frozenset(("svg", "g", "path", "rect", "line", "text", "defs", "clipPath", "linearGradient", "stop"))
_ATTRIBUTES = frozenset(
    (
        *("width", "height", "viewBox", "transform", "d", "x", "y", "x1", "x2", "y1", "y2", "id", "offset"),
        *("fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-miterlimit"),
        *("opacity", "text-anchor", "font-size", "font-weight", "font-style", "clip-path", "display", "pointer-events"),
        *("stop-color", "gradientUnits", "class"),
    )
)
_LABEL = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": "sans-serif",
    "padding": {"left": 22, "top": 4, "right": 14, "bottom": 4},
    "view": {"stroke": None},
    "axis": {**_LABEL, "gridColor": GRID, "domainColor": MUTED, "tickColor": MUTED, "labelLimit": 230},
    "legend": {**_LABEL, "labelLimit": 230, "symbolSize": 70, "symbolStrokeWidth": 0},
    "title": {"color": INK, "fontSize": 13, "fontWeight": "bold", "anchor": "start"},
    "text": {"color": INK},
    "rule": {"color": MUTED},
}


def quickly() -> contextlib.AbstractContextManager[None]:
    """Make charts without altair's checks inside this context (see VALIDATED); elsewhere it checks as ever."""
    return debug_mode(VALIDATED)


def draw(chart: alt.TopLevelMixin, label: str, prefix: str) -> Markup:
    """The chart as an <svg role="img"> with that text alternative.

    prefix: begins the ids of its parts, so that they are unique in a page; the name of the figure and a number will do.
    """
    with quickly():
        specification = chart.to_dict(validate=VALIDATED)
    text = vl_convert.vegalite_to_svg(specification, config=CONFIG, allowed_base_urls=[])
    root = _kept(ElementTree.fromstring(text))
    assert root is not None
    _rename(root, prefix)
    root.set("role", "img")
    root.set("aria-label", label)
    root.set("xmlns", _SVG)
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _kept(element: ElementTree.Element) -> ElementTree.Element | None:
    """A copy of the element without parts that are not known, not visible or empty; None where nothing is left."""
    name = element.tag.removeprefix(f"{{{_SVG}}}")
    if name not in _ELEMENTS or element.get("display") == "none":
        return None
    kept = ElementTree.Element(name, {key: value for key, value in element.items() if key in _ATTRIBUTES})
    if name != "svg":
        kept.attrib.pop("class", None)
    if name == "text":
        kept.text = element.text
    elif kept.get("d") == "" or (kept.get("d", "").startswith("M0,0h0v0h0Z")):
        return None
    if (note := element.get("aria-label")) and "graphics-symbol" in element.get("role", "") and name != "g":
        title = ElementTree.SubElement(kept, "title")
        title.text = note
    kept.extend(child for inner in element if (child := _kept(inner)) is not None)
    if name in ("g", "defs") and not len(kept):
        return None
    return kept


def _rename(root: ElementTree.Element, prefix: str) -> None:
    """Give all parts ids that are unique in the page and the same each time; Vega's own count up through the
    process."""
    named = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
    names = {old: f"{prefix}-{place}" for place, old in enumerate(named)}
    for element in root.iter():
        for key, value in element.attrib.items():
            if key == "id":
                element.set(key, names[value])
            elif found := re.fullmatch(r"url\(#(.+)\)", value):
                element.set(key, f"url(#{names[found[1]]})")
