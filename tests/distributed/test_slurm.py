"""Parts as an array of Slurm jobs, on a real Slurm of two nodes: what happens to a task, and that nothing is lost.

The model is an endpoint of these tests.
One Slurm serves all tests of this file."""

import contextlib
import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Cli, Endpoint, make_item
from tests.helpers.command import until
from tests.helpers.outcomes import passes, refuses
from tomserve.distributed.cluster import Job
from tomserve.distributed.shards import part_folder, part_states
from tomserve.runs.journal import read_rows

NODES = ("n1", "n2")
"""The nodes, each a slurmd of its own on this machine."""

NEEDED = ("slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "sinfo")

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random")
"""What stands for the four GPUs of each node: Slurm wants a device for each."""

CONFIGURATION = """\
ClusterName=tests
SlurmctldHost=localhost
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
AuthInfo=cred_expire=5
CredType=cred/none
PluginDir={plugins}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
SlurmdSpoolDir={folder}/%n
StateSaveLocation={folder}/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1,requeue_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobRequeue=1
KillWait=4
MinJobAge=300
SlurmdTimeout=6
SlurmctldTimeout=6
GresTypes=gpu
NodeName={names} NodeHostname=localhost Port={ports} CPUs=2 RealMemory=1000 Gres=gpu:4 State=UNKNOWN
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=9 PreemptMode=off
"""


@dataclass
class Slurm:
    """A running cluster. env: what a process needs to talk to it, besides its own environment."""

    folder: Path
    env: Mapping[str, str]
    _daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __call__(self, *arguments: str, check: bool = True) -> str:
        """What a command of Slurm prints. check: whether the test fails where it does not end well."""
        env = {**os.environ, **self.env}
        done = subprocess.run(arguments, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0 or not check, f"{arguments}: {done.stdout}{done.stderr}{self.logs()}"
        return done.stdout

    def until(self, met: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait until a condition is met. Fails the test, with what the daemons said, where that takes too long."""
        assert until(met, seconds), f"waited for {seconds:.0f} s\n{self.logs()}"

    def empty(self) -> bool:
        """Whether no job waits or runs."""
        return not self("squeue", "-h").strip()

    def state(self, *nodes: str) -> str:
        """The states of nodes, such as idle."""
        return " ".join(self("sinfo", "-h", "-N", "-p", "main", "-n", ",".join(nodes), "-o", "%t", check=False).split())

    def logs(self) -> str:
        """The last lines of every daemon's log."""
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in logs)

    def begin(self) -> None:
        """Start the controller and both nodes."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")} | dict(self.env)
        for name in ("slurmctld", *NODES):
            command = ["slurmctld", "-D"] if name == "slurmctld" else ["slurmd", "-D", "-N", name, "-d", _stepd()]
            command += ["-f", str(self.folder / "slurm.conf")]
            with (self.folder / f"{name}.out").open("ab") as out:
                self._daemons[name] = subprocess.Popen(command, env=env, stdout=out, stderr=out, start_new_session=True)
        self.until(lambda: self.state(*NODES) == "idle idle")

    def end(self) -> None:
        """End all jobs and daemons, and whatever they left."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self("scancel", "--quiet", "--me", check=False)
        for daemon in self._daemons.values():
            daemon.terminate()
        for daemon in self._daemons.values():
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait(20)
        _signal(processes(self.env["SLURM_CONF"]), signal.SIGKILL)


def processes(configuration: str) -> list[int]:
    """The processes of the Slurm of that configuration, but for this one."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = (folder / "environ").read_bytes().split(b"\0")
            own = f"SLURM_CONF={configuration}".encode() in environment and int(folder.name) != os.getpid()
            found += [int(folder.name)] if own else []
    return found


def _signal(numbers: list[int], signal_: int) -> None:
    for pid in numbers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal_)


def _stepd() -> str:
    return shutil.which("slurmstepd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/lib/slurm") or "slurmstepd"


def _ports(count: int) -> list[int]:
    """So many ports in a row that nobody listens on."""
    for first in range(21000 + os.getpid() % 5000, 30000, count):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("", port))
            except OSError:
                continue
            return list(range(first, first + count))
    pytest.fail("no free ports for Slurm")


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Slurm]:
    """A real Slurm of two nodes with two cores and four GPUs each, which are only names; it leaves no process behind.

    folder: an empty one for its files. The test is skipped where Slurm is not installed, and fails there where
    NEED_SLURM=1.
    """
    plugins = next(Path("/usr/lib").glob("*/slurm-wlm"), None)
    if plugins is None or not all(map(shutil.which, NEEDED)):
        refuse = pytest.fail if os.environ.get("NEED_SLURM") == "1" else pytest.skip
        refuse("Slurm is not installed (Debian: apt-get install slurmctld slurmd slurm-client)")
    controller, *ports = _ports(1 + len(NODES))
    for name in ("state", *NODES):
        (folder / name).mkdir()
    about = {"controller": controller, "user": getpass.getuser(), "plugins": plugins, "folder": folder}
    text = CONFIGURATION.format(names=",".join(NODES), ports=",".join(map(str, ports)), **about)
    (folder / "slurm.conf").write_text(text)
    (folder / "gres.conf").write_text("".join(f"Name=gpu File={device}\n" for device in DEVICES))
    slurm = Slurm(folder, {"SLURM_CONF": str(folder / "slurm.conf")})
    try:
        slurm.begin()
        yield slurm
    finally:
        slurm.end()
    assert until(lambda: not processes(slurm.env["SLURM_CONF"])), "Slurm has left processes behind"


pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with running(tmp_path_factory.mktemp("slurm")) as slurm:
        yield slurm


@pytest.fixture
def slurm(cluster: Slurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    """The cluster, which this test alone uses; nothing waits or runs there when it begins and when it ends."""
    for name, value in cluster.env.items():
        monkeypatch.setenv(name, value)
    yield cluster
    cluster("scancel", "--quiet", "--me")
    cluster.until(cluster.empty)


@dataclass
class Door:
    """Lets an endpoint answer every other question, and the rest only once it is opened."""

    opened: bool = False

    def hold(self, body: dict[str, Any]) -> bool:
        asked = re.search(r"Jar number (\d+)", str(body["messages"]))
        return not self.opened and asked is not None and int(asked[1]) % 2 == 1


@dataclass
class Evaluation:
    """An evaluation of forty questions, divided into so many parts and submitted."""

    cli: Cli
    slurm: Slurm
    folder: Path
    door: Door
    parts: int
    job: str = ""

    def submit(self, *options: str) -> None:
        """Submit what is left."""
        done = self.cli("submit", "slurm", "mine", "--nodes", "4", "--cpus", "1", *options)
        assert done.code == 0, done.err
        self.job = Job.read(self.folder).id  # type: ignore[union-attr]

    def half(self) -> None:
        """Wait until everything is kept that the endpoint answers; every part has something of it, and lacks the rest."""
        self.slurm.until(lambda: len(self.rows()) >= 20)

    def open(self) -> None:
        self.door.opened = True

    def done(self) -> None:
        """Wait until the job has ended; then everything must be asked, and nothing that was kept may be asked twice."""
        self.slurm.until(self.slurm.empty, 120)
        assert [part.state for part in part_states(self.folder)] == ["complete"] * self.parts, self.logs()
        rows = self.rows()
        assert sorted(row["item"] for row in rows) == sorted(f"demo/{number}" for number in range(1, 41))
        assert {row["status"] for row in rows} == {"ok"}

    def rows(self) -> list[dict[str, Any]]:
        places = [part_folder(self.folder, number) / "responses.jsonl" for number in range(self.parts)]
        return [row for place in places for _, row in read_rows(place)]

    def starts(self, part: int) -> list[str]:
        """The nodes on which a part was started, one after the other."""
        record = self.folder / "slurm" / f"{part:04}.starts"
        return [line.split()[2] for line in record.read_text().splitlines()] if record.exists() else []

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted((self.folder / "slurm").glob("*.txt")))

    def processes(self, part: int) -> list[int]:
        """The processes of `tomserve work` that ask a part now."""
        found = []
        for pid in processes(self.slurm.env["SLURM_CONF"]):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                asks = b"work" in words and words[words.index(b"--part") + 1] == str(part).encode()
                found += [pid] if asks else []
        return found


@pytest.fixture
def evaluation(
    cli: Cli, slurm: Slurm, endpoint: Endpoint, tmp_path: Path, request: pytest.FixtureRequest
) -> Evaluation:
    """Four parts, or as many as the test says, to be asked of an endpoint that answers the first half of the questions at
    once."""
    items = tmp_path / "items.jsonl"
    items.write_bytes(b"".join(make_item(number).to_json() + b"\n" for number in range(1, 41)))
    door = Door()
    endpoint.hold = door.hold
    asked = ("--benchmark", "items", "--path", str(items), "--strategy", "vanilla", "--base-url", endpoint.url)
    parts = getattr(request, "param", 4)
    passes(cli("shard", "--run", "mine", "--parts", parts, *asked))
    return Evaluation(cli, slurm, tmp_path / "runs/mine.parts", door, parts)


two_parts = pytest.mark.parametrize("evaluation", [2], indirect=True, ids=["two parts"])


@pytest.mark.system
def test_an_array_asks_all_parts_on_both_nodes_and_goes_on_after_it_was_cancelled(
    evaluation: Evaluation, slurm: Slurm, cli: Cli
) -> None:
    evaluation.submit()
    evaluation.half()
    slurm.until(lambda: all(evaluation.starts(part) for part in range(4)))
    assert {node for part in range(4) for node in evaluation.starts(part)} == {"n1", "n2"}
    shown = cli("status", "mine")
    assert shown.code == 3, shown.err
    assert f"slurm job {evaluation.job}" in shown.out
    assert shown.out.count("RUNNING") == 4
    refuses(cli("submit", "slurm", "mine"), f"job {evaluation.job} still asks 4 of these parts")
    assert "4 of 4 parts ended" in cli("cancel", "mine").out
    slurm.until(slurm.empty)
    assert len(evaluation.rows()) == 20
    assert all(len(evaluation.starts(part)) == 1 for part in range(4)), "a cancelled task has started itself again"
    assert cli("status", "mine").out.count("CANCELLED") >= 4
    assert "ended already" in cli("cancel", "mine").out
    evaluation.open()
    evaluation.submit()
    evaluation.done()
    shown = cli("status", "mine")
    assert (shown.code, shown.out.count("complete"), shown.out.count("COMPLETED")) == (0, 5, 4)
    assert "all parts" in cli("submit", "slurm", "mine").out


@pytest.mark.system
def test_tasks_that_are_killed_or_requeued_go_on(evaluation: Evaluation, slurm: Slurm) -> None:
    evaluation.submit()
    evaluation.half()
    slurm.until(lambda: bool(evaluation.processes(2)))
    for pid in evaluation.processes(2):
        os.kill(pid, signal.SIGKILL)
    slurm("scontrol", "requeue", f"{evaluation.job}_1")
    slurm.until(lambda: len(evaluation.starts(2)) == len(evaluation.starts(1)) == 2)
    evaluation.open()
    evaluation.done()
    assert len(evaluation.starts(1)) == 2, "only Slurm was to start it again, and not the task itself, too"
    assert "ended with exit code 137 before all was asked; starts again" in evaluation.logs()
    assert "DUE TO JOB REQUEUE" in evaluation.logs()


@pytest.mark.system
@two_parts
def test_before_its_time_is_up_a_task_stops_and_starts_itself_again(
    evaluation: Evaluation, slurm: Slurm, tmp_path: Path
) -> None:
    template = tmp_path / "mine.sh.jinja"
    template.write_text((ROOT / "launch/slurm/array.sh.jinja").read_text().replace("{{ patience }}", "2"))
    evaluation.submit("--time", "1", "--grace", "58", "--tries", "20", "--template", str(template))
    evaluation.half()
    slurm.until(lambda: any(len(evaluation.starts(part)) > 1 for part in range(2)), 120)
    evaluation.open()
    evaluation.done()
    assert "ended with exit code 143 before all was asked; starts again" in evaluation.logs()


@pytest.mark.system
@two_parts
def test_a_task_that_gets_nowhere_gives_up_and_nothing_finds_the_key(
    evaluation: Evaluation, slurm: Slurm, monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint, cli: Cli, tmp_path: Path
) -> None:
    """The key is in a file whose path travels in the environment, and stands in nothing that is written."""
    key, endpoint.key = tmp_path / "key", "sk-very-secret"
    key.touch(0o600)
    key.write_text(endpoint.key)
    monkeypatch.setenv("TOMSERVE_API_KEY_FILE", str(key))
    refuses(cli("submit", "slurm", "mine"), "tasks would send the API key to")
    endpoint.models = ["another"]
    evaluation.submit("--tries", "2", "--base-url", endpoint.url)
    slurm.until(slurm.empty, 120)
    assert all(len(evaluation.starts(part)) == 2 for part in range(2)), evaluation.logs()
    assert evaluation.logs().count("gives up: 2 starts in a row have brought no answer, on n") == 2
    shown = cli("status", "mine")
    assert shown.code == 3
    assert shown.out.count("FAILED") >= 2
    endpoint.models = ["tiny"]
    evaluation.open()
    evaluation.submit("--tries", "1", "--base-url", endpoint.url)
    told = slurm("scontrol", "show", "job", evaluation.job).encode()
    evaluation.done()
    written = [path.read_bytes() for path in evaluation.folder.rglob("*") if path.is_file()]
    assert not [text for text in (*written, told) if b"sk-very-secret" in text]
