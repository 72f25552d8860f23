"""Renders pages from templates, and parts of pages for htmx, with filters for times, sizes and rates."""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse

from tomserve import __version__
from tomserve.content import pages
from tomserve.content.paths import code_digest
from tomserve.content.text import escape_hidden, format_bytes, format_duration, sanitize
from tomserve.items.item import factor_text
from tomserve.reporting.html.page import ASSETS
from tomserve.web.accounts import Person


def lasting(seconds: float | None) -> str:
    """A duration as people say it, "" for None.

    >>> lasting(0.04), lasting(7.2), lasting(7_300)
    ('under a second', '7 s', '2 h 1 min')
    """
    if seconds is None:
        return ""
    return "under a second" if seconds < 0.5 else format_duration(seconds)


def rate(per_second: float | None) -> str:
    """How many rows are written in a time, in the unit that gives a plain number; "" for None.

    >>> rate(12.34), rate(0.05)
    ('12.3 per second', '3.0 per minute')
    """
    if per_second is None:
        return ""
    return f"{per_second:,.1f} per second" if per_second >= 1 else f"{per_second * 60:,.1f} per minute"


def read_moment(text: object) -> datetime | None:
    """The moment that a text of ISO 8601 names, in UTC; None for anything else."""
    if not isinstance(text, str) or not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):  # the latter at both ends of the calendar
        return None


def moment(text: str | None) -> str:
    """A moment of ISO 8601 as people read it, to the minute and in UTC; what is no moment stays as it is.

    >>> moment("2026-03-01T10:20:30+00:00"), moment(None)
    ('2026-03-01 10:20', '')
    """
    found = read_moment(text)
    return (text or "") if found is None else f"{found:%Y-%m-%d %H:%M}"


FOLDER = Path(__file__).parent
NAVIGATION = (
    ("/", "Runs"),
    ("/new", "New experiment"),
    ("/queue", "Queue"),
    ("/compare", "Compare"),
    ("/leaderboard", "Leaderboard"),
    ("/items", "Items"),
    ("/try", "Try"),
)


def _cut(text: str, most: int = 200) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()} …"


LONGEST = 500_000  # characters of one text that a page shows; a reply may have millions, which nobody reads there


def _inert(text: str) -> str:
    """The text made harmless, of a very long one its beginning."""
    if len(text) <= LONGEST:
        return sanitize(text)
    return f"{sanitize(text[:LONGEST])} … (the first {LONGEST:,} of {len(text):,} characters)"


@cache
def stamp() -> str:
    """What stands in the addresses of styles and scripts: browsers keep these files until it changes, as they do."""
    return code_digest((FOLDER / "static", ASSETS)).removeprefix("sha256:")[:12]


@cache
def _environment() -> Any:
    environment = pages.templates(FOLDER / "templates")
    environment.filters["inert"] = _inert
    environment.filters["factor"] = factor_text
    environment.filters["readable"] = lambda text: str(text).replace("_", " ")
    environment.filters["counted"] = lambda number: f"{number:,}"
    environment.filters["cut"] = _cut
    environment.filters |= {"size": format_bytes, "lasting": lasting, "rate": rate, "moment": moment}
    return environment


def render_page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A page from a template, as `render_text` makes it. status: of the response."""
    return HTMLResponse(render_text(request, template, **values), status)


def render_text(request: Request, template: str, **values: Any) -> str:
    """What a template gives: values are escaped, and hidden and steering characters of strangers are made visible.

    values: what the template shows besides `request`, `person` (who looks), `navigation`, `version`, `stamp` and `here`
    (the path of the page).
    """
    shown = {
        "request": request,
        "person": getattr(request.state, "person", Person()),
        "navigation": NAVIGATION,
        "version": __version__,
        "stamp": stamp(),
        "here": request.url.path,
        **values,
    }
    return escape_hidden(render_template(template, **shown))


def render_template(template: str, **values: Any) -> str:
    """What a template gives, with the values escaped."""
    text: str = _environment().get_template(template).render(values)
    return text
