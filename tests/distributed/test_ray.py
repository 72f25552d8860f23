"""Parts on a real Ray cluster of two nodes: asked, a node killed, cancelled, shared GPUs, failures told.
Batch files through Ray Data: the script in launch/ray/."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

import orjson
import pytest
from aiohttp import web

from tests.conftest import ROOT, Cli, Endpoint
from tests.helpers.command import until
from tests.helpers.outcomes import passes, refuses
from tomserve.cli.submit import make_demand
from tomserve.distributed import ray as rays
from tomserve.distributed.cluster import Job
from tomserve.distributed.ray import TaskDemand
from tomserve.distributed.shards import find_folder, part_states
from tomserve.errors import ConfigError, MachineError
from tomserve.runs.evaluation import memory_share_flags
from tomserve.runs.journal import read_rows
from tomserve.serving.presets import Preset

MARK = "RAY_NODES_OF_TEST"
"""A variable in the environment of every process of a cluster, by which those that are left over are found."""
STORE = 80 * 2**20
"""Bytes of each node's store of objects: about the least that Ray takes. Nothing large is ever put there."""
TRIES = 3
"""How often a node is started again that did not start in time."""
SOON = {"health_check_initial_delay_ms": 5000, "health_check_period_ms": 500, "health_check_failure_threshold": 20}
"""Lets Ray find out in ten seconds, rather than half a minute, that a node has died; a busy one is silent for some."""


@dataclass
class RayNodes:
    """The cluster. address: of its first node. others: its further nodes, by the order in which they were added."""

    cluster: Any
    mark: str
    others: list[Any] = field(default_factory=list)

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def add(self, **resources: float) -> None:
        """Add a node with these resources, such as num_cpus=1, and wait until it is there."""
        there = set(_running(self.mark))
        begin = partial(self.cluster.add_node, object_store_memory=STORE, **resources)
        self.others.append(_patiently(begin, lambda: _kill_node(self.mark, there)))
        self.cluster.wait_for_nodes(60)

    def join(self) -> None:
        """Let this process be a driver of the cluster until it ends, so that commands need not join it each by itself."""
        import ray

        ray.init(address=self.address, log_to_driver=False, configure_logging=False, logging_level="ERROR")

    def kill(self) -> None:
        """Kill the node that was added last, with all that runs on it, as when its machine loses power."""
        self.cluster.remove_node(self.others.pop(), allow_graceful=False)

    def end(self) -> None:
        """End all nodes, and what runs on them."""
        import ray

        ray.shutdown()
        self.cluster.shutdown()


