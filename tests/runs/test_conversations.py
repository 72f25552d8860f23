"""Runs of strategies of several turns, from the command line to the scores, also where a program sends nonsense."""

import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

import tomserve
from tests.conftest import Endpoint, completion, make_item
from tests.helpers.asking import FAST
from tests.helpers.command import journal
from tests.helpers.outcomes import passes, refuses, refuses_in_a_line
from tests.helpers.talking import conversing, write_strategy
from tomserve.engine.request import Identity
from tomserve.items import write_items
from tomserve.runs import planning
from tomserve.runs.journal import Journal
from tomserve.runs.progress import Stop

ITEMS = 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return conversing(tmp_path, ITEMS)


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "EvalOptions", functools.partial(planning.EvalOptions, policy=FAST))


def job(folder: Path, endpoint: Endpoint, *strategies: str, **options: object) -> tuple[object, ...]:
    named = [part for name in strategies or ("two", "fan") for part in ("--strategy", folder / name)]
    more = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    where = ("--path", folder / "items.jsonl", "--base-url", endpoint.url, "--run", "r")
    return ("eval", "--benchmark", "items", *where, *named, *more)


def closed(folder: Path) -> Counter[tuple[str, str]]:
    return Counter((row["item"], row["strategy"]) for row in journal(folder / "runs/r") if "closes" in row)


def test_a_run_asks_scores_and_has_nothing_left(folder: Path, endpoint: Endpoint, cli) -> None:
    done = passes(cli(*job(folder, endpoint)))
    assert f"asking tiny at {endpoint.url}: {ITEMS * 3} of {ITEMS * 3} requests to go" in done.out
    assert f"{ITEMS * 9} rows in" in done.out
    assert len(endpoint.requests) == ITEMS * 9
    manifest = tomserve.Run.open("r").manifest
    assert manifest.complete
    assert {name: one.turns for name, one in manifest.strategies.items()} == {"two": 2, "fan": 0}
    scores = tomserve.load_scores("r")
    assert scores.select("strategy", "status").unique().sort("strategy").rows() == [("fan", "ok"), ("two", "ok")]
    assert len(scores) == ITEMS * 2
    again = cli(*job(folder, endpoint))
    assert "nothing left to ask" in again.out
    assert len(endpoint.requests) == ITEMS * 9


@pytest.mark.parametrize("after", [1, 2, 5])
def test_an_interrupted_run_sends_no_follow_up_and_goes_on(
    folder: Path, endpoint: Endpoint, cli, monkeypatch, after: int
) -> None:
    """Ctrl-C while the request with that number is being answered; the next session asks what is left, once."""
    heard, stop = threading.Event(), Stop.set
    monkeypatch.setattr(Stop, "set", lambda self: (stop(self), heard.set()))

    def interrupting(body, n: int):
        if n == after:
            os.kill(os.getpid(), signal.SIGINT)
            assert heard.wait(60)

    endpoint.script = interrupting
    stopped = cli(*job(folder, endpoint, limit=1, concurrency=1))
    assert stopped.code == 130, stopped.err
    assert len(endpoint.requests) == len(journal(folder / "runs/r")) == after
    finished = after in (2, 9)
    assert tomserve.Run.open("r").failures == ({} if finished else {"unfinished": 1})
    endpoint.script = lambda body, n: None
    assert cli(*job(folder, endpoint, limit=1, concurrency=1)).code == 0
    assert len(endpoint.requests) == 9
    assert closed(folder) == {(journal(folder / "runs/r")[0]["item"], name): 1 for name in ("two", "fan")}
    assert tomserve.Run.open("r").failures == {}


def test_the_noise_check_compares_what_conversations_came_to(folder: Path, endpoint: Endpoint, cli) -> None:
    """Their later turns are other requests, as the replies before them differ."""

    def changing(body, n: int):
        again = n > ITEMS * 9
        last = "Turn 3." in body["messages"][0]["content"]
        return completion(f'{{"answer": "{"salt" if last and again else "tea"}"}}' + " " * again)

    endpoint.script = changing
    passes(cli(*job(folder, endpoint, noise_check=1, concurrency=4)))
    scores = tomserve.load_scores("r")
    assert scores["noise_compared"].to_list() == [[1, 64]] * 2 * ITEMS
    changed = scores.group_by("strategy").agg(pl.col("noise_answer").is_not_null().all())
    assert dict(changed.iter_rows()) == {"fan": True, "two": False}


