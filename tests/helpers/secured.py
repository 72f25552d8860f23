"""A server that speaks TLS with a certificate of an authority made for the test, and a proxy that hands requests on."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

from tests.helpers.hostile import ANSWER, Hostile, response


def authority(folder: Path, host: str = "localhost") -> tuple[Path, ssl.SSLContext]:
    """The file of an authority that nobody trusts yet, and what a server with its certificate for `host` speaks TLS by."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    folder.mkdir(exist_ok=True)
    new = ("-newkey", "rsa:2048", "-nodes", "-days", "2")
    openssl("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Test CA")
    openssl("req", *new, "-keyout", "own.key", "-out", "own.csr", "-subj", f"/CN={host}")
    (folder / "names").write_text(f"subjectAltName=DNS:{host}\n")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
    openssl("x509", "-req", "-in", "own.csr", "-out", "own.pem", *signed)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "own.pem", folder / "own.key")
    return folder / "ca.pem", context


class Secured(Hostile):
    """Answers every request well, by TLS."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(lambda: [])
        self._context = context

    def serve(self, connection: socket.socket) -> None:
        with self._context.wrap_socket(connection, server_side=True) as secure:
            while self.head(secure):
                secure.sendall(response(ANSWER))


class Between(Hostile):
    """A proxy. It connects to `to` whatever host it is asked for, and refuses with `refuses` if that is set."""

    def __init__(self, to: int | None = None, refuses: bytes = b"") -> None:
        super().__init__(lambda: [])
        self._to, self._refuses = to, refuses

    def serve(self, connection: socket.socket) -> None:
        while head := self.head(connection):
            if self._refuses:
                connection.sendall(self._refuses)
            elif not head.startswith(b"CONNECT "):
                connection.sendall(response(ANSWER))
            else:
                connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                with socket.create_connection(("127.0.0.1", self._to)) as other:
                    back = threading.Thread(target=_copy, args=(other, connection), daemon=True)
                    back.start()
                    _copy(connection, other)
                return


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
