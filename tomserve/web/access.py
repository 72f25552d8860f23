"""Access control of the workbench: the middleware before every route, who sends a request and what they may do,
security headers, and error responses.

In this order: our name in `Host`; an address and a body of bounded length; who sends it; whether they may change
things; whether a page of ours sent the form. A route need not do anything for this, so that none can forget it.
"""

import asyncio
import contextlib
import errno
import ipaddress
import socket
import threading
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from markupsafe import escape
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tomserve import errors
from tomserve.content.text import sanitize, say
from tomserve.engine.network import is_loopback
from tomserve.engine.redact import Redactor
from tomserve.errors import TomserveError
from tomserve.serving import keys
from tomserve.web import accounts
from tomserve.web.accounts import LoginThrottle, Person, Role, Sessions, Users, same_secret
from tomserve.web.background import without_paths
from tomserve.web.page_templates import render_page, stamp
from tomserve.web.queue import Queue
from tomserve.web.run_index import RunEntry, RunIndex
from tomserve.web.settings import Settings


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request."""

    person: Person
    csrf: str = ""
    """What their forms must carry; "" where they signed in by a header, which no page of a stranger can send."""


class Access:
    """Decides who sends a request to a workbench. token: of the printed address, "" where people sign in. users,
    sessions, tries: where they do. Raises ConfigError and OSError where the files of these cannot be used."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.token = "" if settings.auth else accounts.load_token(settings.folder)
        self.users = Users(settings.folder / "users.json")
        self.sessions = Sessions(settings.folder / "sessions.json")
        self.tries = LoginThrottle()

    @property
    def cookie(self) -> str:
        """The name of the cookie; two workbenches on one machine have different ones, as browsers ignore the port."""
        return f"tomserve_{self.settings.port}"

    @property
    def ticket(self) -> str:
        """What the cookie holds where a token is all that is needed: a secret made of it."""
        return accounts.derive_secret(self.token, "cookie of the workbench")

    def caller(self, request: Request) -> Caller | None:
        """Who sends a request; None for a stranger."""
        if (header := request.headers.get("authorization")) is not None:
            kind, _, given = header.partition(" ")
            person = self._bearer(given.strip()) if kind.lower() == "bearer" else None
            return Caller(person) if person else None
        given = request.cookies.get(self.cookie, "")
        person = self._cookie(given) if given else None
        return Caller(person, accounts.derive_secret(given, "forms of the workbench")) if person else None

    def admits(self, token: str) -> bool:
        """Whether that is the token of the printed address."""
        return bool(self.token) and accounts.same_secret(token, self.token)

    def give_cookie(self, response: Response, value: str) -> None:
        """Have the browser send that from now on, and no script see it."""
        secure = (self.settings.proxy or "").startswith("https:")
        response.set_cookie(self.cookie, value, httponly=True, samesite="strict", path="/", secure=secure)

    def _bearer(self, given: str) -> Person | None:
        if self.settings.auth:
            return self.users.token_owner(given) if given else None
        return Person() if self.admits(given) else None

    def _cookie(self, given: str) -> Person | None:
        if not self.settings.auth:
            return Person() if accounts.same_secret(given, self.ticket) else None
        session = self.sessions.find(given)
        user = self.users.all().get(session.name) if session else None
        if session is None or user is None or not accounts.same_secret(user.stamp, session.stamp):
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

Reader = Annotated[Person, Depends(person)]  # parameter of a route that everybody who is signed in may use
Runner = Annotated[Person, Depends(runner)]  # parameter of a route that changes something


@dataclass(frozen=True, slots=True)
class Workbench:
    """A workbench that runs."""

    settings: Settings
    register: RunIndex  # all runs
    queue: Queue
    ending: threading.Event = field(default_factory=threading.Event)
    """Set once the server is about to end, so that whatever streams does so, too."""


def workbench(request: Request) -> Workbench:
    """The workbench that a request belongs to."""
    return cast("Workbench", request.app.state.workbench)


Bench = Annotated[Workbench, Depends(workbench)]  # parameter of a route: the workbench that the request was sent to


def visible_run(name: str, bench: Bench, person: Reader) -> RunEntry:
    """The run that the address names. Raises NoSuchRunError before anything is done."""
    return bench.register.line(name, person)


