"""The queue of experiments: which may be submitted, their order, and what people may do with them.

It stands in the cards of the run folders, sealed so that a stranger's experiment never runs. The worker, a process of
its own, reads them and acts on them.
"""

import contextlib
import hashlib
import hmac
import itertools
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from tomserve import benchmarks, content, variants
from tomserve.content import files
from tomserve.content.paths import absolute_runs_root, runs_root, state_root
from tomserve.engine.addresses import normalize_url
from tomserve.engine.network import is_loopback
from tomserve.engine.records import utc_now
from tomserve.errors import ConfigError, ConflictError, NoSuchRunError, NotAllowedError, one_of
from tomserve.runs import planning
from tomserve.runs.runfolder import default_name
from tomserve.scoring.table import MEASURED
from tomserve.serving import registry
from tomserve.serving.keys import HEADERS, header_variables
from tomserve.serving.presets import REFERENCE
from tomserve.weakness.rounds import STUDY
from tomserve.web import background, run_index
from tomserve.web.accounts import Person
from tomserve.web.background import Computation, Result
from tomserve.web.run_index import ENDED, Card, Job, RunEntry, RunIndex, State, is_run
from tomserve.web.settings import Settings
from tomserve.workflows import evaluate
from tomserve.workflows.evaluate import Experiment
from tomserve.workflows.search import check_search

THIS_MACHINE = "this machine"  # the group of experiments whose server runs on this machine, or is started there
LONGEST = 65_536  # bytes of an experiment's file


def check_experiment(experiment: Experiment, person: Person, register: RunIndex, settings: Settings) -> Experiment:
    """The experiment with its addresses in the form in which they are compared. Raises ConfigError for what is wrong in
    it, and NotAllowedError for what nobody, or not this person, may name."""
    if len(experiment.text().encode()) > LONGEST:
        raise ConfigError(f"the experiment has more than {LONGEST:,} bytes; name fewer conditions")
    _check_names(experiment)
    if experiment.path is not None:
        check_path(experiment.path, person, register)
    experiment = experiment.model_copy(
        update={"base_url": tuple(dict.fromkeys(map(normalize_url, experiment.base_url)))}
    )
    check_model(experiment.model, experiment.base_url)
    if experiment.key is not None:
        check_key(experiment.key, experiment.base_url, settings)
    options = experiment.options()
    planning.check_options(options)
    if options.variants:
        variants.parse_kinds(options.variants)
    if experiment.search is not None:
        check_search(experiment.search, options)
    return experiment


def _check_names(experiment: Experiment) -> None:
    if experiment.run is not None and experiment.run.count("/") > run_index.DEEPEST:
        raise ConfigError(
            f"run: {experiment.run[:200]!r} lies in more than {run_index.DEEPEST} folders, which no list shows"
        )
    if experiment.run is not None and runs_root() in Path(experiment.run).parents:
        raise ConfigError(
            f"run: {experiment.run[:200]!r} begins with the folder of all runs, as commands may; name the run alone"
        )
    if experiment.benchmark is not None and experiment.benchmark not in benchmarks.names():
        raise ConfigError(one_of("benchmark", experiment.benchmark[:200], benchmarks.names()))
    golds = benchmarks.get(experiment.benchmark).golds
    if experiment.gold is not None and experiment.gold not in golds:
        raise ConfigError(one_of("set of right answers", experiment.gold[:200], golds))
    known = content.names("prompts", "/strategy.yaml")
    for name in experiment.strategy:
        if name not in known:
            raise ConfigError(one_of("strategy", name[:200], known))


def check_path(given: str, person: Person, register: RunIndex) -> None:
    """Raise ConfigError where a path leads nowhere, and NotAllowedError unless it leads into a folder of content, or to
    a run that the person may see."""
    refused = NotAllowedError(
        f"path: {given[:200]!r} is in none of the folders of content and of runs, or hidden there; put the file there"
    )
    if any(one == "\0" or "\ud800" <= one < "\ue000" for one in given) or given.startswith("~"):
        raise refused
    try:
        whole, found = Path(given).resolve(strict=True), True
    except (OSError, RuntimeError):
        whole, found = Path(os.path.normpath(Path.cwd() / given)), False
    runs = absolute_runs_root()
    within = runs if _inside(whole, runs) else next((root for root in content.roots() if _inside(whole, root)), None)
    if within is None or any(part.startswith(".") for part in whole.relative_to(within).parts):
        raise refused
    if within != runs and _inside(whole, within / "runs"):  # those of another workbench, whose rights nobody knows here
        raise refused
    if within == runs:
        parts = whole.relative_to(runs).parts
        if not any(_may_read("/".join(parts[:end]), person, register) for end in range(1, len(parts) + 1)):
            raise refused
    if not found:
        raise ConfigError(f"path: {given[:200]!r} is not there")


