"""What users see stays, byte for byte but for the seventh digit of numbers: commands' help, printed tables, files,
reports, the Python surface, request keys.

`RENEW_GOLDEN=1 pytest tests/test_pins.py` writes the digests anew; what has changed is read before it is committed.
"""

import gzip
import hashlib
import inspect
import os
import re
import shutil
from base64 import b64decode
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import typer

import tomserve
from tests.conftest import ROOT, Outcome
from tests.helpers.golden_tables import shorten_numbers
from tests.helpers.strategies import READERS, items, scripted, talk
from tomserve.cli.app import build_app
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.prompting.strategy import Strategy, list_strategies

FOLDER = ROOT / "tests/data/golden/pins"


def check(name: str, texts: Mapping[str, str | bytes]) -> None:
    """Hold the digests of texts against the file of that name."""
    digests = {
        key: hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:12]
        for key, text in texts.items()
    }
    path = FOLDER / f"{name}.txt"
    if os.environ.get("RENEW_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{digest} {key}\n" for key, digest in digests.items()))
    golden = {key: digest for digest, _, key in (line.partition(" ") for line in path.read_text().splitlines())}
    assert {
        key: (golden.get(key), digests.get(key)) for key in golden | digests if golden.get(key) != digests.get(key)
    } == {}


def test_the_help_of_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {}

    def add(command: typer.core.TyperGroup, path: str) -> None:
        with typer.Context(command, info_name=path, terminal_width=80, max_content_width=80) as context:
            texts[path] = command.get_help(context)
        for name, child in getattr(command, "commands", {}).items():
            add(child, f"{path} {name}")

    monkeypatch.setenv("COLUMNS", "80")
    add(typer.main.get_group(build_app()), "tomserve")
    check("help", texts)


def test_the_python_surface() -> None:
    texts = {}
    for name in tomserve.__all__:
        thing = getattr(tomserve, name)
        if hasattr(thing, "model_rebuild"):
            thing.model_rebuild()  # a model that nothing has used yet has no signature of its own
        members = {name: thing} | {
            f"{name}.{key}": value for key, value in vars(thing).items() if not key.startswith("_") and callable(value)
        } if inspect.isclass(thing) else {name: thing}  # fmt: skip
        for key, value in members.items():
            try:
                given = inspect.signature(value).parameters.values() if callable(value) else ()
            except ValueError:  # an error's own signature is that of every exception
                given = ()
            texts[key] = " ".join(f"{one.kind.name} {one.name} {one.default is one.empty}" for one in given)
    check("surface", texts)


def test_the_keys_of_all_requests() -> None:
    keys = {}
    for name in sorted({*list_strategies()} - {*READERS}):
        strategy = Strategy.load(name)
        for kind, item in items().items():
            try:
                turns, _ = talk(strategy, item, scripted)
            except (AssertionError, tomserve.TomserveError):
                continue  # a strategy of one published benchmark, or one whose replies are weights
            keys[f"{name} {kind}"] = " ".join(
                Request.build(
                    Identity(item.id, name, turn.number), turn, model="m", revision=None, sampling=Sampling()
                ).key
                for turn in turns
            )
    assert len(keys) > 60
    check("keys", keys)


COMMANDS = {
    "example": [
        ("analyze", "example"),
        ("analyze", "example", "--intervals", "published"),
        ("compare", "example", "--strategies", "vanilla,cot"),
        ("report", "example"),
    ],
    "functional": [
        ("analyze", "functional-example/inside", "functional-example/worlds", "--study", "functional"),
        ("report", "functional-example/inside", "functional-example/worlds", "--study", "functional"),
    ],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_tables_and_reports_of_the_examples(name: str, tmp_path: Path, cli: Callable[..., Outcome]) -> None:
    shutil.copytree(ROOT / "runs", tmp_path / "runs", ignore=shutil.ignore_patterns(".*"))
    texts: dict[str, str | bytes] = {}
    for number, command in enumerate(COMMANDS[name]):
        out = tmp_path / f"{number}.html" if command[0] == "report" else tmp_path / str(number)
        done = cli(*command, "--out", out, *(() if command[0] == "report" else ("--format", "json")))
        assert done.code == 0, done.err
        texts[" ".join(command)] = done.out.replace(str(tmp_path), "")
        for path in sorted(out.iterdir()) if out.is_dir() else [out]:
            text = path.read_text().replace(str(tmp_path), "").replace(tomserve.__version__, "V")
            text = re.sub('(?<= id="data">)[^<]+', lambda match: gzip.decompress(b64decode(match[0])).decode(), text)
            text = re.sub("sha256:[0-9a-f]{64}", "DIGEST", text)  # of the code that scored
            texts[f"{number} {path.name}"] = shorten_numbers(text)
    check(name, texts)
