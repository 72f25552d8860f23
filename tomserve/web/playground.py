"""The playground: asks one item of one model once, to see the raw reply and how it is read. Nothing of it goes into
the runs.

The asking is an evaluation of one item in ``runs/.web/tries/ID``, by a process of its own, `python -m
tomserve.web.playground`, as it alone is told the key of its address, and ends at its deadline whatever it waits for.
The last tries are kept, so that a result can be looked at again.
"""

import contextlib
import os
import re
import secrets
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, Field

from tomserve.content import files
from tomserve.content.python_file import module_command
from tomserve.content.text import sanitize
from tomserve.engine.addresses import normalize_url
from tomserve.engine.records import utc_now
from tomserve.engine.retry import RetryPolicy
from tomserve.errors import ConfigError, ConflictError, NoSuchRunError, TomserveError
from tomserve.items import Item
from tomserve.runs.evaluation import evaluate
from tomserve.runs.journal import read_rows
from tomserve.runs.manifest import Manifest
from tomserve.runs.planning import EvalOptions
from tomserve.runs.progress import Listener, Stop
from tomserve.runs.scores import scores_of
from tomserve.serving.keys import HEADERS, headers
from tomserve.web import items
from tomserve.web.accounts import Person
from tomserve.web.answers import prompts_of
from tomserve.web.background import keyless
from tomserve.web.items import How, Sentence, sentences
from tomserve.web.queue import check_key, check_model
from tomserve.web.settings import Settings

AT_ONCE = 4  # how many tries are asked at a time
KEPT = 50  # how many tries are kept
DEADLINE, LONGEST = 120.0, 900.0  # seconds that a try may take unless somebody says otherwise, and at most
ATTEMPTS = 2  # how often a request is sent at most: whoever tries wants to see what happens, not that it is hidden
PATIENCE = 20.0  # seconds for which a server that is busy or loads is waited for

FOLDER, TRIAL_FILE, RESULT, RUN = "tries", "wish.json", "result.json", "run"

_NAME = re.compile(r"[a-f0-9]{16}")

_children: dict[str, subprocess.Popen[bytes]] = {}  # the processes of this workbench's tries, by their names
_lock = threading.Lock()

Values = dict[str, Any]  # a row: the values of columns by their names


