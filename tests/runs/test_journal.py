"""The journal and the run folder: what was written is never lost or changed, found again, and a run has one writer.
Runs are found by name, also in folders below runs/, and a name never leads out of it."""

import os
import random
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.helpers.asking import SCHEMA, row
from tomserve.content import compact_index
from tomserve.content.compact_index import Index
from tomserve.content.paths import run_name
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.errors import ConfigError, JournalError, MachineError, RunMismatchError
from tomserve.prompting.conversation import Turn
from tomserve.runs import journal
from tomserve.runs.journal import Journal, read_rows
from tomserve.runs.manifest import Manifest
from tomserve.runs.planning import EvalOptions, make_plan
from tomserve.runs.runfolder import RunFolder, find_run, newest_first, run_path, runs_below


def test_the_key_says_what_was_sent_and_nothing_else() -> None:
    def key(**changes) -> str:
        fields = {"identity": Identity("a", "s", 0), "model": "m", "revision": "r", "sampling": Sampling(), **changes}
        turn = fields.pop("turn", Turn(({"role": "user", "content": "q"},), SCHEMA, 16))
        return Request.build(fields.pop("identity"), turn, **fields).key

    assert key() == key(identity=Identity("b", "t", 1))
    other = [
        key(model="n"),
        key(revision=None),
        key(sampling=Sampling(seed=1)),
        key(turn=Turn(({"role": "user", "content": "Q"},), SCHEMA, 16)),
        key(turn=Turn(({"role": "user", "content": "q"},), {}, 16)),
        key(turn=Turn(({"role": "user", "content": "q"},), SCHEMA, 17)),
    ]
    assert len({key(), *other}) == 7


def test_a_torn_last_line_is_moved_aside(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    with Journal(path) as journal:
        journal.append(row("a"))
        journal.append(row("b"))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"item": "c", "stra')
    with Journal(path) as journal:
        assert journal.torn is not None
        assert journal.torn.read_bytes() == b'{"item": "c", "stra'
        assert path.read_bytes() == whole
        journal.append(row("c"))
    assert [r["item"] for _, r in read_rows(path)] == ["a", "b", "c"]


def test_every_cut_of_a_journal_can_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    with Journal(path) as journal:
        for name in "ab":
            journal.append(row(name, text="é"))
    whole = path.read_bytes()
    for end in (*range(0, len(whole) - 2, 7), *range(len(whole) - 2, len(whole) + 1)):
        path.write_bytes(whole[:end])
        with Journal(path) as journal:
            assert len(journal.final) == whole[:end].count(b"\n")


def test_an_edited_line_is_refused_by_number(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    path.write_bytes(orjson.dumps(row("a")) + b'\n{"item": 3}\n' + orjson.dumps(row("b")) + b"\n")
    with pytest.raises(ConfigError, match=r"responses.jsonl:2: not a response row \(field 'strategy' is missing\)"):
        Journal(path)
    for field, value in (("item", ["a"]), *(("status", found) for found in (5, None, ["ok"], ""))):
        path.write_bytes(orjson.dumps({**row("a"), field: value}) + b"\n")
        said = re.escape(f"responses.jsonl:1: not a response row (field {field!r} is {value!r})")
        with pytest.raises(ConfigError, match=said):
            Journal(path)
    path.write_bytes(orjson.dumps(row("a")) + b"\nnot json\n")
    with pytest.raises(ConfigError, match=r"responses.jsonl:2: not JSON"):
        Journal(path)


def test_only_final_rows_are_final_and_found_by_key(tmp_path: Path) -> None:
    with Journal(tmp_path / "responses.jsonl") as journal:
        for status in ("timeout", "connection", "malformed", "http_503", "http_429"):
            journal.append(row(status, status))
        assert not journal.final
        journal.append(row("x", "http_400", text="y" * 100_000))
        assert len(journal.final) == 1
        assert Identity("x", "s", 0) in journal.final
        assert journal.find("k-x")["text"] == "y" * 100_000
        assert journal.find("k-timeout") is None
        for status in ("refusal", "ok", "refusal"):
            journal.append(row("asked again", status))
        assert journal.find("k-asked again")["status"] == "ok"


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal(tmp_path / "responses.jsonl") as journal:
        journal.append(row("a"))
        real = os.write
        monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:10]))
        with pytest.raises(JournalError, match="free space and resume"):
            journal.append(row("b"))
        monkeypatch.undo()
        journal.append(row("c"))
    assert [r["item"] for _, r in read_rows(journal.path)] == ["a", "c"]


