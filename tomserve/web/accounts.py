"""Accounts of the workbench: users with roles, hashed passwords and tokens, their sessions, and how fast passwords
may be tried.

Passwords are kept by scrypt with a salt and a cost of their own in ``runs/.web/users.json``, which only the owner can
read; of any other secret that somebody holds only the digest is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import ipaddress
import re
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
import pydantic

from tomserve.content import files
from tomserve.content.validation import Strict, forget_own, is_own, note_own, read_record
from tomserve.engine.records import utc_now
from tomserve.errors import ConfigError, one_of

SECRET_LENGTH = 32  # random bytes of a secret

TOKEN, USER = "web-tokens", "web-users"  # under which this user notes the tokens that he has drawn, and whom he added

_LOOK = re.compile(r"[A-Za-z0-9_-]{43}")


def draw_secret() -> str:
    """A new secret, as 43 characters that need no quoting in an address."""
    return secrets.token_urlsafe(SECRET_LENGTH)


def secret_digest(secret: str) -> str:
    """What is kept of a secret. It is random and long, so that one round of SHA-256 is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


def derive_secret(secret: str, purpose: str) -> str:
    """Another secret, made of the first for one purpose; the first cannot be found from it."""
    return hmac.new(secret.encode(), purpose.encode(), hashlib.sha256).hexdigest()


def same_secret(first: str, second: str) -> bool:
    """Whether two secrets are the same, in a time that does not tell how much of them agrees."""
    return hmac.compare_digest(first.encode("utf-8", "surrogateescape"), second.encode("utf-8", "surrogateescape"))


def load_token(folder: Path) -> str:
    """The token of the workbench, in a file that only its owner can read; drawn where there is none yet.

    It stays the same when the workbench is started again, so that bookmarks do; whoever deletes ``token`` draws a new
    one. One that this user has not drawn came with somebody's folder of runs, who knows it, and is replaced. Raises
    ConfigError where something else has the file's name, and OSError where it cannot be read or written.
    """
    path = folder / "token"
    found: str | None = None
    try:
        with files.open_for_reading(path) as file:
            found = file.read(1000).decode("ascii", "replace").strip()
    except FileNotFoundError:
        pass
    if found is None or (_LOOK.fullmatch(found) and not is_own(TOKEN, {"digest": secret_digest(found)})):
        found = draw_secret()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.replace_bytes(path, f"{found}\n".encode(), 0o600)
        note_own(TOKEN, {"digest": secret_digest(found)})
    if not _LOOK.fullmatch(found):
        raise ConfigError(f"{path}: does not hold a token of the workbench; delete it, and a new one is drawn")
    if path.stat().st_mode & 0o077:
        raise ConfigError(f"{path}: others on this machine can read the token; delete the file, and a new one is drawn")
    return found


