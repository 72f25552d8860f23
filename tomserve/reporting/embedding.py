"""Embeds the letters that a figure needs into its SVG, so that it looks the same wherever it is opened.

What draws the figures brings its font along, Liberation Sans, and puts a part of it into every PDF. That part is taken
from a PDF of the same letters: its glyphs, and which letter each of them is.
"""

from __future__ import annotations

import base64
import io
import re
import zlib
from xml.etree import ElementTree

import vl_convert
from fontTools.ttLib import TTFont, newTable
from fontTools.ttLib.tables._c_m_a_p import CmapSubtable

FAMILY = "Liberation Sans"
_SVG = "http://www.w3.org/2000/svg"
_SHOWN = re.compile(rb"\(((?:[^()\\]|\\.)*)\) Tj", re.S)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.S)
_PLAIN = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}


def embedded(svg: str) -> str:
    """The SVG with the letters of its texts as a font of its own. Letters that the font does not have are left to the
    reader's fonts."""
    root = ElementTree.fromstring(svg)
    letters = "".join(sorted({letter for text in root.itertext() for letter in text if not letter.isspace()}))
    if not letters:
        return svg
    font = _part(letters)
    face = f"@font-face{{font-family:'{FAMILY}';src:url(data:font/ttf;base64,{base64.b64encode(font).decode()})}}"
    ElementTree.register_namespace("", _SVG)
    style = ElementTree.Element(f"{{{_SVG}}}style")
    style.text = face
    root.insert(0, style)
    for element in root.iter(f"{{{_SVG}}}text"):
        element.set("font-family", f"'{FAMILY}', Arial, Helvetica, sans-serif")
    return ElementTree.tostring(root, encoding="unicode")


def _part(letters: str) -> bytes:
    """The glyphs of these letters as a TrueType font that says which letter each of them is."""
    mark = {"type": "text", "align": "left"}
    data = {"values": [{"letters": letters}]}
    spec = {"mark": mark, "data": data, "encoding": {"text": {"field": "letters"}}, "width": 20}
    config = {"font": "sans-serif", "text": {"limit": 0}}
    streams = _streams(vl_convert.vegalite_to_pdf(spec, config=config, allowed_base_urls=[]))
    fonts = [one for one in streams if one.startswith((b"\x00\x01\x00\x00", b"true"))]
    shown = [_number(one) for text in streams if not text.startswith(b"\x00") for one in _SHOWN.findall(text)]
    font = TTFont(io.BytesIO(fonts[0]), recalcTimestamp=False)
    order = font.getGlyphOrder()
    table = CmapSubtable.newSubtable(4)
    table.platformID, table.platEncID, table.language = 3, 1, 0
    # With several fonts, letters that the first lacks have numbers of another, so that only its own are taken.
    pairs = zip(letters, shown, strict=False) if len(fonts) == 1 else ()
    table.cmap = {ord(letter): order[number] for letter, number in pairs if number < len(order) and ord(letter) < 65536}
    cmap = font["cmap"] = newTable("cmap")
    cmap.tableVersion, cmap.tables = 0, [table]
    out = io.BytesIO()
    font.save(out)
    return out.getvalue()


def _streams(pdf: bytes) -> list[bytes]:
    """What the compressed streams of a PDF hold."""
    found = []
    for match in re.finditer(rb"stream\r?\n", pdf):
        try:
            found.append(zlib.decompressobj().decompress(pdf[match.end() :]))
        except zlib.error:
            continue
    return found


def _number(shown: bytes) -> int:
    """The number of the glyph that a PDF shows, a text of two bytes."""
    plain = _ESCAPE.sub(
        lambda one: _PLAIN.get(one[1]) or (bytes([int(one[1], 8)]) if one[1].isdigit() else one[1]), shown
    )
    return int.from_bytes(plain, "big")
