"""The worker of the queue: takes experiments in their order, waits for their servers, and has each asked by `tomserve
eval` in a process of its own.

Everything that it knows stands in the cards of the runs and in the locks of ``runs/.web/jobs``, so that the next worker
adopts the processes that a killed one leaves.
"""

import contextlib
import hashlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tomserve.content import files
from tomserve.content.paths import absolute_runs_root, runs_root
from tomserve.content.python_file import module_command
from tomserve.content.text import sanitize, say
from tomserve.engine.addresses import normalize_url, redact_url, url_of
from tomserve.engine.records import utc_now
from tomserve.engine.redact import Redactor
from tomserve.errors import ConfigError, NoSuchRunError, ServerError
from tomserve.runs.progress import LOCK, lock_holder
from tomserve.runs.runfolder import JOURNAL
from tomserve.serving import keys, registry
from tomserve.serving.endpoint import is_started
from tomserve.serving.probe import send_request
from tomserve.web import queue, run_index
from tomserve.web.run_index import Card, Job, RunEntry, RunIndex, State, safe_path
from tomserve.web.settings import Settings
from tomserve.workflows import evaluate
from tomserve.workflows.evaluate import Experiment

CONSOLE = "console.txt"  # the file of a run that takes what the command prints
LONGEST_CONSOLE = 8 << 20  # bytes after which the file is emptied
LAST_BYTES = 2000  # bytes of its end that are looked at for the last line

AGAIN, AT_LAST = 75.0, 100.0
"""Seconds after which a process that was asked to end is asked again, and after which it is killed."""


class Child:
    """A process that asks an experiment, begun by this worker or left by an earlier one."""

    def __init__(self, name: str, folder: Path, process: subprocess.Popen[bytes] | None = None) -> None:
        self.name, self.folder = name, folder
        self._process = process
        self._signals: list[float] = []

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return is_alive(self.name) if self._process is None else self._process.poll() is None

    @property
    def code(self) -> int | None:
        """Its exit code, a negative one where a signal killed it; None where nobody knows it."""
        return None if self._process is None else self._process.returncode

    def stop(self) -> None:
        """Ask it to end, so that nothing is lost; later once more, which ends it at once, and kill it at last. May be
        called again and again."""
        moment = time.monotonic()
        passed = moment - self._signals[0] if self._signals else 0.0
        number = signal.SIGKILL if passed > AT_LAST else signal.SIGTERM
        due = (0.0, AGAIN, AT_LAST)
        if len(self._signals) < len(due) and passed >= due[len(self._signals)]:
            self._signals.append(moment)
            pid = self._process.pid if self._process is not None else pid_of(self.name)
            if pid is not None and self.alive:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)

    def bound(self) -> None:
        """Empty the file that takes what it prints, where that has become too long."""
        with contextlib.suppress(OSError, ConfigError):
            path = self.folder / CONSOLE
            if path.lstat().st_size > LONGEST_CONSOLE:
                with os.fdopen(files.open_regular(path, os.O_WRONLY | os.O_APPEND), "ab") as file:
                    file.truncate(0)


