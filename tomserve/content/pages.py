"""What our HTML pages have in common: templates, and styles and scripts that stand in the page itself.

A page (the report, a form for people) is one file that opens offline. Its content security policy allows exactly the
styles and scripts that we put into it, by their digests.
"""

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined


def templates(folder: Path) -> Environment:
    """The templates of a folder: values are escaped, and a name without a value is an error (jinja2.UndefinedError)."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@cache
def asset(path: Path) -> str:
    """The text of a style or script as it stands between its tags. Raises OSError where it cannot be read."""
    return "\n" + path.read_text(encoding="utf-8")


def csp_digest(text: str) -> str:
    """The SHA-256 digest by which a content security policy allows an inline script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