def _inside(path: Path, folder: Path) -> bool:
    folder = folder.resolve()
    return path == folder or folder in path.parents


def _may_read(name: str, person: Person, register: RunIndex) -> bool:
    try:
        register.line(name, person)
    except NoSuchRunError:
        return False
    return True


def check_model(model: str | None, base_url: object) -> None:
    """Without an address the model is a preset's or a running server's; never a folder, a file or something to load.
    Raises ConfigError."""
    if model is not None and base_url and (not model.isprintable() or len(model) > 300):
        raise ConfigError("model: expected a name of at most 300 characters on one line")
    if model is None or base_url:
        return
    presets = content.names("launch/models", ".yaml")
    if model not in presets and model not in {one.record.model for one in registry.believed_records()}:
        raise ConfigError(f"{one_of('model', model[:300], presets)}; or give the address of a server that serves it")


def check_key(name: str, urls: Sequence[str], settings: Settings) -> None:
    """Raise NotAllowedError where a key may not be used, or not at these addresses; ConfigError where it is not set.
    name: of the environment variable that holds it."""
    places = dict(settings.keys)
    if name not in places:
        raise NotAllowedError(
            f"key: {name[:100]} is no variable that this workbench may use; it may use "
            f"{', '.join(places) or 'none'}, and whoever starts it allows one by --key NAME"
        )
    if not os.environ.get(name):
        raise ConfigError(f"key: the environment variable {name} is not set where the workbench runs")
    if (bound := places[name]) and not _only_at(urls, bound):
        raise NotAllowedError(f"key: {name} may only be sent to {bound}")


def check_foreign(experiment: Experiment, settings: Settings) -> None:
    """Raise NotAllowedError where an experiment that this workbench has not made, as its seal says, would send a key to
    an address that whoever runs the workbench has not bound it to, or a file of items to another machine: a stranger
    has chosen what goes where."""
    key = experiment.key
    elsewhere = [url for url in experiment.base_url if not is_loopback(urlsplit(url).hostname or "")]
    sent = [("key", key)] if key is not None and experiment.base_url and not dict(settings.keys).get(key) else []
    sent += [("path", f"the items of {experiment.path}")] if experiment.path is not None and elsewhere else []
    for field, what in sent:
        raise NotAllowedError(
            f"{field}: this workbench has not made this experiment, which would send {what} to "
            f"{', '.join(experiment.base_url)}; start it anew as a new experiment if you want that"
        )


def _only_at(urls: Sequence[str], place: str) -> bool:
    return bool(urls) and {normalize_url(url) for url in urls} == {normalize_url(place)}


def group_of(experiment: Experiment) -> str:
    """The group of an experiment: what it shares with others that must not run at the same time."""
    return " ".join(sorted(map(normalize_url, experiment.base_url))) or THIS_MACHINE


def experiment_environment(experiment: Experiment, settings: Settings) -> Mapping[str, str]:
    """The environment of the process that asks: that of the workbench, with no other key than the experiment may use.

    Which keys those are: the variable that it names; without one those that are bound to its very address, and for a
    server of this machine those that may be sent anywhere. A server that is started may need a token to load a model.
    """
    if experiment.key is not None:
        allowed = {experiment.key}
    elif experiment.base_url:
        allowed = {name for name, place in settings.keys if place and _only_at(experiment.base_url, place)}
    else:
        allowed = {name for name, place in settings.keys if not place}
        allowed |= {"TOMSERVE_API_KEY_FILE"} if "TOMSERVE_API_KEY" in allowed else set()
        allowed |= {"HF_TOKEN"} if experiment.start else set()
    allowed |= {HEADERS} if set(header_variables().values()) <= allowed else set()
    kept = background.keyless(settings, allowed)
    return {name: value for name, value in kept.items() if name not in ("TOMSERVE_QUEUE", "TOMSERVE_PARENT_FD")}