@contextlib.contextmanager
def ray_nodes(**head: float) -> Iterator[RayNodes]:
    """A running cluster, whose first node has these resources; nothing of it is left behind.

    Its temporary files lie in a folder with a short name, since the path of a socket has at most 107 bytes.
    """
    from ray._common.utils import get_ray_address_file
    from ray.cluster_utils import Cluster

    folder, mark, nodes = tempfile.mkdtemp(prefix="ray"), uuid4().hex, None
    # Ray notes the address of the newest cluster there, too, and takes the folder for granted.
    Path(get_ray_address_file(None)).parent.mkdir(parents=True, exist_ok=True)
    env = {MARK: mark, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    env |= {"RAY_enable_metrics_collection": "0", "RAY_num_prestart_python_workers": "0"}
    with mock.patch.dict(os.environ, env):
        os.environ.pop("RAY_ADDRESS", None)
        arguments = {"object_store_memory": STORE, "include_dashboard": False, "temp_dir": folder, **head}
        try:
            begin = partial(Cluster, True, head_node_args=arguments | {"_system_config": SOON})
            nodes = RayNodes(_patiently(begin, lambda: _ended(mark, 0.0)), mark)
            yield nodes
        finally:
            if nodes is not None:
                nodes.end()
            left = _ended(mark)
            shutil.rmtree(folder, ignore_errors=True)
    assert not left, left


def _patiently(begin: Callable[[], Any], clear: Callable[[], object]) -> Any:
    """What `begin` returns. Ray gives a node half a minute to start, which a busy machine may not keep: it is then
    started again, after `clear` has removed what was left of it."""
    for _ in range(TRIES):
        try:
            return begin()
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
            clear()
    return begin()


def _running(mark: str) -> dict[int, str]:
    """The processes of the cluster with this mark that run now, by their ids, with their command lines."""
    found: dict[int, str] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(place.name) != os.getpid() and f"{MARK}={mark}".encode() in (place / "environ").read_bytes():
                words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                found |= {int(place.name): words} if words.strip() else {}
    return found


def _kill(processes: Iterable[int]) -> None:
    for number in processes:
        with contextlib.suppress(OSError):
            os.kill(number, signal.SIGKILL)


def _kill_node(mark: str, there: Collection[int]) -> None:
    """Kill the node that has begun since these processes were there; what else belongs to it ends with it."""
    new = {number: words for number, words in _running(mark).items() if number not in there}
    _kill(number for number, words in new.items() if "/raylet/raylet " in words)


def _ended(mark: str, seconds: float = 60.0) -> dict[int, str]:
    """The processes of a cluster that have not ended after so many seconds; they are killed."""
    until(lambda: not _running(mark), seconds)
    left = _running(mark)
    _kill(left)
    return left


pytestmark = pytest.mark.timeout(300)
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


def divided(cli: Cli, endpoint: Endpoint, name: str, limit: int = 24, parts: int = 4) -> Path:
    """An evaluation in parts, asked by the scripted endpoint."""
    passes(cli("shard", "--run", name, "--parts", parts, *asked(endpoint, limit), "--quiet"))
    return find_folder(name)


def asked(endpoint: Endpoint, limit: int) -> tuple[str, ...]:
    return ("--benchmark", "perturbed", "--limit", str(limit), "--strategy", "vanilla", "--base-url", endpoint.url)


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
@pytest.mark.timeout(900)  # nodes are started one after the other, each in half a minute on a busy machine
def test_cancelled_and_handed_over_again_and_a_node_dies_while_it_asks(
    cli: Cli, endpoint: Endpoint, nodes: RayNodes
) -> None:
    """A part that is cancelled keeps its replies, and those under way; the next job goes on with it. Where a node dies,
    its parts are asked to their end on another one. What had been answered is not asked again, and nothing is lost."""
    folder = divided(cli, endpoint, "mine", 600, parts=3)
    endpoint.hold = lambda body: len(endpoint.requests) > 20
    job = submit(cli, nodes, "mine")
    eventually(lambda: len(endpoint.requests) > 20)
    refuses(cli("submit", "ray", "mine", "--address", nodes.address), f"job {job.id} still asks 3 of these parts")
    endpoint.delay, endpoint.hold = 3.0, lambda body: False
    assert cli("cancel", "mine").code == 0
    assert count(job, "PENDING", "RUNNING") == 0
    assert "running" not in {one.state for one in part_states(folder)}
    kept = len(endpoint.requests)
    assert 20 < kept < 600
    rows = [row for part in folder.glob("0*/responses.jsonl") for _, row in read_rows(part)]
    assert sum(not row["reused"] for row in rows) == kept

    endpoint.delay, endpoint.hold = 0.0, lambda body: len(endpoint.requests) > kept + 20
    job = submit(cli, nodes, "mine", "--max-restarts", "5")
    eventually(lambda: count(job, "RUNNING") == 3)
    eventually(lambda: len(endpoint.requests) > kept + 20)
    nodes.kill()
    endpoint.hold, under_way = lambda body: False, len(endpoint.requests) - kept
    nodes.add(num_cpus=2)
    eventually(lambda: count(job, "FINISHED") == 3)
    assert {one.state for one in part_states(folder)} == {"complete"}
    assert any(task.restarts for task in rays.Ray().states(job).values())
    assert len(endpoint.requests) <= 600 + under_way
    assert rays.Ray().alive(job) == frozenset()
    shown = cli("status", "mine")
    assert (shown.code, "FINISHED" in shown.out) == (0, True), shown.err
    assert "all parts of" in cli("submit", "ray", "mine", "--address", nodes.address).out
    assert cli("merge", "mine").code == 0
    assert cli("eval", "--run", "whole", *asked(endpoint, 600), "--quiet", "--no-report").code == 0
    assert keyed(folder.parent / "mine") == keyed(folder.parent / "whole")
    assert len(keyed(folder.parent / "mine")) == 600


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


def test_half_a_gpu_is_half_its_memory() -> None:
    words = rays.work_command("/parts", 3, TaskDemand(gpus=0.5))
    assert " ".join(words[1:]) == "-P -m tomserve work /parts --part 3 --quiet --gpu-share 0.5"
    half = {name: memory_share_flags(Preset.load(name), 0.5) for name in ("qwen3-8b", "reference")}
    assert half == {"qwen3-8b": ("--gpu-memory-utilization", "0.460"), "reference": ()}


def test_no_log_is_written_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "ray").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="is a symbolic link"):
        rays.open_log(tmp_path / rays.LOG.format(0))


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
    job = Job(cluster="ray", id="x", time="", parts=(0,), details={"address": "127.0.0.1:1"})
    none = pytest.raises(MachineError, match="no Ray cluster can be joined")
    with mock.patch("ray.is_initialized", return_value=False), none:
        rays.Ray().states(job)
    with pytest.raises(ConfigError, match="names no address"):
        rays.Ray().states(job.model_copy(update={"details": {}}))
    monkeypatch.setitem(sys.modules, "ray", None)
    refuses(cli("submit", "ray", "mine"), "`pip install tomserve[ray]`")