class Role(StrEnum):
    """What somebody may do."""

    READER = "reader"
    RUNNER = "runner"


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who uses the workbench."""

    name: str = ""  # under which they signed in; "" where nobody signs in, because the workbench is one person's
    role: Role = Role.RUNNER  # what they may do

    @property
    def may_run(self) -> bool:
        """Whether they may start, change and end experiments, and write notes."""
        return self.role is Role.RUNNER

    def may_see(self, owner: str, *, private: bool) -> bool:
        """Whether they may see a run of that owner."""
        return not private or not self.name or self.name == owner

    def may_change(self, owner: str) -> bool:
        """Whether they may change a run of that owner: its notes, its place in the queue, whether it goes on. A run
        without an owner, as one that was started in a terminal, belongs to every runner."""
        return self.may_run and (not self.name or owner in ("", self.name))


NAME = r"^[a-z][a-z0-9._-]{0,63}$"
SHORTEST, LONGEST = 8, 1000  # characters that a password may have
TOKENS = 20  # tokens that somebody may have at once

WAY_OUT = "delete the file and add the users again"


COST = {"n": 1 << 15, "r": 8, "p": 3}  # what scrypt is told for a new password: 32 MiB, and about a quarter of a second


class Password(Strict):
    """A password as it is kept. n, r, p: what scrypt was told, which decides how much memory and time it takes."""

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
        return same_secret(self.made_of(text), self.hash)


_ONE_BY_ONE = threading.Semaphore(2)
"""Each password that is tried takes 32 MiB for a quarter of a second; so many are tried at once."""


class Token(Strict):
    """A token by which programs of a user sign in."""

    digest: str
    label: Annotated[str, pydantic.Field(max_length=100)] = ""  # what it is for, in the user's words
    made: str = ""


class User(Strict):
    """What is kept of somebody."""

    role: Role
    password: Password
    stamp: str  # drawn anew with every password, so that sessions of an older one end
    made: str = ""
    tokens: tuple[Token, ...] = ()


class _File(Strict):
    schema_: Annotated[Literal[1], pydantic.Field(alias="schema")] = 1
    users: dict[str, User] = {}


_NO_PASSWORD = Password(salt="00" * 16, hash="0" * 64, **COST)
"""Tried where there is no such user, so that this takes as long as a wrong password."""


class Users:
    """All who may sign in. path: of the file; it is read whenever somebody is looked for, so that who was removed by
    another process is out at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> dict[str, User]:
        """Everybody by name. Raises ConfigError where the file is broken, others can read it, or it names somebody whom
        this user has not added, as one does that came with a stranger's folder of runs; OSError."""
        users = self._read()
        for name in users:
            self._own(users, name)
        return users

    def _own(self, users: dict[str, User], name: str) -> User:
        """Somebody as this user has added or changed them. Raises ConfigError for anybody else."""
        user = _find_user(users, name)
        if not is_own(USER, _whole(name, user)):
            raise ConfigError(
                f"{self.path}: names {name!r}, whom you have not added on this machine; if you know them, do so by "
                f"`tomserve web --add-user {name} --role {user.role}`, else `tomserve web --remove-user {name}`"
            )
        return user

    def _read(self) -> dict[str, User]:
        if (found := read_record(self.path, _File, WAY_OUT)) is None:
            return {}
        if self.path.stat().st_mode & 0o077:
            raise ConfigError(f"{self.path}: others on this machine can read it; change that by chmod 600")
        return found.users

    def put(self, name: str, role: str, password: str) -> bool:
        """Add somebody, or give them a new password and role, which ends their sessions and tokens; returns whether
        they are new. Raises ConfigError for a name, role or password that will not do."""
        if not re.fullmatch(NAME, name):
            raise ConfigError(
                f"the user name {name!r}: use small letters, digits, '.', '_' and '-', beginning with a letter"
            )
        if role not in list(Role):
            raise ConfigError(one_of("role", role, list(Role)))
        if not SHORTEST <= len(password) <= LONGEST:
            raise ConfigError(f"the password must have {SHORTEST} to {LONGEST} characters; it has {len(password)}")
        with self._changing() as users:
            before = users.get(name)
            users[name] = User(
                role=Role(role),
                password=Password.of(password),
                stamp=secrets.token_hex(16),
                made=before.made if before else utc_now(),
            )
        return before is None

    def remove(self, name: str) -> None:
        """Remove somebody, whose sessions and tokens end. Raises ConfigError where there is no such user."""
        with self._changing() as users:
            _find_user(users, name)
            del users[name]

    def signed_in(self, name: str, password: str) -> User | None:
        """Whoever has that name and that password; None for nobody, which takes as long."""
        user = self.all().get(name)
        fits = (user.password if user else _NO_PASSWORD).fits(password)
        return user if fits and user else None

    def add_token(self, name: str, label: str) -> str:
        """A new token for programs of that user, which is told this once. Raises ConfigError for too many."""
        token = draw_secret()
        with self._changing() as users:
            user = self._own(users, name)
            if len(user.tokens) >= TOKENS:
                raise ConfigError(f"you have {TOKENS} tokens; take back one that is no longer used")
            added = Token(digest=secret_digest(token), label=label, made=utc_now())
            users[name] = user.model_copy(update={"tokens": (*user.tokens, added)})
        return token

    def end_token(self, name: str, number: str) -> bool:
        """Take back the token whose digest begins so; returns whether there was one."""
        with self._changing() as users:
            user = self._own(users, name)
            kept = tuple(one for one in user.tokens if not one.digest.startswith(number))
            users[name] = user.model_copy(update={"tokens": kept})
        return len(kept) < len(user.tokens)

    def token_owner(self, token: str) -> Person | None:
        """Whose program sends that token; None where it is nobody's."""
        wanted = secret_digest(token)
        for name, user in self.all().items():
            if any(same_secret(one.digest, wanted) for one in user.tokens):
                return Person(name, user.role)
        return None

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, User]]:
        """Everybody, to be changed within the block, after which the file is replaced; one process at a time."""
        with files.lock_file(self.path.with_suffix(".lock")):
            before = self._read()
            yield (users := dict(before))
            for name, user in users.items() - before.items():
                note_own(USER, _whole(name, user))
            gone = before.items() - users.items()
            kept = _File(users=dict(sorted(users.items()))).model_dump(mode="json", by_alias=True)
            files.replace_bytes(self.path, orjson.dumps(kept, option=orjson.OPT_INDENT_2) + b"\n", 0o600)
            for name, user in gone:  # so that no older file brings it back
                forget_own(USER, _whole(name, user))


def _whole(name: str, user: User) -> dict[str, Any]:
    """What is noted of somebody: all that decides who may sign in under that name, and what for."""
    return {"name": name, **user.model_dump(mode="json")}


