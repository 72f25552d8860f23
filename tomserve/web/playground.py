"""The playground: asks one item of one model once, to see the raw reply and how it is read. Nothing of it goes into
the runs.

The asking is an evaluation of one item in ``runs/.web/tries/ID``, by a process of its own, which ends by itself at
its deadline. The last tries are kept, so that a result can be looked at again.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from tomserve.content import files
from tomserve.content.text import sanitize
from tomserve.engine.records import utc_now
from tomserve.errors import ConfigError, ConflictError, NoSuchRunError, one_of
from tomserve.items import Item
from tomserve.serving.endpoint import normalize_url
from tomserve.web import items
from tomserve.web.accounts import Person
from tomserve.web.items import How, Sentence, sentences
from tomserve.web.process import keyless
from tomserve.web.settings import Settings

AT_ONCE = 4  # how many tries are asked at a time
KEPT = 50  # how many tries are kept
DEADLINE, LONGEST = 120.0, 900.0  # seconds that a try may take unless somebody says otherwise, and at most

FOLDER, TRIAL_FILE, RESULT, RUN, LOCK = "tries", "wish.json", "result.json", "run", ".lock"

_NAME = re.compile(r"[a-f0-9]{16}")

_children: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, slots=True)
class Trial:
    """One question to one model, and what came of it."""

    name: str
    state: str  # "running", "done" or "failed"
    item: Item
    how: How
    where: str = ""  # the address that was asked
    begun: str = ""  # when, in UTC
    said: str = ""  # why it failed
    model: str = ""  # of whoever answered, as is `revision`
    revision: str = ""
    rows: tuple[Mapping[str, Any], ...] = ()  # the lines of the journal, one for each request
    score: Mapping[str, Any] = field(default_factory=dict)  # how the reply was read: columns of the score table
    headings: tuple[str, ...] = ()  # of the story beside the reply, as are `sentences`
    sentences: tuple[Sentence, ...] = ()
    requests: tuple[str, ...] = ()  # the bodies that were sent, as JSON with indents


def start_trial(
    settings: Settings,
    person: Person,
    item: Item,
    how: How,
    *,
    base_url: str = "",
    key: str = "",
    seconds: float = DEADLINE,
) -> str:
    """Begin to ask, and return the name of the try.

    item: the question. how: by which strategy, of which model. base_url: the address of the endpoint; "" for a server
    that runs on this machine, or the embedded model. key: the name of the environment variable that holds the
    endpoint's API key, "" for none. seconds: until when there has to be an answer.

    Raises ConfigError for what is not among the content, an address that is none, or a key that may not be sent there;
    ConflictError where as many tries as may be are under way.
    """
    items.preview(item, how)  # so that what cannot be asked is said at once
    environment = environment_of(settings, base_url, key)
    if how.model and (how.model.startswith((".", "/", "~")) or how.model.endswith((".yaml", ".yml"))):
        raise ConfigError(f"model {how.model!r:.200}: give a name, not a path")
    root = settings.folder / FOLDER
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    _tidy(root)
    with contextlib.ExitStack() as held:
        place = next((one for number in range(AT_ONCE) if (one := _held(held, root / f".{number}")) is not None), None)
        if place is None:
            raise ConflictError(f"{AT_ONCE} tries are under way already; wait until one of them has its answer")
        name = secrets.token_hex(8)
        folder = root / name
        folder.mkdir(mode=0o700)
        lock = _held(held, folder / LOCK)
        assert lock is not None  # the folder is new
        asked = {
            **{"owner": person.name, "item": item.to_json().decode(), "how": asdict(how), "base_url": base_url},
            **{"seconds": min(max(1.0, float(seconds)), LONGEST), "begun": utc_now()},
        }
        with files.replace_file(folder / TRIAL_FILE, 0o600) as file:
            file.write(orjson.dumps(asked))
        _children[:] = [child for child in _children if child.poll() is None]
        command = [sys.executable, "-m", "tomserve.web.playground_process", str(folder)]
        quiet = subprocess.DEVNULL
        _children.append(
            subprocess.Popen(
                command, stdin=quiet, stdout=quiet, stderr=quiet, env=environment, pass_fds=(place, lock),
                start_new_session=True,
            )
        )  # fmt: skip
    return name


def environment_of(settings: Settings, base_url: str, key: str) -> dict[str, str]:
    """The environment of the process that asks. Only an address that a key may be sent to is told that key; servers
    that were started here have their own. Raises ConfigError."""
    if not base_url:
        if key:
            raise ConfigError("a key is sent to an address; give one, or choose no key")
        return dict(os.environ)
    address = normalize_url(base_url)
    if not key:
        return keyless()
    bound = dict(settings.keys)
    if key not in bound:
        raise ConfigError(one_of("key", key, bound))
    if bound[key] and normalize_url(bound[key]) != address:
        raise ConfigError(f"the key {key} may be sent to {bound[key]} alone (tomserve web --key {key}=URL)")
    if not (value := os.environ.get(key, "")):
        raise ConfigError(f"the key {key} is not set in the environment of the workbench; set it and start that again")
    return {**keyless(), "TOMSERVE_API_KEY": value}


def read_trial(settings: Settings, person: Person, name: str) -> Trial:
    """A try as far as it has come. Raises NoSuchRunError where there is none of that name, or it is somebody else's."""
    folder = settings.folder / FOLDER / name
    missing = NoSuchRunError(f"there is no try {name!r:.60}; the last {KEPT} are kept")
    if not _NAME.fullmatch(name):
        raise missing
    try:
        asked: Any = files.read_json(folder / TRIAL_FILE, "try it again")
        if asked["owner"] != person.name:
            raise missing
        item, how = Item.from_json(asked["item"]), How(**asked["how"])
    except (OSError, ValueError, TypeError, KeyError):
        raise missing from None
    trial = Trial(name, "running", item, how, str(asked.get("base_url") or ""), str(asked.get("begun") or ""))
    try:
        result = files.read_json(folder / RESULT, "try it again")
    except FileNotFoundError:
        if _running(folder):
            return trial
        result = {"error": "the process that asked ended before there was an answer; try it again"}
    except (OSError, ConfigError) as error:
        result = {"error": str(error)}
    return _with_result(trial, result if isinstance(result, dict) else {})


