"""Tokens by which programs of a user sign in, where people sign in."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Request

from tomserve.errors import ConflictError
from tomserve.web.access import Access, Reader, access
from tomserve.web.people import Person
from tomserve.web.schemas import KnownToken, NewToken, TokenWish
from tomserve.web.tokens import digest

router = APIRouter()

SHOWN = 12
"""Characters of a token's digest by which it is known."""


@router.get("/tokens")
def tokens(request: Request, person: Reader) -> list[KnownToken]:
    """The tokens of whoever asks, without the tokens themselves."""
    user = _access(request, person).users.all()[person.name]
    return [KnownToken(id=one.digest[:SHOWN], label=one.label, made=one.made) for one in user.tokens]


@router.post("/tokens", status_code=201)
def add_token(request: Request, person: Reader, wish: TokenWish) -> NewToken:
    """Make a token for programs of whoever asks. It is told this once, and only its digest is kept."""
    token = _access(request, person).users.add_token(person.name, wish.label)
    return NewToken(token=token, id=digest(token)[:SHOWN])


@router.delete("/tokens/{id}", status_code=204)
def end_token(request: Request, person: Reader, id: Annotated[str, Path(pattern="^[0-9a-f]{12}$")]) -> None:
    """Take back a token of whoever asks."""
    if not _access(request, person).users.end_token(person.name, id):
        raise HTTPException(404, "you have no such token")


def _access(request: Request, person: Person) -> Access:
    if not person.name:
        raise ConflictError("nobody signs in here: programs send the token of the address that was printed")
    return access(request)
