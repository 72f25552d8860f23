"""Kept scores and reports: believed for what they were made from and by whom; a run that has grown is scored by its new rows."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT, make_item
from tests.helpers.outcomes import passes
from tomserve import content
from tomserve.content import signatures
from tomserve.content.files import FileSnapshot, digest_file
from tomserve.errors import ConfigError
from tomserve.items import write_items
from tomserve.reporting.html import sources
from tomserve.reporting.html.report import write_report
from tomserve.reporting.html.sources import find_current_report
from tomserve.runs import runfolder
from tomserve.runs import scores as scores_module
from tomserve.runs import scores as table
from tomserve.runs.scores import current_scores, load_scored_run, scores_of
from tomserve.scoring import table as table_module
from tomserve.scoring import version

LONG_AGO = 1_000_000_000


def row(number: int, answer: str = "salt", **fields: Any) -> bytes:
    found = {"schema": 1, "item": f"demo/{number}", "strategy": "vanilla", "turn": 0, "key": "k", "status": "ok"}
    return orjson.dumps({**found, "text": f"Answer: {answer}", **fields}) + b"\n"


def manifest(folder: Path, **changes: Any) -> None:
    strategies = {"vanilla": {"digest": "sha256:0", "chain": False}}
    found = {"schema": 1, "run": "r", "model": "tiny", "benchmark": "demo", "strategies": strategies, "complete": True}
    (folder / "manifest.json").write_bytes(orjson.dumps({**found, **changes}))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of four questions, all answered wrongly ("tea" is right); nothing is computed of it yet."""
    folder = tmp_path / "runs/r"
    folder.mkdir(parents=True)
    write_items(folder / "items.jsonl", [make_item(number) for number in range(1, 5)])
    (folder / "responses.jsonl").write_bytes(b"".join(map(row, range(1, 5))))
    manifest(folder)
    return folder


