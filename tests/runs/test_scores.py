"""Kept scores and reports: found by what they were made from; the copy in a run's folder is never believed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest

from tests.conftest import ROOT, make_item
from tests.helpers.outcomes import passes
from tomserve import benchmarks, content
from tomserve.content import cache
from tomserve.content.files import FileSnapshot, digest_bytes, digest_file
from tomserve.errors import ConfigError
from tomserve.items import write_items
from tomserve.reporting.html import sources
from tomserve.reporting.html.report import write_report
from tomserve.reporting.html.sources import find_current_report
from tomserve.runs import scores as table
from tomserve.runs.scores import load_scored_run, scores_of
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
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of four questions, all answered wrongly ("tea" is right); nothing is computed of it yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "runs/r"
    folder.mkdir(parents=True)
    write_items(folder / "items.jsonl", [make_item(number) for number in range(1, 5)])
    (folder / "responses.jsonl").write_bytes(b"".join(map(row, range(1, 5))))
    manifest(folder)
    return folder


@pytest.fixture
def scorings(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    found: list[Path] = []
    real = table._score

    def counted(path: Path, folder: Path, *given: Any, **options: Any) -> Any:
        found.append(folder)
        return real(path, folder, *given, **options)

    monkeypatch.setattr(table, "_score", counted)
    return found


def aged(folder: Path, when: int = LONG_AGO) -> None:
    """Give every file of the folder, but what was computed of it, that time."""
    for path in folder.iterdir():
        if path.stem != "scores":
            os.utime(path, (when, when))


def right(folder: Path) -> list[bool]:
    return scores_of(folder)["correct"].to_list()


def forge(folder: Path) -> None:
    """A score table in which everything is right."""
    scores_of(folder).with_columns(correct=pl.lit(True)).write_parquet(folder / "scores.parquet")
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


def test_a_run_without_answers_is_no_obstacle(run: Path) -> None:
    scores_of(run)
    (run / "responses.jsonl").unlink()
    assert scores_of(run).is_empty()


def test_what_cannot_be_read_is_told_each_time_with_its_line(run: Path, cli) -> None:
    with (run / "responses.jsonl").open("ab") as journal:
        journal.write(b"{\n" + row(77) + b"{\n")
    said = "3 lines not read: 2 not JSON (line 5), 1 of unknown items (line 6)"
    assert said in cli("score", run).err
    done = cli("score", run)
    assert said in done.err
    assert "4 answers scored, 0 correct" in done.out


# who made it


def test_no_command_believes_a_forged_table(run: Path, cli) -> None:
    forge(run)
    assert pl.read_parquet(run / "scores.parquet")["correct"].all()
    done = passes(cli("analyze", "r", "--format", "csv", "--study", "accuracy"))
    assert pl.read_csv(StringIO(done.out.split("\n\n")[0]), comment_prefix="#")["correct"].to_list() == [0]
    forge(run)
    assert "0 of 4 correct" in write_report([str(run)]).read_text()
    assert right(run) == [False] * 4


def test_scores_are_made_every_time_where_the_cache_cannot_be_written_or_is_anothers(
    run: Path, scorings: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert right(run) == right(run) == [False] * 4
    assert len(scorings) == 2
    assert (run / "scores.parquet").exists()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert right(run) == right(run) == [False] * 4
    assert len(scorings) == 3
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert right(run) == [False] * 4
    assert len(scorings) == 4


def test_what_a_disk_has_damaged_is_made_again(run: Path, tmp_path: Path) -> None:
    page = write_report([str(run)])
    for kind in ("scores", "reports"):
        (kept,) = (tmp_path / "cache/tomserve" / kind).iterdir()
        whole = kept.read_bytes()
        for damaged in (b"", whole[:-9] if kind == "scores" else whole[:9]):
            kept.write_bytes(damaged)
            assert find_current_report(run) is None
            assert right(run) == [False] * 4
        kept.write_bytes(whole)
    assert find_current_report(run) == page


def test_nobody_else_gets_at_what_is_kept_whatever_the_umask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = os.umask(0o002)
    try:
        cache.keep(cache.place("kind", b"1"), b"kept")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "cache").rglob("*")} == {0}


def test_the_cache_keeps_what_was_used_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache, "ROOM", 20)
    places = [cache.place("kind", str(number).encode()) for number in range(3)]
    for age, place in zip((30, 20, 10), places, strict=True):
        cache.keep(place, b"123456", b"789")
        os.utime(place, (LONG_AGO - age, LONG_AGO - age))
        if place == places[1]:
            with cache.find(places[0]) as file:  # type: ignore[union-attr]  # it is there
                assert file.read() == b"123456789"
    assert [place.exists() for place in places] == [True, False, True]


# by what


def test_a_benchmark_file_that_items_name_counts_by_its_content(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarks, "_loaded", {})
    manifest(run, benchmark="items")
    file = run.parent / "own.py"
    assert "metric_own" not in scores_of(run)
    for value in (1, 2, 2):
        file.write_text(
            "from tomserve.benchmarks import Benchmark\nfrom tomserve.scoring.metrics import Metric\n"
            f"own = Metric({{'metric_own': int}}, lambda item, reading: {{'metric_own': {value}}})\n"
            "BENCHMARK = Benchmark('demo', lambda path, gold: iter(()), metrics=(own,))\n"
        )
        benchmarks.get(str(file))
        assert scores_of(run)["metric_own"].to_list() == [value] * 4
    benchmarks._loaded.clear()
    assert scores_of(run)["metric_own"].to_list() == [2] * 4


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
    assert (file.size, file.digest) == (8, digest_bytes(b"one\n\ntwo"))
    assert digest_file(path) == (24, digest_bytes(path.read_bytes()))
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
    path.write_text(path.read_text().replace("0 of 4 correct", "4 of 4 correct"))
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
