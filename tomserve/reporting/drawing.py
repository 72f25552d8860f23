"""Drawings of lines, shapes and letters, written as SVG. Lengths are in units of the drawing, pixels on a page; y grows
downwards. Letters are measured as the font of printed figures has them, Liberation Sans."""

from __future__ import annotations

import math
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Literal

INK, MUTED, GRID = "#1c2430", "#5b6675", "#d9dee5"
# Okabe and Ito's colours, told apart by the colour-blind; shapes say the same once more
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#785ef0")
SHAPES = (*("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left"),)

Place = tuple[float, float]
Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True, slots=True)
class Path:
    """Lines from place to place, one or more; closed where they are filled. dash: lengths of strokes and gaps."""

    lines: tuple[tuple[Place, ...], ...]
    fill: str = ""
    stroke: str = ""
    width: float = 1.0
    dash: tuple[float, ...] = ()
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Circle:
    """A filled circle about a place."""

    at: Place
    radius: float
    fill: str
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Letters:
    """A line of letters whose start, middle or end lies at a place. turned: by so many degrees, clockwise. heading:
    whether a page may set it bold."""

    at: Place
    text: str
    anchor: Anchor = "start"
    size: float = 12.0
    fill: str = INK
    turned: float = 0.0
    heading: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Parts that lie so far from where they say; words: what a reader sees who points at them."""

    parts: tuple[Part, ...]
    by: Place = (0.0, 0.0)
    words: str = ""


Part = Path | Circle | Letters | Group


@dataclass(frozen=True, slots=True)
class Drawing:
    """Parts, the later above the earlier, on a sheet of that size."""

    width: float
    height: float
    parts: tuple[Part, ...]

    def svg(self, label: str, unit: str = "", scale: float = 1.0, style: str = "") -> str:
        """The drawing as SVG. label: its text alternative. unit: of its size, pixels where it is empty. scale: how many
        of these are as long as one of the drawing. style: a style sheet within."""
        size = f'width="{_number(self.width * scale)}{unit}" height="{_number(self.height * scale)}{unit}"'
        box = f'viewBox="0 0 {_number(self.width)} {_number(self.height)}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} role="img" aria-label="{escape(plain(label))}"'
        inner = (f"<style>{style}</style>" if style else "") + "".join(map(_svg, self.parts))
        return f'{head} font-family="Liberation Sans, Arial, Helvetica, sans-serif" font-size="12">{inner}</svg>'

    def letters(self) -> str:
        """All letters of the drawing, each once, in order."""
        return "".join(
            sorted({sign for one in _every(self.parts) if isinstance(one, Letters) for sign in plain(one.text)})
        )


def _every(parts: Iterable[Part]) -> Iterable[Part]:
    for one in parts:
        yield one
        if isinstance(one, Group):
            yield from _every(one.parts)


def _svg(part: Part) -> str:
    match part:
        case Group(parts, by, words):
            moved = "" if by == (0.0, 0.0) else f' transform="translate({_place(by)})"'
            title = f"<title>{_escaped(words)}</title>" if words else ""
            return f"<g{moved}>{title}{''.join(map(_svg, parts))}</g>"
        case Letters((x, y), text, anchor, size, fill):
            style = "" if anchor == "start" else f' text-anchor="{anchor}"'
            style += "" if size == 12 else f' font-size="{_number(size)}"'
            style += f' transform="rotate({_number(part.turned)} {_place(part.at)})"' if part.turned else ""
            style += ' class="heading"' if part.heading else ""
            return f'<text x="{_number(x)}" y="{_number(y)}" fill="{fill}"{style}>{_escaped(text)}</text>'
        case Circle((x, y), radius, fill, opacity):
            place = f'cx="{_number(x)}" cy="{_number(y)}" r="{_number(radius)}"'
            return f'<circle {place} fill="{fill}"{_opacity(opacity)}/>'
        case Path(lines, fill, stroke, width, dash, opacity):
            style = f' fill="{fill or "none"}"{_opacity(opacity)}'
            style += f' stroke="{stroke}"' if stroke else ""
            style += f' stroke-width="{_number(width)}"' if stroke and width != 1 else ""
            style += f' stroke-dasharray="{" ".join(map(_number, dash))}"' if dash else ""
            drawn = "".join("M" + "L".join(map(_place, line)) + ("Z" if fill else "") for line in lines)
            return f'<path d="{drawn}"{style}/>'


def plain(text: str) -> str:
    """The text without what is not drawn, its signs as fonts have them."""
    return "".join(filter(str.isprintable, unicodedata.normalize("NFC", text)))


def _escaped(text: str) -> str:
    return escape(plain(text), quote=False)


def _opacity(opacity: float) -> str:
    return "" if opacity == 1 else f' opacity="{_number(opacity)}"'


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".").replace("-0", "0", value > -0.005)


def _place(at: Place) -> str:
    return f"{_number(at[0])},{_number(at[1])}"


def segment(start: Place, end: Place, colour: str, width: float = 1.0, opacity: float = 1.0) -> Path:
    """A straight line."""
    return Path(((start, end),), stroke=colour, width=width, opacity=opacity)


def rectangle(x: float, y: float, width: float, height: float, fill: str, **style: float | str) -> Path:
    """A filled rectangle from its upper left corner."""
    corners = ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
    return replace(Path((corners,), fill), **style)  # type: ignore[arg-type]


def marker(shape: str, at: Place, size: float, colour: str, opacity: float = 1.0) -> Part:
    """A sign for one value. shape: one of SHAPES. size: its area in square units."""
    x, y = at
    half = math.sqrt(size) / 2
    if shape == "circle":
        return Circle(at, math.sqrt(size / math.pi), colour, opacity)
    if shape == "square":
        corners = [(-half, -half), (half, -half), (half, half), (-half, half)]
    elif shape == "diamond":
        corners = [(0, -1.4 * half), (1.4 * half, 0), (0, 1.4 * half), (-1.4 * half, 0)]
    elif shape == "cross":
        arm, end = half * 0.45, half * 1.25
        corners = [(-arm, -end), (arm, -end), (arm, -arm), (end, -arm), (end, arm), (arm, arm), (arm, end)]
        corners += [(-arm, end), (-arm, arm), (-end, arm), (-end, -arm), (-arm, -arm)]
    else:
        corners = [(0, -1.3 * half), (1.25 * half, half), (-1.25 * half, half)]
        turns = {"triangle-up": 0, "triangle-right": 1, "triangle-down": 2, "triangle-left": 3}[shape]
        for _ in range(turns):
            corners = [(-down, across) for across, down in corners]
    return Path((tuple((x + across, y + down) for across, down in corners),), fill=colour, opacity=opacity)


# How wide the letters from space to tilde are, in thousandths of the size of letters
_WIDTHS = (
    *(278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556),
    *(556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667),
    *(556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556),
    *(556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722),
    *(500, 500, 500, 334, 260, 334, 584),
)


def text_width(text: str, size: float = 12.0) -> float:
    """How wide a line of letters is; of letters beyond ASCII about."""
    wide = {"W": 1000, "F": 1000}
    widths = (
        _WIDTHS[ord(sign) - 32] if " " <= sign <= "~" else wide.get(unicodedata.east_asian_width(sign), 600)
        for sign in text
    )
    return size / 1000 * sum(widths)


def cut(text: str, most: float, size: float = 12.0) -> str:
    """The text as far as there is room for it, with an ellipsis where it goes on."""
    if text_width(text, size) <= most:
        return text
    longer = bisect_right(range(len(text)), most, key=lambda end: text_width(f"{text[:end]}…", size))
    return f"{text[: max(longer - 1, 0)].rstrip()}…"


def wrap(text: str, most: float, lines: int = 2) -> tuple[str, ...]:
    """The text in at most so many lines of that width, the last one cut where it is too long."""
    words, found = text.split(" "), [""]
    for place, word in enumerate(words):
        if text_width(longer := f"{found[-1]} {word}".strip()) <= most or not found[-1]:
            found[-1] = longer
        elif len(found) == lines:
            found[-1] = " ".join((found[-1], *words[place:]))
            break
        else:
            found.append(word)
    return tuple(cut(line, most) for line in found)


def ticks(low: float, high: float, count: int) -> list[float]:
    """About so many round numbers from low to high, at equal distances of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.75)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [place * step for place in range(first, last + 1)]


def spread(colours: Sequence[str], share: float) -> str:
    """The colour at that share of a scale, from 0 to 1, between the colours that it passes at equal distances."""
    at = min(max(share, 0.0), 1.0) * (len(colours) - 1)
    place = min(int(at), len(colours) - 2)
    one, other = (bytes.fromhex(colours[k][1:]) for k in (place, place + 1))
    return "#" + bytes(round(a + (b - a) * (at - place)) for a, b in zip(one, other, strict=True)).hex()
