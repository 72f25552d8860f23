"""A real Slurm of two nodes on this machine, without root services: everything lies in one folder, and ends with it.

It needs Debian's slurmctld, slurmd and slurm-client. Nobody has to be root, and nothing of a Slurm that may run here is
touched: it has ports and a configuration of its own, which SLURM_CONF names.
"""

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.helpers.command import until

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
        self.until(lambda: self.state(*NODES) == "idle idle", 30)

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
    assert until(lambda: not processes(slurm.env["SLURM_CONF"]), 10), "Slurm has left processes behind"
