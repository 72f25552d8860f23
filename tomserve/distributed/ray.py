"""Shards on a Ray cluster: a detached actor has them asked by tasks, each on the cores and GPUs that a shard needs.

Ray decides where a task runs, runs it again where a node dies, and adds nodes where an autoscaler is set up. The
conductor is a detached actor: it outlives the command that started it. A task runs `tomserve work` as a process of
its own, on the GPUs that Ray has given it by CUDA_VISIBLE_DEVICES. Ray is imported only when a cluster is talked to.
"""

import contextlib
import ctypes
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from tomserve.content import files
from tomserve.content.python_file import module_command
from tomserve.distributed.cluster import Job, Task
from tomserve.distributed.shards import FILE, part_folder, part_states
from tomserve.errors import ConfigError, MachineError
from tomserve.runs import progress

NAMESPACE = "tomserve"  # the namespace of Ray in which the conductors have their names

PENDING, RUNNING, FINISHED, FAILED, CANCELLED = ("PENDING", "RUNNING", "FINISHED", "FAILED", "CANCELLED")
LEFT = (PENDING, RUNNING)  # the states of parts that are still asked, or going to be
LOG = "ray/{:04}.txt"  # the file beside the parts in which the task of a part keeps what `tomserve work` says
LINGER = 3600.0  # seconds for which a conductor answers `tomserve status` after its last part has ended
GRACE = 60.0
"""Seconds that `tomserve work` has after SIGTERM, in which replies under way arrive and its server is stopped."""
FREE = 180.0  # seconds to wait for another process that asks the part, such as one that has just lost its node, to end
LAST = 400  # characters of the last line of the log that say why a task has failed


@dataclass(frozen=True)
class TaskDemand:
    """What a task needs, and how it asks."""

    cpus: float = 1.0  # of the node that it runs on
    gpus: float = 0.0  # a fraction of a GPU is shared with other tasks
    restarts: int = 3  # by Ray
    words: tuple[str, ...] = ()  # further ones for `tomserve work`
    env: tuple[tuple[str, str], ...] = ()  # variables for it, none of them a secret


class Conductor:
    """Has parts asked by tasks of Ray. `submit` makes it an actor; its methods return at once."""

    def __init__(self, name: str, folder: str, parts: Sequence[int], demand: TaskDemand) -> None:
        """Begin with the parts of these numbers that are not complete. name: of this actor. folder: of the parts, by a
        path that all nodes see."""
        self._name, self._folder, self._demand = name, folder, demand
        self._tasks = {number: Task(PENDING) for number in parts}
        self._refs: dict[Any, int] = {}
        self._lock = threading.Lock()
        self._cancelled = False
        threading.Thread(target=self._conduct, daemon=True).start()

    def tasks(self) -> dict[int, Task]:
        with self._lock:
            return dict(self._tasks)

    def began(self, number: int, node: str) -> bool:
        """Note where a task runs; returns whether it is still wanted."""
        with self._lock:
            restarts = self._tasks[number].restarts
            self._tasks[number] = Task(RUNNING, node, 0 if restarts is None else restarts + 1)
            return not self._cancelled

    def cancel(self) -> None:
        """End all tasks, those that run by SIGTERM to their `tomserve work`."""
        import ray

        with self._lock:
            self._cancelled, refs = True, list(self._refs)
        for ref in refs:
            ray.cancel(ref, force=False)

    def _conduct(self) -> None:
        import ray

        try:
            self._hand_out()
            left = list(self._refs)
            while left:
                ended, left = ray.wait(left, num_returns=1)
                for ref in ended:
                    self._end(self._refs[ref], *_ending(ref))
        except Exception as error:  # nobody would hear of it otherwise
            for number, task in self.tasks().items():
                if task.state in LEFT:
                    self._end(number, FAILED, f"the conductor has failed: {error}")
        time.sleep(LINGER)
        ray.kill(ray.get_actor(self._name, namespace=NAMESPACE))

    def _hand_out(self) -> None:
        import ray

        complete = {one.number for one in part_states(Path(self._folder)) if one.state == "complete"}
        demand = self._demand
        # A process of its own for each task, so that nothing of a part that failed is there for the next.
        task = ray.remote(
            num_cpus=demand.cpus, num_gpus=demand.gpus, scheduling_strategy="SPREAD", max_calls=1,
            max_retries=demand.restarts, retry_exceptions=[MachineError],
        )(run_part)  # fmt: skip
        for number in self.tasks():
            if number in complete:
                self._end(number, FINISHED)
                continue
            with self._lock:
                if not self._cancelled:
                    ref = task.options(name=f"part-{number}").remote(self._name, self._folder, number, demand)
                    self._refs[ref] = number
                    continue
            self._end(number, CANCELLED)

    def _end(self, number: int, state: str, note: str = "") -> None:
        with self._lock:
            self._tasks[number] = replace(self._tasks[number], state=state, note=note)