VisibleRun = Annotated[RunEntry, Depends(visible_run)]
"""Parameter of a route whose path holds `{name:path}`: the run, which the person may see."""


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The content security policy: nothing from elsewhere, and no script or style that stands in a page."""

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "x-robots-tag": "noindex, nofollow",
}

CACHED = "public, max-age=31536000, immutable"  # how long a browser keeps a file that is asked for with its version

STATIC = "/static/"


def missing_headers(path: str, query: bytes, sent: set[bytes]) -> list[tuple[bytes, bytes]]:
    """The headers that a response to a request for that path has to be given. sent: the names of those it has."""
    kept = CACHED if path.startswith(STATIC) and query == f"v={stamp()}".encode() else "no-store"
    wanted = {**HEADERS, "cache-control": kept}
    return [(name.encode(), value.encode()) for name, value in wanted.items() if name.encode() not in sent]


def is_known_host(host: str, settings: Settings) -> bool:
    """Whether a request was meant for this workbench: its `Host` is one of our names.

    A page of a stranger may have its own name point to this machine, and would then be taken for ours; it cannot do so
    with a number, or with `localhost`. Any port will do, since a tunnel may end at another one.
    """
    try:
        parts = urlsplit(f"//{host}")
        if parts.port == 0 or parts.path or not parts.hostname or set("@?#") & set(host):
            return False
    except ValueError:
        return False
    name, machine = parts.hostname, socket.gethostname().lower()
    if is_loopback(name) or (settings.proxy and name == urlsplit(settings.proxy).hostname):
        return True
    if is_loopback(settings.host):
        return False
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(name))
    return name in (settings.host.lower(), machine, machine.split(".")[0])


def is_known_origin(origin: str, host: str, settings: Settings) -> bool:
    """Whether the page that sends a form is one of ours. origin: of the page. host: that the request was sent to."""
    parts = origin.split("://", 1)
    if len(parts) == 2 and parts[0] in ("http", "https") and parts[1] == host:
        return True
    return bool(settings.proxy) and origin == settings.proxy


API = "/api/"

HEADINGS = {
    400: "This request cannot be understood",
    401: "Who are you?",
    403: "You may not do this",
    404: "There is nothing here",
    405: "This cannot be done here",
    409: "This cannot be done now",
    408: "This took too long",
    413: "This is too long",
    414: "This address is too long",
    421: "This is the address of something else",
    422: "This cannot be done",
    429: "Wait a little",
    500: "Something went wrong",
    503: "Too much at once",
}

STATUSES: tuple[tuple[type[TomserveError], int], ...] = (
    (errors.NoSuchRunError, 404),
    (errors.NotAllowedError, 403),
    (errors.ConflictError, 409),
    (errors.RunMismatchError, 409),
    (errors.ConfigError, 422),
    (TomserveError, 409),  # this machine, a server or a disk does not do its part now
)
"""The HTTP status for each kind of our errors, the narrower kinds first."""

INTERNAL_ERROR = "an unexpected error; whoever keeps this workbench finds it in what `tomserve web` printed"


def status_of(error: TomserveError) -> int:
    """The HTTP status for an error of ours."""
    return next(status for kind, status in STATUSES if isinstance(error, kind))


def error_response(request: Request, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a request that cannot be done, in the form that it asks for; where the runs lie is not told."""
    sentence = without_paths(sentence)
    if request.url.path.startswith(API):
        return JSONResponse({"error": sanitize(sentence)}, status, headers=headers)
    if request.headers.get("hx-request"):
        return HTMLResponse(f'<p class="notice bad" role="alert">{escape(sanitize(sentence))}</p>', status, headers)
    heading = HEADINGS.get(status, HEADINGS[400])
    response = render_page(request, "refused.html.j2", status=status, heading=heading, sentence=sentence)
    response.headers.update(headers or {})
    return response


def crash_response(request: Request, error: Exception, secrets: tuple[str, ...]) -> Response:
    """The answer where something unexpected happened, of which nothing is told but to whoever keeps the workbench.
    secrets: what is replaced by *** in the traceback, besides the keys of the environment."""
    told = "".join(traceback.format_exception(error))
    say(
        Redactor(*keys.all_keys(), *secrets)(f"{request.method} {request.url.path}: an unexpected error\n{told}"),
        error=True,
    )
    try:
        return error_response(request, 500, INTERNAL_ERROR)
    except Exception:  # the page itself may be what is broken
        return Response(f"{INTERNAL_ERROR}\n", 500, media_type="text/plain")


