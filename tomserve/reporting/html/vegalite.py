"""Writes charts in the language of Vega-Lite: layers of marks, each with its rows of data and what they look like.

>>> layer("point", [{"share": 0.5}], {"x": field("share:Q", title="share right")}, filled=True)["mark"]
{'type': 'point', 'filled': True}

A specification is a plain mapping (https://vega.github.io/vega-lite/docs/). Altair writes the same, and a study of your
own may well use it. Here it would take as long to import, and to write the charts down, as Vega takes to draw them. The
tests hold every chart against the schema of Vega-Lite.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Spec = dict[str, Any]
"""A specification of a chart, or a part of one."""

_TYPES = {"Q": "quantitative", "N": "nominal"}


def field(name: str, **more: Any) -> Spec:
    """A column and what is done with it, such as its axis, scale or legend.

    name: of the column and, behind a colon, its type: Q for numbers, N for names.
    """
    column, _, kind = name.partition(":")
    return {"field": column, "type": _TYPES[kind], **more}


def layer(mark: str, rows: Iterable[Mapping[str, Any]], encoding: Mapping[str, Spec], **style: Any) -> Spec:
    """Marks of one kind, one for each row of data, with the columns that decide where they are and how they look."""
    return {"mark": {"type": mark, **style}, "data": {"values": [dict(row) for row in rows]}, "encoding": {**encoding}}


def layered(layers: Iterable[Spec], width: int | Spec, height: int | Spec, **more: Any) -> Spec:
    """A chart of layers, from the lowest to the topmost, of that size in pixels or in steps."""
    return {"layer": list(layers), "width": width, "height": height, **more}
