"""A workbench that listens, as a thread or as a process, and a browser that keeps whatever it should not have seen."""

import contextlib
import re
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import axe_playwright_python
import uvicorn
from fastapi import FastAPI

from tests.helpers.command import TOMSERVE, environment
from tests.helpers.queues import until
from tomserve.web.app import make_app
from tomserve.web.settings import Settings

PATIENCE = 120_000
"""Milliseconds that anything on a page may take to come, on a machine that does much else."""


def axe_findings(page: Any, within: str = "html") -> list[str]:
    """What axe has to say against the page, or a part of it: each broken rule, and where first."""
    page.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text())
    # Addresses of items (#item=...) are no parts of the page, for which that rule takes them. A picture is one image,
    # and the rows of a table are alike.
    return list(
        page.evaluate(
            """async (within) => (await axe.run({ include: [within], exclude: ["svg > *", "tbody tr:nth-child(n+4)"] }, { rules: { 'skip-link': { enabled: false } } })).violations
                .map((found) => `${found.id}: ${found.nodes[0].target} ${found.nodes[0].failureSummary}`)""",
            within,
        )
    )


class Served:
    """A workbench that listens. base: its address. opened: the one that lets somebody in."""

    def __init__(self, app: FastAPI, port: int) -> None:
        self.app, self.base = app, f"http://127.0.0.1:{port}"
        self.opened = f"{self.base}/?token={app.state.access.token}"


@contextlib.contextmanager
def served(port: int = 0) -> Iterator[Served]:
    """A workbench that listens until this is left, on that port or a free one."""
    listener = socket.create_server(("127.0.0.1", port))
    port = listener.getsockname()[1]
    app = make_app(Settings(port=port))
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    until(lambda: server.started, "the server")
    try:
        yield Served(app, port)
    finally:
        app.state.workbench.ending.set()
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


class Watched:
    """A browser's context. page: what is looked at. wrong: every error of a page, every dialog that nobody expects,
    every word to the console, every request to an address that does not begin with one of `own`. agrees: to dialogs."""

    own: tuple[str, ...] = ("file:", "data:")

    def __init__(self, browser: Any, **options: Any) -> None:
        self.wrong, self.agrees = list[str](), False
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.context.on("request", self._request)
        self.begin_page()

    def begin_page(self) -> None:
        """Look at a new page."""
        self.page = self.context.new_page()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("dialog", self._dialog)

    def _console(self, message: Any) -> None:
        self.wrong.append(f"console: {message.text}")

    def _dialog(self, dialog: Any) -> None:
        if self.agrees:
            dialog.accept()
        else:
            self.wrong.append(f"dialog: {dialog.message}")
            dialog.dismiss()

    def _request(self, request: Any) -> None:
        if not request.url.startswith(self.own):
            self.wrong.append(f"request: {request.url}")

    def show(self, file: Path, address: str = "") -> None:
        """Go to a file of ours, and wait until its script has run."""
        self.page.goto(file.as_uri() + address)
        self.page.wait_for_selector("html[data-ready]", state="attached")


class Visitor(Watched):
    """Somebody who looks at a workbench, of that address."""

    def __init__(self, browser: Any, base: str, **options: Any) -> None:
        self.base, self.own = base, (f"{base}/", "data:")
        super().__init__(browser, **options)
        self.context.set_default_timeout(PATIENCE)

    def _console(self, message: Any) -> None:
        left = message.text.startswith(("htmx:", "[object Event]")) or "ERR_" in message.text  # what is left or lost
        if message.type in ("error", "warning") and not left:
            self.wrong.append(f"console: {message.text} ({self.page.url})")

    def open(self, address: str) -> int:
        """Go to an address, and wait until all parts that a page fetches are there. Returns the HTTP status."""
        answer = self.page.goto(self.base + address if address.startswith("/") else address)
        self.settled()
        return int(answer.status)

    def settled(self) -> None:
        """Wait until nothing of the page is still being computed."""
        self.page.wait_for_function("() => !document.querySelector('.coming, [aria-busy=true], [hx-trigger=load]')")

    def eventually(self, script: str) -> None:
        """Wait until an expression of JavaScript is true."""
        self.page.wait_for_function(f"() => {script}")

    @property
    def text(self) -> str:
        """What a reader sees."""
        return str(self.page.inner_text("body"))

    def active(self) -> list[str]:
        """What of the page could run or fetch something and is none of ours."""
        found: list[str] = self.page.evaluate(
            """() => [...document.querySelectorAll('*')].flatMap(element => {
                 const bad = [...element.attributes].filter(one => /^on/i.test(one.name)
                   || (/^(href|src|action|formaction)$/i.test(one.name) && /^\\s*(javascript|https?:\\/\\/evil)/i.test(one.value))
                   || one.name === 'style');
                 const script = element.tagName === 'SCRIPT' && !element.getAttribute('src')?.startsWith('/static/');
                 const foreign = ['IFRAME', 'OBJECT', 'EMBED', 'BASE'].includes(element.tagName)
                   || (element.tagName === 'IMG' && !element.src.startsWith(location.origin));
                 return bad.length || script || foreign ? [element.outerHTML.slice(0, 200)] : [];
               })"""
        )
        return [*found, *(["window.hacked is set"] if self.page.evaluate("() => 'hacked' in window") else [])]


@contextlib.contextmanager
def visiting(browser: Any, address: str, **options: Any) -> Iterator[Visitor]:
    """Somebody who has followed that address, which begins with that of the workbench; nothing may be wrong at last."""
    visitor = Visitor(browser, "/".join(address.split("/")[:3]), **options)
    try:
        visitor.open(address)
        yield visitor
        assert not visitor.wrong
    finally:
        visitor.context.close()


class Started:
    """`tomserve web` as a process, with its worker. address: the one that it printed, which lets somebody in."""

    def __init__(self, runs: Path, *arguments: str, port: int = 0) -> None:
        self.process = subprocess.Popen(
            [*TOMSERVE, "web", "--port", str(port), *arguments],
            env=environment(runs),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        stdout = self.process.stdout
        assert stdout is not None
        until(lambda: select.select([stdout], [], [], 1)[0], "its address")
        line = stdout.readline()
        found = re.match(r"workbench: (\S+)$", line)
        assert found, line
        self.address = found[1]

    @property
    def base(self) -> str:
        """The address without what lets somebody in."""
        return "/".join(self.address.split("/")[:3])

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Send it a signal; returns its exit code and what it said of errors."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            said = self.process.communicate(timeout=120)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            said = self.process.communicate()[1]
        return self.process.returncode, said
