"""Many rows are scored by two processes, with the bytes that one gives, whatever becomes of the second."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest

from tests.conftest import ROOT, make_item
from tomserve.errors import ContentError
from tomserve.items import write_items
from tomserve.scoring import parallel
from tomserve.scoring import table as table_module
from tomserve.scoring.metrics import PLAIN, Metric, Scoring, plain_scoring
from tomserve.scoring.responses import ItemFile, ResponseFile
from tomserve.scoring.table import write_score_table

CHAIN = '{"beliefs": ["tea", "salt"], "answer": "tea"}'


def make(folder: Path, count: int = 60) -> None:
    """Write items, and two replies to each of them, into a folder."""
    items = [make_item(n, story=["a", "b"], gold={"sets": [["tea"], ["tea"]]}) for n in range(1, count + 1)]
    write_items(folder / "items.jsonl", items)
    told = [(item.id, model, text) for item in items for model, text in (("a", "tea"), ("b", CHAIN))]
    rows = (orjson.dumps({"item": name, "model": model, "text": text, "sample": 0}) for name, model, text in told)
    (folder / "r.jsonl").write_bytes(b"\n".join(rows))


def scored(folder: Path, **options: Any) -> bytes:
    """The bytes of the score table of that folder; options: those of write_score_table."""
    known, out = ItemFile(folder / "items.jsonl"), folder / "s.parquet"
    write_score_table(known, ResponseFile(folder / "r.jsonl", known, "m"), out, run="r", chains=["vanilla"], **options)
    assert not list(folder.glob(".tomserve-*.work"))
    return out.read_bytes()


alive: list[subprocess.Popen[bytes]] = []
"""The second processes that were started."""


@pytest.fixture
def helped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Two processes even for a few rows, of which the first lets the second work alone, until it has ended; the numbers
    of the parts that the second has scored."""
    found: list[int] = []
    monkeypatch.setattr(table_module, "PART", 10)
    monkeypatch.setattr(parallel, "MANY", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    real = parallel._take

    def after(work: Any, parts: Any) -> None:
        for process in alive:
            process.wait()
        found.extend(number for number, (path, _) in enumerate(parts) if path.exists())
        real(work, parts)

    monkeypatch.setattr(parallel, "_take", after)
    return found


@pytest.fixture(autouse=True)
def followed(monkeypatch: pytest.MonkeyPatch) -> None:
    alive.clear()
    real = subprocess.Popen

    def started(*given: Any, **options: Any) -> Any:
        alive.append(real(*given, **options))
        return alive[-1]

    monkeypatch.setattr(parallel.subprocess, "Popen", started)


@pytest.mark.system
def test_two_processes_give_the_bytes_of_one(tmp_path: Path, helped: list[int], monkeypatch) -> None:
    make(tmp_path)
    two = scored(tmp_path)
    assert helped == list(range(12)), "the second process has scored everything"
    assert [process.poll() for process in alive] == [0]
    monkeypatch.setattr(parallel, "MANY", 10**9)
    assert scored(tmp_path) == two
    assert len(alive) == 1
    assert pl.read_parquet(two).height == 120


@pytest.mark.system
def test_the_first_error_in_the_order_of_the_rows_is_raised(tmp_path: Path, helped: list[int]) -> None:
    make(tmp_path)
    path = tmp_path / "items.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for number in (20, 50):
        lines[number] = lines[number].replace(b'"answer":"tea"', b'"answer":"milk"')
    path.write_bytes(b"".join(lines))
    with pytest.raises(ContentError, match=r"items\.jsonl:21: "):
        scored(tmp_path)
    assert helped == [10, 11], "the second process has met an error, and left it to the first"
    assert not list(tmp_path.glob(".tomserve-*.work"))


def test_a_users_own_benchmark_is_scored_by_one_process(tmp_path: Path, helped: list[int]) -> None:
    make(tmp_path)
    own = Scoring((Metric({"metric_long": pl.Int64}, lambda item, reading: {"metric_long": len(reading.text)}),))
    found = pl.read_parquet(scored(tmp_path, rules=lambda name: own))
    assert found["metric_long"].to_list()[:2] == [3, len(CHAIN)]
    assert not alive
    assert PLAIN.shipped
    assert plain_scoring("x").shipped
    assert not own.shipped


SCRIPT = """
import os, sys, time
from pathlib import Path
from tomserve.scoring import parallel, responses, table
table.PART, parallel.MANY = 2, 1
os.sched_getaffinity = lambda pid: {0, 1}
real = parallel.ScoringWork.frame
def slow(*given):
    print("begun", flush=True)
    time.sleep(60)
    return real(*given)
parallel.ScoringWork.frame = slow
folder = Path(sys.argv[1])
known = responses.ItemFile(folder / "items.jsonl")
table.write_score_table(known, responses.ResponseFile(folder / "r.jsonl", known, "m"), folder / "s.parquet", run="r")
"""


@pytest.mark.system
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_first_one(tmp_path: Path, how: signal.Signals) -> None:
    make(tmp_path, 4000)  # more than the second process scores until it is seen
    first = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT
    )
    assert first.stdout is not None
    assert first.stdout.readline() == b"begun\n"
    (second,) = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
    first.send_signal(how)
    first.wait()
    first.stdout.close()
    while Path(f"/proc/{second}/stat").exists() and " Z " not in Path(f"/proc/{second}/stat").read_text():
        time.sleep(0.01)
    assert not (tmp_path / "s.parquet").exists()
    if how == signal.SIGINT:
        assert not list(tmp_path.glob(".tomserve-*.work"))