@pytest.fixture
def scorings(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    found: list[Path] = []
    real = table.write_scores

    def counted(folder: Path, path: Path, **options: Any) -> Any:
        found.append(folder)
        return real(folder, path, **options)

    monkeypatch.setattr(table, "write_scores", counted)
    return found


def aged(folder: Path, when: int = LONG_AGO) -> None:
    """Give every file of the folder, but what was computed of it, that time."""
    for path in folder.iterdir():
        if path.stem != "scores":
            os.utime(path, (when, when))


def right(folder: Path) -> list[bool]:
    return scores_of(folder)["correct"].to_list()


def forge(folder: Path) -> None:
    """A score table in which everything is right, with a record that fits it but for the secret."""
    path = folder / "scores.parquet"
    scores_of(folder).with_columns(correct=pl.lit(True)).write_parquet(path)
    record = orjson.loads((folder / "scores.json").read_bytes())
    record["table"] = runfolder.digest_bytes(path.read_bytes())
    (folder / "scores.json").write_bytes(orjson.dumps(record))
    aged(folder)


# what lies in the folder


def edited(folder: Path) -> None:
    """In place, a digit for a digit, as an editor would that keeps the file's time."""
    path = folder / "responses.jsonl"
    path.write_bytes(path.read_bytes().replace(b"salt", b"tea ", 1))


def other_items(folder: Path) -> None:
    write_items(
        folder / "items.jsonl", [make_item(number, answer="salt" if number == 1 else "tea") for number in range(1, 5)]
    )


@pytest.mark.parametrize("change", [edited, other_items])
def test_what_was_changed_is_scored_again_whatever_its_time(run: Path, change: Callable[[Path], None]) -> None:
    assert right(run) == [False] * 4
    change(run)
    aged(run)
    assert right(run) == [True, False, False, False]
    assert pl.read_parquet(run / "scores.parquet")["correct"].sum() == 1


@pytest.mark.parametrize("when", [LONG_AGO, 4_000_000_000])
def test_what_was_only_touched_is_not_scored_again(run: Path, scorings: list[Path], when: int) -> None:
    first = scores_of(run)
    aged(run, when)
    assert scores_of(run).equals(first)
    assert scorings == [run]
    scores_of(run, fresh=True)
    assert scorings == [run, run]


def test_of_the_manifest_counts_what_is_scored(run: Path, scorings: list[Path]) -> None:
    scores_of(run)
    manifest(run, sessions=[{"time": "2026-01-01T00:00:00Z"}], complete=False)
    scores_of(run)
    assert len(scorings) == 1
    manifest(run, model="other")
    assert set(scores_of(run)["model"]) == {"other"}
    assert scores_of(run)["chain_reason"].null_count() == 4
    manifest(run, model="other", strategies={"vanilla": {"digest": "sha256:0", "chain": True}})
    assert scores_of(run)["chain_proper"].to_list() == [False] * 4
    assert len(scorings) == 3


def test_a_row_that_comes_meanwhile_waits(run: Path, scorings: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    journal, real = run / "responses.jsonl", table.write_score_table
    before = journal.stat().st_size

    def slow(*given: Any, **options: Any) -> None:
        with journal.open("ab") as file:
            file.write(row(1, "tea"))
        real(*given, **options)

    monkeypatch.setattr(table, "write_score_table", slow)
    found = load_scored_run(run)
    assert found.table["correct"].to_list() == [False] * 4
    assert found.record["files"]["responses.jsonl"]["bytes"] == before
    monkeypatch.setattr(table, "write_score_table", real)
    aged(run)
    assert right(run) == [True, False, False, False]
    assert right(run) == [True, False, False, False]
    assert len(scorings) == 2


@pytest.mark.parametrize(("name", "content"), [("responses.jsonl", "other"), ("items.jsonl", "garbage")])
def test_what_is_rewritten_gives_no_table(run: Path, name: str, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real = run / name, table.write_score_table
    lines = path.read_bytes()

    def slow(*given: Any, **options: Any) -> None:
        path.write_bytes(lines.replace(b"salt", b"malt") if content == "other" else b"{" * len(lines))
        real(*given, **options)

    monkeypatch.setattr(table, "write_score_table", slow)
    with pytest.raises(ConfigError, match=name):
        scores_of(run)
    assert not list(run.glob("*scores*"))
    monkeypatch.setattr(table, "write_score_table", real)
    path.write_bytes(lines)
    assert right(run) == [False] * 4


def test_a_copied_run_takes_its_scores_along(run: Path, scorings: list[Path], tmp_path: Path) -> None:
    scores_of(run)
    same, other = tmp_path / "elsewhere/r", tmp_path / "runs/other"
    for place in (same, other):
        shutil.copytree(run, place)  # with the times, as `cp -p`
    assert set(scores_of(same)["run"]) == {"r"}
    assert scorings == [run]
    assert set(scores_of(other)["run"]) == {"other"}  # the name is a column of the table
    assert scorings == [run, other]


def test_a_run_without_answers_and_a_broken_record_are_no_obstacle(run: Path, scorings: list[Path]) -> None:
    scores_of(run)
    for text in (b"", b"[]", b"{}", b'{"seal": 1}', b"\xff", b" " * (signatures.LONGEST_RECORD + 1), b'{"a":' * 5000):
        (run / "scores.json").write_bytes(text)
        assert right(run) == [False] * 4
    assert len(scorings) == 8
    (run / "responses.jsonl").unlink()
    assert scores_of(run).is_empty()


# who made it


def test_no_command_believes_a_forged_table(run: Path, cli) -> None:
    forge(run)
    assert pl.read_parquet(run / "scores.parquet")["correct"].all()
    done = passes(cli("analyze", "r", "--format", "csv", "--study", "accuracy"))
    assert pl.read_csv(StringIO(done.out.split("\n\n")[0]), comment_prefix="#")["correct"].to_list() == [0]
    forge(run)
    assert "0 of 4 right" in write_report([str(run)]).read_text()
    assert right(run) == [False] * 4


def test_a_forger_with_a_key_of_his_own_is_not_believed(
    run: Path, scorings: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scores_of(run)
    with monkeypatch.context() as theirs:
        theirs.setenv("XDG_STATE_HOME", str(tmp_path / "their-state"))
        scores_of(run).with_columns(correct=pl.lit(True)).write_parquet(run / "scores.parquet")
        forged = runfolder.ScoreSources.of_run(run).with_files(
            (name, *digest_file(run / name)) for name in ("responses.jsonl", "items.jsonl")
        )
        runfolder.keep_table_record(run / "scores.parquet", forged.record((run / "scores.parquet").read_bytes()))
        assert right(run) == [True] * 4  # with that key it holds
    assert right(run) == [False] * 4
    assert len(scorings) == 3


def test_without_its_key_nothing_is_believed_and_a_new_key_is_made(run: Path, scorings: list[Path]) -> None:
    key = Path(os.environ["XDG_STATE_HOME"]) / "tomserve/key"
    scores_of(run)
    first = key.read_bytes()
    assert (len(first), key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o777) == (32, 0o600, 0o700)
    key.unlink()
    scores_of(run)
    assert len(scorings) == 2
    assert key.read_bytes() != first
    scores_of(run)
    assert len(scorings) == 2
    key.chmod(0o644)  # others can have read it
    scores_of(run)
    assert len(scorings) == 3
    key.chmod(0o600)
    key.write_bytes(b"")
    scores_of(run)
    assert len(scorings) == 4


def test_where_no_key_can_be_kept_scores_are_made_every_time(
    run: Path, scorings: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert right(run) == right(run) == [False] * 4
    assert len(scorings) == 2
    assert not (run / "scores.json").exists()
    assert (run / "scores.parquet").exists()


def test_the_state_folder_is_the_users(run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # which would be wherever somebody stands
    monkeypatch.chdir(run)
    scores_of(run)
    assert (tmp_path / "home/.local/state/tomserve/key").exists()
    assert not (run / "relative").exists()


# by what


def test_another_scorer_makes_the_table_again(run: Path, scorings: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    scores_of(run)
    monkeypatch.setattr(version, "SCORER", "tomserve 9")
    assert load_scored_run(run).record["scorer"] == "tomserve 9"
    scores_of(run)
    assert len(scorings) == 2


def test_the_scorer_is_named_by_its_code(tmp_path: Path) -> None:
    package = tmp_path / "scoring"
    shutil.copytree(ROOT / "tomserve/scoring", package)
    first = content.code_digest([package])
    (package / "notes.txt").write_text("no code")
    assert content.code_digest([package]) == content.code_digest([ROOT / "tomserve/scoring"]) == first
    text = (package / "answers.py").read_text()
    (package / "answers.py").write_text(text + "\n")
    assert content.code_digest([package]) != first
    (package / "answers.py").write_text(text)
    (package / "answers.py").rename(package / "other.py")
    assert content.code_digest([package]) != first
    assert content.code_digest([ROOT / "tomserve" / name for name in version.CODE]) in version.SCORER


@pytest.mark.system
def test_all_code_that_scoring_loads_is_in_the_scorers_name_or_makes_no_score() -> None:
    """What is only loaded by way of `items` and `benchmarks`, and reads stages, finds files, tells variants of items
    before they are asked, or names errors."""
    makes_none = {"_version", "content", "engine", "errors", "prompting", "runs", "variants", "status"}
    script = (
        "import sys, tomserve.runs.scores\n"
        "from tomserve import benchmarks\n"
        "for name in benchmarks.names(): benchmarks.get(name)\n"
        "print(*(name for name in sys.modules if name.startswith('tomserve.')))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    named = {Path(name).stem for name in version.CODE}
    assert {name.split(".")[1] for name in loaded} - named == makes_none


# several at once


def test_all_who_come_first_get_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        list(
            pool.map(lambda number: signatures.write_record(tmp_path / f"{number}.json", {"number": number}), range(64))
        )
    assert [signatures.read_record(tmp_path / f"{number}.json") for number in range(64)] == [
        {"number": n} for n in range(64)
    ]
    assert [path.name for path in (Path(os.environ["XDG_STATE_HOME"]) / "tomserve").iterdir()] == ["key"]


# files as long as they were


def test_a_pinned_file_ends_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one\n\ntwo")
    file = FileSnapshot(path)
    with path.open("ab") as more:
        more.write(b" and more\nthree\n")
    assert list(file.lines()) == [(1, 0, b"one\n"), (2, 4, b"\n"), (3, 5, b"two")]
    assert (file.line(0), file.line(5)) == (b"one\n", b"two")
    assert file.is_unchanged()
    assert (file.size, file.digest) == (8, runfolder.digest_bytes(b"one\n\ntwo"))
    assert digest_file(path) == (24, runfolder.digest_bytes(path.read_bytes()))
    path.write_bytes(b"one\n\ntwO")
    assert not file.is_unchanged()
    path.write_bytes(b"one\n")
    assert not file.is_unchanged()
    assert list(FileSnapshot(path, size=2).lines()) == [(1, 0, b"on")]
    shorter = FileSnapshot(path)
    os.truncate(path, 2)
    assert list(shorter.lines()) == [(1, 0, b"on")]
    assert (shorter.size, shorter.digest) == digest_file(path)


# reports


def test_a_report_stands_as_long_as_it_would_be_made_the_same(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_current_report(run) is None
    path = write_report([str(run)])
    assert find_current_report(run) == path
    aged(run)
    assert find_current_report(run) == path
    manifest(run, complete=False)
    assert find_current_report(run) is None  # the page shows the whole manifest
    manifest(run)
    assert find_current_report(run) == path
    path.write_text(path.read_text().replace("0 of 4 right", "4 of 4 right"))
    aged(run)
    assert find_current_report(run) is None
    write_report([str(run)], labels=["r=Mine"], intervals="published")
    assert find_current_report(run) == path, "what its user wished for is kept"
    write_report([str(run)], run.parent / "elsewhere.html")
    assert find_current_report(run) == path
    edited(run)
    aged(run)
    assert find_current_report(run) is None
    path.unlink()
    scores_of(run)
    assert find_current_report(run) is None


def test_a_report_of_another_study_or_code_is_old(run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = tmp_path / "content/analysis"
    shutil.copytree(ROOT / "analysis", own, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("TOMSERVE_CONTENT", str(own.parent))
    path = write_report([str(run)])
    assert find_current_report(run) == path
    text = (own / "accuracy.py").read_text()
    (own / "accuracy.py").write_text(text + "\n")
    assert find_current_report(run) is None
    (own / "accuracy.py").write_text(text)
    assert find_current_report(run) == path
    monkeypatch.setattr("tomserve.reporting.html.sources._CODE", "sha256:other")
    assert find_current_report(run) is None
    write_report([str(run)], study=str(own / "accuracy.py"))
    assert find_current_report(run) is None, "a study given by path is not looked for again"


def test_a_report_shows_the_rows_that_were_scored(run: Path) -> None:
    (source,), _ = sources.load_sources([str(run)], [], None)
    with (run / "responses.jsonl").open("ab") as journal:
        journal.write(row(1, "tea"))
    assert [answer["text"] for _, answer in source.answers()] == ["Answer: salt"] * 4
    edited(run)
    with pytest.raises(ConfigError, match=r"responses\.jsonl: was changed while it was read; repeat the command"):
        list(source.answers())


TEXTS = ("tea", "Answer: salt", '{"beliefs": ["tea"], "answer": "tea"}', '{"beliefs": ["salt"], "answer": "tea"}', "")
GOLD = {"sets": [["tea"], ["tea"]]}


def line(item: int, strategy: str = "vanilla", text: str | None = "tea", **more: Any) -> bytes:
    row = {"schema": 1, "item": f"demo/{item}", "strategy": strategy, "turn": 0, "key": "k", "status": "ok"}
    return orjson.dumps({**row, "text": text, **more}) + b"\n"


def make_run(folder: Path, *lines: bytes, **manifest: Any) -> Path:
    folder.mkdir(parents=True)
    story = {"story": ["a", "b"], "gold": GOLD}
    write_items(folder / "items.jsonl", [make_item(number, **story) for number in range(1, 7)])
    strategies = {"vanilla": {"digest": "d", "chain": False}, "cot": {"digest": "d", "chain": True}}
    found = {"schema": 1, "run": "r", "model": "tiny", "benchmark": "demo", "strategies": strategies, "complete": True}
    (folder / "manifest.json").write_bytes(orjson.dumps({**found, **manifest}))
    (folder / "responses.jsonl").write_bytes(b"".join(lines))
    return folder


def grow(folder: Path, *lines: bytes) -> None:
    with (folder / "responses.jsonl").open("ab") as file:
        file.writelines(lines)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offset in the journal from which each scoring read."""
    found: list[int] = []
    real = scores_module.write_scores

    def noted(folder: Path, path: Path, *, before: Any = None, **options: Any) -> Any:
        found.append(0 if before is None else before.mark.size)
        return real(folder, path, before=before, **options)

    monkeypatch.setattr(scores_module, "write_scores", noted)
    return found


def from_scratch(folder: Path, place: Path) -> tuple[bytes, dict[str, Any]]:
    """The table and the record of a copy of the run that has none yet."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place / folder.name, ignore=shutil.ignore_patterns("scores.*"))
    record = load_scored_run(place / folder.name).record
    return (place / folder.name / "scores.parquet").read_bytes(), dict(record)


rows = st.builds(
    line,
    st.integers(1, 8),  # two of them are unknown
    st.sampled_from(["vanilla", "cot"]),
    st.sampled_from(TEXTS),
    status=st.sampled_from(["ok", "ok", "timeout", "length"]),
    model=st.sampled_from(["tiny", "other"]),
)
others = st.sampled_from(
    [b"{\n", b"\n", b"[1]\n", line(1, turn=1), line(2, sample=1), line(3, closes=1), line(3, text=None)]
)
journals = st.lists(st.one_of(rows, rows, rows, rows, others), max_size=14)


@settings(max_examples=12, deadline=None)
@given(st.lists(journals, min_size=2, max_size=4), st.sampled_from([3, 10_000]))
def test_growing_equals_scoring_from_scratch(tmp_path_factory, steps: list[list[bytes]], part: int) -> None:
    place = tmp_path_factory.mktemp("grown")
    folder = make_run(place / "runs/r", line(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_module, "PART", part)
        for step in steps:
            grow(folder, *step)
            found = load_scored_run(folder)
            table, record = from_scratch(folder, place / "afresh")
            assert (folder / "scores.parquet").read_bytes() == table
            assert found.record == record
            assert load_scored_run(folder).record == record  # and the table holds


def test_only_the_new_rows_are_read(tmp_path: Path, starts: list[int]) -> None:
    folder = make_run(tmp_path / "runs/r", line(1), line(2, text="salt"))
    size = (folder / "responses.jsonl").stat().st_size
    assert scores_of(folder)["correct"].to_list() == [True, False]
    grow(folder, line(2), line(3))
    assert scores_of(folder)["correct"].to_list() == [True, True, True]
    assert scores_of(folder)["item"].to_list() == ["demo/1", "demo/2", "demo/3"]
    assert starts == [0, size]


def cut(folder: Path) -> None:
    (folder / "responses.jsonl").write_bytes(line(1))
    grow(folder, line(3, text="salt"), line(4), line(5))


def edited_and_grown(folder: Path) -> None:
    edited(folder)
    grow(folder, line(3))


def other_item(folder: Path) -> None:
    story = {"story": ["a", "b"], "gold": GOLD, "answer": "salt"}
    write_items(folder / "items.jsonl", [make_item(number, **story) for number in range(1, 7)])
    grow(folder, line(3))


def checked_for_noise(folder: Path) -> None:
    (folder / "noise.jsonl").write_bytes(line(1, concurrency=1))
    grow(folder, line(3))


def forged(folder: Path) -> None:
    path = folder / "scores.parquet"
    pl.read_parquet(path).with_columns(correct=pl.lit(False)).write_parquet(path)
    grow(folder, line(3))


@pytest.mark.parametrize("change", [cut, edited_and_grown, other_item, checked_for_noise, forged])
def test_whatever_else_has_changed_is_scored_anew(tmp_path: Path, change) -> None:
    folder = make_run(tmp_path / "runs/r", line(1), line(2, text="salt"))
    scores_of(folder)
    change(folder)
    found = scores_of(folder)
    assert found.equals(pl.read_parquet(from_scratch(folder, tmp_path / "afresh")[0]))


def test_a_line_that_was_torn_and_is_completed_is_scored_anew(tmp_path: Path, starts: list[int]) -> None:
    folder = make_run(tmp_path / "runs/r", line(1), line(2)[:20])
    assert scores_of(folder).height == 1
    grow(folder, line(2)[20:])
    assert scores_of(folder).height == 2
    assert starts == [0, 0]


def test_what_cannot_be_read_is_told_each_time_with_its_line_in_the_whole_file(tmp_path: Path, cli) -> None:
    folder = make_run(tmp_path / "runs/r", line(1), b"{\n", line(2))
    assert "1 lines not read: 1 not JSON (line 2)" in cli("score", folder).err
    grow(folder, line(3), b"{\n", line(77))
    said = "3 lines not read: 2 not JSON (line 2), 1 of unknown items (line 6)"
    done = cli("score", folder)
    assert said in done.err
    assert "3 rows scored, 3 correct" in done.out
    notes: list[str] = []
    assert current_scores(folder, note=notes.append).height == 3
    assert said in notes[0]


def test_a_row_without_a_status_is_named_by_its_line_in_the_whole_file(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "runs/r", line(1), line(2))
    scores_of(folder)
    before = (folder / "scores.parquet").read_bytes()
    grow(folder, line(3), line(4, status=7))
    with pytest.raises(ConfigError, match=r"responses\.jsonl:4: field 'status' is 7"):
        scores_of(folder)
    assert (folder / "scores.parquet").read_bytes() == before
