"""Addresses of stores, and connections to them that are made again where they break; fsspec reaches the stores.

Who may read and write there is said by fsspec's own configuration or by the environment, never by the address, which
ends up in records and on screens.

>>> is_url("s3://bucket/mine.parts"), is_url("pilot/mine")
(True, False)
"""

from __future__ import annotations

import ftplib
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import fsspec
import tenacity

from tomserve.content.files import one_line
from tomserve.errors import ConfigError, MachineError, ServerError
from tomserve.runs.progress import Listener, Stop

ATTEMPTS, LONGEST_WAIT = 6, 30.0
"""How often something is tried where the connection breaks, and how many seconds are waited at most in between."""

Result = TypeVar("Result")


class Place(NamedTuple):
    """A place in a store. url: as it was given, without what is secret. system: what reaches it. path: of it there."""

    url: str
    system: Any
    path: str

    def below(self, name: str) -> Place:
        """The place of that name in this one."""
        return Place(f"{self.url.rstrip('/')}/{name}", self.system, f"{self.path.rstrip('/')}/{name}")


def is_url(text: str) -> bool:
    """Whether a text on the command line names a place in a store, rather than a run or a path of this machine."""
    return "://" in text


def check(url: str) -> None:
    """Raise ConfigError where an address holds a name, a password or a token; the message shows none of it."""
    scheme = url.split("://", 1)[0]
    shown = scheme if re.fullmatch(r"[a-z0-9+]{1,20}", scheme) else "..."
    if re.search(r"//[^/]*@", url) or "?" in url or "#" in url:
        raise ConfigError(
            f"{shown}://...: holds a name, a password or a token; expected an address without any, as it is written "
            "down; give them by fsspec's configuration, such as FSSPEC_FTP_USERNAME and FSSPEC_FTP_PASSWORD"
        )
    if "::" in url or not re.fullmatch(r"[a-z0-9+]{1,20}://[^\s\x00-\x1f]*", url):
        raise ConfigError(f"{one_line(url)[:100]}: no address of a store; expected such as s3://bucket/mine.parts")


def opened(url: str) -> Place:
    """The place that an address names. Raises ConfigError for an address that cannot be used, and MachineError where a
    package is missing that reaches it."""
    check(url)
    try:
        system, path = fsspec.core.url_to_fs(url, skip_instance_cache=True)
    except ImportError as error:
        raise MachineError(
            f"{url}: needs a package that is not installed ({one_line(str(error))[:120]}); install it into an "
            "environment of its own, or copy the parts by the store's own program (such as `aws s3 sync`) and merge "
            "the copies"
        ) from None
    except ValueError as error:
        raise ConfigError(f"{url}: cannot be used ({one_line(str(error))[:120]})") from None
    except (OSError, EOFError, ftplib.Error) as error:
        raise _unreached(url, error) from None
    return Place(url.rstrip("/"), system, path)


def _unreached(url: str, error: BaseException) -> ServerError:
    reason = one_line(" ".join(str(error).split()))[:160] or type(error).__name__
    return ServerError(f"{url}: cannot be reached ({reason}); look at the store, and repeat the command")


def _lasting(error: BaseException) -> bool:
    """Whether an error stays however often something is tried."""
    if isinstance(error, ftplib.error_perm):
        return True
    return isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError | IsADirectoryError)


def again(url: str, work: Callable[[Place], Result], listener: Listener, stop: Stop) -> Result:
    """Do something in a place, again and again with a new connection where it breaks. Raises ServerError where it
    breaks every time, and FileNotFoundError where nothing is there."""

    def tell(state: tenacity.RetryCallState) -> None:
        stop.check()
        error = state.outcome.exception() if state.outcome else None
        listener.message(f"{url}: {one_line(str(error))[:120]}; trying again")

    attempts = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=tenacity.wait_random_exponential(multiplier=0.2, max=LONGEST_WAIT),
        retry=tenacity.retry_if_exception(
            lambda error: isinstance(error, OSError | EOFError | ftplib.Error | ServerError) and not _lasting(error)
        ),
        before_sleep=tell,
        reraise=True,
    )
    try:
        return attempts(lambda: work(opened(url)))
    except FileNotFoundError:
        raise
    except (OSError, EOFError, ftplib.Error) as error:
        raise _unreached(url, error) from None
