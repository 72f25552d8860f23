"""The application of the workbench, pages and programming interface behind one guard, and the server that serves it
until a signal ends it.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import replace
from html import escape
from types import FrameType
from urllib.parse import urlsplit

import h11
import orjson
import uvicorn
from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from uvicorn.protocols.http.h11_impl import H11Protocol

from tomserve._version import __version__
from tomserve.content import files
from tomserve.content.text import say
from tomserve.engine import transports
from tomserve.engine.network import is_loopback
from tomserve.engine.redact import Redactor
from tomserve.errors import ConfigError, MachineError
from tomserve.serving import keys
from tomserve.serving.server import check_port
from tomserve.web import access, background, playground
from tomserve.web.access import Access, Guard, Workbench
from tomserve.web.page_templates import FOLDER
from tomserve.web.queue import Queue
from tomserve.web.routes import api, comparison, dashboard, experiments, items, runs
from tomserve.web.run_index import RunIndex
from tomserve.web.settings import Settings
from tomserve.web.worker import keep_workers

PAGES = (dashboard.router, experiments.router, runs.router, comparison.router, items.router)


def make_app(settings: Settings) -> FastAPI:
    """The application of a workbench with these settings."""
    app = api.DescribedApp(
        title=api.TITLE,
        description=api.DESCRIPTION,
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    app.state.access = Access(settings)
    app.add_middleware(Guard, access=app.state.access)
    access.install_handlers(app)
    register = RunIndex()
    app.state.workbench = Workbench(settings, register, Queue(register, settings))
    # The style of the report is the style of the workbench, too, so that figures and tables look alike in both.
    static = StaticFiles(directory=FOLDER / "static", packages=[("tomserve.reporting.html", "assets")])
    app.mount("/static", static, name="static")
    for router in (*PAGES, api.router):
        app.router.routes.extend(router.routes)  # as they are: include_router would make every one again, in 0.2 s
    return app


class Connection(H11Protocol):
    """A connection that is closed where the head of a request, or the rest of a body that was answered already, does
    not arrive in time: whoever holds many connections and sends nothing would keep everybody out."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in H11Protocol
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take what came, and wait for the rest of the head."""
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        """Wait for what is left of the request, and for the next one."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        super().connection_lost(exc)
        if self._late is not None:
            self._late.cancel()

    def _wait(self) -> None:
        answering = self.cycle is not None and not self.cycle.response_complete
        waits = self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and not answering
        if self._late is not None and not waits:
            self._late.cancel()
            self._late = None
        elif self._late is None and waits:
            self._late = self.loop.call_later(access.STRANGERS_TIME, self.transport.close)


GRACE = 2  # seconds that requests under way have when the workbench ends; what streams is cut off then
UNREAD = 60_000  # milliseconds after which a connection ends whose other end reads nothing of an answer

HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def check_settings(settings: Settings) -> None:
    """Raise ConfigError where strangers could get in, or where the proxy is no address of a host."""
    if not is_loopback(settings.host) and not settings.auth:
        raise ConfigError(
            f"--host {settings.host}: everybody who reaches this machine could try the token, and sees it on its way; "
            "say --auth, so that people sign in (--add-user NAME adds one), or leave --host out and use a tunnel "
            f"(ssh -L {settings.port}:localhost:{settings.port} MACHINE)"
        )
    if settings.proxy is not None:
        parts = urlsplit(settings.proxy)
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or settings.proxy != f"{parts.scheme}://{parts.netloc}"
        ):
            raise ConfigError(f"--proxy {settings.proxy}: expected a host alone, such as https://tom.example.org")


