"""Reads API keys and further headers from the environment or a file, never from a command line, which all users of a
machine can read."""

import contextlib
import os
import re
import shlex
import stat
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tomserve.engine.addresses import normalize_url, redact_url
from tomserve.engine.network import is_loopback
from tomserve.errors import ConfigError

LONGEST = 4096  # bytes that a file with a key may have


def api_key() -> str | None:
    """The key to send to an endpoint: that of `own_key`, else OPENAI_API_KEY unless other headers were named, else
    None. Raises ConfigError."""
    return own_key() or (None if header_variables() else _check_key(os.environ.get("OPENAI_API_KEY") or ""))


def own_key() -> str | None:
    """The key in the variable that `use_key` has named, in TOMSERVE_API_KEY, or in the file that TOMSERVE_API_KEY_FILE
    names. Raises ConfigError where others can read the file, too, or the key cannot be sent in an HTTP header."""
    key = (os.environ.get(_used[-1]) if _used else None) or os.environ.get("TOMSERVE_API_KEY") or ""
    if not key and (file := os.environ.get("TOMSERVE_API_KEY_FILE")):
        return _from_file(Path(file).expanduser())
    return _check_key(key)


HEADERS = "TOMSERVE_HEADERS"
"""The variable that holds what --header says, as ``NAME=VARIABLE,...``, so that other processes inherit it: names of
variables, never their values."""
_HEADER = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]{1,100})=([A-Za-z_][A-Za-z0-9_]{0,99})", re.ASCII)
_TAKEN = frozenset(("host", "content-length", "content-type", "transfer-encoding", "connection")) | {
    "accept-encoding",
    "upgrade",
    "user-agent",
}
"""Headers that tomserve sets itself, by how it sends a request."""


def use_headers(given: Sequence[str]) -> None:
    """Send these headers, each as ``NAME=VARIABLE``, with every request from now on. Raises ConfigError, which says
    nothing of what may be a secret."""
    os.environ[HEADERS] = ",".join(given)
    headers()


def header_variables() -> dict[str, str]:
    """The headers that are to be sent, by name, with the variables that hold their values. Raises ConfigError."""
    found: dict[str, str] = {}
    for one in (os.environ.get(HEADERS) or "").split(","):
        if not one.strip():
            continue
        if (matched := _HEADER.fullmatch(one.strip())) is None:
            name = one.partition("=")[0].strip()
            shown = name if len(name) <= 40 and re.fullmatch(r"[A-Za-z-]+", name, re.ASCII) else "NAME"
            raise ConfigError(
                f"--header {shown}=...: expected NAME=VARIABLE, such as api-key=AZURE_KEY, where the environment "
                "variable holds the value; the value itself never stands on a command line"
            )
        if matched[1].lower() in _TAKEN:
            raise ConfigError(f"--header {matched[1]}: tomserve sets this header itself; leave it out")
        found[matched[1]] = matched[2]
    return found


def headers(allowed: Collection[str] | None = None) -> dict[str, str]:
    """The headers to send beside the key, with their values, all of which are secrets.

    allowed: variables that may be used; where one is named that is not, no header is. Raises ConfigError for a variable
    that is not set, or whose value cannot be sent.
    """
    named = header_variables()
    if allowed is not None and not set(named.values()) <= set(allowed):
        return {}
    found = {}
    for name, variable in named.items():
        value = (os.environ.get(variable) or "").strip()
        if not value:
            raise ConfigError(
                f"--header {name}: the environment variable that it names is not set; set it to the value of the header"
            )
        if not value.isprintable() or not value.isascii():
            raise ConfigError(f"--header {name}: the value holds characters that no HTTP header can carry")
        found[name] = value
    return found


KEYS = "TOMSERVE_KEYS"
"""The variable that says which hosts have keys of their own, as ``HOST=VARIABLE,...``; ``HOST=`` sends a host none."""
_KEY_OF_HOST = re.compile(r"([\w.-]{1,253}(?::[0-9]{1,5})?)=([A-Za-z_][A-Za-z0-9_]{0,99})?", re.ASCII)


class Credentials(NamedTuple):
    """What tells a server who asks; all of it is secret."""

    key: str | None
    headers: dict[str, str]

    @property
    def any(self) -> str | None:
        """One of them; None where there is none."""
        return self.key or next(iter(self.headers.values()), None)


