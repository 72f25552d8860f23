"""--content stands anywhere on the line, and every command's help names it."""

import shutil
from pathlib import Path

import pytest
import typer

from tests.conftest import ROOT, Endpoint
from tests.helpers.outcomes import passes
from tomserve.cli.app import build_app


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "prompts/vanilla_1", tmp_path / "own/prompts/terse")
    return tmp_path / "own"


@pytest.mark.parametrize("place", [0, 3])
def test_it_stands_anywhere(place: int, folder: Path, endpoint: Endpoint, cli) -> None:  # type: ignore[no-untyped-def]
    line = ["eval", "--base-url", endpoint.url, "--limit", 2, "--strategy", "terse", "--run", "r"]
    assert "unknown strategy 'terse'" in cli(*line).err
    done = passes(cli(*line[:place], "--content", folder, *line[place:], *(["--no-report"] if place == 0 else [])))
    assert done.err.count("\n") == 1  # the warning that two questions are not all
    assert "covers 2 of" in done.err


@pytest.mark.parametrize("line", [["dataset", "--content", "no", "validate"], ["dataset", "validate", "--content=no"]])
def test_commands_of_groups_take_it(line: list[str], cli) -> None:  # type: ignore[no-untyped-def]
    assert "content folder 'no' (--content or TOMSERVE_CONTENT) is not a folder" in cli(*line).err


def test_the_last_one_counts(folder: Path, cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    assert cli("--content", tmp_path / "no", "items", "perturbed", "--content", folder).code == 0


def commands(command: object, name: str = "tomserve") -> dict[str, object]:
    found = {name: command}
    for one in command.list_commands(None) if hasattr(command, "list_commands") else ():
        found |= commands(command.get_command(None, one), f"{name} {one}")  # type: ignore[attr-defined]
    return found


def test_every_help_names_it() -> None:
    every = commands(typer.main.get_command(build_app()))
    assert len(every) > 14
    for name, command in every.items():
        options = {option for parameter in command.params for option in parameter.opts}  # type: ignore[attr-defined]
        assert "--content" in options, name
        described = [parameter for parameter in command.params if "--content" in parameter.opts]  # type: ignore[attr-defined]
        assert "of your own" in described[0].help
