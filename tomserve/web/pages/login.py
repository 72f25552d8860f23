"""Signing in with a name and a password, and signing out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Query, Request
from starlette.responses import RedirectResponse, Response

from tomserve.web.access import access
from tomserve.web.rendering import page

router = APIRouter(include_in_schema=False)

Next = Annotated[str, Query(max_length=2000)]


@router.get("/login")
def form(request: Request, next: Next = "/") -> Response:
    """The form where people sign in; where nobody has to, there is no such page."""
    _only_with_users(request)
    return page(request, "login.html.j2", next=_inside(next), said="", name="")


@router.post("/login")
def sign_in(
    request: Request,
    name: Annotated[str, Form(max_length=100)] = "",
    password: Annotated[str, Form(max_length=2000)] = "",
    next: Annotated[str, Form(max_length=2000)] = "/",
) -> Response:
    """Sign in, and go to where somebody wanted to go."""
    _only_with_users(request)
    who, address = access(request), request.client.host if request.client else ""
    if (wait := who.tries.wait(name, address)) > 0:
        said = f"there were too many tries; the next one is looked at in {int(wait) + 1} seconds"
        answer = page(request, "login.html.j2", status=429, next=_inside(next), said=said, name=name)
        answer.headers["retry-after"] = str(int(wait) + 1)
        return answer
    user = who.users.signed_in(name, password)
    if user is None:
        said = "the name or the password is wrong"
        return page(request, "login.html.j2", status=401, next=_inside(next), said=said, name=name)
    who.tries.worked(name, address)
    response = RedirectResponse(_inside(next), 303)
    who.give_cookie(response, who.sessions.begin(name, user.stamp))
    return response


@router.post("/logout")
def sign_out(request: Request) -> Response:
    """End the session."""
    who = access(request)
    who.sessions.end(request.cookies.get(who.cookie, ""))
    response = RedirectResponse("/login" if who.settings.auth else "/", 303)
    response.delete_cookie(who.cookie, path="/", httponly=True, samesite="strict")
    return response


def _only_with_users(request: Request) -> None:
    if not access(request).settings.auth:
        raise HTTPException(404, "nobody signs in here: the address that `tomserve web` prints lets you in")


def _inside(there: str) -> str:
    """A path of this workbench, also where a stranger has made up the link: never an address elsewhere."""
    plain = there.startswith("/") and not there.startswith(("//", "/\\")) and there.isprintable() and "\\" not in there
    return there if plain and not there.startswith(("/login", "/logout")) else "/"
