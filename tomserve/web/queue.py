"""The queue of experiments: who put what into it, in which order it is run, and what people may do with it.

What counts stands in the cards of the run folders (tomserve.web.cards); the worker (tomserve.web.worker), a process of
its own, acts on it. So the workbench, its worker and its databases may be killed or lost at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from tomserve.content import files
from tomserve.content.paths import absolute_runs_root
from tomserve.engine.records import utc_now
from tomserve.errors import ConflictError, NoSuchRunError, NotAllowedError
from tomserve.runs.runfolder import default_name
from tomserve.scoring.table import MEASURED
from tomserve.serving.endpoint import REFERENCE
from tomserve.web import admitting, cards, naming, register, sealing
from tomserve.web.cards import ENDED, Card, Job, State
from tomserve.web.entries import Entries, Entry
from tomserve.web.people import Person
from tomserve.web.register import Line, Register
from tomserve.web.rescoring import Rescoring, Standing
from tomserve.web.settings import Settings
from tomserve.workflows import evaluate
from tomserve.workflows.evaluate import Experiment

Where = Literal["first", "up", "down", "last"]

WAITS = (State.QUEUED, State.WAITING, State.PAUSED)
"""States of experiments that do not run and have not ended."""


class Queue:
    """All experiments of a workbench that were queued. Any thread may use it, and several processes."""

    def __init__(self, register: Register, settings: Settings) -> None:
        self.register, self._settings = register, settings
        self.entries = Entries(settings)
        self._rescoring = Rescoring()

    def submit(self, experiment: Experiment, person: Person, private: bool = False) -> str:
        """Put an experiment into the queue, and return the name of its run.

        private: whether nobody else may see it. A run that exists goes on with it, if it is this person's. Raises
        ConfigError for what is wrong in the experiment, NotAllowedError for what this person may not do, and
        ConflictError where the name is taken.
        """
        if not person.may_run:
            raise NotAllowedError("readers start no experiments; ask whoever runs the workbench to be a runner")
        admitted = admitting.check(experiment, person, self.register, self._settings)
        if admitted.run is None:
            wanted = default_name(admitted.benchmark or naming.benchmark(), admitted.model or REFERENCE)
            name, there = naming.free(wanted), False
        else:
            name, there = admitted.run, self._own(admitted.run, person)
        admitted = admitted.model_copy(update={"run": name})
        folder = absolute_runs_root() / name
        folder.mkdir(parents=True, exist_ok=True)
        group = admitting.group_of(admitted)
        order = self._last(group) + 1
        text = admitted.text().encode()

        def change(card: Card) -> Card:
            if register.is_run(folder) and not there:  # somebody else's has come meanwhile, such as a measurement
                raise ConflictError(f"the name {name!r} is taken; choose another one")
            if card.job is not None and card.job.active:
                raise ConflictError(f"{name} is in the queue already")
            owner = card.owner if there else person.name
            with files.replace_file(folder / evaluate.EXPERIMENT_FILE) as file:
                file.write(text)
            job = Job(
                order=order,
                group=group,
                turn=1 if card.job is None else card.job.turn + 1,
                submitted=utc_now(),
                seal=sealing.seal(name, text),
            )
            hidden = card.private if there else private
            return card.model_copy(update={"owner": owner, "private": hidden, "job": job})

        self._put(name, cards.change(folder, change))
        return name

    def lines(self, person: Person) -> list[Line]:
        """The lines of everything that was queued and that the person may see: what is active comes first, in order,
        then what has ended, the latest first."""
        return in_order(self.register.lines(person))

    def pause(self, name: str, person: Person) -> None:
        """Let an experiment wait until it is resumed; one that runs ends first, and loses nothing.

        Raises NoSuchRunError, NotAllowedError, and ConflictError where it has ended.
        """

        def act(job: Job) -> Job:
            if job.state is State.RUNNING:
                return job.model_copy(update={"state": State.STOPPING, "wanted": State.PAUSED, "said": ""})
            if job.state in (State.QUEUED, State.WAITING):
                return _moved(job, State.PAUSED)
            raise ConflictError(f"{name} is {job.state.value}, so that it cannot be paused")

        self._act(name, person, act)

    def resume(self, name: str, person: Person) -> None:
        """Let a paused experiment go on when its turn comes. Raises as `pause` does."""

        def act(job: Job) -> Job:
            if job.state is not State.PAUSED:
                raise ConflictError(f"{name} is {job.state.value}, and not paused")
            return _moved(job, State.QUEUED, deaths=0)

        self._act(name, person, act, again=True)

    def cancel(self, name: str, person: Person) -> None:
        """End an experiment; one that runs keeps all its answers, and `retry` lets it go on. Raises as `pause` does."""

        def act(job: Job) -> Job:
            if job.runs:
                return job.model_copy(update={"state": State.STOPPING, "wanted": State.CANCELLED, "said": ""})
            if job.state in WAITS:
                return _moved(job, State.CANCELLED, ended=utc_now())
            raise ConflictError(f"{name} is {job.state.value}, so that there is nothing to cancel")

        self._act(name, person, act)

    def retry(self, name: str, person: Person) -> None:
        """Put an experiment that has ended or was cancelled back into the queue: it goes on where it was, and asks
        again what failed. Raises as `pause` does, and ConfigError where it may no longer be run as it is."""
        last = self._last(self.register.line(name, person).card.job)

        def act(job: Job) -> Job:
            if job.state not in ENDED:
                raise ConflictError(f"{name} is {job.state.value}, and has not ended")
            return _moved(job, State.QUEUED, order=last + 1, deaths=0, ended=None, exit_code=None, submitted=utc_now())

        self._act(name, person, act, again=True)

    def move(self, name: str, person: Person, where: Where) -> None:
        """Move an experiment that waits, among those of its group. Raises as `pause` does."""
        line = self.register.line(name, person)
        group = line.card.job.group if line.card.job is not None else ""
        orders = [
            (one.card.job.order, one.name)
            for one in self._of_group(group)
            if one.card.job is not None and one.card.job.state in WAITS
        ]
        order = _between([order for order, other in orders if other != name], orders, name, where)

        def act(job: Job) -> Job:
            if job.state not in WAITS:
                raise ConflictError(f"{name} is {job.state.value}, and has no place in the queue")
            return _moved(job, State.PAUSED if job.state is State.PAUSED else State.QUEUED, order=order)

        self._act(name, person, act)

    def rescore(self, name: str, person: Person) -> None:
        """Score a run anew from its answers, beside everything else; see `rescoring`. Raises as `pause` does."""
        line = self._changeable(name, person)
        if line.running:
            raise ConflictError(f"{name} is being asked; score it once it has ended")
        self._rescoring.begin(line.name, line.folder)

    def rescoring(self, name: str, person: Person) -> Standing | None:
        """How far the last `rescore` of a run is; None where there was none since the workbench began. Raises
        NoSuchRunError."""
        return self._rescoring.standing(self.register.line(name, person).name)

    def rebuild(self) -> int:
        """Throw away all entries and make them from the cards; returns how many there are."""
        waiting = [
            (line.name, line.card)
            for line in self.register.every()
            if line.card.job is not None and line.card.job.state in (State.QUEUED, State.WAITING)
        ]
        groups = {line.card.job.group for line in self.register.every() if line.card.job is not None}
        self.entries.anew()
        for group in groups:
            self.entries.clear(group)
        for name, card in waiting:
            self._put(name, card)
        return len(waiting)

    def _own(self, name: str, person: Person) -> bool:
        """Whether that is the name of a run, which this person may go on with, and not a free one. Raises ConflictError
        where it is neither."""
        taken = ConflictError(f"the name {name!r} is taken; choose another one")
        try:
            line = self.register.line(name, person)
        except NoSuchRunError:
            if not naming.is_free(name):
                raise taken from None
            return False
        if not person.may_change(line.card.owner):
            raise taken
        if line.kind == MEASURED:
            raise ConflictError(f"{name!r} holds a measurement, to which no answers can be added; choose another name")
        if line.running or (line.card.job is not None and line.card.job.active):
            raise ConflictError(f"{name} is in the queue or being asked already; wait for it, or choose another name")
        return True

    def _changeable(self, name: str, person: Person) -> Line:
        """The line of a run that the person may change. Raises NoSuchRunError and NotAllowedError."""
        line = self.register.line(name, person)
        if not person.may_change(line.card.owner):
            raise NotAllowedError(f"{name} belongs to {line.card.owner or 'whoever may run experiments'}")
        return line

    def _act(self, name: str, person: Person, act: Callable[[Job], Job], *, again: bool = False) -> None:
        """Change the place of an experiment in the queue.

        again: whether it is to be run from now on because this person wants it, so that it is checked and sealed anew.
        """
        line = self._changeable(name, person)

        def change(card: Card) -> Card:
            if card.job is None:
                raise ConflictError(f"{name} was never in the queue; start it as an experiment of that name")
            job = act(card.job)
            if again:
                path = line.folder / evaluate.EXPERIMENT_FILE
                if not path.exists():
                    raise ConflictError(
                        f"{name} has no {evaluate.EXPERIMENT_FILE} any more; start it anew under that name"
                    )
                admitted = admitting.check(evaluate.read_experiment(path), person, self.register, self._settings)
                if not sealing.sealed(name, path, job.seal):
                    admitting.check_stranger(admitted, self._settings)
                with files.open_for_reading(path) as file:
                    mark = sealing.seal(name, file.read())
                job = job.model_copy(update={"seal": mark, "group": admitting.group_of(admitted)})
            return card.model_copy(update={"job": job})

        self._put(name, cards.change(line.folder, change))

    def _put(self, name: str, card: Card) -> None:
        """Put a run's entry into the queue, where its turn is to come."""
        if card.job is not None and card.job.state in (State.QUEUED, State.WAITING):
            self.entries.put(card.job.group, Entry(name, card.job.turn), card.job.order)

    def _of_group(self, group: str) -> list[Line]:
        every = self.register.every()
        return [one for one in in_order(every) if one.card.job is not None and one.card.job.group == group]

    def _last(self, group: str | Job | None) -> float:
        """The place of the last experiment of a group that has not ended."""
        name = group.group if isinstance(group, Job) else group or ""
        return max(
            (one.card.job.order for one in self._of_group(name) if one.card.job and one.card.job.active), default=0
        )


