"""Runs for exports to other tools' files: with failures, thoughts, several samples and odd ids, made by real requests."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import polars as pl

import tomserve
from tests.conftest import Endpoint, completion, fill, make_item
from tomserve.items import Item

LONG = "a very long name/" * 17
ODD = ("demo/a b/c", "Ünïcödé/雪/é", LONG, "demo/a_b/c", "..", "x_epoch_1", "back\\slash", "q?#%[1]:*")
"""Ids as other people's files may have them."""

SECRETS = ("hunter2", "sk-very-secret", "letmein")
"""What must be in no file that is handed on."""


def odd_items() -> list[Item]:
    """Items with ids that no file could have, in three clusters."""
    return [
        make_item(number, id=name, cluster=f"cluster {number % 3}", factors={"kind": "ab"[number % 2], "level": number})
        for number, name in enumerate(ODD, 1)
    ]


def replies(body: dict[str, Any], number: int) -> dict[str, Any] | None:
    """JSON after a thought, another answer, prose, or text that is cut off, in turns."""
    if "response_format" not in body:
        return None
    schema = body["response_format"]["json_schema"]["schema"]
    whole = orjson.loads(fill(schema))
    other = {**whole, "answer": schema["properties"]["answer"]["enum"][-1]}
    texts = (
        (orjson.dumps(whole).decode(), "stop", {"reasoning_content": f"Let me think, number {number}."}),
        (orjson.dumps(other).decode(), "stop", {}),
        (f"I am <b>sure</b> it is {whole['answer']}.\nAnswer: {whole['answer']}", "stop", {}),
        (orjson.dumps(whole).decode()[:9], "length", {}),
        (None, "length", {"reasoning_content": "I never came to an end"}),
    )
    text, finish, more = texts[number % len(texts)]
    return completion(text, body["model"], finish, **more)


def answered(
    folder: Path,
    endpoint: Endpoint,
    items: str | Sequence[Item],
    strategies: Sequence[str] = ("vanilla", "cot"),
    script: Callable[[dict[str, Any], int], Any] = replies,
    **options: Any,
) -> Path:
    """A run that an endpoint has answered. Returns its folder."""
    endpoint.script = script
    run = tomserve.ask(items, list(strategies), base_url=endpoint.url, run=folder, concurrency=1, **options)
    return run.folder


FAILURES: tuple[dict[str, Any], ...] = (
    {"status": "timeout", "error": "no complete reply in 600 s"},
    {"status": "connection", "error": f"refused by https://me:{SECRETS[0]}@host:1/v1?api_key={SECRETS[1]}"},
    {"status": "malformed", "error": "no choices"},
    {"status": "http_400", "error": "HTTP 400: too long"},
    {"status": "refusal", "error": None, "finish_reason": "content_filter"},
)
"""What rows of a journal say that hold no reply."""


def break_rows(folder: Path, every: int = 3) -> Path:
    """Put failures into the place of some replies of a run, each kind in turn, and secrets into its manifest. every: of
    so many replies one fails."""
    journal = folder / "responses.jsonl"
    rows = [orjson.loads(line) for line in journal.read_bytes().splitlines()]
    for place, row in enumerate(rows[::every]):
        failure = FAILURES[place % len(FAILURES)]
        row.update({"text": None, "reasoning": None, "usage": None, "finish_reason": None, **failure})
    journal.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    manifest = orjson.loads((folder / "manifest.json").read_bytes())
    manifest["endpoints"] = [f"https://me:{SECRETS[0]}@host/v1"]
    manifest["server"] = {"flags": {"api-key": SECRETS[1]}, "command": ["vllm", "--api-key", SECRETS[1]]}
    manifest["sampling"]["api_token"] = SECRETS[2]
    manifest["sessions"][0]["endpoints"] = [f"https://me:{SECRETS[0]}@host/v1?key={SECRETS[2]}"]
    (folder / "manifest.json").write_bytes(orjson.dumps(manifest))
    return folder


def same_scores(ours: Path | str, theirs: Path | str, thoughts: bool = True) -> None:
    """Hold the scores of a run against those of the run that its export became, which may have some of its strategies.
    All columns are the same but that addresses in a failure's reason have lost their passwords. thoughts: whether the
    export has them, so that a reply which ended within them is told from one without a text."""
    from tomserve.engine.redact import redact_settings
    from tomserve.runs.scores import load_scores

    left, right = load_scores(str(ours)), load_scores(str(theirs))
    left = left.filter(pl.col("strategy").is_in(right["strategy"].unique().to_list()))
    masked = pl.col("reason").map_elements(redact_settings, return_dtype=pl.String)
    left = left.with_columns(reason=pl.when(status="connection").then(masked).otherwise("reason"))
    if not thoughts:
        left = left.with_columns(pl.col("reason").replace("the thinking was cut off before an answer", "empty text"))
    own = {name for name in right.columns if name.startswith("graded_")}
    assert set(left.columns) == set(right.columns) - own, set(left.columns) ^ set(right.columns)
    columns = [name for name in left.columns if name != "run"]
    assert left.height == right.height
    assert left.select(columns).equals(right.select(columns)), [
        name for name in columns if not left[name].equals(right[name])
    ]
