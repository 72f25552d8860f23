"""Who sends a request: by the token of the printed address, or by name and password."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from tomserve.web.people import Person


def person(request: Request) -> Person:
    """Whoever sends the request."""
    found: Person = getattr(request.state, "person", Person())
    return found


def runner(request: Request) -> Person:
    """Whoever sends the request, if they may run experiments."""
    return person(request)


Reader = Annotated[Person, Depends(person)]
"""Parameter of a route that everybody who is signed in may use."""

Runner = Annotated[Person, Depends(runner)]
"""Parameter of a route that changes something."""
