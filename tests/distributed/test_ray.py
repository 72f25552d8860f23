"""Parts on a real Ray cluster of two nodes: asked, a node killed, cancelled, shared GPUs, failures told."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.conftest import Cli, Endpoint
from tests.helpers.outcomes import passes, refuses
from tests.helpers.ray_nodes import RayNodes, ray_nodes
from tomserve.cli.submit import make_demand
from tomserve.distributed import ray as rays
from tomserve.distributed.cluster import Job
from tomserve.distributed.ray import TaskDemand, work_command
from tomserve.distributed.shards import find_folder, part_states
from tomserve.errors import ConfigError, MachineError
from tomserve.runs import evaluation
from tomserve.runs.journal import read_rows
from tomserve.serving.presets import Preset
from tomserve.serving.server import free_port

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("ray")]
LONG = 120.0
"""Seconds after which something that is waited for is taken not to come."""


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    pytest.importorskip("ray")
    with ray_nodes(num_cpus=1) as found:
        found.add(num_cpus=2)
        found.join()
        yield found


def eventually(what: Callable[[], Any]) -> Any:
    until = time.monotonic() + LONG
    while not (found := what()):
        assert time.monotonic() < until, f"it has not come about within {LONG:.0f} s"
        time.sleep(0.1)
    return found


def divided(cli: Cli, endpoint: Endpoint, name: str, limit: int = 24) -> Path:
    """An evaluation in four parts, asked by the scripted endpoint."""
    passes(cli("shard", "--run", name, "--parts", "4", *asked(endpoint, limit), "--quiet"))
    return find_folder(name)


def asked(endpoint: Endpoint, limit: int) -> tuple[str, ...]:
    return ("--benchmark", "perturbed", "--limit", str(limit), "--strategy", "vanilla", "--base-url", endpoint.url)


def slow_after(endpoint: Endpoint, number: int) -> None:
    """Let every answer take a while once so many have been given; a later `endpoint.delay = 0` undoes it. A part has to
    hold more questions than are asked at the same time, or it ends before that."""

    def script(body: dict[str, Any], nth: int) -> None:
        if nth == number:
            endpoint.delay = 3.0

    endpoint.script = script


def submit(cli: Cli, nodes: RayNodes, name: str, *more: str) -> Job:
    done = passes(cli("submit", "ray", name, "--address", nodes.address, *more))
    assert f" parts; `tomserve status {name}` tells how far they are" in done.out
    job = Job.read(find_folder(name))
    assert job is not None
    return job


def count(job: Job, *ones: str) -> int:
    """How many parts the cluster says are in one of these states."""
    return sum(task.state in ones for task in rays.Ray().states(job).values())


def keyed(folder: Path) -> dict[tuple[str, str], tuple[str, str]]:
    rows = (row for _, row in read_rows(folder / "responses.jsonl"))
    return {(row["item"], row["strategy"]): (row["key"], row["text"]) for row in rows}


@pytest.mark.system
def test_a_node_dies_while_it_asks(cli: Cli, endpoint: Endpoint, nodes: RayNodes) -> None:
    """Nothing is lost: its parts are asked to their end on another node, and what had been answered is not asked again."""
    folder = divided(cli, endpoint, "mine", 400)
    slow_after(endpoint, 40)
    job = submit(cli, nodes, "mine", "--max-restarts", "5")
    eventually(lambda: count(job, "RUNNING") == 3)
    eventually(lambda: endpoint.delay)
    nodes.kill()
    endpoint.delay, before = 0.0, len(endpoint.requests)
    nodes.add(num_cpus=2)
    eventually(lambda: count(job, "FINISHED") == 4)
    assert {one.state for one in part_states(folder)} == {"complete"}
    assert any(task.restarts for task in rays.Ray().states(job).values())
    assert len(endpoint.requests) < 400 + before
    assert rays.Ray().alive(job) == frozenset()
    shown = cli("status", "mine")
    assert (shown.code, "FINISHED" in shown.out) == (0, True), shown.err
    assert cli("merge", "mine").code == 0
    assert cli("eval", "--run", "whole", *asked(endpoint, 400), "--quiet", "--no-report").code == 0
    assert keyed(folder.parent / "mine") == keyed(folder.parent / "whole")
    assert len(keyed(folder.parent / "mine")) == 400


@pytest.mark.system
def test_cancelled_and_handed_over_again(cli: Cli, endpoint: Endpoint, nodes: RayNodes) -> None:
    """A part that is cancelled keeps its replies, and those under way; the next job goes on with it."""
    folder = divided(cli, endpoint, "mine", 200)
    slow_after(endpoint, 20)
    job = submit(cli, nodes, "mine")
    eventually(lambda: endpoint.delay)
    refuses(cli("submit", "ray", "mine", "--address", nodes.address), f"job {job.id} still asks 4 of these parts")
    assert cli("cancel", "mine").code == 0
    assert count(job, "PENDING", "RUNNING") == 0
    assert "running" not in {one.state for one in part_states(folder)}
    assert 20 <= len(endpoint.requests) < 200
    endpoint.delay, endpoint.script = 0.0, lambda body, nth: None
    submit(cli, nodes, "mine", "--wait")
    assert {one.state for one in part_states(folder)} == {"complete"}
    assert len(endpoint.requests) == 200  # nothing was asked twice
    assert "all parts of" in cli("submit", "ray", "mine", "--address", nodes.address).out


@pytest.mark.long
def test_what_fails_is_told(cli: Cli, endpoint: Endpoint, nodes: RayNodes) -> None:
    folder = divided(cli, endpoint, "mine")
    (folder / "0002" / "items.jsonl").unlink()
    done = cli("submit", "ray", "mine", "--address", nodes.address, "--max-restarts", "1", "--wait")
    assert done.code == 3, done.err
    assert "part 2: FAILED" in done.out
    assert "`tomserve work` ended with exit code 2" in done.out
    assert "items.jsonl: is missing" in done.out
    assert "3 of 4 parts complete" in done.out
    job = Job.read(folder)
    assert rays.Ray().states(job)[2].restarts == 1


def test_half_a_gpu_is_half_its_memory() -> None:
    words = work_command("/parts", 3, TaskDemand(gpus=0.5, words=("--base-url", "http://h/v1")))
    expected = "-m tomserve work /parts --part 3 --quiet --gpu-share 0.5 --base-url http://h/v1"
    assert " ".join(words[1:]) == expected
    assert "--gpu-share" not in work_command("/parts", 3, TaskDemand(gpus=2))
    for name, share, flags in (
        ("qwen3-8b", 0.5, ("--gpu-memory-utilization", "0.460")),
        ("qwen3-8b", 1.0, ()),
        ("reference", 0.5, ()),
    ):
        assert evaluation.memory_share_flags(Preset.load(name), share) == flags


def test_what_a_part_takes() -> None:
    one = make_demand("llama3-70b", "8xA100-80GB", None, None, 3, [])
    assert (one.gpus, one.cpus) == (4, 16)
    assert make_demand("llama3-70b", "8xA100-80GB", 0.5, 2.5, 3, []).gpus == 0.5
    assert make_demand(None, None, None, None, 3, ["--base-url", "http://h/v1"]) == TaskDemand(
        1, 0, 3, ("--base-url", "http://h/v1")
    )
    with pytest.raises(ConfigError, match="say which ones a node has, such as"):
        make_demand("llama3-70b", None, None, None, 3, [])
    with pytest.raises(ConfigError, match=r"--gpus-per-part 1\.5: expected a whole number"):
        make_demand("llama3-70b", None, 1.5, None, 3, [])
    with pytest.raises(ConfigError, match="takes 2 nodes, and a task of Ray runs on one"):
        make_demand("llama3.1-405b", "2x8xA100-80GB", None, None, 3, [])


def test_no_secret_is_handed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TOMSERVE_API_KEY", "s3cret")
    monkeypatch.setenv("TOMSERVE_API_KEY_FILE", str(tmp_path / "key"))
    demand = make_demand(None, None, None, None, 3, [])
    assert "s3cret" not in repr(demand)
    assert dict(demand.env)["TOMSERVE_API_KEY_FILE"] == str(tmp_path / "key")


@pytest.mark.parametrize(
    "address", ["", "auto ", "http://h:1", "h", "h:", "h:0", "h:99999", "ray://", "ray://h", "-h:1;x"]
)
def test_addresses_that_are_none(address: str, cli: Cli) -> None:
    refuses(cli("submit", "ray", "mine", "--address", address), "expected auto, HOST:6379 or ray://HOST:10001")


def test_no_cluster_and_no_ray(cli: Cli, monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint) -> None:
    job = Job(cluster="ray", id="x", time="", parts=(0,), details={"address": f"127.0.0.1:{free_port()}"})
    none = pytest.raises(MachineError, match="no Ray cluster can be joined")
    with mock.patch("ray.is_initialized", return_value=False), none:
        rays.Ray().states(job)
    with pytest.raises(ConfigError, match="names no address"):
        rays.Ray().states(job.model_copy(update={"details": {}}))
    monkeypatch.setitem(sys.modules, "ray", None)
    refuses(cli("submit", "ray", "mine"), "`pip install tomserve[ray]`")
