"""The process of the playground, `python -m tomserve.web.playground_process`: asks one item of one model, and writes
what came of it.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from tomserve.content import files
from tomserve.engine.retry import RetryPolicy
from tomserve.errors import TomserveError
from tomserve.items import Item
from tomserve.runs.evaluation import evaluate
from tomserve.runs.journal import read_rows
from tomserve.runs.manifest import Manifest
from tomserve.runs.planning import EvalOptions
from tomserve.runs.progress import SilentListener, Stop
from tomserve.runs.scores import scores_of
from tomserve.runs.verification import find_same_strategy
from tomserve.web.answers import requests_of
from tomserve.web.playground import RESULT, RUN, TRIAL_FILE

ATTEMPTS = 2  # how often a request is sent at most: whoever tries wants to see what happens, not that it is hidden
PATIENCE = 20.0  # seconds for which a server that is busy or loads is waited for


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
        evaluate(_options(trial, item, run), SilentListener(), stop=stop)
    except TomserveError as error:
        late = f"no answer came within {trial['seconds']:.0f} seconds; "
        result["error"] = f"{late if stop.is_set() else ''}{error}"
    finally:
        deadline.cancel()
    try:
        result |= _results_of(item, run)
    except TomserveError as error:
        result.setdefault("error", str(error))
    with files.replace_file(folder / RESULT, 0o600) as file:
        file.write(orjson.dumps(result))
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
        temperature=how["temperature"],
        seed=how["seed"],
        timeout=trial["seconds"],
        concurrency=1,
        patience=min(PATIENCE, trial["seconds"]),
        policy=RetryPolicy(attempts=ATTEMPTS),
    )


def _results_of(item: Item, run: Path) -> dict[str, Any]:
    """What the folder of the try holds: rows, how they were read, and the requests."""
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
        found["score"] = {name: value for name, value in score.items() if _plain(value)}
    with contextlib.suppress(TomserveError):
        found["requests"] = _requests(item, manifest, rows)
    return found


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, str | bool | int | float | list)


def _requests(item: Item, manifest: Manifest, rows: list[dict[str, Any]]) -> list[str]:
    """The bodies of the requests of a conversation, in the order of its turns."""
    name = rows[0]["strategy"]
    strategy = find_same_strategy(name, manifest.strategies[name], manifest)
    made = requests_of(manifest, strategy, item, {row["turn"]: row for row in rows}) if strategy is not None else []
    bodies = [one.body for one in sorted(made, key=lambda one: one.identity.turn)]
    return [orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2).decode() for body in bodies]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