def _find_user(users: dict[str, User], name: str) -> User:
    if name not in users:
        raise ConfigError(one_of("user", name, users))
    return users[name]


HOURS = 12
MOST, MOST_OF_ONE = 1000, 20  # sessions that are kept, of all and of one name; where there are more, the oldest end


class Session(Strict):
    """Somebody who is signed in."""

    name: str
    stamp: str  # that of their password when they signed in
    until: float  # seconds since 1970


_SESSIONS = pydantic.TypeAdapter(dict[Annotated[str, pydantic.Field(pattern=r"^[0-9a-f]{64}$")], Session])


class Sessions:
    """All sessions, by the digests of their secrets; they outlive a restart of the workbench. clock: seconds since
    1970. A file that is broken is forgotten: everybody signs in again."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path, self._clock, self._lock = path, clock, threading.Lock()
        self._all = self._read()

    def begin(self, name: str, stamp: str) -> str:
        """Begin a session of somebody and return its secret, which is kept nowhere else."""
        secret = draw_secret()
        with self._lock:
            self._all[secret_digest(secret)] = Session(name=name, stamp=stamp, until=self._clock() + HOURS * 3600)
            self._write()
        return secret

    def find(self, secret: str) -> Session | None:
        """The session of that secret, unless it has ended."""
        found = self._all.get(secret_digest(secret))
        return found if found is not None and found.until > self._clock() else None

    def end(self, secret: str) -> None:
        """End a session; nothing happens where there is none."""
        with self._lock:
            if self._all.pop(secret_digest(secret), None) is not None:
                self._write()

    def _read(self) -> dict[str, Session]:
        try:
            return _SESSIONS.validate_python(files.read_json(self.path, "delete it"))
        except (OSError, ConfigError, pydantic.ValidationError):
            return {}

    def _write(self) -> None:
        living = sorted(((one.until, key) for key, one in self._all.items() if one.until > self._clock()), reverse=True)
        counts: Counter[str] = Counter()
        kept = []
        for _, key in living:
            counts[self._all[key].name] += 1
            if counts[self._all[key].name] <= MOST_OF_ONE:
                kept.append(key)
        self._all = {key: self._all[key] for key in kept[:MOST]}
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.replace_bytes(self.path, orjson.dumps({key: one.model_dump() for key, one in self._all.items()}), 0o600)


@dataclass
class _Tries:
    failed: int = 0
    until: float = 0.0


FREE = {"both": 5, "address": 20, "name": 100}
"""Failed tries before anybody has to wait: of one name from one address, from one address, and of one name."""

LONGEST_WAIT = {"both": 900.0, "address": 300.0, "name": 10.0}
"""Seconds. A stranger who tries somebody's name from everywhere shall not shut them out, so that this wait is short."""

REMEMBERED = 10_000


class LoginThrottle:
    """Has somebody who tries wrong passwords wait: twice as long after each. clock: seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._tries: OrderedDict[tuple[str, str, str], _Tries] = OrderedDict()

    def wait(self, name: str, address: str) -> float:
        """Seconds until the next try is looked at; 0 for at once. A try is then counted as a failure until `forgive`
        says otherwise, so that many at once do not slip through. address: "" where a proxy does not tell it, which then
        is everybody's and counts for nobody."""
        with self._lock:
            now = self._clock()
            keys = self._keys(name, address)
            if (left := max((self._tries[key].until - now for key in keys if key in self._tries), default=0.0)) > 0:
                return left
            for key in keys:
                tries = self._tries.setdefault(key, _Tries())
                tries.failed += 1
                if (over := tries.failed - FREE[key[0]]) >= 0:
                    tries.until = now + min(2.0 ** min(over, 30), LONGEST_WAIT[key[0]])
                self._tries.move_to_end(key)
            while len(self._tries) > REMEMBERED:
                self._tries.popitem(last=False)
            return 0.0

    def forgive(self, name: str, address: str) -> None:
        """Somebody has signed in: their own failures are forgotten, and the try no longer counts for the others."""
        with self._lock:
            both, *others = self._keys(name, address)
            self._tries.pop(both, None)
            for key in others:
                if key in self._tries:
                    self._tries[key].failed -= 1

    @staticmethod
    def _keys(name: str, address: str) -> tuple[tuple[str, str, str], ...]:
        name, address = name[:100], _network_of(address)
        return ("both", name, address), *([("address", "", address)] if address else []), ("name", name, "")


def _network_of(address: str) -> str:
    """The address by which tries are counted: of IPv6, the network that one customer is given."""
    with contextlib.suppress(ValueError):
        found = ipaddress.ip_address(address)
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None:
            return str(ipaddress.IPv6Network((int(found), 64), strict=False))
    return address