# the run folder


def test_one_writer_a_run(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "r"), pytest.raises(MachineError, match=f"pid {os.getpid()}"):
        RunFolder(tmp_path / "r")
    with RunFolder(tmp_path / "r"):
        pass


def test_the_first_difference_is_named(tmp_path: Path) -> None:
    old = {"benchmark": "b", "benchmark_digest": "d", "model": "m", "revision": None, "sampling": {"seed": 0}}
    old["strategies"] = {"cot": {"digest": "1", "max_tokens": 5}}
    old["schema"] = 1

    def go_on(new: dict, asked: set[str]) -> None:
        Manifest.model_validate(new).take_over(Manifest.model_validate(old), tmp_path, asked)

    go_on({**old, "strategies": {"cot": {"digest": "1", "max_tokens": 5}, "new": {}}}, {"cot"})
    go_on({**old, "model": "n"}, set())  # nothing asked yet: nothing fixed
    for change, text in [
        ({"model": "n"}, "model of this run is m, now it would be n; use --run NEW"),
        ({"sampling": {"seed": 1}}, "sampling of this run"),
        ({"strategies": {"cot": {"digest": "2", "max_tokens": 5}}}, "strategy 'cot', digest was 1"),
    ]:
        with pytest.raises(RunMismatchError, match=text):
            go_on({**old, **change}, {"cot"})


def test_appends_reach_the_file_at_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "responses.jsonl")
    journal.append(row("a"))
    assert len(list(read_rows(journal.path))) == 1  # before any sync or close: kill -9 loses nothing
    journal.close()


ROW: dict[str, Any] = {"item": "a", "strategy": "cot", "turn": 0, "key": "k" * 32, "status": "ok", "text": "“tea”\n"}


@pytest.mark.parametrize("marks", [{}, {"concurrency": 4}, {"text": "marked"}])
@pytest.mark.parametrize("row", [ROW, {"schema": 1, **ROW}, {**ROW, "schema": 2, "reused": True}])
def test_a_line_is_the_row_with_schema_and_marks(marks: dict[str, Any], row: dict[str, Any], tmp_path: Path) -> None:
    with Journal(tmp_path / "responses.jsonl", marks) as journal:
        journal.append(row)
        journal.append({**row, "item": "b"})
    first, second = (tmp_path / "responses.jsonl").read_bytes().splitlines()
    assert first == orjson.dumps({"schema": 1, **row, **marks})
    assert orjson.loads(second)["item"] == "b"


def test_what_failed_is_known_until_it_is_answered(tmp_path: Path) -> None:
    identity = Identity("a", "cot", 0)
    with Journal(tmp_path / "responses.jsonl") as journal:
        for status, failed, final in (
            *(("http_500", True, False), ("timeout", True, False), ("ok", False, True)),
            ("refusal", True, True),
        ):
            journal.append({**ROW, "status": status})
            assert journal.failed == ({identity: status} if failed else {})
            assert (identity in journal.final) == final
    with Journal(tmp_path / "responses.jsonl") as journal:
        assert (journal.failed, journal.asked) == ({identity: "refusal"}, {"cot"})


WELL: dict[str, Any] = {"item": "a", "strategy": "s", "turn": 0, "key": "k", "status": "ok"}


STRANGE = (None, 0, 1.5, True, "", "x", [], {}, ["ok"])


def test_rows_are_checked_alike_by_the_short_and_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome(line: bytes) -> object:
        try:
            return journal.parse_row(Path("r.jsonl"), 1, line)
        except ConfigError as error:
            return str(error)

    rows = [{**WELL, name: value} for name in (*WELL, "sample", "closes", "conclusion", "other") for value in STRANGE]
    rows += [{name: value for name, value in WELL.items() if name != left} for left in WELL]
    lines = [orjson.dumps(row) for row in rows]
    short = [outcome(line) for line in lines]
    monkeypatch.setattr(journal, "_TYPES", ())
    assert [outcome(line) for line in lines] == short
    assert {type(one) for one in short} >= {str}, "some are refused"