def in_order(lines: Sequence[Line]) -> list[Line]:
    """Those of the lines that were queued: what is active first, in order, then what has ended, the latest first."""
    jobs = [(line, line.card.job) for line in lines if line.card.job is not None]
    runs = {State.RUNNING: 0, State.STOPPING: 0}
    active = sorted(
        ((line, job) for line, job in jobs if job.active),
        key=lambda pair: (runs.get(pair[1].state, 1), pair[1].order, pair[1].submitted, pair[0].name),
    )
    ended = sorted(
        ((line, job) for line, job in jobs if not job.active), key=lambda pair: pair[1].ended or "", reverse=True
    )
    return [line for line, _ in (*active, *ended)]


def _moved(job: Job, state: State, **changes: object) -> Job:
    """The job in a state in which it does not run; entries of the queue that are older are void."""
    return job.model_copy(update={"state": state, "turn": job.turn + 1, "said": "", "wanted": None, **changes})


def _between(others: Sequence[float], every: Sequence[tuple[float, str]], name: str, where: Where) -> float:
    """The order that puts an experiment where it is to be. others: the orders of the others, sorted. every: all, with
    the names."""
    if not others:
        return 0.0
    here = next((place for place, (_, other) in enumerate(every) if other == name), 0)
    at = {"first": 0, "up": max(here - 1, 0), "down": min(here + 1, len(others)), "last": len(others)}[where]
    if at == 0:
        return others[0] - 1
    if at == len(others):
        return others[-1] + 1
    return (others[at - 1] + others[at]) / 2