def install_handlers(app: FastAPI) -> None:
    """Have an application answer errors of ours, of FastAPI's and of Starlette's in this way."""
    for kind in (TomserveError, OSError, StarletteHTTPException, RequestValidationError):
        app.add_exception_handler(kind, _handle)


def _handle(request: Request, error: Exception) -> Response:
    match error:
        case TomserveError():
            return error_response(request, status_of(error), str(error))
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EROFS):
            return error_response(request, 409, f"the disk of the workbench takes nothing now ({error.strerror})")
        case StarletteHTTPException(status_code=status, detail=detail, headers=headers):
            own = {"Not Found": "there is no such page", "Method Not Allowed": f"{request.method} is not possible here"}
            return error_response(request, status, own.get(detail, detail), headers)
        case RequestValidationError():
            return error_response(request, 422, "; ".join(_field(one) for one in error.errors()[:3]))
    raise error


def _field(error: Any) -> str:
    where = ".".join(str(part) for part in error.get("loc", ())[1:]) or str((error.get("loc") or ("request",))[0])
    return f"{where}: {str(error.get('msg', 'is wrong'))[:300]}"


LONGEST_ADDRESS = 8_192
LONGEST_BODY, SLOWEST_BODY = 1 << 20, 120.0
STRANGERS_BODY, STRANGERS_TIME = 4096, 10.0
"""Bytes that may be sent, and seconds until all of them have to be there: by those who are let in, and by others."""

