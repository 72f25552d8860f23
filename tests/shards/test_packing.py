"""Packing: a packed run is the same run in a tenth of its room, for all that reads it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import orjson
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tomserve
from tests.conftest import Endpoint, Outcome
from tests.helpers import parting
from tests.helpers.examples import copied_example, copied_run
from tests.helpers.parting import ONCE
from tomserve.errors import ConfigError, JournalError, MachineError, StoppedError
from tomserve.runs import kept, packed
from tomserve.runs.runfolder import RunFolder
from tomserve.runs.scores import score_run, scores_of
from tomserve.runs.sealing import seal
from tomserve.runs.stopping import Stop
from tomserve.runs.verifying import findings
from tomserve.scoring.pinned import measured
from tomserve.shards import packing
from tomserve.shards.merging import merge

Cli = Callable[..., Outcome]

ITEMS = parting.names(3)


def of_rows(folder: Path, rows: list[bytes]) -> Path:
    """A run that holds these rows."""
    shutil.rmtree(folder, ignore_errors=True)
    return parting.written(folder, ITEMS, rows, complete=True)


def test_the_same_bytes_come_back(tmp_path: Path) -> None:
    run = copied_example(tmp_path / "runs")
    before = (run / "responses.jsonl").read_bytes()
    done = packing.pack(run)
    assert not (run / "responses.jsonl").exists()
    assert done.path == run / "responses.parquet"
    assert (done.rows, done.plain, done.packed) == (352, len(before), done.path.stat().st_size)
    assert done.ratio > 4
    table = pl.read_parquet(done.path)
    row = orjson.loads(before.splitlines()[7])
    assert table.row(7, named=True) == {
        **{name: row[name] for name in ("item", "strategy", "turn", "key", "status", "time")},
        "sample": 0,
        "line": before.splitlines(keepends=True)[7],
    }
    assert packed.measure(run / "responses.jsonl") == (len(before), measured_of(before, tmp_path))
    assert packed.journal(run).read_bytes() == before
    assert packed.journal(run) == packed.journal(run)  # it is unpacked once
    assert packing.unpack(run).read_bytes() == before
    assert not (run / "responses.parquet").exists()


def measured_of(content: bytes, folder: Path) -> str:
    (folder / "content").write_bytes(content)
    return measured(folder / "content")[1]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@settings(max_examples=15)
@given(texts=st.lists(TEXTS, max_size=12), group=st.integers(1, 5))
def test_any_rows_come_back(tmp_path_factory: pytest.TempPathFactory, texts: list[str], group: int) -> None:
    rows = [parting.line(ITEMS[0], ONCE, 0, n, text=text, second=n, odd=text) for n, text in enumerate(texts)]
    run = of_rows(tmp_path_factory.mktemp("any") / "run", rows)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(packing, "GROUP", group)
        patched.setattr(packed, "BATCH", 2)
        packing.pack(run)
        assert b"".join(packed.chunks(run / "responses.parquet")) == b"".join(rows)
        assert packing.unpack(run).read_bytes() == b"".join(rows)


def test_scores_seals_and_merges_are_those_of_the_plain_run(tmp_path: Path, cli: Cli) -> None:
    run = copied_example(tmp_path / "runs")
    table = parting.scored(run)
    scores_of(run)
    record = kept.recorded(run / "scores.parquet")
    digest = seal(run).digest
    plain = cli("runs", "example").out
    packing.pack(run)
    assert parting.scored(run) == table
    assert kept.believed(run / "scores.parquet") is not None  # it is not made again
    assert score_run(run).equals(scores_of(run))
    assert kept.recorded(run / "scores.parquet") == record
    assert seal(run).digest == digest
    assert [(one.what, one.holds) for one in findings(run)][:5] == [
        *[(what, True) for what in ("rows", "prompts", "questions", "scores", "seal")]
    ]
    assert cli("runs", "example").out == plain
    assert tomserve.Run.open("example").failures == {}
    plain_copy = copied_run(tmp_path / "runs/plain")
    for name, source in (("of-packed", run), ("of-plain", plain_copy)):
        assert merge((source,), tmp_path / "runs" / name).complete
    merged = [(tmp_path / "runs" / name / "responses.jsonl").read_bytes() for name in ("of-packed", "of-plain")]
    assert merged[0] == merged[1]


def test_what_adds_rows_unpacks_first_and_says_so(tmp_path: Path, cli: Cli, endpoint: Endpoint) -> None:
    asked = ("eval", "--base-url", endpoint.url, "--run", "mine", "--strategy", "vanilla")
    assert cli(*asked, "--limit", 4).code == 0
    journal = tmp_path / "runs/mine/responses.jsonl"
    before = journal.read_bytes()
    assert cli("pack", "mine").code == 0
    assert not journal.exists()
    more = cli(*asked, "--limit", 8)
    assert more.code == 0
    assert "responses.parquet was unpacked, as rows are added" in more.out
    assert journal.read_bytes().startswith(before)
    assert len(journal.read_bytes().splitlines()) > len(before.splitlines())
    assert not journal.with_suffix(".parquet").exists()


def test_a_packing_that_is_ended_leaves_the_run_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [parting.line(ITEMS[0], ONCE, 0, n, text="tea", second=n) for n in range(5)]
    run = of_rows(tmp_path / "run", rows)
    stop = Stop()
    stop.set()
    with pytest.raises(StoppedError):
        packing.pack(run, stop=stop)
    with monkeypatch.context() as patched:
        patched.setattr(packing, "_table", lambda rows: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(JournalError, match=r"No space left on device.*as it was"):
            packing.pack(run)
    with monkeypatch.context() as patched:  # it is killed between the last two steps
        patched.setattr(Path, "unlink", lambda path: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            packing.pack(run)
    assert (run / "responses.jsonl").read_bytes() == b"".join(rows)
    assert packed.journal(run) == run / "responses.jsonl"
    with RunFolder(run):
        assert not packed.restore(run)
    assert sorted(path.name for path in run.iterdir()) == [".lock", "items.jsonl", "manifest.json", "responses.jsonl"]


def test_what_cannot_be_packed_says_why(tmp_path: Path, cli: Cli) -> None:
    rows = [parting.line(ITEMS[0], ONCE, 0, 0, text="tea", second=1)]
    run = of_rows(tmp_path / "runs/mine", [*rows, b"{}\n"])
    with pytest.raises(ConfigError, match=r"responses.jsonl:2: not a response row"):
        packing.pack(run)
    (run / "responses.jsonl").write_bytes(rows[0] + b'{"half')
    with pytest.raises(ConfigError, match="ends in half a line"):
        packing.pack(run)
    (run / "responses.jsonl").write_bytes(orjson.dumps({**orjson.loads(rows[0]), "turn": 2**63}) + b"\n")
    with pytest.raises(ConfigError, match=r"responses.jsonl:1: turn or sample is out of range"):
        packing.pack(run)
    (run / "responses.jsonl").write_bytes(rows[0])
    (run / "manifest.json").write_bytes(orjson.dumps(parting.manifest(complete=False)))
    refused = cli("pack", "mine")
    assert (refused.code, "is not complete" in refused.err) == (2, True)
    with RunFolder(run), pytest.raises(MachineError, match="in use"):
        packing.pack(run, unfinished=True)
    assert cli("pack", "mine", "--unfinished").code == 0
    assert "is packed already" in cli("pack", "mine", "--unfinished").err
    assert cli("unpack", "mine").code == 0
    assert "is not packed" in cli("unpack", "mine").err


def test_a_packed_file_that_was_changed_or_made_up_is_refused(tmp_path: Path) -> None:
    rows = [parting.line(ITEMS[0], ONCE, 0, n, text="tea" * 50, second=n) for n in range(50)]
    run = of_rows(tmp_path / "run", rows)
    packing.pack(run)
    path = run / "responses.parquet"
    good, about = pl.read_parquet(path), pl.read_parquet_metadata(path)[packed.MARK]
    for table in (good.head(49), good.reverse(), pl.concat([good, good])):
        table.write_parquet(path, metadata={packed.MARK: about})
        with pytest.raises(ConfigError, match=r"responses.parquet: does not hold the journal any more"):
            packed.journal(run)
    bomb = orjson.dumps({"schema": 1, "bytes": 1 << 40, "lines": 1, "digest": "sha256:" + "0" * 64}).decode()
    good.write_parquet(path, metadata={packed.MARK: bomb})
    with pytest.raises(ConfigError, match="more than its own size can"):
        packed.journal(run)
    for text in ("{", '{"schema": 1}', '{"schema": 1, "bytes": -1, "lines": 1, "digest": "x"}'):
        good.write_parquet(path, metadata={packed.MARK: text})
        with pytest.raises(ConfigError, match="holds no journal that tomserve packed"):
            packed.journal(run)
    good.drop("line").write_parquet(path, metadata={packed.MARK: about})
    with pytest.raises(ConfigError, match="holds no journal that tomserve packed"):
        packed.journal(run)
    for junk in (b"", b"PAR1", b"junk" * 100):
        path.write_bytes(junk)
        with pytest.raises(ConfigError, match="holds no journal that tomserve packed"):
            packed.journal(run)
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(ConfigError, match="symbolic link"):
        packed.journal(run)
