"""One rule says through which proxy a request goes and whose certificates are trusted, whoever sends the request."""

import asyncio
import base64
import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers.hostile import ANSWER, KEY, Hostile, response, sent
from tomserve.engine import network
from tomserve.engine.network import Proxy, is_loopback, is_this_machine, proxy_for
from tomserve.engine.transports import TRANSPORTS
from tomserve.errors import ConfigError, ServerError
from tomserve.serving.probe import Probe

NAMES = tuple(f"{kind}_{end}" for kind in ("HTTP", "HTTPS", "ALL", "NO") for end in ("PROXY",))


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


def by_transport(name: str) -> Callable[[str], str]:
    def ask(url: str) -> str:
        (reply,) = asyncio.run(sent(name, url))
        return reply.text or f"{reply.status}: {reply.error}"

    return ask


def before_a_run(url: str) -> str:
    probe = Probe(url, KEY, timeout=60.0)
    try:
        return "tea" if probe.models() == [{"id": "tiny"}] else "another"
    except ServerError as error:
        return str(error)


@pytest.fixture(params=[*TRANSPORTS, "before a run"])
def ask(request: pytest.FixtureRequest) -> Callable[[str], str]:
    return before_a_run if request.param == "before a run" else by_transport(request.param)


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMES, "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    return authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def secured(made: tuple[Path, ssl.SSLContext]) -> Iterator[Secured]:
    server = Secured(made[1])
    with server:
        yield server


def test_a_server_with_a_certificate_of_an_authority_of_ones_own(
    ask: Callable[[str], str], secured: Secured, made: tuple[Path, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"https://localhost:{secured.port}/v1"
    refused = ask(url)
    assert "CERTIFICATE_VERIFY_FAILED" in refused or "certificate verify failed" in refused
    assert "set SSL_CERT_FILE to its name" in refused
    assert secured.heard == [], "the key is not sent to who cannot be told"
    monkeypatch.setenv("SSL_CERT_FILE", str(made[0]))
    assert ask(url) == "tea"
    other = ask(f"https://127.0.0.1:{secured.port}/v1")
    assert "use the name that it is made for" in other


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_certificates_that_are_none_are_said(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("nothing")
    for value in (tmp_path / "missing", tmp_path / "empty"):
        monkeypatch.setenv(name, str(value))
        with pytest.raises(ConfigError, match=f"{name}: it must name"):
            network.certificates()


def test_https_goes_through_the_proxy_of_the_environment(
    ask: Callable[[str], str], secured: Secured, made: tuple[Path, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy learns the name of the host and its own login, and nothing of what is said there."""
    monkeypatch.setenv("SSL_CERT_FILE", str(made[0]))
    monkeypatch.setattr(network, "is_this_machine", lambda host: False)
    proxy = Between(secured.port)
    with proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:pa%40ss@127.0.0.1:{proxy.port}")
        assert ask("https://localhost:4443/v1") == "tea"
    login = base64.b64encode(b"me:pa@ss")
    assert proxy.heard[0].startswith(b"CONNECT localhost:4443 HTTP/1.1\r\n")
    assert f"Basic {login.decode()}".encode() in proxy.heard[0]
    assert KEY.encode() not in b"".join(proxy.heard)
    assert KEY.encode() in secured.heard[0]
    assert login not in secured.heard[0]


def test_http_goes_through_the_proxy_of_the_environment(ask: Callable[[str], str], monkeypatch) -> None:
    proxy = Between()
    with proxy:
        monkeypatch.setenv("ALL_PROXY", f"me:word@127.0.0.1:{proxy.port}")
        assert ask("http://model.example:8000/v1") == "tea"
    assert b"Basic " + base64.b64encode(b"me:word") in proxy.heard[0]
    path = proxy.heard[0].split(b" ")[1]
    assert path in (b"http://model.example:8000/v1/chat/completions", b"http://model.example:8000/v1/models")


@pytest.mark.parametrize(
    "refuses",
    [
        b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 407 No Basic " + base64.b64encode(b"me:geheim") + b" here\r\nContent-Length: 0\r\n\r\n",
        b"SSH-2.0-x\r\n\r\n",
    ],
)
def test_a_proxy_that_refuses_is_said_without_its_login(refuses: bytes, ask: Callable[[str], str], monkeypatch) -> None:
    proxy = Between(refuses=refuses)
    with proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:geheim@127.0.0.1:{proxy.port}")
        said = ask("https://model.example/v1")
    assert said != "tea"
    assert "geheim" not in said
    assert base64.b64encode(b"me:geheim").decode() not in said
    assert "\n" not in said


def test_a_server_on_this_machine_is_never_asked_through_a_proxy(ask: Callable[[str], str], monkeypatch) -> None:
    proxy = Between()
    with proxy, Hostile(lambda: [response(ANSWER)]) as server:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert ask(server.url) == "tea"
        assert ask(server.url.replace("127.0.0.1", "localhost")) == "tea"
    assert proxy.heard == []


def test_which_hosts_go_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://secure:1")
    monkeypatch.setenv("http_proxy", "plain:2")
    monkeypatch.setenv("NO_PROXY", "lab.example, .dot.example,10.0.0.0/8,2001:db8::/32,host.example:8443,192.0.2.7")
    secure, plain = Proxy("secure", 1, None), Proxy("plain", 2, None)
    assert proxy_for("https://api.example/v1") == secure
    assert proxy_for("http://api.example:8000/v1") == plain
    assert proxy_for("https://11.0.0.1/v1") == secure
    assert proxy_for("https://notlab.example/v1") == secure
    assert proxy_for("https://host.example/v1") == secure
    bypassed = ("lab.example", "a.lab.example", "x.dot.example", "10.1.2.3:8000", "[2001:db8::1]", "host.example:8443")
    for host in (*bypassed, "192.0.2.7", "LAB.example", "localhost", "127.0.0.2", "[::1]", "a.localhost", "0.0.0.0"):
        assert proxy_for(f"https://{host}/v1") is None, host
    monkeypatch.setenv("NO_PROXY", "*")
    assert proxy_for("https://api.example/v1") is None


@pytest.mark.parametrize(
    "proxy", ["socks5://me:geheim@h:1", "https://me:geheim@h:1", "http://me:geheim@h:99999", "http://"]
)
def test_a_proxy_of_another_kind_is_refused_in_one_line(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(ConfigError, match="ALL_PROXY: only a proxy") as error:
        proxy_for("https://api.example/v1")
    assert "geheim" not in str(error.value)
    assert "name api.example in NO_PROXY" in str(error.value)


def test_what_is_this_machine() -> None:
    assert all(
        map(is_loopback, ("localhost", "LOCALHOST.", "127.0.0.1", "127.1", "2130706433", "[::1]", "::ffff:127.0.0.1"))
    )
    assert not any(
        map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "localhost.example", "127.0.0.1.example", "", "::ffff:1.2.3.4"))
    )
    assert is_this_machine("0.0.0.0")