def credentials(*endpoints: str) -> Credentials:
    """What these endpoints, all of which serve the same model, are sent: the key that TOMSERVE_KEYS names for their
    host and nothing else, or else `api_key` and `headers`. Raises ConfigError."""
    named = {_key_variable(one) for one in endpoints} or {None}
    if len(named) > 1:
        raise ConfigError(f"{KEYS}: the addresses of one model are asked with one key, and it names several")
    (variable,) = named
    return Credentials(api_key(), headers()) if variable is None else Credentials(_named_key(variable), {})


def _named_key(variable: str) -> str | None:
    """The key that TOMSERVE_KEYS names; None for "". Raises ConfigError where the variable holds none."""
    key = _check_key(os.environ.get(variable) or "") if variable else None
    if variable and key is None:
        raise ConfigError(f"{KEYS}: the environment variable {variable} is not set; put the API key into it")
    return key


def _keys_of_hosts() -> dict[str, str]:
    """The variable of each host that has a key of its own; "" where it is sent none."""
    found = {}
    for one in (os.environ.get(KEYS) or "").split(","):
        if one.strip():
            if (matched := _KEY_OF_HOST.fullmatch(one.strip())) is None:
                raise ConfigError(
                    f"{KEYS}: expected HOST=VARIABLE,..., such as api.example.org=READER_KEY, where the environment "
                    "variable holds the key"
                )
            found[matched[1].lower()] = matched[2] or ""
    return found


def _key_variable(endpoint: str) -> str | None:
    if not (known := _keys_of_hosts()):
        return None
    parts = urlsplit(endpoint)
    return known.get(parts.netloc.lower(), known.get(parts.hostname or ""))


def check_one_host(*models: Sequence[str]) -> None:
    """Raise ConfigError where the same secret would be sent to several hosts because a command names several models:
    what one of them asks for is not the others' business. models: the addresses of each model; names of models on this
    machine, and its own addresses, do not count."""
    hosts: list[dict[str, str]] = []  # of each model: how the address on the host is shown
    for addresses in models:
        endpoints = [normalize_url(one) for one in addresses if "://" in one]
        own = {urlsplit(one).hostname or "": redact_url(one) for one in endpoints if _key_variable(one) is None}
        hosts += [found] if (found := {host: shown for host, shown in own.items() if not is_loopback(host)}) else []
    others = [(host, shown) for one in hosts[1:] for host, shown in one.items() if host not in hosts[0]]
    if others and any_secret() is not None:
        host, shown = others[0]
        raise ConfigError(
            f"the same API key would be sent to {next(iter(hosts[0].values()))} and {shown}; say by {KEYS} what the "
            f"second is sent, as {host}=VARIABLE, or {host}= for no key"
        )


def any_secret() -> str | None:
    """Something secret that endpoints are sent, the key or the value of a header; None where nothing is."""
    return api_key() or next(iter(headers().values()), None)


def describe() -> str:
    """Which keys are set, "" for none; nothing secret. Raises ConfigError where one that TOMSERVE_KEYS names is not."""
    own = [host for host, variable in _keys_of_hosts().items() if _named_key(variable) is not None]
    return "; ".join(["set"] * (any_secret() is not None) + [f"set for {host} by {KEYS}" for host in own])


_used: list[str] = []  # the variables that experiments have named for their keys; the last one counts


def use_key(name: str) -> None:
    """Take the API key from that environment variable from now on. Raises ConfigError where it holds none."""
    if _check_key(os.environ.get(name) or "") is None:
        raise ConfigError(f"the environment variable {name} is not set; put the API key into it")
    _used.append(name)


def _from_file(path: Path) -> str:
    """The key in a file, which only its owner may read. Raises ConfigError, which never says what stands in it."""
    said = "TOMSERVE_API_KEY_FILE: it must name a text file that can be read"
    try:
        # Without O_NONBLOCK opening a pipe would wait for somebody to write into it.
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise ConfigError(f"{said}, and this is none")
            if os.name == "posix" and facts.st_mode & 0o077:
                raise ConfigError(
                    "TOMSERVE_API_KEY_FILE: others on this machine can read the file that it names; change that by "
                    f"`chmod 600 {shlex.quote(str(path))}`"
                )
            raw = file.read(LONGEST + 1)
        lines = raw.decode("utf-8").strip().splitlines()
    except (OSError, ValueError):
        raise ConfigError(said) from None
    if len(raw) > LONGEST or len(lines) != 1:
        raise ConfigError(
            "TOMSERVE_API_KEY_FILE: the file must hold the key on one line and nothing else, and it is "
            + ("empty" if not lines else "longer")
        )
    key = _check_key(lines[0])
    assert key is not None
    return key


