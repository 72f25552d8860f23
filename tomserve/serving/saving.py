"""Writes a derived preset down: as a table for people, and as a file in launch/models/ that is a preset like any other.

>>> print(yaml_of(derived))                                                        # doctest: +SKIP
schema: 1
name: my-model  # the last part of the model's name
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tomserve import content
from tomserve.content import files
from tomserve.errors import ConfigError
from tomserve.serving.deriving import Derived
from tomserve.serving.parameters import in_words

FOLDER = "launch/models"


def show(derived: Derived, console: Console) -> None:
    """Print every field of a derived preset, its value and where that comes from, and what could not be derived.

    Its note and warning are left out, as `catalogue.explain` prints them for every preset.
    """
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("field", "value", "where from"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "field")
    shown = {name: value for name, value in _fields(derived).items() if name not in ("note", "warning")}
    for name, value in _parts(shown):
        source = derived.sources.get(name.split(".")[0], "")
        table.add_row(name, Text(_flat(value)), Text(source))
    console.print(table)
    counted = in_words(derived.parameters) if derived.parameters else "not known for this architecture"
    for line in (f"Parameters of the language model, counted from config.json: {counted}.", *derived.remarks):
        console.print(line, markup=False, highlight=False, soft_wrap=not console.is_terminal)


def yaml_of(derived: Derived) -> str:
    """The preset as YAML that `Preset.load` reads, each field with a comment that says where it comes from."""
    lines = ["schema: 1"]
    for name, value in _fields(derived).items():
        dumped = yaml.safe_dump({name: value}, sort_keys=False, allow_unicode=True, width=10**6).rstrip("\n")
        source = f"# {derived.sources.get(name, 'tomserve')}"
        first, *rest = dumped.split("\n")
        if rest and not first.endswith(":"):  # a text of several lines, into which no comment may be written
            lines += [source, first, *rest]
        else:
            lines += [f"{first}  {source}", *rest]
    return "\n".join(lines) + "\n"


def save(derived: Derived, *, force: bool = False) -> Path:
    """Write the preset into the folder launch/models/ of the user's content, and return the path of the file.

    force: replace a preset that has the name, or serves the model, already; otherwise that raises ConfigError, as does
    a folder that cannot be written.
    """
    preset = derived.preset
    roots = content.roots()
    if not roots or roots[0] == content.PACKAGE / "_content":
        raise ConfigError(
            "--save: name the folder of your own presets by --content DIR (or TOMSERVE_CONTENT); those that were "
            "installed with tomserve are not changed"
        )
    path = roots[0] / FOLDER / f"{preset.name}.yaml"
    old = content.names(FOLDER, ".yaml").get(preset.name, path)
    if old.exists() and not force:
        raise ConfigError(f"--save: {old} already is the preset of that name; add --force to replace it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.replace_file(path) as file:
            file.write(yaml_of(derived).encode())
    except OSError as error:
        raise ConfigError(f"--save: {path}: cannot be written ({error.strerror})") from None
    return path


def _fields(derived: Derived) -> dict[str, Any]:
    """The fields of the preset that were set, as plain values."""
    return derived.preset.model_dump(mode="json", exclude_unset=True, exclude={"schema_"})


def _parts(fields: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Fields and their values, one by one; those of `reasoning` and `chat_template` each on a line of its own."""
    for name, value in fields.items():
        if name in ("reasoning", "chat_template"):
            yield from ((f"{name}.{inner}", one) for inner, one in value.items())
        else:
            yield name, value


def _flat(value: Any) -> str:
    """A value on one line, as YAML writes it."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...")
