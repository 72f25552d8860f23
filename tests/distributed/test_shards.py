"""How far the parts of an evaluation are, by small files that may be missing or old; scoring them, and their tables as one."""

import shutil
from pathlib import Path

import orjson
import polars as pl
import pytest

from tests.conftest import Cli, Endpoint
from tests.helpers.examples import copied_run
from tests.helpers.parted import divided_example
from tomserve.distributed.shards import (
    PartState,
    Shards,
    find_part_tables,
    find_tables,
    part_folder,
    part_states,
    score_parts,
)
from tomserve.distributed.worker import next_part
from tomserve.errors import ConfigError
from tomserve.reporting.shards import shard_lines
from tomserve.runs import scores as run_scores
from tomserve.runs.runfolder import RunFolder
from tomserve.runs.scores import scores_of
from tomserve.scoring.table import write_scores


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_the_tables_of_the_parts_are_the_table_of_the_whole(runs: Path) -> None:
    folder, whole = divided_example(runs), copied_run(runs / "mine")
    done = score_parts(folder)
    assert (done.scored, done.current, done.waiting, done.broken) == ((0, 1, 2), (), (), {})
    found = find_part_tables(folder, done.there).scan().collect().sort("model", "strategy", "item")
    expected = scores_of(whole).sort("model", "strategy", "item")
    assert found.select(expected.columns).equals(expected), "with the run's name in place of the parts'"


def test_a_part_that_is_current_is_passed_over_and_one_that_grew_is_scored_again(runs: Path) -> None:
    folder = divided_example(runs)
    score_parts(folder)
    journal = part_folder(folder, 1) / "responses.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    table = part_folder(folder, 0) / "scores.parquet"
    scored = table.read_bytes()
    table.write_bytes(b"forged")
    done = score_parts(folder)
    assert (done.scored, done.current) == ((1,), (0, 2))
    assert table.read_bytes() == scored, "what lies there is never believed"


def test_a_table_that_cannot_be_replaced_is_not_believed(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = divided_example(runs)
    (part_folder(folder, 0) / "scores.parquet").write_bytes(b"forged")
    monkeypatch.setenv("XDG_CACHE_HOME", str(runs.parent / "cache"))

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(run_scores, "_export", refused)
    for _ in "12":  # scored now, and kept
        done = score_parts(folder)
        assert (done.there, set(done.broken)) == ((), {0, 1, 2})


def test_a_broken_part_is_named_and_the_others_are_scored(runs: Path, cli) -> None:
    folder = divided_example(runs)
    (part_folder(folder, 1) / "items.jsonl").write_bytes(b"{no\n")
    told = cli("score", "mine.parts")
    assert (told.code, "part 1: " in told.err, "items.jsonl" in told.err) == (1, True, True)
    assert "2 parts scored" in told.out
    assert (part_folder(folder, 2) / "scores.parquet").exists()


def test_a_folder_and_a_pattern_of_tables_are_read_as_one(runs: Path, tmp_path: Path, cli) -> None:
    scores = scores_of(copied_run(runs / "mine"))
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    write_scores(scores.head(100), first)
    write_scores(scores.tail(-100).drop("stage"), second)
    for place in (str(tmp_path), f"{tmp_path}/*.parquet"):
        found = find_tables(place)
        assert found.files == (first, second)
        table = found.scan().collect()
        assert (table.columns, table["stage"].null_count()) == (scores.columns, scores.height - 100)
        assert cli("analyze", place, "--study", "accuracy").code == 0
    assert find_tables("example") is None, "a run is no folder of tables"
    whole = second.read_bytes()
    second.write_bytes(whole[:4] + bytes(40) + whole[44:])  # within its first column
    for more in ((), (first,)):
        assert f"{second}: not a parquet table" in cli("analyze", tmp_path, *more, "--study", "accuracy").err


def test_what_is_no_table_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"no table")
    with pytest.raises(ConfigError, match=r"a\.parquet: not a parquet table"):
        find_tables(str(tmp_path))
    with pytest.raises(ConfigError, match=r"no file fits .*x\*\.parquet; expected"):
        find_tables(f"{tmp_path}/x*.parquet")
    pl.DataFrame({"x": [1]}).write_parquet(path)
    with pytest.raises(ConfigError, match=r"a\.parquet: not a score table"):
        find_tables(str(tmp_path)).scan()  # type: ignore[union-attr]
    path.rename(tmp_path / "secret")
    path.symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigError, match="symbolic link"):
        find_tables(str(tmp_path))


