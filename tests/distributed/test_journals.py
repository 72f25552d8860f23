"""Packing: a packed run is the same run in a tenth of its room, for all that reads it."""

import shutil
import tracemalloc
from itertools import islice
from pathlib import Path

import orjson
import polars as pl
import pytest

from tests.conftest import Cli, Endpoint
from tests.helpers import parting
from tests.helpers.examples import copied_example, copied_run
from tests.helpers.outcomes import passes, refuses
from tests.helpers.parting import ONCE
from tomserve.content import files
from tomserve.content.files import digest_file
from tomserve.distributed import journals
from tomserve.distributed.merge import merge
from tomserve.errors import ConfigError, JournalError, MachineError
from tomserve.runs.journal import MARK, PackedHeader, journal_path, measure_file, read_chunks, restore_journal
from tomserve.runs.runfolder import RunFolder
from tomserve.runs.scores import read_current_record, score_run, scores_of
from tomserve.runs.verification import seal, verify_run

ITEMS = parting.names(3)


def of_rows(folder: Path, rows: list[bytes]) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return parting.written(folder, ITEMS, rows, complete=True)


def test_the_same_bytes_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "GROUP", 99)
    monkeypatch.setattr("tomserve.runs.journal.BATCH", 10)
    run = copied_example(tmp_path / "runs")
    with (run / "responses.jsonl").open("ab") as journal:
        journal.write(parting.line("a", ONCE, 0, 3, text='\u2028"\\ü\U0001f600', second=1, odd="\x00"))
    before, digest = (run / "responses.jsonl").read_bytes(), digest_file(run / "responses.jsonl")
    done = journals.pack(run)
    assert not (run / "responses.jsonl").exists()
    assert (done.path, done.rows, done.plain) == (run / "responses.parquet", 353, len(before))
    row = orjson.loads(before.split(b"\n")[7])
    assert pl.read_parquet(done.path).row(7, named=True) == {
        **{name: row[name] for name in ("item", "strategy", "turn", "key", "status", "time")},
        "sample": 0,
        "line": before.split(b"\n")[7] + b"\n",
    }
    assert measure_file(run / "responses.jsonl") == digest
    assert journal_path(run).read_bytes() == before
    assert journals.unpack(run).read_bytes() == before
    assert not (run / "responses.parquet").exists()


def test_scores_seals_and_merges_are_those_of_the_plain_run(tmp_path: Path, cli: Cli) -> None:
    run, plain = copied_example(tmp_path / "runs"), copied_run(tmp_path / "runs/plain")
    table = parting.scored(run)
    scores_of(run)
    digest = seal(run).digest
    shown = cli("runs", "example").out
    journals.pack(run)
    assert parting.scored(run) == table
    assert read_current_record(run) is not None  # it is not made again
    assert score_run(run).equals(scores_of(run))
    assert seal(run).digest == digest
    assert all(one.holds for one in islice(verify_run(run), 5))
    assert cli("runs", "example").out == shown
    merged = []
    for name, source in (("of-packed", run), ("of-plain", plain)):
        assert merge((source,), tmp_path / "runs" / name).complete
        merged.append((tmp_path / "runs" / name / "responses.jsonl").read_bytes())
    assert merged[0] == merged[1]


def test_what_adds_rows_unpacks_first_and_says_so(tmp_path: Path, cli: Cli, endpoint: Endpoint) -> None:
    asked = ("eval", "--base-url", endpoint.url, "--run", "mine", "--strategy", "vanilla")
    assert cli(*asked, "--limit", 4).code == 0
    journal = tmp_path / "runs/mine/responses.jsonl"
    before = journal.read_bytes()
    assert cli("pack", "mine").code == 0
    assert not journal.exists()
    passes(cli(*asked, "--limit", 8), "responses.parquet was unpacked, as rows are added")
    assert journal.read_bytes().startswith(before)
    assert len(journal.read_bytes().splitlines()) > len(before.splitlines())
    assert not journal.with_suffix(".parquet").exists()