MOST_FIELDS, MOST_FILES = 300, 5
MOST_STREAMS, MOST_STREAMS_EACH = 100, 20  # server-sent events at once, of all and of one person from one address
ROLES: dict[str, Role | None] = {
    **dict.fromkeys(("/login", "/api/v1/health", STATIC)),
    **dict.fromkeys(("/logout", "/api/v1/experiments/plan", "/api/v1/tokens", "/api/v1/tokens/"), Role.READER),
}
"""Paths, and beginnings of paths that end with a slash, to which everybody of that role may send anything, None for
strangers too. Of all others readers may ask for what there is, and only runners may send something."""

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

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                sent = {name.lower() for name, _ in message["headers"]}
                added = missing_headers(scope["path"], scope["query_string"], sent)
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        try:
            await self._answer(request, send_with_headers)
        except ClientDisconnect:  # whoever has left before all was sent needs no answer
            return
        except Exception as error:
            response = crash_response(request, error, (self.access.token,))
            if not begun:
                await response(scope, receive, send_with_headers)

    async def _answer(self, request: Request, send: Send) -> None:
        scope, receive = request.scope, request.receive
        try:
            response = self._refuse_stranger(request)
            if response is None and needed_role(request.method, request.url.path) is not None:
                response = await self._identify(request)
            if response is None and request.method not in SAFE:
                body = await _read_body(request)
                receive = _replay(body, request)
                response = self._refuse_forged(request) or await self._refuse_unsigned(request, body)
        except TomserveError as error:  # such as a file of users that is broken
            say(f"{error}", error=True)
            response = error_response(
                request, status_of(error), "the workbench's own files are broken; its owner is told how"
            )
        except StarletteHTTPException as error:
            response = error_response(request, error.status_code, str(error.detail), error.headers)
        if response is not None:
            await response(scope, receive, send)
        elif "text/event-stream" in request.headers.get("accept", "") or "/events/" in request.url.path:
            await self._stream(request, receive, send)
        else:
            await self.app(scope, receive, send)

    def _refuse_stranger(self, request: Request) -> Response | None:
        if not is_known_host(request.headers.get("host", ""), self.access.settings):
            said = "this workbench is not known under that name; use the address that `tomserve web` prints"
            return Response(f"{said}\n", 421, media_type="text/plain")
        if len(request.scope["path"]) + len(request.scope["query_string"]) > LONGEST_ADDRESS:
            return error_response(request, 414, f"the address has more than {LONGEST_ADDRESS:,} characters")
        return None

    async def _identify(self, request: Request) -> Response | None:
        """Find out who sends a request; the answer to a stranger, and to whoever comes by the printed address."""
        if request.method == "GET" and self.access.token and "token" in request.query_params:
            return self._let_in(request)
        caller = self.access.caller(request)
        if caller is None:
            return self._ask_to_sign_in(request)
        request.state.person, request.state.csrf = caller.person, caller.csrf
        request.state.caller = caller
        if needed_role(request.method, request.url.path) is Role.RUNNER and not caller.person.may_run:
            return error_response(request, 403, READER)
        return None

    def _let_in(self, request: Request) -> Response:
        if not self.access.admits(request.query_params["token"]):
            return error_response(
                request, 401, "the token of this address is not, or no longer, that of this workbench"
            )
        query = request.scope["query_string"].decode("latin-1")
        rest = urlencode([pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] != "token"])
        there = "/" + quote(request.url.path.lstrip("/\\"))
        response = RedirectResponse(f"{there}?{rest}" if rest else there, 303)
        self.access.give_cookie(response, self.access.ticket)
        return response

    def _ask_to_sign_in(self, request: Request) -> Response:
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        known = {"www-authenticate": "Bearer"}
        if not self.access.settings.auth:
            said = (
                "open the address that `tomserve web` printed where it was started; it holds a token that lets you in"
            )
            return error_response(request, 401, said, known)
        if request.url.path.startswith(API) or request.method not in SAFE:
            return error_response(
                request, 401, "sign in, or send a token of yours as `Authorization: Bearer TOKEN`", known
            )
        if request.headers.get("hx-request"):  # the whole page is loaded again, and then leads there
            return Response(status_code=401, headers={"hx-refresh": "true"})
        return RedirectResponse(f"/login?{urlencode({'next': wanted})}" if wanted != "/" else "/login", 303)

    def _refuse_forged(self, request: Request) -> Response | None:
        """The refusal of a request that a page of a stranger had a browser send."""
        if "authorization" in request.headers:  # no page of a stranger can have a browser send that
            return None
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        own = origin is None or is_known_origin(origin, request.headers["host"], self.access.settings)
        if not own or site not in (None, "same-origin", "none"):
            return error_response(request, 403, "this was sent by a page that does not belong to this workbench")
        return None

    async def _refuse_unsigned(self, request: Request, body: bytes) -> Response | None:
        fields = FormData()
        kind, _, how = request.headers.get("content-type", "").lower().partition(";")
        if kind.strip() in FORM:
            # Some codecs of Python take minutes for a megabyte.
            if "charset" in how.replace('"', "").replace("charset=utf-8", ""):
                return error_response(request, 415, "a form is read as UTF-8 alone")
            copy = Request(request.scope, _replay(body, request))
            fields = await copy.form(max_fields=MOST_FIELDS, max_files=MOST_FILES)
            if len(fields.multi_items()) > MOST_FIELDS:
                return error_response(request, 413, f"the form has more than {MOST_FIELDS} fields")
        caller: Caller | None = getattr(request.state, "caller", None)
        if caller is None or not caller.csrf:
            return None
        field = fields.get("csrf", "")
        given = request.headers.get("x-csrf-token") or ("" if isinstance(field, UploadFile) else field)
        if not same_secret(given, caller.csrf):
            return error_response(
                request, 403, "this form is out of date; load the page again, and repeat what you did"
            )
        return None

    async def _stream(self, request: Request, receive: Receive, send: Send) -> None:
        caller: Caller | None = getattr(request.state, "caller", None)
        whose = (caller.person.name if caller else "", request.client.host if request.client else "")
        if self._streams.total() >= MOST_STREAMS or self._streams[whose] >= MOST_STREAMS_EACH:
            said = "too many live pages are open; close some"
            await error_response(request, 503, said, {"retry-after": "10"})(request.scope, receive, send)
            return
        self._streams[whose] += 1
        try:
            await self.app(request.scope, receive, send)
        finally:
            self._streams[whose] -= 1
            if not self._streams[whose]:
                del self._streams[whose]


def needed_role(method: str, path: str) -> Role | None:
    """The least role that a request needs; None where strangers may send it."""
    for place, role in ROLES.items():
        if path == place or (place.endswith("/") and path.startswith(place)):
            return role
    return Role.READER if method in SAFE else Role.RUNNER


async def _read_body(request: Request) -> bytes:
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
                    raise StarletteHTTPException(413, f"what was sent has more than {most >> 10:,} KiB", _ENDS)
    except TimeoutError:
        raise StarletteHTTPException(408, f"what was sent did not arrive within {seconds:.0f} seconds", _ENDS) from None
    return bytes(body)


_ENDS = {"connection": "close"}
"""The header by which the connection ends, so that nothing more of what is sent has to be read."""


def _replay(body: bytes, request: Request) -> Receive:
    """What gives somebody a body that was read already, and then whatever the client still sends."""
    given = False

    async def receive() -> Message:
        nonlocal given
        if given:
            return await request.receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
