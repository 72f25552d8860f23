"""Kept scores and reports: found by what they were made from; the copy in a run's folder is never believed.
Scoring from files: journals that are torn, foreign or older, another tool's responses, tables made in parts."""

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
from tests.helpers.outcomes import passes, refuses, refuses_in_a_line
from tests.helpers.reports import run_folder
from tomserve import benchmarks, content
from tomserve.content import cache
from tomserve.content.files import FileSnapshot, digest_bytes, digest_file
from tomserve.errors import ConfigError
from tomserve.items import write_items
from tomserve.reporting.html import sources
from tomserve.reporting.html.report import write_report
from tomserve.reporting.html.sources import find_current_report
from tomserve.runs import scores as table
from tomserve.runs.scores import load_scored_run, load_scores, scores_of
from tomserve.scoring import version
from tomserve.scoring.responses import ItemFile, ResponseFile
from tomserve.scoring.table import write_score_table

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


def test_marks_of_a_tool_that_the_run_does_not_name_are_refused(run: Path, cli) -> None:
    rows = [orjson.loads(line) for line in (run / "responses.jsonl").read_bytes().splitlines()]
    marked = {**rows[0], "graded": {"by": "x", "correct": True, "answer": None, "counts": True}}
    (run / "responses.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in (marked, *rows[1:])))
    said = "have marks of another tool (graded), and the manifest names none"
    refuses(cli("analyze", run), said)
    assert f"responses.jsonl: replies {said}" in cli("verify", run).out


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
        for damaged in (b"", b"[]\n", b'{"record": 1}\n', whole[:-9] if kind == "scores" else whole[:9]):
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
    with monkeypatch.context() as patched:
        patched.setattr(sources, "_CODE", "sha256:other")
        assert find_current_report(run) is None
    edited(run)
    aged(run)
    assert find_current_report(run) is None


def test_a_report_shows_the_rows_that_were_scored(run: Path) -> None:
    (source,), _ = sources.load_sources([str(run)], [], None)
    with (run / "responses.jsonl").open("ab") as journal:
        journal.write(row(1, "tea"))
    assert [answer["text"] for _, answer in source.answers()] == ["Answer: salt"] * 4
    edited(run)
    with pytest.raises(ConfigError, match=r"responses\.jsonl: was changed while it was read; repeat the command"):
        list(source.answers())


def lines(path: Path, *rows: dict | bytes) -> Path:
    path.write_bytes(b"".join(row if isinstance(row, bytes) else orjson.dumps(row) + b"\n" for row in rows))
    return path


def items(tmp_path: Path, count: int = 3) -> Path:
    write_items(tmp_path / "items.jsonl", [make_item(n) for n in range(1, count + 1)])
    return tmp_path / "items.jsonl"


def reply(number: int, text: str = '{"answer": "tea"}', **more) -> dict:
    return {"item": f"demo/{number}", "text": text, **more}


def test_another_tools_responses(cli, tmp_path: Path) -> None:
    rows = [reply(1), reply(2, "Answer: salt", strategy="cot", model="a"), reply(2, "tea", strategy="cot", model="b")]
    found = lines(tmp_path / "theirs.jsonl", *rows, {"item": "demo/3", "status": "timeout"})
    done = passes(cli("score", "--responses", found, "--items", items(tmp_path), "--out", tmp_path / "s.parquet"))
    assert "1 of 4 answers (25.0%) did not come (1 timeout); they count as wrong." in done.err
    assert "4 answers scored, 2 correct" in done.out
    scores = pl.read_parquet(tmp_path / "s.parquet")
    assert scores.select("run", "model", "strategy", "item", "status", "parse", "correct").rows() == [
        ("theirs", "theirs", "vanilla", "demo/1", "ok", "json", True),
        ("theirs", "a", "cot", "demo/2", "ok", "stated", False),
        ("theirs", "b", "cot", "demo/2", "ok", "label", True),
        ("theirs", "theirs", "vanilla", "demo/3", "timeout", None, False),
    ]
    assert scores["perturbation"].to_list() == ["none"] * 4
    for suffix in ("csv", "jsonl"):
        out = tmp_path / f"s.{suffix}"
        assert cli("score", "--responses", found, "--items", items(tmp_path), "--out", out, "--model", "m").code == 0
        assert load_scores(str(out))["model"].to_list() == ["m", "a", "b", "m"]


def test_what_cannot_be_read_is_counted_by_line(cli, tmp_path: Path) -> None:
    rows: tuple[tuple[dict | bytes, str], ...] = (
        (reply(1), "3 answers scored, 2 correct"),
        (b"not json\n", "1 not JSON (line 2)"),
        (b"[1]\n", "1 not a response (line 3)"),
        (reply(9), "1 of unknown items (line 4)"),
        ({"id": "demo/2", "output": "tea"}, "1 without item (line 5)"),
        (reply(2, schema=7), "1 of another schema (line 6)"),
        (reply(2, status="fine"), "rows of an unknown status count as failures: 1 fine; known: ok, length,"),
        (reply(2, turn="first"), "1 with a turn that is no whole number (line 8)"),
        ({"item": "demo/2", "text": None}, "1 without text (line 9)"),
        (reply(3), "8 lines not read: "),
        (b'{"item": "demo/3", "te', "1 torn off at the end (line 11)"),
    )
    found, out = lines(tmp_path / "r.jsonl", *(row for row, _ in rows)), tmp_path / "s.parquet"
    done = passes(cli("score", "--responses", found, "--items", items(tmp_path), "--out", out))
    assert done.err.startswith("warning: ")
    assert pl.read_parquet(out)["status"].to_list() == ["ok", "fine", "ok"]
    for _, said in rows:
        assert said in done.out + done.err, said


GIVEN = "--responses r.jsonl --items i.jsonl --out s.csv"
BAD = {
    "--responses r.jsonl --out s.csv": "--responses needs either --items FILE or --benchmark NAME",
    "--responses r.jsonl --items i.jsonl": "--responses needs --out FILE",
    "--responses r.jsonl --items i.jsonl --out s.xls": "s.xls: unknown kind of table; known: .parquet",
    GIVEN: "i.jsonl: cannot be read (No such file",
    f"a {GIVEN}": "give runs (a) or --responses, not both",
    "--items i.jsonl": "--items, --benchmark and --model belong to --responses FILE",
    "--gold current": "--gold current writes no scores.parquet",
    "--gold currant": "unknown gold 'currant'; did you mean 'current'?",
}


@pytest.mark.parametrize("arguments", BAD)
def test_bad_combinations_are_one_line(cli, arguments: str) -> None:
    refuses_in_a_line(cli("score", *arguments.split()), BAD[arguments])


def scored(tmp_path: Path, *rows: dict | bytes, count: int = 3) -> pl.DataFrame:
    known = ItemFile(items(tmp_path, count))
    found = ResponseFile(lines(tmp_path / "r.jsonl", *rows), known, "m")
    write_score_table(known, found, tmp_path / "s.parquet", run="r")
    return pl.read_parquet(tmp_path / "s.parquet")


def test_the_later_row_of_a_turn_wins_and_the_last_turn_counts(tmp_path: Path) -> None:
    frame = scored(tmp_path, reply(1, "salt", turn=1), reply(1, "tea", turn=1), reply(1, "unknown", turn=0))
    assert frame["answer"].to_list() == ["tea"]


def test_the_row_that_closes_a_conversation_counts_before_any_other(tmp_path: Path) -> None:
    rows = [reply(1, "salt", turn=2), reply(1, "tea", turn=1, closes=3), reply(1, "salt", turn=3)]
    assert scored(tmp_path, *rows)["answer"].to_list() == ["tea"]
    concluded = reply(1, "salt", turn=1, closes=2, conclusion="tea")
    assert scored(tmp_path, reply(1, "salt"), concluded)["answer"].to_list() == ["tea"]
    alone = reply(1, "tea", conclusion="salt")
    assert scored(tmp_path, alone)["answer"].to_list() == ["tea"], "without an end there is no conclusion"


@pytest.mark.parametrize(
    "broken", [{"closes": "2"}, {"closes": 2.0}, {"closes": True}, {"conclusion": ["tea"], "closes": 2}]
)
def test_a_line_whose_end_is_of_the_wrong_kind_is_counted(tmp_path: Path, broken: dict) -> None:
    known = ItemFile(items(tmp_path, 2))
    found = ResponseFile(lines(tmp_path / "r.jsonl", reply(1), reply(2, **broken)), known, "m", talking=["vanilla"])
    assert len(found) == 1
    kind = "text" if "conclusion" in broken else "whole number"
    assert f"1 lines not read: 1 with a {next(iter(broken))} that is no {kind} (line 2)" in str(found.problems)


def test_scoring_against_todays_dataset_says_so(cli, tmp_path: Path) -> None:
    identifier = "C1/none/false_belief/reality/original"
    about = {"benchmark": "perturbed", "benchmark_digest": "sha256:old", "benchmark_path": None}
    answers = {"cot": {identifier: {"text": "unknown"}}}
    folder = run_folder(tmp_path / "runs/mine", answers, [make_item()], "m", **about)
    done = passes(cli("score", folder, "--gold", "current", "--out", tmp_path / "now.csv"))
    assert "scored against today's perturbed (sha256:" in done.out
    assert "the run's was sha256:old" in done.out
    assert pl.read_csv(tmp_path / "now.csv")["item"].to_list() == [identifier]
    assert not (folder / "scores.parquet").exists()


def score_table(path: Path, **changes) -> Path:
    rows = [
        {"model": "m", "strategy": "vanilla", "item": f"i{n}", "status": "ok", "correct": n % 2 == 0} for n in range(6)
    ]
    frame = pl.DataFrame(rows).with_columns(**changes)
    write = {".parquet": frame.write_parquet, ".csv": frame.write_csv, ".jsonl": frame.write_ndjson}
    write[path.suffix](path)
    return path


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_true_and_false_in_every_format(tmp_path: Path, suffix: str) -> None:
    for kind in (pl.Int64, pl.Float64, pl.String, pl.Boolean):
        path = score_table(tmp_path / f"t.{suffix}", correct=pl.col("correct").cast(kind))
        assert load_scores(str(path))["correct"].to_list() == [True, False] * 3
    for value in (0.4, 2, "maybe"):
        path = score_table(tmp_path / f"t.{suffix}", correct=pl.lit(value))
        with pytest.raises(ConfigError, match=rf"t.{suffix}: item 'i0': correct is .*; expected true or false"):
            load_scores(str(path))


def test_factors_of_a_sheet_are_numbers_only_where_nothing_is_lost(tmp_path: Path) -> None:
    told = {
        "code": ["01", "1", "1e0", "001", "2", "3"],
        "zero": ["01", "02", "03", "04", "05", "06"],
        "endless": ["inf", "1.5", "2.5", "3.5", "4.5", "5.5"],
        "whole": [1, 2, 3, None, 5, 6],
        "mixed": ["1", "2.5", "3", "4", "5", "6"],
        "tiny": [1e-9, 1.0, 2.0, 3.0, 4.0, None],
        "held": [True, False, None, True, False, True],
    }
    found = load_scores(str(score_table(tmp_path / "t.csv", **{name: pl.Series(one) for name, one in told.items()})))
    told["mixed"] = [float(one) for one in told["mixed"]]
    assert found.select(*told).to_dict(as_series=False) == told


def test_odd_tables_are_one_line_each(cli, tmp_path: Path) -> None:
    labels = score_table(tmp_path / "g[1].parquet", strategy=pl.col("strategy").cast(pl.Categorical))
    assert load_scores(str(labels)).height == 6
    (tmp_path / "semi.csv").write_text("model;strategy;item\nm;v;i\n")
    (tmp_path / "empty.csv").write_text("model,strategy,item,status,correct\n")
    (tmp_path / "folder.csv").mkdir()
    for name, message in {
        "semi.csv": "not a score table: found columns model;strategy;item",
        "empty.csv": "holds no rows",
        "folder.csv": "is no file",
        "none.csv": "no such file",
    }.items():
        with pytest.raises(ConfigError, match=message):
            load_scores(str(tmp_path / name))
    nan = score_table(tmp_path / "nan.parquet", correct=pl.lit(float("nan")))
    assert "correct is empty" in cli("analyze", nan, "--study", "accuracy").err


def test_nulls_marks_and_repeated_lines(cli, tmp_path: Path) -> None:
    first = b"\xef\xbb\xbf" + orjson.dumps({**reply(1), "strategy": None, "model": None}) + b"\n"
    found = lines(tmp_path / "r.jsonl", first, reply(2, "tea"), reply(2, "salt"))
    done = passes(cli("score", "--responses", found, "--items", items(tmp_path), "--out", tmp_path / "s.csv"))
    assert "2 answers scored, 1 correct" in done.out
    assert "1 lines answer an item again; of each the last one counts" in done.err
    empty = lines(tmp_path / "empty.jsonl")
    odd = lines(tmp_path / "odd.jsonl", reply(1), reply(2, status=["ok"]))
    for wrong, said in (
        (empty, "no line of it is a response"),
        (odd, "odd.jsonl:2: field 'status' is ['ok']; expected"),
    ):
        refuses(cli("score", "--responses", wrong, "--items", items(tmp_path), "--out", tmp_path / "s.csv"), said)
