"""What stands before every page and every route: nothing is answered that does not pass here.

In this order: our name in `Host`; an address and a body of bounded length; who sends it; whether they may change
things; whether a page of ours sent the form. Every response gets the headers of tomserve.web.headers, errors too. A
route need not do anything for this, so that none can forget it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import Request
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tomserve.content.text import say
from tomserve.errors import TomserveError
from tomserve.web import headers
from tomserve.web.access import READER, Access, Caller
from tomserve.web.refusing import API, broken, refused, status_of
from tomserve.web.tokens import same

LONGEST_ADDRESS = 8_192
LONGEST_BODY, SLOWEST_BODY = 1 << 20, 120.0
STRANGERS_BODY, STRANGERS_TIME = 4096, 10.0
"""Bytes that may be sent, and seconds until all of them have to be there: by those who are let in, and by others."""

MOST_FIELDS, MOST_FILES = 300, 5
MOST_STREAMS, MOST_STREAMS_EACH = 100, 20
"""Server-sent events at once, of all and of one person from one address."""

OPEN = ("/login", "/api/v1/health")
"""Paths that strangers may ask for, besides the static files."""

FOR_READERS = ("/logout", "/api/v1/experiments/plan", "/api/v1/tokens", "/api/v1/tokens/")
"""Paths, and beginnings of paths that end with a slash, to which readers may send something, too: it changes no run."""

SAFE = ("GET", "HEAD", "OPTIONS")
FORM = ("application/x-www-form-urlencoded", "multipart/form-data")


class Guard:
    """The ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access
        self._streams: Counter[tuple[str, str]] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the application do it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # no other protocol is spoken here
        request, begun = Request(scope, receive), False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                sent = {name.lower() for name, _ in message["headers"]}
                added = headers.lacking(scope["path"], scope["query_string"], sent)
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        try:
            await self._answer(request, guarded)
        except ClientDisconnect:  # whoever has left before all was sent needs no answer
            return
        except Exception as error:
            response = broken(request, error, (self.access.token,))
            if not begun:
                await response(scope, receive, guarded)

    async def _answer(self, request: Request, send: Send) -> None:
        scope, receive = request.scope, request.receive
        try:
            response = self._stranger(request)
            if response is None and not _is_open(request):
                response = await self._known(request)
            if response is None and request.method not in SAFE:
                body = await _whole(request)
                receive = _again(body, request)
                response = self._forged(request) or await self._unsigned(request, body)
        except TomserveError as error:  # such as a file of users that is broken
            say(f"{error}", error=True)
            response = refused(request, status_of(error), "the workbench's own files are broken; its owner is told how")
        except HTTPException as error:
            response = refused(request, error.status_code, str(error.detail), error.headers)
        if response is not None:
            await response(scope, receive, send)
        elif _is_stream(request):
            await self._stream(request, receive, send)
        else:
            await self.app(scope, receive, send)

    def _stranger(self, request: Request) -> Response | None:
        """The refusal of a request that was not meant for us, or whose address is too long."""
        if not headers.known_host(request.headers.get("host", ""), self.access.settings):
            said = "this workbench is not known under that name; use the address that `tomserve web` prints"
            return Response(f"{said}\n", 421, media_type="text/plain")
        if len(request.scope["path"]) + len(request.scope["query_string"]) > LONGEST_ADDRESS:
            return refused(request, 414, f"the address has more than {LONGEST_ADDRESS:,} characters")
        return None

    async def _known(self, request: Request) -> Response | None:
        """Find out who sends a request; the answer to a stranger, and to whoever comes by the printed address."""
        if request.method == "GET" and self.access.token and "token" in request.query_params:
            return self._by_address(request)
        caller = self.access.caller(request)
        if caller is None:
            return self._who(request)
        request.state.person, request.state.csrf = caller.person, caller.csrf
        request.state.caller = caller
        if request.method not in SAFE and not caller.person.may_run and not _for_readers(request):
            return refused(request, 403, READER)
        return None

    def _by_address(self, request: Request) -> Response:
        """Let in whoever has the token, which then disappears from the address."""
        if not self.access.admits(request.query_params["token"]):
            return refused(request, 401, "the token of this address is not, or no longer, that of this workbench")
        query = request.scope["query_string"].decode("latin-1")
        rest = urlencode([pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] != "token"])
        there = "/" + quote(request.url.path.lstrip("/\\"))
        response = RedirectResponse(f"{there}?{rest}" if rest else there, 303)
        self.access.give_cookie(response, self.access.ticket)
        return response

    def _who(self, request: Request) -> Response:
        """The answer to a stranger: how to get in."""
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        known = {"www-authenticate": "Bearer"}
        if not self.access.settings.auth:
            said = (
                "open the address that `tomserve web` printed where it was started; it holds a token that lets you in"
            )
            return refused(request, 401, said, known)
        if request.url.path.startswith(API) or request.method not in SAFE:
            return refused(request, 401, "sign in, or send a token of yours as `Authorization: Bearer TOKEN`", known)
        if request.headers.get("hx-request"):  # the whole page is loaded again, and then leads there
            return Response(status_code=401, headers={"hx-refresh": "true"})
        return RedirectResponse(f"/login?{urlencode({'next': wanted})}" if wanted != "/" else "/login", 303)

    def _forged(self, request: Request) -> Response | None:
        """The refusal of a request that a page of a stranger had a browser send."""
        if _by_header(request):
            return None
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        own = origin is None or headers.known_origin(origin, request.headers["host"], self.access.settings)
        if not own or site not in (None, "same-origin", "none"):
            return refused(request, 403, "this was sent by a page that does not belong to this workbench")
        return None

    async def _unsigned(self, request: Request, body: bytes) -> Response | None:
        """The refusal of a form of too many fields, or without what our pages put into every form."""
        fields = FormData()
        if request.headers.get("content-type", "").split(";")[0].strip().lower() in FORM:
            copy = Request(request.scope, _again(body, request))
            fields = await copy.form(max_fields=MOST_FIELDS, max_files=MOST_FILES)
            if len(fields.multi_items()) > MOST_FIELDS:
                return refused(request, 413, f"the form has more than {MOST_FIELDS} fields")
        caller: Caller | None = getattr(request.state, "caller", None)
        if caller is None or not caller.csrf:
            return None
        field = fields.get("csrf", "")
        given = request.headers.get("x-csrf-token") or ("" if isinstance(field, UploadFile) else field)
        if not same(given, caller.csrf):
            return refused(request, 403, "this form is out of date; load the page again, and repeat what you did")
        return None

    async def _stream(self, request: Request, receive: Receive, send: Send) -> None:
        """Let the application send events, unless it does so to too many already."""
        caller: Caller | None = getattr(request.state, "caller", None)
        whose = (caller.person.name if caller else "", request.client.host if request.client else "")
        if self._streams.total() >= MOST_STREAMS or self._streams[whose] >= MOST_STREAMS_EACH:
            said = "too many pages that follow a run are open; close some"
            await refused(request, 503, said, {"retry-after": "10"})(request.scope, receive, send)
            return
        self._streams[whose] += 1
        try:
            await self.app(request.scope, receive, send)
        finally:
            self._streams[whose] -= 1
            if not self._streams[whose]:
                del self._streams[whose]


