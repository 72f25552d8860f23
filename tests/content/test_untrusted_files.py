"""Files of strangers: whatever they name, no command runs a program that was not named on its command line."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.conftest import ROOT
from tests.helpers.parted import divided_example, whole_example
from tomserve.errors import ConfigError
from tomserve.web.routes import experiments

SPELLINGS = ("evil", "evil.py", "./evil.py", "more/evil.py", "{}/evil.py", "{}/evil/", "{}/evil.yaml")
BATCH = ("export batch --run mine --out new.jsonl", "import batch x.jsonl --run mine")
PARTS = ("work mine --here", "export batch --run mine.parts/0000 --out new.jsonl")
CONFIG = ("export batch --config experiment.yaml --out new.jsonl",)
KINDS = [
    *(("batch.json", field, BATCH) for field in ("benchmark", "strategies")),
    *(("shards.json", field, PARTS) for field in ("benchmark", "strategy", "model", "preset")),
    *(("experiment.yaml", field, CONFIG) for field in ("benchmark", "strategy", "model")),
]
"""Files, the fields in them that name something, and the commands that read these."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run in whose folder one stands, with programs of all kinds in it that leave a mark where they run."""
    folder = whole_example(tmp_path / "runs")
    divided_example(tmp_path / "runs", 1)
    for place in (folder, folder / "more"):
        shutil.copytree(ROOT / "prompts/simtom", place / "evil")
        for name in ("evil.py", "evil/program.py", "evil/study.py"):
            (place / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (folder / "evil.yaml").write_text(
        (ROOT / "launch/models/reference.yaml").read_text().replace("name: reference", "name: evil")
    )
    (folder / "x.jsonl").touch()
    monkeypatch.chdir(folder)
    return folder


def put(run: Path, file: str, field: str, name: str) -> None:
    """Write a file as a stranger might, who names something in that field."""
    several = [name] if field in ("strategy", "strategies") else name
    path = run.with_name("mine.parts") / file if file == "shards.json" else run / file
    record: dict[str, Any] = orjson.loads(path.read_bytes()) if file == "shards.json" else {"schema": 1}
    if file == "batch.json":
        record["exports"] = [{"benchmark": "ullman", "model": {"name": "reference"}, field: several}]
    elif file == "shards.json" and field != "preset":
        record["experiment"] = {field: several}
    elif file == "experiment.yaml":
        record |= {"benchmark": "ullman", "model": "reference", field: several}
    else:
        record[field] = several
    path.write_text(yaml.safe_dump(record) if file.endswith("yaml") else orjson.dumps(record).decode())


@pytest.mark.parametrize(("file", "field", "commands"), KINDS)
def test_nothing_that_a_file_names_is_run(
    cli: Any, run: Path, file: str, field: str, commands: tuple[str, ...]
) -> None:
    for name in (spelled.format(run) for spelled in (SPELLINGS if file == "batch.json" else SPELLINGS[1:6:4])):
        if field in ("model", "preset") and not name.endswith((".py", ".yaml")):
            continue  # a preset or weights of that name, which are data
        put(run, file, field, name)
        for command in commands:
            done = cli(*command.split())
            assert not (run.parents[1] / "ran").exists()
            assert "Traceback" not in done.err
            if name != "evil":  # a name is looked up among those that are installed
                assert (done.code, done.err.count("\n")) == (2, 1), done.err
                assert f"expected a name; found the path {name!r}" in done.err


def test_the_run_that_parts_become_is_a_name(cli: Any, run: Path) -> None:
    put(run, "shards.json", "preset", "reference")
    path = run.with_name("mine.parts") / "shards.json"
    record = orjson.loads(path.read_bytes())
    for name in ("..", ".", "", "/", "../up", "a/../..", ".web"):
        path.write_bytes(orjson.dumps(record | {"run": name}))
        done = cli("merge", "mine")
        assert (done.code, "shards.json: run: expected the name of a run" in done.err) == (2, True), name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &a [x]\nb: &b [*a, *a]\n", ":2: *a is an alias"),
        ("where: " + "[" * 32_000, ":1: holds values within more than 100 others"),
        ("model: " + "x" * 70_000, "has more than 65,536 "),
        (os.mkfifo, "is a named pipe"),
        (lambda path: path.symlink_to("/etc/hostname"), "is a symbolic link"),
    ],
)  # fmt: skip
def test_yaml_is_read_within_bounds(cli: Any, run: Path, text: str | Callable[[Path], None], said: str) -> None:
    path = run / "experiment.yaml"
    path.write_text(text) if isinstance(text, str) else text(path)
    done = cli("eval", "--config", path)
    assert (done.code, said in done.err, done.err.count("\n")) == (2, True, 1), done.err
    if isinstance(text, str):
        with pytest.raises(ConfigError, match=r"experiment\.yaml|characters"):
            experiments.form_of_text(text)
