"""The work of the worker (tomserve.web.worker): it takes experiments out of the queue and has them asked.

There is a thread for each group of experiments, and groups go on side by side. Everything that it knows stands in the
cards of the runs, so that it can be killed at any moment: the next one adopts the processes that it leaves, and puts
entries that were lost back into the queue.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tomserve.content.text import say
from tomserve.engine.records import utc_now
from tomserve.errors import ConfigError, NoSuchRunError
from tomserve.runs.runfolder import JOURNAL
from tomserve.web import admitting, cards, child, sealing, turns, waiting
from tomserve.web.cards import Card, Job, State
from tomserve.web.child import Child
from tomserve.web.entries import Entries, Entry
from tomserve.web.register import Line, Register, safe_path
from tomserve.web.settings import Settings
from tomserve.workflows import evaluate
from tomserve.workflows.evaluate import Experiment

LOOK = 0.25
"""Seconds between two looks at a process, or into an empty queue."""

EVERY = 1.0
"""Seconds between two looks at all cards."""

TRY_EVERY = 3.0
"""Seconds between two tries to reach a server that does not answer."""

TOGETHER = 2.0
"""Seconds within which a signal reaches all processes of a machine that is being ended."""

LEAVES = 110.0
"""Seconds for which processes may end when the worker does; whatever still runs then is adopted by the next worker."""


class _VoidError(Exception):
    """The entry's turn is not that of the card any more."""


@dataclass
class Group:
    """Experiments that share a server. tried: those that wait for it, with the time of the next try. running: the names
    of those that are being asked. thread: takes the others out of the queue."""

    name: str
    tried: dict[Entry, float] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    thread: threading.Thread | None = None