PATH = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])


@pytest.mark.long
def test_a_batch_file_goes_through_ray_data(cli: Cli, endpoint: Endpoint, tmp_path: Path) -> None:
    """Every request is answered with its body unchanged; one that is refused for good is told, and a busy server asked again."""
    for name in ("ray", "pyarrow", "pandas"):
        pytest.importorskip(name, reason="Ray Data needs it (`pip install 'ray[data]'`)")
    asked, answered = tmp_path / "asked.jsonl", tmp_path / "answered.jsonl"
    options = ("--benchmark", "perturbed", "--limit", "30", "--model", "tiny", "--run", "queued")
    assert cli("export", "batch", *options, "--out", asked).code == 0
    lines = [orjson.loads(line) for line in asked.read_bytes().splitlines()]
    seen: list[int] = []

    def script(body: dict[str, Any], number: int) -> web.Response | None:
        seen.append(number)
        if number <= 3:
            return web.json_response({"error": {"message": "busy"}}, status=503)
        if body == lines[7]["body"]:
            return web.json_response({"error": {"message": "Bearer s3cret: too long"}}, status=400)
        return None

    endpoint.script = script
    endpoint.key = "s3cret"
    command = [sys.executable, ROOT / "launch/ray/batch.py", asked, answered, "--url", endpoint.url]
    env = {**os.environ, "PYTHONPATH": PATH, "TOMSERVE_API_KEY": "s3cret", "RAY_ADDRESS": ""}
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        env |= {"RAY_TMPDIR": folder, "RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE": "1"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    again = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (again.returncode, "is there already" in again.stderr) == (2, True)
    bodies = [orjson.dumps(body, option=orjson.OPT_SORT_KEYS) for body in endpoint.requests]
    assert set(bodies) == {orjson.dumps(line["body"], option=orjson.OPT_SORT_KEYS) for line in lines}
    assert len(bodies) == len(lines) + 3
    assert b"s3cret" not in answered.read_bytes()
    imported = cli("import", "batch", answered, "--run", "queued")
    assert imported.code in (0, 1), imported.err
    statuses = sorted(row["status"] for _, row in read_rows(tmp_path / "runs/queued/responses.jsonl"))
    assert statuses == ["http_400", *["ok"] * (len(lines) - 1)]
