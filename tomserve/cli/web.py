"""The command `tomserve web`: the workbench, in a browser."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tomserve.cli.interrupts import SIGNALS
from tomserve.content import files
from tomserve.content.text import count_noun, say
from tomserve.errors import ConfigError, Interrupted

if TYPE_CHECKING:
    from tomserve.web.settings import Settings


def web(
    host: Annotated[
        str, typer.Option(help="Address on which it listens; another than this machine's own needs --auth.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on which it listens; 0 for any that is free.")
    ] = 8321,
    auth: Annotated[
        bool,
        typer.Option("--auth", help="Have people sign in with a name and a password, as on a lab's shared machine."),
    ] = False,
    proxy: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Address under which others reach it, where a reverse proxy with TLS stands before it."
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser of this machine.")] = False,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="How many experiments that share a server run at once.")
    ] = 1,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=URL]",
            help="Environment variable whose API key experiments may name, and where it may be sent; repeatable. "
            "Default: TOMSERVE_API_KEY and OPENAI_API_KEY, and none with --auth.",
        ),
    ] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make its databases again from the run folders, and end.")
    ] = False,
    add_user: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Add somebody who may sign in, or give them a new password, and end."),
    ] = None,
    role: Annotated[
        str | None,
        typer.Option(metavar="ROLE", help="With --add-user: reader, who only looks, or runner. Default: reader."),
    ] = None,
    remove_user: Annotated[
        str | None, typer.Option(metavar="NAME", help="Remove somebody, whose sessions end at once, and end.")
    ] = None,
    add_token: Annotated[
        str | None, typer.Option(metavar="NAME", help="Print a new token for programs of that user, and end.")
    ] = None,
) -> None:
    """Serve the workbench: queue experiments, watch them, and compare them in a browser.

    It listens on this machine alone, and prints an address with a token that lets in whoever has it.
    """
    from tomserve.web.settings import Settings

    settings = Settings(
        host=host,
        port=port,
        auth=auth,
        workers=workers,
        keys=_keys(key, auth=auth),
        proxy=proxy.rstrip("/") if proxy else None,
    )
    for place in (settings.folder, *settings.folder.glob("*")):  # the folder of runs may come from somebody else
        files.refuse_link(place)
        if not place.is_dir() or place.suffix == ".lock":
            files.check_regular(place)  # a pipe in the place of a lock would keep everybody from submitting
    if role is not None and add_user is None:
        raise ConfigError("--role goes with --add-user, which adds somebody of that role")
    ends = {"--add-user": add_user, "--remove-user": remove_user, "--add-token": add_token, "--rebuild": rebuild}
    asked = [name for name, value in ends.items() if value]
    if len(asked) > 1:
        raise ConfigError(f"{' and '.join(asked)}: only one of these at a time")
    if asked and asked[0] != "--rebuild":
        _users(settings, add_user, role or "reader", remove_user, add_token)
    elif asked:
        _rebuild(settings)
    else:
        _serve(settings, show=show)


def _serve(settings: Settings, *, show: bool) -> None:
    from tomserve.engine.network import is_loopback
    from tomserve.web import app
    from tomserve.web.accounts import Users

    app.check_settings(settings)
    if settings.auth and not Users(settings.folder / "users.json").all():
        raise ConfigError(
            "--auth: nobody may sign in yet; add somebody with `tomserve web --add-user NAME --role runner`"
        )
    if settings.auth and not settings.proxy and not is_loopback(settings.host):
        say(
            "warning: over plain http, others on the way can read passwords; put a reverse proxy with TLS before it "
            "and name its address by --proxy",
            error=True,
        )

    def ready(address: str) -> None:
        say(
            f"workbench: {address}\n"
            "Ctrl-C ends it; experiments that run then stop where they are, and go on when it is started again"
        )
        sys.stdout.flush()
        if show:
            app.open_browser(settings, address)

    number = app.serve(settings, ready)
    SIGNALS.guarded()
    if number:
        raise Interrupted(number)


def _rebuild(settings: Settings) -> None:
    from tomserve.web import app
    from tomserve.web.worker import rebuild

    with app.hold_lock(settings):
        runs, waiting = rebuild()
    say(f"read anew: {runs:,} runs, of which {waiting:,} wait in the queue")


def _users(settings: Settings, added: str | None, role: str, removed: str | None, token: str | None) -> None:
    from tomserve.web.accounts import Users
    from tomserve.web.run_index import RunIndex

    users = Users(settings.folder / "users.json")
    if added is not None:
        new = users.put(added, role, _password(added))
        say(f"{added} may sign in as a {role}" if new else f"{added} has a new password, and is a {role}")
        if new and (owned := sum(line.card.owner == added for line in RunIndex().every())):
            say(
                f"warning: somebody had this name before, and {count_noun(owned, 'run')} of theirs, private or not, "
                f"will be {added}'s; give another person another name",
                error=True,
            )
    elif removed is not None:
        users.remove(removed)
        say(f"{removed} may no longer sign in")
    elif token is not None:
        say(users.add_token(token, "command line"))


def _password(name: str) -> str:
    """A password from the terminal, asked twice, or the first line of standard input; never from the command line,
    which everybody on the machine can read. Raises ConfigError."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    import getpass

    first = getpass.getpass(f"Password of {name}: ")
    if first != getpass.getpass("Once more: "):
        raise ConfigError("the two passwords differ; nothing was changed")
    return first


def _keys(given: list[str] | None, *, auth: bool) -> tuple[tuple[str, str], ...]:
    """The variables that experiments may name, each with the address that its key may be sent to."""
    from tomserve.web.settings import Settings

    if not given:
        return () if auth else Settings().keys
    found = []
    for one in given:
        name, _, address = one.partition("=")
        if (
            not name.isidentifier()
            or not name.isupper()
            or (address and not address.startswith(("http://", "https://")))
        ):
            raise ConfigError("--key: expected the NAME of an environment variable, or NAME=URL; never the key itself")
        found.append((name, address))
    return tuple(found)
