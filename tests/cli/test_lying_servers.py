"""Commands whose server lies in every reply: its answers are counted as failed or unread, and nothing else happens."""

import itertools
import re
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from tenacity import wait_none

from tests.conftest import Cli, Endpoint, make_item, running
from tests.helpers import rewriters
from tests.helpers.answerers import Answerer, finished, some_items
from tests.helpers.hostile import DEEP, completion
from tests.weakness.designs import DESIGN
from tomserve.engine import retry
from tomserve.items import write_items
from tomserve.weakness.design import DESIGNS

ODD = {"choices": [{"message": {"content": ["a", {"b": 1}]}, "finish_reason": 7}], "usage": {"prompt_tokens": "many"}}
LOGPROBS = {"choices": [{"message": {"content": "hm"}, "finish_reason": "stop"}], "prompt_logprobs": 5}
LIES: tuple[tuple[int, bytes], ...] = (
    (200, b'{"choices": []}'),
    (200, b"[1, 2]"),
    (200, b'{"choices": [{"mess'),
    (200, DEEP % ((b"[" * 100_000,) * 4)),
    (200, completion(None)),
    (200, completion("{" * 100_000)),
    (200, completion("half", "length")),
    (200, completion(None, refusal="no")),
    (200, completion('{"answer": NaN, "choice": {}, "beliefs": "\x1b[2J\x1b]0;x\x07\u202e", "story": [1]}')),
    (200, completion('{"answer": "\\ud800", "choice": 7, "beliefs": [{"sentence": 1e999}], "story": [""]}')),
    (200, completion("=cmd|' /C calc'!A0 <script>alert(1)</script> \\input{/etc/passwd}")),
    (200, orjson.dumps(ODD)),
    (200, orjson.dumps(LOGPROBS)),
    (200, b'{"choices": [{"message": {"content": "hm\xff\xfe"}}]}'),
    (404, b"<html>\x1b[2J</html>"),
    (500, b'{"error": {"message": {"deep": ["\x1b[2J"]}}}'),
)
OBEYED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal may obey."""

ASKED = ("--limit", "8", "--no-report", "--base-url")
OWN = ("--benchmark", "items", "--path", "own.jsonl")
RETOLD = ("items", "items", "--path", "text.jsonl", "--variants", "paraphrase,condensed")
EDITED = ("faithfulness", "mine", "--probe", "edits", "--edit", "last_corrupted", *ASKED)
COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "stability": (("stability", *OWN, "--variants", "choices", *ASKED, "LIAR"), "failures: "),
    "search": (("search", "--budget", "200", "--no-report", "--base-url", "LIAR"), "failures: "),
    "faithfulness": ((*EDITED, "LIAR"), "failures: "),
    "predictor": ((*EDITED, "HONEST", "--predictor", "LIAR"), "failures: "),
    "reader": (("score", "mine", "--reader-may-be-evaluated-model", "--reader", "LIAR"), "found an answer in 0, "),
    "rewriter": ((*RETOLD, "--out", "told.jsonl", "--rewriter", "LIAR"), "requests had no reply ("),
}
"""Commands, and how they say what they got. `eval` and `functional` ask as stability does; `doctor` has its own table."""


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of chains, one of which no rule can read, and questions."""
    folder = tmp_path_factory.mktemp("before")
    journal = finished(some_items()[:8], "cot", folder / "runs/mine") / "responses.jsonl"
    first, *rest = journal.read_bytes().splitlines(keepends=True)
    spoilt = {**orjson.loads(first), "text": "It is hard to say what she would think of that, all in all."}
    journal.write_bytes(b"".join([orjson.dumps(spoilt) + b"\n", *rest]))
    write_items(folder / "own.jsonl", [make_item(number) for number in range(20)])
    write_items(folder / "text.jsonl", rewriters.BOTH)
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_a_server_that_lies_costs_its_answers_and_nothing_else(
    command: str, cli: Cli, endpoint: Endpoint, before: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "wait_random_exponential", lambda **_: wait_none())
    monkeypatch.setitem(DESIGNS, "worlds", DESIGN)
    monkeypatch.chdir(shutil.copytree(before, tmp_path, dirs_exist_ok=True))
    lies = itertools.cycle(LIES)

    def lie(body: dict[str, Any], number: int) -> Any:
        if body.get("preflight"):
            return None
        code, said = next(lies)
        return web.Response(status=code, body=said, content_type="application/json")

    endpoint.script = lie
    words, said = COMMANDS[command]
    with running() as honest:
        honest.script = Answerer(some_items())
        done = cli(*({"LIAR": endpoint.url, "HONEST": honest.url}.get(one, one) for one in words))
    assert done.code in (0, 1), done
    assert said in done.out
    assert "Traceback" not in done.out + done.err
    assert not OBEYED.search(done.out + done.err)
