"""The form of an experiment: its fields as the browser sends them, the experiment they make, and what is wrong where.

The sentences beside the fields are those of the command line, since the same functions check both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pydantic

from tomserve.content import temporary
from tomserve.content.validation import explain
from tomserve.errors import ConfigError
from tomserve.runs.manifest import Manifest
from tomserve.scoring.table import MEASURED
from tomserve.web import sealing
from tomserve.web.register import Line
from tomserve.workflows import evaluate
from tomserve.workflows.evaluate import Experiment

SOURCES = ("endpoint", "server", "preset")
"""Where the model is: at an address, on a server of this machine, or served by a preset of ours."""

LISTS = ("base_url", "where")
"""Fields with one value a line."""

BOXES = ("strategy", "variants")
"""Fields of which any number of boxes may be checked."""

SWITCHES = ("start", "accept_change", "faithfulness")
ONES = (
    *("model", "key", "benchmark", "path", "gold", "run", "limit", "revision", "max_tokens", "thinking", "temperature"),
    *("seed", "repeats", "timeout", "concurrency", "transport", "hedge", "noise_check", "patience"),
)
"""Fields with one value."""

LONGEST = 1 << 16
"""Characters of a file that somebody pastes or uploads."""

_ABOUT = (
    ("base URL", "base_url"),
    ("--base-url", "base_url"),
    ("benchmark", "benchmark"),
    ("--path", "path"),
    ("path", "path"),
    ("set of right", "gold"),
    ("--gold", "gold"),
    ("--where", "where"),
    ("where", "where"),
    ("factor", "where"),
    ("condition", "where"),
    ("strateg", "strategy"),
    ("--variants", "variants"),
    ("kind", "variants"),
    ("--repeats", "repeats"),
    ("repeats", "repeats"),
    ("temperature", "temperature"),
    ("seed", "seed"),
    ("--thinking", "thinking"),
    ("--noise-check", "noise_check"),
    ("noise check", "noise_check"),
    ("run", "run"),
    ("key", "key"),
    ("transport", "transport"),
    ("limit", "limit"),
    ("model", "model"),
    ("preset", "model"),
)
"""How the sentences begin, or what stands in their first words, that are about a field."""


@dataclass
class Form:
    """A form as somebody has filled it in.

    values: the texts of each field, as they were sent. experiment: what they make, None where that is not possible.
    errors: what is wrong, by field; "" for what is about no single field. private: whether nobody else may see the run.
    """

    values: dict[str, list[str]] = field(default_factory=dict)
    experiment: Experiment | None = None
    errors: dict[str, str] = field(default_factory=dict)
    private: bool = False

    def one(self, name: str) -> str:
        """The text of a field with one value."""
        return next(iter(self.values.get(name, ())), "")

    def all(self, name: str) -> list[str]:
        """The texts of a field with several."""
        return self.values.get(name, [])

    def wrong(self, sentence: str) -> None:
        """Note what is wrong, at the field that the sentence is about."""
        name = about(sentence)
        if name == "model" and self.one("source") == "preset":
            name = "preset"
        self.errors.setdefault(name, sentence)

    @property
    def source(self) -> str:
        """Which of SOURCES is chosen."""
        given = self.one("source")
        return given if given in SOURCES else "endpoint"


def read(sent: Mapping[str, Sequence[str]]) -> Form:
    """The form that a browser has sent: by the name of each field its values."""
    known = {"source", "server", "preset", "private", *LISTS, *BOXES, *SWITCHES, *ONES}
    values = {name: [text[:LONGEST] for text in texts] for name, texts in sent.items() if name in known}
    form = Form(values, private=bool(values.get("private")))
    data: dict[str, Any] = {}
    for name in ONES:
        if text := form.one(name).strip():
            data[name] = text
    for name in LISTS:
        if lines := [line.strip() for text in form.all(name) for line in text.splitlines() if line.strip()]:
            data[name] = lines
    for name in BOXES:
        if chosen := [text for text in form.all(name) if text]:
            data[name] = chosen
    data |= {name: True for name in SWITCHES if form.all(name)}
    _place(form, data)
    if not data.get("benchmark"):
        form.errors["benchmark"] = "choose a benchmark"
    try:
        form.experiment = Experiment.model_validate({_alias(name): value for name, value in data.items()})
    except pydantic.ValidationError as error:
        _note(form, error, {_alias(name): value for name, value in data.items()})
    return form


def _place(form: Form, data: dict[str, Any]) -> None:
    """Put into the data where the model is, as the form says it."""
    if form.source == "endpoint":
        data.pop("start", None)
        if not data.get("base_url"):
            form.errors["base_url"] = "give the address of a server, such as http://host:8000/v1"
    elif form.source == "server":
        data.pop("start", None)
        address, _, model = form.one("server").partition(" ")
        data |= {"base_url": [address] if address else [], "model": model or None}
        if not address:
            form.errors["server"] = "choose a server; where none is listed, start one or choose a preset"
    else:
        data.pop("base_url", None)
        data["model"] = form.one("preset") or None
        if not data["model"]:
            form.errors["preset"] = "choose a preset"


def _note(form: Form, error: pydantic.ValidationError, data: Mapping[str, Any]) -> None:
    for one in error.errors(include_url=False):
        place = str(one["loc"][0]) if one["loc"] else ""
        form.errors.setdefault(place.replace("-", "_"), explain(one, data, Experiment))


def _alias(name: str) -> str:
    return name.replace("_", "-")


def about(sentence: str) -> str:
    """The field that a sentence is about, by how it begins; "" where it does not say."""
    beginning = sentence[:60].lower()
    found = [(beginning.find(word.lower()), -len(word), name) for word, name in _ABOUT if word.lower() in beginning]
    return min(found)[2] if found else ""


def of(experiment: Experiment, *, private: bool = False) -> Form:
    """The form that makes this experiment."""
    values: dict[str, list[str]] = {}
    told = experiment.model_dump(mode="json", exclude_defaults=True)
    for name, value in told.items():
        if name in LISTS:
            values[name] = ["\n".join(value)]
        elif name in BOXES:
            values[name] = [str(one) for one in value]
        elif name in SWITCHES:
            values[name] = ["yes"]
        elif name in ONES:
            values[name] = [f"{value:g}" if isinstance(value, float) else str(value)]
    if experiment.base_url:
        values["source"] = ["endpoint"]
    else:
        values |= {"source": ["preset"], "preset": values.pop("model", [])}
    return Form(values, experiment, private=private)


def pasted(text: str) -> Form:
    """The form that the text of a file makes. Raises ConfigError by line and field for one that is no experiment."""
    if len(text) > LONGEST:
        raise ConfigError(f"the file has more than {LONGEST:,} characters; expected an experiment")
    with temporary.folder() as folder:
        path = Path(folder) / evaluate.EXPERIMENT_FILE
        path.write_text(text, "utf-8")
        try:
            return of(evaluate.read_experiment(path))
        except ConfigError as error:
            raise ConfigError(str(error).replace(str(path), evaluate.EXPERIMENT_FILE)) from None


def like(line: Line) -> Form:
    """The form for the same experiment as an earlier run, under another name. Raises ConfigError where the run does not
    say what it asked. Which key a stranger's experiment names is left out."""
    if (path := line.folder / evaluate.EXPERIMENT_FILE).exists():
        own = line.card.job is not None and sealing.sealed(line.name, path, line.card.job.seal)
        return of(
            evaluate.read_experiment(path).model_copy(update={"run": None} if own else {"run": None, "key": None})
        )
    manifest = Manifest.read(line.folder)
    if manifest is None:
        raise ConfigError(f"{line.name} does not say what it asked; fill in the form")
    record = manifest.to_dict()
    if record.get("kind") == MEASURED:
        raise ConfigError(f"{line.name} is a measurement, which the command line starts; see its page for how")
    sampling = record.get("sampling") or {}
    sessions = [one for one in record.get("sessions") or () if isinstance(one, dict)]
    variants, noise = record.get("variants") or {}, record.get("noise") or {}
    local = record.get("preset") and all("127.0.0.1" in url for url in record.get("endpoints") or ())
    fields = {
        "model": record.get("preset") if local else record.get("model"),
        "base-url": [] if local else record.get("endpoints") or [],
        "benchmark": record.get("benchmark"),
        "path": record.get("benchmark_path"),
        "gold": record.get("benchmark_gold"),
        "where": next((one["where"] for one in sessions if one.get("where")), []),
        "strategy": list(record.get("strategies") or ()),
        "limit": record.get("limit"),
        "temperature": sampling.get("temperature", 0.0),
        "seed": sampling.get("seed", 0),
        "repeats": sampling.get("repeats") or 1,
        "variants": variants.get("kinds") or [],
        "noise-check": noise.get("share"),
    }
    try:
        return of(Experiment.model_validate({name: value for name, value in fields.items() if value is not None}))
    except pydantic.ValidationError:
        raise ConfigError(f"{line.name} does not say in a form known here what it asked; fill in the form") from None
