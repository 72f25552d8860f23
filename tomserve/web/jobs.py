"""Jobs of the worker: takes experiments out of the queue, waits for their servers, and has each asked by `tomserve
eval` in a process of its own.

There is a thread for each group of experiments. Everything that it knows stands in the cards of the runs and in the
locks of ``runs/.web/jobs``, so that the next worker adopts the processes that a killed one leaves.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tomserve.content import files
from tomserve.content.paths import absolute_runs_root, runs_root
from tomserve.content.text import sanitize, say
from tomserve.engine.records import utc_now
from tomserve.engine.redact import Redactor
from tomserve.errors import ConfigError, NoSuchRunError, ServerError
from tomserve.runs.progress import lock_holder
from tomserve.runs.runfolder import JOURNAL
from tomserve.serving import keys, registry
from tomserve.serving.endpoint import REFERENCE, normalize_url, redact_url
from tomserve.serving.probe import send_request
from tomserve.web import queue, run_index
from tomserve.web.queue import Entries, Entry
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


def begin_child(name: str, folder: Path, environment: Mapping[str, str], turn: int) -> Child | None:
    """Begin to ask the experiment in a run's folder; None where a process does so already.

    environment: of the process. turn: of the card, which is noted where the process prints to. Raises OSError and
    ConfigError where it cannot be begun.
    """
    lock = os.open(_lock(name), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        if not files.try_lock(lock):
            return None
        os.ftruncate(lock, 0)
        with os.fdopen(files.open_regular(folder / CONSOLE, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as console:
            console.write(f"{utc_now()} begins, turn {turn}\n".encode())
            console.flush()
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tomserve", "eval"),
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
    try:
        lock = os.open(_lock(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return not files.try_lock(lock, shared=True)
    finally:
        os.close(lock)


def pid_of(name: str) -> int | None:
    """The id of the process that asks an experiment, as the worker that began it has noted it; None where that is not
    known, or is another process by now."""
    try:
        noted, _, birth = _lock(name).read_text("ascii").strip().partition(" ")
    except (OSError, ValueError):
        return None
    pid = int(noted) if noted.isdigit() else 0
    return pid if pid and birth and registry.process_birth(pid) == birth else None


def last_line(folder: Path, begins: str = "") -> str:
    """The last line that the command has printed, or the last one that begins so; "" where there is none."""
    with contextlib.suppress(OSError, ConfigError), files.open_for_reading(folder / CONSOLE) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - LAST_BYTES))
        text = Redactor(*keys.all_keys())(file.read(LAST_BYTES).decode("utf-8", "replace"))
        for root in (absolute_runs_root(), runs_root().absolute()):
            text = text.replace(str(root), "runs")  # where that lies is nobody's business
        for line in reversed(text.splitlines()):
            if line.strip() and line.startswith(begins):
                return sanitize(line.strip().removeprefix("tomserve: "))[:500]
    return ""


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
    if code in (0, 1):
        return _with_code(job, State.DONE, code, end.failures or end.said if code else "", ended=utc_now(), deaths=0)
    if job.wanted is State.CANCELLED:
        return _with_code(job, State.CANCELLED, code, "", ended=utc_now())
    if job.wanted is not None and (code in STOPPED or code is None or code < 0 or code == LOST):
        return _with_code(job, job.wanted, code, "")
    if end.leaving and (code is None or code < 0 or code in STOPPED or code == LOST):
        return _with_code(job, State.QUEUED, code, "stopped with the workbench, and goes on when that is started again")
    if code in STOPPED:
        return _with_code(job, State.PAUSED, code, "a signal from elsewhere stopped it; let it go on")
    if code is None or code < 0 or code == LOST:
        deaths = 0 if end.grown else job.deaths + 1
        killed = (
            "its process ended while no worker ran" if code is None else f"its process was killed by signal {-code}"
        )
        why = end.said if code == LOST else killed
        if deaths < DEATHS:
            return _with_code(job, State.QUEUED, code, f"{why}; it goes on by itself", deaths=deaths)
        return _with_code(
            job, State.FAILED, code, f"{why}; that came {deaths} times in a row", ended=utc_now(), deaths=deaths
        )
    return _with_code(job, State.FAILED, code, end.said or f"ended with exit code {code}", ended=utc_now())


def _with_code(job: Job, state: State, code: int | None, said: str, **more: object) -> Job:
    turn = job.turn + 1 if state in (State.QUEUED, State.PAUSED) else job.turn
    return job.to(state, said, turn=turn, exit_code=code, wanted=None, **more)


SECONDS = 5.0  # how long a server may take to answer anything
LOADS = (502, 503, 504)  # what a server answers that loads a model, or a proxy in front of it


def waiting_reason(experiment: Experiment, folder: Path) -> str:
    """Why the experiment cannot begin now, in one sentence; "" where it can. No key is sent to any server."""
    pid = lock_holder(folder)
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
    """Why nothing can be asked at an address now; "" where something answers there, whatever it says."""
    try:
        status = send_request("GET", f"{url}/models", seconds=SECONDS).status_code
    except (ServerError, ConfigError):
        return f"no server answers at {redact_url(url)} yet"
    return f"the server at {redact_url(url)} is busy, or still loads" if status in LOADS else ""


def _local_reason(model: str | None, *, start: bool) -> str:
    """Why no server of this machine can be asked now; "" where one can, or where one is started."""
    fitting = [
        one
        for one in registry.believed_records()
        if model in (None, one.record.model, registry.model_argument(one.record))
    ]
    if any(one.state == "ready" for one in fitting):
        return ""
    if fitting:
        doing = "is loading its model" if fitting[0].state == "loading" else "does not answer now"
        return f"the server of {fitting[0].record.model} {doing}"
    if start or model in (None, REFERENCE):
        return ""
    return f"no server of {model} runs; start one with `tomserve serve {model}`"


LOOK = 0.25  # seconds between two looks at a process, or into an empty queue
EVERY = 1.0  # seconds between two looks at all cards
TRY_EVERY = 3.0  # seconds between two tries to reach a server that does not answer
TOGETHER = 2.0  # seconds within which a signal reaches all processes of a machine that is being ended

LEAVES = 110.0
"""Seconds for which processes may end when the worker does; whatever still runs then is adopted by the next worker."""


class _VoidError(Exception):
    """The entry's turn is not that of the card any more."""