SECRET_LENGTH = 32


def secret() -> bytes:
    """The workbench's own secret, which is drawn where there is none yet. It lies among what this user's programs
    remember, as a folder of runs may come from somebody else, who would know one that lies there and could seal
    experiments. Raises OSError and ConfigError where it can neither be read nor be written."""
    path = state_root() / "tomserve/web" / content.digest(str(absolute_runs_root()).encode())[-16:]
    files.make_private(path.parent)
    for _ in range(2):
        with contextlib.suppress(FileNotFoundError), files.open_for_reading(path) as file:
            status = os.fstat(file.fileno())
            found = file.read(SECRET_LENGTH + 1)
            if len(found) == SECRET_LENGTH and status.st_uid == os.geteuid() and not status.st_mode & 0o077:
                return found
            raise ConfigError(f"{path}: is no secret of this user alone; delete it, and queue the experiments again")
        with contextlib.suppress(FileExistsError):
            made = files.open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(made, "wb") as file:
                file.write(secrets.token_bytes(SECRET_LENGTH))
    raise ConfigError(f"{path}: cannot be read; delete it")


def seal(name: str, experiment: bytes) -> str:
    """The seal of an experiment. name: of its run. experiment: the bytes of its file."""
    parts = b"".join(len(part).to_bytes(8, "big") + part for part in (name.encode(), experiment))
    return hmac.new(secret(), parts, hashlib.sha256).hexdigest()


def is_sealed(name: str, experiment: Path, found: str) -> bool:
    """Whether a seal is that of the experiment in a file. Raises OSError and ConfigError where that cannot be read."""
    with files.open_for_reading(experiment) as file:
        return hmac.compare_digest(seal(name, file.read()).encode(), found.encode())


def free_name(wanted: str) -> str:
    """The name, or that name with the first number behind it that is free; its folder is made, so that it is kept."""
    names = itertools.chain([wanted], (f"{wanted[:190]}-{number}" for number in itertools.count(2)))
    for name in names:
        path = runs_root() / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return name
    raise AssertionError("there are names without end")


def is_free_name(name: str) -> bool:
    """Whether a run of that name can be made: nothing is there but what a submission left that was cut short, it lies
    in no other run, and it leads through no link."""
    folder, parts = runs_root(), name.split("/")
    for place, part in enumerate(parts, 1):
        folder /= part
        if folder.is_symlink() or (place < len(parts) and is_run(folder)):
            return False
    try:
        return {entry.name for entry in os.scandir(folder)} <= {evaluate.EXPERIMENT_FILE}
    except FileNotFoundError:
        return True
    except OSError:
        return False


ActionName = Literal["pause", "resume", "cancel", "retry", "move"]
Where = Literal["first", "up", "down", "last"]

WAITS = (State.QUEUED, State.WAITING, State.PAUSED)
"""States of experiments that do not run and have not ended, so that their place in the order can be changed."""


