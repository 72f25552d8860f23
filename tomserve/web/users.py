"""The people who may sign in to a workbench: names, roles, hashed passwords and tokens, in ``runs/.web/users.json``.

Only the owner of the workbench can read the file. A password is kept as what scrypt makes of it with a salt of its own,
together with how costly that was, so that the cost can grow without anybody having to choose a new password.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Literal

import orjson
import pydantic

from tomserve.content import files
from tomserve.content.validation import validation_error
from tomserve.engine.records import utc_now
from tomserve.errors import ConfigError, one_of
from tomserve.web import tokens
from tomserve.web.people import Person, Role

NAME = r"^[a-z][a-z0-9._-]{0,63}$"
SHORTEST, LONGEST = 8, 1000
"""Characters that a password may have."""

TOKENS = 20
"""Tokens that somebody may have at once."""

WAY_OUT = "delete the file and add the users again"


COST = {"n": 1 << 15, "r": 8, "p": 3}
"""What scrypt is told for a new password: 32 MiB, and about a quarter of a second."""


class Password(pydantic.BaseModel):
    """A password as it is kept. n, r, p: what scrypt was told, which decides how much memory and time it takes."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    salt: Annotated[str, pydantic.Field(pattern=r"^[0-9a-f]{32}$")]
    hash: Annotated[str, pydantic.Field(pattern=r"^[0-9a-f]{64}$")]
    n: Annotated[int, pydantic.Field(ge=2, le=1 << 20)]
    r: Annotated[int, pydantic.Field(ge=1, le=32)]
    p: Annotated[int, pydantic.Field(ge=1, le=16)]

    @classmethod
    def of(cls, text: str) -> Password:
        """A new record of that password."""
        empty = cls(salt=secrets.token_hex(16), hash="0" * 64, **COST)
        return empty.model_copy(update={"hash": empty.made_of(text)})

    def made_of(self, text: str) -> str:
        """What scrypt makes of a text with this salt."""
        with _ONE_BY_ONE:
            made = hashlib.scrypt(
                text.encode("utf-8", "surrogateescape")[: 4 * LONGEST],
                salt=bytes.fromhex(self.salt),
                n=self.n,
                r=self.r,
                p=self.p,
                maxmem=256 * self.n * self.r,
                dklen=32,
            )
        return made.hex()

    def fits(self, text: str) -> bool:
        """Whether that is the password."""
        return tokens.same(self.made_of(text), self.hash)


_ONE_BY_ONE = threading.Semaphore(2)
"""Each password that is tried takes 32 MiB for a quarter of a second; so many are tried at once."""


class Token(pydantic.BaseModel):
    """A token by which programs of a user sign in. label: what it is for, in the user's words."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    digest: str
    label: Annotated[str, pydantic.Field(max_length=100)] = ""
    made: str = ""


class User(pydantic.BaseModel):
    """What is kept of somebody. stamp: drawn anew with every password, so that sessions of an older one end."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    role: Role
    password: Password
    stamp: str
    made: str = ""
    tokens: tuple[Token, ...] = ()


class _File(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    schema_: Annotated[Literal[1], pydantic.Field(alias="schema")] = 1
    users: dict[str, User] = {}


_NOBODY = Password(salt="00" * 16, hash="0" * 64, **COST)
"""Tried where there is no such user, so that this takes as long as a wrong password."""


class Users:
    """All who may sign in. path: of the file; it is read whenever somebody is looked for, so that who was removed by
    another process is out at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> dict[str, User]:
        """Everybody by name. Raises ConfigError where the file is broken, or others can read it; OSError."""
        try:
            found = files.read_json(self.path, WAY_OUT)
        except FileNotFoundError:
            return {}
        if self.path.stat().st_mode & 0o077:
            raise ConfigError(f"{self.path}: others on this machine can read it; change that by chmod 600")
        try:
            return _File.model_validate(found).users
        except pydantic.ValidationError as error:
            raise validation_error(error, found, _File, self.path, WAY_OUT) from None

    def put(self, name: str, role: str, password: str) -> bool:
        """Add somebody, or give them a new password and role, which ends their sessions; returns whether they are new.

        Raises ConfigError for a name, role or password that will not do.
        """
        checked = pydantic.TypeAdapter(Annotated[str, pydantic.Field(pattern=NAME)])
        try:
            checked.validate_python(name)
        except pydantic.ValidationError:
            raise ConfigError(
                f"the user name {name!r}: use small letters, digits, '.', '_' and '-', beginning with a letter"
            ) from None
        if role not in list(Role):
            raise ConfigError(one_of("role", role, list(Role)))
        if not SHORTEST <= len(password) <= LONGEST:
            raise ConfigError(f"the password must have {SHORTEST} to {LONGEST} characters; it has {len(password)}")
        new: list[bool] = []

        def change(users: dict[str, User]) -> None:
            before = users.get(name)
            new.append(before is None)
            users[name] = User(
                role=Role(role),
                password=Password.of(password),
                stamp=secrets.token_hex(16),
                made=before.made if before else utc_now(),
                tokens=before.tokens if before else (),
            )

        self._change(change)
        return new[0]

    def remove(self, name: str) -> None:
        """Remove somebody, whose sessions and tokens end. Raises ConfigError where there is no such user."""

        def change(users: dict[str, User]) -> None:
            _known(users, name)
            del users[name]

        self._change(change)

    def signed_in(self, name: str, password: str) -> User | None:
        """Whoever has that name and that password; None for nobody, which takes as long."""
        user = self.all().get(name)
        fits = (user.password if user else _NOBODY).fits(password)
        return user if fits and user else None

    def add_token(self, name: str, label: str) -> str:
        """A new token for programs of that user, which is told this once. Raises ConfigError for too many."""
        token = tokens.drawn()

        def change(users: dict[str, User]) -> None:
            user = _known(users, name)
            if len(user.tokens) >= TOKENS:
                raise ConfigError(f"you have {TOKENS} tokens; take back one that is no longer used")
            added = Token(digest=tokens.digest(token), label=label, made=utc_now())
            users[name] = user.model_copy(update={"tokens": (*user.tokens, added)})

        self._change(change)
        return token

    def end_token(self, name: str, number: str) -> bool:
        """Take back the token whose digest begins so; returns whether there was one."""
        ended: list[Token] = []

        def change(users: dict[str, User]) -> None:
            user = _known(users, name)
            ended.extend(one for one in user.tokens if one.digest.startswith(number))
            users[name] = user.model_copy(update={"tokens": tuple(one for one in user.tokens if one not in ended)})

        self._change(change)
        return bool(ended)

    def of_token(self, token: str) -> Person | None:
        """Whose program sends that token; None where it is nobody's."""
        wanted = tokens.digest(token)
        for name, user in self.all().items():
            if any(tokens.same(one.digest, wanted) for one in user.tokens):
                return Person(name, user.role)
        return None

    def _change(self, change: Callable[[dict[str, User]], None]) -> None:
        """Change the file in one step, one process at a time."""
        with self._alone():
            users = self.all()
            change(users)
            kept = _File(users=dict(sorted(users.items()))).model_dump(mode="json", by_alias=True)
            with files.replace_file(self.path, 0o600) as file:
                file.write(orjson.dumps(kept, option=orjson.OPT_INDENT_2) + b"\n")

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = files.open_regular(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _known(users: dict[str, User], name: str) -> User:
    """The user of that name. Raises ConfigError where there is none."""
    if name not in users:
        raise ConfigError(one_of("user", name, users))
    return users[name]