def test_a_part_that_is_a_link_to_another_run_is_refused(tmp_path: Path) -> None:
    folder, private = divided_example(tmp_path, 1), copied_run(tmp_path / "private")
    shutil.rmtree(part_folder(folder, 0))
    (folder / "0000").symlink_to(private)
    with pytest.raises(ConfigError, match="0000: is a symbolic link"):
        score_parts(folder)
    assert not (private / "scores.parquet").exists()


ASKED = ("--benchmark", "perturbed", "--limit", "12", "--strategy", "vanilla")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the parts that all tests copy are made once."""
    return tmp_path_factory.mktemp("parts") / "mine.parts"


@pytest.fixture
def folder(made: Path, cli: Cli, endpoint: Endpoint, tmp_path: Path) -> Path:
    """Two parts, of which the first is complete."""
    place = tmp_path / "runs/mine.parts"
    if not made.exists():
        asked = (*ASKED, "--base-url", endpoint.url, "--noise-check", "0.5")
        assert cli("shard", "--run", "mine", "--parts", "2", *asked).code == 0
        assert cli("work", "mine", "--part", "0").code == 0
        shutil.copytree(place, made)
    else:
        shutil.copytree(made, place)
    return place


def told(folder: Path, **changes: object) -> PartState:
    """The state of the first part after its record of progress was changed."""
    path = part_folder(folder, 0) / "progress.json"
    path.write_bytes(orjson.dumps({**orjson.loads(path.read_bytes()), **changes}))
    return part_states(folder)[0]


def test_a_part_that_was_asked_and_one_that_was_not(folder: Path) -> None:
    first, second = part_states(folder)
    requests = [part.requests for part in Shards.read(folder).parts]
    assert (first.number, first.state, first.done, first.total, first.failures) == (0, "complete", *requests[:1] * 2, 0)
    assert second == PartState(1, "waiting", 0, requests[1], 0)
    assert next_part(folder) == 1
    assert next_part(folder, {1}) is None


def test_what_the_noise_check_asks_is_said_beside_the_requests_of_the_parts(folder: Path) -> None:
    shards = Shards.read(folder)
    said = "asks 6 questions again, at 2 numbers of requests in flight each: {} requests more"
    assert said.format(12) in "".join(shard_lines(shards))
    thrice = shards.model_copy(update={"experiment": {**shards.experiment, "repeats": 3, "temperature": 0.7}})
    assert said.format(36) in "".join(shard_lines(thrice))


def test_the_record_of_progress_is_not_needed_and_not_trusted(folder: Path) -> None:
    assert told(folder, ended=None).state == "stopped"  # killed before its noise check was done, as far as can be told
    assert told(folder, ended="now", outcome="stopped").state == "stopped"
    assert told(folder, ended="now", outcome="").state == "complete"
    (part_folder(folder, 0) / "progress.json").write_text("[1")
    assert part_states(folder)[0].state == "stopped"
    (part_folder(folder, 0) / "progress.json").unlink()
    assert part_states(folder)[0].state == "stopped"


def test_what_failed_is_counted_of_the_questions_and_not_of_the_noise_check(folder: Path) -> None:
    assert told(folder, phase=3, statuses={"ok": 3, "http_400": 1}, before={"ok": 4, "http_400": 2}).failures == 2


def test_how_far_a_part_is_that_is_asked_now(folder: Path) -> None:
    place = part_folder(folder, 1)
    with RunFolder(place):
        record = {"schema": 1, "pid": 1, "began": "x", "updated": "x", "phase": 1, "total": 6, "done": 4,
                  "statuses": {"ok": 1, "http_503": 1, "refusal": 1}}  # fmt: skip
        requests = Shards.read(folder).parts[1].requests
        (place / "progress.json").write_bytes(orjson.dumps({**record, "total": requests}))
        (place / ".lock").write_text("1\n")
        assert part_states(folder)[1] == PartState(1, "running", 3, requests, 2)  # a refusal is final
        assert next_part(folder) is None
    assert part_states(folder)[1].state == "waiting"  # nothing was ever asked there
