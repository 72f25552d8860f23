"""The way to a server: through which proxy of the environment (never for this machine), and trusting which certificates
(those of the system, or of SSL_CERT_FILE and SSL_CERT_DIR)."""

import base64
import contextlib
import functools
import ipaddress
import os
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from tomserve.errors import ConfigError


class Proxy(NamedTuple):
    """A proxy that is spoken to by plain HTTP."""

    host: str
    port: int
    login: str | None  # the value of the header Proxy-Authorization, if it wants one

    @property
    def url(self) -> str:
        """Its address, without the login."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether a host can be reached from this machine alone.

    >>> [is_loopback(one) for one in ("localhost", "[::1]", "127.1", "example.org", "localhost%.example.org")]
    [True, True, True, False, False]
    """
    host = host.strip("[]").rstrip(".").lower()
    host = host.split("%")[0] if ":" in host else host  # the zone of an IPv6 address
    if host == "localhost" or host.endswith(".localhost"):
        return True
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return (mapped or address).is_loopback
    try:
        return socket.inet_aton(host)[0] == 127  # the short forms of an address, such as 127.1
    except OSError:
        return False


def is_this_machine(host: str) -> bool:
    """Whether what is sent to that host does not leave this machine."""
    return is_loopback(host) or host.strip("[]") in ("0.0.0.0", "::") or host.lower() == socket.gethostname().lower()


def proxy_for(url: str) -> Proxy | None:
    """The proxy through which requests to a URL go; None where they go there directly. Raises ConfigError where the
    environment names one that is not spoken to by plain HTTP, or that is no address."""
    import urllib.request  # it takes longer than all of this module

    parts = urlsplit(url)
    named = urllib.request.getproxies_environment()
    kind = parts.scheme if named.get(parts.scheme) else "all"
    host = parts.hostname or ""
    if not (proxy := named.get(kind)) or is_this_machine(host) or _is_bypassed(host, parts.port, named):
        return None
    try:
        found = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        port, name = found.port or 80, found.hostname
    except ValueError:
        port, name = 0, None
    if not name or not name.isprintable() or found.scheme != "http":
        raise ConfigError(
            f"{kind.upper()}_PROXY: only a proxy with an address such as http://host:3128 is used, this is another; "
            f"change it, or name {host} in NO_PROXY"
        )
    login = None
    if found.username is not None:
        login = "Basic " + base64.b64encode(unquote(f"{found.username}:{found.password or ''}").encode()).decode()
    return Proxy(name, port, login)


def proxy_logins() -> tuple[str, ...]:
    """By which names and passwords, as ``NAME:PASSWORD``, the proxies of the environment are asked."""
    import urllib.request

    found = []
    for proxy in urllib.request.getproxies_environment().values():
        with contextlib.suppress(ValueError):
            parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
            found += [unquote(f"{parts.username}:{parts.password}")] if parts.password else []
    return tuple(dict.fromkeys(found))


def _is_bypassed(host: str, port: int | None, named: Mapping[str, str]) -> bool:
    """Whether NO_PROXY names that host: itself, its domain, its network (10.0.0.0/8), with or without a port, or *."""
    for entry in (part.strip().lower() for part in named.get("no", "").split(",")):
        with contextlib.suppress(ValueError):
            if ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False):
                return True
        name = entry.removesuffix(f":{port}").removeprefix("*").lstrip(".")
        if entry == "*" or (name and f".{host.lower()}".endswith(f".{name}")):
            return True
    return False


def certificates() -> ssl.SSLContext:
    """What checks the certificates of servers. Raises ConfigError where SSL_CERT_FILE or SSL_CERT_DIR holds none."""
    return _certificates(os.environ.get("SSL_CERT_FILE") or "", os.environ.get("SSL_CERT_DIR") or "")


@functools.cache
def _certificates(file: str, folder: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    try:
        if file:
            context.load_verify_locations(cafile=file)
    except (OSError, ValueError):
        raise ConfigError("SSL_CERT_FILE: it must name a file of certificates (PEM) that can be read") from None
    if folder and not all(Path(one).is_dir() for one in folder.split(os.pathsep)):
        raise ConfigError("SSL_CERT_DIR: it must name a folder of certificates, as `openssl rehash` makes one")
    paths = ssl.get_default_verify_paths()
    if not (
        file or folder or paths.cafile or paths.capath
    ):  # a Python that does not know where this system has its own
        import certifi

        context.load_verify_locations(certifi.where())
    return context


def tls_advice(error: BaseException | None) -> str:
    """What to do about a failed TLS handshake, as the end of a sentence."""
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" not in text:
        return "perhaps the address begins with http://, not https://"
    if "mismatch" in text or "not valid for" in text:
        return "the certificate is one for another name: use the name that it is made for in the address"
    if "expired" in text or "not yet valid" in text:
        return "the certificate is out of date: renew it, or set this machine's clock"
    return (
        "no authority that this machine trusts made the certificate: put that of its maker into a file (PEM) and set "
        "SSL_CERT_FILE to its name"
    )
