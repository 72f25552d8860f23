"""Renders pages from templates, and parts of pages for htmx."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse

from tomserve import __version__
from tomserve.content import pages
from tomserve.content.paths import code_digest
from tomserve.content.text import escape_hidden, sanitize
from tomserve.reporting.html.page import ASSETS
from tomserve.web import words
from tomserve.web.people import Person

FOLDER = Path(__file__).parent
NAVIGATION = (
    ("/", "Dashboard"),
    ("/new", "New experiment"),
    ("/queue", "Queue"),
    ("/compare", "Compare"),
    ("/leaderboard", "Leaderboard"),
    ("/items", "Items"),
    ("/try", "Try"),
)


def _cut(text: str, most: int = 200) -> str:
    """The beginning of a text, with a sign where something follows."""
    return text if len(text) <= most else f"{text[:most].rstrip()} …"


@cache
def stamp() -> str:
    """What stands in the addresses of styles and scripts: browsers keep these files until it changes, as they do."""
    return code_digest((FOLDER / "static", ASSETS)).removeprefix("sha256:")[:12]


@cache
def _environment() -> Any:
    environment = pages.templates(FOLDER / "templates")
    environment.filters["inert"] = sanitize
    environment.filters["readable"] = lambda text: str(text).replace("_", " ")
    environment.filters["counted"] = lambda number: f"{number:,}"
    environment.filters["cut"] = _cut
    environment.filters |= {"size": words.size, "lasting": words.lasting, "rate": words.rate, "moment": words.moment}
    return environment


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A page from a template, as `text` makes it. status: of the response."""
    return HTMLResponse(text(request, template, **values), status)


def text(request: Request, template: str, **values: Any) -> str:
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
    return escape_hidden(_environment().get_template(template).render(shown))