class Trial(BaseModel, frozen=True):
    """One question to one model, and what came of it."""

    name: str
    state: Annotated[str, Field(description="`running`, `done` or `failed`.")]
    item: Item
    how: How
    where: Annotated[str, Field(description="The address that was asked.")] = ""
    begun: Annotated[str, Field(description="When, in UTC.")] = ""
    said: Annotated[str, Field(description="Why it failed.")] = ""
    model: str = ""
    revision: str = ""
    rows: Annotated[list[Values], Field(description="The lines of the journal, one for each request.")] = []
    score: Annotated[Values, Field(description="How the reply was read.")] = {}
    headings: Annotated[tuple[str, ...], Field(description="Of `more` of each sentence.")] = ()
    sentences: Annotated[list[Sentence], Field(description="The story beside the reply.")] = []
    requests: Annotated[list[str], Field(description="The bodies that were sent.")] = []


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

    Raises ConfigError for what is not among the content, and an address that is none; NotAllowedError for a key that
    may not be sent there; ConflictError where as many tries as may be are under way.
    """
    items.preview(item, how)  # so that what cannot be asked is said at once
    environment = environment_of(settings, base_url, key)
    if how.model and (how.model.startswith((".", "/", "~")) or how.model.endswith((".yaml", ".yml"))):
        raise ConfigError(f"model {how.model!r:.200}: give a name, not a path")
    check_model(how.model, base_url)
    name, root = secrets.token_hex(8), settings.folder / FOLDER
    asked = {
        "owner": person.name,
        "item": item.to_json().decode(),
        "how": how.model_dump(include=set(How.model_fields)),
        "base_url": base_url,
        "seconds": min(max(1.0, seconds), LONGEST),
        "begun": utc_now(),
    }
    with _lock:
        if sum(child.poll() is None for child in _children.values()) >= AT_ONCE:
            raise ConflictError(f"{AT_ONCE} tries are under way already; wait until one of them has its answer")
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        _tidy(root)
        (root / name).mkdir(mode=0o700)
        files.replace_bytes(root / name / TRIAL_FILE, orjson.dumps(asked), 0o600)
        command, quiet = module_command("tomserve.web.playground", str(root / name)), subprocess.DEVNULL
        _children[name] = subprocess.Popen(
            command, stdin=quiet, stdout=quiet, stderr=quiet, env=environment, start_new_session=True
        )
    return name


def environment_of(settings: Settings, base_url: str, key: str) -> dict[str, str]:
    """The environment of the process that asks. Only an address that a key may be sent to is told that key; servers
    that were started here have their own. Raises ConfigError."""
    if not base_url:
        if key:
            raise ConfigError("a key is sent to an address; give one, or choose no key")
        return dict(os.environ)
    normalize_url(base_url)
    if not key:
        return keyless(settings)
    check_key(key, (base_url,), settings)
    own = {HEADERS: os.environ[HEADERS], key: os.environ[key]} if headers([key]) else {}
    return {**keyless(settings), **own, "TOMSERVE_API_KEY": os.environ[key]}


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
    trial = Trial(
        name=name,
        state="running",
        item=item,
        how=how,
        where=str(asked.get("base_url") or ""),
        begun=str(asked.get("begun") or ""),
    )
    running = _running(name)
    try:
        result = files.read_json(folder / RESULT, "try it again")
    except FileNotFoundError:
        if running:
            return trial
        result = {"error": "the process that asked ended before there was an answer; try it again"}
    except (OSError, ConfigError) as error:
        result = {"error": str(error)}
    return _with_result(trial, result if isinstance(result, dict) else {})


def _with_result(trial: Trial, result: Mapping[str, Any]) -> Trial:
    score = result.get("score") or {}
    headings, story = sentences(trial.item, score)
    found = {
        "state": "failed" if result.get("error") else "done",
        "said": sanitize(str(result.get("error") or "")),
        "model": str(result.get("model") or ""),
        "revision": str(result.get("revision") or ""),
        "rows": list(result.get("rows") or ()),
        "score": score,
        "headings": headings,
        "sentences": [replace(one, verdict=one.verdict.replace("_", " ")) for one in story],
        "requests": list(result.get("requests") or ()),
    }
    return trial.model_copy(update=found)


def _running(name: str) -> bool:
    return (child := _children.get(name)) is not None and child.poll() is None


def _tidy(root: Path) -> None:
    found = sorted(
        (path for path in root.iterdir() if _NAME.fullmatch(path.name)), key=lambda path: path.stat().st_mtime
    )
    for path in found[: max(0, len(found) - KEPT + 1)]:
        if not _running(path.name):
            shutil.rmtree(path, ignore_errors=True)
            _children.pop(path.name, None)


def stop_trials() -> None:
    """End the tries that this process has begun, as the workbench does when it ends."""
    for child in _children.values():
        child.terminate()
    for child in _children.values():
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(10)
    _children.clear()


def main(folder: Path) -> int:
    """Ask what the trial in a folder says. Returns the exit code."""
    trial = files.read_json(folder / TRIAL_FILE, "try it again")
    item, run = Item.from_json(trial["item"]), folder / RUN
    stop = Stop()
    deadline = threading.Timer(trial["seconds"], stop.set)
    deadline.daemon = True
    deadline.start()
    result: dict[str, Any] = {}
    try:
        evaluate(_options(trial, item, run), Listener(), stop=stop)
    except TomserveError as error:
        late = f"no answer came within {trial['seconds']:.0f} seconds; "
        result["error"] = f"{late if stop.is_set() else ''}{error}"
    finally:
        deadline.cancel()
    try:
        result |= _results_of(item, run)
    except TomserveError as error:
        result.setdefault("error", str(error))
    files.replace_bytes(folder / RESULT, orjson.dumps(result), 0o600)
    return 0


def _options(trial: Mapping[str, Any], item: Item, run: Path) -> EvalOptions:
    how = trial["how"]
    model = how["model"] or how["preset"] or None
    return EvalOptions(
        benchmark=item.benchmark,
        items=(item,),
        strategies=(how["strategy"],) if how["strategy"] else (),
        model=model,
        base_urls=(trial["base_url"],) if trial["base_url"] else (),
        run=str(run),
        max_tokens=how["max_tokens"] or None,
        thinking=how["thinking"] or None,
        answer_schema="auto",
        temperature=how["temperature"],
        seed=how["seed"],
        timeout=trial["seconds"],
        concurrency=1,
        patience=min(PATIENCE, trial["seconds"]),
        policy=RetryPolicy(attempts=ATTEMPTS),
    )


def _results_of(item: Item, run: Path) -> dict[str, Any]:
    manifest = Manifest.read(run)
    if manifest is None:
        return {}
    found: dict[str, Any] = {"model": manifest.model, "revision": manifest.revision}
    rows = [dict(row) for _, row in read_rows(run / "responses.jsonl")] if (run / "responses.jsonl").exists() else []
    found["rows"] = [{name: value for name, value in row.items() if name != "tokens"} for row in rows]
    if not rows:
        return found
    table = scores_of(run)
    if table.height:
        (score,) = table.head(1).iter_rows(named=True)
        plain = (str, bool, int, float, list, type(None))
        found["score"] = {name: value for name, value in score.items() if isinstance(value, plain)}
    with contextlib.suppress(TomserveError):
        found["requests"] = [one.body for one in sorted(prompts_of(manifest, item, rows)[0], key=lambda one: one.turn)]
    return found


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
