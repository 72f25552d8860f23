r"""Writes any text so that LaTeX prints it as it stands, whoever wrote it, with no package but inputenc.

>>> escape("50% of a_b, x ≤ β"), escape("漢")
('50\\% of a\\_b, x $\\leq$ $\\beta$', '[U+6F22]')
"""

from __future__ import annotations

import re
import unicodedata

_ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        **dict.fromkeys("\n\r\t", " "),
        '"': "''",  # babel gives the straight sign a meaning of its own
        **{character: "\\" + character for character in "&%$#_{}"},
    }
)

_JOINED = re.compile(r"(?<=-)(?=-)|(?<=')(?=')|(?<=[`?!])(?=`)|(?<=,)(?=,)")
"""Where LaTeX would make two signs one: two hyphens a dash, two quotation marks another one, ?` a turned sign."""

_LATIN = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧο", "ABEZHIKMNOPTXo", strict=True))
"""Letters of Greek that LaTeX has no name for, since they look like these."""


def _greek() -> dict[str, str]:
    """The letters of Greek without accents, as LaTeX writes them."""
    found = {letter: rf"$\mathrm{{{latin}}}$" for letter, latin in _LATIN.items()}
    for letter in map(chr, range(0x391, 0x3CA)):
        said = re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER (\w+)", unicodedata.name(letter, ""))
        if said is not None and letter not in found:
            name = said[2].lower().replace("lamda", "lambda")
            found[letter] = rf"$\{name.capitalize() if said[1] == 'CAPITAL' else name}$"
    return found | {"ς": r"$\varsigma$"}


_SIGNS = {
    "\N{MINUS SIGN}": "$-$",
    "\N{EN DASH}": "--",
    "\N{EM DASH}": "---",
    "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
    "\N{LEFT SINGLE QUOTATION MARK}": "`",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{LEFT DOUBLE QUOTATION MARK}": "``",
    "\N{RIGHT DOUBLE QUOTATION MARK}": "''",
    "\N{NO-BREAK SPACE}": "~",
    "\N{BULLET}": r"\textbullet{}",
    "\N{MICRO SIGN}": r"$\mu$",
    "°": r"$^\circ$",
    "²": "$^2$",
    "³": "$^3$",
    **{"→": r"$\rightarrow$", "×": r"$\times$", "÷": r"$\div$", "±": r"$\pm$", "·": r"$\cdot$", "∞": r"$\infty$"},
    **{"≤": r"$\leq$", "≥": r"$\geq$", "≠": r"$\neq$", "≈": r"$\approx$"},
    **_greek(),
}
"""Signs beyond ASCII, as LaTeX writes them."""

_FURTHER = "ÐÞðþĄąĐđĘęĦħĮįĸĿŀŉŊŋŦŧŲųſ"
"""Letters among those with accents that are not in the fonts that LaTeX takes where nobody chooses others (OT1)."""

_BEYOND = re.compile(rf"[^\x20-\x7e\u00c0-\u017f]|[×÷{_FURTHER}]")
"""What pdflatex cannot print without further packages: all but ASCII and most letters with accents."""


def escape(text: str) -> str:
    """The text with LaTeX's special characters escaped, so that LaTeX prints it as it stands.

    Letters of scripts that pdflatex does not have without further packages stand as their code, such as [U+6C49].
    """
    escaped = "{}".join(part.translate(_ESCAPES) for part in _JOINED.split(text))
    return escaped if _plain(escaped) else _BEYOND.sub(lambda found: _SIGNS.get(found[0]) or coded(found[0]), escaped)


def shown(text: str) -> str:
    """The text as it takes room in print: letters that pdflatex does not have are written as their codes."""
    text = text.replace("\n", " ")
    return (
        text if text.isascii() else _BEYOND.sub(lambda found: found[0] if found[0] in _SIGNS else coded(found[0]), text)
    )


def _plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


CODE = r"\[U\+[0-9A-F]{4,6}\]"
"""What matches a letter that is written as its code."""


def coded(letter: str) -> str:
    """A letter as its code."""
    return f"[U+{ord(letter):04X}]"


def guarded(row: str) -> str:
    r"""A row of a table so that LaTeX does not take its first sign for an option of what ended the row before: a
    bracket after ``\\`` or ``\toprule`` is a length, and a star forbids to end the page."""
    return "{}" + row if row.lstrip().startswith(("[", "*")) else row
