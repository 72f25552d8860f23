"""How far a part is follows from small files, which may be missing, old or somebody else's."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import Endpoint
from tomserve.distributed.shards import PartState, Shards, part_folder, part_states
from tomserve.distributed.worker import next_part
from tomserve.runs.runfolder import RunFolder

Cli = Callable[..., Any]
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
    assert first.seconds_since_progress is not None
    assert second == PartState(1, "waiting", 0, requests[1], 0, None)
    assert next_part(folder) == 1
    assert next_part(folder, {1}) is None


def test_the_record_of_progress_is_not_needed_and_not_trusted(folder: Path) -> None:
    then = datetime.now(UTC) - timedelta(hours=2)
    since = told(folder, updated=then.isoformat()).seconds_since_progress
    assert since == pytest.approx(7200, abs=60)
    assert told(folder, updated="yesterday \x1b[31m").seconds_since_progress is None
    assert told(folder, ended=None).state == "stopped"  # killed before its noise check was done, as far as can be told
    assert told(folder, ended="now", outcome="stopped").state == "stopped"
    assert told(folder, ended="now", outcome="").state == "complete"
    (part_folder(folder, 0) / "progress.json").write_text("[1")
    assert part_states(folder)[0].state == "stopped"
    (part_folder(folder, 0) / "progress.json").unlink()
    assert part_states(folder)[0].seconds_since_progress is None


def test_how_far_a_part_is_that_is_asked_now(folder: Path) -> None:
    place = part_folder(folder, 1)
    with RunFolder(place):
        record = {"schema": 1, "pid": 1, "began": "x", "updated": "x", "phase": 1, "total": 6, "done": 4,
                  "statuses": {"ok": 2, "http_503": 1}}  # fmt: skip
        requests = Shards.read(folder).parts[1].requests
        (place / "progress.json").write_bytes(orjson.dumps({**record, "total": requests}))
        (place / ".lock").write_text("1\n")
        assert part_states(folder)[1] == PartState(1, "running", 3, requests, 1, None)
        assert next_part(folder) is None
    assert part_states(folder)[1].state == "waiting"  # nothing was ever asked there