def _is_open(request: Request) -> bool:
    return request.url.path in OPEN or request.url.path.startswith(headers.STATIC)


def _for_readers(request: Request) -> bool:
    folders = tuple(one for one in FOR_READERS if one.endswith("/"))
    return request.url.path in FOR_READERS or request.url.path.startswith(folders)


def _is_stream(request: Request) -> bool:
    return "text/event-stream" in request.headers.get("accept", "") or "/events/" in request.url.path


def _by_header(request: Request) -> bool:
    """Whether the sender signs in by a header: no page of a stranger can have a browser send that."""
    return "authorization" in request.headers


async def _whole(request: Request) -> bytes:
    """The body of a request. Raises HTTPException where it is too long or too slow, ClientDisconnect where it ends in
    the middle."""
    known = hasattr(request.state, "caller")
    most, seconds = (LONGEST_BODY, SLOWEST_BODY) if known else (STRANGERS_BODY, STRANGERS_TIME)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise HTTPException(413, f"what was sent has more than {most >> 10:,} KiB", _ENDS)
    except TimeoutError:
        raise HTTPException(408, f"what was sent did not arrive within {seconds:.0f} seconds", _ENDS) from None
    return bytes(body)


_ENDS = {"connection": "close"}
"""The header by which the connection ends, so that nothing more of what is sent has to be read."""


def _again(body: bytes, request: Request) -> Receive:
    """What gives somebody a body that was read already, and then whatever the client still sends."""
    given = False

    async def receive() -> Message:
        nonlocal given
        if given:
            return await request.receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
