"""A real Ray cluster of two nodes on this machine, for tests.

with ray_nodes() as nodes:
    nodes.address, nodes.kill()
"""

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

from tests.conftest import ROOT
from tests.helpers.command import until

MARK = "RAY_NODES_OF_TEST"
"""A variable in the environment of every process of a cluster, by which those that are left over are found."""
STORE = 80 * 2**20
"""Bytes of each node's store of objects: about the least that Ray takes. Nothing large is ever put there."""
TRIES = 3
"""How often a node is started again that did not start in time."""
SOON = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
"""Lets Ray find out within seconds, rather than half a minute, that a node has died."""


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
