"""Strategies whose programs send nonsense in the middle of a run, and requests that fail for good."""

import functools
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import Endpoint, make_item
from tests.helpers.asking import FAST
from tests.helpers.talking import write_strategy
from tomserve.items import write_items
from tomserve.runs import planning
from tomserve.runs.journal import read_rows


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "EvalOptions", functools.partial(planning.EvalOptions, policy=FAST))


def job(folder: Path, endpoint: Endpoint, program: str) -> tuple[object, ...]:
    """The arguments of `tomserve` for a run r of a strategy with this program about one item."""
    write_items(folder / "items.jsonl", [make_item(0)])
    named = ("--strategy", write_strategy(folder / "talk", 3, program), "--base-url", endpoint.url, "--concurrency", 1)
    return ("eval", "--benchmark", "items", "--path", folder / "items.jsonl", "--run", "r", "--quiet", *named)


def rows(folder: Path) -> list[tuple[int, str, int | None]]:
    """Turn, status and `closes` of each row of the run."""
    found = (row for _, row in read_rows(folder / "runs/r/responses.jsonl"))
    return [(row["turn"], row["status"], row.get("closes")) for row in found]


NONSENSE = {
    '    yield ask("turn2", said="\\ud800")': "turn 1 (counted from 0): cannot be sent",
    '    yield Turn(({"role": "user", "content": {1}},), None, 16)': "turn 1 (counted from 0): cannot be sent",
    '    yield Turn(({"role": "user", "content": "a"},), None, 10**30)': "turn 1 (counted from 0): cannot be sent",
    '    yield Turn(({"role": "user", "content": "a"},), None, 16, None)': "turn 1 (counted from 0): cannot be",
    "    yield Turn(None, None, 16)": "yielded a Turn of None; expected a list of messages",
    '    yield [Turn("Who?", None, 16)]': "yielded a Turn of 'Who?'; expected a list of messages",
    '    return "\\ud800"': "returned '\\ud800', which holds half a character",
}


@pytest.mark.parametrize("ends", NONSENSE)
def test_a_program_that_sends_nonsense_loses_no_reply(tmp_path: Path, endpoint: Endpoint, cli, ends: str) -> None:
    begins = 'from tomserve.prompting.conversation import Turn\n\ndef program(item, ask):\n    yield ask("turn1")\n'
    ended = cli(*job(tmp_path, endpoint, f"{begins}{ends}\n"))
    assert (ended.code, ended.err.count("\n")) == (2, 1), ended.err
    assert all(part in ended.err for part in (NONSENSE[ends], "talk", "demo/0"))
    assert rows(tmp_path) == [(0, "ok", None)], "the reply before is kept"
    if ends.startswith("    return"):
        again = cli(*job(tmp_path, endpoint, f'{begins}    yield ask("turn2")\n'))
        assert again.code == 2, "another program is another run"


@pytest.mark.system
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_program_that_never_ends_is_ended_by_a_signal(tmp_path: Path, endpoint: Endpoint, number: int) -> None:
    busy = tmp_path / "busy"
    program = f'    yield ask("turn1")\n    open({str(busy)!r}, "w").close()\n    while True:\n        pass\n'
    command = [sys.executable, "-m", "tomserve"]
    command += map(str, job(tmp_path, endpoint, f"def program(item, ask):\n{program}"))
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
    assert rows(tmp_path) == [(0, "ok", None)], "the reply that the program was given is kept"
