"""A real FTP server in this process, whose connections can be cut."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import DTPHandler, FTPHandler
from pyftpdlib.servers import FTPServer

USER, PASSWORD = "writer", "the-secret-word"


@dataclass
class Store:
    """A running server. url: of its root. root: the folder that it serves. cuts: how many more transfers it cuts off.
    after: how many bytes of each of them it lets through."""

    url: str
    root: Path
    cuts: int = 0
    after: int = 10


@contextlib.contextmanager
def serving(root: Path) -> Iterator[Store]:
    """Serve a folder until the block ends; writing and reading take USER and PASSWORD."""
    store, ending = Store("", root), threading.Event()

    class Transfer(DTPHandler):  # type: ignore[misc]  # the library has no types
        def handle_read(self) -> None:
            super().handle_read()
            self._cut()

        def handle_write(self) -> None:
            super().handle_write()
            self._cut()

        def _cut(self) -> None:
            if store.cuts > 0 and self.get_transmitted_bytes() > store.after and self.cmd in ("STOR", "RETR"):
                store.cuts -= 1
                self.cmd_channel.close_when_done()
                self.close()
                self.cmd_channel.close()

    class Handler(FTPHandler):  # type: ignore[misc]
        dtp_handler = Transfer
        auth_failed_timeout = 0.01  # it would let whoever gives a wrong password wait for seconds
        authorizer = DummyAuthorizer()

    Handler.authorizer.add_user(USER, PASSWORD, str(root), perm="elradfmwMT")
    with FTPServer(("127.0.0.1", 0), Handler) as server:
        store.url = f"ftp://127.0.0.1:{server.socket.getsockname()[1]}"

        def serve() -> None:
            while not ending.is_set():
                server.serve_forever(timeout=0.02, blocking=False, handle_exit=False)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield store
        finally:
            ending.set()
            thread.join(30)
