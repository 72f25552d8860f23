"""Parts that are asked one by one make what one run would have asked."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from tests.conftest import Cli, Endpoint, running
from tests.helpers.outcomes import passes, refuses, refuses_in_a_line
from tomserve.distributed.shards import Shards, part_folder, part_states
from tomserve.runs.journal import read_rows
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import RunFolder
from tomserve.serving import keys


def keyed(folder: Path) -> dict[tuple[str, str, int, int], tuple[str, str]]:
    rows = (row for _, row in read_rows(folder / "responses.jsonl"))
    return {
        (row["item"], row["strategy"], row["turn"], row.get("sample") or 0): (row["key"], row["text"]) for row in rows
    }


SAME = (
    *("benchmark", "benchmark_path", "benchmark_digest", "benchmark_items", "benchmark_file", "model", "revision"),
    *("sampling", "strategies", "variants", "limit"),
)
"""The fields in which the manifest of a part is that of the whole run."""

OWN = """from tomserve.benchmarks import Benchmark
from tomserve.items import read_items
def load(path, gold): return (one.model_copy(update={"benchmark": "own_tasks"}) for one in read_items(path))
BENCHMARK = Benchmark("own_tasks", load)
"""
"""The file of somebody's own benchmark."""


@pytest.mark.parametrize(
    "more",
    [
        ("--benchmark", "perturbed", "--limit", "8", "--strategy", "simtom", "--strategy", "vanilla", "--repeats", "2",
         "--temperature", "0.7", "--seed", "5", "--max-tokens", "99"),
        ("--benchmark", "OWN", "--path", "ITEMS", "--strategy", "decompose", "--where", "perturbation=none"),
    ],
    ids=["several", "own"],
)  # fmt: skip
def test_the_parts_together_ask_what_one_run_asks(
    cli: Cli, endpoint: Endpoint, tmp_path: Path, items_file: Path, more: tuple[str, ...]
) -> None:
    own = tmp_path / "own.py"
    own.write_text(OWN)
    given = {"OWN": str(own), "ITEMS": str(items_file)}
    asked = (*(given.get(word, word) for word in more), "--base-url", endpoint.url)
    assert cli("eval", "--run", "whole", *asked).code == 0
    passes(cli("shard", "--run", "mine", "--parts", "3", *asked))
    folder = tmp_path / "runs/mine.parts"
    assert cli("work", "mine", "--part", "1", "--concurrency", "4").code == 0
    assert [state.state for state in part_states(folder)] == ["waiting", "complete", "waiting"]
    assert "3 of 3 parts complete" in cli("work", "mine").out
    whole = keyed(tmp_path / "runs/whole")
    parts = [keyed(part_folder(folder, number)) for number in range(3)]
    assert sum(map(len, parts)) == len(whole)
    assert {identity: row for part in parts for identity, row in part.items()} == whole
    one = Manifest.read(tmp_path / "runs/whole")
    assert one is not None
    for number, part in enumerate(Shards.read(folder).parts):
        other = Manifest.read(part_folder(folder, number))
        assert other.complete
        for field in SAME:
            assert getattr(other, field) == getattr(one, field), field
        assert {sample for _, _, turn, sample in parts[number] if not turn} == set(range(one.repeats))
        assert sum(not turn for _, _, turn, _ in parts[number]) == part.requests
        assert (part_folder(folder, number) / "scores.parquet").exists()
        assert [session.where for session in other.sessions] == [session.where for session in one.sessions]


def test_parts_are_no_runs_of_their_own(cli: Cli, endpoint: Endpoint, tmp_path: Path) -> None:
    divide(cli, endpoint, tmp_path)
    assert cli("work", "mine").code == 0
    assert "mine" not in cli("runs").out
    assert cli("runs", "mine.parts/0001").code == 0
    for words, said in (
        (("report", "mine"), "`tomserve merge mine` joins them"),
        (("eval", "--run", "mine.parts/more", *ASKED), "is where the parts of an evaluation lie"),
        (("work", "mine", "--part", "3"), "holds parts 0 to 2"),
        (("work", "nothing"), "`tomserve shard` makes them"),
    ):
        refuses(cli(*words), said)


@pytest.fixture(scope="module")
def server() -> Iterator[Endpoint]:
    with running() as found:
        yield found


@pytest.fixture
def endpoint(server: Endpoint) -> Endpoint:
    """One server for all tests here, which begins each as a new one, so that parts that name it can be copied."""
    new = Endpoint(port=server.port)
    server.__dict__.update(new.__dict__)
    return server


ASKED = ("--benchmark", "perturbed", "--limit", "12", "--strategy", "vanilla")


