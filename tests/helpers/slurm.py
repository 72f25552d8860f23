"""A real Slurm of two nodes on this machine, without root services: everything lies in one folder, and ends with it.

It needs Debian's slurmctld, slurmd and slurm-client. Nobody has to be root, and nothing of a Slurm that may run here is
touched: it has ports and a configuration of its own, which SLURM_CONF names.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

NODES = ("n1", "n2")
"""The nodes, each a slurmd of its own on this machine."""

NEEDED = ("slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "sinfo")

NODE = "TESTS_OF_SLURM"
"""The variable that tells of which daemon a process is."""

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

    def __call__(self, *arguments: str) -> str:
        """What a command of Slurm prints. Fails the test where it does not end well."""
        env = {**os.environ, **self.env}
        done = subprocess.run(arguments, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}{self.logs()}"
        return done.stdout

    def until(self, met: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait until a condition is met. Fails the test, with what the daemons said, where that takes too long."""
        end = time.monotonic() + seconds
        while not met():
            assert time.monotonic() < end, f"waited for {seconds:.0f} s\n{self.logs()}"
            time.sleep(0.1)

    def empty(self) -> bool:
        """Whether no job waits or runs."""
        return not self("squeue", "-h").strip()

    def task(self, job: str, part: int) -> tuple[str, str]:
        """The state of one task of an array and the node it runs on, in Slurm's words."""
        for line in self("squeue", "-h", "-r", "-t", "all", "-j", job, "-o", "%K|%T|%N").splitlines():
            number, state, node = line.split("|")
            if number == str(part):
                return state, node
        return "", ""

    def start(self, node: str) -> None:
        """Start the slurmd of a node, and wait until the node can be used."""
        command = ["slurmd", "-D", "-N", node, "-f", str(self.folder / "slurm.conf"), "-d", _stepd()]
        self._daemons[node] = self._daemon(command, node)
        self.until(lambda: self.state(node) in ("idle", "down"))
        if self.state(node) == "down":
            self("scontrol", "update", f"nodename={node}", "state=resume")
        self.until(lambda: self.state(node) == "idle")

    def stop(self, node: str) -> None:
        """End the slurmd of a node and all that runs there at once, as a node that loses its power does."""
        for number in (signal.SIGSTOP, signal.SIGKILL):  # first halted, so that none can tell of the others' end
            for pid in _of_node(self.env["SLURM_CONF"], node):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        self._daemons.pop(node).wait(30)

    def state(self, node: str) -> str:
        """The state of a node, such as idle."""
        return self("sinfo", "-h", "-N", "-p", "main", "-n", node, "-o", "%t").strip()

    def logs(self) -> str:
        """The last lines of every daemon's log."""
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in logs)

    def begin(self) -> None:
        """Start the controller and both nodes."""
        configuration = ["-f", str(self.folder / "slurm.conf")]
        self._daemons["slurmctld"] = self._daemon(["slurmctld", "-D", *configuration], "controller")
        for node in NODES:
            command = ["slurmd", "-D", "-N", node, *configuration, "-d", _stepd()]
            self._daemons[node] = self._daemon(command, node)
        self.until(self._idle, 30)

    def _idle(self) -> bool:
        env = {**os.environ, **self.env}
        told = subprocess.run(
            ["sinfo", "-h", "-N", "-p", "main", "-o", "%t"],
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return told.stdout.split() == ["idle"] * len(NODES)

    def _daemon(self, command: list[str], name: str) -> subprocess.Popen[bytes]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")} | dict(self.env)
        env[NODE] = name  # by which it is found, and the steps that it starts
        with (self.folder / f"{name}.out").open("ab") as out:
            return subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)

    def end(self) -> None:
        """End all jobs and daemons, and whatever they left."""
        env = {**os.environ, **self.env}
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(["scancel", "--quiet", "--me"], env=env, timeout=20, check=False)
        for daemon in self._daemons.values():
            daemon.terminate()
        for daemon in self._daemons.values():
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait(20)
        for pid in processes(self.env["SLURM_CONF"]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def processes(configuration: str) -> list[int]:
    """The processes that belong to the Slurm of that configuration, besides this one and those it started itself."""
    return [pid for pid, environment in _environments() if f"SLURM_CONF={configuration}".encode() in environment]


def _of_node(configuration: str, node: str) -> list[int]:
    """The processes of a node: its slurmd, the steps that it started, and their tasks."""
    found = []
    for pid, environment in _environments():
        if f"SLURM_CONF={configuration}".encode() not in environment:
            continue
        if {f"SLURMD_NODENAME={node}".encode(), f"{NODE}={node}".encode()} & {*environment}:
            found.append(pid)
    return found


def _environments() -> Iterator[tuple[int, list[bytes]]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                yield int(folder.name), (folder / "environ").read_bytes().split(b"\0")


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
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    plugins = next(Path("/usr/lib").glob("*/slurm-wlm"), None)
    if lacking or plugins is None:
        reason = "Slurm is not installed (Debian: apt-get install slurmctld slurmd slurm-client)"
        if os.environ.get("NEED_SLURM") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    controller, *ports = _ports(1 + len(NODES))
    for name in ("state", *NODES):
        (folder / name).mkdir()
    text = CONFIGURATION.format(
        controller=controller,
        user=getpass.getuser(),
        plugins=plugins,
        folder=folder,
        names=",".join(NODES),
        ports=",".join(map(str, ports)),
    )
    (folder / "slurm.conf").write_text(text)
    (folder / "gres.conf").write_text("".join(f"Name=gpu File={device}\n" for device in DEVICES))
    slurm = Slurm(folder, {"SLURM_CONF": str(folder / "slurm.conf")})
    try:
        slurm.begin()
        yield slurm
    finally:
        slurm.end()
    for _ in range(100):
        if not (left := processes(slurm.env["SLURM_CONF"])):
            return
        time.sleep(0.1)
    pytest.fail(f"Slurm has left processes behind: {left}")
