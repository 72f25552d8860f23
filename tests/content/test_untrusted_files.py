"""Files of strangers: whatever they name, no command runs a program that was not named on its command line."""

import itertools
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.conftest import ROOT
from tests.helpers.examples import copied_run, shortened
from tests.helpers.outcomes import refuses_in_a_line
from tests.helpers.parted import divided_example
from tomserve.content.python_file import module_command
from tomserve.errors import ConfigError
from tomserve.web.routes import experiments

SPELLINGS = (
    "evil", "evil.py", "./evil.py", "more/evil.py", "{}/evil.py", "{}/evil/", "{}/evil.yaml", "link", "link.py",
)  # fmt: skip
SPELLINGS += ("./link.py", "{}/link/", "evil.py\0", "./evil.py\0x", "file://{}/evil.py")
"""How a stranger may spell a program's name: as a name, by its path, by a link, with what ends a text in C."""

BATCH = ("export batch --run mine --out new.jsonl", "import batch x.jsonl --run mine")
PARTS = ("work mine --here", "export batch --run mine.parts/0000 --out new.jsonl", "merge mine", "score mine.parts")
PARTS += ("analyze mine.parts", "runs mine.parts", "status mine", "cancel mine", "submit slurm mine --dry-run")
CONFIG = ("export batch --config experiment.yaml --out new.jsonl", "shard --config experiment.yaml --parts 2 --run new")
RUN = ("score mine", "analyze mine", "compare mine mine", "verify mine", "runs mine", "pack mine")
RUN += ("faithfulness mine --plan", "merge mine --into new", "seal mine", "export inspect mine --out new")
RUN += ("export every-eval-ever mine --out new", "export lm-eval mine --out new", "export hub mine --out new")
KINDS = (
    *(("batch.json", command, ("benchmark", "strategies")) for command in BATCH),
    *(("shards.json", command, ("benchmark", "strategy", "model", "preset")) for command in PARTS),
    *(("experiment.yaml", command, ("benchmark", "strategy", "model")) for command in CONFIG),
    *(("manifest.json", command, ("benchmark", "strategies", "content", "preset", "study")) for command in RUN),
)
"""Files that may come from a stranger, the commands that read them, and the fields that name something."""

