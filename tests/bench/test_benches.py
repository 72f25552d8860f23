"""The instructions of client, scoring and start-up stay within a tenth of their baseline; that is counted, not timed.

Skipped where valgrind is missing; with NEED_VALGRIND=1 (as CI sets it) that is a failure.

The labelled replies to questions of others, of which nothing that is theirs is kept."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import orjson
import pytest

import tomserve
from tests.conftest import ROOT, data_file

BENCH = ROOT / "bench/instructions.py"


@pytest.fixture
def bench(load: Callable[[str], ModuleType]) -> ModuleType:
    return load("instructions")


@pytest.mark.system
@pytest.mark.timeout(900)
def test_client_scoring_and_start_up_take_no_more_than_a_tenth_above_their_baseline() -> None:
    if shutil.which("valgrind") is None and os.environ.get("NEED_VALGRIND") != "1":
        pytest.skip("needs valgrind (Debian: apt-get install valgrind)")
    done = subprocess.run([sys.executable, str(BENCH)], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_more_than_a_tenth_above_is_too_much_and_a_figure_without_baseline_is_too(bench: ModuleType) -> None:
    baseline = {"figures": {"client": {"floors": 1.0}, "scoring": {"floors": 2.0}, "start": {"floors": 100.0}}}
    found = {"floor": {"floors": 1.0}, "client": {"floors": 1.099}, "scoring": {"floors": 2.21}, "start": {"floors": 9}}
    assert bench.compare(found, baseline) == ["scoring"]
    assert bench.compare({"new": {"floors": 1.0}}, baseline) == ["new"]


def test_what_is_done_once_is_no_part_of_a_figure_of_two_sizes(bench: ModuleType) -> None:
    one = bench.Counted("client", "a request", (200, 1000))
    counts = {"client=200": 5_000 + 200 * 7, "client=1000": 5_000 + 1000 * 7}
    assert one.of(counts, one) == 7
    planted = one.planted(0.15)
    assert planted.sizes == (200, 1120)
    more = {"client=200": counts["client=200"], "client=1120": 5_000 + 1120 * 7}
    assert planted.of(more, one) == pytest.approx(7 * 1.15)


@pytest.mark.parametrize(("name", "file"), [("bigtom", "bigtom.csv"), ("tomato", "tomato_fb.json")])
def test_labelled_replies_hold_no_words_of_other_peoples_items(name: str, file: str) -> None:
    items = {item.id: item for item in tomserve.load(name, path=data_file(file))}
    rows = [orjson.loads(line) for line in (ROOT / "bench/published.jsonl").read_bytes().splitlines()]
    rows = [row for row in rows if row["kind"] == name]
    assert rows
    for row in rows:
        item = items[row["item"]]
        told = "\n".join((*item.story, item.question, *item.choices))
        for own in (piece for piece in row["text"] if isinstance(piece, str)):
            words = list(re.finditer(r"\w+", own))
            for first, last in zip(words, words[3:], strict=False):
                assert own[first.start() : last.end()] not in told, row["id"]
