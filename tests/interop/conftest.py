"""Runs for exports: with failures, thoughts, several samples and odd ids, made by real requests."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

import tomserve
from tests.conftest import Endpoint, completion, fill, make_item, running
from tests.helpers.exported import SECRETS
from tomserve import benchmarks
from tomserve.interop import fingerprints
from tomserve.items import Item

LONG = "a very long name/" * 17
ODD = ("demo/a b/c", "Ünïcödé/雪/é", LONG, "demo/a_b/c", "..", "x_epoch_1", "back\\slash", "q?#%[1]:*")
"""Ids as other people's files may have them."""


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


@pytest.fixture(autouse=True, scope="module")
def small_benchmarks() -> Iterator[None]:
    """An import looks through the small benchmarks alone, also one that many tests share, unless a test names another."""
    names = {"names": lambda: ["bigtom", "bundles", "hitom", "perturbed"]}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fingerprints, "benchmarks", SimpleNamespace(**{**vars(benchmarks), **names}))
        yield


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Made by real requests: odd (ids, failures, thoughts, three samples), perturbed (two strategies, failures), several
    (three samples, failures), talk (two turns a question)."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patched, running() as endpoint:
        patched.setenv("TOMSERVE_RUNS", str(folder))
        odd = answered(folder / "odd", endpoint, odd_items(), ["vanilla"], repeats=3, temperature=0.5)
        perturbed = answered(folder / "perturbed", endpoint, "perturbed", limit=12)
        several = answered(folder / "several", endpoint, "perturbed", ["vanilla"], limit=8, repeats=3, temperature=0.5)
        talk = answered(folder / "talk", endpoint, "perturbed", ["simtom"], lambda body, n: None, limit=8)
    broken = {"odd": break_rows(odd, 4), "perturbed": break_rows(perturbed), "several": break_rows(several)}
    return {**broken, "talk": talk}