class Queue:
    """All experiments of a workbench that were queued. Any thread may use it, and several processes."""

    def __init__(self, register: RunIndex, settings: Settings) -> None:
        self.register, self._settings = register, settings

    def submit(self, experiment: Experiment, person: Person, private: bool = False) -> str:
        """Put an experiment into the queue, and return the name of its run.

        private: whether nobody else may see it. A run that exists goes on with it, if it is this person's. Raises
        ConfigError for what is wrong in the experiment, NotAllowedError for what this person may not do, and
        ConflictError where the name is taken.
        """
        if not person.may_run:
            raise NotAllowedError("readers start no experiments; ask whoever runs the workbench to be a runner")
        admitted = check_experiment(experiment, person, self.register, self._settings)
        if admitted.run is None:
            asked = admitted.benchmark or benchmarks.DEFAULT
            asked = asked if admitted.search is None else f"{STUDY}-{asked}"
            wanted = default_name(asked, admitted.model or REFERENCE)
            name, there = free_name(wanted), False
        else:
            name, there = admitted.run, self._may_continue(admitted.run, person)
        admitted = admitted.model_copy(update={"run": name})
        folder = absolute_runs_root() / name
        folder.mkdir(parents=True, exist_ok=True)
        group = group_of(admitted)
        order = self._last(group) + 1
        text = admitted.text().encode()

        def change(card: Card) -> Card:
            if run_index.is_run(folder) and not there:  # somebody else's has come meanwhile, such as a measurement
                raise ConflictError(f"the name {name!r} is taken; choose another one")
            if card.job is not None and card.job.active:
                raise ConflictError(f"{name} is in the queue already")
            owner = card.owner if there else person.name
            if private and person.name and not owner:
                raise ConflictError(run_index.NOBODYS.format(name))
            files.replace_bytes(folder / evaluate.EXPERIMENT_FILE, text)
            job = Job(
                order=order,
                group=group,
                turn=1 if card.job is None else card.job.turn + 1,
                submitted=utc_now(),
                seal=seal(name, text),
            )
            return card.model_copy(update={"owner": owner, "private": private or (there and card.private), "job": job})

        run_index.change_card(folder, change)
        return name

    def lines(self, person: Person) -> list[RunEntry]:
        """The lines of everything that was queued and that the person may see: what is active comes first, in order,
        then what has ended, the latest first."""
        return [line for line, _ in order_entries(self.register.lines(person))]

    def act(self, action: ActionName, name: str, person: Person, where: Where | None = None) -> None:
        """Pause, resume, cancel, retry or move an experiment. One that runs and is paused or cancelled ends first; no
        answer is lost by any of them.

        where: to which place among those of its group that wait one is moved. Raises NoSuchRunError, NotAllowedError,
        ConflictError where the state does not allow it, and ConfigError where it may no longer be run as it is.
        """
        line = self._changeable(name, person)
        states, why = _FROM[action]
        known = line.card.job
        order = 0.0 if known is None else known.order
        if known is not None and action == "retry":
            order = self._last(known.group) + 1
        elif known is not None and where is not None:
            waiting = [(line, job) for line, job in self._of_group(known.group) if job.state in WAITS]
            order = _order_at(waiting, name, where)

        def change(card: Card) -> Card:
            if card.job is None:
                raise ConflictError(f"{name} was never in the queue; start it as an experiment of that name")
            if card.job.state not in states:
                raise ConflictError(f"{name} is {card.job.state.value}, {why}")
            job = _after(action, card.job, order)
            if action in ("resume", "retry"):  # it is to be run because this person wants it: checked and sealed anew
                job = self._seal_again(line, job, person)
            return card.model_copy(update={"job": job})

        run_index.change_card(line.folder, change)

    def _seal_again(self, line: RunEntry, job: Job, person: Person) -> Job:
        path = line.folder / evaluate.EXPERIMENT_FILE
        if not path.exists():
            raise ConflictError(
                f"{line.name} has no {evaluate.EXPERIMENT_FILE} any more; start it anew under that name"
            )
        admitted = check_experiment(evaluate.read_experiment(path), person, self.register, self._settings)
        if not is_sealed(line.name, path, job.seal):
            check_foreign(admitted, self._settings)
        with files.open_for_reading(path) as file:
            mark = seal(line.name, file.read())
        return job.model_copy(update={"seal": mark, "group": group_of(admitted)})

    def rescore(self, name: str, person: Person) -> None:
        """Score a run anew from its answers, beside everything else; see `rescored`. Raises as `pause` does."""
        line = self._changeable(name, person)
        if line.running:
            raise ConflictError(f"{name} is being asked; score it once it has ended")
        if background.peek(Computation("rescore", (line.folder,)))[0]:
            raise ConflictError(f"{name} is being scored already")
        background.compute("rescore", line.folder, again=True)

    def rescored(self, name: str, person: Person) -> tuple[bool, Result | None]:
        """Whether a run is being scored anew, and what came of the last time. Raises NoSuchRunError."""
        return background.peek(Computation("rescore", (self.register.line(name, person).folder,)))

    def _may_continue(self, name: str, person: Person) -> bool:
        """Whether that is the name of a run, which this person may go on with, and not a free one. Raises ConflictError
        where it is neither."""
        taken = ConflictError(f"the name {name!r} is taken; choose another one")
        try:
            line = self.register.line(name, person)
        except NoSuchRunError:
            if not is_free_name(name):
                raise taken from None
            return False
        if not person.may_change(line.card.owner):
            raise taken
        if line.kind == MEASURED:
            raise ConflictError(f"{name!r} holds a measurement, to which no answers can be added; choose another name")
        if line.running or (line.card.job is not None and line.card.job.active):
            raise ConflictError(f"{name} is in the queue or being asked already; wait for it, or choose another name")
        return True

    def _changeable(self, name: str, person: Person) -> RunEntry:
        line = self.register.line(name, person)
        if not person.may_change(line.card.owner):
            raise NotAllowedError(f"{name} belongs to {line.card.owner or 'whoever may run experiments'}")
        return line

    def _of_group(self, group: str) -> list[tuple[RunEntry, Job]]:
        return [(line, job) for line, job in order_entries(self.register.every()) if job.group == group]

    def _last(self, group: str) -> float:
        return max((job.order for _, job in self._of_group(group) if job.active), default=0)