def _with_result(trial: Trial, result: Mapping[str, Any]) -> Trial:
    score = result.get("score") or {}
    headings, story = sentences(trial.item, score)
    return replace(
        trial,
        state="failed" if result.get("error") else "done",
        said=sanitize(str(result.get("error") or "")),
        model=str(result.get("model") or ""),
        revision=str(result.get("revision") or ""),
        rows=tuple(result.get("rows") or ()),
        score=score,
        headings=headings,
        sentences=tuple(one._replace(verdict=one.verdict.replace("_", " ")) for one in story),
        requests=tuple(result.get("requests") or ()),
    )


def _running(folder: Path) -> bool:
    """Whether a process holds the lock of a try, which ends with it."""
    with contextlib.ExitStack() as held:
        return (folder / LOCK).exists() and _held(held, folder / LOCK) is None


def _held(stack: contextlib.ExitStack, path: Path) -> int | None:
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, number)
    return number if files.try_lock(number) else None


def _tidy(root: Path) -> None:
    """Remove all but the last tries, none of which is under way."""
    found = sorted(
        (path for path in root.iterdir() if _NAME.fullmatch(path.name)), key=lambda path: path.stat().st_mtime
    )
    for path in found[: max(0, len(found) - KEPT + 1)]:
        if not _running(path):
            shutil.rmtree(path, ignore_errors=True)


def stop_trials() -> None:
    """End the tries that this process has begun, as the workbench does when it ends."""
    for child in _children:
        child.terminate()
    for child in _children:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(10)
    _children.clear()