@contextlib.contextmanager
def hold_lock(settings: Settings) -> Iterator[Callable[[str], None]]:
    """Hold the lock of the folder's workbench; yields what tells others the address under which it is found.

    Raises MachineError, which names the process and the address, where another workbench holds it, or where the folder
    cannot be written.
    """
    path = settings.folder / "lock"
    try:
        settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = files.open_regular(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        hint = "choose a writable place by TOMSERVE_RUNS"
        raise MachineError(f"{path}: cannot be written ({error.strerror}); {hint}") from None
    try:
        if not files.try_lock(lock):
            raise MachineError(
                f"a workbench of {settings.folder.parent}/ runs already{_holder(settings)}; use that one, end it, or "
                "name another folder of runs by TOMSERVE_RUNS"
            )

        def tell(address: str) -> None:
            os.ftruncate(lock, 0)
            os.pwrite(lock, orjson.dumps({"pid": os.getpid(), "address": address}), 0)

        tell("")
        yield tell
        os.ftruncate(lock, 0)
    finally:
        os.close(lock)


def _holder(settings: Settings) -> str:
    with contextlib.suppress(OSError, ConfigError):
        found = files.read_json(settings.folder / "lock", "")
        if isinstance(found, dict) and isinstance(pid := found.get("pid"), int):
            address = str(found.get("address") or "")[:200]
            return f" (pid {pid}{f', {address}' if address else ''})"
    return ""


def open_socket(settings: Settings) -> socket.socket:
    """A socket that listens where the settings say; port 0 for a free one. Raises MachineError that names who does."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    made = socket.socket(family)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # which connections inherit
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD)
        made.bind((settings.host.strip("[]"), settings.port))
        made.listen(128)
    except OSError as error:
        made.close()
        check_port(settings.host.strip("[]"), settings.port)
        raise MachineError(
            f"{settings.host}:{settings.port}: cannot listen ({error.strerror}); choose another --port (PORT=)"
        ) from None
    return made


class Server(uvicorn.Server):
    """A server that is told of signals, says when it is ready, and remembers which signal ended it."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], leave: Callable[[], None]) -> None:
        super().__init__(config)
        self.ready, self.leave, self.ended_by = ready, leave, 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and say so."""
        await super().startup(sockets=sockets)
        self.ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End, also where somebody does not read what was answered, which would keep the connection for ever."""
        asyncio.get_running_loop().call_later(GRACE, self._abort_connections)
        await super().shutdown(sockets=sockets)

    def _abort_connections(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Hear signals while the server runs: the first ends it, the second at once."""
        before = {one: handler for one in HEARD if (handler := signal.getsignal(one)) != signal.SIG_IGN}
        for one in before:
            signal.signal(one, self.handle_exit)
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called for a signal."""
        self.force_exit = self.should_exit
        self.should_exit, self.ended_by = True, self.ended_by or sig
        self.leave()


def serve(settings: Settings, ready: Callable[[str], None]) -> int:
    """Serve until a signal comes, and return its number.

    ready: called with the address to open, once it is answered. Raises ConfigError for settings that would let
    strangers in, MachineError where another workbench has the folder or another program the port.
    """
    check_settings(settings)
    with hold_lock(settings) as tell, contextlib.closing(open_socket(settings)) as listener:
        settings = replace(settings, port=listener.getsockname()[1])
        app = make_app(settings)
        secrets = (app.state.access.token,)
        _log(Redactor(*keys.all_keys(), *secrets))
        config = uvicorn.Config(
            app,
            http=Connection,  # h11 alone bounds what comes before a body, which strangers may send, too
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            proxy_headers=settings.proxy is not None,
            forwarded_allow_ips="127.0.0.1,::1",
            timeout_graceful_shutdown=GRACE + 1,
            h11_max_incomplete_event_size=1 << 16,
        )
        tell(address(settings))
        opened = address(settings) + (f"/?token={secrets[0]}" if secrets[0] else "/")
        server = Server(config, lambda: ready(opened), app.state.workbench.ending.set)
        background.forget()
        try:
            with keep_workers(settings):
                transports.run_loop(server.serve(sockets=[listener]))
                if running := [line for line in app.state.workbench.register.every() if line.card.runs]:
                    names = ", ".join(line.name for line in running)
                    say(f"stopping where they are, to go on when the workbench is started again: {names}", error=True)
        finally:
            playground.stop_trials()
        return server.ended_by


def address(settings: Settings) -> str:
    """Where the workbench is reached, without the token."""
    if settings.proxy:
        return settings.proxy
    host = settings.host.strip("[]")
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"


def open_browser(settings: Settings, opened: str) -> None:
    """Open an address in the browser. It holds the token, which must not stand on a command line that everybody on this
    machine can read; so the browser is given a file that only its owner can read, and that leads there."""
    path = settings.folder / "open.html"
    page = f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(opened)}">'
    files.replace_bytes(path, page.encode(), 0o600)
    webbrowser.open(path.resolve().as_uri())


class _MaskedLog(logging.Handler):
    def __init__(self, mask: Redactor) -> None:
        super().__init__(logging.WARNING)
        self.mask = mask

    def emit(self, record: logging.LogRecord) -> None:
        """Say one record; a page that is cut off because the workbench ends is no error."""
        if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
            return
        say(self.mask(self.format(record)), error=True)


def _log(mask: Redactor) -> None:
    for name in ("uvicorn", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers[:], logger.propagate = (
            [_MaskedLog(mask)] if name != "uvicorn.error" else [],
            name == "uvicorn.error",
        )
