"""Draws charts as static SVG when the report is made, so that no program in the page reads what models wrote.

What Vega draws is parsed again and only known elements and attributes are kept. Colours are those of PALETTE; the
page's stylesheet replaces them by the colours of its scheme. Descriptions of marks become tooltips. One thread draws
while others go on computing, because Vega needs longer than all else that a report is made of.
"""

from __future__ import annotations

import os
import re
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Protocol

import vl_convert
from markupsafe import Markup

from tomserve.errors import ConfigError

INK, MUTED, GRID = "#1c2430", "#5b6675", "#d9dee5"
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#785ef0")
"""Okabe and Ito's colours, told apart by the colour-blind; shapes say the same once more."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")

CHECK: Callable[[dict[str, Any]], object] | None = None
"""Called with every chart before it is drawn. Tests hold it against the schema of Vega-Lite here, which takes as long
as to draw it; nothing that a run holds decides what a chart is made of, so that users need not wait for that."""

SVG = "http://www.w3.org/2000/svg"
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
    "view": {"stroke": None, "continuousWidth": 300, "continuousHeight": 300},
    "axis": {**_LABEL, "gridColor": GRID, "domainColor": MUTED, "tickColor": MUTED, "labelLimit": 230},
    "legend": {**_LABEL, "labelLimit": 230, "symbolSize": 70, "symbolStrokeWidth": 0},
    "title": {"color": INK, "fontSize": 13, "fontWeight": "bold", "anchor": "start"},
    "text": {"color": INK},
    "rule": {"color": MUTED},
}


class Chart(Protocol):
    """A chart of altair, or anything else that can be written as a specification of Vega-Lite."""

    def to_dict(self) -> dict[str, Any]:
        """The specification."""


class Drawing:
    """A picture that may still be being drawn; whoever asks for its HTML waits for it."""

    def __init__(self, specification: Mapping[str, Any], label: str, prefix: str) -> None:
        self.specification = {**specification}
        """The chart in the language of Vega-Lite, for who draws it elsewhere."""
        self._text = _queued({**specification})
        self._label, self._prefix = label, prefix
        self._drawn: Markup | None = None

    def __html__(self) -> Markup:
        """The picture as an <svg role="img">. Raises ConfigError for a chart that Vega cannot draw."""
        if self._drawn is None:
            try:
                text = self._text.result()
            except ValueError as error:
                said = re.search(r"Error: (.+)", str(error))  # above and below it is where in Vega that was
                why = said[1] if said is not None else " ".join(str(error).split())
                raise ConfigError(f"the figure {self._prefix} cannot be drawn: {why}") from None
            self._drawn = _picture(text, self._label, self._prefix)
        return self._drawn

    def __str__(self) -> str:
        return str(self.__html__())


def draw(chart: Mapping[str, Any] | Chart, label: str, prefix: str) -> Drawing:
    """The chart, a specification of Vega-Lite or a chart of altair, as a picture with that text alternative.

    prefix: begins the ids of its parts, so that they are unique in a page; the name of the figure and a number will do.
    A chart of altair is checked and drawn at once, so that a mistake in it is told where it was made.
    """
    specification = chart if isinstance(chart, Mapping) else chart.to_dict()
    if CHECK is not None:
        CHECK({**specification})
    drawing = Drawing(specification, label, prefix)
    if not isinstance(chart, Mapping):
        drawing.__html__()
    return drawing


def begin() -> None:
    """Start what draws, which takes it most of a second, while the caller has other things to do."""
    _queued({"mark": "point", "data": {"values": []}})


class _Draughtsman:
    """The thread that draws. It ends with the program, also in the middle of a picture."""

    def __init__(self) -> None:
        self.orders: SimpleQueue[tuple[Future[str], dict[str, Any]]] = SimpleQueue()
        self.process = os.getpid()
        threading.Thread(target=self._work, name="drawing", daemon=True).start()

    def _work(self) -> None:
        while True:
            drawn, specification = self.orders.get()
            try:
                drawn.set_result(vl_convert.vegalite_to_svg(specification, config=CONFIG, allowed_base_urls=[]))
            except BaseException as error:  # whoever waits for the picture is told
                drawn.set_exception(error)


_draughtsman: _Draughtsman | None = None


def _queued(specification: dict[str, Any]) -> Future[str]:
    """What Vega will have drawn. A process that was forked has none of its parent's threads and gets its own."""
    global _draughtsman
    if _draughtsman is None or _draughtsman.process != os.getpid():
        _draughtsman = _Draughtsman()
    drawn: Future[str] = Future()
    _draughtsman.orders.put((drawn, specification))
    return drawn


def _picture(text: str, label: str, prefix: str) -> Markup:
    """What Vega drew, with nothing but what may stand in a page."""
    root = _kept(ElementTree.fromstring(text))
    assert root is not None
    rename(root, prefix)
    root.set("role", "img")
    root.set("aria-label", label)
    root.set("xmlns", SVG)
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _kept(element: ElementTree.Element) -> ElementTree.Element | None:
    """A copy of the element without parts that are not known, not visible or empty; None where nothing is left."""
    name = element.tag.removeprefix(f"{{{SVG}}}")
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


def rename(root: ElementTree.Element, prefix: str) -> None:
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