def test_the_journal_tells_which_conversations_have_ended(tmp_path: Path) -> None:
    base = {"item": "a", "strategy": "s", "key": "k", "status": "ok"}
    with Journal(tmp_path / "j.jsonl") as journal:
        first = Identity("a", "s", 0)
        journal.append({**base, "turn": 0})
        assert (first in journal.closed, journal.further) == (False, set())
        journal.append({**base, "turn": 2})
        assert (first in journal.closed, journal.further) == (False, {first.question})
        journal.append({**base, "turn": 1, "closes": 3, "status": "timeout"})
        assert first not in journal.closed, "a failure that may go away ends nothing"
        journal.append({**base, "turn": 1, "closes": 3})
        journal.append({**base, "turn": 3})
    with Journal(tmp_path / "j.jsonl") as journal:
        assert (first in journal.closed, journal.further) == (True, set())


def program_job(folder: Path, endpoint: Endpoint, program: str) -> tuple[object, ...]:
    """The arguments of `tomserve` for a run r of a strategy with this program about one item."""
    write_items(folder / "items.jsonl", [make_item(0)])
    named = ("--strategy", write_strategy(folder / "talk", 3, program), "--base-url", endpoint.url, "--concurrency", 1)
    return ("eval", "--benchmark", "items", "--path", folder / "items.jsonl", "--run", "r", "--quiet", *named)


def row_states(folder: Path) -> list[tuple[int, str, int | None]]:
    """Turn, status and `closes` of each row of the run."""
    return [(row["turn"], row["status"], row.get("closes")) for row in journal(folder / "runs/r")]


NONSENSE = {
    '    yield ask("turn2", said="\\ud800")': "turn 1 (counted from 0): cannot be sent",
    '    yield Turn(({"role": "user", "content": {1}},), None, 16)': "turn 1 (counted from 0): cannot be sent",
    '    yield Turn(({"role": "user", "content": "a"},), None, 10**30)': "turn 1 (counted from 0): cannot be sent",
    '    yield [Turn("Who?", None, 16)]': "yielded a Turn of 'Who?'; expected a list of messages",
    '    return "\\ud800"': "returned '\\ud800', which holds half a character",
}


@pytest.mark.parametrize("ends", NONSENSE)
def test_a_program_that_sends_nonsense_loses_no_reply(tmp_path: Path, endpoint: Endpoint, cli, ends: str) -> None:
    begins = 'from tomserve.prompting.conversation import Turn\n\ndef program(item, ask):\n    yield ask("turn1")\n'
    ended = refuses_in_a_line(cli(*program_job(tmp_path, endpoint, f"{begins}{ends}\n")))
    assert all(part in ended.err for part in (NONSENSE[ends], "talk", "demo/0"))
    assert row_states(tmp_path) == [(0, "ok", None)], "the reply before is kept"
    if ends.startswith("    return"):
        # Another program is another run.
        refuses(cli(*program_job(tmp_path, endpoint, f'{begins}    yield ask("turn2")\n')))


@pytest.mark.system
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_program_that_never_ends_is_ended_by_a_signal(tmp_path: Path, endpoint: Endpoint, number: int) -> None:
    busy = tmp_path / "busy"
    first = '    CALLS.append(1)\n    if len(CALLS) == 1:\n        return "tea"\n'  # with the preflight's made-up reply
    program = f'    yield ask("turn1")\n{first}    open({str(busy)!r}, "w").close()\n    while True:\n        pass\n'
    command = [sys.executable, "-m", "tomserve"]
    command += map(str, program_job(tmp_path, endpoint, f"CALLS = []\n\n\ndef program(item, ask):\n{program}"))
    with subprocess.Popen(command, stdout=-3, stderr=subprocess.PIPE, text=True) as process:
        try:
            while not busy.exists() and process.poll() is None:
                time.sleep(0.02)
            process.send_signal(number)
            _, said = process.communicate(timeout=600)
        finally:
            process.kill()
    assert process.returncode == 128 + number, said
    name = signal.Signals(number).name
    assert said == f"tomserve: stopped by {name} while something kept on computing; repeat the command to go on\n"
    assert row_states(tmp_path) == [(0, "ok", None)], "the reply that the program was given is kept"