def order_entries(lines: Sequence[RunEntry]) -> list[tuple[RunEntry, Job]]:
    """Those of the lines that were queued, each with its job: what is active first, in order, then what has ended, the
    latest first."""
    jobs = [(line, job) for line in lines if (job := line.card.job) is not None]
    ended = sorted((one for one in jobs if not one[1].active), key=lambda one: one[1].ended or "", reverse=True)

    def place(one: tuple[RunEntry, Job]) -> tuple[bool, float, str, str]:
        line, job = one
        return not job.runs, job.order, job.submitted, line.name

    return [*sorted((one for one in jobs if one[1].active), key=place), *ended]


_FROM: dict[str, tuple[tuple[State, ...], str]] = {
    "pause": ((State.QUEUED, State.WAITING, State.RUNNING), "so that it cannot be paused"),
    "resume": ((State.PAUSED,), "and not paused"),
    "cancel": ((*WAITS, State.RUNNING, State.STOPPING), "so that there is nothing to cancel"),
    "retry": (ENDED, "and has not ended"),
    "move": (WAITS, "and has no place in the queue"),
}
"""From which states something can be done, and what is said otherwise."""


def _after(action: ActionName, job: Job, order: float) -> Job:
    """The job after what somebody has done; what a worker has read of it before is void."""
    if job.runs:
        return job.to(State.STOPPING, wanted=State.PAUSED if action == "pause" else State.CANCELLED)
    now = utc_now()
    then: dict[ActionName, tuple[State, dict[str, Any]]] = {
        "pause": (State.PAUSED, {}),
        "move": (State.PAUSED if job.state is State.PAUSED else State.QUEUED, {}),
        "cancel": (State.CANCELLED, {"ended": now}),
        "resume": (State.QUEUED, {"deaths": 0}),
        "retry": (State.QUEUED, {"deaths": 0, "ended": None, "exit_code": None, "submitted": now}),
    }
    state, changes = then[action]
    return job.to(state, turn=job.turn + 1, wanted=None, order=order, **changes)


def _order_at(waiting: Sequence[tuple[RunEntry, Job]], name: str, where: Where) -> float:
    others = [job.order for line, job in waiting if line.name != name]
    if not others:
        return 0.0
    here = next((place for place, (line, _) in enumerate(waiting) if line.name == name), 0)
    at = {"first": 0, "up": max(here - 1, 0), "down": min(here + 1, len(others)), "last": len(others)}[where]
    if at == 0:
        return others[0] - 1
    if at == len(others):
        return others[-1] + 1
    return (others[at - 1] + others[at]) / 2


Action = tuple[str, str, bool]
"""The name of an action, as the queue calls it, the word on its button, and whether it ends something."""

ACTIONS: tuple[Action, ...] = (
    ("pause", "Pause", False),
    ("resume", "Go on", False),
    ("cancel", "Cancel", True),
    ("retry", "Try again", False),
)
MOVES: tuple[Action, ...] = (
    ("first", "First", False),
    ("up", "Up", False),
    ("down", "Down", False),
    ("last", "Last", False),
)


def actions(card: Card, person: Person) -> tuple[Action, ...]:
    """What that person is offered to do with a run; nothing with one that was never in the queue, is about to stop, is
    done, or is somebody else's."""
    if card.job is None or card.job.state in (State.STOPPING, State.DONE) or not person.may_change(card.owner):
        return ()
    return tuple(one for one in ACTIONS if card.job.state in _FROM[one[0]][0])