def test_a_packing_that_is_ended_leaves_the_run_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [parting.line(ITEMS[0], ONCE, 0, n, text="tea", second=n) for n in range(5)]
    run = of_rows(tmp_path / "run", rows)
    with monkeypatch.context() as patched:
        patched.setattr(journals, "_table", lambda rows: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(JournalError, match=r"No space left on device.*as it was"):
            journals.pack(run)
    with monkeypatch.context() as patched:  # it is killed between the last two steps
        patched.setattr(Path, "unlink", lambda path: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            journals.pack(run)
    assert (run / "responses.jsonl").read_bytes() == b"".join(rows)
    assert journal_path(run) == run / "responses.jsonl"
    with RunFolder(run):
        assert not restore_journal(run)
    assert sorted(path.name for path in run.iterdir()) == [".lock", "items.jsonl", "manifest.json", "responses.jsonl"]


def test_a_packed_journal_is_not_removed_for_another_ones_sake(tmp_path: Path, cli: Cli) -> None:
    rows = [parting.line(ITEMS[0], ONCE, 0, n, text="tea", second=n) for n in range(5)]
    run = of_rows(tmp_path / "runs/mine", rows)
    kept = journals.pack(run).path.read_bytes()
    for older in (rows[:2], [*reversed(rows)]):
        (run / "responses.jsonl").write_bytes(b"".join(older))
        for command in ("unpack", "pack"):
            refuses(cli(command, "mine"), "responses.parquet holds answers that responses.jsonl beside it lacks")
        assert (run / "responses.parquet").read_bytes() == kept
    (run / "responses.jsonl").write_bytes(b"".join(rows[:2]))
    refuses(cli("score", "mine"), "move the one away that is not this run's")


def test_what_cannot_be_packed_says_why(tmp_path: Path, cli: Cli) -> None:
    row = parting.line(ITEMS[0], ONCE, 0, 0, text="tea", second=1)
    run = of_rows(tmp_path / "runs/mine", [])
    for rows, said in (
        (row + b"{}\n", r"responses.jsonl:2: not a response row"),
        (row + b'{"half', "ends in half a line"),
        (orjson.dumps({**orjson.loads(row), "turn": 2**63}) + b"\n", r"jsonl:1: turn or sample is out of range"),
    ):
        (run / "responses.jsonl").write_bytes(rows)
        with pytest.raises(ConfigError, match=said):
            journals.pack(run)
    (run / "responses.jsonl").write_bytes(row)
    (run / "manifest.json").write_bytes(orjson.dumps(parting.manifest(complete=False)))
    refuses(cli("pack", "mine"), "is not complete")
    with RunFolder(run), pytest.raises(MachineError, match="in use"):
        journals.pack(run, unfinished=True)
    assert cli("pack", "mine", "--unfinished").code == 0
    assert "is packed already" in cli("pack", "mine", "--unfinished").err
    assert cli("unpack", "mine").code == 0
    assert "is not packed" in cli("unpack", "mine").err


def test_a_packed_file_that_was_changed_or_made_up_is_refused(tmp_path: Path) -> None:
    run = of_rows(tmp_path / "run", [parting.line(ITEMS[0], ONCE, 0, n, text="tea" * 50, second=n) for n in range(50)])
    journals.pack(run)
    path = run / "responses.parquet"
    good, about = pl.read_parquet(path), pl.read_parquet_metadata(path)[MARK]
    bomb = orjson.dumps({"schema": 1, "bytes": 1 << 40, "lines": 1, "digest": "sha256:" + "0" * 64}).decode()
    unpacked, none = "does not hold the journal any more", "holds no journal that tomserve packed"
    for table, record, said in (
        *((table, about, unpacked) for table in (good.head(49), good.reverse(), pl.concat([good, good]))),
        (good, bomb, "more than its own size can"),
        (good, "{", none),
        (good, '{"schema": 1, "bytes": -1, "lines": 1, "digest": "x"}', none),
        (good.drop("line"), about, none),
    ):
        table.write_parquet(path, metadata={MARK: record})
        with pytest.raises(ConfigError, match=said):
            journal_path(run)
    line = pl.Series("line", ["x" * 1_000_000])  # a file of 600 bytes, which would take 200 MB at once
    pl.DataFrame({"line": line.new_from_index(0, 200)}).write_parquet(path, statistics=False, metadata={MARK: about})
    tracemalloc.start()
    with pytest.raises(ConfigError, match=unpacked):
        journal_path(run)
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()
    path.write_bytes(b"PAR1")
    with pytest.raises(ConfigError, match=none):
        journal_path(run)
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(ConfigError, match="symbolic link"):
        journal_path(run)


@pytest.mark.parametrize(("rows", "claimed", "pieces"), [(5, 9 << 20, 5), (4097, 1 << 20, 0)], ids=["few", "past-4-GB"])
def test_long_lines_that_stand_once_in_a_packed_file_are_unpacked_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, claimed: int, pieces: int
) -> None:
    lines = pl.LazyFrame({"line": pl.Series([b"x" * (1 << 20)]).new_from_index(0, rows)})
    about = PackedHeader(bytes=claimed, lines=rows, digest="sha256:" + "0" * 64)
    monkeypatch.setattr(files, "LONGEST_LINE", 2 << 20)
    monkeypatch.setattr(files, "scan_foreign_parquet", lambda _: lines)
    monkeypatch.setattr("tomserve.runs.journal.read_packed_header", lambda _: about)
    found = read_chunks(tmp_path)
    assert [len(piece) for piece in islice(found, pieces)] == [1 << 20] * pieces
    with pytest.raises(ConfigError, match="does not hold the journal any more"):
        next(found)