class Worker:
    """Has the experiments of a folder of runs asked. stop: ends it, with everything that runs. leave: ends it alone."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.register, self.entries = settings, Register(settings.folder), Entries(settings)
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
            self._joined()

    @property
    def _ending(self) -> bool:
        return self.stop.is_set() or self.leave.is_set()

    def _joined(self) -> None:
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
            self._served(name)

    def _jobs(self) -> list[tuple[Line, Job]]:
        """Everything that is still to be run, or runs."""
        jobs = [(line, line.card.job) for line in self.register.every() if line.card.job is not None]
        return [(line, job) for line, job in jobs if job.active]

    def _served(self, name: str) -> Group:
        """The group of that name, with a thread."""
        with self._lock:
            group = self._groups.setdefault(name, Group(name))
            if group.thread is None or not group.thread.is_alive():
                group.thread = threading.Thread(target=self._serve, args=(group,), name=f"group {name}", daemon=True)
                group.thread.start()
            return group

    def _adopt(self, line: Line, job: Job) -> None:
        """Take care of an experiment that runs by its card, and that no thread of this worker has begun."""
        with self._lock:
            group = self._groups.setdefault(job.group, Group(job.group))
            if line.name in group.running:
                return
            if cards.read(line.folder).job != job:  # it has ended since
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
            if self._begun(group, entry):
                return True
        return False

    def _next(self, group: Group) -> None:
        """Begin the first experiment of the queue that can begin; those that cannot wait for their server."""
        while not self._ending and (entry := self.entries.take(group.name)) is not None:
            with self._lock:
                if entry in self._held:
                    continue
                self._held.add(entry)
            if self._begun(group, entry):
                return

    def _begun(self, group: Group, entry: Entry) -> bool:
        """Begin an experiment, unless its entry is void, it cannot be begun at all, or it has to wait."""
        group.tried.pop(entry, None)
        try:
            folder = safe_path(entry.name)
            card = self._valid(entry, folder)
            experiment, why = self._sound(entry, folder, card)
            if why:
                self._changed(entry, folder, lambda job: _with(job, State.WAITING, why))
                group.tried[entry] = time.monotonic() + TRY_EVERY
                return False
            return self._asked(group, entry, folder, experiment)
        except (_VoidError, NoSuchRunError):
            return False
        finally:
            if entry not in group.tried:
                with self._lock:
                    self._held.discard(entry)

    def _asked(self, group: Group, entry: Entry, folder: Path, experiment: Experiment) -> bool:
        """Begin the process of an experiment. Raises _VoidError where its turn is over meanwhile."""
        size = _size(folder)
        with self._lock:  # before the card says so: what runs by its card and is not known here is adopted
            group.running.add(entry.name)
        begun: Child | None = None
        try:
            self._changed(
                entry, folder, lambda job: _with(job, State.RUNNING, "", began=utc_now(), ended=None, rows=size)
            )
            try:
                environment = admitting.environment(experiment, self.settings)
                begun = child.begin(entry.name, folder, environment, entry.turn) or Child(entry.name, folder)
            except (OSError, ConfigError) as error:
                self._ended(entry.name, folder, turns.End(2, said=str(error)))
                return False
        finally:
            if begun is None:
                with self._lock:
                    group.running.discard(entry.name)
        self._follow_beside(group, begun)
        return True

    def _valid(self, entry: Entry, folder: Path) -> Card:
        """The card of an entry. Raises _VoidError where its turn is over, or was never there."""
        try:
            card = cards.read(folder)
        except (ConfigError, OSError):
            raise _VoidError from None
        if card.job is None or card.job.turn != entry.turn or card.job.state not in (State.QUEUED, State.WAITING):
            raise _VoidError
        return card

    def _sound(self, entry: Entry, folder: Path, card: Card) -> tuple[Experiment, str]:
        """The experiment of an entry, and why it has to wait, "" where it can begin. Raises _VoidError where it may not
        be asked, which its card then says."""
        path, job = folder / evaluate.EXPERIMENT_FILE, card.job
        try:
            if job is None or not sealing.sealed(entry.name, path, job.seal):
                self._changed(entry, folder, lambda job: _with(job, State.PAUSED, _STRANGE, turn=job.turn + 1))
                raise _VoidError
            experiment = evaluate.read_experiment(path)
            admitting.check_key(experiment, self.settings)
            return experiment, waiting.reason(experiment, folder)
        except (ConfigError, OSError) as error:
            why = str(error).replace(f"{folder}/", "")
            self._changed(entry, folder, lambda job: _with(job, State.FAILED, why, ended=utc_now()))
            raise _VoidError from None

    def _changed(self, entry: Entry, folder: Path, changed: Callable[[Job], Job]) -> None:
        """Change the place of an entry's experiment. Raises _VoidError where its turn is over meanwhile."""

        def change(card: Card) -> Card:
            job = card.job
            if job is None or job.turn != entry.turn or job.state not in (State.QUEUED, State.WAITING):
                raise _VoidError
            made = changed(job)
            return card if made == job else card.model_copy(update={"job": made})

        cards.change(folder, change)

    def _follow_beside(self, group: Group, process: Child) -> None:
        threading.Thread(target=self._follow, args=(group, process), name=f"run {process.name}", daemon=True).start()

    def _follow(self, group: Group, process: Child) -> None:
        """Wait for a process, end it where that is wanted, and note how it ended."""
        try:
            while process.alive:
                if self.leave.wait(LOOK):
                    return
                process.bound()
                if self.stop.is_set() or self._unwanted(process.folder):
                    process.stop()
            code = process.code
            if code in turns.STOPPED or (code is not None and code < 0):
                self.stop.wait(TOGETHER)  # whoever ends a machine sends the signal to the worker at the same time
            failures = child.said(process.folder, "failures: ")
            end = turns.End(code, said=child.said(process.folder), failures=failures, leaving=self.stop.is_set())
            self._ended(process.name, process.folder, end)
        except (OSError, ConfigError) as error:
            say(f"{utc_now()} {process.name}: {error}", error=True)
        finally:
            with self._lock:
                group.running.discard(process.name)

    def _unwanted(self, folder: Path) -> bool:
        """Whether an experiment that runs is to end."""
        try:
            job = cards.read(folder).job
        except (ConfigError, OSError):  # it can be read again a moment later
            return False
        return job is None or job.state is not State.RUNNING

    def _ended(self, name: str, folder: Path, end: turns.End) -> None:
        """Note how a process ended, and put its experiment back into the queue where it goes on."""

        def change(card: Card) -> Card:
            job = card.job
            if job is None or not job.runs:
                return card
            how = turns.End(end.code, _size(folder) > job.rows, end.said, end.failures, end.leaving)
            return card.model_copy(update={"job": turns.after(job, how)})

        job = cards.change(folder, change).job
        if job is not None and job.state is State.QUEUED:
            self.entries.put(job.group, Entry(name, job.turn), job.order)


_STRANGE = "this workbench has not queued it; look at what it asks of whom, and let it go on if you want that"


def _with(job: Job, state: State, said: str, **more: object) -> Job:
    return job.model_copy(update={"state": state, "said": said, **more})


def _size(folder: Path) -> int:
    """Bytes of the journal of a run."""
    with contextlib.suppress(OSError):
        return (folder / JOURNAL).lstat().st_size
    return 0
