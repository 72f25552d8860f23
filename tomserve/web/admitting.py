"""What an experiment that comes from a browser may name: benchmarks, strategies and presets by their names, and files
within the folders of content and of runs. A path to a program, a folder of somebody's, or a key's value it may not."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from tomserve import benchmarks, content, variants
from tomserve.content.paths import absolute_runs_root, runs_root
from tomserve.errors import ConfigError, NoSuchRunError, NotAllowedError, one_of
from tomserve.runs import noise_check, planning
from tomserve.serving import registry
from tomserve.serving.endpoint import REFERENCE, normalize_url
from tomserve.serving.keys import all_keys
from tomserve.web.people import Person
from tomserve.web.register import Register
from tomserve.web.settings import Settings
from tomserve.workflows.evaluate import Experiment

HERE = "this machine"
"""The group of experiments whose server runs on this machine, or is started there."""

LONGEST = 65_536
"""Bytes of an experiment's file."""

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_SECRET = re.compile(r"(?i)(^|_)(api_?)?(keys?|tokens?|secrets?|passwords?|passwd|credentials?)(_|$)")
"""How variables are called that hold what is nobody else's business, whatever program they belong to."""


def check(experiment: Experiment, person: Person, register: Register, settings: Settings) -> Experiment:
    """The experiment with its addresses in the form in which they are compared.

    Raises ConfigError for what is wrong in it, and NotAllowedError for what nobody, or not this person, may name.
    """
    if len(experiment.text().encode()) > LONGEST:
        raise ConfigError(f"the experiment has more than {LONGEST:,} bytes; name fewer conditions")
    _check_names(experiment)
    if experiment.path is not None:
        check_path(experiment.path, person, register)
    experiment = experiment.model_copy(
        update={"base_url": tuple(dict.fromkeys(map(normalize_url, experiment.base_url)))}
    )
    _check_model(experiment)
    check_key(experiment, settings)
    options = experiment.options()
    planning.check_options(options)
    noise_check.check_share(options.noise_check)
    if options.variants:
        variants.parse_kinds(options.variants)
    return experiment


def _check_names(experiment: Experiment) -> None:
    if experiment.run is not None and not all(map(_PART.fullmatch, experiment.run.split("/"))):
        raise ConfigError(
            f"run: {experiment.run[:200]!r} is no name; use letters, digits, '.', '_' and '-', and '/' for folders"
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


def check_path(given: str, person: Person, register: Register) -> None:
    """Raise ConfigError where a path leads nowhere, and NotAllowedError unless it leads into a folder of content, or to
    a run that the person may see."""
    refused = NotAllowedError(
        f"path: {given[:200]!r} is in none of the folders of content and of runs, or hidden there; put the file there"
    )
    if "\0" in given or given.startswith("~"):
        raise refused
    try:
        whole = Path(given).resolve(strict=True)
    except (OSError, RuntimeError):
        whole = Path(os.path.normpath(Path.cwd() / given))
        found = False
    else:
        found = True
    runs = absolute_runs_root()
    within = runs if _inside(whole, runs) else next((root for root in content.roots() if _inside(whole, root)), None)
    if within is None or any(part.startswith(".") for part in whole.relative_to(within).parts):
        raise refused
    if within == runs:
        parts = whole.relative_to(runs).parts
        if not any(_seen("/".join(parts[:end]), person, register) for end in range(1, len(parts) + 1)):
            raise refused
    if not found:
        raise ConfigError(f"path: {given[:200]!r} is not there")


def _inside(path: Path, folder: Path) -> bool:
    folder = folder.resolve()
    return path == folder or folder in path.parents


def _seen(name: str, person: Person, register: Register) -> bool:
    try:
        register.line(name, person)
    except NoSuchRunError:
        return False
    return True


def _check_model(experiment: Experiment) -> None:
    """Without an address the model is a preset's or a running server's; never a folder, a file or something to load."""
    model = experiment.model
    if model is None or experiment.base_url:
        if model is not None and (not model.isprintable() or len(model) > 300):
            raise ConfigError("model: expected a name of at most 300 characters on one line")
        return
    presets = content.names("launch/models", ".yaml")
    if model == REFERENCE or model in presets:
        return
    if model in {one.record.model for one in registry.believed_records()}:
        return
    raise ConfigError(f"{one_of('model', model[:300], presets)}; or give the address of a server that serves it")


def check_key(experiment: Experiment, settings: Settings) -> None:
    """Raise NotAllowedError where an experiment names a key that it may not use, or not at that address; ConfigError
    where the key is not set."""
    if experiment.key is None:
        return
    places = dict(settings.keys)
    if experiment.key not in places:
        raise NotAllowedError(
            f"key: {experiment.key} is no variable that this workbench may use; it may use "
            f"{', '.join(places) or 'none'}, and whoever starts it allows one by --key NAME"
        )
    if not os.environ.get(experiment.key):
        raise ConfigError(f"key: the environment variable {experiment.key} is not set where the workbench runs")
    if (bound := places[experiment.key]) and not _only_at(experiment, bound):
        raise NotAllowedError(f"key: {experiment.key} may only be sent to {bound}")


def check_stranger(experiment: Experiment, settings: Settings) -> None:
    """Raise NotAllowedError where an experiment that this workbench has not made, as its seal says, names a key, and an
    address that whoever runs the workbench has not bound it to: a stranger has chosen where it goes."""
    key = experiment.key
    if key is not None and experiment.base_url and not dict(settings.keys).get(key):
        raise NotAllowedError(
            f"key: this workbench has not made this experiment, which would send {key} to "
            f"{', '.join(experiment.base_url)}; start it anew as a new experiment if you want that"
        )


def _only_at(experiment: Experiment, place: str) -> bool:
    return bool(experiment.base_url) and {normalize_url(url) for url in experiment.base_url} == {normalize_url(place)}


def group_of(experiment: Experiment) -> str:
    """The group of an experiment: what it shares with others that must not run at the same time."""
    return " ".join(sorted(map(normalize_url, experiment.base_url))) or HERE


def environment(experiment: Experiment, settings: Settings) -> Mapping[str, str]:
    """The environment of the process that asks: that of the workbench, with no other key than the experiment may use.

    Which keys those are: the variable that it names; without one those that are bound to its very address, and for a
    server of this machine those that may be sent anywhere. A server that is started may need a token to load a model.
    """
    if experiment.key is not None:
        allowed = {experiment.key}
    elif experiment.base_url:
        allowed = {name for name, place in settings.keys if place and _only_at(experiment, place)}
    else:
        allowed = {name for name, place in settings.keys if not place}
        allowed |= {"TOMSERVE_API_KEY_FILE"} if "TOMSERVE_API_KEY" in allowed else set()
        allowed |= {"HF_TOKEN"} if experiment.start else set()
    values = set(all_keys())
    return {
        name: value
        for name, value in os.environ.items()
        if name in allowed
        or not (
            _SECRET.search(name)
            or name in dict(settings.keys)
            or name in ("TOMSERVE_API_KEY_FILE", "TOMSERVE_QUEUE", "TOMSERVE_PARENT_FD")
            or value.strip() in values
        )
    }
