"""A drawing as a PDF of one page, with its letters embedded: the same bytes each time (ISO 32000-1, PDF 1.4)."""

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fontTools.ttLib import TTFont

from tomserve.reporting.drawing import Circle, Drawing, Group, Letters, Part, Path, Place, plain

ROUND = 0.5523  # how far the handles of a Bezier curve lie from its ends, so that four of them are a circle of radius 1


@dataclass(frozen=True, slots=True)
class _Font:
    """A font of which each letter has a number and a width, in thousandths of the size of letters."""

    numbers: Mapping[str, int]
    widths: Mapping[int, int]

    def code(self, text: str) -> str:
        """The letters as hexadecimal numbers; one that the font lacks is its sign for that."""
        return "".join(f"{self.numbers.get(sign, 0):04X}" for sign in text)

    def width(self, text: str) -> float:
        """How wide a text is, of letters of size 1."""
        return sum(self.widths[self.numbers.get(sign, 0)] for sign in text) / 1000


def pdf(drawing: Drawing, scale: float, font: TTFont, data: bytes) -> bytes:
    """The drawing as PDF. scale: how many points a unit of the drawing has. font: what its letters are set in, at least
    those that it has of them; data: the bytes of its file."""
    per_em = 1000 / font["head"].unitsPerEm
    letters = {chr(code): font.getGlyphID(name) for code, name in font.getBestCmap().items()}
    widths = {font.getGlyphID(name): round(wide * per_em) for name, (wide, _) in font["hmtx"].metrics.items()}
    page = _Page(_Font(letters, widths), {})
    body = "\n".join([f"{scale:.5f} 0 0 {-scale:.5f} 0 {drawing.height * scale:.2f} cm", *page.of(drawing.parts)])
    box = " ".join(f"{side * scale:.2f}" for side in (drawing.width, drawing.height))
    states = " ".join(f"/G{k} << /ca {level:g} /CA {level:g} >>" for k, level in enumerate(page.levels))
    name = f"/AAAAAA+{font['name'].getDebugName(6) or 'LiberationSans'}"
    head, os2 = font["head"], font["OS/2"]
    bounds = " ".join(str(round(one * per_em)) for one in (head.xMin, head.yMin, head.xMax, head.yMax))
    heights = [
        round(one * per_em) for one in (font["hhea"].ascent, font["hhea"].descent, getattr(os2, "sCapHeight", 0))
    ]
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {box}] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> "
        f"/ExtGState << {states} >> >> >>".encode(),
        _stream(body.encode()),
        f"<< /Type /Font /Subtype /Type0 /BaseFont {name} /Encoding /Identity-H /DescendantFonts [6 0 R] "
        "/ToUnicode 9 0 R >>".encode(),
        f"<< /Type /Font /Subtype /CIDFontType2 /BaseFont {name} /CIDSystemInfo << /Registry (Adobe) /Ordering "
        f"(Identity) /Supplement 0 >> /FontDescriptor 7 0 R /CIDToGIDMap /Identity /W [0 "
        f"[{' '.join(str(widths[k]) for k in sorted(widths))}]] >>".encode(),
        f"<< /Type /FontDescriptor /FontName {name} /Flags 32 /FontBBox [{bounds}] /ItalicAngle 0 /Ascent {heights[0]} "
        f"/Descent {heights[1]} /CapHeight {heights[2]} /StemV 80 /FontFile2 8 0 R >>".encode(),
        _stream(data, f"/Length1 {len(data)} "),
        _stream(_unicode(letters).encode()),
    ]
    return _file(objects)


def _stream(content: bytes, more: str = "") -> bytes:
    packed = zlib.compress(content, 9)
    return f"<< {more}/Length {len(packed)} /Filter /FlateDecode >>\nstream\n".encode() + packed + b"\nendstream"


def _unicode(letters: Mapping[str, int]) -> str:
    """Which letter each number is, so that a reader can copy and search the text."""
    known = sorted({number: sign for sign, number in letters.items()}.items())
    lines = [f"<{number:04X}> <{sign.encode('utf-16-be').hex().upper()}>" for number, sign in known]
    blocks = [lines[start : start + 100] for start in range(0, len(lines), 100)]
    maps = "\n".join(f"{len(one)} beginbfchar\n" + "\n".join(one) + "\nendbfchar" for one in blocks)
    return (
        "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n/CMapName /Letters def\n/CMapType 2 def\n"
        f"1 begincodespacerange\n<0000> <FFFF>\nendcodespacerange\n{maps}\nendcmap\nend\nend"
    )


def _file(objects: Iterable[bytes]) -> bytes:
    out, places = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"), list[int]()
    for number, one in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    size, start = len(places) + 1, len(out)
    end = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n"
    return bytes(out) + f"xref\n0 {size}\n0000000000 65535 f \n{table}{end}".encode()


@dataclass(frozen=True, slots=True)
class _Page:
    """What is drawn on a page. levels: how opaque parts are, in the order in which that was first needed."""

    font: _Font
    levels: dict[float, None]

    def of(self, parts: Iterable[Part]) -> Iterator[str]:
        """The operators that draw the parts."""
        for part in parts:
            yield "q"
            match part:
                case Group(inner, by):
                    yield f"1 0 0 1 {_numbers(*by)} cm"
                    yield from self.of(inner)
                case Letters((x, y), text):
                    text = plain(text)
                    shift = {"start": 0.0, "middle": 0.5, "end": 1.0}[part.anchor] * self.font.width(text) * part.size
                    turn = math.radians(part.turned)
                    cos, sin = math.cos(turn), math.sin(turn)
                    yield f"{_colour(part.fill)} rg BT /F {part.size:g} Tf"
                    yield f"{_numbers(cos, sin, sin, -cos, x - shift * cos, y - shift * sin)} Tm"
                    yield f"<{self.font.code(text)}> Tj ET"
                case Circle(at, radius, fill, opacity):
                    yield f"{self._opacity(opacity)}{_colour(fill)} rg {_circle(at, radius)} f"
                case Path(lines, fill, stroke, width, dash, opacity):
                    yield self._opacity(opacity) + (f"{_colour(fill)} rg" if fill else "")
                    if stroke:
                        yield f"{_colour(stroke)} RG {width:g} w [{' '.join(map(str, dash))}] 0 d"
                    for line in lines:
                        yield " ".join(f"{_numbers(*at)} {'l' if k else 'm'}" for k, at in enumerate(line))
                        yield "h" if fill else ""
                    yield "B" if fill and stroke else "f" if fill else "S"
            yield "Q"

    def _opacity(self, level: float) -> str:
        if level == 1:
            return ""
        self.levels.setdefault(level)
        return f"/G{list(self.levels).index(level)} gs "


def _numbers(*values: float) -> str:
    return " ".join(f"{value:.4f}".rstrip("0").rstrip(".") for value in values)


def _colour(colour: str) -> str:
    return _numbers(*(part / 255 for part in bytes.fromhex(colour[1:])))


def _circle(at: Place, radius: float) -> str:
    x, y = at
    far = ROUND * radius

    def curve(*places: Place) -> str:
        return " ".join(_numbers(x + across, y + down) for across, down in places) + " c"

    return " ".join(
        (
            f"{_numbers(x + radius, y)} m",
            curve((radius, far), (far, radius), (0, radius)),
            curve((-far, radius), (-radius, far), (-radius, 0)),
            curve((-radius, -far), (-far, -radius), (0, -radius)),
            curve((far, -radius), (radius, -far), (radius, 0)),
        )
    )
