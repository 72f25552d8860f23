"""Parts on a Ray cluster: a detached actor has them asked by tasks, each on the cores and GPUs that a part needs.

Ray itself decides where a task runs, runs it again where a node dies, and adds nodes where an autoscaler is set up, as
every task states what it needs. What runs on the nodes is in tomserve.clusters.ray_tasks. Ray is imported here alone,
and only when a cluster is talked to.

    job = submit(folder, "mine", range(4), Demand(cpus=8, gpus=1), "auto")
    Ray().states(job)
"""

from __future__ import annotations

import contextlib
import re
import secrets
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tomserve.clusters.job import Job, Task
from tomserve.clusters.ray_tasks import LEFT, NAMESPACE, Conductor, Demand, Told
from tomserve.errors import ConfigError, MachineError

ANSWER = 60.0
"""Seconds to wait for an answer of the cluster, and for a conductor to begin."""
REACH = 5.0
"""Seconds to wait for a connection to a given address, before Ray itself tries, which takes long."""
HEAD = "node:__internal_head__"
"""What Ray counts on the first node alone: the conductor runs there, as nothing runs any more once that node dies."""
END = 120.0
"""Seconds for cancelled parts to end."""

_ADDRESS = re.compile(r"auto|(?:ray://)?(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):(\d{1,5})")


class Ray:
    """What Ray says of a job that was submitted to it; see tomserve.clusters.job.Cluster."""

    def states(self, job: Job) -> Mapping[int, Task]:
        """The state of each part; none where the job has ended long ago. Raises MachineError where no cluster answers,
        as do the other methods."""
        with _connected(_address_of(job)):
            told = _told(job)
        return {
            number: Task(one.state, one.node, max(one.starts - 1, 0) if one.starts else None, one.note)
            for number, one in told.items()
        }

    def alive(self, job: Job) -> frozenset[int]:
        """The parts that tasks ask, or are going to."""
        with _connected(_address_of(job)):
            return frozenset(number for number, one in _told(job).items() if one.state in LEFT)

    def cancel(self, job: Job) -> None:
        """End the tasks, those that ask by SIGTERM, so that replies under way are kept. Raises MachineError where no
        cluster answers, or the tasks do not end in time."""
        import ray

        with _connected(_address_of(job)):
            if (conductor := _conductor(job)) is None:
                return
            ray.get(conductor.cancel.remote(), timeout=ANSWER)
            until = time.monotonic() + END
            while left := sum(one.state in LEFT for one in _told(job).values()):
                if time.monotonic() > until:
                    raise MachineError(f"{left} parts have not ended within {END:.0f} s; repeat the command")
                time.sleep(0.2)
            ray.kill(conductor)


def submit(folder: Path, run: str, parts: Sequence[int], demand: Demand, address: str) -> Job:
    """Hand parts to a Ray cluster, and write the record of the job beside them.

    folder: of the parts. run: the name of the evaluation. address: of the cluster, see `check_address`. Raises
    ConfigError for an address that is none, MachineError where Ray is not installed or no cluster answers there.
    """
    import ray

    with _connected(address):
        name = f"{run}-{secrets.token_hex(4)}"
        actor = ray.remote(Conductor).options(  # where its node dies, calls wait until it runs elsewhere
            name=name, namespace=NAMESPACE, lifetime="detached", num_cpus=0, max_concurrency=16,
            max_restarts=-1, max_task_retries=-1, resources={HEAD: 0.001} if HEAD in ray.cluster_resources() else {},
        )  # fmt: skip
        conductor = actor.remote(name, str(folder.resolve()), list(parts), demand)
        try:
            ray.get(conductor.told.remote(), timeout=ANSWER)
            place = address if address.startswith("ray://") else ray.get_runtime_context().gcs_address
            job = Job(
                cluster="ray",
                id=name,
                time=datetime.now(UTC).isoformat(timespec="seconds"),
                parts=tuple(parts),
                details={"address": place, "namespace": NAMESPACE, "cpus": demand.cpus, "gpus": demand.gpus},
            )
            job.write(folder)
        except ray.exceptions.RayError as error:
            ray.kill(conductor)
            raise MachineError(f"the Ray cluster at {address} cannot run tomserve: {_first_line(error)}") from None
        except BaseException:
            ray.kill(conductor)
            raise
    return job


def largest_node(address: str) -> tuple[float, float]:
    """The most cores and the most GPUs that one node of the cluster has now; errors as for `submit`."""
    import ray

    with _connected(address):
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return max((node.get("CPU", 0.0) for node in nodes), default=0.0), max(
        (node.get("GPU", 0.0) for node in nodes), default=0.0
    )


def check_address(address: str) -> str:
    """The address of a Ray cluster as it stands. Raises ConfigError unless it is ``auto``, for the cluster of this
    machine or of RAY_ADDRESS, ``HOST:6379``, for one that this machine is a node of, or ``ray://HOST:10001``, for any
    other."""
    match = _ADDRESS.fullmatch(address)
    if match is None or (match[2] and not 0 < int(match[2]) < 65536):
        raise ConfigError(f"--address {address!r}: expected auto, HOST:6379 or ray://HOST:10001")
    return address


def require_ray() -> None:
    """Raise MachineError where Ray is not installed."""
    try:
        import ray  # noqa: F401
    except ImportError:
        raise MachineError(
            "Ray is not installed; install it as on the nodes of the cluster, by `pip install tomserve[ray]`"
        ) from None


@contextlib.contextmanager
def _connected(address: str) -> Iterator[None]:
    """Be a driver of that cluster; a process that is one already stays one. Raises MachineError."""
    require_ray()
    import ray

    if ray.is_initialized():
        yield
        return
    match = _ADDRESS.fullmatch(check_address(address))
    try:
        if match is not None and match[1]:
            socket.create_connection((match[1].strip("[]"), int(match[2])), REACH).close()
        ray.init(
            address=address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False, logging_level="ERROR"
        )
    except (OSError, RuntimeError, ValueError, TimeoutError, ImportError) as error:
        raise MachineError(
            f"no Ray cluster can be joined at {address}: {_first_line(error)}; start one by `ray start --head`, or "
            "name one by --address: HOST:6379 from one of its nodes, ray://HOST:10001 from elsewhere"
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


def _address_of(job: Job) -> str:
    """The address that the record of a job names. Raises ConfigError where it names none."""
    address = job.details.get("address")
    if not isinstance(address, str):
        raise ConfigError(f"job {job.id}: its record names no address of a Ray cluster; submit the parts again")
    return check_address(address)


def _conductor(job: Job) -> Any:
    """The actor that has the job's parts asked; None where it has gone."""
    import ray

    try:
        return ray.get_actor(job.id, namespace=NAMESPACE)
    except ValueError:
        return None


def _told(job: Job) -> Mapping[int, Told]:
    """What the conductor knows; nothing where it has gone. Raises MachineError where it does not answer."""
    import ray

    if (conductor := _conductor(job)) is None:
        return {}
    try:
        return ray.get(conductor.told.remote(), timeout=ANSWER)  # type: ignore[no-any-return]
    except ray.exceptions.ActorDiedError:
        return {}
    except ray.exceptions.RayError as error:
        raise MachineError(f"the job {job.id} on Ray does not answer ({_first_line(error)}); ask again later") from None


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