def begin_child(
    name: str, folder: Path, environment: Mapping[str, str], turn: int, addresses: Sequence[str] = ()
) -> Child | None:
    """Begin to ask the experiment in a run's folder; None where a process does so already.

    environment: of the process. turn: of the card, which is noted where the process prints to. addresses: to which the
    experiment may send its key. Raises OSError and ConfigError where it cannot be begun.
    """
    lock = files.open_regular(_lock(name), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not files.try_lock(lock):
            return None
        os.ftruncate(lock, 0)
        with os.fdopen(files.open_regular(folder / CONSOLE, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as console:
            console.write(f"{utc_now()} begins, turn {turn}\n".encode())
            console.flush()
            process = subprocess.Popen(
                [
                    *module_command("tomserve", "eval"),
                    *(f"--base-url={url}" for url in addresses),
                    *("--config", str((folder / evaluate.EXPERIMENT_FILE).absolute()), "--run", str(folder.absolute())),
                ],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env={**environment, "PYTHONUNBUFFERED": "1"},
                pass_fds=(lock,),
                start_new_session=True,
            )
        with contextlib.suppress(OSError):
            os.pwrite(lock, f"{process.pid} {registry.process_birth(process.pid) or ''}\n".encode(), 0)
        return Child(name, folder, process)
    finally:
        os.close(lock)  # the process has it, too, and so the lock is held until that ends


def is_alive(name: str) -> bool:
    """Whether a process asks the experiment of that name."""
    return lock_holder(_lock(name)) is not None


def pid_of(name: str) -> int | None:
    """The id of the process that asks an experiment, as the worker that began it has noted it; None where that is not
    known, or is another process by now."""
    try:
        noted, _, birth = files.read_bytes(_lock(name)).decode("ascii").strip().partition(" ")
    except (OSError, ValueError, ConfigError):
        return None
    pid = int(noted) if noted.isdigit() else 0
    return pid if pid and birth and registry.process_birth(pid) == birth else None


def last_line(folder: Path, begins: str = "") -> str:
    """The last line that the command has printed, or the last one that begins so; "" where there is none."""
    text = Redactor(*keys.all_keys())(files.read_tail(folder / CONSOLE, LAST_BYTES))
    for root in (absolute_runs_root(), runs_root().absolute()):
        text = text.replace(str(root), "runs")  # where that lies is nobody's business
    lines = (line for line in reversed(text.splitlines()) if line.strip() and line.startswith(begins))
    return sanitize(next(lines, "").strip().removeprefix("tomserve: "))[:500]


def _lock(name: str) -> Path:
    folder = runs_root() / ".web" / "jobs"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.lock"


DEATHS = 3
"""How often in a row a process may end by what nobody wanted, and get no further, until the experiment has failed."""

STOPPED = (129, 130, 143)  # exit codes of a command that a signal has stopped, with everything kept
LOST = 3  # exit code of a command whose server, or whose disk, went away


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How a process ended."""

    code: int | None  # its exit code, negative where a signal killed it, None where nobody knows
    grown: bool = True  # whether it got any further
    said: str = ""  # its last line
    failures: str = ""  # its line about requests that failed
    leaving: bool = False  # whether the worker itself ends


def job_after(job: Job, end: ProcessEnd) -> Job:
    """The place in the queue of an experiment whose process has ended."""
    code = end.code
    died = code is None or code < 0 or code == LOST
    if code in (0, 1):
        return _with_code(job, State.DONE, code, end.failures or end.said if code else "", ended=utc_now(), deaths=0)
    if job.wanted is State.CANCELLED:
        return _with_code(job, State.CANCELLED, code, "", ended=utc_now())
    if not died and code not in STOPPED:
        return _with_code(job, State.FAILED, code, end.said or f"ended with exit code {code}", ended=utc_now())
    if job.wanted is not None:
        return _with_code(job, job.wanted, code, "")
    if end.leaving:
        return _with_code(job, State.QUEUED, code, "stopped with the workbench, and goes on when that is started again")
    if not died:
        return _with_code(job, State.PAUSED, code, "a signal from elsewhere stopped it; let it go on")
    deaths = 0 if end.grown else job.deaths + 1
    why = "its process ended while no worker ran" if code is None else f"its process was killed by signal {-code}"
    why = end.said if code == LOST else why
    if deaths < DEATHS:
        return _with_code(job, State.QUEUED, code, f"{why}; it goes on by itself", deaths=deaths)
    said = f"{why}; that came {deaths} times in a row"
    return _with_code(job, State.FAILED, code, said, ended=utc_now(), deaths=deaths)


def _with_code(job: Job, state: State, code: int | None, said: str, **more: object) -> Job:
    turn = job.turn + 1 if state in (State.QUEUED, State.PAUSED) else job.turn
    return job.to(state, said, turn=turn, exit_code=code, wanted=None, **more)


SECONDS = 5.0  # how long a server may take to answer anything
LOADS = (502, 503, 504)  # what a server answers that loads a model, or a proxy in front of it


def waiting_reason(experiment: Experiment, folder: Path) -> str:
    """Why the experiment cannot begin now, in one sentence; "" where it can. No key is sent to any server."""
    pid = lock_holder(folder / LOCK)
    if pid is not None:
        return f"another process{f' ({pid})' if pid else ''} works on this run; it goes on once that has ended"
    if not experiment.base_url:
        return _local_reason(experiment.model, start=experiment.start)
    urls = [normalize_url(url) for url in experiment.base_url]
    for one in registry.believed_records(urls):
        if one.state == "loading":
            return f"the server at {redact_url(one.record.url)} is loading its model"
    return next((why for url in urls if (why := _endpoint_reason(url))), "")


def _endpoint_reason(url: str) -> str:
    try:
        status = send_request("GET", url_of(url, "/models"), seconds=SECONDS).status_code
    except (ServerError, ConfigError):
        return f"no server answers at {redact_url(url)} yet"
    return f"the server at {redact_url(url)} is busy, or still loads" if status in LOADS else ""


def _local_reason(model: str | None, *, start: bool) -> str:
    fitting = [one for one in registry.believed_records() if registry.serves(one.record, model)]
    if any(one.state == "ready" for one in fitting) or (not fitting and (start or is_started(model))):
        return ""
    if not fitting:
        return f"no server of {model} runs; start one with `tomserve serve {model}`"
    doing = "is loading its model" if fitting[0].state == "loading" else "does not answer now"
    return f"the server of {fitting[0].record.model} {doing}"


LOOK = 0.25  # seconds between two looks at a process
EVERY = 0.5  # seconds between two looks at all cards
TRY_EVERY = 3.0  # seconds between two tries to reach a server that does not answer
TOGETHER = 2.0  # seconds within which a signal reaches all processes of a machine that is being ended

LEAVES = 110.0
"""Seconds for which processes may end when the worker does; whatever still runs then is adopted by the next worker."""


class _ChangedError(Exception):
    """The place of an experiment in the queue is another one than the worker has read."""


class Worker:
    """Has the experiments of a folder of runs asked. stop: ends it, with everything that runs. leave: ends it alone."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.register = settings, RunIndex()
        self.stop, self.leave = threading.Event(), threading.Event()
        self._running: dict[str, str] = {}  # the names of what is being asked, with their groups
        self._due: dict[str, float] = {}  # of those that wait for a server, the time of the next try
        self._busy: set[str] = set()  # the groups in which a thread looks for what can begin
        self._lock = threading.RLock()

    def run(self) -> None:
        """Work until `stop` or `leave` is set."""
        while not self._ending:
            try:
                self._look()
            except (OSError, ConfigError) as error:  # a disk that is full is told, and may have room later
                say(f"{utc_now()} {error}", error=True)
            self.stop.wait(EVERY)
        if not self.leave.is_set():  # what an earlier worker has left ends as well, however short this one has lived
            self._adopt_all(self._jobs())
            for _ in range(int(LEAVES / LOOK)):
                if not (self._running or self._busy) or self.leave.wait(LOOK):
                    break
        self.leave.set()

    @property
    def _ending(self) -> bool:
        return self.stop.is_set() or self.leave.is_set()

    def _jobs(self) -> list[tuple[RunEntry, Job]]:
        return [(line, job) for line, job in queue.order_entries(self.register.every()) if job.active]

    def _look(self) -> None:
        jobs = self._jobs()
        self._adopt_all(jobs)
        groups: dict[str, list[tuple[RunEntry, Job]]] = {}
        for line, job in jobs:
            if job.waits and self._due.get(line.name, 0.0) <= time.monotonic():
                groups.setdefault(job.group, []).append((line, job))
        for group, waiting in groups.items():
            with self._lock:
                if group in self._busy:
                    continue
                self._busy.add(group)
            self._beside(self._begin_some, group, waiting)

    def _adopt_all(self, jobs: list[tuple[RunEntry, Job]]) -> None:
        for line, job in jobs:
            with self._lock:
                if not job.runs or line.name in self._running or run_index.read_card(line.folder).job != job:
                    continue
                self._running[line.name] = job.group
            self._beside(self._follow, Child(line.name, line.folder))

    def _beside(self, do: Callable[..., None], *about: Any) -> None:
        threading.Thread(target=do, args=about, daemon=True).start()

    def _begin_some(self, group: str, waiting: list[tuple[RunEntry, Job]]) -> None:
        try:
            for line, job in waiting:
                if self._ending or list(self._running.values()).count(group) >= self.settings.workers:
                    break
                with contextlib.suppress(_ChangedError, NoSuchRunError):
                    self._begin(line.name, job)
        except (OSError, ConfigError) as error:
            say(f"{utc_now()} {error}", error=True)
        finally:
            with self._lock:
                self._busy.discard(group)

    def _begin(self, name: str, job: Job) -> None:
        """Begin an experiment, unless it cannot be begun at all, or has to wait. Raises _ChangedError where its place
        has changed."""
        folder = safe_path(name)
        path = folder / evaluate.EXPERIMENT_FILE
        try:
            if not queue.is_sealed(name, path, job.seal):
                self._change(folder, job, lambda job: job.to(State.PAUSED, _STRANGE, turn=job.turn + 1))
                return
            experiment = evaluate.read_experiment(path)
            if experiment.key is not None:
                queue.check_key(experiment.key, experiment.base_url, self.settings)
            why = waiting_reason(experiment, folder)
        except (ConfigError, OSError) as error:
            said = str(error).replace(f"{folder}/", "")
            self._change(folder, job, lambda job: job.to(State.FAILED, said, ended=utc_now()))
            return
        if why:
            self._due[name] = time.monotonic() + TRY_EVERY
            self._change(folder, job, lambda job: job.to(State.WAITING, why))
            return
        self._due.pop(name, None)
        with self._lock:  # before the card says so: what runs by its card and is not known here is adopted
            self._running[name] = job.group
        begun: Child | None = None
        try:
            size = _size(folder)
            self._change(folder, job, lambda job: job.to(State.RUNNING, began=utc_now(), ended=None, rows=size))
            try:
                environment = queue.experiment_environment(experiment, self.settings)
                begun = begin_child(name, folder, environment, job.turn, experiment.base_url) or Child(name, folder)
            except (OSError, ConfigError) as error:
                self._note_end(folder, ProcessEnd(2, said=str(error)))
        finally:
            if begun is None:
                self._running.pop(name, None)
        if begun is not None:
            self._beside(self._follow, begun)

    def _change(self, folder: Path, known: Job, changed: Callable[[Job], Job]) -> None:
        def change(card: Card) -> Card:
            job = card.job
            if job is None or job.turn != known.turn or not job.waits:
                raise _ChangedError
            made = changed(job)
            return card if made == job else card.model_copy(update={"job": made})

        run_index.change_card(folder, change)

    def _follow(self, process: Child) -> None:
        try:
            while process.alive:
                if self.leave.wait(LOOK):
                    return
                process.bound()
                if (self.stop.is_set() or self._should_stop(process.folder)) and not self.leave.is_set():
                    process.stop()
            code = process.code
            if code in STOPPED or (code is not None and code < 0):
                self.stop.wait(TOGETHER)  # whoever ends a machine sends the signal to the worker at the same time
            failures = last_line(process.folder, "failures: ")
            end = ProcessEnd(code, said=last_line(process.folder), failures=failures, leaving=self.stop.is_set())
            self._note_end(process.folder, end)
        except (OSError, ConfigError) as error:
            say(f"{utc_now()} {process.name}: {error}", error=True)
        finally:
            self._running.pop(process.name, None)

    def _should_stop(self, folder: Path) -> bool:
        try:
            job = run_index.read_card(folder).job
        except (ConfigError, OSError):  # it can be read again a moment later
            return False
        return job is None or job.state is not State.RUNNING

    def _note_end(self, folder: Path, end: ProcessEnd) -> None:
        def change(card: Card) -> Card:
            job = card.job
            if job is None or not job.runs:
                return card
            how = replace(end, grown=_size(folder) > job.rows)
            return card.model_copy(update={"job": job_after(job, how)})

        run_index.change_card(folder, change)


_STRANGE = "this workbench has not queued it; look at what it asks of whom, and let it go on if you want that"


def _size(folder: Path) -> int:
    with contextlib.suppress(OSError):
        return (folder / JOURNAL).lstat().st_size
    return 0
