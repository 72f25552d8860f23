"""Who sends a request: by the token of the printed address, or by name and password."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, HTTPException, Request
from starlette.responses import Response

from tomserve.web import tokens
from tomserve.web.people import Person
from tomserve.web.sessions import Sessions, SlowDown
from tomserve.web.settings import Settings
from tomserve.web.users import Users


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request. csrf: what their forms must carry; "" where they signed in by a header, which no page of a
    stranger can send."""

    person: Person
    csrf: str = ""


class Access:
    """Decides who sends a request to a workbench.

    token: of the printed address, "" where people sign in. users, sessions, tries: where they do. Raises ConfigError
    and OSError where the files of these cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.token = "" if settings.auth else tokens.kept_token(settings.folder)
        self.users = Users(settings.folder / "users.json")
        self.sessions = Sessions(settings.folder / "sessions.json")
        self.tries = SlowDown()

    @property
    def cookie(self) -> str:
        """The name of the cookie; two workbenches on one machine have different ones, as browsers ignore the port."""
        return f"tomserve_{self.settings.port}"

    @property
    def ticket(self) -> str:
        """What the cookie holds where a token is all that is needed: a secret made of it."""
        return tokens.derived(self.token, "cookie of the workbench")

    def caller(self, request: Request) -> Caller | None:
        """Who sends a request; None for a stranger."""
        if (header := request.headers.get("authorization")) is not None:
            kind, _, given = header.partition(" ")
            person = self._bearer(given.strip()) if kind.lower() == "bearer" else None
            return Caller(person) if person else None
        given = request.cookies.get(self.cookie, "")
        person = self._cookie(given) if given else None
        return Caller(person, tokens.derived(given, "forms of the workbench")) if person else None

    def admits(self, token: str) -> bool:
        """Whether that is the token of the printed address."""
        return bool(self.token) and tokens.same(token, self.token)

    def give_cookie(self, response: Response, value: str) -> None:
        """Have the browser send that from now on, and no script see it."""
        secure = (self.settings.proxy or "").startswith("https:")
        response.set_cookie(self.cookie, value, httponly=True, samesite="strict", path="/", secure=secure)

    def _bearer(self, given: str) -> Person | None:
        if self.settings.auth:
            return self.users.of_token(given) if given else None
        return Person() if self.admits(given) else None

    def _cookie(self, given: str) -> Person | None:
        if not self.settings.auth:
            return Person() if tokens.same(given, self.ticket) else None
        session = self.sessions.find(given)
        user = self.users.all().get(session.name) if session else None
        if session is None or user is None or not tokens.same(user.stamp, session.stamp):
            return None
        return Person(session.name, user.role)


def access(request: Request) -> Access:
    """What decides who sends a request."""
    return cast("Access", request.app.state.access)


def person(request: Request) -> Person:
    """Whoever sends the request. Raises HTTPException where nobody has found that out, so that nothing is shown."""
    found = getattr(request.state, "person", None)
    if not isinstance(found, Person):
        raise HTTPException(401, "sign in first")
    return found


def runner(request: Request) -> Person:
    """Whoever sends the request, if they may run experiments; raises HTTPException where they may only read."""
    found = person(request)
    if not found.may_run:
        raise HTTPException(403, READER)
    return found


READER = "you may read here, but not run or change anything; ask whoever keeps this workbench for the role runner"

Reader = Annotated[Person, Depends(person)]
"""Parameter of a route that everybody who is signed in may use."""

Runner = Annotated[Person, Depends(runner)]
"""Parameter of a route that changes something."""