@dataclass
class Group:
    """Experiments that share a server."""

    name: str
    tried: dict[Entry, float] = field(default_factory=dict)  # those that wait for it, with the time of the next try
    running: set[str] = field(default_factory=set)  # the names of those that are being asked
    thread: threading.Thread | None = None  # takes the others out of the queue


class Worker:
    """Has the experiments of a folder of runs asked. stop: ends it, with everything that runs. leave: ends it alone."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.register, self.entries = settings, RunIndex(settings.folder), Entries(settings)
        self.stop, self.leave = threading.Event(), threading.Event()
        self._groups: dict[str, Group] = {}
        self._active: set[str] = set()
        self._held: set[Entry] = set()
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
            for line, job in self._jobs():
                if job.runs:
                    self._adopt(line, job)
            self._join()

    @property
    def _ending(self) -> bool:
        return self.stop.is_set() or self.leave.is_set()

    def _join(self) -> None:
        """Wait until all threads have ended, and with them what runs."""
        for _ in range(int(LEAVES / LOOK)):
            with self._lock:
                if not any(group.running for group in self._groups.values()) or self.leave.is_set():
                    break
            self.leave.wait(LOOK)
        self.leave.set()

    def _look(self) -> None:
        """Look at all cards: adopt what runs, put back what the queue has lost, and see that groups have threads."""
        active = self._jobs()
        with self._lock:
            self._active = {job.group for _, job in active}
        for name in self._active:
            known = self.entries.all(name)
            own = [(line, job) for line, job in active if job.group == name]
            for line, job in own:
                entry = Entry(line.name, job.turn)
                waits = job.state in (State.QUEUED, State.WAITING)
                if waits and known is not None and entry not in known | self._held:
                    self.entries.put(name, entry, job.order)
                elif job.runs:
                    self._adopt(line, job)
            self._ensure_thread(name)

    def _jobs(self) -> list[tuple[RunEntry, Job]]:
        """Everything that is still to be run, or runs."""
        jobs = [(line, line.card.job) for line in self.register.every() if line.card.job is not None]
        return [(line, job) for line, job in jobs if job.active]

    def _ensure_thread(self, name: str) -> Group:
        """The group of that name, with a thread."""
        with self._lock:
            group = self._groups.setdefault(name, Group(name))
            if group.thread is None or not group.thread.is_alive():
                group.thread = threading.Thread(target=self._serve, args=(group,), name=f"group {name}", daemon=True)
                group.thread.start()
            return group

    def _adopt(self, line: RunEntry, job: Job) -> None:
        """Take care of an experiment that runs by its card, and that no thread of this worker has begun."""
        with self._lock:
            group = self._groups.setdefault(job.group, Group(job.group))
            if line.name in group.running:
                return
            if run_index.read_card(line.folder).job != job:  # it has ended since
                return
            group.running.add(line.name)
        self._follow_beside(group, Child(line.name, line.folder))

    def _serve(self, group: Group) -> None:
        """Take experiments of a group out of the queue, one after the other, until there are none."""
        while not self.stop.wait(LOOK) and not self.leave.is_set():
            with self._lock:
                if group.name not in self._active and not group.running and not group.tried:
                    return
                free = self.settings.workers - len(group.running)
            try:
                if free > 0 and not self._tried_again(group):
                    self._next(group)
            except (OSError, ConfigError) as error:
                say(f"{utc_now()} {error}", error=True)

    def _tried_again(self, group: Group) -> bool:
        """Begin the first experiment that has waited for its server and finds it now."""
        moment = time.monotonic()
        for entry in [entry for entry, due in group.tried.items() if due <= moment]:
            if self._begin(group, entry):
                return True
        return False

    def _next(self, group: Group) -> None:
        """Begin the first experiment of the queue that can begin; those that cannot wait for their server."""
        while not self._ending and (entry := self.entries.take(group.name)) is not None:
            with self._lock:
                if entry in self._held:
                    continue
                self._held.add(entry)
            if self._begin(group, entry):
                return

    def _begin(self, group: Group, entry: Entry) -> bool:
        """Begin an experiment, unless its entry is void, it cannot be begun at all, or it has to wait."""
        group.tried.pop(entry, None)
        try:
            folder = safe_path(entry.name)
            card = self._read_card(entry, folder)
            experiment, why = self._check(entry, folder, card)
            if why:
                self._change_job(entry, folder, lambda job: job.to(State.WAITING, why))
                group.tried[entry] = time.monotonic() + TRY_EVERY
                return False
            return self._ask(group, entry, folder, experiment)
        except (_VoidError, NoSuchRunError):
            return False
        finally:
            if entry not in group.tried:
                with self._lock:
                    self._held.discard(entry)

    def _ask(self, group: Group, entry: Entry, folder: Path, experiment: Experiment) -> bool:
        """Begin the process of an experiment. Raises _VoidError where its turn is over meanwhile."""
        size = _size(folder)
        with self._lock:  # before the card says so: what runs by its card and is not known here is adopted
            group.running.add(entry.name)
        begun: Child | None = None
        try:
            self._change_job(
                entry, folder, lambda job: job.to(State.RUNNING, "", began=utc_now(), ended=None, rows=size)
            )
            try:
                environment = queue.experiment_environment(experiment, self.settings)
                begun = begin_child(entry.name, folder, environment, entry.turn) or Child(entry.name, folder)
            except (OSError, ConfigError) as error:
                self._note_end(entry.name, folder, ProcessEnd(2, said=str(error)))
                return False
        finally:
            if begun is None:
                with self._lock:
                    group.running.discard(entry.name)
        self._follow_beside(group, begun)
        return True

    def _read_card(self, entry: Entry, folder: Path) -> Card:
        """The card of an entry. Raises _VoidError where its turn is over, or was never there."""
        try:
            card = run_index.read_card(folder)
        except (ConfigError, OSError):
            raise _VoidError from None
        if card.job is None or card.job.turn != entry.turn or card.job.state not in (State.QUEUED, State.WAITING):
            raise _VoidError
        return card

    def _check(self, entry: Entry, folder: Path, card: Card) -> tuple[Experiment, str]:
        """The experiment of an entry, and why it has to wait, "" where it can begin. Raises _VoidError where it may not
        be asked, which its card then says."""
        path, job = folder / evaluate.EXPERIMENT_FILE, card.job
        try:
            if job is None or not queue.is_sealed(entry.name, path, job.seal):
                self._change_job(entry, folder, lambda job: job.to(State.PAUSED, _STRANGE, turn=job.turn + 1))
                raise _VoidError
            experiment = evaluate.read_experiment(path)
            queue.check_key(experiment, self.settings)
            return experiment, waiting_reason(experiment, folder)
        except (ConfigError, OSError) as error:
            why = str(error).replace(f"{folder}/", "")
            self._change_job(entry, folder, lambda job: job.to(State.FAILED, why, ended=utc_now()))
            raise _VoidError from None

    def _change_job(self, entry: Entry, folder: Path, changed: Callable[[Job], Job]) -> None:
        """Change the place of an entry's experiment. Raises _VoidError where its turn is over meanwhile."""

        def change(card: Card) -> Card:
            job = card.job
            if job is None or job.turn != entry.turn or job.state not in (State.QUEUED, State.WAITING):
                raise _VoidError
            made = changed(job)
            return card if made == job else card.model_copy(update={"job": made})

        run_index.change_card(folder, change)

    def _follow_beside(self, group: Group, process: Child) -> None:
        threading.Thread(target=self._follow, args=(group, process), name=f"run {process.name}", daemon=True).start()

    def _follow(self, group: Group, process: Child) -> None:
        """Wait for a process, end it where that is wanted, and note how it ended."""
        try:
            while process.alive:
                if self.leave.wait(LOOK):
                    return
                process.bound()
                if self.stop.is_set() or self._should_stop(process.folder):
                    process.stop()
            code = process.code
            if code in STOPPED or (code is not None and code < 0):
                self.stop.wait(TOGETHER)  # whoever ends a machine sends the signal to the worker at the same time
            failures = last_line(process.folder, "failures: ")
            end = ProcessEnd(code, said=last_line(process.folder), failures=failures, leaving=self.stop.is_set())
            self._note_end(process.name, process.folder, end)
        except (OSError, ConfigError) as error:
            say(f"{utc_now()} {process.name}: {error}", error=True)
        finally:
            with self._lock:
                group.running.discard(process.name)

    def _should_stop(self, folder: Path) -> bool:
        """Whether an experiment that runs is to end."""
        try:
            job = run_index.read_card(folder).job
        except (ConfigError, OSError):  # it can be read again a moment later
            return False
        return job is None or job.state is not State.RUNNING

    def _note_end(self, name: str, folder: Path, end: ProcessEnd) -> None:
        """Note how a process ended, and put its experiment back into the queue where it goes on."""

        def change(card: Card) -> Card:
            job = card.job
            if job is None or not job.runs:
                return card
            how = ProcessEnd(end.code, _size(folder) > job.rows, end.said, end.failures, end.leaving)
            return card.model_copy(update={"job": job_after(job, how)})

        job = run_index.change_card(folder, change).job
        if job is not None and job.state is State.QUEUED:
            self.entries.put(job.group, Entry(name, job.turn), job.order)


_STRANGE = "this workbench has not queued it; look at what it asks of whom, and let it go on if you want that"


def _size(folder: Path) -> int:
    """Bytes of the journal of a run."""
    with contextlib.suppress(OSError):
        return (folder / JOURNAL).lstat().st_size
    return 0
