"""Embeds the letters that a figure needs into its SVG, so that it looks the same wherever it is opened.

What draws the figures brings its font along, Liberation Sans, and keeps no file of it: a part of the font stands in
every PDF that it writes. So the letters of a figure are written to a PDF, each by itself, and the part of the font is
taken from there. Which glyph stands for which letter is not guessed: a PDF says it in the table with which readers
search and copy its text (ToUnicode).
"""

from __future__ import annotations

import base64
import io
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import vl_convert
from fontTools import subset
from fontTools.fontBuilder import FontBuilder
from fontTools.ttLib import TTFont

from tomserve.errors import ConfigError

FAMILY = "Liberation Sans"
_SVG = "http://www.w3.org/2000/svg"

_UNKNOWN = (
    "the letters of a figure cannot be taken from the PDF that vl-convert wrote, so that no SVG can be made with its "
    "font; install the version of vl-convert-python that launch/constraints.txt names"
)

Style = tuple[str, str]
"""How letters are set: their weight (normal or bold) and their slope (normal or italic)."""


def embedded(svg: str) -> str:
    """The SVG with the letters of its texts as fonts of its own, one for each weight and slope that it uses.

    Letters that the font does not have (see `lacking`) are left to the reader's fonts. Raises ConfigError where the
    font cannot be found in a PDF, as another version of vl-convert might write it.
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


def lacking(svg: str) -> str:
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
        data = base64.b64encode(_named(program, glyphs)).decode()
        only = f"unicode-range:{','.join(f'U+{ord(one):X}' for one in sorted(glyphs))};" if place else ""
        about = f"font-family:'{FAMILY}';font-weight:{style[0]};font-style:{style[1]};{only}"
        yield f"@font-face{{{about}src:url(data:font/ttf;base64,{data})}}"


def _parts(letters: set[str], style: Style) -> Iterator[tuple[bytes, dict[str, int]]]:
    """Parts of the font (TrueType) that together have these letters, each with the numbers of their glyphs.

    There is more than one where two letters look alike, such as the Greek mu and the sign for a millionth: a PDF says
    of a glyph that it is one of them. Letters that the font does not have are in none.
    """
    left = {one for one in letters if _whole(one, style)}
    while left:
        found = _in_pdf(vl_convert.svg_to_pdf(_specimen(left, style)))
        if found is None or not found[1].keys() & left:
            if any(one.isascii() and one.isalnum() for one in left):
                raise ConfigError(_UNKNOWN)  # of these it has all
            return
        program, glyphs = found
        yield program, {letter: number for letter, number in glyphs.items() if letter in left}
        left -= glyphs.keys()


def _whole(letter: str, style: Style) -> bool:
    """Whether a letter that may be written as a letter and a mark, such as one with an accent, is one glyph; what the
    font puts together from two glyphs is not a letter that it has."""
    apart = unicodedata.decomposition(letter)
    if not apart or apart.startswith("<"):
        return True
    found = _in_pdf(vl_convert.svg_to_pdf(_specimen([letter], style)))
    return found is not None and found[1].get(letter) == 1


def _specimen(letters: Iterable[str], style: Style) -> str:
    """An SVG that shows these letters, each by itself, so that none is joined with its neighbour; a blank, which is
    nothing by itself, between two letters."""
    about = f'font-family="{FAMILY}" font-size="12" font-weight="{style[0]}" font-style="{style[1]}"'
    texts = [
        f'<text x="{20 * place}" y="20" xml:space="preserve" {about}>{escape("n n" if one == " " else one)}</text>'
        for place, one in enumerate(sorted(letters))
    ]
    return f'<svg xmlns="{_SVG}" width="{20 * len(texts)}" height="30">{"".join(texts)}</svg>'


def _in_pdf(pdf: bytes) -> tuple[bytes, dict[str, int]] | None:
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


def _named(program: bytes, glyphs: dict[str, int]) -> bytes:
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
