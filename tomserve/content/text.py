"""Text for people: control and hidden characters of strangers are escaped, and counts stand with their nouns.

All that tomserve prints passes through `sanitize`, whether by `say` or by the console of tomserve.reporting.tables;
tables and pages pass through `mark_hidden` or `escape_hidden`.
"""

import re
import sys

from tomserve.content.files import one_line

HIDDEN = (
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e007f]"
)
"""Control characters but tab and line ends, marks that turn the direction of text, and characters that nobody sees."""

_HIDDEN = re.compile(HIDDEN)


def sanitize(text: str) -> str:
    """The text with what a terminal would obey, and what nobody would see, written out; line ends stay."""
    return text if text.isprintable() else "\n".join(one_line(line) for line in text.split("\n"))


def mark_hidden(text: str) -> str:
    """The text with a sign in the place of every character of HIDDEN."""
    return _HIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def escape_hidden(text: str) -> str:
    r"""The text with every character of HIDDEN written as ``\uXXXX``, which within a text of JSON is the same
    character, so that nothing is lost there."""
    return _HIDDEN.sub(_escape, text)


FORMULA = r"^'*(?:\s*[=+\-@＝＋－＠]|[\t\r])"
"""How a text begins that some spreadsheet runs as a formula; wide letters are among those that some take alike. So do
those with apostrophes before it, so that two texts stay two."""


def escape_formula(text: str) -> str:
    """The text with an apostrophe before it where a spreadsheet would run it as a formula."""
    return f"'{text}" if re.match(FORMULA, text) else text


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(rf"\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def say(text: object = "", *, error: bool = False) -> None:
    """Print lines of text, with all in it inert. error: on standard error."""
    print(sanitize(str(text)), file=sys.stderr if error else sys.stdout)


def count_noun(count: int, one: str, several: str | None = None) -> str:
    """A number and what it counts. one: the noun for one. several: for any other number; with an s where it is left
    out."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def format_duration(seconds: float) -> str:
    """A time as a reader wants it.

    >>> format_duration(7.4), format_duration(150), format_duration(7300), format_duration(200_000)
    ('7 s', '2 min 30 s', '2 h 1 min', '2 days 7 h')
    """
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    hours = whole // 3600
    return f"{hours} h {whole // 60 % 60} min" if hours < 48 else f"{hours // 24:,} days {hours % 24} h"


_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def format_bytes(count: float) -> str:
    """A number of bytes in powers of 1,000.

    >>> format_bytes(999), format_bytes(1_530_000)
    ('999 bytes', '1.5 MB')
    """
    unit = 0
    while count >= 999.5 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:,.0f} {_UNITS[unit]}" if unit == 0 or count >= 99.5 else f"{count:.1f} {_UNITS[unit]}"