def _ending(ref: Any) -> tuple[str, str]:
    import ray

    try:
        ray.get(ref)
    except ray.exceptions.TaskCancelledError:
        return CANCELLED, ""
    except ray.exceptions.RayTaskError as error:
        return FAILED, str(error.cause)
    except ray.exceptions.RayError as error:
        return FAILED, _first_line(error)
    return FINISHED, ""


def run_part(name: str, folder: str, number: int, demand: TaskDemand) -> None:
    """Ask a part by `tomserve work` on this node; runs as a task of Ray. name: of the conductor. Raises MachineError,
    after which Ray runs the task again, where the part is not complete afterwards, or this node cannot ask it."""
    import ray

    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as where Ray was started in the background of a script
        signal.signal(signal.SIGINT, signal.default_int_handler)  # by which Ray cancels a task
    node, place = socket.gethostname(), Path(folder)
    conductor = ray.get_actor(name, namespace=NAMESPACE)
    if not ray.get(conductor.began.remote(number, node)):  # cancelled before this process heard that signal
        raise KeyboardInterrupt
    if not (place / FILE).exists():
        raise MachineError(
            f"{node} does not see {place / FILE}; the parts have to lie in a folder that all nodes see by the same path"
        )
    until = time.monotonic() + FREE
    while progress.is_locked(part_folder(place, number)) and time.monotonic() < until:
        time.sleep(0.2)
    log = place / LOG.format(number)
    with open_log(log) as file:
        code = _run(work_command(folder, number, demand), {**os.environ, **dict(demand.env)}, file)
    if code:
        raise MachineError(f"{node}: `tomserve work` ended with exit code {code}: {last_line(log)}")