@pytest.mark.parametrize("many", [10, 10_000])
def test_the_index_agrees_with_a_dictionary(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact_index, "MANY", many)
    source = random.Random(0)
    index, plain = Index(), {}
    for number in range(5_000):
        key = source.choice([("a", 0), ("b", number), source.getrandbits(8), str(source.getrandbits(8))])
        index.add(key, number)
        plain.setdefault(key, []).append(number)
        if number < 2_000 and not number % 37:
            assert list(index.get(key)) == plain[key]
    assert len(index) == 5_000
    assert all(list(index.get(key)) == values for key, values in plain.items())
    assert ("a", 0) in index
    assert ("a", 1) not in index
    assert not list(index.get(12345))


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOMSERVE_RUNS", "runs")
    return Path("runs")


def made(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "manifest.json").write_bytes(orjson.dumps({"schema": 1}))
    return path


PATHS = {
    **{"mine": "runs/mine", "pilot/first": "runs/pilot/first", "pilot/first/": "runs/pilot/first"},
    **{"a/b/c": "runs/a/b/c", "runs/mine": "runs/mine", "runs/pilot/first": "runs/pilot/first"},
    **{"./pilot/first": "pilot/first", "../elsewhere/first": "../elsewhere/first", "/data/first": "/data/first"},
}


def test_a_name_with_slashes_is_a_folder_below_the_runs() -> None:
    assert {name: str(run_path(name)) for name in PATHS} == PATHS


def test_no_name_leads_out_of_the_runs() -> None:
    for name in ("a/../../b", "a/..", "runs/../b", "a/./.hidden", "a/-x", "a/b c", "a/b\0", "."):
        with pytest.raises(ConfigError, match=r"begin it with \./ or /"):
            run_path(name)


def test_a_run_of_the_working_directory_is_meant_only_where_there_is_none_of_that_name(runs: Path) -> None:
    made(Path("other/first"))
    assert run_path("other/first") == Path("other/first")
    made(runs / "other/first")
    assert run_path("other/first") == runs / "other/first"
    assert find_run("./other/first") == Path("other/first")


def test_runs_in_folders_are_listed_and_named(runs: Path, tmp_path: Path) -> None:
    for name in ("b", "a/y", "a/x", "b/inside", ".servers/no"):
        made(runs / name)
    (runs / "empty").mkdir()
    elsewhere = made(tmp_path / "disk/kept")
    (runs / "linked").symlink_to(elsewhere)
    (runs / "loop").symlink_to(runs.absolute())
    made(runs / "/".join("d" * 101))
    assert [path.as_posix() for path in runs_below(runs)] == ["runs/a/x", "runs/a/y", "runs/b", "runs/linked"]
    assert set(newest_first()) == set(runs_below(runs))
    assert [run_name(runs / "a/x"), run_name(runs / "b"), run_name(elsewhere)] == ["a/x", "b", "kept"]
    with pytest.raises(ConfigError, match=r"did you mean 'a/x'\?.*Known: a/x, a/y, b, linked"):
        find_run("a/xx")


def test_no_run_is_made_in_another_or_around_others(runs: Path) -> None:
    made(runs / "a")
    made(runs / "b/c")
    with pytest.raises(ConfigError, match=r"lies in .*runs/a, which is a run itself"):
        RunFolder(runs / "a/new")
    with pytest.raises(ConfigError, match="holds other runs, such as c"):
        RunFolder(runs / "b")
    assert not (runs / "a/new").exists()
    with RunFolder(runs / "b/c"), RunFolder(runs / "b/new"):
        pass


def test_one_text_is_not_taken_for_several() -> None:
    with pytest.raises(ConfigError, match=r"base_urls is the text 'http://a/v1'; expected a list of texts"):
        make_plan(EvalOptions(base_urls="http://a/v1"))  # type: ignore[arg-type]