MADE: dict[tuple[str, ...], Path] = {}
"""Divided evaluations, by what was asked of whom, as they were made first."""


def divide(cli: Cli, endpoint: Endpoint, tmp_path: Path, *more: str) -> Path:
    folder, asked = tmp_path / "runs/mine.parts", (*ASKED, "--base-url", endpoint.url, *more)
    if asked in MADE:
        shutil.copytree(MADE[asked], folder)
    else:
        passes(cli("shard", "--run", "mine", "--parts", "3", *asked))
        MADE[asked] = tmp_path / "as it was made"
        shutil.copytree(folder, MADE[asked])
    return folder


def test_a_part_that_another_process_asks_is_passed_over(cli: Cli, endpoint: Endpoint, tmp_path: Path) -> None:
    folder = divide(cli, endpoint, tmp_path)
    with RunFolder(part_folder(folder, 1)):
        assert part_states(folder)[1].state == "running"
        refuses(cli("work", "mine", "--part", "1"), "in use by another tomserve process")
        assert "2 of 3 parts complete" in cli("work", "mine").out
        assert "other processes ask 1 of the parts" in cli("work", "mine").out
    assert [state.state for state in part_states(folder)] == ["complete", "waiting", "complete"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "0001/items.jsonl").unlink(), "0001/items.jsonl: is missing"),
        (lambda folder: shutil.copy(folder / "0000/items.jsonl", folder / "0001/items.jsonl"),
         "holds other questions than it was given"),
        (lambda folder: (folder / "0001/items.jsonl").write_bytes(b"{broken\n"), "0001/items.jsonl:1: not JSON"),
        (lambda folder: relinked(folder / "0001/items.jsonl"), "is a symbolic link"),
        (lambda folder: relinked(folder / "0001/responses.jsonl"), "is a symbolic link"),
        (lambda folder: relinked(folder / "shards.json"), "is a symbolic link"),
        (lambda folder: (folder / "shards.json").unlink(), "shards.json is missing"),
        (lambda folder: changed(folder, "parts", []), "parts"),
        (lambda folder: changed(folder, "experiment", {"key": "sk-123"}), "experiment: key"),
        (lambda folder: changed(folder, "sampling", {"temperature": 0.5, "seed": 0}), "sampling was"),
        (lambda folder: changed(folder, "strategies", {"../up": {"digest": "0"}}), "strategies"),
        (lambda folder: changed(folder, "model", "huge"), "model was huge"),
        (lambda folder: changed(folder, "sampling", {"temperature": 0.5, "seed": [{}]}), "sampling: seed"),
        (lambda folder: changed(folder, "provenance", {"kind": "measured"}), "provenance.kind"),
    ],
)  # fmt: skip
def test_folders_of_strangers_are_refused_in_one_line(
    cli: Cli, endpoint: Endpoint, tmp_path: Path, change: Callable[[Path], object], said: str
) -> None:
    folder = divide(cli, endpoint, tmp_path)
    change(folder)
    refuses_in_a_line(cli("work", "mine", "--part", "1"), said)
    assert not endpoint.requests


def relinked(path: Path) -> None:
    other = path.with_name("elsewhere")
    other.write_bytes(path.read_bytes() if path.exists() else b"")
    path.unlink(missing_ok=True)
    path.symlink_to(other)


def changed(folder: Path, field: str, value: object) -> None:
    record = orjson.loads((folder / "shards.json").read_bytes())
    (folder / "shards.json").write_bytes(orjson.dumps({**record, field: value}))


def test_where_a_key_is_sent(cli: Cli, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address in the record, and the name of a variable there, may be a stranger's."""
    secret = "sk-of-the-parts-0123456789"
    monkeypatch.setattr(keys, "_used", [])
    endpoint.key = secret
    config = tmp_path / "experiment.yaml"
    config.write_text(f"key: MY_KEY\nbase-url: {endpoint.url}\nbenchmark: perturbed\nlimit: 8\nstrategy: vanilla\n")
    monkeypatch.setenv("MY_KEY", secret)
    assert cli("shard", "--config", config, "--base-url", endpoint.url, "--run", "mine", "--parts", "2").code == 0
    monkeypatch.setattr(keys, "_used", [])
    refuses(cli("work", "mine", "--base-url", endpoint.url), "put it into TOMSERVE_API_KEY")
    monkeypatch.setenv("TOMSERVE_API_KEY", secret)
    refuses(cli("work", "mine"), "the API key would be sent to")
    assert cli("work", "mine", "--base-url", endpoint.url).code == 0
    written = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert len(written) > 10
    assert not [path for path in written if secret.encode() in path.read_bytes()]
