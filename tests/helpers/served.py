"""A workbench behind a real server on a port of its own, which can be stopped and started again on the same one."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI

from tomserve.web.app import make
from tomserve.web.settings import Settings

WITHIN = 60.0


@dataclass
class Served:
    """A workbench that is served. settings: of it, beside the port. app: the one that answers now."""

    settings: dict[str, Any] = field(default_factory=dict)
    port: int = 0
    app: FastAPI | None = None
    _server: uvicorn.Server | None = None
    _thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def opened(self) -> str:
        """The address that lets in."""
        assert self.app is not None
        return f"{self.url}/?token={self.app.state.access.token}"

    def start(self) -> None:
        """Answer, on the port of before where there was one."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        self.app = make(Settings(port=self.port, **self.settings))
        config = uvicorn.Config(self.app, log_config=None, lifespan="off", timeout_graceful_shutdown=10)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]}, daemon=True)
        self._thread.start()
        until = time.monotonic() + WITHIN
        while not self._server.started:
            assert time.monotonic() < until
            time.sleep(0.01)

    def stop(self) -> None:
        """Answer no longer."""
        if self._server is not None and self._thread is not None:
            assert self.app is not None
            self.app.state.workbench.ending.set()
            self._server.should_exit = True
            self._thread.join(WITHIN)
            assert not self._thread.is_alive()


@contextlib.contextmanager
def served(**settings: Any) -> Iterator[Served]:
    """A workbench that is served until this is left."""
    found = Served(settings)
    found.start()
    try:
        yield found
    finally:
        found.stop()