_NAMES = ("TOMSERVE_API_KEY", "OPENAI_API_KEY", "VLLM_API_KEY", "HF_TOKEN")


def all_keys() -> tuple[str, ...]:
    """All keys that the environment tells, whatever they are for, so that none of them is shown."""
    found = [os.environ.get(name) for name in (*_NAMES, *_used)]
    found += [_bare(key) for key in found if key]
    with contextlib.suppress(ConfigError):
        found.append(own_key())
    with contextlib.suppress(ConfigError):
        found += [os.environ.get(name) for name in (*header_variables().values(), *_keys_of_hosts().values())]
    return tuple(dict.fromkeys(key.strip() for key in found if key))


def server_key(host: str, *, insecure: bool) -> str | None:
    """The key that a server started here will ask for: that of `own_key`, else vLLM's own VLLM_API_KEY, else None,
    which other machines may only reach where that is said to be `insecure`; otherwise it raises ConfigError."""
    key = own_key() or _check_key(os.environ.get("VLLM_API_KEY") or "")
    if key is None and not insecure and not is_loopback(host):
        raise ConfigError(
            f"--host {host}: everybody who reaches this machine could use the model; set TOMSERVE_API_KEY (or "
            "TOMSERVE_API_KEY_FILE) to a key to ask for, or say --insecure"
        )
    return key


def shell_source() -> str:
    """Shell text that expands to the key that `server_key` gives, for a command line that is only shown."""
    if os.environ.get("TOMSERVE_API_KEY"):
        return '"$TOMSERVE_API_KEY"'
    return '"$(cat "$TOMSERVE_API_KEY_FILE")"' if os.environ.get("TOMSERVE_API_KEY_FILE") else '"$VLLM_API_KEY"'


_OWN = {
    "--host": "tomserve's --host",
    "--port": "tomserve's --port",
    "--served-model-name": "`name:` in a preset file",
    "--uds": "tomserve's --host and --port",
    "--config": "`flags:` in a preset file",
    "--ssl-keyfile": "a proxy in front of it",
    "--ssl-certfile": "a proxy in front of it",
}
"""Flags of vLLM whose value tomserve must know, and what to use instead."""
_SECRET = {"--api-key": "TOMSERVE_API_KEY or TOMSERVE_API_KEY_FILE", "--hf-token": "HF_TOKEN"}
"""Flags of vLLM that take a secret, and the environment variables to use instead."""
_LEAST = 5
"""A shortened flag of at least this many characters counts as the whole one, since argparse accepts `--api-k`, too."""


def explain_refused_flag(argument: str) -> str | None:
    """Why a flag may not be passed to vLLM, as the end of a sentence, or None where it may."""
    name = argument.split("=")[0].replace("_", "-")
    for flag, way in _SECRET.items():
        if _means(name, flag):
            return f"the process list would show {flag} to everybody here; set {way} instead"
    other = next((way for flag, way in _OWN.items() if _means(name, flag)), None)
    return f"tomserve must know it; use {other} instead" if other else None


def check_flags(arguments: Sequence[str]) -> None:
    """Raise ConfigError for a refused flag after ``--``. The message leaves out its value, which may be a secret."""
    for argument in arguments:
        if (reason := explain_refused_flag(argument)) is not None:
            raise ConfigError(f"{argument.split('=')[0]} after `--`: {reason}")


def _means(name: str, flag: str) -> bool:
    return name == flag or (len(name) >= _LEAST and flag.startswith(name))


_AROUND = re.compile(r"(?:export\s+)?\w*(?:KEY|TOKEN|SECRET)\w*\s*=\s*|Authorization\s*:\s*", re.ASCII)


def _bare(key: str) -> str:
    """The key without what is often pasted with it: the name of a variable or header, quotation marks, ``Bearer``.

    >>> _bare('export API_KEY="sk-1"'), _bare("Authorization: Bearer sk-1"), _bare("abcKEY==")
    ('sk-1', 'sk-1', 'abcKEY==')
    """
    key = key.strip()
    if (around := _AROUND.match(key)) is not None and key[around.end() :].strip("="):
        key = key[around.end() :]
    if len(key) > 2 and key[0] == key[-1] and key[0] in "\"'":
        key = key[1:-1].strip()
    return key[7:].strip() if key[:7].lower() == "bearer " else key


def _check_key(key: str) -> str | None:
    key = _bare(key)
    if not key.isprintable() or not key.isascii():
        raise ConfigError(
            "the API key holds characters that no HTTP header can carry; was it pasted with a line break?"
        )
    return key or None