def open_log(path: Path) -> IO[bytes]:
    """The log of a part, in a folder beside the parts, which is made where it is missing. Raises ConfigError for links,
    and OSError."""
    files.refuse_link(path.parent)
    path.parent.mkdir(exist_ok=True)
    return os.fdopen(files.open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab")


def work_command(folder: str, number: int, demand: TaskDemand) -> list[str]:
    share = ["--gpu-share", f"{demand.gpus:g}"] if 0 < demand.gpus < 1 else []
    words = ["work", folder, "--part", str(number), "--quiet", *share, *demand.words]
    return module_command("tomserve", *words)


def _run(words: Sequence[str], env: Mapping[str, str], log: Any) -> int:
    """Run a command until it ends, and return its exit code. It is told by SIGTERM where this task is cancelled, or
    where the process of this task ends, whatever the reason."""
    with subprocess.Popen(
        words, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        start_new_session=True, preexec_fn=_end_with_parent,
    ) as child:  # fmt: skip
        try:
            while (code := child.poll()) is None:
                time.sleep(0.2)  # no blocking wait: Ray cancels a task by an exception between two steps of Python
            return code
        except BaseException:
            child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(GRACE)
            child.kill()
            raise


def _end_with_parent() -> None:
    """In a new process: ask Linux for SIGTERM once the thread that made it has ended, and hear it by default."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.platform == "linux":
        _LIBC.prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


_LIBC = ctypes.CDLL(None)  # loaded before any process is made: between fork and exec nothing may be loaded


def last_line(log: Path) -> str:
    """The last line of a log that says something, cut to LAST characters; "" where there is none."""
    lines = files.read_tail(log, 65536).splitlines()
    return next((line.strip()[-LAST:] for line in reversed(lines) if line.strip()), "")


ANSWER = 60.0  # seconds to wait for an answer of the cluster, and for a conductor to begin
REACH = 5.0  # seconds to wait for a connection to a given address, before Ray itself tries, which takes long
HEAD = "node:__internal_head__"
"""What Ray counts on the first node alone: the conductor runs there, as nothing runs any more once that node dies."""
END = 120.0  # seconds for cancelled parts to end

_ADDRESS = re.compile(r"auto|(?:ray://)?(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):(\d{1,5})")


class Ray:
    """What Ray says of a job that was submitted to it; see tomserve.distributed.cluster.Cluster."""

    def states(self, job: Job) -> Mapping[int, Task]:
        """The state of each part; none where the job has ended long ago. Raises MachineError where no cluster answers,
        as do the other methods."""
        with _connect(_address_of(job)):
            return _ask_conductor(job)

    def alive(self, job: Job) -> frozenset[int]:
        with _connect(_address_of(job)):
            return frozenset(number for number, one in _ask_conductor(job).items() if one.state in LEFT)

    def cancel(self, job: Job) -> None:
        """End the tasks by SIGTERM, so that replies under way are kept; raises, too, where they do not end in time."""
        import ray

        with _connect(_address_of(job)):
            if (conductor := _conductor(job)) is None:
                return
            ray.get(conductor.cancel.remote(), timeout=ANSWER)
            until = time.monotonic() + END
            while left := sum(one.state in LEFT for one in _ask_conductor(job).values()):
                if time.monotonic() > until:
                    raise MachineError(f"{left} parts have not ended within {END:.0f} s; repeat the command")
                time.sleep(0.2)
            ray.kill(conductor)


def submit(folder: Path, run: str, parts: Sequence[int], demand: TaskDemand, address: str) -> Job:
    """Hand parts to a Ray cluster, and write the record of the job beside them. run: the name of the evaluation. Raises
    ConfigError for an address that is none, MachineError where Ray is not installed or no cluster answers there."""
    import ray

    with _connect(address):
        name = f"{run}-{secrets.token_hex(4)}"
        actor = ray.remote(Conductor).options(  # where its node dies, calls wait until it runs elsewhere
            name=name, namespace=NAMESPACE, lifetime="detached", num_cpus=0, max_concurrency=16,
            max_restarts=-1, max_task_retries=-1, resources={HEAD: 0.001} if HEAD in ray.cluster_resources() else {},
        )  # fmt: skip
        conductor = actor.remote(name, str(folder.resolve()), list(parts), demand)
        try:
            ray.get(conductor.tasks.remote(), timeout=ANSWER)
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

    with _connect(address):
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cpus, gpus = (max((node.get(kind, 0.0) for node in nodes), default=0.0) for kind in ("CPU", "GPU"))
    return cpus, gpus


def check_address(address: str) -> str:
    """The address itself. Raises ConfigError unless it is ``auto`` (the cluster of this machine or of RAY_ADDRESS),
    ``HOST:6379`` (from one of its nodes) or ``ray://HOST:10001``."""
    match = _ADDRESS.fullmatch(address)
    if match is None or (match[2] and not 0 < int(match[2]) < 65536):
        raise ConfigError(f"--address {address!r}: expected auto, HOST:6379 or ray://HOST:10001")
    return address


def require_ray() -> None:
    try:
        import ray  # noqa: F401
    except ImportError:
        raise MachineError(
            "Ray is not installed; install it as on the nodes of the cluster, by `pip install tomserve[ray]`"
        ) from None


@contextlib.contextmanager
def _connect(address: str) -> Iterator[None]:
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


def _ask_conductor(job: Job) -> Mapping[int, Task]:
    """What the conductor knows; nothing where it has gone. Raises MachineError where it does not answer."""
    import ray

    if (conductor := _conductor(job)) is None:
        return {}
    try:
        return ray.get(conductor.tasks.remote(), timeout=ANSWER)  # type: ignore[no-any-return]
    except ray.exceptions.ActorDiedError:
        return {}
    except ray.exceptions.RayError as error:
        raise MachineError(f"the job {job.id} on Ray does not answer ({_first_line(error)}); ask again later") from None


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
