"""The soak: its server does what it says, a short soak finds nothing wrong, and damage that is planted is found."""

import asyncio
import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import _ledger
import _misbehaving
from _misbehaving import OFFENCES, mark_of, tagged, text_of

from tomserve.engine.transport import Reply, Timeouts
from tomserve.engine.transports import TRANSPORTS, make_transport
from tomserve.status import FINAL

KEY = "sk-the-key-of-this-test-which-is-long"
RIGHT = {"answer, end", "drip", "gzip", "twice", "another's answer, too", "to be continued", "small chunks", "late"}
"""Offences that hold a whole answer, which has to be taken."""


def asked(folder: Path, offence: str | None, name: str, questions: int = 4) -> list[Reply]:
    """The replies of a misbehaving server to some questions, asked one after the other by that transport."""
    told = {"key": KEY, "seed": 1, "storms": 1e6, "refusals": 0.0, "delay": 0.0, "root": "r", "version": "0"}
    more = {"offences": 1.0 if offence else 0.0, "kinds": [offence], "echoes": ["error", "headers"]}
    state = _misbehaving.State({**told, **more, "log": str(folder / "sent")})

    async def ask() -> list[Reply]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _misbehaving.Peer(state), "127.0.0.1", 0)
        patience = 1.0 if offence == "silence" else 60.0
        client = make_transport(name, KEY, Timeouts(total=patience))
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        replies = []
        for number in range(questions):
            messages = [{"role": "user", "content": f"What is in {tagged(number)}?"}]
            replies.append(await client.send(url, orjson.dumps({"model": "soak", "messages": messages})))
        await client.close()
        server.close()
        for task in state.tasks:
            task.cancel()
        return replies

    return asyncio.run(ask())


SLOW = ("silence", "drip", "late", "broken chunks")
"""Offences that take seconds."""


@pytest.mark.parametrize("name", TRANSPORTS)
@pytest.mark.parametrize(
    "offence", [None, *(pytest.param(one, marks=pytest.mark.system) if one in SLOW else one for one in OFFENCES)]
)
def test_no_offence_makes_a_wrong_answer_final(tmp_path: Path, offence: str | None, name: str) -> None:
    replies = asked(tmp_path, offence, name, questions=1 if offence in ("silence", "drip", "late") else 4)
    for number, reply in enumerate(replies):
        assert KEY not in (reply.error or "")
        if reply.status in FINAL:
            assert (reply.status, reply.text) == ("ok", text_of(number, 0))
            assert str(reply.reasoning).startswith(mark_of(number, 0))
        else:  # whatever comes after a first answer may spoil the connection for the next question
            assert offence is not None
            assert number > 0 or offence not in RIGHT
    sent = (tmp_path / "sent").read_bytes().split()
    assert bool(sent) == (offence is None or offence in RIGHT)


def soak(folder: Path, *options: str) -> tuple[int, str, dict[str, float]]:
    """The exit code of a soak, what it printed, and its figures by name."""
    figures = folder / "figures.jsonl"
    command = [sys.executable, str(ROOT / "bench/soak.py"), "--every", "1", "--timeout", "2", "--delay", "0.005"]
    done = subprocess.run(
        [*command, "--echoes", "error", "headers", "--folder", str(folder / "work"), *options],
        capture_output=True, text=True, check=False, env={**os.environ, "BENCH_FIGURES": str(figures)},
    )  # fmt: skip
    told = [json.loads(line) for line in figures.read_text().splitlines()] if figures.exists() else []
    return done.returncode, done.stdout + done.stderr, {one["figure"]: one["value"] for one in told}


@pytest.mark.system
def test_a_short_soak_finds_nothing_wrong(tmp_path: Path) -> None:
    code, said, figures = soak(tmp_path, "--requests", "100", "--leg", "50", "--kinds", "fan-out", "two servers")
    assert figures["runs"] >= 2
    assert figures["rows"] == 100
    assert (code, {name: figures[name] for name in _ledger.FAULTS}) == (0, dict.fromkeys(_ledger.FAULTS, 0)), said


@pytest.mark.long
def test_damage_that_is_planted_is_found(tmp_path: Path) -> None:
    plants = ("loss", "swap", "twice", "key", "file")
    code, said, figures = soak(tmp_path, "--requests", "200", "--kinds", "one turn", "--plant", *plants)
    assert code == 1, said
    for name in ("rows lost", "answers swapped", "rows twice", "keys found", "temporary files left"):
        assert figures[name] > 0, said
    assert (tmp_path / "work/run-0000/run/responses.jsonl").exists()  # what went wrong is kept to be looked at


def test_a_key_is_found_as_it_is_in_part_and_in_base64(tmp_path: Path) -> None:
    texts = {"whole": f"x{KEY}y", "part": KEY[5:30], "base64": base64.b64encode(f"Bearer {KEY}".encode()).decode()}
    for name, text in {**texts, "masked": "sk-the***", "short": KEY[:10]}.items():
        (tmp_path / name).write_text(text)
    assert {path.name for path in _ledger.Secrets(KEY).files(tmp_path)} == set(texts)
