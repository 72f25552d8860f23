"""A workbench that listens, and a browser that looks at it and keeps whatever it should not have seen."""

from __future__ import annotations

import contextlib
import re
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvicorn
from fastapi import FastAPI

from tests.conftest import Endpoint, running
from tests.helpers.command import TOMSERVE, environment
from tomserve.web.app import make
from tomserve.web.settings import Settings

PATIENCE = 120_000
"""Milliseconds that anything on a page may take to come, on a machine that does much else."""


class Served:
    """A workbench that listens on a free port. app: it. base: its address."""

    def __init__(self, **settings: Any) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.app: FastAPI = make(Settings(port=port, **settings))
        self.base = f"http://127.0.0.1:{port}"
        config = uvicorn.Config(
            self.app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],), daemon=True)

    @property
    def opened(self) -> str:
        """The address that lets somebody in."""
        return f"{self.base}/?token={self.app.state.access.token}"

    def __enter__(self) -> Self:
        self._thread.start()
        until = time.monotonic() + PATIENCE / 1000
        while not self._server.started:
            assert time.monotonic() < until, "the server does not start"
            time.sleep(0.01)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        self._listener.close()


class Visitor:
    """Somebody with a browser. page: what they look at. wrong: every error of a page, every dialog, every word to the
    console, every request to another place than the workbench."""

    def __init__(self, browser: Any, base: str, **options: Any) -> None:
        self.base, self.wrong = base, list[str]()
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("dialog", self._dialog)
        self.context.on("request", self._request)

    def _console(self, message: Any) -> None:
        left = message.text.startswith(("htmx:sendAbort", "htmx:afterRequest"))  # a page that is left asks no more
        if message.type in ("error", "warning") and not left:
            self.wrong.append(f"console: {message.text} ({self.page.url})")

    def _dialog(self, dialog: Any) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        if not request.url.startswith((f"{self.base}/", "data:")):
            self.wrong.append(f"request: {request.url}")

    def open(self, address: str) -> int:
        """Go to an address, and wait until all parts that a page fetches are there. Returns the HTTP status."""
        answer = self.page.goto(self.base + address if address.startswith("/") else address)
        self.settled()
        return int(answer.status)

    def settled(self) -> None:
        """Wait until nothing of the page is still being computed."""
        self.page.wait_for_function("() => !document.querySelector('.coming, [aria-busy=true], [hx-trigger=load]')")

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
        hacked = self.page.evaluate("() => 'hacked' in window")
        return [*found, *(["window.hacked is set"] if hacked else [])]

    def close(self) -> None:
        """Close the browser's window."""
        self.context.close()


@contextlib.contextmanager
def visiting(browser: Any, address: str, **options: Any) -> Iterator[Visitor]:
    """Somebody who has followed that address, which begins with that of the workbench."""
    base = "/".join(address.split("/")[:3])
    visitor = Visitor(browser, base, **options)
    try:
        visitor.open(address)
        yield visitor
    finally:
        visitor.close()


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
        assert self.process.stdout is not None
        until = time.monotonic() + PATIENCE / 1000
        while not select.select([self.process.stdout], [], [], 1)[0]:
            assert time.monotonic() < until, "it says nothing"
        line = self.process.stdout.readline()
        found = re.match(r"workbench: (\S+)$", line)
        assert found, line
        self.address = found[1]

    @property
    def base(self) -> str:
        """The address without what lets somebody in."""
        return "/".join(self.address.split("/")[:3])

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.base.rpartition(":")[2])

    def end(self) -> int:
        """End it as Ctrl-C does, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        return self.process.returncode


@contextlib.contextmanager
def beside() -> Iterator[Endpoint]:
    """An endpoint that another thread begins, as playwright has an event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        begun = running()
        server = pool.submit(begun.__enter__).result()
        try:
            yield server
        finally:
            pool.submit(begun.__exit__, None, None, None).result()