REFUSE = (*BATCH, *PARTS[:2], *CONFIG)
"""The commands that look a name up among those that are installed, and so refuse whatever is none."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of few questions in whose folder one stands, with programs of all kinds in it that leave a mark."""
    folder = shortened(copied_run(tmp_path / "runs/mine"), 4)
    divided_example(tmp_path / "runs", 1)
    for place in (folder, folder / "more"):
        shutil.copytree(ROOT / "prompts/simtom", place / "evil")
        for name in ("evil.py", "evil/program.py", "evil/study.py"):
            (place / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (folder / "evil.yaml").write_text(
        (ROOT / "launch/models/reference.yaml").read_text().replace("name: reference", "name: evil")
    )
    for link, to in (("link", "evil"), ("link.py", "evil.py")):
        (folder / link).symlink_to(to)
    (folder / "x.jsonl").touch()
    monkeypatch.chdir(folder)
    return folder


def put(run: Path, file: str, field: str, name: str) -> None:
    """Write a file as a stranger might, who names something in that field."""
    several: Any = [name] if field in ("strategy", "strategies") else name
    path = run.with_name("mine.parts") / file if file == "shards.json" else run / file
    record: dict[str, Any] = {"schema": 1}
    if file in ("shards.json", "manifest.json"):
        record = orjson.loads((ROOT / "runs/example" / file if file == "manifest.json" else path).read_bytes())
    if file == "manifest.json":
        was: Any = record.get(field)
        record[field] = (
            {name: next(iter(was.values()))}
            if field == "strategies"
            else {"cot": name}
            if was and isinstance(was, dict)
            else name
        )
        record |= {"kind": "measured"} if field == "study" else {}
    elif file == "batch.json":
        record["exports"] = [{"benchmark": "ullman", "model": {"name": "reference"}, field: several}]
    elif file == "shards.json" and field != "preset":
        record["experiment"] = {field: several}
    elif file == "experiment.yaml":
        record |= {"benchmark": "ullman", "model": "reference", field: several}
    else:
        record[field] = several
    path.write_text(yaml.safe_dump(record) if file.endswith("yaml") else orjson.dumps(record).decode())


@pytest.mark.parametrize(("file", "command", "fields"), KINDS)
def test_nothing_that_a_file_names_is_run(cli, run: Path, file: str, command: str, fields: tuple[str, ...]) -> None:
    whole = command in (BATCH[1], PARTS[0], CONFIG[1])  # one command of each file is told every spelling in every field
    pairs = itertools.product(fields, SPELLINGS) if whole else zip(fields, SPELLINGS[1:], strict=False)
    for field, name in ((field, spelled.format(run)) for field, spelled in pairs):
        if field in ("model", "preset") and not name.endswith((".py", ".yaml")):
            continue  # a preset or weights of that name, which are data
        put(run, file, field, name)
        done = cli(*command.split())
        assert not (run.parents[1] / "ran").exists(), (field, name)
        assert "Traceback" not in done.err, (field, name)
        assert done.code in (0, 1, 2), (field, name)
        if command in REFUSE and ("/" in name or name.endswith((".py", ".yaml"))):
            assert (done.code, done.err.count("\n")) == (2, 1), done.err
            assert "expected a name; found the path" in done.err


def test_the_run_that_parts_become_is_a_name(cli: Any, run: Path) -> None:
    put(run, "shards.json", "preset", "reference")
    path = run.with_name("mine.parts") / "shards.json"
    record = orjson.loads(path.read_bytes())
    for name in (
        "..",
        ".",
        "",
        "/",
        "../up",
        "a/../..",
        ".web",
        "x$(id)",
        "a b;id",
        "`id`",
        "--into",
        "a\\b",
        "x" * 201,
        "pilot/manifest.json",  # which would hide the other runs of the folder, as this one's name would make it a run
        "Workbench.json",
        "shards.json/x",
    ):
        path.write_bytes(orjson.dumps(record | {"run": name}))
        done = cli("merge", "mine")
        assert (done.code, "shards.json: run: expected the name of a run" in done.err) == (2, True), name


DEEP = b"[" * 1000 + b"]" * 1000
VALUES: dict[tuple[str, bytes, bytes], tuple[str, str]] = {
    ("items.jsonl", b'"benchmark":"perturbed', b'"benchmark":%b,"x":"' % DEEP): ("score mine", "nested too deeply"),
    ("items.jsonl", b'"story":[', b'"story":[%b,' % DEEP): ("score mine", "nested too deeply"),
    ("items.jsonl", b'"id":', b'"%b":1,"id":' % (b"x" * 1_000_000)): ("analyze mine", "unknown key"),
    ("responses.jsonl", b'"text":"', b'"text":"{\\"answer\\":%b}","x":"' % DEEP): ("score mine", ""),
    ("responses.jsonl", b'"time":"', b'"time":[],"x":"'): ("merge mine --into new", ""),
    ("manifest.json", b"{", b'{"to_dict":1,"measured":2,"__dict__":{},'): ("merge mine --into new", ""),
    ("noise.jsonl", b":64,", b":18446744073709551615,"): ("analyze mine --study accuracy", ""),
}
"""What a stranger writes in the place of something, and the command that reads it."""


@pytest.mark.parametrize("what", VALUES, ids=lambda what: f"{what[0]} {what[1].decode()}")
def test_values_of_no_sense_end_no_command(cli: Any, run: Path, what: tuple[str, bytes, bytes]) -> None:
    (file, was, now), (command, said) = what, VALUES[what]
    shutil.rmtree(run.with_name("mine.parts"))  # which `merge mine` would mean
    rows = (run / "responses.jsonl").read_bytes().splitlines(keepends=True)
    (run / "noise.jsonl").write_bytes(b"".join(b'{"concurrency":64,' + row[1:] for row in rows))
    found = (run / file).read_bytes()
    assert was in found
    (run / file).write_bytes(found.replace(was, now, 1))
    done = cli(*command.split())
    assert "Traceback" not in done.err
    assert (done.code == 2, len(done.err) < 2000) == (bool(said), True), done.err
    assert said in done.err


def test_what_is_started_looks_for_no_module_in_the_folder_where_one_stands(tmp_path: Path) -> None:
    for name in ("yaml", "orjson", "tomserve"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    done = subprocess.run(module_command("tomserve", "--version"), cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stderr, (tmp_path / "ran").exists()) == (0, b"", False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &a [x]\nb: &b [*a, *a]\n", ":2: *a is an alias"),
        *((f"a: !!{tag}\n", "a value is none of its tag") for tag in ("bool x", "int ''", "timestamp x")),
        ("a: " + "1:" * 600 + "1.5\n", "broken YAML: int too large"),
        ("limit: 0x" + "F" * 5000, ":1: limit: is 0xFF"),
        ("? 0x" + "F" * 5000 + "\n: x\n", "a whole number of more than 64 bits"),
        ("where: " + "[" * 32_000, ":1: holds values within more than 100 others"),
        ("model: " + "x" * 70_000, "has more than 65,536 "),
        (os.mkfifo, "is a named pipe"),
        (lambda path: path.symlink_to("/etc/hostname"), "is a symbolic link"),
    ],
)  # fmt: skip
def test_yaml_is_read_within_bounds(cli: Any, run: Path, text: str | Callable[[Path], None], said: str) -> None:
    path = run / "experiment.yaml"
    path.write_text(text) if isinstance(text, str) else text(path)
    refuses_in_a_line(cli("eval", "--config", path), said)
    if isinstance(text, str):
        with pytest.raises(ConfigError, match=r"experiment\.yaml|characters"):
            experiments.form_of_text(text)
